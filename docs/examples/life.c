/* Conway's game of life, twelve generations in one graph; beyond the board nothing lives. NumPy's
 * side keeps a set of living cells.
 *
 * Budget 1: the generation that was loaded lies without a rim and is copied into the middle of the
 * first board. Later ones are calculated and stored straight there. Windows are a view of the
 * board, read in place by the sum. */
#include "check.h"

/* The next generation on the same board, without its rim of dead cells. */
static tp_tensor *next(tp_tensor *board)
{
    /* n = sliding_window_view(board, (3, 3)).sum((-1, -2)) - cells */
    tp_tensor *cells = tp_index(board, "1:-1, 1:-1");
    tp_tensor *windows = tp_windows(tp_windows(board, 0, 3, 1), 1, 3, 1);
    tp_tensor *n = tp_sub(tp_sum(windows, TP_DIMS(-1, -2), false), cells);
    /* (n == 3) | (cells & (n == 2)) */
    tp_tensor *survives = tp_logical_and(cells, tp_equal(n, tp_int(n, 2)));
    return tp_logical_or(tp_equal(n, tp_int(n, 3)), survives);
}

int main(int argc, char **argv)
{
    check c = check_open(argc, argv, "life", "Conway's game of life, twelve generations.");
    tp_tensor *cells = check_load(&c, "grid"); /* bool [h,w] */

    for (int i = 0; i < 12; i++) cells = next(tp_pad(cells, TP_DIMS(1, 1, 1, 1), 0));

    tp_plan *plan = tp_plan_create(c.graph, 1, &cells, NULL);
    if (tp_plan_run(plan) == TP_OK) check_expect(&c, cells, "expected");
    return check_close(&c, plan, 1, 0, 1);
}
