/* A CUDA driver, NVRTC and cuBLAS without a GPU, for tests: the same calls, the same kernel texts,
 * run on the CPU. Work is deferred until something waits for it; device memory cannot be read from
 * the host; what is fresh or freed is poison; every call that launches work is written down. */
#ifndef TP_FAKE_H
#define TP_FAKE_H

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda.h>
#include <nvrtc.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_API __attribute__((visibility("default")))

/* ---- What tests ask and order (dlsym) ----------------------------------------------------- */

typedef struct tp_fake_counters {
    long launches, gemms, up, down, fills, graphs; /* graphs: launches of whole graphs */
    size_t up_bytes, down_bytes, used_bytes, peak_bytes;
    long allocations; /* live */
} tp_fake_counters;
FAKE_API tp_fake_counters tp_fake_count(void);
/* A line for each launch, product and fill since the last clear. */
FAKE_API const char *tp_fake_log(void);
FAKE_API void tp_fake_log_clear(void);
/* The n-th allocation or launch from now on fails, 0: none. */
FAKE_API void tp_fake_fail_alloc(long n);
FAKE_API void tp_fake_fail_launch(long n);
FAKE_API void tp_fake_lose_device(void);

/* ---- log.c ---------------------------------------------------------------------------------- */

extern tp_fake_counters fake_counters;
void fake_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- memory.c: one arena, no access but while work runs ----------------------------------------
 */

CUresult fake_alloc(size_t size_bytes, CUdeviceptr *address);
CUresult fake_free(CUdeviceptr address);
/* As the work that was enqueued with them sees it. */
void fake_memory_born(CUdeviceptr address);
void fake_memory_died(CUdeviceptr address);
/* Whether size_bytes from address lie inside one live allocation. */
bool fake_memory_holds(const void *address, size_t size_bytes);
/* "a3+256" of an address, for the log. */
const char *fake_memory_name(const void *address, char text[40]);
void fake_memory_open(void);
void fake_memory_close(void);

/* ---- stream.c: deferred work
 * --------------------------------------------------------------------- */

typedef struct fake_work {
    /* Gives an error that loses the device, or CUDA_SUCCESS. */
    CUresult (*run)(struct fake_work *work);
    void (*drop)(struct fake_work *work); /* NULL: nothing to free */
    struct fake_work *next;
    int uses; /* in queues and graphs */
} fake_work;
/* Work for the stream, or for the graph that captures it. The allocation is the queue's now. */
CUresult fake_enqueue(fake_work *work);
CUresult fake_wait(void);
bool fake_is_capturing(void);
/* The error that the device died of. */
CUresult fake_fault(void);
void fake_lose(CUresult fault);

/* ---- kernel.c: kernels run
 * ------------------------------------------------------------------------ */

/* What a kernel text finds in the fake (prelude_host.h has the same). */
typedef struct tp_fake_runtime {
    int thread, block_threads;
    int64_t block, blocks;
    void (*sync)(int line);
    void (*warp)(int line, int kind, void *data); /* data: in and out */
    void *(*shared)(int line, size_t size_bytes);
} tp_fake_runtime;
enum { FAKE_SHUFFLE_XOR, FAKE_SHUFFLE_UP, FAKE_SHUFFLE, FAKE_BALLOT, FAKE_WARP_SYNC, FAKE_MMA };
typedef struct fake_shuffle {
    uint32_t value, by, result;
} fake_shuffle;
typedef struct fake_mma {
    float *c;
    const uint32_t *a, *b;
    int bf16;
} fake_mma;

struct CUfunc_st {
    char name[64];
    void (*run)(const void *args);
    size_t args_bytes;
    bool has_barriers;
    tp_fake_runtime **runtime; /* the kernel's pointer to it */
    int shared_limit;
};

#endif
