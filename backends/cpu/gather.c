/* Gathers and ranges. Every index is checked before the first element is written. */
#include "kernels.h"
#include "nest.h"
#include "threads.h"

#include <string.h>

/* Elements that are worth a thread. */
#define WORK 32768
/* Elements of a range worked out at once. */
#define RANGE_TILE 256

typedef struct job {
    tp_nest nest;        /* all dims but the axis; operand 1 is the source */
    const int64_t *from; /* checked indices, wrapped */
    int64_t count, source_stride, out_stride, size;
} job;

/* The indices as i64 in [0, size of the axis). */
static tp_status read_indices(const tp_step *step, tp_run *run, int64_t *from)
{
    const tp_operand *o = &step->operand[1];
    int64_t size = step->operand[0].view.shape[step->axis], count = o->view.shape[0];
    int64_t width = (int64_t)tp_dtype_size((tp_dtype)o->dtype),
            stride = count > 1 ? o->view.stride[0] * width : 0;
    tp_convert(count, (tp_dtype)o->dtype, tp_operand_at(o, run), stride, TP_I64, from, 8);
    for (int64_t i = 0; i < count; i++) {
        bool huge = o->dtype == TP_U64 && from[i] < 0; /* above 2^63-1 */
        if (huge || from[i] < -size || from[i] >= size) {
            run->fault[0] = from[i];
            run->fault[1] = i;
            run->fault[2] = size;
            return TP_E_BOUNDS;
        }
        if (from[i] < 0) from[i] += size;
    }
    return TP_OK;
}

/* n elements of size bytes from each `from` to `to`; place NULL: element i is at i * from_step,
 * else at place[i] * from_step. */
#define COPY_ELEMENTS(type)                                                                        \
    for (int64_t k = 0; k < n; k++) {                                                              \
        type element;                                                                              \
        memcpy(&element, from + (place ? place[k] : k) * from_step, sizeof element);               \
        memcpy(to + k * to_step, &element, sizeof element);                                        \
    }

static void copy_elements(int64_t n, int64_t size, const char *from, int64_t from_step,
                          const int64_t *place, char *to, int64_t to_step)
{
    switch (size) {
    case 1:
        COPY_ELEMENTS(uint8_t) break;
    case 2:
        COPY_ELEMENTS(uint16_t) break;
    case 4:
        COPY_ELEMENTS(uint32_t) break;
    default:
        COPY_ELEMENTS(uint64_t)
    }
}

/* Unit u: one index, a line along the innermost of the other dims. */
static void copy_lines(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const tp_nest *nest = &j->nest;
    int inner = nest->ndim - 1;
    int64_t n = nest->shape[inner], to_step = nest->stride[0][inner],
            from_step = nest->stride[1][inner];
    bool dense = to_step == j->size && (from_step == j->size || n == 1);
    for (int64_t u = begin; u < end; u++) {
        int64_t outer = u / j->count, i = u % j->count;
        char *to = nest->base[0] + tp_nest_offset(nest, 0, inner, outer) + i * j->out_stride;
        const char *from =
            nest->base[1] + tp_nest_offset(nest, 1, inner, outer) + j->from[i] * j->source_stride;
        if (dense)
            memcpy(to, from, (size_t)(n * j->size));
        else
            copy_elements(n, j->size, from, from_step, NULL, to, to_step);
    }
}

/* Unit u: all indices at one place of the other dims. */
static void pick_lines(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const tp_nest *nest = &j->nest;
    for (int64_t u = begin; u < end; u++)
        copy_elements(j->count, j->size, nest->base[1] + tp_nest_offset(nest, 1, nest->ndim, u),
                      j->source_stride, j->from,
                      nest->base[0] + tp_nest_offset(nest, 0, nest->ndim, u), j->out_stride);
}

static void select_all(job *j, const tp_step *step, tp_run *run)
{
    const tp_operand *x = &step->operand[0];
    tp_nest_make(&j->nest, step, run, 0, 1, ~(1U << step->axis), false);
    j->size = (int64_t)tp_dtype_size((tp_dtype)x->dtype);
    j->source_stride = x->view.shape[step->axis] > 1 ? x->view.stride[step->axis] * j->size : 0;
    j->out_stride = j->count > 1 ? step->out.view.stride[step->axis] * j->size : 0;
    int64_t places = 1, line = j->nest.shape[j->nest.ndim - 1];
    for (int d = 0; d < j->nest.ndim; d++) places *= j->nest.shape[d];
    if (j->out_stride == j->size || line == 1)
        tp_parallel_for(run->threads, places, WORK / j->count + 1, pick_lines, j);
    else
        tp_parallel_for(run->threads, places / line * j->count, WORK / line + 1, copy_lines, j);
}

static tp_status run_select(const tp_step *step, tp_run *run)
{
    int64_t count = step->operand[1].view.shape[0], bytes;
    if (__builtin_mul_overflow(count, (int64_t)sizeof(int64_t), &bytes) ||
        __builtin_add_overflow(bytes, (int64_t)sizeof(job), &bytes))
        return TP_E_NOMEM; /* an expanded index */
    job *j = tp_context_alloc(run->context, (size_t)bytes);
    if (!j) return TP_E_NOMEM;
    int64_t *from = (int64_t *)(void *)(j + 1);
    j->from = from;
    j->count = count;
    tp_status status = read_indices(step, run, from);
    if (status == TP_OK && tp_view_numel(&step->domain) > 0) select_all(j, step, run);
    tp_context_free(run->context, j, (size_t)bytes);
    return status;
}

/* ---- Ranges --------------------------------------------------------------------------------- */

typedef struct range {
    const tp_step *step;
    const tp_cpu_loops *loops;
    char *to;
    int64_t stride;
} range;

/* A tile in f64 or, for integers, u64; then converted as tp_cast does. */
static void write_range(void *arg, int64_t begin, int64_t end)
{
    const range *r = arg;
    const tp_value *value = r->step->value;
    tp_dtype dtype = (tp_dtype)r->step->out.dtype;
    bool floats = tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT;
    for (int64_t first = begin; first < end; first += RANGE_TILE) {
        int64_t n = end - first < RANGE_TILE ? end - first : RANGE_TILE;
        double real[RANGE_TILE];
        uint64_t whole[RANGE_TILE];
        char *to = r->to + first * r->stride;
        for (int64_t k = 0; k < n && floats; k++)
            real[k] = value[0].f + (double)(first + k) * value[1].f;
        for (int64_t k = 0; k < n && !floats; k++)
            whole[k] = (uint64_t)value[0].i + (uint64_t)(first + k) * (uint64_t)value[1].i;
        tp_loop cast = r->loops->cast[floats ? TP_F64 : TP_U64][dtype];
        if (cast && r->stride == (int64_t)tp_dtype_size(dtype))
            cast(n, floats ? (const void *)real : whole, NULL, NULL, to);
        else
            tp_convert(n, floats ? TP_F64 : TP_U64, floats ? (const void *)real : whole, 8, dtype,
                       to, r->stride);
    }
}

static tp_status run_arange(const tp_step *step, tp_run *run)
{
    int64_t count = step->domain.shape[0], size = (int64_t)tp_dtype_size((tp_dtype)step->out.dtype);
    range r = {step, tp_cpu_loops_get(), tp_operand_at(&step->out, run),
               count > 1 ? step->out.view.stride[0] * size : size};
    tp_parallel_for(run->threads, count, WORK, write_range, &r);
    return TP_OK;
}

static const tp_kernel select = {"index_select", NULL, run_select, NULL};
static const tp_kernel arange = {"arange", NULL, run_arange, NULL};
const tp_kernel *const tp_cpu_index_select_kernels[] = {&select, NULL};
const tp_kernel *const tp_cpu_arange_kernels[] = {&arange, NULL};
