/* The tables of row loops that this machine can run. */
#ifndef TP_TEST_CPU_TABLES_H
#define TP_TEST_CPU_TABLES_H

#include "backends/cpu/loops.h"

extern const tp_cpu_loops tp_cpu_loops_base;
#if defined(__x86_64__)
extern const tp_cpu_loops tp_cpu_loops_avx2, tp_cpu_loops_avx512;
#endif

static inline const tp_cpu_loops *cpu_table(int isa)
{
#if defined(__x86_64__)
    if (isa == 1) return &tp_cpu_loops_avx2;
    if (isa == 2) return &tp_cpu_loops_avx512;
#endif
    return isa == 0 ? &tp_cpu_loops_base : NULL;
}

static inline int cpu_tables(void)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 1;
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd")
               ? 3
               : 2;
#else
    return 1;
#endif
}

#endif
