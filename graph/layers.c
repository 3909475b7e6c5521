/* What networks are made of, put together from operations: fused and folded like anything written
 * out. f16 and bf16 calculate in f32 and round once. */
#include "infer.h"

tp_tensor *tp_linear(tp_tensor *x, tp_tensor *w, tp_tensor *b)
{
    if (!x || !w) return NULL;
    if (!tp_build_left_out(x->graph, b)) return NULL;
    if (w->view.ndim != 2) {
        char text[400];
        tp_view_print_shape(&w->view, text, sizeof text);
        tp_graph_fail(x->graph, TP_E_SHAPE, "linear", -1, "w is %s, [out, in] is needed", text);
        return NULL;
    }
    tp_tensor *y = tp_matmul(x, tp_transpose(w, 0, 1));
    return b ? tp_add(y, b) : y;
}

/* ---- Norms ---------------------------------------------------------------------------------- */

tp_tensor *tp_log_softmax(tp_tensor *x, int axis)
{
    int64_t axes[] = {axis};
    tp_tensor *wide = tp_build_wide(x), *max = tp_max(wide, 1, axes, true);
    if (!max) return NULL;
    /* Taking out an infinite maximum would make NaN of inf - inf. */
    tp_tensor *shift = tp_where(tp_isfinite(max), max, tp_num(max, 0));
    tp_tensor *below = tp_sub(wide, shift);
    tp_tensor *sum = tp_sum(tp_exp(below), 1, axes, true);
    return tp_build_narrow(tp_sub(below, tp_log(sum)), x);
}

tp_tensor *tp_rms_norm(tp_tensor *x, int axes, tp_tensor *weight, double eps)
{
    if (!x || !tp_build_left_out(x->graph, weight)) return NULL;
    if (axes < 1 || axes > x->view.ndim) {
        tp_graph_fail(x->graph, TP_E_ARGUMENT, "rms_norm", -1, "%d axes is outside [1, %d]", axes,
                      x->view.ndim);
        return NULL;
    }
    if (weight && !tp_build_norm_operand_ok("rms_norm", x, axes, weight, "weight")) return NULL;
    int64_t last[TP_MAX_RANK];
    for (int i = 0; i < axes; i++) last[i] = x->view.ndim - axes + i;
    tp_tensor *wide = tp_build_wide(x), *mean = tp_mean(tp_square(wide), axes, last, true);
    tp_tensor *y = tp_div(wide, tp_sqrt(tp_add(mean, tp_num(mean, eps))));
    return tp_build_narrow(weight ? tp_mul(y, weight) : y, x);
}

/* A value per channel (dim 1) of x, so that it broadcasts with x. */
static tp_tensor *per_channel(const tp_tensor *x, tp_tensor *value, const char *what)
{
    if (!value) return NULL;
    int64_t channels = x->view.shape[1], shape[TP_MAX_RANK];
    if (value->view.ndim != 1 || value->view.shape[0] != channels) {
        char of_x[400], of_value[400];
        tp_view_print_shape(&x->view, of_x, sizeof of_x);
        tp_view_print_shape(&value->view, of_value, sizeof of_value);
        tp_graph_fail(x->graph, TP_E_SHAPE, "batch_norm", 1,
                      "x is %s, %s is %s: it must be [%lld], a value for each index of dim 1", of_x,
                      what, of_value, (long long)channels);
        return NULL;
    }
    for (int d = 1; d < x->view.ndim; d++) shape[d - 1] = d == 1 ? channels : 1;
    return tp_reshape(value, x->view.ndim - 1, shape);
}

tp_tensor *tp_batch_norm(tp_tensor *x, tp_tensor *mean, tp_tensor *var, tp_tensor *weight,
                         tp_tensor *bias, double eps)
{
    tp_tensor *in[] = {x, mean, var};
    if (!tp_build_operands_ok("batch_norm", 3, in)) return NULL;
    if (!tp_build_left_out(x->graph, weight) || !tp_build_left_out(x->graph, bias)) return NULL;
    if (x->view.ndim < 2) {
        char text[400];
        tp_view_print_shape(&x->view, text, sizeof text);
        tp_graph_fail(x->graph, TP_E_SHAPE, "batch_norm", -1,
                      "x is %s, [batch, channels, ..] is needed", text);
        return NULL;
    }
    tp_tensor *wide = tp_build_wide(x);
    tp_tensor *scale = tp_build_wide(per_channel(x, var, "var"));
    scale = tp_rsqrt(tp_add(scale, tp_num(scale, eps)));
    if (weight) scale = tp_mul(scale, per_channel(x, weight, "weight"));
    tp_tensor *y = tp_mul(tp_sub(wide, per_channel(x, mean, "mean")), scale);
    if (bias) y = tp_add(y, per_channel(x, bias, "bias"));
    return tp_build_narrow(y, x);
}
