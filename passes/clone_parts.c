/* clone: tensors whose buffers are filled in parts, one working node after the other: concat, pad,
 * update, scatter_add. */
#include "clone.h"

/* A node that stores into `part` of a buffer of x's size: one that reads values (op CONTIGUOUS),
 * makes them (FULL) or adds them. target: the node that has filled it so far, -1: none has. */
static tp_wnode *new_part(tp_cloner *c, tp_tensor *x, int op, const tp_view *part, int values,
                          int target)
{
    tp_wnode *node = tp_clone_node(c, x, op);
    node->dtype = node->calc = x->dtype;
    node->elements = tp_view_numel(x->view);
    node->whole = x;
    node->store = tp_work_view(c->work, part, x->view);
    node->into = target >= 0;
    if (!node->store || !tp_clone_edges(c, node, values + node->into)) return NULL;
    if (op == TP_OP_CONTIGUOUS) node->reason = TP_REASON_PART;
    if (!node->into) return node;
    tp_edge *edge = &node->in[values];
    edge->dtype = x->dtype;
    edge->view = x->view; /* row-major: x is no view */
    tp_work_link(c->work, edge, target);
    c->work->node[target].writer = (int)(node - c->work->node);
    return node;
}

/* A part that an operand's values are brought to; gives its number, -1 without memory. */
static int bring(tp_cloner *c, tp_tensor *x, const tp_view *part, tp_tensor *value, int target)
{
    tp_wnode *node = new_part(c, x, TP_OP_CONTIGUOUS, part, 1, target);
    if (!node || !tp_clone_edge(c, x, &node->in[0], value)) return -1;
    tp_clone_count_copy(c, node);
    return (int)(node - c->work->node);
}

bool tp_clone_concat(tp_cloner *c, tp_tensor *x)
{
    int axis = (int)x->attr[0], target = -1;
    int64_t start = 0;
    for (int i = 0; i < x->in_count; i++) {
        int64_t size = x->in[i]->view->shape[axis];
        tp_view part;
        tp_view_slice(x->view, axis, start, start + size, 1, &part);
        target = bring(c, x, &part, x->in[i], target);
        if (target < 0) return false;
        start += size;
    }
    return true;
}

/* The margin dim by dim, within what the dims before have left of it; then the middle. */
bool tp_clone_pad(tp_cloner *c, tp_tensor *x)
{
    int target = -1;
    tp_view rest, part, next;
    tp_view_copy(&rest, x->view);
    for (int d = 0; d < x->view->ndim; d++) {
        int64_t before = x->attr[2 * d], after = x->attr[2 * d + 1], size = rest.shape[d];
        for (int side = 0; side < 2; side++) {
            if ((side ? after : before) == 0) continue;
            tp_view_slice(&rest, d, side ? size - after : 0, side ? size : before, 1, &part);
            tp_wnode *node = new_part(c, x, TP_OP_FULL, &part, 0, target);
            if (!node) return false;
            target = (int)(node - c->work->node);
        }
        tp_view_slice(&rest, d, before, size - after, 1, &next);
        tp_view_copy(&rest, &next);
    }
    return bring(c, x, &rest, x->in[0], target) >= 0;
}

/* A copy of x's first operand to write into. */
static int target_of(tp_cloner *c, tp_tensor *x)
{
    const tp_view *view;
    int source = tp_clone_source(c, x->in[0], &view);
    int copy = tp_clone_copy(c, x, source, view, (tp_dtype)x->dtype);
    if (copy >= 0) tp_clone_count_copy(c, &c->work->node[copy]);
    return copy;
}

bool tp_clone_update(tp_cloner *c, tp_tensor *x)
{
    tp_view part = {.ndim = x->attr_count / 2};
    for (int d = 0; d < part.ndim; d++) {
        part.shape[d] = x->attr[d];
        part.stride[d] = x->attr[part.ndim + d];
    }
    part.offset = x->attr[2 * part.ndim];
    int target = tp_view_numel(&part) == tp_view_numel(x->view) ? -1 : target_of(c, x);
    bool whole = target < 0 && tp_view_numel(&part) == tp_view_numel(x->view);
    return (target >= 0 || whole) && bring(c, x, &part, x->in[1], target) >= 0;
}

bool tp_clone_scatter(tp_cloner *c, tp_tensor *x)
{
    int target = target_of(c, x);
    tp_wnode *node = target < 0 ? NULL : new_part(c, x, x->op, x->view, 2, target);
    if (!node) return false;
    return tp_clone_edge(c, x, &node->in[0], x->in[1]) &&
           tp_clone_edge(c, x, &node->in[1], x->in[2]);
}
