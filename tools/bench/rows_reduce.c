/* Reductions against reading as many bytes; softmax and norms against one pass of copying. */
#include "bench.h"

typedef enum kind { SUM, MEAN, MAX, ARGMAX } kind;

/* size: shape[0], shape[1], axis (-1: all), dtype. */
static void against_read(bench *b, const bench_row *row)
{
    kind what = *(const kind *)row->with;
    int64_t n = row->size[0] * row->size[1], axis = row->size[2];
    tp_dtype dtype = (tp_dtype)row->size[3];
    int64_t bytes = n * (int64_t)tp_dtype_size(dtype);
    float *data = bench_floats(b, 0, n > bytes / 4 ? n : bytes / 4, -1, 1);
    tp_tensor *x = bench_leaf(bench_graph(b), TP_F32, 2, row->size, data);
    if (dtype != TP_F32) x = bench_given(b, tp_cast(x, dtype));
    int count = axis < 0 ? -1 : 1;
    const int64_t *axes = axis < 0 ? NULL : &axis;
    tp_tensor *y = what == SUM    ? tp_sum(x, count, axes, false)
                   : what == MEAN ? tp_mean(x, count, axes, false)
                   : what == MAX  ? tp_max(x, count, axes, false)
                                  : tp_argmax(x, count, axes, false);
    bench_loop_call loop = {.loop = b->plain->read_sum,
                            .n = bytes / 4,
                            .a = data,
                            .y = bench_bytes(b, 3, (size_t)b->threads * 64),
                            .size_a = 4,
                            .threads = b->threads};
    bench_compare(b, bench_eval(b, y), bench_run_loop(&loop));
}

typedef enum norm { SOFTMAX, LAYER_NORM, RMS_NORM, LOG_SOFTMAX } norm;

/* size: rows, columns. */
static void against_pass(bench *b, const bench_row *row)
{
    norm what = *(const norm *)row->with;
    int64_t n = row->size[0] * row->size[1];
    float *data = bench_floats(b, 0, n, -3, 3);
    tp_graph *g = bench_graph(b);
    tp_tensor *x = bench_leaf(g, TP_F32, 2, row->size, data), *y;
    tp_tensor *w =
        bench_leaf(g, TP_F32, TP_DIMS(row->size[1]), bench_floats(b, 1, row->size[1], 0.5F, 1.5F));
    if (what == SOFTMAX || what == LOG_SOFTMAX)
        y = what == SOFTMAX ? tp_softmax(x, -1) : tp_log_softmax(x, -1);
    else
        y = what == LAYER_NORM ? tp_layer_norm(x, 1, w, w, 1e-5) : tp_rms_norm(x, 1, w, 1e-5);
    bench_loop_call loop = {.loop = b->plain->pass,
                            .n = n,
                            .a = data,
                            .y = bench_bytes(b, 3, (size_t)n * 4),
                            .size_a = 4,
                            .size_y = 4,
                            .threads = b->threads};
    bench_compare(b, bench_eval(b, y), bench_run_loop(&loop));
}

static const kind sum = SUM, mean = MEAN, max = MAX, argmax = ARGMAX;
static const norm softmax = SOFTMAX, layer_norm = LAYER_NORM, rms_norm = RMS_NORM,
                  log_softmax = LOG_SOFTMAX;

#define INNER 2500, 4096, 1
#define OUTER 4096, 2500, 0
#define REDUCE(name, what, goal, ...)                                                              \
    BENCH_ENTRY("reduce/" name, #what, "reading as many bytes", goal, against_read, &what, 0,      \
                __VA_ARGS__)
#define PASS(name, what, goal, ...)                                                                \
    BENCH_ENTRY("rows/" name, #what, "copy, normal stores", goal, against_pass, &what, 0,          \
                __VA_ARGS__)

/* clang-format off */
const bench_row bench_rows_reduce[] = {
    REDUCE("sum/all-10M", sum, 0.9, 2500, 4096, -1, TP_F32),
    REDUCE("sum/inner-2500x4096", sum, 0.9, INNER, TP_F32),
    REDUCE("mean/inner-2500x4096", mean, 0.9, INNER, TP_F32),
    REDUCE("max/inner-2500x4096", max, 0.9, INNER, TP_F32),
    REDUCE("sum/inner-160000x64", sum, 0.9, 160000, 64, 1, TP_F32),
    REDUCE("max/inner-160000x64", max, 0.9, 160000, 64, 1, TP_F32),
    REDUCE("sum/outer-4096x2500", sum, 0.75, OUTER, TP_F32),
    REDUCE("mean/outer-4096x2500", mean, 0.75, OUTER, TP_F32),
    REDUCE("max/outer-4096x2500", max, 0.75, OUTER, TP_F32),
    REDUCE("argmax/all-10M", argmax, 0.7, 2500, 4096, -1, TP_F32),
    REDUCE("argmax/inner-2500x4096", argmax, 0.7, INNER, TP_F32),
    REDUCE("argmax/outer-4096x2500", argmax, 0.7, OUTER, TP_F32),
    REDUCE("sum-f64/inner-2500x4096", sum, 0.9, INNER, TP_F64),
    REDUCE("sum-f16/inner-2500x4096", sum, 0.75, INNER, TP_F16),
    REDUCE("sum-bf16/inner-2500x4096", sum, 0.75, INNER, TP_BF16),
    PASS("softmax/2048x4096", softmax, 0.5, 2048, 4096),
    PASS("softmax/8192x1024", softmax, 0.5, 8192, 1024),
    PASS("softmax/32768x256", softmax, 0, 32768, 256),
    PASS("softmax/131072x64", softmax, 0.35, 131072, 64),
    PASS("log_softmax/8192x1024", log_softmax, 0, 8192, 1024),
    PASS("layer_norm/8192x1024", layer_norm, 0.65, 8192, 1024),
    PASS("layer_norm/10922x768", layer_norm, 0.65, 10922, 768),
    PASS("rms_norm/8192x1024", rms_norm, 0, 8192, 1024),
    {0}};
/* clang-format on */
