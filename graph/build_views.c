/* Builders of views: each composes its input's (shape, strides, offset) with one step of
 * geometry from view.c, so that every node's layout is known when it is built. */
#include "infer.h"

#include <string.h>

/* A view node of x's base. */
static tp_tensor *view_node(tp_op op, tp_tensor *x, const tp_view *view, int attr_count,
                            const int64_t *attr)
{
    return tp_build_node(x->graph, op, (tp_dtype)x->dtype, 1, &x, view, x->base, attr_count, attr);
}

/* ---- Reshape ------------------------------------------------------------------------ */

static tp_tensor *reshape(tp_tensor *x, int ndim, const int64_t *wanted, const char *op,
                          bool may_copy)
{
    if (!x) return NULL;
    int64_t shape[TP_MAX_RANK];
    if (tp_infer_reshape(x->graph, op, x->view, ndim, wanted, shape) != TP_OK) return NULL;
    tp_view view;
    int dims[2];
    if (tp_view_reshape(x->view, ndim, shape, &view, dims))
        return view_node(TP_OP_RESHAPE, x, &view, ndim, shape);
    if (!may_copy) {
        char from[800], to[400];
        view = tp_view_row_major(ndim, shape);
        tp_view_print(x->view, from, sizeof from);
        tp_view_print_shape(&view, to, sizeof to);
        tp_graph_fail(x->graph, TP_E_SHAPE, op, dims[0],
                      "%s as %s: dims %d and %d cannot merge over strides %lld and %lld", from, to,
                      dims[0], dims[1], (long long)x->view->stride[dims[0]],
                      (long long)x->view->stride[dims[1]]);
        return NULL;
    }
    tp_tensor *copy = tp_contiguous(x);
    if (!copy) return NULL;
    copy->implicit = true;
    tp_view_reshape(copy->view, ndim, shape, &view, dims); /* row-major: cannot fail */
    return view_node(TP_OP_RESHAPE, copy, &view, ndim, shape);
}

tp_tensor *tp_reshape(tp_tensor *x, int ndim, const int64_t *shape)
{
    return reshape(x, ndim, shape, "reshape", true);
}

tp_tensor *tp_view_as(tp_tensor *x, int ndim, const int64_t *shape)
{
    return reshape(x, ndim, shape, "view_as", false);
}

tp_tensor *tp_flatten(tp_tensor *x, int first, int last)
{
    if (!x) return NULL;
    if (x->view->ndim == 0) return reshape(x, 1, (int64_t[]){1}, "flatten", true);
    int from, to;
    if (tp_infer_axis(x->graph, "flatten", x->view, first, &from) != TP_OK) return NULL;
    if (tp_infer_axis(x->graph, "flatten", x->view, last, &to) != TP_OK) return NULL;
    if (from > to) {
        tp_graph_fail(x->graph, TP_E_ARGUMENT, "flatten", from,
                      "first axis %d comes after last axis %d", from, to);
        return NULL;
    }
    int64_t shape[TP_MAX_RANK];
    int ndim = 0;
    for (int d = 0; d < x->view->ndim; d++) {
        if (d > from && d <= to)
            shape[ndim - 1] *= x->view->shape[d]; /* numel is checked already */
        else
            shape[ndim++] = x->view->shape[d];
    }
    return reshape(x, ndim, shape, "flatten", true);
}

/* ---- Permutations ---------------------------------------------------------------------- */

static tp_tensor *permute(tp_tensor *x, const int *axes)
{
    int64_t attr[TP_MAX_RANK];
    for (int d = 0; d < x->view->ndim; d++) attr[d] = axes[d];
    tp_view view;
    tp_view_permute(x->view, axes, &view);
    return view_node(TP_OP_PERMUTE, x, &view, x->view->ndim, attr);
}

tp_tensor *tp_permute(tp_tensor *x, int ndim, const int64_t *axes)
{
    if (!x) return NULL;
    if (ndim != x->view->ndim || (ndim && !axes)) {
        char text[400];
        tp_view_print_shape(x->view, text, sizeof text);
        tp_graph_fail(x->graph, TP_E_ARGUMENT, "permute", -1, "%s needs %d axes, not %d", text,
                      x->view->ndim, ndim);
        return NULL;
    }
    int order[TP_MAX_RANK];
    uint32_t mask;
    if (tp_infer_axes(x->graph, "permute", x->view, ndim, axes, &mask) != TP_OK) return NULL;
    for (int d = 0; d < ndim; d++) order[d] = (int)(axes[d] < 0 ? axes[d] + ndim : axes[d]);
    return permute(x, order);
}

tp_tensor *tp_transpose(tp_tensor *x, int axis_a, int axis_b)
{
    if (!x) return NULL;
    int a, b, order[TP_MAX_RANK];
    if (tp_infer_axis(x->graph, "transpose", x->view, axis_a, &a) != TP_OK) return NULL;
    if (tp_infer_axis(x->graph, "transpose", x->view, axis_b, &b) != TP_OK) return NULL;
    for (int d = 0; d < x->view->ndim; d++) order[d] = d == a ? b : d == b ? a : d;
    return permute(x, order);
}

/* ---- Slices -------------------------------------------------------------------------------- */

tp_tensor *tp_slice(tp_tensor *x, int axis, int64_t start, int64_t stop, int64_t step)
{
    if (!x) return NULL;
    int dim;
    if (tp_infer_axis(x->graph, "slice", x->view, axis, &dim) != TP_OK) return NULL;
    tp_view view;
    if (!tp_view_slice(x->view, dim, start, stop, step, &view)) {
        tp_graph_fail(x->graph, TP_E_ARGUMENT, "slice", dim, "step is 0");
        return NULL;
    }
    return view_node(TP_OP_SLICE, x, &view, 4, (int64_t[]){dim, start, stop, step});
}

tp_tensor *tp_select(tp_tensor *x, int axis, int64_t index)
{
    if (!x) return NULL;
    int dim;
    if (tp_infer_axis(x->graph, "select", x->view, axis, &dim) != TP_OK) return NULL;
    int64_t size = x->view->shape[dim], wrapped = index < 0 ? index + size : index;
    if (wrapped < 0 || wrapped >= size) {
        char text[400];
        tp_view_print_shape(x->view, text, sizeof text);
        tp_graph_fail(x->graph, TP_E_BOUNDS, "select", dim,
                      "index %lld is outside dim %d of %s, size %lld", (long long)index, dim, text,
                      (long long)size);
        return NULL;
    }
    tp_view view;
    tp_view_select(x->view, dim, wrapped, &view);
    return view_node(TP_OP_SELECT, x, &view, 2, (int64_t[]){dim, wrapped});
}

tp_tensor *tp_flip(tp_tensor *x, int count, const int64_t *axes)
{
    if (!x) return NULL;
    uint32_t mask;
    if (tp_infer_axes(x->graph, "flip", x->view, count, axes, &mask) != TP_OK) return NULL;
    tp_view view, next;
    tp_view_copy(&view, x->view);
    int64_t attr[TP_MAX_RANK];
    int used = 0;
    for (int d = 0; d < x->view->ndim; d++) {
        if (!(mask >> d & 1U)) continue;
        tp_view_flip(&view, d, &next);
        tp_view_copy(&view, &next);
        attr[used++] = d;
    }
    return view_node(TP_OP_FLIP, x, &view, used, attr);
}

tp_tensor *tp_diagonal(tp_tensor *x, int64_t offset, int axis_a, int axis_b)
{
    if (!x) return NULL;
    int a, b;
    if (tp_infer_axis(x->graph, "diagonal", x->view, axis_a, &a) != TP_OK) return NULL;
    if (tp_infer_axis(x->graph, "diagonal", x->view, axis_b, &b) != TP_OK) return NULL;
    if (a == b) {
        tp_graph_fail(x->graph, TP_E_ARGUMENT, "diagonal", a, "axis %d is given twice", a);
        return NULL;
    }
    tp_view view;
    tp_view_diagonal(x->view, offset, a, b, &view);
    return view_node(TP_OP_DIAGONAL, x, &view, 3, (int64_t[]){offset, a, b});
}

tp_tensor *tp_build_windows(tp_tensor *x, int axis, int64_t size, int64_t step, int64_t dilation)
{
    int dim;
    int64_t span;
    if (!x || tp_infer_axis(x->graph, "windows", x->view, axis, &dim) != TP_OK) return NULL;
    if (size < 1 || step < 1 || dilation < 1 || x->view->ndim == TP_MAX_RANK) {
        tp_graph_fail(
            x->graph, TP_E_ARGUMENT, "windows", dim,
            "size %lld, step %lld and dilation %lld must be 1 or more, the rank %d below %d",
            (long long)size, (long long)step, (long long)dilation, x->view->ndim, TP_MAX_RANK);
        return NULL;
    }
    bool fits = !__builtin_mul_overflow(size - 1, dilation, &span) && span < x->view->shape[dim];
    if (!fits) {
        char text[400];
        tp_view_print_shape(x->view, text, sizeof text);
        tp_graph_fail(x->graph, TP_E_SHAPE, "windows", dim,
                      "a window of %lld elements, %lld apart, does not fit dim %d of %s, size %lld",
                      (long long)size, (long long)dilation, dim, text,
                      (long long)x->view->shape[dim]);
        return NULL;
    }
    tp_view view, checked;
    tp_view_windows(x->view, dim, size, step, dilation, &view);
    if (tp_infer_shape(x->graph, "windows", (tp_dtype)x->dtype, view.ndim, view.shape, &checked) !=
        TP_OK)
        return NULL;
    return view_node(TP_OP_WINDOWS, x, &view, 4, (int64_t[]){dim, size, step, dilation});
}

tp_tensor *tp_windows(tp_tensor *x, int axis, int64_t size, int64_t step)
{
    return tp_build_windows(x, axis, size, step, 1);
}

/* ---- Sizes of 1 ---------------------------------------------------------------------------------
 */

/* Target sizes of an expand with -1 kept; false with the error recorded. */
static bool expand_shape(tp_tensor *x, int ndim, const int64_t *wanted, int64_t *shape)
{
    int lead = ndim - x->view->ndim;
    char from[400];
    if (ndim > TP_MAX_RANK || lead < 0 || (ndim && !wanted)) {
        tp_view_print_shape(x->view, from, sizeof from);
        tp_graph_fail(x->graph, TP_E_SHAPE, "expand", -1, "%s cannot become rank %d", from, ndim);
        return false;
    }
    for (int d = 0; d < ndim; d++) {
        int64_t old = d >= lead ? x->view->shape[d - lead] : 1;
        shape[d] = wanted[d] == -1 && d >= lead ? old : wanted[d];
        if (shape[d] >= 0 && (old == 1 || old == shape[d])) continue;
        tp_view_print_shape(x->view, from, sizeof from);
        if (shape[d] < 0)
            tp_graph_fail(x->graph, TP_E_SHAPE, "expand", d, "%s: size %lld of dim %d is negative",
                          from, (long long)wanted[d], d);
        else
            tp_graph_fail(x->graph, TP_E_SHAPE, "expand", d,
                          "%s: dim %d has size %lld, not 1, and cannot become %lld", from, d - lead,
                          (long long)old, (long long)shape[d]);
        return false;
    }
    return true;
}

tp_tensor *tp_expand(tp_tensor *x, int ndim, const int64_t *wanted)
{
    int64_t shape[TP_MAX_RANK];
    tp_view view, checked;
    if (!x || !expand_shape(x, ndim, wanted, shape)) return NULL;
    if (tp_infer_shape(x->graph, "expand", (tp_dtype)x->dtype, ndim, shape, &checked) != TP_OK)
        return NULL;
    tp_view_expand(x->view, ndim, shape, &view);
    return view_node(TP_OP_EXPAND, x, &view, ndim, shape);
}

tp_tensor *tp_build_expand(tp_tensor *x, int ndim, const int64_t *shape)
{
    bool same = x && x->view->ndim == ndim;
    for (int d = 0; same && d < ndim; d++) same = x->view->shape[d] == shape[d];
    return same ? x : tp_expand(x, ndim, shape);
}

tp_tensor *tp_squeeze(tp_tensor *x, int axis)
{
    if (!x) return NULL;
    int dim;
    if (tp_infer_axis(x->graph, "squeeze", x->view, axis, &dim) != TP_OK) return NULL;
    if (x->view->shape[dim] != 1) {
        char text[400];
        tp_view_print_shape(x->view, text, sizeof text);
        tp_graph_fail(x->graph, TP_E_SHAPE, "squeeze", dim, "dim %d of %s has size %lld, not 1",
                      dim, text, (long long)x->view->shape[dim]);
        return NULL;
    }
    tp_view view;
    tp_view_squeeze(x->view, dim, &view);
    return view_node(TP_OP_SQUEEZE, x, &view, 1, (int64_t[]){dim});
}

tp_tensor *tp_unsqueeze(tp_tensor *x, int axis)
{
    if (!x) return NULL;
    int rank = x->view->ndim, dim = axis < 0 ? axis + rank + 1 : axis;
    if (dim < 0 || dim > rank || rank == TP_MAX_RANK) {
        tp_graph_fail(x->graph, TP_E_ARGUMENT, "unsqueeze", -1,
                      "axis %d is outside [%d, %d], rank %d of at most %d", axis, -(rank + 1), rank,
                      rank, TP_MAX_RANK);
        return NULL;
    }
    tp_view view;
    tp_view_unsqueeze(x->view, dim, &view);
    return view_node(TP_OP_UNSQUEEZE, x, &view, 1, (int64_t[]){dim});
}

/* ---- Other eyes on the storage
 * ---------------------------------------------------------------------- */

/* Bytes that x's base owns or borrows. */
static int64_t base_bytes(const tp_tensor *x)
{
    const tp_tensor *base = x->base;
    if (base->op == TP_OP_DATA) return tp_leaf_bytes(base);
    return tp_view_numel(base->view) * (int64_t)tp_dtype_size((tp_dtype)base->dtype);
}

tp_tensor *tp_as_strided(tp_tensor *x, int ndim, const int64_t *shape, const int64_t *strides,
                         int64_t offset)
{
    if (!x) return NULL;
    tp_view view;
    if (tp_infer_shape(x->graph, "as_strided", (tp_dtype)x->dtype, ndim, shape, &view) != TP_OK)
        return NULL;
    if (ndim && !strides) {
        tp_graph_fail(x->graph, TP_E_ARGUMENT, "as_strided", -1, "strides is NULL");
        return NULL;
    }
    if (tp_view_numel(&view) > 0) {
        for (int d = 0; d < ndim; d++) view.stride[d] = shape[d] == 1 ? view.stride[d] : strides[d];
        view.offset = offset;
        if (!tp_infer_bounds(x->graph, "as_strided", &view,
                             base_bytes(x) / (int64_t)tp_dtype_size((tp_dtype)x->dtype)))
            return NULL;
    }
    int64_t attr[2 * TP_MAX_RANK + 1];
    memcpy(attr, view.shape, (size_t)ndim * sizeof *attr);
    memcpy(attr + ndim, view.stride, (size_t)ndim * sizeof *attr);
    attr[2 * ndim] = view.offset;
    return view_node(TP_OP_AS_STRIDED, x, &view, 2 * ndim + 1, attr);
}

tp_tensor *tp_bitcast(tp_tensor *x, tp_dtype dtype)
{
    if (!x) return NULL;
    if ((unsigned)dtype >= TP_DTYPE_COUNT) {
        tp_graph_fail(x->graph, TP_E_ARGUMENT, "bitcast", -1, "%d is no dtype", (int)dtype);
        return NULL;
    }
    tp_view view;
    const char *why =
        tp_view_bitcast(x->view, tp_dtype_size((tp_dtype)x->dtype), tp_dtype_size(dtype), &view);
    const tp_storage *borrowed = x->base->storage;
    if (!why && borrowed && (uintptr_t)borrowed->data % tp_dtype_size(dtype))
        why = "the borrowed bytes are not aligned to it";
    if (why) {
        char text[800];
        tp_view_print(x->view, text, sizeof text);
        tp_graph_fail(x->graph, TP_E_SHAPE, "bitcast", -1, "%s %s to %s: %s",
                      tp_dtype_name((tp_dtype)x->dtype), text, tp_dtype_name(dtype), why);
        return NULL;
    }
    return tp_build_node(x->graph, TP_OP_BITCAST, dtype, 1, &x, &view, x->base, 0, NULL);
}
