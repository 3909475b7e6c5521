/* The reference backend: the specification as plain loops over index counters, one kernel for
 * each kind of step, any strides. Sums are held in long double, so that it is better than the
 * kernels it judges. */
#include "ref.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ALL_DIMS UINT32_MAX

static bool is_float(tp_dtype dtype)
{
    return tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT;
}

static void store(const tp_step *step, const tp_run *run, const int64_t *index, tp_dtype from,
                  tp_value value)
{
    tp_value_store((tp_dtype)step->out.dtype, tp_ref_at(&step->out, run, index), from, value);
}

static tp_status ewise(const tp_step *step, tp_run *run)
{
    int64_t index[TP_MAX_RANK] = {0};
    if (tp_view_numel(&step->domain) == 0) return TP_OK;
    do {
        tp_dtype dtype;
        tp_value y = tp_ref_program(&step->prologue, step, run, 0, NULL, TP_BOOL, index, &dtype);
        store(step, run, index, dtype, y);
    } while (tp_ref_next(&step->domain, ALL_DIMS, index));
    return TP_OK;
}

/* ---- Reductions ------------------------------------------------------------------------ */

typedef struct accumulator {
    int64_t count; /* elements seen */
    long double sum, product;
    uint64_t wrapped, wrapped_product; /* of integers */
    tp_value best;
    int64_t position;
} accumulator;

static bool is_better(uint8_t op, tp_dtype dtype, tp_value x, tp_value best)
{
    bool larger = op != TP_OP_MIN && op != TP_OP_ARGMIN,
         position = op == TP_OP_ARGMAX || op == TP_OP_ARGMIN;
    if (is_float(dtype)) {
        if (best.f != best.f) return false;
        if (x.f != x.f) return true;
        if (x.f == best.f)
            return !position &&
                   (larger ? signbit(best.f) && !signbit(x.f) : !signbit(best.f) && signbit(x.f));
        return larger ? x.f > best.f : x.f < best.f;
    }
    bool greater = dtype == TP_U64 ? (uint64_t)x.i > (uint64_t)best.i : x.i > best.i;
    return larger ? greater : x.i != best.i && !greater;
}

static void accumulate(accumulator *acc, const tp_step *step, tp_dtype dtype, tp_value x)
{
    acc->sum += is_float(dtype) ? (long double)x.f : 0;
    acc->wrapped += (uint64_t)x.i;
    acc->product *= is_float(dtype) ? (long double)x.f : 1;
    acc->wrapped_product *= (uint64_t)x.i;
    if (acc->count == 0 || is_better(step->op, dtype, x, acc->best)) {
        acc->best = x;
        acc->position = acc->count;
    }
    acc->count++;
}

static tp_value finish(const accumulator *acc, const tp_step *step)
{
    tp_dtype calc = (tp_dtype)step->calc;
    long double integer =
        calc == TP_U64 ? (long double)acc->wrapped : (long double)(int64_t)acc->wrapped;
    switch (step->op) {
    case TP_OP_SUM:
        return (tp_value){.f = (double)acc->sum, .i = (int64_t)acc->wrapped};
    case TP_OP_MEAN:
        return (tp_value){
            .f = (double)((is_float(calc) ? acc->sum : integer) / (long double)acc->count)};
    case TP_OP_PROD:
        return (tp_value){.f = (double)acc->product, .i = (int64_t)acc->wrapped_product};
    case TP_OP_ARGMIN:
    case TP_OP_ARGMAX:
        return (tp_value){.i = acc->position};
    default:
        return acc->best;
    }
}

static tp_status reduce(const tp_step *step, tp_run *run)
{
    int64_t index[TP_MAX_RANK] = {0};
    if (tp_view_numel(&step->out.view) == 0) return TP_OK;
    bool empty = tp_view_numel(&step->domain) == 0;
    do {
        accumulator acc = {.product = 1, .wrapped_product = 1};
        while (!empty) {
            tp_dtype dtype;
            tp_value x =
                tp_ref_program(&step->prologue, step, run, 0, NULL, TP_BOOL, index, &dtype);
            accumulate(&acc, step, dtype, x);
            if (!tp_ref_next(&step->domain, step->axes, index)) break; /* back at 0 in those dims */
        }
        tp_dtype dtype = (tp_dtype)step->reduced;
        tp_value y = finish(&acc, step);
        if (step->epilogue.load_count) {
            uint64_t bytes;
            tp_value_store(dtype, &bytes, is_float(dtype) ? TP_F64 : dtype, y);
            y = tp_value_load(dtype, &bytes);
            y = tp_ref_program(&step->epilogue, step, run, step->prologue.load_count, &y, dtype,
                               index, &dtype);
        }
        store(step, run, index, is_float(dtype) ? TP_F64 : dtype, y);
    } while (tp_ref_next(&step->domain, ~step->axes, index));
    return TP_OK;
}

/* ---- Softmax and layer norm ----------------------------------------------------------------- */

static double value_at(const tp_step *step, tp_run *run, const int64_t *index)
{
    tp_dtype dtype;
    return tp_ref_program(&step->prologue, step, run, 0, NULL, TP_BOOL, index, &dtype).f;
}

/* The values of one line over the reduced dims; index comes back as it was. */
static void read_line(const tp_step *step, tp_run *run, int64_t *index, long double *line)
{
    int64_t i = 0;
    do line[i++] = value_at(step, run, index);
    while (tp_ref_next(&step->domain, step->axes, index));
}

static void softmax_line(const tp_step *step, long double *x, int64_t n)
{
    long double max = x[0], sum = 0;
    for (int64_t i = 1; i < n; i++) max = max != max || max > x[i] ? max : x[i];
    for (int64_t i = 0; i < n; i++) sum += expl(x[i] - max);
    bool nothing = step->value[0].i && max == -INFINITY; /* all is masked */
    for (int64_t i = 0; i < n; i++) x[i] = nothing ? 0 : expl(x[i] - max) / sum;
}

static void norm_line(const tp_step *step, long double *x, int64_t n)
{
    long double mean = 0, var = 0;
    for (int64_t i = 0; i < n; i++) mean += x[i];
    mean /= (long double)n;
    for (int64_t i = 0; i < n; i++) var += (x[i] - mean) * (x[i] - mean);
    var /= (long double)n;
    for (int64_t i = 0; i < n; i++)
        x[i] = (x[i] - mean) / sqrtl(var + (long double)step->value[0].f);
}

/* weight and bias of a layer norm at index. */
static long double scale_and_shift(const tp_step *step, tp_run *run, const int64_t *index,
                                   long double x)
{
    const tp_operand *o = &step->operand[step->prologue.load_count];
    if (step->value[1].i & 1) {
        x *= tp_value_load((tp_dtype)o->dtype, tp_ref_at(o, run, index)).f;
        o++;
    }
    if (step->value[1].i & 2) x += tp_value_load((tp_dtype)o->dtype, tp_ref_at(o, run, index)).f;
    return x;
}

/* A line stays in long double until its elements are stored: rounded once. */
static tp_status lines(const tp_step *step, tp_run *run,
                       void (*change)(const tp_step *, long double *, int64_t))
{
    int64_t index[TP_MAX_RANK] = {0}, n = 1;
    if (tp_view_numel(&step->domain) == 0) return TP_OK;
    for (int d = 0; d < step->domain.ndim; d++)
        n *= step->axes >> d & 1U ? step->domain.shape[d] : 1;
    long double *line = tp_context_alloc(run->context, (size_t)n * sizeof *line);
    if (!line) return TP_E_NOMEM;
    do {
        int64_t i = 0;
        read_line(step, run, index, line);
        change(step, line, n);
        do {
            long double y = line[i++];
            if (step->kind == TP_STEP_LAYER_NORM) y = scale_and_shift(step, run, index, y);
            store(step, run, index, TP_F64, (tp_value){.f = (double)y});
        } while (tp_ref_next(&step->domain, step->axes, index));
    } while (tp_ref_next(&step->domain, ~step->axes, index));
    tp_context_free(run->context, line, (size_t)n * sizeof *line);
    return TP_OK;
}

static tp_status softmax(const tp_step *step, tp_run *run)
{
    return lines(step, run, softmax_line);
}

static tp_status layer_norm(const tp_step *step, tp_run *run)
{
    return lines(step, run, norm_line);
}

/* ---- Products, gathers, ranges ------------------------------------------------------------------
 */

/* One element of the product: a row of a against a column of b. */
static tp_value dot(tp_dtype dtype, int64_t count, const char *a, int64_t a_step, const char *b,
                    int64_t b_step)
{
    long double sum = 0;
    uint64_t wrapped = 0;
    for (int64_t k = 0; k < count; k++, a += a_step, b += b_step) {
        tp_value x = tp_value_load(dtype, a), y = tp_value_load(dtype, b);
        if (is_float(dtype))
            sum += (long double)x.f * (long double)y.f;
        else
            wrapped += (uint64_t)x.i * (uint64_t)y.i;
    }
    return (tp_value){.f = (double)sum, .i = (int64_t)wrapped};
}

static tp_status matmul(const tp_step *step, tp_run *run)
{
    const tp_operand *a = &step->operand[0], *b = &step->operand[1];
    tp_dtype dtype = (tp_dtype)a->dtype;
    int rank = step->domain.ndim;
    int64_t index[TP_MAX_RANK] = {0}, inner = a->view.shape[rank - 1];
    int64_t size = (int64_t)tp_dtype_size(dtype);
    int64_t a_step = inner > 1 ? a->view.stride[rank - 1] * size : 0;
    int64_t b_step = inner > 1 ? b->view.stride[rank - 2] * size : 0;
    if (tp_view_numel(&step->domain) == 0) return TP_OK;
    do {
        int64_t at_a[TP_MAX_RANK], at_b[TP_MAX_RANK];
        memcpy(at_a, index, sizeof at_a);
        memcpy(at_b, index, sizeof at_b);
        at_a[rank - 1] = at_b[rank - 2] = 0;
        tp_value y =
            dot(dtype, inner, tp_ref_at(a, run, at_a), a_step, tp_ref_at(b, run, at_b), b_step);
        store(step, run, index, is_float(dtype) ? TP_F64 : dtype, y);
    } while (tp_ref_next(&step->domain, ALL_DIMS, index));
    return TP_OK;
}

static tp_status index_select(const tp_step *step, tp_run *run)
{
    const tp_operand *x = &step->operand[0], *indices = &step->operand[1];
    int64_t size = x->view.shape[step->axis], count = indices->view.shape[0];
    /* All indices are looked at before anything is written. */
    for (int64_t i = 0; i < count; i++) {
        tp_value v = tp_value_load((tp_dtype)indices->dtype, tp_ref_at(indices, run, &i));
        bool huge = indices->dtype == TP_U64 && v.i < 0;
        if (!huge && v.i >= -size && v.i < size) continue;
        run->fault[0] = v.i;
        run->fault[1] = i;
        run->fault[2] = size;
        return TP_E_BOUNDS;
    }
    int64_t index[TP_MAX_RANK] = {0};
    if (tp_view_numel(&step->domain) == 0) return TP_OK;
    do {
        int64_t from[TP_MAX_RANK];
        memcpy(from, index, sizeof from);
        int64_t picked =
            tp_value_load((tp_dtype)indices->dtype, tp_ref_at(indices, run, &index[step->axis])).i;
        from[step->axis] = picked < 0 ? picked + size : picked;
        memcpy(tp_ref_at(&step->out, run, index), tp_ref_at(x, run, from),
               tp_dtype_size((tp_dtype)x->dtype));
    } while (tp_ref_next(&step->domain, ALL_DIMS, index));
    return TP_OK;
}

static tp_status arange(const tp_step *step, tp_run *run)
{
    tp_dtype dtype = (tp_dtype)step->out.dtype;
    for (int64_t i = 0; i < step->domain.shape[0]; i++) {
        tp_value y = {.f = step->value[0].f + (double)i * step->value[1].f};
        y.i = (int64_t)((uint64_t)step->value[0].i + (uint64_t)i * (uint64_t)step->value[1].i);
        store(step, run, &i, is_float(dtype) ? TP_F64 : dtype == TP_U64 ? TP_U64 : TP_I64, y);
    }
    return TP_OK;
}

static int describe(char *text, size_t size)
{
    return snprintf(text, size, "ref, plain loops");
}

#define KERNEL(function)                                                                           \
    static const tp_kernel kernel_##function = {"ref_" #function, NULL, function, NULL};           \
    static const tp_kernel *const list_##function[] = {&kernel_##function, NULL};
KERNEL(ewise)
KERNEL(reduce)
KERNEL(softmax)
KERNEL(layer_norm)
KERNEL(matmul)
KERNEL(index_select)
KERNEL(arange)
#define KERNEL_ALONG(name)                                                                         \
    static const tp_kernel kernel_##name = {"ref_" #name, NULL, tp_ref_##name, NULL};              \
    static const tp_kernel *const list_##name[] = {&kernel_##name, NULL};
KERNEL_ALONG(take_along)
KERNEL_ALONG(scatter_add)
KERNEL_ALONG(scan)
KERNEL_ALONG(sort)
KERNEL_ALONG(random)

extern const tp_backend tp_backend_ref;
const tp_backend tp_backend_ref = {.name = "ref",
                                   .kernels = {[TP_STEP_EWISE] = list_ewise,
                                               [TP_STEP_REDUCE] = list_reduce,
                                               [TP_STEP_SOFTMAX] = list_softmax,
                                               [TP_STEP_LAYER_NORM] = list_layer_norm,
                                               [TP_STEP_MATMUL] = list_matmul,
                                               [TP_STEP_INDEX_SELECT] = list_index_select,
                                               [TP_STEP_TAKE_ALONG] = list_take_along,
                                               [TP_STEP_SCATTER_ADD] = list_scatter_add,
                                               [TP_STEP_SCAN] = list_scan,
                                               [TP_STEP_SORT] = list_sort,
                                               [TP_STEP_RANDOM] = list_random,
                                               [TP_STEP_ARANGE] = list_arange},
                                   .describe = describe};
