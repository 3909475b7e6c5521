/* Chooses and numbers the nodes of a dump. In: a graph and outputs. Out: by id, whether a node
 * is shown as an op, as data or not, and its dense number. What always holds: the inputs of a
 * node shown as an op are shown and have smaller numbers. */
#include "dump.h"

/* A walk downwards marks what is needed before it decides what that is. */
enum { NEEDED = 1, AS_VIEW = 2 };

static bool outputs_ok(tp_graph *graph, const char *what, int count, tp_tensor *const *outputs)
{
    if (count < 0 || (count && !outputs)) {
        tp_graph_fail(graph, TP_E_ARGUMENT, what, -1, "outputs is NULL or their count negative");
        return false;
    }
    for (int i = 0; i < count; i++) {
        if (outputs[i] && outputs[i]->graph == graph) continue;
        tp_graph_fail(graph, TP_E_ARGUMENT, what, -1,
                      outputs[i] ? "output %d belongs to another graph" : "output %d is NULL", i);
        return false;
    }
    return true;
}

/* Turns the marks of one needed node into what is shown, and marks its inputs. */
static void show(tp_dump *dump, const tp_tensor *x)
{
    uint8_t *mark = dump->shown;
    bool view = tp_tensor_is_view(x), as_view = view && mark[x->id] & AS_VIEW;
    if ((x->state == TP_EVALUATED || x->state == TP_GONE) && !as_view) {
        mark[x->id] = TP_SHOWN_DATA;
        return;
    }
    mark[x->id] = TP_SHOWN_OP;
    as_view = as_view || x->op == TP_OP_AS_STRIDED;
    for (int i = 0; i < x->in_count; i++)
        mark[x->in[i]->id] |= (uint8_t)(as_view ? NEEDED | AS_VIEW : NEEDED);
}

bool tp_dump_begin(tp_dump *dump, const char *what, tp_graph *graph, int count,
                   tp_tensor *const *outputs)
{
    *dump = (tp_dump){.graph = graph};
    if (!graph || !outputs_ok(graph, what, count, outputs)) return false;
    size_t nodes = (size_t)graph->node_count;
    dump->number = tp_context_alloc_zero(graph->context, nodes * (sizeof(int64_t) + 1));
    if (!dump->number) {
        tp_graph_fail_nomem(graph, what);
        return false;
    }
    dump->shown = (uint8_t *)(dump->number + nodes);
    for (int i = 0; i < count; i++) dump->shown[outputs[i]->id] = NEEDED;
    /* Inputs have smaller ids: one walk downwards reaches everything. */
    for (int64_t id = graph->node_count - 1; id >= 0; id--) {
        if (dump->shown[id]) show(dump, graph->node[id]);
    }
    for (int64_t id = 0; id < graph->node_count; id++) {
        if (dump->shown[id]) dump->number[id] = dump->count++;
    }
    for (int i = 0; i < count; i++) dump->shown[outputs[i]->id] |= TP_SHOWN_OUTPUT;
    return true;
}

void tp_dump_end(tp_dump *dump)
{
    size_t nodes = (size_t)dump->graph->node_count;
    tp_context_free(dump->graph->context, dump->number, nodes * (sizeof(int64_t) + 1));
}
