/* What the files of the reference backend share. */
#ifndef TP_REF_H
#define TP_REF_H

#include "../backend.h"

/* Address of element index of an operand. */
char *tp_ref_at(const tp_operand *operand, const tp_run *run, const int64_t *index);
/* Counts index up in row-major order over the dims in mask; false after the last. */
bool tp_ref_next(const tp_view *shape, uint32_t mask, int64_t *index);
/* The program's result at index. Its value i is `given` for i = 0 if given is not NULL; the
 * other loads are operands from `first` on. */
tp_value tp_ref_program(const tp_program *program, const tp_step *step, const tp_run *run,
                        int first, const tp_value *given, tp_dtype given_dtype,
                        const int64_t *index, tp_dtype *dtype);

/* along.c: kernels along one axis, and random numbers. */
tp_status tp_ref_take_along(const tp_step *step, tp_run *run);
tp_status tp_ref_scatter_add(const tp_step *step, tp_run *run);
tp_status tp_ref_scan(const tp_step *step, tp_run *run);
tp_status tp_ref_sort(const tp_step *step, tp_run *run);
tp_status tp_ref_random(const tp_step *step, tp_run *run);

#endif
