/* Matrix products on BLAS: the views become (order, trans, ld, offsets) without a copy. A batch
 * at least as large as the thread count runs in parallel with serial BLAS calls inside;
 * otherwise each call uses the BLAS's threads, or is cut along its rows. Products with few rows
 * or columns are left to our own loops, which do not pack what is used once. */
#include "../gemm_args.h"
#include "blas.h"
#include "kernels.h"
#include "own_gemm.h"
#include "skinny.h"
#include "threads.h"

#include <limits.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>

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

/* Multiply-adds that are not worth a second thread; with so few of them, threads share no single
 * product well; so many are better done by our few-row loops than by kernels for small products. */
#define GRAIN (1 << 18)
#define SMALL (1 << 24)
#define SKINNY (1 << 18)

typedef struct job {
    const tp_blas *blas;
    tp_context *context;
    tp_gemm g;
    tp_product matrices; /* the first product, strides of its matrices */
    int64_t size;
    int64_t products, cuts, rows; /* each product is cut into so many parts of so many rows */
    bool skinny;
    int threads; /* of each part */
    tp_status status;
} job;

static pthread_mutex_t blas_lock = PTHREAD_MUTEX_INITIALIZER;

static void call_blas(const job *j, const tp_product *p)
{
    const tp_gemm *g = &j->g;
    int m = (int)p->m, n = (int)p->n, k = (int)p->k;
    int ta = g->trans_a ? TP_BLAS_TRANS : TP_BLAS_NO_TRANS,
        tb = g->trans_b ? TP_BLAS_TRANS : TP_BLAS_NO_TRANS;
    const void *a = p->a, *b = p->b;
    void *c = p->c;
    if (j->blas->not_reentrant) pthread_mutex_lock(&blas_lock);
    if (p->dtype == TP_F32)
        j->blas->sgemm(TP_BLAS_ROW_MAJOR, ta, tb, m, n, k, 1, a, (int)g->lda, b, (int)g->ldb, 0, c,
                       (int)g->ldc);
    else
        j->blas->dgemm(TP_BLAS_ROW_MAJOR, ta, tb, m, n, k, 1, a, (int)g->lda, b, (int)g->ldb, 0, c,
                       (int)g->ldc);
    if (j->blas->not_reentrant) pthread_mutex_unlock(&blas_lock);
}

/* Part `cut` of product `at` of the loops. */
static void call(job *j, int64_t at, int64_t cut)
{
    const tp_gemm *g = &j->g;
    tp_product p = j->matrices;
    int64_t row = cut * j->rows;
    for (int d = g->loops - 1; d >= 0; d--) {
        int64_t i = at % g->count[d] * j->size;
        at /= g->count[d];
        p.a += i * g->stride_a[d];
        p.b += i * g->stride_b[d];
        p.c += i * g->stride_c[d];
    }
    p.a += row * p.am;
    p.c += row * p.cm;
    p.m = p.m - row < j->rows ? p.m - row : j->rows;
    if (!j->skinny) {
        call_blas(j, &p);
        return;
    }
    tp_status status = tp_skinny(j->context, &p, j->threads);
    if (status != TP_OK) __atomic_store_n(&j->status, status, __ATOMIC_RELAXED);
}

static void calls(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    for (int64_t i = begin; i < end; i++) call(j, i / j->cuts, i % j->cuts);
}

/* One product after another, each on all threads. The number of threads that this sets is the
 * program's own OpenMP setting too, and is put back. */
static void one_by_one(job *j, int threads)
{
    int before = omp_get_max_threads();
    j->threads = threads;
    if (!j->skinny && j->blas->set_threads) j->blas->set_threads(threads);
    calls(j, 0, j->products);
    if (!j->skinny && omp_get_max_threads() != before) omp_set_num_threads(before);
}

static int64_t products_of(const tp_gemm *g)
{
    int64_t products = 1;
    for (int d = 0; d < g->loops; d++) products *= g->count[d];
    return products;
}

/* One product's sizes and strides, without addresses. */
static tp_product matrices_of(const tp_gemm *g, tp_dtype dtype)
{
    int64_t size = (int64_t)tp_dtype_size(dtype);
    return (tp_product){.dtype = dtype,
                        .m = g->m,
                        .n = g->n,
                        .k = g->k,
                        .am = (g->trans_a ? 1 : g->lda) * size,
                        .ak = (g->trans_a ? g->lda : 1) * size,
                        .bk = (g->trans_b ? 1 : g->ldb) * size,
                        .bn = (g->trans_b ? g->ldb : 1) * size,
                        .cm = g->ldc * size,
                        .cn = size};
}

static bool is_skinny(const tp_product *p)
{
    const tp_blas *blas = tp_blas_get();
    int64_t least = blas && blas->small_products ? SKINNY : 0;
    return p->m * p->n * p->k >= least && tp_skinny_takes(p);
}

static job prepare(const tp_step *step, const tp_run *run, const tp_gemm *g)
{
    tp_product p = matrices_of(g, (tp_dtype)step->out.dtype);
    int64_t size = p.cn;
    p.a = run->buffer[step->operand[g->swapped].buffer] + g->offset_a * size;
    p.b = run->buffer[step->operand[!g->swapped].buffer] + g->offset_b * size;
    p.c = run->buffer[step->out.buffer] + g->offset_c * size;
    return (job){.blas = tp_blas_get(),
                 .context = run->context,
                 .g = *g,
                 .matrices = p,
                 .size = size,
                 .products = products_of(g),
                 .cuts = 1,
                 .rows = g->m,
                 .skinny = is_skinny(&p),
                 .threads = 1};
}

static tp_status run_cblas(const tp_step *step, tp_run *run)
{
    tp_gemm g;
    if (arguments(step, &g) != TP_REASON_NONE) return TP_E_INTERNAL;
    if (tp_view_numel(&step->out.view) == 0) return TP_OK;
    if (g.k == 0) return tp_own_gemm.run(step, run);
    job j = prepare(step, run, &g);
    int threads = tp_usable_threads(run->threads);
    int64_t work = g.m * g.n * g.k;
    bool shares_evenly = j.products % threads == 0 || j.products >= 4 * threads;
    bool batch = j.products >= threads && (shares_evenly || work <= SMALL);
    if (threads == 1 || (!batch && (j.skinny || j.blas->shares_openmp))) {
        one_by_one(&j, threads);
        return j.status;
    }
    if (!batch && work > GRAIN && !j.blas->not_reentrant) {
        j.rows = (g.m + threads - 1) / threads;
        j.cuts = (g.m + j.rows - 1) / j.rows;
    }
    tp_parallel_for(threads, j.products * j.cuts, GRAIN / work + 1, calls, &j);
    return j.status;
}

static int describe_cblas(const tp_step *step, char *text, size_t size)
{
    tp_gemm g;
    if (arguments(step, &g) != TP_REASON_NONE) return snprintf(text, size, "no BLAS form");
    tp_product p = matrices_of(&g, (tp_dtype)step->out.dtype);
    return snprintf(
        text, size, "%cgemm %c%c m=%lld n=%lld k=%lld lda=%lld ldb=%lld ldc=%lld x%lld%s%s",
        step->out.dtype == TP_F32 ? 's' : 'd', g.trans_a ? 'T' : 'N', g.trans_b ? 'T' : 'N',
        (long long)g.m, (long long)g.n, (long long)g.k, (long long)g.lda, (long long)g.ldb,
        (long long)g.ldc, (long long)products_of(&g), g.swapped ? " (transposed: C' = B'A')" : "",
        is_skinny(&p) ? " (own loops for few rows)" : "");
}

static const tp_kernel cblas = {"cblas", refuse_cblas, run_cblas, describe_cblas};
const tp_kernel *const tp_cpu_matmul_kernels[] = {&cblas, &tp_own_gemm, NULL};
