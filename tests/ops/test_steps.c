/* Every op with a step of its own - reductions, softmax, norm, products, gathers, casts - on every
 * dtype and layout: cpu against ref within a bound, and bit for bit as from a dense copy. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/ops/harness.h"

/* ---- Reductions, softmax, norm --------------------------------------------------------------- */

typedef tp_tensor *(*reducer)(tp_tensor *, int, const int64_t *, bool);
static const struct {
    const char *name;
    reducer build;
} reducers[] = {
#define REDUCE(ENUM, name, ...) {#name, tp_##name},
#include "graph/ops.def"
};

typedef struct reduce_case {
    int op, axes_mask;
    tp_dtype dtype;
    const shape_row *shape;
    layout how;
    uint64_t seed;
    bool keepdims;
} reduce_case;

/* Sums of small integers are exact; products must not overflow. */
static value_kind values_of(const char *name)
{
    if (strcmp(name, "prod") == 0) return VALUES_UNITS;
    return strcmp(name, "sum") == 0 || strcmp(name, "mean") == 0 ? VALUES_SMALL_INTEGERS
                                                                 : VALUES_ANY;
}

static tp_tensor *make_reduction(tp_graph *g, bool dense, const void *how)
{
    const reduce_case *c = how;
    int64_t axes[4];
    int count = 0;
    for (int d = 0; d < c->shape->ndim; d++) {
        if (c->axes_mask >> d & 1) axes[count++] = d - (c->seed % 2 ? c->shape->ndim : 0);
    }
    tp_tensor *x = leaf_in(g, c->dtype, c->shape->ndim, c->shape->size, c->how,
                           values_of(reducers[c->op].name), c->seed);
    if (dense) x = tp_contiguous(x);
    if (dense) tp_eval(x);
    return reducers[c->op].build(x, count, axes, c->keepdims);
}

Test(ops, reductions_over_every_set_of_axes)
{
    static const shape_row more[] = {{0, {0}},       {1, {2100}},       {2, {5, 130}},
                                     {3, {3, 4, 5}}, {4, {2, 3, 2, 7}}, {2, {600, 3}},
                                     {3, {2, 0, 3}}, {3, {1, 5, 1}}};
    long compared = 0;
    uint64_t seed = 9;
    for (size_t op = 0; op < sizeof reducers / sizeof *reducers; op++) {
        for (int d = 0; d < TP_DTYPE_COUNT; d++) {
            for (size_t s = 0; s < sizeof more / sizeof *more; s++) {
                for (int mask = 0; mask < 1 << more[s].ndim; mask++, seed++) {
                    reduce_case c = {
                        (int)op, mask,         (tp_dtype)d, &more[s], (layout)(seed % LAYOUTS),
                        seed,    seed % 3 == 0};
                    char what[160];
                    snprintf(what, sizeof what, "%s %s shape %zu axes %d layout %d seed %llu",
                             reducers[op].name, tp_dtype_name((tp_dtype)d), s, mask, (int)c.how,
                             (unsigned long long)seed);
                    /* Small integers: sums are exact, a mean is within a rounding. */
                    compared += check_both(make_reduction, &c, op == 1 ? 1 : 0, 0, what);
                }
            }
        }
    }
    cr_expect_gt(compared, 1500);
}

typedef struct line_case {
    int axis; /* -1: layer norm */
    tp_dtype dtype;
    const shape_row *shape;
    layout how;
    uint64_t seed;
} line_case;

static tp_tensor *make_line(tp_graph *g, bool dense, const void *how)
{
    const line_case *c = how;
    tp_tensor *x = leaf_in(g, c->dtype, c->shape->ndim, c->shape->size, c->how,
                           VALUES_SMALL_INTEGERS, c->seed);
    if (dense) x = tp_contiguous(x);
    if (dense) tp_eval(x);
    if (c->axis >= 0) return tp_softmax(x, c->axis);
    int axes = 1 + (int)(c->seed % (uint64_t)c->shape->ndim);
    int64_t size[4];
    for (int d = 0; d < axes; d++) size[d] = c->shape->size[c->shape->ndim - axes + d];
    tp_tensor *w = c->seed % 3 ? leaf_in(g, c->dtype, axes, size, (layout)(c->seed % LAYOUTS),
                                         VALUES_SMALL_INTEGERS, c->seed + 1)
                               : NULL;
    tp_tensor *b = c->seed % 5 ? leaf_in(g, c->dtype, axes, size, (layout)(c->seed / 2 % LAYOUTS),
                                         VALUES_SMALL_INTEGERS, c->seed + 2)
                               : NULL;
    return tp_layer_norm(x, axes, w, b, 1e-5);
}

Test(ops, softmax_and_layer_norm)
{
    static const shape_row more[] = {{1, {1}},       {1, {700}},    {2, {5, 33}}, {2, {37, 35}},
                                     {3, {3, 4, 5}}, {2, {600, 2}}, {2, {0, 4}}};
    long compared = 0;
    uint64_t seed = 3;
    for (int d = 0; d < TP_DTYPE_COUNT; d++) {
        for (size_t s = 0; s < sizeof more / sizeof *more; s++) {
            for (int axis = -1; axis < more[s].ndim; axis++) {
                for (int how = 0; how < LAYOUTS; how++, seed++) {
                    line_case c = {axis, (tp_dtype)d, &more[s], (layout)how, seed};
                    char what[160];
                    snprintf(what, sizeof what, "%s %s shape %zu axis %d layout %d seed %llu",
                             axis < 0 ? "layer_norm" : "softmax", tp_dtype_name((tp_dtype)d), s,
                             axis, how, (unsigned long long)seed);
                    tp_dtype result =
                        tp_dtype_kind_of((tp_dtype)d) == TP_DTYPE_FLOAT ? (tp_dtype)d : TP_F32;
                    double relative = result == TP_F32 ? 2e-6 : result == TP_F64 ? 1e-14 : 1e-5;
                    compared += check_both(make_line, &c,
                                           result == TP_F32   ? 8
                                           : result == TP_F64 ? 8
                                                              : 1,
                                           relative, what);
                }
            }
        }
    }
    cr_expect_gt(compared, 500);
}

/* ---- Products and gathers -------------------------------------------------------------------- */

typedef struct product_case {
    shape_row a, b;
    tp_dtype dtype;
    int code;
    uint64_t seed;
} product_case;

static tp_tensor *make_product(tp_graph *g, bool dense, const void *how)
{
    const product_case *c = how;
    tp_tensor *a = leaf_in(g, c->dtype, c->a.ndim, c->a.size, (layout)(c->code % LAYOUTS),
                           VALUES_SMALL_INTEGERS, c->seed);
    tp_tensor *b = leaf_in(g, c->dtype, c->b.ndim, c->b.size, (layout)(c->code / LAYOUTS),
                           VALUES_SMALL_INTEGERS, c->seed + 5);
    if (dense) {
        a = tp_contiguous(a), b = tp_contiguous(b);
        tp_eval(a), tp_eval(b);
    }
    return tp_matmul(a, b);
}

Test(ops, products_of_every_rank_dtype_and_layout)
{
    static const struct {
        shape_row a, b;
    } pairs[] = {{{1, {3}}, {1, {3}}},
                 {{1, {3}}, {2, {3, 4}}},
                 {{2, {2, 3}}, {1, {3}}},
                 {{2, {7, 5}}, {2, {5, 9}}},
                 {{3, {2, 7, 5}}, {2, {5, 3}}},
                 {{2, {4, 5}}, {3, {3, 5, 2}}},
                 {{4, {2, 3, 4, 5}}, {3, {3, 5, 6}}},
                 {{3, {3, 2, 0}}, {3, {3, 0, 3}}},
                 {{2, {0, 4}}, {2, {4, 3}}},
                 {{2, {1, 300}}, {2, {300, 1}}},
                 {{2, {110, 270}}, {2, {270, 40}}},
                 {{4, {5, 1, 2, 3}}, {3, {4, 3, 2}}}};
    long compared = 0;
    uint64_t seed = 11;
    for (int d = 0; d < TP_DTYPE_COUNT; d++) {
        for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
            for (int code = 0; code < LAYOUTS * LAYOUTS; code += p == 10 ? 5 : 1, seed++) {
                product_case c = {pairs[p].a, pairs[p].b, (tp_dtype)d, code, seed};
                char what[160];
                snprintf(what, sizeof what, "matmul %s pair %zu layouts %d seed %llu",
                         tp_dtype_name((tp_dtype)d), p, code, (unsigned long long)seed);
                compared += check_both(make_product, &c, 0, 0, what);
            }
        }
    }
    cr_expect_gt(compared, 4000);
}

typedef struct gather_case {
    tp_dtype dtype, index;
    layout how;
    int axis;
    uint64_t seed;
} gather_case;

static tp_tensor *make_gather(tp_graph *g, bool dense, const void *how)
{
    const gather_case *c = how;
    static const int64_t plain[] = {2, 0, 2, 1};
    tp_tensor *x = leaf_in(g, c->dtype, 3, (int64_t[]){4, 3, 5}, c->how, VALUES_ANY, c->seed);
    if (dense) x = tp_contiguous(x);
    if (dense) tp_eval(x);
    tp_tensor *i = tp_cast(tp_from_data(g, TP_I64, TP_DIMS(4), plain), c->index);
    if (tp_dtype_kind_of(c->index) == TP_DTYPE_INT)
        i = tp_sub(i, tp_mul(tp_int(i, 3), tp_cast(tp_equal(i, tp_int(i, 1)), c->index)));
    return tp_index_select(x, c->axis, i);
}

Test(ops, gathers_and_casts)
{
    uint64_t seed = 1;
    for (int d = 0; d < TP_DTYPE_COUNT; d++) {
        for (int i = TP_U8; i <= TP_I64; i++) {
            for (int axis = 0; axis < 3; axis++, seed++) {
                gather_case c = {(tp_dtype)d, (tp_dtype)i, (layout)(seed % LAYOUTS), axis, seed};
                char what[100];
                snprintf(what, sizeof what, "index_select %s by %s axis %d seed %llu",
                         tp_dtype_name((tp_dtype)d), tp_dtype_name((tp_dtype)i), axis,
                         (unsigned long long)seed);
                check_both(make_gather, &c, 0, 0, what);
            }
        }
    }
    for (int p = 0; p < TP_DTYPE_COUNT * TP_DTYPE_COUNT; p++) {
        tp_dtype from = (tp_dtype)(p / TP_DTYPE_COUNT), to = (tp_dtype)(p % TP_DTYPE_COUNT);
        for (int how = 0; how < LAYOUTS; how++) {
            tp_graph *cpu = tp_graph_create(NULL), *ref = tp_graph_create(NULL);
            tp_graph_set_backend(ref, "ref");
            tp_tensor *y = tp_cast(
                leaf_in(cpu, from, 2, (int64_t[]){9, 71}, (layout)how, VALUES_ANY, (uint64_t)p),
                to);
            tp_tensor *z = tp_cast(
                leaf_in(ref, from, 2, (int64_t[]){9, 71}, (layout)how, VALUES_ANY, (uint64_t)p),
                to);
            cr_assert(tp_eval(y) == TP_OK && tp_eval(z) == TP_OK);
            const char *found = difference(y, z, 0, 0);
            cr_expect(!found, "cast %s to %s layout %d: %s", tp_dtype_name(from), tp_dtype_name(to),
                      how, found);
            tp_graph_destroy(cpu);
            tp_graph_destroy(ref);
        }
    }
}
