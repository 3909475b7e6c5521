/* Random programs: every set of passes gives the same bits as none, on integer-valued inputs where
 * a BLAS is involved; running twice changes nothing; no pass adds a copy. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"
#include "tests/backend.h"
#include "tests/random.h"

#define MOST_NODES 40
#define MOST_ELEMENTS 3000

typedef struct program {
    tp_tensor *node[MOST_NODES * 3];
    int count;
} program;

static void keep(program *p, tp_tensor *x)
{
    if (x && tp_numel(x) <= MOST_ELEMENTS && tp_numel(x) > 0) p->node[p->count++] = x;
}

static tp_tensor *pick(program *p, uint64_t *s)
{
    /* Later nodes more often: chains grow, and some nodes get several readers. */
    int64_t back = random_in(s, 0, 3) ? random_in(s, 0, p->count < 4 ? p->count - 1 : 3)
                                      : random_in(s, 0, p->count - 1);
    return p->node[p->count - 1 - back];
}

static int any_axis(const tp_tensor *x, uint64_t *s)
{
    return tp_ndim(x) ? (int)random_in(s, 0, tp_ndim(x) - 1) : 0;
}

static tp_tensor *random_view(tp_tensor *x, uint64_t *s)
{
    int rank = tp_ndim(x), axis = any_axis(x, s);
    switch (random_in(s, 0, 7)) {
    case 0:
        return rank > 1 ? tp_transpose(x, axis, any_axis(x, s)) : x;
    case 1:
        return rank ? tp_flip(x, 1, (int64_t[]){axis}) : x;
    case 2:
        return rank ? tp_slice(x, axis, random_in(s, 0, 1), TP_END, random_in(s, 1, 2)) : x;
    case 3:
        return rank < 4 ? tp_unsqueeze(x, (int)random_in(s, 0, rank)) : x;
    case 4:
        return tp_reshape(x, TP_DIMS(-1));
    case 5: {
        int64_t n = tp_numel(x);
        return n % 4 == 0 ? tp_reshape(x, TP_DIMS(2, n / 4, 2)) : tp_reshape(x, TP_DIMS(1, n));
    }
    case 6:
        return rank < 4 && tp_numel(x) < 500
                   ? tp_expand(tp_unsqueeze(x, 0), rank + 1, (int64_t[]){2, -1, -1, -1, -1})
                   : x;
    default:
        return rank && tp_dim(x, axis) > 0 ? tp_select(x, axis, 0) : x;
    }
}

/* Same shape as x, from x: so that binary operations find partners. */
static tp_tensor *partner(tp_tensor *x, program *p, uint64_t *s)
{
    for (int i = p->count - 1; i >= 0; i--) {
        tp_tensor *y = p->node[i];
        tp_view a = tp_view_of(x), b = tp_view_of(y);
        if (y != x && tp_view_same_shape(&a, &b)) return y;
    }
    return random_in(s, 0, 1) ? x : tp_num(x, (double)random_in(s, -2, 2));
}

/* What fills parts of a buffer or works along an axis. */
static tp_tensor *random_parts(tp_tensor *x, program *p, uint64_t *s)
{
    int axis = any_axis(x, s), rank = tp_ndim(x);
    tp_tensor *y = partner(x, p, s);
    if (!rank) return x;
    switch (random_in(s, 0, 9)) {
    case 0:
        return tp_ndim(y) == rank ? tp_concat(TP_LIST(x, y, x), axis) : x;
    case 1:
        return rank < 4 && tp_ndim(y) == rank ? tp_stack(TP_LIST(x, y), axis) : x;
    case 2:
        return tp_roll(x, axis, random_in(s, -2, 2));
    case 3: {
        int64_t widths[2 * TP_MAX_RANK] = {0};
        for (int i = 0; i < 2 * rank; i++) widths[i] = random_in(s, 0, 3) == 0;
        return tp_pad(x, 2 * rank, widths, -2);
    }
    case 4:
    case 5: {
        tp_tensor *part = tp_slice(x, axis, random_in(s, 0, 1), TP_END, random_in(s, 1, 2));
        if (random_in(s, 0, 1)) part = tp_flip(part, 1, (int64_t[]){axis});
        tp_tensor *values[] = {tp_neg(part), tp_num(x, 3), tp_max(part, 1, (int64_t[]){axis}, true),
                               tp_max(x, 1, (int64_t[]){axis}, true), tp_mul(part, part)};
        return tp_minimum(tp_update(x, part, values[random_in(s, 0, 4)]), tp_num(x, 60));
    }
    case 6: {
        tp_tensor *i = tp_argsort(x, axis, random_in(s, 0, 1));
        return tp_maximum(tp_minimum(tp_scatter_add(x, axis, i, tp_relu(x)), tp_num(x, 9)),
                          tp_num(x, -9));
    }
    case 7:
        return tp_take_along(x, axis, tp_argsort(x, axis, false));
    case 8:
        return random_in(s, 0, 1) ? tp_cummax(x, axis)
                                  : tp_minimum(tp_cumsum(x, axis), tp_num(x, 30));
    default:
        return tp_sort(x, axis, random_in(s, 0, 1));
    }
}

static tp_tensor *random_compute(tp_tensor *x, program *p, uint64_t *s)
{
    if (random_in(s, 0, 3) == 0) return random_parts(x, p, s);
    int axis = any_axis(x, s), rank = tp_ndim(x);
    int64_t axes[] = {axis};
    switch (random_in(s, 0, 19)) {
    case 0:
    case 1:
        return tp_contiguous(x);
    case 2:
        return tp_add(x, partner(x, p, s));
    case 3:
        return tp_minimum(tp_mul(x, partner(x, p, s)), tp_num(x, 50));
    case 4:
        return tp_sub(x, partner(x, p, s));
    case 5:
        return tp_relu(x);
    case 6:
        return tp_where(tp_less(x, partner(x, p, s)), x, tp_num(x, 1));
    case 7:
        return tp_maximum(tp_neg(x), tp_num(x, -9));
    case 8:
        return tp_minimum(rank ? tp_sum(x, 1, axes, random_in(s, 0, 1)) : x, tp_num(x, 40));
    case 9:
        return rank ? tp_max(x, 1, axes, true) : x;
    case 10:
        return tp_cast(tp_cast(x, TP_I16), TP_F32);
    case 11:
        return rank > 1
                   ? tp_maximum(tp_minimum(tp_matmul(x, tp_transpose(x, -1, -2)), tp_num(x, 99)),
                                tp_num(x, -99))
                   : x;
    case 12:
        return rank ? tp_cast(tp_argmax(x, 1, axes, false), TP_F32) : x;
    case 13:
        return tp_cast(tp_isfinite(tp_sign(x)), TP_F32);
    case 14:
        return tp_remainder(x, tp_num(x, 5));
    case 15:
        return rank ? tp_cast(tp_argmin(x, 1, axes, true), TP_F32) : x;
    case 16:
        return rank ? tp_layer_norm(tp_mul(x, tp_num(x, 0)), 1, NULL, NULL, 1) : x;
    case 17: /* truth values: exact whatever the layout */
        return rank ? tp_cast(tp_any(x, 1, axes, false), TP_F32) : x;
    case 18:
        return rank ? tp_round(tp_softmax(tp_mul(x, tp_num(x, 8)), axis)) : x;
    default:
        return rank ? tp_index_select(
                          x, axis,
                          tp_from_data(tp_graph_of(x), TP_I32, TP_DIMS(2), (int32_t[]){0, -1}))
                    : x;
    }
}

static void write_program(tp_graph *g, program *p, uint64_t seed)
{
    uint64_t s = seed;
    p->count = 0;
    for (int i = 0; i < 3; i++) {
        float data[24];
        for (int k = 0; k < 24; k++) data[k] = (float)random_in(&s, -3, 3);
        keep(p, i < 2 ? tp_from_data(g, TP_F32, TP_DIMS(2, 3, 4), data)
                      : tp_from_data(g, TP_F32, TP_DIMS(4, 6), data));
    }
    int wanted = (int)random_in(&s, 4, MOST_NODES);
    for (int i = 0; i < wanted && p->count < MOST_NODES * 3 - 2; i++) {
        tp_tensor *x = pick(p, &s);
        keep(p, random_in(&s, 0, 2) ? random_compute(x, p, &s) : random_view(x, &s));
    }
}

/* The last few nodes and a view are the outputs. */
static int outputs_of(program *p, tp_tensor **out)
{
    int count = 0;
    for (int i = p->count - 1; i >= 0 && count < 3; i -= 2) out[count++] = p->node[i];
    return count;
}

static void *result_of(tp_tensor *x, size_t *bytes)
{
    *bytes = (size_t)tp_numel(x) * tp_dtype_size(tp_dtype_of(x));
    void *data = malloc(*bytes + 1);
    cr_assert_eq(tp_read(x, data, *bytes), TP_OK);
    return data;
}

typedef struct tally {
    long programs, copies_off, copies_on, asked, kernels_off, kernels_on, in_place;
} tally;

/* Runs seed's program with the passes in mask on; gives the outputs' bytes in result. */
static int run(uint64_t seed, unsigned mask, const char *backend, void **result, size_t *bytes,
               tp_plan_summary *sum)
{
    static program p;
    tp_graph *g = tp_graph_create(NULL);
    tp_graph_set_backend(g, backend);
    for (int i = 0; tp_pass_name(i); i++) tp_graph_set_pass(g, tp_pass_name(i), mask >> i & 1U);
    write_program(g, &p, seed);
    tp_tensor *out[3];
    int count = outputs_of(&p, out);
    tp_plan *plan = tp_plan_create(g, count, out, NULL);
    cr_assert(plan, "seed %llu mask %u: %s", (unsigned long long)seed, mask,
              tp_graph_error(g)->text);
    *sum = tp_plan_summarize(plan);
    cr_assert_eq(tp_plan_run(plan), TP_OK, "seed %llu mask %u: %s", (unsigned long long)seed, mask,
                 tp_graph_error(g)->text);
    tp_plan_release(plan);
    char fault[256];
    cr_assert_null(tp_graph_verify(g, fault, sizeof fault), "seed %llu: %s",
                   (unsigned long long)seed, fault);
    for (int i = 0; i < count; i++) result[i] = result_of(out[i], &bytes[i]);
    tp_graph_destroy(g);
    return count;
}

static void compare(uint64_t seed, unsigned mask, const char *backend, void *const *want,
                    const size_t *want_bytes, int count, tp_plan_summary *sum)
{
    void *got[3];
    size_t bytes[3];
    int n = run(seed, mask, backend, got, bytes, sum);
    cr_assert_eq(n, count);
    for (int i = 0; i < n; i++) {
        cr_expect(bytes[i] == want_bytes[i] && memcmp(got[i], want[i], bytes[i]) == 0,
                  "seed %llu: output %d differs with passes %#x on %s", (unsigned long long)seed, i,
                  mask, backend);
        free(got[i]);
    }
}

Test(passes, every_set_of_passes_gives_the_same_bits)
{
    tally t = {0};
    /* A device that is a fake compiles every kernel once. */
    long wanted = !tests_the_cpu() ? 400 : long_tests() ? 60000 : 6000;
    for (long n = 0; n < wanted; n++) {
        uint64_t seed = (uint64_t)n * 13 + 5;
        void *want[3];
        size_t bytes[3];
        tp_plan_summary off, on, some;
        int count = run(seed, 0, tested_backend(), want, bytes, &off);
        compare(seed, 0x1FF, tested_backend(), want, bytes, count, &on);
        compare(seed, 1U << n % 9, tested_backend(), want, bytes, count, &some);
        compare(seed, (unsigned)(seed * 2654435761U >> 20) & 0x1FFU, tested_backend(), want, bytes,
                count, &some);
        if (n % 8 == 0) compare(seed, 0x1FF, "ref", want, bytes, count, &some);
        cr_expect_leq(on.copies, off.copies, "seed %llu: the passes add copies",
                      (unsigned long long)seed);
        cr_expect_leq(on.kernels, off.kernels, "seed %llu: the passes add kernels",
                      (unsigned long long)seed);
        cr_expect_leq(on.workspace_bytes, off.workspace_bytes,
                      "seed %llu: the passes need more memory", (unsigned long long)seed);
        t.programs++;
        t.copies_off += off.copies, t.copies_on += on.copies, t.asked += off.asked_copies;
        t.kernels_off += off.kernels, t.kernels_on += on.kernels, t.in_place += on.in_place;
        for (int i = 0; i < count; i++) free(want[i]);
    }
    printf("NOTE passes: %ld programs, copies %ld -> %ld, kernels %ld -> %ld, %ld in place\n",
           t.programs, t.copies_off, t.copies_on, t.kernels_off, t.kernels_on, t.in_place);
    /* Parts that come from leaves and shared values stay. */
    cr_expect_lt(t.copies_on * 5, t.copies_off * 3);
    cr_expect_lt(t.kernels_on * 2, t.kernels_off * 2 - t.programs);
    cr_expect_gt(t.in_place, 50);
}
