/* A separable blur: seven weights along the rows, then down the columns, where they fit into the
 * image. NumPy's side sums 7 x 7 patches.
 *
 * Budget 0: windows overlap, and BLAS takes no matrix whose rows do. But the windows at one place
 * of all rows are a matrix like any other, so the product runs over places and reads each in
 * place: first with the image's width as leading dimension, then transposed. */
#include "check.h"

int main(int argc, char **argv)
{
    check c = check_open(argc, argv, "blur", "A separable blur: windows times weights, twice.");
    tp_tensor *image = check_load(&c, "image");     /* f32 [h,w] */
    tp_tensor *weights = check_load(&c, "weights"); /* f32 [7] */
    int64_t size = tp_dim(weights, 0);

    /* sliding_window_view(image, size, axis=1) @ weights, then the same down the columns */
    tp_tensor *rows = tp_matmul(tp_windows(image, 1, size, 1), weights);
    tp_tensor *y = tp_matmul(tp_windows(rows, 0, size, 1), weights);

    tp_plan *plan = tp_plan_create(c.graph, 1, &y, NULL);
    if (tp_plan_run(plan) == TP_OK) check_expect(&c, y, "expected");
    return check_close(&c, plan, 1, 1e-6, 0);
}
