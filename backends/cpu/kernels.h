/* The kernels of the CPU backend, by kind of step; each list goes from special to general. */
#ifndef TP_CPU_KERNELS_H
#define TP_CPU_KERNELS_H

#include "../backend.h"

extern const tp_kernel *const tp_cpu_ewise_kernels[];
extern const tp_kernel *const tp_cpu_reduce_kernels[];
extern const tp_kernel *const tp_cpu_softmax_kernels[];
extern const tp_kernel *const tp_cpu_layer_norm_kernels[];
extern const tp_kernel *const tp_cpu_matmul_kernels[];
extern const tp_kernel *const tp_cpu_attention_kernels[];
extern const tp_kernel *const tp_cpu_index_select_kernels[];
extern const tp_kernel *const tp_cpu_take_along_kernels[];
extern const tp_kernel *const tp_cpu_scatter_add_kernels[];
extern const tp_kernel *const tp_cpu_scan_kernels[];
extern const tp_kernel *const tp_cpu_sort_kernels[];
extern const tp_kernel *const tp_cpu_random_kernels[];
extern const tp_kernel *const tp_cpu_arange_kernels[];

#endif
