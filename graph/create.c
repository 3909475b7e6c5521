/* Tensors that are made from a rule: put together from ranges and comparisons, so that they fuse
 * into their readers and cost no memory there; and random numbers. */
#include "infer.h"

/* 0 .. count-1 as i64, along dim 0 of [count, 1] or the only dim. */
static tp_tensor *counting(tp_graph *graph, int64_t count, bool as_column)
{
    tp_tensor *x = tp_arange(graph, TP_I64, 0, 1, count);
    return as_column ? tp_unsqueeze(x, 1) : x;
}

tp_tensor *tp_eye(tp_graph *graph, tp_dtype dtype, int64_t rows, int64_t cols, int64_t diagonal)
{
    tp_tensor *row = counting(graph, rows, true), *col = counting(graph, cols, false);
    return tp_cast(tp_equal(tp_add(row, tp_int(row, diagonal)), col), dtype);
}

tp_tensor *tp_linspace(tp_graph *graph, tp_dtype dtype, double start, double stop, int64_t count)
{
    double step = count > 1 ? (stop - start) / (double)(count - 1) : 0;
    tp_tensor *x = tp_arange(graph, TP_F64, start, step, count);
    if (count > 1) { /* the end is exact */
        tp_tensor *i = counting(graph, count, false);
        x = tp_where(tp_equal(i, tp_int(i, count - 1)), tp_num(x, stop), x);
    }
    return tp_cast(x, dtype);
}

tp_tensor *tp_one_hot(tp_tensor *indices, int64_t classes, tp_dtype dtype)
{
    if (!indices || !tp_build_indices_ok("one_hot", indices)) return NULL;
    tp_tensor *class = counting(indices->graph, classes, false);
    return tp_cast(tp_equal(tp_unsqueeze(indices, -1), class), dtype);
}

/* x where col - row <= diagonal (lower) or >= diagonal, else 0. */
static tp_tensor *triangle(tp_tensor *x, const char *op, int64_t diagonal, bool lower)
{
    if (!x) return NULL;
    int rank = x->view->ndim;
    if (rank < 2) {
        char text[400];
        tp_view_print_shape(x->view, text, sizeof text);
        tp_graph_fail(x->graph, TP_E_SHAPE, op, -1, "x is %s, two dims are needed", text);
        return NULL;
    }
    tp_tensor *row = counting(x->graph, x->view->shape[rank - 2], true);
    tp_tensor *col = counting(x->graph, x->view->shape[rank - 1], false);
    tp_tensor *away = tp_sub(col, row), *edge = away ? tp_int(away, diagonal) : NULL;
    tp_tensor *inside = lower ? tp_less_equal(away, edge) : tp_greater_equal(away, edge);
    return tp_where(inside, x, tp_build_fill(x, op, 0));
}

tp_tensor *tp_tril(tp_tensor *x, int64_t diagonal)
{
    return triangle(x, "tril", diagonal, true);
}

tp_tensor *tp_triu(tp_tensor *x, int64_t diagonal)
{
    return triangle(x, "triu", diagonal, false);
}

/* ---- Random numbers ----------------------------------------------------------------------------
 */

static tp_tensor *random_node(tp_graph *graph, tp_op op, tp_dtype dtype, int ndim,
                              const int64_t *shape, uint64_t seed)
{
    const char *name = tp_op_info_of(op)->name;
    tp_view view;
    if (!graph || tp_infer_shape(graph, name, dtype, ndim, shape, &view) != TP_OK) return NULL;
    if (tp_dtype_kind_of(dtype) != TP_DTYPE_FLOAT) {
        tp_graph_fail(graph, TP_E_DTYPE, name, -1, "the dtype is %s, a float type is needed",
                      tp_dtype_name(dtype));
        return NULL;
    }
    int64_t attr[TP_MAX_RANK + 1];
    for (int d = 0; d < ndim; d++) attr[d] = shape[d];
    attr[ndim] = (int64_t)seed;
    return tp_build_node(graph, op, dtype, 0, NULL, &view, NULL, ndim + 1, attr);
}

tp_tensor *tp_random_uniform(tp_graph *graph, tp_dtype dtype, int ndim, const int64_t *shape,
                             uint64_t seed)
{
    return random_node(graph, TP_OP_RANDOM_UNIFORM, dtype, ndim, shape, seed);
}

tp_tensor *tp_random_normal(tp_graph *graph, tp_dtype dtype, int ndim, const int64_t *shape,
                            uint64_t seed)
{
    return random_node(graph, TP_OP_RANDOM_NORMAL, dtype, ndim, shape, seed);
}
