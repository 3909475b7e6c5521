/* Every invariant of the working graph as code; run after each pass in debug builds. */
#include "pass.h"

#include <stdio.h>

/* Elements of the edge's dtype in its producer's buffer. */
static int64_t elements(const tp_work *work, const tp_edge *edge)
{
    const tp_wnode *node = &work->node[edge->node];
    while (node->alias) node = &work->node[node->in[0].node];
    int64_t bytes = tp_work_bytes(node);
    if (node->op == TP_OP_DATA) bytes = (int64_t)node->asked->storage->size_bytes;
    return bytes / (int64_t)tp_dtype_size((tp_dtype)edge->dtype);
}

static const char *edge_fault(const tp_work *work, const tp_edge *edge, int reader)
{
    int64_t low, high;
    if (edge->node < 0 || edge->node >= reader || edge->reader != reader)
        return "an operand is not earlier";
    if (work->node[edge->node].dead) return "an operand is dead";
    if (tp_view_numel(edge->view) == 0) return NULL;
    if (!tp_view_reach(edge->view, &low, &high) || low < 0 || high >= elements(work, edge))
        return "an operand's view leaves its buffer";
    return NULL;
}

static const char *node_fault(const tp_work *work, int n)
{
    const tp_wnode *node = &work->node[n];
    for (int i = 0; i < node->in_count; i++) {
        const char *fault = edge_fault(work, &node->in[i], n);
        if (fault) return fault;
    }
    if (node->into) {
        const tp_edge *target = &node->in[node->in_count - 1];
        const tp_wnode *before = &work->node[target->node];
        for (const tp_edge *e = tp_work_user(work, target->node, before->users); e;
             e = tp_work_user(work, target->node, e->next)) {
            bool other_part = before->whole && before->whole == node->whole;
            if (e != target && !other_part && e->reader > n)
                return "the buffer that it writes into has other readers";
        }
        if (work->node[target->node].output || !tp_work_reads_whole(work, target) ||
            tp_work_elements(&work->node[target->node]) != node->elements)
            return "the buffer that it writes into is another's";
    }
    int64_t low, high;
    if (node->alias || node->op == TP_OP_DATA || tp_view_numel(node->store) == 0) return NULL;
    bool reached = tp_view_reach(node->store, &low, &high);
    if (node->elements) {
        if (!tp_view_is_injective(node->store)) return "its store is no bijection";
        return reached && low >= 0 && high < node->elements ? NULL : "its store leaves its buffer";
    }
    if (!tp_view_is_dense(node->store)) return "its store is no bijection";
    return reached && low == 0 ? NULL : "its store does not start at 0";
}

const char *tp_work_verify(const tp_work *work, char *text, size_t size)
{
    for (int n = 0; n < work->node_count; n++) {
        if (work->node[n].dead) continue;
        const char *fault = node_fault(work, n);
        if (!fault) continue;
        char name[80];
        tp_work_label(work->node[n].asked, name, sizeof name);
        snprintf(text, size, "node %d (%s): %s", n, name, fault);
        return text;
    }
    for (int d = 0; d < work->delivery_count; d++) {
        if (work->node[tp_work_delivered(work, d)].output) continue;
        snprintf(text, size, "delivery %d is of a node that is no output", d);
        return text;
    }
    return NULL;
}
