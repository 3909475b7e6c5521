/* Faults reported against other engines: laziness, aliasing, lifetime, depth (category 7). Deep
 * programs run on a thread with a stack of 256 KiB. */
#include "tests/cases/expect.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/random.h"

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

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Builds, dumps, evaluates and frees a chain of n negations; gives its time. */
static double chain(int64_t n, bool passes)
{
    double start = seconds();
    tp_graph *g = tp_graph_create(NULL);
    if (!passes) tp_graph_set_pass(g, "all", false);
    tp_tensor *x = tp_from_data(g, TP_F64, TP_DIMS(2), (double[]){1, 2});
    for (int64_t i = 0; i < n; i++) x = tp_neg(x);
    cr_assert(x && tp_graph_node_count(g) == n + 1);
    cr_expect_gt(tp_graph_dot(g, 1, &x, NULL, 0), n);
    cr_expect_gt(tp_graph_text(g, 1, &x, NULL, 0), n);
    cr_assert_eq(tp_eval(x), TP_OK);
    cr_expect(tp_item(x, 0) == 1 && tp_item(x, 1) == 2);
    tp_graph_destroy(g);
    return seconds() - start;
}

static void *deep(void *unused)
{
    (void)unused;
    int64_t n = 1000000;
    double small = chain(n / 10, true), large = chain(n, true);
    printf("NOTE deep: %lld nodes built, dumped, planned, run and freed in %.2f s, a tenth of them "
           "in %.2f s\n",
           (long long)n, large, small);
    cr_expect_lt(large, 40 * small + 1, "not linear: %.2f s for %lld nodes, %.2f s for a tenth",
                 large, (long long)n, small);
    chain(n / 10, false);
    return NULL;
}

Test(lazy, f104_a_chain_of_a_million_nodes_on_a_small_stack, .timeout = 120)
{
    on_small_stack(deep);
}

/* Many constants that differ only in their value: one of them must not be compared with all. */
Test(lazy, many_constants_are_planned_in_linear_time, .timeout = 60)
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

static void *diamonds(void *unused)
{
    (void)unused;
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *p = tp_from_data(g, TP_F64, TP_DIMS(1), (double[]){1}), *a = p;
    for (int i = 0; i < 1000; i++) p = tp_add(tp_mul(p, tp_num(p, 0.5)), tp_mul(p, tp_num(p, 0.5)));
    for (int i = 0; i < 1000; i++) a = tp_add(a, a);
    expect_values("106", p, VALUES(1));
    expect_values("106", a, VALUES(1.0715086071862673e+301));
    tp_tensor *wide = tp_from_data(g, TP_F32, TP_DIMS(1), (float[]){1}), *sum = wide;
    for (int i = 0; i < 20000; i++)
        sum = tp_add(sum, tp_add(tp_slice(wide, 0, 0, 1, 1), wide)); /* 105: siblings of one node */
    cr_expect_eq(tp_eval(sum), TP_OK);
    cr_expect_eq(tp_item(sum, 0), 40001);
    tp_graph_destroy(g);
    return NULL;
}

Test(lazy, f105_f106_diamonds_are_walked_once, .timeout = 60)
{
    double start = seconds();
    on_small_stack(diamonds);
    cr_expect_lt(seconds() - start, 20);
}

Test(lazy, f109_old_and_new_values_never_mix)
{
    tp_graph *g = tp_graph_create(NULL);
    float bytes[] = {1, 2};
    tp_tensor *x =
        tp_named(tp_wrap(g, TP_F32, TP_DIMS(2), NULL, 0, bytes, sizeof bytes, NULL, NULL), "x");
    tp_tensor *r = tp_named(tp_add(x, tp_num(x, 10)), "r"), *s = tp_mul(r, r),
              *other = tp_neg(tp_scalar(g, TP_F32, 3));
    expect_values("r", r, VALUES(11, 12));
    expect_values("other", other, VALUES(-3));
    bytes[0] = 9;
    cr_expect_eq(tp_touch(x), TP_OK);
    cr_expect(!tp_is_evaluated(r) && tp_is_evaluated(other), "only what depends on x is stale");
    cr_expect_null(tp_data(r));
    cr_expect_eq(tp_graph_error(g)->status, TP_E_STALE);
    cr_expect_str_eq(tp_graph_error(g)->text, "data: \"r\" (add) is stale: leaf %0 \"x\" changed "
                                              "(version 0 -> 1) after it was evaluated");
    tp_graph_clear_error(g);
    expect_values("s sees the new value through the stale r", s, VALUES(361, 144));
    expect_values("r again", r, VALUES(19, 12));
    /* A loop rebinds instead of growing. */
    tp_tensor *leaf = tp_from_data(g, TP_F32, TP_DIMS(2), (float[]){0, 0}),
              *y = tp_sum(tp_mul(leaf, leaf), TP_ALL_AXES, false);
    tp_plan *plan = tp_plan_create(g, 1, &y, NULL);
    int64_t nodes = tp_graph_node_count(g);
    for (int i = 1; i <= 50; i++) {
        cr_assert_eq(tp_bind(leaf, (float[]){(float)i, 2}, 8), TP_OK);
        cr_assert_eq(i % 2 ? tp_plan_run(plan) : tp_eval(y), TP_OK);
        cr_expect_eq(tp_item(y, 0), i * i + 4);
    }
    cr_expect_eq(tp_graph_node_count(g), nodes);
    tp_plan_release(plan);
    /* A plan whose leaf went stale says so. */
    tp_tensor *mid = tp_neg(leaf), *end = tp_abs(mid);
    tp_eval(mid);
    plan = tp_plan_create(g, 1, &end, NULL);
    tp_bind(leaf, (float[]){5, 6}, 8);
    cr_expect_eq(tp_plan_run(plan), TP_E_STALE);
    tp_plan_release(plan);
    cr_expect_eq(tp_bind(leaf, bytes, 4), TP_E_ARGUMENT);
    tp_graph_destroy(g);
}

Test(lazy, f113_graphs_of_the_same_ops_are_not_confused)
{
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *a = tp_full(g, TP_F32, TP_DIMS(3, 3), 3), *b = tp_full(g, TP_F32, TP_DIMS(3, 3), 5),
              *c = tp_full(g, TP_F32, TP_DIMS(3, 3), 2);
    tp_tensor *d = tp_add(a, b), *e = tp_add(a, c);
    expect_values("113", tp_select(tp_select(tp_sub(tp_mul(d, e), e), 0, 0), 0, 0), VALUES(35));
    expect_values("113", tp_select(tp_select(tp_sub(tp_mul(d, e), d), 0, 0), 0, 0), VALUES(32));
    tp_graph_destroy(g);
}

Test(lazy, f115_shared_nodes_run_once_and_evaluated_ones_not_again)
{
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *x = count_up(g, TP_F32, TP_DIMS(4, 4)), *s = tp_matmul(x, x), *r1 = tp_matmul(s, x),
              *r2 = tp_matmul(x, s);
    tp_plan *plan = tp_plan_create(g, 2, (tp_tensor *[]){r1, r2}, NULL);
    cr_expect_eq(tp_plan_summarize(plan).kernels, 3);
    tp_plan_release(plan);
    cr_assert_eq(tp_eval_all(g, 3, (tp_tensor *[]){r1, r2, r1}, NULL), TP_OK);
    const void *before = tp_data(r1);
    cr_assert_eq(tp_eval(r1), TP_OK);
    cr_expect_eq(tp_data(r1), before);
    cr_expect_eq(plan_of(r1).kernels, 0);
    /* A view of an evaluated view reads what is there. */
    tp_tensor *v = tp_transpose(tp_matmul(s, s), 0, 1);
    tp_eval(v);
    cr_expect_eq(plan_of(tp_reshape(tp_transpose(v, 0, 1), TP_DIMS(16))).flops, 0);
    tp_tensor *flat = tp_neg(tp_reshape(tp_transpose(v, 0, 1), TP_DIMS(16))),
              *plain = tp_neg(tp_reshape(tp_matmul(s, s), TP_DIMS(16)));
    tp_eval(flat), tp_eval(plain);
    for (int i = 0; i < 16; i++) cr_expect_eq(tp_item(flat, i), tp_item(plain, i));
    tp_graph_destroy(g);
}

Test(lazy, f116_a_failed_evaluation_leaves_everything_as_it_was)
{
    tp_context *c = tp_context_create(&(tp_context_options){.memory_limit_bytes = 1 << 20});
    tp_graph *g = tp_graph_create(c);
    tp_tensor *x = tp_full(g, TP_F32, TP_DIMS(1000), 2),
              *big = tp_contiguous(tp_expand(x, TP_DIMS(1000, 1000))), *small = tp_neg(x);
    cr_expect_eq(tp_eval(big), TP_E_NOMEM);
    cr_expect_str_eq(
        tp_graph_error(g)->text,
        "eval: the plan needs 4000000 bytes beyond the 0 in use, the limit is 1048576");
    cr_expect(!tp_is_evaluated(big) && tp_context_memory(c).used_bytes == 0);
    cr_expect_eq(tp_eval(small), TP_OK);
    tp_context_set_memory_limit(c, 0);
    cr_expect_eq(tp_eval(big), TP_OK);
    cr_expect_eq(tp_item(big, 999999), 2);
    tp_graph_destroy(g);
    cr_expect_eq(tp_context_memory(c).used_bytes, 0);
    tp_context_release(c);
}

/* Freed and reused bytes are poisoned in test builds: a buffer freed too early shows. */
Test(lazy, f117_views_keep_their_storage_alive_through_reuse)
{
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *x = count_up(g, TP_F32, TP_DIMS(64, 64)),
              *y = tp_matmul(x, tp_full(g, TP_F32, TP_DIMS(64, 64), 1));
    tp_tensor *v[] = {tp_slice(y, 0, 3, 9, 2), tp_transpose(y, 0, 1), tp_bitcast(y, TP_I32)},
              *z = y;
    for (int i = 0; i < 5; i++) z = tp_matmul(z, tp_full(g, TP_F32, TP_DIMS(64, 64), 0.015625));
    tp_tensor *out[] = {z, v[0], v[1], v[2]};
    cr_assert_eq(tp_eval_all(g, 4, out, NULL), TP_OK);
    for (int i = 0; i < 64; i++) cr_expect_eq(tp_item(v[0], i), 64 * (3 * 64) + 63 * 32);
    cr_expect_eq(tp_item(v[1], 5), 64 * (5 * 64) + 63 * 32);
    tp_graph_destroy(g);
}

static int released;
static void count_release(void *user, void *data)
{
    (void)data;
    released += *(int *)user;
}

Test(lazy, f119_ownership_and_sharing)
{
    int weight = 1;
    float bytes[6] = {1, 2, 3, 4, 5, 6};
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *x =
        tp_wrap(g, TP_F32, TP_DIMS(2, 3), NULL, 0, bytes, sizeof bytes, count_release, &weight);
    tp_tensor *same = tp_reshape(x, TP_DIMS(2, 3)), *dense = tp_contiguous(x);
    cr_expect(same != x && dense != x, "names set on one must not show on the other");
    cr_expect(tp_shares_storage(same, x) && tp_shares_storage(dense, x));
    tp_named(same, "same");
    cr_expect_str_eq(tp_name(x), "");
    cr_expect_eq(tp_eval(same), TP_OK);
    cr_expect(!tp_shares_storage(same, x), "a result owns its bytes");
    tp_tensor *view = tp_transpose(x, 0, 1);
    cr_expect_eq(tp_eval_all(g, 1, &view, &(tp_eval_options){.keep_layout = true}), TP_OK);
    cr_expect(tp_shares_storage(view, x) && tp_data(view) == bytes, "unless any layout will do");
    cr_expect_eq(tp_result_view(view).stride[1], 3);
    cr_expect_eq(tp_item(view, 1), 4);
    float read[6];
    cr_expect_eq(tp_read(view, read, sizeof read), TP_OK);
    cr_expect_arr_eq(read, ((float[]){1, 4, 2, 5, 3, 6}), sizeof read);
    char text[300];
    tp_describe(view, text, sizeof text);
    cr_expect_str_eq(text, "%3 = permute f32 [3,2] : (1,3) + 0, strided, evaluated, storage of %3, "
                           "24 bytes, 2 references");
    tp_graph_destroy(g);
    cr_expect_eq(released, 1, "told once");
}

Test(lazy, donation_happens_where_it_may_and_is_counted)
{
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *x = count_up(g, TP_F32, TP_DIMS(8, 8)), *m = tp_matmul(x, x);
    cr_expect_eq(plan_of(tp_softmax(tp_matmul(m, x), -1)).in_place, 1,
                 "a dead temporary is overwritten");
    cr_expect_eq(plan_of(tp_relu(x)).in_place, 0, "a leaf is not");
    cr_expect_eq(plan_of(tp_add(m, tp_transpose(m, 0, 1))).in_place, 0,
                 "nor what is read in another order too (faults 37, P36)");
    expect_values(
        "37",
        tp_add(tp_matmul(tp_from_data(g, TP_F32, TP_DIMS(2, 2), (float[]){1, 2, 3, 4}),
                         tp_from_data(g, TP_F32, TP_DIMS(2, 2), (float[]){1, 0, 0, 1})),
               tp_transpose(tp_from_data(g, TP_F32, TP_DIMS(2, 2), (float[]){1, 2, 3, 4}), 0, 1)),
        VALUES(2, 5, 5, 8));
    tp_tensor *t = tp_matmul(m, x);
    cr_expect_eq(plan_of(tp_cast(tp_relu(t), TP_F64)).in_place, 0,
                 "nor what has another size (P38)");
    tp_graph_destroy(g);
}

static char logged[512];
static void remember(void *user, const char *line)
{
    (void)user;
    snprintf(logged + strlen(logged), sizeof logged - strlen(logged), "%s\n", line);
}

Test(lazy, plans_and_kept_copies_are_logged)
{
    tp_context *c = tp_context_create(&(tp_context_options){.log = remember});
    tp_graph *g = tp_graph_create(c);
    tp_tensor *x = tp_from_data(g, TP_F32, TP_DIMS(2, 3), (float[]){1, 2, 3, 4, 5, 6});
    cr_assert_eq(tp_eval(tp_named(tp_contiguous(tp_transpose(x, 0, 1)), "c")), TP_OK);
    cr_expect_str_eq(logged, "plan: 1 kernel, 1 copy\ncopy: %2 c, 24 bytes, USER_KEPT: it is the "
                             "result, dense and owning its bytes\n");
    tp_graph_destroy(g);
    tp_context_release(c);
}

Test(lazy, call_sites_are_those_of_the_caller)
{
#undef TP_NO_CALL_SITES
#include "tensorplay/call_sites.h"
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *x = tp_full(g, TP_F32, TP_DIMS(2), 1), *y = tp_relu(tp_neg(x));
    int line = __LINE__ - 1;
    cr_expect(y->line == line && x->line == line && y->in[0]->line == line);
    cr_expect(strstr(y->file, "test_lazy.c"));
    char dot[4000];
    tp_graph_dot(g, 1, &y, dot, sizeof dot);
    cr_expect(strstr(dot, "test_lazy.c:"), "the picture says where");
    tp_graph_destroy(g);
}
