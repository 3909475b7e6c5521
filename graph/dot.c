/* The asked graph as a Graphviz picture: every node the user built, views dashed, copies as
 * octagons with the word COPY, their bytes and why they are there. */
#include "dump.h"

#include <string.h>

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_copy(const tp_dump *dump, const tp_tensor *x)
{
    return x->op == TP_OP_CONTIGUOUS && !tp_tensor_is_view(x) && dump->shown[x->id] & TP_SHOWN_OP;
}

static void add_style(tp_text *text, const tp_dump *dump, const tp_tensor *x)
{
    if (tp_dump_is_data(dump, x))
        tp_text_add(text, "shape=note, fillcolor=\"#eeeeee\"");
    else if (is_copy(dump, x))
        tp_text_add(text, "shape=octagon, fillcolor=\"#f5c09a\"");
    else if (tp_tensor_is_view(x))
        tp_text_add(text, "shape=ellipse, style=\"dashed\"");
    else
        tp_text_add(text, "shape=box, fillcolor=\"#cfe2f3\"");
}

static void add_label(tp_text *text, const tp_dump *dump, const tp_tensor *x)
{
    if (x->name) {
        tp_text_add_html(text, x->name);
        tp_text_add(text, "<br/>");
    }
    if (is_copy(dump, x)) {
        tp_text_add(text, "<b>COPY</b> ");
        tp_text_add_bytes(text,
                          tp_view_numel(x->view) * (int64_t)tp_dtype_size((tp_dtype)x->dtype));
        tp_text_add(text, "<br/>%s<br/>",
                    x->implicit ? "this reshape is no view" : "contiguous() asked for");
    } else if (tp_dump_is_data(dump, x))
        tp_text_add(text, x->op == TP_OP_DATA ? "data<br/>" : "%s, evaluated<br/>", tp_op_name(x));
    else
        tp_text_add(text, "<b>%s</b><br/>", tp_op_name(x));
    char shape[400];
    tp_view view = tp_view_of(x);
    tp_view_print_shape(&view, shape, sizeof shape);
    tp_text_add(text, "%s %s", tp_dtype_name(tp_dtype_of(x)), shape);
    if (tp_view_is_row_major(&view)) return;
    tp_text_add(text, "<br/>strides");
    for (int d = 0; d < view.ndim; d++)
        tp_text_add(text, d ? ",%lld" : " (%lld", (long long)view.stride[d]);
    tp_text_add(text, view.ndim ? ")" : " ()");
    if (view.offset) tp_text_add(text, " + %lld", (long long)view.offset);
}

static void add_node(tp_text *text, const tp_dump *dump, const tp_tensor *x)
{
    long long number = dump->number[x->id];
    tp_text_add(text, "  n%lld [", number);
    add_style(text, dump, x);
    tp_text_add(text, ", label=<");
    add_label(text, dump, x);
    bool output = dump->shown[x->id] & TP_SHOWN_OUTPUT;
    tp_text_add(text, output ? "<br/>(output)>, penwidth=3" : ">");
    if (x->file) {
        tp_text_add(text, ", tooltip=\"");
        tp_text_add_escaped(text, file_name(x->file));
        tp_text_add(text, ":%d\"", x->line);
    }
    tp_text_add(text, "];\n");
    if (tp_dump_is_data(dump, x)) return;
    for (int i = 0; i < x->in_count; i++)
        tp_text_add(text, "  n%lld -> n%lld;\n", (long long)dump->number[x->in[i]->id], number);
}

int64_t tp_graph_dot(tp_graph *graph, int count, tp_tensor *const *outputs, char *at, size_t size)
{
    tp_text text = {.at = at, .size = size};
    tp_dump dump;
    if (!tp_dump_begin(&dump, "dot", graph, count, outputs)) return -1;
    int64_t copies = 0;
    for (int64_t id = 0; id < graph->node_count; id++) copies += is_copy(&dump, graph->node[id]);
    tp_text_add(&text,
                "digraph asked {\n  label=\"asked: %lld node%s, %lld cop%s\"; labelloc=t; "
                "fontname=Helvetica; fontsize=18; rankdir=TB;\n",
                (long long)dump.count, dump.count == 1 ? "" : "s", (long long)copies,
                copies == 1 ? "y" : "ies");
    tp_text_add(&text, "  node [fontname=Helvetica, fontsize=11, style=filled, fillcolor=white];\n"
                       "  edge [fontname=Helvetica, fontsize=9];\n");
    for (int64_t id = 0; id < graph->node_count; id++) {
        if (dump.shown[id]) add_node(&text, &dump, graph->node[id]);
    }
    tp_text_add(&text, "}\n");
    tp_dump_end(&dump);
    return text.length;
}
