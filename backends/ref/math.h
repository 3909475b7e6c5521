/* The m_ functions of ops.def for the reference backend: f32 in double, f64 in long double,
 * each rounded once. Slow and right. */
#ifndef TP_REF_MATH_H
#define TP_REF_MATH_H

#include "../shared_math.h"

#include <math.h>

#define REF_UNARY(name, function)                                                                  \
    static inline float m_##name##_f32(float a)                                                    \
    {                                                                                              \
        return (float)function((double)a);                                                         \
    }                                                                                              \
    static inline double m_##name##_f64(double a)                                                  \
    {                                                                                              \
        return (double)function##l((long double)a);                                                \
    }
REF_UNARY(exp, exp)
REF_UNARY(log, log)
REF_UNARY(tanh, tanh)
REF_UNARY(erf, erf)
REF_UNARY(abs, fabs)
REF_UNARY(exp2, exp2)
REF_UNARY(expm1, expm1)
REF_UNARY(log2, log2)
REF_UNARY(log10, log10)
REF_UNARY(log1p, log1p)
REF_UNARY(sin, sin)
REF_UNARY(cos, cos)
REF_UNARY(tan, tan)
REF_UNARY(asin, asin)
REF_UNARY(acos, acos)
REF_UNARY(atan, atan)
REF_UNARY(sinh, sinh)
REF_UNARY(cosh, cosh)
REF_UNARY(erfc, erfc)

/* Correctly rounded as they are; a second rounding would spoil it. */
static inline float m_sqrt_f32(float a)
{
    return sqrtf(a);
}
static inline double m_sqrt_f64(double a)
{
    return sqrt(a);
}

static inline float m_pow_f32(float a, float b)
{
    return (float)pow((double)a, (double)b);
}
static inline double m_pow_f64(double a, double b)
{
    return (double)powl((long double)a, (long double)b);
}

static inline double m_relu_f64(double a)
{
    return a != a || a > 0 ? a : 0;
}
static inline float m_relu_f32(float a)
{
    return (float)m_relu_f64((double)a);
}

/* a/2 (1 + erf(a/sqrt 2)) = a/2 erfc(-a/sqrt 2): no cancellation for negative a. */
static inline double m_gelu_f64(double a)
{
    long double x = a;
    if (a == -INFINITY) return -0.0;
    return (double)(x / 2 * erfcl(-x * 0.70710678118654752440084436210484903928L));
}
static inline float m_gelu_f32(float a)
{
    return (float)m_gelu_f64((double)a);
}

static inline double m_sigmoid_f64(double a)
{
    return (double)(1 / (1 + expl(-(long double)a)));
}
static inline float m_sigmoid_f32(float a)
{
    return (float)m_sigmoid_f64((double)a);
}

static inline double m_silu_f64(double a)
{
    return a == -INFINITY ? -0.0 : (double)((long double)a / (1 + expl(-(long double)a)));
}
static inline float m_silu_f32(float a)
{
    return (float)m_silu_f64((double)a);
}

/* a/2 (1 + tanh t) = a / (1 + e^-2t): no cancellation for negative a. */
static inline double m_gelu_tanh_f64(double a)
{
    long double x = a, t = 0.79788456080286535587989211986876373L * (x + 0.044715L * x * x * x);
    return a == -INFINITY ? -0.0 : (double)(x / (1 + expl(-2 * t)));
}
static inline float m_gelu_tanh_f32(float a)
{
    return (float)m_gelu_tanh_f64((double)a);
}

static inline double m_softplus_f64(double a)
{
    long double x = a;
    return (double)((x > 0 ? x : 0) + log1pl(expl(-fabsl(x))));
}
static inline float m_softplus_f32(float a)
{
    return (float)m_softplus_f64((double)a);
}

static inline double m_atan2_f64(double a, double b)
{
    return (double)atan2l((long double)a, (long double)b);
}
static inline float m_atan2_f32(float a, float b)
{
    return (float)atan2((double)a, (double)b);
}
static inline double m_hypot_f64(double a, double b)
{
    return (double)hypotl((long double)a, (long double)b);
}
static inline float m_hypot_f32(float a, float b)
{
    return (float)hypot((double)a, (double)b);
}

static inline double m_min_f64(double a, double b)
{
    if (a != a) return a;
    if (b != b) return b;
    if (a == b) return signbit(a) ? a : b;
    return a < b ? a : b;
}
static inline double m_max_f64(double a, double b)
{
    if (a != a) return a;
    if (b != b) return b;
    if (a == b) return signbit(a) ? b : a;
    return a > b ? a : b;
}
static inline float m_min_f32(float a, float b)
{
    return (float)m_min_f64((double)a, (double)b);
}
static inline float m_max_f32(float a, float b)
{
    return (float)m_max_f64((double)a, (double)b);
}

#endif
