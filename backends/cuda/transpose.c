/* A copy, cast or other elementwise work on one operand that runs densely along another dim than
 * out does: tiles go through shared memory, so that both sides are read and written in rows. */
#include "ewise.h"

#include <stdio.h>

#define THREADS 256

/* Dim `row` is dense in the operand, the innermost in out. */
static int dense_dim(const tp_cuda_space *s, int operand)
{
    for (int d = 0; d < s->ndim; d++) {
        if (s->stride[operand][d] == 1) return d;
    }
    return -1;
}

/* Wide enough that a row of it is a whole memory transaction. */
static int tile_of(tp_dtype dtype)
{
    return tp_dtype_size(dtype) <= 2 ? 64 : 32;
}

static void make_space(const tp_step *step, tp_cuda_space *s)
{
    const tp_view *view[] = {&step->out.view, &step->operand[0].view};
    tp_cuda_space_make(s, &step->domain, ~0U, 2, view, true);
}

static tp_reason refuse(const tp_step *step)
{
    tp_cuda_space s;
    if (step->operand_count != 1) return TP_REASON_BACKEND;
    make_space(step, &s);
    int row = dense_dim(&s, 1), last = s.ndim - 1;
    bool turned = row >= 0 && row < last && s.stride[0][last] == 1 && s.stride[1][last] != 0;
    return turned && s.size[row] >= 8 && s.size[last] >= 8 ? TP_REASON_NONE : TP_REASON_BACKEND;
}

/* The two dims of the tiles go to the end: .., row, last. */
static void move_row(tp_cuda_space *s, int row)
{
    for (int d = row; d + 2 < s->ndim; d++) {
        int64_t size = s->size[d];
        s->size[d] = s->size[d + 1];
        s->size[d + 1] = size;
        for (int i = 0; i < s->count; i++) {
            int64_t stride = s->stride[i][d];
            s->stride[i][d] = s->stride[i][d + 1];
            s->stride[i][d + 1] = stride;
        }
    }
}

static void add_kernel(tp_text *text, const tp_step *step, const tp_cuda_space *outer, bool narrow,
                       const char *name)
{
    tp_dtype in = (tp_dtype)step->operand[0].dtype, out = (tp_dtype)step->out.dtype;
    tp_dtype dtype[TP_PROGRAM_LOADS + TP_PROGRAM_INSNS] = {in};
    int tile = tile_of(in), rows = THREADS / tile;
    const char *U = tp_cuda_index_type(narrow, false), *I = tp_cuda_index_type(narrow, true);
    tp_text_add(text,
                "TP_KERNEL(%s, Args)\n{\n"
                "    TP_SHARED(%s, tile, %d);\n"
                "    int tx = tp_thread_x %% %d, ty = tp_thread_x / %d;\n"
                "    for (int64_t t = tp_block_x; t < arg.tiles; t += tp_grid_dim) {\n"
                "    %s i = (%s)t, q = ",
                name, tp_cuda_storage_type(in), tile * (tile + 1), tile, tile, U, U);
    tp_cuda_add_quotient(text, narrow, "i", "columns");
    tp_text_add(text, ", c = (i - q * (%s)arg.columns) * %d, b;\n    i = q;\n    q = ", U, tile);
    tp_cuda_add_quotient(text, narrow, "i", "rows");
    tp_text_add(text, ";\n    b = (i - q * (%s)arg.rows) * %d;\n", U, tile);
    tp_cuda_add_offsets(text, outer, narrow, "", "q", "o", 3);
    tp_text_add(
        text,
        "    for (int y = ty; y < %d; y += %d) {\n"
        "        if (b + tx < (%s)arg.row_size && c + y < (%s)arg.column_size)\n"
        "            tile[y * %d + tx] = arg.x1[o1 + (%s)(b + tx) + (%s)(c + y) * (%s)arg.in];\n"
        "    }\n    tp_sync();\n",
        tile, rows, U, U, tile + 1, I, I, I);
    tp_text_add(text,
                "    for (int y = ty; y < %d; y += %d) {\n"
                "        if (b + y < (%s)arg.row_size && c + tx < (%s)arg.column_size) {\n"
                "        %s v0 = ",
                tile, rows, U, U, tp_cuda_value_type(in));
    char element[40], value[40];
    snprintf(element, sizeof element, "tile[tx * %d + y]", tile + 1);
    tp_cuda_add_loaded(text, in, element);
    tp_text_add(text, ";\n");
    tp_cuda_add_program(text, &step->prologue, "v", dtype);
    snprintf(value, sizeof value, "v%d", step->prologue.result);
    tp_text_add(text, "        arg.x0[o0 + (%s)(c + tx) + (%s)(b + y) * (%s)arg.out] = ", I, I, I);
    tp_cuda_add_stored(text, out, value);
    tp_text_add(text, ";\n        }\n    }\n    tp_sync();\n    }\n}\n");
}

static tp_status run_transpose(const tp_step *step, tp_run *run)
{
    tp_cuda_space s;
    tp_cuda_args args;
    make_space(step, &s);
    bool narrow = tp_cuda_space_is_narrow(&s);
    move_row(&s, dense_dim(&s, 1));
    int row = s.ndim - 2, column = s.ndim - 1, tile = tile_of((tp_dtype)step->operand[0].dtype);
    int64_t rows = (s.size[row] + tile - 1) / tile, columns = (s.size[column] + tile - 1) / tile;
    int64_t outer = s.total ? s.total / s.size[row] / s.size[column] : 0;
    tp_cuda_space rest = s;
    rest.ndim = s.ndim - 2;
    const char *name = step->prologue.insn_count ? "ewise_transpose" : "transpose";
    char type[40];
    snprintf(type, sizeof type, "const %s", tp_cuda_storage_type((tp_dtype)step->operand[0].dtype));
    tp_cuda_args_begin(&args, run);
    tp_cuda_arg_pointer(&args, tp_cuda_storage_type((tp_dtype)step->out.dtype),
                        tp_operand_at(&step->out, run), "x0");
    tp_cuda_arg_pointer(&args, type, tp_operand_at(&step->operand[0], run), "x1");
    tp_cuda_arg_integer(&args, outer * rows * columns, "tiles");
    tp_cuda_arg_integer(&args, s.size[row], "row_size");
    tp_cuda_arg_integer(&args, s.size[column], "column_size");
    tp_cuda_arg_divisor(&args, rows, narrow, "rows");
    tp_cuda_arg_divisor(&args, columns, narrow, "columns");
    tp_cuda_arg_integer(&args, s.stride[1][column], "in");
    tp_cuda_arg_integer(&args, s.stride[0][row], "out");
    tp_cuda_args_space(&args, &rest, narrow, "");
    tp_cuda_args_end(&args);
    add_kernel(args.text, step, &rest, narrow, name);
    return tp_cuda_launch_args(run, name, tp_cuda_blocks(outer * rows * columns * THREADS, THREADS),
                               THREADS, &args);
}

const tp_kernel tp_cuda_transpose_kernel = {"cuda_transpose", refuse, run_transpose, NULL};
