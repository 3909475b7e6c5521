/* The CBLAS that products are compared with: the one the library uses, opened a second time. */
#ifndef BENCH_BLAS_H
#define BENCH_BLAS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct bench_blas {
    void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                  const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
    void (*dgemm)(int order, int trans_a, int trans_b, int m, int n, int k, double alpha,
                  const double *a, int lda, const double *b, int ldb, double beta, double *c,
                  int ldc);
    void (*set_threads)(int threads); /* NULL: it has none to set */
    bool shares_openmp;
    char name[160];
} bench_blas;

/* NULL: there is none. Calls tp_describe_backends first, so that the library has loaded its own
 * with the right core. */
const bench_blas *bench_blas_get(void);

/* count products one after the other, each a call; row-major, dense unless ld says otherwise. */
typedef struct bench_gemm_call {
    const bench_blas *blas;
    bool f64;
    bool trans_a, trans_b;
    int64_t m, n, k, lda, ldb, ldc; /* ld 0: dense */
    const void *a, *b;
    void *c;
    int64_t count, step_a, step_b, step_c; /* elements from product to product */
    int threads;
} bench_gemm_call;
void bench_gemm(void *call);

#endif
