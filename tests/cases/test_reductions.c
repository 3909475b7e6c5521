/* Faults reported against other engines: reductions and softmax (category 6). */
#include "tests/cases/expect.h"

#include <stdio.h>

#include "tests/random.h"

TestSuite(reductions, .timeout = 300);

static const tp_dtype floats[] = {TP_F16, TP_BF16, TP_F32, TP_F64};
static const int64_t zero_axis[] = {0}, one_axis[] = {1};

static void expect_near(const char *what, tp_tensor *y, int count, const double *want,
                        double relative)
{
    cr_assert(y && tp_eval(y) == TP_OK, "%s", what);
    for (int i = 0; i < count; i++)
        cr_expect(fabs(tp_item(y, i) - want[i]) <= relative * fabs(want[i]),
                  "%s: element %d is %.17g, not %.17g", what, i, tp_item(y, i), want[i]);
}

/* e^(x - max) / sum as it is put together by hand. */
static tp_tensor *softmax_by_hand(tp_tensor *x)
{
    tp_tensor *e = tp_exp(tp_sub(x, tp_max(x, 1, (int64_t[]){-1}, true)));
    return tp_div(e, tp_sum(e, 1, (int64_t[]){-1}, true));
}

Test(reductions, f087_softmax_of_large_negative_rows)
{
    EACH(g)
    {
        for (int by_hand = 0; by_hand < 2; by_hand++) {
            for (int f = 2; f < 4; f++) {
                tp_tensor *x = leaf_of(g, floats[f], VALUES(-20000, -20001)),
                          *y = by_hand ? softmax_by_hand(x) : tp_softmax(x, 0);
                expect_near("-20000", y, VALUES(0.7310585786300049, 0.2689414213699951), 2e-7);
                x = leaf_of(g, floats[f], VALUES(-1e30, -1e30));
                expect_values("-1e30", by_hand ? softmax_by_hand(x) : tp_softmax(x, 0),
                              VALUES(0.5, 0.5));
            }
            tp_tensor *h = leaf_of(g, TP_F16, VALUES(-60000, -60000));
            expect_values("f16", by_hand ? softmax_by_hand(h) : tp_softmax(h, 0), VALUES(0.5, 0.5));
        }
        for (int64_t n = 1; n <= 40; n++) { /* whole rows, along both axes */
            tp_tensor *x = tp_full(g, TP_F32, TP_DIMS(n, n), -1e30);
            for (int axis = 0; axis < 2; axis++) {
                tp_tensor *y = tp_softmax(x, axis);
                cr_assert_eq(tp_eval(y), TP_OK);
                for (int64_t i = 0; i < n * n; i++)
                    cr_assert_eq((float)tp_item(y, i), 1.0F / (float)n, "%ld of %ld", (long)i,
                                 (long)n);
            }
        }
        expect_values("all -inf", tp_softmax(tp_full(g, TP_F32, TP_DIMS(2), -INFINITY), 0),
                      VALUES(NAN, NAN));
    }
}

Test(reductions, f089_many_f16_values)
{
    EACH(g)
    {
        tp_tensor *x = tp_expand(leaf_of(g, TP_F16, VALUES(0)), TP_DIMS(65536)),
                  *y = tp_softmax(x, 0);
        expect_values("logsumexp", tp_logsumexp(x, TP_ALL_AXES, false), VALUES(11.09375));
        cr_assert_eq(tp_eval(y), TP_OK);
        for (int64_t i = 0; i < 65536; i++) cr_assert_eq(tp_item(y, i), 0x1p-16);
        tp_tensor *rows =
            tp_expand(tp_unsqueeze(leaf_of(g, TP_F16, VALUES(0, 0, 0)), 0), TP_DIMS(65536, 3));
        expect_values("outer", tp_logsumexp(rows, 1, zero_axis, false),
                      VALUES(11.09375, 11.09375, 11.09375));
        tp_tensor *z = tp_softmax(rows, 0);
        cr_assert_eq(tp_eval(z), TP_OK);
        for (int64_t i = 0; i < 3 * 65536; i += 7) cr_assert_eq(tp_item(z, i), 0x1p-16);
        expect_values(
            "mean",
            tp_mean(tp_expand(leaf_of(g, TP_F16, VALUES(2)), TP_DIMS(65536)), TP_ALL_AXES, false),
            VALUES(2));
    }
}

Test(reductions, f091_f16_sums_do_not_stick_at_2048)
{
    EACH(g)
    {
        for (int n = 3000; n <= 6000; n += 3000) {
            tp_tensor *columns = tp_full(g, TP_F16, TP_DIMS(n, 115), 1),
                      *rows = tp_full(g, TP_F16, TP_DIMS(115, n), 1);
            tp_eval(columns), tp_eval(rows);
            tp_tensor *y[] = {tp_sum(columns, 1, zero_axis, false),
                              tp_sum(rows, 1, one_axis, false),
                              tp_sum(tp_transpose(rows, 0, 1), 1, zero_axis, false),
                              tp_sum(tp_transpose(columns, 0, 1), 1, one_axis, false),
                              tp_sum(tp_slice(columns, 1, TP_END, TP_END, -2), 1, zero_axis, false),
                              tp_sum(tp_slice(rows, 0, 1, TP_END, 3), 1, one_axis, false),
                              tp_sum(tp_mul(columns, tp_num(columns, 1)), 1, zero_axis, false)};
            for (int k = 0; k < 7; k++) {
                cr_assert(y[k] && tp_eval(y[k]) == TP_OK);
                cr_expect_eq(tp_dtype_of(y[k]), TP_F16);
                for (int64_t i = 0; i < tp_numel(y[k]); i++)
                    cr_assert_eq(tp_item(y[k], i), n, "%d: %g", k, tp_item(y[k], i));
            }
            tp_tensor *strided = tp_slice(tp_full(g, TP_F16, TP_DIMS(2 * n), 1), 0, 0, TP_END, 2);
            expect_values("strided", tp_sum(strided, TP_ALL_AXES, false), VALUES(n));
            /* bf16 holds 3008 and 6016 next to them: one rounding, at the end. */
            expect_values("bf16", tp_sum(tp_full(g, TP_BF16, TP_DIMS(n), 1), TP_ALL_AXES, false),
                          VALUES(n == 3000 ? 3008 : 6016));
        }
    }
}

Test(reductions, f092_f32_sums_do_not_stick_at_2_24_on_any_axis)
{
    for (int m = 0; m < 4; m++) {
        bool slow = m % 2 == 1; /* plain loops: a shorter row is beyond 2^24 too */
        int64_t n = slow && !long_tests() ? (INT64_C(1) << 24) + 2 : INT64_C(1) << 25;
        tp_graph *g = graph_of_mode(m);
        tp_tensor *one = leaf_of(g, TP_F32, VALUES(1)),
                  *ones = tp_expand(tp_unsqueeze(one, 0), TP_DIMS(n, 2)),
                  *flat = tp_expand(tp_unsqueeze(one, 0), TP_DIMS(2, n));
        double want = (double)n;
        expect_values("outer", tp_sum(ones, 1, zero_axis, false), VALUES(want, want));
        expect_values("inner", tp_sum(flat, 1, one_axis, false), VALUES(want, want));
        if (slow && m > 1) { /* once is enough */
            tp_graph_destroy(g);
            continue;
        }
        expect_values("both", tp_sum(ones, TP_ALL_AXES, false), VALUES(2 * want));
        int64_t long_side = slow ? 1000000 : 10000000;
        tp_tensor *x = tp_expand(tp_reshape(one, TP_DIMS(1, 1, 1)), TP_DIMS(long_side, 4, 15));
        expect_values("mean", tp_mean(x, 2, (int64_t[]){0, 1}, false),
                      VALUES(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1));
        tp_graph_destroy(g);
    }
}

/* Values at n elements from `at` on, zeros elsewhere. */
static void put(double *row, int64_t n, int64_t at, int count, const double *values)
{
    for (int64_t i = 0; i < n; i++) row[i] = 0;
    for (int i = 0; i < count && at + i < n; i++) row[at + i] = values[i];
}

static void check_nan(tp_graph *g, lay how, tp_dtype t, int64_t n, const double *row)
{
    int64_t first = 0;
    while (!isnan(row[first])) first++;
    void *data = elements(t, n, row);
    tp_tensor *x = laid(g, how, t, TP_DIMS(n), data), *wide = tp_unsqueeze(x, 1),
              *pair = tp_expand(wide, TP_DIMS(n, 2));
    tp_tensor *y[] = {tp_max(x, TP_ALL_AXES, false),        tp_min(x, TP_ALL_AXES, false),
                      tp_argmax(x, TP_ALL_AXES, false),     tp_argmin(x, TP_ALL_AXES, false),
                      tp_max(pair, 1, zero_axis, false),    tp_min(pair, 1, zero_axis, false),
                      tp_argmax(pair, 1, zero_axis, false), tp_argmin(pair, 1, zero_axis, false)};
    cr_assert_eq(tp_eval_all(g, 8, y, NULL), TP_OK);
    for (int k = 0; k < 8; k++) {
        for (int64_t i = 0; i < tp_numel(y[k]); i++) {
            double got = tp_item(y[k], i);
            cr_assert(k % 4 < 2 ? isnan(got) : got == (double)first,
                      "%d of %s: %g, first NaN at %ld of %ld", k, tp_dtype_name(t), got,
                      (long)first, (long)n);
        }
    }
    free(data);
}

Test(reductions, f093_the_first_nan_wins)
{
    EACH(g)
    {
        for (int f = 0; f < 4; f++) {
            const struct {
                int n;
                double values[4];
                double at;
            } rows[] = {{4, {3, NAN, 1, 5}, 1},
                        {3, {1, 2, NAN}, 2},
                        {3, {INFINITY, NAN, -INFINITY}, 1},
                        {3, {NAN, 1, 2}, 0}};
            for (int r = 0; r < 4; r++) {
                tp_tensor *x = leaf_of(g, floats[f], rows[r].n, rows[r].values);
                expect_values("max", tp_max(x, TP_ALL_AXES, false), VALUES(NAN));
                expect_values("min", tp_min(x, TP_ALL_AXES, false), VALUES(NAN));
                expect_values("argmax", tp_argmax(x, TP_ALL_AXES, false), VALUES(rows[r].at));
                expect_values("argmin", tp_argmin(x, TP_ALL_AXES, false), VALUES(rows[r].at));
            }
            /* At every place of every length, alone, before a second one, next to infinities. */
            double row[1000];
            for (int64_t n = 1; n <= 40; n++) {
                for (int64_t at = 0; at < n; at++) {
                    lay how = (lay)((n + at) % LAYS);
                    put(row, n, at, VALUES(NAN)), check_nan(g, how, floats[f], n, row);
                    row[n - 1] = NAN, check_nan(g, how, floats[f], n, row);
                    put(row, n, at, VALUES(NAN, INFINITY, -INFINITY));
                    check_nan(g, (lay)((how + 1) % LAYS), floats[f], n, row);
                }
                tp_graph_reset(g);
            }
            for (int64_t at = 0; at < 1000; at += at < 70 ? 1 : 37) {
                put(row, 1000, at, VALUES(NAN));
                check_nan(g, (lay)(at % LAYS), floats[f], 1000, row);
            }
            tp_graph_reset(g);
        }
        /* Blocks of several threads. */
        float *data = calloc(200000, sizeof *data);
        for (int64_t at = 0; at < 200000; at += 33331) {
            data[at] = NAN, data[199999] = NAN;
            tp_tensor *x = tp_from_data(g, TP_F32, TP_DIMS(200000), data);
            expect_values("max", tp_max(x, TP_ALL_AXES, false), VALUES(NAN));
            expect_values("argmax", tp_argmax(x, TP_ALL_AXES, false), VALUES((double)at));
            expect_values("argmin", tp_argmin(x, TP_ALL_AXES, false), VALUES((double)at));
            data[at] = 0;
        }
        free(data);
    }
}

Test(reductions, f095_variance_in_two_passes)
{
    EACH(g)
    {
        tp_tensor *x =
            leaf_of(g, TP_F32,
                    VALUES(1.0, .999998987, 1.000002027, .999997020, 1.000004053, .999994993,
                           1.000005960, .999993026, 1.000007987, .999991000));
        tp_tensor *s = tp_std(x, TP_ALL_AXES, 0, false);
        cr_assert_eq(tp_eval(s), TP_OK);
        cr_expect_lt(fabs(tp_item(s, 0) - 5.3106e-06), 2e-9, "%.9g", tp_item(s, 0));
        tp_tensor *d = leaf_of(g, TP_F64, VALUES(1e9, 1e9 + 1, 1e9 + 2));
        expect_values("1e9", tp_var(d, TP_ALL_AXES, 0, false), VALUES(2.0 / 3));
        expect_values("ddof 1", tp_var(d, TP_ALL_AXES, 1, true), VALUES(1));
        expect_values("ddof = n", tp_var(d, TP_ALL_AXES, 3, false), VALUES(NAN));
        expect_values("ddof > n", tp_var(d, TP_ALL_AXES, 4, false), VALUES(NAN));
        expect_values("ddof = n", tp_std(x, TP_ALL_AXES, 10, false), VALUES(NAN));
        /* Constant columns, in memory and repeated; along both axes; f16 too. */
        int64_t n = mode_ % 2 && !long_tests() ? 100000 : 1000000;
        tp_tensor *pair = leaf_of(g, TP_F32, VALUES(100, -100)),
                  *columns = tp_contiguous(tp_expand(pair, TP_DIMS(n, 2)));
        cr_assert_eq(tp_eval(columns), TP_OK);
        expect_values("columns", tp_var(columns, 1, zero_axis, 0, false), VALUES(0, 0));
        expect_values("rows", tp_var(tp_transpose(columns, 0, 1), 1, one_axis, 0, false),
                      VALUES(0, 0));
        expect_values("std", tp_std(columns, 1, zero_axis, 0, false), VALUES(0, 0));
        expect_values("repeated", tp_var(tp_expand(pair, TP_DIMS(n, 2)), 1, zero_axis, 0, false),
                      VALUES(0, 0));
        expect_values("f16",
                      tp_var(tp_expand(leaf_of(g, TP_F16, VALUES(100, -100)), TP_DIMS(5000, 2)), 1,
                             zero_axis, 0, false),
                      VALUES(0, 0));
        /* layer_norm of a constant row far from 0: (x - mean) is 0, never NaN. */
        tp_tensor *row = tp_full(g, TP_F32, TP_DIMS(2, 37), 1e7);
        tp_tensor *normal = tp_layer_norm(row, 1, NULL, NULL, 0x1p-20);
        expect_values("layer_norm", tp_sum(tp_abs(normal), 1, one_axis, false), VALUES(0, 0));
    }
}

/* Every reduction over each axis of views whose size-1 dims have these strides. */
Test(reductions, f097_strides_of_size_1_dims_are_not_looked_at)
{
    typedef tp_tensor *(*reducer)(tp_tensor *, int, const int64_t *, bool);
    static const reducer ops[] = {tp_sum,    tp_mean,   tp_max, tp_min, tp_prod,
                                  tp_argmax, tp_argmin, tp_any, tp_all};
    static const struct {
        int ndim;
        int64_t shape[3], stride[3];
    } views[] = {{2, {1, 3}, {1, 1}},          {2, {3, 1}, {1, 9}},
                 {3, {2, 1, 3}, {3, 0, 1}},    {2, {1, 3}, {0, 1}},
                 {2, {3, 1}, {2, INT64_MAX}},  {3, {2, 1, 3}, {3, -7, 1}},
                 {3, {1, 3, 1}, {-5, -1, 64}}, {3, {1, 1, 1}, {INT64_MIN, 3, 0}},
                 {2, {1, 40}, {7, 1}},         {2, {40, 1}, {1, 1}}};
    EACH(g)
    {
        for (int d = TP_U8; d < TP_DTYPE_COUNT; d++) {
            tp_dtype t = (tp_dtype)d;
            tp_tensor *x = count_up(g, t, TP_DIMS(41));
            for (int v = 0; v < 10; v++) {
                int64_t offset = views[v].stride[1] == -1 ? 2 : 0;
                tp_tensor *y = tp_as_strided(x, views[v].ndim, views[v].shape, views[v].stride,
                                             offset),
                          *dense = tp_contiguous(y);
                cr_assert(y && tp_eval(dense) == TP_OK, "%s", tp_graph_error(g)->text);
                for (int64_t i = 0; i < tp_numel(dense);
                     i++) { /* the copy is right to begin with */
                    int64_t last = views[v].ndim == 3 ? 2 : 1, at = offset;
                    int64_t rest = i;
                    for (int64_t a = last; a >= 0; a--) {
                        int64_t n = views[v].shape[a];
                        if (n > 1) at += rest % n * views[v].stride[a];
                        rest /= n;
                    }
                    cr_assert_eq(tp_item(dense, i), (double)at);
                }
                for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
                    for (int64_t axis = 0; axis < views[v].ndim; axis++) {
                        tp_tensor *a = ops[o](y, 1, &axis, false),
                                  *b = ops[o](dense, 1, &axis, false);
                        cr_assert(a && b && tp_eval(a) == TP_OK && tp_eval(b) == TP_OK);
                        cr_assert_eq(tp_numel(a), tp_numel(b));
                        cr_assert_arr_eq(tp_data(a), tp_data(b),
                                         (size_t)tp_numel(a) * tp_dtype_size(tp_dtype_of(a)),
                                         "view %d op %zu axis %ld of %s", v, o, (long)axis,
                                         tp_dtype_name(t));
                    }
                }
            }
            /* By hand. */
            tp_tensor *z = tp_as_strided(x, TP_DIMS(2, 1, 3), (int64_t[]){3, 0, 1}, 0);
            expect_values("axis 0", tp_sum(z, 1, zero_axis, false), VALUES(3, 5, 7));
            expect_values("axis 1", tp_sum(z, 1, one_axis, false), VALUES(0, 1, 2, 3, 4, 5));
            expect_values("axis 2", tp_sum(z, 1, (int64_t[]){2}, false), VALUES(3, 12));
            tp_graph_reset(g);
        }
    }
}

Test(reductions, f099_all_and_any_of_strided_truth)
{
    EACH(g)
    {
        tp_tensor *t = tp_slice(tp_full(g, TP_BOOL, TP_DIMS(4, 6), 1), 1, 0, TP_END, 2),
                  *f = tp_slice(tp_full(g, TP_BOOL, TP_DIMS(4, 6), 0), 1, 0, TP_END, 2);
        expect_values("all", tp_all(t, TP_ALL_AXES, false), VALUES(1));
        expect_values("any", tp_any(f, TP_ALL_AXES, false), VALUES(0));
        for (int64_t n = 1; n <= 40; n++) { /* what lies between is the opposite */
            uint8_t bytes[2][400];
            for (int i = 0; i < 400; i++) bytes[0][i] = i % 2 == 0, bytes[1][i] = i % 2 == 1;
            for (int k = 0; k < 2; k++) {
                tp_tensor *x = tp_from_data(g, TP_BOOL, TP_DIMS(5, 2 * n), bytes[k]),
                          *y = tp_slice(x, 1, 0, TP_END, 2),
                          *z = tp_transpose(tp_slice(x, 1, TP_END, TP_END, -2), 0, 1);
                expect_values("all", tp_all(y, TP_ALL_AXES, false), VALUES(k == 0));
                expect_values("any", tp_any(y, TP_ALL_AXES, false), VALUES(k == 0));
                expect_values("all", tp_all(z, TP_ALL_AXES, false), VALUES(k == 1));
                expect_values("any", tp_any(z, 1, zero_axis, false),
                              VALUES(k == 1, k == 1, k == 1, k == 1, k == 1));
            }
        }
    }
}

Test(reductions, f101_a_producer_and_a_reduction_over_odd_rows)
{
    EACH(g)
    {
        float *ones = malloc(2 * 3185 * sizeof *ones);
        for (int i = 0; i < 2 * 3185; i++) ones[i] = 1;
        tp_tensor *x = tp_from_data(g, TP_F32, TP_DIMS(2, 65, 7, 7), ones),
                  *y = tp_mul(x, tp_num(x, 2));
        expect_values("fused", tp_sum(tp_reshape(y, TP_DIMS(2, 3185)), 1, one_axis, false),
                      VALUES(6370, 6370));
        expect_values("by axes", tp_sum(y, 3, (int64_t[]){1, 2, 3}, false), VALUES(6370, 6370));
        tp_tensor *halves = tp_reshape(
            tp_mul(x, tp_add(tp_reshape(tp_arange(g, TP_F32, 0, 1, 2), TP_DIMS(2, 1, 1, 1)),
                             tp_num(x, 1))),
            TP_DIMS(2, 3185));
        expect_values("batches differ", tp_sum(halves, 1, one_axis, false), VALUES(3185, 6370));
        cr_assert_eq(tp_eval(y), TP_OK);
        expect_values("stored", tp_sum(tp_reshape(y, TP_DIMS(2, 3185)), 1, one_axis, false),
                      VALUES(6370, 6370));
        free(ones);
    }
}

Test(reductions, f103_no_axes_all_axes_kept_axes)
{
    EACH(g)
    {
        tp_tensor *x = count_up(g, TP_F32, TP_DIMS(2, 3));
        for (int keep = 0; keep < 2; keep++) {
            tp_tensor *y = tp_sum(x, 0, zero_axis, keep != 0), *z = tp_sum(x, 0, NULL, keep != 0);
            expect_shape("no axes", y, TP_DIMS(2, 3));
            expect_values("no axes", y, VALUES(0, 1, 2, 3, 4, 5));
            expect_values("no axes", z, VALUES(0, 1, 2, 3, 4, 5));
            tp_tensor *s = tp_sum(tp_scalar(g, TP_F32, 7), TP_ALL_AXES, keep != 0);
            expect_shape("0-d", s, 0, NULL);
            expect_values("0-d", s, VALUES(7));
            expect_values("0-d", tp_sum(tp_scalar(g, TP_F32, 7), 0, NULL, keep != 0), VALUES(7));
        }
        tp_tensor *all = tp_sum(x, 2, (int64_t[]){0, 1}, true);
        expect_shape("all axes kept", all, TP_DIMS(1, 1));
        expect_values("all axes kept", all, VALUES(15));
        expect_shape("all", tp_sum(x, TP_ALL_AXES, true), TP_DIMS(1, 1));
        expect_shape("all", tp_sum(x, TP_ALL_AXES, false), 0, NULL);
        expect_shape("one kept", tp_sum(x, 1, (int64_t[]){-1}, true), TP_DIMS(2, 1));
        /* The dtype is a sum's even if nothing is added up. */
        tp_tensor *u = tp_sum(count_up(g, TP_U8, TP_DIMS(2, 3)), 0, NULL, false);
        cr_expect_eq(tp_dtype_of(u), TP_U64);
        expect_values("u8", u, VALUES(0, 1, 2, 3, 4, 5));
        expect_values("max", tp_max(x, 0, NULL, false), VALUES(0, 1, 2, 3, 4, 5));
        expect_values("argmax", tp_argmax(x, 0, NULL, false), VALUES(0, 0, 0, 0, 0, 0));
        expect_error(g, tp_sum(x, 2, (int64_t[]){0, -2}, false), TP_E_ARGUMENT, 0,
                     "sum: axis -2 is given twice");
        expect_error(g, tp_sum(x, 1, (int64_t[]){2}, false), TP_E_ARGUMENT, -1,
                     "sum: axis 2 is outside [-2, 1] of [2,3]");
    }
}
