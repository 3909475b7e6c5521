/* Products that are put together from matmul and einsum. */
#include "infer.h"

#include <stdio.h>

/* Two 1-d operands, for dot and outer. */
static bool two_vectors(const char *op, tp_tensor *a, tp_tensor *b)
{
    if (!a || !b) return false;
    if (a->view->ndim == 1 && b->view->ndim == 1) return true;
    tp_graph_fail(a->graph, TP_E_SHAPE, op, -1,
                  "the operands have %d and %d dims, 1 each is needed", a->view->ndim,
                  b->view->ndim);
    return false;
}

tp_tensor *tp_dot(tp_tensor *a, tp_tensor *b)
{
    return two_vectors("dot", a, b) ? tp_matmul(a, b) : NULL;
}

tp_tensor *tp_outer(tp_tensor *a, tp_tensor *b)
{
    return two_vectors("outer", a, b) ? tp_mul(tp_unsqueeze(a, 1), b) : NULL;
}

/* ---- tensordot -------------------------------------------------------------------------- */

/* Contracted axes of both, in pairs; equal sizes. */
static tp_status contracted(tp_tensor *a, tp_tensor *b, int count, const int64_t *axes_a,
                            const int64_t *axes_b, int *of_a, int *of_b)
{
    tp_graph *graph = a->graph;
    uint32_t unused;
    if (count < 0 || count > TP_MAX_RANK)
        return tp_graph_fail(graph, TP_E_ARGUMENT, "tensordot", -1, "%d axes is outside [0, %d]",
                             count, TP_MAX_RANK);
    TRY(tp_infer_axes(graph, "tensordot", a->view, count, axes_a, &unused));
    TRY(tp_infer_axes(graph, "tensordot", b->view, count, axes_b, &unused));
    for (int i = 0; i < count; i++) {
        TRY(tp_infer_axis(graph, "tensordot", a->view, axes_a[i], &of_a[i]));
        TRY(tp_infer_axis(graph, "tensordot", b->view, axes_b[i], &of_b[i]));
        int64_t x = a->view->shape[of_a[i]], y = b->view->shape[of_b[i]];
        if (x == y) continue;
        char left[400], right[400];
        tp_view_print_shape(a->view, left, sizeof left);
        tp_view_print_shape(b->view, right, sizeof right);
        return tp_graph_fail(graph, TP_E_SHAPE, "tensordot", of_a[i],
                             "a is %s, b is %s: dim %d of a is %lld, dim %d of b is %lld", left,
                             right, of_a[i], (long long)x, of_b[i], (long long)y);
    }
    int rank = a->view->ndim + b->view->ndim - 2 * count;
    return rank <= TP_MAX_RANK ? TP_OK
                               : tp_graph_fail(graph, TP_E_SHAPE, "tensordot", -1,
                                               "the result has %d dims, at most %d are possible",
                                               rank, TP_MAX_RANK);
}

tp_tensor *tp_tensordot(tp_tensor *a, tp_tensor *b, int count, const int64_t *axes_a,
                        const int64_t *axes_b)
{
    tp_tensor *in[] = {a, b};
    int of_a[TP_MAX_RANK], of_b[TP_MAX_RANK];
    if (!tp_build_operands_ok("tensordot", 2, in)) return NULL;
    if (contracted(a, b, count, axes_a, axes_b, of_a, of_b) != TP_OK) return NULL;
    /* Labels of a are a, b, ..; free ones of b A, B, ..: 16 of each at most. */
    char left[TP_MAX_RANK + 1] = "", right[TP_MAX_RANK + 1] = "", out[2 * TP_MAX_RANK + 1] = "";
    bool summed[TP_MAX_RANK] = {false};
    int used = 0;
    for (int d = 0; d < a->view->ndim; d++) left[d] = (char)('a' + d);
    for (int d = 0; d < b->view->ndim; d++) right[d] = (char)('A' + d);
    for (int i = 0; i < count; i++) {
        right[of_b[i]] = left[of_a[i]];
        summed[of_a[i]] = true;
    }
    for (int d = 0; d < a->view->ndim; d++) {
        if (!summed[d]) out[used++] = left[d];
    }
    for (int d = 0; d < b->view->ndim; d++) {
        if (right[d] == 'A' + d) out[used++] = right[d];
    }
    char text[4 * TP_MAX_RANK + 8];
    snprintf(text, sizeof text, "%s,%s->%s", left, right, out);
    return tp_einsum(text, 2, in);
}
