/* A plan as a Graphviz picture: leaves, one box per kernel, views as labels of edges, copies as
 * octagons, removed copies in green in the box of the kernel that does without them. Shape and
 * word carry the meaning, colour only helps. */
#include "plan_print.h"

#include <string.h>

#define BLUE "#cfe2f3"
#define ORANGE "#f5c09a"
#define GREY "#eeeeee"
#define GREEN "#1a7f37"

typedef struct picture {
    tp_text text;
    const tp_plan *plan;
    int *absorber; /* by row of the ledger */
    int *writer;   /* by buffer: its step, -1: none */
    int *copy;     /* of each step the first row that it absorbs, -1: none */
    int *next;     /* of each row the next with the same step */
    int *output;   /* by buffer: whether it is delivered */
} picture;

static void add_name(tp_text *text, const tp_tensor *x)
{
    if (x->name)
        tp_text_add_html(text, x->name);
    else
        tp_text_add(text, "%%%lld %s", (long long)x->id, tp_op_name(x));
}

static void end_label(picture *p, int output)
{
    tp_text_add(&p->text, output ? "<br/>(output)>, penwidth=3];\n" : ">];\n");
}

/* ---- Nodes ---------------------------------------------------------------------------- */

static void add_leaf(picture *p, int i)
{
    const tp_buffer *b = &p->plan->buffer[i];
    char shape[400];
    tp_view_print_shape(b->tensor->view, shape, sizeof shape);
    tp_text_add(&p->text, "  b%d [shape=note, fillcolor=\"" GREY "\", label=<", i);
    add_name(&p->text, b->tensor);
    tp_text_add(&p->text, "<br/>%s %s", tp_dtype_name((tp_dtype)b->tensor->dtype), shape);
    end_label(p, p->output[i]);
}

static void add_removed(picture *p, int row)
{
    const tp_copy *copy = &p->plan->copy[row];
    tp_text_add(&p->text, "<br/><font color=\"" GREEN "\">no copy of ");
    add_name(&p->text, copy->tensor);
    tp_text_add(&p->text, ": %s, ", tp_reason_name(copy->reason));
    tp_text_add_bytes(&p->text, copy->bytes);
    tp_text_add(&p->text, "</font>");
}

static void add_copy(picture *p, const tp_step *step)
{
    const tp_copy *copy = &p->plan->copy[step->ledger];
    tp_text_add(&p->text, "<b>COPY</b> ");
    tp_text_add_bytes(&p->text, copy->bytes);
    tp_text_add(&p->text, "<br/>%s", tp_reason_name(copy->reason));
    if (copy->reason == TP_REASON_RESHAPE_NOT_A_VIEW && copy->dims[0] >= 0)
        tp_text_add(&p->text, ", dims %d and %d", copy->dims[0], copy->dims[1]);
}

/* Ops in bold, then the kernel with what it took in. */
static void add_work(picture *p, const tp_step *step)
{
    tp_text *text = &p->text;
    tp_text_add(text, "<b>");
    tp_plan_add_ops(text, step);
    tp_text_add(text, "</b>%s<br/>%s", step->in_place ? " in place" : "", step->kernel->name);
    if (step->fused > 1) tp_text_add(text, ", %d nodes", step->fused);
    tp_reason why = tp_plan_refusal(p->plan, step);
    if (why != TP_REASON_NONE) tp_text_add(text, "<br/>no BLAS: %s", tp_reason_name(why));
}

/* The call in one line, or broken at the blank nearest to its middle. */
static void add_call(picture *p, const tp_step *step)
{
    char call[256];
    step->kernel->describe(step, call, sizeof call);
    size_t length = strlen(call), middle = length / 2, broken = 0;
    for (size_t i = 1; i < length && length > 32; i++) {
        size_t gap = i < middle ? middle - i : i - middle;
        size_t best = broken < middle ? middle - broken : broken - middle;
        if (call[i] == ' ' && gap < best) broken = i;
    }
    tp_text_add(&p->text, "<br/>");
    if (broken) {
        call[broken] = 0;
        tp_text_add_html(&p->text, call);
        tp_text_add(&p->text, "<br/>");
        broken++;
    }
    tp_text_add_html(&p->text, call + broken);
}

static void add_step(picture *p, int i)
{
    tp_text *text = &p->text;
    const tp_step *step = &p->plan->step[i];
    bool copy = step->ledger >= 0;
    const char *colour = copy ? ORANGE
                         : step->kind == TP_STEP_MATMUL || step->kind == TP_STEP_ATTENTION
                             ? BLUE
                             : "white";
    tp_text_add(text, "  s%d [shape=%s, fillcolor=\"%s\", label=<", i, copy ? "octagon" : "box",
                colour);
    if (step->asked->name) {
        tp_text_add_html(text, step->asked->name);
        tp_text_add(text, "<br/>");
    }
    if (copy)
        add_copy(p, step);
    else
        add_work(p, step);
    if (step->kernel->describe) add_call(p, step);
    if (step->time_ns > 0) {
        tp_text_add(text, "<br/>");
        tp_plan_add_time(text, step->time_ns);
    }
    for (int row = p->copy[i]; row >= 0; row = p->next[row]) add_removed(p, row);
    end_label(p, p->output[step->out.buffer]);
}

/* ---- Edges ------------------------------------------------------------------------------- */

static void add_edges(picture *p, int i)
{
    const tp_step *step = &p->plan->step[i];
    for (int k = 0; k < step->operand_count; k++) {
        const tp_operand *o = &step->operand[k];
        int writer = p->writer[o->buffer];
        char shape[400];
        tp_view_print_shape(&o->view, shape, sizeof shape);
        tp_text_add(&p->text, writer < 0 ? "  b%d -> s%d [label=\"" : "  s%d -> s%d [label=\"",
                    writer < 0 ? o->buffer : writer, i);
        if (tp_view_is_row_major(&o->view))
            tp_text_add(&p->text, "%s", shape);
        else
            tp_text_add_view(&p->text, &o->view);
        tp_text_add(&p->text, "\"];\n");
    }
}

/* A step that fills a further part of a buffer comes after the one that filled it so far. */
static void add_into(picture *p, int i)
{
    int into = p->plan->step[i].into;
    if (into < 0) return;
    int writer = p->writer[into];
    tp_text_add(&p->text, writer < 0 ? "  b%d -> s%d" : "  s%d -> s%d", writer < 0 ? into : writer,
                i);
    tp_text_add(&p->text, " [style=dashed, label=\"same bytes\"];\n");
}

static void add_title(picture *p)
{
    double time_ns = tp_plan_time_ns(p->plan);
    tp_text_add(&p->text, "  label=<%s: ", time_ns > 0 ? "executed" : "planned");
    tp_plan_add_verdict(&p->text, p->plan);
    if (time_ns > 0) {
        tp_text_add(&p->text, ", ");
        tp_plan_add_time(&p->text, time_ns);
    }
    for (int row = 0; row < p->plan->copy_count; row++) {
        if (!p->plan->copy[row].kept && p->absorber[row] < 0) add_removed(p, row);
    }
    tp_text_add(&p->text, ">; labelloc=t; fontname=Helvetica; fontsize=18; rankdir=TB;\n");
}

static void draw(picture *p)
{
    const tp_plan *plan = p->plan;
    for (int i = 0; i < plan->buffer_count; i++) {
        p->writer[i] = -1;
        p->output[i] = 0;
    }
    for (int d = 0; d < plan->delivery_count; d++) p->output[plan->delivery[d].buffer] = 1;
    for (int i = 0; i < plan->step_count; i++) {
        p->writer[plan->step[i].out.buffer] = i;
        p->copy[i] = -1;
    }
    for (int row = plan->copy_count - 1; row >= 0; row--) {
        if (p->absorber[row] < 0) continue;
        p->next[row] = p->copy[p->absorber[row]];
        p->copy[p->absorber[row]] = row;
    }
    tp_text_add(&p->text, "digraph planned {\n");
    add_title(p);
    tp_text_add(&p->text,
                "  node [fontname=Helvetica, fontsize=11, style=filled, fillcolor=white];\n"
                "  edge [fontname=Helvetica, fontsize=9];\n");
    for (int i = 0; i < plan->buffer_count; i++) {
        if (plan->buffer[i].kind == TP_BUFFER_LEAF) add_leaf(p, i);
    }
    for (int i = 0; i < plan->step_count; i++) add_step(p, i);
    for (int i = 0; i < plan->step_count; i++) {
        add_edges(p, i);
        add_into(p, i);
    }
    tp_text_add(&p->text, "}\n");
}

int64_t tp_plan_dot(const tp_plan *plan, char *at, size_t size)
{
    if (!plan) return -1;
    size_t ints = (size_t)plan->buffer_count * 2 + (size_t)plan->step_count +
                  (size_t)plan->copy_count * 2 + 1;
    picture p = {.text = {.at = at, .size = size},
                 .plan = plan,
                 .absorber = tp_context_alloc(plan->arena.context, ints * sizeof(int))};
    if (!p.absorber) {
        tp_graph_fail_nomem(plan->graph, "dot");
        return -1;
    }
    p.next = p.absorber + plan->copy_count;
    p.writer = p.next + plan->copy_count;
    p.copy = p.writer + plan->buffer_count;
    p.output = p.copy + plan->step_count;
    bool found = tp_plan_find_absorbers(plan, p.absorber);
    if (found) draw(&p);
    tp_context_free(plan->arena.context, p.absorber, ints * sizeof(int));
    return found ? p.text.length : -1;
}
