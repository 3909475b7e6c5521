/* The reference for what works along one axis, and for random numbers: plain loops. */
#include "ref.h"

#include "../random.h"

#include <math.h>
#include <string.h>

#define ALL_DIMS UINT32_MAX

static bool is_float(tp_dtype dtype)
{
    return tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT;
}

static tp_value load(const tp_operand *o, const tp_run *run, const int64_t *index)
{
    return tp_value_load((tp_dtype)o->dtype, tp_ref_at(o, run, index));
}

/* Row-major position of an index. */
static int64_t position(const tp_view *shape, const int64_t *index)
{
    int64_t at = 0;
    for (int d = 0; d < shape->ndim; d++) at = at * shape->shape[d] + index[d];
    return at;
}

/* The place along an axis of `size` that operand o names at index; false out of range. */
static bool place_of(const tp_operand *o, tp_run *run, const int64_t *index, int64_t size,
                     int64_t *place)
{
    tp_value v = load(o, run, index);
    bool huge = o->dtype == TP_U64 && v.i < 0;
    *place = v.i < 0 ? v.i + size : v.i;
    if (!huge && v.i >= -size && v.i < size) return true;
    run->fault[0] = v.i;
    run->fault[1] = position(&o->view, index);
    run->fault[2] = size;
    return false;
}

tp_status tp_ref_take_along(const tp_step *step, tp_run *run)
{
    const tp_operand *x = &step->operand[0];
    int64_t index[TP_MAX_RANK] = {0}, size = x->view.shape[step->axis];
    if (tp_view_numel(&step->domain) == 0) return TP_OK;
    do {
        int64_t from[TP_MAX_RANK];
        memcpy(from, index, sizeof from);
        if (!place_of(&step->operand[1], run, index, size, &from[step->axis])) return TP_E_BOUNDS;
        memcpy(tp_ref_at(&step->out, run, index), tp_ref_at(x, run, from),
               tp_dtype_size((tp_dtype)x->dtype));
    } while (tp_ref_next(&step->domain, ALL_DIMS, index));
    return TP_OK;
}

tp_status tp_ref_scatter_add(const tp_step *step, tp_run *run)
{
    tp_dtype dtype = (tp_dtype)step->out.dtype;
    int64_t index[TP_MAX_RANK] = {0}, size = step->out.view.shape[step->axis];
    if (tp_view_numel(&step->domain) == 0) return TP_OK;
    do {
        int64_t to[TP_MAX_RANK];
        memcpy(to, index, sizeof to);
        if (!place_of(&step->operand[0], run, index, size, &to[step->axis])) return TP_E_BOUNDS;
        tp_value sum = load(&step->out, run, to), more = load(&step->operand[1], run, index);
        sum.f = dtype == TP_F32 ? (double)((float)sum.f + (float)more.f) : sum.f + more.f;
        sum.i = (int64_t)((uint64_t)sum.i + (uint64_t)more.i);
        tp_value_store(dtype, tp_ref_at(&step->out, run, to),
                       is_float(dtype)   ? TP_F64
                       : dtype == TP_U64 ? TP_U64
                                         : TP_I64,
                       sum);
    } while (tp_ref_next(&step->domain, ALL_DIMS, index));
    return TP_OK;
}

/* ---- Running sums ------------------------------------------------------------------------ */

static bool is_larger(tp_dtype dtype, tp_value x, tp_value best)
{
    if (!is_float(dtype)) return dtype == TP_U64 ? (uint64_t)x.i > (uint64_t)best.i : x.i > best.i;
    if (best.f != best.f) return false;
    if (x.f != x.f) return true;
    return x.f == best.f ? signbit(best.f) && !signbit(x.f) : x.f > best.f;
}

tp_status tp_ref_scan(const tp_step *step, tp_run *run)
{
    tp_dtype calc = (tp_dtype)step->calc;
    bool floats = is_float(calc);
    int64_t index[TP_MAX_RANK] = {0};
    if (tp_view_numel(&step->domain) == 0) return TP_OK;
    do {
        long double sum = 0, product = 1;
        uint64_t wrapped = 0, wrapped_product = 1;
        tp_value best = {0};
        do {
            tp_value x = load(&step->operand[0], run, index), y = {0};
            sum += (long double)x.f;
            product *= (long double)x.f;
            wrapped += (uint64_t)x.i;
            wrapped_product *= (uint64_t)x.i;
            if (index[step->axis] == 0 || is_larger(calc, x, best)) best = x;
            y.f = (double)(step->op == TP_OP_CUMSUM ? sum : product);
            y.i = (int64_t)(step->op == TP_OP_CUMSUM ? wrapped : wrapped_product);
            if (step->op == TP_OP_CUMMAX) y = best;
            tp_value_store((tp_dtype)step->out.dtype, tp_ref_at(&step->out, run, index),
                           floats           ? TP_F64
                           : calc == TP_U64 ? TP_U64
                                            : TP_I64,
                           y);
        } while (tp_ref_next(&step->domain, 1U << step->axis, index));
    } while (tp_ref_next(&step->domain, ~(1U << step->axis), index));
    return TP_OK;
}

/* ---- Sorting: by insertion ------------------------------------------------------------------- */

/* Whether y belongs before x, which came first. */
static bool belongs_before(const tp_step *step, tp_value y, tp_value x)
{
    tp_dtype dtype = (tp_dtype)step->operand[0].dtype;
    bool descending = step->value[0].i != 0;
    tp_value low = descending ? x : y, high = descending ? y : x;
    if (!is_float(dtype))
        return dtype == TP_U64 ? (uint64_t)low.i < (uint64_t)high.i : low.i < high.i;
    return high.f != high.f ? low.f == low.f : low.f < high.f;
}

static void sort_line(const tp_step *step, tp_run *run, int64_t *index, int64_t *order)
{
    const tp_operand *x = &step->operand[0];
    int64_t n = step->domain.shape[step->axis];
    for (int64_t i = 0; i < n; i++) {
        index[step->axis] = i;
        tp_value next = load(x, run, index);
        int64_t at = i;
        for (; at > 0; at--) {
            index[step->axis] = order[at - 1];
            if (!belongs_before(step, next, load(x, run, index))) break;
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t from[TP_MAX_RANK];
        index[step->axis] = i;
        memcpy(from, index, sizeof from);
        from[step->axis] = order[i];
        if (step->op == TP_OP_SORT)
            memcpy(tp_ref_at(&step->out, run, index), tp_ref_at(x, run, from),
                   tp_dtype_size((tp_dtype)x->dtype));
        else
            memcpy(tp_ref_at(&step->out, run, index), &order[i], sizeof order[i]);
    }
    index[step->axis] = 0;
}

tp_status tp_ref_sort(const tp_step *step, tp_run *run)
{
    int64_t index[TP_MAX_RANK] = {0};
    if (tp_view_numel(&step->domain) == 0) return TP_OK;
    size_t bytes = (size_t)step->domain.shape[step->axis] * sizeof(int64_t);
    int64_t *order = tp_context_alloc(run->context, bytes);
    if (!order) return TP_E_NOMEM;
    do sort_line(step, run, index, order);
    while (tp_ref_next(&step->domain, ~(1U << step->axis), index));
    tp_context_free(run->context, order, bytes);
    return TP_OK;
}

/* ---- Random numbers ----------------------------------------------------------------------------
 */

tp_status tp_ref_random(const tp_step *step, tp_run *run)
{
    tp_dtype dtype = (tp_dtype)step->out.dtype;
    int digits = dtype == TP_F64 ? 53 : dtype == TP_F32 ? 24 : dtype == TP_F16 ? 11 : 8;
    int64_t index[TP_MAX_RANK] = {0}, i = 0;
    if (tp_view_numel(&step->domain) == 0) return TP_OK;
    do {
        uint64_t bits[2];
        tp_random_pair((uint64_t)step->value[0].i, (uint64_t)i / 2, bits);
        tp_value y = {.f = step->op == TP_OP_RANDOM_UNIFORM
                               ? tp_random_uniform_of(bits[i % 2], digits)
                               : tp_random_normal_of(bits[i % 2])};
        tp_value_store(dtype, tp_ref_at(&step->out, run, index), TP_F64, y);
        i++;
    } while (tp_ref_next(&step->domain, ALL_DIMS, index));
    return TP_OK;
}
