/* What reaches cuBLAS: views as (op, ld, batch stride), never a copy where a call can read them. */
#include "tests/cuda/device.h"
#include "tests/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static tp_tensor *noise(tp_graph *g, tp_dtype dtype, int ndim, const int64_t *shape, uint64_t seed)
{
    tp_tensor *x = tp_cast(tp_random_normal(g, TP_F32, ndim, shape, seed), dtype);
    cr_assert_eq(tp_eval(x), TP_OK, "%s", tp_graph_error(g)->text);
    return x;
}

/* ---- The attention layer
 * ---------------------------------------------------------------------------- */

enum { BATCH = 2, ROWS = 32, WIDTH = 64, HEADS = 4 };

static tp_tensor *heads_of(tp_tensor *x)
{
    tp_tensor *split = tp_reshape(x, TP_DIMS(BATCH, ROWS, HEADS, WIDTH / HEADS));
    return tp_contiguous(tp_transpose(split, 1, 2));
}

static tp_tensor *layer(tp_graph *g)
{
    tp_tensor *x = noise(g, TP_F32, TP_DIMS(BATCH, ROWS, WIDTH), 1), *w[4];
    for (int i = 0; i < 4; i++) w[i] = noise(g, TP_F32, TP_DIMS(WIDTH, WIDTH), 2 + (uint64_t)i);
    tp_tensor *q = heads_of(tp_matmul(x, w[0])), *k = heads_of(tp_matmul(x, w[1])),
              *v = heads_of(tp_matmul(x, w[2]));
    tp_tensor *scores = tp_matmul(q, tp_transpose(k, 2, 3));
    tp_tensor *p = tp_softmax(tp_mul(scores, tp_num(scores, 0.25)), 3);
    tp_tensor *merged = tp_contiguous(tp_transpose(tp_matmul(p, v), 1, 2));
    return tp_matmul(tp_reshape(merged, TP_DIMS(BATCH, ROWS, WIDTH)), w[3]);
}

/* Every call with all its arguments but addresses and types: four projections, whose rows are all
 * batches', two calls for the scores and two for P V, which writes heads side by side. */
#define PROJECTION                                                                                 \
    "GemmEx NN m=64 n=64 k=64 alpha=1 beta=0 lda=64 ldb=64 ldc=64 batch=1 strides=0,0,0\n"
#define SCORES                                                                                     \
    "GemmStridedBatchedEx TN m=32 n=32 k=16 alpha=1 beta=0 lda=64 ldb=64 ldc=32 batch=4 "          \
    "strides=16,16,1024\n"
#define VALUES                                                                                     \
    "GemmStridedBatchedEx NN m=16 n=32 k=32 alpha=1 beta=0 lda=64 ldb=32 ldc=64 batch=4 "          \
    "strides=16,1024,16\n"
static const char *const layer_calls = PROJECTION PROJECTION SCORES SCORES
    "launch softmax blocks=32 threads=256\n" PROJECTION VALUES VALUES PROJECTION;

/* The calls without what follows " types=". */
static void cut_calls(const char *calls, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (const char *line = calls; *line;) {
        const char *end = strchr(line, '\n'), *cut = strstr(line, " types=");
        if (!end) break;
        if (!cut || cut > end) cut = end;
        int n = snprintf(text + used, size - used, "%.*s\n", (int)(cut - line), line);
        used += n > 0 && (size_t)n < size - used ? (size_t)n : 0;
        line = end + 1;
    }
}

Test(products, the_attention_layer_copies_nothing)
{
    tp_graph *g = cuda_graph(), *ref = tp_graph_create(NULL);
    tp_graph_set_backend(ref, "ref");
    tp_tensor *y = layer(g), *z = layer(ref);
    fake_forget_calls();
    cr_assert_eq(tp_eval(y), TP_OK, "%s", tp_graph_error(g)->text);
    char calls[8000];
    cut_calls(fake_calls(), calls, sizeof calls);
    cr_expect_str_eq(calls, layer_calls, "%s", calls);
    cr_assert_eq(tp_eval(z), TP_OK);
    for (int64_t i = 0; i < tp_numel(y); i++)
        cr_assert_float_eq(tp_item(y, i), tp_item(z, i), 1e-3, "element %lld", (long long)i);
    tp_graph_destroy(g);
    tp_graph_destroy(ref);
}

/* ---- Random views
 * --------------------------------------------------------------------------------- */

/* [batch.., rows, cols] as a view of a dense tensor: turned, cut, repeated, backwards. */
static tp_tensor *random_view(tp_graph *g, tp_dtype dtype, const int64_t *batch, int loops,
                              int64_t rows, int64_t cols, uint64_t *state)
{
    int64_t shape[4];
    bool turned = random_in(state, 0, 1);
    for (int d = 0; d < loops; d++) shape[d] = random_in(state, 0, 4) == 0 ? 1 : batch[d];
    shape[loops] = (turned ? cols : rows) + random_in(state, 0, 2);
    shape[loops + 1] = (turned ? rows : cols) + random_in(state, 0, 3);
    tp_tensor *x = noise(g, dtype, loops + 2, shape, random_next(state));
    x = tp_slice(x, loops, shape[loops] - (turned ? cols : rows), shape[loops], 1);
    x = tp_slice(x, loops + 1, 0, turned ? rows : cols, 1);
    if (random_in(state, 0, 7) == 0) x = tp_flip(x, TP_DIMS(random_in(state, 0, loops + 1)));
    if (turned) x = tp_transpose(x, loops, loops + 1);
    if (loops == 2 && shape[0] == batch[0] && shape[1] == batch[1] && random_in(state, 0, 3) == 0) {
        /* batch dims that lie the other way round */
        int64_t other[4] = {batch[1], batch[0], rows, cols};
        x = tp_transpose(noise(g, dtype, 4, other, random_next(state)), 0, 1);
    }
    return x;
}

static tp_tensor *product(tp_graph *g, uint64_t seed)
{
    static const tp_dtype dtypes[] = {TP_F32, TP_F64, TP_F16, TP_BF16, TP_I32, TP_U8};
    uint64_t state = seed;
    tp_dtype dtype =
        dtypes[random_in(&state, 0, 9) < 6 ? random_in(&state, 0, 3) : random_in(&state, 0, 5)];
    int loops = (int)random_in(&state, 0, 2);
    int64_t batch[2] = {random_in(&state, 1, 5), random_in(&state, 1, 6)};
    int64_t m = random_in(&state, 1, 9), n = random_in(&state, 1, 9), k = random_in(&state, 0, 9);
    tp_tensor *a = random_view(g, dtype, batch, loops, m, k, &state);
    tp_tensor *b = random_view(g, dtype, batch, loops, k, n, &state);
    tp_tensor *y = tp_matmul(a, b);
    return random_in(&state, 0, 2) == 0 ? tp_contiguous(tp_transpose(y, -1, -2)) : y;
}

Test(products, random_views_give_what_the_reference_gives, .timeout = 120)
{
    long calls = 0;
    int count = long_tests() ? 20000 : 1500;
    for (int i = 0; i < count; i++) {
        tp_graph *g = cuda_graph(), *ref = tp_graph_create(NULL);
        tp_graph_set_backend(ref, "ref");
        tp_tensor *y = product(g, 900 + (uint64_t)i), *z = product(ref, 900 + (uint64_t)i);
        fake_forget_calls();
        cr_assert(tp_eval(y) == TP_OK && tp_eval(z) == TP_OK, "seed %d: %s", 900 + i,
                  tp_graph_error(g)->text);
        cr_assert(!strstr(fake_calls(), "REFUSED") && !strstr(fake_calls(), "fault"), "seed %d: %s",
                  900 + i, fake_calls());
        calls += strstr(fake_calls(), "Gemm") != NULL;
        bool half = tp_dtype_of(y) == TP_F16 || tp_dtype_of(y) == TP_BF16;
        for (int64_t j = 0; j < tp_numel(y); j++) {
            double got = tp_item(y, j), want = tp_item(z, j);
            double allowed = (half ? 0.01 : 1e-5) * (4 + fabs(want));
            cr_assert(fabs(got - want) <= allowed, "seed %d: element %lld is %.9g against %.9g: %s",
                      900 + i, (long long)j, got, want, fake_calls());
        }
        tp_graph_destroy(g);
        tp_graph_destroy(ref);
    }
    cr_expect_gt(calls, count / 2);
    cr_expect_eq(fake_count().allocations, 0);
}

/* ---- Ways into the library
 * -------------------------------------------------------------------------- */

Test(products, many_batches_that_do_not_merge_go_by_tables)
{
    tp_graph *g = cuda_graph();
    /* 20 x 20 products whose batch strides do not continue each other. */
    tp_tensor *a = tp_slice(noise(g, TP_F32, TP_DIMS(20, 22, 3, 4), 1), 1, 0, 20, 1);
    tp_tensor *b = tp_transpose(noise(g, TP_F32, TP_DIMS(20, 20, 4, 5), 2), 0, 1);
    tp_tensor *y = tp_matmul(a, b);
    fake_forget_calls();
    cr_assert_eq(tp_eval(y), TP_OK, "%s", tp_graph_error(g)->text);
    cr_expect(strstr(fake_calls(), "launch gemm_tables"), "%s", fake_calls());
    cr_expect(strstr(fake_calls(), "GemmBatchedEx NN m=5 n=3 k=4"), "%s", fake_calls());
    tp_tensor *dense[] = {tp_contiguous(a), tp_contiguous(b)};
    cr_assert_eq(tp_eval_all(g, 2, dense, NULL), TP_OK);
    double want = 0;
    for (int64_t k = 0; k < 4; k++)
        want += tp_item(dense[0], ((7 * 20 + 3) * 3 + 1) * 4 + k) *
                tp_item(dense[1], ((7 * 20 + 3) * 4 + k) * 5 + 2);
    cr_expect_float_eq(tp_item(y, ((7 * 20 + 3) * 3 + 1) * 5 + 2), want, 1e-5);
    tp_graph_destroy(g);
}

Test(products, tf32_is_only_taken_when_asked_for)
{
    for (int asked = 0; asked < 2; asked++) {
        tp_graph *g = cuda_graph();
        tp_tensor *a = noise(g, TP_F32, TP_DIMS(8, 8), 1), *y = tp_matmul(a, a);
        fake_forget_calls();
        cr_assert_eq(tp_eval_all(g, 1, &y, &(tp_eval_options){.tf32 = asked}), TP_OK);
        /* CUBLAS_COMPUTE_32F is 68, its fast TF32 form 77 */
        cr_expect(strstr(fake_calls(), asked ? "compute=77" : "compute=68"), "%s", fake_calls());
        tp_graph_destroy(g);
    }
}

/* ---- Epilogues
 * ------------------------------------------------------------------------------------ */

static tp_tensor *ended_by(tp_graph *g, int activation, bool biased, int64_t shift, tp_dtype dtype)
{
    tp_tensor *x = noise(g, dtype, TP_DIMS(6, 16), 1), *w = noise(g, dtype, TP_DIMS(24, 16), 2);
    tp_tensor *b = tp_slice(noise(g, dtype, TP_DIMS(40), 3), 0, shift, shift + 24, 1);
    tp_tensor *y = tp_matmul(x, tp_transpose(w, 0, 1));
    if (biased) y = tp_add(y, b);
    return activation == 1   ? tp_relu(y)
           : activation == 2 ? tp_gelu_tanh(y)
           : activation == 3 ? tp_gelu(y)
                             : y;
}

/* Whether one call did it all, and the results are those of the reference. */
static bool one_call(int activation, bool biased, int64_t shift, tp_dtype dtype)
{
    tp_graph *g = cuda_graph(), *ref = tp_graph_create(NULL);
    tp_graph_set_backend(ref, "ref");
    tp_tensor *y = ended_by(g, activation, biased, shift, dtype),
              *z = ended_by(ref, activation, biased, shift, dtype);
    fake_forget_calls();
    cr_assert(tp_eval(y) == TP_OK && tp_eval(z) == TP_OK, "%s", tp_graph_error(g)->text);
    bool one = strstr(fake_calls(), "LtMatmul") && !strstr(fake_calls(), "launch");
    for (int64_t i = 0; i < tp_numel(y); i++) {
        double want = tp_item(z, i);
        cr_expect_float_eq(tp_item(y, i), want, (dtype == TP_F32 ? 1e-5 : 0.02) * (1 + fabs(want)));
    }
    tp_graph_destroy(g);
    tp_graph_destroy(ref);
    return one;
}

Test(products, bias_and_activation_are_part_of_the_product)
{
    static const tp_dtype dtypes[] = {TP_F32, TP_BF16, TP_F16};
    for (int d = 0; d < 3; d++) {
        cr_expect(one_call(0, true, 0, dtypes[d]), "bias");
        cr_expect(one_call(1, true, 0, dtypes[d]), "relu(bias)");
        cr_expect(one_call(2, true, 0, dtypes[d]), "gelu_tanh(bias)");
        cr_expect(one_call(1, false, 0, dtypes[d]), "relu");
        cr_expect(!one_call(3, true, 0, dtypes[d]), "gelu by erf is not what the library has");
        /* Fault 7: a bias that is not aligned. */
        cr_expect(!one_call(0, true, 1, dtypes[d]), "misaligned bias");
    }
}

Test(products, without_an_algorithm_or_the_library_nothing_is_lost)
{
    setenv("TP_FAKE_NO_ALGORITHM", "1", 1);
    cr_expect(!one_call(2, true, 0, TP_BF16), "fault 8");
    unsetenv("TP_FAKE_NO_ALGORITHM");
}
Test(products, without_cublas_lt_nothing_is_lost)
{
    setenv("TP_FAKE_NO_LT", "1", 1);
    cr_expect(!one_call(2, true, 0, TP_BF16));
}

/* A product that somebody else reads keeps its own result: the user, or another kernel. */
Test(products, a_product_with_two_readers_keeps_its_result)
{
    tp_graph *g = cuda_graph();
    tp_tensor *x = noise(g, TP_F32, TP_DIMS(6, 16), 1), *p = tp_matmul(x, tp_transpose(x, 0, 1));
    tp_tensor *all[] = {tp_relu(p), p};
    cr_assert_eq(tp_eval_all(g, 2, all, NULL), TP_OK);
    for (int64_t i = 0; i < 36; i++) {
        double v = tp_item(p, i);
        cr_expect_eq(tp_item(all[0], i), v > 0 ? v : 0);
    }
    tp_tensor *q = tp_matmul(x, tp_transpose(x, 0, 1));
    tp_tensor *both[] = {tp_relu(q), tp_matmul(q, x)}, *want = tp_matmul(p, x);
    cr_assert_eq(tp_eval_all(g, 2, both, NULL), TP_OK);
    cr_assert_eq(tp_eval(want), TP_OK);
    for (int64_t i = 0; i < 96; i++) cr_expect_eq(tp_item(both[1], i), tp_item(want, i));
    tp_graph_destroy(g);
}
