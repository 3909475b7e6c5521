/* What every row of ops.def refuses, generated from the list: a new row is held to it without an
 * edit. One sentence that begins with the op's name and has both shapes or both dtypes. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/ops/naive.h"

typedef tp_tensor *(*builder1)(tp_tensor *);
typedef tp_tensor *(*builder2)(tp_tensor *, tp_tensor *);
typedef tp_tensor *(*builder3)(tp_tensor *, tp_tensor *, tp_tensor *);
typedef tp_tensor *(*reducer)(tp_tensor *, int, const int64_t *, bool);
static const struct {
    const char *name;
    builder1 build;
} unaries[] = {
#define UNARY(ENUM, name, ...) {#name, tp_##name},
#include "graph/ops.def"
};
static const struct {
    const char *name;
    builder2 build;
} binaries[] = {
#define BINARY(ENUM, name, ...) {#name, tp_##name},
#define COMPARE(ENUM, name, ...) {#name, tp_##name},
#include "graph/ops.def"
};
static const struct {
    const char *name;
    builder3 build;
} ternaries[] = {
#define TERNARY(ENUM, name, ...) {#name, tp_##name},
#include "graph/ops.def"
};
static const struct {
    const char *name;
    reducer build;
} reducers[] = {
#define REDUCE(ENUM, name, ...) {#name, tp_##name},
#include "graph/ops.def"
};
#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

static tp_graph *g;
static void set_up(void)
{
    g = tp_graph_create(NULL);
}
static void tear_down(void)
{
    tp_graph_destroy(g);
}
TestSuite(refusals, .init = set_up, .fini = tear_down);

/* y was refused with this status; its sentence begins with the op and has these words. */
static void refused(const char *op, const tp_tensor *y, tp_status status, const char *first,
                    const char *second)
{
    const tp_error *e = tp_graph_error(g);
    size_t length = strlen(op);
    cr_expect(!y && e->status == status, "%s: %s: %s", op, tp_status_name(e->status), e->text);
    cr_expect(strncmp(e->text, op, length) == 0 && e->text[length] == ':', "%s: %s", op, e->text);
    cr_expect(strstr(e->text, first) && strstr(e->text, second), "%s: \"%s\" lacks %s or %s", op,
              e->text, first, second);
    cr_expect(!strchr(e->text, '\n'), "%s: more than a sentence: %s", op, e->text);
    tp_graph_clear_error(g);
}

/* A dtype that the op takes for all operands: not every row takes floats. */
static tp_dtype taken_by(builder2 build)
{
    tp_dtype dtype = TP_F32;
    if (!build(tp_full(g, dtype, TP_DIMS(2), 1), tp_full(g, dtype, TP_DIMS(2), 1))) dtype = TP_I32;
    tp_graph_clear_error(g);
    return dtype;
}

Test(refusals, shapes_that_do_not_broadcast)
{
    for (size_t i = 0; i < COUNT(binaries); i++) {
        tp_dtype dtype = taken_by(binaries[i].build);
        tp_tensor *a = tp_full(g, dtype, TP_DIMS(4, 3, 2), 1),
                  *b = tp_full(g, dtype, TP_DIMS(2, 2), 1);
        int64_t before = tp_graph_node_count(g);
        refused(binaries[i].name, binaries[i].build(a, b), TP_E_SHAPE, "[4,3,2]", "[2,2]");
        refused(binaries[i].name, binaries[i].build(b, a), TP_E_SHAPE, "[4,3,2]", "[2,2]");
        cr_expect_eq(tp_graph_node_count(g), before, "%s: a refusal left nodes", binaries[i].name);
    }
    tp_tensor *x = tp_full(g, TP_F32, TP_DIMS(3, 2), 1), *y = tp_full(g, TP_F32, TP_DIMS(4), 1);
    for (size_t i = 0; i < COUNT(ternaries); i++) {
        refused(ternaries[i].name, ternaries[i].build(x, x, y), TP_E_SHAPE, "[3,2]", "[4]");
        refused(ternaries[i].name, ternaries[i].build(y, x, x), TP_E_SHAPE, "[3,2]", "[4]");
    }
}

/* Every pair of dtypes is either taken or refused for its dtypes, in words that name both as they
 * were given, not what they promote to. */
Test(refusals, dtypes_that_do_not_meet)
{
    int taken = 0, refusals = 0;
    for (size_t i = 0; i < COUNT(binaries); i++) {
        for (int p = 0; p < TP_DTYPE_COUNT * TP_DTYPE_COUNT; p++) {
            tp_dtype a = (tp_dtype)(p / TP_DTYPE_COUNT), b = (tp_dtype)(p % TP_DTYPE_COUNT);
            tp_tensor *y =
                binaries[i].build(tp_full(g, a, TP_DIMS(2), 1), tp_full(g, b, TP_DIMS(2), 1));
            if (y)
                taken++;
            else {
                char names[2][32];
                snprintf(names[0], sizeof names[0], " %s and ", tp_dtype_name(a));
                snprintf(names[1], sizeof names[1], " and %s", tp_dtype_name(b));
                refused(binaries[i].name, y, TP_E_DTYPE, names[0], names[1]);
                refusals++;
            }
        }
        tp_graph_reset(g);
    }
    cr_expect(taken > 1000 && refusals > 30, "%d taken, %d refused", taken, refusals);
    for (size_t i = 0; i < COUNT(unaries); i++) {
        for (int d = 0; d < TP_DTYPE_COUNT; d++) {
            tp_tensor *y = unaries[i].build(tp_full(g, (tp_dtype)d, TP_DIMS(2), 1));
            char name[32];
            snprintf(name, sizeof name, " %s", tp_dtype_name((tp_dtype)d));
            if (!y) refused(unaries[i].name, y, TP_E_DTYPE, name, "is needed");
        }
    }
}

Test(refusals, axes_out_of_range_or_given_twice)
{
    tp_tensor *x = tp_full(g, TP_F32, TP_DIMS(2, 3), 1),
              *none = tp_full(g, TP_F32, TP_DIMS(2, 0), 1);
    for (size_t i = 0; i < COUNT(reducers); i++) {
        static const int64_t wrong[] = {2, -3, INT64_MAX, INT64_MIN};
        for (int w = 0; w < 4; w++)
            refused(reducers[i].name, reducers[i].build(x, 1, &wrong[w], false), TP_E_ARGUMENT,
                    "axis", "[2,3]");
        refused(reducers[i].name, reducers[i].build(x, 2, (int64_t[]){1, -1}, true), TP_E_ARGUMENT,
                "axis -1", "twice");
        tp_tensor *y = reducers[i].build(none, TP_ALL_AXES, false);
        if (!y) refused(reducers[i].name, y, TP_E_SHAPE, "nothing to reduce", "[2,0]");
    }
    refused("softmax", tp_softmax(x, -3), TP_E_ARGUMENT, "axis -3", "[2,3]");
    refused("index_select", tp_index_select(x, 2, tp_full(g, TP_I32, TP_DIMS(1), 0)), TP_E_ARGUMENT,
            "axis 2", "[2,3]");
}

/* NULL in, NULL out, nothing recorded: the first cause is kept elsewhere. */
Test(refusals, null_operands_go_through)
{
    tp_tensor *x = tp_full(g, TP_I32, TP_DIMS(2, 3), 1);
    for (size_t i = 0; i < COUNT(unaries); i++)
        cr_expect_null(unaries[i].build(NULL), "%s", unaries[i].name);
    for (size_t i = 0; i < COUNT(binaries); i++)
        cr_expect(!binaries[i].build(NULL, x) && !binaries[i].build(x, NULL) &&
                      !binaries[i].build(NULL, NULL),
                  "%s", binaries[i].name);
    for (size_t i = 0; i < COUNT(ternaries); i++)
        cr_expect(!ternaries[i].build(NULL, x, x) && !ternaries[i].build(x, x, NULL), "%s",
                  ternaries[i].name);
    for (size_t i = 0; i < COUNT(reducers); i++)
        cr_expect_null(reducers[i].build(NULL, TP_ALL_AXES, false), "%s", reducers[i].name);
    cr_expect(!tp_matmul(NULL, x) && !tp_matmul(x, NULL) && !tp_softmax(NULL, 0) &&
              !tp_index_select(x, 0, NULL) && !tp_cast(NULL, TP_F32));
}
