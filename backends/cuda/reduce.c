/* Reductions. A row's elements are taken by its lanes in turn, lanes are joined as a tree: the
 * order is fixed. Where there are fewer rows than the device can work on, rows are cut into chunks
 * whose results a second kernel joins; no atomics. */
#include "rows.h"

#include <stdio.h>

typedef struct reduction {
    tp_cuda_rows rows;
    tp_op op;
    tp_dtype calc, reduced;
    int64_t chunks, chunk; /* of a row, 1: it is not cut; elements in one */
    int64_t groups;        /* of as many rows as a block has at a time, by chunks */
} reduction;

static bool is_float(tp_dtype dtype)
{
    return tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT;
}

static bool is_position(tp_op op)
{
    return op == TP_OP_ARGMAX || op == TP_OP_ARGMIN;
}

/* ---- Accumulators ---------------------------------------------------------------------------- */

static void add_product(tp_text *text, const char *type)
{
    tp_text_add(text,
                "typedef struct Acc { %s p; } Acc;\n"
                "TP_FN void start(Acc *a) { a->p = 1; }\n"
                "TP_FN void add(Acc *a, %s v) { a->p *= v; }\n"
                "TP_FN void join(Acc *a, const Acc *b) { a->p *= b->p; }\n\n",
                type, type);
}

/* The best so far and where it is, -1: none yet. NaN is best; of equal ones the first. */
static void add_best(tp_text *text, const char *type, bool larger, bool has_nan)
{
    tp_text_add(text,
                "typedef struct Acc { %s best; int64_t at; } Acc;\n"
                "TP_FN void start(Acc *a) { a->best = 0; a->at = -1; }\n"
                "TP_FN void join(Acc *a, const Acc *b)\n{\n"
                "    int better;\n"
                "    if (b->at < 0) return;\n",
                type);
    if (has_nan)
        tp_text_add(text, "    if (a->at >= 0 && a->best != a->best && b->best != b->best)\n"
                          "        better = b->at < a->at;\n"
                          "    else if (a->at >= 0 && a->best != a->best) better = 0;\n"
                          "    else if (b->best != b->best) better = 1;\n    else\n    ");
    tp_text_add(text,
                "    better = b->best %s a->best || (b->best == a->best && b->at < a->at);\n"
                "    if (better || a->at < 0) *a = *b;\n}\n"
                "TP_FN void add(Acc *a, %s v, int64_t k)\n{\n"
                "    Acc b;\n    b.best = v;\n    b.at = k;\n    join(a, &b);\n}\n\n",
                larger ? ">" : "<", type);
}

static void add_extreme(tp_text *text, const char *type, const char *name, const char *tag)
{
    tp_text_add(text,
                "typedef struct Acc { %s best; int some; } Acc;\n"
                "TP_FN void start(Acc *a) { a->best = 0; a->some = 0; }\n"
                "TP_FN void add(Acc *a, %s v)\n{\n"
                "    a->best = a->some ? m_%s_%s(a->best, v) : v;\n    a->some = 1;\n}\n"
                "TP_FN void join(Acc *a, const Acc *b) { if (b->some) add(a, b->best); }\n\n",
                type, type, name, tag);
}

static void add_accumulator(tp_text *text, const reduction *r)
{
    bool real = is_float(r->calc);
    const char *type = tp_cuda_value_type(r->calc);
    switch (r->op) {
    case TP_OP_SUM:
    case TP_OP_MEAN:
        tp_cuda_add_sum(text, real ? type : "uint64_t", real);
        break;
    case TP_OP_PROD:
        add_product(text, real ? "double" : "uint64_t");
        break;
    case TP_OP_ARGMAX:
    case TP_OP_ARGMIN:
        add_best(text, type, r->op == TP_OP_ARGMAX, real);
        break;
    default:
        add_extreme(text, type, r->op == TP_OP_MAX ? "max" : "min", tp_cuda_tag(r->calc));
    }
}

/* ---- The result of a row ------------------------------------------------------------------------
 */

/* e0, the reduction's value in its dtype, from `acc`. */
static void add_reduced(tp_text *text, const reduction *r, const char *acc)
{
    bool half = r->reduced == TP_F16 || r->reduced == TP_BF16, real = is_float(r->calc);
    const char *name = tp_dtype_name(r->reduced);
    tp_text_add(text, "        %s e0 = ", tp_cuda_value_type(r->reduced));
    if (half) tp_text_add(text, "tp_%s_to_f32(tp_f32_to_%s(", name, name);
    tp_text_add(text, "(%s)(", tp_cuda_value_type(r->reduced));
    if (r->op == TP_OP_SUM)
        tp_text_add(text, "%s.s", acc);
    else if (r->op == TP_OP_PROD)
        tp_text_add(text, "%s.p", acc);
    else if (is_position(r->op))
        tp_text_add(text, "%s.at", acc);
    else if (r->op != TP_OP_MEAN)
        tp_text_add(text, "%s.best", acc);
    else if (real)
        tp_text_add(text, "%s.s / (%s)arg.size", acc, tp_cuda_value_type(r->calc));
    else
        tp_text_add(text, "(double)(%s)%s.s / (double)arg.size", tp_cuda_value_type(r->calc), acc);
    tp_text_add(text, half ? ")));\n" : ");\n");
}

/* Stores it, after the epilogue. */
static void add_result(tp_text *text, const reduction *r, const char *acc)
{
    const tp_program *e = &r->rows.step->epilogue;
    tp_dtype dtype[TP_PROGRAM_LOADS + TP_PROGRAM_INSNS] = {r->reduced};
    int first = r->rows.step->prologue.load_count; /* operand of load 1 */
    add_reduced(text, r, acc);
    for (int i = 1; i < e->load_count; i++) {
        char element[40];
        int operand = first + i;
        snprintf(element, sizeof element, "arg.x%d[b%d]", operand, operand);
        dtype[i] = r->rows.dtype[operand];
        tp_text_add(text, "        %s e%d = ", tp_cuda_value_type(dtype[i]), i);
        tp_cuda_add_loaded(text, dtype[i], element);
        tp_text_add(text, ";\n");
    }
    if (e->load_count) tp_cuda_add_program(text, e, "e", dtype);
    char value[40];
    snprintf(value, sizeof value, "e%d", e->load_count ? e->result : 0);
    tp_text_add(text, "        arg.x0[b0] = ");
    tp_cuda_add_stored(text, r->rows.dtype[0], value);
    tp_text_add(text, ";\n");
}

/* ---- Kernels
 * ------------------------------------------------------------------------------------- */

static void begin_kernel(tp_cuda_args *args, tp_run *run, const reduction *r, char *partial)
{
    tp_cuda_args_begin(args, run);
    tp_cuda_rows_add_args(args, &r->rows);
    tp_cuda_arg_integer(args, r->chunks, "chunks");
    tp_cuda_arg_integer(args, r->chunk, "chunk");
    tp_cuda_arg_integer(args, r->groups, "groups");
    if (partial) tp_cuda_arg_pointer(args, "struct Acc", partial, "partial");
    tp_cuda_args_end(args);
}

static void add_first(tp_text *text, const reduction *r)
{
    tp_text_add(text, "TP_KERNEL(reduce, Args)\n{\n    TP_SHARED(Acc, part, %d);\n",
                r->rows.threads);
    tp_cuda_rows_add_head(text, &r->rows);
    tp_text_add(text,
                "    for (int64_t g = tp_block_x; g < arg.groups; g += tp_grid_dim) {\n"
                "    int64_t group = g / arg.chunks, piece = g - group * arg.chunks;\n"
                "    int64_t row = group * %d + column;\n"
                "    Acc a;\n    start(&a);\n    if (row < arg.rows) {\n",
                r->rows.columns);
    tp_cuda_rows_add_begin(text, &r->rows);
    tp_text_add(
        text,
        "    int64_t end = (piece + 1) * arg.chunk;\n    if (end > arg.size) end = arg.size;\n"
        "    for (int64_t k = piece * arg.chunk + lane; k < end; k += %d) {\n",
        r->rows.lanes);
    tp_cuda_rows_add_value(text, &r->rows);
    tp_text_add(text, "    add(&a, v%d%s);\n    }\n    }\n    part[tp_thread_x] = a;\n",
                r->rows.step->prologue.result, is_position(r->op) ? ", k" : "");
    tp_cuda_rows_add_tree(text, &r->rows, "part", "join");
    tp_text_add(text, "    if (lane == 0 && row < arg.rows) {\n");
    if (r->chunks > 1) {
        tp_text_add(text, "        arg.partial[row * arg.chunks + piece] = part[tp_thread_x];\n");
    } else {
        tp_cuda_rows_add_begin(text, &r->rows);
        add_result(text, r, "part[tp_thread_x]");
    }
    tp_text_add(text, "    }\n    tp_sync();\n    }\n}\n");
}

/* A warp joins the chunks of a row. */
static void add_second(tp_text *text, const reduction *r)
{
    tp_text_add(text,
                "TP_KERNEL(reduce_chunks, Args)\n{\n    TP_SHARED(Acc, part, %d);\n"
                "    int lane = tp_thread_x %% 32, column = tp_thread_x / 32;\n"
                "    for (int64_t g = tp_block_x; g * %d < arg.rows; g += tp_grid_dim) {\n"
                "    int64_t row = g * %d + column;\n"
                "    Acc a;\n    start(&a);\n    if (row < arg.rows) {\n"
                "    for (int64_t i = lane; i < arg.chunks; i += 32)\n"
                "        join(&a, &arg.partial[row * arg.chunks + i]);\n    }\n"
                "    part[tp_thread_x] = a;\n",
                r->rows.threads, r->rows.threads / 32, r->rows.threads / 32);
    tp_cuda_rows warps = r->rows;
    warps.lanes = 32;
    warps.columns = r->rows.threads / 32;
    warps.across = false;
    tp_cuda_rows_add_tree(text, &warps, "part", "join");
    tp_text_add(text, "    if (lane == 0 && row < arg.rows) {\n");
    tp_cuda_rows_add_begin(text, &r->rows);
    add_result(text, r, "part[tp_thread_x]");
    tp_text_add(text, "    }\n    tp_sync();\n    }\n}\n");
}

/* ---- The step
 * ------------------------------------------------------------------------------------- */

static int64_t ceil_divide(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* Rows are cut where whole ones would leave most of the device idle. */
static void choose_chunks(reduction *r)
{
    /* In blocks of 256 threads, however many it will be: the layout must not matter. */
    int64_t groups = ceil_divide(r->rows.count * r->rows.lanes, 256);
    int64_t wanted = groups ? (int64_t)tp_cuda_device.processors * 4 / groups : 1;
    int64_t most = r->rows.size / (16 * r->rows.lanes);
    r->chunks = wanted < most ? wanted : most;
    if (r->chunks < 2) r->chunks = 1;
    r->chunk = ceil_divide(ceil_divide(r->rows.size, r->chunks), r->rows.lanes) * r->rows.lanes;
    if (r->chunk) r->chunks = ceil_divide(r->rows.size, r->chunk);
    if (r->chunks < 1) r->chunks = 1;
}

static tp_status run_reduce(const tp_step *step, tp_run *run)
{
    reduction r = {
        .op = (tp_op)step->op, .calc = (tp_dtype)step->calc, .reduced = (tp_dtype)step->reduced};
    tp_cuda_args args;
    char *partial = NULL;
    tp_cuda_rows_make(&r.rows, step, run, 32);
    choose_chunks(&r);
    if (r.chunks > 1) {
        partial = tp_cuda_scratch(run, (size_t)(r.rows.count * r.chunks) * 16);
        if (!partial) return tp_cuda_status();
    }
    r.groups = ceil_divide(r.rows.count, r.rows.columns) * r.chunks;
    begin_kernel(&args, run, &r, partial);
    add_accumulator(args.text, &r);
    add_first(args.text, &r);
    TRY(tp_cuda_launch_args(run, "reduce",
                            tp_cuda_blocks(r.groups * r.rows.threads, r.rows.threads),
                            r.rows.threads, &args));
    if (r.chunks <= 1) return TP_OK;
    begin_kernel(&args, run, &r, partial);
    add_accumulator(args.text, &r);
    add_second(args.text, &r);
    return tp_cuda_launch_args(run, "reduce_chunks",
                               tp_cuda_blocks(r.rows.count * 32, r.rows.threads), r.rows.threads,
                               &args);
}

static const tp_kernel reduce_kernel = {"cuda_reduce", NULL, run_reduce, NULL};
const tp_kernel *const tp_cuda_reduce_kernels[] = {&reduce_kernel, NULL};
