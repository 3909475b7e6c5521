/* The m_ functions of ops.def for the CPU: f32 branch-free, so that the compiler vectorises it, f64
 * from the C library. No fma where a loop could be a vector or not: the bits are the same on every
 * instruction set, in a vector body and in a tail.
 *
 * f32 functions are polynomials in f32 where a split of the argument keeps them within 2 ulp at
 * full width. Those that multiply several such factors calculate in f64, at half the width, and
 * round once: that takes no splits, and comes out subnormal as it should.
 *
 * Coefficients: Taylor for exp and atanh in f32; the others are minimax fits (Remez exchange) made
 * for this file. Largest errors: docs/accuracy.tsv. */
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

static inline double double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint64_t bits_of_double(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* ---- f32 in f32 --------------------------------------------------------------------------- */

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

/* top / (1 + e^-a), -110 <= a or NaN, with e^-a = 2^i (1 + c). It is top 2^-i / (2^-i + 1 + c): c
 * keeps the bits that 1 + c would lose, and 2^-i + 1 is split, so that the sum is rounded once. */
static inline float logistic_f32(float top, float a)
{
    float z = a > 20.0F ? 20.0F : a; /* beyond: 1 + e^-a rounds to 1 */
    float shifted = exp_shifted_f32(-z), n = shifted - 0x1.8p23F;
    float first = -z - n * 0x1.63p-1F, second = n * 2.12194440e-4F;
    float r = first + second, rest = first - r + second;
    float c = r + (r * r * exp_series_f32(r) + rest);
    int32_t i = (int32_t)(bits_of(shifted) - 0x4B400000U);
    float power = float_of((127U - (uint32_t)(i < 64 ? i : 64)) << 23); /* 2^-i, or next to 0 */
    float sum = 1.0F + power;
    return scale_f32(top / (sum + (c + (power - (sum - 1.0F)))), -i);
}

static inline float m_sigmoid_f32(float a)
{
    return logistic_f32(1.0F, a < -110.0F ? -110.0F : a);
}

static inline float m_silu_f32(float a)
{
    float z = a < -110.0F ? -110.0F : a; /* below: -0, and at -inf its limit */
    return logistic_f32(z, z);
}

/* ---- f32 in f64 --------------------------------------------------------------------------- */

/* e^x within 2^-34, |x| <= 700. */
static inline double wide_exp(double x)
{
    double shifted = x * 0x1.71547652b82fep0 + 0x1.8p52; /* as exp_shifted_f32 */
    double r = x - (shifted - 0x1.8p52) * 0x1.62e42fefa39efp-1;
    double q = 0x1.9f08963d48e27p-13;
    q = q * r + 0x1.6d8d06cc802dfp-10;
    q = q * r + 0x1.111270b2d5112p-7;
    q = q * r + 0x1.55548dc4a5dcap-5;
    q = q * r + 0x1.555554433c597p-3;
    q = q * r + 0x1.0000003a236c5p-1;
    double p = r + r * r * q + 1.0;
    return p * double_of((bits_of_double(shifted) << 52) + 0x3FF0000000000000U);
}

/* erfc v within 2^-30, 0 <= v <= 10.5: e^(-v^2) q(t) / (v + k), t = (v - k) / (v + k), k = 2.75. */
static inline double wide_erfc(double v)
{
    double by = 1.0 / (v + 2.75), t = (v - 2.75) * by;
    double q = -0x1.4fe4733be0995p-14;
    q = q * t - 0x1.04e2d6ea483bdp-12;
    q = q * t + 0x1.f7bd7781c761bp-12;
    q = q * t + 0x1.c01ca8c41d035p-10;
    q = q * t - 0x1.7516a1c99bd36p-8;
    q = q * t - 0x1.2f39f932c58d9p-8;
    q = q * t + 0x1.214e12e23ceb7p-4;
    q = q * t - 0x1.ef86d44cad031p-3;
    q = q * t + 0x1.0d9e8d499dbb0p-1;
    q = q * t - 0x1.b212730a506fcp-1;
    q = q * t + 0x1.10ad1d861b25bp+0;
    return q * by * wide_exp(-v * v);
}

static inline float m_erfc_f32(float a)
{
    float size = fabsf(a), v = size > 10.4F ? 10.4F : size; /* beyond: 0 */
    double y = wide_erfc((double)v);
    return (float)(a < 0 ? 2.0 - y : y);
}

/* a/2 (1 + erf(a / sqrt 2)) without its cancellation below 0: with w = erfc(|a| / sqrt 2) / 2 it
 * is a (1 - w) above 0 and a w below. */
static inline float m_gelu_f32(float a)
{
    float z = a < -14.7F ? -14.7F : a, size = fabsf(z); /* below: -0 */
    float u = size > 14.7F ? 14.7F : size;
    double w = 0.5 * wide_erfc((double)u * 0.70710678118654752440);
    return (float)((double)z * (a > 0 ? 1.0 - w : w));
}

/* a/2 (1 + tanh x) = a / (1 + e^-2x), which does not cancel. */
static inline float m_gelu_tanh_f32(float a)
{
    float z = a < -11.0F ? -11.0F : a; /* below: -0 */
    double u = z > 11.0F ? 11.0 : (double)z;
    double x = 0.79788456080286535588 * (u + 0.044715 * (u * u * u));
    return (float)((double)z / (1.0 + wide_exp(-2.0 * x)));
}

/* max(a, 0) + ln(1 + e), e = e^-|a|; ln(1 + e) = 2 atanh s, s = e / (2 + e). */
static inline float m_softplus_f32(float a)
{
    float size = fabsf(a), u = size > 110.0F ? 110.0F : size;
    double e = wide_exp(-(double)u), s = e / (2.0 + e), t = s * s;
    double q = 0x1.f1aeddfbe0485p-4;
    q = q * t + 0x1.b6d6a4f8b2f24p-4;
    q = q * t + 0x1.2509723763dcfp-3;
    q = q * t + 0x1.9996a87856250p-3;
    q = q * t + 0x1.5555585694c58p-2;
    return (float)((a > 0 ? (double)a : 0.0) + (2.0 * s + 2.0 * s * t * q));
}

/* ---- From the C library --------------------------------------------------------------------- */

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
LIBM_BINARY(atan2)
LIBM_BINARY(hypot)

static inline double m_erfc_f64(double a)
{
    return erfc(a);
}

/* ---- f64 activations ------------------------------------------------------------------------ */

/* top / (1 + e^(x + rest)), rest tiny; e^x may overflow where the quotient does not vanish. The
 * double next to e^-652 is off by less than 2^-64 of it. */
static inline double logistic_f64(double top, double x, double rest)
{
    if (x > 600) {
        double e = exp(652 - x);
        return top * (e - e * rest) * 0x1.4933f2d676e53p-941;
    }
    double e = exp(x);
    return top / (1 + (e + e * rest));
}

/* The sum's rounding is taken back, or it would be half of the error. */
static inline double m_sigmoid_f64(double a)
{
    double e = exp(-fabs(a)), sum = 1 + e, rest = e - (sum - 1);
    double y = (a < 0 ? e : 1) / sum;
    return y - y * (rest / sum);
}

static inline double m_silu_f64(double a)
{
    double z = a < -800 ? -800 : a; /* below: -0 */
    return logistic_f64(z, -z, 0);
}

static inline double m_softplus_f64(double a)
{
    return (a > 0 ? a : 0) + log1p(exp(-fabs(a)));
}

/* As in f32. An argument of erfc or exp that is rounded moves the result by its square or itself,
 * in ulps: both are taken with the rest that the rounding leaves. These fma are exact by
 * definition, called or not. */
static inline double m_gelu_f64(double a)
{
    double z = a < -40 ? -40 : a, u = z > 40 ? 40 : z; /* below: -0; above: a */
    double v = u * -0x1.6a09e667f3bcdp-1;
    double rest = fma(u, -0x1.6a09e667f3bcdp-1, -v) + u * 0x1.bdd3413b26456p-55;
    double slope = 0x1.20dd750429b6dp+0 * exp(-v * v);
    return 0.5 * z * (erfc(v) - slope * rest);
}

static inline double m_gelu_tanh_f64(double a)
{
    double z = a < -30 ? -30 : a; /* below: -0 */
    double u = z > 30 ? 30 : z, square = u * u, square_rest = fma(u, u, -square);
    double p = 0x1.2444f2a4d8b4bp-4 * square;
    double p_rest = fma(0x1.2444f2a4d8b4bp-4, square, -p) + 0x1.2444f2a4d8b4bp-4 * square_rest -
                    0x1.6c843a29d1c70p-61 * square;
    double sum = 0x1.9884533d43651p+0 + p, part = sum - 0x1.9884533d43651p+0;
    double sum_rest =
        (0x1.9884533d43651p+0 - (sum - part)) + (p - part) + p_rest - 0x1.cbc0d30ebfd15p-54;
    double x = u * sum, rest = fma(u, sum, -x) + u * sum_rest;
    return logistic_f64(z, -x, -rest);
}

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
