/* Explicit address tables, the oracle of the view algebra: what a view means is the list of its
 * elements' addresses in row-major order. Nothing here knows how views are computed. */
#ifndef TP_TEST_VIEW_TABLE_H
#define TP_TEST_VIEW_TABLE_H

#include <stdio.h>
#include <string.h>

#include "graph/graph.h"
#include "tests/random.h"

/* In strides of size-1 dims: whoever reads one gets nonsense. */
#define POISON INT64_MAX

static inline int64_t product(int ndim, const int64_t *shape)
{
    int64_t n = 1;
    for (int d = 0; d < ndim; d++) n *= shape[d];
    return n;
}

static inline void unravel(int ndim, const int64_t *shape, int64_t at, int64_t *index)
{
    for (int d = ndim - 1; d >= 0; d--) {
        index[d] = at % shape[d];
        at /= shape[d];
    }
}

static inline int64_t ravel(int ndim, const int64_t *shape, const int64_t *index)
{
    int64_t at = 0;
    for (int d = 0; d < ndim; d++) at = at * shape[d] + index[d];
    return at;
}

/* Address of row-major element `at` of v. */
static inline int64_t address(const tp_view *v, int64_t at)
{
    int64_t a = v->offset;
    for (int d = v->ndim - 1; d >= 0; d--) {
        if (v->shape[d] > 1) a += at % v->shape[d] * v->stride[d];
        at /= v->shape[d];
    }
    return a;
}

/* Whether addresses in row-major order of a shape are one strided view. */
static inline bool is_affine(int ndim, const int64_t *shape, const int64_t *at)
{
    int64_t n = product(ndim, shape), step[TP_MAX_RANK], index[TP_MAX_RANK], inner = 1;
    if (n == 0) return true;
    for (int d = ndim - 1; d >= 0; d--) {
        step[d] = shape[d] > 1 ? at[inner] - at[0] : 0;
        inner *= shape[d];
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t a = at[0];
        unravel(ndim, shape, i, index);
        for (int d = 0; d < ndim; d++) a += index[d] * step[d];
        if (a != at[i]) return false;
    }
    return true;
}

/* Whether v has a shape and these addresses. */
static inline bool matches(const tp_view *v, int ndim, const int64_t *shape, const int64_t *at)
{
    if (v->ndim != ndim || memcmp(v->shape, shape, (size_t)ndim * sizeof *shape)) return false;
    int64_t n = product(ndim, shape);
    for (int64_t i = 0; i < n; i++) {
        if (address(v, i) != at[i]) return false;
    }
    return true;
}

/* Rank up to 3, sizes up to 4 and at times 0, strides of both signs. */
static inline tp_view random_view(uint64_t *state, int64_t largest, int64_t offset)
{
    tp_view v = {.ndim = (int)random_in(state, 0, 3), .offset = offset};
    for (int d = 0; d < v.ndim; d++) {
        v.shape[d] = random_in(state, 0, 12) ? random_in(state, 1, 4) : 0;
        v.stride[d] = v.shape[d] == 1 ? POISON : random_in(state, -largest, largest);
    }
    return v;
}

#endif
