/* Elementwise kernels, by file. */
#ifndef TP_CUDA_EWISE_H
#define TP_CUDA_EWISE_H

#include "text.h"

/* transpose.c: one operand whose dense dim is not out's, through tiles in shared memory. */
extern const tp_kernel tp_cuda_transpose_kernel;

#endif
