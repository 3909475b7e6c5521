/* Our own matrix product, for operands that no BLAS form has (both strides not 1, negative,
 * overlapping), for f16, bf16 and integers, and where no BLAS is installed.
 *
 * Blocks of A and B are packed, converted to the type that is calculated in, into panels that
 * a micro-kernel walks straight through; a block of C is held in that type over all of K and
 * rounded once. Integers calculate modulo 2^32 or 2^64, which is wrapping in every narrower
 * type. The order of additions depends on K only. */
#include "own_gemm.h"

#include "loops.h"
#include "threads.h"

#include <string.h>

/* Block sizes: A's panel and C's block fit the second-level cache together with B's. */
#define BLOCK_M 96
#define BLOCK_N 256
#define BLOCK_K 256

typedef struct job {
    const tp_step *step;
    tp_context *context;
    const tp_cpu_loops *loops;
    const tp_gemm_kernel *kernel;
    tp_dtype from, to; /* storage; what is calculated in */
    size_t from_size, size;
    int rank;
    const char *a, *b;
    char *c;
    int64_t m, n, k, m_blocks, n_blocks;
    int failed;
} job;

static tp_dtype calculated_in(tp_dtype dtype)
{
    if (dtype == TP_F64 || tp_dtype_compute(dtype) == TP_F32) return tp_dtype_compute(dtype);
    return tp_dtype_size(dtype) == 8 ? TP_U64 : TP_U32;
}

/* Offset in elements of operand v in batch `at`. */
static int64_t batch_offset(const tp_view *v, int rank, int64_t at, const tp_view *domain)
{
    int64_t offset = v->offset;
    for (int d = rank - 3; d >= 0; d--) {
        if (v->shape[d] > 1) offset += at % domain->shape[d] * v->stride[d];
        at /= domain->shape[d];
    }
    return offset;
}

/* Packs `lines` lines of `length` elements into panels of `width` lines: element e of the
 * panel's lines lies together. Missing lines are 0. line, step: strides in bytes. */
static void pack(const job *j, const char *x, int64_t lines, int64_t length, int64_t line,
                 int64_t step, int width, char *to)
{
    for (int64_t first = 0; first < lines; first += width) {
        int64_t count = lines - first < width ? lines - first : width;
        if (count < width) memset(to, 0, (size_t)(length * width) * j->size);
        /* Along the shorter step, so that rows of memory are read once. */
        if ((step < 0 ? -step : step) <= (line < 0 ? -line : line)) {
            for (int64_t l = 0; l < count; l++) {
                tp_convert(length, j->from, x + (first + l) * line, step, j->to,
                           to + (size_t)l * j->size, width * (int64_t)j->size);
            }
        } else {
            for (int64_t e = 0; e < length; e++) {
                tp_convert(count, j->from, x + first * line + e * step, line, j->to,
                           to + (size_t)(e * width) * j->size, (int64_t)j->size);
            }
        }
        to += (size_t)(length * width) * j->size;
    }
}

typedef struct panels {
    char *a, *b, *c;
} panels;

static int64_t stride_of(const tp_view *v, int dim, size_t size)
{
    return v->shape[dim] > 1 ? v->stride[dim] * (int64_t)size : 0;
}

static void multiply(const job *j, int64_t batch, int64_t i, int64_t jn, int64_t rows, int64_t cols,
                     const panels *p)
{
    const tp_view *av = &j->step->operand[0].view, *bv = &j->step->operand[1].view;
    const char *a =
        j->a + batch_offset(av, j->rank, batch, &j->step->domain) * (int64_t)j->from_size;
    const char *b =
        j->b + batch_offset(bv, j->rank, batch, &j->step->domain) * (int64_t)j->from_size;
    int64_t am = stride_of(av, j->rank - 2, j->from_size),
            ak = stride_of(av, j->rank - 1, j->from_size);
    int64_t bk = stride_of(bv, j->rank - 2, j->from_size),
            bn = stride_of(bv, j->rank - 1, j->from_size);
    int mr = j->kernel->rows, nr = j->kernel->cols;
    memset(p->c, 0, (size_t)BLOCK_M * BLOCK_N * j->size);
    for (int64_t k = 0; k < j->k; k += BLOCK_K) {
        int64_t depth = j->k - k < BLOCK_K ? j->k - k : BLOCK_K;
        pack(j, a + i * am + k * ak, rows, depth, am, ak, mr, p->a);
        pack(j, b + jn * bn + k * bk, cols, depth, bn, bk, nr, p->b);
        for (int64_t c = 0; c < cols; c += nr) {
            for (int64_t r = 0; r < rows; r += mr) {
                j->kernel->run(depth, p->a + (size_t)(r * depth) * j->size,
                               p->b + (size_t)(c * depth) * j->size,
                               p->c + (size_t)(r * BLOCK_N + c) * j->size, BLOCK_N);
            }
        }
    }
}

static void store_block(const job *j, int64_t batch, int64_t i, int64_t jn, int64_t rows,
                        int64_t cols, const char *c)
{
    const tp_view *v = &j->step->out.view;
    int64_t row = stride_of(v, j->rank - 2, j->from_size),
            col = stride_of(v, j->rank - 1, j->from_size);
    char *to = j->c + batch_offset(v, j->rank, batch, &j->step->domain) * (int64_t)j->from_size +
               i * row + jn * col;
    for (int64_t r = 0; r < rows; r++)
        tp_convert(cols, j->to, c + (size_t)(r * BLOCK_N) * j->size, (int64_t)j->size, j->from,
                   to + r * row, col);
}

static void run_blocks(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    /* Panels are padded to whole micro-tiles. */
    size_t a = (size_t)(BLOCK_M + j->kernel->rows) * BLOCK_K * j->size,
           b = (size_t)(BLOCK_N + j->kernel->cols) * BLOCK_K * j->size;
    size_t c = (size_t)(BLOCK_M + j->kernel->rows) * BLOCK_N * j->size, bytes = a + b + c;
    char *memory = tp_context_alloc(j->context, bytes);
    if (!memory) {
        __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    panels p = {memory, memory + a, memory + a + b};
    for (int64_t u = begin; u < end; u++) {
        int64_t i = u % j->m_blocks * BLOCK_M, n = u / j->m_blocks % j->n_blocks * BLOCK_N,
                batch = u / j->m_blocks / j->n_blocks;
        int64_t rows = j->m - i < BLOCK_M ? j->m - i : BLOCK_M,
                cols = j->n - n < BLOCK_N ? j->n - n : BLOCK_N;
        multiply(j, batch, i, n, rows, cols, &p);
        store_block(j, batch, i, n, rows, cols, p.c);
    }
    tp_context_free(j->context, memory, bytes);
}

static tp_status run_own(const tp_step *step, tp_run *run)
{
    if (tp_view_numel(&step->domain) == 0) return TP_OK;
    job j = {.step = step,
             .context = run->context,
             .loops = tp_cpu_loops_get(),
             .from = (tp_dtype)step->out.dtype,
             .rank = step->domain.ndim};
    j.to = calculated_in(j.from);
    j.from_size = tp_dtype_size(j.from);
    j.size = tp_dtype_size(j.to);
    j.kernel = &j.loops->gemm[j.to];
    j.a = run->buffer[step->operand[0].buffer];
    j.b = run->buffer[step->operand[1].buffer];
    j.c = run->buffer[step->out.buffer];
    j.m = step->domain.shape[j.rank - 2];
    j.n = step->domain.shape[j.rank - 1];
    j.k = step->operand[0].view.shape[j.rank - 1];
    j.m_blocks = (j.m + BLOCK_M - 1) / BLOCK_M;
    j.n_blocks = (j.n + BLOCK_N - 1) / BLOCK_N;
    int64_t units = j.m_blocks * j.n_blocks;
    for (int d = 0; d < j.rank - 2; d++) units *= step->domain.shape[d];
    int64_t work = (j.m < BLOCK_M ? j.m : BLOCK_M) * (j.n < BLOCK_N ? j.n : BLOCK_N) * (j.k + 1);
    tp_parallel_for(run->threads, units, 65536 / work + 1, run_blocks, &j);
    return j.failed ? TP_E_NOMEM : TP_OK;
}

tp_status tp_own_gemm_zero(const tp_step *step, tp_run *run)
{
    return run_own(step, run); /* with K = 0 it stores its cleared blocks */
}

const tp_kernel tp_own_gemm = {"gemm", NULL, run_own, NULL};
