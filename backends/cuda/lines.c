/* Softmax and layer norm: a row at a time. Its values stay in registers where there is room for
 * them, so that a row is read once and written once; longer rows are read again for each pass. */
#include "rows.h"

#include <stdio.h>

/* Values that a thread keeps. */
#define MOST_KEPT 16

typedef struct line {
    tp_cuda_rows rows;
    tp_dtype calc;
    const char *type, *tag; /* of its arithmetic */
    int kept;               /* values of a row that a thread keeps, 0: none */
} line;

static void prepare(const tp_step *step, const tp_run *run, line *l)
{
    int64_t size = 1;
    for (int d = 0; d < step->domain.ndim; d++)
        size *= step->axes >> d & 1U ? step->domain.shape[d] : 1;
    tp_cuda_rows_make(&l->rows, step, run, size > 512 ? 256 : 32);
    l->calc = (tp_dtype)step->calc;
    l->type = tp_cuda_value_type(l->calc);
    l->tag = tp_cuda_tag(l->calc);
    int64_t each = l->rows.size / l->rows.lanes + (l->rows.size % l->rows.lanes != 0);
    l->kept = 1;
    while (l->kept < each && l->kept <= MOST_KEPT) l->kept *= 2;
    if (l->kept > MOST_KEPT) l->kept = 0;
}

/* ---- Loops over the elements of a row -----------------------------------------------------------
 */

static void open_loop(tp_text *text, const line *l)
{
    if (l->kept)
        tp_text_add(text,
                    "    TP_UNROLL\n    for (int e = 0; e < %d; e++) {\n"
                    "    int64_t k = lane + (int64_t)e * %d;\n"
                    "    if (row < arg.rows && k < arg.size) {\n",
                    l->kept, l->rows.lanes);
    else
        tp_text_add(
            text, "    for (int64_t k = lane; row < arg.rows && k < arg.size; k += %d) {\n    {\n",
            l->rows.lanes);
}

static void close_loop(tp_text *text)
{
    tp_text_add(text, "    }\n    }\n");
}

/* v, the value of element k: read, and kept, by the first loop. */
static void add_value(tp_text *text, const line *l, bool first)
{
    if (first || !l->kept) {
        tp_cuda_rows_add_value(text, &l->rows);
        tp_text_add(text, "    %s v = v%d;\n", l->type, l->rows.step->prologue.result);
        if (l->kept) tp_text_add(text, "    x[e] = v;\n");
        return;
    }
    tp_cuda_add_offsets(text, &l->rows.reduced, l->rows.narrow, "r", "k", "r",
                        (1U << l->rows.reduced.count) - 1);
    tp_text_add(text, "    %s v = x[e];\n", l->type);
}

static void add_store(tp_text *text, const line *l, const char *value)
{
    tp_text_add(text, "    arg.x0[b0 + r0] = ");
    tp_cuda_add_stored(text, l->rows.dtype[0], value);
    tp_text_add(text, ";\n");
}

/* The kernel up to its first loop. */
static void open_kernel(tp_text *text, const line *l, const char *name)
{
    int columns = l->rows.columns;
    tp_text_add(text, "TP_KERNEL(%s, Args)\n{\n    TP_SHARED(Acc, part, %d);\n", name,
                l->rows.threads);
    tp_cuda_rows_add_head(text, &l->rows);
    tp_text_add(text, "    int first = %s;\n", l->rows.across ? "column" : "tp_thread_x - lane");
    tp_text_add(text,
                "    for (int64_t g = tp_block_x; g * %d < arg.rows; g += tp_grid_dim) {\n"
                "    int64_t row = g * %d + column, at = row < arg.rows ? row : 0;\n",
                columns, columns);
    tp_cuda_add_offsets(text, &l->rows.kept, l->rows.narrow, "k", "at", "b",
                        (1U << l->rows.kept.count) - 1);
    if (l->kept) tp_text_add(text, "    %s x[%d];\n", l->type, l->kept);
}

/* All of a row's lanes get its joined accumulator: a. */
static void add_joined(tp_text *text, const line *l)
{
    tp_text_add(text, "    part[tp_thread_x] = a;\n");
    tp_cuda_rows_add_tree(text, &l->rows, "part", "join");
    tp_text_add(text, "    a = part[first];\n    tp_sync();\n");
}

static tp_status launch(const line *l, tp_run *run, const char *name, const tp_cuda_args *args)
{
    int64_t groups = l->rows.count / l->rows.columns + (l->rows.count % l->rows.columns != 0);
    if (!l->rows.size) groups = 0;
    return tp_cuda_launch_args(run, name, tp_cuda_blocks(groups * l->rows.threads, l->rows.threads),
                               l->rows.threads, args);
}

/* ---- Softmax
 * --------------------------------------------------------------------------------------- */

/* The largest value m and s + .. = sum of e^(x - m), compensated by c; -inf adds nothing. */
static void add_softmax_accumulator(tp_text *text, const line *l)
{
    const char *t = l->type, *tag = l->tag;
    tp_text_add(text,
                "typedef struct Acc { %s m, s, c; } Acc;\n"
                "TP_FN void start(Acc *a) { a->m = -INFINITY; a->s = 0; a->c = 0; }\n"
                "TP_FN void plus(Acc *a, %s v)\n{\n"
                "    %s y = v - a->c, t = a->s + y;\n"
                "    a->c = t - t == 0 ? (t - a->s) - y : 0;\n    a->s = t;\n}\n",
                t, t, t);
    tp_text_add(text,
                "TP_FN void raise(Acc *a, %s m)\n{\n"
                "    if (m > a->m) {\n"
                "        %s f = a->m == -INFINITY ? 0 : m_exp_%s(a->m - m);\n"
                "        a->s *= f;\n        a->c *= f;\n        a->m = m;\n    }\n}\n",
                t, t, tag);
    tp_text_add(text,
                "TP_FN void add(Acc *a, %s v)\n{\n    raise(a, v);\n"
                "    if (v != -INFINITY) plus(a, m_exp_%s(v - a->m));\n}\n",
                t, tag);
    tp_text_add(text,
                "TP_FN void join(Acc *a, const Acc *b)\n{\n    raise(a, b->m);\n"
                "    if (b->m == -INFINITY && b->s == 0) return;\n"
                "    %s f = b->m == a->m ? 1 : m_exp_%s(b->m - a->m);\n"
                "    plus(a, b->s * f);\n    plus(a, -b->c * f);\n}\n\n",
                t, tag);
}

static tp_status run_softmax(const tp_step *step, tp_run *run)
{
    line l;
    tp_cuda_args args;
    prepare(step, run, &l);
    tp_cuda_args_begin(&args, run);
    tp_cuda_rows_add_args(&args, &l.rows);
    tp_cuda_args_end(&args);
    tp_text *text = args.text;
    add_softmax_accumulator(text, &l);
    open_kernel(text, &l, "softmax");
    tp_text_add(text, "    Acc a;\n    start(&a);\n");
    if (l.kept) { /* the largest first: one e^x for each element */
        open_loop(text, &l);
        add_value(text, &l, true);
        tp_text_add(text, "    a.m = m_max_%s(a.m, v);\n", l.tag);
        close_loop(text);
        open_loop(text, &l);
        tp_text_add(text, "    if (x[e] != -INFINITY) plus(&a, m_exp_%s(x[e] - a.m));\n", l.tag);
        close_loop(text);
    } else {
        open_loop(text, &l);
        add_value(text, &l, true);
        tp_text_add(text, "    add(&a, v);\n");
        close_loop(text);
    }
    add_joined(text, &l);
    open_loop(text, &l);
    add_value(text, &l, false);
    if (step->value[0].i)
        tp_text_add(text,
                    "    %s y = a.m == -INFINITY && a.s == 0 ? 0 : m_exp_%s(v - a.m) / a.s;\n",
                    l.type, l.tag);
    else
        tp_text_add(text, "    %s y = m_exp_%s(v - a.m) / a.s;\n", l.type, l.tag);
    add_store(text, &l, "y");
    close_loop(text);
    tp_text_add(text, "    }\n}\n");
    return launch(&l, run, "softmax", &args);
}

static const tp_kernel softmax_kernel = {"cuda_softmax", NULL, run_softmax, NULL};
const tp_kernel *const tp_cuda_softmax_kernels[] = {&softmax_kernel, NULL};

/* ---- Layer norm
 * -------------------------------------------------------------------------------------- */

/* y: z by weight and bias, operands after the prologue's. */
static void add_scale_and_shift(tp_text *text, const line *l)
{
    int operand = l->rows.step->prologue.load_count + 1;
    static const char *const signs[] = {"*", "+"};
    for (int i = 0; i < 2; i++) {
        if (!(l->rows.step->value[1].i >> i & 1)) continue;
        char element[40];
        snprintf(element, sizeof element, "arg.x%d[b%d + r%d]", operand, operand, operand);
        tp_text_add(text, "    y = y %s ", signs[i]);
        tp_cuda_add_loaded(text, l->rows.dtype[operand++], element);
        tp_text_add(text, ";\n");
    }
}

static tp_status run_layer_norm(const tp_step *step, tp_run *run)
{
    line l;
    tp_cuda_args args;
    prepare(step, run, &l);
    tp_cuda_args_begin(&args, run);
    tp_cuda_rows_add_args(&args, &l.rows);
    tp_cuda_arg_real(&args, step->value[0].f, "eps");
    tp_cuda_args_end(&args);
    tp_text *text = args.text;
    tp_cuda_add_sum(text, l.type, true);
    open_kernel(text, &l, "layer_norm");
    tp_text_add(text, "    Acc a;\n    start(&a);\n");
    open_loop(text, &l);
    add_value(text, &l, true);
    tp_text_add(text, "    add(&a, v);\n");
    close_loop(text);
    add_joined(text, &l);
    tp_text_add(text, "    %s mean = a.s / (%s)arg.size;\n    start(&a);\n", l.type, l.type);
    open_loop(text, &l);
    add_value(text, &l, false);
    tp_text_add(text, "    add(&a, (v - mean) * (v - mean));\n");
    close_loop(text);
    add_joined(text, &l);
    tp_text_add(text, "    %s deviation = m_sqrt_%s(a.s / (%s)arg.size + (%s)arg.eps);\n", l.type,
                l.tag, l.type, l.type);
    open_loop(text, &l);
    add_value(text, &l, false);
    tp_text_add(text, "    %s y = (v - mean) / deviation;\n", l.type);
    add_scale_and_shift(text, &l);
    add_store(text, &l, "y");
    close_loop(text);
    tp_text_add(text, "    }\n}\n");
    return launch(&l, run, "layer_norm", &args);
}

static const tp_kernel layer_norm_kernel = {"cuda_layer_norm", NULL, run_layer_norm, NULL};
const tp_kernel *const tp_cuda_layer_norm_kernels[] = {&layer_norm_kernel, NULL};
