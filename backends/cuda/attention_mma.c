/* Attention of f16 and bf16 as one kernel on tensor cores: a warp has 16 rows, a block 64; tile
 * after tile of 64 keys goes through shared memory. Scores stay in registers: they come out of
 * mma.sync, go through the prologue, become e^(s - m) with m the largest of the row so far, and are
 * an operand of the next mma.sync as they lie. Sums and the product with the values are rescaled
 * when m grows (online softmax). Which elements of a matrix a lane holds is said in the PTX manual
 * under mma.m16n8k16. Strides are arguments: nothing is copied. */
#include "attention.h"

#include <stdio.h>

enum { WARPS = 4, ROWS = 16 * WARPS, KEYS = 64, MOST_WIDTH = 128 };

typedef struct tiles {
    const tp_step *step;
    tp_dtype dtype;
    int rank;
    int width, out_width;  /* of q's and k's rows; of v's and the result's */
    tp_cuda_space batch;   /* operands: out, q, k, v, the prologue's further loads */
    bool k_whole, v_whole; /* read 16 bytes at once */
} tiles;

static tp_reason refuse(const tp_step *step)
{
    const tp_view *q = &step->operand[0].view, *v = &step->operand[2].view;
    int64_t width = q->shape[q->ndim - 1], out_width = v->shape[v->ndim - 1];
    uint8_t dtype = step->out.dtype;
    bool halves = dtype == TP_F16 || dtype == TP_BF16;
    for (int i = 0; i < 3; i++) halves = halves && step->operand[i].dtype == dtype;
    bool fits = width % 16 == 0 && width <= MOST_WIDTH && out_width % 8 == 0 &&
                out_width <= MOST_WIDTH && width > 0 && out_width > 0;
    return halves && fits ? TP_REASON_NONE : TP_REASON_BACKEND;
}

/* ---- The argument
 * ----------------------------------------------------------------------------------- */

/* Strides of the last two dims; of one element there is none. */
static int64_t row_stride(const tp_view *v)
{
    return v->shape[v->ndim - 2] > 1 ? v->stride[v->ndim - 2] : 0;
}
static int64_t column_stride(const tp_view *v)
{
    return v->shape[v->ndim - 1] > 1 ? v->stride[v->ndim - 1] : 0;
}

/* Whether runs of 8 along a dim of stride `along` can be read at once: everything else is a
 * multiple. */
static bool is_whole(const tiles *t, int operand, const char *at, int64_t along, int64_t across)
{
    if (along != 1 || across % 8 || (uintptr_t)at % 16) return false;
    for (int d = 0; d < t->batch.ndim; d++) {
        if (t->batch.stride[operand][d] % 8) return false;
    }
    return true;
}

static void prepare(const tp_step *step, const tp_run *run, tiles *t)
{
    const tp_view *view[TP_CUDA_OPERANDS] = {&step->out.view};
    int rank = step->domain.ndim, count = step->operand_count + 1;
    for (int i = 1; i < count; i++) view[i] = &step->operand[i - 1].view;
    *t = (tiles){.step = step,
                 .dtype = (tp_dtype)step->out.dtype,
                 .rank = rank,
                 .width = (int)view[1]->shape[rank - 1],
                 .out_width = (int)view[3]->shape[rank - 1]};
    tp_cuda_space_make(&t->batch, &step->domain, (1U << (rank - 2)) - 1, count, view, false);
    const tp_view *k = view[2], *v = view[3];
    t->k_whole =
        is_whole(t, 2, tp_operand_at(&step->operand[1], run), row_stride(k), column_stride(k));
    t->v_whole = t->out_width % 8 == 0 && is_whole(t, 3, tp_operand_at(&step->operand[2], run),
                                                   column_stride(v), row_stride(v));
}

static void add_arguments(tp_cuda_args *args, const tiles *t, const tp_run *run)
{
    const tp_step *step = t->step;
    const tp_view *out = &step->out.view;
    int64_t rows = step->domain.shape[t->rank - 2], blocks = (rows + ROWS - 1) / ROWS;
    tp_cuda_arg_pointer(args, "uint16_t", tp_operand_at(&step->out, run), "x0");
    for (int i = 0; i < step->operand_count; i++) {
        const tp_operand *o = &step->operand[i];
        char type[40];
        snprintf(type, sizeof type, "const %s", tp_cuda_storage_type((tp_dtype)o->dtype));
        tp_cuda_arg_pointer(args, type, tp_operand_at(o, run), "x%d", i + 1);
        tp_cuda_arg_integer(args, row_stride(&o->view), "row%d", i + 1);
        tp_cuda_arg_integer(args, column_stride(&o->view), "column%d", i + 1);
    }
    tp_cuda_arg_integer(args, row_stride(out), "row0");
    tp_cuda_arg_integer(args, column_stride(out), "column0");
    tp_cuda_arg_integer(args, rows, "rows");
    tp_cuda_arg_integer(args, step->domain.shape[t->rank - 1], "keys");
    tp_cuda_arg_integer(args, blocks, "blocks");
    tp_cuda_arg_integer(args, t->batch.total * blocks, "tiles");
    tp_cuda_args_space(args, &t->batch, false, "d");
}

/* ---- Pieces of the text
 * --------------------------------------------------------------------------------- */

/* A tile of keys or values, [key][place], into shared memory: zero beyond the last key. */
static void add_tile(tp_text *text, const char *tile, int operand, int width, int pitch, bool whole,
                     const char *key_stride, const char *place_stride)
{
    int each = whole ? 8 : 1, across = width / each;
    tp_text_add(text,
                "        for (int i = tp_thread_x; i < %d; i += %d) {\n"
                "            int key = i / %d, place = i %% %d * %d;\n"
                "            int64_t at = o%d + (first + key) * arg.%s%d + place * arg.%s%d;\n",
                KEYS * across, 32 * WARPS, across, across, each, operand, key_stride, operand,
                place_stride, operand);
    if (whole)
        tp_text_add(text,
                    "            tp_vec16 w = {{0}};\n"
                    "            if (first + key < arg.keys) w = tp_load_16(arg.x%d + at);\n"
                    "            uint32_t *to = (uint32_t *)&%s[key * %d + place];\n"
                    "            to[0] = w.w[0]; to[1] = w.w[1]; to[2] = w.w[2]; to[3] = w.w[3];\n "
                    "       }\n",
                    operand, tile, pitch);
    else
        tp_text_add(text,
                    "            %s[key * %d + place] = first + key < arg.keys ? arg.x%d[at] : "
                    "0;\n        }\n",
                    tile, pitch, operand);
}

/* The score s[n][c] at (row, key) goes through the prologue. */
static void add_prologue(tp_text *text, const tiles *t)
{
    const tp_program *program = &t->step->prologue;
    tp_dtype dtype[TP_PROGRAM_LOADS + TP_PROGRAM_INSNS] = {t->dtype};
    tp_text_add(text, "            float v0 = s[n][c];\n");
    for (int i = 1; i < program->load_count; i++) {
        int operand = i + 3; /* after out, q, k, v */
        char element[100];
        snprintf(element, sizeof element, "arg.x%d[o%d + row * arg.row%d + key * arg.column%d]",
                 operand, operand, operand, operand);
        dtype[i] = (tp_dtype)t->step->operand[i + 2].dtype;
        tp_text_add(text, "            %s v%d = ", tp_cuda_value_type(dtype[i]), i);
        tp_cuda_add_loaded(text, dtype[i], element);
        tp_text_add(text, ";\n");
    }
    tp_cuda_add_program(text, program, "v", dtype);
    tp_text_add(text, "            s[n][c] = (float)v%d;\n", program->result);
}

static void add_helpers(tp_text *text, const char *name)
{
    tp_text_add(
        text,
        "TP_FN uint32_t pack(float low, float high)\n{\n"
        "    return (uint32_t)tp_f32_to_%s(low) | (uint32_t)tp_f32_to_%s(high) << 16;\n}\n"
        /* over the four lanes that hold a row */
        "TP_FN float row_max(float x)\n{\n"
        "    x = m_max_f32(x, tp_f32_from_bits(tp_shfl_xor_u32(tp_bits_f32(x), 1)));\n"
        "    return m_max_f32(x, tp_f32_from_bits(tp_shfl_xor_u32(tp_bits_f32(x), 2)));\n}\n"
        "TP_FN float row_sum(float x)\n{\n"
        "    x += tp_f32_from_bits(tp_shfl_xor_u32(tp_bits_f32(x), 1));\n"
        "    return x + tp_f32_from_bits(tp_shfl_xor_u32(tp_bits_f32(x), 2));\n}\n\n",
        name, name);
}

/* Lane (group, in) holds q at rows group and group + 8, columns 2 in, 2 in + 1, and 8 further. */
static void add_queries(tp_text *text, const tiles *t)
{
    tp_text_add(
        text,
        "    uint32_t q[%d][4];\n    TP_UNROLL\n    for (int j = 0; j < %d; j++) {\n"
        "        TP_UNROLL\n        for (int i = 0; i < 4; i++) {\n"
        "            int64_t row = top + i %% 2 * 8;\n"
        "            int column = j * 16 + in * 2 + i / 2 * 8;\n"
        "            int64_t at = o1 + row * arg.row1 + column * arg.column1;\n"
        "            q[j][i] = row < arg.rows ? (uint32_t)arg.x1[at]\n"
        "                | (uint32_t)arg.x1[at + arg.column1] << 16 : 0;\n        }\n    }\n",
        t->width / 16, t->width / 16);
}

/* s = q k^T of a tile, n-th group of 8 keys. */
static void add_scores(tp_text *text, const tiles *t, const char *name, int pitch)
{
    tp_text_add(
        text,
        "        float s[%d][4];\n        TP_UNROLL\n        for (int n = 0; n < %d; n++) {\n"
        "            TP_UNROLL\n            for (int c = 0; c < 4; c++) s[n][c] = 0;\n"
        "            TP_UNROLL\n            for (int j = 0; j < %d; j++) {\n"
        "                const uint16_t *at = &ks[(n * 8 + group) * %d + j * 16 + in * 2];\n"
        "                uint32_t b[2];\n"
        "                b[0] = *(const uint32_t *)at;\n"
        "                b[1] = *(const uint32_t *)(at + 8);\n"
        "                tp_mma_16816_%s(s[n], q[j], b);\n            }\n        }\n",
        KEYS / 8, KEYS / 8, t->width / 16, pitch, name);
    tp_text_add(
        text,
        "        TP_UNROLL\n        for (int n = 0; n < %d; n++) {\n"
        "            TP_UNROLL\n            for (int c = 0; c < 4; c++) {\n"
        "            int64_t row = top + c / 2 * 8, key = first + n * 8 + in * 2 + c %% 2;\n"
        "            if (row >= arg.rows || key >= arg.keys) { s[n][c] = -INFINITY; continue; }\n",
        KEYS / 8);
    add_prologue(text, t);
    tp_text_add(text, "            }\n        }\n");
}

/* s becomes e^(s - m); what was added up is rescaled. Rows h = 0 and 1 are group and group + 8. */
static void add_softmax(tp_text *text, const tiles *t)
{
    tp_text_add(
        text,
        "        TP_UNROLL\n        for (int h = 0; h < 2; h++) {\n"
        "            float top_score = -INFINITY, sum = 0, factor;\n"
        "            TP_UNROLL\n            for (int n = 0; n < %d; n++)\n"
        "                top_score = m_max_f32(top_score, m_max_f32(s[n][2 * h], s[n][2 * h + "
        "1]));\n"
        "            top_score = m_max_f32(m[h], row_max(top_score));\n"
        "            factor = m[h] == -INFINITY ? 0 : m_exp_f32(m[h] - top_score);\n"
        "            TP_UNROLL\n            for (int n = 0; n < %d; n++) {\n"
        "                TP_UNROLL\n                for (int c = 2 * h; c < 2 * h + 2; c++) {\n"
        "                    s[n][c] = s[n][c] == -INFINITY ? 0 : m_exp_f32(s[n][c] - top_score);\n"
        "                    sum += s[n][c];\n                }\n            }\n"
        "            l[h] = l[h] * factor + row_sum(sum);\n            m[h] = top_score;\n"
        "            TP_UNROLL\n            for (int n = 0; n < %d; n++) {\n"
        "                o[n][2 * h] *= factor;\n                o[n][2 * h + 1] *= factor;\n"
        "            }\n        }\n",
        KEYS / 8, KEYS / 8, t->out_width / 8);
}

/* o += s v: a pair of groups of 8 keys at a time, whose scores are the first operand as they lie.
 */
static void add_values(tp_text *text, const tiles *t, const char *name, int pitch)
{
    tp_text_add(
        text,
        "        TP_UNROLL\n        for (int j = 0; j < %d; j++) {\n"
        "            uint32_t a[4];\n"
        "            a[0] = pack(s[2 * j][0], s[2 * j][1]);\n"
        "            a[1] = pack(s[2 * j][2], s[2 * j][3]);\n"
        "            a[2] = pack(s[2 * j + 1][0], s[2 * j + 1][1]);\n"
        "            a[3] = pack(s[2 * j + 1][2], s[2 * j + 1][3]);\n"
        "            TP_UNROLL\n            for (int n = 0; n < %d; n++) {\n"
        "                const uint16_t *at = &vs[(j * 16 + in * 2) * %d + n * 8 + group];\n"
        "                uint32_t b[2];\n"
        "                b[0] = (uint32_t)at[0] | (uint32_t)at[%d] << 16;\n"
        "                b[1] = (uint32_t)at[%d] | (uint32_t)at[%d] << 16;\n"
        "                tp_mma_16816_%s(o[n], a, b);\n            }\n        }\n",
        KEYS / 16, t->out_width / 8, pitch, pitch, 8 * pitch, 9 * pitch, name);
}

static void add_result(tp_text *text, const tiles *t, const char *name)
{
    /* A row that sees nothing gives NaN, or 0 where the graph says so. */
    tp_text_add(
        text,
        "    TP_UNROLL\n    for (int n = 0; n < %d; n++) {\n"
        "        TP_UNROLL\n        for (int c = 0; c < 4; c++) {\n"
        "            int64_t row = top + c / 2 * 8, column = n * 8 + in * 2 + c %% 2;\n"
        "            float y = m[c / 2] == -INFINITY ? %s : o[n][c] / l[c / 2];\n"
        "            if (row < arg.rows)\n"
        "                arg.x0[o0 + row * arg.row0 + column * arg.column0] = tp_f32_to_%s(y);\n"
        "        }\n    }\n",
        t->out_width / 8, t->step->value[0].i ? "0" : "NAN", name);
}

static void add_kernel(tp_text *text, const tiles *t)
{
    const char *name = tp_dtype_name(t->dtype);
    int k_pitch = t->width + 8,
        v_pitch = t->out_width + 8; /* 16 bytes more: rows start in other banks */
    add_helpers(text, name);
    tp_text_add(text,
                "TP_KERNEL(attention, Args)\n{\n"
                "    TP_SHARED(uint16_t, ks, %d);\n    TP_SHARED(uint16_t, vs, %d);\n"
                "    int lane = tp_thread_x %% 32, group = lane / 4, in = lane %% 4;\n"
                "    for (int64_t u = tp_block_x; u < arg.tiles; u += tp_grid_dim) {\n"
                "    int64_t head = u / arg.blocks, top = (u - head * arg.blocks) * %d + "
                "tp_thread_x / 32 * 16 + group;\n",
                KEYS * k_pitch, KEYS * v_pitch, ROWS);
    tp_cuda_add_offsets(text, &t->batch, false, "d", "head", "o", (1U << t->batch.count) - 1);
    add_queries(text, t);
    tp_text_add(
        text,
        "    float o[%d][4], m[2], l[2];\n    TP_UNROLL\n    for (int n = 0; n < %d; n++) {\n"
        "        TP_UNROLL\n        for (int c = 0; c < 4; c++) o[n][c] = 0;\n    }\n"
        "    m[0] = m[1] = -INFINITY;\n    l[0] = l[1] = 0;\n"
        "    for (int64_t first = 0; first < arg.keys; first += %d) {\n        tp_sync();\n",
        t->out_width / 8, t->out_width / 8, KEYS);
    add_tile(text, "ks", 2, t->width, k_pitch, t->k_whole, "column", "row");
    add_tile(text, "vs", 3, t->out_width, v_pitch, t->v_whole, "row", "column");
    tp_text_add(text, "        tp_sync();\n");
    add_scores(text, t, name, k_pitch);
    /* A tile that the mask hides from all rows of the warp adds nothing. */
    tp_text_add(text,
                "        int seen = 0;\n        TP_UNROLL\n        for (int n = 0; n < %d; n++) {\n"
                "            TP_UNROLL\n            for (int c = 0; c < 4; c++) seen |= s[n][c] != "
                "-INFINITY;\n"
                "        }\n        if (!tp_ballot(seen)) continue;\n",
                KEYS / 8);
    add_softmax(text, t);
    add_values(text, t, name, v_pitch);
    tp_text_add(text, "    }\n");
    add_result(text, t, name);
    tp_text_add(text, "    }\n}\n");
}

/* ---- The step
 * --------------------------------------------------------------------------------------------- */

static tp_status run_mma(const tp_step *step, tp_run *run)
{
    tiles t;
    tp_cuda_args args;
    if (tp_view_numel(&step->out.view) == 0) return TP_OK;
    prepare(step, run, &t);
    int64_t blocks = (step->domain.shape[t.rank - 2] + ROWS - 1) / ROWS;
    tp_cuda_args_begin(&args, run);
    add_arguments(&args, &t, run);
    tp_cuda_args_end(&args);
    add_kernel(args.text, &t);
    return tp_cuda_launch_args(run, "attention",
                               tp_cuda_blocks(t.batch.total * blocks * 32 * WARPS, 32 * WARPS),
                               32 * WARPS, &args);
}

static int describe(const tp_step *step, char *text, size_t size)
{
    return snprintf(text, size,
                    "STREAMED mma.sync %s, tiles of %d rows by %d keys, %lld bytes of scores not "
                    "allocated",
                    tp_dtype_name((tp_dtype)step->out.dtype), ROWS, KEYS,
                    (long long)(tp_view_numel(&step->domain) *
                                (int64_t)tp_dtype_size((tp_dtype)step->out.dtype)));
}

const tp_kernel tp_cuda_attention_mma = {"cuda_attention_mma", refuse, run_mma, describe};
