/* Kernels run: block after block; within one, threads as fibers where the text has barriers or
 * works in warps, else one after the other. TP_FAKE_ORDER=reverse or a number (a seed) changes the
 * order of threads between barriers. */
#define _GNU_SOURCE
#include "fake.h"

#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { MOST_THREADS = 1024, WARP = 32, SHARED_BYTES = 232448, MOST_SHARED = 32 };
#define STACK_BYTES ((size_t)64 << 10)

/* ---- Fibers ------------------------------------------------------------------------------------
 */

typedef enum state { READY, AT_SYNC, AT_WARP, DONE } state;

typedef struct fiber {
    void *stack_pointer;
    state state;
    int line, kind; /* where and for what it waits */
    void *data;
} fiber;

static fiber fibers[MOST_THREADS];
static void *scheduler_stack_pointer;
static char *stacks;
static int current;

#if defined(__x86_64__)
/* Saves what a call must keep, exchanges the stacks. */
__attribute__((naked, noinline)) static void exchange(void **save, void *load)
{
    __asm__ volatile(
        "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
        "movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
        "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret\n");
}
#else
#error "the fake runs on x86-64"
#endif

static struct CUfunc_st *function;
static const void *arguments;
static tp_fake_runtime runtime;

static void yield(state why, int line, int kind, void *data)
{
    fiber *f = &fibers[current];
    f->state = why;
    f->line = line;
    f->kind = kind;
    f->data = data;
    exchange(&f->stack_pointer, scheduler_stack_pointer);
}

static void body(void)
{
    function->run(arguments);
    yield(DONE, 0, 0, NULL);
}

static void prepare_fiber(int i)
{
    char *top = stacks + (size_t)(i + 1) * STACK_BYTES;
    void **sp = (void **)(void *)top;
    *--sp = NULL; /* aligns the stack as after a call */
    *--sp = (void *)(uintptr_t)body;
    for (int r = 0; r < 6; r++) *--sp = NULL;
    fibers[i] = (fiber){.stack_pointer = sp};
}

static void resume(int i)
{
    current = i;
    runtime.thread = i;
    exchange(&scheduler_stack_pointer, fibers[i].stack_pointer);
}

/* ---- What kernels call
 * --------------------------------------------------------------------------- */

static struct {
    int line;
    size_t offset, size_bytes;
} shared[MOST_SHARED];
static int shared_count;
static size_t shared_bytes;
static char shared_memory[SHARED_BYTES] __attribute__((aligned(256)));
static bool shared_overflow;

static void on_sync(int line)
{
    yield(AT_SYNC, line, 0, NULL);
}

static void on_warp(int line, int kind, void *data)
{
    yield(AT_WARP, line, kind, data);
}

static void *on_shared(int line, size_t size_bytes)
{
    for (int i = 0; i < shared_count; i++) {
        if (shared[i].line == line && shared[i].size_bytes == size_bytes)
            return shared_memory + shared[i].offset;
    }
    size_t offset = (shared_bytes + 15) / 16 * 16;
    if (shared_count == MOST_SHARED || offset + size_bytes > 48 * 1024) {
        shared_overflow = true; /* static shared memory ends at 48 KiB */
        return shared_memory;
    }
    shared[shared_count].line = line;
    shared[shared_count].offset = offset;
    shared[shared_count++].size_bytes = size_bytes;
    shared_bytes = offset + size_bytes;
    return shared_memory + offset;
}

static tp_fake_runtime runtime = {.sync = on_sync, .warp = on_warp, .shared = on_shared};

/* ---- Warps
 * ------------------------------------------------------------------------------------------ */

static float from_half(uint16_t bits, int bf16)
{
    uint32_t out;
    if (bf16) {
        out = (uint32_t)bits << 16;
    } else {
        uint32_t sign = (uint32_t)(bits & 0x8000) << 16, e = bits >> 10 & 31, m = bits & 1023;
        if (e == 31) {
            out = sign | 0x7F800000 | m << 13;
        } else if (e) {
            out = sign | (e + 112) << 23 | m << 13;
        } else {
            float small = (float)m * 0x1p-24F;
            memcpy(&out, &small, 4);
            out |= sign;
        }
    }
    float x;
    memcpy(&x, &out, 4);
    return x;
}

/* mma.m16n8k16: which element of A, B, C a lane's registers hold is in the PTX manual. */
static void multiply_tiles(fiber *lane)
{
    float a[16][16], b[16][8];
    const fake_mma *m0 = lane[0].data;
    int bf16 = m0->bf16;
    for (int l = 0; l < WARP; l++) {
        const fake_mma *m = lane[l].data;
        int group = l / 4, in = l % 4;
        for (int i = 0; i < 8; i++) {
            uint32_t word = m->a[i / 2];
            int row = group + (i / 2 % 2 ? 8 : 0), column = in * 2 + i % 2 + (i >= 4 ? 8 : 0);
            a[row][column] = from_half((uint16_t)(i % 2 ? word >> 16 : word), bf16);
        }
        for (int i = 0; i < 4; i++) {
            uint32_t word = m->b[i / 2];
            int row = in * 2 + i % 2 + (i >= 2 ? 8 : 0);
            b[row][group] = from_half((uint16_t)(i % 2 ? word >> 16 : word), bf16);
        }
    }
    for (int l = 0; l < WARP; l++) {
        const fake_mma *m = lane[l].data;
        for (int i = 0; i < 4; i++) {
            int row = l / 4 + (i >= 2 ? 8 : 0), column = l % 4 * 2 + i % 2;
            double sum = (double)m->c[i];
            for (int k = 0; k < 16; k++) sum += (double)a[row][k] * (double)b[k][column];
            m->c[i] = (float)sum;
        }
    }
}

static void shuffle(fiber *lane, int kind)
{
    uint32_t ballot = 0;
    for (int l = 0; l < WARP && kind == FAKE_BALLOT; l++)
        ballot |= ((fake_shuffle *)lane[l].data)->value ? 1U << l : 0;
    for (int l = 0; l < WARP; l++) {
        fake_shuffle *s = lane[l].data;
        int from = l;
        if (kind == FAKE_SHUFFLE_XOR) from = l ^ (int)s->by;
        if (kind == FAKE_SHUFFLE_UP) from = l < (int)s->by ? l : l - (int)s->by;
        if (kind == FAKE_SHUFFLE) from = (int)s->by % WARP;
        s->result = kind == FAKE_BALLOT ? ballot : ((fake_shuffle *)lane[from % WARP].data)->value;
    }
}

/* Whether all lanes of a warp wait at one place; then they go on. */
static bool release_warp(int first)
{
    fiber *lane = &fibers[first];
    for (int l = 0; l < WARP; l++) {
        if (lane[l].state != AT_WARP || lane[l].line != lane[0].line ||
            lane[l].kind != lane[0].kind)
            return false;
    }
    if (lane[0].kind == FAKE_MMA)
        multiply_tiles(lane);
    else if (lane[0].kind != FAKE_WARP_SYNC)
        shuffle(lane, lane[0].kind);
    for (int l = 0; l < WARP; l++) lane[l].state = READY;
    return true;
}

static bool release_block(int threads)
{
    for (int i = 0; i < threads; i++) {
        if (fibers[i].state != AT_SYNC || fibers[i].line != fibers[0].line) return false;
    }
    for (int i = 0; i < threads; i++) fibers[i].state = READY;
    return true;
}

/* ---- A block
 * -------------------------------------------------------------------------------------------- */

/* The order in which threads are resumed. */
static int in_order(int i, int threads)
{
    static uint64_t seed;
    const char *order = getenv("TP_FAKE_ORDER");
    if (!order || !*order) return i;
    if (strcmp(order, "reverse") == 0) return threads - 1 - i;
    if (!seed) seed = strtoull(order, NULL, 10) * 2 + 1;
    if (i == 0) seed = seed * 6364136223846793005U + 1442695040888963407U;
    int stride = (int)(seed >> 33) % threads | 1; /* odd: visits all where threads is 2^n */
    if ((threads & (threads - 1)) != 0) return threads - 1 - i;
    return (i * stride + (int)(seed >> 20) % threads) & (threads - 1);
}

static CUresult run_fibers(int threads)
{
    for (int i = 0; i < threads; i++) prepare_fiber(i);
    for (;;) {
        bool moved = false, all_done = true;
        for (int i = 0; i < threads; i++) {
            int t = in_order(i, threads);
            if (fibers[t].state != READY) continue;
            resume(t);
            moved = true;
        }
        for (int i = 0; i < threads; i++) all_done = all_done && fibers[i].state == DONE;
        if (all_done) return CUDA_SUCCESS;
        for (int w = 0; w + WARP <= threads; w += WARP) moved = release_warp(w) || moved;
        moved = release_block(threads) || moved;
        if (moved) continue;
        int waiting = 0, line = 0;
        for (int i = 0; i < threads; i++) {
            if (fibers[i].state == DONE) continue;
            waiting++;
            line = fibers[i].line;
        }
        fake_log("fault: kernel %s: %d of %d threads wait at line %d and never meet the others",
                 function->name, waiting, threads, line);
        return CUDA_ERROR_LAUNCH_FAILED;
    }
}

static sigjmp_buf trap;

static void on_signal(int number)
{
    siglongjmp(trap, number);
}

static CUresult run_block(int threads)
{
    shared_count = 0;
    shared_bytes = 0;
    shared_overflow = false;
    memset(shared_memory, 0xFF, 49152);
    if (function->has_barriers) return run_fibers(threads);
    for (int i = 0; i < threads; i++) {
        runtime.thread = i;
        function->run(arguments);
    }
    return CUDA_SUCCESS;
}

static CUresult run_blocks(unsigned blocks, unsigned threads)
{
    for (unsigned b = 0; b < blocks; b++) {
        runtime.block = b;
        CUresult result = run_block((int)threads);
        if (result == CUDA_SUCCESS && shared_overflow) {
            fake_log("fault: kernel %s wants more than 48 KiB of shared memory", function->name);
            result = CUDA_ERROR_LAUNCH_FAILED;
        }
        if (result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
}

CUresult fake_run_kernel(struct CUfunc_st *f, const void *args, unsigned blocks, unsigned threads);
CUresult fake_run_kernel(struct CUfunc_st *f, const void *args, unsigned blocks, unsigned threads)
{
    if (!stacks) {
        stacks = mmap(NULL, MOST_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stacks == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    function = f;
    arguments = args;
    *f->runtime = &runtime;
    runtime.block_threads = (int)threads;
    runtime.blocks = blocks;
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_NODEFER}, old[2];
    sigaction(SIGSEGV, &act, &old[0]);
    sigaction(SIGBUS, &act, &old[1]);
    CUresult result;
    if (sigsetjmp(trap, 1) == 0) {
        result = run_blocks(blocks, threads);
    } else {
        fake_log("fault: kernel %s: an address outside all memory", f->name);
        result = CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    sigaction(SIGSEGV, &old[0], NULL);
    sigaction(SIGBUS, &old[1], NULL);
    return result;
}
