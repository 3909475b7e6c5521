/* What works along one axis, for gather.c, scan.c and sort.c. */
#ifndef TP_CUDA_ALONG_H
#define TP_CUDA_ALONG_H

#include "text.h"

/* A view with stride 0 along an axis of `size`: what it names elsewhere. */
tp_view tp_cuda_without_axis(const tp_view *v, int axis, int64_t size);
/* A view over a domain that moves along one axis only. */
tp_view tp_cuda_along_axis(int ndim, const int64_t *shape, int axis, int64_t stride);
/* The stride of an axis, 0 where it has one element. */
int64_t tp_cuda_axis_stride(const tp_view *v, int axis);

/* Declares p, the place that `index`, an element of `dtype`, names on an axis of arg.size, and
 * notes in arg.fault that it does not, at `position`; p is then -1. */
void tp_cuda_add_place(tp_text *text, tp_dtype dtype, const char *index, const char *position);
/* At the end of a kernel with places, reached by all threads: the block that ends last writes down
 * the element of arg.index at the first position that was noted. indices: the space of the indices'
 * own dims, in the argument under the prefix i. */
void tp_cuda_add_fault_end(tp_text *text, const tp_cuda_space *indices);

#endif
