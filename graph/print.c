/* Prints what outputs depend on in the .tp form: one node a line, dense numbers in topological
 * order. Nothing in it depends on addresses, time or locale. */
#include "tp_form.h"

static void print_list(tp_text *text, int count, const int64_t *values)
{
    tp_text_add(text, " [");
    for (int i = 0; i < count; i++) {
        if (values[i] == TP_END)
            tp_text_add(text, i ? ",end" : "end");
        else
            tp_text_add(text, i ? ",%lld" : "%lld", (long long)values[i]);
    }
    tp_text_add(text, "]");
}

/* A leaf, or what has become one by evaluation. */
static void print_data(tp_text *text, const tp_tensor *x)
{
    tp_dtype dtype = (tp_dtype)x->dtype;
    int64_t size = (int64_t)tp_dtype_size(dtype), count = tp_view_numel(&x->result);
    tp_text_add(text, "data %s", tp_dtype_name(dtype));
    print_list(text, x->result.ndim, x->result.shape);
    if (!tp_view_is_row_major(&x->result)) {
        tp_view shown;
        tp_view_copy(&shown, &x->result);
        tp_view_normalize(&shown);
        count = (int64_t)x->storage->size_bytes / size;
        tp_text_add(text, " strides");
        print_list(text, shown.ndim, shown.stride);
        tp_text_add(text, " offset %lld of %lld", (long long)shown.offset, (long long)count);
    }
    if (count > TP_FORM_VALUES) {
        tp_text_add(text, " pattern");
        return;
    }
    tp_text_add(text, " {");
    for (int64_t i = 0; i < count; i++) {
        tp_text_add(text, i ? ", " : "");
        tp_text_add_number(text, dtype, tp_value_load(dtype, x->storage->data + i * size));
    }
    tp_text_add(text, "}");
}

static void print_attributes(tp_text *text, const tp_tensor *x)
{
    tp_dtype dtype = (tp_dtype)x->dtype;
    bool typed = x->op == TP_OP_CAST || x->op == TP_OP_BITCAST || x->op == TP_OP_FULL ||
                 x->op == TP_OP_ARANGE;
    if (typed) tp_text_add(text, " %s", tp_dtype_name(dtype));
    bool listed = x->attr_count > 0 || x->op == TP_OP_RESHAPE || x->op == TP_OP_EXPAND ||
                  x->op == TP_OP_FULL || x->op == TP_OP_PERMUTE;
    if (listed) print_list(text, x->attr_count, x->attr);
    int numbers = x->op == TP_OP_ARANGE                              ? 2
                  : x->op == TP_OP_FULL || x->op == TP_OP_LAYER_NORM ? 1
                                                                     : 0;
    for (int i = 0; i < numbers; i++) {
        tp_text_add(text, " ");
        tp_text_add_number(text, x->op == TP_OP_LAYER_NORM ? TP_F64 : dtype, x->value[i]);
    }
}

static void print_node(tp_text *text, const tp_tensor *x, const int64_t *number)
{
    tp_text_add(text, "%%%lld = ", (long long)number[x->id]);
    if (x->state == TP_EVALUATED)
        print_data(text, x);
    else {
        tp_text_add(text, "%s", tp_op_name(x));
        for (int i = 0; i < x->in_count; i++)
            tp_text_add(text, " %%%lld", (long long)number[x->in[i]->id]);
        print_attributes(text, x);
    }
    if (x->name) {
        tp_text_add(text, " \"");
        tp_text_add_escaped(text, x->name);
        tp_text_add(text, "\"");
    }
    tp_text_add(text, "\n");
}

int64_t tp_graph_text(tp_graph *graph, int count, tp_tensor *const *outputs, char *at, size_t size)
{
    tp_text text = {.at = at, .size = size};
    size_t nodes = (size_t)graph->node_count, bytes = nodes * (sizeof(int64_t) + 1);
    int64_t *number = tp_context_alloc_zero(graph->context, bytes);
    if (!number) {
        tp_graph_fail_nomem(graph, "text");
        return -1;
    }
    uint8_t *mark = (uint8_t *)(number + nodes);
    tp_graph_mark(graph, count, outputs, mark);
    tp_text_add(&text, "# tensorplay 1\n");
    int64_t next = 0;
    for (size_t id = 0; id < nodes; id++) {
        if (!mark[id]) continue;
        number[id] = next++;
        print_node(&text, graph->node[id], number);
    }
    tp_text_add(&text, "return");
    for (int i = 0; i < count; i++)
        tp_text_add(&text, " %%%lld", (long long)number[outputs[i]->id]);
    tp_text_add(&text, "\n");
    tp_context_free(graph->context, number, bytes);
    return text.length;
}
