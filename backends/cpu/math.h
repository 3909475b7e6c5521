/* The m_ functions of ops.def for the CPU: f32 as branch-free polynomials that the compiler
 * vectorises, f64 from the C library. No fma: the bits are the same on every instruction set,
 * in a vector body and in a tail.
 *
 * Coefficients: Taylor for exp and atanh; the others are minimax fits (Remez exchange) made for
 * this file. Largest errors: tests/ops/test_accuracy.c. */
#ifndef TP_CPU_MATH_H
#define TP_CPU_MATH_H

#include "../shared_math.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static inline float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* e^r - 1 - r over r^2, |r| <= ln 2 / 2. */
static inline float exp_series_f32(float r)
{
    float q = 1.98412698e-4F;
    q = q * r + 1.38888889e-3F;
    q = q * r + 8.33333333e-3F;
    q = q * r + 4.16666667e-2F;
    q = q * r + 1.66666667e-1F;
    return q * r + 0.5F;
}

/* x / ln 2 to the nearest integer plus 3 2^22, whose lowest bits are then that integer. */
static inline float exp_shifted_f32(float x)
{
    return x * 1.44269504F + 0x1.8p23F;
}

/* x - n ln 2, the first product exact. */
static inline float exp_reduce_f32(float x, float n)
{
    return (x - n * 0x1.63p-1F) - n * -2.12194440e-4F;
}

/* x 2^i, -252 <= i <= 254, in two factors so that denormals come out right. */
static inline float scale_f32(float x, int32_t i)
{
    int32_t half = i >> 1;
    return x * float_of((uint32_t)(half + 127) << 23) * float_of((uint32_t)(i - half + 127) << 23);
}

/* e^x: x = i ln 2 + r. */
static inline float m_exp_f32(float x)
{
    float z = x < -104.0F ? -104.0F : x;
    z = z > 89.0F ? 89.0F : z; /* NaN passes both */
    float shifted = exp_shifted_f32(z), r = exp_reduce_f32(z, shifted - 0x1.8p23F);
    float p = r + r * r * exp_series_f32(r) + 1.0F;
    float y = scale_f32(p, (int32_t)(bits_of(shifted) - 0x4B400000U));
    return x != x ? x : y;
}

/* ln x: x = 2^k m, m in [sqrt 1/2, sqrt 2); ln m = 2 atanh s, s = (m-1)/(m+1). */
static inline float m_log_f32(float x)
{
    bool tiny = x < 0x1p-126F;
    float scaled = tiny ? x * 0x1p23F : x;
    uint32_t bits = bits_of(scaled) - 0x3F3504F3U;
    int32_t k = (int32_t)bits >> 23;
    float m = float_of((bits & 0x007FFFFFU) + 0x3F3504F3U);
    float e = (float)(k - (tiny ? 23 : 0));
    float f = m - 1.0F, s = f / (2.0F + f), t = s * s;
    float q = 0.0909090909F;
    q = q * t + 0.111111111F;
    q = q * t + 0.142857143F;
    q = q * t + 0.2F;
    q = q * t + 0.333333333F;
    /* 2 atanh s = f - (f - 2s) + 2 s t q, with f - 2s = s f exactly enough. */
    float y = e * 0x1.62ep-1F + (f - (s * f - 2.0F * s * t * q - e * 0x1.0bfbe8p-15F));
    y = x == 0 ? -INFINITY : y;
    y = x < 0 ? NAN : y;
    return x == INFINITY || x != x ? x : y;
}

/* tanh: an odd polynomial near 0, beyond it 1 - 2 / (e^2|x| + 1). */
static inline float m_tanh_f32(float x)
{
    float size = fabsf(x), t = x * x;
    float q = 2.24847590e-3F;
    q = q * t - 8.30467407e-3F;
    q = q * t + 2.17569302e-2F;
    q = q * t - 5.39577992e-2F;
    q = q * t + 1.33332975e-1F;
    q = q * t - 3.33333331e-1F;
    float near = size + size * t * q;
    float far = 1.0F - 2.0F / (m_exp_f32(2.0F * size) + 1.0F);
    return copysignf(size < 0.625F ? near : far, x);
}

/* e^p for the logarithm p of erfc at size in [1, 4]. */
static inline float erfc_tail_f32(float size)
{
    float c = size > 4.0F ? 4.0F : size;
    float p = -2.16867380e-5F;
    p = p * c + 4.41334984e-4F;
    p = p * c - 4.20455459e-3F;
    p = p * c + 2.52082360e-2F;
    p = p * c - 1.08418543e-1F;
    p = p * c - 6.33219927e-1F;
    p = p * c - 1.12957841F;
    p = p * c + 1.88036055e-4F;
    return m_exp_f32(p);
}

static inline float m_erf_f32(float x)
{
    float size = fabsf(x), t = x * x;
    float q = 7.85386193e-5F;
    q = q * t - 8.01019375e-4F;
    q = q * t + 5.18832769e-3F;
    q = q * t - 2.68538119e-2F;
    q = q * t + 1.12835851e-1F;
    q = q * t - 3.76126258e-1F;
    q = q * t + 1.28379166e-1F;
    float near = size + size * q; /* 2/sqrt(pi) = 1 + 0.128...: the 1 is exact */
    float far = 1.0F - erfc_tail_f32(size);
    return x != x ? x : copysignf(size < 1.0F ? near : far, x);
}

/* a/2 (1 + erf(a / sqrt 2)) without its cancellation below 0: with u = |a| it is a - u w above 0
 * and -u w below, where w = erfc(u / sqrt 2) / 2 = e^(-u^2/2) q(t) / (u+2), t = (u-2) / (u+2). u^2
 * is taken as the exact square of u's upper half and a rest; 2^i comes last so that denormals round
 * once. */
static inline float m_gelu_f32(float a)
{
    float size = fabsf(a), u = size > 14.7F ? 14.7F : size; /* below: w u rounds to 0 */
    float t = (u - 2.0F) / (u + 2.0F);
    float q = -7.7476512e-05F;
    q = q * t + 2.90841027e-05F;
    q = q * t + 0.000725207509F;
    q = q * t + 0.000886264636F;
    q = q * t - 0.00189083014F;
    q = q * t - 0.0067524143F;
    q = q * t - 0.00048323004F;
    q = q * t + 0.036721725F;
    q = q * t + 0.0287984023F;
    q = q * t - 0.33140457F;
    q = q * t + 0.672407993F;
    float upper = float_of(bits_of(u) & 0xFFFFF000U);
    float z = -0.5F * upper * upper, rest = -0.5F * (u - upper) * (u + upper);
    float shifted = exp_shifted_f32(z + rest);
    float r = exp_reduce_f32(z, shifted - 0x1.8p23F) + rest;
    float w = q * (r + r * r * exp_series_f32(r) + 1.0F) / (u + 2.0F);
    int32_t i = (int32_t)(bits_of(shifted) - 0x4B400000U);
    float low = scale_f32(w * u, i), high = a * (1.0F - scale_f32(w, i));
    return a > 0 ? high : copysignf(low, a);
}

static inline float m_sqrt_f32(float a)
{
    return sqrtf(a);
}
static inline float m_abs_f32(float a)
{
    return fabsf(a);
}
static inline float m_pow_f32(float a, float b)
{
    return powf(a, b);
}
static inline double m_exp_f64(double a)
{
    return exp(a);
}
static inline double m_log_f64(double a)
{
    return log(a);
}
static inline double m_tanh_f64(double a)
{
    return tanh(a);
}
static inline double m_erf_f64(double a)
{
    return erf(a);
}
static inline double m_gelu_f64(double a)
{
    double y = 0.5 * a * erfc(a * -0.70710678118654752440); /* no cancellation below 0 */
    return a == -INFINITY ? -0.0 : y;
}
static inline double m_sqrt_f64(double a)
{
    return sqrt(a);
}
static inline double m_abs_f64(double a)
{
    return fabs(a);
}
static inline double m_pow_f64(double a, double b)
{
    return pow(a, b);
}

/* From the C library, not vectorised. */
#define LIBM_UNARY(name)                                                                           \
    static inline float m_##name##_f32(float a)                                                    \
    {                                                                                              \
        return name##f(a);                                                                         \
    }                                                                                              \
    static inline double m_##name##_f64(double a)                                                  \
    {                                                                                              \
        return name(a);                                                                            \
    }
#define LIBM_BINARY(name)                                                                          \
    static inline float m_##name##_f32(float a, float b)                                           \
    {                                                                                              \
        return name##f(a, b);                                                                      \
    }                                                                                              \
    static inline double m_##name##_f64(double a, double b)                                        \
    {                                                                                              \
        return name(a, b);                                                                         \
    }
LIBM_UNARY(exp2)
LIBM_UNARY(expm1)
LIBM_UNARY(log2)
LIBM_UNARY(log10)
LIBM_UNARY(log1p)
LIBM_UNARY(sin)
LIBM_UNARY(cos)
LIBM_UNARY(tan)
LIBM_UNARY(asin)
LIBM_UNARY(acos)
LIBM_UNARY(atan)
LIBM_UNARY(sinh)
LIBM_UNARY(cosh)
LIBM_UNARY(erfc)
LIBM_BINARY(atan2)
LIBM_BINARY(hypot)

/* Activations from the functions above. */
#define CPU_ACTIVATIONS(type, tag)                                                                 \
    static inline type m_silu_##tag(type a)                                                        \
    {                                                                                              \
        type y = a / (1 + m_exp_##tag(-a));                                                        \
        return a == -INFINITY ? (type)-0.0 : y;                                                    \
    }                                                                                              \
    static inline type m_gelu_tanh_##tag(type a)                                                   \
    {                                                                                              \
        type inner = (type)0.79788456080286535588 * (a + (type)0.044715 * (a * a * a));            \
        type y = (type)0.5 * a * (1 + m_tanh_##tag(inner));                                        \
        return a == -INFINITY ? (type)-0.0 : y;                                                    \
    }                                                                                              \
    static inline type m_softplus_##tag(type a)                                                    \
    {                                                                                              \
        return (a > 0 ? a : 0) + m_log1p_##tag(m_exp_##tag(-m_abs_##tag(a)));                      \
    }
CPU_ACTIVATIONS(float, f32)
CPU_ACTIVATIONS(double, f64)

/* relu(-0) = +0; NaN stays. minimum and maximum: NaN wins, -0 < +0. Adding two equal zeros of
 * different sign gives +0, the maximum; the minimum is the negated maximum of the negated. */
#define CPU_FLOAT(type, tag)                                                                       \
    static inline type m_relu_##tag(type a)                                                        \
    {                                                                                              \
        return a <= 0 ? (type)0 : a;                                                               \
    }                                                                                              \
    static inline type m_max_##tag(type a, type b)                                                 \
    {                                                                                              \
        type larger = a > b ? a : b;                                                               \
        type y = a == b && a == 0 ? a + b : larger;                                                \
        return a != a ? a : y;                                                                     \
    }                                                                                              \
    static inline type m_min_##tag(type a, type b)                                                 \
    {                                                                                              \
        type smaller = a < b ? a : b;                                                              \
        type y = a == b && a == 0 ? -(-a + -b) : smaller;                                          \
        return a != a ? a : y;                                                                     \
    }
CPU_FLOAT(float, f32)
CPU_FLOAT(double, f64)

#endif
