/* The m_ functions of ops.def that are not exact, for kernel texts: f32 by the single-precision
 * functions where these keep to 2 ulp, else in double; f64 in double. The exact ones and those of
 * integers are backends/shared_math.h, which stands before. */
#define MATH_BOTH(name)                                                                            \
    TP_FN float m_##name##_f32(float a)                                                            \
    {                                                                                              \
        return name##f(a);                                                                         \
    }                                                                                              \
    TP_FN double m_##name##_f64(double a)                                                          \
    {                                                                                              \
        return name(a);                                                                            \
    }
/* f32 by way of double. */
#define MATH_WIDE(name)                                                                            \
    TP_FN float m_##name##_f32(float a)                                                            \
    {                                                                                              \
        return (float)name((double)a);                                                             \
    }                                                                                              \
    TP_FN double m_##name##_f64(double a)                                                          \
    {                                                                                              \
        return name(a);                                                                            \
    }
MATH_BOTH(exp)
MATH_BOTH(log)
MATH_BOTH(tanh)
MATH_BOTH(erf)
MATH_BOTH(exp2)
MATH_BOTH(expm1)
MATH_BOTH(log2)
MATH_BOTH(log10)
MATH_BOTH(log1p)
MATH_BOTH(sin)
MATH_BOTH(cos)
MATH_WIDE(tan)
MATH_BOTH(asin)
MATH_BOTH(acos)
MATH_BOTH(atan)
MATH_WIDE(sinh)
MATH_BOTH(cosh)
MATH_WIDE(erfc)
MATH_BOTH(sqrt)

TP_FN float m_abs_f32(float a)
{
    return fabsf(a);
}
TP_FN double m_abs_f64(double a)
{
    return fabs(a);
}
TP_FN float m_relu_f32(float a)
{
    return a != a || a > 0 ? a : 0;
}
TP_FN double m_relu_f64(double a)
{
    return a != a || a > 0 ? a : 0;
}
TP_FN float m_pow_f32(float a, float b)
{
    return (float)pow((double)a, (double)b);
}
TP_FN double m_pow_f64(double a, double b)
{
    return pow(a, b);
}
TP_FN float m_atan2_f32(float a, float b)
{
    return (float)atan2((double)a, (double)b);
}
TP_FN double m_atan2_f64(double a, double b)
{
    return atan2(a, b);
}
TP_FN float m_hypot_f32(float a, float b)
{
    return (float)hypot((double)a, (double)b);
}
TP_FN double m_hypot_f64(double a, double b)
{
    return hypot(a, b);
}

/* 1 / (1 + e^-a) without overflow, so that the tail keeps its digits. */
TP_FN float m_sigmoid_f32(float a)
{
    float e = expf(-fabsf(a));
    return a >= 0 ? 1 / (1 + e) : a != a ? a : e / (1 + e);
}
TP_FN double m_sigmoid_f64(double a)
{
    double e = exp(-fabs(a));
    return a >= 0 ? 1 / (1 + e) : a != a ? a : e / (1 + e);
}
TP_FN float m_silu_f32(float a)
{
    float e = expf(-fabsf(a));
    if (a == -INFINITY) return -0.0F;
    return a >= 0 ? a / (1 + e) : a * e / (1 + e);
}
TP_FN double m_silu_f64(double a)
{
    double e = exp(-fabs(a));
    if (a == -INFINITY) return -0.0;
    return a >= 0 ? a / (1 + e) : a * e / (1 + e);
}

/* a/2 erfc(-a / sqrt 2): no cancellation for negative a. What is lost in rounding the argument t of
 * erfc comes back by its derivative. */
TP_FN float m_gelu_f32(float a)
{
    float t = -a * 0.70710678F, lost;
    if (a == -INFINITY) return -0.0F;
    if (a == INFINITY) return a;
    lost = fmaf(-a, 0.70710678F, -t) + -a * 1.2101617e-08F;
    return a / 2 * (erfcf(t) - lost * 1.1283792F * expf(-t * t));
}
TP_FN double m_gelu_f64(double a)
{
    double t = -a * 0.70710678118654752, lost;
    if (a == -INFINITY) return -0.0;
    if (a == INFINITY) return a;
    lost = fma(-a, 0.70710678118654752, -t) + -a * -4.8336466567264567e-17;
    return a / 2 * (erfc(t) - lost * 1.1283791670955126 * exp(-t * t));
}

/* a/2 (1 + tanh t) = a / (1 + e^-2t). e^x magnifies an error in x: t = c (a + k a^3) is calculated
 * with what roundings lose, in pairs high + low; the low part goes into e^x as a factor. */
TP_FN double m_gelu_tanh_f64(double a)
{
    const double c = 0.79788456080286541, c_low = -4.98465440455546e-17, k = 0.044715,
                 k_low = 2.1960211427085595e-18;
    double square = a * a, square_low = fma(a, a, -square);
    double w = k * square, w_low = fma(k, square, -w) + k * square_low + k_low * square;
    double s = 1 + w, s_low = (w < 1 ? w - (s - 1) : 1 - (s - w)) + w_low;
    double p = c * a, p_low = fma(c, a, -p) + c_low * a;
    double t = p * s, t_low = fma(p, s, -t) + p * s_low + p_low * s, e;
    if (a == -INFINITY) return -0.0;
    if (a == INFINITY) return a;
    if (t - t != 0) return a != a ? a : t > 0 ? a : -0.0;
    e = exp(-2 * fabs(t)) * (1 - 2 * (t < 0 ? -t_low : t_low));
    return t >= 0 ? a / (1 + e) : a * e / (1 + e);
}
TP_FN float m_gelu_tanh_f32(float a)
{
    double x = a, t = -2 * fabs(0.79788456080286536 * (x + 0.044715 * x * x * x));
    float high = (float)t, e;
    if (a == -INFINITY) return -0.0F;
    if (a != a || a == INFINITY) return a;
    e = high < -200 ? 0 : expf(high) * (float)(1 + (t - (double)high));
    return a >= 0 ? a / (1 + e) : a * e / (1 + e);
}
TP_FN float m_softplus_f32(float a)
{
    return (a > 0 ? a : 0) + log1pf(expf(-fabsf(a)));
}
TP_FN double m_softplus_f64(double a)
{
    return (a > 0 ? a : 0) + log1p(exp(-fabs(a)));
}

/* NaN wins, -0 < +0. */
#define MATH_ORDER(tag, type)                                                                      \
    TP_FN type m_min_##tag(type a, type b)                                                         \
    {                                                                                              \
        if (a != a) return a;                                                                      \
        if (b != b) return b;                                                                      \
        if (a == b) return signbit(a) ? a : b;                                                     \
        return a < b ? a : b;                                                                      \
    }                                                                                              \
    TP_FN type m_max_##tag(type a, type b)                                                         \
    {                                                                                              \
        if (a != a) return a;                                                                      \
        if (b != b) return b;                                                                      \
        if (a == b) return signbit(a) ? b : a;                                                     \
        return a > b ? a : b;                                                                      \
    }
MATH_ORDER(f32, float)
MATH_ORDER(f64, double)

/* TP_PRELUDE_ENDS */
