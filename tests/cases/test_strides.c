/* Faults reported against other engines: strides that a BLAS does not know, in operands and results
 * of products (cases 70 to 75 and 78). */
#include "tests/cases/expect.h"

#include "backends/cpu/kernels.h"

TestSuite(strides, .timeout = 120);

/* A leaf of rows x cols whose size-1 dims have the stride `odd`; kind: dense, transposed, every
 * other element. */
static tp_tensor *odd_leaf(tp_graph *h, int kind, int64_t rows, int64_t cols, int64_t odd,
                           const double *values)
{
    int64_t stride[2] = {cols, 1}, step = kind == 2 ? 2 : 1;
    if (kind == 1) stride[0] = 1, stride[1] = rows;
    float data[32];
    for (int i = 0; i < 32; i++) data[i] = NAN;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            data[step * (i * stride[0] + j * stride[1])] = (float)values[i * cols + j];
    int64_t shape[2] = {rows, cols};
    for (int d = 0; d < 2; d++) stride[d] = shape[d] == 1 ? odd : step * stride[d];
    return tp_as_strided(tp_from_data(h, TP_F32, TP_DIMS(32), data), 2, shape, stride, 0);
}

Test(strides, f070_strides_of_size_1_dims_never_reach_the_blas)
{
    EACH(h)
    {
        tp_tensor *y = tp_reshape(leaf_of(h, TP_F32, VALUES(5, 5, 5)), TP_DIMS(3, 1));
        expect_all("column by row", tp_matmul(y, tp_transpose(y, 0, 1)), 25);
        tp_tensor *v = leaf_of(h, TP_F32, VALUES(1, 2));
        expect_values("row by vector", tp_matmul(tp_transpose(tp_unsqueeze(v, 1), 0, 1), v),
                      VALUES(5));
        static const int64_t odd[] = {0, 1, 7, -3, INT64_MAX, INT64_MIN};
        double av[9], bv[9], want[9];
        for (int i = 0; i < 9; i++) av[i] = i % 5 + 1, bv[i] = i % 4 - 2;
        for (int i = 0; i < 27 * 36 * 9; i++) {
            int64_t m = i % 3 + 1, n = i / 3 % 3 + 1, k = i / 9 % 3 + 1;
            naive_product(1, m, k, n, av, bv, want);
            tp_tensor *a = odd_leaf(h, i / 972 % 3, m, k, odd[i / 27 % 6], av),
                      *b = odd_leaf(h, i / 2916, k, n, odd[i / 162 % 6], bv);
            expect_values("product", tp_matmul(a, b), (int)(m * n), want);
            if (i % 500 == 499) tp_graph_reset(h);
        }
        /* Expanded ones. */
        for (int i = 0; i < 27; i++) {
            int64_t m = i % 3 + 1, n = i / 3 % 3 + 1, k = i / 9 + 1;
            tp_tensor *two = tp_reshape(leaf_of(h, TP_F32, VALUES(2)), TP_DIMS(1, 1));
            expect_all("expanded",
                       tp_matmul(tp_expand(two, TP_DIMS(m, k)), tp_expand(two, TP_DIMS(k, n))),
                       4 * (double)k);
        }
    }
}

Test(strides, f071_overlapping_rows)
{
    EACH(h)
    {
        tp_tensor *x = leaf_of(h, TP_F32, VALUES(1, 2, 3, 4, 5, 6)),
                  *c = tp_as_strided(x, TP_DIMS(2, 2, 2), (int64_t[]){3, 1, 1}, 0),
                  *c0 = tp_select(c, 0, 0), *y = tp_matmul(c0, c0);
        tp_plan *plan = tp_plan_create(h, 1, &y, NULL);
        char text[4000], dot[8000];
        tp_plan_text(plan, text, sizeof text);
        tp_plan_dot(plan, dot, sizeof dot);
        if (mode_ == 0) {
            cr_expect(strstr(text, "no BLAS: GEMM_LD, a GEMM operand's rows overlap"), "%s", text);
            cr_expect(strstr(dot, "no BLAS: GEMM_LD"), "%s", dot);
        }
        tp_plan_release(plan);
        expect_values("c[0]@c[0]", y, VALUES(5, 8, 8, 13));
        expect_values("c@c", tp_matmul(c, c), VALUES(5, 8, 8, 13, 41, 50, 50, 61));
    }
}

Test(strides, f073_negative_strides)
{
    EACH(h)
    {
        for (int f = 0; f < 2; f++) {
            tp_dtype t = f ? TP_F64 : TP_F32;
            tp_tensor *r = tp_flip(count_up(h, t, TP_DIMS(8)), 1, (int64_t[]){0});
            expect_values("r.r", tp_matmul(r, r), VALUES(140));
            expect_values("r.x", tp_matmul(r, count_up(h, t, TP_DIMS(8))), VALUES(56));
            tp_tensor *whole = count_up(h, t, TP_DIMS(10, 10)),
                      *a = tp_slice(tp_slice(whole, 0, TP_END, TP_END, -2), 1, TP_END, TP_END, -2),
                      *aa = tp_matmul(a, a);
            double rows[25], want[25];
            for (int i = 0; i < 25; i++) rows[i] = 99 - 20 * (i / 5) - 2 * (i % 5);
            naive_product(1, 5, 5, 5, rows, rows, want);
            expect_values("A", a, 25, rows);
            expect_values("A@A", aa, 25, want);
            expect_values("first", tp_select(aa, 0, 0), VALUES(28425, 27475, 26525, 25575, 24625));
            expect_values("last", tp_select(aa, 0, -1), VALUES(4825, 4675, 4525, 4375, 4225));
            tp_tensor *x = count_up(h, t, TP_DIMS(10));
            double product[10];
            for (int i = 0; i < 10; i++) product[i] = 285 + 45 * 10 * (9 - i);
            expect_values("A[::-1] x", tp_matmul(tp_flip(whole, 1, (int64_t[]){0}), x), 10,
                          product);
        }
    }
}

Test(strides, f075_both_strides_larger_than_1)
{
    EACH(h)
    {
        for (int f = 0; f < 2; f++) {
            tp_tensor *s = tp_index(count_up(h, f ? TP_F64 : TP_F32, TP_DIMS(6, 6)), "::2, ::2");
            if (mode_ == 0) {
                tp_tensor *y = tp_matmul(s, s);
                tp_plan *plan = tp_plan_create(h, 1, &y, NULL);
                char text[4000];
                tp_plan_text(plan, text, sizeof text);
                cr_expect(strstr(text, "GEMM_NO_UNIT_STRIDE"), "%s", text);
                tp_plan_release(plan);
            }
            expect_values("A", s, VALUES(0, 2, 4, 12, 14, 16, 24, 26, 28));
            expect_values("A@A", tp_matmul(s, s),
                          VALUES(120, 132, 144, 552, 636, 720, 984, 1140, 1296));
            expect_values("A.T@A", tp_matmul(tp_transpose(s, 0, 1), s),
                          VALUES(720, 792, 864, 792, 876, 960, 864, 960, 1056));
        }
    }
}

/* The strided result by its arguments: padded batches do not become one. */
Test(strides, f078_padded_results)
{
    const tp_view a = {.ndim = 4, .shape = {2, 2, 1, 1}, .stride = {2, 1, 1, 1}},
                  b = {.ndim = 4, .shape = {2, 2, 1, 3}, .stride = {0, 0, 3, 1}},
                  c = {.ndim = 4, .shape = {2, 2, 1, 3}, .stride = {16, 4, 3, 1}};
    float av[] = {1, 2, 3, 4}, bv[] = {1, 10, 100}, cv[24];
    for (int i = 0; i < 24; i++) cv[i] = -7;
    tp_operand operands[2] = {{0, TP_F32, a}, {1, TP_F32, b}};
    tp_step step = {.kind = TP_STEP_MATMUL,
                    .op = TP_OP_MATMUL,
                    .domain = c,
                    .operand_count = 2,
                    .operand = operands,
                    .out = {2, TP_F32, c}};
    char *buffers[] = {(char *)av, (char *)bv, (char *)cv};
    tp_run run = {.context = tp_context_default(), .buffer = buffers, .threads = 1};
    for (int k = 0; tp_cpu_matmul_kernels[k]; k++) {
        const tp_kernel *kernel = tp_cpu_matmul_kernels[k];
        if (kernel->refuse && kernel->refuse(&step) != TP_REASON_NONE) continue;
        for (int i = 0; i < 24; i++) cv[i] = -7;
        cr_assert_eq(kernel->run(&step, &run), TP_OK);
        for (int i = 0; i < 24; i++) {
            int first = i / 16, second = i % 16 / 4, j = i % 4;
            bool inside = second < 2 && j < 3;
            float want = inside ? av[2 * first + second] * bv[j] : -7;
            cr_expect_eq(cv[i], want, "%s: element %d is %g, not %g", kernel->name, i,
                         (double)cv[i], (double)want);
        }
    }
}
