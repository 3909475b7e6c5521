/* Noted products become calls of cuBLAS, or of cublasLt where they have an epilogue. */
#include "work.h"

static cudaDataType_t type_of(tp_dtype dtype)
{
    switch (dtype) {
    case TP_F16:
        return CUDA_R_16F;
    case TP_BF16:
        return CUDA_R_16BF;
    case TP_F64:
        return CUDA_R_64F;
    default:
        return CUDA_R_32F;
    }
}

static cublasComputeType_t compute_of(const tp_cuda_gemm *g)
{
    if (g->dtype == TP_F64) return CUBLAS_COMPUTE_64F;
    return g->tf32 && g->dtype == TP_F32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/* alpha and beta in the type of the sums. */
typedef union scalar {
    float f32;
    double f64;
} scalar;

static scalar scalar_of(const tp_cuda_gemm *g, double value)
{
    return g->dtype == TP_F64 ? (scalar){.f64 = value} : (scalar){.f32 = (float)value};
}

static tp_status failed(const tp_cuda_gemm *g, const char *call, cublasStatus_t status)
{
    return tp_cuda_fail(status == CUBLAS_STATUS_ALLOC_FAILED ? TP_E_NOMEM : TP_E_DEVICE,
                        "%s gives status %d: %c%c m=%lld n=%lld k=%lld lda=%lld ldb=%lld ldc=%lld "
                        "batch=%lld strides %lld %lld %lld, %s to %s",
                        call, (int)status, g->trans_a ? 'T' : 'N', g->trans_b ? 'T' : 'N',
                        (long long)g->m, (long long)g->n, (long long)g->k, (long long)g->lda,
                        (long long)g->ldb, (long long)g->ldc, (long long)g->batch,
                        (long long)g->stride_a, (long long)g->stride_b, (long long)g->stride_c,
                        tp_dtype_name(g->dtype), tp_dtype_name(g->out_dtype));
}

static cublasStatus_t multiply(const tp_cuda_gemm *g)
{
    const tp_cuda_api *api = &tp_cuda_device.api;
    cublasHandle_t blas = tp_cuda_device.blas;
    scalar alpha = scalar_of(g, g->alpha), beta = scalar_of(g, 0);
    cublasOperation_t a = g->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                      b = g->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cudaDataType_t in = type_of(g->dtype), out = type_of(g->out_dtype);
    cublasStatus_t status;
    if (g->table_a) {
        status = api->cublasGemmBatchedEx_64(
            blas, a, b, g->m, g->n, g->k, &alpha, (const void *const *)(const void *)g->table_a, in,
            g->lda, (const void *const *)(const void *)g->table_b, in, g->ldb, &beta,
            (void *const *)(const void *)g->table_c, out, g->ldc, g->batch, compute_of(g),
            CUBLAS_GEMM_DEFAULT);
    } else if (g->batch > 1) {
        status = api->cublasGemmStridedBatchedEx_64(
            blas, a, b, g->m, g->n, g->k, &alpha, g->a, in, g->lda, g->stride_a, g->b, in, g->ldb,
            g->stride_b, &beta, g->c, out, g->ldc, g->stride_c, g->batch, compute_of(g),
            CUBLAS_GEMM_DEFAULT);
    } else {
        status = api->cublasGemmEx_64(blas, a, b, g->m, g->n, g->k, &alpha, g->a, in, g->lda, g->b,
                                      in, g->ldb, &beta, g->c, out, g->ldc, compute_of(g),
                                      CUBLAS_GEMM_DEFAULT);
    }
    return status;
}

tp_status tp_cuda_enqueue_gemm(const tp_cuda_gemm *g, char *workspace)
{
    cublasStatus_t status = g->epilogue ? tp_cuda_lt_multiply(g, workspace) : multiply(g);
    if (status == CUBLAS_STATUS_SUCCESS) return TP_OK;
    return failed(g, g->epilogue ? "cublasLt" : "cuBLAS", status);
}
