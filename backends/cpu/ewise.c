/* Elementwise steps: "copy" for plain copies, "fused" for everything.
 *
 * A step is cut into tiles of rows x n elements over the two innermost dims of its nest. Short
 * rows share a tile; long rows are cut. Where an operand runs fastest along another dim, that dim
 * becomes the tile's rows, and tiles are nearly square: they are transposed in registers, and a
 * cache line is used up at once. */
#include "kernels.h"
#include "nest.h"
#include "threads.h"

#include <string.h>

/* Work that makes a thread worth its while, in units of ops.def's costs. */
#define WORK_PER_THREAD 200000
/* Rows of a tile when an operand runs along the rows' other dim: a cache line of it. */
#define TRANSPOSED_ROWS 16
/* Elements of a unit where rows are not packed but taken where they lie, and of rows that are worth
 * it; units of a row are run in one go. */
#define UNIT 1024
#define SHORT_ROW 32
/* Results of that size do not fit the caches: they are written past them. */
#define STREAM_BYTES ((int64_t)32 << 20)

typedef struct job {
    tp_nest nest;
    tp_tile_program tile;
    const tp_cpu_loops *loops;
    tp_context *context;
    uint8_t out_dtype;
    bool stream;
    int64_t rows, n; /* sizes of the two inner dims */
    int64_t tile_rows, tile_n, row_tiles, n_tiles;
    int failed; /* a thread ran out of memory */
} job;

/* A stretch of the step: rows x n elements from (row, i) of the two inner dims on. */
typedef struct part {
    int64_t rows, n;
    tp_rows out, load[TP_PROGRAM_LOADS];
} part;

/* Tile `number`, and where they go on in the same row as many as `most` of them; gives how many. */
static int64_t find_part(const job *j, int64_t number, int64_t most, part *p)
{
    int64_t n_tile = number % j->n_tiles, row_tile = number / j->n_tiles % j->row_tiles,
            outer = number / j->row_tiles / j->n_tiles;
    int64_t row = row_tile * j->tile_rows, i = n_tile * j->tile_n;
    if (most > j->n_tiles - n_tile) most = j->n_tiles - n_tile;
    p->rows = j->rows - row < j->tile_rows ? j->rows - row : j->tile_rows;
    p->n = j->n - i < most * j->tile_n ? j->n - i : most * j->tile_n;
    for (int k = 1; k < j->nest.operands; k++)
        p->load[k - 1] = tp_nest_rows(&j->nest, k, outer, row, i);
    p->out = tp_nest_rows(&j->nest, 0, outer, row, i);
    return most;
}

/* NULL: out of memory, which is noted. */
static char *get_scratch(job *j, size_t bytes)
{
    char *scratch = tp_context_alloc(j->context, bytes);
    if (!scratch) __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
    return scratch;
}

static void run_tiles(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    part p;
    size_t bytes = (size_t)j->tile.slots * TP_SLOT_BYTES;
    char *scratch = get_scratch(j, bytes);
    if (!scratch) return;
    tp_tile_begin(&j->tile, scratch);
    for (int64_t t = begin; t < end; t++) {
        find_part(j, t, 1, &p);
        char *into = tp_tile_into(j->loops, j->out_dtype, p.rows, p.n, &p.out);
        const char *y = tp_tile_run(&j->tile, p.rows, p.n, p.load, NULL, into, scratch);
        tp_tile_store(j->loops, j->out_dtype, p.rows, p.n, y, &p.out, scratch);
    }
    tp_context_free(j->context, scratch, bytes);
}

static void run_in_place(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    part p;
    size_t bytes = tp_vm_bytes(&j->tile.vm);
    char *scratch = get_scratch(j, bytes);
    if (!scratch) return;
    tp_vm_begin(&j->tile.vm, scratch, j->out_dtype);
    for (int64_t t = begin; t < end;) {
        t += find_part(j, t, end - t, &p);
        tp_vm_run(&j->tile.vm, scratch, p.rows, p.n, p.load, &p.out, j->stream);
    }
    tp_context_free(j->context, scratch, bytes);
}

static void cut_tiles(job *j, int64_t most_n, int64_t most)
{
    const tp_nest *nest = &j->nest;
    int inner = nest->ndim - 1;
    j->n = nest->shape[inner];
    j->rows = inner > 0 ? nest->shape[inner - 1] : 1;
    j->tile_n = j->n < most_n ? j->n : most_n;
    j->tile_rows = most / j->tile_n;
    if (j->tile_rows > j->rows) j->tile_rows = j->rows;
    j->row_tiles = (j->rows + j->tile_rows - 1) / j->tile_rows;
    j->n_tiles = (j->n + j->tile_n - 1) / j->tile_n;
}

/* Makes the program ready for the register interpreter if it reads and writes all operands where
 * they lie. */
static bool prepare_in_place(job *j, const tp_step *step, const uint8_t *dtype)
{
    int inner = j->nest.ndim - 1;
    int64_t n = j->nest.shape[inner];
    uint32_t repeats = 0;
    if (n < SHORT_ROW && inner > 0) return false;
    for (int k = 0; k < j->nest.operands; k++) {
        int64_t stride = j->nest.stride[k][inner],
                size = (int64_t)tp_dtype_size((tp_dtype)(k ? dtype[k - 1] : j->out_dtype));
        if (n > 1 && stride != size && (stride != 0 || k == 0)) return false;
        if (n > 1 && stride == 0) repeats |= 1U << (k - 1);
    }
    return tp_vm_prepare(&j->tile.vm, j->loops->vm, &step->prologue, dtype, repeats);
}

/* What an element costs: the ops, and getting it. */
static int64_t work_of(const tp_program *program)
{
    int64_t work = program->load_count + 1;
    for (int i = 0; i < program->insn_count; i++) {
        tp_op op = (tp_op)program->insn[i].op;
        work += tp_op_is_elementwise(op) ? tp_op_info_of(op)->cost : 1;
    }
    return work;
}

static tp_status run_fused(const tp_step *step, tp_run *run)
{
    int64_t numel = tp_view_numel(&step->domain);
    if (numel == 0) return TP_OK;
    job *j = tp_context_alloc(run->context, sizeof *j);
    if (!j) return TP_E_NOMEM;
    uint8_t dtype[TP_PROGRAM_LOADS];
    for (int i = 0; i < step->prologue.load_count; i++) dtype[i] = step->operand[i].dtype;
    j->loops = tp_cpu_loops_get();
    j->context = run->context;
    j->out_dtype = step->out.dtype;
    j->failed = 0;
    j->stream =
        numel * (int64_t)tp_dtype_size((tp_dtype)j->out_dtype) >= STREAM_BYTES && !step->in_place;
    tp_nest_make(&j->nest, step, run, 0, step->prologue.load_count, UINT32_MAX, true);
    bool transposed = false, in_place = prepare_in_place(j, step, dtype);
    if (!in_place) tp_tile_prepare(&j->tile, &step->prologue, dtype);
    for (int k = 1; k < j->nest.operands && !transposed && !in_place; k++)
        transposed = tp_nest_bring_in(&j->nest, k);
    if (in_place)
        cut_tiles(j, UNIT, UNIT);
    else
        cut_tiles(j, transposed ? TP_TILE / TRANSPOSED_ROWS : TP_TILE, TP_TILE);
    int64_t tiles = j->row_tiles * j->n_tiles,
            per_thread = WORK_PER_THREAD / work_of(&step->prologue) / (j->tile_rows * j->tile_n);
    for (int d = 0; d < j->nest.ndim - 2; d++) tiles *= j->nest.shape[d];
    tp_parallel_for(run->threads, tiles, per_thread + 1, in_place ? run_in_place : run_tiles, j);
    tp_status status = j->failed ? TP_E_NOMEM : TP_OK;
    tp_context_free(run->context, j, sizeof *j);
    return status;
}

/* ---- Copies ------------------------------------------------------------------------- */

/* Bytes of a long row that one unit copies; rows of a unit otherwise; rows and elements of a block
 * in a transposing copy: its lines of source and result stay in the cache. */
#define PIECE_BYTES 262144
#define UNIT_ROWS 64
#define BLOCK 32

typedef struct copy_job {
    tp_nest nest;
    int64_t size;             /* bytes of an element */
    int64_t rows, n;          /* the two inner dims: rows runs along the source if it transposes */
    int64_t unit_rows, piece; /* of a unit: rows, elements of a row */
    int64_t row_units, pieces;
    const tp_cpu_loops *loops;
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
            const char *line = from->at + i * from->stride;                                        \
            for (int64_t r = 0; r < rows; r++)                                                     \
                memcpy(&block[i][r], line + r * from->row_stride, sizeof(type));                   \
        }                                                                                          \
        for (int64_t r = 0; r < rows; r++) {                                                       \
            char *line = to->at + r * to->row_stride;                                              \
            for (int64_t i = 0; i < n; i++)                                                        \
                memcpy(line + i * to->stride, &block[i][r], sizeof(type));                         \
        }                                                                                          \
    }

static void copy_block(int64_t rows, int64_t n, int64_t size, const tp_rows *from,
                       const tp_rows *to)
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

static tp_rows block_at(const tp_rows *rows, int64_t row, int64_t i)
{
    return (tp_rows){rows->at + row * rows->row_stride + i * rows->stride, rows->row_stride,
                     rows->stride};
}

static void copy_blocks(int64_t rows, int64_t n, int64_t size, const tp_rows *from,
                        const tp_rows *to)
{
    for (int64_t i = 0; i < n; i += BLOCK) {
        for (int64_t r = 0; r < rows; r += BLOCK) {
            tp_rows x = block_at(from, r, i), y = block_at(to, r, i);
            copy_block(rows - r < BLOCK ? rows - r : BLOCK, n - i < BLOCK ? n - i : BLOCK, size, &x,
                       &y);
        }
    }
}

static void copy_rows(const copy_job *j, int64_t rows, int64_t n, const tp_rows *from,
                      const tp_rows *to)
{
    int64_t size = j->size;
    if (to->stride == size && from->stride == size) {
        for (int64_t r = 0; r < rows; r++)
            memcpy(to->at + r * to->row_stride, from->at + r * from->row_stride,
                   (size_t)(n * size));
    } else if (to->stride == size && from->row_stride == size && rows > 1) {
        j->loops->transpose[size == 8 ? 3 : size / 2](rows, n, from->at, from->stride, to->at,
                                                      to->row_stride);
    } else
        copy_blocks(rows, n, size, from, to);
}

static void copy_units(void *arg, int64_t begin, int64_t end)
{
    const copy_job *j = arg;
    for (int64_t u = begin; u < end; u++) {
        int64_t i = u % j->pieces * j->piece, row = u / j->pieces % j->row_units * j->unit_rows,
                outer = u / j->pieces / j->row_units;
        int64_t rows = j->rows - row < j->unit_rows ? j->rows - row : j->unit_rows,
                n = j->n - i < j->piece ? j->n - i : j->piece;
        tp_rows side[2];
        for (int k = 0; k < 2; k++) side[k] = tp_nest_rows(&j->nest, k, outer, row, i);
        copy_rows(j, rows, n, &side[1], &side[0]);
    }
}

static tp_status run_copy(const tp_step *step, tp_run *run)
{
    int64_t numel = tp_view_numel(&step->domain), outer = 1;
    if (numel == 0) return TP_OK;
    copy_job *j = tp_context_alloc(run->context, sizeof *j);
    if (!j) return TP_E_NOMEM;
    tp_nest_make(&j->nest, step, run, 0, 1, UINT32_MAX, true);
    tp_nest_bring_in(&j->nest, 1);
    int inner = j->nest.ndim - 1;
    j->loops = tp_cpu_loops_get();
    j->size = (int64_t)tp_dtype_size((tp_dtype)step->out.dtype);
    j->n = j->nest.shape[inner];
    j->rows = inner > 0 ? j->nest.shape[inner - 1] : 1;
    bool dense = j->nest.stride[0][inner] == j->size && j->nest.stride[1][inner] == j->size;
    j->piece = dense || j->rows == 1 ? PIECE_BYTES / j->size : j->n;
    j->unit_rows = j->n > j->piece ? 1 : j->n * UNIT_ROWS < 8192 ? 8192 / j->n : UNIT_ROWS;
    j->pieces = (j->n + j->piece - 1) / j->piece;
    j->row_units = (j->rows + j->unit_rows - 1) / j->unit_rows;
    for (int d = 0; d < inner - 1; d++) outer *= j->nest.shape[d];
    int64_t units = outer * j->row_units * j->pieces,
            grain = numel > 16384 ? units / (numel / 16384) + 1 : units;
    tp_parallel_for(run->threads, units, grain, copy_units, j);
    tp_context_free(run->context, j, sizeof *j);
    return TP_OK;
}

static const tp_kernel copy = {"copy", refuse_copy, run_copy, NULL};
static const tp_kernel fused = {"fused", NULL, run_fused, NULL};
const tp_kernel *const tp_cpu_ewise_kernels[] = {&copy, &fused, NULL};
