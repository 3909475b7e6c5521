/* Taking tensors apart and repeating them: views where the strides allow it. */
#include "infer.h"

/* ---- Parts ------------------------------------------------------------------------------ */

static tp_status no_parts(tp_graph *graph, const char *op, int count, tp_tensor **parts)
{
    if (count >= 0 && (!count || parts)) return TP_OK;
    return tp_graph_fail(graph, TP_E_ARGUMENT, op, -1, "%d parts, or no room for them", count);
}

/* One part after the other from x; a failure leaves all parts NULL. */
static tp_status cut(tp_tensor *x, int axis, int count, const int64_t *sizes, int64_t even,
                     int64_t longer, tp_tensor **parts)
{
    int64_t start = 0;
    for (int i = 0; i < count; i++) {
        int64_t size = sizes ? sizes[i] : even + (i < longer);
        parts[i] = tp_slice(x, axis, start, start + size, 1);
        start += size;
        if (parts[i]) continue;
        for (int k = 0; k < i; k++) parts[k] = NULL;
        return x->graph->error.status;
    }
    return TP_OK;
}

tp_status tp_split(tp_tensor *x, int axis, int count, const int64_t *sizes, tp_tensor **parts)
{
    if (!x) return TP_E_ARGUMENT;
    int dim;
    TRY(no_parts(x->graph, "split", count, parts));
    for (int i = 0; i < count; i++) parts[i] = NULL;
    TRY(tp_infer_axis(x->graph, "split", x->view, axis, &dim));
    if (count && !sizes)
        return tp_graph_fail(x->graph, TP_E_ARGUMENT, "split", dim, "sizes is NULL");
    int64_t sum = 0;
    bool fits = true;
    for (int i = 0; i < count; i++)
        fits = fits && sizes[i] >= 0 && !__builtin_add_overflow(sum, sizes[i], &sum);
    if (fits && sum == x->view->shape[dim]) return cut(x, dim, count, sizes, 0, 0, parts);
    char text[400];
    tp_view_print_shape(x->view, text, sizeof text);
    return tp_graph_fail(
        x->graph, TP_E_SHAPE, "split", dim,
        fits ? "the sizes add up to %lld, dim %d of %s is %lld"
             : "a size is negative or their sum too large (%lld so far), dim %d of %s is %lld",
        (long long)sum, dim, text, (long long)x->view->shape[dim]);
}

tp_status tp_chunk(tp_tensor *x, int axis, int count, tp_tensor **parts)
{
    if (!x) return TP_E_ARGUMENT;
    int dim;
    TRY(no_parts(x->graph, "chunk", count, parts));
    for (int i = 0; i < count; i++) parts[i] = NULL;
    TRY(tp_infer_axis(x->graph, "chunk", x->view, axis, &dim));
    int64_t size = x->view->shape[dim];
    if (count == 0) return tp_graph_fail(x->graph, TP_E_ARGUMENT, "chunk", dim, "0 parts");
    return cut(x, dim, count, NULL, size / count, size % count, parts);
}

/* ---- Repetition --------------------------------------------------------------------------- */

/* *size becomes times as many; false with the error recorded. */
static bool multiply(tp_tensor *x, const char *op, int dim, int64_t times, int64_t *size)
{
    int64_t before = *size;
    if (times >= 0 && !__builtin_mul_overflow(before, times, size)) return true;
    tp_graph_fail(x->graph, TP_E_SHAPE, op, dim,
                  "size %lld of dim %d cannot be repeated %lld times", (long long)before, dim,
                  (long long)times);
    return false;
}

tp_tensor *tp_repeat(tp_tensor *x, int axis, int64_t times)
{
    int dim;
    if (!x || tp_infer_axis(x->graph, "repeat", x->view, axis, &dim) != TP_OK) return NULL;
    int64_t wide[TP_MAX_RANK + 1], shape[TP_MAX_RANK];
    int rank = x->view->ndim;
    for (int d = 0; d < rank; d++) {
        wide[d + (d > dim)] = shape[d] = x->view->shape[d];
    }
    wide[dim + 1] = times;
    if (!multiply(x, "repeat", dim, times, &shape[dim])) return NULL;
    return tp_reshape(tp_expand(tp_unsqueeze(x, dim + 1), rank + 1, wide), rank, shape);
}

/* Each dim that is repeated gets a dim of stride 0 before it; then both become one. */
tp_tensor *tp_tile(tp_tensor *x, int count, const int64_t *repeats)
{
    if (!x) return NULL;
    if (count < 0 || count > TP_MAX_RANK || (count && !repeats)) {
        tp_graph_fail(x->graph, TP_E_ARGUMENT, "tile", -1, "repeats is NULL or %d of them", count);
        return NULL;
    }
    int rank = x->view->ndim > count ? x->view->ndim : count, ones = 0, wides = 0;
    int64_t one[2 * TP_MAX_RANK], wide[2 * TP_MAX_RANK], shape[TP_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        int own = d - (rank - x->view->ndim), given = d - (rank - count);
        int64_t size = own >= 0 ? x->view->shape[own] : 1, times = given >= 0 ? repeats[given] : 1;
        shape[d] = size;
        if (!multiply(x, "tile", d, times, &shape[d])) return NULL;
        if (times != 1) {
            one[ones++] = 1;
            wide[wides++] = times;
        }
        one[ones++] = wide[wides++] = size;
    }
    return tp_reshape(tp_expand(tp_reshape(x, ones, one), wides, wide), rank, shape);
}
