/* The loop nest of a step: dims sorted and merged jointly over all operands. */
#ifndef TP_CPU_NEST_H
#define TP_CPU_NEST_H

#include "../backend.h"

#include "program.h"

/* Operand 0 is out, then the loads. Dims run from outer to inner; strides in bytes; size-1 dims
 * are gone; at least one dim. */
typedef struct tp_nest {
    int ndim, operands;
    int64_t shape[TP_MAX_RANK];
    char *base[2 * TP_PROGRAM_LOADS + 1];
    int64_t stride[2 * TP_PROGRAM_LOADS + 1][TP_MAX_RANK];
} tp_nest;

/* The dims of domain in `mask` over the first `loads` operands of a step and, as operand 0, out.
 * sort: order them for memory (out's strides decide, then the loads'), otherwise keep the row-major
 * order. Negative strides of out are turned round. */
void tp_nest_make(tp_nest *nest, const tp_step *step, const tp_run *run, int first, int loads,
                  uint32_t mask, bool sort);
/* If an operand runs fastest along another dim than the innermost (a transposed one), moves that
 * dim next to the innermost and gives true. The order of the elements must not matter. */
bool tp_nest_bring_in(tp_nest *nest, int operand);
/* Byte offset of an operand at row-major position `at` of the outer `dims` dims. */
int64_t tp_nest_offset(const tp_nest *nest, int operand, int dims, int64_t at);
/* An operand's rows over the two innermost dims, from element (row, i) of them on, at row-major
 * position `outer` of the other dims. */
tp_rows tp_nest_rows(const tp_nest *nest, int operand, int64_t outer, int64_t row, int64_t i);

#endif
