/* The CPU backend: its kernels and the choice of the instruction set. */
#include "blas.h"
#include "kernels.h"
#include "loops.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const tp_cpu_loops tp_cpu_loops_base;
#if defined(__x86_64__)
extern const tp_cpu_loops tp_cpu_loops_avx2, tp_cpu_loops_avx512;
#endif

static const tp_cpu_loops *chosen = &tp_cpu_loops_base;
static pthread_once_t chosen_once = PTHREAD_ONCE_INIT;

/* TP_ISA=base|avx2|avx512 in the environment takes a lesser set than the machine has. */
static void choose(void)
{
#if defined(__x86_64__)
    const char *wish = getenv("TP_ISA");
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                __builtin_cpu_supports("bmi2");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512cd");
    if (wish && strcmp(wish, "base") == 0) return;
    if (avx2) chosen = &tp_cpu_loops_avx2;
    if (avx512 && !(wish && strcmp(wish, "avx2") == 0)) chosen = &tp_cpu_loops_avx512;
#endif
}

const tp_cpu_loops *tp_cpu_loops_get(void)
{
    pthread_once(&chosen_once, choose);
    return chosen;
}

static int describe(char *text, size_t size)
{
    char blas[160];
    tp_blas_describe(blas, sizeof blas);
    return snprintf(text, size, "cpu %s, %s", tp_cpu_loops_get()->name, blas);
}

extern const tp_backend tp_backend_cpu;
const tp_backend tp_backend_cpu = {.name = "cpu",
                                   .kernels = {[TP_STEP_TAKE_ALONG] = tp_cpu_take_along_kernels,
                                               [TP_STEP_SCATTER_ADD] = tp_cpu_scatter_add_kernels,
                                               [TP_STEP_SCAN] = tp_cpu_scan_kernels,
                                               [TP_STEP_SORT] = tp_cpu_sort_kernels,
                                               [TP_STEP_RANDOM] = tp_cpu_random_kernels,
                                               [TP_STEP_EWISE] = tp_cpu_ewise_kernels,
                                               [TP_STEP_REDUCE] = tp_cpu_reduce_kernels,
                                               [TP_STEP_SOFTMAX] = tp_cpu_softmax_kernels,
                                               [TP_STEP_LAYER_NORM] = tp_cpu_layer_norm_kernels,
                                               [TP_STEP_MATMUL] = tp_cpu_matmul_kernels,
                                               [TP_STEP_ATTENTION] = tp_cpu_attention_kernels,
                                               [TP_STEP_INDEX_SELECT] = tp_cpu_index_select_kernels,
                                               [TP_STEP_ARANGE] = tp_cpu_arange_kernels},
                                   .describe = describe};
