/* A plan as a Graphviz picture: leaves, one box per kernel, views as labels of edges, copies as
 * octagons, removed copies in green in the box of the kernel that absorbed them. */
#include "plan_print.h"

#include <stdio.h>

#define BLUE "#cfe2f3"
#define ORANGE "#f5c09a"
#define GREY "#eeeeee"
#define GREEN "#1a7f37"

/* The text with &, < and > as entities, for HTML-like labels. */
static void add_html(tp_text *text, const char *string)
{
    for (const char *c = string; *c; c++) {
        unsigned char u = (unsigned char)*c;
        if (u == '&')
            tp_text_add(text, "&amp;");
        else if (u == '<')
            tp_text_add(text, "&lt;");
        else if (u == '>')
            tp_text_add(text, "&gt;");
        else if (u == '"')
            tp_text_add(text, "&quot;");
        else if (u < 32 || u == 127)
            tp_text_add(text, "?");
        else
            tp_text_add(text, "%c", u);
    }
}

static void add_name(tp_text *text, const tp_tensor *x)
{
    if (x->name)
        add_html(text, x->name);
    else
        tp_text_add(text, "%s", x->state == TP_EVALUATED ? "data" : tp_op_name(x));
}

static bool only_copies(const tp_step *step)
{
    return step->ledger >= 0;
}

/* ---- Nodes ---------------------------------------------------------------------------- */

static void add_leaf(tp_text *text, const tp_plan *plan, int i)
{
    const tp_buffer *b = &plan->buffer[i];
    char shape[400];
    tp_view_print_shape(&b->tensor->view, shape, sizeof shape);
    tp_text_add(text, "  b%d [shape=note, fillcolor=\"" GREY "\", label=<", i);
    add_name(text, b->tensor);
    tp_text_add(text, "<br/>%s %s>];\n", tp_dtype_name((tp_dtype)b->tensor->dtype), shape);
}

static void add_removed(tp_text *text, const tp_plan *plan, int step)
{
    for (int i = 0; i < plan->copy_count; i++) {
        const tp_copy *copy = &plan->copy[i];
        if (copy->kept || tp_plan_absorber(plan, copy) != step) continue;
        tp_text_add(text, "<br/><font color=\"" GREEN "\">no copy: %s, ",
                    tp_reason_name(copy->reason));
        tp_plan_add_bytes(text, copy->bytes);
        tp_text_add(text, "</font>");
    }
}

static void add_copy_label(tp_text *text, const tp_plan *plan, const tp_step *step)
{
    const tp_copy *copy = &plan->copy[step->ledger];
    tp_text_add(text, "<b>COPY</b> ");
    tp_plan_add_bytes(text, copy->bytes);
    tp_text_add(text, "<br/>%s", tp_reason_name(copy->reason));
    if (copy->dims[0] >= 0) tp_text_add(text, ", dims %d and %d", copy->dims[0], copy->dims[1]);
}

static bool is_output(const tp_plan *plan, const tp_step *step)
{
    for (int d = 0; d < plan->delivery_count; d++) {
        if (plan->delivery[d].buffer == step->out.buffer) return true;
    }
    return false;
}

static void add_step(tp_text *text, const tp_plan *plan, int i)
{
    const tp_step *step = &plan->step[i];
    bool copy = only_copies(step), product = step->kind == TP_STEP_MATMUL;
    tp_text_add(text, "  s%d [shape=%s, fillcolor=\"%s\"%s, label=<", i, copy ? "octagon" : "box",
                copy      ? ORANGE
                : product ? BLUE
                          : "white",
                is_output(plan, step) ? ", penwidth=3" : "");
    if (step->asked->name) {
        add_html(text, step->asked->name);
        tp_text_add(text, "<br/>");
    }
    if (copy)
        add_copy_label(text, plan, step);
    else {
        tp_text_add(text, "<b>");
        tp_plan_add_ops(text, step);
        tp_text_add(text, "</b>%s", step->in_place ? " in place" : "");
    }
    if (step->kernel->describe) {
        char call[256];
        step->kernel->describe(step, call, sizeof call);
        tp_text_add(text, "<br/>");
        add_html(text, call);
    }
    if (step->time_ns > 0) tp_text_add(text, "<br/>%lld us", (long long)(step->time_ns / 1000));
    add_removed(text, plan, i);
    tp_text_add(text, ">];\n");
}

/* ---- Edges ------------------------------------------------------------------------------- */

static void add_view_label(tp_text *text, const tp_view *v)
{
    char shape[400], view[800];
    tp_view_print_shape(v, shape, sizeof shape);
    tp_view_print(v, view, sizeof view);
    tp_text_add(text, " [label=\"%s\"]", tp_view_is_row_major(v) ? shape : view);
}

static void add_edges(tp_text *text, const tp_plan *plan, int i, const int *writer)
{
    const tp_step *step = &plan->step[i];
    for (int k = 0; k < step->operand_count; k++) {
        const tp_operand *o = &step->operand[k];
        if (writer[o->buffer] < 0)
            tp_text_add(text, "  b%d -> s%d", o->buffer, i);
        else
            tp_text_add(text, "  s%d -> s%d", writer[o->buffer], i);
        add_view_label(text, &o->view);
        tp_text_add(text, ";\n");
    }
}

int64_t tp_plan_dot(const tp_plan *plan, char *at, size_t size)
{
    tp_text text = {.at = at, .size = size};
    if (!plan) return -1;
    size_t bytes = (size_t)(plan->buffer_count + 1) * sizeof(int);
    int *writer = tp_context_alloc(plan->arena.context, bytes);
    if (!writer) {
        tp_graph_fail_nomem(plan->graph, "dot");
        return -1;
    }
    for (int i = 0; i < plan->buffer_count; i++) writer[i] = -1;
    for (int i = 0; i < plan->step_count; i++) writer[plan->step[i].out.buffer] = i;
    tp_text_add(&text, "digraph planned {\n  label=\"planned: ");
    tp_plan_add_verdict(&text, plan);
    tp_text_add(&text, "\"; labelloc=t; fontname=Helvetica; fontsize=18;\n");
    tp_text_add(&text, "  node [fontname=Helvetica, fontsize=11, style=filled, fillcolor=white];\n "
                       " edge [fontname=Helvetica, fontsize=9];\n");
    for (int i = 0; i < plan->buffer_count; i++) {
        if (plan->buffer[i].kind == TP_BUFFER_LEAF) add_leaf(&text, plan, i);
    }
    for (int i = 0; i < plan->step_count; i++) add_step(&text, plan, i);
    for (int i = 0; i < plan->step_count; i++) add_edges(&text, plan, i, writer);
    tp_text_add(&text, "}\n");
    tp_context_free(plan->arena.context, writer, bytes);
    return text.length;
}
