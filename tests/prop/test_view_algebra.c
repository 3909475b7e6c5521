/* The view algebra against explicit address tables (view_table.h): reshape exhaustively, merging,
 * bitcasts and the questions asked of a view by brute force. "Iff" throughout: a fold that is
 * refused although the addresses are one strided view is as wrong as an unsound one. Chains of
 * ops are in test_view_chains.c. */
#include <criterion/criterion.h>

#include "tests/prop/view_table.h"

/* ---- Reshape, exhaustively --------------------------------------------------------------- */

typedef struct counts {
    long cases, views, wrong;
} counts;

/* Whether dims are an outer and an inner dim with only sizes of 1 between them that do not merge.
 */
static bool cannot_merge(const tp_view *v, const int dims[2])
{
    if (dims[0] < 0 || dims[0] >= dims[1] || dims[1] >= v->ndim) return false;
    for (int d = dims[0]; d <= dims[1]; d++) {
        if ((v->shape[d] > 1) != (d == dims[0] || d == dims[1])) return false;
    }
    return v->stride[dims[0]] != v->stride[dims[1]] * v->shape[dims[1]];
}

static void check_reshape(const tp_view *v, const int64_t *at, int ndim, const int64_t *shape,
                          counts *c)
{
    tp_view y;
    int dims[2];
    bool folded = tp_view_reshape(v, ndim, shape, &y, dims), affine = is_affine(ndim, shape, at);
    bool right = folded == affine;
    for (int64_t i = 0; right && folded && i < product(ndim, shape); i++)
        right = address(&y, i) == at[i];
    if (!folded) right = right && cannot_merge(v, dims);
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

/* ---- Questions asked of a view, by brute force ------------------------------------------- */

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

/* ---- Overlap and equality --------------------------------------------------------------- */

static int64_t gcd(int64_t a, int64_t b)
{
    return b ? gcd(b, a % b) : a < 0 ? -a : a;
}

/* The greatest common divisor of the distances inside v, from its addresses. */
static int64_t distances(const tp_view *v)
{
    int64_t common = 0;
    for (int64_t i = 1; i < tp_view_numel(v); i++)
        common = gcd(common, address(v, i) - address(v, 0));
    return common;
}

static void span(const tp_view *v, int64_t *low, int64_t *high)
{
    *low = *high = address(v, 0);
    for (int64_t i = 1; i < tp_view_numel(v); i++) {
        int64_t a = address(v, i);
        *low = a < *low ? a : *low;
        *high = a > *high ? a : *high;
    }
}

Test(view_algebra, overlap_is_what_ranges_and_distances_say)
{
    uint64_t state = 7;
    long apart = 0, classes = 0;
    for (int n = 0; n < 100000; n++) {
        tp_view a = random_view(&state, 5, 60),
                b = random_view(&state, 5, random_in(&state, 40, 80));
        int64_t numel_a = tp_view_numel(&a), numel_b = tp_view_numel(&b), low, high, low_b, high_b;
        bool common = false, may = numel_a && numel_b;
        for (int64_t i = 0; i < numel_a; i++) {
            for (int64_t j = 0; j < numel_b; j++)
                common = common || address(&a, i) == address(&b, j);
        }
        if (may) {
            span(&a, &low, &high);
            span(&b, &low_b, &high_b);
            int64_t g = gcd(distances(&a), distances(&b)), between = a.offset - b.offset;
            may = low <= high_b && low_b <= high;
            classes += may && g && between % g;
            may = may && (g ? between % g == 0 : between == 0);
            cr_assert(tp_view_reach(&a, &low_b, &high_b) && low_b == low && high_b == high,
                      "case %d: reach", n);
        }
        cr_assert(!common || may, "case %d: the oracle itself", n);
        cr_assert_eq(tp_view_may_overlap(&a, &b), may, "case %d", n);
        cr_assert_eq(tp_view_may_overlap(&b, &a), may, "case %d, the other way round", n);
        apart += !may;
    }
    cr_assert(apart > 10000 && classes > 1000, "the sample must hit each answer");
}

Test(view_algebra, equal_views_have_equal_addresses_and_canonical_forms)
{
    uint64_t state = 11;
    long equal = 0, alike = 0;
    for (int n = 0; n < 300000; n++) {
        tp_view a = random_view(&state, 2, 60), b = random_view(&state, 2, 60);
        int64_t numel = tp_view_numel(&a);
        if (numel != tp_view_numel(&b)) continue;
        bool same = true;
        for (int64_t i = 0; same && i < numel; i++) same = address(&a, i) == address(&b, i);
        bool shapes =
            a.ndim == b.ndim && !memcmp(a.shape, b.shape, (size_t)a.ndim * sizeof(int64_t));
        cr_assert_eq(tp_view_same_shape(&a, &b), shapes, "case %d", n);
        cr_assert_eq(tp_view_equal(&a, &b), shapes && same, "case %d", n);
        tp_view x = tp_view_canon(&a), y = tp_view_canon(&b);
        cr_assert_eq(tp_view_equal(&x, &y), same, "case %d: canonical forms", n);
        equal += numel && same && shapes;
        alike += numel && same && !shapes;
    }
    cr_assert(equal > 1000 && alike > 1000, "the sample must hit both");
}

/* ---- Merging two views --------------------------------------------------------------------- */

#define LARGEST 16384

typedef struct merges {
    long cases, affine, missed, wrong;
} merges;

static void check_compose(const tp_view *lower, const tp_view *upper, merges *m, int n)
{
    static int64_t at[LARGEST];
    tp_view y;
    int dims[2];
    int64_t numel = tp_view_numel(upper);
    for (int64_t i = 0; i < numel; i++) at[i] = address(lower, address(upper, i));
    bool affine = is_affine(upper->ndim, upper->shape, at);
    bool folded = tp_view_compose(lower, upper, &y, dims);
    m->cases++;
    m->affine += affine;
    m->missed += affine && !folded;
    bool right = folded ? affine && matches(&y, upper->ndim, upper->shape, at)
                        : affine || cannot_merge(lower, dims);
    if (right || m->wrong++ > 5) return;
    char low[800], up[800];
    tp_view_print(lower, low, sizeof low);
    tp_view_print(upper, up, sizeof up);
    cr_log_error("case %d: %s read by %s: folded %d, affine %d", n, low, up, folded, affine);
}

Test(view_algebra, small_views_merge_if_and_only_if_their_addresses_are_one_view)
{
    uint64_t state = 5;
    merges m = {0};
    for (int n = 0; n < 2000000; n++) {
        tp_view lower = random_view(&state, 9, 100);
        int64_t numel = tp_view_numel(&lower), low, high;
        if (numel < 4) continue;
        tp_view upper = random_view(&state, n % 2 ? numel / 2 : 4, random_in(&state, 0, numel - 1));
        if (tp_view_numel(&upper) < 3) continue; /* always affine */
        span(&upper, &low, &high);
        if (low >= 0 && high < numel) check_compose(&lower, &upper, &m, n);
    }
    cr_expect_eq(m.wrong, 0, "%ld of %ld are wrong", m.wrong, m.cases);
    cr_expect_eq(m.missed, 0, "%ld of %ld are missed", m.missed, m.affine);
    cr_expect(m.affine > 30000 && m.cases - m.affine > 30000, "%ld of %ld", m.affine, m.cases);
    printf("NOTE compose, small: %ld cases, %ld affine, %ld missed, %ld wrong\n", m.cases, m.affine,
           m.missed, m.wrong);
}

/* A permuted, at times flipped, sliced or repeated row-major view with 8192 or 16384 positions. */
static tp_view large_view(uint64_t *state, int64_t numel, bool repeats)
{
    tp_view v = {.ndim = 4}, y;
    int64_t left = numel;
    for (int d = 0; d < 3; d++) {
        v.shape[d] = INT64_C(1) << random_in(state, 0, 4);
        left /= v.shape[d];
    }
    v.shape[3] = left;
    v = tp_view_row_major(4, v.shape);
    int axes[4] = {0, 1, 2, 3};
    if (random_in(state, 0, 1)) {
        int a = (int)random_in(state, 0, 3), b = (int)random_in(state, 0, 3);
        axes[a] = b, axes[b] = a;
    }
    tp_view_permute(&v, axes, &y);
    int axis = (int)random_in(state, 0, 3);
    if (random_in(state, 0, 2) == 0)
        tp_view_flip(&y, axis, &v);
    else
        v = y;
    if (repeats && random_in(state, 0, 2) == 0) {
        v.offset = v.stride[axis] < 0 && v.shape[axis] > 1 ? 0 : v.offset;
        v.stride[axis] = 0;
    }
    if (!repeats && random_in(state, 0, 1)) { /* a slice that leaves more than half */
        tp_view_slice(&v, axis, random_in(state, 0, 1), random_in(state, 0, 1) ? TP_END : -1, 1,
                      &y);
        if (tp_view_numel(&y) > 0) v = y;
    }
    for (int d = 0; d < 4; d++) v.stride[d] = v.shape[d] == 1 ? POISON : v.stride[d];
    return v;
}

/* Beyond the size up to which every point is tried the carry-free test decides alone. */
Test(view_algebra, large_views_merge_soundly)
{
    uint64_t state = 3;
    merges m = {0};
    for (int n = 0; m.cases < 2000; n++) {
        int64_t numel = random_in(&state, 0, 1) ? 8192 : LARGEST;
        tp_view lower = large_view(&state, numel, true), upper = large_view(&state, numel, false);
        if (tp_view_numel(&upper) > 4096) check_compose(&lower, &upper, &m, n);
    }
    cr_expect_eq(m.wrong, 0, "%ld of %ld are wrong", m.wrong, m.cases);
    cr_expect_leq((double)m.missed, 0.0005 * (double)m.affine, "%ld missed", m.missed);
    cr_expect(m.affine > 300 && m.cases - m.affine > 300, "%ld of %ld", m.affine, m.cases);
    printf("NOTE compose, large: %ld cases, %ld affine, %ld missed, %ld wrong\n", m.cases, m.affine,
           m.missed, m.wrong);
}

/* ---- Bitcasts, byte by byte -------------------------------------------------------------------
 */

/* The bytes of v's elements of a size, as addresses in row-major order. */
static int64_t list_bytes(const tp_view *v, int64_t size, int64_t *byte)
{
    int64_t count = 0;
    for (int64_t i = 0; i < tp_view_numel(v); i++) {
        for (int64_t b = 0; b < size; b++) byte[count++] = address(v, i) * size + b;
    }
    return count;
}

/* Whether bytes, in the shape of v with its last dim in elements of another size, are whole
 * aligned elements that lie as one strided view. */
static bool can_bitcast(const tp_view *v, int64_t from, int64_t to, const int64_t *byte,
                        int64_t count)
{
    int64_t shape[TP_MAX_RANK], first[512];
    if (from == to) return true;
    if (v->ndim == 0) return false;
    memcpy(shape, v->shape, (size_t)v->ndim * sizeof *shape);
    int64_t row = shape[v->ndim - 1] * from;
    if (row % to) return false;
    shape[v->ndim - 1] = row / to;
    for (int64_t i = 0; i < count; i++) {
        if (i % to == 0 && byte[i] % to) return false;
        if (byte[i] != byte[i - i % to] + i % to) return false;
        if (i % to == 0) first[i / to] = byte[i] / to;
    }
    return is_affine(v->ndim, shape, first);
}

Test(view_algebra, bitcasts_read_the_same_bytes)
{
    uint64_t state = 23;
    long done = 0, cases = 300000;
    for (int n = 0; n < cases; n++) {
        int64_t from = INT64_C(1) << random_in(&state, 0, 3), to = INT64_C(1)
                                                                   << random_in(&state, 0, 3);
        static int64_t before[512], after[512];
        tp_view v = random_view(&state, 8, random_in(&state, 60, 64)), y;
        if (v.ndim && n % 4 && v.shape[v.ndim - 1] > 1) v.stride[v.ndim - 1] = 1;
        int64_t count = list_bytes(&v, from, before);
        const char *why = tp_view_bitcast(&v, (size_t)from, (size_t)to, &y);
        bool can = can_bitcast(&v, from, to, before, count);
        char text[800];
        tp_view_print(&v, text, sizeof text);
        cr_assert_eq(!why, can, "%s from %d to %d bytes: %s", text, (int)from, (int)to,
                     why ? why : "done");
        if (why) continue;
        done += from != to && count;
        cr_assert(list_bytes(&y, to, after) == count &&
                      !memcmp(before, after, (size_t)count * sizeof *before),
                  "%s from %d to %d bytes", text, (int)from, (int)to);
    }
    cr_assert(done > 10000 && done < cases / 2, "the sample must hit both");
}
