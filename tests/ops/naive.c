/* Known values in awkward places, written without any of the library's view code. */
#include "tests/ops/naive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_float(tp_dtype dtype)
{
    return tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT;
}

static array make(tp_dtype dtype, int ndim, const int64_t *shape)
{
    array x = {.dtype = dtype, .ndim = ndim, .numel = 1};
    for (int d = 0; d < ndim; d++) {
        x.shape[d] = shape[d];
        x.numel *= shape[d];
    }
    x.data = calloc((size_t)x.numel + 1, tp_dtype_size(dtype));
    return x;
}

void array_free(array *x)
{
    free(x->data);
    x->data = NULL;
}

tp_value array_get(const array *x, int64_t position)
{
    return tp_value_load(x->dtype, x->data + (size_t)position * tp_dtype_size(x->dtype));
}

void array_set(const array *x, int64_t position, double value)
{
    tp_value_store(x->dtype, x->data + (size_t)position * tp_dtype_size(x->dtype), TP_F64,
                   (tp_value){.f = value});
}

array array_any(tp_dtype dtype, int ndim, const int64_t *shape, uint64_t seed)
{
    static const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-40, 3e38, -65504, 1};
    array x = make(dtype, ndim, shape);
    size_t size = tp_dtype_size(dtype);
    for (int64_t i = 0; i < x.numel; i++) {
        if (!is_float(dtype)) {
            /* All bits, so that everything wraps; a bool is any byte. */
            int64_t bits = (int64_t)((uint64_t)random_next(&seed) << 32 | random_next(&seed));
            if (random_in(&seed, 0, 1)) bits = random_in(&seed, -9, 9);
            memcpy(x.data + (size_t)i * size, &bits, size);
        } else
            array_set(&x, i,
                      random_in(&seed, 0, 3) ? (double)random_in(&seed, -30000, 30000) / 4096
                                             : special[random_in(&seed, 0, 8)]);
    }
    return x;
}

array array_between(tp_dtype dtype, int ndim, const int64_t *shape, double low, double high,
                    uint64_t seed)
{
    array x = make(dtype, ndim, shape);
    for (int64_t i = 0; i < x.numel; i++)
        array_set(&x, i, low + (high - low) * (double)random_next(&seed) / 0x1p32);
    return x;
}

static void free_data(void *user, void *data)
{
    (void)user;
    free(data);
}

tp_tensor *array_leaf(tp_graph *g, const array *x, bool dense)
{
    if (dense) return tp_from_data(g, x->dtype, x->ndim, x->shape, x->data);
    int64_t stride[4], offset = 1, elements = 2, index[4];
    size_t size = tp_dtype_size(x->dtype);
    for (int d = 0; d < x->ndim; d++) {
        stride[d] = elements - 1;
        elements += stride[d] * (x->shape[d] > 0 ? x->shape[d] : 1);
        if (d % 2 == 0 && x->shape[d] > 1) {
            offset += stride[d] * (x->shape[d] - 1);
            stride[d] = -stride[d];
        }
    }
    char *data = malloc((size_t)elements * size);
    memset(data, 0xFF, (size_t)elements * size); /* what lies in the gaps shows */
    for (int64_t i = 0; i < x->numel; i++) {
        int64_t at = offset;
        position_split(x->ndim, x->shape, i, index);
        for (int d = 0; d < x->ndim; d++) at += index[d] * stride[d];
        memcpy(data + (size_t)at * size, x->data + (size_t)i * size, size);
    }
    return tp_wrap(g, x->dtype, x->ndim, x->shape, stride, offset, data, (size_t)elements * size,
                   free_data, NULL);
}

void position_split(int ndim, const int64_t *shape, int64_t position, int64_t *index)
{
    for (int d = ndim - 1; d >= 0; d--) {
        index[d] = position % shape[d];
        position /= shape[d];
    }
}

int64_t position_join(int ndim, const int64_t *shape, int index_count, const int64_t *index)
{
    int64_t position = 0;
    for (int d = 0; d < ndim; d++)
        position = position * shape[d] + (shape[d] == 1 ? 0 : index[index_count - ndim + d]);
    return position;
}

static int digits_of(tp_dtype dtype)
{
    return dtype == TP_F64 ? 53 : dtype == TP_F32 ? 24 : dtype == TP_F16 ? 11 : 8;
}

double unit_roundoff(tp_dtype dtype)
{
    return ldexp(1, -digits_of(dtype));
}

double half_ulp(tp_dtype dtype, double x)
{
    int lowest = dtype == TP_F64 ? -1022 : dtype == TP_F16 ? -14 : -126;
    int exponent = x == 0 ? lowest : ilogb(x);
    return ldexp(1, (exponent < lowest ? lowest : exponent) - digits_of(dtype));
}
