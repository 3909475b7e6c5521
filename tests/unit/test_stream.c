/* Attention in tiles against the same graph without the pass: masks, layouts, groups, rows that see
 * nothing, numbers that are none; what is matched and what is left alone. */
#include "tests/cases/expect.h"

#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 2, HEADS = 3, ROWS = 530, KEYS = 700, WIDTH = 24 };

typedef struct variant {
    const char *name;
    bool causal, boolean, added, bias, op, strided, grouped, no_scale;
    int bad; /* 1: a NaN in q, 2: a row of q that is infinite, 3: rows hidden altogether */
} variant;

static tp_tensor *noise(tp_graph *g, int ndim, const int64_t *shape, uint64_t seed)
{
    tp_tensor *x = tp_random_normal(g, TP_F32, ndim, shape, seed);
    cr_assert_eq(tp_eval(x), TP_OK);
    return x;
}

/* [batch, heads, n, width], as it is or as a view of [batch, n, heads, width]. */
static tp_tensor *operand(tp_graph *g, const variant *v, int64_t heads, int64_t n, uint64_t seed)
{
    if (v->strided) return tp_transpose(noise(g, TP_DIMS(BATCH, n, heads, WIDTH), seed), 1, 2);
    return noise(g, TP_DIMS(BATCH, heads, n, WIDTH), seed);
}

static tp_tensor *spoiled(tp_tensor *q, int bad)
{
    tp_tensor *row = tp_index(q, "1, 2, 300:301");
    tp_tensor *y = tp_update(q, row, tp_num(q, bad == 1 ? NAN : INFINITY));
    cr_assert_eq(tp_eval(y), TP_OK);
    return y;
}

static tp_tensor *keep_of(tp_graph *g, const variant *v)
{
    bool *seen = malloc(ROWS * KEYS);
    for (int i = 0; i < ROWS * KEYS; i++) {
        int row = i / KEYS, key = i % KEYS;
        seen[i] = v->bad == 3 ? row % 7 && key > 600 : (row * 31 + key * 17) % 5 != 0;
    }
    tp_tensor *keep = tp_from_data(g, TP_BOOL, TP_DIMS(ROWS, KEYS), seen);
    free(seen);
    return keep;
}

static tp_tensor *build(tp_graph *g, const variant *v)
{
    tp_tensor *q = operand(g, v, HEADS * (v->grouped ? 2 : 1), ROWS, 1),
              *k = operand(g, v, HEADS, KEYS, 2), *values = operand(g, v, HEADS, KEYS, 3);
    tp_tensor *keep = v->boolean ? keep_of(g, v) : NULL;
    tp_tensor *added = v->added ? noise(g, TP_DIMS(BATCH, 1, 1, KEYS), 4) : NULL;
    if (v->bad == 1 || v->bad == 2) q = spoiled(q, v->bad);
    if (v->op) return tp_attention(q, k, values, keep ? keep : added, 0, v->causal);
    tp_tensor *s = tp_matmul(q, tp_transpose(k, 2, 3));
    if (!v->no_scale) s = tp_mul(s, tp_num(s, 0.2));
    if (added) s = tp_add(added, s);
    if (v->bias) s = tp_add(s, noise(g, TP_DIMS(HEADS, ROWS, 1), 5));
    if (keep) s = tp_where(keep, s, tp_num(s, -INFINITY));
    if (v->causal) {
        tp_tensor *i = tp_unsqueeze(tp_arange(g, TP_I64, 0, 1, ROWS), 1),
                  *j = tp_arange(g, TP_I64, 0, 1, KEYS);
        s = tp_where(tp_greater(j, i), tp_num(s, -INFINITY), s);
    }
    return tp_matmul(tp_softmax(s, -1), values);
}

static bool is_streamed(tp_graph *g, tp_tensor *y)
{
    tp_plan *plan = tp_plan_create(g, 1, &y, NULL);
    cr_assert(plan, "%s", tp_graph_error(g)->text);
    int64_t size = tp_plan_text(plan, NULL, 0) + 1;
    char *text = malloc((size_t)size);
    tp_plan_text(plan, text, (size_t)size);
    bool found = strstr(text, "STREAMED") != NULL;
    free(text);
    tp_plan_release(plan);
    return found;
}

static bool has_blas(void)
{
    char text[512];
    tp_describe_backends(text, sizeof text);
    return strstr(text, "no BLAS") == NULL;
}

static const variant variants[] = {
    {.name = "plain"},
    {.name = "no scale", .no_scale = true},
    {.name = "causal", .causal = true},
    {.name = "bool mask", .boolean = true},
    {.name = "added mask and bias", .added = true, .bias = true},
    {.name = "strided", .strided = true, .causal = true},
    {.name = "the op, causal", .op = true, .causal = true},
    {.name = "the op, groups", .op = true, .grouped = true, .strided = true},
    {.name = "the op, hidden rows", .op = true, .boolean = true, .bad = 3},
    {.name = "hidden rows", .boolean = true, .bad = 3},
    {.name = "NaN", .bad = 1},
    {.name = "infinity", .bad = 2, .causal = true},
};

/* Errors of either way: exponentials of 2 ulp, sums over up to KEYS, products in f32. A score's own
 * rounding becomes a relative error of its exponential: without a scale they are five times as
 * large. */
#define BOUND 2e-6

Test(stream, equals_what_is_stored)
{
    double worst = 0;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        const variant *v = &variants[i];
        tp_graph *g = tp_graph_create(NULL), *plain = tp_graph_create(NULL);
        tp_graph_set_pass(plain, "stream", false);
        tp_tensor *y = build(g, v), *z = build(plain, v);
        cr_expect_eq(is_streamed(g, y), has_blas(), "%s", v->name);
        cr_expect(!is_streamed(plain, z));
        cr_assert(tp_eval(y) == TP_OK && tp_eval(z) == TP_OK, "%s: %s", v->name,
                  tp_graph_error(g)->text);
        const float *a = tp_data(y), *b = tp_data(z);
        int64_t wrong = 0;
        for (int64_t k = 0; k < tp_numel(y); k++) {
            bool nan = isnan(b[k]);
            double away = nan ? 0 : fabs((double)a[k] - b[k]);
            worst = fmax(worst, away);
            wrong += isnan(a[k]) != nan || away > (v->no_scale ? 5 : 1) * BOUND;
        }
        cr_expect_eq(wrong, 0, "%s: %ld of %ld elements", v->name, (long)wrong, (long)tp_numel(y));
        tp_graph_destroy(g);
        tp_graph_destroy(plain);
    }
    printf("NOTE streamed attention: at most %.2g from the stored one, allowed %.2g\n", worst,
           5 * BOUND);
}

Test(stream, threads_change_nothing)
{
    float *first = NULL;
    for (int threads = 1; threads <= 3; threads++) {
        tp_context *c = tp_context_create(&(tp_context_options){.threads = threads});
        tp_graph *g = tp_graph_create(c);
        tp_tensor *y = build(g, &variants[5]);
        cr_assert_eq(tp_eval(y), TP_OK);
        size_t bytes = (size_t)tp_numel(y) * sizeof(float);
        if (!first) {
            first = malloc(bytes);
            memcpy(first, tp_data(y), bytes);
        }
        cr_expect_arr_eq(first, tp_data(y), bytes, "%d threads", threads);
        tp_graph_destroy(g);
        tp_context_release(c);
    }
    free(first);
}

/* Small scores, scores or probabilities that somebody else wants, and other axes stay as written.
 */
Test(stream, what_is_left_alone)
{
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *q = noise(g, TP_DIMS(1100, 8), 1), *k = noise(g, TP_DIMS(8, 1100), 2),
              *v = noise(g, TP_DIMS(1100, 8), 3);
    cr_expect_eq(is_streamed(g, tp_matmul(tp_softmax(tp_matmul(q, k), 1), v)), has_blas());
    tp_tensor *p = tp_softmax(tp_matmul(q, k), 1), *y = tp_matmul(p, v);
    cr_expect(!is_streamed(g, tp_add(y, tp_sum(p, TP_DIMS(1), true))));
    tp_tensor *s = tp_matmul(q, k);
    cr_expect(!is_streamed(g, tp_add(tp_matmul(tp_softmax(s, 1), v), tp_max(s, TP_DIMS(1), true))));
    cr_expect(!is_streamed(g, tp_matmul(tp_softmax(tp_matmul(q, k), 0), v)));
    cr_expect(
        !is_streamed(g, tp_matmul(tp_slice(tp_softmax(tp_matmul(q, k), 1), 0, 0, 1000, 1), v)));
    tp_tensor *few = tp_slice(q, 0, 0, 400, 1);
    cr_expect(!is_streamed(g, tp_matmul(tp_softmax(tp_matmul(few, k), 1), v)), "small");
    tp_tensor *peak = tp_matmul(tp_softmax(tp_matmul(q, k), 1), v);
    tp_plan *plan = tp_plan_create(g, 1, &peak, NULL);
    if (has_blas()) cr_expect_lt(tp_plan_summarize(plan).peak_bytes, 1100 * 8 * 4 + 64);
    tp_plan_release(plan);
    tp_graph_destroy(g);
}
