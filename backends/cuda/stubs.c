#include "cuda.h"
static tp_status nothing(const tp_step *step, tp_run *run)
{
    (void)run;
    return tp_cuda_fail(TP_E_UNAVAILABLE, "step kind %d is not there yet", (int)step->kind);
}
static const tp_kernel stub = {"stub", NULL, nothing, NULL};
#define STUB(x) const tp_kernel *const tp_cuda_##x##_kernels[] = {&stub, NULL};
STUB(matmul)
STUB(index_select) STUB(take_along) STUB(scatter_add) STUB(scan) STUB(sort)
    STUB(random) const tp_kernel *const tp_cuda_attention_kernels[] = {NULL};
