/* Sort and argsort. Elements are ordered by key and then by where they stood, which makes every way
 * of sorting stable. Lines of up to 2048 are sorted in shared memory by a bitonic network; longer
 * ones in such pieces, which are then merged in passes over indices in scratch: each element finds
 * its new place by a binary search in the other piece. */
#include "along.h"

#include <stdio.h>

#define THREADS 256
#define PIECE 2048

typedef struct sorting {
    const tp_step *step;
    tp_cuda_space lines; /* operands: out, x */
    int64_t length;
    tp_dtype dtype;
} sorting;

/* before(a, i, b, j): whether key a at i comes before key b at j. */
static void add_order(tp_text *text, const sorting *s)
{
    const char *type = tp_cuda_value_type(s->dtype);
    bool real = tp_dtype_kind_of(s->dtype) == TP_DTYPE_FLOAT;
    const char *less = real ? "b != b ? a == a : a < b" : "a < b";
    tp_text_add(text,
                "TP_FN int less(%s a, %s b)\n{\n    return %s;\n}\n"
                "TP_FN int before(%s a, int64_t i, %s b, int64_t j)\n{\n"
                "    return %s || (!%s && i < j);\n}\n\n",
                type, type, less, type, type, s->step->value[0].i ? "less(b, a)" : "less(a, b)",
                s->step->value[0].i ? "less(a, b)" : "less(b, a)");
}

/* key: element `index` of the line whose offset in x is o1. */
static void add_key(tp_text *text, const sorting *s, const char *name, const char *index)
{
    char element[80];
    snprintf(element, sizeof element, "arg.x[o1 + (%s) * arg.in]", index);
    tp_text_add(text, "    %s = ", name);
    tp_cuda_add_loaded(text, s->dtype, element);
    tp_text_add(text, ";\n");
}

/* y[at] of the line whose offset in out is o0: the element or its index. */
static void add_result(tp_text *text, const sorting *s, const char *at, const char *index)
{
    if (s->step->op == TP_OP_SORT)
        tp_text_add(text, "    arg.y[o0 + (%s) * arg.out] = arg.x[o1 + (%s) * arg.in];\n", at,
                    index);
    else
        tp_text_add(text, "    arg.y[o0 + (%s) * arg.out] = (int64_t)(%s);\n", at, index);
}

static void begin(tp_cuda_args *args, tp_run *run, const sorting *s, char *from, char *to,
                  int64_t width)
{
    const tp_step *step = s->step;
    const tp_operand *x = &step->operand[0];
    tp_cuda_args_begin(args, run);
    tp_cuda_arg_pointer(args, tp_cuda_storage_type((tp_dtype)step->out.dtype),
                        tp_operand_at(&step->out, run), "y");
    tp_cuda_arg_pointer(args, tp_cuda_storage_type(s->dtype), tp_operand_at(x, run), "x");
    tp_cuda_arg_pointer(args, "uint32_t", from, "from");
    tp_cuda_arg_pointer(args, "uint32_t", to, "to");
    tp_cuda_arg_integer(args, s->lines.total, "lines");
    tp_cuda_arg_integer(args, s->length, "length");
    tp_cuda_arg_integer(args, width, "width");
    tp_cuda_arg_integer(args, tp_cuda_axis_stride(&step->out.view, step->axis), "out");
    tp_cuda_arg_integer(args, tp_cuda_axis_stride(&x->view, step->axis), "in");
    tp_cuda_args_space(args, &s->lines, false, "");
    tp_cuda_args_end(args);
    add_order(args->text, s);
}

/* ---- Pieces in shared memory
 * ----------------------------------------------------------------------- */

/* 2^n >= what is in a piece. */
static int network_size(int64_t length)
{
    int size = 2;
    while (size < length && size < PIECE) size *= 2;
    return size;
}

/* Sorts each piece of each line; the results go to out (whole lines) or, as indices, to arg.to. */
static tp_status sort_pieces(tp_run *run, const sorting *s, char *to)
{
    tp_cuda_args args;
    int size = network_size(s->length);
    int64_t pieces = (s->length + size - 1) / size;
    begin(&args, run, s, NULL, to, size);
    tp_text *text = args.text;
    const char *type = tp_cuda_value_type(s->dtype);
    tp_text_add(text,
                "TP_KERNEL(sort, Args)\n{\n"
                "    TP_SHARED(%s, key, %d);\n    TP_SHARED(uint32_t, index, %d);\n"
                "    int64_t pieces = (arg.length + %d) / %d;\n"
                "    for (int64_t u = tp_block_x; u < arg.lines * pieces; u += tp_grid_dim) {\n"
                "    int64_t line = u / pieces, first = (u - line * pieces) * %d;\n"
                "    int64_t left = arg.length - first, n = left < %d ? left : %d;\n",
                type, size, size, size - 1, size, size, size, size);
    tp_cuda_add_offsets(text, &s->lines, false, "", "line", "o", 3);
    tp_text_add(text,
                "    for (int64_t i = tp_thread_x; i < %d; i += %d) {\n"
                "    index[i] = i < n ? (uint32_t)(first + i) : 0xFFFFFFFFU;\n    if (i < n) {\n",
                size, THREADS);
    add_key(text, s, "key[i]", "first + i");
    /* What fills the network up comes last: its index says so. */
    tp_text_add(
        text,
        "    }\n    }\n    tp_sync();\n"
        "    for (int run = 2; run <= %d; run *= 2)\n"
        "    for (int step = run / 2; step > 0; step /= 2) {\n"
        "    for (int t = tp_thread_x; t < %d; t += %d) {\n"
        "        int i = t / step * 2 * step + t %% step, j = i + step, up = (i & run) == 0;\n"
        "        uint32_t a = index[i], b = index[j];\n"
        "        int ordered = b == 0xFFFFFFFFU || (a != 0xFFFFFFFFU && before(key[i], a, key[j], "
        "b));\n"
        "        if (ordered != up) {\n"
        "            %s k = key[i];\n            key[i] = key[j];\n            key[j] = k;\n"
        "            index[i] = b;\n            index[j] = a;\n        }\n"
        "    }\n    tp_sync();\n    }\n"
        "    for (int64_t i = tp_thread_x; i < n; i += %d) {\n",
        size, size / 2, THREADS, type, THREADS);
    if (to)
        tp_text_add(text, "    arg.to[line * arg.length + first + i] = index[i];\n");
    else
        add_result(text, s, "i", "(int64_t)index[i]");
    tp_text_add(text, "    }\n    tp_sync();\n    }\n}\n");
    return tp_cuda_launch_args(
        run, "sort", tp_cuda_blocks(s->lines.total * pieces * THREADS, THREADS), THREADS, &args);
}

/* ---- Merging
 * ------------------------------------------------------------------------------------------ */

/* Pairs of sorted runs of `width` indices become runs of twice as many; the last pass writes out.
 */
static tp_status merge(tp_run *run, const sorting *s, char *from, char *to, int64_t width)
{
    tp_cuda_args args;
    bool last = 2 * width >= s->length;
    begin(&args, run, s, from, to, width);
    tp_text *text = args.text;
    const char *type = tp_cuda_value_type(s->dtype);
    tp_text_add(text, "TP_KERNEL(sort_merge, Args)\n{\n"
                      "    for (int64_t u = tp_block_x * tp_block_dim + tp_thread_x; "
                      "u < arg.lines * arg.length; u += tp_grid_dim * tp_block_dim) {\n"
                      "    int64_t line = u / arg.length, i = u - line * arg.length;\n");
    tp_cuda_add_offsets(text, &s->lines, false, "", "line", "o", 3);
    tp_text_add(
        text,
        "    int64_t pair = i / (2 * arg.width) * 2 * arg.width, middle = pair + arg.width;\n"
        "    int64_t end = middle + arg.width, low, high, mine = arg.from[u], other;\n"
        "    if (middle > arg.length) middle = arg.length;\n"
        "    if (end > arg.length) end = arg.length;\n"
        "    %s a, b;\n",
        type);
    add_key(text, s, "a", "mine");
    tp_text_add(text,
                "    low = i < middle ? middle : pair;\n    high = i < middle ? end : middle;\n"
                "    int64_t start = low;\n    while (low < high) {\n"
                "        int64_t half = (low + high) / 2;\n"
                "        other = arg.from[line * arg.length + half];\n");
    add_key(text, s, "b", "other");
    tp_text_add(text,
                "        if (before(b, other, a, mine)) low = half + 1; else high = half;\n    }\n"
                "    int64_t place = pair + (i < middle ? i - pair : i - middle) + low - start;\n");
    if (last)
        add_result(text, s, "place", "mine");
    else
        tp_text_add(text, "    arg.to[line * arg.length + place] = (uint32_t)mine;\n");
    tp_text_add(text, "    }\n}\n");
    return tp_cuda_launch_args(run, "sort_merge",
                               tp_cuda_blocks(s->lines.total * s->length, THREADS), THREADS, &args);
}

static tp_status sort_long_lines(tp_run *run, const sorting *s)
{
    size_t bytes = (size_t)(s->lines.total * s->length) * sizeof(uint32_t);
    char *from = tp_cuda_scratch(run, bytes), *to = from ? tp_cuda_scratch(run, bytes) : NULL;
    if (!to) return tp_cuda_status();
    TRY(sort_pieces(run, s, from));
    for (int64_t width = PIECE; width < s->length; width *= 2) {
        TRY(merge(run, s, from, to, width));
        char *old = from;
        from = to;
        to = old;
    }
    return TP_OK;
}

static tp_status run_sort(const tp_step *step, tp_run *run)
{
    const tp_view *view[] = {&step->out.view, &step->operand[0].view};
    sorting s = {.step = step,
                 .length = step->domain.shape[step->axis],
                 .dtype = (tp_dtype)step->operand[0].dtype};
    tp_cuda_space_make(&s.lines, &step->domain, ~(1U << step->axis), 2, view, true);
    if (!s.length || !s.lines.total) return TP_OK;
    if (s.length >= UINT32_MAX)
        return tp_cuda_fail(TP_E_UNAVAILABLE,
                            "a line of %lld elements cannot be sorted: at most 2^32-2",
                            (long long)s.length);
    return s.length <= PIECE ? sort_pieces(run, &s, NULL) : sort_long_lines(run, &s);
}

static const tp_kernel sort_kernel = {"cuda_sort", NULL, run_sort, NULL};
const tp_kernel *const tp_cuda_sort_kernels[] = {&sort_kernel, NULL};
