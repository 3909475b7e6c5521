/* Products on cuBLAS: the views become (op, ld, batch stride) without a copy, through the arguments
 * that every backend shares. cuBLAS is column-major: C^T = B^T A^T, whose matrices are ours as they
 * lie, with A and B exchanged. */
#include "../gemm_args.h"
#include "gemm.h"

#include <stdio.h>

/* So many calls of a loop over batches are as good as one call with tables of addresses. */
#define MOST_CALLS 16

static tp_reason arguments(const tp_step *step, tp_gemm *g)
{
    int operand;
    return tp_gemm_args(&step->operand[0].view, &step->operand[1].view, &step->out.view, g,
                        &operand);
}

static tp_reason refuse(const tp_step *step)
{
    tp_gemm g;
    if (tp_dtype_kind_of((tp_dtype)step->out.dtype) != TP_DTYPE_FLOAT) return TP_REASON_BACKEND;
    return arguments(step, &g);
}

/* The first product. */
static tp_cuda_gemm first_product(const tp_step *step, const tp_run *run, const tp_gemm *g)
{
    tp_dtype dtype = (tp_dtype)step->out.dtype;
    int64_t size = (int64_t)tp_dtype_size(dtype);
    return (tp_cuda_gemm){
        .dtype = dtype,
        .out_dtype = dtype,
        .tf32 = run->tf32,
        .trans_a = g->trans_b,
        .trans_b = g->trans_a,
        .m = g->n,
        .n = g->m,
        .k = g->k,
        .a = run->buffer[step->operand[!g->swapped].buffer] + g->offset_b * size,
        .b = run->buffer[step->operand[g->swapped].buffer] + g->offset_a * size,
        .c = run->buffer[step->out.buffer] + g->offset_c * size,
        .lda = g->ldb,
        .ldb = g->lda,
        .ldc = g->ldc,
        .batch = 1,
        .alpha = 1,
    };
}

/* The loop that becomes the batch of one call: the longest of those that run forwards. -1: none. */
static int batch_loop(const tp_gemm *g)
{
    int best = -1;
    for (int d = 0; d < g->loops; d++) {
        bool forwards = g->stride_a[d] >= 0 && g->stride_b[d] >= 0 && g->stride_c[d] > 0;
        if (forwards && (best < 0 || g->count[d] > g->count[best])) best = d;
    }
    return best;
}

static int64_t products_of(const tp_gemm *g, int without)
{
    int64_t products = 1;
    for (int d = 0; d < g->loops; d++) products *= d == without ? 1 : g->count[d];
    return products;
}

/* ---- A call for each round of the other loops
 * ------------------------------------------------------ */

static tp_status call_in_rounds(tp_run *run, const tp_gemm *g, const tp_cuda_gemm *first, int batch,
                                int64_t rounds)
{
    int64_t size = (int64_t)tp_dtype_size(first->dtype);
    for (int64_t i = 0; i < rounds; i++) {
        tp_cuda_gemm p = *first;
        int64_t at = i;
        for (int d = g->loops - 1; d >= 0; d--) {
            if (d == batch) continue;
            int64_t index = at % g->count[d];
            at /= g->count[d];
            p.a += index * g->stride_b[d] * size;
            p.b += index * g->stride_a[d] * size;
            p.c += index * g->stride_c[d] * size;
        }
        if (batch >= 0) {
            p.batch = g->count[batch];
            p.stride_a = g->stride_b[batch];
            p.stride_b = g->stride_a[batch];
            p.stride_c = g->stride_c[batch];
        }
        TRY(tp_cuda_multiply(run, &p));
    }
    return TP_OK;
}

/* ---- Tables of addresses
 * ------------------------------------------------------------------------------ */

/* A kernel fills them: three rows of `products` addresses. */
static tp_status fill_tables(tp_run *run, const tp_gemm *g, const tp_cuda_gemm *first, char *tables,
                             int64_t products)
{
    int64_t size = (int64_t)tp_dtype_size(first->dtype);
    tp_cuda_args args;
    tp_cuda_args_begin(&args, run);
    tp_cuda_arg_pointer(&args, "int64_t", tables, "y");
    tp_cuda_arg_integer(&args, products, "n");
    tp_cuda_arg_pointer(&args, "char", first->a, "a");
    tp_cuda_arg_pointer(&args, "char", first->b, "b");
    tp_cuda_arg_pointer(&args, "char", first->c, "c");
    for (int d = 0; d < g->loops; d++) {
        tp_cuda_arg_integer(&args, g->count[d], "d%d", d);
        tp_cuda_arg_integer(&args, g->stride_b[d] * size, "a%d", d);
        tp_cuda_arg_integer(&args, g->stride_a[d] * size, "b%d", d);
        tp_cuda_arg_integer(&args, g->stride_c[d] * size, "c%d", d);
    }
    tp_cuda_args_end(&args);
    tp_text_add(args.text,
                "TP_KERNEL(gemm_tables, Args)\n{\n"
                "    for (int64_t i = tp_block_x * tp_block_dim + tp_thread_x; i < arg.n; "
                "i += tp_grid_dim * tp_block_dim) {\n"
                "    int64_t r = i, x, a = 0, b = 0, c = 0;\n");
    for (int d = g->loops - 1; d >= 0; d--)
        tp_text_add(args.text,
                    "    x = r %% arg.d%d; r /= arg.d%d; a += x * arg.a%d; b += x * arg.b%d; "
                    "c += x * arg.c%d;\n",
                    d, d, d, d, d);
    tp_text_add(args.text, "    arg.y[i] = (int64_t)(arg.a + a);\n"
                           "    arg.y[arg.n + i] = (int64_t)(arg.b + b);\n"
                           "    arg.y[2 * arg.n + i] = (int64_t)(arg.c + c);\n    }\n}\n");
    return tp_cuda_launch_args(run, "gemm_tables", tp_cuda_blocks(products, 256), 256, &args);
}

static tp_status call_with_tables(tp_run *run, const tp_gemm *g, const tp_cuda_gemm *first)
{
    int64_t products = products_of(g, -1);
    char *tables = tp_cuda_scratch(run, (size_t)products * 3 * sizeof(char *));
    if (!tables) return tp_cuda_status();
    TRY(fill_tables(run, g, first, tables, products));
    tp_cuda_gemm p = *first;
    p.batch = products;
    p.table_a = tables;
    p.table_b = tables + products * (int64_t)sizeof(char *);
    p.table_c = tables + 2 * products * (int64_t)sizeof(char *);
    return tp_cuda_multiply(run, &p);
}

/* ---- The step
 * ------------------------------------------------------------------------------------------- */

tp_status tp_cuda_gemm_step(const tp_step *step, tp_run *run, double alpha)
{
    tp_gemm g;
    if (arguments(step, &g) != TP_REASON_NONE)
        return tp_cuda_fail(TP_E_INTERNAL, "a product has no BLAS form");
    if (tp_view_numel(&step->out.view) == 0) return TP_OK;
    tp_cuda_gemm first = first_product(step, run, &g);
    first.alpha = alpha;
    int batch = batch_loop(&g);
    int64_t rounds = products_of(&g, batch);
    if (rounds > MOST_CALLS) return call_with_tables(run, &g, &first);
    return call_in_rounds(run, &g, &first, batch, rounds);
}

static tp_status run_cublas(const tp_step *step, tp_run *run)
{
    tp_gemm g;
    /* A sum over nothing: the library need not be asked. */
    if (arguments(step, &g) == TP_REASON_NONE && g.k == 0) return tp_cuda_own_gemm.run(step, run);
    return tp_cuda_gemm_step(step, run, 1);
}

static int describe(const tp_step *step, char *text, size_t size)
{
    tp_gemm g;
    if (arguments(step, &g) != TP_REASON_NONE) return snprintf(text, size, "no BLAS form");
    int batch = batch_loop(&g);
    int64_t rounds = products_of(&g, batch);
    bool tables = rounds > MOST_CALLS;
    return snprintf(
        text, size,
        "%s %s %c%c m=%lld n=%lld k=%lld lda=%lld ldb=%lld ldc=%lld batch=%lld, %lld call%s",
        tables       ? "GemmBatchedEx"
        : batch >= 0 ? "GemmStridedBatchedEx"
                     : "GemmEx",
        tp_dtype_name((tp_dtype)step->out.dtype), g.trans_b ? 'T' : 'N', g.trans_a ? 'T' : 'N',
        (long long)g.n, (long long)g.m, (long long)g.k, (long long)g.ldb, (long long)g.lda,
        (long long)g.ldc,
        (long long)(tables       ? products_of(&g, -1)
                    : batch >= 0 ? g.count[batch]
                                 : 1),
        (long long)(tables ? 1 : rounds), tables || rounds == 1 ? "" : "s");
}

static const tp_kernel cublas = {"cublas", refuse, run_cublas, describe};
const tp_kernel *const tp_cuda_matmul_kernels[] = {&cublas, &tp_cuda_own_gemm, NULL};
