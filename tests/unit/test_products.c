/* Matrix products below the planner: our own of every dtype and with few rows, on operands of
 * every kind against plain loops; micro-kernels of every instruction set; which calls a batch
 * makes of a BLAS, and from which threads. Values are small integers, so every sum is exact and
 * results are compared to the bit. */
#include <criterion/criterion.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/blas.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/own_gemm.h"
#include "backends/cpu/skinny.h"
#include "tests/random.h"
#include "tests/unit/cpu_steps.h"
#include "tests/unit/cpu_tables.h"

/* ---- Operands of every kind ------------------------------------------------------------------ */

enum {
    DENSE,
    PADDED,
    TRANSPOSED,
    TRANSPOSED_PADDED,
    LOOSE,
    BACKWARDS,
    BACK_ROWS,
    WRITABLE, /* results are of the kinds above */
    ROWS_0 = WRITABLE,
    COLS_0,
    ALL_0,
    OVERLAPPING,
    KINDS
};

/* A matrix in memory of its own; rs, cs and first in elements. */
typedef struct matrix {
    tp_dtype dtype;
    int64_t rows, cols, rs, cs, first, count;
    char *data;
} matrix;

static matrix make_matrix(tp_dtype dtype, int64_t rows, int64_t cols, int kind)
{
    const int64_t strides[KINDS][2] = {
        {cols, 1},       {cols + 3, 1}, {1, rows}, {1, rows + 5}, {2 * cols + 1, 2},
        {-cols - 1, -1}, {-cols, 1},    {0, 1},    {1, 0},        {0, 0},
        {2, 1}};
    matrix m = {dtype, rows, cols, strides[kind][0], strides[kind][1], 16, 0, NULL};
    int64_t down = (rows - 1) * m.rs, right = (cols - 1) * m.cs;
    if (down < 0) m.first -= down;
    if (right < 0) m.first -= right;
    m.count = m.first + (down > 0 ? down : 0) + (right > 0 ? right : 0) + 17;
    m.data = malloc((size_t)m.count * tp_dtype_size(dtype));
    return m;
}

static char *element(const matrix *m, int64_t i, int64_t j)
{
    return m->data + (m->first + i * m->rs + j * m->cs) * (int64_t)tp_dtype_size(m->dtype);
}

static void fill(matrix *m, uint64_t *seed)
{
    int64_t size = (int64_t)tp_dtype_size(m->dtype);
    for (int64_t i = 0; i < m->count; i++) {
        double value = (double)random_in(seed, -3, 3);
        tp_convert(1, TP_F64, &value, 0, m->dtype, m->data + i * size, 0);
    }
}

/* What lies in memory before: every byte set, so floats are NaN. */
static void soil(matrix *m)
{
    memset(m->data, 0xFF, (size_t)m->count * tp_dtype_size(m->dtype));
}

static tp_product product_of(const matrix *a, const matrix *b, const matrix *c)
{
    int64_t size = (int64_t)tp_dtype_size(a->dtype);
    return (tp_product){.dtype = a->dtype,
                        .m = c->rows,
                        .n = c->cols,
                        .k = a->cols,
                        .a = element(a, 0, 0),
                        .b = element(b, 0, 0),
                        .c = element(c, 0, 0),
                        .am = a->rs * size,
                        .ak = a->cs * size,
                        .bk = b->rs * size,
                        .bn = b->cs * size,
                        .cm = c->rs * size,
                        .cn = c->cs * size};
}

/* The product by plain loops into memory like c's; integers wrap in 64 bits, which is enough. */
static matrix plain(const matrix *a, const matrix *b, const matrix *c)
{
    matrix want = *c;
    size_t bytes = (size_t)c->count * tp_dtype_size(c->dtype);
    want.data = malloc(bytes);
    soil(&want);
    bool floats = tp_dtype_kind_of(c->dtype) == TP_DTYPE_FLOAT;
    tp_dtype wide = floats ? TP_F64 : TP_I64;
    int64_t k = a->cols;
    char *line = malloc((size_t)(k * b->cols + k) * 8), *bs = line + k * 8;
    for (int64_t j = 0; j < b->cols; j++) {
        for (int64_t l = 0; l < k; l++)
            tp_convert(1, b->dtype, element(b, l, j), 0, wide, bs + (j * k + l) * 8, 0);
    }
    for (int64_t i = 0; i < c->rows; i++) {
        for (int64_t l = 0; l < k; l++)
            tp_convert(1, a->dtype, element(a, i, l), 0, wide, line + l * 8, 0);
        for (int64_t j = 0; j < c->cols; j++) {
            double sum = 0;
            int64_t whole = 0;
            for (int64_t l = 0; l < k; l++) {
                if (floats)
                    sum += ((double *)line)[l] * ((double *)bs)[j * k + l];
                else
                    whole += ((int64_t *)line)[l] * ((int64_t *)bs)[j * k + l];
            }
            tp_convert(1, wide, floats ? (void *)&sum : (void *)&whole, 0, c->dtype,
                       element(&want, i, j), 0);
        }
    }
    free(line);
    return want;
}

/* One product on 1, 2 and 3 threads: right, and nothing else touched. */
static void try_product(tp_dtype dtype, int64_t m, int64_t n, int64_t k, const int *kind,
                        uint64_t *seed)
{
    matrix a = make_matrix(dtype, m, k, kind[0]), b = make_matrix(dtype, k, n, kind[1]),
           c = make_matrix(dtype, m, n, kind[2]);
    fill(&a, seed), fill(&b, seed);
    matrix want = plain(&a, &b, &c);
    for (int threads = 1; threads <= 3; threads++) {
        soil(&c);
        tp_product p = product_of(&a, &b, &c);
        cr_assert_eq(tp_own_product(tp_context_default(), &p, threads), TP_OK);
        bool right = memcmp(c.data, want.data, (size_t)c.count * tp_dtype_size(dtype)) == 0;
        cr_assert(right, "%s %ld x %ld x %ld, kinds %d %d %d, %d threads", tp_dtype_name(dtype),
                  (long)m, (long)n, (long)k, kind[0], kind[1], kind[2], threads);
    }
    free(a.data), free(b.data), free(c.data), free(want.data);
}

/* ---- Our own products ------------------------------------------------------------------------ */

Test(products, own_product_of_every_dtype_and_layout)
{
    static const tp_dtype dtypes[] = {TP_F32, TP_F64, TP_F16, TP_BF16, TP_I8,
                                      TP_U16, TP_I32, TP_U32, TP_I64};
    uint64_t seed = 4;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        for (int i = 0; i < (long_tests() ? 2000 : 150); i++) {
            int kind[3] = {(int)random_in(&seed, 0, KINDS - 1), (int)random_in(&seed, 0, KINDS - 1),
                           (int)random_in(&seed, 0, WRITABLE - 1)};
            try_product(dtypes[d], random_in(&seed, 1, 70), random_in(&seed, 1, 70),
                        random_in(&seed, 0, i % 10 ? 40 : 600), kind, &seed);
        }
    }
}

Test(products, own_product_larger_than_a_block)
{
    uint64_t seed = 5;
    try_product(TP_F32, 2100, 9, 20, (int[]){DENSE, DENSE, DENSE}, &seed);
    try_product(TP_F16, 2070, 40, 9, (int[]){TRANSPOSED, DENSE, DENSE}, &seed);
    try_product(TP_F64, 20, 2100, 300, (int[]){LOOSE, BACKWARDS, LOOSE}, &seed);
    try_product(TP_I32, 300, 200, 513, (int[]){DENSE, TRANSPOSED, TRANSPOSED}, &seed);
}

Test(products, few_rows_or_columns_of_every_layout)
{
    uint64_t seed = 6;
    long taken = 0;
    for (int i = 0; i < (long_tests() ? 4000 : 600); i++) {
        tp_dtype dtype = i % 2 ? TP_F32 : TP_F64;
        int kind[3] = {(int)random_in(&seed, 0, KINDS - 1), (int)random_in(&seed, 0, KINDS - 1),
                       (int)random_in(&seed, 0, WRITABLE - 1)};
        int64_t few = random_in(&seed, 1, 8), many = random_in(&seed, 60, 300),
                k = random_in(&seed, 60, 300), m = i % 4 < 2 ? few : many,
                n = i % 4 < 2 ? many : few;
        int64_t size = (int64_t)tp_dtype_size(dtype);
        matrix a = make_matrix(dtype, m, k, kind[0]), b = make_matrix(dtype, k, n, kind[1]),
               c = make_matrix(dtype, m, n, kind[2]);
        tp_product p = product_of(&a, &b, &c);
        int64_t unit = m <= 8 ? b.rs == 1 || b.cs == 1 : a.rs == 1 || a.cs == 1;
        cr_assert(!unit || many * k < 4096 || tp_skinny_takes(&p), "%ld", (long)size);
        taken += tp_skinny_takes(&p);
        free(a.data), free(b.data), free(c.data);
        try_product(dtype, m, n, k, kind, &seed);
    }
    cr_expect_gt(taken, 200);
}

/* A wide product in strips of the cache's size and slabs of rows. */
Test(products, few_rows_and_many_columns)
{
    uint64_t seed = 7;
    for (int rows = 1; rows <= 8; rows++) {
        try_product(TP_F32, rows, 5003, 35, (int[]){DENSE, DENSE, DENSE}, &seed);
        try_product(TP_F64, rows, 2501, 33, (int[]){TRANSPOSED, PADDED, LOOSE}, &seed);
        try_product(TP_F32, rows, 1003, 129, (int[]){DENSE, TRANSPOSED, BACKWARDS}, &seed);
        try_product(TP_F64, 2501, rows, 33, (int[]){DENSE, LOOSE, DENSE}, &seed);
    }
}

/* Random fractions: the bits do not depend on the number of threads. */
static void expect_same_bits(int64_t m, int64_t n, int64_t k, int kind)
{
    uint64_t seed = 8;
    matrix a = make_matrix(TP_F32, m, k, DENSE), b = make_matrix(TP_F32, k, n, kind),
           c = make_matrix(TP_F32, m, n, DENSE), first = make_matrix(TP_F32, m, n, DENSE);
    for (int64_t i = 0; i < a.count; i++)
        ((float *)a.data)[i] = (float)random_in(&seed, -9999, 9999) / 777.0F;
    for (int64_t i = 0; i < b.count; i++)
        ((float *)b.data)[i] = (float)random_in(&seed, -9999, 9999) / 777.0F;
    soil(&first);
    tp_product p = product_of(&a, &b, &first);
    cr_assert_eq(tp_own_product(tp_context_default(), &p, 1), TP_OK);
    for (int threads = 2; threads <= 5; threads++) {
        soil(&c);
        p = product_of(&a, &b, &c);
        cr_assert_eq(tp_own_product(tp_context_default(), &p, threads), TP_OK);
        cr_expect(memcmp(c.data, first.data, (size_t)c.count * 4) == 0, "%ld x %ld, %d threads",
                  (long)m, (long)n, threads);
    }
    free(a.data), free(b.data), free(c.data), free(first.data);
}

Test(products, threads_change_no_bit)
{
    expect_same_bits(301, 203, 700, DENSE);
    expect_same_bits(130, 500, 300, TRANSPOSED);
    expect_same_bits(5, 3001, 500, DENSE);
    expect_same_bits(7, 1001, 500, TRANSPOSED);
    expect_same_bits(1003, 3, 500, DENSE);
}

/* NaN and infinities are multiplied, not skipped. */
Test(products, zero_times_infinity_is_nan)
{
    for (int64_t m = 1; m <= 41; m += 20) {
        matrix a = make_matrix(TP_F32, m, 100, DENSE), b = make_matrix(TP_F32, 100, 90, DENSE),
               c = make_matrix(TP_F32, m, 90, DENSE);
        memset(a.data, 0, (size_t)a.count * 4);
        memset(b.data, 0, (size_t)b.count * 4);
        *(float *)element(&b, 50, 33) = INFINITY;
        *(float *)element(&b, 99, 89) = NAN;
        soil(&c);
        tp_product p = product_of(&a, &b, &c);
        cr_assert_eq(tp_own_product(tp_context_default(), &p, 2), TP_OK);
        for (int64_t i = 0; i < m; i++) {
            for (int64_t j = 0; j < 90; j++) {
                float x = *(float *)element(&c, i, j);
                cr_assert(j == 33 || j == 89 ? isnan(x) : x == 0, "row %ld of %ld, column %ld: %g",
                          (long)i, (long)m, (long)j, (double)x);
            }
        }
        free(a.data), free(b.data), free(c.data);
    }
}

/* ---- Micro-kernels of every instruction set -------------------------------------------------- */

#define NUMBERS 40000
static float f32s[2][NUMBERS];
static double f64s[2][NUMBERS];

static double number(int which, tp_dtype dtype, int64_t i)
{
    return dtype == TP_F32 ? (double)f32s[which][i] : f64s[which][i];
}

static double at(const void *x, tp_dtype dtype, int64_t i)
{
    return dtype == TP_F32 ? (double)((const float *)x)[i] : ((const double *)x)[i];
}

static void try_kernels(const tp_gemm_kernel *kernel, tp_dtype dtype, int64_t k, bool add)
{
    const void *a = dtype == TP_F32 ? (void *)f32s[0] : f64s[0],
               *b = dtype == TP_F32 ? (void *)f32s[1] : f64s[1];
    static double c[16 * 70], before[16 * 70];
    int64_t ldc = 66;
    memset(c, 0, sizeof c);
    if (!add) memset(c, 0xFF, sizeof c);
    memcpy(before, c, sizeof c);
    kernel->run(k, a, b, c, ldc, add);
    for (int r = 0; r < kernel->rows; r++) {
        for (int j = 0; j < kernel->cols; j++) {
            double sum = 0;
            for (int64_t i = 0; i < k; i++)
                sum += number(0, dtype, r * TP_GEMM_PITCH + i) *
                       number(1, dtype, i * kernel->cols + j);
            cr_assert_eq(at(c, dtype, r * ldc + j), sum, "tile %d %d", r, j);
        }
    }
    int64_t width = TP_WIDE_BYTES / (int64_t)tp_dtype_size(dtype), ldb = 70;
    for (int rows = 1; rows <= TP_SKINNY_GROUP; rows++) {
        for (int64_t n = width; n <= 64; n += width) {
            memcpy(c, before, sizeof c);
            kernel->wide(rows, n, k, a, 301, b, ldb, c, ldc, add);
            for (int64_t e = 0; e < rows * n; e++) {
                double sum = 0;
                for (int64_t i = 0; i < k; i++)
                    sum += number(0, dtype, e / n * 301 + i) * number(1, dtype, i * ldb + e % n);
                cr_assert_eq(at(c, dtype, e / n * ldc + e % n), sum, "wide %d %ld", rows, (long)e);
            }
        }
        for (int64_t n = 1; n <= 19; n++) {
            memcpy(c, before, sizeof c);
            kernel->dots(rows, n, k, a, 301, b, 303, c, ldc);
            for (int64_t e = 0; e < rows * n; e++) {
                double sum = 0;
                for (int64_t i = 0; i < k; i++)
                    sum += number(0, dtype, e / n * 301 + i) * number(1, dtype, e % n * 303 + i);
                cr_assert_eq(at(c, dtype, e / n * ldc + e % n), sum, "dots %d %ld", rows, (long)e);
            }
        }
    }
}

Test(products, micro_kernels_of_every_instruction_set)
{
    uint64_t seed = 9;
    for (int i = 0; i < 2 * NUMBERS; i++)
        f32s[i / NUMBERS][i % NUMBERS] =
            (float)(f64s[i / NUMBERS][i % NUMBERS] = (double)random_in(&seed, -3, 3));
    for (int isa = 0; isa < cpu_tables(); isa++) {
        static const int64_t depths[] = {1, 2, 15, 16, 17, 100, 256};
        for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
            for (int add = 0; add < 2; add++) {
                try_kernels(&cpu_table(isa)->gemm[TP_F32], TP_F32, depths[i], add);
                try_kernels(&cpu_table(isa)->gemm[TP_F64], TP_F64, depths[i], add);
            }
        }
    }
}

/* ---- Which calls a batch makes of a BLAS ------------------------------------------------------
 */

static int calls, in_regions, at_once, most_at_once, threads_set;
static int64_t rows_done;

static void fake_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                       int lda, const float *b, int ldb, float beta, float *c, int ldc)
{
    cr_assert(order == TP_BLAS_ROW_MAJOR && alpha == 1 && beta == 0);
    int now = __atomic_add_fetch(&at_once, 1, __ATOMIC_SEQ_CST);
    if (now > most_at_once) most_at_once = now;
    __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&in_regions, omp_in_parallel(), __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&rows_done, m, __ATOMIC_SEQ_CST);
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int l = 0; l < k; l++)
                sum += (ta == TP_BLAS_TRANS ? a[l * lda + i] : a[i * lda + l]) *
                       (tb == TP_BLAS_TRANS ? b[j * ldb + l] : b[l * ldb + j]);
            c[i * ldc + j] = sum;
        }
    }
    __atomic_sub_fetch(&at_once, 1, __ATOMIC_SEQ_CST);
}

static void fake_set_threads(int threads)
{
    threads_set = threads;
    omp_set_num_threads(threads);
}

/* A batch of products on a fake BLAS; the result is checked too. */
static void batch(tp_blas blas, int64_t count, int64_t m, int64_t n, int64_t k, int threads)
{
    blas.sgemm = fake_sgemm;
    const tp_blas *before = tp_blas_override(&blas);
    calls = in_regions = at_once = most_at_once = threads_set = 0;
    rows_done = 0;
    float *a = malloc((size_t)(count * m * k) * 4), *b = malloc((size_t)(count * k * n) * 4),
          *c = malloc((size_t)(count * m * n) * 4);
    uint64_t seed = 10;
    for (int64_t i = 0; i < count * m * k; i++) a[i] = (float)random_in(&seed, -3, 3);
    for (int64_t i = 0; i < count * k * n; i++) b[i] = (float)random_in(&seed, -3, 3);
    memset(c, 0xFF, (size_t)(count * m * n) * 4);
    made step;
    make(&step, TP_STEP_MATMUL, SIZES(count, m, n));
    make_out(&step, c, TP_F32, SIZES(count, m, n), NULL);
    step.buffer[1] = (char *)a, step.buffer[2] = (char *)b;
    step.operand[0] = make_operand(1, TP_F32, SIZES(count, m, k), NULL);
    step.operand[1] = make_operand(2, TP_F32, SIZES(count, k, n), NULL);
    step.step.operand_count = 2;
    int setting = omp_get_max_threads();
    cr_assert_eq(run_made(&step, threads, NULL), TP_OK);
    cr_expect_eq(omp_get_max_threads(), setting, "the program's number of threads");
    for (int64_t i = 0; i < count * m * n; i++) {
        float sum = 0;
        for (int64_t l = 0; l < k; l++)
            sum += a[i / n * k + l] * b[(i / n / m * k + l) * n + i % n];
        cr_assert_eq(c[i], sum, "element %ld", (long)i);
    }
    free(a), free(b), free(c);
    tp_blas_override(before);
}

Test(products, batches_are_shared_out_or_run_on_all_threads)
{
    tp_blas openmp = {.shares_openmp = true, .set_threads = fake_set_threads}, own_threads = {0},
            serial = {.not_reentrant = true};
    batch(openmp, 8, 70, 70, 70, 4);
    cr_expect(calls == 8 && in_regions == 8, "8 on 4: %d calls, %d inside", calls, in_regions);
    batch(openmp, 2, 70, 70, 70, 4);
    cr_expect(calls == 2 && in_regions == 0 && threads_set == 4, "2 on 4: %d calls, %d inside",
              calls, in_regions);
    batch(openmp, 5, 260, 256, 256, 4);
    cr_expect(calls == 5 && in_regions == 0, "5 large ones on 4: %d inside", in_regions);
    batch(openmp, 3, 70, 70, 70, 1);
    cr_expect(calls == 3 && in_regions == 0 && threads_set == 1, "one thread");
    batch(own_threads, 1, 90, 70, 70, 4);
    cr_expect(calls == 4 && in_regions == 4 && rows_done == 90, "cut: %d calls, %d inside", calls,
              in_regions);
    batch(own_threads, 8, 70, 70, 70, 4);
    cr_expect(calls == 8 && in_regions == 8, "8 on 4, own threads");
    batch(serial, 8, 70, 70, 70, 4);
    cr_expect(calls == 8 && most_at_once == 1, "not reentrant: %d at once", most_at_once);
    batch(serial, 1, 90, 70, 70, 4);
    cr_expect(calls == 1 && most_at_once == 1, "not reentrant, one product");
}

Test(products, few_rows_do_not_go_to_the_blas)
{
    tp_blas openmp = {.shares_openmp = true, .set_threads = fake_set_threads};
    batch(openmp, 1, 1, 700, 600, 2);
    cr_expect_eq(calls, 0, "one row");
    batch(openmp, 1, 700, 8, 600, 3);
    cr_expect_eq(calls, 0, "8 columns");
    batch(openmp, 6, 4, 500, 300, 3);
    cr_expect_eq(calls, 0, "a batch of 4 rows");
    batch(openmp, 2, 4, 500, 300, 3);
    cr_expect_eq(calls, 0, "fewer of them than threads");
    batch(openmp, 1, 9, 500, 300, 3);
    cr_expect_eq(calls, 1, "9 rows");
    batch(openmp, 1, 4, 20, 20, 3);
    cr_expect_eq(calls, 1, "a tiny one");
    batch(openmp, 1, 1, 128, 128, 3);
    cr_expect_eq(calls, 0, "a small one");
    openmp.small_products = true;
    batch(openmp, 1, 1, 128, 128, 3);
    cr_expect_eq(calls, 1, "a small one, and a BLAS with kernels for them");
    batch(openmp, 1, 8, 512, 512, 3);
    cr_expect_eq(calls, 0, "a large one");
}
