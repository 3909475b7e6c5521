/* How far the functions are from the truth, which is the C library's long double, over floats of
 * every exponent. The reference has to be within a hair of correct rounding, or it could not judge;
 * the CPU close enough that the two differ by no more than docs/SEMANTICS.md says. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/ops/harness.h"

static long double sigmoid_of(long double a)
{
    return 1 / (1 + expl(-a));
}
static long double gelu_of(long double a)
{
    return a == -INFINITY ? -0.0L : a / 2 * erfcl(-a * sqrtl(0.5L));
}
static long double silu_of(long double a)
{
    return a == -INFINITY ? -0.0L : a / (1 + expl(-a));
}
static long double gelu_tanh_of(long double a)
{
    long double t = sqrtl(2 / acosl(-1)) * (a + 0.044715L * a * a * a);
    return a == -INFINITY ? -0.0L : a / (1 + expl(-2 * t));
}
static long double softplus_of(long double a)
{
    return a > 0 ? a + log1pl(expl(-a)) : log1pl(expl(a));
}
static long double reciprocal_of(long double a)
{
    return 1 / a;
}
static long double rsqrt_of(long double a)
{
    return 1 / sqrtl(a);
}

/* f32, f64, ref: the largest error in units of the last place, of the CPU's two types and of the
 * reference. tiny: what an f64 result below 2^-1000 may be off instead. */
typedef struct function {
    const char *name;
    tp_tensor *(*build)(tp_tensor *);
    long double (*exact)(long double);
    double f32, f64, ref, tiny;
} function;
static const function functions[] = {
    {"exp", tp_exp, expl, 1.75, 2.5, 0.51, 0},
    {"log", tp_log, logl, 1.75, 2.5, 0.51, 0},
    {"tanh", tp_tanh, tanhl, 1.75, 2.5, 0.51, 0},
    {"erf", tp_erf, erfl, 1.75, 2.5, 0.51, 0},
    {"sqrt", tp_sqrt, sqrtl, 0.5, 0.5, 0.5, 0},
    {"rsqrt", tp_rsqrt, rsqrt_of, 1.5, 1.5, 1.5, 0},
    {"reciprocal", tp_reciprocal, reciprocal_of, 0.501, 0.501, 0.501, 0},
    {"exp2", tp_exp2, exp2l, 0.52, 1, 0.51, 0},
    {"expm1", tp_expm1, expm1l, 0.52, 1.5, 0.51, 0},
    {"log2", tp_log2, log2l, 0.52, 1.5, 0.51, 0},
    {"log10", tp_log10, log10l, 0.52, 2.5, 0.51, 0},
    {"log1p", tp_log1p, log1pl, 0.52, 1.5, 0.51, 0},
    {"sin", tp_sin, sinl, 2, 1, 0.51, 0},
    {"cos", tp_cos, cosl, 2, 1, 0.51, 0},
    {"tan", tp_tan, tanl, 0.7, 1.5, 0.51, 0},
    {"asin", tp_asin, asinl, 0.52, 1.5, 0.51, 0},
    {"acos", tp_acos, acosl, 0.52, 1.5, 0.51, 0},
    {"atan", tp_atan, atanl, 0.52, 1.5, 0.51, 0},
    {"sinh", tp_sinh, sinhl, 0.52, 2.5, 0.51, 0},
    {"cosh", tp_cosh, coshl, 0.52, 2.5, 0.51, 0},
    {"erfc", tp_erfc, erfcl, 0.53, 5.5, 0.51, 0},
    {"softplus", tp_softplus, softplus_of, 0.53, 2, 0.51, 0},
    {"sigmoid", tp_sigmoid, sigmoid_of, 2, 2, 0.51, 0},
    {"silu", tp_silu, silu_of, 2, 3, 0.51, 0},
    {"gelu_tanh", tp_gelu_tanh, gelu_tanh_of, 0.53, 3, 1, 0},
    /* erfc has few bits left where it is subnormal. */
    {"gelu", tp_gelu, gelu_of, 0.53, 4, 0.51, 0x1p-1069},
};
#define FUNCTIONS (sizeof functions / sizeof *functions)

/* |got - exact| in units of the last place that the dtype has at exact. */
static double error_in_ulps(tp_dtype dtype, double got, long double exact)
{
    if (isnan(got) || isnan(exact)) return isnan(got) && isnan(exact) ? 0 : INFINITY;
    long double most = dtype == TP_F32 ? 0x1.ffffffp127L : 0x1.fffffffffffff8p1023L;
    bool infinite = fabsl(exact) >= most;
    if (isinf(got) || infinite)
        return isinf(got) && infinite && (got < 0) == (exact < 0) ? 0 : INFINITY;
    int digits = dtype == TP_F32 ? 24 : 53, lowest = dtype == TP_F32 ? -126 : -1022;
    int exponent = exact == 0 ? lowest : ilogbl(exact);
    if (exponent < lowest) exponent = lowest;
    return (double)(fabsl(got - exact) / ldexpl(1, exponent - digits + 1));
}

typedef struct worst {
    double ulps, at, got;
} worst;

static void judge(const function *f, tp_dtype dtype, const char *backend, int64_t count,
                  const void *x, worst *w)
{
    tp_graph *g = tp_graph_create(NULL);
    tp_graph_set_backend(g, backend);
    tp_tensor *y = f->build(tp_from_data(g, dtype, TP_DIMS(count), x));
    cr_assert_eq(tp_eval(y), TP_OK, "%s: %s", f->name, tp_graph_error(g)->text);
    const char *data = tp_data(y), *in = x;
    size_t size = tp_dtype_size(dtype);
    for (int64_t i = 0; i < count; i++) {
        double a = tp_value_load(dtype, in + (size_t)i * size).f,
               got = tp_value_load(dtype, data + (size_t)i * size).f;
        long double exact = f->exact((long double)a);
        double ulps = error_in_ulps(dtype, got, exact);
        bool tiny = fabsl(exact) < 0x1p-1000L && fabsl(got - exact) <= f->tiny;
        if (ulps > w->ulps && !tiny) *w = (worst){ulps, a, got};
    }
    tp_graph_destroy(g);
}

#define CHUNK 65536

static void expect_within(const function *f, tp_dtype dtype, const char *backend, double bound,
                          const worst *w)
{
    if (long_tests())
        printf("NOTE %s %s on %s: %.3f ulp at %a\n", f->name, tp_dtype_name(dtype), backend,
               w->ulps, w->at);
    cr_expect(w->ulps <= bound, "%s %s on %s: %.17g gives %.17g, %.3f ulp off, allowed %.3f",
              f->name, tp_dtype_name(dtype), backend, w->at, w->got, w->ulps, bound);
}

/* Every step-th bit pattern: all exponents, both signs, denormals, infinities, NaNs. */
static void sweep_f32(const function *f, const char *backend, double bound, uint64_t step)
{
    static float x[CHUNK];
    worst w = {0};
    for (uint64_t bits = 0; bits <= UINT32_MAX;) {
        int64_t n = 0;
        for (; n < CHUNK && bits <= UINT32_MAX; bits += step) {
            uint32_t pattern = (uint32_t)bits;
            memcpy(&x[n++], &pattern, sizeof pattern);
        }
        judge(f, TP_F32, backend, n, x, &w);
    }
    expect_within(f, TP_F32, backend, bound, &w);
}

Test(accuracy, f32_functions_over_all_exponents, .timeout = 3600)
{
    for (size_t i = 0; i < FUNCTIONS; i++) {
        sweep_f32(&functions[i], "cpu", functions[i].f32, long_tests() ? 61 : 8191);
        sweep_f32(&functions[i], "ref", functions[i].ref, long_tests() ? 509 : 16411);
    }
}

/* Functions of two operands; their special values are the C library's. */
static const struct {
    const char *name;
    tp_tensor *(*build)(tp_tensor *, tp_tensor *);
    long double (*exact)(long double, long double);
} pairs[] = {{"pow", tp_pow, powl}, {"atan2", tp_atan2, atan2l}, {"hypot", tp_hypot, hypotl}};

static void judge_pair(size_t f, tp_dtype dtype, const char *backend, double bound)
{
    static const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, 0.5, -3, 2};
    static char x[2][20000 * sizeof(double)];
    uint64_t s = 99;
    size_t size = tp_dtype_size(dtype);
    for (int64_t i = 0; i < 2 * 20000; i++) {
        double v = ldexp((double)random_in(&s, -1000000, 1000000) / 1e6, (int)random_in(&s, -9, 9));
        if (random_in(&s, 0, 7) == 0) v = special[random_in(&s, 0, 9)];
        tp_value_store(dtype, x[i % 2] + (size_t)(i / 2) * size, TP_F64, (tp_value){.f = v});
    }
    tp_graph *g = tp_graph_create(NULL);
    tp_graph_set_backend(g, backend);
    tp_tensor *y = pairs[f].build(tp_from_data(g, dtype, TP_DIMS(20000), x[0]),
                                  tp_from_data(g, dtype, TP_DIMS(20000), x[1]));
    cr_assert_eq(tp_eval(y), TP_OK);
    for (int64_t i = 0; i < 20000; i++) {
        double a = tp_value_load(dtype, x[0] + (size_t)i * size).f,
               b = tp_value_load(dtype, x[1] + (size_t)i * size).f, got = tp_item(y, i);
        long double exact = pairs[f].exact(a, b);
        double ulps = error_in_ulps(dtype, got, exact);
        if (got == 0 && exact == 0 && signbit(got) != (signbit(exact) != 0)) ulps = INFINITY;
        cr_expect(ulps <= bound, "%s(%.17g, %.17g) %s on %s: %.17g is %.3f ulp off, allowed %.3f",
                  pairs[f].name, a, b, tp_dtype_name(dtype), backend, got, ulps, bound);
    }
    tp_graph_destroy(g);
}

Test(accuracy, functions_of_two_operands)
{
    for (size_t f = 0; f < sizeof pairs / sizeof *pairs; f++) {
        judge_pair(f, TP_F32, "cpu", 1.5);
        judge_pair(f, TP_F64, "cpu", 1.5);
        judge_pair(f, TP_F32, "ref", 0.51);
        judge_pair(f, TP_F64, "ref", 0.51);
    }
}

Test(accuracy, f64_functions_over_their_range)
{
    static double x[CHUNK];
    uint64_t s = 77;
    for (int64_t i = 0; i < CHUNK; i++) {
        double unit = (double)random_next(&s) / 0x1p32 + (double)random_next(&s) / 0x1p64;
        int exponent = (int)random_in(&s, i % 2 ? -1060 : -12, i % 2 ? 1023 : 10);
        x[i] = ldexp(random_in(&s, 0, 1) ? -1 - unit : 1 + unit, exponent);
    }
    for (size_t i = 0; i < FUNCTIONS; i++) {
        worst cpu = {0}, ref = {0};
        judge(&functions[i], TP_F64, "cpu", CHUNK, x, &cpu);
        judge(&functions[i], TP_F64, "ref", CHUNK, x, &ref);
        expect_within(&functions[i], TP_F64, "cpu", functions[i].f64, &cpu);
        expect_within(&functions[i], TP_F64, "ref", functions[i].ref, &ref);
    }
}
