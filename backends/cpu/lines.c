/* Softmax and layer norm: one line over the reduced dims at a time, read through the prologue
 * into a buffer, changed there, and stored. f16 and bf16 calculate in f32. The line is whole
 * in the buffer before anything is written, so that out may be an operand. */
#include "kernels.h"
#include "nest.h"
#include "threads.h"

#include <math.h>
#include <string.h>

typedef struct job {
    const tp_step *step;
    tp_context *context;
    const tp_cpu_loops *loops;
    tp_nest lines, line; /* over the other dims; over the reduced dims */
    tp_tile_program prologue;
    tp_dtype type;  /* F32 or F64 */
    int64_t length; /* of a line */
    int extra;      /* weight and bias */
    int failed;
} job;

/* ---- Numbers --------------------------------------------------------------------------- */

/* The sum in the order of reduce.c: lanes in blocks, blocks in order. */
static float sum_f32(const tp_cpu_loops *loops, int64_t n, const float *x)
{
    float sum = 0;
    for (int64_t i = 0; i < n; i += TP_SUM_BLOCK) {
        float lane[TP_LANES] = {0};
        loops->sum_f32(n - i < TP_SUM_BLOCK ? n - i : TP_SUM_BLOCK, x + i, lane);
        for (int half = TP_LANES / 2; half > 0; half /= 2) {
            for (int j = 0; j < half; j++) lane[j] += lane[j + half];
        }
        sum += lane[0];
    }
    return sum;
}

static double sum_f64(const tp_cpu_loops *loops, int64_t n, const double *x)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i += TP_SUM_BLOCK) {
        double lane[TP_LANES] = {0};
        loops->sum_f64(n - i < TP_SUM_BLOCK ? n - i : TP_SUM_BLOCK, x + i, lane);
        for (int half = TP_LANES / 2; half > 0; half /= 2) {
            for (int j = 0; j < half; j++) lane[j] += lane[j + half];
        }
        sum += lane[0];
    }
    return sum;
}

static void softmax_f32(const job *j, float *x, float *spare)
{
    (void)spare;
    float max = j->loops->max_f32(j->length, x);
    j->loops->exp_f32(j->length, x, max, x);
    j->loops->div_f32(j->length, x, sum_f32(j->loops, j->length, x));
}

static void softmax_f64(const job *j, double *x, double *spare)
{
    (void)spare;
    double max = x[0];
    for (int64_t i = 1; i < j->length; i++) max = max != max || max > x[i] ? max : x[i];
    for (int64_t i = 0; i < j->length; i++) x[i] = exp(x[i] - max);
    double sum = sum_f64(j->loops, j->length, x);
    for (int64_t i = 0; i < j->length; i++) x[i] /= sum;
}

static void norm_f32(const job *j, float *x, float *spare)
{
    float n = (float)j->length, mean = sum_f32(j->loops, j->length, x) / n;
    j->loops->square_f32(j->length, x, mean, spare);
    float var = sum_f32(j->loops, j->length, spare) / n;
    j->loops->norm_f32(j->length, x, mean, sqrtf(var + (float)j->step->value[0].f));
}

static void norm_f64(const job *j, double *x, double *spare)
{
    double n = (double)j->length, mean = sum_f64(j->loops, j->length, x) / n;
    for (int64_t i = 0; i < j->length; i++) spare[i] = (x[i] - mean) * (x[i] - mean);
    double by = sqrt(sum_f64(j->loops, j->length, spare) / n + j->step->value[0].f);
    for (int64_t i = 0; i < j->length; i++) x[i] = (x[i] - mean) / by;
}

/* ---- Lines --------------------------------------------------------------------------------- */

/* Walks the line in tiles of rows x n over its two innermost dims; visit gets the position of
 * the tile's first element. */
typedef void (*visit_fn)(const job *j, int64_t line, int64_t outer, int64_t row, int64_t i,
                         int64_t rows, int64_t n, int64_t at, char *buffer, char *scratch);

static tp_rows rows_at(const job *j, int operand, int64_t line, int64_t outer, int64_t row,
                       int64_t i)
{
    const tp_nest *nest = &j->line;
    int inner = nest->ndim - 1;
    int64_t row_stride = inner > 0 ? nest->stride[operand][inner - 1] : 0,
            stride = nest->stride[operand][inner];
    char *at = j->lines.base[operand] + tp_nest_offset(&j->lines, operand, j->lines.ndim, line);
    at += tp_nest_offset(nest, operand, inner > 0 ? inner - 1 : 0, outer) + row * row_stride +
          i * stride;
    return (tp_rows){at, row_stride, stride};
}

static void walk(const job *j, int64_t line, visit_fn visit, char *buffer, char *scratch)
{
    const tp_nest *nest = &j->line;
    int inner = nest->ndim - 1;
    int64_t n = nest->shape[inner], rows = inner > 0 ? nest->shape[inner - 1] : 1, outer = 1,
            at = 0;
    for (int d = 0; d < inner - 1; d++) outer *= nest->shape[d];
    int64_t tile_n = n < TP_TILE ? n : TP_TILE, tile_rows = tile_n == n ? TP_TILE / tile_n : 1;
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t r = 0; r < rows; r += tile_rows) {
            int64_t tr = rows - r < tile_rows ? rows - r : tile_rows;
            for (int64_t i = 0; i < n; i += tile_n) {
                int64_t tn = n - i < tile_n ? n - i : tile_n;
                visit(j, line, o, r, i, tr, tn, at, buffer, scratch);
                at += tr * tn;
            }
        }
    }
}

static void read_tile(const job *j, int64_t line, int64_t outer, int64_t row, int64_t i,
                      int64_t rows, int64_t n, int64_t at, char *buffer, char *scratch)
{
    tp_rows loads[TP_PROGRAM_LOADS];
    for (int k = 0; k < j->step->prologue.load_count; k++)
        loads[k] = rows_at(j, k + 1, line, outer, row, i);
    size_t size = tp_dtype_size(j->type);
    const char *x = tp_tile_run(&j->prologue, rows, n, loads, NULL, scratch);
    memcpy(buffer + (size_t)at * size, x, (size_t)(rows * n) * size);
}

static void write_tile(const job *j, int64_t line, int64_t outer, int64_t row, int64_t i,
                       int64_t rows, int64_t n, int64_t at, char *buffer, char *scratch)
{
    char *x = buffer + (size_t)at * tp_dtype_size(j->type);
    int first = j->step->prologue.load_count + 1;
    for (int k = 0; k < j->extra; k++) {
        bool weight = k == 0 && (j->step->value[1].i & 1);
        tp_rows from = rows_at(j, first + k, line, outer, row, i);
        const char *w =
            tp_tile_load(j->loops, j->step->operand[first + k - 1].dtype, rows, n, &from, scratch);
        j->loops->op[weight ? TP_OP_MUL : TP_OP_ADD][j->type](rows * n, x, w, NULL, x);
    }
    tp_rows out = rows_at(j, 0, line, outer, row, i);
    tp_tile_store(j->loops, j->step->out.dtype, rows, n, x, &out, scratch);
}

static void run_lines(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    size_t line_bytes = (size_t)j->length * tp_dtype_size(j->type),
           slots = (size_t)j->prologue.slots * TP_SLOT_BYTES;
    size_t bytes = 2 * line_bytes + slots;
    char *scratch = tp_context_alloc(j->context, bytes);
    if (!scratch) {
        __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    char *buffer = scratch + slots, *spare = buffer + line_bytes;
    bool softmax = j->step->kind == TP_STEP_SOFTMAX;
    tp_tile_begin(&j->prologue, scratch);
    for (int64_t l = begin; l < end; l++) {
        walk(j, l, read_tile, buffer, scratch);
        if (j->type == TP_F32)
            (softmax ? softmax_f32 : norm_f32)(j, (float *)(void *)buffer, (float *)(void *)spare);
        else
            (softmax ? softmax_f64 : norm_f64)(j, (double *)(void *)buffer,
                                               (double *)(void *)spare);
        walk(j, l, write_tile, buffer, scratch);
    }
    tp_context_free(j->context, scratch, bytes);
}

static tp_status run(const tp_step *step, tp_run *r)
{
    int64_t numel = tp_view_numel(&step->domain);
    if (numel == 0) return TP_OK;
    job *j = tp_context_alloc(r->context, sizeof *j);
    if (!j) return TP_E_NOMEM;
    uint8_t dtype[TP_PROGRAM_LOADS];
    for (int i = 0; i < step->prologue.load_count; i++) dtype[i] = step->operand[i].dtype;
    j->step = step;
    j->context = r->context;
    j->loops = tp_cpu_loops_get();
    j->failed = 0;
    j->type = tp_dtype_compute((tp_dtype)step->calc);
    j->extra = step->operand_count - step->prologue.load_count;
    tp_nest_make(&j->lines, step, r, 0, step->operand_count, ~step->axes, false);
    tp_nest_make(&j->line, step, r, 0, step->operand_count, step->axes, false);
    tp_tile_prepare(&j->prologue, &step->prologue, dtype);
    j->length = 1;
    for (int d = 0; d < j->line.ndim; d++) j->length *= j->line.shape[d];
    tp_parallel_for(r->threads, numel / j->length, 8192 / j->length + 1, run_lines, j);
    tp_status status = j->failed ? TP_E_NOMEM : TP_OK;
    tp_context_free(r->context, j, sizeof *j);
    return status;
}

static tp_reason accept(const tp_step *step)
{
    (void)step;
    return TP_REASON_NONE;
}

static const tp_kernel softmax = {"softmax", accept, run, NULL};
static const tp_kernel layer_norm = {"layer_norm", accept, run, NULL};
const tp_kernel *const tp_cpu_softmax_kernels[] = {&softmax, NULL};
const tp_kernel *const tp_cpu_layer_norm_kernels[] = {&layer_norm, NULL};
