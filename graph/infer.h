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
/* Whether all operands are there and of one graph, else recorded in the name of `op`. */
bool tp_build_operands_ok(const char *op, int count, tp_tensor *const *in);
/* Whether a norm's weight or bias (`what`) has the last `axes` dims of x. */
bool tp_build_norm_operand_ok(const char *op, const tp_tensor *x, int axes, const tp_tensor *w,
                              const char *what);
/* Whether indices are of an integer type. */
bool tp_build_indices_ok(const char *op, const tp_tensor *indices);
/* tp_softmax; masked: a row of -inf gives 0. */
tp_tensor *tp_build_softmax(tp_tensor *x, int axis, bool masked);
/* place.c: the public builders below their arguments: widths in pairs and a value of x's dtype; a
 * part as a view over row-major x. */
tp_tensor *tp_build_pad(tp_tensor *x, int count, const int64_t *widths, tp_value value);
tp_tensor *tp_build_update(tp_tensor *x, const tp_view *part, tp_tensor *value);
/* build_views.c: tp_expand, x itself if it has the shape. */
tp_tensor *tp_build_expand(tp_tensor *x, int ndim, const int64_t *shape);
/* build_views.c: tp_windows with `dilation` between the elements of a window. */
tp_tensor *tp_build_windows(tp_tensor *x, int axis, int64_t size, int64_t step, int64_t dilation);

/* compose.c: the type in which functions of several operations calculate, f32 for integers, f16
 * and bf16; and back in x's type if that is f16 or bf16, rounded once. */
tp_tensor *tp_build_wide(tp_tensor *x);
tp_tensor *tp_build_narrow(tp_tensor *y, const tp_tensor *x);
/* An operand that may be left out is NULL; false if it is NULL because it failed to build. */
bool tp_build_left_out(const tp_graph *graph, const tp_tensor *x);
/* value in x's dtype, 0-d; an integer type must hold it exactly. */
tp_tensor *tp_build_fill(tp_tensor *x, const char *op, double value);

/* compare.c: a comparison of types that no single type holds; NULL and *taken false when it
 * is an ordinary one. */
tp_tensor *tp_compare_mixed(tp_op op, tp_tensor *a, tp_tensor *b, bool *taken);

#endif
