/* Short words for the tests of reported faults: a case is checked in the words of its record. */
#ifndef TP_TEST_EXPECT_H
#define TP_TEST_EXPECT_H

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* The body once per backend, with all passes and with none. */
#define EACH(g)                                                                                    \
    for (int mode_ = 0; mode_ < 4; mode_++)                                                        \
        for (tp_graph *g = graph_of_mode(mode_); g; tp_graph_destroy(g), g = NULL)

static inline tp_graph *graph_of_mode(int mode)
{
    tp_graph *g = tp_graph_create(NULL);
    cr_assert_eq(tp_graph_set_backend(g, mode % 2 ? "ref" : "cpu"), TP_OK);
    if (mode / 2) tp_graph_set_pass(g, "all", false);
    return g;
}

/* A graph takes nodes and evaluates: what must hold after every refusal. */
static inline void expect_usable(const char *what, tp_graph *g)
{
    tp_tensor *three = tp_add(tp_scalar(g, TP_F64, 1), tp_scalar(g, TP_F64, 2));
    cr_expect(three && tp_eval(three) == TP_OK && tp_item(three, 0) == 3, "%s: unusable after it",
              what);
}

/* A refusal in exactly these words, about this dim; the graph stays usable. */
static inline void expect_error(tp_graph *g, const tp_tensor *y, tp_status status, int dim,
                                const char *sentence)
{
    const tp_error *e = tp_graph_error(g);
    cr_expect_null(y, "built: %s", sentence);
    cr_expect_eq(e->status, status, "%s: status %s", sentence, tp_status_name(e->status));
    cr_expect_eq(e->dim, dim, "%s: dim %d", sentence, e->dim);
    cr_expect_str_eq(e->text, sentence);
    tp_graph_clear_error(g);
    expect_usable(sentence, g);
}

/* An evaluation that fails in exactly these words and leaves y as it was. */
static inline void expect_failure(tp_tensor *y, tp_status status, const char *sentence)
{
    tp_graph *g = tp_graph_of(y);
    cr_expect_eq(tp_eval(y), status, "%s: evaluated", sentence);
    cr_expect_str_eq(tp_graph_error(g)->text, sentence);
    cr_expect(!tp_is_evaluated(y), "%s: published", sentence);
    tp_graph_clear_error(g);
    expect_usable(sentence, g);
}

/* The same dtype and bits; for integers beyond 2^53 and signs of zero. */
static inline void expect_bits(const char *what, tp_tensor *y, tp_dtype dtype, int64_t count,
                               const void *want)
{
    cr_assert(y, "%s: not built", what);
    cr_assert_eq(tp_eval(y), TP_OK, "%s: %s", what, tp_graph_error(tp_graph_of(y))->text);
    cr_assert_eq(tp_dtype_of(y), dtype, "%s: %s", what, tp_dtype_name(tp_dtype_of(y)));
    cr_assert_eq(tp_numel(y), count, "%s: %ld elements", what, (long)tp_numel(y));
    size_t size = tp_dtype_size(dtype);
    const char *got = tp_data(y);
    for (int64_t i = 0; i < count; i++) {
        tp_value a = tp_value_load(dtype, got + (size_t)i * size),
                 b = tp_value_load(dtype, (const char *)want + (size_t)i * size);
        bool same =
            tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT
                ? (isnan(a.f) && isnan(b.f)) || (a.f == b.f && !signbit(a.f) == !signbit(b.f))
                : a.i == b.i;
        cr_assert(same, "%s: element %ld of %ld is %.17g or %lld, not %.17g or %lld", what, (long)i,
                  (long)count, a.f, (long long)a.i, b.f, (long long)b.i);
    }
}

/* How a leaf lies. */
typedef enum lay { LAY_DENSE, LAY_REVERSED, LAY_PERMUTED, LAY_STEPPED, LAYS } lay;

/* A leaf of these row-major values that lies as `how` says: backwards, its axes in reverse order,
 * or every other element from the second on, with 0xFF between. */
static inline tp_tensor *laid(tp_graph *g, lay how, tp_dtype dtype, int ndim, const int64_t *shape,
                              const void *data)
{
    int64_t stride[TP_MAX_RANK], n = 1, step = how == LAY_STEPPED ? 2 : 1;
    int64_t offset = how == LAY_STEPPED ? 1 : 0, index[TP_MAX_RANK] = {0};
    for (int i = 0; i < ndim; i++) {
        int d = how == LAY_PERMUTED ? i : ndim - 1 - i;
        stride[d] = step * n, n *= shape[d];
    }
    size_t size = tp_dtype_size(dtype), total = (size_t)(step * n + 1);
    for (int d = 0; d < ndim && how == LAY_REVERSED && n; d++)
        offset += stride[d] * (shape[d] - 1), stride[d] = -stride[d];
    char *bytes = malloc(total * size);
    memset(bytes, 0xFF, total * size);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = offset;
        for (int d = 0; d < ndim; d++) at += index[d] * stride[d];
        memcpy(bytes + (size_t)at * size, (const char *)data + (size_t)i * size, size);
        for (int d = ndim - 1; d >= 0 && ++index[d] == shape[d]; d--) index[d] = 0;
    }
    tp_tensor *x = tp_from_data(g, dtype, TP_DIMS((int64_t)total), bytes);
    free(bytes);
    return tp_as_strided(x, ndim, shape, stride, offset);
}

/* Values as elements of a dtype; the caller frees. */
static inline void *elements(tp_dtype dtype, int64_t count, const double *values)
{
    size_t size = tp_dtype_size(dtype);
    char *data = malloc((size_t)count * size + 1);
    for (int64_t i = 0; i < count; i++)
        tp_value_store(dtype, data + (size_t)i * size, TP_F64, (tp_value){.f = values[i]});
    return data;
}

/* A leaf of these values in a dtype. */
static inline tp_tensor *leaf_of(tp_graph *g, tp_dtype dtype, int count, const double *values)
{
    void *data = elements(dtype, count, values);
    tp_tensor *x = tp_from_data(g, dtype, TP_DIMS(count), data);
    free(data);
    return x;
}

static inline bool is_float(tp_dtype dtype)
{
    return tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT;
}

/* y = a b by plain loops over batches of m x k and k x n; values are small integers. */
static inline void naive_product(int64_t batch, int64_t m, int64_t k, int64_t n, const double *a,
                                 const double *b, double *y)
{
    for (int64_t i = 0; i < batch * m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++) sum += a[i * k + l] * b[(i / m * k + l) * n + j];
            y[i * n + j] = sum;
        }
    }
}

/* Every element is value. */
static inline void expect_all(const char *what, tp_tensor *y, double value)
{
    cr_assert(y && tp_eval(y) == TP_OK, "%s", what);
    for (int64_t i = 0; i < tp_numel(y); i++)
        cr_assert_eq(tp_item(y, i), value, "%s: element %ld is %g", what, (long)i, tp_item(y, i));
}

#endif
