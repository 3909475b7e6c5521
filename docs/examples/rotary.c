/* Rotary position embedding, as in LLaMA and GPT-NeoX: the two halves of every head are turned
 * against each other by an angle that grows with the position; then q and k meet.
 *
 * Budget 0: both halves of the result are calculated, so their loops can store straight into their
 * places and concat has nothing left to copy; the product reads the heads in place. */
#include "check.h"

/* x [b,h,s,d], cos and sin [s,d/2]:
 * a, b = x.chunk(2, -1);  cat((a * cos - b * sin, b * cos + a * sin), -1) */
static tp_tensor *turn(tp_tensor *x, tp_tensor *cos, tp_tensor *sin)
{
    tp_tensor *halves[2];
    tp_chunk(x, -1, 2, halves);
    tp_tensor *a = halves[0], *b = halves[1];
    tp_tensor *left = tp_sub(tp_mul(a, cos), tp_mul(b, sin));
    tp_tensor *right = tp_add(tp_mul(b, cos), tp_mul(a, sin));
    return tp_concat(TP_LIST(left, right), -1);
}

int main(int argc, char **argv)
{
    check c = check_open(argc, argv, "rotary", "Rotary position embedding of q and k, and scores.");
    tp_tensor *q = tp_transpose(check_load(&c, "q"), 1, 2); /* f32 [b,s,h,d] as [b,h,s,d] */
    tp_tensor *k = tp_transpose(check_load(&c, "k"), 1, 2);
    tp_tensor *cos = check_load(&c, "cos"), *sin = check_load(&c, "sin");

    tp_tensor *y = tp_matmul(turn(q, cos, sin), tp_transpose(turn(k, cos, sin), -1, -2));

    tp_plan *plan = tp_plan_create(c.graph, 1, &y, NULL);
    if (tp_plan_run(plan) == TP_OK) check_expect(&c, y, "expected");
    return check_close(&c, plan, 1, 1e-6, 0);
}
