/* All cores against one, the same graph; small work must not lose by it. */
#include "bench.h"

typedef tp_tensor *(*builder)(bench *b, tp_graph *g, const int64_t size[4]);
typedef struct work {
    builder build;
} work;

static tp_tensor *matmul(bench *b, tp_graph *g, const int64_t size[4])
{
    int64_t n = size[0];
    return tp_matmul(bench_leaf(g, TP_F32, TP_DIMS(n, n), bench_floats(b, 0, n * n, -1, 1)),
                     bench_leaf(g, TP_F32, TP_DIMS(n, n), bench_floats(b, 1, n * n, -1, 1)));
}

static tp_tensor *mul_add(bench *b, tp_graph *g, const int64_t size[4])
{
    tp_tensor *x[3];
    for (int i = 0; i < 3; i++)
        x[i] = bench_leaf(g, TP_F32, TP_DIMS(size[0]), bench_floats(b, i, size[0], -1, 1));
    return tp_add(tp_mul(x[0], x[1]), x[2]);
}

static tp_tensor *matrix(bench *b, tp_graph *g, const int64_t size[4])
{
    return bench_leaf(g, TP_F32, 2, size, bench_floats(b, 0, size[0] * size[1], -1, 1));
}

static tp_tensor *exponential(bench *b, tp_graph *g, const int64_t size[4])
{
    return tp_exp(matrix(b, g, size));
}

static tp_tensor *sum(bench *b, tp_graph *g, const int64_t size[4])
{
    return tp_sum(matrix(b, g, size), TP_ALL_AXES, false);
}

static tp_tensor *softmax(bench *b, tp_graph *g, const int64_t size[4])
{
    return tp_softmax(matrix(b, g, size), -1);
}

static tp_tensor *transposed(bench *b, tp_graph *g, const int64_t size[4])
{
    return tp_contiguous(tp_transpose(matrix(b, g, size), 0, 1));
}

static void against_one(bench *b, const bench_row *row)
{
    const work *w = row->with;
    if (!bench_has_cores(b)) return;
    tp_tensor *y = w->build(b, bench_graph(b), row->size),
              *z = w->build(b, bench_serial_graph(b), row->size);
    bench_compare(b, bench_eval(b, y), bench_eval(b, z));
}

#define WORK(name) static const work work_##name = {name}
WORK(matmul);
WORK(mul_add);
WORK(exponential);
WORK(sum);
WORK(softmax);
WORK(transposed);

#define SCALES(text, name, goal, ...)                                                              \
    BENCH_ENTRY("threads/" text, "all cores", "one thread", goal, against_one, &work_##name,       \
                BENCH_ALL_CORES, __VA_ARGS__)
/* Equal within what can be measured. */
#define SMALL(text, name, ...) SCALES("small/" text, name, 0.95, __VA_ARGS__)

/* clang-format off */
const bench_row bench_rows_threads[] = {
    SCALES("gemm/1024", matmul, 1.7, 1024),
    SCALES("a*b+c/10M", mul_add, 1.6, 10000000),
    SCALES("sum/10M", sum, 1.6, 1000, 10000),
    SCALES("transpose/4096x4096", transposed, 1.6, 4096, 4096),
    SCALES("softmax/8192x1024", softmax, 1.6, 8192, 1024),
    SMALL("a*b+c/1K", mul_add, 1000),
    SMALL("a*b+c/4K", mul_add, 4096),
    SMALL("a*b+c/16K", mul_add, 16384),
    SMALL("a*b+c/64K", mul_add, 65536),
    SMALL("exp/4K", exponential, 4, 1024),
    SMALL("exp/16K", exponential, 16, 1024),
    SMALL("sum/16K", sum, 16, 1024),
    SMALL("softmax/16x256", softmax, 16, 256),
    SMALL("transpose/64x64", transposed, 64, 64),
    SMALL("transpose/128x128", transposed, 128, 128),
    SMALL("gemm/16", matmul, 16),
    SMALL("gemm/32", matmul, 32),
    SMALL("gemm/64", matmul, 64),
    SMALL("gemm/96", matmul, 96),
    {0}};
/* clang-format on */
