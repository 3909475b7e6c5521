/* Running sums, products and maxima. Short lines, or many: a thread goes along each. Else a block
 * has a line: each thread sums up a stretch, the stretches' sums run, then each goes along its own
 * once more. Floats are added and multiplied in double, and what additions lose is kept apart.
 * Which way is taken depends on sizes only. */
#include "along.h"

#include <stdio.h>

#define THREADS 256

static bool is_float(tp_dtype dtype)
{
    return tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT;
}

static bool is_compensated(const tp_step *step)
{
    return step->op == TP_OP_CUMSUM && is_float((tp_dtype)step->calc);
}

/* Acc, the value v + c of what was joined so far (c: 0 but for compensated sums), and join(a, v).
 */
static void add_accumulator(tp_text *text, const tp_step *step)
{
    tp_dtype calc = (tp_dtype)step->calc;
    const char *type = is_float(calc) ? "double" : "uint64_t";
    if (step->op == TP_OP_CUMMAX) type = tp_cuda_value_type(calc);
    tp_text_add(text,
                "typedef struct Acc { %s v, c; int some; } Acc;\n"
                "TP_FN void start(Acc *a) { a->v = 0; a->c = 0; a->some = 0; }\n"
                "TP_FN void join(Acc *a, %s v)\n{\n",
                type, type);
    if (is_compensated(step))
        tp_text_add(text,
                    "    double t = a->v + v;\n"
                    "    double lost = fabs(a->v) >= fabs(v) ? (a->v - t) + v : (v - t) + a->v;\n"
                    "    if (a->some && t - t == 0) a->c += lost;\n");
    tp_text_add(text, "    a->v = !a->some ? v : ");
    if (step->op == TP_OP_CUMMAX)
        tp_text_add(text, "m_max_%s(a->v, v)", tp_cuda_tag(calc));
    else
        tp_text_add(text, step->op == TP_OP_CUMSUM ? "a->v + v" : "a->v * v");
    tp_text_add(text, ";\n    a->some = 1;\n}\n\n");
}

/* Joins element k to a. */
static void add_join(tp_text *text, const tp_step *step)
{
    tp_dtype dtype = (tp_dtype)step->operand[0].dtype, calc = (tp_dtype)step->calc;
    tp_text_add(text, "    %s x = ", tp_cuda_value_type(dtype));
    tp_cuda_add_loaded(text, dtype, "arg.x[o1 + k * arg.in]");
    tp_text_add(text, ";\n    %s v = ", tp_cuda_value_type(calc));
    tp_cuda_add_converted(text, dtype, calc, "x");
    tp_text_add(text, ";\n    join(&a, v);\n");
}

static void add_store(tp_text *text, const tp_step *step)
{
    tp_dtype out = (tp_dtype)step->out.dtype, calc = (tp_dtype)step->calc;
    tp_dtype from = step->op == TP_OP_CUMMAX ? calc : is_float(calc) ? TP_F64 : calc;
    tp_text_add(text, "    %s f = (%s)%s;\n    %s w = ", tp_cuda_value_type(from),
                tp_cuda_value_type(from), is_compensated(step) ? "(a.v + a.c)" : "a.v",
                tp_cuda_value_type(out));
    tp_cuda_add_converted(text, from, out, "f");
    tp_text_add(text, ";\n    arg.y[o0 + k * arg.out] = ");
    tp_cuda_add_stored(text, out, "w");
    tp_text_add(text, ";\n");
}

static void add_by_threads(tp_text *text, const tp_step *step, const tp_cuda_space *s)
{
    tp_text_add(text,
                "TP_KERNEL(scan, Args)\n{\n"
                "    for (int64_t u = tp_block_x * tp_block_dim + tp_thread_x; u < arg.lines; "
                "u += tp_grid_dim * tp_block_dim) {\n");
    tp_cuda_add_offsets(text, s, false, "", "u", "o", 3);
    tp_text_add(text, "    Acc a;\n    start(&a);\n"
                      "    for (int64_t k = 0; k < arg.length; k++) {\n");
    add_join(text, step);
    add_store(text, step);
    tp_text_add(text, "    }\n    }\n}\n");
}

static void add_by_blocks(tp_text *text, const tp_step *step, const tp_cuda_space *s)
{
    tp_text_add(text,
                "TP_KERNEL(scan_line, Args)\n{\n    TP_SHARED(Acc, part, %d);\n"
                "    for (int64_t u = tp_block_x; u < arg.lines; u += tp_grid_dim) {\n",
                THREADS);
    tp_cuda_add_offsets(text, s, false, "", "u", "o", 3);
    tp_text_add(text,
                "    int64_t each = (arg.length + %d) / %d, begin = each * tp_thread_x, end = "
                "begin + each;\n"
                "    if (end > arg.length) end = arg.length;\n"
                "    Acc a;\n    start(&a);\n"
                "    for (int64_t k = begin; k < end; k++) {\n",
                THREADS - 1, THREADS);
    add_join(text, step);
    tp_text_add(text,
                "    }\n    part[tp_thread_x] = a;\n    tp_sync();\n"
                "    if (tp_thread_x == 0) {\n        Acc sum;\n        start(&sum);\n"
                "        for (int i = 0; i < %d; i++) {\n"
                "            Acc next = part[i];\n            part[i] = sum;\n"
                "            if (next.some) join(&sum, next.v);\n            sum.c += next.c;\n    "
                "    }\n    }\n    tp_sync();\n"
                "    a = part[tp_thread_x];\n    for (int64_t k = begin; k < end; k++) {\n",
                THREADS);
    add_join(text, step);
    add_store(text, step);
    tp_text_add(text, "    }\n    tp_sync();\n    }\n}\n");
}

static tp_status run_scan(const tp_step *step, tp_run *run)
{
    const tp_operand *x = &step->operand[0];
    const tp_view *view[] = {&step->out.view, &x->view};
    int64_t length = step->domain.shape[step->axis];
    tp_cuda_space s;
    tp_cuda_args args;
    tp_cuda_space_make(&s, &step->domain, ~(1U << step->axis), 2, view, true);
    int64_t lines = length ? s.total : 0;
    tp_cuda_args_begin(&args, run);
    tp_cuda_arg_pointer(&args, tp_cuda_storage_type((tp_dtype)step->out.dtype),
                        tp_operand_at(&step->out, run), "y");
    tp_cuda_arg_pointer(&args, tp_cuda_storage_type((tp_dtype)x->dtype), tp_operand_at(x, run),
                        "x");
    tp_cuda_arg_integer(&args, lines, "lines");
    tp_cuda_arg_integer(&args, length, "length");
    tp_cuda_arg_integer(&args, tp_cuda_axis_stride(&step->out.view, step->axis), "out");
    tp_cuda_arg_integer(&args, tp_cuda_axis_stride(&x->view, step->axis), "in");
    tp_cuda_args_space(&args, &s, false, "");
    tp_cuda_args_end(&args);
    add_accumulator(args.text, step);
    if (length <= 64 || lines >= 4096) {
        add_by_threads(args.text, step, &s);
        return tp_cuda_launch_args(run, "scan", tp_cuda_blocks(lines, THREADS), THREADS, &args);
    }
    add_by_blocks(args.text, step, &s);
    return tp_cuda_launch_args(run, "scan_line", tp_cuda_blocks(lines * THREADS, THREADS), THREADS,
                               &args);
}

static const tp_kernel scan_kernel = {"cuda_scan", NULL, run_scan, NULL};
const tp_kernel *const tp_cuda_scan_kernels[] = {&scan_kernel, NULL};
