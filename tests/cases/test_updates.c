/* Faults reported against other engines: writes into views and over operands, told as updates: a
 * new tensor, whose bytes may be those of a donated one (cases 35 to 41, 78, 83, 111, 141). */
#include "tests/cases/expect.h"

#include <stdio.h>

TestSuite(updates, .timeout = 60);

/* The result of an update that is evaluated at once; donate: into x's bytes. */
static tp_tensor *updated(tp_tensor *x, tp_tensor *region, tp_tensor *value, bool donate)
{
    cr_assert_eq(tp_eval(x), TP_OK);
    tp_tensor *y = tp_update(x, region, value);
    cr_assert(y, "%s", tp_graph_error(tp_graph_of(x))->text);
    if (donate) cr_assert_eq(tp_donate(x), TP_OK);
    cr_assert_eq(tp_eval(y), TP_OK, "%s", tp_graph_error(tp_graph_of(x))->text);
    return y;
}

Test(updates, f035_a_repeated_dim_is_read_only)
{
    EACH(g)
    {
        tp_tensor *a = leaf_of(g, TP_F32, VALUES(1)), *one = tp_reshape(a, TP_DIMS(1, 1)),
                  *b = tp_expand(one, TP_DIMS(4, 5)), *sum = tp_add(b, tp_num(b, 1));
        expect_error(g, tp_update(a, b, sum), TP_E_SHAPE, 0,
                     "update: the region [4,5] : (0,0) + 0 has stride 0 in dim 0 (size 4): "
                     "broadcast views are read-only, copy it first");
        expect_error(g, tp_update(a, tp_expand(a, TP_DIMS(10)), tp_arange(g, TP_F32, 0, 1, 10)),
                     TP_E_SHAPE, 0,
                     "update: the region [10] : (0) + 0 has stride 0 in dim 0 (size 10): broadcast "
                     "views are read-only, copy it first");
        tp_tensor *m = count_up(g, TP_F32, TP_DIMS(6));
        cr_expect_null(tp_update(m, tp_windows(m, 0, 2, 1), m), "it overlaps itself");
        cr_expect_eq(tp_graph_error(g)->status, TP_E_SHAPE, "%s", tp_graph_error(g)->text);
        tp_graph_clear_error(g);
        cr_expect_null(tp_update(m, a, a), "no view of m");
        cr_expect_eq(tp_graph_error(g)->status, TP_E_ARGUMENT);
        tp_graph_clear_error(g);
        /* All of b's elements, once each: a new tensor, and a is as it was. */
        tp_tensor *y = tp_update(b, b, sum);
        expect_shape("b += 1", y, TP_DIMS(4, 5));
        double twos[20];
        for (int i = 0; i < 20; i++) twos[i] = 2;
        expect_values("b += 1", y, 20, twos);
        expect_values("a", tp_neg(tp_neg(a)), VALUES(1));
        expect_usable("35", g);
    }
}

Test(updates, f037_an_operand_in_another_order)
{
    EACH(g)
    {
        for (int donate = 0; donate < 2; donate++) {
            tp_tensor *x = tp_reshape(leaf_of(g, TP_F32, VALUES(1, 2, 3, 4)), TP_DIMS(2, 2));
            x = tp_neg(tp_neg(x));
            cr_assert_eq(tp_eval(x), TP_OK);
            tp_tensor *y = updated(x, x, tp_add(x, tp_permute(x, TP_DIMS(1, 0))), donate);
            expect_values("x + x.T", y, VALUES(2, 5, 5, 8));
            for (int64_t n = 1; n <= 40; n++) {
                tp_tensor *square = tp_reshape(tp_arange(g, TP_F32, 0, 1, n * n), TP_DIMS(n, n));
                square = tp_add(square, tp_num(square, 0));
                cr_assert_eq(tp_eval(square), TP_OK);
                tp_tensor *flip = tp_flip(tp_transpose(square, 0, 1), 1, (int64_t[]){0}),
                          *z = updated(square, square, tp_sub(square, flip), donate);
                for (int64_t i = 0; i < n * n; i++)
                    cr_assert_eq(tp_item(z, i), (double)(i - ((i % n) * n + n - 1 - i / n)),
                                 "%ld of %ld", (long)i, (long)n);
            }
        }
    }
}

Test(updates, f039_one_element_of_the_result_as_operand)
{
    static const int64_t lengths[] = {10, 16, 33, 1000, 100003};
    EACH(g)
    {
        for (int donate = 0; donate < 2; donate++) {
            for (int l = 0; l < 5; l++) {
                int64_t n = lengths[l];
                tp_tensor *x = tp_contiguous(tp_expand(leaf_of(g, TP_F32, VALUES(1)), TP_DIMS(n)));
                cr_assert_eq(tp_eval(x), TP_OK);
                tp_tensor *y = updated(x, x, tp_add(x, tp_slice(x, 0, 4, 5, 1)), donate);
                for (int64_t i = 0; i < n; i++)
                    cr_assert_eq(tp_item(y, i), 2, "%ld of %ld", (long)i, (long)n);
            }
        }
    }
}

Test(updates, f041_a_value_that_does_not_fit_its_region)
{
    EACH(g)
    {
        for (int donate = 0; donate < 2; donate++) {
            tp_tensor *v = tp_neg(tp_neg(count_up(g, TP_F32, TP_DIMS(5, 5))));
            cr_assert_eq(tp_eval(v), TP_OK);
            tp_tensor *two = tp_index(v, ":, 0:2"), *wrong = tp_index(v, ":, 2");
            expect_error(g, tp_update(v, two, wrong), TP_E_SHAPE, 1,
                         "update: the value [5] does not fit the region [5,2]: dimension 1 from "
                         "the right is 5 against 2");
            double want[25];
            for (int i = 0; i < 25; i++) want[i] = i;
            expect_values("v", v, 25, want);
            for (int i = 0; i < 25; i++) want[i] = i % 5 < 2 ? i / 5 * 5 + 2 : i;
            expect_values("both columns", updated(v, two, tp_index(v, ":, 2:3"), donate), 25, want);
        }
    }
}

/* A padded result by the public way: what lies between stays. */
Test(updates, f078_a_product_into_a_padded_region)
{
    EACH(g)
    {
        for (int donate = 0; donate < 2; donate++) {
            double sevens[32];
            for (int i = 0; i < 32; i++) sevens[i] = -7;
            tp_tensor *base = leaf_of(g, TP_F32, 32, sevens);
            tp_tensor *c =
                tp_unsqueeze(tp_index(tp_reshape(base, TP_DIMS(2, 4, 4)), ":, 0:2, 0:3"), 2);
            tp_view v = tp_view_of(c);
            cr_expect(v.stride[0] == 16 && v.stride[1] == 4 && v.stride[3] == 1);
            tp_tensor *a = tp_reshape(leaf_of(g, TP_F32, VALUES(1, 2, 3, 4)), TP_DIMS(2, 2, 1, 1)),
                      *b = tp_expand(
                          tp_reshape(leaf_of(g, TP_F32, VALUES(1, 10, 100)), TP_DIMS(1, 1, 1, 3)),
                          TP_DIMS(2, 2, 1, 3)),
                      *y = updated(base, c, tp_matmul(a, b), donate);
            for (int k = 0; k < 4; k++)
                for (int j = 0; j < 3; j++)
                    sevens[16 * (k / 2) + 4 * (k % 2) + j] = (k + 1) * pow(10, j);
            expect_values("78", y, 32, sevens);
        }
    }
}

Test(updates, f083_a_product_over_its_own_operand)
{
    EACH(g)
    {
        for (int donate = 0; donate < 2; donate++) {
            tp_tensor *base = tp_neg(tp_neg(count_up(g, TP_F32, TP_DIMS(2, 4))));
            cr_assert_eq(tp_eval(base), TP_OK);
            tp_tensor *x = tp_index(base, ":, ::2"), *zero = tp_full(g, TP_F32, TP_DIMS(2, 2), 0),
                      *swap = tp_reshape(leaf_of(g, TP_F32, VALUES(0, 1, 1, 0)), TP_DIMS(2, 2));
            if (donate)
                expect_values("swapped", updated(base, x, tp_matmul(x, swap), true),
                              VALUES(2, 1, 0, 3, 6, 5, 4, 7));
            else
                expect_values("zeros", updated(base, x, tp_matmul(x, zero), false),
                              VALUES(0, 1, 0, 3, 0, 5, 0, 7));
        }
    }
}

Test(updates, f111_reads_between_writes_see_the_program_order)
{
    EACH(g)
    {
        tp_tensor *cache = tp_full(g, TP_F32, TP_DIMS(4), 0), *y[4];
        for (int i = 0; i < 4; i++) {
            cache = tp_update(cache, tp_slice(cache, 0, i, i + 1, 1), tp_scalar(g, TP_F32, i + 1));
            y[i] = tp_sum(cache, TP_ALL_AXES, false);
        }
        cr_assert_eq(tp_eval_all(g, 4, y, NULL), TP_OK);
        const double want[] = {1, 3, 6, 10};
        for (int i = 0; i < 4; i++)
            cr_expect_eq(tp_item(y[i], 0), want[i], "y%d is %g in mode %d", i, tp_item(y[i], 0),
                         mode_);
        /* Evaluated step by step, each into the bytes of the one before. */
        tp_tensor *kept = tp_full(g, TP_F32, TP_DIMS(4), 0);
        cr_assert_eq(tp_eval(kept), TP_OK);
        for (int i = 0; i < 4; i++) {
            tp_tensor *next = tp_update(kept, tp_slice(kept, 0, i, i + 1, 1),
                                        tp_scalar(g, TP_F32, i + 1)),
                      *sum = tp_sum(next, TP_ALL_AXES, false);
            cr_assert_eq(tp_donate(kept), TP_OK);
            cr_assert_eq(tp_eval_all(g, 2, (tp_tensor *[]){next, sum}, NULL), TP_OK);
            cr_expect_eq(tp_item(sum, 0), want[i]);
            const float *old = tp_data(kept); /* without the pass nobody took its bytes */
            cr_expect(mode_ < 2 ? !old : old && old[i] == 0, "given away, mode %d", mode_);
            tp_graph_clear_error(g);
            kept = next;
        }
        /* In the other order of evaluation. */
        tp_tensor *first = tp_full(g, TP_F32, TP_DIMS(4), 0),
                  *second = tp_update(first, tp_slice(first, 0, 1, 3, 1), tp_scalar(g, TP_F32, 5)),
                  *before = tp_sum(first, TP_ALL_AXES, false);
        expect_values("second", second, VALUES(0, 5, 5, 0));
        expect_values("before", before, VALUES(0));
        expect_values("first", first, VALUES(0, 0, 0, 0));
    }
}

/* b = a + 1 in a's bytes while c = (new a) + 2 and (new a) b / c are made of them. */
Test(updates, f141_results_in_donated_bytes)
{
    static const int64_t lengths[] = {1, 64, 67, 1000};
    EACH(g)
    {
        for (int donate = 0; donate < 2; donate++) {
            for (int l = 0; l < 4; l++) {
                int64_t n = lengths[l];
                tp_tensor *a = tp_contiguous(tp_expand(leaf_of(g, TP_F32, VALUES(1)), TP_DIMS(n)));
                cr_assert_eq(tp_eval(a), TP_OK);
                tp_tensor *b = tp_add(a, tp_num(a, 1)), *anew = tp_update(a, a, b),
                          *c = tp_add(anew, tp_num(a, 2)), *y = tp_div(tp_mul(anew, b), c);
                if (donate) cr_assert_eq(tp_donate(a), TP_OK);
                cr_assert_eq(tp_eval_all(g, 4, (tp_tensor *[]){y, anew, b, c}, NULL), TP_OK);
                for (int64_t i = 0; i < n; i++)
                    cr_assert(tp_item(b, i) == 2 && tp_item(anew, i) == 2 && tp_item(c, i) == 4 &&
                                  tp_item(y, i) == 1,
                              "%ld of %ld: %g %g %g %g", (long)i, (long)n, tp_item(b, i),
                              tp_item(anew, i), tp_item(c, i), tp_item(y, i));
            }
        }
    }
}

/* Cases 31 and 93 for the gathers and orders that came later. */
Test(updates, f031_indices_of_every_gather_and_scatter)
{
    EACH(g)
    {
        for (int d = TP_U8; d <= TP_I64; d++) {
            tp_dtype t = (tp_dtype)d;
            tp_tensor *x = leaf_of(g, TP_F32, VALUES(10, 20, 30, 40, 50)),
                      *ones = leaf_of(g, TP_F32, VALUES(1, 1));
            tp_tensor *bad = leaf_of(g, t, VALUES(4, 5));
            char text[120];
            /* a gather is put together from take_along */
            const char *ops[] = {"index_select", "take_along", "take_along", "scatter_add"};
            tp_tensor *(*gathers[])(tp_tensor *, int, tp_tensor *) = {tp_index_select,
                                                                      tp_take_along, tp_gather};
            for (int o = 0; o < 4; o++) {
                snprintf(text, sizeof text, "%s: index 5 at position 1 is outside axis 0 of size 5",
                         ops[o]);
                expect_failure(o < 3 ? gathers[o](x, 0, bad) : tp_scatter_add(x, 0, bad, ones),
                               TP_E_BOUNDS, text);
                if (t == TP_U64) {
                    tp_tensor *huge =
                        tp_from_data(g, TP_U64, TP_DIMS(2), (uint64_t[]){0, UINT64_MAX});
                    snprintf(text, sizeof text,
                             "%s: index 18446744073709551615 at position 1 is outside axis 0 of "
                             "size 5",
                             ops[o]);
                    expect_failure(o < 3 ? gathers[o](x, 0, huge)
                                         : tp_scatter_add(x, 0, huge, ones),
                                   TP_E_BOUNDS, text);
                }
                if (tp_dtype_kind_of(t) != TP_DTYPE_INT) continue;
                tp_tensor *last = leaf_of(g, t, VALUES(-1, -5));
                if (o < 3)
                    expect_values(ops[o], gathers[o](x, 0, last), VALUES(50, 10));
                else
                    expect_values(ops[o], tp_scatter_add(x, 0, last, ones),
                                  VALUES(11, 20, 30, 40, 51));
                snprintf(text, sizeof text,
                         "%s: index -6 at position 0 is outside axis 0 of size 5", ops[o]);
                bad = leaf_of(g, t, VALUES(-6, 0));
                expect_failure(o < 3 ? gathers[o](x, 0, bad) : tp_scatter_add(x, 0, bad, ones),
                               TP_E_BOUNDS, text);
                bad = leaf_of(g, t, VALUES(4, 5));
            }
        }
    }
}

Test(updates, f063b_dirty_bools_along_an_axis)
{
    EACH(g)
    {
        tp_tensor *b = tp_bitcast(tp_from_data(g, TP_U8, TP_DIMS(4), (uint8_t[]){255, 0, 2, 1}),
                                  TP_BOOL),
                  *t = tp_full(g, TP_BOOL, TP_DIMS(1), 1);
        expect_values("cumsum", tp_cumsum(b, 0), VALUES(1, 1, 2, 3));
        expect_values("cummax", tp_cast(tp_cummax(b, 0), TP_I32), VALUES(1, 1, 1, 1));
        expect_values("sort", tp_cast(tp_sort(b, 0, false), TP_I32), VALUES(0, 1, 1, 1));
        expect_values("argsort", tp_argsort(b, 0, false), VALUES(1, 0, 2, 3));
        expect_values("concat", tp_equal(tp_concat(TP_LIST(b, t), 0), t), VALUES(1, 0, 1, 1, 1));
        expect_values("update", tp_equal(tp_update(b, tp_slice(b, 0, 1, 2, 1), t), t),
                      VALUES(1, 1, 1, 1));
        tp_tensor *x = leaf_of(g, TP_F32, VALUES(7, 8, 9, 10));
        expect_values("masked", tp_masked_fill(x, b, 0), VALUES(0, 8, 0, 0));
    }
}
