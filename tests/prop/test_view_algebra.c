/* The view algebra against explicit address tables: every view op is applied by definition to a
 * list of element addresses, no strides involved. "Iff" throughout: a fold that is refused
 * although the addresses are one strided view is as wrong as an unsound one. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"
#include "tests/random.h"

#define MOST 4096
#define POISON INT64_MAX

typedef struct table {
    int ndim;
    int64_t shape[TP_MAX_RANK], count;
    int64_t at[MOST]; /* address by row-major position */
} table;

static int64_t product(int ndim, const int64_t *shape)
{
    int64_t n = 1;
    for (int d = 0; d < ndim; d++) n *= shape[d];
    return n;
}

static void unravel(int ndim, const int64_t *shape, int64_t at, int64_t *index)
{
    for (int d = ndim - 1; d >= 0; d--) {
        index[d] = at % shape[d];
        at /= shape[d];
    }
}

static int64_t ravel(int ndim, const int64_t *shape, const int64_t *index)
{
    int64_t at = 0;
    for (int d = 0; d < ndim; d++) at = at * shape[d] + index[d];
    return at;
}

static int64_t address(const tp_view *v, int64_t at)
{
    int64_t index[TP_MAX_RANK], a = v->offset;
    unravel(v->ndim, v->shape, at, index);
    for (int d = 0; d < v->ndim; d++) {
        if (v->shape[d] > 1) a += index[d] * v->stride[d];
    }
    return a;
}

/* Whether addresses in row-major order of a shape are one strided view. */
static bool is_affine(int ndim, const int64_t *shape, const int64_t *at)
{
    int64_t n = product(ndim, shape), step[TP_MAX_RANK], index[TP_MAX_RANK], inner = 1;
    if (n == 0) return true;
    for (int d = ndim - 1; d >= 0; d--) {
        step[d] = shape[d] > 1 ? at[inner] - at[0] : 0;
        inner *= shape[d];
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t a = at[0];
        unravel(ndim, shape, i, index);
        for (int d = 0; d < ndim; d++) a += index[d] * step[d];
        if (a != at[i]) return false;
    }
    return true;
}

static bool matches(const tp_view *v, const table *t)
{
    if (v->ndim != t->ndim || memcmp(v->shape, t->shape, (size_t)t->ndim * sizeof *t->shape))
        return false;
    for (int64_t i = 0; i < t->count; i++) {
        if (address(v, i) != t->at[i]) return false;
    }
    return true;
}

/* ---- Reshape, exhaustively --------------------------------------------------------------- */

typedef struct counts {
    long cases, views, wrong;
} counts;

static void check_reshape(const tp_view *v, const int64_t *at, int ndim, const int64_t *shape,
                          counts *c)
{
    tp_view y;
    int dims[2];
    bool folded = tp_view_reshape(v, ndim, shape, &y, dims), affine = is_affine(ndim, shape, at);
    bool right = folded == affine;
    for (int64_t i = 0; right && folded && i < product(ndim, shape); i++)
        right = address(&y, i) == at[i];
    if (!folded)
        right = right && dims[0] >= 0 && dims[0] < v->ndim && dims[1] >= 0 && dims[1] < v->ndim;
    c->cases++;
    c->views += folded;
    if (right || c->wrong++ > 5) return;
    char from[800], to[400];
    tp_view target = tp_view_row_major(ndim, shape);
    tp_view_print(v, from, sizeof from);
    tp_view_print_shape(&target, to, sizeof to);
    cr_log_error("%s to %s: folded %d, affine %d", from, to, folded, affine);
}

/* All ordered factorisations of n into sizes >= 2: at most six for n <= 64. Size d counts up
 * through the divisors of what is left to it. */
static void check_factorisations(const tp_view *v, const int64_t *at, int64_t n, counts *c)
{
    int64_t size[8], left[8] = {n};
    int d = 0;
    size[0] = 1;
    while (d >= 0) {
        do size[d]++;
        while (size[d] <= left[d] && left[d] % size[d]);
        if (size[d] > left[d]) {
            d--;
            continue;
        }
        left[d + 1] = left[d] / size[d];
        if (left[d + 1] == 1) {
            check_reshape(v, at, d + 1, size, c);
            continue;
        }
        size[++d] = 1;
    }
}

/* All factorisations, and all targets of up to four sizes with ones among them. */
static void check_targets(const tp_view *v, counts *c)
{
    int64_t at[64] = {0}, n = tp_view_numel(v);
    for (int64_t i = 0; i < n; i++) at[i] = address(v, i);
    if (n == 0) {
        check_reshape(v, at, 3, (int64_t[]){2, 0, 3}, c);
        return;
    }
    check_reshape(v, at, 1, &n, c);
    if (n > 1) check_factorisations(v, at, n, c);
    for (int64_t a = 1; a <= n; a++) {
        for (int64_t b = 1; n % a == 0 && b <= n / a; b++) {
            if (n / a % b) continue;
            if (a * b == n) check_reshape(v, at, 2, (int64_t[]){a, b}, c);
            for (int64_t d = 1; d <= n / a / b; d++) {
                if (n / a / b % d) continue;
                check_reshape(v, at, 4, (int64_t[]){a, b, d, n / a / b / d}, c);
            }
        }
    }
}

/* Choices of (size, stride) for a dim: strides matter from size 2 on. */
static int choices(int64_t *size, int64_t *stride)
{
    int count = 0;
    for (int64_t n = 0; n <= 4; n++) {
        for (int64_t s = -4; s <= 12; s++) {
            if (n < 2 && s > -4) break;
            size[count] = n;
            stride[count++] = n < 2 ? POISON : s;
        }
    }
    return count;
}

Test(view_algebra, reshape_is_a_view_if_and_only_if_the_addresses_are)
{
    int64_t size[128], stride[128];
    int count = choices(size, stride);
    counts c = {0};
    for (int i = 0; i < count * count * count; i++) {
        int pick[3] = {i % count, i / count % count, i / count / count};
        tp_view v = {.ndim = 3, .offset = 200};
        for (int d = 0; d < 3; d++) {
            v.shape[d] = size[pick[d]];
            v.stride[d] = stride[pick[d]];
        }
        check_targets(&v, &c);
        if (pick[2] == 0) { /* ranks 1 and 2: the leading dims of the choice */
            v.ndim = 2;
            check_targets(&v, &c);
            v.ndim = pick[1] == 0 ? 1 : 2;
            if (v.ndim == 1) check_targets(&v, &c);
        }
    }
    cr_expect_eq(c.wrong, 0, "%ld of %ld reshapes are wrong", c.wrong, c.cases);
    cr_expect_gt(c.views, 100000);
    printf("NOTE reshape: %ld cases, %ld are views, %ld wrong\n", c.cases, c.views, c.wrong);
}

/* ---- Chains --------------------------------------------------------------------------------- */

typedef enum chain_op {
    PERMUTE,
    RESHAPE,
    SLICE,
    FLIP,
    SELECT,
    EXPAND,
    SQUEEZE,
    UNSQUEEZE,
    DIAGONAL,
    CHAIN_OPS
} chain_op;
typedef struct chain_step {
    chain_op op;
    int ndim;
    int axes[TP_MAX_RANK];
    int64_t shape[TP_MAX_RANK], start, stop, step;
} chain_step;

/* t becomes the table whose element i is t's element from(i). */
static void remap(table *t, int ndim, const int64_t *shape,
                  void (*from)(const int64_t *, int64_t *, const chain_step *, const table *),
                  const chain_step *s)
{
    static table old;
    old = *t;
    t->ndim = ndim;
    memcpy(t->shape, shape, (size_t)ndim * sizeof *shape);
    t->count = product(ndim, shape);
    for (int64_t i = 0; i < t->count; i++) {
        int64_t index[TP_MAX_RANK] = {0}, source[TP_MAX_RANK] = {0};
        unravel(ndim, shape, i, index);
        from(index, source, s, &old);
        t->at[i] = old.at[ravel(old.ndim, old.shape, source)];
    }
}

static void from_permute(const int64_t *i, int64_t *o, const chain_step *s, const table *t)
{
    for (int d = 0; d < t->ndim; d++) o[s->axes[d]] = i[d];
}
static void from_slice(const int64_t *i, int64_t *o, const chain_step *s, const table *t)
{
    memcpy(o, i, (size_t)t->ndim * sizeof *o);
    int64_t n = t->shape[s->axes[0]], start = s->start;
    if (start == TP_END)
        start = s->step > 0 ? 0 : n - 1;
    else {
        if (start < 0) start += n;
        if (s->step > 0)
            start = start < 0 ? 0 : start;
        else
            start = start > n - 1 ? n - 1 : start;
    }
    o[s->axes[0]] = start + i[s->axes[0]] * s->step;
}
static void from_flip(const int64_t *i, int64_t *o, const chain_step *s, const table *t)
{
    memcpy(o, i, (size_t)t->ndim * sizeof *o);
    o[s->axes[0]] = t->shape[s->axes[0]] - 1 - i[s->axes[0]];
}
static void from_select(const int64_t *i, int64_t *o, const chain_step *s, const table *t)
{
    for (int d = 0, k = 0; d < t->ndim; d++) o[d] = d == s->axes[0] ? s->start : i[k++];
}
static void from_expand(const int64_t *i, int64_t *o, const chain_step *s, const table *t)
{
    for (int d = 0; d < t->ndim; d++) o[d] = t->shape[d] == 1 ? 0 : i[d + s->ndim - t->ndim];
}
static void from_unsqueeze(const int64_t *i, int64_t *o, const chain_step *s, const table *t)
{
    for (int d = 0; d < t->ndim; d++) o[d] = i[d + (d >= s->axes[0])];
}
static void from_diagonal(const int64_t *i, int64_t *o, const chain_step *s, const table *t)
{
    int64_t k = i[t->ndim - 2];
    for (int d = 0, j = 0; d < t->ndim; d++) {
        if (d == s->axes[0])
            o[d] = k + (s->start < 0 ? -s->start : 0);
        else if (d == s->axes[1])
            o[d] = k + (s->start > 0 ? s->start : 0);
        else
            o[d] = i[j++];
    }
}

/* Python's length of a slice, by walking it. */
static int64_t walk_slice(int64_t n, int64_t start, int64_t stop, int64_t step)
{
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1, count = 0;
    int64_t a = start == TP_END ? (step > 0 ? 0 : n - 1) : start < 0 ? start + n : start;
    int64_t b = stop == TP_END ? (step > 0 ? n : -1) : stop < 0 ? stop + n : stop;
    a = a < low ? low : a > high ? high : a;
    b = b < low ? low : b > high ? high : b;
    for (int64_t i = a; step > 0 ? i < b : i > b; i += step) count++;
    return count;
}

/* A random step that is legal on t; false if the drawn op has none. */
static bool draw(uint64_t *seed, const table *t, chain_step *s)
{
    *s = (chain_step){.op = (chain_op)random_in(seed, 0, CHAIN_OPS - 1)};
    int axis = t->ndim ? (int)random_in(seed, 0, t->ndim - 1) : 0;
    int64_t n = t->ndim ? t->shape[axis] : 1;
    s->axes[0] = axis;
    switch (s->op) {
    case PERMUTE:
        for (int d = 0; d < t->ndim; d++) s->axes[d] = d;
        for (int d = t->ndim - 1; d > 0; d--) {
            int other = (int)random_in(seed, 0, d), saved = s->axes[d];
            s->axes[d] = s->axes[other];
            s->axes[other] = saved;
        }
        return true;
    case RESHAPE: {
        int64_t left = t->count;
        s->ndim = 0;
        if (left == 0) {
            s->ndim = 2;
            s->shape[0] = random_in(seed, 0, 1) * 3;
            s->shape[1] = s->shape[0] ? 0 : random_in(seed, 0, 3);
            return true;
        }
        while (left > 1 && s->ndim < 5) {
            int64_t f = random_in(seed, 1, left < 6 ? left : 6);
            if (left % f) continue;
            s->shape[s->ndim++] = f;
            left /= f;
        }
        if (left > 1) s->shape[s->ndim++] = left;
        return true;
    }
    case SLICE:
        if (!t->ndim) return false;
        s->step = random_in(seed, 1, 3) * (random_in(seed, 0, 1) ? 1 : -1);
        s->start = random_in(seed, 0, 4) ? random_in(seed, -n - 2, n + 2) : TP_END;
        s->stop = random_in(seed, 0, 3) ? random_in(seed, -n - 2, n + 2) : TP_END;
        return true;
    case FLIP:
        return t->ndim > 0;
    case SELECT:
        s->start = n > 0 ? random_in(seed, 0, n - 1) : 0;
        return t->ndim > 0 && n > 0;
    case EXPAND: {
        int extra = (int)random_in(seed, 0, 1);
        s->ndim = t->ndim + extra;
        for (int d = 0; d < s->ndim; d++) {
            int64_t old = d >= extra ? t->shape[d - extra] : 1;
            s->shape[d] = old == 1 ? random_in(seed, 0, 8) ? random_in(seed, 1, 3) : 0 : old;
        }
        return s->ndim < 7 && product(s->ndim, s->shape) <= 512;
    }
    case SQUEEZE:
        return t->ndim > 0 && n == 1;
    case UNSQUEEZE:
        s->axes[0] = (int)random_in(seed, 0, t->ndim);
        return t->ndim < 7;
    case DIAGONAL:
        if (t->ndim < 2) return false;
        s->axes[1] = (axis + 1 + (int)random_in(seed, 0, t->ndim - 2)) % t->ndim;
        s->start = random_in(seed, -2, 2);
        return true;
    default:
        return false;
    }
}

/* The step on the table, by definition. */
static void apply_table(table *t, const chain_step *s)
{
    int64_t shape[TP_MAX_RANK];
    memcpy(shape, t->shape, sizeof shape);
    int a = s->axes[0];
    switch (s->op) {
    case PERMUTE:
        for (int d = 0; d < t->ndim; d++) shape[d] = t->shape[s->axes[d]];
        remap(t, t->ndim, shape, from_permute, s);
        break;
    case RESHAPE:
        t->ndim = s->ndim;
        memcpy(t->shape, s->shape, sizeof t->shape);
        break;
    case SLICE:
        shape[a] = walk_slice(t->shape[a], s->start, s->stop, s->step);
        remap(t, t->ndim, shape, from_slice, s);
        break;
    case FLIP:
        remap(t, t->ndim, shape, from_flip, s);
        break;
    case SELECT:
    case SQUEEZE:
        for (int d = a; d + 1 < t->ndim; d++) shape[d] = t->shape[d + 1];
        remap(t, t->ndim - 1, shape, from_select, s);
        break;
    case EXPAND:
        remap(t, s->ndim, s->shape, from_expand, s);
        break;
    case UNSQUEEZE:
        for (int d = t->ndim; d > a; d--) shape[d] = t->shape[d - 1];
        shape[a] = 1;
        remap(t, t->ndim + 1, shape, from_unsqueeze, s);
        break;
    default: {
        int64_t rows = t->shape[a] - (s->start < 0 ? -s->start : 0),
                cols = t->shape[s->axes[1]] - (s->start > 0 ? s->start : 0);
        int used = 0;
        for (int d = 0; d < t->ndim; d++) {
            if (d != a && d != s->axes[1]) shape[used++] = t->shape[d];
        }
        shape[used++] = rows < 0 || cols < 0 ? 0 : rows < cols ? rows : cols;
        remap(t, used, shape, from_diagonal, s);
    }
    }
}

/* The step on a view; false: a reshape that is none. */
static bool apply_view(tp_view *v, const chain_step *s)
{
    tp_view y;
    int dims[2], a = s->axes[0];
    switch (s->op) {
    case PERMUTE:
        tp_view_permute(v, s->axes, &y);
        break;
    case RESHAPE:
        if (!tp_view_reshape(v, s->ndim, s->shape, &y, dims)) return false;
        break;
    case SLICE:
        tp_view_slice(v, a, s->start, s->stop, s->step, &y);
        break;
    case FLIP:
        tp_view_flip(v, a, &y);
        break;
    case SELECT:
        tp_view_select(v, a, s->start, &y);
        break;
    case SQUEEZE:
        tp_view_squeeze(v, a, &y);
        break;
    case EXPAND:
        tp_view_expand(v, s->ndim, s->shape, &y);
        break;
    case UNSQUEEZE:
        tp_view_unsqueeze(v, a, &y);
        break;
    default:
        tp_view_diagonal(v, s->start, a, s->axes[1], &y);
    }
    for (int d = 0; d < y.ndim; d++) { /* whoever reads a size-1 stride gets nonsense */
        if (y.shape[d] == 1) y.stride[d] = POISON;
    }
    *v = y;
    return true;
}

typedef struct chain_counts {
    long chains, foldable, folded, op_by_op, unsound;
} chain_counts;

static void run_chain(uint64_t seed, chain_counts *c)
{
    static table t;
    uint64_t state = seed;
    tp_view stage[8] = {{.ndim = (int)random_in(&state, 0, 4)}};
    int top = 0, pushes = 0, steps = (int)random_in(&state, 1, 6), dims[2];
    for (int d = 0; d < stage[0].ndim; d++)
        stage[0].shape[d] = random_in(&state, 0, 9) ? random_in(&state, 1, 4) : 0;
    stage[0] = tp_view_row_major(stage[0].ndim, stage[0].shape);
    t.ndim = stage[0].ndim;
    memcpy(t.shape, stage[0].shape, sizeof t.shape);
    t.count = tp_view_numel(&stage[0]);
    for (int64_t i = 0; i < t.count; i++) t.at[i] = i;
    for (int k = 0; k < steps; k++) {
        chain_step s;
        if (!draw(&state, &t, &s)) continue;
        apply_table(&t, &s);
        if (!apply_view(&stage[top], &s)) {
            stage[++top] = tp_view_row_major(s.ndim, s.shape);
            pushes++;
        }
        tp_view merged;
        while (top > 0 && tp_view_compose(&stage[top - 1], &stage[top], &merged, dims))
            stage[--top] = merged;
    }
    bool affine = is_affine(t.ndim, t.shape, t.at);
    c->chains++;
    c->foldable += affine;
    c->folded += affine && top == 0;
    c->op_by_op += affine && pushes == 0;
    if (top == 0 && !matches(&stage[0], &t)) {
        c->unsound++;
        cr_log_error("seed %llu: the folded view has other addresses", (unsigned long long)seed);
    }
    int64_t low, high;
    if (top == 0 && t.count && tp_view_reach(&stage[0], &low, &high)) {
        int64_t least = t.at[0], most = t.at[0];
        for (int64_t i = 0; i < t.count; i++) {
            least = t.at[i] < least ? t.at[i] : least;
            most = t.at[i] > most ? t.at[i] : most;
        }
        cr_assert(low == least && high == most, "seed %llu: reach", (unsigned long long)seed);
    }
}

Test(view_algebra, chains_fold_to_what_they_mean)
{
    chain_counts c = {0};
    long wanted = long_tests() ? 1000000 : 50000;
    for (long i = 0; i < wanted; i++) run_chain((uint64_t)i * 7 + 1, &c);
    printf(
        "NOTE chains: %ld of up to 6 ops, %ld foldable, %ld folded (%ld op by op), %ld unsound\n",
        c.chains, c.foldable, c.folded, c.op_by_op, c.unsound);
    cr_expect_eq(c.unsound, 0);
    cr_expect_leq((double)(c.foldable - c.folded), 0.0005 * (double)c.foldable,
                  "%ld foldable chains were missed", c.foldable - c.folded);
    cr_expect_gt(c.folded, c.op_by_op, "the two-stage merge found nothing");
}

/* ---- Questions asked of a view, by brute force
 * ---------------------------------------------------- */

static tp_view random_view(uint64_t *state, int64_t largest, int64_t offset)
{
    tp_view v = {.ndim = (int)random_in(state, 0, 3), .offset = offset};
    for (int d = 0; d < v.ndim; d++) {
        v.shape[d] = random_in(state, 0, 12) ? random_in(state, 1, 4) : 0;
        v.stride[d] = v.shape[d] == 1 ? POISON : random_in(state, -largest, largest);
    }
    return v;
}

Test(view_algebra, questions_are_answered_as_counting_does)
{
    uint64_t state = 42;
    long dense = 0, injective = 0, contiguous = 0;
    for (int n = 0; n < 200000; n++) {
        tp_view v = random_view(&state, 6, 60);
        if (n % 2) { /* half of them permutations with flips, which random strides rarely hit */
            tp_view plain = tp_view_row_major(v.ndim, v.shape), y;
            int axes[TP_MAX_RANK];
            for (int d = 0; d < v.ndim; d++) axes[d] = (d + n / 2) % v.ndim;
            tp_view_permute(&plain, axes, &v);
            if (v.ndim && n % 3 == 0) {
                tp_view_flip(&v, n % v.ndim, &y);
                v = y;
            }
            v.offset += 60;
        }
        int64_t numel = tp_view_numel(&v), seen[256] = {0}, low = 1 << 20, high = -1, distinct = 0,
                inorder = 1;
        for (int64_t i = 0; i < numel; i++) {
            int64_t a = address(&v, i);
            inorder = inorder && a == address(&v, 0) + i;
            distinct += !seen[a + 60]++;
            low = a < low ? a : low;
            high = a > high ? a : high;
        }
        char text[800];
        tp_view_print(&v, text, sizeof text);
        cr_assert_eq(tp_view_is_contiguous(&v), numel == 0 || inorder, "contiguous: %s", text);
        bool is_dense = numel == 0 || (distinct == numel && high - low + 1 == numel);
        cr_assert_eq(tp_view_is_dense(&v), is_dense, "dense: %s", text);
        cr_assert(!tp_view_is_injective(&v) || distinct == numel, "injective: %s", text);
        cr_assert(!is_dense || tp_view_is_injective(&v), "a dense view is injective: %s", text);
        dense += is_dense;
        injective += tp_view_is_injective(&v);
        contiguous += tp_view_is_contiguous(&v);
        tp_view canon = tp_view_canon(&v), twice = tp_view_canon(&canon);
        cr_assert(tp_view_equal(&canon, &twice), "canon twice: %s", text);
        cr_assert_eq(tp_view_numel(&canon), numel, "canon: %s", text);
        for (int64_t i = 0; i < numel; i++)
            cr_assert_eq(address(&canon, i), address(&v, i), "canon: %s", text);
        tp_view w, back;
        int dims[2];
        tp_view zero = v;
        zero.offset -= is_dense && numel ? low : 0;
        if (tp_view_inverse(&zero, &w)) {
            cr_assert(is_dense, "inverse: %s", text);
            cr_assert(tp_view_compose(&w, &zero, &back, dims) && tp_view_is_row_major(&back),
                      "inverse of %s", text);
        } else
            cr_assert(!is_dense, "no inverse: %s", text);
    }
    cr_assert(dense > 10000 && injective > dense && contiguous > 10000,
              "the sample must hit each answer");
}

Test(view_algebra, overlap_never_misses_a_common_element)
{
    uint64_t state = 7;
    long apart = 0;
    for (int n = 0; n < 100000; n++) {
        tp_view a = random_view(&state, 5, 60),
                b = random_view(&state, 5, random_in(&state, 40, 80));
        bool common = false;
        for (int64_t i = 0; i < tp_view_numel(&a); i++) {
            for (int64_t j = 0; j < tp_view_numel(&b); j++)
                common = common || address(&a, i) == address(&b, j);
        }
        cr_assert(!common || tp_view_may_overlap(&a, &b), "case %d", n);
        apart += !tp_view_may_overlap(&a, &b);
    }
    cr_assert_gt(apart, 10000);
}
