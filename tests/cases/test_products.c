/* Faults reported against other engines: matrix products (category 5) and the passes' rows on
 * them, by number. Integer values: every product is exact. */
#include "tests/cases/expect.h"

#include <string.h>

static tp_graph *g;
static void set_up(void)
{
    g = tp_graph_create(NULL);
}
static void tear_down(void)
{
    tp_graph_destroy(g);
}
TestSuite(products, .init = set_up, .fini = tear_down);

static tp_tensor *ones(int ndim, const int64_t *shape)
{
    tp_tensor *x = tp_full(g, TP_F32, ndim, shape, 1);
    tp_eval(x);
    return x;
}

Test(products, f064_shared_left_operand)
{
    tp_tensor *a = tp_expand(tp_from_data(g, TP_F32, TP_DIMS(1, 2, 2), (float[]){1, 2, 3, 4}),
                             TP_DIMS(3, 2, 2));
    tp_tensor *y = tp_matmul(a, count_up(g, TP_F32, TP_DIMS(3, 2, 2)));
    cr_expect_eq(plan_of(y).copies, 0);
    expect_values("64", y, VALUES(4, 7, 8, 15, 16, 19, 36, 43, 28, 31, 64, 71));
    tp_tensor *all = tp_matmul(tp_expand(ones(TP_DIMS(1, 32, 32)), TP_DIMS(32, 32, 32)),
                               ones(TP_DIMS(32, 32, 32)));
    expect_values("64", tp_sum(tp_cast(tp_equal(all, tp_num(all, 32)), TP_I64), TP_ALL_AXES, false),
                  VALUES(32768));
    tp_tensor *mirror = tp_matmul(ones(TP_DIMS(32, 32, 32)),
                                  tp_expand(ones(TP_DIMS(1, 32, 32)), TP_DIMS(32, 32, 32)));
    expect_values("64 mirrored",
                  tp_sum(tp_cast(tp_equal(mirror, tp_num(all, 32)), TP_I64), TP_ALL_AXES, false),
                  VALUES(32768));
}

Test(products, f065_row_slices_and_shared_heads_need_no_copy)
{
    tp_tensor *x = tp_select(count_up(g, TP_F32, TP_DIMS(1, 8, 64)), 1, -1),
              *w = ones(TP_DIMS(32, 64));
    tp_tensor *y = tp_matmul(tp_contiguous(x), tp_transpose(w, 0, 1));
    cr_expect_eq(plan_of(y).copies, 0);
    expect_values("65", tp_select(tp_select(y, 1, 0), 0, 0), VALUES(448 * 64 + 63 * 32));
    tp_tensor *qkv = count_up(g, TP_F32, TP_DIMS(4, 9)), *q = tp_slice(qkv, 1, 3, 6, 1);
    tp_tensor *z = tp_matmul(tp_contiguous(q), ones(TP_DIMS(3, 1)));
    cr_expect_eq(plan_of(z).copies, 0);
    expect_values("65 qkv", z, VALUES(12, 39, 66, 93));
    tp_tensor *heads = tp_matmul(ones(TP_DIMS(1, 2, 2, 2, 3)),
                                 tp_expand(ones(TP_DIMS(1, 2, 1, 3, 2)), TP_DIMS(1, 2, 2, 3, 2)));
    cr_expect_eq(plan_of(heads).copies, 0);
    expect_values("65 gqa", tp_sum(heads, TP_ALL_AXES, false), VALUES(2 * 2 * 2 * 2 * 3));
}

Test(products, f066_an_empty_sum_is_zero)
{
    for (int d = TP_U8; d < TP_DTYPE_COUNT; d++) {
        tp_tensor *y = tp_matmul(tp_full(g, (tp_dtype)d, TP_DIMS(3, 2, 0), 1),
                                 tp_full(g, (tp_dtype)d, TP_DIMS(3, 0, 3), 1));
        expect_values(tp_dtype_name((tp_dtype)d), y,
                      VALUES(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    }
    tp_tensor *none = tp_full(g, TP_F32, TP_DIMS(0), 1);
    expect_values("1-d", tp_matmul(none, none), VALUES(0));
    expect_values(
        "P34",
        tp_matmul(tp_full(g, TP_F32, TP_DIMS(2, 0), 1), tp_full(g, TP_F32, TP_DIMS(0, 3), 1)),
        VALUES(0, 0, 0, 0, 0, 0));
}

/* Fault 69: test builds poison fresh memory with NaN patterns, so a leak of old values shows. */
Test(products, f069_f070_old_values_and_meaningless_strides_never_matter)
{
    static const int64_t sizes[] = {1, 2, 3, 5, 7, 8, 15, 16, 17, 33, 64, 65};
    for (int i = 0; i < 12 * 12 * 12; i++) {
        int64_t m = sizes[i % 12], n = sizes[i / 12 % 12], k = sizes[i / 144];
        tp_graph *h = tp_graph_create(NULL);
        tp_tensor *a = tp_full(h, TP_F32, TP_DIMS(k, m), 1),
                  *b = tp_full(h, TP_F32, TP_DIMS(n, k), 1);
        tp_eval(a), tp_eval(b);
        a = i % 2 ? tp_transpose(a, 0, 1) : tp_reshape(a, TP_DIMS(m, k)),
        b = i % 3 ? tp_transpose(b, 0, 1) : tp_reshape(b, TP_DIMS(k, n));
        tp_tensor *y = tp_matmul(a, b);
        cr_assert_eq(tp_eval(y), TP_OK);
        for (int64_t e = 0; e < m * n; e++)
            cr_assert_eq(tp_item(y, e), (double)k, "%ld x %ld x %ld", (long)m, (long)n, (long)k);
        tp_graph_destroy(h);
    }
    tp_tensor *y = tp_full(g, TP_F32, TP_DIMS(3, 1), 5);
    expect_values("70", tp_matmul(y, tp_transpose(y, 0, 1)),
                  VALUES(25, 25, 25, 25, 25, 25, 25, 25, 25));
    tp_tensor *v = tp_from_data(g, TP_F32, TP_DIMS(2), (float[]){1, 2});
    expect_values("70", tp_matmul(tp_transpose(tp_unsqueeze(v, 1), 0, 1), v), VALUES(5));
}

Test(products, f071_f073_f075_strides_that_blas_does_not_know)
{
    tp_tensor *x = tp_from_data(g, TP_F32, TP_DIMS(6), (float[]){1, 2, 3, 4, 5, 6});
    tp_tensor *c = tp_as_strided(x, TP_DIMS(2, 2, 2), (int64_t[]){3, 1, 1}, 0);
    expect_values("71", tp_matmul(c, c), VALUES(5, 8, 8, 13, 41, 50, 50, 61));
    tp_tensor *r = tp_flip(count_up(g, TP_F32, TP_DIMS(8)), 1, (int64_t[]){0});
    expect_values("73", tp_matmul(r, r), VALUES(140));
    tp_tensor *a = tp_slice(tp_slice(count_up(g, TP_F32, TP_DIMS(10, 10)), 0, TP_END, TP_END, -2),
                            1, TP_END, TP_END, -2),
              *aa = tp_matmul(a, a);
    expect_values("73 first", tp_select(aa, 0, 0), VALUES(28425, 27475, 26525, 25575, 24625));
    expect_values("73 last", tp_select(aa, 0, -1), VALUES(4825, 4675, 4525, 4375, 4225));
    tp_tensor *s =
        tp_slice(tp_slice(count_up(g, TP_F32, TP_DIMS(6, 6)), 0, 0, TP_END, 2), 1, 0, TP_END, 2);
    expect_values("75", tp_matmul(s, s), VALUES(120, 132, 144, 552, 636, 720, 984, 1140, 1296));
}

Test(products, f077_heads_of_two_batches_do_not_collapse)
{
    for (int d = 1; d <= 2; d++) {
        tp_tensor *x = tp_permute(count_up(g, TP_F32, TP_DIMS(2, 2, 2, d)), TP_DIMS(0, 2, 1, 3));
        tp_tensor *y = tp_matmul(x, tp_permute(x, TP_DIMS(0, 1, 3, 2)));
        cr_expect_eq(plan_of(y).copies, 0);
        if (d == 1)
            expect_values("77", y, VALUES(0, 0, 0, 4, 1, 3, 3, 9, 16, 24, 24, 36, 25, 35, 35, 49));
        else
            expect_values(
                "77", y,
                VALUES(1, 5, 5, 41, 13, 33, 33, 85, 145, 213, 213, 313, 221, 305, 305, 421));
    }
}

Test(products, f079_f081_permuted_results_and_ranks)
{
    for (int b = 2; b <= 3; b++) {
        tp_tensor *p =
            tp_matmul(count_up(g, TP_F32, TP_DIMS(b, 2, 2)), count_up(g, TP_F32, TP_DIMS(b, 2, 2)));
        tp_tensor *y = tp_contiguous(tp_permute(p, TP_DIMS(1, 2, 0)));
        if (b == 2) expect_values("79", y, VALUES(2, 46, 3, 55, 6, 66, 11, 79));
    }
    expect_shape("81", tp_matmul(ones(TP_DIMS(1, 2, 3)), ones(TP_DIMS(3, 4))), TP_DIMS(1, 2, 4));
    expect_shape("81", tp_matmul(ones(TP_DIMS(3)), ones(TP_DIMS(3))), 0, NULL);
    expect_shape("81", tp_matmul(ones(TP_DIMS(3)), ones(TP_DIMS(3, 4))), TP_DIMS(4));
    expect_shape("81", tp_matmul(ones(TP_DIMS(2, 3)), ones(TP_DIMS(3))), TP_DIMS(2));
    expect_shape("81", tp_matmul(ones(TP_DIMS(5, 1, 2, 3)), ones(TP_DIMS(4, 3, 2))),
                 TP_DIMS(5, 4, 2, 2));
    expect_refusal("81", g, tp_matmul(ones(TP_DIMS(2, 3)), ones(TP_DIMS(2, 3))),
                   "dim 1 of a is 3, dim 0 of b is 2");
    expect_refusal("85", g, tp_matmul(ones(TP_DIMS(2, 2, 2)), ones(TP_DIMS(3, 2, 2))),
                   "dim 0 of a is 2, dim 0 of b is 3");
}

Test(products, p26_p27_p31)
{
    tp_tensor *t = tp_transpose(
        tp_from_data(g, TP_F64, TP_DIMS(2, 3), (double[]){7, -13, 21, -4, 19, -32}), 0, 1);
    tp_tensor *one = tp_full(g, TP_F64, TP_DIMS(2, 2), 1);
    expect_values("P26", tp_matmul(t, one), VALUES(3, 3, 6, 6, -11, -11));
    tp_tensor *y =
        tp_matmul(tp_expand(ones(TP_DIMS(5, 5)), TP_DIMS(10, 5, 5)), ones(TP_DIMS(10, 5, 3)));
    cr_expect_eq(plan_of(y).copies, 0, "P27");
    tp_tensor *x = count_up(g, TP_F32, TP_DIMS(3, 4)), *same = tp_permute(x, TP_DIMS(0, 1)),
              *b = count_up(g, TP_F32, TP_DIMS(4, 5));
    expect_values("P31, 145", tp_select(tp_matmul(same, b), 0, 0), VALUES(70, 76, 82, 88, 94));
    tp_tensor *m = tp_from_data(g, TP_F32, TP_DIMS(2, 2), (float[]){1, 2, 3, 4}),
              *n = tp_from_data(g, TP_F32, TP_DIMS(2, 2), (float[]){5, 6, 7, 8});
    expect_values("145", tp_matmul(tp_permute(m, TP_DIMS(0, 1)), n), VALUES(19, 22, 43, 50));
    expect_values("145 twice",
                  tp_matmul(tp_permute(tp_permute(m, TP_DIMS(1, 0)), TP_DIMS(1, 0)), n),
                  VALUES(19, 22, 43, 50));
    tp_tensor *batch = tp_permute(count_up(g, TP_F32, TP_DIMS(2, 3, 1, 2)), TP_DIMS(1, 0, 2, 3));
    expect_values("145 batch",
                  tp_select(tp_select(tp_matmul(batch, ones(TP_DIMS(2, 1))), 3, 0), 2, 0),
                  VALUES(1, 13, 5, 17, 9, 21));
}

/* A BLAS that is not there changes nothing but speed: our own product gives the same. */
Test(products, f143_bias_and_relu_after_a_narrow_product)
{
    tp_tensor *i = tp_unsqueeze(tp_arange(g, TP_F32, 0, 1, 5), 1),
              *k = tp_arange(g, TP_F32, 0, 1, 9);
    tp_tensor *x = tp_add(i, k),
              *y = tp_relu(tp_add(tp_matmul(x, ones(TP_DIMS(9, 1))), tp_num(x, 0.5)));
    expect_values("143", y, VALUES(36.5, 45.5, 54.5, 63.5, 72.5));
    expect_values("143 row", tp_relu(tp_add(tp_matmul(ones(TP_DIMS(1, 5)), x), tp_num(x, 0.5))),
                  VALUES(10.5, 15.5, 20.5, 25.5, 30.5, 35.5, 40.5, 45.5, 50.5));
}

Test(products, p28_p29_forty_gigabyte_expand)
{
    tp_tensor *w = ones(TP_DIMS(4, 3, 3)), *x = ones(TP_DIMS(8, 4, 1, 3)), *y = tp_matmul(x, w);
    tp_plan *plan = tp_plan_create(g, 1, &y, NULL);
    char text[4000];
    tp_plan_text(plan, text, sizeof text);
    cr_expect_eq(tp_plan_summarize(plan).copies, 0);
    cr_expect(strstr(text, "m=8 n=3 k=3 lda=12 ldb=3 ldc=12 x4"), "P28: %s", text);
    tp_plan_release(plan);
    expect_values("P28", tp_sum(y, TP_ALL_AXES, false), VALUES(8 * 4 * 3 * 3));
}
