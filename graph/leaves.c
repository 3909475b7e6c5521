/* Leaves: values that come from outside, and telling the graph that they changed. */
#include "infer.h"

#include <string.h>

tp_tensor *tp_leaf_from_storage(tp_graph *graph, tp_dtype dtype, const tp_view *view,
                                tp_storage *storage)
{
    tp_view *result = tp_arena_alloc(&graph->arena, sizeof *result);
    if (!result) tp_graph_fail_nomem(graph, "data");
    tp_tensor *node = result ? tp_build_node(graph, TP_OP_DATA, dtype, 0, NULL, view, NULL,
                                             view->ndim, view->shape)
                             : NULL;
    if (!node) {
        tp_storage_release(storage);
        return NULL;
    }
    node->storage = storage;
    node->state = TP_EVALUATED;
    tp_view_copy(result, view);
    node->result = result;
    return node;
}

tp_tensor *tp_from_data(tp_graph *graph, tp_dtype dtype, int ndim, const int64_t *shape,
                        const void *data)
{
    tp_view view;
    if (!graph || tp_infer_shape(graph, "from_data", dtype, ndim, shape, &view) != TP_OK)
        return NULL;
    size_t size_bytes = (size_t)tp_view_numel(&view) * tp_dtype_size(dtype);
    if (size_bytes && !data) {
        tp_graph_fail(graph, TP_E_ARGUMENT, "from_data", -1, "data is NULL");
        return NULL;
    }
    tp_storage *storage = tp_storage_create(graph->context, size_bytes);
    if (!storage) {
        tp_graph_fail(graph, TP_E_NOMEM, "from_data", -1, "%zu bytes are not to be had",
                      size_bytes);
        return NULL;
    }
    if (size_bytes) memcpy(storage->data, data, size_bytes);
    return tp_leaf_from_storage(graph, dtype, &view, storage);
}

tp_tensor *tp_wrap(tp_graph *graph, tp_dtype dtype, int ndim, const int64_t *shape,
                   const int64_t *strides, int64_t offset, void *data, size_t size_bytes,
                   void (*release)(void *, void *), void *user)
{
    tp_view view;
    if (!graph || tp_infer_shape(graph, "wrap", dtype, ndim, shape, &view) != TP_OK) return NULL;
    int64_t numel = tp_view_numel(&view);
    if ((numel && !data) || size_bytes > INT64_MAX) {
        tp_graph_fail(graph, TP_E_ARGUMENT, "wrap", -1,
                      data ? "size_bytes is beyond 2^63-1" : "data is NULL");
        return NULL;
    }
    if ((uintptr_t)data % tp_dtype_size(dtype)) {
        tp_graph_fail(graph, TP_E_ARGUMENT, "wrap", -1,
                      "data is not aligned to %zu bytes, the size of %s", tp_dtype_size(dtype),
                      tp_dtype_name(dtype));
        return NULL;
    }
    if (numel) {
        view.offset = offset;
        for (int d = 0; strides && d < ndim; d++)
            view.stride[d] = shape[d] == 1 ? view.stride[d] : strides[d];
        if (!tp_infer_bounds(graph, "wrap", &view, (int64_t)(size_bytes / tp_dtype_size(dtype))))
            return NULL;
    }
    /* release is set once nothing can fail any more: on failure the bytes stay the caller's. */
    tp_storage *storage = tp_storage_wrap(graph->context, data, size_bytes, NULL, NULL);
    if (!storage) {
        tp_graph_fail_nomem(graph, "wrap");
        return NULL;
    }
    tp_tensor *node = tp_leaf_from_storage(graph, dtype, &view, storage);
    if (!node) return NULL;
    storage->release = release;
    storage->release_user = user;
    return node;
}

/* ---- Constants -------------------------------------------------------------------------- */

/* value as it reads after being stored in dtype. */
static tp_value stored(tp_dtype dtype, tp_dtype from, tp_value value)
{
    uint64_t bytes[2] = {0};
    tp_value_store(dtype, bytes, from, value);
    return tp_value_load(dtype, bytes);
}

static tp_tensor *full(tp_graph *graph, tp_dtype dtype, int ndim, const int64_t *shape,
                       tp_dtype from, tp_value value)
{
    tp_view view;
    if (!graph || tp_infer_shape(graph, "full", dtype, ndim, shape, &view) != TP_OK) return NULL;
    tp_tensor *y = tp_build_node(graph, TP_OP_FULL, dtype, 0, NULL, &view, NULL, ndim, view.shape);
    if (y) y->value[0] = stored(dtype, from, value);
    return y;
}

tp_tensor *tp_full(tp_graph *graph, tp_dtype dtype, int ndim, const int64_t *shape, double value)
{
    return full(graph, dtype, ndim, shape, TP_F64, (tp_value){.f = value});
}

tp_tensor *tp_full_int(tp_graph *graph, tp_dtype dtype, int ndim, const int64_t *shape,
                       int64_t value)
{
    return full(graph, dtype, ndim, shape, TP_I64, (tp_value){.i = value});
}

tp_tensor *tp_scalar(tp_graph *graph, tp_dtype dtype, double value)
{
    return tp_full(graph, dtype, 0, NULL, value);
}

tp_tensor *tp_num(tp_tensor *x, double value)
{
    if (!x) return NULL;
    bool is_float = tp_dtype_kind_of((tp_dtype)x->dtype) == TP_DTYPE_FLOAT;
    return tp_full(x->graph, is_float ? (tp_dtype)x->dtype : TP_F32, 0, NULL, value);
}

/* Whether an integer dtype holds value exactly. */
static bool fits(tp_dtype dtype, int64_t value)
{
    if (tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT) return true;
    if (dtype == TP_BOOL) return value == 0 || value == 1;
    if (dtype == TP_U64) return value >= 0;
    return stored(dtype, TP_I64, (tp_value){.i = value}).i == value;
}

tp_tensor *tp_int(tp_tensor *x, int64_t value)
{
    if (!x) return NULL;
    if (!fits((tp_dtype)x->dtype, value)) {
        tp_graph_fail(x->graph, TP_E_DTYPE, "int", -1, "%lld does not fit %s", (long long)value,
                      tp_dtype_name((tp_dtype)x->dtype));
        return NULL;
    }
    return tp_full_int(x->graph, (tp_dtype)x->dtype, 0, NULL, value);
}

tp_tensor *tp_arange(tp_graph *graph, tp_dtype dtype, double start, double step, int64_t count)
{
    tp_view view;
    if (!graph || tp_infer_shape(graph, "arange", dtype, 1, &count, &view) != TP_OK) return NULL;
    tp_tensor *y = tp_build_node(graph, TP_OP_ARANGE, dtype, 0, NULL, &view, NULL, 1, &count);
    if (!y) return NULL;
    y->value[0] = stored(dtype, TP_F64, (tp_value){.f = start});
    y->value[1] = stored(dtype, TP_F64, (tp_value){.f = step});
    return y;
}

/* ---- Change --------------------------------------------------------------------------------- */

/* Marks every evaluated result that depends on a leaf as stale. One walk upwards: inputs have
 * smaller ids. */
static tp_status changed(tp_tensor *x, const char *op)
{
    tp_graph *graph = x->graph;
    size_t bytes = (size_t)(graph->node_count - x->id);
    uint8_t *depends = tp_context_alloc_zero(graph->context, bytes);
    if (!depends) return tp_graph_fail_nomem(graph, op);
    depends[0] = 1;
    for (int64_t id = x->id + 1; id < graph->node_count; id++) {
        tp_tensor *node = graph->node[id];
        bool hit = false;
        for (int i = 0; i < node->in_count; i++)
            hit = hit || (node->in[i]->id >= x->id && depends[node->in[i]->id - x->id]);
        depends[id - x->id] = hit;
        if (!hit || node->state != TP_EVALUATED) continue;
        node->state = TP_STALE;
        node->changed = x;
        node->changed_from = x->version;
    }
    tp_context_free(graph->context, depends, bytes);
    x->version++;
    graph->structure++;
    return TP_OK;
}

tp_status tp_touch(tp_tensor *x)
{
    if (!x) return TP_E_ARGUMENT;
    if (x->op != TP_OP_DATA)
        return tp_graph_fail(x->graph, TP_E_ARGUMENT, "touch", -1,
                             "%%%lld (%s) is not a leaf with data", (long long)x->id,
                             tp_op_name(x));
    TRY(changed(x, "touch"));
    if (x->storage) tp_storage_written(x->storage, NULL);
    return TP_OK;
}

int64_t tp_leaf_bytes(const tp_tensor *x)
{
    if (x->storage) return (int64_t)x->storage->size_bytes;
    return tp_view_numel(x->view) * (int64_t)tp_dtype_size((tp_dtype)x->dtype);
}

tp_status tp_bind(tp_tensor *x, const void *data, size_t size_bytes)
{
    if (!x) return TP_E_ARGUMENT;
    if (x->op != TP_OP_DATA || !tp_view_is_row_major(x->view)) {
        return tp_graph_fail(x->graph, TP_E_ARGUMENT, "bind", -1,
                             "%%%lld (%s) is not a row-major leaf", (long long)x->id,
                             tp_op_name(x));
    }
    size_t wanted = (size_t)tp_view_numel(x->view) * tp_dtype_size((tp_dtype)x->dtype);
    if (size_bytes != wanted || (wanted && !data)) {
        return tp_graph_fail(x->graph, TP_E_ARGUMENT, "bind", -1,
                             "the leaf has %zu bytes, %zu are given", wanted,
                             data ? size_bytes : 0);
    }
    /* At least the old size: views built on the old storage must stay inside the new one. */
    tp_storage *storage = tp_storage_create(x->graph->context, (size_t)tp_leaf_bytes(x));
    if (!storage)
        return tp_graph_fail(x->graph, TP_E_NOMEM, "bind", -1, "%zu bytes are not to be had",
                             size_bytes);
    memset(storage->data, 0, storage->size_bytes);
    if (wanted) memcpy(storage->data, data, wanted);
    tp_status status = changed(x, "bind");
    if (status != TP_OK) {
        tp_storage_release(storage);
        return status;
    }
    tp_storage_release(x->storage);
    x->storage = storage;
    x->state = TP_EVALUATED;
    return TP_OK;
}
