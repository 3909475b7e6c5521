/* How many of 40 steps of z = z z + c stay within |z| <= 2, for every point of a grid. In f64: near
 * the set's edge the count hangs on the last bits.
 *
 * Budget 0: the grid is two vectors, broadcast against each other, and all else is elementwise. */
#include "check.h"

int main(int argc, char **argv)
{
    check c = check_open(argc, argv, "mandelbrot", "The Mandelbrot set, 40 steps in one graph.");
    tp_tensor *real = tp_unsqueeze(check_load(&c, "real"), 0); /* f64 [1,w] */
    tp_tensor *imag = tp_unsqueeze(check_load(&c, "imag"), 1); /* f64 [h,1] */
    tp_tensor *x = tp_num(real, 0), *y = tp_num(imag, 0);
    tp_tensor *count = tp_full_int(c.graph, TP_I32, TP_DIMS(tp_dim(imag, 0), tp_dim(real, 1)), 0);

    for (int i = 0; i < 40; i++) {
        tp_tensor *next_x = tp_add(tp_sub(tp_square(x), tp_square(y)), real);
        tp_tensor *next_y = tp_add(tp_mul(tp_num(x, 2), tp_mul(x, y)), imag);
        tp_tensor *length = tp_add(tp_square(next_x), tp_square(next_y));
        tp_tensor *inside = tp_less_equal(length, tp_num(length, 4));
        count = tp_add(count, inside);
        /* A point on its way out keeps its last place inside and leaves anew: no infinities. */
        x = tp_where(inside, next_x, x);
        y = tp_where(inside, next_y, y);
    }

    tp_plan *plan = tp_plan_create(c.graph, 1, &count, NULL);
    if (tp_plan_run(plan) == TP_OK) check_expect(&c, count, "expected");
    return check_close(&c, plan, 1, 0, 0);
}
