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
    float t = r * r;
    float low = 1.66665345e-1F * r + 0.5F, high = 8.36746860e-3F * r + 4.16662693e-2F;
    return low + t * (high + t * 1.39473018e-3F);
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

/* e^x: x = n ln 2 + r. 2^n is two factors, so that overflow and denormals come out right; the bits
 * of 3 2^22 leave at the top when shifted is halved and moved to the exponent. */
static inline float m_exp_f32(float x)
{
    float shifted = exp_shifted_f32(x), r = exp_reduce_f32(x, shifted - 0x1.8p23F);
    float p = r + r * r * exp_series_f32(r) + 1.0F;
    uint32_t n = bits_of(shifted), half = n >> 1;
    p = p * float_of((half << 23) + 0x3F800000U) * float_of(((n - half) << 23) + 0x3F800000U);
    p = x > 89.0F ? INFINITY : p;
    return x < -104.0F ? 0.0F : p; /* NaN passes both */
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
    /* 2 atanh s = f - s (f - t q). */
    float q = 2.98718214e-1F;
    q = q * t + 3.99775386e-1F;
    q = q * t + 6.66667759e-1F;
    float y = e * 0x1.62ep-1F + (f - (s * (f - t * q) - e * 0x1.0bfbe8p-15F));
    y = x == 0 ? -INFINITY : y;
    y = x < 0 ? NAN : y;
    return x < INFINITY ? y : x;
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

/* top / (1 + e^-a), and least below -110, with e^-a = 2^n (1 + c): c keeps the bits that 1 + c
 * would lose, and 1 + 2^n is split, so that the sum is rounded once. Where 2^n may overflow, 2^64
 * is taken off it and off top; beside it the 1 vanishes. */
static inline float logistic_f32(float top, float a, float least)
{
    float shifted = exp_shifted_f32(-a), n = shifted - 0x1.8p23F;
    float first = -a - n * 0x1.63p-1F, second = n * 2.12194440e-4F;
    float r = first + second, rest = first - r + second;
    float c = r + (r * r * exp_series_f32(r) + rest);
    bool far = n > 100.0F;
    float power = float_of((bits_of(shifted) << 23) + (far ? 0x1F800000U : 0x3F800000U));
    float sum = 1.0F + power;
    float y = top * (far ? 0x1p-64F : 1.0F) / (sum + (power * c + (power - (sum - 1.0F))));
    y = a > 20.0F ? top : y; /* 1 + e^-a rounds to 1 */
    return a < -110.0F ? least : y;
}

static inline float m_sigmoid_f32(float a)
{
    return logistic_f32(1.0F, a, 0.0F);
}

static inline float m_silu_f32(float a)
{
    return logistic_f32(a, a, -0.0F);
}

/* sin x and cos x where |x| < M_NEAR_F32: x = h pi + r, h whole or half, the first two products
 * exact. */
#define M_NEAR_F32 4096.0F
static inline float sin_near_f32(float x, float h)
{
    float first = x - h * 0x1.922p1F + h * 0x1.28p-17F, third = h * 0x1.778p-24F;
    float sum = first + third, rest = first - sum + third - h * 0x1.68c234p-38F;
    float r = sum + rest, t = r * r;
    float q = 2.60608545e-6F;
    q = q * t - 1.98097754e-4F;
    q = q * t + 8.33306927e-3F;
    q = q * t - 1.66666597e-1F;
    return r + t * (r * q);
}

static inline float m_sin_near_f32(float x)
{
    float shifted = x * 0x1.45f306p-2F + 0x1.8p23F;
    float y = sin_near_f32(x, shifted - 0x1.8p23F);
    return x == 0 ? x : float_of(bits_of(y) ^ bits_of(shifted) << 31); /* -0 stays */
}

static inline float m_cos_near_f32(float x)
{
    float shifted = x * 0x1.45f306p-2F - 0.5F + 0x1.8p23F;
    float y = sin_near_f32(x, shifted - 0x1.8p23F + 0.5F);
    return float_of(bits_of(y) ^ ~bits_of(shifted) << 31);
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

/* 2^x within 2^-34, |x| <= 1000. */
static inline double wide_exp2(double x)
{
    double shifted = x + 0x1.8p52, r = x - (shifted - 0x1.8p52);
    double q = 0x1.00ee145c477c3p-16;
    q = q * r + 0x1.445a38052cec6p-13;
    q = q * r + 0x1.5d872a2939774p-10;
    q = q * r + 0x1.3b29f72835ddcp-7;
    q = q * r + 0x1.c6b08dec241ddp-5;
    q = q * r + 0x1.ebfbe0725fa04p-3;
    q = q * r + 0x1.62e42fef813fap-1;
    return (1.0 + r * q) * double_of((bits_of_double(shifted) << 52) + 0x3FF0000000000000U);
}

static inline float m_exp2_f32(float a)
{
    float y = (float)wide_exp2((double)a);
    y = a > 129.0F ? INFINITY : y;
    return a < -151.0F ? 0.0F : y;
}

/* e^x = 2^n (1 + even + odd) with the parts of e^r - 1 that an opposite r keeps and turns: x = n ln
 * 2
 * + r. */
typedef struct wide_powers {
    double even, odd, up, down; /* cosh r - 1, sinh r, 2^n, 2^-n */
} wide_powers;
static inline wide_powers wide_powers_of(double x)
{
    double shifted = x * 0x1.71547652b82fep0 + 0x1.8p52;
    double r = x - (shifted - 0x1.8p52) * 0x1.62e42fefa39efp-1, t = r * r;
    double even = 0x1.6d9784ecdf1f6p-10;
    even = even * t + 0x1.55547edd7d558p-5;
    even = even * t + 0x1.00000043f0921p-1;
    double odd = 0x1.a17dff292c87dp-13;
    odd = odd * t + 0x1.1110ab7485e6fp-7;
    odd = odd * t + 0x1.555555742cd57p-3;
    uint64_t power = bits_of_double(shifted) << 52;
    return (wide_powers){t * even, r + r * t * odd, double_of(0x3FF0000000000000U + power),
                         double_of(0x3FF0000000000000U - power)};
}

static inline float m_expm1_f32(float a)
{
    wide_powers p = wide_powers_of((double)a);
    float y = (float)(p.up * (p.odd + p.even) + (p.up - 1.0));
    y = a > 90.0F ? INFINITY : y;
    return copysignf(a < -40.0F ? -1.0F : y, a);
}

static inline float m_sinh_f32(float a)
{
    float size = fabsf(a);
    wide_powers p = wide_powers_of((double)size);
    double y = (p.up + p.down) * p.odd + (p.up - p.down) * (1.0 + p.even);
    return copysignf(size > 90.0F ? INFINITY : (float)(0.5 * y), a);
}

static inline float m_cosh_f32(float a)
{
    float size = fabsf(a);
    wide_powers p = wide_powers_of((double)size);
    double y = (p.up + p.down) * (1.0 + p.even) + (p.up - p.down) * p.odd;
    return size > 90.0F ? INFINITY : (float)(0.5 * y);
}

/* x = 2^whole m, m in [sqrt 1/2, sqrt 2); x > 0 and normal. */
static inline double wide_split(double x, double *whole)
{
    uint64_t bits = bits_of_double(x) + 0x00195F619980C433U; /* sqrt 1/2 becomes 2 */
    *whole = double_of(bits >> 52 | 0x4330000000000000U) - (0x1p52 + 1024.0);
    return double_of((bits & 0x000FFFFFFFFFFFFFU) + 0x3FE6A09E667F3BCDU);
}

/* ln(1 + f) / 2 within 2^-44 of it, sqrt 1/2 <= 1 + f < sqrt 2: atanh s, s = f / (2 + f). */
static inline double wide_half_log1p(double f)
{
    double s = f / (2.0 + f), t = s * s;
    double q = 0x1.9115910651701p-4;
    q = q * t + 0x1.c62b14d197c64p-4;
    q = q * t + 0x1.249411ec73d09p-3;
    q = q * t + 0x1.999996a95299ap-3;
    q = q * t + 0x1.555555561e3c8p-2;
    return s + s * t * q;
}

/* by ln x of any x, where by ln 2 = by_ln2. */
static inline double wide_log(double x, double by, double by_ln2)
{
    double whole, m = wide_split(x, &whole);
    double y = whole * by_ln2 + 2.0 * by * wide_half_log1p(m - 1.0);
    y = x > 0 ? y : (x == 0 ? (double)-INFINITY : (double)NAN);
    return x < (double)INFINITY ? y : x;
}

static inline float m_log2_f32(float a)
{
    return (float)wide_log((double)a, 0x1.71547652b82fep0, 1.0);
}

static inline float m_log10_f32(float a)
{
    return (float)wide_log((double)a, 0x1.bcb7b1526e50ep-2, 0x1.34413509f79ffp-2);
}

/* Where 1 + a is its own m, a itself is what it is more than 1. */
static inline float m_log1p_f32(float a)
{
    double x = (double)a, sum = 1.0 + x, whole, m = wide_split(sum, &whole);
    double y = whole * 0x1.62e42fefa39efp-1 + 2.0 * wide_half_log1p(whole == 0 ? x : m - 1.0);
    y = sum > 0 ? y : (sum == 0 ? (double)-INFINITY : (double)NAN);
    return copysignf((float)(x < (double)INFINITY ? y : x), a);
}

/* b as an exponent of a number below 0: an f32 from 2^23 is whole, from 2^24 even. */
static inline bool is_fraction_f32(float b)
{
    float size = fabsf(b), c = size > 0x1p23F ? 0x1p23F : size;
    return fabsf(c - (c + 0x1p23F - 0x1p23F)) > 0;
}
static inline bool is_odd_f32(float b)
{
    float size = fabsf(b), half = 0.5F * (size > 0x1p24F ? 0x1p24F : size);
    return fabsf(half - (half + 0x1p23F - 0x1p23F)) == 0.5F;
}

/* a^b = 2^(b log2 |a|), below 0 with a sign, or NaN if b is not whole. No a is so near to 1 that
 * 2^40 is not as good as an infinite b. */
static inline float m_pow_f32(float a, float b)
{
    float size = fabsf(b), y = copysignf(size > 0x1p40F ? 0x1p40F : size, b);
    double p = wide_log((double)fabsf(a), 0x1.71547652b82fep0, 1.0) * (double)y;
    double wide = wide_exp2(p);
    wide = p > 200.0 ? (double)INFINITY : wide;
    float power = (float)(p < -200.0 ? 0.0 : wide);
    float below = is_fraction_f32(b) ? NAN : power;
    below = a == -INFINITY ? power : below;
    power = a < 0 ? below : power;
    float turned = copysignf(power, a);
    power = is_odd_f32(b) ? turned : power;
    power = b == 0 ? 1.0F : power;
    return a == 1.0F ? 1.0F : power;
}

/* x / pi less a multiple of 2 is count + rest: count is rounded by adding magic, then taken apart
 * from it at offset. 1/pi comes in pieces of 28 bits, whose products are exact; the last has 53.
 * Far out the first two are multiples of 2, and left out. */
typedef struct half_turns {
    double rest;
    uint64_t count; /* times the power of two that magic rounds to; its lowest bit counts */
} half_turns;
static inline half_turns half_turns_of(float a, double magic, double offset)
{
    double x = (double)a;
    bool far = fabs(x) >= 0x1p80;
    double p0 = x * (far ? 0x1.29fc274p-57 : 0x1.45f306cp-2);
    double p1 = x * (far ? 0x1.7d1f534p-85 : 0x1.c9c8828p-30);
    double p2 = x * (far ? 0x1.bb81b6cp-114 : 0x1.29fc274p-57);
    double p3 = x * (far ? 0x1.4acc9e21c8210p-144 : 0x1.7d1f534ddc0dbp-85);
    p0 -= p0 + 0x1.8p53 - 0x1.8p53;
    p1 -= p1 + 0x1.8p53 - 0x1.8p53;
    double shifted = p0 + p1 + p2 - offset + magic, n = shifted - magic + offset;
    return (half_turns){p0 - n + p1 + p2 + p3, bits_of_double(shifted)};
}

/* sin pi f / f, t = f^2 <= 1/4. */
static inline double wide_sinpi(double t)
{
    double q = -0x1.cc33c9bf84ff0p-8;
    q = q * t + 0x1.500ff2dac3138p-4;
    q = q * t - 0x1.32d111e22bbf9p-1;
    q = q * t + 0x1.466bbfc1b407cp+1;
    q = q * t - 0x1.4abbce4f181d4p+2;
    return q * t + 0x1.921fb5441e461p+1;
}

static inline float m_sin_far_f32(float a)
{
    half_turns h = half_turns_of(a, 0x1.8p52, 0.0);
    double y = h.rest * wide_sinpi(h.rest * h.rest);
    return (float)double_of(bits_of_double(y) ^ h.count << 63);
}

static inline float m_cos_far_f32(float a)
{
    half_turns h = half_turns_of(a, 0x1.8p52, 0.5);
    double y = h.rest * wide_sinpi(h.rest * h.rest);
    return (float)double_of(bits_of_double(y) ^ ~h.count << 63);
}

static inline float m_sin_f32(float a)
{
    float near = m_sin_near_f32(a), far = m_sin_far_f32(a);
    return fabsf(a) < M_NEAR_F32 ? near : far;
}

static inline float m_cos_f32(float a)
{
    float near = m_cos_near_f32(a), far = m_cos_far_f32(a);
    return fabsf(a) < M_NEAR_F32 ? near : far;
}

/* sin / cos within a quarter of pi, turned by odd quarters. */
static inline float m_tan_f32(float a)
{
    half_turns h = half_turns_of(a, 0x1.8p51, 0.0);
    double t = h.rest * h.rest;
    double cosine = 0x1.d99f1d5d7d06dp-3;
    cosine = cosine * t - 0x1.55c4e9015a682p+0;
    cosine = cosine * t + 0x1.03c1daab5c4ddp+2;
    cosine = cosine * t - 0x1.3bd3cc6e78783p+2;
    cosine = cosine * t + 0x1.ffffffff84a94p-1;
    double sine = 0x1.4bc2370c015b8p-4;
    sine = sine * t - 0x1.32ca84e7999bap-1;
    sine = sine * t + 0x1.466bba8b38dfcp+1;
    sine = sine * t - 0x1.4abbce564c10dp+2;
    sine = h.rest * (sine * t + 0x1.921fb5443af5ep+1);
    bool odd = h.count & 1;
    return (float)((odd ? -cosine : sine) / (odd ? sine : cosine));
}

/* arcsin x = x + x t q(t), t = x^2; above 1/2 it is pi/2 - 2 arcsin of the root of t = (1 - x) / 2.
 */
typedef struct wide_arc {
    bool steep; /* |x| > 1/2 */
    double y;   /* the arcsin, of that root if steep */
} wide_arc;
static inline wide_arc wide_arc_of(double size)
{
    bool steep = size > 0.5;
    double t = steep ? 0.5 - 0.5 * size : size * size, s = steep ? sqrt(t) : size;
    double q = 0x1.0ddb3807785abp-5;
    q = q * t + 0x1.fedc2261b273cp-10;
    q = q * t + 0x1.5279b9a2748f6p-6;
    q = q * t + 0x1.6634393a870fcp-6;
    q = q * t + 0x1.f28369362cf44p-6;
    q = q * t + 0x1.6db24ed97325ep-5;
    q = q * t + 0x1.333340bbaf052p-4;
    q = q * t + 0x1.555555479c46ep-3;
    return (wide_arc){steep, s + s * t * q};
}

static inline float m_asin_f32(float a)
{
    wide_arc arc = wide_arc_of(fabs((double)a));
    return copysignf((float)(arc.steep ? 0x1.921fb54442d18p+0 - 2.0 * arc.y : arc.y), a);
}

static inline float m_acos_f32(float a)
{
    double x = (double)a;
    wide_arc arc = wide_arc_of(fabs(x));
    double part = (arc.steep ? 2.0 : -1.0) * arc.y;
    double start = arc.steep ? (x < 0 ? 0x1.921fb54442d18p+1 : 0.0) : 0x1.921fb54442d18p+0;
    return (float)(start + (x < 0 ? -part : part));
}

/* arctan(low / high), 0 <= low <= high; beyond pi/8 it is pi/4 less that of the turned point. */
static inline double wide_angle(double low, double high)
{
    bool steep = low > 0x1.a827999fcef32p-2 * high;
    double x = (steep ? low - high : low) / (steep ? low + high : high), t = x * x;
    double q = -0x1.36f284863084fp-5;
    q = q * t + 0x1.1e70e201c0d92p-4;
    q = q * t - 0x1.7087825eabfe7p-4;
    q = q * t + 0x1.c6d278152e0fap-4;
    q = q * t - 0x1.2490c716c2024p-3;
    q = q * t + 0x1.99999217db264p-3;
    q = q * t - 0x1.5555554efed08p-2;
    double y = x + x * t * q;
    return steep ? y + 0x1.921fb54442d18p-1 : y;
}

static inline float m_atan_f32(float a)
{
    double size = fabs((double)a);
    bool over = size > 1.0;
    double y = wide_angle(over ? 1.0 : size, over ? size : 1.0);
    return copysignf((float)(over ? 0x1.921fb54442d18p+0 - y : y), a);
}

/* Infinities stand for a size that is to any other as infinity is. */
static inline float m_atan2_f32(float a, float b)
{
    double y = fabs((double)a), x = fabs((double)b);
    y = y > 0x1p300 ? 0x1p300 : y;
    x = x > 0x1p300 ? 0x1p300 : x;
    bool over = y > x;
    double low = over ? x : y, high = over ? y : x;
    double angle = wide_angle(low, high == 0 ? 1.0 : high);
    angle = over ? 0x1.921fb54442d18p+0 - angle : angle;
    return copysignf((float)(signbit(b) ? 0x1.921fb54442d18p+1 - angle : angle), a);
}

/* Squares of f32 neither overflow nor vanish in f64. */
static inline float m_hypot_f32(float a, float b)
{
    double x = (double)a, y = (double)b, root = sqrt(x * x + y * y);
    bool infinite = (fabs(x) == (double)INFINITY) | (fabs(y) == (double)INFINITY);
    return (float)(infinite ? (double)INFINITY : root);
}

/* ---- f64 ------------------------------------------------------------------------------------ */

/* As in f32; r in two parts, r = first - second. */
static inline double m_exp_f64(double x)
{
    double shifted = x * 0x1.71547652b82fep0 + 0x1.8p52, n = shifted - 0x1.8p52;
    double first = x - n * 0x1.62e42feep-1, second = n * 0x1.a39ef35793c76p-33;
    double r = first - second;
    double q = 0x1.af748f8c43fa4p-26;
    q = q * r + 0x1.289fd93c77a6ap-22;
    q = q * r + 0x1.71ddeb9a34a08p-19;
    q = q * r + 0x1.a019aa33c6977p-16;
    q = q * r + 0x1.a01a01b4fadadp-13;
    q = q * r + 0x1.6c16c17d88d01p-10;
    q = q * r + 0x1.111111110ea12p-7;
    q = q * r + 0x1.5555555552adcp-5;
    q = q * r + 0x1.555555555555bp-3;
    q = q * r + 0x1.0000000000003p-1;
    double p = 1.0 + (first - (second - r * r * q));
    uint64_t bits = bits_of_double(shifted), half = bits >> 1;
    p = p * double_of((half << 52) + 0x3FF0000000000000U) *
        double_of(((bits - half) << 52) + 0x3FF0000000000000U);
    p = x > 710.0 ? (double)INFINITY : p;
    return x < -746.0 ? 0.0 : p;
}

/* As in f32: f - (f^2/2 - s (f^2/2 + 2 t q)) is 2 atanh s, rounded where it is small. */
static inline double m_log_f64(double x)
{
    bool tiny = x < 0x1p-1022;
    double whole, m = wide_split(tiny ? x * 0x1p54 : x, &whole);
    whole -= tiny ? 54.0 : 0.0;
    double f = m - 1.0, s = f / (2.0 + f), t = s * s, square = 0.5 * f * f;
    double q = 0x1.2f062f83caba1p-4;
    q = q * t + 0x1.39a1a7c727738p-4;
    q = q * t + 0x1.74663f967ac24p-4;
    q = q * t + 0x1.c71c520654df0p-4;
    q = q * t + 0x1.24924941f4812p-3;
    q = q * t + 0x1.999999997fd82p-3;
    q = q * t + 0x1.5555555555592p-2;
    double rest = s * (square + 2.0 * t * q) + whole * 0x1.a39ef35793c76p-33;
    double y = whole * 0x1.62e42feep-1 - ((square - rest) - f);
    y = x > 0 ? y : (x == 0 ? (double)-INFINITY : (double)NAN);
    return x < (double)INFINITY ? y : x;
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
    static inline double m_##name##_f64(double a)                                                  \
    {                                                                                              \
        return name(a);                                                                            \
    }
#define LIBM_BINARY(name)                                                                          \
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
