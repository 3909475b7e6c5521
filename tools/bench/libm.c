/* The C library's functions, one call for each element: what a program without vector maths does.
 * Strict floats keep the compiler from replacing the calls. */
#include "plain.h"

#include <math.h>

#define LIBM(name, expression)                                                                     \
    void bench_libm_##name(int64_t n, const void *pa, const void *pb, const void *pc, void *py)    \
    {                                                                                              \
        const float *a = pa;                                                                       \
        float *y = py;                                                                             \
        (void)pb, (void)pc;                                                                        \
        for (int64_t i = 0; i < n; i++) y[i] = (expression);                                       \
    }
LIBM(exp, expf(a[i]))
LIBM(log, logf(a[i]))
LIBM(tanh, tanhf(a[i]))
LIBM(erf, erff(a[i]))
LIBM(sigmoid, 1 / (1 + expf(-a[i])))
LIBM(sin, sinf(a[i]))
LIBM(cos, cosf(a[i]))
