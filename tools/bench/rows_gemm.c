/* Products: against CBLAS called directly, and with operands that lie otherwise than BLAS likes
 * best against operands that lie well. */
#include "bench.h"

/* How a matrix of rows x columns lies in its leaf. */
typedef enum lie {
    PLAIN,      /* row-major */
    TRANSPOSED, /* column-major */
    WIDE,       /* in the left half of rows twice as long */
    ODD         /* every other element of such rows: no BLAS reads that */
} lie;

typedef struct product {
    tp_dtype dtype;
    lie a, b;
} product;

static tp_tensor *operand(bench *b, tp_graph *g, int slot, tp_dtype dtype, int64_t rows,
                          int64_t columns, lie how)
{
    int64_t wide = how == WIDE || how == ODD ? 2 * columns : columns;
    int64_t shape[2] = {how == TRANSPOSED ? columns : rows, how == TRANSPOSED ? rows : wide};
    float *data = bench_floats(b, slot, shape[0] * shape[1], -1, 1);
    tp_tensor *x = bench_leaf(g, TP_F32, 2, shape, data);
    if (dtype != TP_F32) x = bench_given(b, tp_cast(x, dtype));
    if (how == TRANSPOSED) return tp_transpose(x, 0, 1);
    if (how == WIDE) return tp_slice(x, 1, 0, columns, 1);
    return how == ODD ? tp_slice(x, 1, 0, TP_END, 2) : x;
}

/* A product of ours; operands in slots 0 and 1. copies: as a graph does that gathers its operands
 * first. */
static bench_call ours(bench *b, const product *p, const int64_t size[3], bool copies,
                       tp_tensor **y)
{
    tp_graph *g = bench_graph(b);
    if (g && copies) tp_graph_set_pass(g, "drop_copies", false);
    tp_tensor *x = operand(b, g, 0, p->dtype, size[0], size[2], p->a),
              *w = operand(b, g, 1, p->dtype, size[2], size[1], p->b);
    if (copies) {
        x = tp_contiguous(x);
        w = tp_contiguous(w);
    }
    *y = tp_matmul(x, w);
    return bench_eval(b, *y);
}

static bool has_blas(bench *b)
{
    if (!b->blas) bench_end(b, BENCH_LACKING, "no CBLAS was found");
    return b->blas != NULL;
}

/* The same product by a direct call, dense, f32 (f64 for f64). Operands in slots 2 and 3. */
static bench_gemm_call direct(bench *b, const product *p, const int64_t size[3])
{
    bool f64 = p->dtype == TP_F64;
    int64_t ka = size[0] * size[2], kb = size[2] * size[1], kc = size[0] * size[1];
    bench_gemm_call call = {.blas = b->blas,
                            .f64 = f64,
                            .m = size[0],
                            .n = size[1],
                            .k = size[2],
                            .a = bench_floats(b, 2, ka << f64, -1, 1),
                            .b = bench_floats(b, 3, kb << f64, -1, 1),
                            .c = bench_bytes(b, 4, (size_t)kc * 8),
                            .threads = b->threads};
    double *wide[2] = {(double *)(uintptr_t)call.a, (double *)(uintptr_t)call.b};
    int64_t count[2] = {ka, kb};
    for (int i = 0; f64 && i < 2; i++) {
        for (int64_t e = 0; wide[i] && e < count[i]; e++) wide[i][e] = (double)(e % 17) / 16 - 0.5;
    }
    return call;
}

static void against_cblas(bench *b, const bench_row *row)
{
    const product *p = row->with;
    tp_tensor *y;
    if (!has_blas(b)) return;
    bench_gemm_call call = direct(b, p, row->size);
    if (!call.c) return;
    bench_compare(b, ours(b, p, row->size, false, &y), (bench_call){bench_gemm, &call});
    /* With the same numbers in both. */
    if (p->dtype == TP_F32 && p->a == PLAIN && p->b == PLAIN) {
        call.a = bench_floats(b, 0, row->size[0] * row->size[2], -1, 1);
        call.b = bench_floats(b, 1, row->size[2] * row->size[1], -1, 1);
        bench_gemm(&call);
        bench_check(b, y, call.c, row->size[0] * row->size[1]);
    }
}

static void against_contiguous(bench *b, const bench_row *row)
{
    const product *p = row->with, plain = {p->dtype, PLAIN, PLAIN};
    tp_tensor *y;
    bench_call first = ours(b, p, row->size, false, &y);
    /* Both read the same slots, each as far as it needs; the numbers do not matter. */
    bench_compare(b, first, ours(b, &plain, row->size, false, &y));
}

static void against_copies(bench *b, const bench_row *row)
{
    tp_tensor *y;
    bench_call first = ours(b, row->with, row->size, false, &y);
    bench_compare(b, first, ours(b, row->with, row->size, true, &y));
}

static void against_f32(bench *b, const bench_row *row)
{
    const product *p = row->with, f32 = {TP_F32, PLAIN, PLAIN};
    tp_tensor *y;
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
    bool amx = __builtin_cpu_supports("amx-bf16");
#else
    bool amx = false;
#endif
    if (!amx) {
        bench_end(b, BENCH_NOT_HERE, "this CPU has no AMX");
        return;
    }
    bench_call first = ours(b, p, row->size, false, &y);
    bench_compare(b, first, ours(b, &f32, row->size, false, &y));
}

/* ---- Batches ------------------------------------------------------------------------------- */

/* size: batch, m, n, k; dense. */
static void batch_against_calls(bench *b, const bench_row *row)
{
    int64_t count = row->size[0], m = row->size[1], n = row->size[2], k = row->size[3];
    if (!has_blas(b) || !bench_has_cores(b)) return;
    tp_graph *g = bench_graph(b);
    float *x = bench_floats(b, 0, count * m * k, -1, 1),
          *w = bench_floats(b, 1, count * k * n, -1, 1);
    tp_tensor *y = tp_matmul(bench_leaf(g, TP_F32, TP_DIMS(count, m, k), x),
                             bench_leaf(g, TP_F32, TP_DIMS(count, k, n), w));
    bench_gemm_call call = {.blas = b->blas,
                            .m = m,
                            .n = n,
                            .k = k,
                            .a = x,
                            .b = w,
                            .c = bench_bytes(b, 4, (size_t)(count * m * n) * 4),
                            .count = count,
                            .step_a = m * k,
                            .step_b = k * n,
                            .step_c = m * n,
                            .threads = b->threads};
    bench_compare(b, bench_eval(b, y), (bench_call){bench_gemm, &call});
    bench_check(b, y, call.c, count * m * n);
}

/* Q K' with heads side by side in memory, [S, heads, D], size: heads, S, D. */
static tp_tensor *scores(bench *b, tp_graph *g, const int64_t size[3], bool contiguous)
{
    tp_tensor *x[2];
    for (int i = 0; i < 2; i++) {
        float *data = bench_floats(b, i, size[0] * size[1] * size[2], -1, 1);
        x[i] = contiguous
                   ? bench_leaf(g, TP_F32, TP_DIMS(size[0], size[1], size[2]), data)
                   : tp_transpose(bench_leaf(g, TP_F32, TP_DIMS(size[1], size[0], size[2]), data),
                                  0, 1);
    }
    return tp_matmul(x[0], tp_transpose(x[1], 1, 2));
}

static void heads_against_contiguous(bench *b, const bench_row *row)
{
    tp_graph *g = bench_graph(b);
    bench_call first = bench_eval(b, scores(b, g, row->size, false));
    bench_compare(b, first, bench_eval(b, scores(b, g, row->size, true)));
}

static void heads_against_copies(bench *b, const bench_row *row)
{
    tp_graph *g = bench_graph(b), *copies = bench_graph(b);
    tp_tensor *x[2];
    bench_call first = bench_eval(b, scores(b, g, row->size, false));
    if (copies) tp_graph_set_pass(copies, "drop_copies", false);
    for (int i = 0; i < 2; i++) {
        float *data = bench_floats(b, i, row->size[0] * row->size[1] * row->size[2], -1, 1);
        x[i] = bench_leaf(copies, TP_F32, TP_DIMS(row->size[1], row->size[0], row->size[2]), data);
        x[i] = tp_contiguous(tp_transpose(x[i], 0, 1));
    }
    bench_compare(b, first, bench_eval(b, tp_matmul(x[0], tp_transpose(x[1], 1, 2))));
}

/* Heads against one call each, all threads in every call. */
static void heads_against_calls(bench *b, const bench_row *row)
{
    int64_t heads = row->size[0], s = row->size[1], d = row->size[2];
    if (!has_blas(b) || !bench_has_cores(b)) return;
    tp_tensor *y = scores(b, bench_graph(b), row->size, false);
    bench_gemm_call call = {.blas = b->blas,
                            .trans_b = true,
                            .m = s,
                            .n = s,
                            .k = d,
                            .lda = heads * d,
                            .ldb = heads * d,
                            .a = bench_floats(b, 0, heads * s * d, -1, 1),
                            .b = bench_floats(b, 1, heads * s * d, -1, 1),
                            .c = bench_bytes(b, 4, (size_t)(heads * s * s) * 4),
                            .count = heads,
                            .step_a = d,
                            .step_b = d,
                            .step_c = s * s,
                            .threads = b->threads};
    bench_compare(b, bench_eval(b, y), (bench_call){bench_gemm, &call});
    bench_check(b, y, call.c, heads * s * s);
}

static const product f32 = {TP_F32, PLAIN, PLAIN}, f64 = {TP_F64, PLAIN, PLAIN},
                     f16 = {TP_F16, PLAIN, PLAIN}, bf16 = {TP_BF16, PLAIN, PLAIN},
                     nt = {TP_F32, PLAIN, TRANSPOSED}, tn = {TP_F32, TRANSPOSED, PLAIN},
                     tt = {TP_F32, TRANSPOSED, TRANSPOSED}, wide = {TP_F32, WIDE, WIDE},
                     odd = {TP_F32, ODD, ODD}, odd64 = {TP_F64, ODD, ODD};

#define CUBE(n) n, n, n
#define CBLAS(name, p, goal, flags, ...)                                                           \
    BENCH_ENTRY("gemm/" name, "tp_matmul", "cblas", goal, against_cblas, &p, flags, __VA_ARGS__)
#define LAID(name, p, ...)                                                                         \
    BENCH_ENTRY("gemm/laid-out/" name, "tp_matmul", "contiguous operands", 0.90,                   \
                against_contiguous, &p, 0, __VA_ARGS__),                                           \
        BENCH_ENTRY("gemm/laid-out/" name "/copies", "tp_matmul", "copies, then GEMM", 0.90,       \
                    against_copies, &p, 0, __VA_ARGS__)
#define BATCH(name, measure, ...)                                                                  \
    BENCH_ENTRY("gemm/batch/" name, "one matmul", "a threaded call each", 1.3, measure, NULL,      \
                BENCH_ALL_CORES, __VA_ARGS__)
#define HEADS(name, against, measure, ...)                                                         \
    BENCH_ENTRY("gemm/laid-out/" name, "tp_matmul", against, 0.90, measure, NULL, 0, __VA_ARGS__)

/* clang-format off */
const bench_row bench_rows_gemm[] = {
    CBLAS("f32/512", f32, 0.97, 0, CUBE(512)),
    CBLAS("f32/1024", f32, 0.97, 0, CUBE(1024)),
    CBLAS("f32/2048", f32, 0.97, BENCH_LONG, CUBE(2048)),
    CBLAS("f32/odd-509x503x511", f32, 0.97, 0, 509, 503, 511),
    CBLAS("f64/512", f64, 0.97, 0, CUBE(512)),
    CBLAS("f64/1024", f64, 0.97, BENCH_LONG, CUBE(1024)),
    CBLAS("f32/1024/all-cores", f32, 0.97, BENCH_ALL_CORES, CUBE(1024)),
    CBLAS("f64/1024/all-cores", f64, 0.97, BENCH_ALL_CORES, CUBE(1024)),
    LAID("nt/1024", nt, CUBE(1024)),
    LAID("tn/1024", tn, CUBE(1024)),
    LAID("tt/1024", tt, CUBE(1024)),
    LAID("wide-rows/1024", wide, CUBE(1024)),
    LAID("odd-strides/1024", odd, CUBE(1024)),
    HEADS("heads-16x512x64", "contiguous operands", heads_against_contiguous, 16, 512, 64),
    HEADS("heads-16x512x64/copies", "copies, then GEMM", heads_against_copies, 16, 512, 64),
    BATCH("16x256", batch_against_calls, 256, 16, 16, 16),
    BATCH("32x256", batch_against_calls, 256, 32, 32, 32),
    BATCH("64x128", batch_against_calls, 128, 64, 64, 64),
    BATCH("128x32", batch_against_calls, 32, 128, 128, 128),
    BATCH("256x8", batch_against_calls, 8, 256, 256, 256),
    BATCH("heads-16x512x64", heads_against_calls, 16, 512, 64),
    CBLAS("skinny/m=1/2048", f32, 2.5, 0, 1, 2048, 2048),
    CBLAS("skinny/m=1-nt/2048", nt, 2.5, 0, 1, 2048, 2048),
    CBLAS("skinny/n=1/2048", f32, 2.5, 0, 2048, 1, 2048),
    CBLAS("skinny/m=4/2048", f32, 1.7, 0, 4, 2048, 2048),
    CBLAS("skinny/m=8/2048", f32, 1.7, 0, 8, 2048, 2048),
    CBLAS("skinny/m=8-nt/2048", nt, 1.7, 0, 8, 2048, 2048),
    CBLAS("own/odd-strides/512", odd, 0.80, 0, CUBE(512)),
    CBLAS("own/odd-strides/1024", odd, 0.80, 0, CUBE(1024)),
    CBLAS("own/odd-strides-f64/512", odd64, 0.80, 0, CUBE(512)),
    CBLAS("own/f16/512", f16, 0.80, 0, CUBE(512)),
    CBLAS("own/f16/1024", f16, 0.80, BENCH_LONG, CUBE(1024)),
    CBLAS("own/bf16/512", bf16, 0.80, 0, CUBE(512)),
    CBLAS("own/bf16/1024", bf16, 0.80, BENCH_LONG, CUBE(1024)),
    BENCH_ENTRY("gemm/own/bf16-amx/1024", "bf16", "f32", 3, against_f32, &bf16, 0, CUBE(1024)),
    {0}};
/* clang-format on */
