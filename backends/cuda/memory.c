/* Memory of the device, from a pool in the order of the stream, and moves between it and the host.
 *
 * Frees and allocations follow the work that was enqueued before them, so a block may be given
 * back while a kernel still reads it. Host memory goes through two pinned buffers by turns: the
 * caller's memory is pageable, and may be freed as soon as the call comes back. */
#include "cuda.h"

#include <string.h>

#define STAGING_BYTES ((size_t)4 << 20)

char *tp_cuda_alloc(size_t size_bytes)
{
    tp_cuda *d = &tp_cuda_device;
    CUdeviceptr memory = 0;
    if (tp_cuda_enter() != TP_OK) return NULL;
    CUresult result = d->api.cuMemAllocFromPoolAsync(&memory, size_bytes, d->pool, d->stream);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        /* What was freed behind running work comes back first. */
        if (d->api.cuStreamSynchronize(d->stream) == CUDA_SUCCESS)
            d->api.cuMemPoolTrimTo(d->pool, 0);
        result = d->api.cuMemAllocFromPoolAsync(&memory, size_bytes, d->pool, d->stream);
    }
    tp_cuda_leave();
    if (result == CUDA_SUCCESS) return (char *)(uintptr_t)memory;
    tp_cuda_failed(result, "cuMemAllocFromPoolAsync");
    return NULL;
}

void tp_cuda_release(char *memory)
{
    if (!memory || tp_cuda_enter() != TP_OK) return; /* lost with its context */
    tp_cuda_device.api.cuMemFreeAsync((CUdeviceptr)(uintptr_t)memory, tp_cuda_device.stream);
    tp_cuda_leave();
}

/* ---- Moves ------------------------------------------------------------------------------- */

/* Two pinned buffers, and when the device was last done with each. */
typedef struct staging {
    pthread_mutex_t lock;
    char *buffer[2];
    CUevent done[2];
} staging;
static staging stage = {.lock = PTHREAD_MUTEX_INITIALIZER};

static tp_status prepare_staging(void)
{
    for (int i = 0; i < 2; i++) {
        void *memory = NULL;
        if (!stage.buffer[i]) {
            CUDA(cuMemHostAlloc, &memory, STAGING_BYTES, 0);
            stage.buffer[i] = memory;
        }
        if (!stage.done[i]) CUDA(cuEventCreate, &stage.done[i], CU_EVENT_DISABLE_TIMING);
    }
    return TP_OK;
}

static size_t part_at(size_t at, size_t size_bytes)
{
    return size_bytes - at < STAGING_BYTES ? size_bytes - at : STAGING_BYTES;
}

static tp_status move_up(CUdeviceptr to, const char *from, size_t size_bytes)
{
    int turn = 0;
    TRY(prepare_staging());
    for (size_t at = 0; at < size_bytes; at += STAGING_BYTES, turn ^= 1) {
        size_t part = part_at(at, size_bytes);
        if (at >= 2 * STAGING_BYTES) CUDA(cuEventSynchronize, stage.done[turn]);
        memcpy(stage.buffer[turn], from + at, part);
        CUDA(cuMemcpyHtoDAsync, to + at, stage.buffer[turn], part, tp_cuda_device.stream);
        CUDA(cuEventRecord, stage.done[turn], tp_cuda_device.stream);
    }
    CUDA(cuStreamSynchronize, tp_cuda_device.stream);
    return TP_OK;
}

/* Asks for a part while the one before is taken out of its buffer. */
static tp_status move_down(char *to, CUdeviceptr from, size_t size_bytes)
{
    int turn = 0;
    TRY(prepare_staging());
    for (size_t at = 0; at < size_bytes + STAGING_BYTES; at += STAGING_BYTES, turn ^= 1) {
        if (at < size_bytes) {
            CUDA(cuMemcpyDtoHAsync, stage.buffer[turn], from + at, part_at(at, size_bytes),
                 tp_cuda_device.stream);
            CUDA(cuEventRecord, stage.done[turn], tp_cuda_device.stream);
        }
        if (at == 0) continue;
        size_t before = at - STAGING_BYTES;
        CUDA(cuEventSynchronize, stage.done[turn ^ 1]);
        memcpy(to + before, stage.buffer[turn ^ 1], part_at(before, size_bytes));
    }
    return TP_OK;
}

static tp_status upload(char *to, const void *from, size_t size_bytes)
{
    TRY(tp_cuda_enter());
    pthread_mutex_lock(&stage.lock);
    tp_status status = move_up((CUdeviceptr)(uintptr_t)to, from, size_bytes);
    pthread_mutex_unlock(&stage.lock);
    tp_cuda_leave();
    return status;
}

static tp_status download(void *to, const char *from, size_t size_bytes)
{
    TRY(tp_cuda_enter());
    pthread_mutex_lock(&stage.lock);
    tp_status status = move_down(to, (CUdeviceptr)(uintptr_t)from, size_bytes);
    pthread_mutex_unlock(&stage.lock);
    tp_cuda_leave();
    return status;
}

const tp_device tp_cuda_memory = {.alloc = tp_cuda_alloc,
                                  .release = tp_cuda_release,
                                  .upload = upload,
                                  .download = download,
                                  .status = tp_cuda_status,
                                  .why = tp_cuda_why};
