/* The view algebra: pure geometry on (shape, strides, offset). Source: the theorems are in
 * docs/ARCHITECTURE.md; tests/prop/test_view_algebra.c holds them against explicit address
 * tables. What always holds: the stride of a dim of size 1 is never read; empty views keep
 * offset 0; nothing overflows silently. */
#include "graph.h"

#include <string.h>

/* ---- Basics -------------------------------------------------------------------- */

/* Row-major strides; sizes of 0 count as 1. Wraps harmlessly where numel overflows. */
static void set_row_major(tp_view *v)
{
    uint64_t stride = 1;
    for (int d = v->ndim - 1; d >= 0; d--) {
        v->stride[d] = (int64_t)stride;
        stride *= v->shape[d] > 0 ? (uint64_t)v->shape[d] : 1;
    }
}

void tp_view_set_row_major(tp_view *v, int ndim, const int64_t *shape)
{
    v->ndim = ndim;
    v->offset = 0;
    for (int d = 0; d < ndim; d++) v->shape[d] = shape[d];
    set_row_major(v);
}

tp_view tp_view_row_major(int ndim, const int64_t *shape)
{
    tp_view v;
    tp_view_set_row_major(&v, ndim, shape);
    return v;
}

bool tp_view_is_plain(const tp_view *v)
{
    uint64_t stride = 1;
    if (v->offset != 0) return false;
    for (int d = v->ndim - 1; d >= 0; d--) {
        if (v->stride[d] != (int64_t)stride) return false;
        stride *= v->shape[d] > 0 ? (uint64_t)v->shape[d] : 1;
    }
    return true;
}

bool tp_view_same_shape(const tp_view *a, const tp_view *b)
{
    if (a == b) return true;
    if (a->ndim != b->ndim) return false;
    for (int d = 0; d < a->ndim; d++) {
        if (a->shape[d] != b->shape[d]) return false;
    }
    return true;
}

bool tp_view_identical(const tp_view *a, const tp_view *b)
{
    if (a == b) return true;
    if (a->offset != b->offset || !tp_view_same_shape(a, b)) return false;
    for (int d = 0; d < a->ndim; d++) {
        if (a->stride[d] != b->stride[d]) return false;
    }
    return true;
}

bool tp_view_equal(const tp_view *a, const tp_view *b)
{
    if (a == b) return true;
    if (!tp_view_same_shape(a, b)) return false;
    if (tp_view_numel(a) == 0) return true;
    for (int d = 0; d < a->ndim; d++) {
        if (a->shape[d] > 1 && a->stride[d] != b->stride[d]) return false;
    }
    return a->offset == b->offset;
}

void tp_view_set_canon(tp_view *c, const tp_view *v)
{
    c->ndim = 0;
    c->offset = v->offset;
    if (tp_view_numel(v) == 0) {
        c->ndim = 1;
        c->offset = c->shape[0] = 0;
        c->stride[0] = 1;
        return;
    }
    for (int d = 0; d < v->ndim; d++) {
        int64_t n = v->shape[d], s = v->stride[d], whole;
        if (n == 1) continue;
        if (c->ndim > 0 && !__builtin_mul_overflow(s, n, &whole) &&
            c->stride[c->ndim - 1] == whole) {
            c->shape[c->ndim - 1] *= n;
            c->stride[c->ndim - 1] = s;
            continue;
        }
        c->shape[c->ndim] = n;
        c->stride[c->ndim++] = s;
    }
}

tp_view tp_view_canon(const tp_view *v)
{
    tp_view c;
    tp_view_set_canon(&c, v);
    return c;
}

bool tp_view_is_contiguous(const tp_view *v)
{
    int64_t expected = 1;
    if (tp_view_numel(v) == 0) return true;
    for (int d = v->ndim - 1; d >= 0; d--) {
        if (v->shape[d] == 1) continue;
        if (v->stride[d] != expected) return false;
        expected *= v->shape[d];
    }
    return true;
}

bool tp_view_is_row_major(const tp_view *v)
{
    return tp_view_is_contiguous(v) && (v->offset == 0 || tp_view_numel(v) == 0);
}

/* ---- Reach and overlap --------------------------------------------------------------- */

static uint64_t magnitude(int64_t x)
{
    return x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
}

/* Dims larger than 1 sorted by |stride| ascending; gives their number. */
static int sort_by_stride(const tp_view *v, int *order)
{
    int count = 0;
    for (int d = v->ndim - 1; d >= 0; d--) {
        if (v->shape[d] == 1) continue;
        int at = count++;
        for (; at > 0 && magnitude(v->stride[order[at - 1]]) > magnitude(v->stride[d]); at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    return count;
}

bool tp_view_is_injective(const tp_view *v)
{
    int order[TP_MAX_RANK];
    if (tp_view_numel(v) == 0) return true;
    int count = sort_by_stride(v, order);
    uint64_t reach = 0, span;
    for (int i = 0; i < count; i++) {
        uint64_t s = magnitude(v->stride[order[i]]);
        if (s <= reach) return false;
        if (__builtin_mul_overflow(s, (uint64_t)v->shape[order[i]] - 1, &span) ||
            __builtin_add_overflow(reach, span, &reach))
            return i == count - 1;
    }
    return true;
}

bool tp_view_is_dense(const tp_view *v)
{
    int order[TP_MAX_RANK];
    if (tp_view_numel(v) <= 0) return tp_view_numel(v) == 0;
    int count = sort_by_stride(v, order);
    uint64_t expected = 1;
    for (int i = 0; i < count; i++) {
        if (magnitude(v->stride[order[i]]) != expected) return false;
        expected *= (uint64_t)v->shape[order[i]];
    }
    return true;
}

bool tp_view_reach(const tp_view *v, int64_t *low, int64_t *high)
{
    if (tp_view_numel(v) <= 0) return false;
    *low = *high = v->offset;
    for (int d = 0; d < v->ndim; d++) {
        int64_t span;
        if (v->shape[d] == 1) continue;
        if (__builtin_mul_overflow(v->stride[d], v->shape[d] - 1, &span)) return false;
        int64_t *end = span < 0 ? low : high;
        if (__builtin_add_overflow(*end, span, end)) return false;
    }
    return true;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

bool tp_view_may_overlap(const tp_view *a, const tp_view *b)
{
    int64_t low_a, high_a, low_b, high_b;
    if (tp_view_numel(a) == 0 || tp_view_numel(b) == 0) return false;
    if (!tp_view_reach(a, &low_a, &high_a) || !tp_view_reach(b, &low_b, &high_b)) return true;
    if (high_a < low_b || high_b < low_a) return false;
    uint64_t common = 0;
    for (int d = 0; d < a->ndim; d++)
        common = a->shape[d] > 1 ? gcd(common, magnitude(a->stride[d])) : common;
    for (int d = 0; d < b->ndim; d++)
        common = b->shape[d] > 1 ? gcd(common, magnitude(b->stride[d])) : common;
    uint64_t from = (uint64_t)a->offset, to = (uint64_t)b->offset;
    uint64_t apart = a->offset > b->offset ? from - to : to - from;
    return common == 0 ? apart == 0 : apart % common == 0;
}

/* ---- Steps of geometry ----------------------------------------------------------------- */

void tp_view_permute(const tp_view *v, const int *axes, tp_view *y)
{
    y->ndim = v->ndim;
    y->offset = v->offset;
    for (int d = 0; d < v->ndim; d++) {
        y->shape[d] = v->shape[axes[d]];
        y->stride[d] = v->stride[axes[d]];
    }
}

/* Brings a bound of a slice into [low, high]; TP_END is `end`. */
static int64_t clamp_bound(int64_t bound, int64_t size, int64_t low, int64_t high, int64_t end)
{
    if (bound == TP_END) return end;
    if (bound < 0) bound += size; /* cannot overflow: size >= 0 > bound */
    return bound < low ? low : bound > high ? high : bound;
}

bool tp_view_slice(const tp_view *v, int axis, int64_t start, int64_t stop, int64_t step,
                   tp_view *y)
{
    if (step == 0) return false;
    int64_t size = v->shape[axis], count = 0;
    if (step > 0) {
        start = clamp_bound(start, size, 0, size, 0);
        stop = clamp_bound(stop, size, 0, size, size);
        if (stop > start) count = (stop - start - 1) / step + 1;
    } else {
        start = clamp_bound(start, size, -1, size - 1, size - 1);
        stop = clamp_bound(stop, size, -1, size - 1, -1);
        if (start > stop)
            count = (int64_t)((uint64_t)(start - stop - 1) / (0 - (uint64_t)step)) + 1;
    }
    tp_view_copy(y, v);
    y->shape[axis] = count;
    if (tp_view_numel(y) == 0) {
        y->offset = 0;
        set_row_major(y);
        return true;
    }
    y->offset += size > 1 ? start * v->stride[axis] : 0;
    /* With one element left the stride means nothing; step * stride might overflow. */
    y->stride[axis] = count > 1 ? v->stride[axis] * step : 1;
    return true;
}

/* y without dim axis. */
static void drop_dim(const tp_view *v, int axis, tp_view *y)
{
    int used = 0;
    int64_t offset = v->offset;
    for (int d = 0; d < v->ndim; d++) {
        if (d == axis) continue;
        y->shape[used] = v->shape[d];
        y->stride[used++] = v->stride[d];
    }
    y->ndim = used;
    y->offset = offset;
}

void tp_view_select(const tp_view *v, int axis, int64_t index, tp_view *y)
{
    int64_t step = v->shape[axis] > 1 ? index * v->stride[axis] : 0;
    drop_dim(v, axis, y);
    y->offset = tp_view_numel(y) == 0 ? 0 : v->offset + step;
}

void tp_view_flip(const tp_view *v, int axis, tp_view *y)
{
    tp_view_copy(y, v);
    if (v->shape[axis] < 2 || tp_view_numel(v) == 0) return;
    y->offset += (v->shape[axis] - 1) * v->stride[axis];
    y->stride[axis] = -v->stride[axis];
}

void tp_view_squeeze(const tp_view *v, int axis, tp_view *y)
{
    drop_dim(v, axis, y);
}

void tp_view_unsqueeze(const tp_view *v, int axis, tp_view *y)
{
    y->ndim = v->ndim + 1;
    y->offset = v->offset;
    for (int d = 0; d < y->ndim; d++) {
        int from = d - (d > axis);
        y->shape[d] = d == axis ? 1 : v->shape[from];
        y->stride[d] = d == axis ? 1 : v->stride[from];
    }
    tp_view_normalize(y);
}

bool tp_view_expand(const tp_view *v, int ndim, const int64_t *shape, tp_view *y)
{
    int lead = ndim - v->ndim;
    if (lead < 0) return false;
    for (int d = 0; d < v->ndim; d++) {
        if (v->shape[d] != 1 && v->shape[d] != shape[d + lead]) return false;
    }
    y->ndim = ndim;
    y->offset = v->offset;
    bool empty = false;
    for (int d = 0; d < ndim; d++) {
        bool repeated = d < lead || v->shape[d - lead] != shape[d];
        y->shape[d] = shape[d];
        y->stride[d] = repeated ? 0 : v->stride[d - lead];
        empty = empty || shape[d] == 0;
    }
    if (empty) y->offset = 0;
    return true;
}

void tp_view_diagonal(const tp_view *v, int64_t offset, int axis_a, int axis_b, tp_view *y)
{
    int64_t rows = v->shape[axis_a], cols = v->shape[axis_b];
    int64_t row = offset < 0 ? (offset == INT64_MIN ? INT64_MAX : -offset) : 0,
            col = offset > 0 ? offset : 0;
    int64_t left = row < rows ? rows - row : 0, right = col < cols ? cols - col : 0;
    int64_t count = left < right ? left : right, used = 0;
    for (int d = 0; d < v->ndim; d++) {
        if (d == axis_a || d == axis_b) continue;
        y->shape[used] = v->shape[d];
        y->stride[used++] = v->stride[d];
    }
    y->shape[used] = count;
    y->stride[used] = count > 1 ? v->stride[axis_a] + v->stride[axis_b] : 1;
    y->ndim = (int)used + 1;
    y->offset = 0;
    if (tp_view_numel(y) == 0) return;
    y->offset =
        v->offset + (row ? row * v->stride[axis_a] : 0) + (col ? col * v->stride[axis_b] : 0);
}

void tp_view_windows(const tp_view *v, int axis, int64_t size, int64_t step, int64_t dilation,
                     tp_view *y)
{
    int64_t span = size > 1 ? (size - 1) * dilation + 1 : 1,
            count = (v->shape[axis] - span) / step + 1;
    tp_view_copy(y, v);
    y->shape[axis] = count;
    y->stride[axis] = count > 1 ? v->stride[axis] * step : 1;
    y->shape[y->ndim] = size;
    y->stride[y->ndim++] = size > 1 ? v->stride[axis] * dilation : 1;
}

const char *tp_view_bitcast(const tp_view *v, size_t from_bytes, size_t to_bytes, tp_view *y)
{
    int last = v->ndim - 1;
    tp_view_copy(y, v);
    if (from_bytes == to_bytes) return NULL;
    if (last < 0) return "a 0-d tensor has no dim to grow or shrink";
    bool shrinks = to_bytes > from_bytes, empty = tp_view_numel(v) == 0;
    int64_t ratio = (int64_t)(shrinks ? to_bytes / from_bytes : from_bytes / to_bytes);
    if (!empty && v->shape[last] != 1 && v->stride[last] != 1)
        return "the last dim's stride is not 1";
    if (shrinks && v->shape[last] % ratio) return "the last dim's size does not divide";
    y->shape[last] = shrinks ? v->shape[last] / ratio : v->shape[last] * ratio;
    if (empty) {
        y->offset = 0;
        set_row_major(y);
        return NULL;
    }
    if (shrinks && v->offset % ratio) return "the offset does not divide";
    y->offset = shrinks ? v->offset / ratio : v->offset * ratio;
    y->stride[last] = 1;
    for (int d = 0; d < last; d++) {
        if (v->shape[d] == 1) continue;
        if (shrinks && v->stride[d] % ratio) return "the stride of an outer dim does not divide";
        y->stride[d] = shrinks ? v->stride[d] / ratio : v->stride[d] * ratio;
    }
    tp_view_normalize(y);
    return NULL;
}

void tp_view_normalize(tp_view *v)
{
    uint64_t stride = 1;
    for (int d = v->ndim - 1; d >= 0; d--) {
        if (v->shape[d] == 1) v->stride[d] = (int64_t)stride;
        stride *= v->shape[d] > 0 ? (uint64_t)v->shape[d] : 1;
    }
}
