/* Leaves in random layouts with known values, and comparisons of results. */
#ifndef TP_TEST_HARNESS_H
#define TP_TEST_HARNESS_H

#include "graph/graph.h"
#include "tests/random.h"

/* How a leaf lies in memory. */
typedef enum layout {
    LAYOUT_DENSE,
    LAYOUT_PERMUTED,
    LAYOUT_PADDED,
    LAYOUT_REVERSED,
    LAYOUT_OFFSET,
    LAYOUT_BROADCAST,
    LAYOUTS
} layout;

/* UNITS: 1 and -1 (1 and 3 where there is no -1): products stay finite. */
typedef enum value_kind { VALUES_ANY, VALUES_SMALL_INTEGERS, VALUES_UNITS } value_kind;

typedef struct shape_row {
    int ndim;
    int64_t size[4];
} shape_row;

/* A leaf whose logical values depend on seed and shape (and, for BROADCAST, repeat along its
 * repeated dims) but on nothing else; strides of size-1 dims are nonsense. */
tp_tensor *leaf_in(tp_graph *g, tp_dtype dtype, int ndim, const int64_t *shape, layout how,
                   value_kind kind, uint64_t seed);
/* Elements between two values of a dtype; 0 for equal bits or two NaNs, INT64_MAX for one NaN. */
int64_t ulp_distance(tp_dtype dtype, const void *a, const void *b);
/* The row-major bytes of an evaluated tensor; the caller frees. */
void *bytes_of(tp_tensor *x);
/* NULL if both results have the same shape, dtype and, up to `ulps`, values (any ulps, but at most
 * `relative` times max(1, |b|) apart if that is not 0); else a sentence. */
const char *difference(tp_tensor *a, tp_tensor *b, int64_t ulps, double relative);

/* make(graph, whether from dense copies, how) on both backends, within a bound, and from dense
 * copies, bit for bit; gives whether there was something to compare (make may give NULL: not
 * admitted). */
bool check_both(tp_tensor *(*make)(tp_graph *, bool, const void *), const void *how, int64_t ulps,
                double relative, const char *what);

#endif
