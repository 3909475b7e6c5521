/* What the tests of expectations share: values that the test knows, laid out the hard way, and
 * counters over coordinates. Nothing here uses the library's views or kernels. */
#ifndef TP_TEST_NAIVE_H
#define TP_TEST_NAIVE_H

#include "graph/graph.h"
#include "tests/random.h"

/* A dense array of elements of a dtype, row-major over shape. */
typedef struct array {
    tp_dtype dtype;
    int ndim;
    int64_t shape[4], numel;
    char *data; /* of malloc */
} array;

/* Elements of any value (special ones too), or in [low, high] as near as the dtype has them. */
array array_any(tp_dtype dtype, int ndim, const int64_t *shape, uint64_t seed);
array array_between(tp_dtype dtype, int ndim, const int64_t *shape, double low, double high,
                    uint64_t seed);
void array_free(array *x);
/* Element at a row-major position; floats in .f, integers (u64 as its bits) in .i. */
tp_value array_get(const array *x, int64_t position);
void array_set(const array *x, int64_t position, double value);
/* A leaf with these values: dense, or column-major with gaps, every other dim backwards. */
tp_tensor *array_leaf(tp_graph *g, const array *x, bool dense);

/* Coordinates of a row-major position and back; the way back repeats size-1 dims and aligns
 * coordinates of more dims from the right. */
void position_split(int ndim, const int64_t *shape, int64_t position, int64_t *index);
int64_t position_join(int ndim, const int64_t *shape, int index_count, const int64_t *index);

/* Half a unit in the last place of the dtype at x, as the rounding error that x may have. */
double half_ulp(tp_dtype dtype, double x);
/* Largest relative error of a rounding: 2^-24 for f32. */
double unit_roundoff(tp_dtype dtype);

#endif
