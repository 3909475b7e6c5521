/* Copies that reorder: against memcpy of as many bytes, and against the loop that everybody writes
 * first. */
#include "bench.h"

#include <string.h>

static void copy_bytes(int64_t n, const void *a, const void *b, const void *c, void *y)
{
    (void)b, (void)c;
    memcpy(y, a, (size_t)n);
}

static bench_loop_call memcpy_of(bench *b, int64_t bytes)
{
    return (bench_loop_call){.loop = copy_bytes,
                             .n = bytes,
                             .a = bench_bytes(b, 1, (size_t)bytes),
                             .y = bench_bytes(b, 3, (size_t)bytes),
                             .size_a = 1,
                             .size_y = 1,
                             .grain = 64,
                             .threads = b->threads};
}

/* with: the dtype. size: rows, columns. */
static void transpose_against_memcpy(bench *b, const bench_row *row)
{
    tp_dtype dtype = *(const tp_dtype *)row->with;
    int64_t bytes = row->size[0] * row->size[1] * (int64_t)tp_dtype_size(dtype);
    void *data = bench_bytes(b, 0, (size_t)bytes);
    tp_tensor *x = bench_leaf(bench_graph(b), dtype, 2, row->size, data);
    bench_loop_call copy = memcpy_of(b, bytes);
    bench_compare(b, bench_eval(b, tp_contiguous(tp_transpose(x, 0, 1))), bench_run_loop(&copy));
}

typedef struct naive {
    const bench_plain *plain;
    int64_t rows, columns;
    const float *x;
    float *y;
} naive;

static void run_naive(void *arg)
{
    const naive *n = arg;
    n->plain->transpose_naive(n->rows, n->columns, n->x, n->y);
}

static void transpose_against_naive(bench *b, const bench_row *row)
{
    int64_t n = row->size[0] * row->size[1];
    float *data = bench_floats(b, 0, n, -1, 1);
    tp_tensor *x = bench_leaf(bench_graph(b), TP_F32, 2, row->size, data);
    tp_tensor *y = tp_contiguous(tp_transpose(x, 0, 1));
    naive loop = {b->plain, row->size[0], row->size[1], data, bench_bytes(b, 3, (size_t)n * 4)};
    if (!loop.y) return;
    bench_compare(b, bench_eval(b, y), (bench_call){run_naive, &loop});
    bench_check(b, y, loop.y, n);
}

/* size: the shape of x; with: the order of its axes. f32. */
static void permute_against_memcpy(bench *b, const bench_row *row)
{
    int64_t bytes = 4;
    for (int d = 0; d < 4; d++) bytes *= row->size[d];
    float *data = bench_floats(b, 0, bytes / 4, -1, 1);
    tp_tensor *x = bench_leaf(bench_graph(b), TP_F32, 4, row->size, data);
    bench_loop_call copy = memcpy_of(b, bytes);
    bench_compare(b, bench_eval(b, tp_contiguous(tp_permute(x, 4, row->with))),
                  bench_run_loop(&copy));
}

static const tp_dtype f32 = TP_F32, f64 = TP_F64, f16 = TP_F16, u8 = TP_U8;
static const int64_t heads[] = {0, 2, 1, 3}, reversed[] = {3, 2, 1, 0}, last[] = {0, 3, 1, 2},
                     first[] = {0, 2, 3, 1};

#define TRANSPOSE(name, dtype, flags, ...)                                                         \
    BENCH_ENTRY("move/transpose/" name, "contiguous(transpose)", "memcpy", 0.45,                   \
                transpose_against_memcpy, &dtype, flags, __VA_ARGS__)
#define NAIVE(name, ...)                                                                           \
    BENCH_ENTRY("move/transpose/" name "/naive", "contiguous(transpose)", "naive loop", 6,         \
                transpose_against_naive, NULL, 0, __VA_ARGS__)
#define PERMUTE(name, axes, goal, ...)                                                             \
    BENCH_ENTRY("move/permute/" name, "contiguous(permute)", "memcpy", goal,                       \
                permute_against_memcpy, axes, 0, __VA_ARGS__)

/* clang-format off */
const bench_row bench_rows_move[] = {
    TRANSPOSE("f32/2048x2048", f32, 0, 2048, 2048),
    TRANSPOSE("f32/4096x4096", f32, 0, 4096, 4096),
    TRANSPOSE("f32/8192x4096", f32, BENCH_LONG, 8192, 4096),
    TRANSPOSE("f32/odd-4099x4093", f32, 0, 4099, 4093),
    TRANSPOSE("f64/2048x2048", f64, 0, 2048, 2048),
    TRANSPOSE("f16/4096x4096", f16, 0, 4096, 4096),
    TRANSPOSE("u8/4096x4096", u8, 0, 4096, 4096),
    NAIVE("f32/2048x2048", 2048, 2048),
    NAIVE("f32/4096x4096", 4096, 4096),
    PERMUTE("heads-32x512x8x64", heads, 0.85, 32, 512, 8, 64),
    PERMUTE("heads-32x512x16x32", heads, 0.85, 32, 512, 16, 32),
    PERMUTE("reversed-64x64x64x64", reversed, 0.45, 64, 64, 64, 64),
    PERMUTE("nhwc-nchw-16x128x128x64", last, 0.45, 16, 128, 128, 64),
    PERMUTE("nchw-nhwc-16x64x128x128", first, 0.45, 16, 64, 128, 128),
    {0}};
/* clang-format on */
