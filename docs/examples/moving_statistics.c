/* Mean and standard deviation over a sliding window of 16 samples. See
 * numpy.lib.stride_tricks.sliding_window_view.
 *
 * Budget 0: windows are a view in which both dims have the stride of a sample, so that samples are
 * shared; the reductions read it in place. */
#include "check.h"

int main(int argc, char **argv)
{
    check c = check_open(argc, argv, "moving_statistics",
                         "Mean and deviation over a sliding window, which is a view.");
    tp_tensor *series = check_load(&c, "series");      /* f32 [channels, samples] */
    tp_tensor *windows = tp_windows(series, 1, 16, 1); /* [channels, samples - 15, 16] */
    tp_tensor *mean = tp_mean(windows, TP_DIMS(-1), false);
    tp_tensor *std = tp_std(windows, TP_DIMS(-1), 0, false);

    tp_tensor *results[] = {mean, std};
    tp_plan *plan = tp_plan_create(c.graph, 2, results, NULL);
    if (tp_plan_run(plan) == TP_OK) {
        check_expect(&c, mean, "expected_mean");
        check_expect(&c, std, "expected_std");
    }
    return check_close(&c, plan, 2, 1e-6, 0);
}
