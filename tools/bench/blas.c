#include "blas.h"

#include "tensorplay/tensorplay.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void find(void *library, const char *symbol, void *function)
{
    void *address = dlsym(library, symbol);
    memcpy(function, &address, sizeof address);
}

/* The library's own BLAS, out of its description of itself. */
static void *open_same(void)
{
    char text[512], *name, *end;
    const char *wish = getenv("TP_BLAS");
    tp_describe_backends(text, sizeof text);
    name = strstr(text, "BLAS ");
    end = name ? strstr(name, " (") : NULL;
    if (!end) return NULL;
    *end = 0;
    return dlopen(wish && *wish ? wish : name + 5, RTLD_NOW | RTLD_NOLOAD);
}

/* The library runs without one (TP_BLAS=none): its own product is compared with OpenBLAS still. Its
 * core has to be named before it is loaded, as older releases take new CPUs for old ones. */
static void *open_other(void)
{
    static const char variable[] = "OPENBLAS_CORETYPE";
    const char *core = NULL;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) core = "Haswell";
    if (__builtin_cpu_is("intel") && __builtin_cpu_supports("avx512vl")) core = "SkylakeX";
#endif
    if (core) setenv(variable, core, 0);
    return dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
}

const bench_blas *bench_blas_get(void)
{
    static bench_blas blas;
    int (*parallel)(void);
    char *(*core)(void);
    if (blas.sgemm) return &blas;
    void *library = open_same();
    if (!library) library = open_other();
    if (!library) return NULL;
    find(library, "cblas_sgemm", &blas.sgemm);
    find(library, "cblas_dgemm", &blas.dgemm);
    find(library, "openblas_set_num_threads", &blas.set_threads);
    find(library, "openblas_get_parallel", &parallel);
    find(library, "openblas_get_corename", &core);
    blas.shares_openmp = parallel && parallel() == 2;
    snprintf(blas.name, sizeof blas.name, "%s", core ? core() : "unknown core");
    return blas.sgemm && blas.dgemm ? &blas : NULL;
}

void bench_gemm(void *arg)
{
    enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };
    const bench_gemm_call *g = arg;
    int ta = g->trans_a ? TRANSPOSED : PLAIN, tb = g->trans_b ? TRANSPOSED : PLAIN;
    int m = (int)g->m, n = (int)g->n, k = (int)g->k;
    int lda = (int)(g->lda       ? g->lda
                    : g->trans_a ? g->m
                                 : g->k),
        ldb = (int)(g->ldb       ? g->ldb
                    : g->trans_b ? g->k
                                 : g->n),
        ldc = (int)(g->ldc ? g->ldc : g->n);
    if (g->blas->set_threads) g->blas->set_threads(g->threads);
    for (int64_t i = 0; i < (g->count ? g->count : 1); i++) {
        if (g->f64)
            g->blas->dgemm(ROW_MAJOR, ta, tb, m, n, k, 1, (const double *)g->a + i * g->step_a, lda,
                           (const double *)g->b + i * g->step_b, ldb, 0,
                           (double *)g->c + i * g->step_c, ldc);
        else
            g->blas->sgemm(ROW_MAJOR, ta, tb, m, n, k, 1, (const float *)g->a + i * g->step_a, lda,
                           (const float *)g->b + i * g->step_b, ldb, 0,
                           (float *)g->c + i * g->step_c, ldc);
    }
    /* A pool of its own is kept still by the library; leave it as it was. */
    if (g->blas->set_threads && !g->blas->shares_openmp) g->blas->set_threads(1);
}
