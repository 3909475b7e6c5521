/* The CUDA backend's inside, by file.
 *
 * A run of a plan has three parts. (1) Each step's kernel notes its work: launches of kernels given
 * as text, products, fills. (2) The texts that are new are compiled, in parallel. (3) The work is
 * enqueued on the one stream, or replayed as a CUDA graph where a plan runs once more, and waited
 * for. So everything that decides is host code that calls no CUDA function.
 *
 * Nothing is linked: every CUDA function comes from `api`, filled by table.c. One device, one
 * context, one stream for the process: what is enqueued later sees what was enqueued before. */
#ifndef TP_CUDA_H
#define TP_CUDA_H

#include "../backend.h"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda.h>
#include <nvrtc.h>

#include <pthread.h>

/* ---- table.c: the libraries ------------------------------------------------------------ */

typedef enum tp_cuda_library {
    TP_CUDA_DRIVER,
    TP_CUDA_NVRTC,
    TP_CUDA_BLAS,
    TP_CUDA_BLAS_LT,
    TP_CUDA_LIBRARY_COUNT
} tp_cuda_library;

typedef struct tp_cuda_api {
#define FUNCTION(LIBRARY, name, needed) __typeof__(name) *name;
#include "functions.def"
} tp_cuda_api;

/* Opens a library and fills its part of the table: $TP_CUDA_LIB in the place of any of them, else
 * by its name in $TP_CUDA_LIB_DIR, where the loader looks, in the toolkit's folder. False, and the
 * library or the missing function in why. */
bool tp_cuda_open_library(tp_cuda_library library, tp_cuda_api *api, char *why, size_t size);

/* ---- device.c, memory.c: the device, its failures, its memory --------------------------- */

typedef struct tp_cuda {
    tp_cuda_api api;
    bool open;
    /* After a fault of the kind that a context does not survive: nothing runs any more. */
    bool lost;
    pthread_mutex_t lock; /* of finish: compiling and the stream's order */
    CUcontext context;
    CUstream stream;
    CUmemoryPool pool;
    cublasHandle_t blas;
    cublasLtHandle_t blas_lt; /* NULL: not there */
    char name[100];
    char arch[8];     /* "sm_90" */
    int nvrtc[2];     /* its version */
    int processors;   /* multiprocessors */
    int shared_bytes; /* a block may ask for */
    uint32_t *marker; /* pinned: the last step that was done; NULL: the device cannot */
} tp_cuda;
extern tp_cuda tp_cuda_device;

/* The memory, as the core sees it (memory.c). */
extern const tp_device tp_cuda_memory;
char *tp_cuda_alloc(size_t size_bytes);
void tp_cuda_release(char *memory);

/* Opens the device, once; false and why. */
bool tp_cuda_open(char *why, size_t size);
/* The context becomes the thread's until leave. */
tp_status tp_cuda_enter(void);
void tp_cuda_leave(void);
/* Of the last call that failed on this thread: its status, and why. */
tp_status tp_cuda_status(void);
const char *tp_cuda_why(void);
/* Notes why a call failed and gives the status for it: E_NOMEM, or E_DEVICE; lost if so. */
tp_status tp_cuda_failed(CUresult result, const char *call);
/* The name of a call without its arguments is in the sentence. */
#define CUDA(function, ...)                                                                        \
    do {                                                                                           \
        CUresult cuda_result_ = tp_cuda_device.api.function(__VA_ARGS__);                          \
        if (cuda_result_ != CUDA_SUCCESS) return tp_cuda_failed(cuda_result_, #function);          \
    } while (0)
tp_status tp_cuda_fail(tp_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- work.c: what a plan does on the device -------------------------------------------- */

/* A product as the library is asked for it: C = alpha op(A) op(B), column-major, `batch` times. */
typedef struct tp_cuda_gemm {
    tp_dtype dtype, out_dtype; /* of A and B; of C */
    bool tf32;
    bool trans_a, trans_b;
    int64_t m, n, k;
    const char *a, *b;
    char *c;
    int64_t lda, ldb, ldc;
    int64_t batch, stride_a, stride_b, stride_c; /* elements */
    double alpha;
    /* Tables of `batch` addresses on the device in the place of a, b, c and strides; else NULL. */
    const char *table_a, *table_b, *table_c;
    /* By cublasLt, with an epilogue and its algorithm (see epilogue.c); 0: by cuBLAS. bias: m
     * values, NULL: none. */
    cublasLtEpilogue_t epilogue;
    const char *bias;
    cublasLtMatmulAlgo_t algorithm;
} tp_cuda_gemm;

/* Begins the text of a kernel; what was there is gone. Everything a kernel text may use is in
 * prelude.h and math.h, which stand before it. */
tp_text *tp_cuda_begin_text(tp_run *run);
/* Notes a launch of the kernel `name` of the text begun last: blocks of threads in one dimension,
 * one struct argument, which is copied. blocks 0: nothing is launched. */
tp_status tp_cuda_launch(tp_run *run, const char *name, int64_t blocks, int threads,
                         size_t shared_bytes, const void *args, size_t args_bytes);
tp_status tp_cuda_multiply(tp_run *run, const tp_cuda_gemm *gemm);
/* Makes the product noted last do an elementwise step's work too. False: it cannot. */
bool tp_cuda_fold_epilogue(const tp_step *step, tp_run *run);
/* Every byte becomes value. */
tp_status tp_cuda_fill(tp_run *run, char *to, uint8_t value, size_t size_bytes);
/* Device memory for the work of this step, 256-byte aligned; the next step's may be the same.
 * Lives as long as the plan's prepared work. NULL: none; the status is E_NOMEM. */
char *tp_cuda_scratch(tp_run *run, size_t size_bytes);
/* Where a kernel notes an index that is out of bounds: on the device a u64 position, ~0 when the
 * run begins, the i64 index, and a word of ones for the kernel's own use. finish fails the step
 * with E_BOUNDS when the position changed. */
char *tp_cuda_fault(tp_run *run, int64_t axis_size);

/* Of the plan that runs. */
int tp_cuda_buffer_count(const tp_run *run);

tp_status tp_cuda_begin(tp_plan *plan, tp_run *run, bool *noted);
tp_status tp_cuda_finish(tp_plan *plan, tp_run *run, int *step);
void tp_cuda_forget(tp_plan *plan);
/* ---- compile.c, cache.c: texts become functions ------------------------------------------ */

typedef struct tp_cuda_function {
    struct tp_cuda_function *next; /* in its bucket */
    uint64_t hash;
    char *text;
    char name[64];
    CUmodule module;     /* whose it is; stays for as long as the process */
    CUfunction function; /* NULL: not compiled yet */
} tp_cuda_function;

/* What stands before every text: prelude.h and math.h. */
extern const char tp_cuda_prelude[];
/* The function of a text, compiled or not; entered if it is new. NULL: out of memory. */
tp_cuda_function *tp_cuda_find_function(const char *text, const char *name);
/* Compiles all of the list that are not yet, from the disk cache where it has them. */
tp_status tp_cuda_compile(tp_context *context, int count, tp_cuda_function *const *functions);

/* What was written for a key; the whole key is stored and compared. NULL: not there, or no good.
 * The caller frees it. */
char *tp_cuda_cache_read(const char *key, size_t key_bytes, size_t *size_bytes);
/* A failure to write is none: the next process compiles again. */
void tp_cuda_cache_write(const char *key, size_t key_bytes, const char *data, size_t size_bytes);
uint64_t tp_cuda_hash(const char *data, size_t size_bytes, uint64_t seed);

/* ---- Kernels, by step kind ---------------------------------------------------------------- */

extern const tp_kernel *const tp_cuda_ewise_kernels[],
    *const tp_cuda_reduce_kernels[],
        *const tp_cuda_softmax_kernels[],
            *const tp_cuda_layer_norm_kernels[],
                *const tp_cuda_matmul_kernels[],
                    *const tp_cuda_attention_kernels[],
                        *const tp_cuda_index_select_kernels[],
                            *const tp_cuda_take_along_kernels[],
                                *const tp_cuda_scatter_add_kernels[],
                                    *const tp_cuda_scan_kernels[],
                                        *const tp_cuda_sort_kernels[],
                                            *const tp_cuda_random_kernels[],
                                                *const tp_cuda_arange_kernels[];

#endif
