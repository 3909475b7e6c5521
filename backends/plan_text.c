/* A plan as text: buffers, steps with their calls, results, the copy ledger. Nodes are called as
 * in the ledger's notes: by their names, or "%12 matmul". */
#include "plan_print.h"

/* More ops of a fused step are counted, not named. */
#define MOST_OPS 6

/* One op of a step, the i-th. */
static void add_op(tp_text *text, int *i, tp_op op)
{
    if (*i < MOST_OPS) tp_text_add(text, *i ? ", %s" : "%s", tp_op_info_of(op)->name);
    ++*i;
}

static void add_program_ops(tp_text *text, const tp_program *program, int *i)
{
    for (int k = 0; k < program->insn_count; k++) {
        if (program->insn[k].op != TP_OP_FULL) add_op(text, i, (tp_op)program->insn[k].op);
    }
}

void tp_plan_add_ops(tp_text *text, const tp_step *step)
{
    int i = 0;
    add_program_ops(text, &step->prologue, &i);
    if (step->kind != TP_STEP_EWISE) add_op(text, &i, (tp_op)step->op);
    add_program_ops(text, &step->epilogue, &i);
    if (i > MOST_OPS) tp_text_add(text, " and %d more", i - MOST_OPS);
    if (i == 0) tp_text_add(text, step->prologue.insn_count ? "full" : "copy");
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
    tp_text_add_bytes(text, saved);
    tp_text_add(text, " not written)");
}

tp_reason tp_plan_refusal(const tp_plan *plan, const tp_step *step)
{
    tp_reason why = TP_REASON_NONE;
    if (step->kind == TP_STEP_MATMUL) tp_backend_choose(plan->backend, step, NULL, &why);
    bool form = why == TP_REASON_GEMM_LD || why == TP_REASON_GEMM_NO_UNIT_STRIDE;
    return form ? why : TP_REASON_NONE;
}

void tp_plan_add_time(tp_text *text, double time_ns)
{
    int64_t us = (int64_t)(time_ns / 1000);
    if (us < 1000)
        tp_text_add(text, "%lld us", (long long)us);
    else
        tp_text_add(text, "%lld.%lld ms", (long long)(us / 1000), (long long)(us % 1000 / 100));
}

double tp_plan_time_ns(const tp_plan *plan)
{
    double sum = 0;
    for (int i = 0; i < plan->step_count; i++) sum += plan->step[i].time_ns;
    return sum;
}

/* ---- The text --------------------------------------------------------------------------- */

static void add_name(tp_text *text, const tp_tensor *x)
{
    if (x->name)
        tp_text_add_escaped(text, x->name);
    else
        tp_text_add(text, "%%%lld %s", (long long)x->id, tp_op_name(x));
}

static void add_buffer(tp_text *text, const tp_plan *plan, int i)
{
    static const char *const kinds[] = {"leaf", "output", "temp"};
    const tp_buffer *b = &plan->buffer[i];
    tp_text_add(text, "buffer %d: %s ", i, kinds[b->kind]);
    add_name(text, b->tensor);
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
    tp_text_add(text, "\n");
}

static void add_step(tp_text *text, const tp_plan *plan, int i)
{
    const tp_step *step = &plan->step[i];
    tp_text_add(text, "step %d: %s (", i, step->kernel->name);
    tp_plan_add_ops(text, step);
    tp_text_add(text, ")");
    if (step->fused > 1) tp_text_add(text, ", %d nodes", step->fused);
    if (step->in_place) tp_text_add(text, ", in place");
    if (step->time_ns > 0) {
        tp_text_add(text, ", ");
        tp_plan_add_time(text, step->time_ns);
    }
    tp_text_add(text, "\n");
    if (step->kernel->describe) {
        char call[256];
        step->kernel->describe(step, call, sizeof call);
        tp_text_add(text, "  call %s\n", call);
    }
    tp_reason why = tp_plan_refusal(plan, step);
    if (why != TP_REASON_NONE)
        tp_text_add(text, "  no BLAS: %s, %s\n", tp_reason_name(why), tp_reason_meaning(why));
    for (int k = 0; k < step->operand_count; k++) {
        tp_text_add(text, "  in   ");
        add_operand(text, &step->operand[k]);
    }
    if (step->into >= 0) tp_text_add(text, "  into b%d\n", step->into);
    tp_text_add(text, "  out  ");
    add_operand(text, &step->out);
}

static void add_delivery(tp_text *text, const tp_delivery *d)
{
    tp_text_add(text, "result ");
    add_name(text, d->tensor);
    tp_text_add(text, ": b%d %s ", d->buffer, tp_dtype_name((tp_dtype)d->tensor->dtype));
    tp_text_add_view(text, &d->view);
    tp_text_add(text, "\n");
}

static void add_copy(tp_text *text, const tp_copy *copy)
{
    tp_text_add(text, "copy ");
    add_name(text, copy->tensor);
    tp_text_add(text, " %lld bytes: %s %s", (long long)copy->bytes, copy->kept ? "kept" : "removed",
                tp_reason_name(copy->reason));
    if (copy->kept && copy->reason == TP_REASON_RESHAPE_NOT_A_VIEW && copy->dims[0] >= 0)
        tp_text_add(text, " (dims %d and %d)", copy->dims[0], copy->dims[1]);
    tp_text_add(text, ": ");
    tp_text_add_escaped(text, copy->note);
    tp_text_add(text, "\n");
}

int64_t tp_plan_text(const tp_plan *plan, char *at, size_t size)
{
    tp_text text = {.at = at, .size = size};
    if (!plan) return -1;
    tp_text_add(&text, "plan: ");
    tp_plan_add_verdict(&text, plan);
    double time_ns = tp_plan_time_ns(plan);
    if (time_ns > 0) {
        tp_text_add(&text, ", ");
        tp_plan_add_time(&text, time_ns);
    }
    tp_text_add(&text, "\n");
    for (int i = 0; i < plan->buffer_count; i++) add_buffer(&text, plan, i);
    for (int i = 0; i < plan->step_count; i++) add_step(&text, plan, i);
    for (int i = 0; i < plan->delivery_count; i++) add_delivery(&text, &plan->delivery[i]);
    for (int i = 0; i < plan->copy_count; i++) add_copy(&text, &plan->copy[i]);
    return text.length;
}
