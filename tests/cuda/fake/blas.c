/* cuBLAS: the argument rules that the library documents, extents inside live allocations, and the
 * products themselves, plainly. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct product {
    bool ta, tb;
    int64_t m, n, k, lda, ldb, ldc, batch;
    long long sa, sb, sc;
    cudaDataType_t in, out;
    double alpha, beta;
    const char *a, *b;
    char *c;
    const void *const *table_a, *const *table_b;
    void *const *table_c;
    const char *bias;
    int epilogue; /* cublasLt's, 0: none */
} product;

typedef struct gemm_work {
    fake_work work;
    product p;
} gemm_work;

/* ---- Elements -------------------------------------------------------------------------------- */

static size_t size_of(cudaDataType_t type)
{
    return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

static double load(cudaDataType_t type, const char *at)
{
    if (type == CUDA_R_64F) {
        double x;
        memcpy(&x, at, 8);
        return x;
    }
    if (type == CUDA_R_32F) {
        float x;
        memcpy(&x, at, 4);
        return (double)x;
    }
    uint16_t bits;
    memcpy(&bits, at, 2);
    if (type == CUDA_R_16BF) {
        uint32_t wide = (uint32_t)bits << 16;
        float x;
        memcpy(&x, &wide, 4);
        return (double)x;
    }
    _Float16 h;
    memcpy(&h, &bits, 2);
    return (double)h;
}

static void store(cudaDataType_t type, char *at, double x)
{
    if (type == CUDA_R_64F) {
        memcpy(at, &x, 8);
        return;
    }
    float f = (float)x;
    if (type == CUDA_R_32F) {
        memcpy(at, &f, 4);
    } else if (type == CUDA_R_16BF) {
        uint32_t bits;
        memcpy(&bits, &f, 4);
        bool nan = f != f;
        bits = nan ? bits | 0x400000 : bits + 0x7FFF + (bits >> 16 & 1);
        uint16_t half = (uint16_t)(bits >> 16);
        memcpy(at, &half, 2);
    } else {
        _Float16 h = (_Float16)f;
        memcpy(at, &h, 2);
    }
}

/* ---- The work ---------------------------------------------------------------------------------
 */

static bool held(const void *at, int64_t rows, int64_t columns, int64_t ld, cudaDataType_t type)
{
    size_t elements = (size_t)((columns - 1) * ld + rows);
    return fake_memory_holds(at, elements * size_of(type));
}

static double finished(const product *p, double x, int64_t row)
{
    if (p->bias) x += load(p->out, p->bias + row * (int64_t)size_of(p->out));
    if (p->epilogue == CUBLASLT_EPILOGUE_RELU || p->epilogue == CUBLASLT_EPILOGUE_RELU_BIAS)
        return x > 0 ? x : 0;
    if (p->epilogue == CUBLASLT_EPILOGUE_GELU || p->epilogue == CUBLASLT_EPILOGUE_GELU_BIAS)
        return x / (1 + __builtin_exp(-2 * 0.7978845608028654 * (x + 0.044715 * x * x * x)));
    return x;
}

static void column(const product *p, const char *a, const char *b, char *c, int64_t j, double *sum)
{
    size_t in = size_of(p->in), out = size_of(p->out);
    for (int64_t i = 0; i < p->m; i++) sum[i] = 0;
    for (int64_t k = 0; k < p->k; k++) {
        double y = load(p->in, b + (p->tb ? j + k * p->ldb : k + j * p->ldb) * (int64_t)in);
        for (int64_t i = 0; i < p->m; i++)
            sum[i] += y * load(p->in, a + (p->ta ? k + i * p->lda : i + k * p->lda) * (int64_t)in);
    }
    for (int64_t i = 0; i < p->m; i++) {
        char *at = c + (i + j * p->ldc) * (int64_t)out;
        double old = p->beta != 0 ? p->beta * load(p->out, at) : 0;
        store(p->out, at, finished(p, p->alpha * sum[i] + old, i));
    }
}

static CUresult run_one(const product *p, const char *a, const char *b, char *c, double *sum)
{
    int64_t a_rows = p->ta ? p->k : p->m, a_columns = p->ta ? p->m : p->k;
    int64_t b_rows = p->tb ? p->n : p->k, b_columns = p->tb ? p->k : p->n;
    if (!held(a, a_rows, a_columns, p->lda, p->in) || !held(b, b_rows, b_columns, p->ldb, p->in) ||
        !held(c, p->m, p->n, p->ldc, p->out)) {
        fake_log("fault: a product reaches outside its allocations");
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    for (int64_t j = 0; j < p->n; j++) column(p, a, b, c, j, sum);
    return CUDA_SUCCESS;
}

static CUresult run_gemm(fake_work *work)
{
    const product *p = &((gemm_work *)work)->p;
    double *sum = calloc((size_t)p->m + 1, sizeof *sum);
    CUresult result = sum ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    int64_t in = (int64_t)size_of(p->in), out = (int64_t)size_of(p->out);
    for (int64_t i = 0; i < p->batch && result == CUDA_SUCCESS; i++) {
        const char *a = p->table_a ? p->table_a[i] : p->a + i * p->sa * in;
        const char *b = p->table_b ? p->table_b[i] : p->b + i * p->sb * in;
        char *c = p->table_c ? p->table_c[i] : p->c + i * p->sc * out;
        result = run_one(p, a, b, c, sum);
    }
    free(sum);
    return result;
}

/* ---- The rules ---------------------------------------------------------------------------------
 */

static bool types_are_known(cudaDataType_t a, cudaDataType_t b, cudaDataType_t c,
                            cublasComputeType_t compute)
{
    bool narrow = a == CUDA_R_16F || a == CUDA_R_16BF;
    if (a != b) return false;
    if (a == CUDA_R_64F) return c == CUDA_R_64F && compute == CUBLAS_COMPUTE_64F;
    if (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32) return false;
    return (narrow && (c == a || c == CUDA_R_32F)) || (a == CUDA_R_32F && c == CUDA_R_32F);
}

static int64_t at_least_one(int64_t x)
{
    return x > 1 ? x : 1;
}

/* Whether C's matrices can be written at once: none of their elements coincide. Exact for those
 * that lie one after the other or side by side. */
static bool outputs_are_apart(const product *p)
{
    if (p->batch <= 1 || p->table_c || p->m == 0 || p->n == 0) return true;
    int64_t stride = p->sc < 0 ? -p->sc : p->sc;
    if (stride >= (p->n - 1) * p->ldc + p->m) return true;
    /* side by side: all fit into a leading dimension */
    return stride >= p->m && stride * (p->batch - 1) + p->m <= p->ldc;
}

static cublasStatus_t enqueue(const char *name, const product *p, cublasComputeType_t compute)
{
    char a[40], b[40], c[40];
    fake_counters.gemms++;
    bool good = p->m >= 0 && p->n >= 0 && p->k >= 0 && p->batch >= 0 &&
                p->lda >= at_least_one(p->ta ? p->k : p->m) &&
                p->ldb >= at_least_one(p->tb ? p->n : p->k) && p->ldc >= at_least_one(p->m) &&
                outputs_are_apart(p);
    fake_log(
        "%s %c%c m=%lld n=%lld k=%lld alpha=%.9g beta=%g lda=%lld ldb=%lld ldc=%lld batch=%lld "
        "strides=%lld,%lld,%lld types=%d,%d compute=%d epilogue=%d a=%s b=%s c=%s%s",
        name, p->ta ? 'T' : 'N', p->tb ? 'T' : 'N', (long long)p->m, (long long)p->n,
        (long long)p->k, p->alpha, p->beta, (long long)p->lda, (long long)p->ldb, (long long)p->ldc,
        (long long)p->batch, p->sa, p->sb, p->sc, (int)p->in, (int)p->out, (int)compute,
        p->epilogue, fake_memory_name(p->a, a), fake_memory_name(p->b, b),
        fake_memory_name(p->c, c), good ? "" : " REFUSED");
    if (!good) return CUBLAS_STATUS_INVALID_VALUE;
    if (!types_are_known(p->in, p->in, p->out, compute)) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!p->m || !p->n || !p->batch) return CUBLAS_STATUS_SUCCESS;
    gemm_work *w = calloc(1, sizeof *w);
    if (!w) return CUBLAS_STATUS_ALLOC_FAILED;
    w->work.run = run_gemm;
    w->p = *p;
    return fake_enqueue(&w->work) == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS
                                                  : CUBLAS_STATUS_EXECUTION_FAILED;
}

static double scalar(cublasComputeType_t compute, const void *at)
{
    double x;
    float f;
    if (compute == CUBLAS_COMPUTE_64F) {
        memcpy(&x, at, 8);
        return x;
    }
    memcpy(&f, at, 4);
    return (double)f;
}

/* ---- The calls
 * ------------------------------------------------------------------------------------ */

FAKE_API cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    static int it;
    *handle = (cublasHandle_t)(void *)&it;
    return CUBLAS_STATUS_SUCCESS;
}
FAKE_API cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version)
{
    (void)handle;
    *version = 130100;
    return CUBLAS_STATUS_SUCCESS;
}
FAKE_API cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
    (void)handle, (void)stream;
    return CUBLAS_STATUS_SUCCESS;
}
FAKE_API cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *memory,
                                              size_t size_bytes)
{
    (void)handle, (void)size_bytes;
    return (uintptr_t)memory % 256 ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}
FAKE_API cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    (void)handle;
    fake_log("math mode %d", (int)mode);
    return CUBLAS_STATUS_SUCCESS;
}

FAKE_API cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t ta,
                                        cublasOperation_t tb, int64_t m, int64_t n, int64_t k,
                                        const void *alpha, const void *a, cudaDataType_t at,
                                        int64_t lda, const void *b, cudaDataType_t bt, int64_t ldb,
                                        const void *beta, void *c, cudaDataType_t ct, int64_t ldc,
                                        cublasComputeType_t compute, cublasGemmAlgo_t algo)
{
    (void)handle, (void)algo;
    if (at != bt) return CUBLAS_STATUS_NOT_SUPPORTED;
    product p = {.ta = ta == CUBLAS_OP_T,
                 .tb = tb == CUBLAS_OP_T,
                 .m = m,
                 .n = n,
                 .k = k,
                 .lda = lda,
                 .ldb = ldb,
                 .ldc = ldc,
                 .batch = 1,
                 .in = at,
                 .out = ct,
                 .a = a,
                 .b = b,
                 .c = c,
                 .alpha = scalar(compute, alpha),
                 .beta = scalar(compute, beta)};
    return enqueue("GemmEx", &p, compute);
}

FAKE_API cublasStatus_t cublasGemmStridedBatchedEx_64(
    cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int64_t m, int64_t n,
    int64_t k, const void *alpha, const void *a, cudaDataType_t at, int64_t lda, long long sa,
    const void *b, cudaDataType_t bt, int64_t ldb, long long sb, const void *beta, void *c,
    cudaDataType_t ct, int64_t ldc, long long sc, int64_t batch, cublasComputeType_t compute,
    cublasGemmAlgo_t algo)
{
    (void)handle, (void)algo;
    if (at != bt) return CUBLAS_STATUS_NOT_SUPPORTED;
    product p = {.ta = ta == CUBLAS_OP_T,
                 .tb = tb == CUBLAS_OP_T,
                 .m = m,
                 .n = n,
                 .k = k,
                 .lda = lda,
                 .ldb = ldb,
                 .ldc = ldc,
                 .sa = sa,
                 .sb = sb,
                 .sc = sc,
                 .batch = batch,
                 .in = at,
                 .out = ct,
                 .a = a,
                 .b = b,
                 .c = c,
                 .alpha = scalar(compute, alpha),
                 .beta = scalar(compute, beta)};
    return enqueue("GemmStridedBatchedEx", &p, compute);
}

FAKE_API cublasStatus_t cublasGemmBatchedEx_64(cublasHandle_t handle, cublasOperation_t ta,
                                               cublasOperation_t tb, int64_t m, int64_t n,
                                               int64_t k, const void *alpha, const void *const a[],
                                               cudaDataType_t at, int64_t lda,
                                               const void *const b[], cudaDataType_t bt,
                                               int64_t ldb, const void *beta, void *const c[],
                                               cudaDataType_t ct, int64_t ldc, int64_t batch,
                                               cublasComputeType_t compute, cublasGemmAlgo_t algo)
{
    (void)handle, (void)algo;
    if (at != bt) return CUBLAS_STATUS_NOT_SUPPORTED;
    product p = {.ta = ta == CUBLAS_OP_T,
                 .tb = tb == CUBLAS_OP_T,
                 .m = m,
                 .n = n,
                 .k = k,
                 .lda = lda,
                 .ldb = ldb,
                 .ldc = ldc,
                 .batch = batch,
                 .in = at,
                 .out = ct,
                 .table_a = a,
                 .table_b = b,
                 .table_c = c,
                 .alpha = scalar(compute, alpha),
                 .beta = scalar(compute, beta)};
    return enqueue("GemmBatchedEx", &p, compute);
}

/* ---- cublasLt
 * ---------------------------------------------------------------------------------------- */

typedef struct lt_desc {
    cublasComputeType_t compute;
    cublasOperation_t ta, tb;
    cublasLtEpilogue_t epilogue;
    const void *bias;
} lt_desc;
typedef struct lt_layout {
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t ld;
} lt_layout;
typedef struct lt_wish {
    uint32_t align[4];
} lt_wish;

FAKE_API cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    static int it;
    const char *without = getenv("TP_FAKE_NO_LT");
    *handle = (cublasLtHandle_t)(void *)&it;
    return without ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}
FAKE_API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc,
                                                 cublasComputeType_t compute, cudaDataType_t scale)
{
    (void)scale;
    lt_desc *d = calloc(1, sizeof *d);
    if (d) d->compute = compute;
    *desc = (cublasLtMatmulDesc_t)(void *)d;
    return d ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}
FAKE_API cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    free(desc);
    return CUBLAS_STATUS_SUCCESS;
}
FAKE_API cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                                       cublasLtMatmulDescAttributes_t what,
                                                       const void *value, size_t size)
{
    lt_desc *d = (lt_desc *)(void *)desc;
    (void)size;
    if (what == CUBLASLT_MATMUL_DESC_TRANSA) memcpy(&d->ta, value, sizeof d->ta);
    if (what == CUBLASLT_MATMUL_DESC_TRANSB) memcpy(&d->tb, value, sizeof d->tb);
    if (what == CUBLASLT_MATMUL_DESC_EPILOGUE) memcpy(&d->epilogue, value, sizeof d->epilogue);
    if (what == CUBLASLT_MATMUL_DESC_BIAS_POINTER) memcpy(&d->bias, value, sizeof d->bias);
    return CUBLAS_STATUS_SUCCESS;
}
FAKE_API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout,
                                                   cudaDataType type, uint64_t rows,
                                                   uint64_t columns, int64_t ld)
{
    lt_layout *l = calloc(1, sizeof *l);
    if (l) *l = (lt_layout){type, rows, columns, ld};
    *layout = (cublasLtMatrixLayout_t)(void *)l;
    return l ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}
FAKE_API cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                         cublasLtMatrixLayoutAttribute_t what,
                                                         const void *value, size_t size)
{
    (void)layout, (void)what, (void)value, (void)size;
    return CUBLAS_STATUS_NOT_SUPPORTED;
}
FAKE_API cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}
FAKE_API cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *wish)
{
    *wish = calloc(1, sizeof(lt_wish));
    return *wish ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}
FAKE_API cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t wish)
{
    free(wish);
    return CUBLAS_STATUS_SUCCESS;
}
FAKE_API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t wish, cublasLtMatmulPreferenceAttributes_t what, const void *value,
    size_t size)
{
    lt_wish *w = (lt_wish *)(void *)wish;
    int i = (int)what - (int)CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    if (i >= 0 && i < 4 && size == 4) memcpy(&w->align[i], value, 4);
    return CUBLAS_STATUS_SUCCESS;
}

/* TP_FAKE_NO_ALGORITHM: it has none, as for shapes that the library does not know. */
FAKE_API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t wish, int wanted, cublasLtMatmulHeuristicResult_t results[],
    int *count)
{
    (void)handle, (void)b, (void)c, (void)d, (void)wanted;
    const lt_desc *x = (const lt_desc *)(const void *)desc;
    const lt_wish *w = (const lt_wish *)(const void *)wish;
    const lt_layout *first = (const lt_layout *)(const void *)a;
    *count = 0;
    if (getenv("TP_FAKE_NO_ALGORITHM")) return CUBLAS_STATUS_NOT_SUPPORTED;
    if ((uintptr_t)x->bias % 16 || first->ld < (int64_t)first->rows)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    memset(&results[0], 0, sizeof results[0]);
    results[0].state = CUBLAS_STATUS_SUCCESS;
    for (int i = 0; i < 4; i++) results[0].algo.data[i] = w->align[i];
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

FAKE_API cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       const void *alpha, const void *a, cublasLtMatrixLayout_t al,
                                       const void *b, cublasLtMatrixLayout_t bl, const void *beta,
                                       const void *c, cublasLtMatrixLayout_t cl, void *d,
                                       cublasLtMatrixLayout_t dl, const cublasLtMatmulAlgo_t *algo,
                                       void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    (void)handle, (void)c, (void)cl, (void)workspace_bytes, (void)stream;
    const lt_desc *x = (const lt_desc *)(const void *)desc;
    const lt_layout *la = (const lt_layout *)(const void *)al,
                    *lb = (const lt_layout *)(const void *)bl,
                    *ld = (const lt_layout *)(const void *)dl;
    const void *address[] = {a, b, d, d};
    for (int i = 0; i < 4; i++) {
        if (algo->data[i] && (uintptr_t)address[i] % algo->data[i])
            return CUBLAS_STATUS_INVALID_VALUE;
    }
    if ((uintptr_t)workspace % 256) return CUBLAS_STATUS_INVALID_VALUE;
    product p = {.ta = x->ta == CUBLAS_OP_T,
                 .tb = x->tb == CUBLAS_OP_T,
                 .m = (int64_t)ld->rows,
                 .n = (int64_t)ld->columns,
                 .k = (int64_t)(x->ta == CUBLAS_OP_T ? la->rows : la->columns),
                 .lda = la->ld,
                 .ldb = lb->ld,
                 .ldc = ld->ld,
                 .batch = 1,
                 .in = la->type,
                 .out = ld->type,
                 .a = a,
                 .b = b,
                 .c = d,
                 .bias = x->bias,
                 .epilogue = (int)x->epilogue,
                 .alpha = scalar(x->compute, alpha),
                 .beta = scalar(x->compute, beta)};
    return enqueue("LtMatmul", &p, x->compute);
}
