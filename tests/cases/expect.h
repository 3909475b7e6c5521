/* Short words for the tests of reported faults. */
#ifndef TP_TEST_EXPECT_H
#define TP_TEST_EXPECT_H

#include <criterion/criterion.h>
#include <math.h>

#include "graph/graph.h"

#define VALUES(...)                                                                                \
    (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[])                            \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static inline void expect_values(const char *what, tp_tensor *y, int count, const double *values)
{
    cr_assert(y, "%s: not built", what);
    cr_assert_eq(tp_eval(y), TP_OK, "%s: %s", what, tp_graph_error(tp_graph_of(y))->text);
    cr_expect_eq(tp_numel(y), count, "%s: %ld elements", what, (long)tp_numel(y));
    for (int i = 0; i < count && i < tp_numel(y); i++) {
        double got = tp_item(y, i);
        cr_expect(got == values[i] || (isnan(got) && isnan(values[i])),
                  "%s: element %d is %.17g, not %.17g", what, i, got, values[i]);
    }
}

static inline void expect_shape(const char *what, const tp_tensor *y, int ndim,
                                const int64_t *shape)
{
    cr_assert(y, "%s: not built", what);
    tp_view v = tp_view_of(y), want = tp_view_row_major(ndim, shape);
    char got[400];
    tp_view_print_shape(&v, got, sizeof got);
    cr_expect(tp_view_same_shape(&v, &want), "%s: shape %s", what, got);
}

/* A refusal whose sentence has these words; the record is cleared. */
static inline void expect_refusal(const char *what, tp_graph *g, const tp_tensor *y,
                                  const char *words)
{
    cr_expect_null(y, "%s: built", what);
    cr_expect(strstr(tp_graph_error(g)->text, words), "%s: \"%s\"", what, tp_graph_error(g)->text);
    tp_graph_clear_error(g);
}

static inline tp_plan_summary plan_of(tp_tensor *y)
{
    tp_plan *plan = tp_plan_create(tp_graph_of(y), 1, &y, NULL);
    tp_plan_summary s = tp_plan_summarize(plan);
    tp_plan_release(plan);
    return s;
}

static inline tp_tensor *count_up(tp_graph *g, tp_dtype dtype, int ndim, const int64_t *shape)
{
    int64_t n = 1;
    for (int d = 0; d < ndim; d++) n *= shape[d];
    tp_tensor *x = tp_arange(g, dtype, 0, 1, n);
    cr_assert_eq(tp_eval(x), TP_OK);
    return tp_reshape(x, ndim, shape);
}

#endif
