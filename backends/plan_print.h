/* What the text and the picture of a plan share. */
#ifndef TP_PLAN_PRINT_H
#define TP_PLAN_PRINT_H

#include "backend.h"

/* "matmul", or for a fused step the ops in it, the first few: "mul, add". */
void tp_plan_add_ops(tp_text *text, const tp_step *step);
/* "7 kernels, 0 copies (4 removed, 512.0 MiB not written)". */
void tp_plan_add_verdict(tp_text *text, const tp_plan *plan);
/* "12 us" or "3.4 ms". */
void tp_plan_add_time(tp_text *text, double time_ns);
/* Time of all kernels in the last profiled run, 0: there was none. */
double tp_plan_time_ns(const tp_plan *plan);

/* Why a product runs on a general kernel although it has the BLAS's type: the operands' form;
 * TP_REASON_NONE for every other step. */
tp_reason tp_plan_refusal(const tp_plan *plan, const tp_step *step);

/* plan_absorb.c: for every row of the ledger the step that made a removed copy unnecessary - it
 * reads the source in place, or stores straight into the layout - and -1 for kept rows and
 * where no step is to be named. absorber has copy_count ints. False: out of memory, recorded. */
bool tp_plan_find_absorbers(const tp_plan *plan, int *absorber);

#endif
