/* A product of up to 8 rows (or, turned round, columns) reads the large operand once, where it
 * lies: packing it would cost as much as the product. Where B's rows are dense, slabs of a few of
 * them are added to C, so that memory is walked along; where its columns are, dots are taken.
 * Threads share out columns, so they change no bit. */
#include "skinny.h"

#include "loops.h"
#include "threads.h"

#include <string.h>

#define MOST_ROWS 8
/* Multiply-adds that are not worth a second thread. */
#define GRAIN (1 << 16)
/* Rows of B that are walked side by side. */
#define SLAB 16
/* Columns whose dots are taken with all rows while they are in the cache. */
#define DOTS 8
/* Columns that a thread takes at once, in bytes. */
#define BLOCK_BYTES 512
/* Columns of C that stay in the cache while all of B's slabs go by, in bytes. */
#define STRIP_BYTES 8192

typedef struct job {
    const tp_product *p;
    const tp_gemm_kernel *kernel;
    int64_t size, width; /* of an element; of a column block, in elements */
    const char *a;       /* m lines of k elements */
    int64_t lda;
} job;

tp_product tp_product_turned(const tp_product *p)
{
    tp_product t = *p;
    t.m = p->n, t.n = p->m;
    t.a = p->b, t.am = p->bn, t.ak = p->bk;
    t.b = p->a, t.bk = p->ak, t.bn = p->am;
    t.cm = p->cn, t.cn = p->cm;
    return t;
}

/* A large operand that can be read where it lies; small products are better off elsewhere. */
static bool takes(const tp_product *p)
{
    int64_t size = (int64_t)tp_dtype_size(p->dtype);
    bool dense = (p->bn == size && p->bk % size == 0) || (p->bk == size && p->bn % size == 0);
    return p->m <= MOST_ROWS && p->n * p->k >= 4096 && p->n >= 16 && p->k >= 16 && dense;
}

bool tp_skinny_takes(const tp_product *p)
{
    if (p->dtype != TP_F32 && p->dtype != TP_F64) return false;
    tp_product turned = tp_product_turned(p);
    return takes(p) || takes(&turned);
}

static int group_of(int64_t rows)
{
    return rows < TP_SKINNY_GROUP ? (int)rows : TP_SKINNY_GROUP;
}

/* Columns [n, n + cols) of C from the line block c of MOST_ROWS lines of ldc elements. */
static void store(const job *j, int64_t n, int64_t cols, const char *c, int64_t ldc)
{
    const tp_product *p = j->p;
    for (int64_t r = 0; r < p->m; r++)
        tp_convert(cols, p->dtype, c + r * ldc * j->size, j->size, p->dtype,
                   p->c + r * p->cm + n * p->cn, p->cn);
}

/* One slab of B on columns of a strip of C; ldb in elements. */
static void slab(const job *j, int64_t k, int64_t depth, const char *b, int64_t ldb, int64_t cols,
                 char *c, int64_t ldc)
{
    for (int64_t r = 0; r < j->p->m; r += TP_SKINNY_GROUP)
        j->kernel->wide(group_of(j->p->m - r), cols, depth, j->a + (r * j->lda + k) * j->size,
                        j->lda, b, ldb, c + r * ldc * j->size, ldc, k > 0);
}

/* Columns that do not fill a vector are padded. */
static void padded(const job *j, int64_t k, int64_t depth, const char *b, int64_t cols, char *c,
                   int64_t ldc)
{
    _Alignas(64) char pad[SLAB * TP_WIDE_BYTES] = {0};
    for (int64_t l = 0; l < depth; l++)
        memcpy(pad + l * TP_WIDE_BYTES, b + l * j->p->bk, (size_t)(cols * j->size));
    int64_t width = TP_WIDE_BYTES / j->size;
    slab(j, k, depth, pad, width, width, c, ldc);
}

static void wide_columns(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const tp_product *p = j->p;
    _Alignas(64) char strip[MOST_ROWS * STRIP_BYTES];
    int64_t ldc = STRIP_BYTES / j->size, last = end * j->width < p->n ? end * j->width : p->n;
    for (int64_t n = begin * j->width; n < last; n += ldc) {
        int64_t cols = last - n < ldc ? last - n : ldc;
        int64_t whole = cols - cols % (TP_WIDE_BYTES / j->size);
        for (int64_t k = 0; k < p->k; k += SLAB) {
            int64_t depth = p->k - k < SLAB ? p->k - k : SLAB;
            const char *b = p->b + n * j->size + k * p->bk;
            for (int64_t i = 0; i < whole; i += j->width)
                slab(j, k, depth, b + i * j->size, p->bk / j->size,
                     whole - i < j->width ? whole - i : j->width, strip + i * j->size, ldc);
            if (whole < cols)
                padded(j, k, depth, b + whole * j->size, cols - whole, strip + whole * j->size,
                       ldc);
        }
        store(j, n, cols, strip, ldc);
    }
}

static void dot_columns(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const tp_product *p = j->p;
    _Alignas(64) char block[MOST_ROWS * DOTS * 8];
    for (int64_t n = begin * j->width; n < p->n && n < end * j->width; n += DOTS) {
        int64_t cols = p->n - n < DOTS ? p->n - n : DOTS;
        for (int64_t r = 0; r < p->m; r += TP_SKINNY_GROUP)
            j->kernel->dots(group_of(p->m - r), cols, p->k, j->a + r * j->lda * j->size, j->lda,
                            p->b + n * p->bn, p->bn / j->size, block + r * DOTS * j->size, DOTS);
        store(j, n, cols, block, DOTS);
    }
}

tp_status tp_skinny(tp_context *context, const tp_product *asked, int threads)
{
    tp_product turned = tp_product_turned(asked);
    const tp_product *p = takes(asked) ? asked : &turned;
    job j = {.p = p,
             .kernel = &tp_cpu_loops_get()->gemm[p->dtype],
             .size = (int64_t)tp_dtype_size(p->dtype),
             .a = p->a,
             .lda = p->am / (int64_t)tp_dtype_size(p->dtype)};
    j.width = BLOCK_BYTES / j.size;
    size_t bytes = (size_t)(p->m * p->k * j.size);
    char *lines = NULL;
    if (p->ak != j.size || p->am % j.size != 0) {
        lines = tp_context_alloc(context, bytes);
        if (!lines) return TP_E_NOMEM;
        for (int64_t r = 0; r < p->m; r++)
            tp_convert(p->k, p->dtype, p->a + r * p->am, p->ak, p->dtype, lines + r * p->k * j.size,
                       j.size);
        j.a = lines;
        j.lda = p->k;
    }
    int64_t blocks = (p->n + j.width - 1) / j.width, grain = GRAIN / (p->k * j.width * p->m) + 1;
    tp_parallel_for(threads, blocks, grain, p->bn == j.size ? wide_columns : dot_columns, &j);
    if (lines) tp_context_free(context, lines, bytes);
    return TP_OK;
}
