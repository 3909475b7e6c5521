/* Faults reported against other engines: deep and wide graphs (cases 104 to 107). Deep programs run
 * on a thread with a stack of 256 KiB; there is no recursion over a graph, and its cost is linear.
 */
#include "tests/cases/expect.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

static void on_small_stack(void *(*run)(void *))
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    cr_assert_eq(pthread_attr_setstacksize(&attributes, 256 * 1024), 0);
    cr_assert_eq(pthread_create(&thread, &attributes, run, NULL), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

/* Of this process: other work on the machine does not make a linear algorithm fail. */
static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* How a chain goes on: x * 1.0 or -x. */
typedef enum link { LINK_NEG, LINK_TIMES_1 } link_kind;

static tp_tensor *build_chain(tp_graph *g, int64_t n, link_kind kind)
{
    tp_tensor *x = tp_from_data(g, TP_F64, TP_DIMS(2), (double[]){1, 2});
    tp_tensor *one = kind == LINK_TIMES_1 ? tp_scalar(g, TP_F64, 1) : NULL;
    for (int64_t i = 0; i < n; i++) x = one ? tp_mul(x, one) : tp_neg(x);
    cr_assert(x && tp_graph_node_count(g) == n + (one ? 2 : 1));
    return x;
}

/* Builds, dumps, evaluates and frees a chain of n links; gives its time. */
static double chain(int64_t n, link_kind kind, bool passes)
{
    double start = seconds();
    tp_graph *g = tp_graph_create(NULL);
    if (!passes) tp_graph_set_pass(g, "all", false);
    tp_tensor *x = build_chain(g, n, kind);
    cr_expect_gt(tp_graph_dot(g, 1, &x, NULL, 0), n);
    cr_expect_gt(tp_graph_text(g, 1, &x, NULL, 0), n);
    tp_plan *plan = tp_plan_create(g, 1, &x, NULL);
    cr_expect(plan && tp_plan_dot(plan, NULL, 0) > 0 && tp_plan_text(plan, NULL, 0) > 0);
    tp_plan_release(plan);
    cr_assert_eq(tp_eval(x), TP_OK);
    cr_expect(tp_item(x, 0) == 1 && tp_item(x, 1) == 2);
    tp_graph_destroy(g);
    return seconds() - start;
}

static void *deep(void *unused)
{
    (void)unused;
    for (link_kind kind = LINK_NEG; kind <= LINK_TIMES_1; kind++) {
        int64_t n = kind == LINK_NEG ? 1000000 : 300000;
        double small = chain(n / 10, kind, true), middle = chain(3 * n / 10, kind, true),
               large = chain(n, kind, true);
        printf("NOTE deep: %lld nodes built, dumped, planned, run and freed in %.2f s, three "
               "tenths of them in %.2f s, a tenth in %.2f s\n",
               (long long)n, large, middle, small);
        cr_expect_lt(middle, 12 * small + 1, "not linear: %.2f s, %.2f s", middle, small);
        cr_expect_lt(large, 40 * small + 1, "not linear: %.2f s for %lld nodes, %.2f s for a tenth",
                     large, (long long)n, small);
        chain(n / 10, kind, false);
        /* Given up without a look: by the graph's end and by a reset. Nodes have no release of
         * their own, so there is no order of releases to get wrong. */
        double start = seconds();
        tp_graph *g = tp_graph_create(NULL);
        build_chain(g, n, kind);
        tp_graph_reset(g);
        build_chain(g, n, kind);
        tp_graph_destroy(g);
        cr_expect_lt(seconds() - start, 10);
    }
    return NULL;
}

Test(depth, f104_a_chain_of_a_million_nodes_on_a_small_stack, .timeout = 300)
{
    on_small_stack(deep);
}

/* Many constants that differ only in their value: one of them must not be compared with all. */
Test(depth, many_constants_are_planned_in_linear_time, .timeout = 60)
{
    double start = seconds();
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *x = tp_from_data(g, TP_F64, TP_DIMS(1), (double[]){0});
    for (int i = 1; i <= 100000; i++) x = tp_add(x, tp_num(x, i));
    cr_assert_eq(tp_eval(x), TP_OK);
    cr_expect_eq(tp_item(x, 0), 5000050000.0);
    cr_expect_lt(seconds() - start, 10);
    tp_graph_destroy(g);
}

/* 100000 times: two views of one node, and their sum or their join. */
static void *siblings(void *unused)
{
    (void)unused;
    for (int run = 0; run < 4; run++) {
        tp_graph *g = tp_graph_create(NULL);
        tp_tensor *x = tp_from_data(g, TP_F64, TP_DIMS(2), (double[]){1, -1});
        for (int i = 0; i < 100000; i++) {
            tp_tensor *a = tp_slice(x, 0, 0, 1, 1), *b = tp_slice(x, 0, 1, 2, 1);
            tp_tensor *twice = tp_mul(b, tp_from_data(g, TP_F64, TP_DIMS(2), (double[]){0, 2}));
            x = run < 2 ? tp_add(tp_expand(a, TP_DIMS(2)), twice) : tp_concat(TP_LIST(a, b), 0);
        }
        cr_assert(x);
        if (run % 2) {
            cr_assert_eq(tp_eval(x), TP_OK, "%s", tp_graph_error(g)->text);
            cr_expect(tp_item(x, 0) == 1 && tp_item(x, 1) == -1);
        }
        tp_graph_destroy(g);
    }
    return NULL;
}

Test(depth, f105_siblings_of_one_node, .timeout = 120)
{
    double start = seconds();
    on_small_stack(siblings);
    cr_expect_lt(seconds() - start, 30, "%.2f s", seconds() - start);
}

static void *diamonds(void *unused)
{
    (void)unused;
    for (int passes = 0; passes < 2; passes++) {
        double start = seconds();
        tp_graph *g = tp_graph_create(NULL);
        if (!passes) tp_graph_set_pass(g, "all", false);
        tp_tensor *p = tp_from_data(g, TP_F64, TP_DIMS(1), (double[]){1}), *a = p;
        for (int i = 0; i < 1000; i++) {
            p = tp_add(tp_mul(p, tp_num(p, 0.5)), tp_mul(p, tp_num(p, 0.5)));
            a = tp_add(a, a);
        }
        cr_expect_lt(tp_graph_dot(g, 1, &p, NULL, 0), 1 << 20, "each node is drawn once");
        cr_expect_lt(plan_of(a).kernels, 1001);
        expect_values("106", p, VALUES(1));
        expect_values("106", a, VALUES(1.0715086071862673e+301));
        tp_graph_destroy(g);
        cr_expect_lt(seconds() - start, 1, "%.2f s", seconds() - start);
    }
    return NULL;
}

Test(depth, f106_diamonds_are_walked_once, .timeout = 60)
{
    on_small_stack(diamonds);
}

/* Fresh memory costs by its size under a sanitizer, which is not what is measured here. */
#ifdef __SANITIZE_ADDRESS__
#define MOST_GROWTH 20
#else
#define MOST_GROWTH 4
#endif

static void *moving_average(void *unused)
{
    (void)unused;
    double start = seconds();
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *x = tp_from_data(g, TP_F64, TP_DIMS(1), (double[]){1}), *state = x,
              *rate = tp_scalar(g, TP_F64, 0.25);
    int64_t steps = 100000;
    double tenth = 0, last = 0;
    for (int64_t i = 0; i < steps; i++) {
        if (i == steps / 10) tenth = seconds() - start;
        if (i == steps - steps / 10) last = seconds();
        tp_tensor *y = tp_add(x, tp_num(x, (double)i)); /* the output that is looked at */
        cr_assert_eq(tp_eval(y), TP_OK);
        state = tp_lerp(state, x, rate);
    }
    last = seconds() - last;
    cr_expect_lt(last, MOST_GROWTH * tenth + 1,
                 "a step costs more in a large graph: %.2f s, %.2f s", last, tenth);
    cr_assert_eq(tp_eval(state), TP_OK);
    cr_expect_eq(tp_item(state, 0), 1);
    printf("NOTE pending: %lld steps in %.2f s, %lld nodes\n", (long long)steps, seconds() - start,
           (long long)tp_graph_node_count(g));
    tp_graph_destroy(g);
    return NULL;
}

/* State that nobody evaluates for 100000 steps: it waits, and is then evaluated in linear time. A
 * loop that must not grow rebinds its leaves instead (f109). */
Test(depth, f107_a_pending_chain_waits_and_runs, .timeout = 300)
{
    on_small_stack(moving_average);
}
