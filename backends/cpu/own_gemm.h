/* Our own matrix product: any dtype, any strides. */
#ifndef TP_CPU_OWN_GEMM_H
#define TP_CPU_OWN_GEMM_H

#include "../backend.h"

extern const tp_kernel tp_own_gemm;
/* Writes 0 to every element of out: a product over nothing. */
tp_status tp_own_gemm_zero(const tp_step *step, tp_run *run);

#endif
