/* The asked graph as a Graphviz picture: every node the user built, views dashed, copies as
 * octagons with the word COPY, their bytes and why they are there. */
#include "graph.h"

#include <string.h>

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_copy(const tp_tensor *x)
{
    return x->op == TP_OP_CONTIGUOUS && !tp_tensor_is_view(x) && x->state != TP_EVALUATED;
}

static void add_style(tp_text *text, const tp_tensor *x)
{
    if (x->state == TP_EVALUATED)
        tp_text_add(text, "shape=note, fillcolor=\"#eeeeee\"");
    else if (is_copy(x))
        tp_text_add(text, "shape=octagon, fillcolor=\"#f5c09a\"");
    else if (tp_tensor_is_view(x))
        tp_text_add(text, "shape=ellipse, style=\"dashed\"");
    else
        tp_text_add(text, "shape=box, fillcolor=\"#cfe2f3\"");
}

static void add_label(tp_text *text, const tp_tensor *x)
{
    if (x->name) {
        tp_text_add_escaped(text, x->name);
        tp_text_add(text, "\\n");
    }
    int64_t bytes = tp_view_numel(&x->view) * (int64_t)tp_dtype_size((tp_dtype)x->dtype);
    if (is_copy(x))
        tp_text_add(text, "COPY %lld bytes\\n%s\\n", (long long)bytes,
                    x->implicit ? "reshape is not a view" : "contiguous() asked for");
    else
        tp_text_add(text, "%s\\n", x->state == TP_EVALUATED ? "data" : tp_op_name(x));
    char shape[400];
    tp_view view = tp_view_of(x);
    tp_view_print_shape(&view, shape, sizeof shape);
    tp_text_add(text, "%s ", tp_dtype_name(tp_dtype_of(x)));
    if (tp_is_contiguous(x))
        tp_text_add(text, "%s", shape);
    else
        tp_text_add_view(text, &view);
}

static void add_node(tp_text *text, const tp_tensor *x, const int64_t *number, bool output)
{
    tp_text_add(text, "  n%lld [", (long long)number[x->id]);
    add_style(text, x);
    tp_text_add(text, ", label=\"");
    add_label(text, x);
    tp_text_add(text, "\"");
    if (output) tp_text_add(text, ", penwidth=3");
    if (x->file) {
        tp_text_add(text, ", tooltip=\"");
        tp_text_add_escaped(text, file_name(x->file));
        tp_text_add(text, ":%d\"", x->line);
    }
    tp_text_add(text, "];\n");
    if (x->state == TP_EVALUATED) return;
    for (int i = 0; i < x->in_count; i++)
        tp_text_add(text, "  n%lld -> n%lld;\n", (long long)number[x->in[i]->id],
                    (long long)number[x->id]);
}

int64_t tp_graph_dot(tp_graph *graph, int count, tp_tensor *const *outputs, char *at, size_t size)
{
    tp_text text = {.at = at, .size = size};
    size_t nodes = (size_t)graph->node_count, bytes = nodes * (sizeof(int64_t) + 1);
    int64_t *number = tp_context_alloc_zero(graph->context, bytes), next = 0, copies = 0;
    if (!number) {
        tp_graph_fail_nomem(graph, "dot");
        return -1;
    }
    uint8_t *mark = (uint8_t *)(number + nodes);
    tp_graph_mark(graph, count, outputs, mark);
    for (size_t id = 0; id < nodes; id++) {
        if (!mark[id]) continue;
        number[id] = next++;
        copies += is_copy(graph->node[id]);
    }
    for (int i = 0; i < count; i++) mark[outputs[i]->id] = 2;
    tp_text_add(&text,
                "digraph asked {\n  label=\"asked: %lld nodes, %lld copies\"; labelloc=t; "
                "fontname=Helvetica; fontsize=18;\n",
                (long long)next, (long long)copies);
    tp_text_add(&text, "  node [fontname=Helvetica, fontsize=11, style=filled, fillcolor=white];\n "
                       " edge [fontname=Helvetica, fontsize=9];\n");
    for (size_t id = 0; id < nodes; id++) {
        if (mark[id]) add_node(&text, graph->node[id], number, mark[id] == 2);
    }
    tp_text_add(&text, "}\n");
    tp_context_free(graph->context, number, bytes);
    return text.length;
}
