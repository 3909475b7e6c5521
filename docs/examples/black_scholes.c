/* The prices of European calls and puts by Black and Scholes, for every strike and every term: a
 * table from two vectors.
 *
 * Budget 0: strikes run along columns and terms along rows by broadcasting; the rest is elementwise
 * and fuses into a few loops. */
#include "check.h"

/* The normal distribution: (1 + erf(x / sqrt 2)) / 2. */
static tp_tensor *normal_cdf(tp_tensor *x)
{
    tp_tensor *e = tp_erf(tp_mul(x, tp_num(x, sqrt(0.5))));
    return tp_mul(tp_add(e, tp_num(e, 1)), tp_num(e, 0.5));
}

int main(int argc, char **argv)
{
    check c = check_open(argc, argv, "black_scholes", "Prices of options over strikes and terms.");
    tp_tensor *strike = tp_unsqueeze(check_load(&c, "strike"), 0); /* f32 [1,k] */
    tp_tensor *term = tp_unsqueeze(check_load(&c, "term"), 1);     /* f32 [t,1], in years */
    double spot = 100, rate = 0.03, volatility = 0.2;

    /* d1 = (log(spot / strike) + (rate + volatility ** 2 / 2) * term) / (volatility * sqrt(term))
     */
    tp_tensor *moneyness = tp_log(tp_div(tp_num(strike, spot), strike));
    tp_tensor *drift = tp_mul(term, tp_num(term, rate + volatility * volatility / 2));
    tp_tensor *deviation = tp_mul(tp_sqrt(term), tp_num(term, volatility));
    tp_tensor *d1 = tp_div(tp_add(moneyness, drift), deviation);
    tp_tensor *d2 = tp_sub(d1, deviation);

    tp_tensor *discounted = tp_mul(strike, tp_exp(tp_mul(term, tp_num(term, -rate))));
    tp_tensor *now = tp_num(strike, spot);
    /* call = spot N(d1) - discounted N(d2);  put = call - spot + discounted */
    tp_tensor *call = tp_sub(tp_mul(now, normal_cdf(d1)), tp_mul(discounted, normal_cdf(d2)));
    tp_tensor *put = tp_add(tp_sub(call, now), discounted);

    tp_tensor *results[] = {call, put};
    tp_plan *plan = tp_plan_create(c.graph, 2, results, NULL);
    if (tp_plan_run(plan) == TP_OK) {
        check_expect(&c, call, "expected_call");
        check_expect(&c, put, "expected_put");
    }
    return check_close(&c, plan, 2, 2e-6, 0);
}
