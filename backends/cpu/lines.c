/* Softmax and layer norm: a bundle of lines over the reduced dims at a time, read through the
 * prologue into a buffer, changed there line by line, and stored. f16 and bf16 calculate in f32.
 * The lines are whole in the buffer before anything is written, so that out may be an operand. */
#include "kernels.h"
#include "nest.h"
#include "threads.h"

#include <math.h>
#include <string.h>

/* Lines across the memory that are read together, a cache line of f32; most short lines in a
 * bundle; most elements in one. */
#define ACROSS 16
#define MOST_SHORT 64
#define BUNDLE_ELEMENTS 131072

typedef struct job {
    const tp_step *step;
    tp_context *context;
    const tp_cpu_loops *loops;
    tp_nest lines, line; /* over the other dims; over the reduced dims */
    tp_tile_program prologue;
    tp_dtype type;           /* F32 or F64 */
    int64_t size;            /* of it */
    int64_t length;          /* of a line */
    int64_t width;           /* of the innermost dim over lines */
    int64_t bundle, bundles; /* lines in a bundle, bundles along that dim */
    int extra;               /* weight and bias */
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
    float max = x[0];
    j->loops->best[0][TP_F32](j->length, x, &max);
    if (j->step->value[0].i && max == -INFINITY) { /* all is masked */
        memset(x, 0, (size_t)j->length * sizeof *x);
        return;
    }
    j->loops->exp_f32(j->length, x, max, x);
    j->loops->div_f32(j->length, x, sum_f32(j->loops, j->length, x));
}

static void softmax_f64(const job *j, double *x, double *spare)
{
    (void)spare;
    double max = x[0];
    j->loops->best[0][TP_F64](j->length, x, &max);
    if (j->step->value[0].i && max == -INFINITY) {
        memset(x, 0, (size_t)j->length * sizeof *x);
        return;
    }
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

/* A bundle: its first line, as position in the nest of lines, and how many. */
typedef struct bundle {
    int64_t outer, first, lines;
} bundle;

/* rows x n elements. One line: rows along its second innermost dim; a bundle: a row per line. */
typedef struct tile {
    int64_t outer, row, i; /* first element: outer dims of a line, row, innermost dim */
    int64_t rows, n;
    int64_t at; /* position of the first element in its line */
} tile;

static tp_rows tile_rows(const job *j, const bundle *b, const tile *t, int operand)
{
    if (j->bundle == 1) {
        tp_rows r = tp_nest_rows(&j->line, operand, t->outer, t->row, t->i);
        r.at += tp_nest_offset(&j->lines, operand, j->lines.ndim, b->outer * j->width + b->first);
        return r;
    }
    int inner = j->line.ndim - 1, across = j->lines.ndim - 1;
    int64_t row_stride = j->lines.stride[operand][across], stride = j->line.stride[operand][inner];
    char *at = j->lines.base[operand] + tp_nest_offset(&j->lines, operand, across, b->outer) +
               (b->first + t->row) * row_stride +
               tp_nest_offset(&j->line, operand, inner, t->outer) + t->i * stride;
    return (tp_rows){at, row_stride, stride};
}

/* The place of a tile's first element in the buffer; whether the tile lies there densely. */
static char *in_buffer(const job *j, const tile *t, char *buffer)
{
    return buffer + (t->row * (j->bundle > 1) * j->length + t->at) * j->size;
}

static bool is_dense(const job *j, const tile *t)
{
    return j->bundle == 1 || t->rows == 1 || t->n == j->length;
}

typedef void (*visit_fn)(const job *j, const bundle *b, const tile *t, char *buffer, char *scratch);

static void walk(const job *j, const bundle *b, visit_fn visit, char *buffer, char *scratch)
{
    const tp_nest *nest = &j->line;
    bool one = j->bundle == 1;
    int inner = nest->ndim - 1, outer_dims = one && inner > 0 ? inner - 1 : inner;
    int64_t n = nest->shape[inner], outer = 1,
            rows = !one        ? b->lines
                   : inner > 0 ? nest->shape[inner - 1]
                               : 1;
    for (int d = 0; d < outer_dims; d++) outer *= nest->shape[d];
    int64_t most = one ? TP_TILE : TP_TILE / j->bundle, step_n = n < most ? n : most,
            step_rows = !one          ? rows
                        : step_n == n ? TP_TILE / n
                                      : 1,
            at = 0;
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t r = 0; r < rows; r += step_rows) {
            for (int64_t i = 0; i < n; i += step_n) {
                tile t = {o,
                          r,
                          i,
                          rows - r < step_rows ? rows - r : step_rows,
                          n - i < step_n ? n - i : step_n,
                          at};
                visit(j, b, &t, buffer, scratch);
                at += one ? t.rows * t.n : t.n;
            }
        }
    }
}

static void read_tile(const job *j, const bundle *b, const tile *t, char *buffer, char *scratch)
{
    tp_rows loads[TP_PROGRAM_LOADS];
    for (int k = 0; k < j->step->prologue.load_count; k++) loads[k] = tile_rows(j, b, t, k + 1);
    char *to = in_buffer(j, t, buffer);
    bool dense = is_dense(j, t);
    const char *x =
        tp_tile_run(&j->prologue, t->rows, t->n, loads, NULL, dense ? to : NULL, scratch);
    if (dense) {
        if (x != to) memcpy(to, x, (size_t)(t->rows * t->n * j->size));
        return;
    }
    for (int64_t r = 0; r < t->rows; r++, to += j->length * j->size, x += t->n * j->size)
        memcpy(to, x, (size_t)(t->n * j->size));
}

static void write_tile(const job *j, const bundle *b, const tile *t, char *buffer, char *scratch)
{
    char *x = in_buffer(j, t, buffer);
    if (!is_dense(j, t)) {
        char *packed = scratch + (size_t)j->prologue.slots * TP_SLOT_BYTES;
        for (int64_t r = 0; r < t->rows; r++)
            memcpy(packed + r * t->n * j->size, x + r * j->length * j->size,
                   (size_t)(t->n * j->size));
        x = packed;
    }
    int first = j->step->prologue.load_count + 1;
    for (int k = 0; k < j->extra; k++) {
        bool weight = k == 0 && (j->step->value[1].i & 1);
        tp_rows from = tile_rows(j, b, t, first + k);
        const char *w = tp_tile_load(j->loops, j->step->operand[first + k - 1].dtype, t->rows, t->n,
                                     &from, scratch);
        j->loops->op[weight ? TP_OP_MUL : TP_OP_ADD][j->type](t->rows * t->n, x, w, NULL, x);
    }
    tp_rows out = tile_rows(j, b, t, 0);
    tp_tile_store(j->loops, j->step->out.dtype, t->rows, t->n, x, &out, scratch);
}

static void change_line(const job *j, char *x, char *spare)
{
    bool is_softmax = j->step->kind == TP_STEP_SOFTMAX;
    if (j->type == TP_F32)
        (is_softmax ? softmax_f32 : norm_f32)(j, (float *)(void *)x, (float *)(void *)spare);
    else
        (is_softmax ? softmax_f64 : norm_f64)(j, (double *)(void *)x, (double *)(void *)spare);
}

static void run_bundles(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    size_t line_bytes = (size_t)(j->length * j->size),
           slots = (size_t)(j->prologue.slots + 1) * TP_SLOT_BYTES;
    size_t bytes = (size_t)(j->bundle + 1) * line_bytes + slots;
    char *scratch = tp_context_alloc(j->context, bytes);
    if (!scratch) {
        __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    char *spare = scratch + slots, *buffer = spare + line_bytes;
    tp_tile_begin(&j->prologue, scratch);
    for (int64_t u = begin; u < end; u++) {
        bundle b = {u / j->bundles, u % j->bundles * j->bundle, j->bundle};
        if (b.lines > j->width - b.first) b.lines = j->width - b.first;
        walk(j, &b, read_tile, buffer, scratch);
        for (int64_t l = 0; l < b.lines; l++)
            change_line(j, buffer + (size_t)l * line_bytes, spare);
        walk(j, &b, write_tile, buffer, scratch);
    }
    tp_context_free(j->context, scratch, bytes);
}

/* ---- Lines of f32 that lie dense in memory: no bundles, no buffer ------------------------------
 */

static bool is_direct(const job *j)
{
    const tp_step *step = j->step;
    bool plain = step->prologue.load_count == 1 && step->prologue.insn_count == 0;
    if (!plain || j->line.ndim != 1 || j->length == 1 || step->out.dtype != TP_F32) return false;
    for (int k = 0; k < j->line.operands; k++) {
        if (j->line.stride[k][0] != (int64_t)sizeof(float)) return false;
        if (k > 0 && step->operand[k - 1].dtype != TP_F32) return false;
        for (int d = 0; d < j->lines.ndim && k > 1; d++) {
            if (j->lines.stride[k][d] != 0) return false;
        }
    }
    return true;
}

static float *operand_at(const job *j, int operand, int64_t offset)
{
    return (float *)(void *)(j->line.base[operand] + offset);
}

static void run_direct(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    int inner = j->lines.ndim - 1;
    bool has_weight = j->extra && (j->step->value[1].i & 1);
    const float *weight = has_weight ? operand_at(j, 2, 0) : NULL,
                *bias = j->extra > has_weight ? operand_at(j, 2 + has_weight, 0) : NULL;
    for (int64_t l = begin, run; l < end; l += run) {
        run = j->width - l % j->width < end - l ? j->width - l % j->width : end - l;
        int64_t to = tp_nest_offset(&j->lines, 0, inner + 1, l),
                from = tp_nest_offset(&j->lines, 1, inner + 1, l);
        for (int64_t k = 0; k < run; k++) {
            const float *x = operand_at(j, 1, from + k * j->lines.stride[1][inner]);
            float *y = operand_at(j, 0, to + k * j->lines.stride[0][inner]);
            if (j->step->kind == TP_STEP_SOFTMAX)
                j->loops->softmax_line_f32(j->length, x, j->step->value[0].i != 0, y);
            else
                j->loops->layer_norm_line_f32(j->length, x, weight, bias,
                                              (float)j->step->value[0].f, y);
        }
    }
}

/* Lines that lie across the memory, one beside the other, are read together; so are short ones. */
static int64_t choose_bundle(const job *j)
{
    int64_t most = j->length <= TP_TILE / 2 ? TP_TILE / j->length : 1;
    if (most > MOST_SHORT) most = MOST_SHORT;
    if (j->step->prologue.load_count) {
        int64_t kept = j->lines.stride[1][j->lines.ndim - 1],
                along = j->line.stride[1][j->line.ndim - 1];
        kept = kept < 0 ? -kept : kept;
        along = along < 0 ? -along : along;
        if (kept && kept < along && most < ACROSS) most = ACROSS;
    }
    while (most > 1 && most > BUNDLE_ELEMENTS / j->length) most /= 2;
    return most < j->width ? most : j->width;
}

static void prepare(job *j, const tp_step *step, tp_run *r)
{
    uint8_t dtype[TP_PROGRAM_LOADS];
    for (int i = 0; i < step->prologue.load_count; i++) dtype[i] = step->operand[i].dtype;
    j->step = step;
    j->context = r->context;
    j->loops = tp_cpu_loops_get();
    j->failed = 0;
    j->type = tp_dtype_compute((tp_dtype)step->calc);
    j->size = (int64_t)tp_dtype_size(j->type);
    j->extra = step->operand_count - step->prologue.load_count;
    tp_nest_make(&j->lines, step, r, 0, step->operand_count, ~step->axes, false);
    tp_nest_make(&j->line, step, r, 0, step->operand_count, step->axes, false);
    tp_tile_prepare(&j->prologue, &step->prologue, dtype);
    j->length = 1;
    for (int d = 0; d < j->line.ndim; d++) j->length *= j->line.shape[d];
    j->width = j->lines.shape[j->lines.ndim - 1];
    j->bundle = choose_bundle(j);
    j->bundles = (j->width + j->bundle - 1) / j->bundle;
}

static tp_status run(const tp_step *step, tp_run *r)
{
    int64_t numel = tp_view_numel(&step->domain);
    if (numel == 0) return TP_OK;
    job *j = tp_context_alloc(r->context, sizeof *j);
    if (!j) return TP_E_NOMEM;
    prepare(j, step, r);
    int64_t lines = numel / j->length, units = lines / j->width * j->bundles;
    if (is_direct(j))
        tp_parallel_for(r->threads, lines, 8192 / j->length + 1, run_direct, j);
    else
        tp_parallel_for(r->threads, units, 8192 / j->length / j->bundle + 1, run_bundles, j);
    tp_status status = j->failed ? TP_E_NOMEM : TP_OK;
    tp_context_free(r->context, j, sizeof *j);
    return status;
}

static const tp_kernel softmax = {"softmax", NULL, run, NULL};
static const tp_kernel layer_norm = {"layer_norm", NULL, run, NULL};
const tp_kernel *const tp_cpu_softmax_kernels[] = {&softmax, NULL};
const tp_kernel *const tp_cpu_layer_norm_kernels[] = {&layer_norm, NULL};
