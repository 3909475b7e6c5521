/* The loops of plain.h. This file is compiled once per instruction set with BENCH_ISA set. Its
 * exponentials are Taylor polynomials after a reduction by ln 2: as long as good ones, and without
 * branches, so that the compiler makes vectors of them. */
#include "plain.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define STRING_(a) #a
#define STRING(a) STRING_(a)
#if defined(__GNUC__) && !defined(__clang__)
#define EACH _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)
#else
#define EACH for (int64_t i = 0; i < n; i++)
#endif

/* 2^k for an integer k in the range of normal numbers. */
static inline float power_of_two(float k)
{
    int32_t bits = ((int32_t)k + 127) << 23;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* k and r with x = k ln 2 + r, |r| <= ln 2 / 2: adding 1.5 2^23 rounds. */
static inline float reduce(float x, float *r)
{
    float shifted = x * 1.44269504F + 12582912.0F, k = shifted - 12582912.0F;
    *r = x - k * 0.693145752F - k * 1.42860677e-6F;
    return k;
}

/* e^r - 1 */
static inline float taylor(float r)
{
    float p = 1.0F / 5040;
    p = p * r + 1.0F / 720;
    p = p * r + 1.0F / 120;
    p = p * r + 1.0F / 24;
    p = p * r + 1.0F / 6;
    p = p * r + 0.5F;
    return p * r * r + r;
}

static inline float clamp(float x, float most)
{
    x = x > most ? most : x;
    return x < -most ? -most : x;
}

static inline float exponential(float x)
{
    float r, k = reduce(clamp(x, 87), &r);
    return (taylor(r) + 1) * power_of_two(k);
}

static inline float tangent(float x)
{
    float r, k = reduce(clamp(2 * x, 40), &r), scale = power_of_two(k);
    float e = taylor(r) * scale + (scale - 1);
    return e / (e + 2);
}

#define LOOP(name, TA, TB, TC, TY, expression)                                                     \
    static void name(int64_t n, const void *pa, const void *pb, const void *pc, void *py)          \
    {                                                                                              \
        const TA *a = pa;                                                                          \
        const TB *b = pb;                                                                          \
        const TC *c = pc;                                                                          \
        TY *y = py;                                                                                \
        (void)a, (void)b, (void)c;                                                                 \
        EACH y[i] = (expression);                                                                  \
    }
#define F32_LOOP(name, expression) LOOP(name, float, float, float, float, expression)

static inline float twenty_of(float a, float b, float c)
{
    float t = a;
    for (int k = 0; k < 5; k++) {
        t = t * b;
        t = t + c;
        t = t - a;
        t = t * 0.5F;
    }
    return t;
}

static inline float sigmoid_of(float x)
{
    return 1 / (1 + exponential(-x));
}

static inline float gelu_of(float x)
{
    return 0.5F * x * (1 + tangent(0.797884561F * (x + 0.044715F * x * x * x)));
}

static inline float relu_of(float x)
{
    return x > 0 ? x : 0;
}

F32_LOOP(pass, a[i] + 1)
F32_LOOP(triad, a[i] + 3 * b[i])
F32_LOOP(fill, 1.5F)
F32_LOOP(mul_add, a[i] * b[i] + c[i])
F32_LOOP(sigmoid_exp, sigmoid_of(a[i]) * b[i] + exponential(c[i]))
F32_LOOP(twenty, twenty_of(a[i], b[i], c[i]))
F32_LOOP(relu_scale, relu_of(a[i] * 2 + 1))
LOOP(mixed, int32_t, float, float, float, (float)a[i] * 0.5F + b[i])
LOOP(widen_u8, uint8_t, float, float, float, ((float)a[i] - 127.5F) * 0.015625F)
F32_LOOP(gelu_row, gelu_of(a[i] + b[i]))
F32_LOOP(relu_row, relu_of(a[i] * b[i] + c[i]))

/* n is a multiple of BENCH_ROW. */
static void gelu_bias(int64_t n, const void *a, const void *b, const void *c, void *y)
{
    for (int64_t i = 0; i < n; i += BENCH_ROW)
        gelu_row(BENCH_ROW, (const float *)a + i, b, c, (float *)y + i);
}

static void relu_rows(int64_t n, const void *a, const void *b, const void *c, void *y)
{
    for (int64_t i = 0; i < n; i += BENCH_ROW)
        relu_row(BENCH_ROW, (const float *)a + i, b, c, (float *)y + i);
}

/* Lanes are what strict floats need to make vectors of a sum. */
#define LANES 64
#define SUM_LOOP(name, expression)                                                                 \
    static void name(int64_t n, const void *pa, const void *pb, const void *pc, void *py)          \
    {                                                                                              \
        const float *a = pa, *b = pb;                                                              \
        float lane[LANES] = {0}, *y = py;                                                          \
        int64_t i = 0;                                                                             \
        (void)b, (void)pc;                                                                         \
        for (; i + LANES <= n; i += LANES) {                                                       \
            for (int64_t j = i; j < i + LANES; j++) lane[j - i] += (expression);                   \
        }                                                                                          \
        for (int64_t j = i; j < n; j++) lane[j - i] += (expression);                               \
        for (int j = 1; j < LANES; j++) lane[0] += lane[j];                                        \
        *y = lane[0];                                                                              \
    }
SUM_LOOP(read_sum, a[j])
SUM_LOOP(square_sum, (a[j] - b[j]) * (a[j] - b[j]))

/* Non-temporal stores want y aligned to a vector. Where there are none, plain ones stand in. */
#if defined(__AVX512F__)
#define WIDTH 16
#define STREAM(y, x) _mm512_stream_ps(y, _mm512_loadu_ps(x))
#define FENCE() _mm_sfence()
#elif defined(__AVX2__)
#define WIDTH 8
#define STREAM(y, x) _mm256_stream_ps(y, _mm256_loadu_ps(x))
#define FENCE() _mm_sfence()
#elif defined(__x86_64__)
#define WIDTH 4
#define STREAM(y, x) _mm_stream_ps(y, _mm_loadu_ps(x))
#define FENCE() _mm_sfence()
#else
#define WIDTH 4
#define STREAM(y, x) memcpy(y, x, sizeof(float[WIDTH]))
#define FENCE() ((void)0)
#endif
#define STREAM_LOOP(name, expression)                                                              \
    static void name(int64_t n, const void *pa, const void *pb, const void *pc, void *py)          \
    {                                                                                              \
        const float *a = pa, *b = pb;                                                              \
        float *y = py;                                                                             \
        int64_t at = 0;                                                                            \
        (void)b, (void)pc;                                                                         \
        for (; at + WIDTH <= n; at += WIDTH) {                                                     \
            float block[WIDTH];                                                                    \
            for (int64_t i = at; i < at + WIDTH; i++) block[i - at] = (expression);                \
            STREAM(y + at, block);                                                                 \
        }                                                                                          \
        for (int64_t i = at; i < n; i++) y[i] = (expression);                                      \
        FENCE();                                                                                   \
    }
STREAM_LOOP(pass_nt, a[i] + 1)
STREAM_LOOP(triad_nt, a[i] + 3 * b[i])

static void clean_registers(void)
{
#if defined(__AVX__)
    _mm256_zeroupper();
#endif
}

static void transpose_naive(int64_t rows, int64_t columns, const float *x, float *y)
{
    for (int64_t c = 0; c < columns; c++) {
        for (int64_t r = 0; r < rows; r++) y[c * rows + r] = x[r * columns + c];
    }
}

extern const bench_plain PASTE(bench_plain_, BENCH_ISA);
const bench_plain PASTE(bench_plain_, BENCH_ISA) = {
    .isa = STRING(BENCH_ISA),
#define NAME(name, meaning) .name = name,
    BENCH_PLAIN_LOOPS(NAME)
#undef NAME
        .clean_registers = clean_registers,
    .transpose_naive = transpose_naive,
};
