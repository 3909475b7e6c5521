/* The m_ functions of ops.def for the reference backend: f32 in double, f64 in long double,
 * each rounded once. Slow and right. */
#ifndef TP_REF_MATH_H
#define TP_REF_MATH_H

#include "../int_math.h"

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

#define m_exp(a) M_PICK_FLOAT(m_exp, a)(a)
#define m_log(a) M_PICK_FLOAT(m_log, a)(a)
#define m_sqrt(a) M_PICK_FLOAT(m_sqrt, a)(a)
#define m_tanh(a) M_PICK_FLOAT(m_tanh, a)(a)
#define m_erf(a) M_PICK_FLOAT(m_erf, a)(a)
#define m_gelu(a) M_PICK_FLOAT(m_gelu, a)(a)
#define m_abs(a) M_PICK(m_abs, a)(a)
#define m_relu(a) M_PICK(m_relu, a)(a)
#define m_pow(a, b) M_PICK(m_pow, a)(a, b)
#define m_min(a, b) M_PICK(m_min, a)(a, b)
#define m_max(a, b) M_PICK(m_max, a)(a, b)

#endif
