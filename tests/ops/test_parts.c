/* What fills parts of a tensor or works along an axis, on every dtype and layout: cpu against ref
 * and bit for bit as from dense copies; running sums against long double. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#include "tests/ops/harness.h"

static const shape_row shapes[] = {{1, {7}},       {2, {3, 5}}, {3, {4, 1, 3}}, {2, {300, 2}},
                                   {3, {2, 0, 3}}, {1, {1}},    {2, {1, 270}},  {4, {2, 3, 2, 3}}};

typedef struct part_case {
    int op;
    tp_dtype dtype;
    const shape_row *shape;
    layout how, other;
    int axis;
    uint64_t seed;
} part_case;

/* x, and a second operand of the same shape in another layout. */
static tp_tensor *operand(tp_graph *g, bool dense, const part_case *c, bool second, value_kind kind)
{
    tp_tensor *x = leaf_in(g, c->dtype, c->shape->ndim, c->shape->size, second ? c->other : c->how,
                           kind, c->seed + second);
    if (dense) x = tp_contiguous(x);
    if (dense) tp_eval(x);
    return x;
}

/* Indices of x's shape in [-n, n). */
static tp_tensor *indices(tp_graph *g, const part_case *c)
{
    int64_t data[1024], count = 1, n = c->shape->size[c->axis];
    uint64_t s = c->seed * 7 + 1;
    for (int d = 0; d < c->shape->ndim; d++) count *= c->shape->size[d];
    for (int64_t i = 0; i < count; i++) data[i] = random_in(&s, -n, n - 1);
    tp_tensor *x = tp_from_data(g, TP_I64, c->shape->ndim, c->shape->size, data);
    return c->seed % 3 ? tp_cast(x, c->seed % 3 == 1 ? TP_I16 : TP_I32) : x;
}

static tp_tensor *on_one(tp_tensor *(*build)(tp_tensor *, int), tp_graph *g, bool dense,
                         const part_case *c, value_kind kind)
{
    return build(operand(g, dense, c, false, kind), c->axis);
}

static tp_tensor *updated(tp_tensor *x, tp_tensor *y, const part_case *c)
{
    tp_tensor *part = tp_slice(x, c->axis, 0, TP_END, 2);
    if (c->seed % 2) part = tp_flip(part, 1, (int64_t[]){c->axis});
    return tp_update(x, part, c->seed % 5 ? tp_slice(y, c->axis, 0, TP_END, 2) : tp_num(y, 1));
}

static tp_tensor *padded(tp_tensor *x, const part_case *c)
{
    int64_t widths[8];
    for (int i = 0; i < 8; i++) widths[i] = (int64_t)(c->seed >> i & 1) + (i == 3);
    return tp_pad(x, 2 * c->shape->ndim, widths, 1);
}

static const char *const names[] = {"cumsum",  "cumprod",      "cummax", "sort",       "sort down",
                                    "argsort", "argsort down", "concat", "stack",      "roll",
                                    "pad",     "update",       "take",   "scatter_add"};

static tp_tensor *make(tp_graph *g, bool dense, const void *how)
{
    const part_case *c = how;
    switch (c->op) {
    case 0:
        return on_one(tp_cumsum, g, dense, c, VALUES_SMALL_INTEGERS);
    case 1:
        return on_one(tp_cumprod, g, dense, c, VALUES_UNITS);
    case 2:
        return on_one(tp_cummax, g, dense, c, VALUES_ANY);
    default:
        break;
    }
    tp_tensor *x = operand(g, dense, c, false, c->op == 13 ? VALUES_SMALL_INTEGERS : VALUES_ANY);
    tp_tensor *y = operand(g, dense, c, true, c->op == 13 ? VALUES_SMALL_INTEGERS : VALUES_ANY);
    switch (c->op) {
    case 3:
    case 4:
        return tp_sort(x, c->axis, c->op == 4);
    case 5:
    case 6:
        return tp_argsort(x, c->axis, c->op == 6);
    case 7:
        return tp_concat(TP_LIST(x, y, tp_slice(x, c->axis, 1, TP_END, 1)), c->axis);
    case 8:
        return tp_stack(TP_LIST(x, y), c->axis);
    case 9:
        return tp_roll(x, c->axis, (int64_t)c->seed % 7 - 3);
    case 10:
        return padded(x, c);
    case 11:
        return updated(x, y, c);
    case 12:
        return tp_take_along(x, c->axis, indices(g, c));
    default:
        return tp_scatter_add(x, c->axis, indices(g, c), y);
    }
}

Test(ops, parts_and_axes)
{
    long compared = 0;
    uint64_t seed = 1;
    for (int op = 0; op < (int)(sizeof names / sizeof *names); op++) {
        for (int d = 0; d < TP_DTYPE_COUNT; d++) {
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
                for (int axis = 0; axis < shapes[s].ndim; axis++) {
                    for (int how = 0; how < LAYOUTS; how++, seed++) {
                        part_case c = {
                            op,   (tp_dtype)d, &shapes[s], (layout)how, (layout)(seed % LAYOUTS),
                            axis, seed};
                        char what[120];
                        snprintf(what, sizeof what,
                                 "%s of %s, shape %zu, axis %d, layout %d, seed %llu", names[op],
                                 tp_dtype_name((tp_dtype)d), s, axis, how,
                                 (unsigned long long)seed);
                        compared += check_both(make, &c, 0, 0, what);
                    }
                }
            }
        }
    }
    printf("NOTE parts and axes: %ld comparisons\n", compared);
    cr_expect_gt(compared, 14 * TP_DTYPE_COUNT * 15 * LAYOUTS - 1);
}

/* Prefix sums and products of any values: a rounding of the result, and of f64 on the way. */
Test(ops, running_sums_against_long_double)
{
    enum { N = 3000 };
    static double data[N];
    uint64_t s = 11;
    for (int i = 0; i < N; i++) data[i] = (double)random_in(&s, -1000000, 1000000) / 1e6;
    static const tp_dtype types[] = {TP_F16, TP_BF16, TP_F32, TP_F64};
    static const int digits[] = {11, 8, 24, 53};
    for (int t = 0; t < 4; t++) {
        tp_graph *g = tp_graph_create(NULL);
        tp_tensor *x = tp_cast(tp_from_data(g, TP_F64, TP_DIMS(N), data), types[t]);
        tp_tensor *sums = tp_cumsum(x, 0);
        tp_tensor *factors = tp_add(tp_mul(x, tp_num(x, 0.01)), tp_num(x, 1)),
                  *products = tp_cumprod(factors, 0);
        tp_tensor *all[] = {x, sums, factors, products};
        cr_assert_eq(tp_eval_all(g, 4, all, NULL), TP_OK);
        long double sum = 0, magnitude = 0, product = 1, u = ldexpl(1, -digits[t]);
        for (int i = 0; i < N; i++) {
            sum += tp_item(x, i), magnitude += fabs(tp_item(x, i));
            product *= tp_item(factors, i);
            long double on_the_way = types[t] == TP_F64 ? 0x1p-100L : 0x1p-53L * i;
            cr_expect(fabsl(tp_item(sums, i) - sum) <=
                          u * fabsl(sum) + on_the_way * magnitude + 1e-18L,
                      "%s sum %d: %.17g against %.17Lg", tp_dtype_name(types[t]), i,
                      tp_item(sums, i), sum);
            cr_expect(fabsl(tp_item(products, i) - product) <=
                          (u + 0x1p-53L * (i + 1)) * fabsl(product) + 1e-7L * (types[t] == TP_F16),
                      "%s product %d", tp_dtype_name(types[t]), i);
        }
        tp_graph_destroy(g);
    }
}

Test(ops, random_numbers_are_the_same_everywhere)
{
    static const tp_dtype types[] = {TP_F16, TP_BF16, TP_F32, TP_F64};
    for (int t = 0; t < 4; t++) {
        for (int threads = 1; threads <= 3; threads++) {
            tp_context *c = tp_context_create(&(tp_context_options){.threads = threads});
            tp_graph *cpu = tp_graph_create(c), *ref = tp_graph_create(NULL);
            tp_graph_set_backend(ref, "ref");
            for (int64_t n = 0; n < 3; n++) {
                int64_t shape[] = {3 + n * 31, 700 + n};
                tp_tensor *a = tp_random_normal(cpu, types[t], 2, shape, 99 + (uint64_t)n),
                          *b = tp_random_normal(ref, types[t], 2, shape, 99 + (uint64_t)n);
                tp_tensor *u = tp_transpose(tp_random_uniform(cpu, types[t], 2, shape, 5), 0, 1),
                          *v = tp_transpose(tp_random_uniform(ref, types[t], 2, shape, 5), 0, 1);
                cr_assert(tp_eval(a) == TP_OK && tp_eval(b) == TP_OK && tp_eval(u) == TP_OK &&
                          tp_eval(v) == TP_OK);
                cr_expect(!difference(a, b, 0, 0) && !difference(u, v, 0, 0));
            }
            tp_graph_destroy(cpu);
            tp_graph_destroy(ref);
            tp_context_release(c);
        }
    }
}
