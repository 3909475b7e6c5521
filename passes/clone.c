/* clone: the part of the asked graph that outputs depend on becomes a working graph.
 *
 * In: nodes with view chains already composed by the builders. Out: leaves, compute nodes
 * with views as edge labels, and stand-ins for views. Evaluated nodes become leaves. Dead
 * code stays behind. Always: node numbers ascend with the asked ids. */
#include "clone.h"

#include "../graph/view_replay.h"

#include <string.h>

tp_wnode *tp_clone_node(tp_cloner *c, tp_tensor *asked, int op)
{
    tp_wnode *node = &c->work->node[c->work->node_count++];
    tp_zero(node, sizeof *node);
    node->op = (uint8_t)op;
    node->dtype = asked->dtype;
    node->calc = asked->calc;
    node->asked = asked;
    node->fused = 1;
    node->dims[0] = node->dims[1] = -1;
    node->writer = -1;
    if (op == TP_OP_CONTIGUOUS) c->work->copies[c->work->copy_nodes++] = c->work->node_count - 1;
    c->work->has_softmax |= op == TP_OP_SOFTMAX;
    return node;
}

bool tp_clone_edges(tp_cloner *c, tp_wnode *node, int count)
{
    node->in_count = count;
    node->in = count ? tp_arena_alloc(&c->work->arena, (size_t)count * sizeof *node->in) : NULL;
    for (int i = 0; node->in && i < count; i++) node->in[i].reader = (int)(node - c->work->node);
    return !count || node->in;
}

/* How the readers of an asked tensor reach its bytes. */
int tp_clone_source(const tp_cloner *c, const tp_tensor *x, const tp_view **view)
{
    int number = x->number;
    const tp_wnode *node = &c->work->node[number];
    /* What fills a buffer in parts is read as the tensor that they make. */
    *view = node->alias ? node->in[0].view : node->elements ? x->view : node->store;
    return number;
}

static bool clone_leaf(tp_cloner *c, tp_tensor *x)
{
    tp_wnode *node = tp_clone_node(c, x, TP_OP_DATA);
    node->store = x->result;
    return true;
}

/* A dense copy of what an asked tensor's readers see; gives its number, -1 without memory. */
int tp_clone_copy(tp_cloner *c, tp_tensor *x, int source, const tp_view *view, tp_dtype dtype)
{
    tp_wnode *node = tp_clone_node(c, x, TP_OP_CONTIGUOUS);
    node->dtype = node->calc = (uint8_t)dtype;
    tp_view dense;
    tp_view_set_row_major(&dense, view->ndim, view->shape);
    node->store = tp_work_view(c->work, &dense, x->view);
    if (!node->store || !tp_clone_edges(c, node, 1)) return -1;
    node->in[0].view = view;
    node->in[0].dtype = (uint8_t)dtype;
    tp_work_link(c->work, &node->in[0], source);
    return (int)(node - c->work->node);
}

/* The node whose bytes view x reads, and how; -1 without memory. Normally its base, as built. Over
 * an evaluated view in between, whose bytes are there while the base's may have to be computed
 * anew, the step is taken again on the layout found there; a reshape may then need a copy, absolute
 * addresses need the base. */
static int root_of_view(tp_cloner *c, tp_tensor *x, const tp_view **view)
{
    tp_view replayed;
    const tp_view *below;
    int number = tp_clone_source(c, x->in[0], &below);
    const tp_wnode *source = &c->work->node[number];
    int root = source->alias ? source->in[0].node : number;
    *view = x->view;
    if (c->work->node[root].asked == x->base) return root;
    bool through = tp_view_replay(x, below, &replayed);
    if (!through && x->op != TP_OP_RESHAPE) return x->base->number;
    if (!through) replayed = tp_view_row_major(x->view->ndim, x->view->shape);
    *view = tp_work_view(c->work, &replayed, NULL);
    if (!*view) return -1;
    return through ? root : tp_clone_copy(c, x, number, below, (tp_dtype)x->dtype);
}

static bool clone_view(tp_cloner *c, tp_tensor *x)
{
    const tp_view *view;
    int root = root_of_view(c, x, &view);
    if (root < 0) return false;
    tp_wnode *node = tp_clone_node(c, x, x->op);
    node->alias = true;
    c->work->aliases++;
    node->store = x->view;
    if (!tp_clone_edges(c, node, 1)) return false;
    node->in[0].dtype = x->dtype;
    node->in[0].view = view;
    tp_work_link(c->work, &node->in[0], root);
    return true;
}

void tp_clone_count_copy(tp_cloner *c, tp_wnode *node)
{
    node->as_built = true;
    c->work->asked_copies++;
    c->work->asked_copied_bytes += tp_work_stored_bytes(node);
}

bool tp_clone_edge(tp_cloner *c, const tp_tensor *x, tp_edge *edge, tp_tensor *in)
{
    tp_view wide;
    int source = tp_clone_source(c, in, &edge->view);
    edge->dtype = in->dtype;
    if (tp_op_is_elementwise((tp_op)x->op) && !tp_view_same_shape(edge->view, x->view)) {
        tp_view_expand(edge->view, x->view->ndim, x->view->shape, &wide);
        edge->view = tp_work_view(c->work, &wide, NULL);
    }
    tp_work_link(c->work, edge, source);
    return edge->view;
}

static bool clone_compute(tp_cloner *c, tp_tensor *x)
{
    tp_wnode *node = tp_clone_node(c, x, x->op);
    node->store = x->view;
    if (!tp_clone_edges(c, node, x->in_count)) return false;
    for (int i = 0; i < x->in_count; i++) {
        if (!tp_clone_edge(c, x, &node->in[i], x->in[i])) return false;
    }
    if (tp_op_info_of((tp_op)x->op)->kind == TP_KIND_REDUCE) { /* attributes: keepdims, axes */
        for (int i = 1; i < x->attr_count; i++) node->axes |= 1U << x->attr[i];
    }
    if (x->op == TP_OP_CONTIGUOUS) tp_clone_count_copy(c, node);
    return true;
}

static bool clone_node(tp_cloner *c, tp_tensor *x)
{
    if (x->state == TP_GONE) {
        c->status = tp_graph_fail(x->graph, TP_E_STALE, "eval", -1,
                                  "%%%lld (%s) was given away and an update has written over it",
                                  (long long)x->id, tp_op_name(x));
        return false;
    }
    if (x->state == TP_EVALUATED) return clone_leaf(c, x);
    if (tp_tensor_is_view(x)) return clone_view(c, x);
    switch (x->op) {
    case TP_OP_CONCAT:
        return tp_clone_concat(c, x);
    case TP_OP_PAD:
        return tp_clone_pad(c, x);
    case TP_OP_UPDATE:
        return tp_clone_update(c, x);
    case TP_OP_SCATTER_ADD:
        return tp_clone_scatter(c, x);
    default:
        return clone_compute(c, x);
    }
}

/* Working nodes that x may become. */
static size_t most_nodes(const tp_tensor *x)
{
    switch (x->op) {
    case TP_OP_CONCAT:
        return (size_t)x->in_count;
    case TP_OP_PAD:
        return (size_t)x->attr_count + 1;
    case TP_OP_UPDATE:
    case TP_OP_SCATTER_ADD:
        return 2;
    default:
        return tp_tensor_is_view(x) ? 2 : 1; /* a view may need a copy */
    }
}

/* A view as an output: a copy delivers it densely, unless the caller takes any layout. */
static bool deliver_view(tp_cloner *c, tp_tensor *x, tp_delivery *delivery)
{
    const tp_view *view;
    int source = tp_clone_source(c, x, &view);
    int root = c->work->node[source].in[0].node;
    if (c->work->options.keep_layout) {
        c->work->node[root].output = true;
        delivery->buffer = root;
        tp_view_copy(&delivery->view, view);
        return true;
    }
    int copy = tp_clone_copy(c, x, source, view, (tp_dtype)x->dtype);
    if (copy < 0) return false;
    tp_wnode *node = &c->work->node[copy];
    if (!tp_view_is_contiguous(view) || c->work->node[root].op == TP_OP_DATA)
        tp_clone_count_copy(c, node);
    node->output = true;
    delivery->buffer = copy;
    tp_view_copy(&delivery->view, node->store);
    return true;
}

static bool deliver(tp_cloner *c, int count, tp_tensor *const *outputs)
{
    tp_work *work = c->work;
    for (int i = 0; i < count; i++) {
        tp_delivery *delivery = &work->delivery[work->delivery_count++];
        delivery->tensor = outputs[i];
        int number = outputs[i]->number;
        tp_wnode *node = &work->node[number];
        if (node->alias) {
            if (!deliver_view(c, outputs[i], delivery)) return false;
            continue;
        }
        node->output = true;
        delivery->buffer = number;
        const tp_view *view;
        tp_clone_source(c, outputs[i], &view);
        tp_view_copy(&delivery->view, view);
    }
    return true;
}

static bool clone(tp_cloner *c, int64_t reached, tp_tensor *const *list)
{
    for (int64_t i = 0; i < reached; i++) {
        if (!clone_node(c, list[i])) return false;
        list[i]->number = c->work->node_count - 1;
    }
    return true;
}

tp_status tp_work_create(tp_graph *graph, int count, tp_tensor *const *outputs,
                         const tp_eval_options *options, tp_work *work)
{
    memset(work, 0, sizeof *work);
    work->graph = graph;
    work->context = graph->context;
    work->backend = graph->backend;
    work->ledger_end = &work->ledger;
    work->unswept = true;
    if (options) work->options = *options;
    tp_arena_init(&work->arena, graph->context);
    tp_cloner c = {.work = work};
    tp_tensor **list;
    int64_t reached = tp_graph_reach(graph, count, outputs, &work->arena, &list);
    bool done = reached >= 0;
    if (done) {
        size_t nodes = (size_t)count;
        for (int64_t i = 0; i < reached; i++) nodes += most_nodes(list[i]);
        done = nodes < INT32_MAX;
        work->node = done ? tp_arena_alloc(&work->arena, nodes * sizeof *work->node) : NULL;
        work->copies = done ? tp_arena_alloc(&work->arena, nodes * sizeof *work->copies) : NULL;
        work->delivery = tp_arena_alloc(&work->arena, (size_t)count * sizeof *work->delivery);
        done = work->node && work->copies && work->delivery && clone(&c, reached, list) &&
               deliver(&c, count, outputs);
    }
    if (done) return TP_OK;
    tp_work_free(work);
    return c.status != TP_OK ? c.status : tp_graph_fail_nomem(graph, "eval");
}

void tp_work_free(tp_work *work)
{
    tp_arena_free(&work->arena);
}
