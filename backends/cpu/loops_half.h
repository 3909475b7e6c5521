/* Rows of f16 and bf16: to float, back, and rounded in place. Included by loops.c only. With F16C
 * the machine converts f16; its bits are those of the formulas, which serve tails and machines
 * without it. */
#ifndef TP_CPU_LOOPS_HALF_H
#define TP_CPU_LOOPS_HALF_H

#include "half.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

/* y[i] = expression of x[i]; `wide` does what a vector can and leaves i at the rest. */
#define HALF_ROW(name, F, T, wide, expression)                                                     \
    static void name(int64_t n, const void *pa, const void *pb, const void *pc, void *py)          \
    {                                                                                              \
        const F *x = pa;                                                                           \
        T *y = py;                                                                                 \
        int64_t i = 0;                                                                             \
        (void)pb, (void)pc;                                                                        \
        wide for (; i < n; i++) y[i] = (expression);                                               \
    }
#define NOTHING_WIDE
#if defined(__AVX512F__)
#define WIDE_LOAD                                                                                  \
    for (; i + 16 <= n; i += 16)                                                                   \
        _mm512_storeu_ps(y + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(x + i))));
#define WIDE_STORE                                                                                 \
    for (; i + 16 <= n; i += 16)                                                                   \
        _mm256_storeu_si256((void *)(y + i), _mm512_cvtps_ph(_mm512_loadu_ps(x + i), 0));
#define WIDE_ROUND                                                                                 \
    for (; i + 16 <= n; i += 16)                                                                   \
        _mm512_storeu_ps(y + i, _mm512_cvtph_ps(_mm512_cvtps_ph(_mm512_loadu_ps(x + i), 0)));
#elif defined(__F16C__)
#define WIDE_LOAD                                                                                  \
    for (; i + 8 <= n; i += 8)                                                                     \
        _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(x + i))));
#define WIDE_STORE                                                                                 \
    for (; i + 8 <= n; i += 8)                                                                     \
        _mm_storeu_si128((void *)(y + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), 0));
#define WIDE_ROUND                                                                                 \
    for (; i + 8 <= n; i += 8)                                                                     \
        _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm256_cvtps_ph(_mm256_loadu_ps(x + i), 0)));
#else
#define WIDE_LOAD
#define WIDE_STORE
#define WIDE_ROUND
#endif
HALF_ROW(load_f16, uint16_t, float, WIDE_LOAD, half_to_float(x[i]))
HALF_ROW(store_f16, float, uint16_t, WIDE_STORE, float_to_half(x[i]))
HALF_ROW(round_f16, float, float, WIDE_ROUND, half_to_float(float_to_half(x[i])))
HALF_ROW(load_bf16, uint16_t, float, NOTHING_WIDE, brain_to_float(x[i]))
HALF_ROW(store_bf16, float, uint16_t, NOTHING_WIDE, float_to_brain(x[i]))
HALF_ROW(round_bf16, float, float, NOTHING_WIDE, brain_to_float(float_to_brain(x[i])))

#endif
