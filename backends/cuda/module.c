/* What the core finds in this module: the backend, and a line about it. */
#include "cuda.h"

#include <stdio.h>

static int describe(char *text, size_t size)
{
    const tp_cuda *d = &tp_cuda_device;
    int version = 0, driver = 0;
    d->api.cublasGetVersion(d->blas, &version);
    d->api.cuDriverGetVersion(&driver);
    return snprintf(text, size, "cuda %s, %s, driver %d.%d, NVRTC %d.%d, cuBLAS %d.%d.%d", d->name,
                    d->arch, driver / 1000, driver % 1000 / 10, d->nvrtc[0], d->nvrtc[1],
                    version / 10000, version / 100 % 100, version % 100);
}

static const tp_backend backend = {
    .name = "cuda",
    .kernels = {[TP_STEP_EWISE] = tp_cuda_ewise_kernels,
                [TP_STEP_REDUCE] = tp_cuda_reduce_kernels,
                [TP_STEP_SOFTMAX] = tp_cuda_softmax_kernels,
                [TP_STEP_LAYER_NORM] = tp_cuda_layer_norm_kernels,
                [TP_STEP_MATMUL] = tp_cuda_matmul_kernels,
                [TP_STEP_ATTENTION] = tp_cuda_attention_kernels,
                [TP_STEP_INDEX_SELECT] = tp_cuda_index_select_kernels,
                [TP_STEP_TAKE_ALONG] = tp_cuda_take_along_kernels,
                [TP_STEP_SCATTER_ADD] = tp_cuda_scatter_add_kernels,
                [TP_STEP_SCAN] = tp_cuda_scan_kernels,
                [TP_STEP_SORT] = tp_cuda_sort_kernels,
                [TP_STEP_RANDOM] = tp_cuda_random_kernels,
                [TP_STEP_ARANGE] = tp_cuda_arange_kernels},
    .describe = describe,
    .device = &tp_cuda_memory,
    .begin = tp_cuda_begin,
    .finish = tp_cuda_finish,
    .forget = tp_cuda_forget};

static const tp_backend *open_backend(char *why, size_t size)
{
    return tp_cuda_open(why, size) ? &backend : NULL;
}

static int describe_in_any_case(char *text, size_t size)
{
    char why[400];
    if (tp_cuda_open(why, sizeof why)) return describe(text, size);
    return snprintf(text, size, "cuda is not available: %s", why);
}

/* The name that the core looks up. */
extern TP_API const tp_backend_module tp_backend_entry;
const tp_backend_module tp_backend_entry = {
    .layout = TP_BACKEND_LAYOUT, .open = open_backend, .describe = describe_in_any_case};
