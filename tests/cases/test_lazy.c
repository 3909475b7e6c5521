/* Faults reported against other engines: laziness, aliasing, lifetime (category 7; depth has its
 * own file). */
#include "tests/backend.h"
#include "tests/cases/expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random.h"

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
    /* The leaf first, then what is made of it: the same. */
    bytes[1] = 3;
    cr_expect_eq(tp_touch(x), TP_OK);
    expect_values("x", x, VALUES(9, 3));
    expect_values("r", r, VALUES(19, 13));
    /* Built before the write, evaluated after it: the values at evaluation, all of them. */
    tp_tensor *late = tp_add(x, tp_mul(x, x));
    bytes[0] = 1;
    cr_expect_eq(tp_touch(x), TP_OK);
    expect_values("late", late, VALUES(2, 12));
    bytes[0] = 9, bytes[1] = 2;
    cr_expect_eq(tp_touch(x), TP_OK);
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

/* The same four ops wired at random: fused, unfused and in plain C. */
static void random_wiring(tp_graph *g, uint64_t *seed)
{
    double v[7] = {3, 5, 2};
    tp_tensor *x[7];
    for (int i = 0; i < 3; i++) x[i] = tp_full(g, TP_F64, TP_DIMS(3, 3), v[i]);
    if (random_in(seed, 0, 1)) tp_eval_all(g, 3, x, NULL);
    int order[4] = {0, 1, 2, 3};
    for (int i = 3; i > 0; i--) {
        int k = (int)random_in(seed, 0, i), kept = order[i];
        order[i] = order[k], order[k] = kept;
    }
    for (int i = 0; i < 4; i++) {
        int a = (int)random_in(seed, 0, 2 + i), b = (int)random_in(seed, 0, 2 + i);
        switch (order[i]) {
        case 0:
            x[3 + i] = tp_add(x[a], x[b]), v[3 + i] = v[a] + v[b];
            break;
        case 1:
            x[3 + i] = tp_mul(x[a], x[b]), v[3 + i] = v[a] * v[b];
            break;
        case 2:
            x[3 + i] = tp_sub(x[a], x[b]), v[3 + i] = v[a] - v[b];
            break;
        default:
            x[3 + i] = tp_maximum(x[a], x[b]), v[3 + i] = v[a] > v[b] ? v[a] : v[b];
        }
    }
    cr_assert_eq(tp_eval(x[6]), TP_OK);
    for (int i = 0; i < 9; i++) cr_assert_eq(tp_item(x[6], i), v[6]);
}

Test(lazy, f113_graphs_of_the_same_ops_are_not_confused)
{
    EACH(g)
    {
        tp_tensor *x[3];
        for (int k = 0; k < 2; k++) {
            for (int i = 0; i < 3; i++)
                x[i] = tp_full(g, TP_F32, TP_DIMS(3, 3), i == 0 ? 3 : i == 1 ? 5 : 2);
            tp_tensor *d = tp_add(x[0], x[1]), *e = tp_add(x[0], x[2]);
            tp_tensor *y = tp_sub(tp_mul(d, e), k ? d : e);
            cr_assert_eq(tp_eval(y), TP_OK);
            for (int i = 0; i < 9; i++) cr_expect_eq(tp_item(y, i), k ? 32 : 35);
        }
        uint64_t seed = 113;
        for (int i = 0; i < 2000; i++) {
            random_wiring(g, &seed);
            if (i % 100 == 99) tp_graph_reset(g);
        }
    }
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
    if (!tests_the_cpu())
        return; /* a device has a limit of its own: runtime::a_device_that_is_full */
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

/* Fails in the middle of a plan: an index out of range after a product has run. */
Test(lazy, f116_a_failure_half_way_leaves_everything_as_it_was)
{
    EACH(g)
    {
        tp_tensor *x = count_up(g, TP_F32, TP_DIMS(4, 4)),
                  *i = tp_from_data(g, TP_I32, TP_DIMS(2), (int32_t[]){1, 4}),
                  *first = tp_matmul(x, x), *picked = tp_index_select(first, 0, i),
                  *last = tp_matmul(picked, x), *other = tp_sum(tp_neg(x), TP_ALL_AXES, false);
        char before[300], after[300];
        tp_describe(x, before, sizeof before);
        size_t used = tp_context_memory(tp_context_default()).used_bytes;
        int64_t nodes = tp_graph_node_count(g);
        cr_expect_eq(tp_eval_all(g, 3, (tp_tensor *[]){first, last, other}, NULL), TP_E_BOUNDS);
        cr_expect_str_eq(tp_graph_error(g)->text,
                         "index_select: index 4 at position 1 is outside axis 0 of size 4");
        cr_expect(!tp_is_evaluated(first) && !tp_is_evaluated(last) && !tp_is_evaluated(other));
        cr_expect_eq(tp_context_memory(tp_context_default()).used_bytes, used);
        cr_expect_eq(tp_graph_node_count(g), nodes);
        tp_describe(x, after, sizeof after);
        cr_expect_str_eq(before, after, "references and shape");
        expect_shape("last", last, TP_DIMS(2, 4));
        tp_graph_clear_error(g);
        expect_values("another root", other, VALUES(-120));
        cr_expect_eq(tp_bind(i, (int32_t[]){1, 3}, 8), TP_OK);
        cr_expect_eq(tp_eval(last), TP_OK);
        cr_expect_eq(tp_numel(last), 8);
        /* A dtype that does not fit is refused when it is built. */
        expect_error(g, tp_cast(x, (tp_dtype)99), TP_E_ARGUMENT, -1, "cast: 99 is no dtype");
    }
}

/* Freed and reused bytes are poisoned in test builds: a buffer freed too early shows. */
Test(lazy, f117_views_keep_their_storage_alive_through_reuse)
{
    EACH(g)
    {
        for (int k = 0; k < 2; k++) {
            float data[64 * 64];
            for (int i = 0; i < 64 * 64; i++) data[i] = (float)i;
            tp_tensor *x = tp_from_data(g, TP_F32, TP_DIMS(64, 64), data),
                      *y = tp_mul(x, tp_num(x, 2));
            tp_tensor *v[] = {tp_slice(y, 0, 3, 9, 2), tp_transpose(y, 0, 1),
                              tp_bitcast(y, TP_I32)},
                      *z = y;
            for (int i = 0; i < 5; i++)
                z = tp_matmul(z, tp_full(g, TP_F32, TP_DIMS(64, 64), 0.015625));
            tp_tensor *out[] = {z, v[0], v[1], v[2]};
            cr_assert_eq(tp_eval_all(g, 4, out, &(tp_eval_options){.keep_layout = k == 1}), TP_OK);
            for (int i = 0; i < 3 * 64; i++)
                cr_assert_eq(tp_item(v[0], i), 2 * ((3 + 2 * (i / 64)) * 64 + i % 64));
            for (int i = 0; i < 64 * 64; i++) {
                int32_t bits;
                float twice = 2 * data[i];
                memcpy(&bits, &twice, 4);
                cr_assert_eq(tp_item(v[1], i), 2 * data[i % 64 * 64 + i / 64]);
                cr_assert_eq(tp_item(v[2], i), bits);
                /* Rows of z are the means of y's, each five times over. */
                cr_assert_eq(tp_item(z, i), 2 * (64 * (i / 64) + 31.5));
            }
        }
    }
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

/* A view of the same shape is another name for the same bytes; contiguous of what is dense shares
 * them too. Writing happens through the host's own bytes and is told by tp_touch. */
Test(lazy, f119_views_see_what_is_written_and_outlive_their_base)
{
    EACH(g)
    {
        float bytes[4] = {1, 2, 3, 4};
        tp_tensor *x = tp_wrap(g, TP_F32, TP_DIMS(4), NULL, 0, bytes, sizeof bytes, NULL, NULL),
                  *v = tp_reshape(x, TP_DIMS(4)), *c = tp_contiguous(x), *sum = tp_add(v, c);
        cr_expect(tp_shares_storage(v, x) && tp_shares_storage(c, x));
        expect_values("before", sum, VALUES(2, 4, 6, 8));
        bytes[0] = 9;
        cr_expect_eq(tp_touch(x), TP_OK);
        expect_values("after", sum, VALUES(18, 4, 6, 8));
        expect_values("v", v, VALUES(9, 2, 3, 4));
        /* v is a result of its own now: it owns its bytes. */
        bytes[1] = 7;
        cr_expect_eq(tp_touch(x), TP_OK);
        expect_values("c", c, VALUES(9, 7, 3, 4));
        /* tp_bind gives x new bytes; what was read from the old ones is stale, not wrong. */
        tp_tensor *y = tp_from_data(g, TP_F32, TP_DIMS(2), (float[]){1, 2}),
                  *w = tp_reshape(y, TP_DIMS(2)), *d = tp_neg(w);
        expect_values("d", d, VALUES(-1, -2));
        cr_expect_eq(tp_bind(y, (float[]){5, 6}, 8), TP_OK);
        cr_expect_null(tp_data(d));
        tp_graph_clear_error(g);
        expect_values("w", w, VALUES(5, 6));
        expect_values("d", d, VALUES(-5, -6));
    }
    /* With keep_layout a view's storage outlives what it was taken from. */
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *x = tp_neg(tp_arange(g, TP_F32, 0, 1, 6)), *v = tp_flip(x, 1, (int64_t[]){0});
    cr_assert_eq(tp_eval(x), TP_OK);
    cr_assert_eq(tp_eval_all(g, 1, &v, &(tp_eval_options){.keep_layout = true}), TP_OK);
    cr_expect(tp_shares_storage(v, x));
    expect_values("v", v, VALUES(-5, -4, -3, -2, -1, 0));
    tp_graph_destroy(g);
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
    const char *end = tests_the_cpu() ? NULL : strstr(logged, "copy: %0"); /* the leaf's move */
    if (end) logged[end - logged] = 0;
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
