/* Grouped-query attention: eight heads ask, two pairs of keys and values answer, each for four of
 * them. Nothing is repeated: keys and values get a dim of size 1 that broadcasts.
 *
 * Budget 0: the products read the heads in place, a shared head with batch stride 0, and P V
 * stores its heads side by side, which is what transpose, contiguous and reshape ask for. */
#include "check.h"

enum { GROUPS = 2, SHARING = 4 }; /* heads that answer; heads that share one of them */

/* x W' as [batch, groups, sharing, seq, depth]; sharing is 1 for keys and values. */
static tp_tensor *project(tp_tensor *x, tp_tensor *w, int64_t sharing)
{
    tp_tensor *y = tp_linear(x, w, NULL);
    return tp_rearrange(y, "b s (g h d) -> b g h s d", TP_SIZES({"g", GROUPS}, {"h", sharing}));
}

int main(int argc, char **argv)
{
    check c = check_open(argc, argv, "grouped_query_attention",
                         "Attention whose eight heads share two pairs of keys and values.");
    tp_tensor *x = check_load(&c, "x"); /* f32 [batch, seq, width] */
    tp_tensor *q = project(x, check_load(&c, "wq"), SHARING);
    tp_tensor *k = project(x, check_load(&c, "wk"), 1);
    tp_tensor *v = project(x, check_load(&c, "wv"), 1);

    tp_tensor *scores = tp_matmul(q, tp_transpose(k, -1, -2));
    scores = tp_mul(scores, tp_num(scores, 1 / sqrt((double)tp_dim(q, -1))));
    tp_tensor *context = tp_matmul(tp_softmax(scores, -1), v);
    tp_tensor *merged = tp_contiguous(tp_rearrange(context, "b g h s d -> b s (g h d)", 0, NULL));
    tp_tensor *y = tp_linear(merged, check_load(&c, "wo"), NULL);

    tp_plan *plan = tp_plan_create(c.graph, 1, &y, NULL);
    if (tp_plan_run(plan) == TP_OK) check_expect(&c, y, "expected");
    return check_close(&c, plan, 1, 1e-6, 0);
}
