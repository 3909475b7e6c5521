/* The BLAS found at run time. */
#ifndef TP_CPU_BLAS_H
#define TP_CPU_BLAS_H

#include <stdbool.h>
#include <stddef.h>

/* CBLAS's constants. */
enum { TP_BLAS_ROW_MAJOR = 101, TP_BLAS_NO_TRANS = 111, TP_BLAS_TRANS = 112 };

typedef struct tp_blas {
    void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                  const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
    void (*dgemm)(int order, int trans_a, int trans_b, int m, int n, int k, double alpha,
                  const double *a, int lda, const double *b, int ldb, double beta, double *c,
                  int ldc);
    void (*set_threads)(int threads); /* NULL: it has no threads of its own */
    bool shares_openmp;               /* serial inside our regions, threaded outside */
    bool not_reentrant;               /* must never be called from two threads at once */
    bool small_products;              /* has kernels that do not pack small ones */
    char name[64];
    char core[32];
} tp_blas;

/* The BLAS of this process, loaded at the first call; NULL: there is none. TP_BLAS in the
 * environment names a library, or "none". */
const tp_blas *tp_blas_get(void);
/* Puts another one in its place (NULL: none); for tests. Gives what was there. */
const tp_blas *tp_blas_override(const tp_blas *blas);
/* "BLAS libopenblas.so.0 (openmp, SkylakeX)" or "no BLAS". */
int tp_blas_describe(char *text, size_t size);

#endif
