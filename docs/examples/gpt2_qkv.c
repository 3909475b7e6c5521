/* The attention of GPT-2: one product makes q, k and v side by side, [batch, seq, 3 width], and
 * chunk(3, dim=2) takes them apart. Causal; weights lie [in, out], as its Conv1D keeps them.
 *
 * Budget 0: the three parts are views whose rows are 3 width apart, which GEMM reads through its
 * leading dimension, k transposed; P V stores its heads side by side. As built there are four
 * copies: contiguous() on q, k, v and on the merged heads. */
#include "check.h"

enum { HEADS = 4 };

/* x.view(b, s, heads, -1).transpose(1, 2).contiguous() */
static tp_tensor *split_heads(tp_tensor *x)
{
    tp_tensor *heads = tp_view_as(x, TP_DIMS(tp_dim(x, 0), tp_dim(x, 1), HEADS, -1));
    return tp_contiguous(tp_transpose(heads, 1, 2));
}

/* Position i looks at positions j <= i. */
static tp_tensor *causal(tp_tensor *scores)
{
    tp_tensor *j = tp_arange(tp_graph_of(scores), TP_I32, 0, 1, tp_dim(scores, -1));
    tp_tensor *future = tp_greater(j, tp_unsqueeze(j, 1));
    return tp_masked_fill(scores, future, -INFINITY);
}

int main(int argc, char **argv)
{
    check c = check_open(argc, argv, "gpt2_qkv", "GPT-2's attention: one product for q, k and v.");
    tp_tensor *x = check_load(&c, "x"); /* f32 [batch, seq, width] */
    int64_t b = tp_dim(x, 0), s = tp_dim(x, 1), width = tp_dim(x, 2);

    tp_tensor *qkv = tp_add(tp_matmul(x, check_load(&c, "w_qkv")), check_load(&c, "b_qkv"));
    tp_tensor *parts[3];
    tp_chunk(qkv, 2, 3, parts);
    tp_tensor *q = split_heads(parts[0]), *k = split_heads(parts[1]), *v = split_heads(parts[2]);

    tp_tensor *scores = tp_matmul(q, tp_transpose(k, -1, -2));
    scores = tp_div(scores, tp_num(scores, sqrt((double)width / HEADS)));
    tp_tensor *context = tp_matmul(tp_softmax(causal(scores), -1), v);
    tp_tensor *merged = tp_contiguous(tp_transpose(context, 1, 2));
    merged = tp_view_as(merged, TP_DIMS(b, s, width));
    tp_tensor *y = tp_add(tp_matmul(merged, check_load(&c, "w_out")), check_load(&c, "b_out"));

    tp_plan *plan = tp_plan_create(c.graph, 1, &y, NULL);
    if (tp_plan_run(plan) == TP_OK) check_expect(&c, y, "expected");
    return check_close(&c, plan, 1, 1e-6, 0);
}
