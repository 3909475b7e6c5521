/* Products that cuBLAS has no form for: integers, and strides without a dense dim. Tiles of both
 * operands go through shared memory; f16 and bf16 are summed in f32, integers wrap in 64 bits. */
#include "gemm.h"

#include <stdio.h>

#define TILE 16

static bool is_float(tp_dtype dtype)
{
    return tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT;
}

/* Strides of the two matrix dims; a dim of size 1 has none. */
static void add_matrix(tp_cuda_args *args, const tp_view *v, const char *name)
{
    int row = v->ndim - 2, column = v->ndim - 1;
    tp_cuda_arg_integer(args, v->shape[row] > 1 ? v->stride[row] : 0, "%s_row", name);
    tp_cuda_arg_integer(args, v->shape[column] > 1 ? v->stride[column] : 0, "%s_column", name);
}

/* One tile of an operand: element (y, x) from row r and column c on. */
static void add_tile(tp_text *text, const char *tile, const char *name, int operand, const char *r,
                     const char *c, const char *rows, const char *columns)
{
    tp_text_add(
        text,
        "        %s[ty * %d + tx] = %s + ty < arg.%s && %s + tx < arg.%s\n"
        "            ? arg.x%d[o%d + (%s + ty) * arg.%s_row + (%s + tx) * arg.%s_column] : 0;\n",
        tile, TILE + 1, r, rows, c, columns, operand, operand, r, name, c, name);
}

static void add_kernel(tp_text *text, const tp_cuda_space *batch, tp_dtype dtype)
{
    const char *storage = tp_cuda_storage_type(dtype);
    const char *sum = !is_float(dtype) ? "uint64_t" : tp_cuda_value_type(dtype);
    const char *wide = is_float(dtype)                           ? sum
                       : tp_dtype_kind_of(dtype) == TP_DTYPE_INT ? "int64_t"
                                                                 : "uint64_t";
    tp_text_add(text,
                "TP_KERNEL(gemm_tiles, Args)\n{\n"
                "    TP_SHARED(%s, ta, %d);\n    TP_SHARED(%s, tb, %d);\n"
                "    int tx = tp_thread_x %% %d, ty = tp_thread_x / %d;\n"
                "    for (int64_t t = tp_block_x; t < arg.tiles; t += tp_grid_dim) {\n"
                "    int64_t q = t / arg.columns, column = (t - q * arg.columns) * %d;\n"
                "    int64_t at = q / arg.rows, row = (q - at * arg.rows) * %d;\n"
                "    %s sum = 0;\n",
                storage, TILE * (TILE + 1), storage, TILE * (TILE + 1), TILE, TILE, TILE, TILE,
                sum);
    tp_cuda_add_offsets(text, batch, false, "d", "at", "o", 7);
    tp_text_add(text, "    for (int64_t k = 0; k < arg.k; k += %d) {\n", TILE);
    add_tile(text, "ta", "a", 1, "row", "k", "m", "k");
    add_tile(text, "tb", "b", 2, "k", "column", "k", "n");
    char a[60], b[60];
    snprintf(a, sizeof a, "ta[ty * %d + i]", TILE + 1);
    snprintf(b, sizeof b, "tb[i * %d + tx]", TILE + 1);
    tp_text_add(
        text,
        "        tp_sync();\n        for (int i = 0; i < %d; i++)\n            sum += (%s)(%s)",
        TILE, sum, wide);
    tp_cuda_add_loaded(text, dtype, a);
    tp_text_add(text, " * (%s)(%s)", sum, wide);
    tp_cuda_add_loaded(text, dtype, b);
    tp_text_add(text,
                ";\n        tp_sync();\n    }\n"
                "    if (row + ty < arg.m && column + tx < arg.n) {\n        %s v = ",
                tp_cuda_value_type(dtype));
    tp_text_add(text, dtype == TP_BOOL ? "(uint8_t)(sum != 0)" : "(%s)sum",
                tp_cuda_value_type(dtype));
    tp_text_add(text,
                ";\n        arg.x0[o0 + (row + ty) * arg.c_row + (column + tx) * arg.c_column] = ");
    tp_cuda_add_stored(text, dtype, "v");
    tp_text_add(text, ";\n    }\n    }\n}\n");
}

static int64_t tiles_of(int64_t size)
{
    return size / TILE + (size % TILE != 0);
}

static tp_status run_own(const tp_step *step, tp_run *run)
{
    const tp_operand *a = &step->operand[0], *b = &step->operand[1];
    const tp_view *view[] = {&step->out.view, &a->view, &b->view};
    tp_dtype dtype = (tp_dtype)step->out.dtype;
    int rank = step->domain.ndim;
    int64_t m = step->domain.shape[rank - 2], n = step->domain.shape[rank - 1];
    tp_cuda_space batch;
    tp_cuda_args args;
    tp_cuda_space_make(&batch, &step->domain, (1U << (rank - 2)) - 1, 3, view, false);
    int64_t tiles = batch.total * tiles_of(m) * tiles_of(n);
    char type[40];
    snprintf(type, sizeof type, "const %s", tp_cuda_storage_type(dtype));
    tp_cuda_args_begin(&args, run);
    tp_cuda_arg_pointer(&args, tp_cuda_storage_type(dtype), tp_operand_at(&step->out, run), "x0");
    tp_cuda_arg_pointer(&args, type, tp_operand_at(a, run), "x1");
    tp_cuda_arg_pointer(&args, type, tp_operand_at(b, run), "x2");
    tp_cuda_arg_integer(&args, m, "m");
    tp_cuda_arg_integer(&args, n, "n");
    tp_cuda_arg_integer(&args, a->view.shape[rank - 1], "k");
    tp_cuda_arg_integer(&args, tiles, "tiles");
    tp_cuda_arg_integer(&args, tiles_of(m), "rows");
    tp_cuda_arg_integer(&args, tiles_of(n), "columns");
    add_matrix(&args, &a->view, "a");
    add_matrix(&args, &b->view, "b");
    add_matrix(&args, &step->out.view, "c");
    tp_cuda_args_space(&args, &batch, false, "d");
    tp_cuda_args_end(&args);
    add_kernel(args.text, &batch, dtype);
    return tp_cuda_launch_args(run, "gemm_tiles", tp_cuda_blocks(tiles * TILE * TILE, TILE * TILE),
                               TILE * TILE, &args);
}

const tp_kernel tp_cuda_own_gemm = {"cuda_gemm", NULL, run_own, NULL};
