/* Every invariant of the asked graph as code, for debug builds and tests. */
#include "graph.h"

#include <stdio.h>

static bool inputs_ok(const tp_graph *graph, const tp_tensor *node)
{
    for (int i = 0; i < node->in_count; i++) {
        const tp_tensor *in = node->in[i];
        if (!in || in->graph != graph || in->id < 0 || in->id >= node->id) return false;
    }
    return true;
}

/* A view's addresses lie inside the elements of its base. */
static bool view_ok(const tp_tensor *node)
{
    const tp_tensor *base = node->base;
    int64_t low, high, numel = tp_view_numel(node->view);
    if (numel < 0) return false;
    if (base == node && base->op != TP_OP_DATA) return tp_view_is_row_major(node->view);
    if (numel == 0) return true;
    int64_t size = (int64_t)tp_dtype_size((tp_dtype)node->dtype),
            bytes = tp_view_numel(base->view) * (int64_t)tp_dtype_size((tp_dtype)base->dtype);
    if (base->op == TP_OP_DATA) bytes = tp_leaf_bytes(base);
    return tp_view_reach(node->view, &low, &high) && low >= 0 && high < bytes / size;
}

const char *tp_graph_verify(const tp_graph *graph, char *text, size_t size)
{
    for (int64_t id = 0; id < graph->node_count; id++) {
        const tp_tensor *node = graph->node[id];
        const char *what = NULL;
        if (node->id != id || node->graph != graph)
            what = "its id or graph is not where it lies";
        else if (!inputs_ok(graph, node))
            what = "an input is missing, foreign or later";
        else if (node->base->base != node->base)
            what = "its base is a view";
        else if (!view_ok(node))
            what = "its view leaves its base";
        else if (node->state != TP_ASKED && node->state != TP_GONE && !node->storage)
            what = "it is evaluated without a storage";
        if (!what) continue;
        snprintf(text, size, "%%%lld (%s): %s", (long long)id, tp_op_name(node), what);
        return text;
    }
    return NULL;
}
