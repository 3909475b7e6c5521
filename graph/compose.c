/* Functions that are put together from others: no node kind of their own, fused like anything
 * written out. */
#include "infer.h"

#include <math.h>

tp_tensor *tp_build_wide(tp_tensor *x)
{
    bool wide = !x || x->dtype == TP_F32 || x->dtype == TP_F64;
    return wide ? x : tp_cast(x, TP_F32);
}

tp_tensor *tp_build_narrow(tp_tensor *y, const tp_tensor *x)
{
    bool half = y && (x->dtype == TP_F16 || x->dtype == TP_BF16);
    return half ? tp_cast(y, (tp_dtype)x->dtype) : y;
}

bool tp_build_left_out(const tp_graph *graph, const tp_tensor *x)
{
    bool pending = graph->error.status != TP_OK && !graph->error_reported;
    return x || !pending;
}

tp_tensor *tp_build_fill(tp_tensor *x, const char *op, double value)
{
    if (!x) return NULL;
    tp_tensor *fill = tp_full(x->graph, (tp_dtype)x->dtype, 0, NULL, value);
    bool exact = fill && (tp_dtype_kind_of((tp_dtype)x->dtype) == TP_DTYPE_FLOAT ||
                          (double)fill->value[0].i == value ||
                          (x->dtype == TP_U64 && (double)(uint64_t)fill->value[0].i == value));
    if (fill && !exact)
        tp_graph_fail(x->graph, TP_E_DTYPE, op, -1, "%s cannot hold %g",
                      tp_dtype_name((tp_dtype)x->dtype), value);
    return exact ? fill : NULL;
}

/* ---- Elementwise --------------------------------------------------------------------- */

tp_tensor *tp_clamp(tp_tensor *x, tp_tensor *low, tp_tensor *high)
{
    return tp_minimum(tp_maximum(x, low), high);
}

tp_tensor *tp_lerp(tp_tensor *a, tp_tensor *b, tp_tensor *t)
{
    return tp_add(a, tp_mul(t, tp_sub(b, a)));
}

tp_tensor *tp_leaky_relu(tp_tensor *x, double slope)
{
    return tp_where(tp_greater(x, tp_num(x, 0)), x, tp_mul(x, tp_num(x, slope)));
}

tp_tensor *tp_masked_fill(tp_tensor *x, tp_tensor *mask, double value)
{
    return tp_where(mask, tp_build_fill(x, "masked_fill", value), x);
}

/* ---- Reductions -------------------------------------------------------------------------- */

/* 0 in x's own dtype. */
static tp_tensor *zero(tp_tensor *x)
{
    return x ? tp_full(x->graph, (tp_dtype)x->dtype, 0, NULL, 0) : NULL;
}

tp_tensor *tp_count_nonzero(tp_tensor *x, int count, const int64_t *axes, bool keepdims)
{
    return tp_sum(tp_not_equal(x, zero(x)), count, axes, keepdims);
}

tp_tensor *tp_any(tp_tensor *x, int count, const int64_t *axes, bool keepdims)
{
    tp_tensor *trues = tp_count_nonzero(x, count, axes, keepdims);
    return tp_not_equal(trues, zero(trues));
}

tp_tensor *tp_all(tp_tensor *x, int count, const int64_t *axes, bool keepdims)
{
    tp_tensor *falses = tp_sum(tp_equal(x, zero(x)), count, axes, keepdims);
    return tp_equal(falses, zero(falses));
}

/* Elements that make one result; false with the error recorded. */
static bool reduced_count(tp_tensor *x, const char *op, int count, const int64_t *axes, int64_t *n)
{
    uint32_t mask;
    if (tp_infer_axes(x->graph, op, x->view, count, axes, &mask) != TP_OK) return false;
    *n = 1;
    for (int d = 0; d < x->view->ndim; d++) *n *= mask >> d & 1U ? x->view->shape[d] : 1;
    return true;
}

/* In the dtype of the widened x. */
static tp_tensor *variance(tp_tensor *x, int count, const int64_t *axes, int64_t ddof,
                           bool keepdims)
{
    int64_t n;
    if (!x || !reduced_count(x, "var", count, axes, &n)) return NULL;
    /* The mean of integers is the quotient of their exact sum. */
    tp_tensor *wide = tp_build_wide(x), *mean = tp_mean(x, count, axes, true);
    bool half = x->dtype == TP_F16 || x->dtype == TP_BF16;
    if (half) mean = tp_mean(wide, count, axes, true);
    tp_tensor *away = tp_sub(wide, mean);
    tp_tensor *sum = tp_sum(tp_square(away), count, axes, keepdims);
    return tp_div(sum, tp_num(sum, n > ddof ? (double)(n - ddof) : (double)NAN));
}

tp_tensor *tp_var(tp_tensor *x, int count, const int64_t *axes, int64_t ddof, bool keepdims)
{
    return tp_build_narrow(variance(x, count, axes, ddof, keepdims), x);
}

tp_tensor *tp_std(tp_tensor *x, int count, const int64_t *axes, int64_t ddof, bool keepdims)
{
    return tp_build_narrow(tp_sqrt(variance(x, count, axes, ddof, keepdims)), x);
}

tp_tensor *tp_logsumexp(tp_tensor *x, int count, const int64_t *axes, bool keepdims)
{
    tp_tensor *wide = tp_build_wide(x), *max = tp_max(wide, count, axes, true);
    /* Taking out an infinite maximum would make NaN of inf - inf. */
    tp_tensor *shift = tp_where(tp_isfinite(max), max, zero(max));
    tp_tensor *sum = tp_log(tp_sum(tp_exp(tp_sub(wide, shift)), count, axes, keepdims));
    if (!sum || !shift) return NULL;
    return tp_build_narrow(tp_add(sum, tp_reshape(shift, sum->view->ndim, sum->view->shape)), x);
}

tp_tensor *tp_norm(tp_tensor *x, int count, const int64_t *axes, double p, bool keepdims)
{
    if (!x) return NULL;
    tp_tensor *wide = tp_build_wide(x);
    if (p == 1) return tp_build_narrow(tp_sum(tp_abs(wide), count, axes, keepdims), x);
    if (p == 2) return tp_build_narrow(tp_sqrt(tp_sum(tp_square(wide), count, axes, keepdims)), x);
    if (p == INFINITY) return tp_build_narrow(tp_max(tp_abs(wide), count, axes, keepdims), x);
    tp_graph_fail(x->graph, TP_E_ARGUMENT, "norm", -1, "p is %g: 1, 2 and infinity are known", p);
    return NULL;
}
