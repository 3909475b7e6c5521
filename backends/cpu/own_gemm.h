/* Our own matrix product: any dtype, any strides. */
#ifndef TP_CPU_OWN_GEMM_H
#define TP_CPU_OWN_GEMM_H

#include "../backend.h"

/* c[i][j] = sum over k of a[i][k] * b[k][j]; strides in bytes, any at all. */
typedef struct tp_product {
    tp_dtype dtype;
    int64_t m, n, k;
    const char *a, *b;
    char *c;
    int64_t am, ak, bk, bn, cm, cn;
} tp_product;

extern const tp_kernel tp_own_gemm;
/* The product on up to `threads` threads, by whatever of ours is fastest. */
tp_status tp_own_product(tp_context *context, const tp_product *p, int threads);

#endif
