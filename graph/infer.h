/* The rules in infer.c that only builders need. */
#ifndef TP_INFER_H
#define TP_INFER_H

#include "graph.h"

/* A row-major view of a given shape; sizes, element and byte counts checked. */
tp_status tp_infer_shape(tp_graph *graph, const char *op, tp_dtype dtype, int ndim,
                         const int64_t *shape, tp_view *view);
/* The sizes of a reshape with -1 filled in. */
tp_status tp_infer_reshape(tp_graph *graph, const char *op, const tp_view *x, int ndim,
                           const int64_t *wanted, int64_t *shape);
/* Inner sizes agree and leading dims broadcast. */
tp_status tp_infer_matmul(tp_graph *graph, const tp_tensor *a, const tp_tensor *b);

/* Whether every element of a view lies in a storage of so many elements. */
bool tp_infer_bounds(tp_graph *graph, const char *op, const tp_view *view, int64_t elements);

/* leaves.c: a leaf over a storage, whose reference it takes, also on failure. */
tp_tensor *tp_leaf_from_storage(tp_graph *graph, tp_dtype dtype, const tp_view *view,
                                tp_storage *storage);

/* build.c: a node of a graph from its parts; base NULL: a compute node. */
tp_tensor *tp_build_node(tp_graph *graph, tp_op op, tp_dtype dtype, int in_count,
                         tp_tensor *const *in, const tp_view *view, tp_tensor *base, int attr_count,
                         const int64_t *attr);
/* compare.c: a comparison of types that no single type holds; NULL and *taken false when it
 * is an ordinary one. */
tp_tensor *tp_compare_mixed(tp_op op, tp_tensor *a, tp_tensor *b, bool *taken);

#endif
