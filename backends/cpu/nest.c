/* Loop nests. The rule for iteration: drop size-1 dims, sort by stride (a stride of 0 does not
 * decide), merge neighbours that every operand walks as one. */
#include "nest.h"

/* Whether dim a should run outside dim b. */
static bool outside(const tp_nest *nest, int a, int b)
{
    for (int k = 0; k < nest->operands; k++) {
        int64_t x = nest->stride[k][a], y = nest->stride[k][b];
        x = x < 0 ? -x : x;
        y = y < 0 ? -y : y;
        if (x == 0 || y == 0 || x == y) continue;
        return x > y;
    }
    return true; /* undecided: as they stand */
}

static void swap_dims(tp_nest *nest, int a, int b)
{
    int64_t size = nest->shape[a];
    nest->shape[a] = nest->shape[b];
    nest->shape[b] = size;
    for (int k = 0; k < nest->operands; k++) {
        int64_t stride = nest->stride[k][a];
        nest->stride[k][a] = nest->stride[k][b];
        nest->stride[k][b] = stride;
    }
}

static void sort_dims(tp_nest *nest)
{
    for (int i = 1; i < nest->ndim; i++) {
        for (int j = i; j > 0 && !outside(nest, j - 1, j); j--) swap_dims(nest, j - 1, j);
    }
}

static void turn_round(tp_nest *nest)
{
    for (int d = 0; d < nest->ndim; d++) {
        if (nest->stride[0][d] >= 0) continue;
        for (int k = 0; k < nest->operands; k++) {
            nest->base[k] += (nest->shape[d] - 1) * nest->stride[k][d];
            nest->stride[k][d] = -nest->stride[k][d];
        }
    }
}

static void merge_dims(tp_nest *nest)
{
    int last = 0;
    for (int d = 1; d < nest->ndim; d++) {
        bool one = true;
        for (int k = 0; k < nest->operands; k++)
            one = one && nest->stride[k][last] == nest->stride[k][d] * nest->shape[d];
        if (one)
            nest->shape[last] *= nest->shape[d];
        else {
            last++;
            nest->shape[last] = nest->shape[d];
        }
        for (int k = 0; k < nest->operands; k++) nest->stride[k][last] = nest->stride[k][d];
    }
    nest->ndim = last + 1;
}

void tp_nest_make(tp_nest *nest, const tp_step *step, const tp_run *run, int first, int loads,
                  uint32_t mask, bool sort)
{
    nest->operands = loads + 1;
    nest->ndim = 0;
    for (int d = 0; d < step->domain.ndim; d++) {
        if (!(mask >> d & 1U) || step->domain.shape[d] == 1) continue;
        nest->shape[nest->ndim++] = step->domain.shape[d];
    }
    for (int k = 0; k <= loads; k++) {
        const tp_operand *o = k ? &step->operand[first + k - 1] : &step->out;
        int64_t size = (int64_t)tp_dtype_size((tp_dtype)o->dtype);
        nest->base[k] = tp_operand_at(o, run);
        for (int d = 0, to = 0; d < step->domain.ndim; d++) {
            if ((mask >> d & 1U) && step->domain.shape[d] != 1)
                nest->stride[k][to++] = o->view.shape[d] == 1 ? 0 : o->view.stride[d] * size;
        }
    }
    if (sort) {
        sort_dims(nest);
        turn_round(nest);
    }
    if (nest->ndim > 0)
        merge_dims(nest);
    else {
        nest->ndim = 1;
        nest->shape[0] = 1;
        for (int k = 0; k <= loads; k++) nest->stride[k][0] = 0;
    }
}

static int64_t magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

bool tp_nest_bring_in(tp_nest *nest, int operand)
{
    int inner = nest->ndim - 1, best = inner;
    const int64_t *stride = nest->stride[operand];
    if (stride[inner] == 0) return false;
    for (int d = 0; d < inner; d++) {
        if (stride[d] && magnitude(stride[d]) < magnitude(stride[best])) best = d;
    }
    if (best == inner) return false;
    for (int d = best; d < inner - 1; d++) swap_dims(nest, d, d + 1);
    return true;
}

int64_t tp_nest_offset(const tp_nest *nest, int operand, int dims, int64_t at)
{
    int64_t offset = 0;
    for (int d = dims - 1; d >= 0; d--) {
        offset += at % nest->shape[d] * nest->stride[operand][d];
        at /= nest->shape[d];
    }
    return offset;
}

tp_rows tp_nest_rows(const tp_nest *nest, int operand, int64_t outer, int64_t row, int64_t i)
{
    int inner = nest->ndim - 1;
    int64_t row_stride = inner > 0 ? nest->stride[operand][inner - 1] : 0,
            stride = nest->stride[operand][inner];
    char *at = nest->base[operand] +
               tp_nest_offset(nest, operand, inner > 0 ? inner - 1 : 0, outer) + row * row_stride +
               i * stride;
    return (tp_rows){at, row_stride, stride};
}
