/* A scanned line of the .tp form becomes a node, by the public builders. */
#include "infer.h"
#include "parse.h"

#include <stdlib.h>
#include <string.h>

static tp_status value(tp_parser *p, tp_dtype dtype, const char *word, tp_value *v)
{
    char *end;
    *v = (tp_value){0};
    if (tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT)
        v->f = strtod(word, &end);
    else if (dtype == TP_U64 && *word != '-')
        v->i = (int64_t)strtoull(word, &end, 10);
    else
        v->i = strtoll(word, &end, 10);
    return *end ? tp_parse_fail(p, "this is no number of that dtype") : TP_OK;
}

/* ---- Building ------------------------------------------------------------------------------ */

static tp_status read_values(tp_parser *p, tp_parse_line *l, tp_storage *storage)
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
            if (i && !tp_parse_take(p, ','))
                status = tp_parse_fail(p, "expected , and more values");
            if (status == TP_OK) status = tp_parse_number(p, word, sizeof word);
            if (status == TP_OK) status = value(p, l->dtype, word, &v);
        }
        tp_value_store(l->dtype, storage->data + i * size,
                       floats               ? TP_F64
                       : l->dtype == TP_U64 ? TP_U64
                                            : TP_I64,
                       v);
    }
    if (status == TP_OK && l->values && !tp_parse_take(p, '}'))
        status = tp_parse_fail(p, "expected } after the last value");
    if (status == TP_OK) p->at = after;
    return status;
}

static tp_tensor *data(tp_parser *p, tp_parse_line *l)
{
    tp_view view;
    if (l->count > TP_MAX_RANK ||
        tp_infer_shape(p->graph, "data", l->dtype, l->count, l->ints, &view) != TP_OK)
        return NULL;
    int64_t count = tp_view_numel(&view), bytes;
    if (l->has_strides) {
        if (l->stride_count != l->count) {
            tp_parse_fail(p, "strides and shape have different ranks");
            return NULL;
        }
        count = l->storage;
        view.offset = l->offset;
        for (int d = 0; d < l->count; d++)
            view.stride[d] = view.shape[d] == 1 ? view.stride[d] : l->strides[d];
        if (!tp_infer_bounds(p->graph, "data", &view, count)) return NULL;
    }
    if (!l->values && !l->pattern) {
        tp_parse_fail(p, "data needs {values} or pattern");
        return NULL;
    }
    if (count < 0 || __builtin_mul_overflow(count, (int64_t)tp_dtype_size(l->dtype), &bytes)) {
        tp_parse_fail(p, "the storage is too large");
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

static tp_tensor *constant(tp_parser *p, tp_parse_line *l)
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

tp_status tp_parse_check(tp_parser *p, const tp_parse_line *l)
{
    needs n = needs_of(l->op);
    int least = tp_op_info_of(l->op)->kind == TP_KIND_REDUCE ? 1 : 0;
    if (n.in >= 0 ? l->in_count != n.in : l->in_count < 1)
        return tp_parse_fail(p, "the op has another number of operands");
    if (n.ints >= 0 ? l->count != n.ints : l->count < least)
        return tp_parse_fail(p, "the op has another number of integers");
    if (l->number_count != n.numbers)
        return tp_parse_fail(p, "the op has another number of numbers");
    if (l->has_dtype != n.dtype)
        return tp_parse_fail(p, n.dtype ? "the op needs a dtype" : "the op takes no dtype");
    for (int i = 0; i < l->count; i++) {
        bool bound = l->op == TP_OP_SLICE || l->op == TP_OP_AS_STRIDED || l->op == TP_OP_DIAGONAL ||
                     l->op == TP_OP_SELECT;
        bool size = l->op == TP_OP_DATA || l->op == TP_OP_FULL || l->op == TP_OP_RESHAPE ||
                    l->op == TP_OP_EXPAND || l->op == TP_OP_ARANGE;
        if (!bound && !size && (l->ints[i] < -TP_MAX_RANK || l->ints[i] > TP_MAX_RANK))
            return tp_parse_fail(p, "an axis is out of range");
    }
    return TP_OK;
}

static tp_tensor *reduction(const tp_parse_line *l)
{
    tp_tensor *x = l->in[0];
    int count = l->count - 1;
    bool keep = l->ints[0] != 0;
    switch (l->op) {
#define REDUCE(ENUM, name, ...)                                                                    \
    case TP_OP_##ENUM:                                                                             \
        return tp_##name(x, count, l->ints + 1, keep);
#include "ops.def"
    default:
        return NULL;
    }
}

static tp_tensor *elementwise(const tp_parse_line *l)
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
#include "ops.def"
    default:
        return NULL;
    }
}

tp_tensor *tp_parse_build(tp_parser *p, tp_parse_line *l)
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
            tp_parse_fail(p, "the operands do not fit the second integer");
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
