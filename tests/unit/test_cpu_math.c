/* The functions of the CPU backend against long double: largest errors over a stepped sample of all
 * f32 and around hard places; the same bits on each instruction set. TP_LONG=1 takes a hundred
 * times as many. */
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
    {"exp", TP_OP_EXP, expl, 1.05},
    {"exp2", TP_OP_EXP2, exp2l, 0.51},
    {"expm1", TP_OP_EXPM1, expm1l, 0.52},
    {"log", TP_OP_LOG, logl, 1.0},
    {"log2", TP_OP_LOG2, log2l, 0.51},
    {"log10", TP_OP_LOG10, log10l, 0.51},
    {"log1p", TP_OP_LOG1P, log1pl, 0.51},
    {"tanh", TP_OP_TANH, tanhl, 1.4},
    {"sinh", TP_OP_SINH, sinhl, 0.52},
    {"cosh", TP_OP_COSH, coshl, 0.52},
    {"sin", TP_OP_SIN, sinl, 2.0},
    {"cos", TP_OP_COS, cosl, 2.0},
    {"tan", TP_OP_TAN, tanl, 0.7},
    {"asin", TP_OP_ASIN, asinl, 0.51},
    {"acos", TP_OP_ACOS, acosl, 0.51},
    {"atan", TP_OP_ATAN, atanl, 0.51},
    {"erf", TP_OP_ERF, erfl, 1.5},
    {"erfc", TP_OP_ERFC, erfcl, 0.53},
    {"sigmoid", TP_OP_SIGMOID, true_sigmoid, 2.0},
    {"silu", TP_OP_SILU, true_silu, 2.0},
    {"softplus", TP_OP_SOFTPLUS, true_softplus, 0.53},
    {"gelu", TP_OP_GELU, true_gelu, 0.53},
    {"gelu_tanh", TP_OP_GELU_TANH, true_gelu_tanh, 0.53},
    {"sqrt", TP_OP_SQRT, sqrtl, 0.5},
    {"rsqrt", TP_OP_RSQRT, true_rsqrt, 1.5},
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

static uint64_t random_bits(uint64_t *state)
{
    uint64_t high = random_next(state);
    return high << 32 | random_next(state);
}

/* Where functions begin, end, overflow, vanish or change their way, and neighbours of multiples of
 * pi/2, which are all but 0 of sin, cos or tan: the second last is the closest of any f32. */
static const float hard[] = {0,
                             0x1p-149F,
                             0x1p-126F,
                             0x1p-24F,
                             0x1p-12F,
                             0.25F,
                             0.34657359F,
                             0.5F,
                             0.625F,
                             0.70710677F,
                             1,
                             1.0986123F,
                             1.4142135F,
                             2,
                             2.4142135F,
                             4,
                             9.0F,
                             10.06F,
                             14.7F,
                             16.635532F,
                             20,
                             40,
                             87.33655F,
                             88.72284F,
                             89.4159F,
                             89.5F,
                             90,
                             103.27893F,
                             103.97208F,
                             104,
                             110,
                             126,
                             127,
                             128,
                             149,
                             150,
                             151,
                             4096,
                             0x1p23F,
                             0x1p25F,
                             0x1p79F,
                             0x1p80F,
                             0x1p81F,
                             0x1.fp126F,
                             0x1p127F,
                             1.570796F,
                             3.1415927F,
                             6.2831855F,
                             355,
                             4095.069F,
                             4097.418F,
                             710,
                             52174,
                             103993.F,
                             16367173e5F,
                             0x1.6ac5b2p119F,
                             0x1.fffffep127F};
#define HARD ((int)(sizeof hard / sizeof *hard))
#define AROUND 40

/* Pattern i of the sample; false: no more. */
static bool sample(uint64_t i, float *x)
{
    uint64_t step = long_tests() ? 97 : 9973, count = ((UINT64_C(1) << 32) + step - 1) / step;
    uint32_t bits = (uint32_t)(i * step);
    if (i >= count) {
        uint64_t rest = i - count, place = rest / (4 * AROUND);
        if (place >= HARD) return false;
        memcpy(&bits, &hard[place], sizeof bits);
        bits += (uint32_t)(rest / 2 % (2 * AROUND)) - AROUND;
        bits ^= (uint32_t)(rest % 2) << 31;
    }
    memcpy(x, &bits, sizeof *x);
    return true;
}

enum { ROW = 512 };

/* A row of every instruction set; that of the first in y. */
static void same_rows(const char *name, tp_op op, int n, const float *a, const float *b, float *y)
{
    float other[ROW];
    for (int isa = 0; isa < cpu_tables(); isa++) {
        cpu_table(isa)->op[op][TP_F32](n, a, b, NULL, isa ? other : y);
        for (int i = 0; isa && i < n; i++) {
            if (memcmp(&other[i], &y[i], 4) && !(isnan(other[i]) && isnan(y[i])))
                cr_assert_fail("%s(%a, %a): %a with %s, %a with %s", name, a[i], b ? b[i] : 0,
                               other[i], cpu_table(isa)->name, y[i], cpu_table(0)->name);
        }
    }
}

Test(cpu_math, errors_stay_below_their_limits)
{
    for (size_t f = 0; f < FUNCTIONS; f++) {
        double worst = 0;
        float worst_at = 0, x[ROW], y[ROW];
        uint64_t at = 0;
        for (int n = ROW; n == ROW;) {
            for (n = 0; n < ROW && sample(at, &x[n]); n++) at++;
            same_rows(functions[f].name, functions[f].op, n, x, NULL, y);
            for (int i = 0; i < n; i++) {
                double e = error_of(y[i], functions[f].truth(x[i]));
                if (e > worst) worst = e, worst_at = x[i];
            }
        }
        cr_expect_leq(worst, functions[f].limit, "%s: %g ulp at %a, limit %g", functions[f].name,
                      worst, worst_at, functions[f].limit);
        fprintf(stderr, "NOTE %s: %.3f ulp at %a\n", functions[f].name, worst, worst_at);
    }
}

/* Pairs: all of hard values, both signs; any bits; a power that stays in range; whole exponents. */
static bool pair(int64_t i, uint64_t *state, float *a, float *b)
{
    int64_t count = long_tests() ? 20000000 : 400000, sides = 2 * HARD;
    uint64_t bits = random_bits(state);
    uint32_t low = (uint32_t)bits, high = (uint32_t)(bits >> 32);
    if (i < sides * sides) {
        int64_t p = i / sides, q = i % sides;
        *a = p % 2 ? -hard[p / 2] : hard[p / 2], *b = q % 2 ? -hard[q / 2] : hard[q / 2];
    } else if (i % 4 == 0) {
        memcpy(a, &low, sizeof *a), memcpy(b, &high, sizeof *b);
    } else if (i % 4 == 1) {
        *a = (float)low * 0x1p-28F, *b = (float)(int32_t)high * 0x1p-27F;
    } else if (i % 4 == 2) {
        *a = 1 + (float)(int32_t)low * 0x1p-48F, *b = (float)(int32_t)high * 0x1p-9F;
    } else {
        *a = (float)(int32_t)low * 0x1p-29F, *b = (float)((int32_t)high >> 25);
    }
    return i < count;
}

static long double true_hypot(long double a, long double b)
{
    return isinf(a) || isinf(b) ? INFINITY : sqrtl(a * a + b * b);
}

Test(cpu_math, errors_of_two_operands_stay_below_their_limits)
{
    static const struct {
        const char *name;
        tp_op op;
        long double (*truth)(long double, long double);
        double limit;
    } pairs[] = {{"pow", TP_OP_POW, powl, 0.52},
                 {"atan2", TP_OP_ATAN2, atan2l, 0.51},
                 {"hypot", TP_OP_HYPOT, true_hypot, 0.51}};
    for (int f = 0; f < 3; f++) {
        double worst = 0;
        float worst_a = 0, worst_b = 0, a[ROW], b[ROW], y[ROW];
        uint64_t state = 5;
        int64_t at = 0;
        for (int n = ROW; n == ROW;) {
            for (n = 0; n < ROW && pair(at, &state, &a[n], &b[n]); n++) at++;
            same_rows(pairs[f].name, pairs[f].op, n, a, b, y);
            for (int i = 0; i < n; i++) {
                long double truth = pairs[f].truth(a[i], b[i]);
                double e = error_of(y[i], truth);
                if (!isnan(truth) && !signbit(truth) != !signbit(y[i])) e = INFINITY;
                if (e > worst) worst = e, worst_a = a[i], worst_b = b[i];
            }
        }
        cr_expect_leq(worst, pairs[f].limit, "%s: %g ulp at %a, %a, limit %g", pairs[f].name, worst,
                      worst_a, worst_b, pairs[f].limit);
        fprintf(stderr, "NOTE %s: %.3f ulp at %a, %a\n", pairs[f].name, worst, worst_a, worst_b);
    }
}

/* A far argument turns a block of sin or cos to the long way: its neighbours keep their bits. */
Test(cpu_math, a_far_argument_changes_no_neighbour)
{
    enum { N = 2500 };
    static float x[N], near[N], y[N];
    static const tp_op ops[] = {TP_OP_SIN, TP_OP_COS};
    uint64_t state = 9;
    for (int i = 0; i < N; i++) x[i] = (float)(int32_t)random_bits(&state) * 0x1p-20F;
    for (int isa = 0; isa < cpu_tables(); isa++) {
        for (int f = 0; f < 2; f++) {
            float kept = x[1500];
            cpu_table(isa)->op[ops[f]][TP_F32](N, x, NULL, NULL, near);
            x[1500] = -4096;
            cpu_table(isa)->op[ops[f]][TP_F32](N, x, NULL, NULL, y);
            float far = y[1500];
            x[1500] = kept, y[1500] = near[1500];
            cr_expect_arr_eq(near, y, sizeof y, "with %s", cpu_table(isa)->name);
            float truth = f ? cosf(-4096) : sinf(-4096);
            cr_expect_float_eq(far, truth, 1e-7, "%a, not %a", far, truth);
        }
    }
}

/* exp and log in f64, within an ulp and the same bits in every table. */
Test(cpu_math, f64_errors_stay_below_their_limits)
{
    static const double places[] = {0,         0x1p-1074,
                                    0x1p-1022, 0.70710678118654757,
                                    1,         1.4142135623730951,
                                    709.782,   710,
                                    745.132,   746,
                                    0x1p1023,  INFINITY,
                                    NAN};
    enum { PLACES = sizeof places / sizeof *places, N = 1 << 18 };
    static double x[N], y[3][N];
    static const tp_op ops[] = {TP_OP_EXP, TP_OP_LOG};
    for (int f = 0; f < 2; f++) {
        uint64_t state = 3;
        double worst = 0, worst_at = 0;
        for (int i = 0; i < N; i++) {
            uint64_t bits = random_bits(&state);
            int place = i / 128;
            if (place < PLACES) {
                memcpy(&bits, &places[place], sizeof bits);
                bits += (uint64_t)(i % 64) - 32, bits ^= (uint64_t)(i / 64 % 2) << 63;
            }
            memcpy(&x[i], &bits, sizeof bits);
            if (place >= PLACES && i % 2)
                x[i] = ((double)bits * 0x1p-64 - (f ? 0 : 0.5)) * (i % 4 == 1 ? 2 : 1500);
        }
        for (int isa = 0; isa < cpu_tables(); isa++) {
            cpu_table(isa)->op[ops[f]][TP_F64](N, x, NULL, NULL, y[isa]);
            for (int i = 0; i < N; i++) {
                bool same =
                    !memcmp(&y[0][i], &y[isa][i], 8) || (isnan(y[0][i]) && isnan(y[isa][i]));
                cr_assert(same, "%a: %a with %s, %a with %s", x[i], y[isa][i], cpu_table(isa)->name,
                          y[0][i], cpu_table(0)->name);
            }
        }
        for (int i = 0; i < N; i++) {
            long double t = f ? logl(x[i]) : expl(x[i]);
            int e;
            frexpl(t, &e);
            double got = y[0][i],
                   error = (double)(fabsl(got - t) / ldexpl(1, e < -1021 ? -1074 : e - 53));
            if (isnan(t) ? isnan(got) : got == (double)t) error = 0;
            if (error > worst || isnan(error))
                worst = isnan(error) ? INFINITY : error, worst_at = x[i];
        }
        cr_expect_leq(worst, 1.0, "%s: %g ulp at %a", f ? "log" : "exp", worst, worst_at);
        fprintf(stderr, "NOTE %s f64: %.3f ulp at %a\n", f ? "log" : "exp", worst, worst_at);
    }
}

typedef struct point {
    tp_op op;
    float a, b, y;
} point;
/* Results that are exact, with their sign. b counts for binary ops. */
static const point points[] = {
    {TP_OP_EXP, 0.0F, 0, 1.0F},
    {TP_OP_EXP, -0.0F, 0, 1.0F},
    {TP_OP_EXP, -INFINITY, 0, 0.0F},
    {TP_OP_EXP, INFINITY, 0, INFINITY},
    {TP_OP_EXP, 89.0F, 0, INFINITY},
    {TP_OP_EXP, -104.0F, 0, 0.0F},
    {TP_OP_EXP, -3.4e38F, 0, 0.0F},
    {TP_OP_LOG, 1.0F, 0, 0.0F},
    {TP_OP_LOG, 0.0F, 0, -INFINITY},
    {TP_OP_LOG, -0.0F, 0, -INFINITY},
    {TP_OP_LOG, -1.0F, 0, NAN},
    {TP_OP_LOG, INFINITY, 0, INFINITY},
    {TP_OP_TANH, -0.0F, 0, -0.0F},
    {TP_OP_TANH, 1e-40F, 0, 1e-40F},
    {TP_OP_TANH, INFINITY, 0, 1.0F},
    {TP_OP_TANH, -INFINITY, 0, -1.0F},
    {TP_OP_ERF, -0.0F, 0, -0.0F},
    {TP_OP_ERF, -INFINITY, 0, -1.0F},
    {TP_OP_ERF, 5.0F, 0, 1.0F},
    {TP_OP_SIGMOID, -INFINITY, 0, 0.0F},
    {TP_OP_SIGMOID, INFINITY, 0, 1.0F},
    {TP_OP_SIGMOID, 0.0F, 0, 0.5F},
    {TP_OP_GELU, 0.0F, 0, 0.0F},
    {TP_OP_GELU, -0.0F, 0, -0.0F},
    {TP_OP_GELU, INFINITY, 0, INFINITY},
    {TP_OP_GELU, -INFINITY, 0, -0.0F},
    {TP_OP_GELU, -1e30F, 0, -0.0F},
    {TP_OP_GELU, 20.0F, 0, 20.0F},
    {TP_OP_SQRT, -0.0F, 0, -0.0F},
    {TP_OP_SQRT, -1.0F, 0, NAN},
    {TP_OP_RELU, -0.0F, 0, 0.0F},
    {TP_OP_RELU, NAN, 0, NAN},
    {TP_OP_RELU, -INFINITY, 0, 0.0F},
    {TP_OP_MAXIMUM, -0.0F, 0.0F, 0.0F},
    {TP_OP_MAXIMUM, 0.0F, -0.0F, 0.0F},
    {TP_OP_MINIMUM, -0.0F, 0.0F, -0.0F},
    {TP_OP_MINIMUM, 0.0F, -0.0F, -0.0F},
    {TP_OP_MAXIMUM, NAN, 1.0F, NAN},
    {TP_OP_MAXIMUM, 1.0F, NAN, NAN},
    {TP_OP_MINIMUM, NAN, -INFINITY, NAN},
    {TP_OP_MINIMUM, -INFINITY, NAN, NAN},
    {TP_OP_POW, 0.0F, 0.0F, 1.0F},
    {TP_OP_POW, -2.0F, 3.0F, -8.0F},
    {TP_OP_POW, -2.0F, 0.5F, NAN},
    {TP_OP_POW, NAN, 0.0F, 1.0F},
    {TP_OP_POW, 1.0F, NAN, 1.0F},
    {TP_OP_POW, -1.0F, NAN, NAN},
    {TP_OP_POW, -1.0F, INFINITY, 1.0F},
    {TP_OP_POW, -1.0F, -INFINITY, 1.0F},
    {TP_OP_POW, 0x1.fffffep-1F, INFINITY, 0.0F},
    {TP_OP_POW, -0x1.000002p0F, INFINITY, INFINITY},
    {TP_OP_POW, -0.0F, 3.0F, -0.0F},
    {TP_OP_POW, -0.0F, -3.0F, -INFINITY},
    {TP_OP_POW, -0.0F, 2.5F, 0.0F},
    {TP_OP_POW, -INFINITY, 3.0F, -INFINITY},
    {TP_OP_POW, -INFINITY, 0.5F, INFINITY},
    {TP_OP_POW, -INFINITY, -3.0F, -0.0F},
    {TP_OP_POW, -1.0F, 16777215.0F, -1.0F},
    {TP_OP_POW, -1.0F, 16777216.0F, 1.0F},
    {TP_OP_POW, -1.0F, 8388607.5F, NAN},
    {TP_OP_POW, -INFINITY, INFINITY, INFINITY},
    {TP_OP_SIN, -0.0F, 0, -0.0F},
    {TP_OP_SIN, INFINITY, 0, NAN},
    {TP_OP_SIN, -0x1p-149F, 0, -0x1p-149F},
    {TP_OP_COS, -0.0F, 0, 1.0F},
    {TP_OP_COS, -INFINITY, 0, NAN},
    {TP_OP_TAN, -0.0F, 0, -0.0F},
    {TP_OP_TAN, INFINITY, 0, NAN},
    {TP_OP_TAN, 0x1p-149F, 0, 0x1p-149F},
    {TP_OP_EXP2, 10.0F, 0, 1024.0F},
    {TP_OP_EXP2, -149.0F, 0, 0x1p-149F},
    {TP_OP_EXP2, 128.0F, 0, INFINITY},
    {TP_OP_EXP2, -INFINITY, 0, 0.0F},
    {TP_OP_EXPM1, -0.0F, 0, -0.0F},
    {TP_OP_EXPM1, -INFINITY, 0, -1.0F},
    {TP_OP_EXPM1, INFINITY, 0, INFINITY},
    {TP_OP_EXPM1, 0x1p-149F, 0, 0x1p-149F},
    {TP_OP_LOG2, 8.0F, 0, 3.0F},
    {TP_OP_LOG2, 0x1p-149F, 0, -149.0F},
    {TP_OP_LOG2, -0.0F, 0, -INFINITY},
    {TP_OP_LOG2, 1.0F, 0, 0.0F},
    {TP_OP_LOG10, 1000.0F, 0, 3.0F},
    {TP_OP_LOG10, INFINITY, 0, INFINITY},
    {TP_OP_LOG1P, -0.0F, 0, -0.0F},
    {TP_OP_LOG1P, -1.0F, 0, -INFINITY},
    {TP_OP_LOG1P, -1.5F, 0, NAN},
    {TP_OP_LOG1P, INFINITY, 0, INFINITY},
    {TP_OP_SINH, -0.0F, 0, -0.0F},
    {TP_OP_SINH, -INFINITY, 0, -INFINITY},
    {TP_OP_COSH, -INFINITY, 0, INFINITY},
    {TP_OP_COSH, 0.0F, 0, 1.0F},
    {TP_OP_ASIN, -0.0F, 0, -0.0F},
    {TP_OP_ASIN, 1.5F, 0, NAN},
    {TP_OP_ACOS, 1.0F, 0, 0.0F},
    {TP_OP_ACOS, INFINITY, 0, NAN},
    {TP_OP_ATAN, -0.0F, 0, -0.0F},
    {TP_OP_ATAN, INFINITY, 0, 0x1.921fb6p0F},
    {TP_OP_ATAN2, -0.0F, 1.0F, -0.0F},
    {TP_OP_ATAN2, 0.0F, -0.0F, 0x1.921fb6p1F},
    {TP_OP_ATAN2, INFINITY, INFINITY, 0x1.921fb6p-1F},
    {TP_OP_ATAN2, 1.0F, -INFINITY, 0x1.921fb6p1F},
    {TP_OP_ATAN2, -1.0F, INFINITY, -0.0F},
    {TP_OP_ATAN2, NAN, 1.0F, NAN},
    {TP_OP_ATAN2, 1.0F, NAN, NAN},
    {TP_OP_HYPOT, -INFINITY, NAN, INFINITY},
    {TP_OP_HYPOT, NAN, 1.0F, NAN},
    {TP_OP_HYPOT, 3e38F, 3e38F, INFINITY},
    {TP_OP_HYPOT, 0x1p-149F, 0.0F, 0x1p-149F},
    {TP_OP_HYPOT, -3.0F, 4.0F, 5.0F},
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
