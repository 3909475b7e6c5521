/* Products with an epilogue, by cublasLt. */
#include "work.h"

static cudaDataType_t type_of(tp_dtype dtype)
{
    return dtype == TP_F16 ? CUDA_R_16F : dtype == TP_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* The descriptors of one call; NULL where they could not be had. */
typedef struct call {
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulPreference_t wish;
} call;

static void close_call(call *x)
{
    const tp_cuda_api *api = &tp_cuda_device.api;
    if (x->how) api->cublasLtMatmulDescDestroy(x->how);
    if (x->a) api->cublasLtMatrixLayoutDestroy(x->a);
    if (x->b) api->cublasLtMatrixLayoutDestroy(x->b);
    if (x->c) api->cublasLtMatrixLayoutDestroy(x->c);
    if (x->wish) api->cublasLtMatmulPreferenceDestroy(x->wish);
}

static cublasStatus_t set(call *x, cublasLtMatmulDescAttributes_t what, const void *value,
                          size_t size_bytes)
{
    return tp_cuda_device.api.cublasLtMatmulDescSetAttribute(x->how, what, value, size_bytes);
}

static bool describe_product(const tp_cuda_gemm *g, call *x)
{
    const tp_cuda_api *api = &tp_cuda_device.api;
    bool tf32 = g->tf32 && g->dtype == TP_F32;
    cublasComputeType_t compute = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasOperation_t a = g->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                      b = g->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    if (api->cublasLtMatmulDescCreate(&x->how, compute, CUDA_R_32F) != CUBLAS_STATUS_SUCCESS)
        return false;
    cublasStatus_t bad = set(x, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a);
    if (!bad) bad = set(x, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b);
    if (!bad) bad = set(x, CUBLASLT_MATMUL_DESC_EPILOGUE, &g->epilogue, sizeof g->epilogue);
    if (!bad && g->bias) bad = set(x, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &g->bias, sizeof g->bias);
    return !bad;
}

static bool describe_matrices(const tp_cuda_gemm *g, call *x)
{
    const tp_cuda_api *api = &tp_cuda_device.api;
    cudaDataType_t in = type_of(g->dtype), out = type_of(g->out_dtype);
    uint64_t m = (uint64_t)g->m, n = (uint64_t)g->n, k = (uint64_t)g->k;
    return !api->cublasLtMatrixLayoutCreate(&x->a, in, g->trans_a ? k : m, g->trans_a ? m : k,
                                            g->lda) &&
           !api->cublasLtMatrixLayoutCreate(&x->b, in, g->trans_b ? n : k, g->trans_b ? k : n,
                                            g->ldb) &&
           !api->cublasLtMatrixLayoutCreate(&x->c, out, m, n, g->ldc);
}

/* The largest power of two, up to 256, that divides an address and its rows' distance in bytes. */
static uint32_t alignment(const char *at, int64_t ld, tp_dtype dtype)
{
    uint64_t bits = (uint64_t)(uintptr_t)at | (uint64_t)ld * tp_dtype_size(dtype) | 256;
    return (uint32_t)(bits & (~bits + 1));
}

static bool describe_wish(const tp_cuda_gemm *g, call *x)
{
    const tp_cuda_api *api = &tp_cuda_device.api;
    uint64_t workspace = TP_CUDA_BLAS_BYTES;
    uint32_t sums = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    uint32_t a = alignment(g->a, g->lda, g->dtype), b = alignment(g->b, g->ldb, g->dtype),
             c = alignment(g->c, g->ldc, g->out_dtype);
    const struct {
        cublasLtMatmulPreferenceAttributes_t what;
        const void *value;
        size_t size_bytes;
    } wishes[] = {{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
                  /* Partial sums stay f32. */
                  {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof a},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b, sizeof b},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof c},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c, sizeof c}};
    if (api->cublasLtMatmulPreferenceCreate(&x->wish) != CUBLAS_STATUS_SUCCESS) return false;
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
        if (api->cublasLtMatmulPreferenceSetAttribute(x->wish, wishes[i].what, wishes[i].value,
                                                      wishes[i].size_bytes))
            return false;
    }
    return true;
}

bool tp_cuda_lt_choose(tp_cuda_gemm *g)
{
    call x = {0};
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    bool good = describe_product(g, &x) && describe_matrices(g, &x) && describe_wish(g, &x) &&
                tp_cuda_device.api.cublasLtMatmulAlgoGetHeuristic(
                    tp_cuda_device.blas_lt, x.how, x.a, x.b, x.c, x.c, x.wish, 1, &found, &count) ==
                    CUBLAS_STATUS_SUCCESS &&
                count == 1 && found.state == CUBLAS_STATUS_SUCCESS;
    close_call(&x);
    if (good) g->algorithm = found.algo;
    return good;
}

cublasStatus_t tp_cuda_lt_multiply(const tp_cuda_gemm *g, char *workspace)
{
    call x = {0};
    float alpha = (float)g->alpha, beta = 0;
    cublasStatus_t status = CUBLAS_STATUS_ALLOC_FAILED;
    if (describe_product(g, &x) && describe_matrices(g, &x))
        status = tp_cuda_device.api.cublasLtMatmul(
            tp_cuda_device.blas_lt, x.how, &alpha, g->a, x.a, g->b, x.b, &beta, g->c, x.c, g->c,
            x.c, &g->algorithm, workspace, TP_CUDA_BLAS_BYTES, tp_cuda_device.stream);
    close_call(&x);
    return status;
}
