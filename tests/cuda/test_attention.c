/* Attention of halves on tensor cores, and by groups of heads, against the reference. */
#include "tests/cuda/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct shape {
    int64_t batch, heads, rows, keys, width, out;
    bool boolean, added, op, strided;
    tp_dtype dtype;
} shape;

static tp_tensor *noise(tp_graph *g, tp_dtype dtype, int ndim, const int64_t *dims, uint64_t seed)
{
    tp_tensor *x = tp_cast(tp_random_normal(g, TP_F32, ndim, dims, seed), dtype);
    cr_assert_eq(tp_eval(x), TP_OK, "%s", tp_graph_error(g)->text);
    return x;
}

/* [batch, heads, n, width], as it is or with heads side by side in a row. */
static tp_tensor *heads_of(tp_graph *g, const shape *s, int64_t n, int64_t width, uint64_t seed)
{
    if (!s->strided) return noise(g, s->dtype, TP_DIMS(s->batch, s->heads, n, width), seed);
    return tp_transpose(noise(g, s->dtype, TP_DIMS(s->batch, n, s->heads, width), seed), 1, 2);
}

static tp_tensor *attention(tp_graph *g, const shape *s)
{
    tp_tensor *q = heads_of(g, s, s->rows, s->width, 1), *k = heads_of(g, s, s->keys, s->width, 2),
              *v = heads_of(g, s, s->keys, s->out, 3), *mask = NULL;
    if (s->boolean) /* row 5 sees nothing, the others up to some key */
        mask = tp_logical_and(tp_less(tp_arange(g, TP_I64, 0, 1, s->keys),
                                      tp_unsqueeze(tp_arange(g, TP_I64, 1, 3, s->rows), 1)),
                              tp_not_equal(tp_unsqueeze(tp_arange(g, TP_I64, 0, 1, s->rows), 1),
                                           tp_scalar(g, TP_I64, 5)));
    if (s->added) mask = noise(g, s->dtype, TP_DIMS(s->heads, s->rows, s->keys), 4);
    if (s->op) return tp_attention(q, k, v, mask, 0, false);
    tp_tensor *scores = tp_matmul(q, tp_transpose(k, 2, 3));
    scores = tp_mul(scores, tp_num(scores, 1 / sqrt((double)s->width)));
    if (s->added) scores = tp_add(scores, mask);
    if (s->boolean) scores = tp_where(mask, scores, tp_num(scores, -INFINITY));
    return tp_matmul(tp_softmax(scores, 3), v);
}

static void check(const shape *s, const char *kernel, const char *what)
{
    tp_graph *g = cuda_graph(), *ref = tp_graph_create(NULL);
    tp_graph_set_backend(ref, "ref");
    tp_tensor *y = attention(g, s), *z = attention(ref, s);
    fake_forget_calls();
    cr_assert(y && tp_eval(y) == TP_OK && tp_eval(z) == TP_OK, "%s: %s", what,
              tp_graph_error(g)->text);
    cr_expect(strstr(fake_calls(), kernel), "%s: %s", what, fake_calls());
    cr_expect(!strstr(fake_calls(), "copy") && !strstr(fake_calls(), "transpose"), "%s",
              fake_calls());
    double worst = 0;
    for (int64_t i = 0; i < tp_numel(y); i++) {
        double got = tp_item(y, i), want = tp_item(z, i);
        cr_assert_eq(isnan(got), isnan(want), "%s: element %lld is %g, not %g", what, (long long)i,
                     got, want);
        if (!isnan(want)) worst = fmax(worst, fabs(got - want) / (0.1 + fabs(want)));
    }
    double allowed = s->dtype == TP_F32 ? 1e-4 : s->dtype == TP_F16 ? 0.02 : 0.15;
    cr_expect_leq(worst, allowed, "%s: %g", what, worst);
    tp_graph_destroy(g);
    tp_graph_destroy(ref);
}

Test(attention, halves_run_on_tensor_cores, .timeout = 200)
{
    /* 4 MiB of scores at least: below that they are stored. */
    const shape cases[] = {
        {1, 2, 700, 1600, 64, 64, .dtype = TP_BF16},
        {1, 2, 700, 1601, 64, 64, .dtype = TP_F16, .strided = true},
        {1, 2, 701, 1599, 128, 128, .dtype = TP_BF16, .boolean = true},
        {2, 1, 700, 1600, 32, 40, .dtype = TP_F16, .added = true, .strided = true},
        {1, 2, 700, 1600, 64, 64, .dtype = TP_F16, .op = true, .boolean = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[20];
        snprintf(what, sizeof what, "case %zu", i);
        check(&cases[i], "launch attention", what);
    }
}

Test(attention, other_widths_and_f32_go_by_groups_of_heads, .timeout = 100)
{
    const shape cases[] = {{1, 2, 700, 1600, 20, 12, .dtype = TP_BF16},
                           {1, 2, 700, 1600, 16, 16, .dtype = TP_F32, .boolean = true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(&cases[i], "launch softmax", "groups");
}
