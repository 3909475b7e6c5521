/* Shortest paths between all pairs of nodes by Floyd and Warshall: one step per node asks whether
 * the way through it is shorter. NumPy's side runs Dijkstra from every node.
 *
 * Budget 0: row and column k of the distances are views that broadcast against each other. A step
 * must not write over the matrix whose row and column it still reads, so it gets its own. */
#include "check.h"

int main(int argc, char **argv)
{
    check c = check_open(argc, argv, "floyd_warshall", "Shortest paths between all pairs.");
    tp_tensor *distance = check_load(&c, "edges"); /* f32 [n,n]; infinite where there is none */
    int64_t n = tp_dim(distance, 0);

    for (int64_t k = 0; k < n; k++) {
        /* minimum(distance, distance[:, k:k+1] + distance[k:k+1, :]) */
        tp_tensor *to = tp_slice(distance, 1, k, k + 1, 1);
        tp_tensor *from = tp_slice(distance, 0, k, k + 1, 1);
        distance = tp_minimum(distance, tp_add(to, from));
    }

    tp_plan *plan = tp_plan_create(c.graph, 1, &distance, NULL);
    if (tp_plan_run(plan) == TP_OK) check_expect(&c, distance, "expected");
    return check_close(&c, plan, 1, 0, 0); /* the lengths are small integers: sums are exact */
}
