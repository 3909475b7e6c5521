/* Attention in tiles: for a tile of rows, tile after tile of keys. Scores of a tile come from the
 * BLAS, go through the prologue and become e^(s - m) with m the largest of the row so far; sums and
 * the product with the values are rescaled when m grows (online softmax; Milakov and Gimelshein
 * 2018, Dao et al. 2022). Tiles are cut by size alone: the same bits with any number of threads. */
#include "../gemm_args.h"
#include "blas.h"
#include "kernels.h"
#include "loops.h"
#include "program.h"
#include "threads.h"

#include <limits.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

/* A tile of scores is 512 KiB. */
#define ROWS 256
#define KEYS 512
/* Widest rows of values: their sums for a tile of rows are another 256 KiB. */
#define MOST_WIDTH 256

/* One product of a tile: how its operands lie (offsets 0), for the BLAS. */
typedef struct form {
    bool trans_a, trans_b;
    int lda, ldb;
} form;

typedef struct job {
    const tp_step *step;
    const tp_run *run;
    const tp_blas *blas;
    const tp_cpu_loops *loops;
    tp_tile_program prologue;
    form scores, values;
    int64_t heads, tiles; /* batch indices; tiles of rows of each */
    int64_t rows, keys, width, out_width;
    int failed;
} job;

/* The last two dims of a view, as a product of `rows` x `cols` sees them. */
static tp_view matrix(const tp_view *v)
{
    tp_view m = {.ndim = 2};
    for (int d = 0; d < 2; d++) {
        m.shape[d] = v->shape[v->ndim - 2 + d];
        m.stride[d] = v->stride[v->ndim - 2 + d];
    }
    return m;
}

/* How BLAS reads a matrix: as it is (columns side by side) or transposed; false if neither. */
static bool orient(const tp_view *m, bool *trans, int *ld)
{
    int64_t across = m->shape[0] > 1 ? m->stride[0] : m->shape[1],
            along = m->shape[1] > 1 ? m->stride[1] : 1;
    *trans = along != 1;
    if (*trans && (m->shape[0] > 1 ? m->stride[0] : 1) != 1) return false;
    int64_t lead = *trans ? along : across, least = *trans ? m->shape[0] : m->shape[1];
    if (lead < least || lead < 1 || lead > INT_MAX) return false;
    *ld = (int)lead;
    return true;
}

static bool forms(const tp_step *step, form *scores, form *values)
{
    tp_view q = matrix(&step->operand[0].view), k = matrix(&step->operand[1].view),
            v = matrix(&step->operand[2].view);
    return orient(&q, &scores->trans_a, &scores->lda) &&
           orient(&k, &scores->trans_b, &scores->ldb) && orient(&v, &values->trans_b, &values->ldb);
}

static tp_reason refuse(const tp_step *step)
{
    const tp_blas *blas = tp_blas_get();
    form scores, values;
    bool inside = blas && !blas->not_reentrant && (blas->shares_openmp || !blas->set_threads);
    for (int i = 0; i < 3; i++) {
        if (step->operand[i].dtype != TP_F32) return TP_REASON_BACKEND;
    }
    const tp_view *q = &step->operand[0].view, *v = &step->operand[2].view;
    bool fits = step->out.dtype == TP_F32 && v->shape[v->ndim - 1] <= MOST_WIDTH &&
                q->shape[q->ndim - 1] <= INT_MAX && tp_view_numel(&step->out.view) > 0;
    return inside && fits && forms(step, &scores, &values) ? TP_REASON_NONE : TP_REASON_BACKEND;
}

/* ---- Where things lie ------------------------------------------------------------------- */

/* An operand's element [.., row, col] of a batch index. */
static char *at(const job *j, const tp_operand *o, int64_t head, int64_t row, int64_t col)
{
    const tp_view *v = &o->view;
    int64_t offset = 0;
    for (int d = v->ndim - 3; d >= 0; d--) {
        int64_t size = j->step->domain.shape[d];
        offset += head % size * (v->shape[d] > 1 ? v->stride[d] : 0);
        head /= size;
    }
    offset += row * (v->shape[v->ndim - 2] > 1 ? v->stride[v->ndim - 2] : 0);
    offset += col * (v->shape[v->ndim - 1] > 1 ? v->stride[v->ndim - 1] : 0);
    return tp_operand_at(o, j->run) + offset * (int64_t)tp_dtype_size((tp_dtype)o->dtype);
}

/* A thread's memory: scores of a tile, sums of values, the largest score and the sum of each row,
 * scratch of the prologue. */
typedef struct scratch {
    float *score, *sum_of_values, *largest, *sum;
    char *program;
} scratch;

static size_t scratch_bytes(const job *j)
{
    return sizeof(float) * (size_t)(ROWS * KEYS + ROWS * j->out_width + 2 * ROWS) +
           (size_t)j->prologue.slots * TP_SLOT_BYTES;
}

static scratch divide(const job *j, void *memory)
{
    float *f = memory;
    scratch s = {.score = f, .sum_of_values = f + ROWS * KEYS};
    s.largest = s.sum_of_values + ROWS * j->out_width;
    s.sum = s.largest + ROWS;
    s.program = (char *)(s.sum + ROWS);
    return s;
}

/* ---- A tile ---------------------------------------------------------------------------------- */

typedef struct tile {
    int64_t head, row, rows, key, keys;
} tile;

/* Whether the mask hides all of the tile. */
static bool is_hidden(const job *j, const tile *t)
{
    if (j->step->value[1].i == 0) return false;
    const tp_operand *mask = &j->step->operand[2 + j->step->value[1].i];
    const tp_view *v = &mask->view;
    int64_t rows = v->stride[v->ndim - 2] ? t->rows : 1,
            cols = v->stride[v->ndim - 1] ? t->keys : 1;
    for (int64_t r = 0; r < rows; r++) {
        const char *seen = at(j, mask, t->head, t->row + r, t->key);
        int64_t step = cols > 1 ? v->stride[v->ndim - 1] : 0;
        char any = 0;
        for (int64_t c = 0; c < cols; c++) any |= seen[c * step];
        if (any) return false;
    }
    return true;
}

/* The prologue over one row of scores, in place. */
static void apply_prologue(const job *j, const tile *t, int64_t row, float *score, char *slots)
{
    const tp_step *step = j->step;
    if (step->prologue.insn_count == 0) return;
    tp_rows loads[TP_PROGRAM_LOADS];
    for (int i = 1; i < step->prologue.load_count; i++) {
        const tp_operand *o = &step->operand[2 + i];
        int64_t stride = o->view.shape[o->view.ndim - 1] > 1 ? o->view.stride[o->view.ndim - 1] : 0;
        loads[i - 1] = (tp_rows){at(j, o, t->head, t->row + row, t->key), 0,
                                 stride * (int64_t)tp_dtype_size((tp_dtype)o->dtype)};
    }
    const char *y =
        tp_tile_run(&j->prologue, 1, t->keys, loads, (const char *)score, (char *)score, slots);
    if (y != (const char *)score) memcpy(score, y, (size_t)t->keys * sizeof *score);
}

static float sum_of(const tp_cpu_loops *loops, int64_t n, const float *x)
{
    float lane[TP_LANES] = {0};
    loops->sum_f32(n, x, lane);
    for (int half = TP_LANES / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; i++) lane[i] += lane[i + half];
    }
    return lane[0];
}

/* A row of scores becomes e^(s - m); what was added up before is rescaled to the new m. */
static void update_row(const job *j, const tile *t, int64_t row, const scratch *s)
{
    float *x = s->score + row * KEYS, before = s->largest[row], now = before;
    j->loops->best[0][TP_F32](t->keys, x, &now);
    if (now == -INFINITY) { /* nothing seen yet */
        memset(x, 0, (size_t)t->keys * sizeof *x);
        return;
    }
    j->loops->exp_f32(t->keys, x, now, x);
    float more = sum_of(j->loops, t->keys, x);
    s->largest[row] = now;
    if (before == -INFINITY) {
        s->sum[row] = more;
        return;
    }
    float scale = expf(before - now), *y = s->sum_of_values + row * j->out_width;
    s->sum[row] = s->sum[row] * scale + more;
    if (scale == 1) return;
    for (int64_t c = 0; c < j->out_width; c++) y[c] *= scale;
}

static void run_tile(const job *j, const tile *t, const scratch *s)
{
    const tp_operand *o = j->step->operand;
    int trans[] = {TP_BLAS_NO_TRANS, TP_BLAS_TRANS};
    j->blas->sgemm(TP_BLAS_ROW_MAJOR, trans[j->scores.trans_a], trans[j->scores.trans_b],
                   (int)t->rows, (int)t->keys, (int)j->width, 1,
                   (const float *)(const void *)at(j, &o[0], t->head, t->row, 0), j->scores.lda,
                   (const float *)(const void *)at(j, &o[1], t->head, 0, t->key), j->scores.ldb, 0,
                   s->score, KEYS);
    for (int64_t r = 0; r < t->rows; r++) {
        apply_prologue(j, t, r, s->score + r * KEYS, s->program);
        update_row(j, t, r, s);
    }
    j->blas->sgemm(TP_BLAS_ROW_MAJOR, TP_BLAS_NO_TRANS, trans[j->values.trans_b], (int)t->rows,
                   (int)j->out_width, (int)t->keys, 1, s->score, KEYS,
                   (const float *)(const void *)at(j, &o[2], t->head, t->key, 0), j->values.ldb, 1,
                   s->sum_of_values, (int)j->out_width);
}

static void store_rows(const job *j, const tile *t, const scratch *s)
{
    const tp_operand *out = &j->step->out;
    int64_t stride =
        out->view.shape[out->view.ndim - 1] > 1 ? out->view.stride[out->view.ndim - 1] : 1;
    for (int64_t r = 0; r < t->rows; r++) {
        const float *x = s->sum_of_values + r * j->out_width;
        float *y = (float *)(void *)at(j, out, t->head, t->row + r, 0), sum = s->sum[r];
        bool nothing = s->largest[r] == -INFINITY && j->step->value[0].i;
        for (int64_t c = 0; c < j->out_width; c++) y[c * stride] = nothing ? 0 : x[c] / sum;
    }
}

/* Unit: a tile of rows of a batch index. */
static void run_units(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    size_t bytes = scratch_bytes(j);
    void *memory = tp_context_alloc(j->run->context, bytes);
    if (!memory) {
        __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    scratch s = divide(j, memory);
    tp_tile_begin(&j->prologue, s.program);
    for (int64_t unit = begin; unit < end; unit++) {
        tile t = {.head = unit / j->tiles, .row = unit % j->tiles * ROWS};
        t.rows = j->rows - t.row < ROWS ? j->rows - t.row : ROWS;
        memset(s.sum_of_values, 0, (size_t)(t.rows * j->out_width) * sizeof(float));
        for (int64_t r = 0; r < t.rows; r++) {
            s.largest[r] = -INFINITY;
            s.sum[r] = 0;
        }
        for (t.key = 0; t.key < j->keys; t.key += KEYS) {
            t.keys = j->keys - t.key < KEYS ? j->keys - t.key : KEYS;
            if (!is_hidden(j, &t)) run_tile(j, &t, &s);
        }
        store_rows(j, &t, &s);
    }
    tp_context_free(j->run->context, memory, bytes);
}

static tp_status run(const tp_step *step, tp_run *run)
{
    job j = {
        .step = step, .run = run, .blas = tp_blas_get(), .loops = tp_cpu_loops_get(), .heads = 1};
    const tp_view *domain = &step->domain, *q = &step->operand[0].view, *v = &step->operand[2].view;
    int rank = domain->ndim;
    uint8_t dtype[TP_PROGRAM_LOADS] = {TP_F32};
    for (int i = 1; i < step->prologue.load_count; i++) dtype[i] = step->operand[2 + i].dtype;
    tp_tile_prepare(&j.prologue, &step->prologue, dtype);
    if (!j.blas || !forms(step, &j.scores, &j.values)) return TP_E_INTERNAL;
    for (int d = 0; d < rank - 2; d++) j.heads *= domain->shape[d];
    j.rows = domain->shape[rank - 2];
    j.keys = domain->shape[rank - 1];
    j.width = q->shape[rank - 1];
    j.out_width = v->shape[rank - 1];
    j.tiles = (j.rows + ROWS - 1) / ROWS;
    int threads = tp_usable_threads(run->threads);
    /* Outside a parallel region the BLAS would take threads of its own. What this sets is the
     * program's OpenMP setting too, and is put back. */
    int before = omp_get_max_threads();
    if (threads == 1 && j.blas->set_threads) j.blas->set_threads(1);
    tp_parallel_for(threads, j.heads * j.tiles, 1, run_units, &j);
    if (omp_get_max_threads() != before) omp_set_num_threads(before);
    return j.failed ? TP_E_NOMEM : TP_OK;
}

static int describe(const tp_step *step, char *text, size_t size)
{
    const tp_view *d = &step->domain, *q = &step->operand[0].view;
    int64_t heads = 1;
    for (int i = 0; i < d->ndim - 2; i++) heads *= d->shape[i];
    return snprintf(
        text, size,
        "STREAMED rows=%lld keys=%lld width=%lld x%lld, tiles %dx%d: %.1f MiB of scores "
        "not allocated%s",
        (long long)d->shape[d->ndim - 2], (long long)d->shape[d->ndim - 1],
        (long long)q->shape[q->ndim - 1], (long long)heads, ROWS, KEYS,
        (double)tp_view_numel(d) * sizeof(float) / 0x1p20,
        step->value[1].i ? ", hidden tiles skipped" : "");
}

static const tp_kernel attention = {"attention", refuse, run, describe};
const tp_kernel *const tp_cpu_attention_kernels[] = {&attention, NULL};
