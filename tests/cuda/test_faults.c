/* Faults reported against other engines' GPU backends, by the numbers of docs/cases.md. */
#include "tests/cuda/device.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

#define VALUES(...)                                                                                \
    (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[])                            \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void expect(const char *what, tp_tensor *y, int count, const double *values)
{
    cr_assert(y && tp_eval(y) == TP_OK, "%s: %s", what,
              y ? tp_graph_error(tp_graph_of(y))->text : "");
    cr_assert_eq(tp_numel(y), count, "%s", what);
    for (int i = 0; i < count; i++)
        cr_expect_eq(tp_item(y, i), values[i], "%s: element %d is %.9g, not %.9g", what, i,
                     tp_item(y, i), values[i]);
}

/* All elements of y, on the device and by the reference, as `make` builds it. */
static void same(const char *what, tp_tensor *(*make)(tp_graph *, int), int how, double allowed)
{
    tp_graph *g = cuda_graph(), *ref = tp_graph_create(NULL);
    tp_graph_set_backend(ref, "ref");
    tp_tensor *y = make(g, how), *z = make(ref, how);
    cr_assert(y && z && tp_eval(y) == TP_OK && tp_eval(z) == TP_OK, "%s %d: %s", what, how,
              tp_graph_error(g)->text);
    for (int64_t i = 0; i < tp_numel(y); i++) {
        double got = tp_item(y, i), want = tp_item(z, i);
        cr_assert(got == want || fabs(got - want) <= allowed || (isnan(got) && isnan(want)),
                  "%s %d: element %lld is %.9g, not %.9g", what, how, (long long)i, got, want);
    }
    tp_graph_destroy(g);
    tp_graph_destroy(ref);
}

static tp_tensor *ramp(tp_graph *g, tp_dtype dtype, int ndim, const int64_t *shape)
{
    int64_t n = 1;
    for (int d = 0; d < ndim; d++) n *= shape[d];
    tp_tensor *x = tp_reshape(tp_arange(g, dtype, 0, 1, n), ndim, shape);
    return tp_eval(x) == TP_OK ? x : NULL;
}

/* G1: a view without a dense dim as a GEMM operand. */
static tp_tensor *g01_make(tp_graph *g, int how)
{
    (void)how;
    tp_tensor *w = tp_permute(ramp(g, TP_F32, TP_DIMS(2, 3, 3)), TP_DIMS(2, 1, 0));
    tp_tensor *w1 =
        tp_select(tp_permute(w, TP_DIMS(1, 2, 0)), 1, 1); /* strides above 1 in both dims */
    return tp_matmul(w1, ramp(g, TP_F32, TP_DIMS(3, 10)));
}
Test(faults, g01_no_dense_dim)
{
    same("g01", g01_make, 0, 0);
}

/* G2: a column of a larger buffer is written, nothing else. */
static tp_tensor *g02_make(tp_graph *g, int how)
{
    (void)how;
    tp_tensor *buffer = ramp(g, TP_F32, TP_DIMS(16, 4));
    tp_tensor *row = ramp(g, TP_F32, TP_DIMS(1, 16));
    return tp_update(buffer, tp_slice(buffer, 1, 2, 3, 1), tp_neg(tp_transpose(row, 0, 1)));
}
Test(faults, g02_a_column_is_written)
{
    same("g02", g02_make, 0, 0);
}

/* G3: the batch stride of a size-1 dim. */
static tp_tensor *g03_make(tp_graph *g, int how)
{
    tp_tensor *a = tp_permute(ramp(g, TP_F32, TP_DIMS(3, 1, 4, 5)), TP_DIMS(0, 1, 2, 3));
    tp_tensor *b = tp_permute(ramp(g, TP_F32, TP_DIMS(3, 5, 1, 2)), TP_DIMS(0, 2, 1, 3));
    return tp_matmul(a, how ? tp_contiguous(b) : b);
}
Test(faults, g03_batch_stride_of_a_size_1_dim)
{
    same("g03", g03_make, 0, 0);
    same("g03", g03_make, 1, 0);
}

/* G4, G5: operands with gaps: converted, and with a scalar. */
static tp_tensor *g04_make(tp_graph *g, int how)
{
    tp_tensor *wide = tp_slice(ramp(g, TP_F32, TP_DIMS(6, 20)), 1, 0, 7, 1);
    if (how == 0) return tp_mul(wide, tp_num(wide, 3));
    if (how == 1) return tp_cast(wide, TP_F16);
    return tp_matmul(tp_cast(wide, TP_F16), tp_cast(ramp(g, TP_F32, TP_DIMS(7, 3)), TP_F16));
}
Test(faults, g04_g05_gaps)
{
    for (int how = 0; how < 3; how++) same("g04", g04_make, how, how == 2 ? 2 : 0);
}

/* G6: one left operand for 32 products. */
static tp_tensor *g06_make(tp_graph *g, int how)
{
    (void)how;
    tp_tensor *a = tp_expand(ramp(g, TP_F32, TP_DIMS(8, 8)), TP_DIMS(32, 8, 8));
    return tp_matmul(a, ramp(g, TP_F32, TP_DIMS(32, 8, 8)));
}
Test(faults, g06_one_left_operand)
{
    same("g06", g06_make, 0, 0);
}

/* G9, G10: addresses and pitches that do not allow vectors; the fake faults on a misaligned one. */
static tp_tensor *g09_make(tp_graph *g, int how)
{
    tp_dtype dtype = how % 2 ? TP_BF16 : TP_F32;
    int64_t shift = how / 2 % 4, pitch = how / 8 ? 1185 : 1188;
    tp_tensor *flat = tp_cast(ramp(g, TP_F32, TP_DIMS(3 * 1188 + 4)), dtype);
    tp_tensor *x = tp_as_strided(flat, TP_DIMS(3, 1024), (const int64_t[]){pitch, 1}, shift);
    return tp_mul(x, x);
}
Test(faults, g09_g10_misaligned)
{
    for (int how = 0; how < 16; how++) same("g09", g09_make, how, 0);
}

/* G14: odd row lengths of softmax; G15: a transposed operand. */
static tp_tensor *g14_make(tp_graph *g, int how)
{
    static const int64_t lengths[] = {513, 781, 1023, 1024, 1025, 4096, 4097, 8209, 65537};
    int64_t n = lengths[how % 9];
    tp_dtype dtype = how / 9 ? TP_F64 : TP_F32;
    tp_tensor *x = tp_mul(tp_sin(tp_arange(g, dtype, 0, 0.37, 2 * n)), tp_scalar(g, dtype, 5));
    return tp_softmax(tp_transpose(tp_reshape(x, TP_DIMS(n, 2)), 0, 1), 1);
}
Test(faults, g14_g15_rows_of_softmax, .timeout = 60)
{
    for (int how = 0; how < 18; how++) same("g14", g14_make, how, 1e-6);
}

/* G16: the leading dimension is a stride. */
static tp_tensor *g16_make(tp_graph *g, int how)
{
    (void)how;
    return tp_matmul(tp_slice(ramp(g, TP_F32, TP_DIMS(16, 32)), 1, 0, 16, 1),
                     ramp(g, TP_F32, TP_DIMS(16, 16)));
}
Test(faults, g16_leading_dimension)
{
    same("g16", g16_make, 0, 0);
}

/* G18: attention with heads that are repeated, 33 keys. */
static tp_tensor *g18_make(tp_graph *g, int how)
{
    int64_t keys = how ? 33 : 32;
    tp_tensor *q = tp_random_normal(g, TP_F32, TP_DIMS(2, 8, 17, 16), 1),
              *k = tp_random_normal(g, TP_F32, TP_DIMS(2, 2, keys, 16), 2),
              *v = tp_random_normal(g, TP_F32, TP_DIMS(2, 2, keys, 16), 3);
    return tp_attention(q, k, v, NULL, 0, false);
}
Test(faults, g18_repeated_heads)
{
    same("g18", g18_make, 0, 1e-5);
    same("g18", g18_make, 1, 1e-5);
}

/* F163: extents above 65535 in any dim. */
static tp_tensor *f163_make(tp_graph *g, int how)
{
    static const int64_t rows[] = {65535, 65536, 65537, 131073};
    int64_t n = rows[how % 4];
    tp_tensor *a =
        tp_cast(tp_remainder(tp_arange(g, TP_I32, 0, 1, n * 3), tp_scalar(g, TP_I32, 5)), TP_F32);
    if (how < 4) return tp_softmax(tp_reshape(a, TP_DIMS(1, 3, n, 1)), 1);
    if (how < 8) return tp_contiguous(tp_transpose(tp_reshape(a, TP_DIMS(n, 3)), 0, 1));
    if (how < 12)
        return tp_matmul(tp_reshape(a, TP_DIMS(n, 1, 3)), tp_full(g, TP_F32, TP_DIMS(3, 1), 1));
    return tp_sum(tp_reshape(a, TP_DIMS(3, n)), TP_DIMS(0), false);
}
Test(faults, f163_extents_above_65535, .timeout = 120)
{
    for (int how = 0; how < 16; how++) same("f163", f163_make, how, 1e-6);
}

/* F167: f32 products are f32. */
Test(faults, f167_no_silent_tf32)
{
    tp_graph *g = cuda_graph();
    float x = 1024.5F, z[2] = {0, 3.14F}, one[4] = {1, 0, 0, 1};
    tp_tensor *a = tp_from_data(g, TP_F32, TP_DIMS(1, 1), &x);
    expect("f167", tp_matmul(a, tp_full(g, TP_F32, TP_DIMS(1, 1), 1)), VALUES(1024.5));
    tp_tensor *row = tp_from_data(g, TP_F32, TP_DIMS(1, 2), z),
              *i = tp_from_data(g, TP_F32, TP_DIMS(2, 2), one);
    expect("f167", tp_matmul(tp_matmul(row, i), tp_transpose(row, 0, 1)),
           VALUES((double)(3.14F * 3.14F)));
    cr_expect(!strstr(fake_calls(), "compute=77"), "%s", fake_calls());
    tp_graph_destroy(g);
}

/* F171: a failure names its node, later ones the lost device; see runtime::* for the rest. */
Test(faults, f171_a_failure_names_its_node)
{
    tp_graph *g = cuda_graph();
    tp_tensor *y = tp_exp(ramp(g, TP_F32, TP_DIMS(100)));
    fake_fail("tp_fake_fail_launch", 1);
    cr_expect_eq(tp_eval(y), TP_E_DEVICE);
    cr_expect(strstr(tp_graph_error(g)->text, "exp: ") == tp_graph_error(g)->text, "%s",
              tp_graph_error(g)->text);
    tp_graph_destroy(g);
}

/* ---- Beyond 2^31 elements, in memory that is never touched
 * ---------------------------------------- */

enum { FAR = 1 << 30 };

/* [3] bytes that lie 2^30 + 1 apart: a reach above 2^31. */
static tp_tensor *far_apart(tp_graph *g, uint8_t *data, size_t bytes, bool backwards)
{
    int64_t step = FAR + 1;
    tp_tensor *x = tp_wrap(g, TP_U8, TP_DIMS(3), (const int64_t[]){backwards ? -step : step},
                           backwards ? 2 * step : 0, data, bytes, NULL, NULL);
    cr_assert(x, "%s", tp_graph_error(g)->text);
    return x;
}

Test(faults, g11_few_elements_with_a_reach_above_2_31, .timeout = 120)
{
    size_t bytes = 2 * ((size_t)FAR + 1) + 1;
    setenv("TP_FAKE_MEMORY", "6000", 1);
    uint8_t *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cr_assert(data != MAP_FAILED);
    for (size_t i = 0; i < 3; i++) data[i * ((size_t)FAR + 1)] = (uint8_t)(5 + i);
    tp_graph *g = cuda_graph();
    tp_tensor *x = far_apart(g, data, bytes, false);
    expect("copy", tp_add(x, x), VALUES(10, 12, 14));
    expect("sum", tp_sum(x, -1, NULL, false), VALUES(18));
    expect("sort", tp_sort(x, 0, true), VALUES(7, 6, 5));
    expect("cumsum", tp_cumsum(x, 0), VALUES(5, 11, 18));
    tp_tensor *last = tp_from_data(g, TP_I64, TP_DIMS(2), (const int64_t[]){2, 0});
    expect("gather", tp_index_select(x, 0, last), VALUES(7, 5));
    tp_tensor *row = tp_unsqueeze(x, 0);
    expect("product", tp_matmul(row, tp_unsqueeze(x, 1)), VALUES((25 + 36 + 49) & 255));
    expect("softmax", tp_argmax(tp_softmax(tp_cast(x, TP_F32), 0), -1, NULL, false), VALUES(2));
    tp_graph_destroy(g);
    munmap(data, bytes);
}

Test(faults, g11_backwards, .timeout = 120)
{
    size_t bytes = 2 * ((size_t)FAR + 1) + 1;
    setenv("TP_FAKE_MEMORY", "6000", 1);
    uint8_t *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cr_assert(data != MAP_FAILED);
    for (size_t i = 0; i < 3; i++) data[i * ((size_t)FAR + 1)] = (uint8_t)(5 + i);
    tp_graph *g = cuda_graph();
    tp_tensor *x = far_apart(g, data, bytes, true);
    expect("copy", tp_mul(x, x), VALUES(49, 36, 25));
    expect("max", tp_max(x, -1, NULL, false), VALUES(7));
    tp_graph_destroy(g);
    munmap(data, bytes);
}
