/* Functions put together from others: their values, edges and refusals; and facts of operations
 * that the comparison of backends cannot know. */
#include "tests/cases/expect.h"

static tp_graph *g;
static void set_up(void)
{
    g = tp_graph_create(NULL);
}
static void tear_down(void)
{
    tp_graph_destroy(g);
}
TestSuite(compose, .init = set_up, .fini = tear_down);

static tp_tensor *floats(int n, const float *data)
{
    return tp_from_data(g, TP_F32, 1, (int64_t[]){n}, data);
}
#define FLOATS(...)                                                                                \
    floats((int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)), (float[]){__VA_ARGS__})
static tp_tensor *ints(int n, const int32_t *data)
{
    return tp_from_data(g, TP_I32, 1, (int64_t[]){n}, data);
}
#define INTS(...)                                                                                  \
    ints((int)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)), (int32_t[]){__VA_ARGS__})

Test(compose, elementwise)
{
    tp_tensor *x = FLOATS(-3, -0.5F, 0.5F, 3, NAN);
    expect_values("clamp", tp_clamp(x, tp_num(x, -1), tp_num(x, 1)), VALUES(-1, -0.5, 0.5, 1, NAN));
    expect_values("lerp", tp_lerp(FLOATS(0, 2), FLOATS(10, 4), tp_scalar(g, TP_F32, 0.5)),
                  VALUES(5, 3));
    expect_values("leaky_relu", tp_leaky_relu(x, 0.5), VALUES(-1.5, -0.25, 0.5, 3, NAN));
    cr_expect_eq(plan_of(tp_clamp(x, tp_num(x, -1), tp_num(x, 1))).kernels, 1);
}

Test(compose, reductions)
{
    tp_tensor *x = tp_reshape(FLOATS(0, 0, 0, 1, NAN, 3), TP_DIMS(3, 2)),
              *empty = tp_full(g, TP_F32, TP_DIMS(2, 0), 1);
    int64_t one[] = {1};
    expect_values("any", tp_any(x, 1, one, false), VALUES(0, 1, 1));
    expect_values("all", tp_all(x, 1, one, false), VALUES(0, 0, 1));
    expect_values("any of nothing", tp_any(empty, 1, one, false), VALUES(0, 0));
    expect_values("all of nothing", tp_all(empty, 1, one, false), VALUES(1, 1));
    expect_values("prod of nothing", tp_prod(empty, 1, one, false), VALUES(1, 1));
    expect_values("prod", tp_prod(INTS(2, -3, 7), TP_ALL_AXES, false), VALUES(-42));
    expect_values("count_nonzero", tp_count_nonzero(x, TP_ALL_AXES, false), VALUES(3));
    expect_values("argmin", tp_argmin(FLOATS(3, 1, 2, 1), TP_ALL_AXES, false), VALUES(1));
    expect_values("norms", tp_norm(FLOATS(3, -4), TP_ALL_AXES, 2, false), VALUES(5));
    expect_values("norms", tp_norm(FLOATS(3, -4), TP_ALL_AXES, 1, true), VALUES(7));
    expect_values("norms", tp_norm(FLOATS(3, -4), TP_ALL_AXES, INFINITY, false), VALUES(4));
    expect_refusal("norm", g, tp_norm(FLOATS(3), TP_ALL_AXES, 3, false),
                   "p is 3: 1, 2 and infinity are known");
    /* Fault 99: all() of a strided all-true tensor. */
    tp_tensor *t = tp_slice(tp_full(g, TP_BOOL, TP_DIMS(4, 6), 1), 1, 0, TP_END, 2);
    expect_values("99", tp_all(t, TP_ALL_AXES, false), VALUES(1));
    expect_values("99", tp_any(tp_logical_not(t), TP_ALL_AXES, false), VALUES(0));
}

/* Fault 95: no difference of large squares. */
Test(compose, f095_variance)
{
    tp_tensor *s = tp_std(FLOATS(1.0F, .999998987F, 1.000002027F, .999997020F, 1.000004053F,
                                 .999994993F, 1.000005960F, .999993026F, 1.000007987F, .999991000F),
                          TP_ALL_AXES, 0, false);
    cr_assert_eq(tp_eval(s), TP_OK);
    cr_expect_lt(fabs(tp_item(s, 0) - 5.3106e-06), 2e-9, "%.9g", tp_item(s, 0));
    tp_tensor *d = tp_from_data(g, TP_F64, TP_DIMS(3), (double[]){1e9, 1e9 + 1, 1e9 + 2});
    expect_values("95", tp_var(d, TP_ALL_AXES, 0, false), VALUES(2.0 / 3));
    expect_values("95", tp_var(d, TP_ALL_AXES, 1, true), VALUES(1));
    expect_values("ddof = n", tp_var(d, TP_ALL_AXES, 3, false), VALUES(NAN));
    tp_tensor *c = tp_expand(FLOATS(100, -100), TP_DIMS(100000, 2));
    expect_values("constant columns", tp_var(c, 1, (int64_t[]){0}, 0, false), VALUES(0, 0));
}

Test(compose, logsumexp_at_infinities)
{
    expect_values("-inf", tp_logsumexp(FLOATS(-INFINITY, -INFINITY), TP_ALL_AXES, false),
                  VALUES(-INFINITY));
    expect_values("inf", tp_logsumexp(FLOATS(1, INFINITY), TP_ALL_AXES, false), VALUES(INFINITY));
    expect_values("large", tp_logsumexp(FLOATS(1000), TP_ALL_AXES, false), VALUES(1000));
    /* Fault 89: many f16 values. */
    expect_values("89",
                  tp_logsumexp(tp_expand(tp_full(g, TP_F16, TP_DIMS(1), 0), TP_DIMS(65536)),
                               TP_ALL_AXES, false),
                  VALUES(11.09375));
    expect_values("f16", tp_norm(tp_full(g, TP_F16, TP_DIMS(4), 300), TP_ALL_AXES, 2, false),
                  VALUES(600));
}

/* Faults 48, 49, 51 and 53. */
Test(compose, f048_f049_f051_f053_division_and_shifts)
{
    expect_values("48", tp_floor_divide(INTS(INT32_MIN), INTS(-1)), VALUES(INT32_MIN));
    expect_values("48", tp_remainder(INTS(INT32_MIN), INTS(-1)), VALUES(0));
    expect_values("49", tp_floor_divide(INTS(1, -1, 0), INTS(0)), VALUES(0, 0, 0));
    expect_values("49", tp_remainder(INTS(1, -1, 0), INTS(0)), VALUES(0, 0, 0));
    expect_values("python", tp_floor_divide(INTS(7, -7, 7, -7), INTS(2, 2, -2, -2)),
                  VALUES(3, -4, -4, 3));
    expect_values("python", tp_remainder(INTS(7, -7, 7, -7), INTS(2, 2, -2, -2)),
                  VALUES(1, 1, -1, -1));
    tp_tensor *a =
        tp_from_data(g, TP_F64, TP_DIMS(4), (double[]){-1, 1, 78 * 6e-8, -2.220446049250313e-16});
    tp_tensor *b = tp_from_data(g, TP_F64, TP_DIMS(4), (double[]){3, 0.2, 6e-8, 6.283185307179586});
    expect_values("51", tp_floor_divide(a, b), VALUES(-1, 4, 77, -1));
    expect_values("51", tp_remainder(a, b),
                  VALUES(2, 0.19999999999999996, 5.999999999999965e-08, 6.283185307179586));
    expect_values("53 right",
                  tp_right_shift(INTS(8, 8, -8, -8, -8, -1), INTS(-1, -8, -1, 33, 63, 33)),
                  VALUES(0, 0, -1, -1, -1, -1));
    expect_values("53 left", tp_left_shift(INTS(8, 1, 1), INTS(32, 31, -1)),
                  VALUES(0, INT32_MIN, 0));
    for (int n = 1; n <= 50; n++) { /* fault 139 */
        tp_tensor *f = tp_full(g, TP_F32, TP_DIMS(1), n), *k = tp_arange(g, TP_F32, 1, 1, 50);
        expect_values("139",
                      tp_sum(tp_cast(tp_equal(tp_floor_divide(tp_mul(f, k), f), k), TP_I64),
                             TP_ALL_AXES, false),
                      VALUES(50));
    }
    expect_refusal("bits", g, tp_bitwise_and(FLOATS(1), FLOATS(1)),
                   "the operands are f32 and f32, an integer type is needed");
    expect_refusal("bits", g, tp_bitwise_not(tp_full(g, TP_BOOL, TP_DIMS(1), 1)),
                   "the operand is bool, an integer type is needed");
}

Test(compose, rounding_and_questions)
{
    tp_tensor *x = FLOATS(-2.5F, -0.5F, 0.5F, 1.5F, 2.5F, INFINITY, NAN);
    expect_values("round", tp_round(x), VALUES(-2, 0, 0, 2, 2, INFINITY, NAN));
    expect_values("floor", tp_floor(x), VALUES(-3, -1, 0, 1, 2, INFINITY, NAN));
    expect_values("trunc", tp_trunc(x), VALUES(-2, 0, 0, 1, 2, INFINITY, NAN));
    expect_values("sign", tp_sign(x), VALUES(-1, -1, 1, 1, 1, 1, NAN));
    expect_values("isnan", tp_isnan(x), VALUES(0, 0, 0, 0, 0, 0, 1));
    expect_values("isinf", tp_isinf(x), VALUES(0, 0, 0, 0, 0, 1, 0));
    expect_values("isfinite", tp_isfinite(x), VALUES(1, 1, 1, 1, 1, 0, 0));
    cr_expect_eq(tp_dtype_of(tp_floor(INTS(1))), TP_I32);
    expect_values("silu", tp_silu(FLOATS(-INFINITY, 0)), VALUES(0, 0));
}

Test(compose, linear_and_outer)
{
    tp_tensor *w = tp_reshape(FLOATS(1, 2, 3, 4, 5, 6), TP_DIMS(3, 2)), *x = FLOATS(1, 10);
    expect_values("linear", tp_linear(tp_unsqueeze(x, 0), w, FLOATS(1, 1, 1)), VALUES(22, 44, 66));
    expect_values("linear", tp_linear(x, w, NULL), VALUES(21, 43, 65));
    expect_refusal("linear", g, tp_linear(x, x, NULL), "w is [2], [out, in] is needed");
    expect_values("outer", tp_outer(FLOATS(1, 2), FLOATS(3, 4, 5)), VALUES(3, 4, 5, 6, 8, 10));
}
