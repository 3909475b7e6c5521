/* Faults reported against other engines: matrix products (category 5) and the passes' rows on
 * them, by number. Integer values: every product is exact. */
#include "tests/cases/expect.h"
#include "tests/backend.h"

static tp_graph *g;
static void set_up(void)
{
    g = tp_graph_create(NULL);
}
static void tear_down(void)
{
    tp_graph_destroy(g);
}
TestSuite(products, .init = set_up, .fini = tear_down, .timeout = 120);

static tp_tensor *ones(int ndim, const int64_t *shape)
{
    tp_tensor *x = tp_full(g, TP_F32, ndim, shape, 1);
    tp_eval(x);
    return x;
}

/* The text of the plan for y has these words and no copy. */
static void expect_call(tp_tensor *y, const char *words)
{
    tp_plan *plan = tp_plan_create(tp_graph_of(y), 1, &y, NULL);
    char text[8000];
    tp_plan_text(plan, text, sizeof text);
    cr_expect_eq(tp_plan_summarize(plan).copies, 0, "%s", text);
    cr_expect(strstr(text, words), "%s is not in %s", words, text);
    tp_plan_release(plan);
}

Test(products, f064_shared_operands)
{
    EACH(h)
    {
        tp_tensor *a = tp_expand(
                      tp_reshape(leaf_of(h, TP_F32, VALUES(1, 2, 3, 4)), TP_DIMS(1, 2, 2)),
                      TP_DIMS(3, 2, 2)),
                  *b = count_up(h, TP_F32, TP_DIMS(3, 2, 2)), *y = tp_matmul(a, b),
                  *mirror = tp_matmul(b, a);
        cr_expect_eq(plan_of(y).copies, 0);
        cr_expect_eq(plan_of(mirror).copies, 0);
        expect_values("left", y, VALUES(4, 7, 8, 15, 16, 19, 36, 43, 28, 31, 64, 71));
        expect_values("right", mirror, VALUES(3, 4, 11, 16, 19, 28, 27, 40, 35, 52, 43, 64));
        tp_tensor *one = tp_expand(tp_full(h, TP_F32, TP_DIMS(1, 32, 32), 1), TP_DIMS(32, 32, 32)),
                  *all = tp_full(h, TP_F32, TP_DIMS(32, 32, 32), 1);
        cr_assert_eq(tp_eval(all), TP_OK);
        cr_expect_eq(plan_of(tp_matmul(one, all)).copies, 0);
        cr_expect_eq(plan_of(tp_matmul(all, one)).copies, 0);
        expect_all("ones", tp_matmul(one, all), 32);
        expect_all("ones mirrored", tp_matmul(all, one), 32);
        expect_all("both shared", tp_matmul(one, one), 32);
    }
}

Test(products, f065_row_slices_and_shared_heads_need_no_copy)
{
    EACH(h)
    {
        /* The last token of 8. */
        tp_tensor *x = tp_reshape(
                      tp_remainder(tp_arange(h, TP_F32, 0, 1, 8 * 2048), tp_scalar(h, TP_F32, 5)),
                      TP_DIMS(1, 8, 2048)),
                  *w = tp_full(h, TP_F32, TP_DIMS(32, 2048), 1);
        tp_eval_all(h, 2, (tp_tensor *[]){tp_reshape(x, TP_DIMS(1, 8, 2048)), w}, NULL);
        cr_assert_eq(tp_eval(x), TP_OK);
        tp_tensor *last = tp_select(x, 1, -1), *y = tp_matmul(last, tp_transpose(w, 0, 1));
        double sum = 0;
        for (int i = 7 * 2048; i < 8 * 2048; i++) sum += i % 5;
        cr_expect_eq(plan_of(y).copies, 0);
        if (mode_ == 0) expect_call(y, "lda=2048");
        expect_all("last token", y, sum);
        tp_tensor *asked = tp_matmul(tp_contiguous(last), tp_transpose(w, 0, 1));
        if (mode_ < 2) cr_expect_eq(plan_of(asked).copies, 0);
        expect_all("asked dense", asked, sum);
        /* q out of a fused qkv of width 1792. */
        float *data = malloc(64 * 1792 * sizeof *data);
        for (int i = 0; i < 64 * 1792; i++) data[i] = (float)(i % 7);
        tp_tensor *qkv = tp_from_data(h, TP_F32, TP_DIMS(64, 1792), data),
                  *q = tp_slice(qkv, 1, 256, 512, 1), *v = tp_full(h, TP_F32, TP_DIMS(3, 256), 1);
        cr_assert_eq(tp_eval(v), TP_OK);
        tp_view view = tp_view_of(q);
        cr_expect(view.stride[0] == 1792 && view.offset == 256);
        tp_tensor *z = tp_matmul(q, tp_transpose(v, 0, 1));
        if (mode_ == 0) expect_call(z, "lda=1792");
        cr_expect_eq(plan_of(z).copies, 0);
        cr_assert_eq(tp_eval(z), TP_OK);
        for (int r = 0; r < 64; r++) {
            double want = 0;
            for (int c = 256; c < 512; c++) want += (r * 1792 + c) % 7;
            for (int c = 0; c < 3; c++) cr_assert_eq(tp_item(z, 3 * r + c), want, "row %d", r);
        }
        free(data);
        /* Two queries per key head. */
        tp_tensor *heads = tp_full(h, TP_F32, TP_DIMS(1, 8, 2, 2, 128), 1),
                  *keys = tp_add(tp_arange(h, TP_F32, 0, 1, 8),
                                 tp_full(h, TP_F32, TP_DIMS(1, 128, 2, 8), 0));
        keys = tp_contiguous(tp_permute(keys, TP_DIMS(0, 3, 1, 2)));
        cr_assert(tp_eval(heads) == TP_OK && tp_eval(keys) == TP_OK);
        tp_tensor *shared = tp_expand(tp_unsqueeze(keys, 2), TP_DIMS(1, 8, 2, 128, 2)),
                  *scores = tp_matmul(heads, shared);
        cr_expect_eq(plan_of(scores).copies, 0);
        cr_assert_eq(tp_eval(scores), TP_OK);
        for (int i = 0; i < 64; i++) cr_assert_eq(tp_item(scores, i), 128 * (i / 8), "%d", i);
    }
}

/* Memory that has 0xFF in every byte when it is handed out. */
static void *dirty_alloc(void *user, size_t size)
{
    (void)user;
    void *p = aligned_alloc(64, (size + 63) / 64 * 64);
    if (p) memset(p, 0xFF, size);
    return p;
}
static void dirty_release(void *user, void *p, size_t size)
{
    (void)user;
    memset(p, 0xFF, size);
    free(p);
}
static tp_graph *dirty_graph(int mode)
{
    tp_context *c = tp_context_create(
        &(tp_context_options){.allocator = {dirty_alloc, dirty_release, NULL}, .threads = 2});
    tp_graph *h = tp_graph_create(c);
    tp_context_release(c);
    tp_graph_set_backend(h, mode % 2 ? "ref" : tested_backend());
    if (mode / 2) tp_graph_set_pass(h, "all", false);
    return h;
}

Test(products, f066_an_empty_sum_is_zero)
{
    for (int m = 0; m < 4; m++) {
        tp_graph *h = dirty_graph(m);
        for (int d = 0; d < TP_DTYPE_COUNT; d++) {
            tp_dtype t = (tp_dtype)d;
            tp_tensor *y =
                tp_matmul(tp_full(h, t, TP_DIMS(3, 2, 0), 1), tp_full(h, t, TP_DIMS(3, 0, 3), 1));
            expect_shape("(3,2,0)", y, TP_DIMS(3, 2, 3));
            expect_all("(3,2,0)", y, 0);
            expect_all(
                "(16,0)",
                tp_matmul(tp_full(h, t, TP_DIMS(16, 0), 1), tp_full(h, t, TP_DIMS(0, 16), 1)), 0);
            expect_all("(1,0)",
                       tp_matmul(tp_full(h, t, TP_DIMS(1, 0), 1), tp_full(h, t, TP_DIMS(0, 1), 1)),
                       0);
            tp_tensor *none = tp_full(h, t, TP_DIMS(0), 1), *dot = tp_matmul(none, none);
            expect_shape("1-d", dot, 0, NULL);
            expect_all("1-d", dot, 0);
            expect_shape(
                "no rows",
                tp_matmul(tp_full(h, t, TP_DIMS(0, 4), 1), tp_full(h, t, TP_DIMS(4, 3), 1)),
                TP_DIMS(0, 3));
            /* Transposed operands and a result stored elsewhere. */
            tp_tensor *back = tp_matmul(tp_transpose(tp_full(h, t, TP_DIMS(0, 5), 1), 0, 1),
                                        tp_transpose(tp_full(h, t, TP_DIMS(4, 0), 1), 0, 1));
            expect_all("stored transposed", tp_contiguous(tp_transpose(back, 0, 1)), 0);
        }
        tp_graph_destroy(h);
    }
}

/* There is no accumulating product; what is added after it is all that remains of an empty one. */
Test(products, f067_adding_to_an_empty_sum_keeps_what_is_added)
{
    for (int m = 0; m < 4; m++) {
        tp_graph *h = dirty_graph(m);
        tp_tensor *c = tp_reshape(leaf_of(h, TP_F32, VALUES(1, 2, 3, 4)), TP_DIMS(2, 2)),
                  *a = tp_full(h, TP_F32, TP_DIMS(2, 0), 1),
                  *b = tp_full(h, TP_F32, TP_DIMS(0, 2), 1);
        expect_values("C + AB", tp_add(c, tp_matmul(a, b)), VALUES(1, 2, 3, 4));
        expect_values("AB + C", tp_add(tp_matmul(a, b), c), VALUES(1, 2, 3, 4));
        expect_values("linear",
                      tp_linear(a, tp_transpose(b, 0, 1), leaf_of(h, TP_F32, VALUES(5, 6))),
                      VALUES(5, 6, 5, 6));
        tp_graph_destroy(h);
    }
}

/* All sizes, all transposes, into memory of 0xFF; a result that is stored transposed has padding in
 * the sense of BLAS (gemm_args::every_small_product looks at the bytes between rows). */
Test(products, f069_old_values_never_leak)
{
    static const int64_t sizes[] = {1, 2, 3, 5, 7, 8, 15, 16, 17, 33, 64, 65};
    static double av[65 * 65], bv[65 * 65], want[65 * 65];
    tp_graph *h = dirty_graph(0);
    for (int i = 0; i < 12 * 12 * 12; i++) {
        int64_t m = sizes[i % 12], n = sizes[i / 12 % 12], k = sizes[i / 144];
        for (int64_t e = 0; e < m * k; e++) av[e] = (double)(e * 7 % 11 - 5);
        for (int64_t e = 0; e < k * n; e++) bv[e] = (double)(e * 5 % 13 - 6);
        naive_product(1, m, k, n, av, bv, want);
        for (int f = 0; f < (i % 5 ? 1 : 2); f++) {
            tp_dtype t = f ? TP_F64 : TP_F32;
            void *ad = elements(t, m * k, av), *bd = elements(t, k * n, bv),
                 *yd = elements(t, m * n, want);
            for (int way = 0; way < 4; way++) {
                tp_tensor *a = laid(h, way & 1 ? LAY_PERMUTED : LAY_DENSE, t, TP_DIMS(m, k), ad),
                          *b = laid(h, way & 2 ? LAY_PERMUTED : LAY_DENSE, t, TP_DIMS(k, n), bd),
                          *y = tp_matmul(a, b);
                expect_bits("product", y, t, m * n, yd);
                tp_tensor *z = tp_contiguous(tp_transpose(tp_matmul(a, b), 0, 1));
                if (way == i % 4) {
                    cr_assert_eq(tp_eval(z), TP_OK);
                    for (int64_t e = 0; e < m * n; e++)
                        cr_assert_eq(tp_item(z, e), want[e % m * n + e / m]);
                }
            }
            free(ad), free(bd), free(yd);
        }
        tp_graph_reset(h);
    }
    tp_graph_destroy(h);
}

Test(products, f077_heads_of_two_batches_do_not_collapse)
{
    EACH(h)
    {
        for (int d = 1; d <= 2; d++) {
            tp_tensor *x =
                          tp_permute(count_up(h, TP_F32, TP_DIMS(2, 2, 2, d)), TP_DIMS(0, 2, 1, 3)),
                      *y = tp_matmul(x, tp_permute(x, TP_DIMS(0, 1, 3, 2)));
            cr_expect_eq(plan_of(y).copies, 0);
            if (d == 1)
                expect_values("77", y,
                              VALUES(0, 0, 0, 4, 1, 3, 3, 9, 16, 24, 24, 36, 25, 35, 35, 49));
            else
                expect_values(
                    "77", y,
                    VALUES(1, 5, 5, 41, 13, 33, 33, 85, 145, 213, 213, 313, 221, 305, 305, 421));
        }
        /* Other sizes, so that no two extents are alike. */
        const int64_t b = 3, t = 5, n = 2, d = 4;
        double q[3 * 2 * 5 * 4], kt[3 * 2 * 4 * 5], want[3 * 2 * 5 * 5];
        for (int64_t i = 0; i < b * n * t * d; i++) {
            int64_t e = i % d, row = i / d % t, head = i / d / t % n, batch = i / d / t / n;
            double value = (double)(((batch * t + row) * n + head) * d + e);
            q[i] = value, kt[((batch * n + head) * d + e) * t + row] = value;
        }
        naive_product(b * n, t, d, t, q, kt, want);
        tp_tensor *x = tp_permute(count_up(h, TP_F32, TP_DIMS(b, t, n, d)), TP_DIMS(0, 2, 1, 3)),
                  *y = tp_matmul(x, tp_transpose(x, -2, -1));
        cr_expect_eq(plan_of(y).copies, 0);
        expect_values("sizes", y, (int)(b * n * t * t), want);
    }
}

Test(products, f079_permuted_results)
{
    static const int64_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                         {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    EACH(h)
    {
        for (int64_t b = 2; b <= 3; b++) {
            for (int o = 0; o < 6; o++) {
                double v[12], p[12], want[12];
                for (int i = 0; i < 12; i++) v[i] = i;
                naive_product(b, 2, 2, 2, v, v, p);
                const int64_t size[3] = {b, 2, 2}, stride[3] = {4, 2, 1};
                int64_t n[3], s[3];
                for (int d = 0; d < 3; d++) n[d] = size[orders[o][d]], s[d] = stride[orders[o][d]];
                for (int64_t i = 0; i < 4 * b; i++)
                    want[i] = p[i / n[2] / n[1] * s[0] + i / n[2] % n[1] * s[1] + i % n[2] * s[2]];
                tp_tensor *x = count_up(h, TP_F32, TP_DIMS(b, 2, 2)),
                          *y = tp_permute(tp_matmul(x, x), 3, orders[o]);
                expect_values("dense", tp_contiguous(y), (int)(4 * b), want);
                expect_values("output", tp_permute(tp_matmul(x, x), 3, orders[o]), (int)(4 * b),
                              want);
            }
        }
    }
}

Test(products, f081_ranks)
{
    EACH(h)
    {
#define OF(...) tp_full(h, TP_F32, TP_DIMS(__VA_ARGS__), 1)
        const struct {
            tp_tensor *y;
            int ndim;
            int64_t shape[4];
            double value;
        } cases[] = {{tp_matmul(OF(1, 2, 3), OF(3, 4)), 3, {1, 2, 4}, 3},
                     {tp_matmul(OF(3), OF(3)), 0, {0}, 3},
                     {tp_matmul(OF(3), OF(3, 4)), 1, {4}, 3},
                     {tp_matmul(OF(2, 3), OF(3)), 1, {2}, 3},
                     {tp_matmul(OF(5, 1, 2, 3), OF(4, 3, 2)), 4, {5, 4, 2, 2}, 3},
                     {tp_matmul(OF(3), OF(5, 3, 4)), 2, {5, 4}, 3},
                     {tp_matmul(OF(5, 2, 3), OF(3)), 2, {5, 2}, 3}};
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            expect_shape("rank", cases[i].y, cases[i].ndim, cases[i].shape);
            expect_all("rank", cases[i].y, cases[i].value);
        }
        expect_error(h, tp_matmul(OF(2, 3), OF(2, 3)), TP_E_SHAPE, 1,
                     "matmul: a is [2,3], b is [2,3]: dim 1 of a is 3, dim 0 of b is 2");
        expect_error(h, tp_matmul(tp_scalar(h, TP_F32, 1), OF(3)), TP_E_SHAPE, -1,
                     "matmul: a is [], b is [3]: 0-d operands have no matrix product");
        expect_error(h, tp_matmul(OF(3), tp_scalar(h, TP_F32, 1)), TP_E_SHAPE, -1,
                     "matmul: a is [3], b is []: 0-d operands have no matrix product");
        expect_error(h, tp_matmul(OF(3), OF(4)), TP_E_SHAPE, 0,
                     "matmul: a is [3], b is [4]: dim 0 of a is 3, dim 0 of b is 4");
        expect_error(h, tp_matmul(OF(2, 3), OF(4)), TP_E_SHAPE, 1,
                     "matmul: a is [2,3], b is [4]: dim 1 of a is 3, dim 0 of b is 4");
    }
}

/* No result is written into what it is made from: the base keeps every element. */
Test(products, f083_a_result_never_lies_over_its_operands)
{
    EACH(h)
    {
        tp_tensor *base = count_up(h, TP_F32, TP_DIMS(2, 4)), *x = tp_slice(base, 1, 0, TP_END, 2),
                  *zero = tp_full(h, TP_F32, TP_DIMS(2, 2), 0), *y = tp_matmul(x, zero);
        cr_assert_eq(tp_eval_all(h, 1, &y, &(tp_eval_options){.keep_layout = mode_ % 2 == 0}),
                     TP_OK);
        cr_expect(!tp_shares_storage(y, base));
        expect_all("y", y, 0);
        expect_values("base", tp_neg(tp_neg(base)), VALUES(0, 1, 2, 3, 4, 5, 6, 7));
        /* Not even into a temporary that it still reads. */
        tp_tensor *t = tp_add(x, tp_num(x, 1)), *square = tp_matmul(t, t);
        expect_values("square", square, VALUES(16, 24, 40, 64));
    }
}

Test(products, f085_batches_that_differ)
{
    EACH(h)
    {
        expect_error(h, tp_matmul(OF(2, 2, 2), OF(3, 2, 2)), TP_E_SHAPE, 0,
                     "matmul: a is [2,2,2], b is [3,2,2]: dim 0 of a is 2, dim 0 of b is 3");
        expect_error(h, tp_matmul(OF(5, 2, 2, 3), OF(4, 3, 2)), TP_E_SHAPE, 1,
                     "matmul: a is [5,2,2,3], b is [4,3,2]: dim 1 of a is 2, dim 0 of b is 4");
    }
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
    expect_values("P31", tp_select(tp_matmul(same, b), 0, 0), VALUES(70, 76, 82, 88, 94));
}

Test(products, p28_p29_forty_gigabyte_expand)
{
    tp_tensor *w = ones(TP_DIMS(4, 3, 3)), *x = ones(TP_DIMS(8, 4, 1, 3)), *y = tp_matmul(x, w);
    tp_plan *plan = tp_plan_create(g, 1, &y, NULL);
    char text[4000];
    tp_plan_text(plan, text, sizeof text);
    cr_expect_eq(tp_plan_summarize(plan).copies, 0);
    const char *call = tests_the_cpu() ? "m=8 n=3 k=3 lda=12 ldb=3 ldc=12 x4"
                                       : "m=3 n=8 k=3 lda=3 ldb=12 ldc=12 batch=4, 1 call";
    cr_expect(strstr(text, call), "P28: %s", text);
    tp_plan_release(plan);
    expect_values("P28", tp_sum(y, TP_ALL_AXES, false), VALUES(8 * 4 * 3 * 3));
}
