/* Merging views: the complete reshape rule, the two-stage merge and the inverse.
 *
 * reshape: a descriptor's canonical blocks are filled with the new sizes from the inside; a
 * new dim that straddles two blocks is not affine, so the rule is complete (iff).
 * compose: with blocks (B_j, t_j) of `lower` and W_j = product of B_l for l > j, element L of
 * its row-major order lies at offset + sum_j c_j floor(L / W_j), c_j = t_j - B_{j+1} t_{j+1}.
 * Along `upper`, L is affine; floor(L / W_j) is affine on the box iff, with the slopes that
 * single steps force, the remainder never leaves [0, W_j). Extremes of an affine function lie
 * at corners, so each term is tested exactly; terms that cancel each other are caught, for
 * small views, by trying every point. */
#include "graph.h"

#define PROBE_ELEMENTS 4096

/* ---- Reshape --------------------------------------------------------------------- */

/* Two neighbouring dims of v (outer, inner) around a boundary of canonical blocks: those whose
 * element counts from the inside are `inner_count` and more. */
static void blame(const tp_view *v, int64_t inner_count, int dims[2])
{
    int64_t count = 1;
    int inner = -1;
    dims[0] = dims[1] = -1;
    for (int d = v->ndim - 1; d >= 0; d--) {
        if (v->shape[d] == 1) continue;
        if (count >= inner_count && inner >= 0) {
            dims[0] = d;
            dims[1] = inner;
            return;
        }
        inner = d;
        count *= v->shape[d];
    }
    dims[0] = dims[1] = inner;
}

bool tp_view_reshape(const tp_view *v, int ndim, const int64_t *shape, tp_view *y, int dims[2])
{
    dims[0] = dims[1] = -1;
    tp_view result;
    tp_view_set_row_major(&result, ndim, shape);
    int64_t numel = tp_view_numel(v);
    if (tp_view_numel(&result) != numel) return false;
    if (numel != 0) {
        tp_view canon;
        tp_view_set_canon(&canon, v);
        int j = ndim - 1;
        int64_t inner_count = 1;
        for (int b = canon.ndim - 1; b >= 0; b--) {
            int64_t filled = 1;
            inner_count *= canon.shape[b];
            while (filled < canon.shape[b]) {
                if (j < 0 || canon.shape[b] / filled % shape[j] != 0) {
                    blame(v, inner_count, dims);
                    return false;
                }
                if (shape[j] != 1) {
                    result.stride[j] = filled * canon.stride[b];
                    filled *= shape[j];
                }
                j--;
            }
        }
        result.offset = v->offset;
    }
    tp_view_copy(y, &result);
    return true;
}

/* ---- The two-stage merge ------------------------------------------------------------- */

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return q - (a % b < 0);
}

/* Address of row-major element `at` of v. */
static int64_t address(const tp_view *v, int64_t at)
{
    int64_t a = v->offset;
    for (int d = v->ndim - 1; d >= 0; d--) {
        if (v->shape[d] > 1) a += at % v->shape[d] * v->stride[d];
        at /= v->shape[d];
    }
    return a;
}

/* Small views: the strides that single steps force, then every point. */
static bool probe(const tp_view *lower, const tp_view *upper, tp_view *y)
{
    tp_view result;
    tp_view_set_row_major(&result, upper->ndim, upper->shape);
    result.offset = address(lower, upper->offset);
    for (int d = 0; d < upper->ndim; d++) {
        if (upper->shape[d] > 1)
            result.stride[d] = address(lower, upper->offset + upper->stride[d]) - result.offset;
    }
    int64_t numel = tp_view_numel(upper);
    for (int64_t i = 0; i < numel; i++) {
        if (address(lower, address(upper, i)) != address(&result, i)) return false;
    }
    tp_view_copy(y, &result);
    return true;
}

/* Adds the term c floor(L / width) to y, if it is affine along upper. */
static bool add_term(const tp_view *upper, int64_t width, int64_t c, tp_view *y)
{
    int64_t q = floor_div(upper->offset, width), low = upper->offset - width * q, high = low;
    y->offset += c * q;
    for (int d = 0; d < upper->ndim; d++) {
        if (upper->shape[d] == 1) continue;
        int64_t slope = floor_div(upper->offset + upper->stride[d], width) - q;
        int64_t rest = upper->stride[d] - width * slope;
        y->stride[d] += c * slope;
        /* Wrapped around, an end might seem to lie inside. */
        int64_t span, *end = rest > 0 ? &high : &low;
        if (__builtin_mul_overflow(rest, upper->shape[d] - 1, &span) ||
            __builtin_add_overflow(*end, span, end))
            return false;
    }
    return low >= 0 && high < width;
}

bool tp_view_compose(const tp_view *lower, const tp_view *upper, tp_view *y, int dims[2])
{
    dims[0] = dims[1] = -1;
    tp_view result;
    tp_view_set_row_major(&result, upper->ndim, upper->shape);
    int64_t numel = tp_view_numel(upper);
    if (numel == 0) {
        tp_view_copy(y, &result);
        return true;
    }
    if (tp_view_is_contiguous(lower)) { /* a shift */
        tp_view_copy(&result, upper);
        result.offset += lower->offset;
        tp_view_copy(y, &result);
        return true;
    }
    tp_view canon;
    tp_view_set_canon(&canon, lower);
    for (int d = 0; d < upper->ndim; d++) result.stride[d] = 0;
    result.offset = lower->offset;
    int64_t width = 1, inner = 0; /* inner: B_{j+1} t_{j+1} of the block inside */
    for (int b = canon.ndim - 1; b >= 0; b--) {
        if (!add_term(upper, width, canon.stride[b] - inner, &result)) {
            blame(lower, width, dims);
            return numel <= PROBE_ELEMENTS && probe(lower, upper, y);
        }
        inner = canon.shape[b] * canon.stride[b];
        width *= canon.shape[b];
    }
    tp_view_normalize(&result);
    tp_view_copy(y, &result);
    return true;
}

/* ---- The inverse ------------------------------------------------------------------------ */

bool tp_view_inverse(const tp_view *v, tp_view *w)
{
    int64_t low, high, numel = tp_view_numel(v);
    if (numel == 0) {
        *w = tp_view_row_major(v->ndim, v->shape);
        return true;
    }
    if (!tp_view_is_dense(v) || !tp_view_reach(v, &low, &high) || low != 0) return false;
    tp_view plain = tp_view_row_major(v->ndim, v->shape);
    tp_view result = {.ndim = 0};
    /* v's dims from the widest stride to the narrowest are the digits of a position; each counts
     * in v's row-major order by that dim's row-major stride, backwards if it is negative. */
    bool used[TP_MAX_RANK] = {false};
    for (int i = 0; i < v->ndim; i++) {
        int widest = -1;
        for (int d = 0; d < v->ndim; d++) {
            if (used[d] || v->shape[d] == 1) continue;
            int64_t s = v->stride[d] < 0 ? -v->stride[d] : v->stride[d];
            int64_t best = widest < 0              ? -1
                           : v->stride[widest] < 0 ? -v->stride[widest]
                                                   : v->stride[widest];
            if (s > best) widest = d;
        }
        if (widest < 0) break;
        used[widest] = true;
        bool backwards = v->stride[widest] < 0;
        result.shape[result.ndim] = v->shape[widest];
        result.stride[result.ndim++] = backwards ? -plain.stride[widest] : plain.stride[widest];
        if (backwards) result.offset += (v->shape[widest] - 1) * plain.stride[widest];
    }
    tp_view_copy(w, &result);
    return true;
}
