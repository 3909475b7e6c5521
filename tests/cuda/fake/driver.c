/* The driver's calls: a device, a context, a stream; memory, moves and launches become work. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

CUresult fake_run_kernel(struct CUfunc_st *f, const void *args, unsigned blocks, unsigned threads);

static long fail_launch;
void tp_fake_fail_launch(long n)
{
    fail_launch = n;
}

/* ---- Device and context --------------------------------------------------------------------- */

static int number_of(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

FAKE_API CUresult cuInit(unsigned flags)
{
    (void)flags;
    return (CUresult)number_of("TP_FAKE_INIT_ERROR", 0);
}
FAKE_API CUresult cuDriverGetVersion(int *version)
{
    *version = 13000;
    return CUDA_SUCCESS;
}
FAKE_API CUresult cuDeviceGetCount(int *count)
{
    *count = number_of("TP_FAKE_DEVICES", 1);
    return CUDA_SUCCESS;
}
FAKE_API CUresult cuDeviceGet(CUdevice *device, int i)
{
    *device = i;
    return CUDA_SUCCESS;
}
FAKE_API CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    (void)device;
    snprintf(name, (size_t)size, "Fake GPU");
    return CUDA_SUCCESS;
}
FAKE_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    (void)device;
    *bytes = (size_t)number_of("TP_FAKE_MEMORY", 2048) << 20;
    return CUDA_SUCCESS;
}
FAKE_API CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = 9;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = 0;
        break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = number_of("TP_FAKE_PROCESSORS", 132);
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = 232448;
        break;
    default:
        *value = 0;
    }
    return CUDA_SUCCESS;
}
static int context_depth;
FAKE_API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    (void)device;
    static int it;
    *context = (CUcontext)&it;
    return CUDA_SUCCESS;
}
FAKE_API CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    __atomic_fetch_add(&context_depth, 1, __ATOMIC_RELAXED);
    return context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
FAKE_API CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    *context = NULL;
    int depth = __atomic_sub_fetch(&context_depth, 1, __ATOMIC_RELAXED);
    return depth >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
FAKE_API CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    static int it;
    (void)flags;
    *stream = (CUstream)&it;
    return CUDA_SUCCESS;
}
FAKE_API CUresult cuStreamSynchronize(CUstream stream)
{
    (void)stream;
    return fake_is_capturing() ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : fake_wait();
}
FAKE_API CUresult cuGetErrorName(CUresult error, const char **name)
{
    switch (error) {
#define NAME(code)                                                                                 \
    case code:                                                                                     \
        *name = #code;                                                                             \
        break;
        NAME(CUDA_SUCCESS)
        NAME(CUDA_ERROR_OUT_OF_MEMORY)
        NAME(CUDA_ERROR_INVALID_VALUE)
        NAME(CUDA_ERROR_STUB_LIBRARY)
        NAME(CUDA_ERROR_NO_DEVICE)
        NAME(CUDA_ERROR_ILLEGAL_ADDRESS)
        NAME(CUDA_ERROR_LAUNCH_FAILED)
        NAME(CUDA_ERROR_INVALID_IMAGE)
    default:
        *name = "CUDA_ERROR";
    }
    return CUDA_SUCCESS;
}
FAKE_API CUresult cuGetErrorString(CUresult error, const char **text)
{
    (void)error;
    *text = "the fake says so";
    return CUDA_SUCCESS;
}

/* ---- Events: times of calls ---------------------------------------------------------------------
 */

struct CUevent_st {
    double ms;
};
typedef struct event_work {
    fake_work work;
    CUevent event;
} event_work;

static CUresult run_event(fake_work *work)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    ((event_work *)work)->event->ms = (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
    return CUDA_SUCCESS;
}
FAKE_API CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof **event);
    return *event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
FAKE_API CUresult cuEventDestroy_v2(CUevent event)
{
    free(event);
    return CUDA_SUCCESS;
}
FAKE_API CUresult cuEventRecord(CUevent event, CUstream stream)
{
    (void)stream;
    event_work *w = calloc(1, sizeof *w);
    if (!w) return CUDA_ERROR_OUT_OF_MEMORY;
    w->work.run = run_event;
    w->event = event;
    return fake_enqueue(&w->work);
}
FAKE_API CUresult cuEventSynchronize(CUevent event)
{
    (void)event;
    return fake_wait();
}
FAKE_API CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
    *ms = (float)(end->ms - start->ms);
    return CUDA_SUCCESS;
}

/* ---- Memory -------------------------------------------------------------------------------------
 */

typedef struct memory_work {
    fake_work work;
    CUdeviceptr address;
} memory_work;

static CUresult run_born(fake_work *work)
{
    fake_memory_born(((memory_work *)work)->address);
    return CUDA_SUCCESS;
}
static CUresult run_died(fake_work *work)
{
    fake_memory_died(((memory_work *)work)->address);
    return fake_fault();
}
static CUresult enqueue_memory(CUresult (*run)(fake_work *), CUdeviceptr address)
{
    memory_work *w = calloc(1, sizeof *w);
    if (!w) return CUDA_ERROR_OUT_OF_MEMORY;
    w->work.run = run;
    w->address = address;
    return fake_enqueue(&w->work);
}
FAKE_API CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
    static int it;
    (void)props;
    *pool = (CUmemoryPool)&it;
    return CUDA_SUCCESS;
}
FAKE_API CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute what, void *value)
{
    (void)pool, (void)what, (void)value;
    return CUDA_SUCCESS;
}
FAKE_API CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute what, void *value)
{
    (void)pool;
    *(cuuint64_t *)value =
        what == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? fake_counters.peak_bytes : fake_counters.used_bytes;
    return CUDA_SUCCESS;
}
FAKE_API CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    (void)pool, (void)keep;
    return CUDA_SUCCESS;
}
FAKE_API CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t size_bytes,
                                          CUmemoryPool pool, CUstream stream)
{
    (void)pool, (void)stream;
    if (fake_fault() != CUDA_SUCCESS) return fake_fault();
    if (!size_bytes) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = fake_alloc(size_bytes, address);
    return result == CUDA_SUCCESS ? enqueue_memory(run_born, *address) : result;
}
FAKE_API CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    (void)stream;
    CUresult result = fake_free(address);
    return result == CUDA_SUCCESS ? enqueue_memory(run_died, address) : result;
}
FAKE_API CUresult cuMemHostAlloc(void **memory, size_t size_bytes, unsigned flags)
{
    (void)flags;
    *memory = aligned_alloc(4096, (size_bytes + 4095) / 4096 * 4096);
    return *memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
FAKE_API CUresult cuMemFreeHost(void *memory)
{
    free(memory);
    return CUDA_SUCCESS;
}

/* ---- Moves: host memory is read and written when the work runs, as if it were pinned ----------
 */

typedef struct copy_work {
    fake_work work;
    void *to;
    const void *from;
    size_t size_bytes;
    int value; /* of a fill */
} copy_work;

static CUresult bad_extent(const char *what, const void *address, size_t size_bytes)
{
    fake_log("fault: %s: %zu bytes from %p are not in one allocation", what, size_bytes, address);
    return CUDA_ERROR_ILLEGAL_ADDRESS;
}
/* Pages that are zero on both sides are left alone: large allocations stay sparse. */
static void copy_sparse(char *to, const char *from, size_t size_bytes)
{
    static const char zero[4096];
    for (size_t at = 0; at < size_bytes; at += sizeof zero) {
        size_t part = size_bytes - at < sizeof zero ? size_bytes - at : sizeof zero;
        if (memcmp(from + at, zero, part) != 0 || memcmp(to + at, zero, part) != 0)
            memcpy(to + at, from + at, part);
    }
}
static CUresult run_up(fake_work *work)
{
    copy_work *w = (copy_work *)work;
    if (!fake_memory_holds(w->to, w->size_bytes)) return bad_extent("upload", w->to, w->size_bytes);
    copy_sparse(w->to, w->from, w->size_bytes);
    return CUDA_SUCCESS;
}
static CUresult run_down(fake_work *work)
{
    copy_work *w = (copy_work *)work;
    if (!fake_memory_holds(w->from, w->size_bytes))
        return bad_extent("download", w->from, w->size_bytes);
    memcpy(w->to, w->from, w->size_bytes);
    return CUDA_SUCCESS;
}
static CUresult run_fill(fake_work *work)
{
    copy_work *w = (copy_work *)work;
    if (!fake_memory_holds(w->to, w->size_bytes)) return bad_extent("fill", w->to, w->size_bytes);
    memset(w->to, w->value, w->size_bytes);
    return CUDA_SUCCESS;
}
static CUresult enqueue_copy(CUresult (*run)(fake_work *), void *to, const void *from,
                             size_t size_bytes, int value)
{
    copy_work *w = calloc(1, sizeof *w);
    if (!w) return CUDA_ERROR_OUT_OF_MEMORY;
    *w = (copy_work){
        .work = {.run = run}, .to = to, .from = from, .size_bytes = size_bytes, .value = value};
    return fake_enqueue(&w->work);
}
FAKE_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size_bytes,
                                       CUstream stream)
{
    (void)stream;
    fake_counters.up++;
    fake_counters.up_bytes += size_bytes;
    return enqueue_copy(run_up, (void *)(uintptr_t)to, from, size_bytes, 0);
}
FAKE_API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size_bytes,
                                       CUstream stream)
{
    (void)stream;
    fake_counters.down++;
    fake_counters.down_bytes += size_bytes;
    return enqueue_copy(run_down, to, (const void *)(uintptr_t)from, size_bytes, 0);
}
FAKE_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size_bytes,
                                       CUstream stream)
{
    (void)stream;
    return enqueue_copy(run_down, (void *)(uintptr_t)to, (const void *)(uintptr_t)from, size_bytes,
                        0);
}
FAKE_API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t size_bytes,
                                  CUstream stream)
{
    (void)stream;
    fake_counters.fills++;
    fake_log("fill %d %zu", value, size_bytes);
    return enqueue_copy(run_fill, (void *)(uintptr_t)to, NULL, size_bytes, value);
}
static CUresult run_mark(fake_work *work)
{
    copy_work *w = (copy_work *)work;
    *(uint32_t *)w->to = (uint32_t)w->value;
    return CUDA_SUCCESS;
}
FAKE_API CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr to, cuuint32_t value,
                                          unsigned flags)
{
    (void)stream, (void)flags;
    return enqueue_copy(run_mark, (void *)(uintptr_t)to, NULL, 4, (int)value);
}

/* ---- Launches
 * ------------------------------------------------------------------------------------ */

typedef struct launch_work {
    fake_work work;
    CUfunction function;
    void *args;
    unsigned blocks, threads;
} launch_work;

static CUresult run_launch(fake_work *work)
{
    launch_work *w = (launch_work *)work;
    return fake_run_kernel(w->function, w->args, w->blocks, w->threads);
}
static void drop_launch(fake_work *work)
{
    free(((launch_work *)work)->args);
}

FAKE_API CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute what, int value)
{
    if (what == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) function->shared_limit = value;
    return value <= 232448 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The size of the arguments by the `extra` form. */
static bool read_extra(void **extra, const void **args, size_t *bytes)
{
    *args = NULL;
    for (int i = 0; extra && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) *args = extra[i + 1];
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) *bytes = *(size_t *)extra[i + 1];
    }
    return *args != NULL;
}

FAKE_API CUresult cuLaunchKernel(CUfunction f, unsigned bx, unsigned by, unsigned bz, unsigned tx,
                                 unsigned ty, unsigned tz, unsigned shared, CUstream stream,
                                 void **params, void **extra)
{
    (void)stream, (void)params;
    const void *args;
    size_t bytes = 0;
    if (fake_fault() != CUDA_SUCCESS) return fake_fault();
    if (fail_launch > 0 && --fail_launch == 0) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    bool sizes = bx && bx <= 0x7FFFFFFF && by == 1 && bz == 1 && tx && tx <= 1024 && ty == 1 &&
                 tz == 1 && shared <= 49152;
    if (!sizes || !read_extra(extra, &args, &bytes) || bytes != f->args_bytes || bytes > 4096) {
        fake_log(
            "fault: launch of %s: %u blocks, %u threads, %u shared, %zu bytes of arguments for %zu",
            f->name, bx, tx, shared, bytes, f->args_bytes);
        return CUDA_ERROR_INVALID_VALUE;
    }
    launch_work *w = calloc(1, sizeof *w);
    void *copy = malloc(bytes ? bytes : 1);
    if (!w || !copy) {
        free(w);
        free(copy);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(copy, args, bytes);
    *w = (launch_work){{.run = run_launch, .drop = drop_launch}, f, copy, bx, tx};
    fake_counters.launches++;
    fake_log("launch %s blocks=%u threads=%u", f->name, bx, tx);
    return fake_enqueue(&w->work);
}
