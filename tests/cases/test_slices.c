/* Faults reported against other engines: slices, steps, bounds, gathers (category 2). */
#include "tests/cases/expect.h"

#include <stdio.h>

TestSuite(slices, .timeout = 60);

static tp_tensor *cut(tp_tensor *x, int64_t start, int64_t stop, int64_t step)
{
    return tp_slice(x, 0, start, stop, step);
}

/* Python's rule, in 128 bits: the elements of range(n)[start:stop:step]. */
typedef __int128 wide;
static int python_slice(int64_t n, int64_t start, int64_t stop, int64_t step, double *values)
{
    wide low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    wide from = start, to = stop;
    if (from < 0) from += n;
    if (to < 0) to += n;
    from = from < low ? low : from > high ? high : from;
    to = to < low ? low : to > high ? high : to;
    if (start == TP_END) from = step > 0 ? 0 : n - 1;
    if (stop == TP_END) to = step > 0 ? n : -1;
    int count = 0;
    for (wide i = from; step > 0 ? i < to : i > to; i += step) values[count++] = (double)i;
    return count;
}

static void check_slice(tp_graph *g, int64_t n, int64_t start, int64_t stop, int64_t step)
{
    double want[16];
    int count = python_slice(n, start, stop, step, want);
    char what[120];
    snprintf(what, sizeof what, "%ld elements [%ld:%ld:%ld]", (long)n, (long)start, (long)stop,
             (long)step);
    tp_tensor *y = cut(count_up(g, TP_I32, TP_DIMS(n)), start, stop, step);
    expect_shape(what, y, TP_DIMS(count));
    int64_t offset = tp_view_of(y).offset;
    cr_expect(offset >= 0 && offset <= n, "%s: offset %ld", what, (long)offset);
    expect_values(what, y, count, want);
}

Test(slices, f019_negative_steps)
{
    EACH(g)
    {
        tp_tensor *a = count_up(g, TP_I32, TP_DIMS(10)), *b = count_up(g, TP_I32, TP_DIMS(20)),
                  *m = count_up(g, TP_I32, TP_DIMS(3, 4));
        expect_values("[9:0:-1]", cut(a, 9, 0, -1), VALUES(9, 8, 7, 6, 5, 4, 3, 2, 1));
        expect_values("[7:0:-1]", cut(a, 7, 0, -1), VALUES(7, 6, 5, 4, 3, 2, 1));
        expect_values("[9:2:-1]", cut(a, 9, 2, -1), VALUES(9, 8, 7, 6, 5, 4, 3));
        expect_values("[9:0:-3]", cut(a, 9, 0, -3), VALUES(9, 6, 3));
        expect_values("[19:0:-3]", cut(b, 19, 0, -3), VALUES(19, 16, 13, 10, 7, 4, 1));
        expect_values("rows", cut(m, 2, 0, -1), VALUES(8, 9, 10, 11, 4, 5, 6, 7));
        expect_values("columns", tp_slice(m, 1, 3, 0, -1), VALUES(3, 2, 1, 7, 6, 5, 11, 10, 9));
        expect_values("last axis", tp_slice(m, -1, 3, 0, -1), VALUES(3, 2, 1, 7, 6, 5, 11, 10, 9));
    }
}

/* Faults 19 to 29 are of one kind: here all of it up to 5 elements. */
Test(slices, f019_every_small_slice_is_pythons)
{
    for (int m = 0; m < 2; m++) {
        tp_graph *g = graph_of_mode(m);
        for (int64_t n = 0; n <= 5; n++) {
            for (int64_t start = -8; start <= 7; start++) {
                for (int64_t stop = -8; stop <= 7; stop++) {
                    for (int64_t step = -4; step <= 4; step++) {
                        if (step)
                            check_slice(g, n, start == -8 ? TP_END : start,
                                        stop == -8 ? TP_END : stop, step);
                    }
                }
            }
            tp_graph_reset(g);
        }
        tp_graph_destroy(g);
    }
}

Test(slices, f021_to_the_very_end_in_either_direction)
{
    EACH(g)
    {
        tp_tensor *a = count_up(g, TP_I32, TP_DIMS(4));
        expect_values("[2:-1:-1]", cut(a, 2, -1, -1), 0, NULL);
        expect_values("[2::-1]", cut(a, 2, TP_END, -1), VALUES(2, 1, 0));
        expect_values("[2:]", cut(a, 2, TP_END, 1), VALUES(2, 3));
        expect_values("[:2]", cut(a, TP_END, 2, 1), VALUES(0, 1));
        expect_values("[:2:-1]", cut(a, TP_END, 2, -1), VALUES(3));
        expect_values("[::-1]", cut(a, TP_END, TP_END, -1), VALUES(3, 2, 1, 0));
        expect_values("[::-2]", cut(a, TP_END, TP_END, -2), VALUES(3, 1));
        expect_values("[::]", cut(a, TP_END, TP_END, 1), VALUES(0, 1, 2, 3));
        expect_values("text", tp_index(a, "2::-1"), VALUES(2, 1, 0));
        expect_values("text", tp_index(a, "2:-1:-1"), 0, NULL);
    }
}

Test(slices, f023_bounds_clamp)
{
    EACH(g)
    {
        tp_tensor *a = count_up(g, TP_I32, TP_DIMS(5)), *m = count_up(g, TP_I32, TP_DIMS(4, 5));
        expect_values("[-100:3]", cut(a, -100, 3, 1), VALUES(0, 1, 2));
        expect_values("[-100:100:2]", cut(a, -100, 100, 2), VALUES(0, 2, 4));
        expect_values("[100:-100:-2]", cut(a, 100, -100, -2), VALUES(4, 2, 0));
        expect_values("[7:9]", cut(a, 7, 9, 1), 0, NULL);
        expect_shape("[0:100]", cut(m, 0, 100, 1), TP_DIMS(4, 5));
        expect_values("[0:100]", tp_select(cut(m, 0, 100, 1), 1, 0), VALUES(0, 5, 10, 15));
        static const int64_t extremes[] = {INT64_MIN + 1, INT64_MIN + 2, -6, -5, -1, 0, 4, 5, 6,
                                           INT64_MAX - 1, INT64_MAX};
        static const int64_t steps[] = {1, -1, 3, -3, INT64_MAX, INT64_MIN};
        for (int i = 0; i < 11 * 11 * 6; i++)
            check_slice(g, 5, extremes[i % 11], extremes[i / 11 % 11], steps[i / 121]);
    }
}

Test(slices, f025_an_empty_view_stays_inside_its_storage)
{
    EACH(g)
    {
        tp_tensor *e = cut(count_up(g, TP_F32, TP_DIMS(5, 5)), 0, 0, -1);
        float one[] = {1};
        tp_tensor *t = tp_wrap(g, TP_F32, TP_DIMS(1, 1), (int64_t[]){10, 1}, 0, one, sizeof one,
                               NULL, NULL),
                  *f = cut(t, 1, 1, 1);
        for (int k = 0; k < 2; k++) {
            tp_tensor *x = k ? f : e;
            int64_t columns = k ? 1 : 5, offset = tp_view_of(x).offset;
            expect_shape("empty", x, TP_DIMS(0, columns));
            cr_expect(offset >= 0 && offset <= (k ? 1 : 25), "offset %ld", (long)offset);
            tp_tensor *w = tp_contiguous(tp_expand(tp_unsqueeze(x, 0), TP_DIMS(3, 0, columns)));
            expect_shape("expanded", w, TP_DIMS(3, 0, columns));
            cr_expect_eq(tp_eval(w), TP_OK);
            tp_tensor *r = tp_neg(tp_reshape(x, TP_DIMS(columns, 0)));
            expect_shape("reshaped", r, TP_DIMS(columns, 0));
            cr_expect_eq(tp_eval(r), TP_OK);
            expect_values("sum", tp_sum(x, TP_ALL_AXES, false), VALUES(0));
            tp_tensor *again = tp_flip(tp_slice(x, 1, TP_END, TP_END, -1), 1, (int64_t[]){0});
            offset = tp_view_of(again).offset;
            cr_expect(offset >= 0 && offset <= (k ? 1 : 25), "again: offset %ld", (long)offset);
            cr_expect_eq(tp_eval(tp_contiguous(again)), TP_OK);
        }
    }
}

/* However an empty view is taken further: each kind of view, from an empty storage and a full one.
 */
Test(slices, f025_no_view_of_nothing_leaves_its_storage)
{
    tp_graph *g = tp_graph_create(NULL);
    for (int k = 0; k < 2; k++) {
        tp_tensor *x = k ? cut(count_up(g, TP_F32, TP_DIMS(3, 5)), 3, 3, 1)
                         : tp_full(g, TP_F32, TP_DIMS(0, 5), 0);
        tp_tensor *views[] = {tp_select(x, 1, 4),
                              tp_slice(x, 1, 4, TP_END, 1),
                              tp_slice(x, 1, TP_END, TP_END, -1),
                              tp_flip(x, 2, (int64_t[]){0, 1}),
                              tp_diagonal(x, 3, 0, 1),
                              tp_diagonal(x, -3, 0, 1),
                              tp_expand(tp_unsqueeze(x, 0), TP_DIMS(2, 0, 5)),
                              tp_bitcast(x, TP_U8),
                              tp_transpose(x, 0, 1),
                              tp_windows(x, 1, 2, 3)};
        for (int i = 0; i < 10; i++) {
            cr_assert(views[i], "view %d: %s", i, tp_graph_error(g)->text);
            int64_t offset = tp_view_of(views[i]).offset;
            cr_expect(offset >= 0 && offset <= (k ? 15 : 0), "view %d: offset %ld", i,
                      (long)offset);
            cr_expect_eq(tp_eval(tp_contiguous(tp_neg(tp_cast(views[i], TP_F32)))), TP_OK);
        }
    }
    tp_graph_destroy(g);
}

Test(slices, f027_negative_ends_next_to_indices)
{
    EACH(g)
    {
        tp_tensor *x = count_up(g, TP_F32, TP_DIMS(10, 10)),
                  *column = tp_select(tp_slice(x, 0, 0, -1, 1), 1, 0),
                  *text = tp_index(x, "0:-1, 0"), *y = count_up(g, TP_F32, TP_DIMS(6, 6)),
                  *inner = tp_slice(tp_slice(y, 0, 1, -1, 1), 1, 1, -1, 1);
        expect_shape("column", column, TP_DIMS(9));
        expect_values("column", column, VALUES(0, 10, 20, 30, 40, 50, 60, 70, 80));
        expect_values("column", text, VALUES(0, 10, 20, 30, 40, 50, 60, 70, 80));
        expect_shape("inner", inner, TP_DIMS(4, 4));
        expect_shape("inner", tp_index(y, "1:-1, 1:-1"), TP_DIMS(4, 4));
        expect_values("inner", inner,
                      VALUES(7, 8, 9, 10, 13, 14, 15, 16, 19, 20, 21, 22, 25, 26, 27, 28));
    }
}

Test(slices, f029_steps_0_and_at_the_ends_of_the_range)
{
    EACH(g)
    {
        tp_tensor *a = count_up(g, TP_I32, TP_DIMS(5));
        expect_error(g, cut(a, 0, 5, 0), TP_E_ARGUMENT, 0, "slice: step is 0");
        expect_values("[4::INT64_MIN]", cut(a, 4, TP_END, INT64_MIN), VALUES(4));
        expect_values("[0:5:INT64_MAX]", cut(a, 0, 5, INT64_MAX), VALUES(0));
        for (int64_t start = 0; start < 5; start++) {
            check_slice(g, 5, start, TP_END, INT64_MIN);
            check_slice(g, 5, start, TP_END, INT64_MIN + 1);
            check_slice(g, 5, start, TP_END, INT64_MAX);
        }
        /* A step applied twice must not wrap either. */
        tp_tensor *twice = cut(cut(a, 0, 5, INT64_MAX), 0, 1, INT64_MAX);
        expect_values("twice", twice, VALUES(0));
        expect_values("thrice", tp_neg(cut(twice, TP_END, TP_END, INT64_MIN)), VALUES(0));
    }
}

/* Python's x[-1] on the gathered axis, on every backend, alone and between other operations. */
Test(slices, f031_negative_indices_wrap)
{
    EACH(g)
    {
        tp_tensor *x = count_up(g, TP_F32, TP_DIMS(5, 10));
        double last[10];
        for (int i = 0; i < 10; i++) last[i] = 40 + i;
        for (int d = TP_U8; d <= TP_I64; d++) {
            tp_dtype t = (tp_dtype)d;
            if (tp_dtype_kind_of(t) != TP_DTYPE_INT) continue;
            tp_tensor *i = leaf_of(g, t, VALUES(-1));
            expect_values(tp_dtype_name(t), tp_index_select(x, 0, i), 10, last);
            expect_values(
                "fused",
                tp_relu(tp_sub(tp_index_select(tp_add(x, tp_num(x, 1)), 0, i), tp_num(x, 1))), 10,
                last);
            tp_tensor *column = tp_index_select(x, 1, leaf_of(g, t, VALUES(-10, -1, 0, 9)));
            expect_values("column", tp_select(column, 0, 2), VALUES(20, 29, 20, 29));
            expect_failure(tp_index_select(x, 0, leaf_of(g, t, VALUES(4, -6))), TP_E_BOUNDS,
                           "index_select: index -6 at position 1 is outside axis 0 of size 5");
            expect_failure(tp_relu(tp_index_select(tp_neg(x), 1, leaf_of(g, t, VALUES(10)))),
                           TP_E_BOUNDS,
                           "index_select: index 10 at position 0 is outside axis 1 of size 10");
            expect_values("after it", tp_index_select(x, 0, i), 10, last);
        }
        expect_error(g, tp_select(x, 0, -6), TP_E_BOUNDS, 0,
                     "select: index -6 is outside dim 0 of [5,10], size 5");
        expect_values("select", tp_select(x, 0, -1), 10, last);
    }
}
