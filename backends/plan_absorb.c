/* Which step of a plan does without a copy. In: the plan and the nodes it was made from. Out:
 * for every removed row of the ledger the step to show it at. The ledger's note says it in
 * words; here it is found along the user's nodes: forward from the copy to the first kernel
 * that its value reaches, or back to the kernel that stored it. */
#include "plan_print.h"

#include <string.h>

enum { NO_STEP = -1, LEAF = -2 };

typedef struct finder {
    const tp_plan *plan;
    int *step;  /* by node: whose result it is, NO_STEP or LEAF */
    int *stamp; /* by node: 1 + the last row whose value reaches it */
} finder;

static int reader(finder *f, int row)
{
    const tp_graph *graph = f->plan->graph;
    const tp_tensor *copy = f->plan->copy[row].tensor;
    f->stamp[copy->id] = row + 1;
    for (int64_t id = copy->id + 1; id < graph->node_count; id++) {
        const tp_tensor *x = graph->node[id];
        bool reached = false;
        for (int i = 0; i < x->in_count; i++)
            reached = reached || f->stamp[x->in[i]->id] == row + 1;
        if (!reached || f->step[id] == LEAF) continue;
        if (f->step[id] >= 0) return f->step[id];
        f->stamp[id] = row + 1; /* a view, or fused into a later node */
    }
    return NO_STEP;
}

static int producer(const finder *f, const tp_tensor *x)
{
    while (x->in_count == 1 && (tp_tensor_is_view(x) || x->op == TP_OP_CONTIGUOUS)) {
        x = x->in[0];
        if (f->step[x->id] != NO_STEP) return f->step[x->id] == LEAF ? NO_STEP : f->step[x->id];
    }
    return NO_STEP;
}

static int absorber_of(finder *f, int row)
{
    const tp_copy *copy = &f->plan->copy[row];
    if (f->step[copy->tensor->id] >= 0) return f->step[copy->tensor->id];
    int from = producer(f, copy->tensor);
    bool stored = copy->reason == TP_REASON_SUNK_LDC ||
                  (copy->reason == TP_REASON_FUSED && from >= 0 &&
                   !tp_view_is_row_major(&f->plan->step[from].out.view));
    if (stored && from >= 0) return from;
    int to = reader(f, row);
    return to >= 0 ? to : from;
}

bool tp_plan_find_absorbers(const tp_plan *plan, int *absorber)
{
    size_t nodes = (size_t)plan->graph->node_count, bytes = nodes * 2 * sizeof(int);
    finder f = {.plan = plan, .step = tp_context_alloc(plan->arena.context, bytes)};
    if (!f.step) {
        tp_graph_fail_nomem(plan->graph, "dot");
        return false;
    }
    f.stamp = f.step + nodes;
    memset(f.stamp, 0, nodes * sizeof(int));
    for (size_t id = 0; id < nodes; id++) f.step[id] = NO_STEP;
    for (int i = 0; i < plan->buffer_count; i++) {
        if (plan->buffer[i].kind == TP_BUFFER_LEAF) f.step[plan->buffer[i].tensor->id] = LEAF;
    }
    for (int i = 0; i < plan->step_count; i++) f.step[plan->step[i].asked->id] = i;
    for (int i = 0; i < plan->copy_count; i++)
        absorber[i] = plan->copy[i].kept ? NO_STEP : absorber_of(&f, i);
    tp_context_free(plan->arena.context, f.step, bytes);
    return true;
}
