/* Builders of what works along one axis: picking and adding at indices, running sums, sorting. */
#include "infer.h"

#include <string.h>

/* ---- Indices that have x's rank ------------------------------------------------------------ */

static tp_status fail_shapes(const char *op, const tp_tensor *x, const tp_tensor *other,
                             const char *what, int dim)
{
    char a[400], b[400];
    tp_view_print_shape(x->view, a, sizeof a);
    tp_view_print_shape(other->view, b, sizeof b);
    if (dim < 0)
        return tp_graph_fail(x->graph, TP_E_SHAPE, op, -1, "x is %s, %s %s: the ranks differ", a,
                             what, b);
    return tp_graph_fail(x->graph, TP_E_SHAPE, op, dim,
                         "x is %s, %s %s: dim %d is %lld against %lld", a, what, b, dim,
                         (long long)x->view->shape[dim], (long long)other->view->shape[dim]);
}

/* The common sizes of x and indices but at dim. */
static tp_status broadcast_others(const char *op, const tp_tensor *x, const tp_tensor *indices,
                                  int dim, int64_t *shape)
{
    if (x->view->ndim != indices->view->ndim) return fail_shapes(op, x, indices, "indices are", -1);
    for (int d = 0; d < x->view->ndim; d++) {
        int64_t a = x->view->shape[d], b = indices->view->shape[d];
        if (d != dim && a != b && a != 1 && b != 1)
            return fail_shapes(op, x, indices, "indices are", d);
        shape[d] = a == 1 ? b : a;
    }
    return TP_OK;
}

static tp_tensor *take_along(const char *op, tp_tensor *x, int dim, tp_tensor *indices)
{
    int64_t shape[TP_MAX_RANK];
    if (!tp_build_indices_ok(op, indices)) return NULL;
    if (broadcast_others(op, x, indices, dim, shape) != TP_OK) return NULL;
    int rank = x->view->ndim;
    tp_view view;
    shape[dim] = x->view->shape[dim];
    tp_tensor *in[2] = {tp_build_expand(x, rank, shape)};
    shape[dim] = indices->view->shape[dim];
    in[1] = tp_build_expand(indices, rank, shape);
    if (!in[0] || !in[1]) return NULL;
    if (tp_infer_shape(x->graph, op, (tp_dtype)x->dtype, rank, shape, &view) != TP_OK) return NULL;
    return tp_build_node(x->graph, TP_OP_TAKE_ALONG, (tp_dtype)x->dtype, 2, in, &view, NULL, 1,
                         (int64_t[]){dim});
}

tp_tensor *tp_take_along(tp_tensor *x, int axis, tp_tensor *indices)
{
    int dim;
    if (!tp_build_operands_ok("take_along", 2, (tp_tensor *[]){x, indices})) return NULL;
    if (tp_infer_axis(x->graph, "take_along", x->view, axis, &dim) != TP_OK) return NULL;
    return take_along("take_along", x, dim, indices);
}

tp_tensor *tp_gather(tp_tensor *x, int axis, tp_tensor *indices)
{
    int dim;
    if (!tp_build_operands_ok("gather", 2, (tp_tensor *[]){x, indices})) return NULL;
    if (tp_infer_axis(x->graph, "gather", x->view, axis, &dim) != TP_OK) return NULL;
    if (x->view->ndim != indices->view->ndim) {
        fail_shapes("gather", x, indices, "indices are", -1);
        return NULL;
    }
    tp_tensor *part = x;
    for (int d = 0; d < x->view->ndim && part; d++) {
        int64_t wanted = indices->view->shape[d];
        if (d == dim || wanted == x->view->shape[d]) continue;
        if (wanted > x->view->shape[d]) {
            fail_shapes("gather", x, indices, "indices are", d);
            return NULL;
        }
        part = tp_slice(part, d, 0, wanted, 1);
    }
    return part ? take_along("gather", part, dim, indices) : NULL;
}

/* ---- Scatter ------------------------------------------------------------------------------------
 */

/* The shape of indices and source: x's, but along dim their own. */
static tp_status scatter_shape(const tp_tensor *x, const tp_tensor *indices,
                               const tp_tensor *source, int dim, int64_t *shape)
{
    const tp_tensor *others[] = {indices, source};
    static const char *const what[] = {"indices are", "source is"};
    for (int i = 0; i < 2; i++) {
        if (others[i]->view->ndim != x->view->ndim)
            return fail_shapes("scatter_add", x, others[i], what[i], -1);
        for (int d = 0; d < x->view->ndim; d++) {
            int64_t size = others[i]->view->shape[d];
            if (d != dim && size != 1 && size != x->view->shape[d])
                return fail_shapes("scatter_add", x, others[i], what[i], d);
        }
    }
    memcpy(shape, x->view->shape, (size_t)x->view->ndim * sizeof *shape);
    int64_t a = indices->view->shape[dim], b = source->view->shape[dim];
    shape[dim] = a == 1 ? b : a;
    if (a == b || a == 1 || b == 1) return TP_OK;
    char of_a[400], of_b[400];
    tp_view_print_shape(indices->view, of_a, sizeof of_a);
    tp_view_print_shape(source->view, of_b, sizeof of_b);
    return tp_graph_fail(x->graph, TP_E_SHAPE, "scatter_add", dim,
                         "indices are %s, source is %s: dim %d is %lld against %lld", of_a, of_b,
                         dim, (long long)a, (long long)b);
}

static tp_tensor *scatter_node(tp_tensor *x, int dim, tp_tensor *indices, tp_tensor *source)
{
    tp_tensor *in[] = {x, indices, source};
    if (!x || !indices || !source) return NULL;
    tp_view view = tp_view_row_major(x->view->ndim, x->view->shape);
    return tp_build_node(x->graph, TP_OP_SCATTER_ADD, (tp_dtype)x->dtype, 3, in, &view, NULL, 1,
                         (int64_t[]){dim});
}

tp_tensor *tp_scatter_add(tp_tensor *x, int axis, tp_tensor *indices, tp_tensor *source)
{
    int dim;
    int64_t shape[TP_MAX_RANK];
    if (!tp_build_operands_ok("scatter_add", 3, (tp_tensor *[]){x, indices, source})) return NULL;
    if (!tp_build_indices_ok("scatter_add", indices)) return NULL;
    if (tp_infer_axis(x->graph, "scatter_add", x->view, axis, &dim) != TP_OK) return NULL;
    if (scatter_shape(x, indices, source, dim, shape) != TP_OK) return NULL;
    tp_dtype types[] = {(tp_dtype)x->dtype, (tp_dtype)source->dtype}, dtype, calc;
    if (tp_infer_dtype(x->graph, TP_OP_ADD, 2, types, &dtype, &calc) != TP_OK) return NULL;
    /* Many halves add up in f32 and are rounded once. */
    bool half = dtype == TP_F16 || dtype == TP_BF16;
    tp_dtype wide = half ? TP_F32 : dtype;
    if (x->dtype != wide) x = tp_cast(x, wide);
    if (source->dtype != wide) source = tp_cast(source, wide);
    int rank = indices->view->ndim;
    tp_tensor *y = scatter_node(x, dim, tp_build_expand(indices, rank, shape),
                                tp_build_expand(source, rank, shape));
    return half ? tp_cast(y, dtype) : y;
}

/* ---- Running sums, sorting ---------------------------------------------------------------------
 */

static tp_tensor *along(tp_op op, tp_tensor *x, int axis, tp_dtype dtype, tp_dtype calc, int attrs,
                        int64_t second)
{
    int dim;
    if (tp_infer_axis(x->graph, tp_op_info_of(op)->name, x->view, axis, &dim) != TP_OK) return NULL;
    tp_view view = tp_view_row_major(x->view->ndim, x->view->shape);
    tp_tensor *y =
        tp_build_node(x->graph, op, dtype, 1, &x, &view, NULL, attrs, (int64_t[]){dim, second});
    if (y) y->calc = (uint8_t)calc;
    return y;
}

/* The dtypes of the reduction of the same kind. */
static tp_tensor *scan(tp_op op, tp_op like, tp_tensor *x, int axis)
{
    if (!x) return NULL;
    tp_dtype type = (tp_dtype)x->dtype, dtype, calc;
    if (tp_infer_dtype(x->graph, like, 1, &type, &dtype, &calc) != TP_OK) return NULL;
    return along(op, x, axis, dtype, calc, 1, 0);
}

tp_tensor *tp_cumsum(tp_tensor *x, int axis)
{
    return scan(TP_OP_CUMSUM, TP_OP_SUM, x, axis);
}

tp_tensor *tp_cumprod(tp_tensor *x, int axis)
{
    return scan(TP_OP_CUMPROD, TP_OP_PROD, x, axis);
}

tp_tensor *tp_cummax(tp_tensor *x, int axis)
{
    return scan(TP_OP_CUMMAX, TP_OP_MAX, x, axis);
}

tp_tensor *tp_sort(tp_tensor *x, int axis, bool descending)
{
    return x ? along(TP_OP_SORT, x, axis, (tp_dtype)x->dtype, (tp_dtype)x->dtype, 2, descending)
             : NULL;
}

tp_tensor *tp_argsort(tp_tensor *x, int axis, bool descending)
{
    return x ? along(TP_OP_ARGSORT, x, axis, TP_I64, (tp_dtype)x->dtype, 2, descending) : NULL;
}

tp_status tp_topk(tp_tensor *x, int axis, int64_t k, tp_tensor **values, tp_tensor **indices)
{
    if (values) *values = NULL;
    if (indices) *indices = NULL;
    if (!x) return TP_E_ARGUMENT;
    int dim;
    TRY(tp_infer_axis(x->graph, "topk", x->view, axis, &dim));
    if (k < 0 || k > x->view->shape[dim]) {
        char text[400];
        tp_view_print_shape(x->view, text, sizeof text);
        return tp_graph_fail(x->graph, TP_E_ARGUMENT, "topk", dim,
                             "k is %lld, dim %d of %s has size %lld", (long long)k, dim, text,
                             (long long)x->view->shape[dim]);
    }
    tp_tensor *best = tp_slice(tp_argsort(x, dim, true), dim, 0, k, 1);
    tp_tensor *found = values ? tp_take_along(x, dim, best) : NULL;
    if (!best || (values && !found)) return x->graph->error.status;
    if (values) *values = found;
    if (indices) *indices = best;
    return TP_OK;
}
