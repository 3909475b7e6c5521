/* Every op row, every dtype it admits, operands in every layout, on every backend: cpu against ref
 * within the op's bound, and each layout bit for bit as its contiguous copy. The elementwise
 * list comes from ops.def: a new row is tested without an edit here. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/ops/harness.h"

typedef tp_tensor *(*builder1)(tp_tensor *);
typedef tp_tensor *(*builder2)(tp_tensor *, tp_tensor *);
typedef tp_tensor *(*builder3)(tp_tensor *, tp_tensor *, tp_tensor *);
typedef struct op_row {
    const char *name;
    int operands;
    builder1 one;
    builder2 two;
    builder3 three;
} op_row;

static const op_row rows[] = {
#define UNARY(ENUM, name, ...) {#name, 1, tp_##name, NULL, NULL},
#define BINARY(ENUM, name, ...) {#name, 2, NULL, tp_##name, NULL},
#define TEST UNARY
#define COMPARE BINARY
#define TERNARY(ENUM, name, ...) {#name, 3, NULL, NULL, tp_##name},
#include "graph/ops.def"
};

/* Ops that are not exact: units in the last place of the result, or a bound relative to
 * max(1, |y|). A new transcendental row without a bound here is held to 4. */
typedef struct bound {
    const char *name;
    int64_t ulps;
    double relative;
} bound;
static const bound bounds[] = {{"exp", 2, 0},  {"log", 2, 0},      {"tanh", 2, 0},
                               {"erf", 2, 0},  {"sigmoid", 2, 0},  {"rsqrt", 1, 0},
                               {"silu", 3, 0}, {"softplus", 2, 0}, {"gelu", 8, 0},
                               {"pow", 2, 0},  {"gelu_tanh", 4, 0}};
static const char *const exact[] = {"neg",   "abs",   "sqrt",   "relu",         "add",
                                    "sub",   "mul",   "div",    "minimum",      "maximum",
                                    "where", "sign",  "square", "reciprocal",   "floor",
                                    "ceil",  "trunc", "round",  "floor_divide", "remainder"};

static bound bound_of(const char *name, tp_dtype dtype)
{
    if (tp_dtype_kind_of(dtype) != TP_DTYPE_FLOAT) return (bound){name, 0, 0};
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
        if (strcmp(exact[i], name) == 0) return (bound){name, 0, 0};
    }
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        if (strcmp(bounds[i].name, name) == 0) return bounds[i];
    }
    return (bound){name, 4, 0};
}

typedef struct shape_row {
    int ndim;
    int64_t size[4];
} shape_row;
static const shape_row shapes[] = {{0, {0}},          {1, {1}},    {1, {70}},
                                   {2, {3, 5}},       {2, {0, 3}}, {3, {2, 1, 37}},
                                   {4, {2, 3, 4, 5}}, {2, {1, 9}}, {1, {1100}}};
#define SHAPES ((int)(sizeof shapes / sizeof *shapes))

/* ---- Elementwise -------------------------------------------------------------------------- */

/* The op on operands in the layouts of code (base LAYOUTS digits); dense: all dense copies. */
static tp_tensor *apply(tp_graph *g, const op_row *op, const tp_dtype *types,
                        const shape_row *shape, int code, uint64_t seed, bool dense)
{
    tp_tensor *in[3] = {NULL};
    for (int i = 0; i < op->operands; i++) {
        layout how = (layout)(code / (i == 0 ? 1 : i == 1 ? LAYOUTS : LAYOUTS * LAYOUTS) % LAYOUTS);
        in[i] = leaf_in(g, types[i], shape->ndim, shape->size, how, VALUES_ANY,
                        seed + (uint64_t)i * 97);
        if (dense) {
            in[i] = tp_contiguous(in[i]);
            cr_assert_eq(tp_eval(in[i]), TP_OK);
        }
    }
    if (op->operands == 1) return op->one(in[0]);
    return op->operands == 2 ? op->two(in[0], in[1]) : op->three(in[0], in[1], in[2]);
}

static long compared;

static void compare_op(const op_row *op, const tp_dtype *types, const shape_row *shape, int code,
                       uint64_t seed)
{
    tp_graph *cpu = tp_graph_create(NULL), *ref = tp_graph_create(NULL);
    tp_graph_set_backend(ref, "ref");
    tp_tensor *y = apply(cpu, op, types, shape, code, seed, false),
              *z = apply(ref, op, types, shape, code, seed, false);
    if (y) {
        tp_tensor *dense = apply(cpu, op, types, shape, code, seed, true);
        bound b = bound_of(op->name, tp_dtype_of(y));
        bool run = tp_eval(y) == TP_OK && tp_eval(z) == TP_OK && tp_eval(dense) == TP_OK;
        const char *found = run ? difference(y, z, b.ulps, b.relative) : tp_graph_error(cpu)->text;
        if (!found) found = difference(y, dense, 0, 0);
        cr_expect(!found, "%s %s %s layouts %d seed %llu rank %d: %s", op->name,
                  tp_dtype_name(types[0]), op->operands > 1 ? tp_dtype_name(types[1]) : "", code,
                  (unsigned long long)seed, shape->ndim, found);
        compared++;
    } else
        cr_expect_eq(tp_graph_error(cpu)->status, TP_E_DTYPE,
                     "%s: only a dtype may be refused here: %s", op->name,
                     tp_graph_error(cpu)->text);
    tp_graph_destroy(cpu);
    tp_graph_destroy(ref);
}

static void all_layouts(const op_row *op, const tp_dtype *types, uint64_t *seed)
{
    int codes = op->operands == 1 ? LAYOUTS : LAYOUTS * LAYOUTS;
    for (int s = 0; s < SHAPES; s++) {
        /* Every layout of the first two operands comes up over the shapes and types. */
        for (int i = 0; i < (op->operands == 1 ? LAYOUTS : 2); i++) {
            int code = (int)(*seed * 5 + (uint64_t)i) % codes +
                       (op->operands == 3 ? (int)(*seed % LAYOUTS) * LAYOUTS * LAYOUTS : 0);
            compare_op(op, types, &shapes[s], code, (*seed)++);
        }
    }
}

Test(ops, elementwise_on_every_dtype_layout_and_backend)
{
    uint64_t seed = 1;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (int d = 0; d < TP_DTYPE_COUNT; d++) {
            tp_dtype types[3] = {(tp_dtype)d, (tp_dtype)d, (tp_dtype)d};
            if (rows[r].operands == 3) types[0] = TP_BOOL;
            all_layouts(&rows[r], types, &seed);
        }
    }
    printf("NOTE elementwise: %ld comparisons\n", compared);
    cr_expect_gt(compared, 5000);
}

Test(ops, elementwise_on_every_pair_of_dtypes)
{
    uint64_t seed = 5;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (int p = 0; p < TP_DTYPE_COUNT * TP_DTYPE_COUNT && rows[r].operands > 1; p++) {
            tp_dtype a = (tp_dtype)(p / TP_DTYPE_COUNT), b = (tp_dtype)(p % TP_DTYPE_COUNT);
            tp_dtype types[3] = {a, b, b};
            if (rows[r].operands == 3)
                types[0] = (tp_dtype)((p * 7) % TP_DTYPE_COUNT), types[1] = a;
            compare_op(&rows[r], types, &shapes[3], (int)(seed % (LAYOUTS * LAYOUTS)), seed);
            seed++;
        }
    }
}

Test(ops, broadcasting_aligns_from_the_right)
{
    static const struct {
        shape_row a, b, y;
        bool ok;
    } cases[] = {
        {{2, {3, 1}}, {2, {1, 2}}, {2, {3, 2}}, true},
        {{1, {5}}, {3, {2, 3, 5}}, {3, {2, 3, 5}}, true},
        {{2, {2, 0}}, {2, {2, 1}}, {2, {2, 0}}, true},
        {{2, {0, 5}}, {2, {1, 5}}, {2, {0, 5}}, true},
        {{1, {0}}, {1, {1}}, {1, {0}}, true},
        {{0, {0}}, {2, {0, 3}}, {2, {0, 3}}, true},
        {{1, {0}}, {1, {2}}, {0, {0}}, false},
        {{2, {3, 2}}, {2, {2, 3}}, {0, {0}}, false},
        {{3, {2, 1, 4}}, {2, {7, 1}}, {3, {2, 7, 4}}, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tp_graph *g = tp_graph_create(NULL);
        tp_tensor *a = leaf_in(g, TP_F32, cases[i].a.ndim, cases[i].a.size, LAYOUT_DENSE,
                               VALUES_SMALL_INTEGERS, 3);
        tp_tensor *b = leaf_in(g, TP_F32, cases[i].b.ndim, cases[i].b.size, LAYOUT_DENSE,
                               VALUES_SMALL_INTEGERS, 4);
        tp_tensor *y = tp_add(a, b);
        cr_expect_eq(y != NULL, cases[i].ok, "case %zu", i);
        if (y) {
            tp_view want = tp_view_row_major(cases[i].y.ndim, cases[i].y.size);
            cr_expect(tp_view_same_shape(&y->view, &want), "case %zu", i);
            cr_expect_eq(tp_eval(y), TP_OK);
            /* The same from operands expanded by hand. */
            tp_tensor *z = tp_add(tp_contiguous(tp_expand(a, want.ndim, want.shape)),
                                  tp_contiguous(tp_expand(b, want.ndim, want.shape)));
            cr_expect_eq(tp_eval(z), TP_OK);
            cr_expect_null(difference(y, z, 0, 0), "case %zu", i);
        }
        tp_graph_destroy(g);
    }
    tp_graph *g = tp_graph_create(NULL);
    cr_assert_null(
        tp_add(tp_full(g, TP_F32, TP_DIMS(3, 2), 0), tp_full(g, TP_F32, TP_DIMS(2, 3), 0)));
    cr_expect_str_eq(
        tp_graph_error(g)->text,
        "add: cannot broadcast [3,2] with [2,3]: dimension 1 from the right is 2 against 3");
    tp_graph_destroy(g);
}

/* ---- Reductions, softmax, norm --------------------------------------------------------------- */

typedef tp_tensor *(*reducer)(tp_tensor *, int, const int64_t *, bool);
static const struct {
    const char *name;
    reducer build;
} reducers[] = {
#define REDUCE(ENUM, name, ...) {#name, tp_##name},
#include "graph/ops.def"
};

/* A result on both backends and from a dense copy. */
static void check_both(tp_tensor *(*make)(tp_graph *, bool, const void *), const void *how,
                       int64_t ulps, double relative, const char *what)
{
    tp_graph *cpu = tp_graph_create(NULL), *ref = tp_graph_create(NULL);
    tp_graph_set_backend(ref, "ref");
    tp_tensor *y = make(cpu, false, how), *z = make(ref, false, how), *dense = make(cpu, true, how);
    if (y) {
        bool run = tp_eval(y) == TP_OK && tp_eval(z) == TP_OK && tp_eval(dense) == TP_OK;
        const char *found = run ? difference(y, z, ulps, relative) : tp_graph_error(cpu)->text;
        if (!found) found = difference(y, dense, 0, 0);
        cr_expect(!found, "%s: %s", what, found);
        compared++;
    }
    tp_graph_destroy(cpu);
    tp_graph_destroy(ref);
}

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
    compared = 0;
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
                    check_both(make_reduction, &c, op == 1 ? 1 : 0, 0, what);
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
    compared = 0;
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
                    check_both(make_line, &c,
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

/* ---- Products and gathers
 * ------------------------------------------------------------------------ */

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
    compared = 0;
    uint64_t seed = 11;
    for (int d = 0; d < TP_DTYPE_COUNT; d++) {
        for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
            for (int code = 0; code < LAYOUTS * LAYOUTS; code += p == 10 ? 5 : 1, seed++) {
                product_case c = {pairs[p].a, pairs[p].b, (tp_dtype)d, code, seed};
                char what[160];
                snprintf(what, sizeof what, "matmul %s pair %zu layouts %d seed %llu",
                         tp_dtype_name((tp_dtype)d), p, code, (unsigned long long)seed);
                check_both(make_product, &c, 0, 0, what);
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

/* ---- Refusals
 * ------------------------------------------------------------------------------------- */

static void expect_error(tp_graph *g, tp_tensor *y, tp_status status, const char *text)
{
    cr_expect_null(y);
    cr_expect_eq(tp_graph_error(g)->status, status, "%s", text);
    cr_expect_str_eq(tp_graph_error(g)->text, text);
    tp_graph_clear_error(g);
}

Test(ops, refusals_are_one_sentence)
{
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *x = tp_full(g, TP_F32, TP_DIMS(2, 3), 1), *u = tp_full(g, TP_U64, TP_DIMS(2), 1),
              *i = tp_full(g, TP_I32, TP_DIMS(2), 1);
    tp_tensor *empty = tp_full(g, TP_F32, TP_DIMS(2, 0), 1), *scalar = tp_scalar(g, TP_F32, 1);
    expect_error(g, tp_add(u, i), TP_E_DTYPE,
                 "add: no integer type holds both u64 and i32: cast one operand");
    expect_error(g, tp_matmul(x, x), TP_E_SHAPE,
                 "matmul: a is [2,3], b is [2,3]: dim 1 of a is 3, dim 0 of b is 2");
    expect_error(g, tp_matmul(scalar, x), TP_E_SHAPE,
                 "matmul: a is [], b is [2,3]: 0-d operands have no matrix product");
    expect_error(
        g,
        tp_matmul(tp_full(g, TP_F32, TP_DIMS(2, 2, 3), 0), tp_full(g, TP_F32, TP_DIMS(3, 3, 2), 0)),
        TP_E_SHAPE, "matmul: a is [2,2,3], b is [3,3,2]: dim 0 of a is 2, dim 0 of b is 3");
    expect_error(g, tp_max(empty, TP_ALL_AXES, false), TP_E_SHAPE,
                 "max: nothing to reduce: dim 1 of [2,0] has size 0");
    expect_error(g, tp_sum(x, 2, (int64_t[]){0, -2}, false), TP_E_ARGUMENT,
                 "sum: axis -2 is given twice");
    expect_error(g, tp_softmax(x, 2), TP_E_ARGUMENT, "softmax: axis 2 is outside [-2, 1] of [2,3]");
    expect_error(g, tp_layer_norm(x, 1, i, NULL, 0), TP_E_SHAPE,
                 "layer_norm: x is [2,3], weight is [2]: it must have the last 1 dims of x");
    expect_error(g, tp_index_select(x, 0, x), TP_E_DTYPE,
                 "index_select: indices are f32, an integer type is needed");
    expect_error(g, tp_expand(x, TP_DIMS(2, 4)), TP_E_SHAPE,
                 "expand: [2,3]: dim 1 has size 3, not 1, and cannot become 4");
    expect_error(g, tp_expand(x, TP_DIMS(-2, 2, 3)), TP_E_SHAPE,
                 "expand: [2,3]: size -2 of dim 0 is negative");
    expect_error(
        g, tp_view_as(tp_transpose(x, 0, 1), TP_DIMS(6)), TP_E_SHAPE,
        "view_as: [3,2] : (1,3) + 0 as [6]: dims 0 and 1 cannot merge over strides 1 and 3");
    expect_error(g, tp_reshape(x, TP_DIMS(4, -1)), TP_E_SHAPE,
                 "reshape: [2,3] has 6 elements, which the other sizes' product 4 does not divide");
    expect_error(g, tp_reshape(empty, TP_DIMS(0, -1)), TP_E_SHAPE,
                 "reshape: [2,0]: -1 is ambiguous because the other sizes multiply to 0");
    expect_error(g, tp_select(x, 1, 3), TP_E_BOUNDS,
                 "select: index 3 is outside dim 1 of [2,3], size 3");
    expect_error(g, tp_bitcast(x, TP_F64), TP_E_SHAPE,
                 "bitcast: f32 [2,3] : (3,1) + 0 to f64: the last dim's size does not divide");
    expect_error(g, tp_as_strided(x, TP_DIMS(2, 3), (int64_t[]){3, 2}, 0), TP_E_BOUNDS,
                 "as_strided: [2,3] : (3,2) + 0 reaches element 7, the storage has 6");
    expect_error(g, tp_int(tp_full(g, TP_U8, TP_DIMS(2), 0), 300), TP_E_DTYPE,
                 "int: 300 does not fit u8");
    /* The first cause survives a whole nested expression. */
    tp_tensor *nested = tp_relu(tp_softmax(tp_add(tp_matmul(x, x), x), 7));
    expect_error(g, nested, TP_E_SHAPE,
                 "matmul: a is [2,3], b is [2,3]: dim 1 of a is 3, dim 0 of b is 2");
    tp_graph_destroy(g);
}

Test(ops, a_bad_index_names_itself_and_leaves_everything_usable)
{
    for (int b = 0; b < 2; b++) {
        tp_graph *g = tp_graph_create(NULL);
        tp_graph_set_backend(g, b ? "ref" : "cpu");
        tp_tensor *x = tp_arange(g, TP_F32, 0, 1, 5),
                  *i = tp_from_data(g, TP_I32, TP_DIMS(3), (int32_t[]){0, -5, 5});
        tp_tensor *y = tp_index_select(x, 0, i);
        cr_expect_eq(tp_eval(y), TP_E_BOUNDS);
        cr_expect_str_eq(tp_graph_error(g)->text,
                         "index_select: index 5 at position 2 is outside axis 0 of size 5");
        cr_expect(!tp_is_evaluated(y));
        cr_expect_eq(tp_bind(i, (int32_t[]){0, -5, 4}, 12), TP_OK);
        cr_expect_eq(tp_eval(y), TP_OK);
        cr_expect(tp_item(y, 0) == 0 && tp_item(y, 1) == 0 && tp_item(y, 2) == 4);
        tp_graph_destroy(g);
    }
}
