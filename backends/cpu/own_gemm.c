/* Our own matrix product, for operands that no BLAS form has (both strides not 1, negative,
 * overlapping), for f16, bf16 and integers, and where no BLAS is installed.
 *
 * Blocks of A and B are packed, converted to the type that is calculated in: A as rows, B as
 * panels as wide as a micro-tile. Threads first pack together, then share out tiles of C. C is
 * added to where it lies, if it has that type and dense rows, else in a block that is rounded
 * once. Integers calculate modulo 2^32 or 2^64, which is wrapping in every narrower type. The
 * order of additions depends on K only. */
#include "own_gemm.h"

#include "loops.h"
#include "skinny.h"
#include "threads.h"

#include <string.h>

/* A block of C, whose panels of A and B are packed at once; rows of A that stay in the
 * second-level cache, and columns that a thread takes at once. */
#define BLOCK_M 2048
#define BLOCK_N 2048
#define PART_M 168
#define PART_N 64
/* The widest micro-tile, in elements and in all. */
#define WIDEST 32
#define TILE_BYTES (16 * 2 * 64)
/* Multiply-adds that are not worth a second thread. */
#define GRAIN (1 << 19)

typedef struct job {
    tp_product p;
    const tp_cpu_loops *loops;
    const tp_gemm_kernel *kernel;
    tp_dtype from, to; /* storage; what is calculated in */
    int64_t from_size, size;
    bool direct;     /* C is added to where it lies */
    char *a, *b, *c; /* packed A and B; C's block if not direct */
    int64_t ldc;
    int64_t i, rows, n, cols, k, depth; /* the block at work */
    int64_t parts_m, parts_n, tiles_m;
} job;

static tp_dtype calculated_in(tp_dtype dtype)
{
    if (dtype == TP_F64 || tp_dtype_compute(dtype) == TP_F32) return tp_dtype_compute(dtype);
    return tp_dtype_size(dtype) == 8 ? TP_U64 : TP_U32;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Elements of any type of that size. */
typedef uint32_t word_4 __attribute__((may_alias));
typedef uint64_t word_8 __attribute__((may_alias));

#define GATHER(T)                                                                                  \
    static void gather_##T(int64_t count, const char *x, int64_t step, T *y)                       \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        for (; i + 4 <= count; i += 4, x += 4 * step) {                                            \
            T a = *(const T *)x, b = *(const T *)(x + step), c = *(const T *)(x + 2 * step),       \
              d = *(const T *)(x + 3 * step);                                                      \
            y[i] = a, y[i + 1] = b, y[i + 2] = c, y[i + 3] = d;                                    \
        }                                                                                          \
        for (; i < count; i++, x += step) y[i] = *(const T *)x;                                    \
    }
GATHER(word_4)
GATHER(word_8)

/* y[i] = x[i] in the type that is calculated in, y dense. */
static void load_row(const job *j, int64_t count, const char *x, int64_t step, void *y)
{
    tp_loop fast = tp_dtype_kind_of(j->from) == TP_DTYPE_FLOAT ? j->loops->load[j->from]
                                                               : j->loops->cast[j->from][j->to];
    if (j->from != j->to && step == j->from_size && fast)
        fast(count, x, NULL, NULL, y);
    else if (j->from != j->to || step == j->size)
        tp_convert(count, j->from, x, step, j->to, y, j->size);
    else if (j->size == 4)
        gather_word_4(count, x, step, y);
    else
        gather_word_8(count, x, step, y);
}

/* Asks for a loose line that is read soon: the machine sees no order in such short ones. */
static void ask_for(const job *j, const char *x, int64_t count, int64_t step)
{
    if (step == j->from_size) return;
    for (int64_t at = 0; at < count * step; at += 64) __builtin_prefetch(x + at);
}

/* to[r * pitch + e] = element e of line r; strides in bytes, pitch in elements. */
static void pack_lines(const job *j, const char *x, int64_t line, int64_t step, int64_t lines,
                       int64_t length, char *to, int64_t pitch)
{
    int64_t row = pitch * j->size;
    if (line != j->from_size || step == j->from_size) {
        for (int64_t r = 0; r < lines; r++) {
            ask_for(j, x + (r + 2) * line, length, step);
            load_row(j, length, x + r * line, step, to + r * row);
        }
        return;
    }
    int log2_size = j->size == 8 ? 3 : 2;
    if (j->from == j->to) {
        j->loops->transpose[log2_size](lines, length, x, step, to, row);
        return;
    }
    _Alignas(64) char tile[TP_GEMM_DEPTH * WIDEST * 8];
    for (int64_t r = 0; r < lines; r += WIDEST) {
        int64_t count = least(lines - r, WIDEST);
        for (int64_t e = 0; e < length; e++)
            load_row(j, count, x + r * line + e * step, line, tile + e * WIDEST * j->size);
        j->loops->transpose[log2_size](count, length, tile, WIDEST * j->size, to + r * row, row);
    }
}

/* Columns [n, n + count) of B's block as a panel. */
static void pack_panel(const job *j, int64_t n, int64_t count)
{
    const tp_product *p = &j->p;
    int width = j->kernel->cols;
    const char *x = p->b + j->k * p->bk + (j->n + n) * p->bn;
    char *to = j->b + n * TP_GEMM_DEPTH * j->size;
    int64_t row = width * j->size;
    if (count < width) memset(to, 0, (size_t)(j->depth * row));
    if (p->bk != j->from_size) {
        for (int64_t e = 0; e < j->depth; e++) {
            ask_for(j, x + (e + 12) * p->bk, count, p->bn);
            load_row(j, count, x + e * p->bk, p->bn, to + e * row);
        }
        return;
    }
    _Alignas(64) char tile[TP_GEMM_DEPTH * WIDEST * 8];
    int64_t step = p->bn;
    if (j->from != j->to) {
        step = TP_GEMM_DEPTH * j->size;
        for (int64_t c = 0; c < count; c++)
            load_row(j, j->depth, x + c * p->bn, p->bk, tile + c * step);
        x = tile;
    }
    j->loops->transpose[j->size == 8 ? 3 : 2](j->depth, count, x, step, to, row);
}

/* Units: parts of A's rows, then panels of B. */
static void pack(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const tp_product *p = &j->p;
    int64_t mr = j->kernel->rows, nr = j->kernel->cols, strips = divide_up(j->rows, WIDEST);
    for (int64_t u = begin; u < end; u++) {
        if (u < strips) {
            int64_t r = u * WIDEST;
            pack_lines(j, p->a + (j->i + r) * p->am + j->k * p->ak, p->am, p->ak,
                       least(j->rows - r, WIDEST), j->depth, j->a + r * TP_GEMM_PITCH * j->size,
                       TP_GEMM_PITCH);
        } else if (u == strips) { /* rows that fill up the last tile */
            memset(j->a + j->rows * TP_GEMM_PITCH * j->size, 0,
                   (size_t)((j->tiles_m * mr - j->rows) * TP_GEMM_PITCH * j->size));
        } else {
            int64_t n = (u - strips - 1) * nr;
            pack_panel(j, n, least(j->cols - n, nr));
        }
    }
}

static void add_row(const job *j, int64_t count, const char *x, char *y)
{
    j->loops->accumulate[j->to](count, x, NULL, NULL, y);
}

/* The tile at (r, n) of the block. */
static void tile(const job *j, int64_t r, int64_t n)
{
    const tp_gemm_kernel *kernel = j->kernel;
    const char *a = j->a + r * TP_GEMM_PITCH * j->size, *b = j->b + n * TP_GEMM_DEPTH * j->size;
    char *c = j->c + (r * j->ldc + n) * j->size;
    int64_t rows = least(j->rows - r, kernel->rows), cols = least(j->cols - n, kernel->cols);
    if (rows == kernel->rows && cols == kernel->cols) {
        kernel->run(j->depth, a, b, c, j->ldc, j->k > 0);
        return;
    }
    _Alignas(64) char edge[TILE_BYTES];
    kernel->run(j->depth, a, b, edge, kernel->cols, false);
    for (int64_t i = 0; i < rows; i++, c += j->ldc * j->size) {
        const char *x = edge + i * kernel->cols * j->size;
        if (j->k > 0)
            add_row(j, cols, x, c);
        else
            memcpy(c, x, (size_t)(cols * j->size));
    }
}

/* Rounds and stores what has been summed up over all of K. */
static void store(const job *j, int64_t r, int64_t rows, int64_t n, int64_t cols)
{
    const tp_product *p = &j->p;
    tp_loop fast = p->cn == j->from_size ? j->loops->store[j->from] : NULL;
    for (int64_t i = r; i < r + rows; i++) {
        const char *x = j->c + (i * j->ldc + n) * j->size;
        char *y = p->c + (j->i + i) * p->cm + (j->n + n) * p->cn;
        if (fast)
            fast(cols, x, NULL, NULL, y);
        else
            tp_convert(cols, j->to, x, j->size, j->from, y, p->cn);
    }
}

/* Units: parts of C's block, along the columns first so that A's rows stay in the cache. */
static void multiply(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    int64_t mr = j->kernel->rows, nr = j->kernel->cols;
    for (int64_t u = begin; u < end; u++) {
        int64_t part = u / j->parts_n, n = u % j->parts_n * PART_N;
        int64_t r = part * j->tiles_m / j->parts_m * mr,
                r_end = least((part + 1) * j->tiles_m / j->parts_m * mr, j->rows),
                n_end = least(n + PART_N, j->cols);
        for (int64_t c = n; c < n_end; c += nr) {
            for (int64_t i = r; i < r_end; i += mr) tile(j, i, c);
        }
        if (!j->direct && j->k + j->depth == j->p.k) store(j, r, r_end - r, n, n_end - n);
    }
}

static void block(job *j, int threads)
{
    const tp_product *p = &j->p;
    char *scratch = j->c;
    if (j->direct) {
        j->c = p->c + j->i * p->cm + j->n * p->cn;
        j->ldc = p->cm / j->size;
    } else {
        j->ldc = j->cols;
    }
    j->tiles_m = divide_up(j->rows, j->kernel->rows);
    j->parts_m = divide_up(j->tiles_m * j->kernel->rows, PART_M);
    j->parts_n = divide_up(j->cols, PART_N);
    int64_t strips = divide_up(j->rows, WIDEST), panels = divide_up(j->cols, j->kernel->cols);
    for (j->k = 0; j->k < p->k; j->k += TP_GEMM_DEPTH) {
        j->depth = least(p->k - j->k, TP_GEMM_DEPTH);
        int64_t part = least(j->rows, PART_M) * least(j->cols, PART_N) * j->depth;
        tp_parallel_for(threads, strips + 1 + panels, 32768 / (WIDEST * j->depth) + 1, pack, j);
        tp_parallel_for(threads, j->parts_m * j->parts_n, GRAIN / part + 1, multiply, j);
    }
    j->c = scratch;
}

static tp_status packed(tp_context *context, const tp_product *p, int threads)
{
    job j = {.p = *p, .loops = tp_cpu_loops_get(), .from = p->dtype, .to = calculated_in(p->dtype)};
    j.from_size = (int64_t)tp_dtype_size(j.from);
    j.size = (int64_t)tp_dtype_size(j.to);
    if (p->cn != j.from_size && p->cm == j.from_size) j.p = tp_product_turned(p);
    p = &j.p;
    j.kernel = &j.loops->gemm[j.to];
    j.direct = j.from_size == j.size && p->cn == j.size && p->cm % j.size == 0;
    int64_t rows = divide_up(least(p->m, BLOCK_M), j.kernel->rows) * j.kernel->rows,
            cols = divide_up(least(p->n, BLOCK_N), j.kernel->cols) * j.kernel->cols;
    size_t a = (size_t)(rows * TP_GEMM_PITCH * j.size), b = (size_t)(cols * TP_GEMM_DEPTH * j.size),
           c = j.direct ? 0 : (size_t)(least(p->m, BLOCK_M) * least(p->n, BLOCK_N) * j.size);
    char *memory = tp_context_alloc(context, a + b + c);
    if (!memory) return TP_E_NOMEM;
    j.b = memory;
    j.a = memory + b;
    j.c = memory + b + a;
    for (j.n = 0; j.n < p->n; j.n += BLOCK_N) {
        for (j.i = 0; j.i < p->m; j.i += BLOCK_M) {
            j.rows = least(p->m - j.i, BLOCK_M);
            j.cols = least(p->n - j.n, BLOCK_N);
            block(&j, threads);
        }
    }
    tp_context_free(context, memory, a + b + c);
    return TP_OK;
}

static void clear(const tp_product *p)
{
    static const char zero[8];
    for (int64_t i = 0; i < p->m; i++)
        tp_convert(p->n, p->dtype, zero, 0, p->dtype, p->c + i * p->cm, p->cn);
}

tp_status tp_own_product(tp_context *context, const tp_product *p, int threads)
{
    if (p->m == 0 || p->n == 0) return TP_OK;
    if (p->k == 0) {
        clear(p);
        return TP_OK;
    }
    return tp_skinny_takes(p) ? tp_skinny(context, p, threads) : packed(context, p, threads);
}

/* ---- The kernel: a product per batch index --------------------------------------------- */

typedef struct batch {
    const tp_step *step;
    tp_run *run;
    int threads; /* of each product */
    tp_status status;
} batch;

static int64_t stride_of(const tp_view *v, int dim, int64_t size)
{
    return v->shape[dim] > 1 ? v->stride[dim] * size : 0;
}

/* Address of a matrix in batch `at`, and its strides in bytes. */
static char *matrix(const tp_operand *o, const tp_run *run, int64_t at, int64_t *rows,
                    int64_t *cols)
{
    const tp_view *v = &o->view;
    int64_t size = (int64_t)tp_dtype_size((tp_dtype)o->dtype);
    char *address = tp_operand_at(o, run);
    for (int d = v->ndim - 3; d >= 0; d--) {
        address += at % v->shape[d] * stride_of(v, d, size);
        at /= v->shape[d];
    }
    *rows = stride_of(v, v->ndim - 2, size);
    *cols = stride_of(v, v->ndim - 1, size);
    return address;
}

static void products(void *arg, int64_t begin, int64_t end)
{
    batch *b = arg;
    const tp_operand *operand = b->step->operand, *out = &b->step->out;
    int rank = out->view.ndim;
    tp_product p = {.dtype = (tp_dtype)out->dtype,
                    .m = out->view.shape[rank - 2],
                    .n = out->view.shape[rank - 1],
                    .k = operand[0].view.shape[rank - 1]};
    for (int64_t i = begin; i < end; i++) {
        p.a = matrix(&operand[0], b->run, i, &p.am, &p.ak);
        p.b = matrix(&operand[1], b->run, i, &p.bk, &p.bn);
        p.c = matrix(out, b->run, i, &p.cm, &p.cn);
        tp_status status = tp_own_product(b->run->context, &p, b->threads);
        if (status != TP_OK) __atomic_store_n(&b->status, status, __ATOMIC_RELAXED);
    }
}

static tp_status run_own(const tp_step *step, tp_run *run)
{
    const tp_view *domain = &step->domain;
    int rank = domain->ndim;
    int64_t count = 1, threads = tp_usable_threads(run->threads);
    for (int d = 0; d < rank - 2; d++) count *= domain->shape[d];
    int64_t work = domain->shape[rank - 2] * domain->shape[rank - 1] *
                   (step->operand[0].view.shape[rank - 1] + 1);
    if (count == 0 || work == 0) return TP_OK;
    batch b = {step, run, count < threads ? (int)threads : 1, TP_OK};
    if (count < threads)
        products(&b, 0, count);
    else
        tp_parallel_for((int)threads, count, GRAIN / work + 1, products, &b);
    return b.status;
}

const tp_kernel tp_own_gemm = {"gemm", NULL, run_own, NULL};
