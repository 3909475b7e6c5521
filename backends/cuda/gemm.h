/* Products, by file. */
#ifndef TP_CUDA_GEMM_H
#define TP_CUDA_GEMM_H

#include "text.h"

/* gemm.c: notes a MATMUL step that has a BLAS form, with k > 0, times alpha. */
tp_status tp_cuda_gemm_step(const tp_step *step, tp_run *run, double alpha);
/* own_gemm.c: every dtype, any strides. */
extern const tp_kernel tp_cuda_own_gemm;

#endif
