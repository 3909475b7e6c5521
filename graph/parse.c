/* Reads the .tp form (tp_form.h). A line is scanned into its parts, then the public builders are
 * called, so that shape errors come in their words. On failure nothing is left in the graph. */
#include "infer.h"
#include "tp_form.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The parts of one line. */
typedef struct line {
    tp_op op;
    int in_count;
    tp_tensor *in[3];
    bool has_dtype, has_strides, pattern;
    tp_dtype dtype;
    int count, stride_count; /* of ints, strides */
    int64_t ints[2 * TP_MAX_RANK + 1], strides[2 * TP_MAX_RANK + 1];
    int64_t offset, storage;
    int number_count;
    char number[2][64];
    const char *values; /* behind {, NULL: none */
    char name[256];
    bool has_name;
} line;

typedef struct parser {
    tp_graph *graph;
    const char *text, *at;
    int64_t first;    /* nodes before parsing began */
    tp_tensor **node; /* by number in the text */
    int64_t node_count, node_capacity;
} parser;

static tp_status fail(parser *p, const char *what)
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

static void skip_blanks(parser *p)
{
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\r') p->at++;
    if (*p->at == '#') {
        while (*p->at && *p->at != '\n') p->at++;
    }
}

static bool take(parser *p, char c)
{
    skip_blanks(p);
    if (*p->at != c) return false;
    p->at++;
    return true;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

static size_t word_length(const parser *p)
{
    size_t n = 0;
    while (is_word(p->at[n])) n++;
    return n;
}

static bool take_word(parser *p, const char *word)
{
    skip_blanks(p);
    size_t n = strlen(word);
    if (word_length(p) != n || strncmp(p->at, word, n) != 0) return false;
    p->at += n;
    return true;
}

static tp_status integer(parser *p, int64_t *value)
{
    skip_blanks(p);
    if (take_word(p, "end")) {
        *value = TP_END;
        return TP_OK;
    }
    const char *c = p->at;
    bool negative = *c == '-';
    c += negative;
    if (*c < '0' || *c > '9') return fail(p, "expected an integer");
    int64_t size = 0;
    for (; *c >= '0' && *c <= '9'; c++) {
        if (__builtin_mul_overflow(size, 10, &size) ||
            __builtin_add_overflow(size, *c - '0', &size))
            return fail(p, "the integer does not fit in 63 bits");
    }
    p->at = c;
    *value = negative ? -size : size;
    return TP_OK;
}

/* [a,b,c] with its bracket already taken. */
static tp_status list(parser *p, int *count, int64_t *values)
{
    *count = 0;
    if (take(p, ']')) return TP_OK;
    do {
        if (*count == 2 * TP_MAX_RANK + 1) return fail(p, "the list is too long");
        TRY(integer(p, &values[(*count)++]));
    } while (take(p, ','));
    return take(p, ']') ? TP_OK : fail(p, "expected , or ]");
}

static tp_status reference(parser *p, tp_tensor **x)
{
    int64_t number;
    const char *start = p->at;
    TRY(integer(p, &number));
    if (number < 0 || number >= p->node_count) {
        p->at = start;
        return fail(p, "no such node above");
    }
    *x = p->node[number];
    return TP_OK;
}

static tp_status quoted(parser *p, char *to, size_t size)
{
    size_t used = 0;
    while (*p->at != '"') {
        unsigned c = (unsigned char)*p->at;
        if (!c || c == '\n') return fail(p, "the name has no end");
        p->at++;
        if (c == '\\' && *p->at == 'x') {
            char hex[3] = {p->at[1], p->at[1] ? p->at[2] : '\0', 0};
            c = (unsigned)strtoul(hex, NULL, 16);
            if (!c) return fail(p, "\\x needs two hexadecimal digits, not 00");
            p->at += 3;
        } else if (c == '\\') {
            c = (unsigned char)*p->at;
            if (!c) return fail(p, "the name has no end");
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
static tp_status number(parser *p, char *to, size_t size)
{
    size_t n = 0;
    skip_blanks(p);
    for (; is_number(p->at[n]); n++) {
        if (n + 1 == size) return fail(p, "the number is too long");
        to[n] = p->at[n] == '.' ? localeconv()->decimal_point[0] : p->at[n];
    }
    to[n] = 0;
    if (!n) return fail(p, "expected a number");
    p->at += n;
    return TP_OK;
}

static tp_status value(parser *p, tp_dtype dtype, const char *word, tp_value *v)
{
    char *end;
    *v = (tp_value){0};
    if (tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT)
        v->f = strtod(word, &end);
    else if (dtype == TP_U64 && *word != '-')
        v->i = (int64_t)strtoull(word, &end, 10);
    else
        v->i = strtoll(word, &end, 10);
    return *end ? fail(p, "this is no number of that dtype") : TP_OK;
}

/* The next part of a line. */
static tp_status part(parser *p, line *l)
{
    if (take(p, '%')) {
        if (l->in_count == 3) return fail(p, "too many operands");
        return reference(p, &l->in[l->in_count++]);
    }
    if (take(p, '[')) return list(p, &l->count, l->ints);
    if (take(p, '"')) {
        l->has_name = true;
        return quoted(p, l->name, sizeof l->name);
    }
    if (take(p, '{')) {
        l->values = p->at;
        while (*p->at && *p->at != '}' && *p->at != '\n') p->at++;
        return take(p, '}') ? TP_OK : fail(p, "expected }");
    }
    if (take_word(p, "pattern")) {
        l->pattern = true;
        return TP_OK;
    }
    if (take_word(p, "strides")) {
        l->has_strides = true;
        if (!take(p, '[')) return fail(p, "expected [");
        TRY(list(p, &l->stride_count, l->strides));
        if (!take_word(p, "offset")) return fail(p, "expected offset");
        TRY(integer(p, &l->offset));
        if (!take_word(p, "of")) return fail(p, "expected of");
        return integer(p, &l->storage);
    }
    for (int d = 0; d < TP_DTYPE_COUNT; d++) {
        if (!take_word(p, tp_dtype_name((tp_dtype)d))) continue;
        l->has_dtype = true;
        l->dtype = (tp_dtype)d;
        return TP_OK;
    }
    if (l->number_count == 2) return fail(p, "too many numbers");
    return number(p, l->number[l->number_count++], sizeof l->number[0]);
}

/* ---- Building ------------------------------------------------------------------------------ */

static tp_status read_values(parser *p, line *l, tp_storage *storage)
{
    int64_t size = (int64_t)tp_dtype_size(l->dtype), count = (int64_t)storage->size_bytes / size;
    bool floats = tp_dtype_kind_of(l->dtype) == TP_DTYPE_FLOAT;
    const char *after = p->at;
    tp_status status = TP_OK;
    if (l->values) p->at = l->values;
    for (int64_t i = 0; i < count && status == TP_OK; i++) {
        tp_value v = {.i = tp_form_pattern(l->dtype, i)};
        v.f = (double)v.i;
        char word[64];
        if (l->values) {
            if (i && !take(p, ',')) status = fail(p, "expected , and more values");
            if (status == TP_OK) status = number(p, word, sizeof word);
            if (status == TP_OK) status = value(p, l->dtype, word, &v);
        }
        tp_value_store(l->dtype, storage->data + i * size,
                       floats               ? TP_F64
                       : l->dtype == TP_U64 ? TP_U64
                                            : TP_I64,
                       v);
    }
    if (status == TP_OK && l->values && !take(p, '}'))
        status = fail(p, "expected } after the last value");
    if (status == TP_OK) p->at = after;
    return status;
}

static tp_tensor *data(parser *p, line *l)
{
    tp_view view;
    if (l->count > TP_MAX_RANK ||
        tp_infer_shape(p->graph, "data", l->dtype, l->count, l->ints, &view) != TP_OK)
        return NULL;
    int64_t count = tp_view_numel(&view), bytes;
    if (l->has_strides) {
        if (l->stride_count != l->count) {
            fail(p, "strides and shape have different ranks");
            return NULL;
        }
        count = l->storage;
        view.offset = l->offset;
        for (int d = 0; d < l->count; d++)
            view.stride[d] = view.shape[d] == 1 ? view.stride[d] : l->strides[d];
        if (!tp_infer_bounds(p->graph, "data", &view, count)) return NULL;
    }
    if (!l->values && !l->pattern) {
        fail(p, "data needs {values} or pattern");
        return NULL;
    }
    if (count < 0 || __builtin_mul_overflow(count, (int64_t)tp_dtype_size(l->dtype), &bytes)) {
        fail(p, "the storage is too large");
        return NULL;
    }
    tp_storage *storage = tp_storage_create(p->graph->context, (size_t)bytes);
    if (!storage) {
        tp_graph_fail_nomem(p->graph, "parse");
        return NULL;
    }
    if (read_values(p, l, storage) == TP_OK)
        return tp_leaf_from_storage(p->graph, l->dtype, &view, storage);
    tp_storage_release(storage);
    return NULL;
}

static tp_tensor *constant(parser *p, line *l)
{
    tp_value v[2];
    for (int i = 0; i < l->number_count; i++) {
        if (value(p, l->dtype, l->number[i], &v[i]) != TP_OK) return NULL;
    }
    bool floats = tp_dtype_kind_of(l->dtype) == TP_DTYPE_FLOAT;
    if (l->op == TP_OP_FULL) {
        return floats ? tp_full(p->graph, l->dtype, l->count, l->ints, v[0].f)
                      : tp_full_int(p->graph, l->dtype, l->count, l->ints, v[0].i);
    }
    if (floats) return tp_arange(p->graph, l->dtype, v[0].f, v[1].f, l->ints[0]);
    tp_tensor *y = tp_arange(p->graph, l->dtype, 0, 0, l->ints[0]);
    if (y) y->value[0] = v[0];
    if (y) y->value[1] = v[1];
    return y;
}

/* Operands, integers and numbers that an op's line must have; -1: any. */
typedef struct needs {
    int in, ints, numbers;
    bool dtype;
} needs;

static needs needs_of(tp_op op)
{
    switch (tp_op_info_of(op)->kind) {
    case TP_KIND_UNARY:
        return (needs){1, 0, 0, false};
    case TP_KIND_BINARY:
    case TP_KIND_COMPARE:
        return (needs){2, 0, 0, false};
    case TP_KIND_TERNARY:
        return (needs){3, 0, 0, false};
    case TP_KIND_REDUCE:
        return (needs){1, -1, 0, false};
    default:
        break;
    }
    switch (op) {
    case TP_OP_DATA:
        return (needs){0, -1, 0, true};
    case TP_OP_FULL:
        return (needs){0, -1, 1, true};
    case TP_OP_ARANGE:
        return (needs){0, 1, 2, true};
    case TP_OP_CAST:
    case TP_OP_BITCAST:
        return (needs){1, 0, 0, true};
    case TP_OP_CONTIGUOUS:
        return (needs){1, 0, 0, false};
    case TP_OP_MATMUL:
        return (needs){2, 0, 0, false};
    case TP_OP_INDEX_SELECT:
        return (needs){2, 1, 0, false};
    case TP_OP_LAYER_NORM:
        return (needs){-1, 2, 1, false};
    case TP_OP_SLICE:
        return (needs){1, 4, 0, false};
    case TP_OP_SELECT:
        return (needs){1, 2, 0, false};
    case TP_OP_DIAGONAL:
        return (needs){1, 3, 0, false};
    case TP_OP_SOFTMAX:
    case TP_OP_SQUEEZE:
    case TP_OP_UNSQUEEZE:
        return (needs){1, 1, 0, false};
    default:
        return (needs){1, -1, 0, false};
    }
}

static tp_status check(parser *p, const line *l)
{
    needs n = needs_of(l->op);
    int least = tp_op_info_of(l->op)->kind == TP_KIND_REDUCE ? 1 : 0;
    if (n.in >= 0 ? l->in_count != n.in : l->in_count < 1)
        return fail(p, "the op has another number of operands");
    if (n.ints >= 0 ? l->count != n.ints : l->count < least)
        return fail(p, "the op has another number of integers");
    if (l->number_count != n.numbers) return fail(p, "the op has another number of numbers");
    if (l->has_dtype != n.dtype)
        return fail(p, n.dtype ? "the op needs a dtype" : "the op takes no dtype");
    for (int i = 0; i < l->count; i++) {
        bool bound = l->op == TP_OP_SLICE || l->op == TP_OP_AS_STRIDED || l->op == TP_OP_DIAGONAL ||
                     l->op == TP_OP_SELECT;
        bool size = l->op == TP_OP_DATA || l->op == TP_OP_FULL || l->op == TP_OP_RESHAPE ||
                    l->op == TP_OP_EXPAND || l->op == TP_OP_ARANGE;
        if (!bound && !size && (l->ints[i] < -TP_MAX_RANK || l->ints[i] > TP_MAX_RANK))
            return fail(p, "an axis is out of range");
    }
    return TP_OK;
}

static tp_tensor *reduction(const line *l)
{
    tp_tensor *x = l->in[0];
    int count = l->count - 1;
    bool keep = l->ints[0] != 0;
    switch (l->op) {
#define UNARY(...)
#define BINARY(...)
#define TERNARY(...)
#define COMPARE(...)
#define REDUCE(ENUM, name, ...)                                                                    \
    case TP_OP_##ENUM:                                                                             \
        return tp_##name(x, count, l->ints + 1, keep);
#define VIEW(...)
#define COMPUTE(...)
#include "ops.def"
#undef UNARY
#undef BINARY
#undef TERNARY
#undef COMPARE
#undef REDUCE
    default:
        return NULL;
    }
}

static tp_tensor *elementwise(const line *l)
{
    tp_tensor *const *in = l->in;
    switch (l->op) {
#define UNARY(ENUM, name, ...)                                                                     \
    case TP_OP_##ENUM:                                                                             \
        return tp_##name(in[0]);
#define BINARY(ENUM, name, ...)                                                                    \
    case TP_OP_##ENUM:                                                                             \
        return tp_##name(in[0], in[1]);
#define COMPARE BINARY
#define TERNARY(ENUM, name, ...)                                                                   \
    case TP_OP_##ENUM:                                                                             \
        return tp_##name(in[0], in[1], in[2]);
#define REDUCE(...)
#include "ops.def"
#undef UNARY
#undef BINARY
#undef TERNARY
#undef COMPARE
#undef REDUCE
#undef VIEW
#undef COMPUTE
    default:
        return NULL;
    }
}

static tp_tensor *build(parser *p, line *l)
{
    tp_tensor *x = l->in[0];
    const int64_t *a = l->ints;
    tp_op_kind kind = tp_op_info_of(l->op)->kind;
    if (tp_op_is_elementwise(l->op)) return elementwise(l);
    if (kind == TP_KIND_REDUCE) return reduction(l);
    switch (l->op) {
    case TP_OP_DATA:
        return data(p, l);
    case TP_OP_FULL:
    case TP_OP_ARANGE:
        return constant(p, l);
    case TP_OP_RESHAPE:
        return tp_reshape(x, l->count, a);
    case TP_OP_PERMUTE:
        return tp_permute(x, l->count, a);
    case TP_OP_SLICE:
        return tp_slice(x, (int)a[0], a[1], a[2], a[3]);
    case TP_OP_SELECT:
        return tp_select(x, (int)a[0], a[1]);
    case TP_OP_EXPAND:
        return tp_expand(x, l->count, a);
    case TP_OP_SQUEEZE:
        return tp_squeeze(x, (int)a[0]);
    case TP_OP_UNSQUEEZE:
        return tp_unsqueeze(x, (int)a[0]);
    case TP_OP_FLIP:
        return tp_flip(x, l->count, a);
    case TP_OP_DIAGONAL:
        return tp_diagonal(x, a[0], (int)a[1], (int)a[2]);
    case TP_OP_AS_STRIDED:
        return tp_as_strided(x, l->count / 2, a, a + l->count / 2,
                             l->count % 2 ? a[l->count - 1] : 0);
    case TP_OP_BITCAST:
        return tp_bitcast(x, l->dtype);
    case TP_OP_CONTIGUOUS:
        return tp_contiguous(x);
    case TP_OP_CAST:
        return tp_cast(x, l->dtype);
    case TP_OP_SOFTMAX:
        return tp_softmax(x, (int)a[0]);
    case TP_OP_LAYER_NORM: {
        bool weight = a[1] & 1, bias = a[1] & 2;
        if (l->in_count != 1 + weight + bias) {
            fail(p, "the operands do not fit the second integer");
            return NULL;
        }
        return tp_layer_norm(x, (int)a[0], weight ? l->in[1] : NULL,
                             bias ? l->in[1 + weight] : NULL, strtod(l->number[0], NULL));
    }
    case TP_OP_MATMUL:
        return tp_matmul(x, l->in[1]);
    case TP_OP_INDEX_SELECT:
        return tp_index_select(x, (int)a[0], l->in[1]);
    default:
        return NULL;
    }
}

/* ---- Lines -------------------------------------------------------------------------------------
 */

static tp_status node_line(parser *p)
{
    int64_t number_given;
    TRY(integer(p, &number_given));
    if (number_given != p->node_count) return fail(p, "nodes are numbered from 0 without gaps");
    if (!take(p, '=')) return fail(p, "expected =");
    skip_blanks(p);
    line l = {0};
    size_t length = word_length(p);
    l.op = tp_op_find(p->at, length);
    if (l.op == TP_OP_COUNT) return fail(p, "there is no such op");
    p->at += length;
    for (skip_blanks(p); *p->at && *p->at != '\n'; skip_blanks(p)) TRY(part(p, &l));
    TRY(check(p, &l));
    tp_tensor *x = build(p, &l);
    if (x && l.has_name) x = tp_named(x, l.name);
    if (!x)
        return p->graph->error.status == TP_OK ? fail(p, "the node cannot be built")
                                               : p->graph->error.status;
    void *nodes = p->node;
    if (!tp_grow(p->graph->context, &nodes, &p->node_capacity, p->node_count + 1, sizeof *p->node))
        return tp_graph_fail_nomem(p->graph, "parse");
    p->node = nodes;
    p->node[p->node_count++] = x;
    return TP_OK;
}

static tp_status return_line(parser *p, int max, tp_tensor **outputs, int *count)
{
    while (take(p, '%')) {
        tp_tensor *x = NULL;
        TRY(reference(p, &x));
        if (*count == max) return fail(p, "more outputs than there is room for");
        outputs[(*count)++] = x;
        take(p, ',');
    }
    return *p->at && *p->at != '\n' ? fail(p, "expected % and a number") : TP_OK;
}

static tp_status parse(parser *p, int max, tp_tensor **outputs, int *count)
{
    bool returned = false;
    for (; *p->at; p->at += *p->at == '\n') {
        skip_blanks(p);
        if (*p->at == '\n' || !*p->at) continue;
        if (returned) return fail(p, "nothing may follow return");
        if (take(p, '%'))
            TRY(node_line(p));
        else if (take_word(p, "return")) {
            returned = true;
            TRY(return_line(p, max, outputs, count));
        } else
            return fail(p, "expected % or return");
    }
    return returned ? TP_OK : fail(p, "there is no return");
}

/* Takes back the nodes that were added. */
static void roll_back(parser *p)
{
    tp_graph *graph = p->graph;
    while (graph->node_count > p->first)
        tp_storage_release(graph->node[--graph->node_count]->storage);
}

int tp_graph_parse(tp_graph *graph, const char *text, int max, tp_tensor **outputs)
{
    if (!graph || !text || (max > 0 && !outputs)) return -1;
    tp_graph_clear_error(graph);
    parser p = {.graph = graph, .text = text, .at = text, .first = graph->node_count};
    int count = 0;
    tp_status status = parse(&p, max, outputs, &count);
    tp_context_free(graph->context, p.node, (size_t)p.node_capacity * sizeof *p.node);
    if (status == TP_OK) return count;
    roll_back(&p);
    return -1;
}
