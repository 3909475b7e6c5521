/* Softmax and layer norm: lines over the reduced dims are read through the prologue into a buffer,
 * changed there, and stored. f16 and bf16 calculate in f32. A line is whole in the buffer
 * before anything is written, so that out may be an operand. Where the other dims run faster
 * through memory, a group of neighbouring lines is worked on at once, so that cache lines are
 * used up; each line sees the same operations in the same order. */
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
    tp_dtype type;   /* F32 or F64 */
    int64_t length;  /* of a line */
    int64_t columns; /* lines in a group; 1: each on its own */
    int64_t groups;  /* along the innermost of the other dims */
    int extra;       /* weight and bias */
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

#define MOST_COLUMNS 16
#define OPERANDS (TP_PROGRAM_LOADS + 3)

/* A tile of a group: where it lies in each operand (0: out), its size, and the position in the
 * line of its first element. */
typedef struct tile {
    tp_rows where[OPERANDS];
    int64_t rows, n, at;
} tile;
typedef void (*visit_fn)(const job *j, tile *t, int64_t columns, char *buffer, char *scratch);

/* Addresses of the group's first line. */
static void find_group(const job *j, int64_t number, char **base)
{
    int inner = j->lines.ndim - 1;
    for (int k = 0; k < j->lines.operands; k++) {
        base[k] = j->lines.base[k] + tp_nest_offset(&j->lines, k, inner, number / j->groups) +
                  number % j->groups * j->columns * j->lines.stride[k][inner];
    }
}

/* Calls visit for tiles that cover the group. One line: rows x n over its two innermost dims.
 * Several: rows along its innermost dim, n along the lines. */
static void walk(const job *j, char *const *base, int64_t columns, visit_fn visit, char *buffer,
                 char *scratch)
{
    const tp_nest *line = &j->line;
    bool one = j->columns == 1;
    int inner = line->ndim - 1, row_dim = one ? inner - 1 : inner,
        outer_dims = row_dim > 0 ? row_dim : 0;
    int64_t n = one ? line->shape[inner] : columns, rows = row_dim >= 0 ? line->shape[row_dim] : 1,
            outer = 1;
    int64_t tile_n = n < TP_TILE ? n : TP_TILE, tile_rows = tile_n == n ? TP_TILE / tile_n : 1;
    for (int d = 0; d < outer_dims; d++) outer *= line->shape[d];
    tile t = {.at = 0};
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t r = 0; r < rows; r += tile_rows) {
            for (int64_t i = 0; i < n; i += tile_n) {
                for (int k = 0; k < line->operands; k++) {
                    int64_t row_stride = row_dim >= 0 ? line->stride[k][row_dim] : 0;
                    int64_t stride =
                        one ? line->stride[k][inner] : j->lines.stride[k][j->lines.ndim - 1];
                    char *at = base[k] + tp_nest_offset(line, k, outer_dims, o) + r * row_stride +
                               i * stride;
                    t.where[k] = (tp_rows){at, row_stride, stride};
                }
                t.rows = rows - r < tile_rows ? rows - r : tile_rows;
                t.n = n - i < tile_n ? n - i : tile_n;
                visit(j, &t, columns, buffer, scratch);
                t.at += one ? t.rows * t.n : t.rows;
            }
        }
    }
}

static void read_tile(const job *j, tile *t, int64_t columns, char *buffer, char *scratch)
{
    size_t size = tp_dtype_size(j->type);
    const char *x = tp_tile_run(&j->prologue, t->rows, t->n, &t->where[1], NULL, scratch);
    if (j->columns == 1) {
        memcpy(buffer + (size_t)t->at * size, x, (size_t)(t->rows * t->n) * size);
        return;
    }
    for (int64_t c = 0; c < columns; c++) {
        char *line = buffer + (size_t)(c * j->length + t->at) * size;
        for (int64_t r = 0; r < t->rows; r++)
            memcpy(line + (size_t)r * size, x + (size_t)(r * columns + c) * size, size);
    }
}

static void write_tile(const job *j, tile *t, int64_t columns, char *buffer, char *scratch)
{
    size_t size = tp_dtype_size(j->type);
    char *x = buffer + (size_t)t->at * size;
    if (j->columns > 1) {
        x = scratch + (size_t)j->prologue.slots * TP_SLOT_BYTES; /* a slot behind the program's */
        for (int64_t c = 0; c < columns; c++) {
            const char *line = buffer + (size_t)(c * j->length + t->at) * size;
            for (int64_t r = 0; r < t->rows; r++)
                memcpy(x + (size_t)(r * columns + c) * size, line + (size_t)r * size, size);
        }
    }
    int first = j->step->prologue.load_count + 1;
    for (int k = first; k < first + j->extra; k++) {
        bool weight = k == first && (j->step->value[1].i & 1);
        const char *w = tp_tile_load(j->loops, j->step->operand[k - 1].dtype, t->rows, t->n,
                                     &t->where[k], scratch);
        j->loops->op[weight ? TP_OP_MUL : TP_OP_ADD][j->type](t->rows * t->n, x, w, NULL, x);
    }
    tp_tile_store(j->loops, j->step->out.dtype, t->rows, t->n, x, &t->where[0], scratch);
}

static void change_line(const job *j, char *line, char *spare)
{
    bool softmax = j->step->kind == TP_STEP_SOFTMAX;
    if (j->type == TP_F32)
        (softmax ? softmax_f32 : norm_f32)(j, (float *)(void *)line, (float *)(void *)spare);
    else
        (softmax ? softmax_f64 : norm_f64)(j, (double *)(void *)line, (double *)(void *)spare);
}

static void run_groups(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    size_t line_bytes = (size_t)j->length * tp_dtype_size(j->type),
           slots = (size_t)(j->prologue.slots + 1) * TP_SLOT_BYTES;
    size_t bytes = ((size_t)j->columns + 1) * line_bytes + slots;
    char *scratch = tp_context_alloc(j->context, bytes);
    if (!scratch) {
        __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    char *buffer = scratch + slots, *spare = buffer + (size_t)j->columns * line_bytes,
         *base[OPERANDS];
    int64_t width = j->lines.shape[j->lines.ndim - 1];
    tp_tile_begin(&j->prologue, scratch);
    for (int64_t g = begin; g < end; g++) {
        int64_t left = width - g % j->groups * j->columns,
                columns = left < j->columns ? left : j->columns;
        find_group(j, g, base);
        walk(j, base, columns, read_tile, buffer, scratch);
        for (int64_t c = 0; c < columns; c++)
            change_line(j, buffer + (size_t)c * line_bytes, spare);
        walk(j, base, columns, write_tile, buffer, scratch);
    }
    tp_context_free(j->context, scratch, bytes);
}

/* How many lines to take at once: some, where the next line is nearer in memory than the next
 * element of this one, but no more than a second-level cache holds. */
static int64_t choose_columns(const job *j)
{
    int inner = j->lines.ndim - 1;
    int64_t width = j->lines.shape[inner], line_bytes = j->length * (int64_t)tp_dtype_size(j->type);
    int64_t across = j->lines.stride[1][inner], along = j->line.stride[1][j->line.ndim - 1];
    across = across < 0 ? -across : across;
    along = along < 0 ? -along : along;
    if (across == 0 || across >= along) return 1;
    int64_t most = (INT64_C(1) << 20) / line_bytes;
    most = most < MOST_COLUMNS ? most : MOST_COLUMNS;
    most = most < width ? most : width;
    return most > 1 ? most : 1;
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
    j->columns = choose_columns(j);
    int64_t width = j->lines.shape[j->lines.ndim - 1];
    j->groups = (width + j->columns - 1) / j->columns;
    int64_t units = numel / j->length / width * j->groups;
    tp_parallel_for(r->threads, units, 8192 / (j->length * j->columns) + 1, run_groups, j);
    tp_status status = j->failed ? TP_E_NOMEM : TP_OK;
    tp_context_free(r->context, j, sizeof *j);
    return status;
}

static const tp_kernel softmax = {"softmax", NULL, run, NULL};
static const tp_kernel layer_norm = {"layer_norm", NULL, run, NULL};
const tp_kernel *const tp_cpu_softmax_kernels[] = {&softmax, NULL};
const tp_kernel *const tp_cpu_layer_norm_kernels[] = {&layer_norm, NULL};
