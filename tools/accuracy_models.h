/* What the rows of ops.def should give: the same functions in long double, by name. Nothing here
 * comes from the engine. A long double has 11 bits more than an f64 where it is the x87's: an error
 * is seen to about 0.002 ulp of an f64. */
#ifndef TP_ACCURACY_MODELS_H
#define TP_ACCURACY_MODELS_H

#include <math.h>
#include <stddef.h>
#include <string.h>

/* ---- One operand ---------------------------------------------------------------------------- */

static inline long double neg_of(long double a)
{
    return -a;
}
static inline long double rsqrt_of(long double a)
{
    return 1 / sqrtl(a);
}
static inline long double reciprocal_of(long double a)
{
    return 1 / a;
}
static inline long double square_of(long double a)
{
    return a * a;
}
static inline long double relu_of(long double a)
{
    return a > 0 || isnan(a) ? a : 0;
}
static inline long double sign_of(long double a)
{
    return isnan(a) ? a : (a > 0) - (a < 0);
}
static inline long double sigmoid_of(long double a)
{
    return 1 / (1 + expl(-a));
}
static inline long double silu_of(long double a)
{
    return a == -INFINITY ? -0.0L : a / (1 + expl(-a));
}
static inline long double softplus_of(long double a)
{
    return a > 0 ? a + log1pl(expl(-a)) : log1pl(expl(a));
}

/* a/2 erfc(-a / sqrt 2). The rounding of erfc's argument, times twice its square, would be an ulp
 * of an f64: rest is what it left. Constants in two parts, for the same reason. */
static inline long double gelu_of(long double a)
{
    static const long double root = 0xb504f333f9de6484p-64L, root_rest = 1.89503255889e-20L;
    static const long double slope = 1.12837916709551257389615890312154517L; /* 2 / sqrt pi */
    if (fabsl(a) > 1e4L) return a > 0 ? a : -0.0L;
    long double v = -a * root, rest = fmal(-a, root, -v) - a * root_rest;
    return a / 2 * (erfcl(v) - slope * expl(-v * v) * rest);
}

/* a / (1 + e^-x), x = 2 sqrt(2 / pi) (a + 0.044715 a^3) = a (k + c a^2) in two parts. */
static inline long double gelu_tanh_of(long double a)
{
    static const long double k = 0xcc42299ea1b28468p-63L, k_rest = 5.35117775572e-20L;
    static const long double c = 0x922279526c5a57a5p-67L, c_rest = -8.75006214401e-22L;
    if (fabsl(a) > 1e4L) return a > 0 ? a : -0.0L;
    long double square = a * a, square_rest = fmal(a, a, -square);
    long double p = c * square, p_rest = fmal(c, square, -p) + c * square_rest + c_rest * square;
    long double sum = k + p, part = sum - k;
    long double sum_rest = (k - (sum - part)) + (p - part) + p_rest + k_rest;
    long double x = a * sum, rest = fmal(a, sum, -x) + a * sum_rest;
    return a / (1 + expl(-x) * (1 - rest));
}

typedef struct unary_model {
    const char *name;
    long double (*exact)(long double);
} unary_model;
static const unary_model unary_models[] = {
    {"neg", neg_of},
    {"abs", fabsl},
    {"exp", expl},
    {"log", logl},
    {"sqrt", sqrtl},
    {"rsqrt", rsqrt_of},
    {"tanh", tanhl},
    {"erf", erfl},
    {"sigmoid", sigmoid_of},
    {"relu", relu_of},
    {"gelu", gelu_of},
    {"sign", sign_of},
    {"square", square_of},
    {"exp2", exp2l},
    {"reciprocal", reciprocal_of},
    {"expm1", expm1l},
    {"log2", log2l},
    {"log10", log10l},
    {"log1p", log1pl},
    {"sin", sinl},
    {"cos", cosl},
    {"tan", tanl},
    {"asin", asinl},
    {"acos", acosl},
    {"atan", atanl},
    {"sinh", sinhl},
    {"cosh", coshl},
    {"erfc", erfcl},
    {"silu", silu_of},
    {"gelu_tanh", gelu_tanh_of},
    {"softplus", softplus_of},
    {"floor", floorl},
    {"ceil", ceill},
    {"trunc", truncl},
    {"round", rintl},
};

/* ---- Two operands --------------------------------------------------------------------------- */

static inline long double add_of(long double a, long double b)
{
    return a + b;
}
static inline long double sub_of(long double a, long double b)
{
    return a - b;
}
static inline long double mul_of(long double a, long double b)
{
    return a * b;
}
static inline long double div_of(long double a, long double b)
{
    return a / b;
}
static inline long double maximum_of(long double a, long double b)
{
    if (isnan(a) || isnan(b)) return NAN;
    return a > b || (a == b && !signbit(a)) ? a : b;
}
static inline long double minimum_of(long double a, long double b)
{
    return -maximum_of(-a, -b);
}
/* Python's % and //. */
static inline long double remainder_of(long double a, long double b)
{
    long double rest = fmodl(a, b);
    if (rest == 0) return copysignl(0, b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
}
static inline long double floor_divide_of(long double a, long double b)
{
    if (b == 0) return a / b;
    long double rest = fmodl(a, b), quotient = rintl((a - rest) / b);
    if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
    return quotient == 0 ? copysignl(0, a / b) : quotient;
}

typedef struct binary_model {
    const char *name;
    long double (*exact)(long double, long double);
} binary_model;
static const binary_model binary_models[] = {
    {"add", add_of},
    {"sub", sub_of},
    {"mul", mul_of},
    {"div", div_of},
    {"pow", powl},
    {"minimum", minimum_of},
    {"maximum", maximum_of},
    {"floor_divide", floor_divide_of},
    {"remainder", remainder_of},
    {"atan2", atan2l},
    {"hypot", hypotl},
};

/* ---- Reductions ----------------------------------------------------------------------------- */

/* A result, and what its error is counted in, times the unit roundoff. */
typedef struct scaled {
    long double value, scale;
} scaled;

static inline scaled sum_of(int n, const double *x)
{
    scaled y = {0, 0};
    for (int i = 0; i < n; i++) y.value += x[i], y.scale += fabs(x[i]);
    return y;
}
static inline scaled mean_of(int n, const double *x)
{
    scaled y = sum_of(n, x);
    return (scaled){y.value / n, y.scale / n};
}
static inline scaled prod_of(int n, const double *x)
{
    scaled y = {1, 0};
    for (int i = 0; i < n; i++) y.value *= x[i];
    y.scale = n * fabsl(y.value);
    return y;
}
static inline scaled max_of(int n, const double *x)
{
    scaled y = {-INFINITY, 0};
    for (int i = 0; i < n; i++) y.value = fmaxl(y.value, x[i]);
    y.scale = fabsl(y.value);
    return y;
}
static inline scaled min_of(int n, const double *x)
{
    scaled y = {INFINITY, 0};
    for (int i = 0; i < n; i++) y.value = fminl(y.value, x[i]);
    y.scale = fabsl(y.value);
    return y;
}
static inline scaled var_of(int n, const double *x)
{
    scaled y = {0, 0};
    long double mean = mean_of(n, x).value;
    for (int i = 0; i < n; i++) y.value += (x[i] - mean) * (x[i] - mean) / n;
    y.scale = y.value;
    return y;
}
static inline scaled std_of(int n, const double *x)
{
    long double y = sqrtl(var_of(n, x).value);
    return (scaled){y, y};
}
static inline scaled logsumexp_of(int n, const double *x)
{
    long double most = max_of(n, x).value, sum = 0;
    for (int i = 0; i < n; i++) sum += expl(x[i] - most);
    return (scaled){most + logl(sum), fabsl(most) + logl(sum) + 1};
}
static inline scaled norm1_of(int n, const double *x)
{
    long double y = sum_of(n, x).scale;
    return (scaled){y, y};
}
static inline scaled norm2_of(int n, const double *x)
{
    long double y = 0;
    for (int i = 0; i < n; i++) y += (long double)x[i] * x[i];
    return (scaled){sqrtl(y), sqrtl(y)};
}

typedef struct reduce_model {
    const char *name, *unit;
    scaled (*exact)(int n, const double *x);
} reduce_model;
static const reduce_model reduce_models[] = {
    {"sum", "u sum|x|", sum_of},   {"mean", "u mean|x|", mean_of},
    {"prod", "n u |y|", prod_of},  {"max", "u |y|", max_of},
    {"min", "u |y|", min_of},      {"var", "u |y|", var_of},
    {"std", "u |y|", std_of},      {"logsumexp", "u (|max| + ln n + 1)", logsumexp_of},
    {"norm 1", "u |y|", norm1_of}, {"norm 2", "u |y|", norm2_of},
};

/* The model of a name in one of the tables, NULL if there is none. */
#define MODEL_OF(table, wanted) model_at(table, sizeof *(table), sizeof(table), wanted)
static inline const void *model_at(const void *table, size_t size, size_t bytes, const char *wanted)
{
    for (size_t at = 0; at < bytes; at += size) {
        const char *name; /* the first member of each */
        memcpy(&name, (const char *)table + at, sizeof name);
        if (strcmp(name, wanted) == 0) return (const char *)table + at;
    }
    return NULL;
}

#endif
