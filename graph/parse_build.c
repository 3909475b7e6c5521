/* A scanned line of the .tp form becomes a node: checked against what its op needs, then built by
 * the public builders, so that shape errors come in their words. The printed form shows core
 * nodes only, so the builders insert nothing in between when they read it back. */
#include "infer.h"
#include "parse.h"
#include "tp_form.h"

#include <limits.h>

static tp_tensor *fail(tp_scan *scan, const tp_line *l, const char *what)
{
    tp_scan_fail(scan, l->at, what);
    return NULL;
}

/* ---- What an op's line must have ------------------------------------------------------- */

/* Operands, integers and numbers, -1: any; least: of integers. */
typedef struct needs {
    int in, ints, numbers, least;
    bool list, dtype;
} needs;

static needs needs_of(tp_op op)
{
    switch (tp_op_info_of(op)->kind) {
    case TP_KIND_UNARY:
    case TP_KIND_TEST:
        return (needs){.in = 1};
    case TP_KIND_BINARY:
    case TP_KIND_COMPARE:
        return (needs){.in = 2};
    case TP_KIND_TERNARY:
        return (needs){.in = 3};
    case TP_KIND_REDUCE:
        return (needs){.in = 1, .list = true, .ints = -1, .least = 1};
    default:
        break;
    }
    switch (op) {
    case TP_OP_DATA:
        return (needs){.list = true, .ints = -1, .dtype = true};
    case TP_OP_FULL:
        return (needs){.list = true, .ints = -1, .numbers = 1, .dtype = true};
    case TP_OP_ARANGE:
        return (needs){.list = true, .ints = 1, .numbers = 2, .dtype = true};
    case TP_OP_CAST:
    case TP_OP_BITCAST:
        return (needs){.in = 1, .dtype = true};
    case TP_OP_CONTIGUOUS:
        return (needs){.in = 1};
    case TP_OP_MATMUL:
        return (needs){.in = 2};
    case TP_OP_INDEX_SELECT:
        return (needs){.in = 2, .list = true, .ints = 1};
    case TP_OP_TAKE_ALONG:
        return (needs){.in = 2, .list = true, .ints = 1};
    case TP_OP_SORT:
    case TP_OP_ARGSORT:
        return (needs){.in = 1, .list = true, .ints = 2};
    case TP_OP_RANDOM_UNIFORM:
    case TP_OP_RANDOM_NORMAL:
        return (needs){.list = true, .ints = -1, .least = 1, .dtype = true};
    case TP_OP_CONCAT:
        return (needs){.in = -1, .list = true, .ints = 1};
    case TP_OP_PAD:
        return (needs){.in = 1, .list = true, .ints = -1, .numbers = 1, .dtype = true};
    case TP_OP_UPDATE:
        return (needs){.in = 2, .list = true, .ints = -1, .least = 1};
    case TP_OP_SCATTER_ADD:
        return (needs){.in = 3, .list = true, .ints = 1};
    case TP_OP_LAYER_NORM:
        return (needs){.in = -1, .list = true, .ints = 2, .numbers = 1};
    case TP_OP_WINDOWS:
    case TP_OP_SLICE:
        return (needs){.in = 1, .list = true, .ints = 4};
    case TP_OP_SELECT:
        return (needs){.in = 1, .list = true, .ints = 2};
    case TP_OP_DIAGONAL:
        return (needs){.in = 1, .list = true, .ints = 3};
    case TP_OP_CUMSUM:
    case TP_OP_CUMPROD:
    case TP_OP_CUMMAX:
    case TP_OP_SQUEEZE:
    case TP_OP_UNSQUEEZE:
        return (needs){.in = 1, .list = true, .ints = 1};
    case TP_OP_SOFTMAX:
    case TP_OP_AS_STRIDED:
        return (needs){.in = 1, .list = true, .ints = -1, .least = 1};
    default: /* reshape, permute, expand, flip */
        return (needs){.in = 1, .list = true, .ints = -1};
    }
}

/* What is wrong with the line, NULL if nothing. */
static const char *complaint(const tp_line *l)
{
    needs n = needs_of(l->op);
    bool list = l->parts & TP_PART_LIST, dtype = l->parts & TP_PART_DTYPE;
    if (n.in >= 0 ? l->in_count != n.in : l->in_count < 1)
        return "the op has another number of operands";
    if (list != n.list) return n.list ? "the op needs [integers]" : "the op takes no [integers]";
    if (n.ints >= 0 ? l->count != n.ints : l->count < n.least)
        return "the op has another number of integers";
    if (l->number_count != n.numbers) return "the op has another number of numbers";
    if (dtype != n.dtype) return n.dtype ? "the op needs a dtype" : "the op takes no dtype";
    if (l->op != TP_OP_DATA)
        return l->parts & (TP_PART_VALUES | TP_PART_STRIDES) ? "only data has values and strides"
                                                             : NULL;
    if (!(l->parts & TP_PART_VALUES)) return "data needs {values} or pattern";
    bool strided = l->parts & TP_PART_STRIDES;
    return strided && l->stride_count != l->count ? "strides and shape have different ranks" : NULL;
}

/* ---- Leaves ------------------------------------------------------------------------------ */

static tp_status read_values(tp_scan *scan, const tp_line *l, tp_storage *storage, int64_t count)
{
    int64_t size = (int64_t)tp_dtype_size(l->dtype);
    bool floats = tp_dtype_kind_of(l->dtype) == TP_DTYPE_FLOAT;
    tp_dtype from = floats ? TP_F64 : l->dtype == TP_U64 ? TP_U64 : TP_I64;
    scan->at = l->values;
    for (int64_t i = 0; i < count; i++) {
        tp_value v = {.i = tp_form_pattern(l->dtype, i)};
        v.f = (double)v.i;
        if (l->values) {
            if (i && !tp_scan_take(scan, ','))
                return tp_scan_fail(scan, scan->at, "expected , and more values");
            TRY(tp_scan_number(scan, l->dtype, &v));
        }
        tp_value_store(l->dtype, storage->data + i * size, from, v);
    }
    if (!l->values || tp_scan_take(scan, '}')) return TP_OK;
    return tp_scan_fail(scan, scan->at, "expected } after the last value");
}

static tp_tensor *data(tp_scan *scan, tp_line *l)
{
    tp_graph *graph = scan->graph;
    tp_view view;
    if (tp_infer_shape(graph, "data", l->dtype, l->count, l->ints, &view) != TP_OK) return NULL;
    int64_t count = tp_view_numel(&view), bytes;
    if (l->parts & TP_PART_STRIDES) {
        count = l->storage;
        view.offset = l->offset;
        for (int d = 0; d < l->count; d++)
            view.stride[d] = view.shape[d] == 1 ? view.stride[d] : l->strides[d];
        if (!tp_infer_bounds(graph, "data", &view, count)) return NULL;
    }
    if (count < 0 || __builtin_mul_overflow(count, (int64_t)tp_dtype_size(l->dtype), &bytes))
        return fail(scan, l, "the storage has a negative size or more than 2^63-1 bytes");
    tp_storage *storage = tp_storage_create(graph->context, (size_t)bytes);
    if (!storage) {
        tp_graph_fail(graph, TP_E_NOMEM, "data", -1, "%lld bytes are not to be had",
                      (long long)bytes);
        return NULL;
    }
    if (read_values(scan, l, storage, count) == TP_OK)
        return tp_leaf_from_storage(graph, l->dtype, &view, storage);
    tp_storage_release(storage);
    return NULL;
}

static tp_tensor *constant(tp_scan *scan, tp_line *l)
{
    tp_graph *graph = scan->graph;
    tp_value v[2];
    for (int i = 0; i < l->number_count; i++) {
        scan->at = l->number[i];
        if (tp_scan_number(scan, l->dtype, &v[i]) != TP_OK) return NULL;
    }
    bool floats = tp_dtype_kind_of(l->dtype) == TP_DTYPE_FLOAT;
    if (l->op == TP_OP_FULL) {
        return floats ? tp_full(graph, l->dtype, l->count, l->ints, v[0].f)
                      : tp_full_int(graph, l->dtype, l->count, l->ints, v[0].i);
    }
    if (floats) return tp_arange(graph, l->dtype, v[0].f, v[1].f, l->ints[0]);
    /* An f64 does not hold every integer. */
    tp_tensor *y = tp_arange(graph, l->dtype, 0, 0, l->ints[0]);
    if (y) y->value[0] = v[0];
    if (y) y->value[1] = v[1];
    return y;
}

/* ---- Operations ---------------------------------------------------------------------------- */

static tp_tensor *reduction(const tp_line *l)
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

static tp_tensor *elementwise(const tp_line *l)
{
    tp_tensor *const *in = l->in;
    switch (l->op) {
#define UNARY(ENUM, name, ...)                                                                     \
    case TP_OP_##ENUM:                                                                             \
        return tp_##name(in[0]);
#define BINARY(ENUM, name, ...)                                                                    \
    case TP_OP_##ENUM:                                                                             \
        return tp_##name(in[0], in[1]);
#define TEST UNARY
#define COMPARE BINARY
#define TERNARY(ENUM, name, ...)                                                                   \
    case TP_OP_##ENUM:                                                                             \
        return tp_##name(in[0], in[1], in[2]);
#include "ops.def"
    default:
        return NULL;
    }
}

static tp_tensor *layer_norm(tp_scan *scan, tp_line *l, int axes)
{
    int64_t bits = l->ints[1];
    bool weight = bits & 1, bias = bits & 2;
    if (bits < 0 || bits > 3 || l->in_count != 1 + weight + bias)
        return fail(scan, l, "the operands do not fit the second integer");
    tp_value eps;
    scan->at = l->number[0];
    if (tp_scan_number(scan, TP_F64, &eps) != TP_OK) return NULL;
    return tp_layer_norm(l->in[0], axes, weight ? l->in[1] : NULL, bias ? l->in[1 + weight] : NULL,
                         eps.f);
}

static tp_tensor *as_strided(tp_scan *scan, tp_line *l)
{
    int rank = l->count / 2;
    if (l->count % 2 == 0) return fail(scan, l, "as_strided needs sizes, strides and an offset");
    return tp_as_strided(l->in[0], rank, l->ints, l->ints + rank, l->ints[2 * rank]);
}

static tp_tensor *pad(tp_scan *scan, tp_line *l)
{
    tp_value value;
    if (l->dtype != tp_dtype_of(l->in[0])) return fail(scan, l, "the dtype is not the operand's");
    scan->at = l->number[0];
    if (tp_scan_number(scan, l->dtype, &value) != TP_OK) return NULL;
    return tp_build_pad(l->in[0], l->count, l->ints, value);
}

static tp_tensor *update(tp_scan *scan, tp_line *l)
{
    tp_view part = {.ndim = l->count / 2};
    if (l->count % 2 == 0) return fail(scan, l, "update needs sizes, strides and an offset");
    for (int d = 0; d < part.ndim; d++) {
        part.shape[d] = l->ints[d];
        part.stride[d] = l->ints[part.ndim + d];
    }
    part.offset = l->ints[2 * part.ndim];
    return tp_build_update(l->in[0], &part, l->in[1]);
}

/* Builders take axes as int; what does not fit is out of range there too. */
static int axis(int64_t a)
{
    return a > INT_MAX ? INT_MAX : a < INT_MIN ? INT_MIN : (int)a;
}

static tp_tensor *view(tp_scan *scan, tp_line *l)
{
    tp_tensor *x = l->in[0];
    const int64_t *a = l->ints;
    switch (l->op) {
    case TP_OP_RESHAPE:
        return tp_reshape(x, l->count, a);
    case TP_OP_PERMUTE:
        return tp_permute(x, l->count, a);
    case TP_OP_SLICE:
        return tp_slice(x, axis(a[0]), a[1], a[2], a[3]);
    case TP_OP_SELECT:
        return tp_select(x, axis(a[0]), a[1]);
    case TP_OP_EXPAND:
        return tp_expand(x, l->count, a);
    case TP_OP_SQUEEZE:
        return tp_squeeze(x, axis(a[0]));
    case TP_OP_UNSQUEEZE:
        return tp_unsqueeze(x, axis(a[0]));
    case TP_OP_FLIP:
        return tp_flip(x, l->count, a);
    case TP_OP_DIAGONAL:
        return tp_diagonal(x, a[0], axis(a[1]), axis(a[2]));
    case TP_OP_WINDOWS:
        return tp_build_windows(x, axis(a[0]), a[1], a[2], a[3]);
    case TP_OP_AS_STRIDED:
        return as_strided(scan, l);
    case TP_OP_BITCAST:
        return tp_bitcast(x, l->dtype);
    default:
        return NULL;
    }
}

static tp_tensor *build(tp_scan *scan, tp_line *l)
{
    tp_tensor *x = l->in_count ? l->in[0] : NULL;
    tp_op_kind kind = tp_op_info_of(l->op)->kind;
    if (tp_op_is_elementwise(l->op)) return elementwise(l);
    if (kind == TP_KIND_REDUCE) return reduction(l);
    if (kind == TP_KIND_VIEW) return view(scan, l);
    switch (l->op) {
    case TP_OP_DATA:
        return data(scan, l);
    case TP_OP_FULL:
    case TP_OP_ARANGE:
        return constant(scan, l);
    case TP_OP_CONTIGUOUS:
        return tp_contiguous(x);
    case TP_OP_CAST:
        return tp_cast(x, l->dtype);
    case TP_OP_SOFTMAX:
        return tp_build_softmax(x, axis(l->ints[0]), l->count > 1 && l->ints[1]);
    case TP_OP_LAYER_NORM:
        return layer_norm(scan, l, axis(l->ints[0]));
    case TP_OP_MATMUL:
        return tp_matmul(x, l->in[1]);
    case TP_OP_TAKE_ALONG:
        return tp_take_along(x, axis(l->ints[0]), l->in[1]);
    case TP_OP_CUMSUM:
        return tp_cumsum(x, axis(l->ints[0]));
    case TP_OP_CUMPROD:
        return tp_cumprod(x, axis(l->ints[0]));
    case TP_OP_CUMMAX:
        return tp_cummax(x, axis(l->ints[0]));
    case TP_OP_SORT:
        return tp_sort(x, axis(l->ints[0]), l->ints[1] != 0);
    case TP_OP_ARGSORT:
        return tp_argsort(x, axis(l->ints[0]), l->ints[1] != 0);
    case TP_OP_RANDOM_UNIFORM:
        return tp_random_uniform(scan->graph, l->dtype, l->count - 1, l->ints,
                                 (uint64_t)l->ints[l->count - 1]);
    case TP_OP_RANDOM_NORMAL:
        return tp_random_normal(scan->graph, l->dtype, l->count - 1, l->ints,
                                (uint64_t)l->ints[l->count - 1]);
    case TP_OP_CONCAT:
        return tp_concat(l->in_count, l->in, axis(l->ints[0]));
    case TP_OP_PAD:
        return pad(scan, l);
    case TP_OP_UPDATE:
        return update(scan, l);
    case TP_OP_SCATTER_ADD:
        return tp_scatter_add(x, axis(l->ints[0]), l->in[1], l->in[2]);
    case TP_OP_INDEX_SELECT:
        return tp_index_select(x, axis(l->ints[0]), l->in[1]);
    default:
        return NULL;
    }
}

/* The name goes straight into the graph's arena: it may be long. */
static bool give_name(tp_scan *scan, const tp_line *l, tp_tensor *x)
{
    char *name = tp_arena_alloc(&scan->graph->arena, l->name_size);
    if (!name) {
        tp_graph_fail_nomem(scan->graph, "parse");
        return false;
    }
    scan->at = l->name;
    if (tp_scan_string(scan, name) != TP_OK) return false;
    x->name = name;
    return true;
}

tp_tensor *tp_parse_node(tp_scan *scan, tp_line *l)
{
    const char *what = complaint(l);
    if (what) return fail(scan, l, what);
    tp_tensor *x = build(scan, l);
    const tp_error *error = &scan->graph->error;
    if (!x && error->status == TP_OK) return fail(scan, l, "the node cannot be built");
    /* A builder's sentence does not say where in the text it was. */
    if (!x && error->status != TP_E_FORMAT) tp_scan_blame(scan, l->at);
    if (!x) return NULL;
    return !(l->parts & TP_PART_NAME) || give_name(scan, l, x) ? x : NULL;
}
