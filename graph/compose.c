/* Functions that are put together from others: no node kind of their own, fused like anything
 * written out. */
#include "infer.h"

#include <math.h>

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

/* f16 and bf16 are put together in f32 and rounded once: their sums of squares and
 * exponentials would overflow. */
static tp_tensor *widened(tp_tensor *x)
{
    bool half = x && (x->dtype == TP_F16 || x->dtype == TP_BF16);
    return half ? tp_cast(x, TP_F32) : x;
}

/* y back in x's dtype if that is f16 or bf16. */
static tp_tensor *narrowed(tp_tensor *y, const tp_tensor *x)
{
    bool half = y && (x->dtype == TP_F16 || x->dtype == TP_BF16);
    return half ? tp_cast(y, (tp_dtype)x->dtype) : y;
}

/* Elements that make one result; false with the error recorded. */
static bool reduced_count(tp_tensor *x, const char *op, int count, const int64_t *axes, int64_t *n)
{
    uint32_t mask;
    if (tp_infer_axes(x->graph, op, &x->view, count, axes, &mask) != TP_OK) return false;
    *n = 1;
    for (int d = 0; d < x->view.ndim; d++) *n *= mask >> d & 1U ? x->view.shape[d] : 1;
    return true;
}

/* In the dtype of the widened x. */
static tp_tensor *variance(tp_tensor *x, int count, const int64_t *axes, int64_t ddof,
                           bool keepdims)
{
    int64_t n;
    if (!x || !reduced_count(x, "var", count, axes, &n)) return NULL;
    tp_tensor *wide = widened(x);
    tp_tensor *away = tp_sub(wide, tp_mean(wide, count, axes, true));
    tp_tensor *sum = tp_sum(tp_square(away), count, axes, keepdims);
    return tp_div(sum, tp_num(sum, n > ddof ? (double)(n - ddof) : (double)NAN));
}

tp_tensor *tp_var(tp_tensor *x, int count, const int64_t *axes, int64_t ddof, bool keepdims)
{
    return narrowed(variance(x, count, axes, ddof, keepdims), x);
}

tp_tensor *tp_std(tp_tensor *x, int count, const int64_t *axes, int64_t ddof, bool keepdims)
{
    return narrowed(tp_sqrt(variance(x, count, axes, ddof, keepdims)), x);
}

tp_tensor *tp_logsumexp(tp_tensor *x, int count, const int64_t *axes, bool keepdims)
{
    tp_tensor *wide = widened(x), *max = tp_max(wide, count, axes, true);
    /* Taking out an infinite maximum would make NaN of inf - inf. */
    tp_tensor *shift = tp_where(tp_isfinite(max), max, zero(max));
    tp_tensor *sum = tp_log(tp_sum(tp_exp(tp_sub(wide, shift)), count, axes, keepdims));
    if (!sum || !shift) return NULL;
    return narrowed(tp_add(sum, tp_reshape(shift, sum->view.ndim, sum->view.shape)), x);
}

tp_tensor *tp_norm(tp_tensor *x, int count, const int64_t *axes, double p, bool keepdims)
{
    if (!x) return NULL;
    tp_tensor *wide = widened(x);
    if (p == 1) return narrowed(tp_sum(tp_abs(wide), count, axes, keepdims), x);
    if (p == 2) return narrowed(tp_sqrt(tp_sum(tp_square(wide), count, axes, keepdims)), x);
    if (p == INFINITY) return narrowed(tp_max(tp_abs(wide), count, axes, keepdims), x);
    tp_graph_fail(x->graph, TP_E_ARGUMENT, "norm", -1, "p is %g: 1, 2 and infinity are known", p);
    return NULL;
}

/* ---- Products -------------------------------------------------------------------------------- */

tp_tensor *tp_linear(tp_tensor *x, tp_tensor *w, tp_tensor *b)
{
    if (!x || !w) return NULL;
    bool pending = x->graph->error.status != TP_OK && !x->graph->error_reported;
    if (!b && pending) return NULL; /* it failed to build; it was not left out */
    if (w->view.ndim != 2) {
        char text[400];
        tp_view_print_shape(&w->view, text, sizeof text);
        tp_graph_fail(x->graph, TP_E_SHAPE, "linear", -1, "w is %s, [out, in] is needed", text);
        return NULL;
    }
    tp_tensor *y = tp_matmul(x, tp_transpose(w, 0, 1));
    return b ? tp_add(y, b) : y;
}

tp_tensor *tp_outer(tp_tensor *a, tp_tensor *b)
{
    if (!a || !b) return NULL;
    if (a->view.ndim != 1 || b->view.ndim != 1) {
        tp_graph_fail(a->graph, TP_E_SHAPE, "outer", -1,
                      "the operands have %d and %d dims, 1 each is needed", a->view.ndim,
                      b->view.ndim);
        return NULL;
    }
    return tp_mul(tp_unsqueeze(a, 1), b);
}
