/* Reads the .tp form (tp_form.h): scans a line into its parts, has its node built (parse_build.c)
 * and goes on. Errors name line and column. On failure nothing is left in the graph. */
#include "parse.h"

#include <string.h>

typedef struct parser {
    tp_scan scan;
    tp_tensor **node; /* by number in the text */
    int64_t node_count, node_capacity;
    tp_tensor **in; /* operands of the line */
    int64_t in_capacity;
} parser;

static tp_status fail(parser *p, const char *what)
{
    return tp_scan_fail(&p->scan, p->scan.at, what);
}

static bool line_ends(parser *p)
{
    tp_scan_skip(&p->scan);
    return !*p->scan.at || *p->scan.at == '\n';
}

static tp_status reference(parser *p, tp_tensor **x)
{
    int64_t number;
    const char *start = p->scan.at;
    TRY(tp_scan_integer(&p->scan, &number));
    if (number < 0 || number >= p->node_count)
        return tp_scan_fail(&p->scan, start, "no such node above");
    *x = p->node[number];
    return TP_OK;
}

/* ---- The parts of a line -------------------------------------------------------------- */

static tp_status strides(parser *p, tp_line *l)
{
    tp_scan *scan = &p->scan;
    if (!tp_scan_take(scan, '[')) return fail(p, "expected [");
    TRY(tp_scan_list(scan, TP_MAX_RANK, &l->stride_count, l->strides));
    if (!tp_scan_take_word(scan, "offset")) return fail(p, "expected offset");
    TRY(tp_scan_integer(scan, &l->offset));
    if (!tp_scan_take_word(scan, "of")) return fail(p, "expected of");
    return tp_scan_integer(scan, &l->storage);
}

static tp_status values(parser *p, tp_line *l)
{
    l->values = p->scan.at;
    p->scan.at += strcspn(p->scan.at, "}\n");
    return tp_scan_take(&p->scan, '}') ? TP_OK : fail(p, "expected }");
}

static tp_status name(parser *p, tp_line *l)
{
    l->name = p->scan.at;
    TRY(tp_scan_string(&p->scan, NULL));
    l->name_size = (size_t)(p->scan.at - l->name);
    return TP_OK;
}

static bool dtype(parser *p, tp_line *l)
{
    for (int d = 0; d < TP_DTYPE_COUNT; d++) {
        if (!tp_scan_take_word(&p->scan, tp_dtype_name((tp_dtype)d))) continue;
        l->dtype = (tp_dtype)d;
        return true;
    }
    return false;
}

/* The next part of a line; *which is its bit, 0 for those that may come again. */
static tp_status part(parser *p, tp_line *l, unsigned *which)
{
    tp_scan *scan = &p->scan;
    *which = 0;
    if (tp_scan_take(scan, '%')) {
        void *in = p->in;
        if (!tp_grow(scan->graph->context, &in, &p->in_capacity, l->in_count + 1, sizeof *p->in))
            return tp_graph_fail_nomem(scan->graph, "parse");
        l->in = p->in = in;
        return reference(p, &l->in[l->in_count++]);
    }
    if (tp_scan_take(scan, '[')) {
        *which = TP_PART_LIST;
        return tp_scan_list(scan, TP_LINE_INTS, &l->count, l->ints);
    }
    if (tp_scan_take(scan, '"')) {
        *which = TP_PART_NAME;
        return name(p, l);
    }
    if (tp_scan_take(scan, '{')) {
        *which = TP_PART_VALUES;
        return values(p, l);
    }
    if (tp_scan_take_word(scan, "pattern")) {
        *which = TP_PART_VALUES;
        return TP_OK;
    }
    if (tp_scan_take_word(scan, "strides")) {
        *which = TP_PART_STRIDES;
        return strides(p, l);
    }
    *which = dtype(p, l) ? TP_PART_DTYPE : 0;
    if (*which) return TP_OK;
    if (l->number_count == 2) return fail(p, "no op has more than 2 numbers");
    l->number[l->number_count++] = scan->at;
    return tp_scan_skip_number(scan);
}

/* ---- Lines ------------------------------------------------------------------------------ */

static tp_status keep_node(parser *p, tp_tensor *x)
{
    void *nodes = p->node;
    if (!tp_grow(p->scan.graph->context, &nodes, &p->node_capacity, p->node_count + 1,
                 sizeof *p->node))
        return tp_graph_fail_nomem(p->scan.graph, "parse");
    p->node = nodes;
    p->node[p->node_count++] = x;
    return TP_OK;
}

static tp_status node_line(parser *p)
{
    tp_scan *scan = &p->scan;
    int64_t number;
    const char *start = scan->at;
    TRY(tp_scan_integer(scan, &number));
    if (number != p->node_count)
        return tp_scan_fail(scan, start, "nodes are numbered from 0 without gaps");
    if (!tp_scan_take(scan, '=')) return fail(p, "expected =");
    tp_scan_skip(scan);
    tp_line l = {.at = scan->at};
    size_t length = tp_scan_word_length(scan);
    l.op = tp_op_find(scan->at, length);
    if (l.op == TP_OP_COUNT) return fail(p, "there is no such op");
    scan->at += length;
    while (!line_ends(p)) {
        unsigned which;
        start = scan->at;
        TRY(part(p, &l, &which));
        if (l.parts & which) return tp_scan_fail(scan, start, "the line has this already");
        l.parts |= which;
    }
    const char *end = scan->at;
    tp_tensor *x = tp_parse_node(scan, &l);
    scan->at = end;
    return x ? keep_node(p, x) : scan->graph->error.status;
}

static tp_status return_line(parser *p, int max, tp_tensor **outputs, int *count)
{
    while (tp_scan_take(&p->scan, '%')) {
        tp_tensor *x = NULL;
        TRY(reference(p, &x));
        if (*count >= max) return fail(p, "more outputs than there is room for");
        outputs[(*count)++] = x;
    }
    return line_ends(p) ? TP_OK : fail(p, "expected % and a number");
}

static tp_status parse(parser *p, int max, tp_tensor **outputs, int *count)
{
    bool returned = false;
    for (; *p->scan.at; p->scan.at += *p->scan.at == '\n') {
        if (line_ends(p)) continue;
        if (returned) return fail(p, "nothing may follow return");
        if (tp_scan_take(&p->scan, '%'))
            TRY(node_line(p));
        else if (tp_scan_take_word(&p->scan, "return")) {
            returned = true;
            TRY(return_line(p, max, outputs, count));
        } else
            return fail(p, "expected % or return");
    }
    return returned ? TP_OK : fail(p, "there is no return");
}

/* Takes back the nodes that were added. */
static void roll_back(tp_graph *graph, int64_t first)
{
    while (graph->node_count > first) tp_storage_release(graph->node[--graph->node_count]->storage);
    graph->structure++;
}

int tp_graph_parse(tp_graph *graph, const char *text, int max, tp_tensor **outputs)
{
    if (!graph) return -1;
    if (!text || (max > 0 && !outputs)) {
        tp_graph_fail(graph, TP_E_ARGUMENT, "parse", -1, "text or outputs is NULL");
        return -1;
    }
    /* Its own first error, so that line and column are always told; an earlier one that nobody
     * has asked for yet comes back if there is none. */
    tp_error before = graph->error;
    bool reported = graph->error_reported;
    tp_graph_clear_error(graph);
    parser p = {.scan = {.graph = graph, .text = text, .at = text}};
    int64_t first = graph->node_count;
    int count = 0;
    tp_status status = parse(&p, max, outputs, &count);
    tp_context_free(graph->context, p.node, (size_t)p.node_capacity * sizeof *p.node);
    tp_context_free(graph->context, p.in, (size_t)p.in_capacity * sizeof *p.in);
    if (status != TP_OK) {
        roll_back(graph, first);
        return -1;
    }
    graph->error = before;
    graph->error_reported = reported;
    return count;
}
