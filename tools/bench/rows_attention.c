/* Attention: the layer as models write it, with and without passes; tp_attention against the same
 * with its scores in memory. */
#include "bench.h"

#include <math.h>

/* size: batch, sequence, width, heads. */
static tp_tensor *split(tp_tensor *x, const int64_t size[4])
{
    tp_tensor *t = tp_reshape(x, TP_DIMS(size[0], size[1], size[3], size[2] / size[3]));
    return tp_contiguous(tp_transpose(t, 1, 2));
}

static tp_tensor *layer(bench *b, tp_graph *g, const int64_t size[4])
{
    int64_t e = size[2];
    tp_tensor *w[4], *bias;
    tp_tensor *x = bench_leaf(g, TP_F32, 3, size, bench_floats(b, 0, size[0] * size[1] * e, -1, 1));
    for (int i = 0; i < 4; i++)
        w[i] = bench_leaf(g, TP_F32, TP_DIMS(e, e), bench_floats(b, 1 + i, e * e, -0.08F, 0.08F));
    bias = bench_leaf(g, TP_F32, TP_DIMS(e), bench_floats(b, 5, e, -0.1F, 0.1F));
    tp_tensor *q = split(tp_linear(x, w[0], bias), size),
              *k = split(tp_linear(x, w[1], bias), size),
              *v = split(tp_linear(x, w[2], bias), size);
    tp_tensor *scores = tp_matmul(q, tp_transpose(k, -1, -2));
    scores = tp_mul(scores, tp_num(scores, 1 / sqrt((double)(e / size[3]))));
    tp_tensor *merged = tp_contiguous(tp_transpose(tp_matmul(tp_softmax(scores, -1), v), 1, 2));
    return tp_linear(tp_reshape(merged, TP_DIMS(size[0], size[1], e)), w[3], bias);
}

static void against_passes_off(bench *b, const bench_row *row)
{
    tp_graph *off = bench_graph(b);
    if (off) tp_graph_set_pass(off, "all", false);
    tp_tensor *y = layer(b, bench_graph(b), row->size), *z = layer(b, off, row->size);
    bench_compare(b, bench_eval(b, y), bench_eval(b, z));
}

/* q, k, v as views of [S, heads, D], size: heads, S, D. */
static void heads(bench *b, tp_graph *g, const int64_t size[4], tp_tensor *x[3])
{
    for (int i = 0; i < 3; i++) {
        float *data = bench_floats(b, i, size[0] * size[1] * size[2], -1, 1);
        x[i] = bench_leaf(g, TP_F32, TP_DIMS(size[1], size[0], size[2]), data);
        x[i] = tp_transpose(x[i], 0, 1);
    }
}

/* The other is made to hold its scores: they are an output too. */
static void against_materialised(bench *b, const bench_row *row)
{
    tp_tensor *x[3], *z[3], *outputs[2];
    heads(b, bench_graph(b), row->size, x);
    heads(b, bench_graph(b), row->size, z);
    tp_tensor *y = tp_attention(x[0], x[1], x[2], NULL, 0, false);
    outputs[0] = tp_matmul(z[0], tp_transpose(z[1], -1, -2));
    tp_tensor *scaled = tp_mul(outputs[0], tp_num(outputs[0], 1 / sqrt((double)row->size[2])));
    outputs[1] = tp_matmul(tp_softmax(scaled, -1), z[2]);
    bench_call ours = bench_eval(b, y);
    bench_compare(b, ours, bench_eval_all(b, 2, outputs));
}

/* KiB beyond the inputs and the result, per thread: what a run asks the allocator for. */
static void scratch(bench *b, const bench_row *row)
{
    tp_tensor *x[3];
    heads(b, bench_unpooled_graph(b), row->size, x);
    bench_call run = bench_eval(b, tp_attention(x[0], x[1], x[2], NULL, 0, false));
    if (!run.run) return;
    size_t before = b->live_bytes,
           result = (size_t)(row->size[0] * row->size[1] * row->size[2]) * 4;
    b->peak_bytes = before;
    run.run(run.arg);
    bench_tell(b, (double)(b->peak_bytes - before - result) / 1024 / b->threads);
}

#define LAYER(name, flags)                                                                         \
    BENCH_ENTRY("attention/layer-2x512x512-8-heads" name, "passes on", "passes off", 1.0,          \
                against_passes_off, NULL, flags, 2, 512, 512, 8)
#define STREAM(name, goal, flags, ...)                                                             \
    BENCH_ENTRY("attention/" name, "tp_attention", "scores in memory", goal, against_materialised, \
                NULL, flags, __VA_ARGS__)

/* clang-format off */
const bench_row bench_rows_attention[] = {
    LAYER("", 0),
    LAYER("/all-cores", BENCH_ALL_CORES),
    STREAM("8-heads-512x64", 0.95, 0, 8, 512, 64),
    STREAM("8-heads-2048x64", 1.2, 0, 8, 2048, 64),
    STREAM("8-heads-2048x64/all-cores", 1.2, BENCH_ALL_CORES, 8, 2048, 64),
    STREAM("8-heads-2048x128", 0.95, BENCH_LONG, 8, 2048, 128),
    STREAM("8-heads-4096x64", 1.2, BENCH_LONG, 8, 4096, 64),
    BENCH_ENTRY("attention/scratch-8-heads-2048x64", "tp_attention", "KiB per thread", 1024,
                scratch, NULL, BENCH_AT_MOST, 8, 2048, 64),
    {0}};
/* clang-format on */
