/* The f32 functions of the CPU backend against long double: largest errors over a stepped sample of
 * all floats, for each instruction set. TP_LONG=1 takes a hundred times as many. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/random.h"
#include "tests/unit/cpu_tables.h"

static long double true_sigmoid(long double a)
{
    return 1 / (1 + expl(-a));
}
static long double true_gelu(long double a)
{
    return isinf(a) && a < 0 ? -0.0L : a / 2 * erfcl(-a / sqrtl(2));
}
static long double true_silu(long double a)
{
    return isinf(a) && a < 0 ? -0.0L : a / (1 + expl(-a));
}
static long double true_gelu_tanh(long double a)
{
    long double t = sqrtl(2 / acosl(-1)) * (a + 0.044715L * a * a * a);
    return isinf(a) && a < 0 ? -0.0L : a / (1 + expl(-2 * t));
}
static long double true_softplus(long double a)
{
    return (a > 0 ? a : 0) + log1pl(expl(-fabsl(a)));
}
static long double true_rsqrt(long double a)
{
    return 1 / sqrtl(a);
}

/* limit: ulps of the result. */
typedef struct function {
    const char *name;
    tp_op op;
    long double (*truth)(long double);
    double limit;
} function;
static const function functions[] = {
    {"exp", TP_OP_EXP, expl, 1.05},        {"log", TP_OP_LOG, logl, 1.0},
    {"tanh", TP_OP_TANH, tanhl, 1.4},      {"erf", TP_OP_ERF, erfl, 1.5},
    {"erfc", TP_OP_ERFC, erfcl, 0.53},     {"sigmoid", TP_OP_SIGMOID, true_sigmoid, 1.7},
    {"silu", TP_OP_SILU, true_silu, 1.7},  {"softplus", TP_OP_SOFTPLUS, true_softplus, 0.53},
    {"gelu", TP_OP_GELU, true_gelu, 0.53}, {"gelu_tanh", TP_OP_GELU_TANH, true_gelu_tanh, 0.53},
    {"sqrt", TP_OP_SQRT, sqrtl, 0.5},      {"rsqrt", TP_OP_RSQRT, true_rsqrt, 1.5},
};
#define FUNCTIONS (sizeof functions / sizeof *functions)

/* In units of the last place of the true value. */
static double error_of(float y, long double t)
{
    if (isnan(t) || isnan(y)) return isnan(t) && isnan(y) ? 0 : INFINITY;
    if (y == t || (isinf(y) && y == (float)t)) return 0;
    if (isinf(y)) return INFINITY;
    int e;
    frexpl(t, &e);
    if (e < -125) e = -125;
    return (double)(fabsl((long double)y - t) / ldexpl(1, e - 24));
}

Test(cpu_math, errors_stay_below_their_limits)
{
    enum { N = 512 };
    uint64_t step = long_tests() ? 97 : 9973;
    for (size_t f = 0; f < FUNCTIONS; f++) {
        double worst = 0;
        float worst_at = 0, x[N], y[N], first[N];
        for (uint64_t bits = 0; bits < UINT64_C(1) << 32;) {
            int n = 0;
            for (; n < N && bits < UINT64_C(1) << 32; n++, bits += step) {
                uint32_t b = (uint32_t)bits;
                memcpy(&x[n], &b, sizeof b);
            }
            for (int isa = 0; isa < cpu_tables(); isa++) {
                cpu_table(isa)->op[functions[f].op][TP_F32](n, x, NULL, NULL, isa ? y : first);
                for (int i = 0; isa && i < n; i++) {
                    if (memcmp(&y[i], &first[i], 4) && !(isnan(y[i]) && isnan(first[i])))
                        cr_assert_fail("%s(%a): %a with %s, %a with %s", functions[f].name, x[i],
                                       y[i], cpu_table(isa)->name, first[i], cpu_table(0)->name);
                }
            }
            for (int i = 0; i < n; i++) {
                double e = error_of(first[i], functions[f].truth(x[i]));
                if (e > worst) worst = e, worst_at = x[i];
            }
        }
        cr_expect_leq(worst, functions[f].limit, "%s: %g ulp at %a, limit %g", functions[f].name,
                      worst, worst_at, functions[f].limit);
        fprintf(stderr, "NOTE %s: %.3f ulp at %a\n", functions[f].name, worst, worst_at);
    }
}

typedef struct point {
    tp_op op;
    float a, b, y;
} point;
/* Results that are exact, with their sign. b counts for binary ops. */
static const point points[] = {
    {TP_OP_EXP, 0.0F, 0, 1.0F},           {TP_OP_EXP, -0.0F, 0, 1.0F},
    {TP_OP_EXP, -INFINITY, 0, 0.0F},      {TP_OP_EXP, INFINITY, 0, INFINITY},
    {TP_OP_EXP, 89.0F, 0, INFINITY},      {TP_OP_EXP, -104.0F, 0, 0.0F},
    {TP_OP_EXP, -3.4e38F, 0, 0.0F},       {TP_OP_LOG, 1.0F, 0, 0.0F},
    {TP_OP_LOG, 0.0F, 0, -INFINITY},      {TP_OP_LOG, -0.0F, 0, -INFINITY},
    {TP_OP_LOG, -1.0F, 0, NAN},           {TP_OP_LOG, INFINITY, 0, INFINITY},
    {TP_OP_TANH, -0.0F, 0, -0.0F},        {TP_OP_TANH, 1e-40F, 0, 1e-40F},
    {TP_OP_TANH, INFINITY, 0, 1.0F},      {TP_OP_TANH, -INFINITY, 0, -1.0F},
    {TP_OP_ERF, -0.0F, 0, -0.0F},         {TP_OP_ERF, -INFINITY, 0, -1.0F},
    {TP_OP_ERF, 5.0F, 0, 1.0F},           {TP_OP_SIGMOID, -INFINITY, 0, 0.0F},
    {TP_OP_SIGMOID, INFINITY, 0, 1.0F},   {TP_OP_SIGMOID, 0.0F, 0, 0.5F},
    {TP_OP_GELU, 0.0F, 0, 0.0F},          {TP_OP_GELU, -0.0F, 0, -0.0F},
    {TP_OP_GELU, INFINITY, 0, INFINITY},  {TP_OP_GELU, -INFINITY, 0, -0.0F},
    {TP_OP_GELU, -1e30F, 0, -0.0F},       {TP_OP_GELU, 20.0F, 0, 20.0F},
    {TP_OP_SQRT, -0.0F, 0, -0.0F},        {TP_OP_SQRT, -1.0F, 0, NAN},
    {TP_OP_RELU, -0.0F, 0, 0.0F},         {TP_OP_RELU, NAN, 0, NAN},
    {TP_OP_RELU, -INFINITY, 0, 0.0F},     {TP_OP_MAXIMUM, -0.0F, 0.0F, 0.0F},
    {TP_OP_MAXIMUM, 0.0F, -0.0F, 0.0F},   {TP_OP_MINIMUM, -0.0F, 0.0F, -0.0F},
    {TP_OP_MINIMUM, 0.0F, -0.0F, -0.0F},  {TP_OP_MAXIMUM, NAN, 1.0F, NAN},
    {TP_OP_MAXIMUM, 1.0F, NAN, NAN},      {TP_OP_MINIMUM, NAN, -INFINITY, NAN},
    {TP_OP_MINIMUM, -INFINITY, NAN, NAN}, {TP_OP_POW, 0.0F, 0.0F, 1.0F},
    {TP_OP_POW, -2.0F, 3.0F, -8.0F},      {TP_OP_POW, -2.0F, 0.5F, NAN},
};

Test(cpu_math, exact_results_and_signs_in_every_lane)
{
    enum { N = 37 };
    for (size_t p = 0; p < sizeof points / sizeof *points; p++) {
        float a[N], b[N], y[N];
        for (int i = 0; i < N; i++) a[i] = points[p].a, b[i] = points[p].b;
        for (int isa = 0; isa < cpu_tables(); isa++) {
            cpu_table(isa)->op[points[p].op][TP_F32](N, a, b, NULL, y);
            for (int i = 0; i < N; i++) {
                bool same = isnan(points[p].y) ? isnan(y[i]) : !memcmp(&y[i], &points[p].y, 4);
                cr_assert(same, "%s of %a and %a with %s, lane %d: %a instead of %a",
                          tp_op_info_of(points[p].op)->name, points[p].a, points[p].b,
                          cpu_table(isa)->name, i, y[i], points[p].y);
            }
        }
    }
}

typedef struct power {
    int64_t a, b, y;
} power;

Test(cpu_math, integer_powers_wrap_and_truncate)
{
    static const power c[] = {
        {2, 62, INT64_C(1) << 62},
        {2, 64, 0},
        {3, 0, 1},
        {0, 0, 1},
        {0, -1, 0},
        {1, -5, 1},
        {-1, -5, -1},
        {-1, -4, 1},
        {2, -1, 0},
        {-7, 3, -343},
        {INT64_MIN, 2, 0},
        {10, 19, INT64_C(-8446744073709551616)},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        int64_t y;
        for (int isa = 0; isa < cpu_tables(); isa++) {
            cpu_table(isa)->op[TP_OP_POW][TP_I64](1, &c[i].a, &c[i].b, NULL, &y);
            cr_expect_eq(y, c[i].y, "%lld ^ %lld with %s: %lld", (long long)c[i].a,
                         (long long)c[i].b, cpu_table(isa)->name, (long long)y);
        }
    }
}
