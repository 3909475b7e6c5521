/* A plan as text: buffers, steps with their calls, the copy ledger. */
#include "plan_print.h"

#include <string.h>

static void add_program_ops(tp_text *text, const tp_program *program, bool *first)
{
    for (int i = 0; i < program->insn_count; i++) {
        if (program->insn[i].op == TP_OP_FULL) continue;
        tp_text_add(text, *first ? "%s" : ", %s", tp_op_info_of((tp_op)program->insn[i].op)->name);
        *first = false;
    }
}

void tp_plan_add_ops(tp_text *text, const tp_step *step)
{
    bool first = true;
    add_program_ops(text, &step->prologue, &first);
    if (step->kind != TP_STEP_EWISE) {
        tp_text_add(text, first ? "%s" : ", %s", tp_op_info_of((tp_op)step->op)->name);
        first = false;
    }
    add_program_ops(text, &step->epilogue, &first);
    if (first) tp_text_add(text, step->prologue.insn_count ? "full" : "copy");
}

void tp_plan_add_name(tp_text *text, const tp_tensor *x)
{
    if (x->name)
        tp_text_add_escaped(text, x->name);
    else
        tp_text_add(text, "%s", x->state == TP_EVALUATED ? "data" : tp_op_name(x));
}

void tp_plan_add_bytes(tp_text *text, int64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    if (bytes < 1024) {
        tp_text_add(text, "%lld bytes", (long long)bytes);
        return;
    }
    int unit = 0;
    int64_t scale = 1024;
    while (unit < 3 && bytes / scale >= 1024) {
        scale *= 1024;
        unit++;
    }
    /* Tenths by integers: the same in every locale. */
    int64_t tenths = bytes / scale * 10 + bytes % scale * 10 / scale;
    tp_text_add(text, "%lld.%lld %s", (long long)(tenths / 10), (long long)(tenths % 10),
                units[unit]);
}

void tp_plan_add_verdict(tp_text *text, const tp_plan *plan)
{
    const tp_plan_summary *sum = &plan->summary;
    int64_t saved = 0;
    for (int i = 0; i < plan->copy_count; i++)
        saved += plan->copy[i].kept ? 0 : plan->copy[i].bytes;
    tp_text_add(text, "%d kernel%s, %d cop%s", sum->kernels, sum->kernels == 1 ? "" : "s",
                sum->copies, sum->copies == 1 ? "y" : "ies");
    if (!sum->removed_copies) return;
    tp_text_add(text, " (%d removed, ", sum->removed_copies);
    tp_plan_add_bytes(text, saved);
    tp_text_add(text, " not written)");
}

/* What a tensor's bytes go back to, through views and copies. */
static const tp_tensor *origin(const tp_tensor *x)
{
    while (x->in_count && (tp_tensor_is_view(x) || x->op == TP_OP_CONTIGUOUS) &&
           x->state != TP_EVALUATED)
        x = x->in[0];
    return x;
}

int tp_plan_absorber(const tp_plan *plan, const tp_copy *copy)
{
    const tp_tensor *source = origin(copy->tensor);
    bool producer = copy->reason == TP_REASON_SUNK_LDC || copy->reason == TP_REASON_FUSED;
    for (int i = 0; i < plan->step_count; i++) {
        const tp_step *step = &plan->step[i];
        if (producer && step->asked == source) return i;
        for (int k = 0; k < step->operand_count && !producer; k++) {
            if (plan->buffer[step->operand[k].buffer].tensor == source) return i;
        }
    }
    return -1;
}

/* ---- The text --------------------------------------------------------------------------- */

static void add_buffer(tp_text *text, const tp_plan *plan, int i)
{
    static const char *const kinds[] = {"leaf", "output", "temp"};
    const tp_buffer *b = &plan->buffer[i];
    tp_text_add(text, "buffer %d: %s ", i, kinds[b->kind]);
    tp_plan_add_name(text, b->tensor);
    tp_text_add(text, " %lld bytes", (long long)b->size_bytes);
    if (b->alias >= 0)
        tp_text_add(text, ", in buffer %d", b->alias);
    else if (b->kind == TP_BUFFER_TEMP)
        tp_text_add(text, ", at %lld", (long long)b->offset);
    tp_text_add(text, "\n");
}

static void add_operand(tp_text *text, const tp_operand *o)
{
    tp_text_add(text, "b%d %s ", o->buffer, tp_dtype_name((tp_dtype)o->dtype));
    tp_text_add_view(text, &o->view);
}

static void add_step(tp_text *text, const tp_step *step, int i)
{
    tp_text_add(text, "step %d: %s (", i, step->kernel->name);
    tp_plan_add_ops(text, step);
    tp_text_add(text, ")%s\n", step->in_place ? ", in place" : "");
    if (step->kernel->describe) {
        char call[256];
        step->kernel->describe(step, call, sizeof call);
        tp_text_add(text, "  call %s\n", call);
    }
    for (int k = 0; k < step->operand_count; k++) {
        tp_text_add(text, "  in   ");
        add_operand(text, &step->operand[k]);
        tp_text_add(text, "\n");
    }
    tp_text_add(text, "  out  ");
    add_operand(text, &step->out);
    tp_text_add(text, "\n");
}

static void add_copy(tp_text *text, const tp_copy *copy)
{
    tp_text_add(text, "copy ");
    tp_plan_add_name(text, copy->tensor);
    tp_text_add(text, " %lld bytes: %s %s", (long long)copy->bytes, copy->kept ? "kept" : "removed",
                tp_reason_name(copy->reason));
    if (copy->dims[0] >= 0 && copy->kept)
        tp_text_add(text, " (dims %d and %d)", copy->dims[0], copy->dims[1]);
    tp_text_add(text, ": %s\n", copy->note);
}

int64_t tp_plan_text(const tp_plan *plan, char *at, size_t size)
{
    tp_text text = {.at = at, .size = size};
    if (!plan) return -1;
    tp_text_add(&text, "plan: ");
    tp_plan_add_verdict(&text, plan);
    tp_text_add(&text, "\n");
    for (int i = 0; i < plan->buffer_count; i++) add_buffer(&text, plan, i);
    for (int i = 0; i < plan->step_count; i++) add_step(&text, &plan->step[i], i);
    for (int i = 0; i < plan->copy_count; i++) add_copy(&text, &plan->copy[i]);
    return text.length;
}
