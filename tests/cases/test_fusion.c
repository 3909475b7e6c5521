/* Faults reported against other engines: passes and fusion (category 9). Each runs on both
 * backends, with all passes and with none. */
#include "tests/cases/expect.h"

#include <stdio.h>

#include "backends/backend.h"

TestSuite(fusion, .timeout = 120);

static const tp_dtype floats[] = {TP_F16, TP_BF16, TP_F32, TP_F64};

/* A leaf that is data, not a constant: loops must run. */
static tp_tensor *data_of(tp_graph *g, tp_dtype t, int64_t n, double value)
{
    double values[100];
    for (int64_t i = 0; i < n; i++) values[i] = value;
    return leaf_of(g, t, (int)n, values);
}

Test(fusion, f132_a_narrowing_cast_is_never_removed)
{
    EACH(g)
    {
        tp_tensor *x = tp_div(tp_arange(g, TP_F32, 0, 1, 20), tp_scalar(g, TP_F32, 7)),
                  *y = tp_cast(tp_cast(x, TP_F16), TP_F32);
        expect_values("fused sum of rounded values",
                      tp_sum(tp_slice(y, 0, 0, 4, 1), TP_ALL_AXES, false),
                      VALUES(0.142822265625 + 0.28564453125 + 0.428466796875));
        expect_values("y", tp_slice(y, 0, 0, 4, 1),
                      VALUES(0, 0.142822265625, 0.28564453125, 0.428466796875));
        /* The sum of all 20, fused, is that of the values stored first. */
        tp_tensor *fused = tp_sum(tp_cast(tp_cast(x, TP_F16), TP_F32), TP_ALL_AXES, false);
        cr_assert(tp_eval(fused) == TP_OK && tp_eval(y) == TP_OK);
        tp_tensor *apart = tp_sum(y, TP_ALL_AXES, false);
        cr_assert_eq(tp_eval(apart), TP_OK);
        cr_expect_eq(tp_item(fused, 0), tp_item(apart, 0));
        tp_tensor *n = data_of(g, TP_F32, 1, 257), *i = data_of(g, TP_I32, 1, 300);
        expect_values("bf16", tp_cast(tp_cast(n, TP_BF16), TP_F32), VALUES(256));
        expect_values("u8", tp_cast(tp_cast(i, TP_U8), TP_I32), VALUES(44));
        expect_values("f32", tp_cast(tp_cast(data_of(g, TP_F64, 1, 0.1), TP_F32), TP_F64),
                      VALUES((double)0.1F));
        expect_values("through i32", tp_cast(tp_cast(data_of(g, TP_F64, 1, -2.75), TP_I32), TP_F64),
                      VALUES(-2));
        expect_values("through bool", tp_cast(tp_cast(i, TP_BOOL), TP_I32), VALUES(1));
        expect_values("through f32",
                      tp_cast(tp_cast(data_of(g, TP_I32, 1, 16777217), TP_F32), TP_I32),
                      VALUES(16777216));
        /* A widening pair goes: nothing runs but the negation. */
        if (mode_ == 0)
            cr_expect_eq(plan_of(tp_neg(tp_cast(tp_cast(n, TP_F64), TP_F32))).kernels, 1);
    }
}

Test(fusion, f133_every_result_is_rounded_to_its_type)
{
    EACH(g)
    {
        for (int64_t n = 1; n <= 40; n++) {
            tp_tensor *a = data_of(g, TP_BF16, n, 256), *b = data_of(g, TP_BF16, n, 1),
                      *same = tp_equal(tp_add(a, b), a),
                      *half =
                          tp_equal(tp_add(data_of(g, TP_F16, n, 2048), data_of(g, TP_F16, n, 1)),
                                   data_of(g, TP_F16, n, 2048));
            /* y is stored as bf16 and read inside the kernel that makes it. */
            tp_tensor *x = tp_cast(tp_arange(g, TP_F32, 1.0078125, 0.0078125, n), TP_BF16),
                      *y = tp_mul(x, x),
                      *wide = tp_mul(tp_cast(y, TP_F32), tp_scalar(g, TP_F32, 1)),
                      *z = tp_sub(tp_cast(y, TP_F32), wide);
            cr_assert_eq(tp_eval_all(g, 5, (tp_tensor *[]){y, wide, z, same, half}, NULL), TP_OK);
            tp_tensor *late = tp_sub(tp_cast(y, TP_F32), wide); /* of the stored y */
            cr_assert_eq(tp_eval(late), TP_OK);
            for (int64_t i = 0; i < n; i++)
                cr_assert(tp_item(same, i) == 1 && tp_item(half, i) == 1 && tp_item(z, i) == 0 &&
                              tp_item(late, i) == 0 && tp_item(wide, i) == tp_item(y, i),
                          "%ld of %ld", (long)i, (long)n);
        }
    }
}

Test(fusion, f134_no_contraction)
{
    EACH(g)
    {
        for (int64_t n = 1; n <= 40; n++) {
            tp_tensor *a = data_of(g, TP_F32, n, 1e20), *b = data_of(g, TP_F32, n, -1e20),
                      *x = data_of(g, TP_F32, n, 1e10), *s = data_of(g, TP_F32, n, 0.1),
                      *t = data_of(g, TP_F32, n, 1.4142135), *u = data_of(g, TP_F32, n, 1.7320508),
                      *s2 = data_of(g, TP_F32, n, 0.1);
            tp_tensor *z = tp_neg(tp_mul(t, u)),
                      *y[] = {tp_add(tp_mul(a, x), tp_mul(b, x)),
                              tp_sub(tp_mul(s, s), tp_mul(s2, s2)), tp_add(tp_mul(t, u), z),
                              tp_add(tp_mul(t, u), tp_neg(tp_mul(t, u)))};
            cr_assert_eq(tp_eval(z), TP_OK);
            cr_assert_eq(tp_eval_all(g, 4, y, NULL), TP_OK);
            for (int k = 0; k < 4; k++)
                for (int64_t i = 0; i < n; i++)
                    cr_assert_eq(tp_item(y[k], i), 0, "%d: %g at %ld of %ld", k, tp_item(y[k], i),
                                 (long)i, (long)n);
        }
        /* Multiplication by a row inside a norm, and doubles. */
        tp_tensor *p = data_of(g, TP_F64, 5, 0.1), *q = data_of(g, TP_F64, 5, 0.1);
        expect_values("f64", tp_sub(tp_mul(p, p), tp_mul(q, q)), VALUES(0, 0, 0, 0, 0));
    }
}

/* The six values over and over: y[i] must be want[i % 6], sign of zero included. */
static void check_six(const char *what, tp_tensor *y, tp_dtype t, int64_t n, const double *want)
{
    double values[40];
    for (int i = 0; i < 40; i++) values[i] = want[i % 6];
    void *bytes = elements(t, 40, values);
    expect_bits(what, y, t, n, bytes);
    free(bytes);
}

Test(fusion, f135_no_algebra_that_floats_do_not_have)
{
    double six[40];
    for (int i = 0; i < 40; i++)
        six[i] = ((double[]){1, INFINITY, -INFINITY, NAN, -1, -0.0})[i % 6];
    EACH(g)
    {
        for (int k = 0; k < 4 * 2 * 40; k++) {
            tp_dtype t = floats[k % 4];
            int64_t n = k / 8 + 1;
            tp_tensor *x = leaf_of(g, t, (int)n, six);
            /* A constant, weak or not, and data. */
            bool weak = k / 4 % 2 == 0;
#define NUMBER(v) (weak ? tp_num(x, v) : data_of(g, t, 1, v))
            check_six("x*0", tp_mul(x, NUMBER(0)), t, n, (double[]){0, NAN, NAN, NAN, -0.0, -0.0});
            check_six("0*x", tp_mul(NUMBER(0), x), t, n, (double[]){0, NAN, NAN, NAN, -0.0, -0.0});
            check_six("x-x", tp_sub(x, x), t, n, (double[]){0, NAN, NAN, NAN, 0, 0});
            check_six("x/x", tp_div(x, x), t, n, (double[]){1, NAN, NAN, NAN, 1, NAN});
            check_six("0/x", tp_div(NUMBER(0), x), t, n, (double[]){0, 0, -0.0, NAN, -0.0, NAN});
            check_six("x+0", tp_add(x, NUMBER(0)), t, n,
                      (double[]){1, INFINITY, -INFINITY, NAN, -1, 0});
            check_six("0+x", tp_add(NUMBER(0), x), t, n,
                      (double[]){1, INFINITY, -INFINITY, NAN, -1, 0});
            check_six("x-0", tp_sub(x, NUMBER(0)), t, n, six);
            check_six("x+-0", tp_add(x, NUMBER(-0.0)), t, n, six);
            check_six("x--0", tp_sub(x, NUMBER(-0.0)), t, n,
                      (double[]){1, INFINITY, -INFINITY, NAN, -1, 0});
            check_six("x*1", tp_mul(x, NUMBER(1)), t, n, six);
            check_six("x/1", tp_div(x, NUMBER(1)), t, n, six);
            check_six("x*-1", tp_mul(x, NUMBER(-1)), t, n,
                      (double[]){-1, -INFINITY, INFINITY, NAN, 1, 0});
            check_six("-(-x)", tp_neg(tp_neg(x)), t, n, six);
            const double twice[] = {2, INFINITY, -INFINITY, NAN, -2, -0.0};
            check_six("x+x", tp_add(x, x), t, n, twice);
            check_six("2*x", tp_mul(x, NUMBER(2)), t, n, twice);
            /* In the middle of a group, where a rule may fire that spares outputs. */
            check_six("(x+0)-x", tp_sub(tp_add(x, NUMBER(0)), x), t, n,
                      (double[]){0, NAN, NAN, NAN, 0, 0});
            check_six("-(x--0)", tp_neg(tp_sub(x, NUMBER(-0.0))), t, n,
                      (double[]){-1, -INFINITY, INFINITY, NAN, 1, -0.0});
            check_six("1/(x+0)", tp_div(NUMBER(1), tp_add(x, NUMBER(0))), t, n,
                      (double[]){1, 0, -0.0, NAN, -1, INFINITY});
            check_six("x^1", tp_pow(x, NUMBER(1)), t, n, six);
            if (k % 8 == 7) tp_graph_reset(g);
        }
    }
}

Test(fusion, f137_signs_of_zero_at_every_length)
{
    EACH(g)
    {
        for (int k = 0; k < 4 * 40; k++) {
            tp_dtype t = floats[k % 4];
            int64_t n = k / 4 + 1;
            double zeros[40] = {0}, minus[40], mixed[40];
            for (int i = 0; i < 40; i++) minus[i] = -0.0, mixed[i] = i == n / 2 ? 0 : -0.0;
            void *zp = elements(t, 40, zeros), *zm = elements(t, 40, minus),
                 *zx = elements(t, 40, mixed);
            for (int how = 0; how < LAYS; how++) {
                tp_tensor *p = laid(g, (lay)how, t, TP_DIMS(n), zp),
                          *m = laid(g, (lay)how, t, TP_DIMS(n), zm),
                          *x = laid(g, (lay)how, t, TP_DIMS(n), zx);
                expect_bits("max(+,-)", tp_maximum(p, m), t, n, zp);
                expect_bits("max(-,+)", tp_maximum(m, p), t, n, zp);
                expect_bits("min(+,-)", tp_minimum(p, m), t, n, zm);
                expect_bits("min(-,+)", tp_minimum(m, p), t, n, zm);
                expect_bits("relu", tp_relu(m), t, n, zp);
                expect_bits("max", tp_max(x, TP_ALL_AXES, false), t, 1, zp);
                expect_bits("max of -0", tp_max(m, TP_ALL_AXES, false), t, 1, zm);
                expect_bits("min", tp_min(n == 1 ? m : x, TP_ALL_AXES, false), t, 1, zm);
                tp_tensor *inverse = tp_div(tp_num(p, 1), tp_maximum(m, p));
                cr_assert_eq(tp_eval(inverse), TP_OK);
                cr_assert_eq(tp_item(inverse, n - 1), INFINITY);
                /* Along the outer axis. */
                tp_tensor *outer =
                    tp_max(tp_expand(tp_unsqueeze(x, 1), TP_DIMS(n, 3)), 1, (int64_t[]){0}, false);
                expect_bits("outer", outer, t, 3, zp);
            }
            free(zp), free(zm), free(zx);
            tp_graph_reset(g);
        }
    }
}

Test(fusion, f138_division_is_division)
{
    EACH(g)
    {
        tp_tensor *x = data_of(g, TP_F32, 3, 800);
        const double quotient = 1.8735363483428955;
        expect_values("800/427", tp_div(x, tp_num(x, 427)), VALUES(quotient, quotient, quotient));
        float n[400], ones[400], tenths[400], parts[400], halves[400];
        double nd[400], od[400], pd[400];
        for (int i = 0; i < 400; i++) {
            n[i] = (float)(i + 1), ones[i] = 1, tenths[i] = n[i] / 10, parts[i] = n[i] / 101;
            halves[i] = n[i] / 8, nd[i] = i + 1, od[i] = 1, pd[i] = (i + 1) / 101.0;
        }
        for (int how = 0; how < LAYS; how++) {
            tp_tensor *y = laid(g, (lay)how, TP_F32, TP_DIMS(400), n),
                      *z = laid(g, (lay)how, TP_F64, TP_DIMS(400), nd);
            expect_bits("n/n", tp_div(y, y), TP_F32, 400, ones);
            expect_bits("n/10", tp_div(y, tp_num(y, 10)), TP_F32, 400, tenths);
            expect_bits("n/101", tp_div(y, tp_num(y, 101)), TP_F32, 400, parts);
            expect_bits("n/101", tp_div(y, data_of(g, TP_F32, 1, 101)), TP_F32, 400, parts);
            expect_bits("n/8", tp_div(y, tp_num(y, 8)), TP_F32, 400, halves);
            expect_bits("f64 n/n", tp_div(z, z), TP_F64, 400, od);
            expect_bits("f64 n/101", tp_div(z, tp_num(z, 101)), TP_F64, 400, pd);
        }
        for (int i = 1; i <= 200; i++) { /* each as a constant */
            tp_tensor *y = data_of(g, TP_F32, 9, i);
            double one[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
            expect_values("n/n", tp_div(y, tp_num(y, i)), 9, one);
        }
    }
}

Test(fusion, f139_floors_of_quotients)
{
    EACH(g)
    {
        for (int f = 2; f < 4; f++) {
            tp_tensor *a = data_of(g, floats[f], 7, 55), *b = data_of(g, floats[f], 7, 41);
            double one[7] = {1, 1, 1, 1, 1, 1, 1};
            expect_values("trunc", tp_trunc(tp_div(a, tp_num(a, 55))), 7, one);
            expect_values("floor", tp_floor(tp_div(b, b)), 7, one);
            expect_values("floor", tp_floor(tp_div(b, tp_num(b, 41))), 7, one);
            for (int n = 1; n <= 50; n++) {
                double products[50], k[50];
                for (int i = 0; i < 50; i++) products[i] = n * (i + 1), k[i] = i + 1;
                tp_tensor *p = leaf_of(g, floats[f], 50, products);
                expect_values("floor_divide", tp_floor_divide(p, tp_num(p, n)), 50, k);
                expect_values("floor_divide", tp_floor_divide(p, data_of(g, floats[f], 50, n)), 50,
                              k);
                expect_values("floor", tp_floor(tp_div(p, tp_num(p, n))), 50, k);
            }
        }
    }
}

/* A dead temporary's bytes may take a result; nothing may read them after that. */
Test(fusion, f141_results_in_their_operands_bytes)
{
    static const int64_t lengths[] = {1, 64, 67};
    EACH(g)
    {
        for (int l = 0; l < 3; l++) {
            int64_t n = lengths[l];
            tp_tensor *one = data_of(g, TP_F32, 1, 1),
                      *leaf = tp_expand(tp_unsqueeze(one, 0), TP_DIMS(n, 1));
            tp_tensor *a = tp_matmul(leaf, tp_unsqueeze(one, 0)), *b = tp_add(a, tp_num(a, 1)),
                      *anew = b, *c = tp_add(anew, tp_num(a, 2)), *y = tp_div(tp_mul(anew, b), c);
            cr_assert_eq(tp_eval_all(g, 3, (tp_tensor *[]){y, b, c}, NULL), TP_OK);
            for (int64_t i = 0; i < n; i++)
                cr_assert(tp_item(b, i) == 2 && tp_item(c, i) == 4 && tp_item(y, i) == 1);
            tp_tensor *alone = tp_div(tp_mul(tp_add(a, tp_num(a, 1)), tp_add(a, tp_num(a, 1))),
                                      tp_add(tp_add(a, tp_num(a, 1)), tp_num(a, 2)));
            cr_assert_eq(tp_eval(alone), TP_OK);
            for (int64_t i = 0; i < n; i++) cr_assert_eq(tp_item(alone, i), 1);
        }
    }
}

/* X[i,k] = i + k of (rows, 9) times ones, plus 0.5, relu. */
Test(fusion, f143_bias_and_relu_after_a_narrow_product)
{
    EACH(g)
    {
        for (int64_t n = 1; n <= 5; n += 4) {
            for (int64_t rows = 1; rows <= 5; rows += 4) {
                tp_tensor *x = tp_add(tp_unsqueeze(tp_arange(g, TP_F32, 0, 1, rows), 1),
                                      tp_arange(g, TP_F32, 0, 1, 9)),
                          *w = tp_reshape(data_of(g, TP_F32, 9 * n, 1), TP_DIMS(9, n)),
                          *bias = data_of(g, TP_F32, 1, 0.5),
                          *y = tp_relu(tp_add(tp_matmul(x, w), bias));
                double want[25];
                for (int64_t i = 0; i < rows * n; i++) want[i] = 36.5 + 9 * (double)(i / n);
                expect_values("143", y, (int)(rows * n), want);
                tp_tensor *z =
                    tp_relu(tp_linear(x, tp_transpose(w, 0, 1), data_of(g, TP_F32, n, 0.5)));
                expect_values("143 linear", z, (int)(rows * n), want);
            }
        }
        tp_tensor *x = tp_add(tp_unsqueeze(tp_arange(g, TP_F32, 0, 1, 5), 1),
                              tp_arange(g, TP_F32, 0, 1, 9)),
                  *row = tp_reshape(data_of(g, TP_F32, 5, 1), TP_DIMS(1, 5));
        expect_values("(1,N)", tp_relu(tp_add(tp_matmul(row, x), tp_num(x, 0.5))),
                      VALUES(10.5, 15.5, 20.5, 25.5, 30.5, 35.5, 40.5, 45.5, 50.5));
    }
}

Test(fusion, f145_identity_permutations)
{
    EACH(g)
    {
        tp_tensor *m = tp_reshape(leaf_of(g, TP_F32, VALUES(1, 2, 3, 4)), TP_DIMS(2, 2)),
                  *n = tp_reshape(leaf_of(g, TP_F32, VALUES(5, 6, 7, 8)), TP_DIMS(2, 2)),
                  *same = tp_permute(m, TP_DIMS(0, 1)),
                  *twice = tp_permute(tp_permute(m, TP_DIMS(1, 0)), TP_DIMS(1, 0));
        expect_values("identity", tp_matmul(same, n), VALUES(19, 22, 43, 50));
        expect_values("both", tp_matmul(same, tp_permute(n, TP_DIMS(0, 1))),
                      VALUES(19, 22, 43, 50));
        expect_values("twice", tp_matmul(twice, n), VALUES(19, 22, 43, 50));
        expect_values("once", tp_matmul(tp_permute(m, TP_DIMS(1, 0)), n), VALUES(26, 30, 38, 44));
        expect_values("copied", tp_matmul(tp_contiguous(tp_permute(m, TP_DIMS(1, 0))), n),
                      VALUES(26, 30, 38, 44));
        tp_tensor *x = count_up(g, TP_F32, TP_DIMS(3, 4)), *b = count_up(g, TP_F32, TP_DIMS(4, 5));
        expect_values("(3,4)@(4,5)", tp_matmul(tp_permute(x, TP_DIMS(0, 1)), b),
                      VALUES(70, 76, 82, 88, 94, 190, 212, 234, 256, 278, 310, 348, 386, 424, 462));
        tp_tensor *row = count_up(g, TP_F32, TP_DIMS(1, 4)), *col = tp_permute(row, TP_DIMS(1, 0));
        expect_values("(1,n)", tp_matmul(row, col), VALUES(14));
        expect_values("(n,1)", tp_matmul(col, row),
                      VALUES(0, 0, 0, 0, 0, 1, 2, 3, 0, 2, 4, 6, 0, 3, 6, 9));
        tp_tensor *batch =
            tp_permute(count_up(g, TP_F32, TP_DIMS(2, 3, 1, 2)), TP_DIMS(1, 0, 2, 3));
        expect_values("batch",
                      tp_matmul(batch, tp_reshape(data_of(g, TP_F32, 2, 1), TP_DIMS(2, 1))),
                      VALUES(1, 13, 5, 17, 9, 21));
        expect_values("batch",
                      tp_matmul(tp_permute(batch, TP_DIMS(0, 1, 3, 2)),
                                tp_permute(batch, TP_DIMS(0, 1, 2, 3))),
                      VALUES(0, 0, 0, 1, 36, 42, 42, 49, 4, 6, 6, 9, 64, 72, 72, 81, 16, 20, 20, 25,
                             100, 110, 110, 121));
    }
}

/* One expression of many ops and one of many distinct operands: split where a program is full
 * (TP_PROGRAM_INSNS, TP_PROGRAM_LOADS), always right. */
Test(fusion, f147_long_chains_and_many_inputs)
{
    static const int lengths[] = {5, 30, 31, 32, 50, 64, 65, 99, 100, 101, 128, 129, 1000};
    EACH(g)
    {
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
            tp_tensor *x = data_of(g, TP_F64, 67, 1), *y = x, *many = x, *wide = x;
            double want = 1, sum = 1;
            for (int i = 0; i < lengths[k]; i++) {
                y = tp_add(y, tp_num(y, i % 3 - 1.0)), want += i % 3 - 1.0;
                many = tp_add(many, data_of(g, TP_F64, 1, i)), sum += i;
                tp_tensor *row = tp_reshape(data_of(g, TP_F64, 67, i), TP_DIMS(1, 67));
                wide =
                    tp_add(wide, i % 2 ? row : tp_reshape(data_of(g, TP_F64, 2, i), TP_DIMS(2, 1)));
            }
            cr_assert_eq(tp_eval_all(g, 3, (tp_tensor *[]){y, many, wide}, NULL), TP_OK);
            for (int64_t i = 0; i < tp_numel(wide); i++)
                cr_assert_eq(tp_item(wide, i), sum, "%d inputs", lengths[k]);
            for (int64_t i = 0; i < 67; i++)
                cr_assert(tp_item(y, i) == want && tp_item(many, i) == sum, "%d", lengths[k]);
            tp_graph_reset(g);
        }
        cr_expect(TP_PROGRAM_INSNS > 1 && TP_PROGRAM_LOADS > 1, "the limits are names");
    }
}

typedef tp_tensor *(*unary)(tp_tensor *);
typedef tp_tensor *(*binary)(tp_tensor *, tp_tensor *);

/* Every elementwise op: on constants, on one element of data, and on 40 of them. */
Test(fusion, f149_constants_and_loops_agree)
{
    static const struct {
        const char *name;
        unary one;
        binary two;
    } ops[] = {
#define UNARY(ENUM, name, ...) {#name, tp_##name, NULL},
#define TEST UNARY
#define BINARY(ENUM, name, ...) {#name, NULL, tp_##name},
#define COMPARE BINARY
#include "graph/ops.def"
    };
    static const double edge[] = {0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 0, 0};
    static const double tiny[] = {0x1p-24, 0x1p-133, 0x1p-149, 0x1p-1074},
                        top[] = {65504, 0x1.fep127, 0x1.fffffep127, 0x1.fffffffffffffp1023};
    for (int k = 0; k < 4 * 4; k++) {
        tp_graph *g = graph_of_mode(k / 4);
        int f = k % 4;
        tp_dtype t = floats[f];
        for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
            int pairs = ops[o].one ? 9 : 81;
            for (int p = 0; p < pairs; p++) {
                double v[2];
                for (int s = 0; s < 2; s++) {
                    int e = s ? p / 9 : p % 9;
                    v[s] = e == 7 ? tiny[f] : e == 8 ? top[f] : edge[e];
                }
                tp_tensor *a[3] = {tp_full(g, t, TP_DIMS(1), v[0]), data_of(g, t, 1, v[0]),
                                   data_of(g, t, 40, v[0])},
                          *b[3] = {tp_full(g, t, TP_DIMS(1), v[1]), data_of(g, t, 1, v[1]),
                                   data_of(g, t, 40, v[1])},
                          *y[3];
                bool built = true;
                for (int i = 0; i < 3; i++) {
                    y[i] = ops[o].one ? ops[o].one(a[i]) : ops[o].two(a[i], b[i]);
                    built = built && y[i];
                }
                if (!built) break;
                cr_assert_eq(tp_eval_all(g, 3, y, NULL), TP_OK);
                size_t size = tp_dtype_size(tp_dtype_of(y[0]));
                const char *first = tp_data(y[0]);
                for (int64_t i = 0; i < 41; i++) {
                    const char *got =
                        i == 40 ? tp_data(y[1]) : (const char *)tp_data(y[2]) + (size_t)i * size;
                    tp_value x = tp_value_load(tp_dtype_of(y[0]), first),
                             z = tp_value_load(tp_dtype_of(y[0]), got);
                    cr_assert(memcmp(first, got, size) == 0 || (isnan(x.f) && isnan(z.f)),
                              "%s %s of %g and %g: %.17g as a constant, %.17g at %ld", ops[o].name,
                              tp_dtype_name(t), v[0], v[1], x.f, z.f, (long)i);
                }
            }
            tp_graph_reset(g);
            tp_graph_clear_error(g);
        }
        /* What C's Annex F says. */
        tp_tensor *zero = data_of(g, t, 1, 0), *minus = data_of(g, t, 1, -0.0),
                  *one = data_of(g, t, 1, 1), *nan = data_of(g, t, 1, NAN),
                  *inf = data_of(g, t, 1, INFINITY);
        check_six("atan2(0,0)", tp_atan2(zero, zero), t, 1, (double[6]){0});
        check_six("atan2(-0,0)", tp_atan2(minus, zero), t, 1, (double[6]){-0.0});
        expect_values("pow(0,0)", tp_pow(zero, zero), VALUES(1));
        expect_values("pow(1,NaN)", tp_pow(one, nan), VALUES(1));
        expect_values("pow(NaN,0)", tp_pow(nan, zero), VALUES(1));
        expect_values("hypot(inf,NaN)", tp_hypot(inf, nan), VALUES(INFINITY));
        expect_values("hypot(NaN,-inf)", tp_hypot(nan, tp_neg(inf)), VALUES(INFINITY));
        tp_graph_destroy(g);
    }
}

Test(fusion, f151_reshapes_inside_a_group_are_never_an_internal_error)
{
    EACH(g)
    {
        tp_tensor *x = count_up(g, TP_F32, TP_DIMS(4, 6)), *r = tp_relu(x);
        tp_tensor *y =
            tp_add(tp_reshape(r, TP_DIMS(24)), tp_reshape(tp_transpose(r, 0, 1), TP_DIMS(24)));
        double want[24];
        for (int i = 0; i < 24; i++) want[i] = i + (i % 4) * 6 + i / 4;
        expect_values("two reshapes", y, 24, want);
        tp_tensor *two =
            tp_reshape(tp_mul(tp_reshape(r, TP_DIMS(2, 12)), tp_reshape(tp_neg(r), TP_DIMS(2, 12))),
                       TP_DIMS(3, 8));
        for (int i = 0; i < 24; i++) want[i] = -i * i;
        expect_values("two shapes", two, 24, want);
        /* Before and after the reshape, both outputs or one. */
        tp_tensor *before = tp_exp(tp_mul(x, tp_num(x, 0))),
                  *after = tp_add(tp_reshape(before, TP_DIMS(24)), tp_arange(g, TP_F32, 0, 1, 24)),
                  *both =
                      tp_sum(tp_mul(before, tp_reshape(after, TP_DIMS(4, 6))), TP_ALL_AXES, false);
        cr_assert_eq(tp_eval_all(g, 2, (tp_tensor *[]){after, before}, NULL), TP_OK);
        expect_values("before and after", both, VALUES(24 + 276));
        tp_tensor *e =
            tp_sum(tp_reshape(tp_expand(tp_unsqueeze(r, 0), TP_DIMS(2, 4, 6)), TP_DIMS(8, 6)), 1,
                   (int64_t[]){1}, false);
        expect_values("expand, reshape, reduce", e, VALUES(15, 51, 87, 123, 15, 51, 87, 123));
        tp_tensor *across =
            tp_sum(tp_reshape(tp_expand(tp_unsqueeze(r, 2), TP_DIMS(4, 6, 3)), TP_DIMS(6, 12)), 1,
                   (int64_t[]){1}, false);
        expect_values("across", across, VALUES(18, 66, 114, 162, 210, 258));
        expect_values("P48",
                      tp_select(tp_select(tp_contiguous(tp_transpose(
                                              tp_add(tp_relu(count_up(g, TP_F32, TP_DIMS(2, 3, 4))),
                                                     tp_num(x, 1)),
                                              0, 2)),
                                          0, 1),
                                0, 1),
                      VALUES(6, 18));
    }
}
