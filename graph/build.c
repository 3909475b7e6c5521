/* Builders of compute nodes: check, infer, append. With build_views.c and leaves.c the only
 * door into a graph. A builder gives NULL when it receives NULL (the cause is recorded
 * already) or when it fails (then it records why). */
#include "infer.h"

#include <string.h>

/* A view that stays: an operand's own or a copy. NULL without memory. */
static const tp_view *keep_view(tp_graph *graph, int in_count, tp_tensor *const *in,
                                const tp_view *view)
{
    for (int i = 0; i < in_count && i < 2; i++) {
        if (tp_view_identical(in[i]->view, view)) return in[i]->view;
    }
    tp_view *copy = tp_arena_alloc(&graph->arena, sizeof *copy);
    if (copy) tp_view_copy(copy, view);
    return copy;
}

tp_tensor *tp_build_node(tp_graph *graph, tp_op op, tp_dtype dtype, int in_count,
                         tp_tensor *const *in, const tp_view *view, tp_tensor *base, int attr_count,
                         const int64_t *attr)
{
    void *list = graph->node;
    size_t in_bytes = (size_t)in_count * sizeof *in, attr_bytes = (size_t)attr_count * sizeof *attr;
    const tp_view *kept = keep_view(graph, in_count, in, view);
    tp_tensor *node = tp_arena_alloc(&graph->arena, sizeof *node + in_bytes + attr_bytes);
    if (!kept || !node ||
        !tp_grow(graph->context, &list, &graph->node_capacity, graph->node_count + 1,
                 sizeof *graph->node)) {
        tp_graph_fail_nomem(graph, tp_op_info_of(op)->name);
        return NULL;
    }
    graph->node = list;
    tp_zero(node, sizeof *node);
    node->graph = graph;
    node->id = graph->node_count;
    node->op = (uint8_t)op;
    node->dtype = node->calc = (uint8_t)dtype;
    node->in_count = in_count;
    node->attr_count = attr_count;
    node->in = (tp_tensor **)(node + 1);
    node->base = base ? base : node;
    node->view = kept;
    for (int i = 0; i < in_count; i++) node->in[i] = in[i];
    node->attr = (int64_t *)(void *)(node->in + in_count);
    for (int i = 0; i < attr_count; i++) node->attr[i] = attr[i];
    graph->node[graph->node_count++] = node;
    graph->structure++;
    return node;
}

bool tp_build_operands_ok(const char *op, int count, tp_tensor *const *in)
{
    for (int i = 0; i < count; i++) {
        if (!in[i]) return false;
    }
    for (int i = 1; i < count; i++) {
        if (in[i]->graph == in[0]->graph) continue;
        tp_graph_fail(in[0]->graph, TP_E_ARGUMENT, op, -1,
                      "the operands belong to different graphs");
        return false;
    }
    return true;
}

static bool operands_ok(tp_op op, int count, tp_tensor *const *in)
{
    return tp_build_operands_ok(tp_op_info_of(op)->name, count, in);
}

/* The view that all operands have in common, if a result has it too; else NULL. */
static const tp_view *common_view(int count, tp_tensor *const *in)
{
    const tp_view *view = in[0]->view;
    for (int i = 1; i < count; i++) {
        if (!tp_view_identical(in[i]->view, view)) return NULL;
    }
    return tp_view_is_plain(view) ? view : NULL;
}

static tp_tensor *elementwise(tp_op op, int count, tp_tensor *const *in)
{
    if (!operands_ok(op, count, in)) return NULL;
    tp_graph *graph = in[0]->graph;
    tp_dtype types[3], result, calc;
    for (int i = 0; i < count; i++) types[i] = (tp_dtype)in[i]->dtype;
    tp_view wide;
    const tp_view *view = common_view(count, in);
    if (tp_infer_dtype(graph, op, count, types, &result, &calc) != TP_OK) return NULL;
    if (!view) {
        view = &wide;
        if (tp_infer_broadcast(graph, tp_op_info_of(op)->name, count, in, &wide) != TP_OK)
            return NULL;
    }
    int64_t bytes;
    if (__builtin_mul_overflow(tp_view_numel(view), (int64_t)tp_dtype_size(result), &bytes)) {
        tp_graph_fail(graph, TP_E_SHAPE, tp_op_info_of(op)->name, -1,
                      "the result has more than 2^63-1 bytes");
        return NULL;
    }
    tp_tensor *y = tp_build_node(graph, op, result, count, in, view, NULL, 0, NULL);
    if (y) y->calc = (uint8_t)calc;
    return y;
}

static tp_tensor *compare(tp_op op, tp_tensor *a, tp_tensor *b)
{
    tp_tensor *in[] = {a, b};
    if (!operands_ok(op, 2, in)) return NULL;
    bool taken = false;
    tp_tensor *y = tp_compare_mixed(op, a, b, &taken);
    return taken ? y : elementwise(op, 2, in);
}

/* One public function per elementwise row. */
#define UNARY(ENUM, name, ...)                                                                     \
    tp_tensor *tp_##name(tp_tensor *a)                                                             \
    {                                                                                              \
        return elementwise(TP_OP_##ENUM, 1, (tp_tensor *[]){a});                                   \
    }
#define TEST UNARY
#define BINARY(ENUM, name, ...)                                                                    \
    tp_tensor *tp_##name(tp_tensor *a, tp_tensor *b)                                               \
    {                                                                                              \
        return elementwise(TP_OP_##ENUM, 2, (tp_tensor *[]){a, b});                                \
    }
#define COMPARE(ENUM, name, ...)                                                                   \
    tp_tensor *tp_##name(tp_tensor *a, tp_tensor *b)                                               \
    {                                                                                              \
        return compare(TP_OP_##ENUM, a, b);                                                        \
    }
#define TERNARY(ENUM, name, ...)                                                                   \
    tp_tensor *tp_##name(tp_tensor *a, tp_tensor *b, tp_tensor *c)                                 \
    {                                                                                              \
        return elementwise(TP_OP_##ENUM, 3, (tp_tensor *[]){a, b, c});                             \
    }
#include "ops.def"

/* ---- Reductions -------------------------------------------------------------------- */

/* The shape left when the dims in mask are reduced. */
static tp_view reduced_shape(const tp_view *x, uint32_t mask, bool keepdims)
{
    int64_t shape[TP_MAX_RANK];
    int ndim = 0;
    for (int d = 0; d < x->ndim; d++) {
        bool gone = mask >> d & 1U;
        if (!gone || keepdims) shape[ndim++] = gone ? 1 : x->shape[d];
    }
    return tp_view_row_major(ndim, shape);
}

static bool anything_to_reduce(tp_graph *graph, tp_op op, const tp_view *x, uint32_t mask)
{
    if (op == TP_OP_SUM || op == TP_OP_PROD || op == TP_OP_MEAN) return true;
    for (int d = 0; d < x->ndim; d++) {
        if (!(mask >> d & 1U) || x->shape[d] > 0) continue;
        char text[400];
        tp_view_print_shape(x, text, sizeof text);
        tp_graph_fail(graph, TP_E_SHAPE, tp_op_info_of(op)->name, d,
                      "nothing to reduce: dim %d of %s has size 0", d, text);
        return false;
    }
    return true;
}

static tp_tensor *reduce(tp_op op, tp_tensor *x, int count, const int64_t *axes, bool keepdims)
{
    if (!x) return NULL;
    tp_graph *graph = x->graph;
    tp_dtype type = (tp_dtype)x->dtype, result, calc;
    uint32_t mask;
    if (tp_infer_dtype(graph, op, 1, &type, &result, &calc) != TP_OK) return NULL;
    if (tp_infer_axes(graph, tp_op_info_of(op)->name, x->view, count, axes, &mask) != TP_OK)
        return NULL;
    if (!anything_to_reduce(graph, op, x->view, mask)) return NULL;
    int64_t attr[TP_MAX_RANK + 1] = {keepdims};
    int used = 1;
    for (int d = 0; d < x->view->ndim; d++) {
        if (mask >> d & 1U) attr[used++] = d;
    }
    tp_view view = reduced_shape(x->view, mask, keepdims);
    tp_tensor *y = tp_build_node(graph, op, result, 1, &x, &view, NULL, used, attr);
    if (y) y->calc = (uint8_t)calc;
    return y;
}

#define REDUCE(ENUM, name, ...)                                                                    \
    tp_tensor *tp_##name(tp_tensor *x, int count, const int64_t *axes, bool keepdims)              \
    {                                                                                              \
        return reduce(TP_OP_##ENUM, x, count, axes, keepdims);                                     \
    }
#include "ops.def"

/* ---- Layout and conversion --------------------------------------------------------------- */

tp_tensor *tp_contiguous(tp_tensor *x)
{
    if (!x) return NULL;
    if (tp_view_is_contiguous(x->view)) {
        return tp_build_node(x->graph, TP_OP_CONTIGUOUS, (tp_dtype)x->dtype, 1, &x, x->view,
                             x->base, 0, NULL);
    }
    tp_view view;
    tp_view_set_row_major(&view, x->view->ndim, x->view->shape);
    return tp_build_node(x->graph, TP_OP_CONTIGUOUS, (tp_dtype)x->dtype, 1, &x, &view, NULL, 0,
                         NULL);
}

tp_tensor *tp_cast(tp_tensor *x, tp_dtype dtype)
{
    if (!x) return NULL;
    tp_view view;
    if (tp_infer_shape(x->graph, "cast", dtype, x->view->ndim, x->view->shape, &view) != TP_OK)
        return NULL;
    if (dtype == x->dtype)
        return tp_build_node(x->graph, TP_OP_CAST, dtype, 1, &x, x->view, x->base, 0, NULL);
    return tp_build_node(x->graph, TP_OP_CAST, dtype, 1, &x, &view, NULL, 0, NULL);
}

/* x in this dtype; x itself if it is. */
static tp_tensor *as_dtype(tp_tensor *x, tp_dtype dtype)
{
    return x && x->dtype != dtype ? tp_cast(x, dtype) : x;
}

/* ---- Softmax and layer norm ---------------------------------------------------------------- */

static tp_dtype float_dtype(const tp_tensor *x)
{
    return tp_dtype_kind_of((tp_dtype)x->dtype) == TP_DTYPE_FLOAT ? (tp_dtype)x->dtype : TP_F32;
}

tp_tensor *tp_softmax(tp_tensor *x, int axis)
{
    return tp_build_softmax(x, axis, false);
}

tp_tensor *tp_build_softmax(tp_tensor *x, int axis, bool masked)
{
    if (!x) return NULL;
    int dim;
    if (tp_infer_axis(x->graph, "softmax", x->view, axis, &dim) != TP_OK) return NULL;
    tp_view view;
    tp_view_set_row_major(&view, x->view->ndim, x->view->shape);
    return tp_build_node(x->graph, TP_OP_SOFTMAX, float_dtype(x), 1, &x, &view, NULL, 1 + masked,
                         (int64_t[]){dim, 1});
}

bool tp_build_norm_operand_ok(const char *op, const tp_tensor *x, int axes, const tp_tensor *w,
                              const char *what)
{
    bool same = w->view->ndim == axes;
    for (int d = 0; same && d < axes; d++)
        same = w->view->shape[d] == x->view->shape[x->view->ndim - axes + d];
    if (same) return true;
    char a[400], b[400];
    tp_view_print_shape(x->view, a, sizeof a);
    tp_view_print_shape(w->view, b, sizeof b);
    tp_graph_fail(x->graph, TP_E_SHAPE, op, -1,
                  "x is %s, %s is %s: it must have the last %d dims of x", a, what, b, axes);
    return false;
}

tp_tensor *tp_layer_norm(tp_tensor *x, int axes, tp_tensor *weight, tp_tensor *bias, double eps)
{
    if (!x) return NULL;
    if (axes < 1 || axes > x->view->ndim) {
        tp_graph_fail(x->graph, TP_E_ARGUMENT, "layer_norm", -1, "%d axes is outside [1, %d]", axes,
                      x->view->ndim);
        return NULL;
    }
    if (!tp_build_left_out(x->graph, weight) || !tp_build_left_out(x->graph, bias)) return NULL;
    tp_dtype dtype = float_dtype(x);
    tp_tensor *in[3] = {x};
    int count = 1;
    if (weight) in[count++] = weight;
    if (bias) in[count++] = bias;
    if (!operands_ok(TP_OP_LAYER_NORM, count, in)) return NULL;
    if (weight && !tp_build_norm_operand_ok("layer_norm", x, axes, weight, "weight")) return NULL;
    if (bias && !tp_build_norm_operand_ok("layer_norm", x, axes, bias, "bias")) return NULL;
    for (int i = 1; i < count; i++) {
        in[i] = as_dtype(in[i], dtype);
        if (!in[i]) return NULL;
    }
    tp_view view;
    tp_view_set_row_major(&view, x->view->ndim, x->view->shape);
    int64_t attr[] = {axes, (weight ? 1 : 0) | (bias ? 2 : 0)};
    tp_tensor *y =
        tp_build_node(x->graph, TP_OP_LAYER_NORM, dtype, count, in, &view, NULL, 2, attr);
    if (y) y->value[0].f = eps;
    return y;
}

/* ---- Matrix product ----------------------------------------------------------------------------
 */

/* x as [batch.., rows, cols] with the batch of both operands. */
static tp_tensor *with_batch(tp_tensor *x, int rank, const int64_t *batch)
{
    int64_t shape[TP_MAX_RANK];
    if (!x) return NULL;
    memcpy(shape, batch, (size_t)(rank - 2) * sizeof *shape);
    shape[rank - 2] = x->view->shape[x->view->ndim - 2];
    shape[rank - 1] = x->view->shape[x->view->ndim - 1];
    return tp_build_expand(x, rank, shape);
}

/* The broadcast of the operands' leading dims; both have two dims at least. Gives the rank. */
static int common_batch(const tp_tensor *a, const tp_tensor *b, int64_t *batch)
{
    int rank = a->view->ndim > b->view->ndim ? a->view->ndim : b->view->ndim;
    for (int d = 0; d < rank - 2; d++) {
        int in_a = d - (rank - a->view->ndim), in_b = d - (rank - b->view->ndim);
        int64_t size = in_a >= 0 ? a->view->shape[in_a] : 1;
        batch[d] = size == 1 && in_b >= 0 ? b->view->shape[in_b] : size;
    }
    return rank;
}

/* The node itself: equal ranks >= 2, equal leading dims, one dtype. */
static tp_tensor *matmul_node(tp_tensor *a, tp_tensor *b)
{
    tp_tensor *in[] = {a, b};
    if (!a || !b) return NULL;
    int64_t shape[TP_MAX_RANK];
    int rank = a->view->ndim;
    memcpy(shape, a->view->shape, (size_t)rank * sizeof *shape);
    shape[rank - 1] = b->view->shape[rank - 1];
    tp_view view;
    if (tp_infer_shape(a->graph, "matmul", (tp_dtype)a->dtype, rank, shape, &view) != TP_OK)
        return NULL;
    return tp_build_node(a->graph, TP_OP_MATMUL, (tp_dtype)a->dtype, 2, in, &view, NULL, 0, NULL);
}

tp_tensor *tp_matmul(tp_tensor *a, tp_tensor *b)
{
    tp_tensor *in[] = {a, b};
    if (!operands_ok(TP_OP_MATMUL, 2, in) || tp_infer_matmul(a->graph, a, b) != TP_OK) return NULL;
    tp_dtype types[] = {(tp_dtype)a->dtype, (tp_dtype)b->dtype}, dtype, calc;
    /* A product of sums of products: the rules of multiplication. */
    if (tp_infer_dtype(a->graph, TP_OP_MUL, 2, types, &dtype, &calc) != TP_OK) return NULL;
    bool row = a->view->ndim == 1, column = b->view->ndim == 1;
    a = as_dtype(a, dtype);
    b = as_dtype(b, dtype);
    if (row) a = tp_unsqueeze(a, 0);
    if (column) b = tp_unsqueeze(b, 1);
    if (!a || !b) return NULL;
    int64_t batch[TP_MAX_RANK];
    int rank = common_batch(a, b, batch);
    tp_tensor *y = matmul_node(with_batch(a, rank, batch), with_batch(b, rank, batch));
    if (row) y = tp_squeeze(y, -2);
    if (column) y = tp_squeeze(y, -1);
    return y;
}

bool tp_build_indices_ok(const char *op, const tp_tensor *indices)
{
    tp_dtype_kind kind = tp_dtype_kind_of((tp_dtype)indices->dtype);
    if (kind == TP_DTYPE_INT || kind == TP_DTYPE_UINT) return true;
    tp_graph_fail(indices->graph, TP_E_DTYPE, op, -1, "indices are %s, an integer type is needed",
                  tp_dtype_name((tp_dtype)indices->dtype));
    return false;
}

tp_tensor *tp_index_select(tp_tensor *x, int axis, tp_tensor *indices)
{
    tp_tensor *in[] = {x, indices};
    if (!operands_ok(TP_OP_INDEX_SELECT, 2, in)) return NULL;
    int dim;
    if (tp_infer_axis(x->graph, "index_select", x->view, axis, &dim) != TP_OK) return NULL;
    if (!tp_build_indices_ok("index_select", indices)) return NULL;
    if (indices->view->ndim != 1) {
        char text[400];
        tp_view_print_shape(indices->view, text, sizeof text);
        tp_graph_fail(x->graph, TP_E_SHAPE, "index_select", -1, "indices are %s, one dim is needed",
                      text);
        return NULL;
    }
    int64_t shape[TP_MAX_RANK];
    memcpy(shape, x->view->shape, (size_t)x->view->ndim * sizeof *shape);
    shape[dim] = indices->view->shape[0];
    tp_view view;
    if (tp_infer_shape(x->graph, "index_select", (tp_dtype)x->dtype, x->view->ndim, shape, &view) !=
        TP_OK)
        return NULL;
    return tp_build_node(x->graph, TP_OP_INDEX_SELECT, (tp_dtype)x->dtype, 2, in, &view, NULL, 1,
                         (int64_t[]){dim});
}
