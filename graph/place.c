/* Builders of what puts tensors into parts of another: concat, stack, roll, pad, update,
 * scatter_add. */
#include "infer.h"
#include "view_replay.h"

#include <string.h>

/* ---- Concat ------------------------------------------------------------------------------ */

/* The dtype that all parts are converted to. */
static tp_status common_dtype(tp_graph *graph, const char *op, int count, tp_tensor *const *parts,
                              tp_dtype *dtype)
{
    *dtype = (tp_dtype)parts[0]->dtype;
    for (int i = 1; i < count; i++) {
        tp_dtype so_far = *dtype, next = (tp_dtype)parts[i]->dtype;
        if (tp_dtype_promote(so_far, next, dtype)) continue;
        return tp_graph_fail(graph, TP_E_DTYPE, op, -1,
                             "no integer type holds both %s and %s: cast one operand",
                             tp_dtype_name(so_far), tp_dtype_name(next));
    }
    return TP_OK;
}

/* Shapes agree but for dim; shape[dim] becomes the sum. dim -1: in every dim. */
static tp_status concat_shape(tp_graph *graph, const char *op, int count, tp_tensor *const *parts,
                              int dim, int64_t *shape)
{
    const tp_view *first = parts[0]->view;
    memcpy(shape, first->shape, (size_t)first->ndim * sizeof *shape);
    for (int i = 1; i < count; i++) {
        const tp_view *v = parts[i]->view;
        int wrong = v->ndim == first->ndim ? -1 : 0;
        for (int d = 0; d < v->ndim && wrong < 0; d++)
            wrong = d != dim && v->shape[d] != first->shape[d] ? d : -1;
        if (wrong >= 0) {
            char a[400], b[400];
            tp_view_print_shape(first, a, sizeof a);
            tp_view_print_shape(v, b, sizeof b);
            if (v->ndim != first->ndim)
                return tp_graph_fail(graph, TP_E_SHAPE, op, -1,
                                     "operand 0 is %s, operand %d is %s: the ranks differ", a, i,
                                     b);
            return tp_graph_fail(graph, TP_E_SHAPE, op, wrong,
                                 "operand 0 is %s, operand %d is %s: dim %d is %lld against %lld",
                                 a, i, b, wrong, (long long)first->shape[wrong],
                                 (long long)v->shape[wrong]);
        }
        if (dim >= 0 && __builtin_add_overflow(shape[dim], v->shape[dim], &shape[dim]))
            return tp_graph_fail(graph, TP_E_SHAPE, op, dim, "dim %d has more than 2^63-1 elements",
                                 dim);
    }
    return TP_OK;
}

static bool parts_ok(const char *op, int count, tp_tensor *const *parts)
{
    if (count > 0 && parts) return tp_build_operands_ok(op, count, parts);
    return false; /* without a graph there is nobody to tell */
}

/* Parts of agreeing shapes as one node; a list in the graph's arena holds converted ones. */
static tp_tensor *concat_node(const char *op, int count, tp_tensor *const *parts, int dim,
                              tp_dtype dtype)
{
    tp_graph *graph = parts[0]->graph;
    int64_t shape[TP_MAX_RANK];
    tp_view view;
    if (concat_shape(graph, op, count, parts, dim, shape) != TP_OK) return NULL;
    if (tp_infer_shape(graph, op, dtype, parts[0]->view->ndim, shape, &view) != TP_OK) return NULL;
    size_t bytes = (size_t)count * sizeof(tp_tensor *);
    tp_tensor **in = tp_context_alloc(graph->context, bytes);
    if (!in) {
        tp_graph_fail_nomem(graph, op);
        return NULL;
    }
    bool cast = true;
    for (int i = 0; i < count && cast; i++) {
        in[i] = parts[i]->dtype == dtype ? parts[i] : tp_cast(parts[i], dtype);
        cast = in[i] != NULL;
    }
    tp_tensor *y = cast ? tp_build_node(graph, TP_OP_CONCAT, dtype, count, in, &view, NULL, 1,
                                        (int64_t[]){dim})
                        : NULL;
    tp_context_free(graph->context, in, bytes);
    return y;
}

tp_tensor *tp_concat(int count, tp_tensor *const *parts, int axis)
{
    int dim;
    tp_dtype dtype;
    if (!parts_ok("concat", count, parts)) return NULL;
    tp_graph *graph = parts[0]->graph;
    if (tp_infer_axis(graph, "concat", parts[0]->view, axis, &dim) != TP_OK) return NULL;
    if (common_dtype(graph, "concat", count, parts, &dtype) != TP_OK) return NULL;
    return concat_node("concat", count, parts, dim, dtype);
}

tp_tensor *tp_stack(int count, tp_tensor *const *parts, int axis)
{
    tp_dtype dtype;
    int64_t shape[TP_MAX_RANK];
    if (!parts_ok("stack", count, parts)) return NULL;
    tp_graph *graph = parts[0]->graph;
    if (common_dtype(graph, "stack", count, parts, &dtype) != TP_OK) return NULL;
    if (concat_shape(graph, "stack", count, parts, -1, shape) != TP_OK) return NULL;
    size_t bytes = (size_t)count * sizeof(tp_tensor *);
    tp_tensor **in = tp_context_alloc(graph->context, bytes), *y = NULL;
    if (!in) {
        tp_graph_fail_nomem(graph, "stack");
        return NULL;
    }
    bool built = true;
    for (int i = 0; i < count && built; i++) {
        in[i] = tp_unsqueeze(parts[i], axis);
        built = in[i] != NULL;
    }
    int dim = axis < 0 ? axis + parts[0]->view->ndim + 1 : axis;
    if (built) y = concat_node("stack", count, in, dim, dtype);
    tp_context_free(graph->context, in, bytes);
    return y;
}

tp_tensor *tp_roll(tp_tensor *x, int axis, int64_t shift)
{
    int dim;
    if (!x || tp_infer_axis(x->graph, "roll", x->view, axis, &dim) != TP_OK) return NULL;
    int64_t size = x->view->shape[dim], start = size ? shift % size : 0;
    if (start < 0) start += size;
    if (start == 0) return tp_slice(x, dim, 0, TP_END, 1);
    tp_tensor *end = tp_slice(x, dim, size - start, TP_END, 1);
    return tp_concat(2, (tp_tensor *[]){end, tp_slice(x, dim, 0, size - start, 1)}, dim);
}

/* ---- Pad ------------------------------------------------------------------------------------ */

tp_tensor *tp_build_pad(tp_tensor *x, int count, const int64_t *widths, tp_value value)
{
    if (!x) return NULL;
    int64_t shape[TP_MAX_RANK];
    int rank = x->view->ndim;
    if (count != 2 * rank || (count && !widths)) {
        char text[400];
        tp_view_print_shape(x->view, text, sizeof text);
        tp_graph_fail(x->graph, TP_E_ARGUMENT, "pad", -1,
                      "%s needs %d widths, before and after each dim, not %d", text, 2 * rank,
                      count);
        return NULL;
    }
    for (int d = 0; d < rank; d++) {
        int64_t before = widths[2 * d], after = widths[2 * d + 1];
        bool fits = before >= 0 && after >= 0 &&
                    !__builtin_add_overflow(x->view->shape[d], before, &shape[d]) &&
                    !__builtin_add_overflow(shape[d], after, &shape[d]);
        if (fits) continue;
        tp_graph_fail(x->graph, TP_E_SHAPE, "pad", d,
                      "widths %lld and %lld of dim %d are negative or too large", (long long)before,
                      (long long)after, d);
        return NULL;
    }
    tp_view view;
    if (tp_infer_shape(x->graph, "pad", (tp_dtype)x->dtype, rank, shape, &view) != TP_OK)
        return NULL;
    tp_tensor *y =
        tp_build_node(x->graph, TP_OP_PAD, (tp_dtype)x->dtype, 1, &x, &view, NULL, count, widths);
    if (y) y->value[0] = value;
    return y;
}

tp_tensor *tp_pad(tp_tensor *x, int count, const int64_t *widths, double value)
{
    tp_tensor *fill = tp_build_fill(x, "pad", value);
    return fill ? tp_build_pad(x, count, widths, fill->value[0]) : NULL;
}

/* ---- Update ---------------------------------------------------------------------------------- */

/* The part must lie inside x, and no element of it may share its place with another. */
static tp_status check_part(const tp_tensor *x, const tp_view *part)
{
    char text[800];
    if (!tp_infer_bounds(x->graph, "update", part, tp_view_numel(x->view))) return TP_E_BOUNDS;
    tp_view_print(part, text, sizeof text);
    for (int d = 0; d < part->ndim; d++) {
        if (part->shape[d] > 1 && part->stride[d] == 0)
            return tp_graph_fail(
                x->graph, TP_E_SHAPE, "update", d,
                "the region %s has stride 0 in dim %d (size %lld): broadcast views "
                "are read-only, copy it first",
                text, d, (long long)part->shape[d]);
    }
    if (tp_view_is_injective(part)) return TP_OK;
    return tp_graph_fail(
        x->graph, TP_E_SHAPE, "update", -1,
        "elements of the region %s may lie on each other: it is read-only, copy it "
        "first",
        text);
}

/* value in x's dtype and the part's shape. */
static tp_tensor *fit_value(const tp_tensor *x, const tp_view *part, tp_tensor *value)
{
    tp_view unused;
    if (!tp_view_expand(value->view, part->ndim, part->shape, &unused)) {
        char from[400], to[400];
        int right = 1;
        for (; right <= value->view->ndim && right <= part->ndim; right++) {
            int64_t a = value->view->shape[value->view->ndim - right],
                    b = part->shape[part->ndim - right];
            if (a != 1 && a != b) break;
        }
        tp_view_print_shape(value->view, from, sizeof from);
        tp_view_print_shape(part, to, sizeof to);
        if (right > value->view->ndim || right > part->ndim)
            tp_graph_fail(x->graph, TP_E_SHAPE, "update", -1,
                          "the value %s has more dims than the region %s", from, to);
        else
            tp_graph_fail(x->graph, TP_E_SHAPE, "update", part->ndim - right,
                          "the value %s does not fit the region %s: dimension %d from the right is "
                          "%lld against %lld",
                          from, to, right, (long long)value->view->shape[value->view->ndim - right],
                          (long long)part->shape[part->ndim - right]);
        return NULL;
    }
    if (value->dtype != x->dtype) value = tp_cast(value, (tp_dtype)x->dtype);
    return tp_build_expand(value, part->ndim, part->shape);
}

tp_tensor *tp_build_update(tp_tensor *x, const tp_view *part, tp_tensor *value)
{
    tp_tensor *in[] = {x, value};
    tp_view checked;
    if (!tp_build_operands_ok("update", 2, in)) return NULL;
    if (tp_infer_shape(x->graph, "update", (tp_dtype)x->dtype, part->ndim, part->shape, &checked) !=
        TP_OK)
        return NULL;
    if (check_part(x, part) != TP_OK) return NULL;
    in[1] = fit_value(x, part, value);
    if (!in[1]) return NULL;
    int64_t attr[2 * TP_MAX_RANK + 1];
    int rank = part->ndim;
    for (int d = 0; d < rank; d++) {
        attr[d] = part->shape[d];
        attr[rank + d] = part->shape[d] == 1 ? checked.stride[d] : part->stride[d];
    }
    attr[2 * rank] = part->offset;
    tp_view view = tp_view_row_major(x->view->ndim, x->view->shape);
    return tp_build_node(x->graph, TP_OP_UPDATE, (tp_dtype)x->dtype, 2, in, &view, NULL,
                         2 * rank + 1, attr);
}

/* The steps from x to the region, taken once more from row-major x on; they may be many. */
static tp_status region_over(const tp_tensor *x, tp_tensor *region, tp_view *part)
{
    int64_t count = 0;
    const tp_tensor *at = region;
    for (; at != x && at->in_count == 1 && at->id > x->id; at = at->in[0]) count++;
    if (at != x)
        return tp_graph_fail(x->graph, TP_E_ARGUMENT, "update", -1,
                             "the region %%%lld is not a view of %%%lld", (long long)region->id,
                             (long long)x->id);
    size_t bytes = (size_t)count * sizeof at;
    const tp_tensor **step = tp_context_alloc(x->graph->context, bytes);
    if (!step) return tp_graph_fail_nomem(x->graph, "update");
    at = region;
    for (int64_t i = count; i-- > 0; at = at->in[0]) step[i] = at;
    tp_view view = tp_view_row_major(x->view->ndim, x->view->shape), next;
    const tp_tensor *blocked = NULL;
    for (int64_t i = 0; i < count && !blocked; i++) {
        if (step[i]->base != step[i]->in[0]->base || !tp_view_replay(step[i], &view, &next))
            blocked = step[i];
        else
            tp_view_copy(&view, &next);
    }
    tp_context_free(x->graph->context, step, bytes);
    tp_view_copy(part, &view);
    return blocked
               ? tp_graph_fail(x->graph, TP_E_ARGUMENT, "update", -1,
                               "the region %%%lld is not a view of %%%lld: %%%lld (%s) is between",
                               (long long)region->id, (long long)x->id, (long long)blocked->id,
                               tp_op_name(blocked))
               : TP_OK;
}

tp_tensor *tp_update(tp_tensor *x, tp_tensor *region, tp_tensor *value)
{
    tp_tensor *in[] = {x, region, value};
    if (!tp_build_operands_ok("update", 3, in)) return NULL;
    tp_view part;
    if (region_over(x, region, &part) != TP_OK) return NULL;
    if (region->dtype == x->dtype) return tp_build_update(x, &part, value);
    tp_graph_fail(x->graph, TP_E_DTYPE, "update", -1, "the region is %s, x is %s",
                  tp_dtype_name((tp_dtype)region->dtype), tp_dtype_name((tp_dtype)x->dtype));
    return NULL;
}

tp_status tp_donate(tp_tensor *x)
{
    if (!x) return TP_E_ARGUMENT;
    if (x->state != TP_EVALUATED)
        return tp_graph_fail(x->graph, TP_E_UNEVALUATED, "donate", -1,
                             "%%%lld (%s) has no bytes to give", (long long)x->id, tp_op_name(x));
    x->donated = true;
    return TP_OK;
}
