/* Memory: every allocation in turn made to fail, in many scenarios: a status, no leak, the graph
 * usable again. The pool and its limits (category 10). Threads and forks. */
#include "tests/cases/expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* An allocator that counts, and fails at the chosen request. */
static long requests, fail_at, live;
static void *counted_alloc(void *user, size_t size)
{
    (void)user;
    if (__atomic_add_fetch(&requests, 1, __ATOMIC_RELAXED) == fail_at) return NULL;
    void *p = aligned_alloc(64, (size + 63) / 64 * 64);
    if (p) __atomic_add_fetch(&live, 1, __ATOMIC_RELAXED);
    return p;
}
static void counted_release(void *user, void *p, size_t size)
{
    (void)user, (void)size;
    __atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
    free(p);
}

static tp_tensor *input(tp_graph *g)
{
    return tp_from_data(g, TP_F32, TP_DIMS(2, 3), (float[]){1, 2, 3, 4, 5, 6});
}

/* Scenarios: each builds and does something and tells whether all of it went well. */
static bool ok(tp_tensor *x)
{
    return x && tp_eval(x) == TP_OK;
}
static bool s_leaf(tp_graph *g)
{
    return input(g) != NULL;
}
static bool s_views(tp_graph *g)
{
    return tp_reshape(tp_transpose(tp_unsqueeze(tp_flip(input(g), 1, (int64_t[]){0}), 0), 1, 2),
                      TP_DIMS(-1)) != NULL;
}
static bool s_chain(tp_graph *g)
{
    return ok(tp_relu(tp_add(tp_mul(input(g), tp_scalar(g, TP_F32, 2)), tp_scalar(g, TP_F32, 1))));
}
static bool s_unfused(tp_graph *g)
{
    tp_graph_set_pass(g, "all", false);
    return s_chain(g);
}
static bool s_matmul(tp_graph *g)
{
    tp_tensor *x = input(g);
    return ok(tp_matmul(x, tp_transpose(x, 0, 1)));
}
static bool s_integer_matmul(tp_graph *g)
{
    tp_tensor *x = tp_cast(input(g), TP_I32);
    return ok(tp_matmul(x, tp_transpose(x, 0, 1)));
}
static bool s_reduce(tp_graph *g)
{
    return ok(tp_sqrt(tp_sum(tp_mul(input(g), input(g)), 1, (int64_t[]){1}, true)));
}
static bool s_argmax(tp_graph *g)
{
    return ok(tp_argmax(tp_transpose(input(g), 0, 1), 1, (int64_t[]){0}, false));
}
static bool s_softmax(tp_graph *g)
{
    return ok(tp_softmax(tp_mul(input(g), tp_scalar(g, TP_F32, 0.5)), -1));
}
static bool s_norm(tp_graph *g)
{
    return ok(tp_layer_norm(input(g), 1, tp_full(g, TP_F32, TP_DIMS(3), 2), NULL, 1e-5));
}
static bool s_gather(tp_graph *g)
{
    return ok(tp_index_select(input(g), 1, tp_from_data(g, TP_I32, TP_DIMS(2), (int32_t[]){2, 0})));
}
static bool s_copies(tp_graph *g)
{
    return ok(tp_reshape(tp_contiguous(tp_transpose(
                             tp_matmul(input(g), tp_full(g, TP_F32, TP_DIMS(3, 4), 1)), 0, 1)),
                         TP_DIMS(8)));
}
static bool s_two(tp_graph *g)
{
    tp_tensor *x = input(g), *out[] = {tp_neg(x), tp_transpose(x, 0, 1)};
    return out[0] && out[1] && tp_eval_all(g, 2, out, NULL) == TP_OK;
}
static bool s_keep(tp_graph *g)
{
    tp_tensor *y = tp_transpose(tp_neg(input(g)), 0, 1);
    return y && tp_eval_all(g, 1, &y, &(tp_eval_options){.keep_layout = true}) == TP_OK;
}
static bool s_equal(tp_graph *g)
{
    tp_tensor *x = input(g);
    return ok(tp_add(tp_contiguous(tp_transpose(x, 0, 1)), tp_contiguous(tp_transpose(x, 0, 1))));
}
static bool s_compare(tp_graph *g)
{
    return ok(tp_less(tp_full(g, TP_I64, TP_DIMS(2), 3), tp_full(g, TP_F64, TP_DIMS(2), 2.5)));
}
static bool s_dot(tp_graph *g)
{
    tp_tensor *y = tp_named(tp_neg(input(g)), "y");
    return y && tp_graph_dot(g, 1, &y, NULL, 0) > 0 && tp_graph_text(g, 1, &y, NULL, 0) > 0;
}
static bool s_plan(tp_graph *g)
{
    tp_tensor *y = tp_contiguous(tp_transpose(tp_neg(input(g)), 0, 1));
    tp_plan *plan = y ? tp_plan_create(g, 1, &y, NULL) : NULL;
    bool good = plan && tp_plan_dot(plan, NULL, 0) > 0 && tp_plan_text(plan, NULL, 0) > 0 &&
                tp_plan_run(plan) == TP_OK;
    tp_plan_release(plan);
    return good;
}
static bool s_parse(tp_graph *g)
{
    tp_tensor *y;
    int n = tp_graph_parse(
        g,
        "%0 = data f32 [2,2] {1,2,3,4} \"x\"\n%1 = permute %0 [1,0]\n%2 = matmul %0 %1\nreturn %2",
        1, &y);
    return n == 1 && ok(y);
}
static bool s_npy(tp_graph *g)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/tp_%ld_memory.npy", (long)getpid());
    tp_tensor *x = input(g);
    bool good = x && tp_save_npy(x, path) == TP_OK && ok(tp_load_npy(g, path));
    unlink(path);
    return good;
}
static bool s_touch(tp_graph *g)
{
    tp_tensor *x = input(g), *y = x ? tp_neg(x) : NULL;
    return ok(y) && tp_bind(x, (float[]){0, 0, 0, 0, 0, 0}, 24) == TP_OK && tp_eval(y) == TP_OK;
}
static bool s_parts(tp_graph *g)
{
    tp_tensor *x = input(g), *y = x ? tp_pad(tp_roll(x, 1, 1), TP_DIMS(1, 1, 0, 2), 3) : NULL;
    tp_tensor *out[] = {
        tp_concat(TP_LIST(y, tp_matmul(y, tp_matmul(tp_transpose(y, 0, 1), y)), y), 0),
        tp_stack(TP_LIST(y, tp_neg(y)), 1)};
    return out[0] && out[1] && tp_eval_all(g, 2, out, NULL) == TP_OK;
}
static bool s_update(tp_graph *g)
{
    tp_tensor *x = input(g), *row = x ? tp_slice(x, 0, 1, 2, 1) : NULL;
    if (!row || tp_donate(x) != TP_OK) return false;
    return ok(tp_update(x, row, tp_neg(row)));
}
static bool s_along(tp_graph *g)
{
    tp_tensor *x = input(g), *order = tp_argsort(x, 1, true);
    return ok(tp_cumsum(tp_scatter_add(x, 1, order, tp_take_along(x, 1, order)), 0));
}
static bool s_layers(tp_graph *g)
{
    tp_tensor *q = tp_random_normal(g, TP_F32, TP_DIMS(4, 2, 3), 1);
    tp_tensor *k = tp_slice(q, 0, 0, 2, 1), *x = q ? tp_reshape(q, TP_DIMS(1, 2, 3, 4)) : NULL;
    tp_tensor *out[] = {tp_attention(q, k, k, NULL, 0, true),
                        tp_conv2d(x, tp_full(g, TP_F32, TP_DIMS(2, 2, 2, 2), 1), NULL, NULL)};
    return out[0] && out[1] && tp_eval_all(g, 2, out, NULL) == TP_OK;
}
static bool s_reset(tp_graph *g)
{
    if (!s_chain(g)) return false;
    tp_graph_reset(g);
    return s_matmul(g);
}
static bool s_long(tp_graph *g)
{
    tp_tensor *x = input(g);
    for (int i = 0; i < 300 && x; i++)
        x = i % 50 == 49 ? tp_matmul(x, tp_matmul(tp_transpose(x, 0, 1), x))
                         : tp_minimum(x, tp_scalar(g, TP_F32, 3));
    return ok(x);
}

static const struct {
    const char *name;
    bool (*run)(tp_graph *);
} scenarios[] = {
    {"leaf", s_leaf},       {"views", s_views},      {"chain", s_chain},
    {"unfused", s_unfused}, {"matmul", s_matmul},    {"integer matmul", s_integer_matmul},
    {"reduce", s_reduce},   {"argmax", s_argmax},    {"softmax", s_softmax},
    {"norm", s_norm},       {"gather", s_gather},    {"copies", s_copies},
    {"two outputs", s_two}, {"keep layout", s_keep}, {"equal", s_equal},
    {"compare", s_compare}, {"dot", s_dot},          {"plan", s_plan},
    {"parse", s_parse},     {"npy", s_npy},          {"touch", s_touch},
    {"parts", s_parts},     {"update", s_update},    {"along", s_along},
    {"layers", s_layers},   {"reset", s_reset},      {"long", s_long}};

Test(memory, each_allocation_in_turn_fails_cleanly, .timeout = 120)
{
    long tried = 0;
    for (size_t s = 0; s < sizeof scenarios / sizeof *scenarios; s++) {
        bool done = false;
        for (long at = 1; !done; at++) {
            requests = 0, fail_at = 0;
            tp_context *c = tp_context_create(
                &(tp_context_options){.allocator = {counted_alloc, counted_release, NULL},
                                      .threads = 1,
                                      .pool_limit_bytes = 1 /* what fails is not tried again */});
            tp_graph *g = tp_graph_create(c);
            cr_assert(c && g);
            long base = requests;
            fail_at = base + at;
            bool good = scenarios[s].run(g);
            done = requests < fail_at; /* it got by without that many */
            cr_assert_eq(good, done, "%s: allocation %ld fails, %s", scenarios[s].name, at,
                         good ? "and nobody notices" : "or something else does");
            if (!good)
                cr_assert_eq(tp_graph_error(g)->status, TP_E_NOMEM, "%s: allocation %ld: %s",
                             scenarios[s].name, at, tp_graph_error(g)->text);
            fail_at = 0;
            tp_graph_clear_error(g);
            cr_assert(scenarios[s].run(g), "%s: not usable after allocation %ld failed: %s",
                      scenarios[s].name, at, tp_graph_error(g)->text);
            char fault[256];
            cr_assert_null(tp_graph_verify(g, fault, sizeof fault), "%s: %s", scenarios[s].name,
                           fault);
            tp_graph_destroy(g);
            tp_context_release(c);
            cr_assert_eq(live, 0, "%s: allocation %ld: %ld blocks leak", scenarios[s].name, at,
                         live);
            tried++;
        }
    }
    printf("NOTE memory: %ld failed allocations in %zu scenarios\n", tried,
           sizeof scenarios / sizeof *scenarios);
    cr_expect_gt(tried, 500);
}

Test(memory, f153_f155_the_pool_reuses_and_never_keeps_too_much)
{
    tp_context *c = tp_context_create(&(tp_context_options){.memory_limit_bytes = 100 << 10});
    tp_storage *a = tp_storage_create(c, 30 << 10), *b = tp_storage_create(c, 30 << 10);
    cr_assert(a && b);
    tp_storage_release(a);
    tp_storage *d = tp_storage_create(c, 60 << 10);
    cr_expect(d, "30 + 60 of 100 fit");
    cr_expect_null(tp_storage_create(c, 30 << 10));
    tp_storage_release(b), tp_storage_release(d);
    tp_context_set_memory_limit(c, 0);
    size_t largest = 0, reserved = 0;
    unsigned state = 1;
    for (int i = 0; i < 10000; i++) {
        state = state * 1664525 + 1013904223;
        size_t n = i < 1000 ? (size_t)i * 64 + 1 : state % 64000 + 1;
        tp_storage *x = tp_storage_create(c, n), *y = tp_storage_create(c, n / 2 + 1);
        largest = n + n / 2 > largest ? n + n / 2 : largest;
        tp_storage_release(x), tp_storage_release(y);
        tp_memory m = tp_context_memory(c);
        reserved =
            m.used_bytes + m.pooled_bytes > reserved ? m.used_bytes + m.pooled_bytes : reserved;
    }
    cr_expect_lt(reserved, (size_t)1 << 21, "%zu bytes kept for at most %zu in use", reserved,
                 largest);
    cr_expect_eq(tp_context_memory(c).used_bytes, 0);
    tp_context_trim(c);
    cr_expect_eq(tp_context_memory(c).pooled_bytes, 0);
    tp_context_release(c);
}

/* A size whose block is rounded up to the next kind of class is found again too. */
Test(memory, the_pool_finds_a_block_of_any_size_again)
{
    static const size_t around[] = {64, 4096, 1 << 20, 32 << 20, 56 << 20, 64 << 20, 80 << 20};
    tp_context *c = tp_context_create(NULL);
    for (size_t i = 0; i < sizeof around / sizeof *around; i++) {
        for (int d = -36; d <= 36; d += 36) {
            size_t n = around[i] + (size_t)d;
            tp_storage_release(tp_storage_create(c, n));
            size_t kept = tp_context_memory(c).pooled_bytes;
            tp_storage_release(tp_storage_create(c, n));
            cr_expect_eq(tp_context_memory(c).pooled_bytes, kept, "%zu bytes: %zu kept, then %zu",
                         n, kept, tp_context_memory(c).pooled_bytes);
            tp_context_trim(c);
        }
    }
    tp_context_release(c);
}

/* Fault 159: a forked child computes too, before and after the parent used threads. */
Test(memory, f159_forks_do_not_hang, .timeout = 60)
{
    for (int round = 0; round < 2; round++) {
        pid_t child = fork();
        tp_graph *g = tp_graph_create(NULL);
        tp_tensor *x = tp_full(g, TP_F32, TP_DIMS(256, 256), 1), *y = tp_relu(tp_matmul(x, x));
        if (child == 0) alarm(20);
        bool good = tp_eval(y) == TP_OK && tp_item(y, 65535) == 256;
        tp_graph_destroy(g);
        if (child == 0) _exit(good ? 0 : 1);
        int status;
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_expect(good && WIFEXITED(status) && WEXITSTATUS(status) == 0,
                  "round %d: child status %d", round, status);
    }
}

Test(memory, results_do_not_depend_on_threads)
{
    float *first = NULL;
    for (int threads = 1; threads <= 4; threads++) {
        tp_context *c = tp_context_create(&(tp_context_options){.threads = threads});
        tp_graph *g = tp_graph_create(c);
        tp_tensor *x = tp_reshape(tp_arange(g, TP_F32, -3, 0.001, 400 * 300), TP_DIMS(400, 300));
        tp_tensor *y = tp_softmax(
                      tp_add(tp_transpose(tp_gelu(x), 0, 1), tp_sum(x, 1, (int64_t[]){1}, false)),
                      0),
                  *m = tp_mean(tp_exp(tp_mul(x, tp_num(x, 0.1))), 1, (int64_t[]){0}, true);
        tp_tensor *z = tp_add(tp_transpose(y, 0, 1), m);
        cr_assert_eq(tp_eval(z), TP_OK);
        size_t bytes = 400 * 300 * 4;
        if (!first) {
            first = malloc(bytes);
            memcpy(first, tp_data(z), bytes);
        } else
            cr_expect_arr_eq(first, tp_data(z), bytes, "%d threads", threads);
        tp_graph_destroy(g);
        tp_context_release(c);
    }
    free(first);
}
