/* Reductions with prologue and epilogue: one read of the operands, any axes.
 *
 * Results are worked on in groups of `columns`: one, when the reduced dims run fastest in memory
 * and are long, or a stretch of the innermost kept dim. Values arrive as tiles in row-major order
 * of the reduced dims; accumulate.c adds them in an order that depends on their number only. Where
 * there are fewer groups than threads, groups are cut into chunks, whose results are merged in
 * order. */
#include "accumulate.h"
#include "kernels.h"
#include "nest.h"
#include "threads.h"

#include <math.h>
#include <string.h>

/* Fewer elements than that make one result: several results side by side are faster. */
#define FEW 32
/* The same of values that are read in place. */
#define FEW_DIRECT 16

/* Chunks of a group, whose results are kept. */
#define MOST_CHUNKS 65536

typedef struct job {
    const tp_step *step;
    tp_context *context;
    const tp_cpu_loops *loops;
    tp_nest kept, reduced; /* reduced: strides only */
    tp_tile_program prologue, epilogue;
    tp_dtype type;   /* compute type of the values */
    int64_t count;   /* elements that make one result */
    bool one;        /* results of a group are worked on one by one, else side by side */
    bool direct;     /* values lie in memory as they are added, and are not copied */
    int64_t columns; /* results in a group */
    int64_t groups;  /* along the innermost kept dim */
    int64_t units;   /* groups in all */
    int64_t chunks;  /* of a group */
    char *partial;   /* results of chunks, by unit and chunk; NULL: one chunk */
    int loads;
    int failed;
} job;

/* What a thread holds. */
typedef struct state {
    char *scratch; /* of the prologue */
    char *after;   /* of the epilogue */
    char *result;  /* a row of results */
    char *value;   /* the same before it is divided or rounded */
    int64_t *index;
    tp_accumulator acc;
} state;

#define RESULT_BYTES ((size_t)TP_MOST_COLUMNS * 8)

/* Where a group's operands start, and how many results it has. */
typedef struct group {
    int64_t columns;
    int64_t offset[2 * TP_PROGRAM_LOADS + 1];
} group;

static void find_group(const job *j, int64_t number, group *g)
{
    int inner = j->kept.ndim - 1;
    int64_t column = number % j->groups * j->columns, left = j->kept.shape[inner] - column;
    g->columns = left < j->columns ? left : j->columns;
    for (int k = 0; k < j->kept.operands; k++) {
        g->offset[k] = tp_nest_offset(&j->kept, k, inner, number / j->groups) +
                       column * j->kept.stride[k][inner];
    }
}

/* Tiles over the reduced dims. One by one: rows x n over its two innermost dims; otherwise rows
 * along its innermost, n along the columns. Of the innermost dim only [begin, end). */
static void read_tiles(const job *j, state *s, const group *g, int64_t begin, int64_t end)
{
    const tp_nest *red = &j->reduced;
    bool one = j->one;
    int inner = red->ndim - 1, row_dim = one ? inner - 1 : inner,
        outer_dims = row_dim > 0 ? row_dim : 0;
    int64_t from_n = one ? begin : 0, n = one ? end : g->columns, from_row = one ? 0 : begin,
            rows = one ? (row_dim >= 0 ? red->shape[row_dim] : 1) : end, outer = 1;
    for (int d = 0; d < outer_dims; d++) outer *= red->shape[d];
    int64_t tile_n = n - from_n < TP_TILE ? n - from_n : TP_TILE,
            tile_rows = tile_n == n - from_n ? TP_TILE / tile_n : 1;
    tp_rows loads[TP_PROGRAM_LOADS];
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t r = from_row; r < rows; r += tile_rows) {
            for (int64_t i = from_n; i < n; i += tile_n) {
                for (int k = 1; k <= j->loads; k++) {
                    int64_t row_stride = row_dim >= 0 ? red->stride[k][row_dim] : 0;
                    int64_t stride =
                        one ? red->stride[k][inner] : j->kept.stride[k][j->kept.ndim - 1];
                    char *at = j->kept.base[k] + g->offset[k] +
                               tp_nest_offset(red, k, outer_dims, o) + r * row_stride + i * stride;
                    loads[k - 1] = (tp_rows){at, row_stride, stride};
                }
                int64_t tr = rows - r < tile_rows ? rows - r : tile_rows,
                        tn = n - i < tile_n ? n - i : tile_n;
                const char *x = tp_tile_run(&j->prologue, tr, tn, loads, NULL, NULL, s->scratch);
                tp_accumulator_take(&s->acc, one ? tr * tn : tr, x, one ? 1 : tn);
            }
        }
    }
}

/* The same where values lie in memory as they are added: no tiles. */
static void read_direct(const job *j, state *s, const group *g, int64_t begin, int64_t end)
{
    const tp_nest *red = &j->reduced;
    int inner = red->ndim - 1;
    int64_t outer = 1, stride = red->stride[1][inner];
    for (int d = 0; d < inner; d++) outer *= red->shape[d];
    for (int64_t o = 0; o < outer; o++) {
        const char *at = j->kept.base[1] + g->offset[1] + tp_nest_offset(red, 1, inner, o);
        tp_accumulator_take(&s->acc, end - begin, at + begin * stride, stride / s->acc.size);
    }
}

static void read_part(const job *j, state *s, const group *g, int64_t begin, int64_t end)
{
    tp_accumulator_begin(&s->acc, j->one ? 1 : g->columns);
    (j->direct ? read_direct : read_tiles)(j, s, g, begin, end);
}

/* Dense lines by one call for all of them; whether it could. */
static bool read_lines(const job *j, state *s, const group *g)
{
    tp_op op = (tp_op)j->step->op;
    bool best = op == TP_OP_MAX || op == TP_OP_MIN, sum = op == TP_OP_SUM || op == TP_OP_MEAN;
    if (!j->direct || j->reduced.ndim > 1 || !(best || sum)) return false;
    if (sum && (j->count > TP_SUM_BLOCK || !j->loops->sum_rows[j->type])) return false;
    (best ? j->loops->best_rows[op == TP_OP_MIN] : j->loops->sum_rows)[j->type](
        g->columns, j->count, j->kept.base[1] + g->offset[1],
        j->kept.stride[1][j->kept.ndim - 1] / s->acc.size, s->value);
    return true;
}

static void take_values(state *s, int64_t columns)
{
    memcpy(s->value, tp_accumulator_finish(&s->acc), (size_t)(columns * s->acc.size));
    memcpy(s->index, s->acc.index, (size_t)columns * sizeof *s->index);
}

/* All elements of a group: its values, and where they are. */
static void read_group(const job *j, state *s, const group *g)
{
    int64_t end = j->count ? j->reduced.shape[j->reduced.ndim - 1] : 0, size = s->acc.size;
    if (!j->one) {
        read_part(j, s, g, 0, end);
        take_values(s, g->columns);
        return;
    }
    if (j->count && read_lines(j, s, g)) return;
    group line = *g;
    for (int64_t c = 0; c < g->columns; c++) {
        read_part(j, s, &line, 0, end);
        memcpy(s->value + c * size, tp_accumulator_finish(&s->acc), (size_t)size);
        s->index[c] = s->acc.index[0];
        for (int k = 1; k <= j->loads; k++) line.offset[k] += j->kept.stride[k][j->kept.ndim - 1];
    }
}

/* A mean in compute form of the result type: the wide sum divided once, in f64, then rounded. */
static void divide(const job *j, int64_t columns, const char *sum, char *y)
{
    tp_dtype to = (tp_dtype)j->step->reduced, compute = tp_dtype_compute(to);
    for (int64_t c = 0; c < columns; c++) {
        tp_value v = tp_value_load(j->type, sum + (size_t)c * tp_dtype_size(j->type));
        double wide = j->type == TP_I64   ? (double)v.i
                      : j->type == TP_U64 ? (double)(uint64_t)v.i
                                          : v.f;
        v.f = j->count ? wide / (double)j->count : (double)NAN;
        uint64_t stored;
        tp_value_store(to, &stored, TP_F64, v);
        tp_value_store(compute, y + (size_t)c * tp_dtype_size(compute), TP_F64,
                       tp_value_load(to, &stored));
    }
}

/* The group's results in compute form of step->reduced. */
static const char *finish(const job *j, state *s, int64_t columns)
{
    const char *y = s->value;
    if (tp_accumulator_finds(&s->acc)) return (const char *)s->index;
    if (j->step->op == TP_OP_MEAN) {
        divide(j, columns, y, s->result);
        return s->result;
    }
    tp_loop round = j->loops->round[j->step->reduced];
    if (!round) return y;
    round(columns, y, NULL, NULL, s->result);
    return s->result;
}

static void write_group(const job *j, state *s, const group *g)
{
    int inner = j->kept.ndim - 1;
    const char *y = finish(j, s, g->columns);
    uint8_t dtype = j->step->reduced;
    if (j->step->epilogue.load_count) {
        tp_rows loads[TP_PROGRAM_LOADS];
        for (int k = j->loads + 1; k < j->kept.operands; k++)
            loads[k - j->loads - 1] =
                (tp_rows){j->kept.base[k] + g->offset[k], 0, j->kept.stride[k][inner]};
        y = tp_tile_run(&j->epilogue, 1, g->columns, loads, y, NULL, s->after);
        dtype = tp_tile_result_dtype(&j->epilogue);
    }
    tp_rows out = {j->kept.base[0] + g->offset[0], 0, j->kept.stride[0][inner]};
    tp_tile_store(j->loops, dtype, 1, g->columns, y, &out, s->scratch);
}

/* ---- Threads ----------------------------------------------------------------------------- */

static size_t state_bytes(const job *j)
{
    return (size_t)(j->prologue.slots + j->epilogue.slots) * TP_SLOT_BYTES + 3 * RESULT_BYTES +
           tp_accumulator_bytes(j->one ? 1 : j->columns);
}

/* NULL: out of memory, which is noted. */
static char *state_begin(job *j, state *s)
{
    char *memory = tp_context_alloc(j->context, state_bytes(j));
    if (!memory) {
        __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    s->scratch = memory;
    s->after = s->scratch + (size_t)j->prologue.slots * TP_SLOT_BYTES;
    s->result = s->after + (size_t)j->epilogue.slots * TP_SLOT_BYTES;
    s->value = s->result + RESULT_BYTES;
    s->index = (int64_t *)(void *)(s->value + RESULT_BYTES);
    tp_accumulator_init(&s->acc, j->loops, (tp_op)j->step->op, j->type, j->one ? 1 : j->columns,
                        s->value + 2 * RESULT_BYTES);
    tp_tile_begin(&j->prologue, s->scratch);
    if (j->step->epilogue.load_count) tp_tile_begin(&j->epilogue, s->after);
    return memory;
}

static void run_groups(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    state s;
    group g;
    char *memory = state_begin(j, &s);
    if (!memory) return;
    for (int64_t u = begin; u < end; u++) {
        find_group(j, u, &g);
        read_group(j, &s, &g);
        write_group(j, &s, &g);
    }
    tp_context_free(j->context, memory, state_bytes(j));
}

/* A chunk's results, then where they are. */
static char *partial_at(const job *j, int64_t number)
{
    return j->partial + number * j->columns * 16;
}

/* Unit u, chunk c is number u * chunks + c; the reduced nest is one dim. */
static void run_chunks(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    state s;
    group g;
    char *memory = state_begin(j, &s);
    if (!memory) return;
    for (int64_t number = begin; number < end; number++) {
        int64_t first = number % j->chunks * TP_SUM_CHUNK, left = j->count - first;
        find_group(j, number / j->chunks, &g);
        read_part(j, &s, &g, first, first + (left < TP_SUM_CHUNK ? left : TP_SUM_CHUNK));
        char *to = partial_at(j, number);
        memcpy(to, tp_accumulator_finish(&s.acc), (size_t)(g.columns * s.acc.size));
        if (!tp_accumulator_finds(&s.acc)) continue;
        int64_t *index = (int64_t *)(void *)(to + j->columns * 8);
        for (int64_t c = 0; c < g.columns; c++) index[c] = first + s.acc.index[c];
    }
    tp_context_free(j->context, memory, state_bytes(j));
}

static void merge_chunks(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    state s;
    group g;
    char *memory = state_begin(j, &s);
    if (!memory) return;
    for (int64_t u = begin; u < end; u++) {
        find_group(j, u, &g);
        tp_accumulator_begin(&s.acc, g.columns);
        for (int64_t c = 0; c < j->chunks; c++) {
            char *from = partial_at(j, u * j->chunks + c);
            tp_accumulator_merge(&s.acc, from, (const int64_t *)(void *)(from + j->columns * 8));
        }
        take_values(&s, g.columns);
        write_group(j, &s, &g);
    }
    tp_context_free(j->context, memory, state_bytes(j));
}

static tp_status run_in_chunks(job *j, const tp_run *run)
{
    size_t bytes = (size_t)(j->units * j->chunks * j->columns) * 16;
    j->partial = tp_context_alloc(j->context, bytes);
    if (!j->partial) return TP_E_NOMEM;
    tp_parallel_for(run->threads, j->units * j->chunks, 1, run_chunks, j);
    if (!j->failed) tp_parallel_for(1, j->units, 1, merge_chunks, j);
    tp_context_free(j->context, j->partial, bytes);
    return TP_OK;
}

/* ---- The kernel ----------------------------------------------------------------------------- */

/* Whether the innermost kept dim runs faster through memory than the innermost reduced one. */
static bool kept_is_faster(const job *j)
{
    for (int k = 1; k <= j->loads; k++) {
        int64_t kept = j->kept.stride[k][j->kept.ndim - 1],
                red = j->reduced.stride[k][j->reduced.ndim - 1];
        kept = kept < 0 ? -kept : kept;
        red = red < 0 ? -red : red;
        if (kept != red) return kept && (kept < red || red == 0);
    }
    return false;
}

static void cut_groups(job *j, int threads)
{
    int64_t width = j->kept.shape[j->kept.ndim - 1], size = (int64_t)tp_dtype_size(j->type);
    bool across = kept_is_faster(j);
    const tp_program *prologue = &j->step->prologue;
    bool plain = prologue->load_count == 1 && prologue->insn_count == 0 &&
                 !j->loops->load[j->step->operand[0].dtype];
    int64_t along = j->reduced.stride[1][j->reduced.ndim - 1],
            kept = j->kept.stride[1][j->kept.ndim - 1];
    j->one = !across && (j->count >= FEW || (plain && along == size && j->count >= FEW_DIRECT));
    j->direct = plain && (j->one ? along : kept) == size;
    int64_t most = across || j->one ? TP_MOST_COLUMNS : TP_TILE / 16, share = width / threads;
    if (j->one && share < most) most = share / 4 + 1;
    if (across && share >= 64 && share < most) most = (share + 15) / 16 * 16;
    j->columns = width < most ? width : most;
    j->groups = (width + j->columns - 1) / j->columns;
    j->units = j->groups;
    for (int d = 0; d < j->kept.ndim - 1; d++) j->units *= j->kept.shape[d];
    j->chunks = 1;
    if (j->units < threads && j->reduced.ndim == 1)
        j->chunks = (j->count + TP_SUM_CHUNK - 1) / TP_SUM_CHUNK;
    if (j->chunks > MOST_CHUNKS) j->chunks = 1;
}

static void prepare(job *j, const tp_step *step, tp_run *run)
{
    uint8_t dtype[TP_PROGRAM_LOADS];
    j->step = step;
    j->context = run->context;
    j->loops = tp_cpu_loops_get();
    j->failed = 0;
    j->partial = NULL;
    j->loads = step->prologue.load_count;
    j->type = tp_dtype_compute((tp_dtype)step->calc);
    tp_nest_make(&j->kept, step, run, 0, step->operand_count, ~step->axes, true);
    tp_nest_make(&j->reduced, step, run, 0, j->loads, step->axes, false);
    for (int i = 0; i < j->loads; i++) dtype[i] = step->operand[i].dtype;
    tp_tile_prepare(&j->prologue, &step->prologue, dtype);
    j->epilogue.slots = 0;
    if (step->epilogue.load_count) {
        dtype[0] = step->reduced;
        for (int i = 1; i < step->epilogue.load_count; i++)
            dtype[i] = step->operand[j->loads + i - 1].dtype;
        tp_tile_prepare(&j->epilogue, &step->epilogue, dtype);
    }
    j->count = 1;
    for (int d = 0; d < step->domain.ndim; d++)
        j->count *= step->axes >> d & 1U ? step->domain.shape[d] : 1;
    cut_groups(j, tp_usable_threads(run->threads));
}

static tp_status run_reduce(const tp_step *step, tp_run *run)
{
    tp_status status = TP_OK;
    if (tp_view_numel(&step->out.view) == 0) return TP_OK;
    job *j = tp_context_alloc(run->context, sizeof *j);
    if (!j) return TP_E_NOMEM;
    prepare(j, step, run);
    int64_t work = j->count * j->columns, grain = work >= 32768 ? 1 : 32768 / (work + 1) + 1;
    if (j->chunks > 1)
        status = run_in_chunks(j, run);
    else
        tp_parallel_for(run->threads, j->units, grain, run_groups, j);
    if (j->failed) status = TP_E_NOMEM;
    tp_context_free(run->context, j, sizeof *j);
    return status;
}

static const tp_kernel reduce = {"reduce", NULL, run_reduce, NULL};
const tp_kernel *const tp_cpu_reduce_kernels[] = {&reduce, NULL};
