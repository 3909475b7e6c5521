/* The device: opened once, for as long as the process lives, and what is known of its failures. */
#include "cuda.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tp_cuda tp_cuda_device = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- Failures -------------------------------------------------------------------------- */

static _Thread_local char last_why[500];
static _Thread_local tp_status last_status;

tp_status tp_cuda_status(void)
{
    return last_status;
}

const char *tp_cuda_why(void)
{
    return last_why;
}

tp_status tp_cuda_fail(tp_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last_why, sizeof last_why, format, args);
    va_end(args);
    return last_status = status;
}

/* Whether a context does not survive it. */
static bool is_fatal(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        return true;
    default:
        return false;
    }
}

tp_status tp_cuda_failed(CUresult result, const char *call)
{
    const char *name = NULL, *meaning = NULL;
    tp_cuda_device.api.cuGetErrorName(result, &name);
    tp_cuda_device.api.cuGetErrorString(result, &meaning);
    if (is_fatal(result)) __atomic_store_n(&tp_cuda_device.lost, true, __ATOMIC_RELAXED);
    return tp_cuda_fail(result == CUDA_ERROR_OUT_OF_MEMORY ? TP_E_NOMEM : TP_E_DEVICE,
                        "%s gives %d, %s: %s%s", call, (int)result, name ? name : "unknown",
                        meaning ? meaning : "the driver has no word for it",
                        is_fatal(result) ? "; the device is lost to this process" : "");
}

/* ---- The context ------------------------------------------------------------------------ */

tp_status tp_cuda_enter(void)
{
    if (__atomic_load_n(&tp_cuda_device.lost, __ATOMIC_RELAXED))
        return tp_cuda_fail(TP_E_DEVICE,
                            "the device is lost to this process since an earlier failure");
    CUDA(cuCtxPushCurrent, tp_cuda_device.context);
    return TP_OK;
}

void tp_cuda_leave(void)
{
    CUcontext context;
    tp_cuda_device.api.cuCtxPopCurrent(&context);
}

/* ---- Opening ----------------------------------------------------------------------------- */

static tp_status find_device(CUdevice *device)
{
    const char *wish = getenv("TP_CUDA_DEVICE");
    int count = 0, wanted = wish ? atoi(wish) : 0;
    CUDA(cuInit, 0);
    CUDA(cuDeviceGetCount, &count);
    if (wanted < 0 || wanted >= count)
        return tp_cuda_fail(TP_E_UNAVAILABLE, "there is no device %d: the driver has %d", wanted,
                            count);
    CUDA(cuDeviceGet, device, wanted);
    return TP_OK;
}

static tp_status read_facts(CUdevice device)
{
    tp_cuda *d = &tp_cuda_device;
    int major, minor;
    CUDA(cuDeviceGetName, d->name, (int)sizeof d->name, device);
    CUDA(cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    CUDA(cuDeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    CUDA(cuDeviceGetAttribute, &d->processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    CUDA(cuDeviceGetAttribute, &d->shared_bytes,
         CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device);
    snprintf(d->arch, sizeof d->arch, "sm_%u%u", (unsigned)major % 100, (unsigned)minor % 10);
    return TP_OK;
}

/* TP_CUDA_MEMORY_MIB in the environment caps what the process takes. */
static tp_status make_pool(CUdevice device)
{
    const char *cap = getenv("TP_CUDA_MEMORY_MIB");
    CUmemPoolProps how = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                          .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                          .maxSize = cap ? (size_t)strtoull(cap, NULL, 10) << 20 : 0};
    CUDA(cuMemPoolCreate, &tp_cuda_device.pool, &how);
    cuuint64_t keep = UINT64_MAX;
    CUDA(cuMemPoolSetAttribute, tp_cuda_device.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
    return TP_OK;
}

static tp_status make_stream(CUdevice device)
{
    tp_cuda *d = &tp_cuda_device;
    TRY(make_pool(device));
    CUDA(cuStreamCreate, &d->stream, CU_STREAM_NON_BLOCKING);
    void *marker = NULL;
    if (d->api.cuStreamWriteValue32 && d->api.cuMemHostAlloc(&marker, sizeof *d->marker, 0) == 0)
        d->marker = marker;
    return TP_OK;
}

/* One stream for the handle's life: setting it anew would take its workspace away. */
static tp_status open_blas(void)
{
    tp_cuda *d = &tp_cuda_device;
    cublasStatus_t status = d->api.cublasCreate(&d->blas);
    if (status == CUBLAS_STATUS_SUCCESS) status = d->api.cublasSetStream(d->blas, d->stream);
    /* Partial sums of f16 and bf16 stay f32. */
    if (status == CUBLAS_STATUS_SUCCESS)
        status = d->api.cublasSetMathMode(
            d->blas,
            (cublasMath_t)(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
    if (d->api.cublasLtCreate && d->api.cublasLtCreate(&d->blas_lt) != CUBLAS_STATUS_SUCCESS)
        d->blas_lt = NULL;
    if (status == CUBLAS_STATUS_SUCCESS) return TP_OK;
    return tp_cuda_fail(TP_E_UNAVAILABLE, "cuBLAS does not start: status %d", (int)status);
}

static tp_status open_device(void)
{
    tp_cuda *d = &tp_cuda_device;
    CUdevice device;
    char missing[500]; /* without cublasLt bias and activation are kernels of their own */
    if (!tp_cuda_open_library(TP_CUDA_DRIVER, &d->api, last_why, sizeof last_why))
        return TP_E_UNAVAILABLE;
    TRY(find_device(&device));
    if (!tp_cuda_open_library(TP_CUDA_NVRTC, &d->api, last_why, sizeof last_why) ||
        !tp_cuda_open_library(TP_CUDA_BLAS, &d->api, last_why, sizeof last_why))
        return TP_E_UNAVAILABLE;
    if (!tp_cuda_open_library(TP_CUDA_BLAS_LT, &d->api, missing, sizeof missing))
        d->api.cublasLtCreate = NULL;
    d->api.nvrtcVersion(&d->nvrtc[0], &d->nvrtc[1]);
    TRY(read_facts(device));
    CUDA(cuDevicePrimaryCtxRetain, &d->context, device);
    TRY(tp_cuda_enter());
    tp_status status = make_stream(device);
    if (status == TP_OK) status = open_blas();
    tp_cuda_leave();
    return status;
}

bool tp_cuda_open(char *why, size_t size)
{
    pthread_mutex_lock(&tp_cuda_device.lock);
    if (!tp_cuda_device.open) tp_cuda_device.open = open_device() == TP_OK;
    pthread_mutex_unlock(&tp_cuda_device.lock);
    if (!tp_cuda_device.open) snprintf(why, size, "%s", last_why);
    return tp_cuda_device.open;
}
