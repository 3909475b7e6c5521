/* Prints what outputs depend on in the .tp form: one node a line, dense numbers in topological
 * order. Nothing in it depends on addresses, time or locale. Parsed and printed again it is the
 * same text. */
#include "dump.h"
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

/* ---- Data --------------------------------------------------------------------------- */

/* The element of a view at a row-major position. */
static int64_t address(const tp_view *v, int64_t position)
{
    int64_t at = v->offset;
    for (int d = v->ndim - 1; d >= 0; d--) {
        at += position % v->shape[d] * v->stride[d];
        position /= v->shape[d];
    }
    return at;
}

/* Values along a view; false if they are too many and a pattern stands for them. */
static bool print_values(tp_text *text, const tp_tensor *x, const tp_view *v)
{
    tp_dtype dtype = (tp_dtype)x->dtype;
    int64_t count = tp_view_numel(v), size = (int64_t)tp_dtype_size(dtype);
    bool here = x->storage && tp_storage_bring(x->storage, NULL) == TP_OK;
    if (count > TP_FORM_VALUES || x->state == TP_GONE || !here) {
        tp_text_add(text, " pattern");
        return false;
    }
    tp_text_add(text, " {");
    for (int64_t i = 0; i < count; i++) {
        tp_text_add(text, i ? ", " : "");
        tp_text_add_number(text, dtype,
                           tp_value_load(dtype, x->storage->data + address(v, i) * size));
    }
    tp_text_add(text, "}");
    return true;
}

/* A leaf, with the whole storage if it lies there in any other way than row-major and alone; or
 * an evaluated node, which readers see row-major. */
static bool print_data(tp_text *text, const tp_tensor *x)
{
    const tp_view *v = x->result;
    int64_t elements =
        x->op == TP_OP_DATA ? tp_leaf_bytes(x) / (int64_t)tp_dtype_size((tp_dtype)x->dtype) : 0;
    tp_text_add(text, "data %s", tp_dtype_name((tp_dtype)x->dtype));
    print_list(text, v->ndim, v->shape);
    bool alone = tp_view_is_row_major(v) && tp_view_numel(v) == elements;
    if (x->op != TP_OP_DATA || alone) return print_values(text, x, v);
    tp_view shown, storage = tp_view_row_major(1, &elements);
    tp_view_copy(&shown, v);
    tp_view_normalize(&shown);
    tp_text_add(text, " strides");
    print_list(text, shown.ndim, shown.stride);
    tp_text_add(text, " offset %lld of %lld", (long long)shown.offset, (long long)elements);
    return print_values(text, x, &storage);
}

/* ---- Operations ---------------------------------------------------------------------- */

static void print_attributes(tp_text *text, const tp_tensor *x)
{
    tp_dtype dtype = (tp_dtype)x->dtype;
    bool typed = x->op == TP_OP_CAST || x->op == TP_OP_BITCAST || x->op == TP_OP_FULL ||
                 x->op == TP_OP_ARANGE || x->op == TP_OP_PAD || x->op == TP_OP_RANDOM_UNIFORM ||
                 x->op == TP_OP_RANDOM_NORMAL;
    if (typed) tp_text_add(text, " %s", tp_dtype_name(dtype));
    bool listed = x->attr_count > 0 || x->op == TP_OP_RESHAPE || x->op == TP_OP_EXPAND ||
                  x->op == TP_OP_FULL || x->op == TP_OP_PERMUTE || x->op == TP_OP_PAD;
    if (listed) print_list(text, x->attr_count, x->attr);
    bool one = x->op == TP_OP_FULL || x->op == TP_OP_LAYER_NORM || x->op == TP_OP_PAD;
    int numbers = x->op == TP_OP_ARANGE ? 2 : one ? 1 : 0;
    for (int i = 0; i < numbers; i++) {
        tp_text_add(text, " ");
        tp_text_add_number(text, x->op == TP_OP_LAYER_NORM ? TP_F64 : dtype, x->value[i]);
    }
}

static void print_node(tp_text *text, const tp_tensor *x, const tp_dump *dump)
{
    bool exact = true;
    tp_text_add(text, "%%%lld = ", (long long)dump->number[x->id]);
    if (tp_dump_is_data(dump, x))
        exact = print_data(text, x);
    else {
        tp_text_add(text, "%s", tp_op_name(x));
        for (int i = 0; i < x->in_count; i++)
            tp_text_add(text, " %%%lld", (long long)dump->number[x->in[i]->id]);
        print_attributes(text, x);
    }
    if (x->name) {
        tp_text_add(text, " \"");
        tp_text_add_escaped(text, x->name);
        tp_text_add(text, "\"");
    }
    tp_text_add(text, exact ? "\n" : " # fixed integers, not the values\n");
}

int64_t tp_graph_text(tp_graph *graph, int count, tp_tensor *const *outputs, char *at, size_t size)
{
    tp_text text = {.at = at, .size = size};
    tp_dump dump;
    if (!tp_dump_begin(&dump, "text", graph, count, outputs)) return -1;
    tp_text_add(&text, "# tensorplay 1\n");
    for (int64_t id = 0; id < graph->node_count; id++) {
        if (dump.shown[id]) print_node(&text, graph->node[id], &dump);
    }
    tp_text_add(&text, "return");
    for (int i = 0; i < count; i++)
        tp_text_add(&text, " %%%lld", (long long)dump.number[outputs[i]->id]);
    tp_text_add(&text, "\n");
    tp_dump_end(&dump);
    return text.length;
}
