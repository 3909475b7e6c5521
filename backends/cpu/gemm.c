/* Matrix products on BLAS: the views become (order, trans, ld, offsets) without a copy. A batch
 * at least as large as the thread count runs in parallel with serial BLAS calls inside;
 * otherwise each call uses the BLAS's threads, or is cut along its rows. */
#include "../gemm_args.h"
#include "blas.h"
#include "kernels.h"
#include "own_gemm.h"
#include "skinny.h"
#include "threads.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static tp_reason arguments(const tp_step *step, tp_gemm *g)
{
    int operand;
    return tp_gemm_args(&step->operand[0].view, &step->operand[1].view, &step->out.view, g,
                        &operand);
}

static tp_reason refuse_cblas(const tp_step *step)
{
    tp_gemm g;
    if (!tp_blas_get() || (step->out.dtype != TP_F32 && step->out.dtype != TP_F64))
        return TP_REASON_BACKEND;
    tp_reason why = arguments(step, &g);
    if (why != TP_REASON_NONE) return why;
    bool fits = g.m <= INT_MAX && g.n <= INT_MAX && g.k <= INT_MAX && g.lda <= INT_MAX &&
                g.ldb <= INT_MAX && g.ldc <= INT_MAX;
    return fits ? TP_REASON_NONE : TP_REASON_BACKEND;
}

typedef struct job {
    const tp_blas *blas;
    tp_gemm g;
    const char *a, *b;
    char *c;
    int64_t size;
    int64_t cuts, rows; /* each product is cut into so many parts of so many rows */
} job;

static pthread_mutex_t blas_lock = PTHREAD_MUTEX_INITIALIZER;

/* Part `cut` of product `at` of the loops. */
static void call(const job *j, int64_t at, int64_t cut)
{
    const tp_gemm *g = &j->g;
    int64_t a = g->offset_a, b = g->offset_b, c = g->offset_c, row = cut * j->rows;
    for (int d = g->loops - 1; d >= 0; d--) {
        int64_t i = at % g->count[d];
        at /= g->count[d];
        a += i * g->stride_a[d];
        b += i * g->stride_b[d];
        c += i * g->stride_c[d];
    }
    a += row * (g->trans_a ? 1 : g->lda);
    c += row * g->ldc;
    int m = (int)(g->m - row < j->rows ? g->m - row : j->rows), n = (int)g->n, k = (int)g->k;
    int ta = g->trans_a ? TP_BLAS_TRANS : TP_BLAS_NO_TRANS,
        tb = g->trans_b ? TP_BLAS_TRANS : TP_BLAS_NO_TRANS;
    const void *pa = j->a + a * j->size, *pb = j->b + b * j->size;
    void *pc = j->c + c * j->size;
    if (j->blas->not_reentrant) pthread_mutex_lock(&blas_lock);
    if (j->size == 4)
        j->blas->sgemm(TP_BLAS_ROW_MAJOR, ta, tb, m, n, k, 1, pa, (int)g->lda, pb, (int)g->ldb, 0,
                       pc, (int)g->ldc);
    else
        j->blas->dgemm(TP_BLAS_ROW_MAJOR, ta, tb, m, n, k, 1, pa, (int)g->lda, pb, (int)g->ldb, 0,
                       pc, (int)g->ldc);
    if (j->blas->not_reentrant) pthread_mutex_unlock(&blas_lock);
}

static void calls(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t i = begin; i < end; i++) call(j, i / j->cuts, i % j->cuts);
}

static tp_status run_cblas(const tp_step *step, tp_run *run)
{
    job j = {.blas = tp_blas_get(), .size = (int64_t)tp_dtype_size((tp_dtype)step->out.dtype)};
    if (arguments(step, &j.g) != TP_REASON_NONE) return TP_E_INTERNAL;
    int64_t products = 1, work = j.g.m * j.g.n * j.g.k;
    if (tp_view_numel(&step->out.view) == 0) return TP_OK;
    if (j.g.k == 0) return tp_own_gemm.run(step, run);
    for (int d = 0; d < j.g.loops; d++) products *= j.g.count[d];
    bool swapped = j.g.swapped;
    int threads = tp_usable_threads(run->threads);
    j.a = run->buffer[step->operand[swapped].buffer];
    j.b = run->buffer[step->operand[!swapped].buffer];
    j.c = run->buffer[step->out.buffer];
    j.cuts = 1;
    j.rows = j.g.m;
    if (j.blas->shares_openmp && (products < threads || threads == 1)) {
        if (j.blas->set_threads) j.blas->set_threads(threads);
        for (int64_t i = 0; i < products; i++) call(&j, i, 0);
        return TP_OK;
    }
    if (products < threads && work > 262144 && !j.blas->not_reentrant) {
        j.rows = (j.g.m + threads - 1) / threads;
        j.cuts = (j.g.m + j.rows - 1) / j.rows;
    }
    tp_parallel_for(threads, products * j.cuts, 262144 / (work + 1) + 1, calls, &j);
    return TP_OK;
}

static int describe_cblas(const tp_step *step, char *text, size_t size)
{
    tp_gemm g;
    if (arguments(step, &g) != TP_REASON_NONE) return snprintf(text, size, "no BLAS form");
    int64_t products = 1;
    for (int d = 0; d < g.loops; d++) products *= g.count[d];
    return snprintf(
        text, size, "%cgemm %c%c m=%lld n=%lld k=%lld lda=%lld ldb=%lld ldc=%lld x%lld%s",
        step->out.dtype == TP_F32 ? 's' : 'd', g.trans_a ? 'T' : 'N', g.trans_b ? 'T' : 'N',
        (long long)g.m, (long long)g.n, (long long)g.k, (long long)g.lda, (long long)g.ldb,
        (long long)g.ldc, (long long)products, g.swapped ? " (transposed: C' = B'A')" : "");
}

static const tp_kernel cblas = {"cblas", refuse_cblas, run_cblas, describe_cblas};
const tp_kernel *const tp_cpu_matmul_kernels[] = {&cblas, &tp_own_gemm, NULL};
