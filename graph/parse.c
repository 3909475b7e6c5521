/* Reads the .tp form (tp_form.h). A line is scanned into its parts, then the public builders are
 * called, so that shape errors come in their words. On failure nothing is left in the graph. */
#include "parse.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tp_status tp_parse_fail(tp_parser *p, const char *what)
{
    int row = 1;
    const char *start = p->text;
    for (const char *c = p->text; c < p->at; c++) {
        if (*c != '\n') continue;
        row++;
        start = c + 1;
    }
    return tp_graph_fail(p->graph, TP_E_FORMAT, "parse", -1, "line %d, column %d: %s", row,
                         (int)(p->at - start) + 1, what);
}

/* ---- Scanning -------------------------------------------------------------------------- */

void tp_parse_skip_blanks(tp_parser *p)
{
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\r') p->at++;
    if (*p->at == '#') {
        while (*p->at && *p->at != '\n') p->at++;
    }
}

bool tp_parse_take(tp_parser *p, char c)
{
    tp_parse_skip_blanks(p);
    if (*p->at != c) return false;
    p->at++;
    return true;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

static size_t word_length(const tp_parser *p)
{
    size_t n = 0;
    while (is_word(p->at[n])) n++;
    return n;
}

static bool take_word(tp_parser *p, const char *word)
{
    tp_parse_skip_blanks(p);
    size_t n = strlen(word);
    if (word_length(p) != n || strncmp(p->at, word, n) != 0) return false;
    p->at += n;
    return true;
}

static tp_status integer(tp_parser *p, int64_t *value)
{
    tp_parse_skip_blanks(p);
    if (take_word(p, "end")) {
        *value = TP_END;
        return TP_OK;
    }
    const char *c = p->at;
    bool negative = *c == '-';
    c += negative;
    if (*c < '0' || *c > '9') return tp_parse_fail(p, "expected an integer");
    int64_t size = 0;
    for (; *c >= '0' && *c <= '9'; c++) {
        if (__builtin_mul_overflow(size, 10, &size) ||
            __builtin_add_overflow(size, *c - '0', &size))
            return tp_parse_fail(p, "the integer does not fit in 63 bits");
    }
    p->at = c;
    *value = negative ? -size : size;
    return TP_OK;
}

/* [a,b,c] with its bracket already taken. */
static tp_status list(tp_parser *p, int *count, int64_t *values)
{
    *count = 0;
    if (tp_parse_take(p, ']')) return TP_OK;
    do {
        if (*count == 2 * TP_MAX_RANK + 1) return tp_parse_fail(p, "the list is too long");
        TRY(integer(p, &values[(*count)++]));
    } while (tp_parse_take(p, ','));
    return tp_parse_take(p, ']') ? TP_OK : tp_parse_fail(p, "expected , or ]");
}

static tp_status reference(tp_parser *p, tp_tensor **x)
{
    int64_t number;
    const char *start = p->at;
    TRY(integer(p, &number));
    if (number < 0 || number >= p->node_count) {
        p->at = start;
        return tp_parse_fail(p, "no such node above");
    }
    *x = p->node[number];
    return TP_OK;
}

static tp_status quoted(tp_parser *p, char *to, size_t size)
{
    size_t used = 0;
    while (*p->at != '"') {
        unsigned c = (unsigned char)*p->at;
        if (!c || c == '\n') return tp_parse_fail(p, "the name has no end");
        p->at++;
        if (c == '\\' && *p->at == 'x') {
            char hex[3] = {p->at[1], p->at[1] ? p->at[2] : '\0', 0};
            c = (unsigned)strtoul(hex, NULL, 16);
            if (!c) return tp_parse_fail(p, "\\x needs two hexadecimal digits, not 00");
            p->at += 3;
        } else if (c == '\\') {
            c = (unsigned char)*p->at;
            if (!c) return tp_parse_fail(p, "the name has no end");
            p->at++;
        }
        if (used + 1 < size) to[used++] = (char)c;
    }
    p->at++;
    to[used] = 0;
    return TP_OK;
}

static bool is_number(char c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || (c >= 'a' && c <= 'z');
}

/* A number as a word, in this locale's spelling. */
tp_status tp_parse_number(tp_parser *p, char *to, size_t size)
{
    size_t n = 0;
    tp_parse_skip_blanks(p);
    for (; is_number(p->at[n]); n++) {
        if (n + 1 == size) return tp_parse_fail(p, "the number is too long");
        to[n] = p->at[n] == '.' ? localeconv()->decimal_point[0] : p->at[n];
    }
    to[n] = 0;
    if (!n) return tp_parse_fail(p, "expected a number");
    p->at += n;
    return TP_OK;
}

/* The next part of a line. */
static tp_status part(tp_parser *p, tp_parse_line *l)
{
    if (tp_parse_take(p, '%')) {
        if (l->in_count == 3) return tp_parse_fail(p, "too many operands");
        return reference(p, &l->in[l->in_count++]);
    }
    if (tp_parse_take(p, '[')) return list(p, &l->count, l->ints);
    if (tp_parse_take(p, '"')) {
        l->has_name = true;
        return quoted(p, l->name, sizeof l->name);
    }
    if (tp_parse_take(p, '{')) {
        l->values = p->at;
        while (*p->at && *p->at != '}' && *p->at != '\n') p->at++;
        return tp_parse_take(p, '}') ? TP_OK : tp_parse_fail(p, "expected }");
    }
    if (take_word(p, "pattern")) {
        l->pattern = true;
        return TP_OK;
    }
    if (take_word(p, "strides")) {
        l->has_strides = true;
        if (!tp_parse_take(p, '[')) return tp_parse_fail(p, "expected [");
        TRY(list(p, &l->stride_count, l->strides));
        if (!take_word(p, "offset")) return tp_parse_fail(p, "expected offset");
        TRY(integer(p, &l->offset));
        if (!take_word(p, "of")) return tp_parse_fail(p, "expected of");
        return integer(p, &l->storage);
    }
    for (int d = 0; d < TP_DTYPE_COUNT; d++) {
        if (!take_word(p, tp_dtype_name((tp_dtype)d))) continue;
        l->has_dtype = true;
        l->dtype = (tp_dtype)d;
        return TP_OK;
    }
    if (l->number_count == 2) return tp_parse_fail(p, "too many numbers");
    return tp_parse_number(p, l->number[l->number_count++], sizeof l->number[0]);
}

/* ---- Lines -------------------------------------------------------------------------------------
 */

static tp_status node_line(tp_parser *p)
{
    int64_t number_given;
    TRY(integer(p, &number_given));
    if (number_given != p->node_count)
        return tp_parse_fail(p, "nodes are numbered from 0 without gaps");
    if (!tp_parse_take(p, '=')) return tp_parse_fail(p, "expected =");
    tp_parse_skip_blanks(p);
    tp_parse_line l = {0};
    size_t length = word_length(p);
    l.op = tp_op_find(p->at, length);
    if (l.op == TP_OP_COUNT) return tp_parse_fail(p, "there is no such op");
    p->at += length;
    for (tp_parse_skip_blanks(p); *p->at && *p->at != '\n'; tp_parse_skip_blanks(p))
        TRY(part(p, &l));
    TRY(tp_parse_check(p, &l));
    tp_tensor *x = tp_parse_build(p, &l);
    if (x && l.has_name) x = tp_named(x, l.name);
    if (!x)
        return p->graph->error.status == TP_OK ? tp_parse_fail(p, "the node cannot be built")
                                               : p->graph->error.status;
    void *nodes = p->node;
    if (!tp_grow(p->graph->context, &nodes, &p->node_capacity, p->node_count + 1, sizeof *p->node))
        return tp_graph_fail_nomem(p->graph, "parse");
    p->node = nodes;
    p->node[p->node_count++] = x;
    return TP_OK;
}

static tp_status return_line(tp_parser *p, int max, tp_tensor **outputs, int *count)
{
    while (tp_parse_take(p, '%')) {
        tp_tensor *x = NULL;
        TRY(reference(p, &x));
        if (*count == max) return tp_parse_fail(p, "more outputs than there is room for");
        outputs[(*count)++] = x;
        tp_parse_take(p, ',');
    }
    return *p->at && *p->at != '\n' ? tp_parse_fail(p, "expected % and a number") : TP_OK;
}

static tp_status parse(tp_parser *p, int max, tp_tensor **outputs, int *count)
{
    bool returned = false;
    for (; *p->at; p->at += *p->at == '\n') {
        tp_parse_skip_blanks(p);
        if (*p->at == '\n' || !*p->at) continue;
        if (returned) return tp_parse_fail(p, "nothing may follow return");
        if (tp_parse_take(p, '%'))
            TRY(node_line(p));
        else if (take_word(p, "return")) {
            returned = true;
            TRY(return_line(p, max, outputs, count));
        } else
            return tp_parse_fail(p, "expected % or return");
    }
    return returned ? TP_OK : tp_parse_fail(p, "there is no return");
}

/* Takes back the nodes that were added. */
static void roll_back(tp_parser *p)
{
    tp_graph *graph = p->graph;
    while (graph->node_count > p->first)
        tp_storage_release(graph->node[--graph->node_count]->storage);
}

int tp_graph_parse(tp_graph *graph, const char *text, int max, tp_tensor **outputs)
{
    if (!graph || !text || (max > 0 && !outputs)) return -1;
    tp_graph_clear_error(graph);
    tp_parser p = {.graph = graph, .text = text, .at = text, .first = graph->node_count};
    int count = 0;
    tp_status status = parse(&p, max, outputs, &count);
    tp_context_free(graph->context, p.node, (size_t)p.node_capacity * sizeof *p.node);
    if (status == TP_OK) return count;
    roll_back(&p);
    return -1;
}
