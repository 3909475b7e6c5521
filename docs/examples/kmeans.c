/* Lloyd's k-means, eight rounds in one graph: every point goes to the nearest centre, every centre
 * to the mean of its points.
 *
 * Budget 0: points and centres meet by broadcasting, which repeats with stride 0; the sums of a
 * cluster's points are a product whose left side, the one-hot labels, is read transposed. */
#include "check.h"

/* ((points[:, None] - centres[None]) ** 2).sum(-1).argmin(-1) */
static tp_tensor *nearest(tp_tensor *points, tp_tensor *centres)
{
    tp_tensor *difference = tp_sub(tp_unsqueeze(points, 1), tp_unsqueeze(centres, 0));
    tp_tensor *distances = tp_sum(tp_square(difference), TP_DIMS(-1), false);
    return tp_argmin(distances, TP_DIMS(-1), false);
}

/* (one_hot.T @ points) / one_hot.sum(0)[:, None] */
static tp_tensor *means(tp_tensor *points, tp_tensor *labels, int64_t k)
{
    tp_tensor *one_hot = tp_one_hot(labels, k, TP_F32);
    tp_tensor *sums = tp_matmul(tp_transpose(one_hot, 0, 1), points);
    return tp_div(sums, tp_unsqueeze(tp_sum(one_hot, TP_DIMS(0), false), 1));
}

int main(int argc, char **argv)
{
    check c = check_open(argc, argv, "kmeans", "Eight rounds of k-means in one graph.");
    tp_tensor *points = check_load(&c, "points");   /* f32 [n,d] */
    tp_tensor *centres = check_load(&c, "centres"); /* f32 [k,d], where to start */
    int64_t k = tp_dim(centres, 0);

    for (int round = 0; round < 8; round++) centres = means(points, nearest(points, centres), k);
    tp_tensor *labels = nearest(points, centres);

    tp_tensor *results[] = {centres, labels};
    tp_plan *plan = tp_plan_create(c.graph, 2, results, NULL);
    if (tp_plan_run(plan) == TP_OK) {
        check_expect(&c, centres, "expected_centres");
        check_expect(&c, labels, "expected_labels");
    }
    return check_close(&c, plan, 2, 1e-6, 0);
}
