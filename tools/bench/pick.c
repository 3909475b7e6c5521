/* The table of plain loops for this machine, by the tests that pick the library's own. */
#include "plain.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

extern const bench_plain bench_plain_base;
#if defined(__x86_64__)
extern const bench_plain bench_plain_avx2, bench_plain_avx512;
#endif

const bench_plain *bench_plain_get(void)
{
#if defined(__x86_64__)
    const char *wish = getenv("TP_ISA");
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                __builtin_cpu_supports("bmi2");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512cd");
    if (wish && strcmp(wish, "base") == 0) return &bench_plain_base;
    if (avx512 && !(wish && strcmp(wish, "avx2") == 0)) return &bench_plain_avx512;
    if (avx2) return &bench_plain_avx2;
#endif
    return &bench_plain_base;
}
