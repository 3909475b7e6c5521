/* Faults reported against other engines: passes and fusion (category 9), types (4) and reductions
 * (6) as far as these operations express them. Each runs fused and unfused. */
#include "tests/cases/expect.h"

#include <string.h>

static tp_graph *fresh(bool fused)
{
    tp_graph *g = tp_graph_create(NULL);
    if (!fused) tp_graph_set_pass(g, "all", false);
    return g;
}
#define BOTH(g)                                                                                    \
    for (int fused_ = 0; fused_ < 2; fused_++)                                                     \
        for (tp_graph *g = fresh(fused_); g; tp_graph_destroy(g), g = NULL)

Test(fusion, f132_a_narrowing_cast_is_never_removed)
{
    BOTH(g)
    {
        tp_tensor *x = tp_div(tp_arange(g, TP_F32, 0, 1, 4), tp_scalar(g, TP_F32, 7)),
                  *y = tp_cast(tp_cast(x, TP_F16), TP_F32);
        expect_values("132", y, VALUES(0, 0.142822265625, 0.28564453125, 0.428466796875));
        tp_tensor *n = tp_full(g, TP_F32, TP_DIMS(1), 257),
                  *i = tp_full(g, TP_I32, TP_DIMS(1), 300);
        expect_values("132", tp_cast(tp_cast(n, TP_BF16), TP_F32), VALUES(256));
        expect_values("132", tp_cast(tp_cast(i, TP_U8), TP_I32), VALUES(44));
        /* A widening pair goes: nothing runs but the negation. */
        if (fused_)
            cr_expect_eq(
                plan_of(tp_neg(tp_cast(tp_cast(tp_eval(n) == TP_OK ? n : NULL, TP_F64), TP_F32)))
                    .kernels,
                1);
    }
}

Test(fusion, f133_every_result_is_rounded_to_its_type)
{
    BOTH(g)
    {
        tp_tensor *a = tp_full(g, TP_BF16, TP_DIMS(1), 256),
                  *b = tp_full(g, TP_BF16, TP_DIMS(1), 1);
        expect_values("133", tp_equal(tp_add(a, b), a), VALUES(1));
        tp_tensor *x = tp_full(g, TP_BF16, TP_DIMS(1), 1.0078125), *y = tp_mul(x, x);
        tp_tensor *both[] = {y, tp_sub(y, x)};
        cr_assert_eq(tp_eval_all(g, 2, both, NULL), TP_OK);
        cr_expect_eq(tp_item(both[1], 0), tp_item(y, 0) - 1.0078125);
    }
}

Test(fusion, f134_no_contraction)
{
    BOTH(g)
    {
        tp_tensor *a = tp_full(g, TP_F32, TP_DIMS(1), 1e20),
                  *b = tp_full(g, TP_F32, TP_DIMS(1), -1e20),
                  *x = tp_full(g, TP_F32, TP_DIMS(1), 1e10);
        tp_tensor *s = tp_full(g, TP_F32, TP_DIMS(1), 0.1),
                  *t = tp_full(g, TP_F32, TP_DIMS(1), 1.4142135),
                  *u = tp_full(g, TP_F32, TP_DIMS(1), 1.7320508);
        tp_tensor *leaves[] = {a, b, x, s, t, u};
        tp_eval_all(g, 6, leaves, NULL); /* no constants: the loops must run */
        expect_values("134", tp_add(tp_mul(a, x), tp_mul(b, x)), VALUES(0));
        expect_values("134", tp_sub(tp_mul(s, s), tp_mul(s, s)), VALUES(0));
        expect_values("134", tp_add(tp_mul(t, u), tp_neg(tp_mul(t, u))), VALUES(0));
    }
}

Test(fusion, f135_no_algebra_that_floats_do_not_have)
{
    BOTH(g)
    {
        tp_tensor *x = tp_from_data(g, TP_F32, TP_DIMS(6),
                                    (float[]){1, INFINITY, -INFINITY, NAN, -1, -0.0F}),
                  *zero = tp_num(x, 0), *one = tp_num(x, 1);
        expect_values("x*0", tp_mul(x, zero), VALUES(0, NAN, NAN, NAN, 0, 0));
        cr_expect(signbit(tp_item(tp_eval(tp_mul(x, zero)) == TP_OK
                                      ? tp_graph_node(g, tp_graph_node_count(g) - 1)
                                      : x,
                                  4)),
                  "-1 * 0 is -0");
        expect_values("x-x", tp_sub(x, x), VALUES(0, NAN, NAN, NAN, 0, 0));
        expect_values("x/x", tp_div(x, x), VALUES(1, NAN, NAN, NAN, 1, NAN));
        expect_values("0/x", tp_div(zero, x), VALUES(0, 0, 0, NAN, 0, NAN));
        tp_tensor *sum = tp_add(x, zero), *difference = tp_sub(x, zero), *product = tp_mul(x, one),
                  *twice = tp_neg(tp_neg(x));
        tp_tensor *all[] = {sum, difference, product, twice};
        cr_assert_eq(tp_eval_all(g, 4, all, NULL), TP_OK);
        cr_expect(!signbit(tp_item(sum, 5)), "x + 0 turns -0 into +0");
        cr_expect(signbit(tp_item(difference, 5)) && signbit(tp_item(product, 5)) &&
                  signbit(tp_item(twice, 5)));
        tp_tensor *minus = tp_neg(tp_sub(x, tp_num(x, -0.0))); /* no output: those stay */
        cr_assert_eq(tp_eval(minus), TP_OK);
        cr_expect(signbit(tp_item(minus, 5)), "x - (-0) turns -0 into +0 too");
        expect_values("x+x = 2x", tp_equal(tp_add(x, x), tp_mul(x, tp_num(x, 2))),
                      VALUES(1, 1, 1, 0, 1, 1));
    }
}

Test(fusion, f137_signs_of_zero_at_every_length)
{
    for (int64_t n = 1; n <= 40; n++) {
        tp_graph *g = tp_graph_create(NULL);
        tp_tensor *p =
            tp_contiguous(tp_expand(tp_from_data(g, TP_F32, TP_DIMS(1), (float[]){0}), TP_DIMS(n)));
        tp_tensor *m = tp_contiguous(
            tp_expand(tp_from_data(g, TP_F32, TP_DIMS(1), (float[]){-0.0F}), TP_DIMS(n)));
        tp_tensor *y[] = {tp_maximum(p, m), tp_maximum(m, p), tp_minimum(p, m), tp_minimum(m, p),
                          tp_relu(m)};
        cr_assert_eq(tp_eval_all(g, 5, y, NULL), TP_OK);
        for (int64_t i = 0; i < n; i++) {
            cr_assert(!signbit(tp_item(y[0], i)) && !signbit(tp_item(y[1], i)) &&
                          !signbit(tp_item(y[4], i)),
                      "length %ld", (long)n);
            cr_assert(signbit(tp_item(y[2], i)) && signbit(tp_item(y[3], i)), "length %ld",
                      (long)n);
        }
        tp_graph_destroy(g);
    }
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *r =
        tp_max(tp_from_data(g, TP_F32, TP_DIMS(3), (float[]){-0.0F, 0, -0.0F}), TP_ALL_AXES, false);
    tp_eval(r);
    cr_expect(!signbit(tp_item(r, 0)));
    tp_graph_destroy(g);
}

Test(fusion, f138_division_is_division)
{
    BOTH(g)
    {
        tp_tensor *n = tp_arange(g, TP_F32, 1, 1, 400);
        tp_eval(n);
        expect_values("138", tp_div(tp_full(g, TP_F32, TP_DIMS(1), 800), tp_scalar(g, TP_F32, 427)),
                      VALUES((double)(800.0F / 427.0F)));
        expect_values(
            "138",
            tp_sum(tp_cast(tp_equal(tp_div(n, n), tp_num(n, 1)), TP_I64), TP_ALL_AXES, false),
            VALUES(400));
        tp_tensor *tenth = tp_div(n, tp_num(n, 10)), *hundredth = tp_div(n, tp_num(n, 101));
        tp_eval(tenth), tp_eval(hundredth);
        for (int i = 0; i < 400; i++) {
            cr_assert_eq(tp_item(tenth, i), (double)((float)(i + 1) / 10.0F));
            cr_assert_eq(tp_item(hundredth, i), (double)((float)(i + 1) / 101.0F));
        }
    }
}

Test(fusion, f141_f147_long_chains_and_many_inputs)
{
    static const int lengths[] = {5, 30, 31, 32, 50, 64, 65, 99, 100, 101, 128, 129, 1000};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        tp_graph *g = tp_graph_create(NULL);
        tp_tensor *x = tp_full(g, TP_F64, TP_DIMS(67), 1), *y = x, *many = x;
        tp_eval(x);
        for (int i = 0; i < lengths[k]; i++) {
            y = tp_add(y, tp_num(y, i % 3 - 1.0));
            many = tp_add(many, tp_from_data(g, TP_F64, TP_DIMS(1), (double[]){i}));
        }
        cr_assert_eq(tp_eval_all(g, 2, (tp_tensor *[]){y, many}, NULL), TP_OK);
        double want = 1, sum = 1;
        for (int i = 0; i < lengths[k]; i++) want += i % 3 - 1.0, sum += i;
        cr_expect(tp_item(y, 66) == want && tp_item(many, 0) == sum, "147: %d", lengths[k]);
        tp_graph_destroy(g);
    }
    BOTH(g)
    {
        tp_tensor *a = tp_full(g, TP_F32, TP_DIMS(67), 1), *b = tp_add(a, tp_num(a, 1)),
                  *c = tp_add(b, tp_num(a, 2));
        expect_values("141", tp_select(tp_div(tp_mul(a, b), tp_sub(c, tp_num(a, 2))), 0, 66),
                      VALUES(1));
    }
}

Test(fusion, f149_constants_and_loops_agree)
{
    static const float edge[] = {0, -0.0F, 1, -1, INFINITY, -INFINITY, NAN, 1e-45F, 3.4e38F};
    tp_graph *g = tp_graph_create(NULL);
    for (int i = 0; i < 81; i++) {
        tp_tensor *a = tp_from_data(g, TP_F32, TP_DIMS(1), &edge[i % 9]),
                  *b = tp_from_data(g, TP_F32, TP_DIMS(1), &edge[i / 9]);
        tp_tensor *ca = tp_full(g, TP_F32, TP_DIMS(1), edge[i % 9]),
                  *cb = tp_full(g, TP_F32, TP_DIMS(1), edge[i / 9]);
        tp_tensor *y[] = {tp_pow(a, b),           tp_pow(ca, cb), tp_mul(tp_exp(a), b),
                          tp_mul(tp_exp(ca), cb), tp_div(a, b),   tp_div(ca, cb)};
        cr_assert_eq(tp_eval_all(g, 6, y, NULL), TP_OK);
        for (int k = 0; k < 6; k += 2)
            cr_expect_arr_eq(tp_data(y[k]), tp_data(y[k + 1]), 4, "149: %g %g op %d",
                             (double)edge[i % 9], (double)edge[i / 9], k);
    }
    expect_values("149", tp_pow(tp_full(g, TP_F32, TP_DIMS(1), 0), tp_scalar(g, TP_F32, 0)),
                  VALUES(1));
    expect_values("149", tp_pow(tp_full(g, TP_F32, TP_DIMS(1), 1), tp_scalar(g, TP_F32, NAN)),
                  VALUES(1));
    tp_graph_destroy(g);
}

Test(fusion, f151_reshapes_inside_a_group_are_never_an_internal_error)
{
    BOTH(g)
    {
        tp_tensor *x = count_up(g, TP_F32, TP_DIMS(4, 6)), *r = tp_relu(x);
        tp_tensor *y =
            tp_add(tp_reshape(r, TP_DIMS(24)), tp_reshape(tp_transpose(r, 0, 1), TP_DIMS(24)));
        expect_values("151", tp_slice(y, 0, 0, 4, 1), VALUES(0, 7, 14, 21));
        tp_tensor *e =
            tp_sum(tp_reshape(tp_expand(tp_unsqueeze(r, 0), TP_DIMS(2, 4, 6)), TP_DIMS(8, 6)), 1,
                   (int64_t[]){1}, false);
        expect_values("151", e, VALUES(15, 51, 87, 123, 15, 51, 87, 123));
        expect_values("P48",
                      tp_select(tp_select(tp_contiguous(tp_transpose(
                                              tp_add(tp_relu(count_up(g, TP_F32, TP_DIMS(2, 3, 4))),
                                                     tp_num(x, 1)),
                                              0, 2)),
                                          0, 1),
                                0, 1),
                      VALUES(6, 18));
        tp_tensor *z = tp_mul(tp_full(g, TP_F32, TP_DIMS(2, 65, 7, 7), 1), tp_num(x, 2));
        expect_values("101", tp_sum(tp_reshape(z, TP_DIMS(2, 3185)), 1, (int64_t[]){1}, false),
                      VALUES(6370, 6370));
    }
}

/* Sums along every axis keep all their digits (faults 59, 91, 92). */
Test(fusion, f059_f091_f092_sums_neither_wrap_nor_stick)
{
    tp_graph *g = tp_graph_create(NULL);
    int64_t zero[] = {0}, one[] = {1};
    tp_tensor *ones = tp_expand(tp_full(g, TP_F32, TP_DIMS(1, 1), 1), TP_DIMS(INT64_C(1) << 25, 2));
    expect_values("92 outer", tp_sum(ones, 1, zero, false), VALUES(33554432, 33554432));
    expect_values("92 inner", tp_sum(tp_transpose(ones, 0, 1), 1, one, false),
                  VALUES(33554432, 33554432));
    expect_values(
        "92 mean",
        tp_mean(tp_expand(tp_full(g, TP_F32, TP_DIMS(1, 1, 1), 1), TP_DIMS(1000000, 4, 15)), 2,
                (int64_t[]){0, 1}, false),
        VALUES(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1));
    tp_tensor *half = tp_full(g, TP_F16, TP_DIMS(6000, 3), 1);
    expect_values("91", tp_sum(half, 1, zero, false), VALUES(6000, 6000, 6000));
    expect_values("91", tp_sum(tp_full(g, TP_F16, TP_DIMS(2, 3000), 1), 1, one, false),
                  VALUES(3000, 3000));
    expect_values("59", tp_sum(tp_full(g, TP_BOOL, TP_DIMS(5000), 1), TP_ALL_AXES, false),
                  VALUES(5000));
    expect_values("59", tp_sum(tp_full(g, TP_U8, TP_DIMS(300), 1), TP_ALL_AXES, false),
                  VALUES(300));
    expect_values(
        "59",
        tp_sum(tp_from_data(g, TP_I8, TP_DIMS(3), (int8_t[]){100, 100, 50}), TP_ALL_AXES, false),
        VALUES(250));
    expect_values("59",
                  tp_sum(tp_from_data(g, TP_I32, TP_DIMS(3), (int32_t[]){1 << 30, 1 << 30, 5}),
                         TP_ALL_AXES, false),
                  VALUES(2147483653.0));
    expect_values(
        "63b",
        tp_sum(tp_bitcast(tp_from_data(g, TP_U8, TP_DIMS(4), (uint8_t[]){0, 1, 2, 255}), TP_BOOL),
               TP_ALL_AXES, false),
        VALUES(3));
    tp_graph_destroy(g);
}

Test(fusion, f057_comparisons_are_exact_across_types)
{
    BOTH(g)
    {
        tp_tensor *i = tp_from_data(g, TP_I64, TP_DIMS(1), (int64_t[]){INT64_MAX}),
                  *u = tp_from_data(g, TP_U64, TP_DIMS(1), (uint64_t[]){UINT64_C(1) << 63});
        expect_values("57", tp_less(i, u), VALUES(1));
        expect_values("57", tp_greater_equal(i, u), VALUES(0));
        int64_t x = 701389446541966656;
        tp_tensor *us = tp_from_data(g, TP_U64, TP_DIMS(3),
                                     (uint64_t[]){(uint64_t)x - 1, (uint64_t)x, (uint64_t)x + 1}),
                  *xs = tp_from_data(g, TP_I64, TP_DIMS(1), &x);
        expect_values("57", tp_equal(us, xs), VALUES(0, 1, 0));
        tp_tensor *f =
            tp_from_data(g, TP_F64, TP_DIMS(4), (double[]){0x1p63, 0x1p63 - 1024, NAN, -1.5});
        expect_values("i64 < f64", tp_less(i, f), VALUES(1, 0, 0, 0));
        expect_values("i64 > f64", tp_greater(i, f), VALUES(0, 1, 0, 1));
        expect_values("i64 != f64", tp_not_equal(i, f), VALUES(1, 1, 1, 1));
        tp_tensor *big = tp_from_data(g, TP_I64, TP_DIMS(1), (int64_t[]){(INT64_C(1) << 53) + 1}),
                  *near = tp_from_data(g, TP_F64, TP_DIMS(1), (double[]){0x1p53});
        expect_values("2^53 + 1", tp_equal(big, near), VALUES(0));
        expect_values("2^53 + 1", tp_greater(big, near), VALUES(1));
        expect_values("i32 against f32",
                      tp_equal(tp_from_data(g, TP_I32, TP_DIMS(1), (int32_t[]){16777217}),
                               tp_scalar(g, TP_F32, 16777216)),
                      VALUES(0));
    }
}

Test(fusion, f055_scalars_are_weak)
{
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *b = tp_full(g, TP_U8, TP_DIMS(1), 200), *u = tp_full(g, TP_U32, TP_DIMS(1), 0),
              *h = tp_full(g, TP_F16, TP_DIMS(1), 1), *f = tp_full(g, TP_F32, TP_DIMS(1), 1);
    expect_values("55", tp_add(b, tp_int(b, 128)), VALUES(72));
    expect_values("55", tp_sub(u, tp_int(u, 1)), VALUES(4294967295.0));
    expect_refusal("55", g, tp_add(b, tp_int(b, 300)), "300 does not fit u8");
    cr_expect_eq(tp_dtype_of(tp_mul(h, tp_num(h, 10))), TP_F16);
    expect_values("55", tp_mul(f, tp_num(f, 1e200)), VALUES(INFINITY));
    cr_expect_eq(tp_dtype_of(tp_mul(b, tp_num(b, 2.5))), TP_F32);
    tp_graph_destroy(g);
}

Test(fusion, f087_f093_softmax_and_nan)
{
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *y = tp_softmax(tp_from_data(g, TP_F32, TP_DIMS(2), (float[]){-20000, -20001}), 0);
    cr_assert_eq(tp_eval(y), TP_OK);
    cr_expect(fabs(tp_item(y, 0) - 0.7310586) < 1e-6 && fabs(tp_item(y, 1) - 0.2689414) < 1e-6);
    expect_values("87", tp_softmax(tp_full(g, TP_F32, TP_DIMS(2), -1e30), 0), VALUES(0.5, 0.5));
    expect_values("87", tp_softmax(tp_full(g, TP_F16, TP_DIMS(2), -60000), 0), VALUES(0.5, 0.5));
    expect_values(
        "89",
        tp_select(tp_softmax(tp_expand(tp_full(g, TP_F16, TP_DIMS(1), 0), TP_DIMS(65536)), 0), 0,
                  7),
        VALUES(0x1p-16));
    expect_values("all -inf", tp_softmax(tp_full(g, TP_F32, TP_DIMS(2), -INFINITY), 0),
                  VALUES(NAN, NAN));
    for (int64_t n = 1; n <= 40; n++) {
        for (int64_t at = 0; at < n; at++) {
            tp_graph *h = tp_graph_create(NULL);
            float data[40] = {0};
            data[at] = NAN;
            if (at + 1 < n) data[n - 1] = NAN;
            tp_tensor *x = tp_from_data(h, TP_F32, TP_DIMS(n), data),
                      *r[] = {tp_max(x, TP_ALL_AXES, false), tp_min(x, TP_ALL_AXES, false),
                              tp_argmax(x, TP_ALL_AXES, false)};
            cr_assert_eq(tp_eval_all(h, 3, r, NULL), TP_OK);
            cr_assert(isnan(tp_item(r[0], 0)) && isnan(tp_item(r[1], 0)) &&
                          tp_item(r[2], 0) == (double)at,
                      "93: NaN at %ld of %ld", (long)at, (long)n);
            tp_graph_destroy(h);
        }
    }
    tp_tensor *x = count_up(g, TP_F32, TP_DIMS(2, 3));
    expect_values("103", tp_sum(x, 0, NULL, false), VALUES(0, 1, 2, 3, 4, 5));
    expect_shape("103", tp_sum(x, TP_ALL_AXES, true), TP_DIMS(1, 1));
    expect_values("103", tp_sum(tp_scalar(g, TP_F32, 7), TP_ALL_AXES, false), VALUES(7));
    tp_graph_destroy(g);
}
