#include "cuda.h"
const tp_kernel *const tp_cuda_attention_kernels[] = {NULL};
