/* The largest eigenvalue of a symmetric matrix and its eigenvector by power iteration: multiply,
 * make the length 1, again. NumPy's eigh gave the expected pair.
 *
 * Budget 0: products of a matrix and a vector, norms and divisions; nothing changes its layout. */
#include "check.h"

int main(int argc, char **argv)
{
    check c = check_open(argc, argv, "power_iteration",
                         "The largest eigenvalue and its vector, by repeated products.");
    tp_tensor *a = check_load(&c, "matrix"); /* f32 [n,n], symmetric */
    tp_tensor *v = check_load(&c, "start");  /* f32 [n] */

    for (int i = 0; i < 40; i++) {
        tp_tensor *next = tp_matmul(a, v);
        v = tp_div(next, tp_norm(next, TP_ALL_AXES, 2, false));
    }
    /* The Rayleigh quotient of a vector of length 1. */
    tp_tensor *value = tp_dot(v, tp_matmul(a, v));

    tp_tensor *results[] = {value, v};
    tp_plan *plan = tp_plan_create(c.graph, 2, results, NULL);
    if (tp_plan_run(plan) == TP_OK) {
        check_expect(&c, value, "expected_value");
        check_expect(&c, v, "expected_vector");
    }
    return check_close(&c, plan, 2, 2e-6, 0);
}
