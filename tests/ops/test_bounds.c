/* Sums, softmax, layer norm and products of real numbers against long double, within stated
 * bounds, and what NaN and infinity do to them. u is the unit roundoff of the type in which the
 * op calculates (f16 and bf16: of f32), h half an ulp of the result. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/ops/naive.h"
#include "tests/backend.h"

static const tp_dtype floats[] = {TP_F16, TP_BF16, TP_F32, TP_F64};
#define backends ((const char *const[]){tested_backend(), "ref"})
#define FLOATS 4

/* The factor by which the largest error stays below its bound, by test: a note. */
static double used;

static double roundoff_of(tp_dtype dtype)
{
    return unit_roundoff(dtype == TP_F64 ? TP_F64 : TP_F32);
}

/* got against want: at most `units` u times scale off, and the rounding of the result. The
 * reference calculates better than any of it: only its result is rounded. */
static bool within(const char *backend, tp_dtype dtype, double got, long double want, double units,
                   long double scale)
{
    double rounding = half_ulp(dtype, (double)want) * 1.001;
    long double error = fabsl((long double)got - want) - rounding;
    if (strcmp(backend, "ref") == 0) return error <= 2 * (long double)LDBL_EPSILON * scale * 64;
    long double allowed = units * roundoff_of(dtype) * scale;
    if (allowed > 0 && error / allowed > used) used = (double)(error / allowed);
    return error <= allowed;
}

static tp_tensor *evaluated(const char *what, tp_tensor *y)
{
    cr_assert(y, "%s: not built", what);
    cr_assert_eq(tp_eval(y), TP_OK, "%s: %s", what, tp_graph_error(tp_graph_of(y))->text);
    return y;
}

/* ---- Sums ------------------------------------------------------------------------------- */

#define SUM_UNITS 4

static void check_sum(const char *backend, tp_dtype dtype, int64_t n, bool inner, double low,
                      uint64_t seed)
{
    tp_graph *g = tp_graph_create(NULL);
    tp_graph_set_backend(g, backend);
    int64_t shape[] = {inner ? 3 : n, inner ? n : 3}, axis = inner;
    array x = array_between(dtype, 2, shape, low, 1, seed);
    tp_tensor *leaf = array_leaf(g, &x, seed % 2);
    char what[100];
    snprintf(what, sizeof what, "sum of %lld %s on %s, axis %d, seed %llu", (long long)n,
             tp_dtype_name(dtype), backend, (int)axis, (unsigned long long)seed);
    tp_tensor *sum = evaluated(what, tp_sum(leaf, 1, &axis, false)),
              *mean = evaluated(what, tp_mean(leaf, 1, &axis, false));
    for (int64_t r = 0; r < 3; r++) {
        long double want = 0, magnitude = 0;
        for (int64_t i = 0; i < n; i++) {
            double v = array_get(&x, inner ? r * n + i : i * 3 + r).f;
            want += v;
            magnitude += fabs(v);
        }
        cr_expect(within(backend, dtype, tp_item(sum, r), want, SUM_UNITS, magnitude),
                  "%s: %.17g, not %.17Lg", what, tp_item(sum, r), want);
        want /= (long double)n, magnitude /= (long double)n;
        cr_expect(within(backend, dtype, tp_item(mean, r), want, SUM_UNITS, magnitude),
                  "%s: mean %.17g, not %.17Lg", what, tp_item(mean, r), want);
    }
    array_free(&x);
    tp_graph_destroy(g);
}

Test(bounds, sums_of_any_length_on_any_axis)
{
    static const int64_t lengths[] = {1,    2,    15,   16,   17,   63,   255,
                                      2047, 2048, 2049, 4095, 6145, 40000};
    uint64_t seed = 1;
    for (int d = 0; d < FLOATS; d++) {
        for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
            for (int way = 0; way < 8; way++, seed++)
                check_sum(backends[way & 1], floats[d], lengths[n], way & 2, way & 4 ? 0.5 : -1,
                          seed);
        }
    }
    printf("NOTE sums use %.2f of %d u times the sum of magnitudes\n", used, SUM_UNITS);
}

/* ---- Softmax and layer norm ---------------------------------------------------------------- */

#define SOFTMAX_UNITS 12

static void check_softmax(const char *backend, tp_dtype dtype, int64_t n, bool inner, double spread,
                          uint64_t seed)
{
    tp_graph *g = tp_graph_create(NULL);
    tp_graph_set_backend(g, backend);
    int64_t shape[] = {inner ? 4 : n, inner ? n : 4};
    array x = array_between(dtype, 2, shape, -spread, spread, seed);
    char what[100];
    snprintf(what, sizeof what, "softmax of %lld %s on %s, axis %d, seed %llu", (long long)n,
             tp_dtype_name(dtype), backend, inner, (unsigned long long)seed);
    tp_tensor *y = evaluated(what, tp_softmax(array_leaf(g, &x, seed % 2), inner));
    for (int64_t r = 0; r < 4; r++) {
        long double sum = 0, max = -INFINITY;
        for (int64_t i = 0; i < n; i++)
            max = fmaxl(max, array_get(&x, inner ? r * n + i : i * 4 + r).f);
        for (int64_t i = 0; i < n; i++)
            sum += expl(array_get(&x, inner ? r * n + i : i * 4 + r).f - max);
        for (int64_t i = 0; i < n; i++) {
            int64_t at = inner ? r * n + i : i * 4 + r;
            long double below = array_get(&x, at).f - max, want = expl(below) / sum;
            /* x - max is rounded, and e^ turns that into a relative error. */
            double units = SOFTMAX_UNITS + fabs((double)below);
            cr_expect(within(backend, dtype, tp_item(y, at), want, units, want),
                      "%s: element %lld is %.17g, not %.17Lg", what, (long long)at, tp_item(y, at),
                      want);
        }
    }
    array_free(&x);
    tp_graph_destroy(g);
}

Test(bounds, softmax_along_any_axis)
{
    static const int64_t lengths[] = {1, 2, 3, 17, 64, 257, 3000};
    uint64_t seed = 1000;
    for (int d = 0; d < FLOATS; d++) {
        for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
            for (int way = 0; way < 8; way++, seed++)
                check_softmax(backends[way & 1], floats[d], lengths[n], way & 2, way & 4 ? 30 : 2,
                              seed);
        }
    }
    printf("NOTE softmax uses %.2f of (%d + max - x) u\n", used, SOFTMAX_UNITS);
}

#define NORM_UNITS 6

/* Rows with a mean of `middle` and a deviation near 0.6: what two passes have to survive. */
static void check_norm(const char *backend, tp_dtype dtype, int64_t n, double middle, uint64_t seed)
{
    tp_graph *g = tp_graph_create(NULL);
    tp_graph_set_backend(g, backend);
    array x = array_between(dtype, 2, (int64_t[]){3, n}, middle - 1, middle + 1, seed),
          w = array_between(dtype, 1, &n, -2, 2, seed + 1),
          b = array_between(dtype, 1, &n, -2, 2, seed + 2);
    double eps = 1e-5;
    char what[100];
    snprintf(what, sizeof what, "layer_norm of %lld %s around %g on %s, seed %llu", (long long)n,
             tp_dtype_name(dtype), middle, backend, (unsigned long long)seed);
    tp_tensor *y =
        evaluated(what, tp_layer_norm(array_leaf(g, &x, seed % 2), 1, array_leaf(g, &w, seed % 3),
                                      array_leaf(g, &b, seed % 5), eps));
    for (int64_t r = 0; r < 3; r++) {
        long double mean = 0, var = 0;
        for (int64_t i = 0; i < n; i++) mean += array_get(&x, r * n + i).f;
        mean /= (long double)n;
        for (int64_t i = 0; i < n; i++) {
            long double off = array_get(&x, r * n + i).f - mean;
            var += off * off;
        }
        long double by = sqrtl(var / (long double)n + eps);
        for (int64_t i = 0; i < n; i++) {
            long double z = (array_get(&x, r * n + i).f - mean) / by, weight = array_get(&w, i).f,
                        want = z * weight + array_get(&b, i).f;
            /* The mean's own rounding moves every element alike. */
            long double scale = fabsl(z * weight) + fabsl(want) + fabsl(mean / by * weight);
            cr_expect(within(backend, dtype, tp_item(y, r * n + i), want, NORM_UNITS, scale),
                      "%s: element %lld is %.17g, not %.17Lg", what, (long long)(r * n + i),
                      tp_item(y, r * n + i), want);
        }
    }
    array_free(&x), array_free(&w), array_free(&b);
    tp_graph_destroy(g);
}

Test(bounds, layer_norm_far_from_zero)
{
    static const int64_t lengths[] = {1, 2, 5, 33, 384, 3000};
    static const double middles[] = {0, 10, 1000};
    uint64_t seed = 2000;
    for (int d = 0; d < FLOATS; d++) {
        for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
            for (int way = 0; way < 6; way++, seed++)
                check_norm(backends[way & 1], floats[d], lengths[n], middles[way / 2], seed);
        }
    }
    printf("NOTE layer_norm uses %.2f of %d u (|z w| + |y| + |mean w / dev|)\n", used, NORM_UNITS);
}

/* ---- Products ---------------------------------------------------------------------------------
 */

static void check_product(const char *backend, tp_dtype dtype, const int64_t *size, bool dense,
                          uint64_t seed)
{
    tp_graph *g = tp_graph_create(NULL);
    tp_graph_set_backend(g, backend);
    int64_t batch = size[0], m = size[1], k = size[2], n = size[3];
    array a = array_between(dtype, 3, (int64_t[]){batch, m, k}, -1, 1, seed),
          b = array_between(dtype, 3, (int64_t[]){batch, k, n}, -1, 1, seed + 1);
    char what[120];
    snprintf(what, sizeof what, "matmul %s %lldx%lldx%lldx%lld on %s, %s, seed %llu",
             tp_dtype_name(dtype), (long long)batch, (long long)m, (long long)k, (long long)n,
             backend, dense ? "dense" : "strided", (unsigned long long)seed);
    tp_tensor *y = evaluated(what, tp_matmul(array_leaf(g, &a, dense), array_leaf(g, &b, dense)));
    for (int64_t i = 0; i < batch * m * n; i++) {
        int64_t at[3];
        position_split(3, (int64_t[]){batch, m, n}, i, at);
        long double want = 0, magnitude = 0;
        for (int64_t j = 0; j < k; j++) {
            long double term = (long double)array_get(&a, (at[0] * m + at[1]) * k + j).f *
                               array_get(&b, (at[0] * k + j) * n + at[2]).f;
            want += term;
            magnitude += fabsl(term);
        }
        /* Any order of additions: k roundings of the partial sums, one of each product. */
        cr_expect(within(backend, dtype, tp_item(y, i), want, (double)k + 1, magnitude),
                  "%s: element %lld is %.17g, not %.17Lg", what, (long long)i, tp_item(y, i), want);
    }
    array_free(&a), array_free(&b);
    tp_graph_destroy(g);
}

Test(bounds, products_of_real_numbers)
{
    static const int64_t sizes[][4] = {{1, 1, 1, 1},   {2, 7, 13, 5},   {1, 1, 300, 20},
                                       {3, 20, 64, 1}, {1, 65, 33, 49}, {2, 40, 520, 18}};
    uint64_t seed = 3000;
    for (int d = 0; d < FLOATS; d++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            for (int way = 0; way < 4; way++, seed++)
                check_product(backends[way & 1], floats[d], sizes[s], way & 2, seed);
        }
    }
    printf("NOTE products use %.2f of (k + 1) u times the sum of magnitudes\n", used);
}

/* ---- NaN and infinity
 * ---------------------------------------------------------------------------- */

/* Row 1 of 3 gets `special` at one place; rows 0 and 2 have to be as if it were not there. */
static void check_rows(const char *backend, tp_dtype dtype, double special, int64_t n)
{
    tp_graph *g = tp_graph_create(NULL);
    tp_graph_set_backend(g, backend);
    array clean = array_between(dtype, 2, (int64_t[]){3, n}, -2, 2, (uint64_t)n),
          x = array_between(dtype, 2, (int64_t[]){3, n}, -2, 2, (uint64_t)n),
          w = array_between(dtype, 2, (int64_t[]){n, 4}, 1, 2, 5);
    int64_t at = n / 2;
    array_set(&x, n + at, special);
    char what[100];
    snprintf(what, sizeof what, "%g among %lld %s on %s", special, (long long)n,
             tp_dtype_name(dtype), backend);
    tp_tensor *in = array_leaf(g, &x, n % 2), *plain = array_leaf(g, &clean, n % 2),
              *weight = array_leaf(g, &w, true);
    tp_tensor *y[3] = {tp_softmax(in, 1), tp_layer_norm(in, 1, NULL, NULL, 1e-5),
                       tp_matmul(in, weight)};
    tp_tensor *z[3] = {tp_softmax(plain, 1), tp_layer_norm(plain, 1, NULL, NULL, 1e-5),
                       tp_matmul(plain, weight)};
    for (int op = 0; op < 3; op++) {
        evaluated(what, y[op]), evaluated(what, z[op]);
        int64_t width = tp_dim(y[op], 1);
        for (int64_t i = 0; i < width; i++) {
            double got = tp_item(y[op], width + i);
            cr_expect(tp_item(y[op], i) == tp_item(z[op], i) &&
                          tp_item(y[op], 2 * width + i) == tp_item(z[op], 2 * width + i),
                      "%s: op %d: a row without it changed at %lld", what, op, (long long)i);
            bool right = op == 2 ? isnan(special) ? isnan(got) : got == special
                         : special == -INFINITY && op == 0 ? i == at ? got == 0 && n > 1 : got > 0
                                                           : isnan(got);
            cr_expect(right || (n == 1 && isnan(got)), "%s: op %d element %lld is %g", what, op,
                      (long long)i, got);
        }
    }
    array_free(&clean), array_free(&x), array_free(&w);
    tp_graph_destroy(g);
}

Test(bounds, nan_and_infinity_stay_in_their_row)
{
    static const double specials[] = {NAN, INFINITY, -INFINITY};
    static const int64_t lengths[] = {1, 2, 7, 16, 33, 300};
    for (int d = 0; d < FLOATS; d++) {
        for (int s = 0; s < 3; s++) {
            for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
                check_rows(tested_backend(), floats[d], specials[s], lengths[n]);
                check_rows("ref", floats[d], specials[s], lengths[n]);
            }
        }
    }
}
