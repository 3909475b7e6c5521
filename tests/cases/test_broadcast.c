/* Faults reported against other engines: broadcasting, stride-0 writes, overlap (category 3). */
#include "tests/cases/expect.h"

#include <stdio.h>

TestSuite(broadcast, .timeout = 60);

/* Built with this shape and evaluated without elements. */
static void expect_nothing(const char *what, tp_tensor *y, int ndim, const int64_t *shape)
{
    expect_shape(what, y, ndim, shape);
    cr_expect_eq(tp_eval(y), TP_OK, "%s", what);
    cr_expect_eq(tp_numel(y), 0);
}

Test(broadcast, f032_one_against_nothing_is_nothing)
{
    EACH(g)
    {
#define ONES(...) tp_full(g, TP_F32, TP_DIMS(__VA_ARGS__), 1)
        expect_nothing("a", tp_add(ONES(2, 0), ONES(2, 1)), TP_DIMS(2, 0));
        expect_nothing("a", tp_add(ONES(2, 1), ONES(2, 0)), TP_DIMS(2, 0));
        expect_nothing("b", tp_add(ONES(0, 5), ONES(1, 5)), TP_DIMS(0, 5));
        expect_nothing("c", tp_add(ONES(0), ONES(1)), TP_DIMS(0));
        expect_error(
            g, tp_add(ONES(0), ONES(2)), TP_E_SHAPE, 0,
            "add: cannot broadcast [0] with [2]: dimension 1 from the right is 0 against 2");
        expect_nothing("e", tp_add(tp_scalar(g, TP_F32, 1), ONES(0, 3)), TP_DIMS(0, 3));
        expect_nothing("f", tp_where(ONES(1), ONES(0), ONES(1)), TP_DIMS(0));
        expect_nothing("f", tp_where(ONES(0), ONES(1), ONES(1)), TP_DIMS(0));
        expect_nothing("expand", tp_expand(ONES(2, 1), TP_DIMS(2, 0)), TP_DIMS(2, 0));
        expect_nothing("batches", tp_matmul(ONES(1, 2, 3), ONES(0, 3, 2)), TP_DIMS(0, 2, 2));
        expect_values("sum", tp_sum(tp_add(ONES(2, 0), ONES(2, 1)), 1, (int64_t[]){1}, false),
                      VALUES(0, 0));
    }
}

/* The rule over all pairs of shapes of two dims: the one size that is not 1 wins. */
Test(broadcast, f032_every_pair_of_small_shapes)
{
    for (int m = 0; m < 2; m++) {
        tp_graph *g = graph_of_mode(m);
        for (int p = 0; p < 256; p++) {
            int64_t a[2] = {p & 3, p >> 2 & 3}, b[2] = {p >> 4 & 3, p >> 6}, y[2];
            bool fits = true;
            for (int d = 0; d < 2; d++) {
                y[d] = a[d] == 1 ? b[d] : a[d];
                fits = fits && (a[d] == b[d] || a[d] == 1 || b[d] == 1);
            }
            tp_tensor *s = count_up(g, TP_I32, 2, a), *t = count_up(g, TP_I32, 2, b),
                      *sum = tp_add(s, tp_mul(t, tp_int(t, 10)));
            if (!fits) {
                char text[200];
                int d = a[1] == b[1] || a[1] == 1 || b[1] == 1 ? 0 : 1;
                snprintf(text, sizeof text,
                         "add: cannot broadcast [%d,%d] with [%d,%d]: dimension %d from the right "
                         "is %d against %d",
                         (int)a[0], (int)a[1], (int)b[0], (int)b[1], 2 - d, (int)a[d], (int)b[d]);
                expect_error(g, sum, TP_E_SHAPE, d, text);
                continue;
            }
            double want[9];
            for (int64_t i = 0; i < y[0]; i++)
                for (int64_t j = 0; j < y[1]; j++)
                    want[i * y[1] + j] =
                        (double)((a[0] > 1 ? i : 0) * a[1] + (a[1] > 1 ? j : 0) +
                                 10 * ((b[0] > 1 ? i : 0) * b[1] + (b[1] > 1 ? j : 0)));
            expect_shape("sum", sum, 2, y);
            expect_values("sum", sum, (int)(y[0] * y[1]), want);
        }
        tp_graph_destroy(g);
    }
}

Test(broadcast, f033_both_operands_are_broadcast)
{
    EACH(g)
    {
        expect_values("(3,1)+(1,2)",
                      tp_add(count_up(g, TP_F32, TP_DIMS(3, 1)),
                             tp_mul(count_up(g, TP_F32, TP_DIMS(1, 2)), tp_scalar(g, TP_F32, 10))),
                      VALUES(0, 10, 1, 11, 2, 12));
        static const tp_dtype floats[] = {TP_F16, TP_BF16, TP_F32, TP_F64};
        for (int d = 0; d < 4; d++) {
            tp_tensor *a = leaf_of(g, floats[d], VALUES(0.125, 1, -0.125));
            expect_values(
                "a a'", tp_mul(a, tp_unsqueeze(a, 1)),
                VALUES(1 / 64., 0.125, -1 / 64., 0.125, 1, -0.125, -1 / 64., -0.125, 1 / 64.));
        }
        for (int64_t n = 1; n <= 40; n++) {
            tp_tensor *x = count_up(g, TP_F32, TP_DIMS(n)), *y = tp_mul(x, tp_unsqueeze(x, 1));
            cr_assert_eq(tp_eval(y), TP_OK);
            for (int64_t i = 0; i < n * n; i++)
                cr_assert_eq(tp_item(y, i), (double)((i / n) * (i % n)), "%ld of %ld", (long)i,
                             (long)n);
        }
    }
}

/* Under sanitizers this walks off the end if a stride-0 operand is taken for a dense one. */
Test(broadcast, f043_a_repeated_operand_has_one_element)
{
    EACH(g)
    {
        for (int d = TP_U8; d < TP_DTYPE_COUNT; d++) {
            tp_dtype t = (tp_dtype)d;
            double counted[128];
            for (int i = 0; i < 128; i++) counted[i] = i;
            tp_tensor *x = tp_reshape(leaf_of(g, t, 128, counted), TP_DIMS(64, 2)),
                      *one = tp_expand(leaf_of(g, t, VALUES(1)), TP_DIMS(64, 2)),
                      *two = tp_expand(tp_reshape(leaf_of(g, t, VALUES(2)), TP_DIMS(1, 1)),
                                       TP_DIMS(3, 2)),
                      *m = tp_reshape(leaf_of(g, t, VALUES(1, 2, 3, 4, 5, 6)), TP_DIMS(3, 2));
            expect_values(tp_dtype_name(t), tp_mul(one, x), 128, counted);
            expect_values(tp_dtype_name(t), tp_mul(x, one), 128, counted);
            expect_values("sum", tp_sum(tp_mul(m, two), 1, (int64_t[]){1}, false),
                          VALUES(6, 14, 22));
        }
    }
}
