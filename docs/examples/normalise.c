/* An image as cameras give it, u8 with height, width and channel, becomes what a network wants:
 * f32, channel first, every channel with mean 0 and deviation 1. See torchvision's ToTensor and
 * Normalize.
 *
 * Budget 0: the one fused loop that converts and scales reads the channels where they lie, with
 * stride 3, and writes row-major; nobody needs the contiguous(). */
#include "check.h"

int main(int argc, char **argv)
{
    check c = check_open(argc, argv, "normalise",
                         "An image, u8 HWC, to f32 CHW, normalised per channel.");
    tp_tensor *image = check_load(&c, "image"); /* u8 [H,W,3] */
    tp_tensor *mean = check_load(&c, "mean");   /* f32 [3] */
    tp_tensor *std = check_load(&c, "std");

    /* image.permute(2, 0, 1).contiguous().float() / 255 */
    tp_tensor *x = tp_contiguous(tp_permute(image, TP_DIMS(2, 0, 1)));
    x = tp_cast(x, TP_F32);
    x = tp_div(x, tp_num(x, 255));
    /* (x - mean[:, None, None]) / std[:, None, None] */
    x = tp_sub(x, tp_index(mean, ":, None, None"));
    tp_tensor *y = tp_div(x, tp_index(std, ":, None, None"));

    tp_plan *plan = tp_plan_create(c.graph, 1, &y, NULL);
    if (tp_plan_run(plan) == TP_OK) check_expect(&c, y, "expected");
    return check_close(&c, plan, 1, 1e-6, 0);
}
