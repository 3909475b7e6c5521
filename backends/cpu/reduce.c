/* Reductions with prologue and epilogue: one read of the operands, any axes.
 *
 * Results are worked on in groups of `columns`: one, when the reduced dims run fastest in
 * memory, or a stretch of the innermost kept dim, when that does. Values arrive as tiles in
 * row-major order of the reduced dims. A sum keeps LANES partial sums per column, element p
 * going to lane p % LANES; every BLOCK elements the lanes are added up in a fixed tree and the
 * block joins a pairwise stack. So the order of additions depends on the number of elements
 * only. */
#include "kernels.h"
#include "nest.h"
#include "threads.h"

#include <math.h>
#include <string.h>

#define MOST_COLUMNS 128
#define MOST_LEVELS 54

typedef struct job {
    const tp_step *step;
    tp_context *context;
    const tp_cpu_loops *loops;
    tp_nest kept, reduced; /* reduced: strides only */
    tp_tile_program prologue, epilogue;
    tp_dtype type;   /* compute type of the values */
    size_t size;     /* of it */
    int64_t count;   /* elements that make one result */
    int64_t columns; /* results in a group */
    int64_t groups;  /* along the innermost kept dim */
    int loads;
    int failed;
} job;

/* What a thread holds for one group. */
typedef struct state {
    char *scratch;  /* of the prologue */
    char *after;    /* of the epilogue */
    char *lane;     /* LANES x columns, or TILE values of a maximum */
    char *stack;    /* MOST_LEVELS x columns */
    char *result;   /* columns, up to 8 bytes each */
    int64_t *index; /* argmax */
    int64_t at;     /* elements seen */
    int64_t blocks; /* full ones */
    int levels;
} state;

/* Sums and products: the same order of operations. */
static bool is_sum(const job *j)
{
    return j->step->op == TP_OP_SUM || j->step->op == TP_OP_MEAN || j->step->op == TP_OP_PROD;
}

static bool is_position(const job *j)
{
    return j->step->op == TP_OP_ARGMAX || j->step->op == TP_OP_ARGMIN;
}

/* ---- Sums --------------------------------------------------------------------------- */

static void add(const job *j, int64_t n, const char *x, char *y)
{
    if (j->step->op == TP_OP_PROD)
        j->loops->op[TP_OP_MUL][j->type](n, x, y, NULL, y);
    else
        j->loops->accumulate[j->type](n, x, NULL, NULL, y);
}

/* n times what changes nothing: 0 or 1. */
static void clear(const job *j, int64_t n, char *lane)
{
    memset(lane, 0, (size_t)n * j->size);
    tp_value one = {.f = 1, .i = 1};
    for (int64_t i = 0; i < n && j->step->op == TP_OP_PROD; i++) {
        tp_value_store(j->type, lane + (size_t)i * j->size, j->type, one);
    }
}

/* Lanes become one partial sum per column, which joins the stack: after k blocks it holds
 * one sum for each bit of k. */
static void end_block(const job *j, state *s, int64_t columns)
{
    size_t row = (size_t)columns * j->size;
    for (int64_t half = TP_LANES / 2; half > 0; half /= 2)
        add(j, half * columns, s->lane + (size_t)half * row, s->lane);
    for (int64_t k = s->blocks; k & 1; k >>= 1) {
        s->levels--;
        add(j, columns, s->stack + (size_t)s->levels * row, s->lane);
    }
    memcpy(s->stack + (size_t)s->levels++ * row, s->lane, row);
    clear(j, TP_LANES * columns, s->lane);
    s->blocks++;
}

/* n consecutive elements of one column. */
static void sum_run(const job *j, state *s, int64_t n, const char *x)
{
    while (n > 0) {
        int64_t room = TP_SUM_BLOCK - s->at % TP_SUM_BLOCK, take = n < room ? n : room,
                phase = s->at % TP_LANES;
        if (phase) take = take < TP_LANES - phase ? take : TP_LANES - phase;
        bool plain = !phase && j->step->op != TP_OP_PROD;
        if (plain && j->type == TP_F32)
            j->loops->sum_f32(take, (const float *)(const void *)x, (float *)(void *)s->lane);
        else if (plain && j->type == TP_F64)
            j->loops->sum_f64(take, (const double *)(const void *)x, (double *)(void *)s->lane);
        else {
            take = take < TP_LANES - phase ? take : TP_LANES - phase;
            add(j, take, x, s->lane + (size_t)phase * j->size);
        }
        s->at += take;
        n -= take;
        x += (size_t)take * j->size;
        if (s->at % TP_SUM_BLOCK == 0) end_block(j, s, 1);
    }
}

/* rows consecutive elements of each column. */
static void sum_rows(const job *j, state *s, int64_t rows, int64_t columns, const char *x)
{
    size_t row = (size_t)columns * j->size;
    for (int64_t r = 0; r < rows; r++) {
        add(j, columns, x + (size_t)r * row, s->lane + (size_t)(s->at % TP_LANES) * row);
        if (++s->at % TP_SUM_BLOCK == 0) end_block(j, s, columns);
    }
}

static const char *finish_sum(const job *j, state *s, int64_t columns)
{
    size_t row = (size_t)columns * j->size;
    if (s->at % TP_SUM_BLOCK || s->at == 0) end_block(j, s, columns);
    while (s->levels > 1) {
        s->levels--;
        add(j, columns, s->stack + (size_t)s->levels * row,
            s->stack + (size_t)(s->levels - 1) * row);
    }
    return s->stack;
}

/* ---- Largest and smallest ---------------------------------------------------------------- */

/* Lane i of one column is the best of elements i, i + TILE, ...; the order does not matter. */
static void best_run(const job *j, state *s, int64_t n, const char *x)
{
    tp_loop best = j->loops->op[j->step->op == TP_OP_MAX ? TP_OP_MAXIMUM : TP_OP_MINIMUM][j->type];
    if (s->at == 0) {
        for (int64_t i = 0; i < TP_TILE; i++) memcpy(s->lane + (size_t)i * j->size, x, j->size);
    }
    best(n, x, s->lane, NULL, s->lane);
    s->at += n;
}

static void best_rows(const job *j, state *s, int64_t rows, int64_t columns, const char *x)
{
    tp_loop best = j->loops->op[j->step->op == TP_OP_MAX ? TP_OP_MAXIMUM : TP_OP_MINIMUM][j->type];
    size_t row = (size_t)columns * j->size;
    for (int64_t r = 0; r < rows; r++, s->at++, x += row) {
        if (s->at == 0)
            memcpy(s->lane, x, row);
        else
            best(columns, x, s->lane, NULL, s->lane);
    }
}

static const char *finish_best(const job *j, state *s)
{
    tp_loop best = j->loops->op[j->step->op == TP_OP_MAX ? TP_OP_MAXIMUM : TP_OP_MINIMUM][j->type];
    for (int64_t half = TP_TILE / 2; half > 0 && j->columns == 1; half /= 2)
        best(half, s->lane + (size_t)half * j->size, s->lane, NULL, s->lane);
    return s->lane;
}

/* ---- argmax --------------------------------------------------------------------------------- */

/* Element i of the tile belongs to column i % columns; the first NaN, else the first largest. */
#define ARG(DT, type, name, better)                                                                \
    static void name##_##DT(state *s, int64_t n, int64_t columns, const void *px)                  \
    {                                                                                              \
        const type *x = px;                                                                        \
        type *best = (type *)(void *)s->lane;                                                      \
        int64_t first = s->at;                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                          \
            int64_t c = columns == 1 ? 0 : i % columns, at = first + i / columns;                  \
            bool nan = x[i] != x[i] && best[c] == best[c];                                         \
            if (at != 0 && !nan && !(x[i] better best[c])) continue;                               \
            best[c] = x[i];                                                                        \
            s->index[c] = at;                                                                      \
        }                                                                                          \
        s->at += n / columns;                                                                      \
    }
ARG(F32, float, argmax, >)
ARG(F32, float, argmin, <)
ARG(F64, double, argmax, >)
ARG(F64, double, argmin, <)
ARG(U8, uint8_t, argmax, >)
ARG(U8, uint8_t, argmin, <)
ARG(I8, int8_t, argmax, >)
ARG(I8, int8_t, argmin, <)
ARG(U16, uint16_t, argmax, >)
ARG(U16, uint16_t, argmin, <)
ARG(I16, int16_t, argmax, >)
ARG(I16, int16_t, argmin, <)
ARG(U32, uint32_t, argmax, >)
ARG(U32, uint32_t, argmin, <)
ARG(I32, int32_t, argmax, >)
ARG(I32, int32_t, argmin, <)
ARG(U64, uint64_t, argmax, >)
ARG(U64, uint64_t, argmin, <)
ARG(I64, int64_t, argmax, >)
ARG(I64, int64_t, argmin, <)

typedef void (*arg_fn)(state *s, int64_t n, int64_t columns, const void *x);
static const arg_fn argmax[TP_DTYPE_COUNT] = {
    [TP_F32] = argmax_F32, [TP_F64] = argmax_F64, [TP_U8] = argmax_U8,   [TP_I8] = argmax_I8,
    [TP_U16] = argmax_U16, [TP_I16] = argmax_I16, [TP_U32] = argmax_U32, [TP_I32] = argmax_I32,
    [TP_U64] = argmax_U64, [TP_I64] = argmax_I64};
static const arg_fn argmin[TP_DTYPE_COUNT] = {
    [TP_F32] = argmin_F32, [TP_F64] = argmin_F64, [TP_U8] = argmin_U8,   [TP_I8] = argmin_I8,
    [TP_U16] = argmin_U16, [TP_I16] = argmin_I16, [TP_U32] = argmin_U32, [TP_I32] = argmin_I32,
    [TP_U64] = argmin_U64, [TP_I64] = argmin_I64};

/* ---- One group --------------------------------------------------------------------------------
 */

static void take_tile(const job *j, state *s, int64_t rows, int64_t n, int64_t columns,
                      const char *x)
{
    if (is_position(j))
        (j->step->op == TP_OP_ARGMAX ? argmax : argmin)[j->type](s, rows * n, columns, x);
    else if (j->columns == 1 && is_sum(j))
        sum_run(j, s, rows * n, x);
    else if (j->columns == 1)
        best_run(j, s, rows * n, x);
    else if (is_sum(j))
        sum_rows(j, s, rows, columns, x);
    else
        best_rows(j, s, rows, columns, x);
}

/* Tiles over the reduced dims. columns == 1: rows x n over its two innermost dims; otherwise rows
 * along its innermost, n along the columns. offset: of the group, by load. */
static void read_group(const job *j, state *s, int64_t columns, const int64_t *offset)
{
    const tp_nest *red = &j->reduced;
    int inner = red->ndim - 1, row_dim = j->columns == 1 ? inner - 1 : inner,
        outer_dims = row_dim > 0 ? row_dim : 0;
    int64_t n = j->columns == 1 ? red->shape[inner] : columns,
            rows = row_dim >= 0 ? red->shape[row_dim] : 1, outer = 1;
    for (int d = 0; d < outer_dims; d++) outer *= red->shape[d];
    int64_t tile_n = n < TP_TILE ? n : TP_TILE, tile_rows = tile_n == n ? TP_TILE / tile_n : 1;
    tp_rows loads[TP_PROGRAM_LOADS];
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t r = 0; r < rows; r += tile_rows) {
            for (int64_t i = 0; i < n; i += tile_n) {
                for (int k = 1; k <= j->loads; k++) {
                    int64_t row_stride = row_dim >= 0 ? red->stride[k][row_dim] : 0;
                    int64_t stride = j->columns == 1 ? red->stride[k][inner]
                                                     : j->kept.stride[k][j->kept.ndim - 1];
                    char *at = j->kept.base[k] + offset[k] + tp_nest_offset(red, k, outer_dims, o) +
                               r * row_stride + i * stride;
                    loads[k - 1] = (tp_rows){at, row_stride, stride};
                }
                int64_t tr = rows - r < tile_rows ? rows - r : tile_rows,
                        tn = n - i < tile_n ? n - i : tile_n;
                const char *x = tp_tile_run(&j->prologue, tr, tn, loads, NULL, s->scratch);
                take_tile(j, s, tr, tn, columns, x);
            }
        }
    }
}

/* A mean in compute form of the result type: the wide sum divided once, in f64. */
static void divide(const job *j, int64_t columns, const char *sum, char *y)
{
    for (int64_t c = 0; c < columns; c++) {
        tp_value v = tp_value_load(j->type, sum + (size_t)c * j->size);
        double wide = j->type == TP_I64   ? (double)v.i
                      : j->type == TP_U64 ? (double)(uint64_t)v.i
                                          : v.f;
        double mean = j->count ? wide / (double)j->count : (double)NAN;
        tp_dtype to = tp_dtype_compute((tp_dtype)j->step->reduced);
        tp_value_store(to, y + (size_t)c * tp_dtype_size(to), TP_F64, (tp_value){.f = mean});
    }
}

/* The group's results in compute form of step->reduced. */
static const char *finish(const job *j, state *s, int64_t columns)
{
    const char *y;
    if (is_position(j)) return (const char *)s->index;
    if (is_sum(j))
        y = finish_sum(j, s, columns);
    else
        y = finish_best(j, s);
    if (j->step->op == TP_OP_MEAN) {
        divide(j, columns, y, s->result);
        y = s->result;
    }
    tp_loop round = j->loops->round[j->step->reduced];
    if (!round) return y;
    round(columns, y, NULL, NULL, s->result);
    return s->result;
}

static void run_group(const job *j, state *s, int64_t number)
{
    int inner = j->kept.ndim - 1, dims = inner;
    int64_t column = number % j->groups * j->columns, left = j->kept.shape[inner] - column;
    int64_t columns = left < j->columns ? left : j->columns, offset[2 * TP_PROGRAM_LOADS + 1];
    for (int k = 0; k < j->kept.operands; k++) {
        offset[k] = tp_nest_offset(&j->kept, k, dims, number / j->groups) +
                    column * j->kept.stride[k][inner];
    }
    s->at = s->blocks = 0;
    s->levels = 0;
    clear(j, TP_LANES * columns, s->lane);
    if (j->count) read_group(j, s, columns, offset);
    const char *y = finish(j, s, columns);
    uint8_t dtype = j->step->reduced;
    if (j->step->epilogue.load_count) {
        tp_rows loads[TP_PROGRAM_LOADS];
        for (int k = j->loads + 1; k < j->kept.operands; k++)
            loads[k - j->loads - 1] =
                (tp_rows){j->kept.base[k] + offset[k], 0, j->kept.stride[k][inner]};
        y = tp_tile_run(&j->epilogue, 1, columns, loads, y, s->after);
        dtype = tp_tile_result_dtype(&j->epilogue);
    }
    tp_rows out = {j->kept.base[0] + offset[0], 0, j->kept.stride[0][inner]};
    tp_tile_store(j->loops, dtype, 1, columns, y, &out, s->scratch);
}

static void run_groups(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    size_t scratch = (size_t)(j->prologue.slots + j->epilogue.slots) * TP_SLOT_BYTES,
           row = MOST_COLUMNS * 8,
           lanes = TP_LANES * row > TP_SLOT_BYTES ? TP_LANES * row : TP_SLOT_BYTES;
    size_t bytes = scratch + lanes + (MOST_LEVELS + 2) * row;
    char *memory = tp_context_alloc(j->context, bytes);
    if (!memory) {
        __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    state s = {.scratch = memory, .lane = memory + scratch, .stack = memory + scratch + lanes};
    s.result = s.stack + MOST_LEVELS * row;
    s.index = (int64_t *)(void *)(s.result + row);
    s.after = memory + (size_t)j->prologue.slots * TP_SLOT_BYTES;
    tp_tile_begin(&j->prologue, s.scratch);
    if (j->step->epilogue.load_count) tp_tile_begin(&j->epilogue, s.after);
    for (int64_t g = begin; g < end; g++) run_group(j, &s, g);
    tp_context_free(j->context, memory, bytes);
}

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

static void prepare(job *j, const tp_step *step, tp_run *run)
{
    uint8_t dtype[TP_PROGRAM_LOADS];
    j->step = step;
    j->context = run->context;
    j->loops = tp_cpu_loops_get();
    j->failed = 0;
    j->loads = step->prologue.load_count;
    j->type = tp_dtype_compute((tp_dtype)step->calc);
    j->size = tp_dtype_size(j->type);
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
    int64_t width = j->kept.shape[j->kept.ndim - 1];
    j->columns = width > 1 && kept_is_faster(j) ? (width < MOST_COLUMNS ? width : MOST_COLUMNS) : 1;
    j->groups = (width + j->columns - 1) / j->columns;
}

static tp_status run_reduce(const tp_step *step, tp_run *run)
{
    if (tp_view_numel(&step->out.view) == 0) return TP_OK;
    job *j = tp_context_alloc(run->context, sizeof *j);
    if (!j) return TP_E_NOMEM;
    prepare(j, step, run);
    int64_t units = j->groups;
    for (int d = 0; d < j->kept.ndim - 1; d++) units *= j->kept.shape[d];
    int64_t work = j->count * j->columns, grain = work >= 32768 ? 1 : 32768 / (work + 1) + 1;
    tp_parallel_for(run->threads, units, grain, run_groups, j);
    tp_status status = j->failed ? TP_E_NOMEM : TP_OK;
    tp_context_free(run->context, j, sizeof *j);
    return status;
}

static const tp_kernel reduce = {"reduce", NULL, run_reduce, NULL};
const tp_kernel *const tp_cpu_reduce_kernels[] = {&reduce, NULL};
