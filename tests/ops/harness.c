#include "tests/backend.h"
#include "tests/ops/harness.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static double random_float(uint64_t *s)
{
    static const double special[] = {0.0,  -0.0,  INFINITY, -INFINITY, NAN, 1e-40, -1e-41,
                                     1e30, -3e38, 65504,    1,         -1,  0.5,   6e-8};
    if (random_in(s, 0, 5) == 0) return special[random_in(s, 0, 13)];
    return (double)random_in(s, -400000, 400000) / 100000.0;
}

static int64_t random_integer(uint64_t *s)
{
    static const int64_t special[] = {
        0, 1, -1, 127, -128, 255, 32767, -32768, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 2, 3};
    if (random_in(s, 0, 3) == 0) return special[random_in(s, 0, 13)];
    return random_in(s, -20, 20);
}

static void store_random(tp_dtype dtype, void *at, value_kind kind, uint64_t *s)
{
    bool floats = tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT;
    tp_value v = {0};
    if (kind == VALUES_UNITS)
        v.i = random_in(s, 0, 1) ? 1 : tp_dtype_kind_of(dtype) == TP_DTYPE_UINT ? 3 : -1;
    else if (kind == VALUES_SMALL_INTEGERS)
        v.i = random_in(s, tp_dtype_kind_of(dtype) == TP_DTYPE_INT || floats ? -3 : 0, 3);
    else if (!floats)
        v.i = random_integer(s);
    v.f = kind != VALUES_ANY ? (double)v.i : floats ? random_float(s) : 0;
    tp_value_store(dtype, at, floats ? TP_F64 : TP_I64, v);
    /* A truth value may be any byte but 0. */
    if (dtype == TP_BOOL && *(uint8_t *)at) *(uint8_t *)at = (uint8_t)random_in(s, 1, 255);
}

static void free_data(void *user, void *data)
{
    (void)user;
    free(data);
}

/* Strides of a layout; gives the number of elements of the storage and the offset. */
static int64_t lay_out(int ndim, const int64_t *shape, layout how, uint64_t *s, int64_t *stride,
                       int64_t *offset)
{
    int order[TP_MAX_RANK];
    int64_t size = 1;
    for (int d = 0; d < ndim; d++) order[d] = ndim - 1 - d;
    if (how == LAYOUT_PERMUTED) {
        for (int d = ndim - 1; d > 0; d--) {
            int other = (int)random_in(s, 0, d), saved = order[d];
            order[d] = order[other];
            order[other] = saved;
        }
    }
    for (int i = 0; i < ndim; i++) {
        int d = order[i];
        bool repeat = how == LAYOUT_BROADCAST && random_in(s, 0, 1);
        stride[d] = repeat ? 0 : size;
        if (!repeat) size *= shape[d] + (how == LAYOUT_PADDED ? random_in(s, 0, 2) : 0);
    }
    *offset = how == LAYOUT_OFFSET ? random_in(s, 1, 9) : 0;
    size += *offset + 1;
    for (int d = 0; d < ndim && how == LAYOUT_REVERSED; d++) {
        if (shape[d] > 1 && random_in(s, 0, 3)) {
            *offset += (shape[d] - 1) * stride[d];
            stride[d] = -stride[d];
        }
    }
    return size;
}

tp_tensor *leaf_in(tp_graph *g, tp_dtype dtype, int ndim, const int64_t *shape, layout how,
                   value_kind kind, uint64_t seed)
{
    uint64_t values = seed * 31 + 7, places = seed * 17 + 3;
    int64_t stride[TP_MAX_RANK], offset, numel = 1, size = (int64_t)tp_dtype_size(dtype);
    for (int d = 0; d < ndim; d++) numel *= shape[d];
    int64_t elements = lay_out(ndim, shape, how, &places, stride, &offset);
    char *data = calloc((size_t)elements, (size_t)size);
    for (int64_t i = 0; i < numel; i++) {
        int64_t at = offset, rest = i;
        bool first = true;
        for (int d = ndim - 1; d >= 0; d--) {
            int64_t index = rest % shape[d];
            first = first && !(stride[d] == 0 && index > 0);
            at += index * stride[d];
            rest /= shape[d];
        }
        uint64_t own = values + (uint64_t)i * 1000003U;
        random_next(&own);
        if (first) store_random(dtype, data + at * size, kind, &own);
    }
    for (int d = 0; d < ndim; d++) {
        if (shape[d] == 1) stride[d] = d % 2 ? INT64_MAX : -7;
    }
    return tp_wrap(g, dtype, ndim, shape, stride, offset, data, (size_t)(elements * size),
                   free_data, NULL);
}

static int64_t ordered(int64_t bits, int width)
{
    int64_t magnitude = bits & (int64_t)((UINT64_C(1) << (width - 1)) - 1);
    return bits >> (width - 1) & 1 ? -magnitude - 1 : magnitude;
}

int64_t ulp_distance(tp_dtype dtype, const void *a, const void *b)
{
    size_t size = tp_dtype_size(dtype);
    if (memcmp(a, b, size) == 0) return 0;
    if (dtype == TP_BOOL)
        return !*(const char *)a == !*(const char *)b ? 0 : INT64_MAX; /* any byte but 0 is true */
    if (tp_dtype_kind_of(dtype) != TP_DTYPE_FLOAT) return INT64_MAX;
    double x = tp_value_load(dtype, a).f, y = tp_value_load(dtype, b).f;
    if (isnan(x) && isnan(y)) return 0;
    if (isnan(x) || isnan(y)) return INT64_MAX;
    int64_t p = 0, q = 0;
    memcpy(&p, a, size);
    memcpy(&q, b, size);
    int64_t distance = ordered(p, (int)size * 8) - ordered(q, (int)size * 8);
    return distance < 0 ? -distance : distance;
}

void *bytes_of(tp_tensor *x)
{
    size_t bytes = (size_t)tp_numel(x) * tp_dtype_size(tp_dtype_of(x));
    void *data = malloc(bytes + 1);
    if (tp_read(x, data, bytes) == TP_OK) return data;
    free(data);
    return NULL;
}

const char *difference(tp_tensor *a, tp_tensor *b, int64_t ulps, double relative)
{
    static char text[256];
    tp_view va = tp_view_of(a), vb = tp_view_of(b);
    tp_dtype dtype = tp_dtype_of(a);
    if (dtype != tp_dtype_of(b) || !tp_view_same_shape(&va, &vb)) return "shapes or dtypes differ";
    char *x = bytes_of(a), *y = bytes_of(b);
    const char *found = x && y ? NULL : "a result cannot be read";
    size_t size = tp_dtype_size(dtype);
    for (int64_t i = 0; !found && i < tp_numel(a); i++) {
        const char *p = x + (size_t)i * size, *q = y + (size_t)i * size;
        if (ulp_distance(dtype, p, q) <= ulps) continue;
        double u = tp_item(a, i), v = tp_item(b, i);
        if (relative > 0 && fabs(u - v) <= relative * fmax(1, fabs(v))) continue;
        snprintf(text, sizeof text, "element %lld is %.17g against %.17g", (long long)i, u, v);
        found = text;
    }
    free(x);
    free(y);
    return found;
}

bool check_both(tp_tensor *(*make)(tp_graph *, bool, const void *), const void *how, int64_t ulps,
                double relative, const char *what)
{
    static unsigned calls;
    if (calls++ % sample_step()) return true; /* taken as read */
    tp_graph *cpu = tp_graph_create(NULL), *ref = tp_graph_create(NULL);
    tp_graph_set_backend(ref, "ref");
    tp_tensor *y = make(cpu, false, how), *z = make(ref, false, how), *dense = make(cpu, true, how);
    bool made = y != NULL;
    if (made) {
        bool run = tp_eval(y) == TP_OK && tp_eval(z) == TP_OK && tp_eval(dense) == TP_OK;
        const char *found = run ? difference(y, z, ulps, relative) : tp_graph_error(cpu)->text;
        if (!found) found = difference(y, dense, 0, 0);
        cr_expect(!found, "%s: %s", what, found);
    }
    tp_graph_destroy(cpu);
    tp_graph_destroy(ref);
    return made;
}
