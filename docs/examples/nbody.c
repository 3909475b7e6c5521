/* Bodies that pull at each other: forces by Newton's law, softened as simulations do, and four
 * leapfrog steps. Pairs are made by broadcasting; NumPy's side loops over pairs.
 *
 * Budget 0: positions [n,3] meet as [n,1,3] and [1,n,3], repeated with stride 0; a pair's product
 * is added up where it is calculated. */
#include "check.h"

/* The pull on every body, per mass. */
static tp_tensor *acceleration(tp_tensor *position, tp_tensor *mass)
{
    /* d = position[None] - position[:, None];  r2 = (d * d).sum(-1, keepdims=True) + 0.01 */
    tp_tensor *d = tp_sub(tp_unsqueeze(position, 0), tp_unsqueeze(position, 1));
    tp_tensor *r2 = tp_sum(tp_square(d), TP_DIMS(-1), true);
    r2 = tp_add(r2, tp_num(r2, 0.01));
    /* (mass[:, None] * d / r2 ** 1.5).sum(1) */
    tp_tensor *pull = tp_div(tp_unsqueeze(mass, 1), tp_mul(r2, tp_sqrt(r2)));
    return tp_sum(tp_mul(pull, d), TP_DIMS(1), false);
}

/* x + y dt */
static tp_tensor *move(tp_tensor *x, tp_tensor *y, double dt)
{
    return tp_add(x, tp_mul(y, tp_num(y, dt)));
}

int main(int argc, char **argv)
{
    check c = check_open(argc, argv, "nbody", "Four leapfrog steps of bodies under gravity.");
    tp_tensor *position = check_load(&c, "position"); /* f32 [n,3] */
    tp_tensor *velocity = check_load(&c, "velocity"); /* f32 [n,3] */
    tp_tensor *mass = check_load(&c, "mass");         /* f32 [n] */
    double dt = 0.01;

    for (int i = 0; i < 4; i++) {
        velocity = move(velocity, acceleration(position, mass), dt / 2);
        position = move(position, velocity, dt);
        velocity = move(velocity, acceleration(position, mass), dt / 2);
    }

    tp_tensor *results[] = {position, velocity};
    tp_plan *plan = tp_plan_create(c.graph, 2, results, NULL);
    if (tp_plan_run(plan) == TP_OK) {
        check_expect(&c, position, "expected_position");
        check_expect(&c, velocity, "expected_velocity");
    }
    return check_close(&c, plan, 2, 2e-6, 0);
}
