/* What networks are made of, put together from operations: fused and folded like anything written
 * out. f16 and bf16 calculate in f32 and round once. */
#include "infer.h"

#include <math.h>

tp_tensor *tp_linear(tp_tensor *x, tp_tensor *w, tp_tensor *b)
{
    if (!x || !w) return NULL;
    if (!tp_build_left_out(x->graph, b)) return NULL;
    if (w->view->ndim != 2) {
        char text[400];
        tp_view_print_shape(w->view, text, sizeof text);
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
    if (x && tp_numel(x) == 0) return tp_softmax(x, axis); /* nothing either way */
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
    if (axes < 1 || axes > x->view->ndim) {
        tp_graph_fail(x->graph, TP_E_ARGUMENT, "rms_norm", -1, "%d axes is outside [1, %d]", axes,
                      x->view->ndim);
        return NULL;
    }
    if (weight && !tp_build_norm_operand_ok("rms_norm", x, axes, weight, "weight")) return NULL;
    int64_t last[TP_MAX_RANK];
    for (int i = 0; i < axes; i++) last[i] = x->view->ndim - axes + i;
    tp_tensor *wide = tp_build_wide(x), *mean = tp_mean(tp_square(wide), axes, last, true);
    tp_tensor *y = tp_div(wide, tp_sqrt(tp_add(mean, tp_num(mean, eps))));
    return tp_build_narrow(weight ? tp_mul(y, weight) : y, x);
}

/* A value per channel (dim 1) of x, so that it broadcasts with x. */
static tp_tensor *per_channel(const tp_tensor *x, tp_tensor *value, const char *what)
{
    if (!value) return NULL;
    int64_t channels = x->view->shape[1], shape[TP_MAX_RANK];
    if (value->view->ndim != 1 || value->view->shape[0] != channels) {
        char of_x[400], of_value[400];
        tp_view_print_shape(x->view, of_x, sizeof of_x);
        tp_view_print_shape(value->view, of_value, sizeof of_value);
        tp_graph_fail(x->graph, TP_E_SHAPE, "batch_norm", 1,
                      "x is %s, %s is %s: it must be [%lld], a value for each index of dim 1", of_x,
                      what, of_value, (long long)channels);
        return NULL;
    }
    for (int d = 1; d < x->view->ndim; d++) shape[d - 1] = d == 1 ? channels : 1;
    return tp_reshape(value, x->view->ndim - 1, shape);
}

tp_tensor *tp_batch_norm(tp_tensor *x, tp_tensor *mean, tp_tensor *var, tp_tensor *weight,
                         tp_tensor *bias, double eps)
{
    tp_tensor *in[] = {x, mean, var};
    if (!tp_build_operands_ok("batch_norm", 3, in)) return NULL;
    if (!tp_build_left_out(x->graph, weight) || !tp_build_left_out(x->graph, bias)) return NULL;
    if (x->view->ndim < 2) {
        char text[400];
        tp_view_print_shape(x->view, text, sizeof text);
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

/* ---- Attention ---------------------------------------------------------------------------------
 */

static tp_status fail_attention(const tp_tensor *q, const tp_tensor *k, const tp_tensor *v,
                                const char *what)
{
    char a[400], b[400], c[400];
    tp_view_print_shape(q->view, a, sizeof a);
    tp_view_print_shape(k->view, b, sizeof b);
    tp_view_print_shape(v->view, c, sizeof c);
    return tp_graph_fail(q->graph, TP_E_SHAPE, "attention", -1, "q is %s, k is %s, v is %s: %s", a,
                         b, c, what);
}

/* How many heads of q share one of k and v. */
static tp_status check_attention(const tp_tensor *q, const tp_tensor *k, const tp_tensor *v,
                                 int64_t *shared)
{
    int rank = q->view->ndim;
    if (rank < 2 || k->view->ndim != rank || v->view->ndim != rank)
        return fail_attention(q, k, v, "equal ranks of 2 or more are needed");
    const int64_t *sq = q->view->shape, *sk = k->view->shape, *sv = v->view->shape;
    if (sq[rank - 1] != sk[rank - 1])
        return fail_attention(q, k, v, "the last dims of q and k differ");
    if (sk[rank - 2] != sv[rank - 2])
        return fail_attention(q, k, v, "k and v have different numbers of keys");
    for (int d = 0; d < rank - 2; d++) {
        if (sk[d] != sv[d]) return fail_attention(q, k, v, "leading dims of k and v differ");
        if (sq[d] == sk[d]) continue;
        if (d != rank - 3) return fail_attention(q, k, v, "leading dims of q and k differ");
        if (sk[d] == 0 || sq[d] % sk[d])
            return fail_attention(q, k, v, "the heads of q are no multiple of those of k");
        *shared = sq[d] / sk[d];
    }
    return TP_OK;
}

/* [.., heads, rows, cols] as [.., groups, heads / groups, rows, cols]. */
static tp_tensor *group_heads(tp_tensor *x, int64_t groups)
{
    int rank = x->view->ndim;
    int64_t shape[TP_MAX_RANK + 1];
    for (int d = 0; d < rank; d++) shape[d + (d > rank - 3)] = x->view->shape[d];
    shape[rank - 3] = groups;
    shape[rank - 2] = x->view->shape[rank - 3] / groups;
    return tp_reshape(x, rank + 1, shape);
}

/* A mask over heads as one over groups of them. */
static tp_tensor *group_mask(tp_tensor *mask, int64_t groups, int64_t heads)
{
    if (!mask || mask->view->ndim < 3) return mask;
    return mask->view->shape[mask->view->ndim - 3] == heads ? group_heads(mask, groups)
                                                            : tp_unsqueeze(mask, -3);
}

static tp_tensor *apply_mask(tp_tensor *scores, tp_tensor *mask, bool causal)
{
    if (!scores) return NULL;
    if (mask && mask->dtype == TP_BOOL)
        scores = tp_where(mask, scores, tp_num(scores, -INFINITY));
    else if (mask)
        scores = tp_add(scores, mask);
    if (!causal || !scores) return scores;
    int rank = scores->view->ndim;
    int64_t rows = scores->view->shape[rank - 2], cols = scores->view->shape[rank - 1];
    tp_tensor *last = tp_arange(scores->graph, TP_I64, (double)(cols - rows), 1, rows);
    tp_tensor *seen =
        tp_less_equal(tp_arange(scores->graph, TP_I64, 0, 1, cols), tp_unsqueeze(last, 1));
    return tp_where(seen, scores, tp_num(scores, -INFINITY));
}

tp_tensor *tp_attention(tp_tensor *q, tp_tensor *k, tp_tensor *v, tp_tensor *mask, double scale,
                        bool causal)
{
    int64_t shared = 1;
    if (!tp_build_operands_ok("attention", 3, (tp_tensor *[]){q, k, v})) return NULL;
    if (!tp_build_left_out(q->graph, mask)) return NULL;
    if (mask && !tp_build_operands_ok("attention", 2, (tp_tensor *[]){q, mask})) return NULL;
    if (check_attention(q, k, v, &shared) != TP_OK) return NULL;
    int rank = q->view->ndim;
    int64_t heads = rank > 2 ? q->view->shape[rank - 3] : 1, width = q->view->shape[rank - 1];
    if (shared > 1) { /* heads of one group read the same k and v: batch stride 0 */
        int64_t groups = heads / shared;
        q = group_heads(q, groups);
        k = tp_unsqueeze(k, rank - 2);
        v = tp_unsqueeze(v, rank - 2);
        bool given = mask != NULL;
        mask = group_mask(mask, groups, heads);
        if (given && !mask) return NULL;
    }
    tp_tensor *scores = tp_matmul(q, tp_transpose(k, -2, -1));
    if (scale == 0) scale = width ? 1 / sqrt((double)width) : 1;
    scores = apply_mask(tp_mul(scores, tp_num(scores, scale)), mask, causal);
    tp_tensor *y = tp_matmul(tp_build_softmax(scores, -1, true), v);
    if (!y || shared == 1) return y;
    int64_t shape[TP_MAX_RANK];
    for (int d = 0; d < rank; d++) shape[d] = y->view->shape[d + (d > rank - 3)];
    shape[rank - 3] = heads;
    return tp_reshape(y, rank, shape);
}

/* ---- Convolution --------------------------------------------------------------------------------
 */

static tp_status check_conv(const tp_tensor *x, const tp_tensor *w, const tp_tensor *bias,
                            const tp_conv *how)
{
    char a[400], b[400];
    const int64_t *sx = x->view->shape, *sw = w->view->shape;
    tp_view_print_shape(x->view, a, sizeof a);
    tp_view_print_shape(w->view, b, sizeof b);
    if (x->view->ndim != 4 || w->view->ndim != 4)
        return tp_graph_fail(x->graph, TP_E_SHAPE, "conv2d", -1,
                             "x is %s, w is %s: [batch, in, height, width] and [out, in / groups, "
                             "height, width] are needed",
                             a, b);
    if (how->groups < 1 || sw[0] % how->groups || sx[1] % how->groups ||
        sx[1] / how->groups != sw[1])
        return tp_graph_fail(
            x->graph, TP_E_SHAPE, "conv2d", 1,
            "x is %s, w is %s: dim 1 of x is %lld, dim 1 of w is %lld, in %lld groups", a, b,
            (long long)sx[1], (long long)sw[1], (long long)how->groups);
    if (!bias || (bias->view->ndim == 1 && bias->view->shape[0] == sw[0])) return TP_OK;
    tp_view_print_shape(bias->view, a, sizeof a);
    return tp_graph_fail(x->graph, TP_E_SHAPE, "conv2d", -1,
                         "w is %s, bias is %s: [%lld] is needed", b, a, (long long)sw[0]);
}

/* [batch, in, height, width, kernel height, kernel width]: what the kernel sees at each place. */
static tp_tensor *places(tp_tensor *x, const tp_tensor *w, const tp_conv *how)
{
    const int64_t *p = how->padding;
    if (p[0] || p[1]) x = tp_pad(x, TP_DIMS(0, 0, 0, 0, p[0], p[0], p[1], p[1]), 0);
    for (int d = 0; d < 2; d++)
        x = tp_build_windows(x, 2 + d, w->view->shape[2 + d], how->stride[d], how->dilation[d]);
    return x;
}

tp_tensor *tp_conv2d(tp_tensor *x, tp_tensor *w, tp_tensor *bias, const tp_conv *given)
{
    tp_conv how = given ? *given : (tp_conv){0};
    for (int d = 0; d < 2; d++) {
        how.stride[d] += how.stride[d] == 0;
        how.dilation[d] += how.dilation[d] == 0;
    }
    how.groups += how.groups == 0;
    if (!tp_build_operands_ok("conv2d", 2, (tp_tensor *[]){x, w})) return NULL;
    if (!tp_build_left_out(x->graph, bias) || check_conv(x, w, bias, &how) != TP_OK) return NULL;
    tp_tensor *seen = tp_permute(places(x, w, &how), TP_DIMS(0, 1, 4, 5, 2, 3));
    if (!seen) return NULL;
    const int64_t *s = seen->view->shape;
    int64_t out = w->view->shape[0], depth = s[1] / how.groups * s[2] * s[3];
    tp_tensor *columns = tp_reshape(seen, TP_DIMS(s[0], how.groups, depth, s[4] * s[5]));
    tp_tensor *rows = tp_reshape(w, TP_DIMS(how.groups, out / how.groups, depth));
    tp_tensor *y = tp_reshape(tp_matmul(rows, columns), TP_DIMS(s[0], out, s[4], s[5]));
    return bias ? tp_add(y, tp_reshape(bias, TP_DIMS(out, 1, 1))) : y;
}
