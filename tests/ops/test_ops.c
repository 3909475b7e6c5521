/* Every elementwise row, every dtype it admits, operands in every layout, on every backend: cpu
 * against ref within the op's bound, and each layout bit for bit as its contiguous copy. The list
 * comes from ops.def: a new row is tested without an edit here. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/backend.h"
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
    if (seed % sample_step()) return;
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
    cr_expect_gt(compared, 5000 / sample_step());
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
            cr_expect(tp_view_same_shape(y->view, &want), "case %zu", i);
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
