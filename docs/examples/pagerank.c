/* PageRank of a dense graph of links: a page gives its rank to those it links to, in equal
 * parts; one without links gives to all. NumPy solved the linear system for the expected ranks.
 *
 * Budget 0: links are kept by source, [from,to], and ranks flow along columns; the product reads
 * the matrix transposed instead of copying it. */
#include "check.h"

int main(int argc, char **argv)
{
    check c = check_open(argc, argv, "pagerank", "PageRank of a dense graph by iteration.");
    tp_tensor *links = check_load(&c, "links"); /* bool [n,n]: from, to */
    int64_t n = tp_dim(links, 0);
    double damping = 0.85;

    /* out = links.sum(1);  share = where(out > 0, links / out, 1 / n) */
    tp_tensor *out = tp_sum(links, TP_DIMS(1), true);
    tp_tensor *share = tp_div(tp_cast(links, TP_F32), tp_cast(out, TP_F32));
    share = tp_where(tp_greater(out, tp_int(out, 0)), share, tp_num(share, 1 / (double)n));

    tp_tensor *rank = tp_full(c.graph, TP_F32, TP_DIMS(n), 1 / (double)n);
    for (int i = 0; i < 40; i++) {
        tp_tensor *flow = tp_matmul(tp_transpose(share, 0, 1), rank);
        rank = tp_add(tp_mul(flow, tp_num(flow, damping)), tp_num(flow, (1 - damping) / (double)n));
    }

    tp_plan *plan = tp_plan_create(c.graph, 1, &rank, NULL);
    if (tp_plan_run(plan) == TP_OK) check_expect(&c, rank, "expected");
    return check_close(&c, plan, 1, 1e-6, 0);
}
