/* Which element, which shape, which value: ops on both backends against plain loops over
 * coordinates that know nothing of the library. Integers are calculated exactly in 128 bits and
 * cut to their width, floats exactly enough in double and rounded once. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/ops/naive.h"
#include "tests/backend.h"

typedef __int128 wide;

/* ---- Elementwise ----------------------------------------------------------------------- */

typedef struct model {
    const char *name;
    int operands;
    void *build; /* by number of operands */
    double (*f)(const double *x);
    wide (*i)(const wide *x); /* x[3] is the width in bits */
    bool truth;               /* the result is bool */
    bool no_bool;             /* bool is refused or becomes a number of another width */
} model;

#define FLOATS_ONLY(name, expression)                                                              \
    static double name##_f(const double *x)                                                        \
    {                                                                                              \
        return expression;                                                                         \
    }
#define INTEGERS(name, expression)                                                                 \
    static wide name##_i(const wide *x)                                                            \
    {                                                                                              \
        return expression;                                                                         \
    }
#define BOTH(name, expression) FLOATS_ONLY(name, expression) INTEGERS(name, expression)

/* NaN wins; of two zeros the negative one is smaller. */
static bool is_below(double a, double b)
{
    return a < b || (a == b && signbit(a) && !signbit(b));
}

BOTH(neg, -x[0])
FLOATS_ONLY(abs, signbit(x[0]) ? -x[0] : x[0])
INTEGERS(abs, x[0] < 0 ? -x[0] : x[0])
BOTH(relu, x[0] > 0 || x[0] != x[0] ? x[0] : 0)
BOTH(sign, x[0] > 0 ? 1 : x[0] < 0 ? -1 : x[0] == 0 ? 0 : x[0])
BOTH(square, x[0] * x[0])
FLOATS_ONLY(sqrt, sqrt(x[0]))
FLOATS_ONLY(floor, isfinite(x[0]) && fabs(x[0]) < 1e15
                       ? copysign((double)(int64_t)x[0] - (x[0] < (double)(int64_t)x[0]), x[0])
                       : x[0])
FLOATS_ONLY(ceil, -floor_f(&(double){-x[0]}))
FLOATS_ONLY(trunc, x[0] < 0 ? ceil_f(x) : floor_f(x))
INTEGERS(floor, x[0])
INTEGERS(ceil, x[0])
INTEGERS(trunc, x[0])
INTEGERS(round, x[0])
/* The nearer neighbour, of two equally near ones the even one. */
static double round_f(const double *x)
{
    double below = floor_f(x), above = ceil_f(x);
    if (below == above || !isfinite(x[0])) return x[0];
    bool up =
        x[0] - below > above - x[0] || (x[0] - below == above - x[0] && (int64_t)below % 2 != 0);
    return copysign(up ? above : below, x[0]);
}
FLOATS_ONLY(isnan, x[0] != x[0])
FLOATS_ONLY(isinf, x[0] == INFINITY || x[0] == -INFINITY)
FLOATS_ONLY(isfinite, x[0] - x[0] == 0)
INTEGERS(isnan, ((void)x, 0))
INTEGERS(isinf, ((void)x, 0))
INTEGERS(isfinite, ((void)x, 1))
INTEGERS(bitwise_not, ~x[0])

BOTH(add, x[0] + x[1])
BOTH(sub, x[0] - x[1])
BOTH(mul, x[0] * x[1])
FLOATS_ONLY(div, x[0] / x[1])
FLOATS_ONLY(minimum, isnan(x[0]) || isnan(x[1]) ? NAN : is_below(x[1], x[0]) ? x[1] : x[0])
FLOATS_ONLY(maximum, isnan(x[0]) || isnan(x[1]) ? NAN : is_below(x[0], x[1]) ? x[1] : x[0])
INTEGERS(minimum, x[0] < x[1] ? x[0] : x[1])
INTEGERS(maximum, x[0] > x[1] ? x[0] : x[1])
INTEGERS(bitwise_and, x[0] & x[1])
INTEGERS(bitwise_or, x[0] | x[1])
INTEGERS(bitwise_xor, x[0] ^ x[1])
INTEGERS(left_shift, x[1] < 0 || x[1] >= x[3] ? 0 : x[0] * ((wide)1 << x[1]))
INTEGERS(right_shift, x[0] >> (x[1] < 0 || x[1] >= x[3] ? 100 : (int)x[1]))
BOTH(equal, x[0] == x[1])
BOTH(not_equal, x[0] != x[1])
BOTH(less, x[0] < x[1])
BOTH(less_equal, x[0] <= x[1])
BOTH(greater, x[0] > x[1])
BOTH(greater_equal, x[0] >= x[1])
BOTH(where, x[0] != 0 ? x[1] : x[2])

/* Python's % and //: the remainder has the sign of the divisor. */
static double remainder_f(const double *x)
{
    double r = fmod(x[0], x[1]);
    if (r == 0) return copysign(0, x[1]);
    return signbit(r) == signbit(x[1]) ? r : r + x[1];
}
static double floor_divide_f(const double *x)
{
    long double quotient = (long double)x[0] / x[1];
    if (x[1] == 0 || isnan(quotient)) return (double)quotient;
    if (isinf(x[0])) return NAN;
    if (isinf(x[1])) return x[0] == 0 || signbit(x[0]) == signbit(x[1]) ? (double)quotient : -1;
    return (double)floorl(quotient);
}
static wide floor_divide_i(const wide *x)
{
    if (x[1] == 0) return 0;
    wide q = x[0] / x[1];
    return q * x[1] != x[0] && (x[0] < 0) != (x[1] < 0) ? q - 1 : q;
}
static wide remainder_i(const wide *x)
{
    return x[1] == 0 ? 0 : x[0] - x[1] * floor_divide_i(x);
}
/* From the highest bit of the exponent down. */
static wide pow_i(const wide *x)
{
    if (x[1] < 0) return x[0] == 1 ? 1 : x[0] == -1 ? (x[1] % 2 ? -1 : 1) : 0;
    uint64_t y = 1;
    for (int bit = 63; bit >= 0; bit--) y = y * y * (x[1] >> bit & 1 ? (uint64_t)x[0] : 1);
    return (wide)y;
}

#define MODEL(name, operands, ...)                                                                 \
    {                                                                                              \
#name, operands, (void *)tp_##name, name##_f, name##_i, __VA_ARGS__                        \
    }
#define FLOAT_MODEL(name, operands)                                                                \
    {                                                                                              \
#name, operands, (void *)tp_##name, name##_f, NULL, false, false                           \
    }
#define INT_MODEL(name, operands, ...)                                                             \
    {                                                                                              \
#name, operands, (void *)tp_##name, NULL, name##_i, false, __VA_ARGS__                     \
    }
/* clang-format off */
static const model models[] = {
    MODEL(neg, 1, false, false),       MODEL(abs, 1, false, false),
    MODEL(relu, 1, false, false),      MODEL(sign, 1, false, false),
    MODEL(square, 1, false, false),    FLOAT_MODEL(sqrt, 1),
    MODEL(floor, 1, false, false),     MODEL(ceil, 1, false, false),
    MODEL(trunc, 1, false, false),     MODEL(round, 1, false, false),
    MODEL(isnan, 1, true, false),      MODEL(isinf, 1, true, false),
    MODEL(isfinite, 1, true, false),   INT_MODEL(bitwise_not, 1, true),
    MODEL(add, 2, false, false),       MODEL(sub, 2, false, false),
    MODEL(mul, 2, false, false),       FLOAT_MODEL(div, 2),
    MODEL(minimum, 2, false, false),   MODEL(maximum, 2, false, false),
    MODEL(remainder, 2, false, false), MODEL(floor_divide, 2, false, false),
    INT_MODEL(pow, 2, false),          INT_MODEL(bitwise_and, 2, false),
    INT_MODEL(bitwise_or, 2, false),   INT_MODEL(bitwise_xor, 2, false),
    INT_MODEL(left_shift, 2, true),    INT_MODEL(right_shift, 2, true),
    MODEL(equal, 2, true, false),      MODEL(not_equal, 2, true, false),
    MODEL(less, 2, true, false),       MODEL(less_equal, 2, true, false),
    MODEL(greater, 2, true, false),    MODEL(greater_equal, 2, true, false),
    MODEL(where, 3, false, false),
};
/* clang-format on */

static tp_tensor *build(const model *m, tp_tensor *const *in)
{
    switch (m->operands) {
    case 1:
        return ((tp_tensor * (*)(tp_tensor *)) m->build)(in[0]);
    case 2:
        return ((tp_tensor * (*)(tp_tensor *, tp_tensor *)) m->build)(in[0], in[1]);
    default:
        return ((tp_tensor * (*)(tp_tensor *, tp_tensor *, tp_tensor *)) m->build)(in[0], in[1],
                                                                                   in[2]);
    }
}

/* The exact value of an element; a u64 is not negative here. */
static wide wide_of(tp_dtype dtype, tp_value v)
{
    return dtype == TP_U64 ? (wide)(uint64_t)v.i : (wide)v.i;
}

/* What the model says, as bytes of the result's dtype. */
static void expect_value(const model *m, const array *in, const int64_t *position, tp_dtype result,
                         void *bytes)
{
    double f[3] = {0};
    wide i[4] = {0, 0, 0, (wide)tp_dtype_size(in[m->operands - 1].dtype) * 8};
    int first = m->operands == 3;
    bool floats = tp_dtype_kind_of(in[first].dtype) == TP_DTYPE_FLOAT;
    for (int k = 0; k < m->operands; k++) {
        tp_value v = array_get(&in[k], position[k]);
        bool own = tp_dtype_kind_of(in[k].dtype) == TP_DTYPE_FLOAT;
        i[k] = own ? 0 : wide_of(in[k].dtype, v);
        f[k] = own ? v.f : (double)v.i;
    }
    if (floats)
        tp_value_store(result, bytes, TP_F64, (tp_value){.f = m->f(f)});
    else
        tp_value_store(result, bytes, TP_I64, (tp_value){.i = (int64_t)m->i(i)});
}

static bool same(tp_dtype dtype, const void *a, const void *b)
{
    if (memcmp(a, b, tp_dtype_size(dtype)) == 0) return true;
    if (dtype == TP_BOOL) return !*(const char *)a == !*(const char *)b;
    return tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT && isnan(tp_value_load(dtype, a).f) &&
           isnan(tp_value_load(dtype, b).f);
}

static const int64_t out_shape[] = {2, 3, 4, 5};
static const struct {
    int ndim;
    int64_t shape[4];
} in_shapes[] = {{4, {2, 3, 1, 5}}, {3, {3, 4, 1}}, {1, {5}}};

static void check_elementwise(const model *m, tp_dtype dtype, const char *backend, bool dense,
                              uint64_t seed)
{
    tp_graph *g = tp_graph_create(NULL);
    tp_graph_set_backend(g, backend);
    array in[3];
    tp_tensor *leaf[3];
    for (int k = 0; k < m->operands; k++) {
        tp_dtype own = m->operands == 3 && k == 0 ? TP_BOOL : dtype;
        in[k] = m->operands == 1 ? array_any(own, 4, out_shape, seed)
                                 : array_any(own, in_shapes[k].ndim, in_shapes[k].shape, seed + k);
        leaf[k] = array_leaf(g, &in[k], dense);
    }
    tp_tensor *y = build(m, leaf);
    char what[120];
    snprintf(what, sizeof what, "%s %s on %s, %s, seed %llu", m->name, tp_dtype_name(dtype),
             backend, dense ? "dense" : "backwards with gaps", (unsigned long long)seed);
    cr_assert(y && tp_eval(y) == TP_OK, "%s: %s", what, tp_graph_error(g)->text);
    tp_dtype result = tp_dtype_of(y);
    cr_expect(!m->truth || result == TP_BOOL, "%s: result is %s", what, tp_dtype_name(result));
    cr_assert(tp_ndim(y) == 4 && tp_numel(y) == 120, "%s: wrong shape", what);
    const char *data = tp_data(y);
    for (int64_t i = 0; i < 120; i++) {
        int64_t index[4], position[3];
        uint64_t want = 0;
        position_split(4, out_shape, i, index);
        for (int k = 0; k < m->operands; k++)
            position[k] = position_join(in[k].ndim, in[k].shape, 4, index);
        expect_value(m, in, position, result, &want);
        if (same(result, data + (size_t)i * tp_dtype_size(result), &want)) continue;
        cr_expect_fail("%s: element %lld is %.17g, not %.17g", what, (long long)i, tp_item(y, i),
                       tp_value_load(result, &want).f);
        break;
    }
    for (int k = 0; k < m->operands; k++) array_free(&in[k]);
    tp_graph_destroy(g);
}

Test(expected, elementwise_with_broadcast)
{
    uint64_t seed = 40;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        for (int d = 0; d < TP_DTYPE_COUNT; d++) {
            bool floats = tp_dtype_kind_of((tp_dtype)d) == TP_DTYPE_FLOAT;
            /* Where there is no model, the op refuses the type or converts it to f32 first. */
            if (floats ? !models[m].f : !models[m].i) continue;
            if (d == TP_BOOL && models[m].no_bool) continue;
            for (int way = 0; way < 4; way++, seed++)
                check_elementwise(&models[m], (tp_dtype)d, way & 1 ? "ref" : tested_backend(),
                                  way & 2, seed);
        }
    }
}

/* Every special value against every other, on both sides. */
static array specials(tp_dtype dtype, bool upright)
{
    static const double floats[] = {0.0,   -0.0, 1,    -1,   2.5,   -2.5,      3,
                                    -3,    0.5,  -0.5, 1.5,  1e-40, -1e-40,    3e38,
                                    -3e38, 6e-5, 6e4,  -6e4, NAN,   -INFINITY, INFINITY};
    static const int64_t integers[] = {
        0,         1,         -1,           2,     -2,     3,     -3,        7,         8,
        15,        16,        31,           32,    63,     64,    127,       -128,      255,
        -77,       100,       1000,         32767, -32768, 65535, INT32_MAX, INT32_MIN, UINT32_MAX,
        INT64_MAX, INT64_MIN, INT64_MAX - 1};
    bool floating = tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT;
    int64_t n = floating ? sizeof floats / sizeof *floats : sizeof integers / sizeof *integers;
    array x = array_between(dtype, 2, upright ? (int64_t[]){n, 1} : (int64_t[]){1, n}, 0, 0, 1);
    for (int64_t i = 0; i < n; i++) {
        tp_value v = {.f = floating ? floats[i] : 0, .i = floating ? 0 : integers[i]};
        tp_value_store(dtype, x.data + (size_t)i * tp_dtype_size(dtype), floating ? TP_F64 : TP_I64,
                       v);
    }
    return x;
}

static void check_grid(const model *m, tp_dtype dtype, const char *backend)
{
    tp_graph *g = tp_graph_create(NULL);
    tp_graph_set_backend(g, backend);
    array in[2] = {specials(dtype, true), specials(dtype, false)};
    int64_t n = in[0].numel;
    tp_tensor *leaf[3] = {array_leaf(g, &in[0], true), array_leaf(g, &in[1], true), NULL};
    tp_tensor *y = build(m, leaf);
    cr_assert(y && tp_eval(y) == TP_OK, "%s: %s", m->name, tp_graph_error(g)->text);
    tp_dtype result = tp_dtype_of(y);
    const char *data = tp_data(y);
    for (int64_t i = 0; i < tp_numel(y); i++) {
        int64_t position[2] = {m->operands == 1 ? i : i / n, i % n};
        uint64_t want = 0;
        expect_value(m, in, position, result, &want);
        cr_expect(same(result, data + (size_t)i * tp_dtype_size(result), &want),
                  "%s %s on %s of specials %lld and %lld is %.17g, not %.17g", m->name,
                  tp_dtype_name(dtype), backend, (long long)position[0], (long long)position[1],
                  tp_item(y, i), tp_value_load(result, &want).f);
    }
    array_free(&in[0]), array_free(&in[1]);
    tp_graph_destroy(g);
}

Test(expected, special_values_against_each_other)
{
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        for (int d = 0; d < TP_DTYPE_COUNT; d++) {
            bool floats = tp_dtype_kind_of((tp_dtype)d) == TP_DTYPE_FLOAT;
            if (models[m].operands > 2 || (floats ? !models[m].f : !models[m].i)) continue;
            if (d == TP_BOOL && models[m].no_bool) continue;
            check_grid(&models[m], (tp_dtype)d, tested_backend());
            check_grid(&models[m], (tp_dtype)d, "ref");
        }
    }
}

/* ---- Reductions ------------------------------------------------------------------------- */

/* What one result is made of. */
typedef struct gathered {
    int64_t count, at; /* elements; which is the best */
    wide sum, product, best;
    long double float_sum, float_product, magnitude;
    double float_best;
} gathered;

static void gather_one(gathered *r, const array *x, tp_value v, bool largest)
{
    wide i = wide_of(x->dtype, v);
    r->sum += i;
    r->product *= i;
    r->float_sum += v.f;
    r->float_product *= v.f;
    r->magnitude += fabsl(v.f);
    bool better = r->count == 0;
    if (tp_dtype_kind_of(x->dtype) != TP_DTYPE_FLOAT)
        better = better || (largest ? i > r->best : i < r->best);
    else if (!isnan(r->float_best) || r->count == 0)
        better = better || isnan(v.f) ||
                 (largest ? is_below(r->float_best, v.f) : is_below(v.f, r->float_best));
    /* The index is that of the first largest, and zeros of both signs are equally large. */
    if (better && (r->count == 0 || isnan(v.f) || v.f != r->float_best || i != r->best))
        r->at = r->count;
    if (better) {
        r->best = i;
        r->float_best = v.f;
    }
    r->count++;
}

static gathered gather(const array *x, int mask, const int64_t *kept, bool largest)
{
    gathered r = {.product = 1, .float_product = 1};
    for (int64_t i = 0; i < x->numel; i++) {
        int64_t index[4];
        bool mine = true;
        position_split(x->ndim, x->shape, i, index);
        for (int d = 0; d < x->ndim; d++) mine = mine && (mask >> d & 1 || index[d] == kept[d]);
        if (mine) gather_one(&r, x, array_get(x, i), largest);
    }
    return r;
}

typedef tp_tensor *(*reducer)(tp_tensor *, int, const int64_t *, bool);
static const struct {
    const char *name;
    reducer build;
} reducers[] = {{"sum", tp_sum}, {"mean", tp_mean},     {"prod", tp_prod},    {"max", tp_max},
                {"min", tp_min}, {"argmax", tp_argmax}, {"argmin", tp_argmin}};
enum { SUM, MEAN, PROD, MAX, MIN, ARGMAX, ARGMIN, REDUCERS };

static bool agrees(int op, const array *x, const gathered *r, tp_tensor *y, int64_t at)
{
    bool floats = tp_dtype_kind_of(x->dtype) == TP_DTYPE_FLOAT;
    tp_dtype result = tp_dtype_of(y);
    double got = tp_item(y, at);
    tp_value v =
        tp_value_load(result, (const char *)tp_data(y) + (size_t)at * tp_dtype_size(result));
    if (op >= ARGMAX) return v.i == r->at;
    if (op >= MAX && !floats) return v.i == (int64_t)r->best;
    if (op >= MAX)
        return (isnan(got) && isnan(r->float_best)) ||
               (got == r->float_best && signbit(got) == signbit(r->float_best));
    if (op != MEAN && !floats) return v.i == (int64_t)(op == SUM ? r->sum : r->product);
    long double want = floats               ? op == PROD ? r->float_product : r->float_sum
                       : x->dtype == TP_U64 ? (long double)(uint64_t)r->sum
                                            : (long double)(int64_t)r->sum;
    if (op == MEAN) want /= (long double)r->count;
    long double scale = op == PROD ? fabsl(want) * (long double)r->count : 4 * r->magnitude;
    double allowed = half_ulp(result, (double)want) * 1.01;
    if (floats) allowed += (double)scale * unit_roundoff(x->dtype == TP_F64 ? TP_F64 : TP_F32);
    return fabsl((long double)got - want) <= allowed;
}

static void check_reduction(int op, tp_dtype dtype, const char *backend, int mask, bool keepdims,
                            uint64_t seed)
{
    static const int64_t shape[] = {3, 4, 2, 5};
    tp_graph *g = tp_graph_create(NULL);
    tp_graph_set_backend(g, backend);
    array x = op >= MAX || tp_dtype_kind_of(dtype) != TP_DTYPE_FLOAT
                  ? array_any(dtype, 4, shape, seed)
              : op == PROD ? array_between(dtype, 4, shape, -1.25, 1.25, seed)
                           : array_between(dtype, 4, shape, -3, 5, seed);
    int64_t axes[4], left[4];
    int count = 0, ndim = 0;
    for (int d = 0; d < 4; d++) {
        if (mask >> d & 1) axes[count++] = d;
        if (keepdims || !(mask >> d & 1)) left[ndim++] = mask >> d & 1 ? 1 : shape[d];
    }
    tp_tensor *y = reducers[op].build(array_leaf(g, &x, seed % 2), count, axes, keepdims);
    char what[120];
    snprintf(what, sizeof what, "%s %s on %s, axes %d%s, seed %llu", reducers[op].name,
             tp_dtype_name(dtype), backend, mask, keepdims ? " kept" : "",
             (unsigned long long)seed);
    cr_assert(y && tp_eval(y) == TP_OK, "%s: %s", what, tp_graph_error(g)->text);
    cr_assert_eq(tp_ndim(y), ndim, "%s", what);
    for (int d = 0; d < ndim; d++) cr_assert_eq(tp_dim(y, d), left[d], "%s: dim %d", what, d);
    for (int64_t i = 0; i < tp_numel(y); i++) {
        int64_t index[4], kept[4];
        position_split(ndim, left, i, index);
        for (int d = 0, e = 0; d < 4; d++) kept[d] = keepdims || !(mask >> d & 1) ? index[e++] : 0;
        gathered r = gather(&x, mask, kept, op != MIN && op != ARGMIN);
        if (agrees(op, &x, &r, y, i)) continue;
        cr_expect_fail("%s: element %lld is %.17g; sum %.17Lg, best %.17g at %lld", what,
                       (long long)i, tp_item(y, i), r.float_sum, r.float_best, (long long)r.at);
        break;
    }
    array_free(&x);
    tp_graph_destroy(g);
}

Test(expected, reductions_over_every_set_of_axes)
{
    uint64_t seed = 900;
    for (int op = 0; op < REDUCERS; op++) {
        for (int d = 0; d < TP_DTYPE_COUNT; d++) {
            for (int mask = 0; mask < 16; mask++, seed++) {
                check_reduction(op, (tp_dtype)d, tested_backend(), mask, seed % 3 == 0, seed);
                check_reduction(op, (tp_dtype)d, "ref", mask, seed % 5 == 0, seed);
            }
        }
    }
}
