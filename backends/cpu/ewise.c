/* Elementwise steps: "copy" for plain copies, "fused" for everything.
 *
 * A step is cut into tiles of rows x n elements over the two innermost dims of its nest. Short
 * rows share a tile; long rows are cut. Where an operand is strided along the rows, tiles walk
 * down the columns so that a cache line is used up before it is evicted. */
#include "kernels.h"
#include "nest.h"
#include "threads.h"

#include <string.h>

/* Tiles that a thread takes at least. */
#define TILES_PER_THREAD 32

typedef struct job {
    tp_nest nest;
    tp_tile_program tile;
    const tp_cpu_loops *loops;
    tp_context *context;
    uint8_t out_dtype;
    int outer;       /* dims outside the rows */
    int64_t rows, n; /* sizes of the two inner dims */
    int64_t tile_rows, tile_n, row_tiles, n_tiles;
    int failed; /* a thread ran out of memory */
} job;

static tp_rows rows_at(const job *j, int operand, int64_t outer, int64_t row, int64_t i)
{
    const tp_nest *nest = &j->nest;
    int inner = nest->ndim - 1;
    int64_t row_stride = inner > 0 ? nest->stride[operand][inner - 1] : 0,
            stride = nest->stride[operand][inner];
    char *at = nest->base[operand] + tp_nest_offset(nest, operand, j->outer, outer) +
               row * row_stride + i * stride;
    return (tp_rows){at, row_stride, stride};
}

static void run_tile(const job *j, int64_t number, char *scratch)
{
    int64_t row_tile = number % j->row_tiles, n_tile = number / j->row_tiles % j->n_tiles,
            outer = number / j->row_tiles / j->n_tiles;
    int64_t row = row_tile * j->tile_rows, i = n_tile * j->tile_n;
    int64_t rows = j->rows - row < j->tile_rows ? j->rows - row : j->tile_rows;
    int64_t n = j->n - i < j->tile_n ? j->n - i : j->tile_n;
    tp_rows loads[TP_PROGRAM_LOADS];
    for (int k = 1; k < j->nest.operands; k++) loads[k - 1] = rows_at(j, k, outer, row, i);
    const char *y = tp_tile_run(&j->tile, rows, n, loads, NULL, scratch);
    tp_rows out = rows_at(j, 0, outer, row, i);
    tp_tile_store(j->loops, j->out_dtype, rows, n, y, &out, scratch);
}

static void run_tiles(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    size_t bytes = (size_t)j->tile.slots * TP_SLOT_BYTES;
    char *scratch = tp_context_alloc(j->context, bytes);
    if (!scratch) {
        __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    tp_tile_begin(&j->tile, scratch);
    for (int64_t t = begin; t < end; t++) run_tile(j, t, scratch);
    tp_context_free(j->context, scratch, bytes);
}

static void cut_tiles(job *j)
{
    const tp_nest *nest = &j->nest;
    int inner = nest->ndim - 1;
    j->n = nest->shape[inner];
    j->rows = inner > 0 ? nest->shape[inner - 1] : 1;
    j->outer = inner > 0 ? inner - 1 : 0;
    j->tile_n = j->n < TP_TILE ? j->n : TP_TILE;
    j->tile_rows = j->tile_n < TP_TILE ? TP_TILE / j->tile_n : 1;
    if (j->tile_rows > j->rows) j->tile_rows = j->rows;
    j->row_tiles = (j->rows + j->tile_rows - 1) / j->tile_rows;
    j->n_tiles = (j->n + j->tile_n - 1) / j->tile_n;
}

static tp_status run_fused(const tp_step *step, tp_run *run)
{
    if (tp_view_numel(&step->domain) == 0) return TP_OK;
    job *j = tp_context_alloc(run->context, sizeof *j);
    if (!j) return TP_E_NOMEM;
    uint8_t dtype[TP_PROGRAM_LOADS];
    for (int i = 0; i < step->prologue.load_count; i++) dtype[i] = step->operand[i].dtype;
    j->loops = tp_cpu_loops_get();
    j->context = run->context;
    j->out_dtype = step->out.dtype;
    j->failed = 0;
    tp_nest_make(&j->nest, step, run, 0, step->prologue.load_count, UINT32_MAX, true);
    tp_tile_prepare(&j->tile, &step->prologue, dtype);
    cut_tiles(j);
    int64_t outer = 1;
    for (int d = 0; d < j->outer; d++) outer *= j->nest.shape[d];
    tp_parallel_for(run->threads, outer * j->row_tiles * j->n_tiles, TILES_PER_THREAD, run_tiles,
                    j);
    tp_status status = j->failed ? TP_E_NOMEM : TP_OK;
    tp_context_free(run->context, j, sizeof *j);
    return status;
}

/* ---- Copies ------------------------------------------------------------------------- */

/* Side of a block in a transposing copy: its lines of source and result stay in the cache. */
#define BLOCK 32

typedef struct copy_job {
    tp_nest nest;
    int64_t size;    /* bytes of an element */
    int64_t rows, n; /* the two inner dims: rows runs along the source if it transposes */
    int64_t row_blocks;
} copy_job;

static tp_reason refuse_copy(const tp_step *step)
{
    bool plain = step->prologue.insn_count == 0 && step->prologue.load_count == 1 &&
                 step->out.dtype == step->operand[0].dtype;
    return plain ? TP_REASON_NONE : TP_REASON_BACKEND;
}

/* One block through a buffer in the first-level cache: read along the rows, where the source runs
 * fastest, written along i, where the result does. Lines of memory whose distance is a power of
 * two fall on the same place of the cache; each is used up at once. */
#define COPY_BLOCK(type)                                                                           \
    {                                                                                              \
        type block[BLOCK][BLOCK + 1];                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const char *line = from + i * from_step;                                               \
            for (int64_t r = 0; r < rows; r++)                                                     \
                memcpy(&block[i][r], line + r * from_row, sizeof(type));                           \
        }                                                                                          \
        for (int64_t r = 0; r < rows; r++) {                                                       \
            char *line = to + r * to_row;                                                          \
            for (int64_t i = 0; i < n; i++)                                                        \
                memcpy(line + i * to_step, &block[i][r], sizeof(type));                            \
        }                                                                                          \
    }

static void copy_block(int64_t rows, int64_t n, int64_t size, const char *from, int64_t from_row,
                       int64_t from_step, char *to, int64_t to_row, int64_t to_step)
{
    switch (size) {
    case 1:
        COPY_BLOCK(uint8_t)
        break;
    case 2:
        COPY_BLOCK(uint16_t)
        break;
    case 4:
        COPY_BLOCK(uint32_t)
        break;
    default:
        COPY_BLOCK(uint64_t)
    }
}

static void copy_rows(void *arg, int64_t begin, int64_t end)
{
    const copy_job *j = arg;
    const tp_nest *nest = &j->nest;
    int inner = nest->ndim - 1;
    int64_t to_row = inner ? nest->stride[0][inner - 1] : 0, to_step = nest->stride[0][inner];
    int64_t from_row = inner ? nest->stride[1][inner - 1] : 0, from_step = nest->stride[1][inner];
    for (int64_t b = begin; b < end; b++) {
        int64_t outer = b / j->row_blocks, row = b % j->row_blocks * BLOCK;
        int64_t rows = j->rows - row < BLOCK ? j->rows - row : BLOCK;
        char *to = nest->base[0] + tp_nest_offset(nest, 0, inner > 0 ? inner - 1 : 0, outer) +
                   row * to_row;
        const char *from = nest->base[1] +
                           tp_nest_offset(nest, 1, inner > 0 ? inner - 1 : 0, outer) +
                           row * from_row;
        if (to_step == j->size && from_step == j->size) {
            for (int64_t r = 0; r < rows; r++)
                memcpy(to + r * to_row, from + r * from_row, (size_t)(j->n * j->size));
            continue;
        }
        for (int64_t i = 0; i < j->n; i += BLOCK) {
            int64_t n = j->n - i < BLOCK ? j->n - i : BLOCK;
            copy_block(rows, n, j->size, from + i * from_step, from_row, from_step,
                       to + i * to_step, to_row, to_step);
        }
    }
}

/* Brings the dim along which the source runs fastest next to the innermost. */
static void bring_source_in(tp_nest *nest)
{
    int best = nest->ndim - 1;
    for (int d = 0; d < nest->ndim - 1; d++) {
        int64_t s = nest->stride[1][d] < 0 ? -nest->stride[1][d] : nest->stride[1][d];
        int64_t b = nest->stride[1][best] < 0 ? -nest->stride[1][best] : nest->stride[1][best];
        if (s && s < b) best = d;
    }
    for (int d = best; d < nest->ndim - 2; d++) {
        for (int k = 0; k < 2; k++) {
            int64_t stride = nest->stride[k][d];
            nest->stride[k][d] = nest->stride[k][d + 1];
            nest->stride[k][d + 1] = stride;
        }
        int64_t size = nest->shape[d];
        nest->shape[d] = nest->shape[d + 1];
        nest->shape[d + 1] = size;
    }
}

static tp_status run_copy(const tp_step *step, tp_run *run)
{
    int64_t numel = tp_view_numel(&step->domain), outer = 1;
    if (numel == 0) return TP_OK;
    copy_job *j = tp_context_alloc(run->context, sizeof *j);
    if (!j) return TP_E_NOMEM;
    tp_nest_make(&j->nest, step, run, 0, 1, UINT32_MAX, true);
    bring_source_in(&j->nest);
    int inner = j->nest.ndim - 1;
    j->size = (int64_t)tp_dtype_size((tp_dtype)step->out.dtype);
    j->n = j->nest.shape[inner];
    j->rows = inner > 0 ? j->nest.shape[inner - 1] : 1;
    j->row_blocks = (j->rows + BLOCK - 1) / BLOCK;
    for (int d = 0; d < inner - 1; d++) outer *= j->nest.shape[d];
    int64_t units = outer * j->row_blocks, grain = units * 16384 / numel + 1;
    tp_parallel_for(run->threads, units, grain, copy_rows, j);
    tp_context_free(run->context, j, sizeof *j);
    return TP_OK;
}

static const tp_kernel copy = {"copy", refuse_copy, run_copy, NULL};
static const tp_kernel fused = {"fused", NULL, run_fused, NULL};
const tp_kernel *const tp_cpu_ewise_kernels[] = {&copy, &fused, NULL};
