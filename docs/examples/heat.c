/* Heat spreads over a plate whose edge is held: twenty explicit steps of the five-point stencil in
 * one graph. NumPy's side takes the power of the step's matrix.
 *
 * Budget 0: the four neighbours are shifted views of the plate; what flows is calculated, so its
 * loop can store straight into the middle of the padded array, whose rim is only filled. */
#include "check.h"

/* What flows into each inner point: its four neighbours less four times itself. */
static tp_tensor *laplacian(tp_tensor *u)
{
    tp_tensor *up = tp_index(u, ":-2, 1:-1"), *down = tp_index(u, "2:, 1:-1");
    tp_tensor *left = tp_index(u, "1:-1, :-2"), *right = tp_index(u, "1:-1, 2:");
    tp_tensor *inner = tp_index(u, "1:-1, 1:-1");
    tp_tensor *sum = tp_add(tp_add(up, down), tp_add(left, right));
    return tp_sub(sum, tp_mul(inner, tp_num(inner, 4)));
}

int main(int argc, char **argv)
{
    check c = check_open(argc, argv, "heat", "Heat on a plate, twenty steps of a stencil.");
    tp_tensor *u = check_load(&c, "plate"); /* f32 [n,n] */

    for (int i = 0; i < 20; i++) {
        /* u + np.pad(0.2 * laplacian(u), 1) */
        tp_tensor *flow = laplacian(u);
        flow = tp_mul(flow, tp_num(flow, 0.2));
        u = tp_add(u, tp_pad(flow, TP_DIMS(1, 1, 1, 1), 0));
    }

    tp_plan *plan = tp_plan_create(c.graph, 1, &u, NULL);
    if (tp_plan_run(plan) == TP_OK) check_expect(&c, u, "expected");
    return check_close(&c, plan, 1, 1e-6, 0);
}
