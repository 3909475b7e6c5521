/* Gathers and ranges. Every index is checked before the first element is written. */
#include "kernels.h"
#include "nest.h"
#include "threads.h"

#include <string.h>

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
            for (int64_t k = 0; k < n; k++)
                memcpy(to + k * to_step, from + k * from_step, (size_t)j->size);
    }
}

static tp_status run_select(const tp_step *step, tp_run *run)
{
    const tp_operand *x = &step->operand[0];
    int64_t count = step->operand[1].view.shape[0], units = count;
    size_t bytes = (size_t)count * sizeof(int64_t) + sizeof(job);
    job *j = tp_context_alloc(run->context, bytes);
    if (!j) return TP_E_NOMEM;
    int64_t *from = (int64_t *)(void *)(j + 1);
    tp_status status = read_indices(step, run, from);
    if (status == TP_OK && tp_view_numel(&step->domain) > 0) {
        tp_nest_make(&j->nest, step, run, 0, 1, ~(1U << step->axis), false);
        j->from = from;
        j->count = count;
        j->size = (int64_t)tp_dtype_size((tp_dtype)x->dtype);
        j->source_stride = x->view.shape[step->axis] > 1 ? x->view.stride[step->axis] * j->size : 0;
        j->out_stride = count > 1 ? step->out.view.stride[step->axis] * j->size : 0;
        for (int d = 0; d < j->nest.ndim - 1; d++) units *= j->nest.shape[d];
        int64_t line = j->nest.shape[j->nest.ndim - 1];
        tp_parallel_for(run->threads, units, 32768 / line + 1, copy_lines, j);
    }
    tp_context_free(run->context, j, bytes);
    return status;
}

static tp_status run_arange(const tp_step *step, tp_run *run)
{
    tp_dtype dtype = (tp_dtype)step->out.dtype;
    bool floats = tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT;
    int64_t count = step->domain.shape[0], size = (int64_t)tp_dtype_size(dtype),
            stride = count > 1 ? step->out.view.stride[0] * size : 0;
    char *to = tp_operand_at(&step->out, run);
    for (int64_t i = 0; i < count; i++) {
        tp_value y = {.f = step->value[0].f + (double)i * step->value[1].f};
        if (!floats)
            y.i = (int64_t)((uint64_t)step->value[0].i + (uint64_t)i * (uint64_t)step->value[1].i);
        tp_value_store(dtype, to + i * stride,
                       floats            ? TP_F64
                       : dtype == TP_U64 ? TP_U64
                                         : TP_I64,
                       y);
    }
    return TP_OK;
}

static const tp_kernel select = {"index_select", NULL, run_select, NULL};
static const tp_kernel arange = {"arange", NULL, run_arange, NULL};
const tp_kernel *const tp_cpu_index_select_kernels[] = {&select, NULL};
const tp_kernel *const tp_cpu_arange_kernels[] = {&arange, NULL};
