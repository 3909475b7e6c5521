/* Taking apart, repeating, creating: values by hand, copies, refusals. */
#include "tests/cases/expect.h"

static tp_graph *g;
static void set_up(void)
{
    g = tp_graph_create(NULL);
}
static void tear_down(void)
{
    tp_graph_destroy(g);
}
TestSuite(structure, .init = set_up, .fini = tear_down);

static tp_tensor *counted(int ndim, const int64_t *shape)
{
    return count_up(g, TP_F32, ndim, shape);
}

Test(structure, split_and_chunk)
{
    tp_tensor *x = counted(TP_DIMS(2, 5)), *part[3];
    cr_expect_eq(tp_split(x, 1, 3, (int64_t[]){1, 0, 4}, part), TP_OK);
    for (int i = 0; i < 3; i++) cr_expect(tp_shares_storage(part[i], x), "a view");
    expect_shape("empty part", part[1], TP_DIMS(2, 0));
    expect_values("last part", part[2], VALUES(1, 2, 3, 4, 6, 7, 8, 9));
    cr_expect_eq(tp_chunk(x, -1, 3, part), TP_OK);
    expect_shape("first chunk", part[0], TP_DIMS(2, 2));
    expect_values("last chunk", part[2], VALUES(4, 9));
    cr_expect_eq(tp_split(x, 1, 2, (int64_t[]){1, 3}, part), TP_E_SHAPE);
    expect_refusal("sum", g, part[0], "the sizes add up to 4, dim 1 of [2,5] is 5");
    cr_expect_eq(tp_split(x, 1, 3, (int64_t[]){INT64_MAX, INT64_MAX, 7}, part), TP_E_SHAPE);
    expect_refusal("overflow", g, part[0], "too large");
    cr_expect_eq(tp_chunk(x, 2, 3, part), TP_E_ARGUMENT);
    expect_refusal("axis", g, part[0], "axis 2 is outside [-2, 1] of [2,5]");
    cr_expect_eq(tp_chunk(x, 0, 0, part), TP_E_ARGUMENT);
    expect_refusal("none", g, NULL, "0 parts");
}

Test(structure, repetition)
{
    tp_tensor *x = counted(TP_DIMS(2, 2));
    expect_values("repeat", tp_repeat(x, 1, 2), VALUES(0, 0, 1, 1, 2, 2, 3, 3));
    expect_values("repeat 0", tp_repeat(x, 0, 2), VALUES(0, 1, 0, 1, 2, 3, 2, 3));
    expect_shape("none", tp_repeat(x, 0, 0), TP_DIMS(0, 2));
    expect_values("tile", tp_tile(x, TP_DIMS(2)), VALUES(0, 1, 0, 1, 2, 3, 2, 3));
    expect_values("tile 2 1", tp_tile(x, TP_DIMS(2, 1)), VALUES(0, 1, 2, 3, 0, 1, 2, 3));
    expect_shape("new dims", tp_tile(x, TP_DIMS(3, 1, 2)), TP_DIMS(3, 2, 4));
    expect_refusal("negative", g, tp_tile(x, TP_DIMS(2, -1)),
                   "size 2 of dim 1 cannot be repeated -1");
    expect_refusal("huge", g, tp_repeat(x, 0, INT64_MAX), "size 2 of dim 0 cannot be repeated");
    /* Repeated heads that a product reads: no copy. */
    tp_tensor *k = tp_sin(counted(TP_DIMS(2, 3, 4))), *q = tp_cos(counted(TP_DIMS(6, 5, 4)));
    tp_tensor *s = tp_matmul(q, tp_transpose(tp_repeat(k, 0, 3), 1, 2));
    cr_expect_eq(plan_of(tp_relu(s)).copies, 1, "three dims cannot be one batch of six: kept");
}

Test(structure, windows)
{
    tp_tensor *x = counted(TP_DIMS(6)), *w = tp_windows(x, 0, 3, 2);
    expect_shape("windows", w, TP_DIMS(2, 3));
    cr_expect(tp_shares_storage(w, x));
    expect_values("windows", w, VALUES(0, 1, 2, 2, 3, 4));
    expect_values("of a reversed axis", tp_windows(tp_flip(x, TP_DIMS(0)), 0, 5, 1),
                  VALUES(5, 4, 3, 2, 1, 4, 3, 2, 1, 0));
    tp_tensor *y = tp_transpose(counted(TP_DIMS(3, 2)), 0, 1);
    expect_values("of a transposed", tp_windows(y, 1, 2, 1), VALUES(0, 2, 2, 4, 1, 3, 3, 5));
    expect_values("sum", tp_sum(tp_windows(x, 0, 4, 1), TP_DIMS(1), false), VALUES(6, 10, 14));
    cr_expect_eq(plan_of(tp_sum(tp_windows(x, 0, 4, 1), TP_DIMS(1), false)).copies, 0);
    /* Over an evaluated view the step is taken again on what lies there. */
    tp_tensor *t = tp_transpose(tp_exp(counted(TP_DIMS(3, 2))), 0, 1);
    tp_tensor *of_t = tp_windows(t, 1, 2, 1), *before = tp_add(of_t, tp_num(of_t, 0));
    cr_expect_eq(tp_eval(before), TP_OK);
    cr_expect_eq(tp_eval(t), TP_OK);
    tp_tensor *again = tp_sub(of_t, before);
    expect_values("evaluated view", again, VALUES(0, 0, 0, 0, 0, 0, 0, 0));
    expect_refusal("too long", g, tp_windows(x, 0, 7, 1),
                   "a window of 7 elements, 1 apart, does not fit dim 0 of [6], size 6");
    expect_refusal("step", g, tp_windows(x, 0, 2, 0), "must be 1 or more");
    expect_refusal("empty", g, tp_windows(tp_slice(x, 0, 0, 0, 1), 0, 1, 1), "does not fit");
}

Test(structure, creation)
{
    expect_values("eye", tp_eye(g, TP_F32, 2, 3, 1), VALUES(0, 1, 0, 0, 0, 1));
    expect_values("eye bool", tp_eye(g, TP_BOOL, 2, 2, -1), VALUES(0, 0, 1, 0));
    expect_values("linspace", tp_linspace(g, TP_F64, 0, 1, 5), VALUES(0, 0.25, 0.5, 0.75, 1));
    expect_values("one", tp_linspace(g, TP_F64, 3, 7, 1), VALUES(3));
    expect_shape("none", tp_linspace(g, TP_F64, 3, 7, 0), TP_DIMS(0));
    tp_tensor *ends = tp_linspace(g, TP_F64, 0, 0.1 * 3, 50);
    cr_expect_eq(tp_eval(ends), TP_OK);
    cr_expect_eq(tp_item(ends, 49), 0.1 * 3, "the end is exact");
    int8_t index[] = {1, -1, 2, 0};
    tp_tensor *i = tp_from_data(g, TP_I8, TP_DIMS(2, 2), index);
    expect_values("one_hot", tp_one_hot(i, 2, TP_F32), VALUES(0, 1, 0, 0, 0, 0, 1, 0));
    expect_refusal("floats", g, tp_one_hot(counted(TP_DIMS(2)), 2, TP_F32),
                   "indices are f32, an integer type is needed");
    tp_tensor *x = tp_add(counted(TP_DIMS(2, 3)), tp_scalar(g, TP_F32, 1));
    expect_values("tril", tp_tril(x, 0), VALUES(1, 0, 0, 4, 5, 0));
    expect_values("tril 1", tp_tril(x, 1), VALUES(1, 2, 0, 4, 5, 6));
    expect_values("triu", tp_triu(x, 0), VALUES(1, 2, 3, 0, 5, 6));
    expect_values("triu -1", tp_triu(x, -1), VALUES(1, 2, 3, 4, 5, 6));
    cr_expect_eq(plan_of(tp_tril(x, 0)).kernels, 3, "x and the two ranges that it is made of");
    expect_refusal("rank", g, tp_tril(counted(TP_DIMS(2)), 0), "x is [2], two dims are needed");
}

Test(structure, masked_fill)
{
    tp_tensor *x = counted(TP_DIMS(4)), *big = tp_greater(x, tp_num(x, 1.5));
    expect_values("fill", tp_masked_fill(x, big, -INFINITY), VALUES(0, 1, -INFINITY, -INFINITY));
    tp_tensor *u = tp_cast(x, TP_U8);
    expect_values("bytes", tp_masked_fill(u, big, 255), VALUES(0, 1, 255, 255));
    expect_refusal("too large", g, tp_masked_fill(u, big, 256), "u8 cannot hold 256");
    expect_refusal("fraction", g, tp_masked_fill(u, big, 0.5), "u8 cannot hold 0.5");
    expect_refusal("NaN", g, tp_masked_fill(u, big, NAN), "u8 cannot hold nan");
}

Test(structure, products)
{
    tp_tensor *a = counted(TP_DIMS(2, 3, 4)), *b = counted(TP_DIMS(4, 3, 5));
    tp_tensor *y = tp_tensordot(a, b, 2, (int64_t[]){1, -1}, (int64_t[]){1, 0});
    expect_shape("tensordot", y, TP_DIMS(2, 5));
    cr_assert_eq(tp_eval(y), TP_OK);
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 5; j++) {
            double sum = 0;
            for (int k = 0; k < 3; k++) {
                for (int l = 0; l < 4; l++) sum += (i * 12 + k * 4 + l) * (l * 15 + k * 5 + j);
            }
            cr_expect_eq(tp_item(y, i * 5 + j), sum);
        }
    }
    expect_shape("outer", tp_tensordot(a, b, 0, NULL, NULL), TP_DIMS(2, 3, 4, 4, 3, 5));
    expect_refusal("sizes", g, tp_tensordot(a, b, 1, (int64_t[]){0}, (int64_t[]){1}),
                   "a is [2,3,4], b is [4,3,5]: dim 0 of a is 2, dim 1 of b is 3");
    expect_refusal("twice", g, tp_tensordot(a, b, 2, (int64_t[]){1, 1}, (int64_t[]){1, 0}),
                   "axis 1 is given twice");
    tp_tensor *v = counted(TP_DIMS(3));
    expect_values("dot", tp_dot(v, v), VALUES(5));
    expect_refusal("dot", g, tp_dot(v, a), "the operands have 1 and 3 dims, 1 each is needed");
}

Test(structure, norms)
{
    float data[] = {1, 2, 3, 4, -1, 0};
    tp_tensor *x = tp_from_data(g, TP_F32, TP_DIMS(2, 3), data);
    tp_tensor *p = tp_exp(tp_log_softmax(x, 1)), *q = tp_softmax(x, 1),
              *away = tp_abs(tp_sub(p, q));
    cr_assert_eq(tp_eval(away), TP_OK);
    for (int i = 0; i < 6; i++) cr_expect_leq(tp_item(away, i), 2e-7);
    tp_tensor *far = tp_from_data(g, TP_F32, TP_DIMS(2), (float[]){0, -1000});
    expect_values("log_softmax far out", tp_log_softmax(far, 0), VALUES(0, -1000));
    uint8_t bytes[] = {0, 200};
    tp_tensor *u = tp_from_data(g, TP_U8, TP_DIMS(2), bytes);
    expect_values("of bytes", tp_log_softmax(u, 0), VALUES(-200, 0));
    expect_values("logsumexp of bytes", tp_logsumexp(u, TP_ALL_AXES, false), VALUES(200));
    expect_values("norm of bytes", tp_norm(tp_slice(u, 0, 1, 2, 1), TP_ALL_AXES, 2, false),
                  VALUES(200));
    tp_tensor *w = tp_from_data(g, TP_F32, TP_DIMS(2), (float[]){1, 2});
    tp_tensor *r = tp_from_data(g, TP_F32, TP_DIMS(2), (float[]){3, -3});
    expect_values("rms_norm", tp_rms_norm(r, 1, w, 0), VALUES(1, -2));
    expect_values("without weight", tp_rms_norm(r, 1, NULL, 16), VALUES(0.6F, -0.6F));
    expect_refusal("weight", g, tp_rms_norm(x, 1, w, 0), "x is [2,3], weight is [2]");
    tp_tensor *half = tp_cast(tp_mul(r, tp_num(r, 1000)), TP_F16);
    expect_values("squares of halves", tp_rms_norm(half, 1, NULL, 0), VALUES(1, -1));
    tp_tensor *mean = tp_from_data(g, TP_F32, TP_DIMS(3), (float[]){1, 0, 3});
    tp_tensor *var = tp_from_data(g, TP_F32, TP_DIMS(3), (float[]){1, 4, 1});
    expect_values("batch_norm", tp_batch_norm(x, mean, var, NULL, NULL, 0),
                  VALUES(0, 1, 0, 3, -0.5, -3));
    expect_values("scaled", tp_batch_norm(x, mean, var, var, mean, 0), VALUES(1, 4, 3, 4, -2, 0));
    expect_refusal("channels", g, tp_batch_norm(x, mean, w, NULL, NULL, 0),
                   "x is [2,3], var is [2]: it must be [3]");
}
