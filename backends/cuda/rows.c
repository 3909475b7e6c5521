/* Rows: see rows.h. */
#include "rows.h"

#include <stdio.h>

static int64_t inner_stride(const tp_cuda_space *s, int operand)
{
    return s->ndim ? s->stride[operand][s->ndim - 1] : 0;
}

/* Across: at least 16 rows side by side, or 2 where a row takes 256 threads. */
static void choose_shape(tp_cuda_rows *r, int lanes)
{
    r->across = r->kept.count > 1 && inner_stride(&r->kept, 1) == 1 && r->size > 1 &&
                inner_stride(&r->reduced, 1) != 1 && r->count > 1;
    r->lanes = lanes;
    r->threads = r->across ? 512 : 256;
    r->columns = r->threads / r->lanes;
}

void tp_cuda_rows_make(tp_cuda_rows *r, const tp_step *step, const tp_run *run, int lanes)
{
    const tp_view *view[TP_CUDA_OPERANDS] = {&step->out.view};
    tp_cuda_space whole;
    int count = step->operand_count + 1;
    r->step = step;
    r->at[0] = tp_operand_at(&step->out, run);
    r->dtype[0] = (tp_dtype)step->out.dtype;
    for (int i = 1; i < count; i++) {
        const tp_operand *o = &step->operand[i - 1];
        view[i] = &o->view;
        r->at[i] = tp_operand_at(o, run);
        r->dtype[i] = (tp_dtype)o->dtype;
    }
    tp_cuda_space_make(&r->kept, &step->domain, ~step->axes, count, view, true);
    tp_cuda_space_make(&r->reduced, &step->domain, step->axes, count, view, false);
    tp_cuda_space_make(&whole, &step->domain, ~0U, count, view, false);
    r->narrow = tp_cuda_space_is_narrow(&whole) && tp_cuda_space_is_narrow(&r->kept);
    r->count = r->kept.total;
    r->size = r->reduced.total;
    choose_shape(r, lanes);
}

void tp_cuda_rows_add_args(tp_cuda_args *args, const tp_cuda_rows *r)
{
    for (int i = 0; i < r->kept.count; i++) {
        char type[40];
        snprintf(type, sizeof type, "%s%s", i ? "const " : "", tp_cuda_storage_type(r->dtype[i]));
        tp_cuda_arg_pointer(args, type, r->at[i], "x%d", i);
    }
    tp_cuda_arg_integer(args, r->count, "rows");
    tp_cuda_arg_integer(args, r->size, "size");
    tp_cuda_args_space(args, &r->kept, r->narrow, "k");
    tp_cuda_args_space(args, &r->reduced, r->narrow, "r");
}

void tp_cuda_rows_add_head(tp_text *text, const tp_cuda_rows *r)
{
    int by = r->across ? r->columns : r->lanes;
    tp_text_add(text, "    int %s = tp_thread_x %% %d, %s = tp_thread_x / %d;\n",
                r->across ? "column" : "lane", by, r->across ? "lane" : "column", by);
}

void tp_cuda_rows_add_begin(tp_text *text, const tp_cuda_rows *r)
{
    tp_cuda_add_offsets(text, &r->kept, r->narrow, "k", "row", "b", (1U << r->kept.count) - 1);
}

void tp_cuda_rows_add_value(tp_text *text, const tp_cuda_rows *r)
{
    const tp_program *program = &r->step->prologue;
    tp_dtype dtype[TP_PROGRAM_LOADS + TP_PROGRAM_INSNS];
    tp_cuda_add_offsets(text, &r->reduced, r->narrow, "r", "k", "r", (1U << r->reduced.count) - 1);
    for (int i = 0; i < program->load_count; i++) {
        char element[40];
        snprintf(element, sizeof element, "arg.x%d[b%d + r%d]", i + 1, i + 1, i + 1);
        dtype[i] = r->dtype[i + 1];
        tp_text_add(text, "    %s v%d = ", tp_cuda_value_type(dtype[i]), i);
        tp_cuda_add_loaded(text, dtype[i], element);
        tp_text_add(text, ";\n");
    }
    tp_cuda_add_program(text, program, "v", dtype);
}

void tp_cuda_rows_add_tree(tp_text *text, const tp_cuda_rows *r, const char *part, const char *join)
{
    tp_text_add(text,
                "    tp_sync();\n"
                "    for (int h = %d; h > 0; h /= 2) {\n"
                "        if (lane < h) %s(&%s[tp_thread_x], &%s[tp_thread_x + h * %d]);\n"
                "        tp_sync();\n    }\n",
                r->lanes / 2, join, part, part, r->across ? r->columns : 1);
}

void tp_cuda_add_sum(tp_text *text, const char *type, bool is_float)
{
    tp_text_add(text,
                "typedef struct Acc { %s s, c; } Acc;\n"
                "TP_FN void start(Acc *a) { a->s = 0; a->c = 0; }\n"
                "TP_FN void add(Acc *a, %s v)\n{\n",
                type, type);
    if (is_float)
        tp_text_add(text,
                    "    %s y = v - a->c, t = a->s + y;\n"
                    "    a->c = t - t == 0 ? (t - a->s) - y : 0;\n    a->s = t;\n}\n",
                    type);
    else
        tp_text_add(text, "    a->s += v;\n}\n");
    tp_text_add(text, "TP_FN void join(Acc *a, const Acc *b) { add(a, b->s); add(a, -b->c); }\n\n");
}
