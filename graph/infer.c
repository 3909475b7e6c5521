/* Shape and dtype rules: where shape errors are born. Each function answers a status and,
 * on failure, leaves one sentence in the graph. */
#include "infer.h"

#include <string.h>

/* bool and integers -> f32. */
static tp_dtype to_float(tp_dtype dtype)
{
    return tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT ? dtype : TP_F32;
}

/* The type in which a comparison changes no value; mixes with a 64-bit integer that have
 * none are taken apart in compare.c before they get here. */
static tp_dtype compare_dtype(tp_dtype a, tp_dtype b, tp_dtype promoted)
{
    bool float_a = tp_dtype_kind_of(a) == TP_DTYPE_FLOAT,
         float_b = tp_dtype_kind_of(b) == TP_DTYPE_FLOAT;
    if (float_a == float_b) return promoted;
    tp_dtype number = float_a ? b : a;
    if (tp_dtype_size(number) >= 4) return TP_F64;
    return promoted == TP_F64 ? TP_F64 : TP_F32;
}

static tp_dtype widest(tp_dtype dtype)
{
    switch (tp_dtype_kind_of(dtype)) {
    case TP_DTYPE_UINT:
        return TP_U64;
    case TP_DTYPE_FLOAT:
        return dtype;
    default:
        return TP_I64;
    }
}

/* Operations on bits take no floats; those on the bits of numbers no bool either. */
static tp_status refuse_others(tp_graph *graph, const tp_op_info *info, int count,
                               const tp_dtype *in, tp_dtype common)
{
    tp_dtype_kind kind = tp_dtype_kind_of(common);
    if (kind != TP_DTYPE_FLOAT && (info->rule == TP_RULE_BITS || kind != TP_DTYPE_BOOL))
        return TP_OK;
    const char *last = tp_dtype_name(in[count - 1]);
    if (count == 1)
        return tp_graph_fail(graph, TP_E_DTYPE, info->name, -1,
                             "the operand is %s, an integer type is needed", last);
    return tp_graph_fail(graph, TP_E_DTYPE, info->name, -1,
                         "the operands are %s and %s, an integer type is needed",
                         tp_dtype_name(in[0]), last);
}

tp_status tp_infer_dtype(tp_graph *graph, tp_op op, int count, const tp_dtype *in, tp_dtype *result,
                         tp_dtype *calc)
{
    const tp_op_info *info = tp_op_info_of(op);
    int first = info->rule == TP_RULE_SELECT ? 1 : 0;
    tp_dtype common = in[first];
    if (count - first == 2 && info->rule != TP_RULE_BOOL &&
        !tp_dtype_promote(in[first], in[first + 1], &common)) {
        return tp_graph_fail(graph, TP_E_DTYPE, info->name, -1,
                             "no integer type holds both %s and %s: cast one operand",
                             tp_dtype_name(in[first]), tp_dtype_name(in[first + 1]));
    }
    *calc = common;
    switch (info->rule) {
    case TP_RULE_ARITH:
        *calc = common == TP_BOOL ? TP_I64 : common;
        break;
    case TP_RULE_FLOAT:
        *calc = to_float(common);
        break;
    case TP_RULE_BITS:
    case TP_RULE_WHOLE:
        TRY(refuse_others(graph, info, count, in, common));
        break;
    case TP_RULE_BOOL:
        *calc = TP_BOOL;
        break;
    case TP_RULE_COMPARE:
        *calc = compare_dtype(in[0], in[1], common);
        break;
    case TP_RULE_SUM:
    case TP_RULE_MEAN:
        *calc = widest(common);
        break;
    case TP_RULE_KEEP:
    case TP_RULE_TEST:
    case TP_RULE_SELECT:
    case TP_RULE_INDEX:
        break;
    }
    *result = *calc;
    if (info->rule == TP_RULE_COMPARE || info->rule == TP_RULE_TEST) *result = TP_BOOL;
    if (info->rule == TP_RULE_INDEX) *result = TP_I64;
    if (info->rule == TP_RULE_MEAN) *result = to_float(common);
    return TP_OK;
}

tp_status tp_infer_shape(tp_graph *graph, const char *op, tp_dtype dtype, int ndim,
                         const int64_t *shape, tp_view *view)
{
    if ((unsigned)dtype >= TP_DTYPE_COUNT)
        return tp_graph_fail(graph, TP_E_ARGUMENT, op, -1, "%d is no dtype", (int)dtype);
    if (ndim < 0 || ndim > TP_MAX_RANK)
        return tp_graph_fail(graph, TP_E_SHAPE, op, -1, "rank %d is outside 0 to %d", ndim,
                             TP_MAX_RANK);
    if (ndim && !shape) return tp_graph_fail(graph, TP_E_ARGUMENT, op, -1, "shape is NULL");
    for (int d = 0; d < ndim; d++) {
        if (shape[d] < 0)
            return tp_graph_fail(graph, TP_E_SHAPE, op, d, "size %lld of dim %d is negative",
                                 (long long)shape[d], d);
    }
    tp_view_set_row_major(view, ndim, shape);
    int64_t numel = tp_view_numel(view), bytes;
    bool fits = numel >= 0 && !__builtin_mul_overflow(numel, (int64_t)tp_dtype_size(dtype), &bytes);
    if (fits) return TP_OK;
    char text[400];
    tp_view_print_shape(view, text, sizeof text);
    if (numel < 0)
        return tp_graph_fail(graph, TP_E_SHAPE, op, -1, "%s has more than 2^63-1 elements", text);
    return tp_graph_fail(graph, TP_E_SHAPE, op, -1, "%s of %s has more than 2^63-1 bytes", text,
                         tp_dtype_name(dtype));
}

/* Widens *shape by one more operand's; false on a mismatch at dim *right from the right. */
static bool broadcast_one(tp_view *shape, const tp_view *x, int *right)
{
    int ndim = shape->ndim > x->ndim ? shape->ndim : x->ndim;
    int64_t wide[TP_MAX_RANK];
    for (int r = 1; r <= ndim; r++) {
        int64_t a = r <= shape->ndim ? shape->shape[shape->ndim - r] : 1;
        int64_t b = r <= x->ndim ? x->shape[x->ndim - r] : 1;
        if (a != b && a != 1 && b != 1) {
            *right = r;
            return false;
        }
        wide[ndim - r] = a == 1 ? b : a;
    }
    shape->ndim = ndim;
    for (int d = 0; d < ndim; d++) shape->shape[d] = wide[d];
    return true;
}

tp_status tp_infer_broadcast(tp_graph *graph, const char *op, int count, tp_tensor *const *in,
                             tp_view *shape)
{
    bool same = true;
    for (int i = 1; i < count; i++) same = same && tp_view_same_shape(in[0]->view, in[i]->view);
    if (same) {
        tp_view_set_row_major(shape, in[0]->view->ndim, in[0]->view->shape);
        return TP_OK;
    }
    tp_view wide;
    wide.ndim = 0;
    for (int i = 0; i < count; i++) {
        int right;
        if (broadcast_one(&wide, in[i]->view, &right)) continue;
        char a[400], b[400];
        tp_view_print_shape(&wide, a, sizeof a);
        tp_view_print_shape(in[i]->view, b, sizeof b);
        return tp_graph_fail(
            graph, TP_E_SHAPE, op, in[i]->view->ndim - right,
            "cannot broadcast %s with %s: dimension %d from the right is %lld against %lld", a, b,
            right, (long long)wide.shape[wide.ndim - right],
            (long long)in[i]->view->shape[in[i]->view->ndim - right]);
    }
    return tp_infer_shape(graph, op, TP_U8, wide.ndim, wide.shape, shape);
}

tp_status tp_infer_axis(tp_graph *graph, const char *op, const tp_view *x, int64_t axis,
                        int *result)
{
    int64_t wrapped = axis < 0 ? axis + x->ndim : axis;
    if (wrapped >= 0 && wrapped < x->ndim) {
        *result = (int)wrapped;
        return TP_OK;
    }
    char text[400];
    tp_view_print_shape(x, text, sizeof text);
    if (x->ndim == 0)
        return tp_graph_fail(graph, TP_E_ARGUMENT, op, -1, "axis %lld: a 0-d tensor has no axes",
                             (long long)axis);
    return tp_graph_fail(graph, TP_E_ARGUMENT, op, -1, "axis %lld is outside [%d, %d] of %s",
                         (long long)axis, -x->ndim, x->ndim - 1, text);
}

tp_status tp_infer_axes(tp_graph *graph, const char *op, const tp_view *x, int count,
                        const int64_t *axes, uint32_t *mask)
{
    if (count < 0) {
        *mask = (1U << x->ndim) - 1;
        return TP_OK;
    }
    *mask = 0;
    if (count && !axes) return tp_graph_fail(graph, TP_E_ARGUMENT, op, -1, "axes is NULL");
    for (int i = 0; i < count; i++) {
        int axis;
        TRY(tp_infer_axis(graph, op, x, axes[i], &axis));
        if (*mask & (1U << axis))
            return tp_graph_fail(graph, TP_E_ARGUMENT, op, axis, "axis %lld is given twice",
                                 (long long)axes[i]);
        *mask |= 1U << axis;
    }
    return TP_OK;
}

/* The size that -1 stands for; total is numel of the source. */
static tp_status infer_minus_one(tp_graph *graph, const tp_view *x, int ndim, int64_t *shape,
                                 int unknown, const char *op)
{
    int64_t total = tp_view_numel(x), others = 1;
    for (int d = 0; d < ndim; d++) {
        if (d != unknown && __builtin_mul_overflow(others, shape[d], &others)) others = INT64_MAX;
    }
    if (others != 0 && total % others == 0) {
        shape[unknown] = total / others;
        return TP_OK;
    }
    char from[400];
    tp_view_print_shape(x, from, sizeof from);
    if (others == 0)
        return tp_graph_fail(graph, TP_E_SHAPE, op, unknown,
                             "%s: -1 is ambiguous because the other sizes multiply to 0", from);
    return tp_graph_fail(
        graph, TP_E_SHAPE, op, unknown,
        "%s has %lld elements, which the other sizes' product %lld does not divide", from,
        (long long)total, (long long)others);
}

tp_status tp_infer_reshape(tp_graph *graph, const char *op, const tp_view *x, int ndim,
                           const int64_t *wanted, int64_t *shape)
{
    if (ndim < 0 || ndim > TP_MAX_RANK)
        return tp_graph_fail(graph, TP_E_SHAPE, op, -1, "rank %d is outside 0 to %d", ndim,
                             TP_MAX_RANK);
    if (ndim && !wanted) return tp_graph_fail(graph, TP_E_ARGUMENT, op, -1, "shape is NULL");
    int unknown = -1;
    for (int d = 0; d < ndim; d++) {
        shape[d] = wanted[d];
        if (wanted[d] < -1)
            return tp_graph_fail(graph, TP_E_SHAPE, op, d, "size %lld of dim %d is negative",
                                 (long long)wanted[d], d);
        if (wanted[d] != -1) continue;
        if (unknown >= 0)
            return tp_graph_fail(graph, TP_E_SHAPE, op, d, "-1 stands at dims %d and %d", unknown,
                                 d);
        unknown = d;
    }
    if (unknown >= 0) TRY(infer_minus_one(graph, x, ndim, shape, unknown, op));
    tp_view target;
    TRY(tp_infer_shape(graph, op, TP_U8, ndim, shape, &target));
    if (tp_view_numel(&target) == tp_view_numel(x)) return TP_OK;
    char from[400], to[400];
    tp_view_print_shape(x, from, sizeof from);
    tp_view_print_shape(&target, to, sizeof to);
    return tp_graph_fail(graph, TP_E_SHAPE, op, -1, "%s has %lld elements, %s has %lld", from,
                         (long long)tp_view_numel(x), to, (long long)tp_view_numel(&target));
}

/* The sentence about two operands of a product that differ in one dim each. */
static tp_status fail_matmul(tp_graph *graph, const tp_view *a, const tp_view *b, int da, int db)
{
    char left[400], right[400];
    tp_view_print_shape(a, left, sizeof left);
    tp_view_print_shape(b, right, sizeof right);
    if (a->ndim == 0 || b->ndim == 0) {
        return tp_graph_fail(graph, TP_E_SHAPE, "matmul", -1,
                             "a is %s, b is %s: 0-d operands have no matrix product", left, right);
    }
    return tp_graph_fail(graph, TP_E_SHAPE, "matmul", da,
                         "a is %s, b is %s: dim %d of a is %lld, dim %d of b is %lld", left, right,
                         da, (long long)a->shape[da], db, (long long)b->shape[db]);
}

/* The leading dims of an operand as a shape. */
static tp_view leading(const tp_view *x)
{
    return tp_view_row_major(x->ndim > 2 ? x->ndim - 2 : 0, x->shape);
}

tp_status tp_infer_matmul(tp_graph *graph, const tp_tensor *a, const tp_tensor *b)
{
    const tp_view *x = a->view, *y = b->view;
    int dx = x->ndim - 1, dy = y->ndim > 1 ? y->ndim - 2 : 0, right;
    if (dx < 0 || y->ndim == 0 || x->shape[dx] != y->shape[dy])
        return fail_matmul(graph, x, y, dx, dy);
    tp_view batch = leading(x), other = leading(y);
    if (broadcast_one(&batch, &other, &right)) return TP_OK;
    return fail_matmul(graph, x, y, x->ndim - 2 - right, y->ndim - 2 - right);
}

bool tp_infer_bounds(tp_graph *graph, const char *op, const tp_view *view, int64_t elements)
{
    if (tp_view_numel(view) == 0) return true;
    int64_t low, high;
    bool reached = tp_view_reach(view, &low, &high);
    if (reached && low >= 0 && high < elements) return true;
    char text[800];
    tp_view_print(view, text, sizeof text);
    if (!reached) {
        tp_graph_fail(graph, TP_E_BOUNDS, op, -1,
                      "%s reaches beyond 2^63-1, the storage has %lld elements", text,
                      (long long)elements);
        return false;
    }
    tp_graph_fail(graph, TP_E_BOUNDS, op, -1, "%s reaches element %lld, the storage has %lld", text,
                  (long long)(low < 0 ? low : high), (long long)elements);
    return false;
}
