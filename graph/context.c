/* Contexts: the allocator, the pool of freed blocks, the memory limit, the log.
 *
 * Blocks for tensors come from size classes, four per doubling, so that a freed block
 * fits the next request of about its size (at most a quarter is wasted). From
 * LARGE_BYTES on a block is only rounded to 2 MiB. Freed blocks wait in their class
 * until the pool's cap; under a memory limit the pool is emptied before a request is
 * refused. Always: used + pooled is what the allocator has given out for tensors, and what plain
 * memory has left in the pool. */
#include "context.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CLASSES 128
#define SMALLEST_BYTES 64
#define LARGE_BYTES ((size_t)64 << 20)
#define HUGE_PAGE_BYTES ((size_t)2 << 20)
/* Plain memory from this size on is pooled. */
#define POOLED_PLAIN_BYTES ((size_t)16 << 10)
#define DEFAULT_POOL_LIMIT_BYTES ((size_t)1 << 30)

/* A block in the pool; lies in the block itself. */
typedef struct free_block {
    struct free_block *next;
    size_t size_bytes;
} free_block;

struct tp_context {
    tp_allocator allocator;
    size_t memory_limit_bytes, pool_limit_bytes;
    int threads;
    void (*log)(void *, const char *);
    void *log_user;
    int refcount; /* atomic; the default context's never reaches 0 */
    pthread_mutex_t lock;
    tp_memory memory;
    free_block *pool[CLASSES]; /* the last class holds all large blocks */
};

static void *default_alloc(void *user, size_t size_bytes)
{
    (void)user;
    size_t align = size_bytes >= 2 * HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : 64;
    if (size_bytes > SIZE_MAX - align) return NULL;
    void *memory = aligned_alloc(align, (size_bytes + align - 1) / align * align);
#ifdef MADV_HUGEPAGE
    /* A first touch of 2 MiB pages costs a fraction of that of 4 KiB pages. */
    if (memory && align == HUGE_PAGE_BYTES) (void)madvise(memory, size_bytes, MADV_HUGEPAGE);
#endif
    return memory;
}

static void default_release(void *user, void *memory, size_t size_bytes)
{
    (void)user;
    (void)size_bytes;
    free(memory);
}

static void init(tp_context *context, const tp_context_options *options)
{
    memset(context, 0, sizeof *context);
    if (options) {
        context->allocator = options->allocator;
        context->memory_limit_bytes = options->memory_limit_bytes;
        context->pool_limit_bytes = options->pool_limit_bytes;
        context->threads = options->threads;
        context->log = options->log;
        context->log_user = options->log_user;
    }
    if (!context->allocator.alloc)
        context->allocator = (tp_allocator){default_alloc, default_release, NULL};
    if (!context->pool_limit_bytes) context->pool_limit_bytes = DEFAULT_POOL_LIMIT_BYTES;
    context->refcount = 1;
    pthread_mutex_init(&context->lock, NULL);
}

tp_context *tp_context_create(const tp_context_options *options)
{
    tp_allocator allocator = {default_alloc, default_release, NULL};
    if (options && options->allocator.alloc) allocator = options->allocator;
    tp_context *context = allocator.alloc(allocator.user, sizeof *context);
    if (context) init(context, options);
    return context;
}

static tp_context default_context;
static pthread_once_t default_once = PTHREAD_ONCE_INIT;
static void init_default(void)
{
    init(&default_context, NULL);
}

tp_context *tp_context_default(void)
{
    pthread_once(&default_once, init_default);
    return &default_context;
}

tp_context *tp_context_retain(tp_context *context)
{
    __atomic_add_fetch(&context->refcount, 1, __ATOMIC_RELAXED);
    return context;
}

void tp_context_release(tp_context *context)
{
    if (!context || __atomic_sub_fetch(&context->refcount, 1, __ATOMIC_ACQ_REL) > 0) return;
    tp_context_trim(context);
    pthread_mutex_destroy(&context->lock);
    tp_allocator allocator = context->allocator;
    allocator.release(allocator.user, context, sizeof *context);
}

void tp_context_set_memory_limit(tp_context *context, size_t limit_bytes)
{
    pthread_mutex_lock(&context->lock);
    context->memory_limit_bytes = limit_bytes;
    pthread_mutex_unlock(&context->lock);
}

size_t tp_context_memory_limit(const tp_context *context)
{
    return context->memory_limit_bytes;
}

void tp_context_set_threads(tp_context *context, int threads)
{
    __atomic_store_n(&context->threads, threads < 0 ? 0 : threads, __ATOMIC_RELAXED);
}

int tp_context_threads(const tp_context *context)
{
    int threads = __atomic_load_n(&context->threads, __ATOMIC_RELAXED);
    if (threads > 0) return threads;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores > 0 ? (int)cores : 1;
}

tp_memory tp_context_memory(const tp_context *context)
{
    tp_context *locked = (tp_context *)(uintptr_t)context; /* the lock is not part of its value */
    pthread_mutex_lock(&locked->lock);
    tp_memory memory = context->memory;
    pthread_mutex_unlock(&locked->lock);
    return memory;
}

void tp_context_reset_peak(tp_context *context)
{
    pthread_mutex_lock(&context->lock);
    context->memory.peak_bytes = context->memory.used_bytes;
    pthread_mutex_unlock(&context->lock);
}

bool tp_context_logs(const tp_context *context)
{
    return context->log != NULL;
}

void tp_context_log(tp_context *context, const char *format, ...)
{
    if (!context->log) return;
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    context->log(context->log_user, line);
}

/* ---- The pool ------------------------------------------------------------------ */

/* The class of a size and the size its blocks have. */
static int size_class(size_t size_bytes, size_t *block_bytes)
{
    if (size_bytes >= LARGE_BYTES) {
        *block_bytes = (size_bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        return CLASSES - 1;
    }
    size_t power = SMALLEST_BYTES;
    int class = 0;
    while (power * 2 <= size_bytes) {
        power *= 2;
        class += 4;
    }
    size_t quarter = power / 4;
    size_t quarters = size_bytes <= power ? 0 : (size_bytes - power + quarter - 1) / quarter;
    *block_bytes = power + quarters * quarter;
    /* The class is that of the block: it comes back by its own size. */
    return *block_bytes >= LARGE_BYTES ? CLASSES - 1 : class + (int)quarters;
}

/* Takes a block of block_bytes from its class; large blocks may be an eighth larger. */
static free_block *take(tp_context *context, int class, size_t block_bytes)
{
    for (free_block **at = &context->pool[class]; *at; at = &(*at)->next) {
        free_block *block = *at;
        if (block->size_bytes < block_bytes || block->size_bytes > block_bytes + block_bytes / 8)
            continue;
        *at = block->next;
        context->memory.pooled_bytes -= block->size_bytes;
        return block;
    }
    return NULL;
}

static void trim_locked(tp_context *context)
{
    for (int class = 0; class < CLASSES; class ++) {
        while (context->pool[class]) {
            free_block *block = context->pool[class];
            context->pool[class] = block->next;
            context->memory.pooled_bytes -= block->size_bytes;
            context->allocator.release(context->allocator.user, block, block->size_bytes);
        }
    }
}

void tp_context_trim(tp_context *context)
{
    pthread_mutex_lock(&context->lock);
    trim_locked(context);
    pthread_mutex_unlock(&context->lock);
}

static bool over_limit(const tp_context *context, size_t size_bytes)
{
    size_t held = context->memory.used_bytes + context->memory.pooled_bytes;
    return context->memory_limit_bytes && (size_bytes > context->memory_limit_bytes ||
                                           held > context->memory_limit_bytes - size_bytes);
}

/* A block from the allocator: of the class's size, or of just the size asked for where only
 * that fits under the limit. */
static void *fresh(tp_context *context, size_t size_bytes, size_t *block_bytes)
{
    if (over_limit(context, *block_bytes)) trim_locked(context);
    if (over_limit(context, *block_bytes))
        *block_bytes = (size_bytes + SMALLEST_BYTES - 1) / SMALLEST_BYTES * SMALLEST_BYTES;
    if (over_limit(context, *block_bytes)) return NULL;
    void *block = context->allocator.alloc(context->allocator.user, *block_bytes);
    if (block || !context->memory.pooled_bytes) return block;
    trim_locked(context);
    return context->allocator.alloc(context->allocator.user, *block_bytes);
}

void *tp_context_take_block(tp_context *context, size_t size_bytes, size_t *block_bytes)
{
    if (size_bytes > SIZE_MAX / 2) return NULL;
    int class = size_class(size_bytes, block_bytes);
    pthread_mutex_lock(&context->lock);
    void *block = NULL;
    free_block *pooled = take(context, class, *block_bytes);
    if (pooled) *block_bytes = pooled->size_bytes;
    block = pooled ? (void *)pooled : fresh(context, size_bytes, block_bytes);
    if (block) {
        context->memory.used_bytes += *block_bytes;
        if (context->memory.used_bytes > context->memory.peak_bytes)
            context->memory.peak_bytes = context->memory.used_bytes;
    }
    pthread_mutex_unlock(&context->lock);
#ifdef TP_POISON
    if (block) memset(block, 0xFF, *block_bytes);
#endif
    return block;
}

/* Into the pool if there is room and it has the size of a class (-1: it has not). */
static void keep_or_release(tp_context *context, void *memory, size_t block_bytes, int class)
{
    bool fits = context->memory.pooled_bytes + block_bytes <= context->pool_limit_bytes;
    if (fits && class >= 0) {
        free_block *block = memory;
        *block = (free_block){context->pool[class], block_bytes};
        context->pool[class] = block;
        context->memory.pooled_bytes += block_bytes;
    } else {
        context->allocator.release(context->allocator.user, memory, block_bytes);
    }
}

void tp_context_give_block(tp_context *context, void *memory, size_t block_bytes)
{
#ifdef TP_POISON
    memset(memory, 0xFF, block_bytes);
#endif
    size_t class_bytes;
    int class = size_class(block_bytes, &class_bytes);
    pthread_mutex_lock(&context->lock);
    context->memory.used_bytes -= block_bytes;
    keep_or_release(context, memory, block_bytes, class_bytes == block_bytes ? class : -1);
    pthread_mutex_unlock(&context->lock);
}

/* ---- Plain memory ------------------------------------------------------------ */

/* Chunks of arenas and large lists come back through the pool too: their pages need not be cleared
 * by the system again for every plan. Outside the limit, and not counted as used. */
void *tp_context_alloc(tp_context *context, size_t size_bytes)
{
    if (size_bytes < POOLED_PLAIN_BYTES || size_bytes > SIZE_MAX / 2)
        return context->allocator.alloc(context->allocator.user, size_bytes ? size_bytes : 1);
    size_t block_bytes;
    int class = size_class(size_bytes, &block_bytes);
    pthread_mutex_lock(&context->lock);
    free_block *pooled = class < CLASSES - 1 ? take(context, class, block_bytes) : NULL;
    pthread_mutex_unlock(&context->lock);
    return pooled ? (void *)pooled : context->allocator.alloc(context->allocator.user, block_bytes);
}

void *tp_context_alloc_zero(tp_context *context, size_t size_bytes)
{
    void *memory = tp_context_alloc(context, size_bytes);
    if (memory) memset(memory, 0, size_bytes);
    return memory;
}

void tp_context_free(tp_context *context, void *memory, size_t size_bytes)
{
    if (!memory) return;
    if (size_bytes < POOLED_PLAIN_BYTES) {
        context->allocator.release(context->allocator.user, memory, size_bytes ? size_bytes : 1);
        return;
    }
    size_t block_bytes;
    int class = size_class(size_bytes, &block_bytes);
    pthread_mutex_lock(&context->lock);
    keep_or_release(context, memory, block_bytes, class);
    pthread_mutex_unlock(&context->lock);
}

bool tp_grow(tp_context *context, void **items, int64_t *capacity, int64_t wanted,
             size_t size_bytes)
{
    if (wanted <= *capacity) return true;
    int64_t larger = *capacity < 8 ? 8 : *capacity;
    while (larger < wanted) {
        if (__builtin_mul_overflow(larger, 2, &larger)) return false;
    }
    size_t bytes;
    if (__builtin_mul_overflow((size_t)larger, size_bytes, &bytes)) return false;
    void *grown = tp_context_alloc(context, bytes);
    if (!grown) return false;
    size_t old_bytes = (size_t)*capacity * size_bytes;
    if (*items) memcpy(grown, *items, old_bytes);
    tp_context_free(context, *items, old_bytes);
    *items = grown;
    *capacity = larger;
    return true;
}
