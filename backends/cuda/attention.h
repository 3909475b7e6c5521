/* Attention, by file. */
#ifndef TP_CUDA_ATTENTION_H
#define TP_CUDA_ATTENTION_H

#include "gemm.h"

/* attention_mma.c: f16 and bf16, heads up to 128 wide, one kernel. */
extern const tp_kernel tp_cuda_attention_mma;

#endif
