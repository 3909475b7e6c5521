/* Faults reported against other engines: extents beyond 32 and 64 bits (category 8). Those that
 * need more than 2 GiB run with TP_LONG=1 and say so. */
#include "tests/cases/expect.h"
#include "tests/backend.h"

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include "tests/random.h"

#define TWO_61 (INT64_C(1) << 61)
#define TWO_62 (INT64_C(1) << 62)

TestSuite(extents, .timeout = 1800);

Test(extents, f121_sizes_are_multiplied_in_checked_arithmetic)
{
    EACH(g)
    {
        expect_error(g, tp_full(g, TP_U8, TP_DIMS(2, 2, 1, TWO_61), 0), TP_E_SHAPE, -1,
                     "full: [2,2,1,2305843009213693952] has more than 2^63-1 elements");
        expect_error(g, tp_full(g, TP_F64, TP_DIMS(TWO_61), 0), TP_E_SHAPE, -1,
                     "full: [2305843009213693952] of f64 has more than 2^63-1 bytes");
        for (int d = 0; d < TP_DTYPE_COUNT; d++) {
            if (tp_dtype_size((tp_dtype)d) == 1) continue;
            cr_expect_null(tp_full(g, (tp_dtype)d, TP_DIMS(INT64_MAX), 0));
            cr_expect_eq(tp_graph_error(g)->status, TP_E_SHAPE);
            tp_graph_clear_error(g);
        }
        tp_tensor *huge = tp_full(g, TP_U8, TP_DIMS(INT64_MAX), 0);
        expect_shape("numel fits", huge, TP_DIMS(INT64_MAX));
        expect_failure(huge, TP_E_NOMEM, "eval: 9223372036854775807 bytes are not to be had");
        /* A zero among huge sizes is no excuse for a wrong product, nor an error. */
        tp_tensor *none = tp_full(g, TP_F64, TP_DIMS(TWO_62, 0, TWO_62), 0);
        cr_expect(none && tp_numel(none) == 0 && tp_eval(none) == TP_OK);
        /* Results are held to it as leaves are. */
        tp_tensor *column = tp_full(g, TP_U8, TP_DIMS(TWO_62, 1), 0),
                  *row = tp_full(g, TP_U8, TP_DIMS(1, 4), 0);
        expect_error(g, tp_add(column, row), TP_E_SHAPE, -1,
                     "add: [4611686018427387904,4] has more than 2^63-1 elements");
        expect_error(g, tp_cast(tp_full(g, TP_U8, TP_DIMS(TWO_62), 0), TP_F64), TP_E_SHAPE, -1,
                     "cast: [4611686018427387904] of f64 has more than 2^63-1 bytes");
        expect_error(g, tp_expand(row, TP_DIMS(TWO_61, 4, 4)), TP_E_SHAPE, -1,
                     "expand: [2305843009213693952,4,4] has more than 2^63-1 elements");
    }
}

Test(extents, f123_strides_are_multiplied_in_checked_arithmetic)
{
    EACH(g)
    {
        char bytes[1024] = {0};
        const size_t size = sizeof bytes;
        expect_error(
            g, tp_wrap(g, TP_U8, TP_DIMS(5), (int64_t[]){TWO_62}, 0, bytes, size, NULL, NULL),
            TP_E_BOUNDS, -1,
            "wrap: [5] : (4611686018427387904) + 0 reaches beyond 2^63-1, the storage has 1024 "
            "elements");
        expect_error(
            g, tp_wrap(g, TP_U8, TP_DIMS(4, 4), (int64_t[]){TWO_62, 1}, 0, bytes, size, NULL, NULL),
            TP_E_BOUNDS, -1,
            "wrap: [4,4] : (4611686018427387904,1) + 0 reaches beyond 2^63-1, the storage has 1024 "
            "elements");
        expect_error(g, tp_wrap(g, TP_U8, TP_DIMS(4), (int64_t[]){-1}, 2, bytes, size, NULL, NULL),
                     TP_E_BOUNDS, -1,
                     "wrap: [4] : (-1) + 2 reaches element -1, the storage has 1024");
        tp_tensor *x = tp_wrap(g, TP_U8, TP_DIMS(1024), NULL, 0, bytes, size, NULL, NULL);
        /* Each of these wraps to an element inside when it is calculated in 64 bits. */
        static const int64_t strides[] = {INT64_MAX, INT64_MIN, TWO_62, -TWO_62, TWO_61, 1024};
        for (int s = 0; s < 6; s++) {
            for (int64_t n = 2; n <= 9; n++) {
                cr_expect_null(tp_as_strided(x, TP_DIMS(n), &strides[s], s % 2 ? 1023 : 0));
                cr_expect_eq(tp_graph_error(g)->status, TP_E_BOUNDS);
                tp_graph_clear_error(g);
            }
        }
        expect_error(g, tp_as_strided(x, TP_DIMS(2), (int64_t[]){1}, INT64_MAX), TP_E_BOUNDS, -1,
                     "as_strided: [2] : (1) + 9223372036854775807 reaches beyond 2^63-1, the "
                     "storage has 1024 elements");
        /* The step of a slice times the stride; a dim of size 1 has no stride. */
        tp_tensor *wide = tp_as_strided(x, TP_DIMS(2, 1), (int64_t[]){1023, TWO_62}, 0),
                  *third = tp_slice(tp_slice(wide, 0, 0, TP_END, INT64_MAX), 1, 0, TP_END, 3);
        expect_shape("sliced", third, TP_DIMS(1, 1));
        expect_values("sliced", third, VALUES(0));
        expect_usable("123", g);
    }
}

/* 131: sizes that do not fit, in the other form that the host hands in (for .npy see npy::*). */
Test(extents, f131_a_size_that_does_not_fit_63_bits)
{
    tp_graph *g = tp_graph_create(NULL);
    static const char *const sizes[] = {"200000000000000000000", "9223372036854775808", "-1"};
    static const char *const sentences[] = {
        "parse: line 1, column 18: the integer does not fit in 63 bits",
        "parse: line 1, column 18: the integer does not fit in 63 bits",
        "parse: line 1, column 6: full: size -1 of dim 1 is negative"};
    for (int i = 0; i < 3; i++) {
        char text[120];
        tp_tensor *y;
        snprintf(text, sizeof text, "%%0 = full f32 [2,%s] 1\nreturn %%0\n", sizes[i]);
        int64_t nodes = tp_graph_node_count(g);
        cr_expect_eq(tp_graph_parse(g, text, 1, &y), -1, "%s", sizes[i]);
        cr_expect_str_eq(tp_graph_error(g)->text, sentences[i]);
        cr_expect_eq(tp_graph_node_count(g), nodes);
        tp_graph_clear_error(g);
        expect_usable("parse", g);
    }
    tp_graph_destroy(g);
}

/* ---- More than 2 GiB --------------------------------------------------------------------- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Whether a test that needs this much memory runs; what happens is printed in either case. */
static bool big(const char *number, double gib)
{
    if (!long_tests()) {
        printf("NOTE %s needs %.1f GiB: only with TP_LONG=1\n", number, gib);
        return false;
    }
    FILE *f = fopen("/proc/meminfo", "r");
    char line[200];
    long long free_kib = 0;
    while (f && fgets(line, sizeof line, f)) sscanf(line, "MemAvailable: %lld kB", &free_kib);
    if (f) fclose(f);
    cr_assert(!f || (double)free_kib / (1 << 20) > gib + 1, "%s needs %.1f GiB, %.1f are free",
              number, gib, (double)free_kib / (1 << 20));
    return true;
}

static void report(const char *number, double start)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("NOTE %s: %.1f s, peak %.1f GiB\n", number, seconds() - start,
           (double)usage.ru_maxrss / (1 << 20));
}

static tp_tensor *remainders(tp_graph *g, int64_t n, int64_t divisor, int ndim,
                             const int64_t *shape)
{
    int8_t *data = malloc((size_t)n);
    for (int64_t i = 0; i < n; i++) data[i] = (int8_t)(i % divisor);
    tp_tensor *x = tp_from_data(g, TP_I8, ndim, shape, data);
    free(data);
    return x;
}

Test(extents, f125_a_broadcast_result_beyond_2_31_elements)
{
    const int64_t rows = 65536, columns = 32769, n = rows * columns;
    double start = seconds();
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *a = remainders(g, rows, 7, TP_DIMS(rows, 1)),
              *b = remainders(g, columns, 5, TP_DIMS(1, columns)), *out = tp_add(a, b);
    /* Its sum needs no such memory: always planned, run when there is time. */
    tp_tensor *sum = tp_sum(out, TP_ALL_AXES, false);
    cr_expect_lt(plan_of(sum).peak_bytes, 1 << 20);
    if (big("125", 2.1)) {
        int64_t in_rows = 0, in_columns = 0;
        for (int64_t i = 0; i < rows; i++) in_rows += i % 7;
        for (int64_t j = 0; j < columns; j++) in_columns += j % 5;
        expect_bits("sum", sum, TP_I64, 1, &(int64_t){in_rows * columns + in_columns * rows});
        cr_assert_eq(tp_eval(out), TP_OK);
        const int64_t at[] = {0, (INT64_C(1) << 31) - 1, INT64_C(1) << 31, n - 1};
        for (int i = 0; i < 4; i++)
            cr_expect_eq(tp_item(out, at[i]), (double)(at[i] / columns % 7 + at[i] % columns % 5),
                         "element %ld", (long)at[i]);
        report("125", start);
    }
    tp_graph_destroy(g);
}

/* Rows 0 to 9 and the last 10 of (batch,128,32) @ (32,128) against a small product. */
static void long_product(tp_dtype dtype, int64_t batch)
{
    const int64_t m = 128, k = 32, edge = 10 * m * k, total = batch * m * k;
    size_t size = tp_dtype_size(dtype);
    char *data = calloc((size_t)total, size);
    cr_assert(data);
    for (int64_t i = 0; i < edge; i++) {
        tp_value v = {.f = (double)(i % 5)}, w = {.f = (double)(i % 3)};
        tp_value_store(dtype, data + (size_t)i * size, TP_F64, v);
        tp_value_store(dtype, data + (size_t)(total - 1 - i) * size, TP_F64, w);
    }
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *x = tp_wrap(g, dtype, TP_DIMS(batch, m, k), NULL, 0, data, (size_t)total * size,
                           NULL, NULL),
              *w = tp_cast(tp_reshape(tp_remainder(tp_arange(g, TP_F32, 0, 1, k * 128),
                                                   tp_scalar(g, TP_F32, 3)),
                                      TP_DIMS(k, 128)),
                           dtype),
              *y = tp_matmul(x, w);
    cr_assert_eq(tp_eval(y), TP_OK, "%s", tp_graph_error(g)->text);
    for (int last = 0; last < 2; last++) {
        int64_t from = last ? batch - 10 : 0;
        tp_tensor *small = tp_matmul(tp_contiguous(tp_slice(x, 0, from, from + 10, 1)), w),
                  *part = tp_contiguous(tp_slice(y, 0, from, from + 10, 1));
        cr_assert(tp_eval(small) == TP_OK && tp_eval(part) == TP_OK);
        cr_expect_arr_eq(tp_data(small), tp_data(part), (size_t)(10 * m * 128) * size, "%s %s",
                         tp_dtype_name(dtype), last ? "last" : "first");
    }
    tp_graph_destroy(g);
    free(data);
}

Test(extents, f127_a_product_beyond_2_31_elements)
{
    double start = seconds();
    long_product(TP_F32, 64), long_product(TP_U8, 64), long_product(TP_F16, 64);
    if (!big("127", 8.5)) return;
    long_product(TP_F32, 131072);
    report("127", start);
}

Test(extents, f129_a_gather_beyond_2_31_bytes)
{
    double start = seconds();
    int64_t rows = 16385, columns = 131072;
    bool whole = big("129", 0.1); /* 2 GiB of pages that nobody touches */
    if (!whole) columns = 131;
    char *data = calloc((size_t)rows, (size_t)columns);
    cr_assert(data);
    memset(data + 16384 * columns, 5, (size_t)columns);
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *x = tp_wrap(g, TP_U8, TP_DIMS(rows, columns), NULL, 0, data,
                           (size_t)(rows * columns), NULL, NULL);
    for (int b = 0; b < 2; b++) {
        tp_graph_set_backend(g, b ? "ref" : tested_backend());
        tp_tensor *y =
            tp_index_select(x, 0, tp_from_data(g, TP_I64, TP_DIMS(2), (int64_t[]){16384, 0}));
        cr_assert_eq(tp_eval(y), TP_OK);
        const char *got = tp_data(y);
        for (int64_t i = 0; i < 2 * columns; i++)
            cr_assert_eq(got[i], i < columns ? 5 : 0, "element %ld", (long)i);
    }
    tp_graph_destroy(g);
    free(data);
    if (whole) report("129", start);
}
