/* Random numbers: a tile of positions at a time, each a function of seed and position. */
#include "../random.h"
#include "kernels.h"
#include "nest.h"
#include "threads.h"

#define WORK 4096
#define TILE 256

typedef struct job {
    const tp_step *step;
    tp_nest nest; /* out, in row-major order */
} job;

static void make_tile(const tp_step *step, int64_t first, int64_t n, double *y)
{
    tp_dtype dtype = (tp_dtype)step->out.dtype;
    int digits = dtype == TP_F64 ? 53 : dtype == TP_F32 ? 24 : dtype == TP_F16 ? 11 : 8;
    uint64_t seed = (uint64_t)step->value[0].i, bits[2];
    for (int64_t i = first; i < first + n; i++) {
        if (i == first || i % 2 == 0) tp_random_pair(seed, (uint64_t)i / 2, bits);
        y[i - first] = step->op == TP_OP_RANDOM_UNIFORM ? tp_random_uniform_of(bits[i % 2], digits)
                                                        : tp_random_normal_of(bits[i % 2]);
    }
}

/* Unit: a tile of a row of the innermost dim. */
static void write_tiles(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const tp_nest *nest = &j->nest;
    int inner = nest->ndim - 1;
    int64_t width = nest->shape[inner], tiles = (width + TILE - 1) / TILE,
            stride = nest->stride[0][inner];
    for (int64_t unit = begin; unit < end; unit++) {
        double y[TILE];
        int64_t row = unit / tiles, first = unit % tiles * TILE,
                n = width - first < TILE ? width - first : TILE;
        make_tile(j->step, row * width + first, n, y);
        tp_convert(n, TP_F64, y, sizeof *y, (tp_dtype)j->step->out.dtype,
                   nest->base[0] + tp_nest_offset(nest, 0, inner, row) + first * stride, stride);
    }
}

static tp_status run_random(const tp_step *step, tp_run *run)
{
    job j = {.step = step};
    if (tp_view_numel(&step->domain) == 0) return TP_OK;
    tp_nest_make(&j.nest, step, run, 0, 0, UINT32_MAX, false);
    int64_t rows = 1, width = j.nest.shape[j.nest.ndim - 1];
    for (int d = 0; d < j.nest.ndim - 1; d++) rows *= j.nest.shape[d];
    tp_parallel_for(run->threads, rows * ((width + TILE - 1) / TILE),
                    WORK / (width < TILE ? width : TILE), write_tiles, &j);
    return TP_OK;
}

static const tp_kernel random_numbers = {"random", NULL, run_random, NULL};
const tp_kernel *const tp_cpu_random_kernels[] = {&random_numbers, NULL};
