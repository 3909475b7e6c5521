/* Device memory: one arena that nobody can touch but while work runs. Blocks are 256-byte aligned
 * with a guard behind each; fresh memory is 0xFF, freed memory 0xCB. Large blocks are not filled,
 * so that a test may ask for more than the machine has. */
#include "fake.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGN 256
#define FILL_LIMIT ((size_t)64 << 20)
#define MOST_BLOCKS 65536

typedef struct block {
    size_t offset, size_bytes;           /* without the guard */
    bool taken;                          /* by the order of calls */
    enum { EXPECTED, LIVE, DEAD } state; /* by the order of work */
    int number;
} block;

static char *arena;
static size_t arena_bytes, used_bytes; /* what lies below was given out once */
static block blocks[MOST_BLOCKS];      /* sorted by offset; free room lies between taken ones */
static int block_count, next_number;
static long fail_alloc;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void tp_fake_fail_alloc(long n)
{
    fail_alloc = n;
}

static bool open_arena(void)
{
    if (arena) return true;
    const char *wish = getenv("TP_FAKE_MEMORY");
    arena_bytes = (size_t)(wish ? strtoull(wish, NULL, 10) : 2048) << 20;
    arena = mmap(NULL, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED) arena = NULL;
    return arena != NULL;
}

void fake_memory_open(void)
{
    if (open_arena()) mprotect(arena, used_bytes, PROT_READ | PROT_WRITE);
}

void fake_memory_close(void)
{
    if (arena) mprotect(arena, used_bytes, PROT_NONE);
}

static size_t span(size_t size_bytes)
{
    return (size_bytes + ALIGN - 1) / ALIGN * ALIGN + ALIGN;
}

/* Blocks that are done with go; their numbers are not used again. */
static void tidy(void)
{
    int kept = 0;
    for (int i = 0; i < block_count; i++) {
        if (blocks[i].taken || blocks[i].state != DEAD) blocks[kept++] = blocks[i];
    }
    block_count = kept;
}

/* The first room that suffices. Where a freed block is not dead yet, its bytes may be given out:
 * the new block is born after the old one has died. */
static int find_room(size_t size_bytes, size_t *offset)
{
    size_t at = 0;
    for (int i = 0; i < block_count; i++) {
        if (!blocks[i].taken) continue;
        if (blocks[i].offset >= at && blocks[i].offset - at >= span(size_bytes)) break;
        at = blocks[i].offset + span(blocks[i].size_bytes);
    }
    *offset = at;
    if (at + span(size_bytes) > arena_bytes) return -1;
    int place = 0;
    while (place < block_count && blocks[place].offset <= at) place++;
    return place;
}

CUresult fake_alloc(size_t size_bytes, CUdeviceptr *address)
{
    pthread_mutex_lock(&lock);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    bool fails = fail_alloc > 0 && --fail_alloc == 0;
    if (!fails && open_arena() && block_count < MOST_BLOCKS - 1) {
        if (block_count > MOST_BLOCKS / 2) tidy();
        size_t offset = 0;
        int place = find_room(size_bytes, &offset);
        if (place >= 0) {
            memmove(blocks + place + 1, blocks + place,
                    (size_t)(block_count - place) * sizeof *blocks);
            blocks[place] = (block){offset, size_bytes, true, EXPECTED, next_number++};
            block_count++;
            size_t end = (offset + span(size_bytes) + 4095) / 4096 * 4096;
            if (end > used_bytes) used_bytes = end;
            *address = (CUdeviceptr)(uintptr_t)(arena + offset);
            fake_counters.allocations++;
            fake_counters.used_bytes += size_bytes;
            if (fake_counters.used_bytes > fake_counters.peak_bytes)
                fake_counters.peak_bytes = fake_counters.used_bytes;
            result = CUDA_SUCCESS;
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static block *find(CUdeviceptr address, bool taken)
{
    for (int i = 0; i < block_count; i++) {
        block *b = &blocks[i];
        if ((CUdeviceptr)(uintptr_t)(arena + b->offset) == address &&
            (taken ? b->taken : b->state == LIVE))
            return b;
    }
    return NULL;
}

CUresult fake_free(CUdeviceptr address)
{
    pthread_mutex_lock(&lock);
    block *b = find(address, true);
    if (b) {
        b->taken = false;
        fake_counters.allocations--;
        fake_counters.used_bytes -= b->size_bytes;
    }
    pthread_mutex_unlock(&lock);
    return b ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void fill(const block *b, int value)
{
    if (b->size_bytes <= FILL_LIMIT) memset(arena + b->offset, value, b->size_bytes);
}

/* The oldest of those taken at this address that is not live yet. */
void fake_memory_born(CUdeviceptr address)
{
    pthread_mutex_lock(&lock);
    block *oldest = NULL;
    for (int i = 0; i < block_count; i++) {
        block *b = &blocks[i];
        bool here = (CUdeviceptr)(uintptr_t)(arena + b->offset) == address && b->state == EXPECTED;
        if (here && (!oldest || b->number < oldest->number)) oldest = b;
    }
    if (oldest) {
        oldest->state = LIVE;
        fill(oldest, 0xFF);
        memset(arena + oldest->offset + span(oldest->size_bytes) - ALIGN, 0xA5, ALIGN);
    }
    pthread_mutex_unlock(&lock);
}

void fake_memory_died(CUdeviceptr address)
{
    pthread_mutex_lock(&lock);
    block *b = find(address, false);
    if (b) {
        const unsigned char *guard =
            (unsigned char *)arena + b->offset + span(b->size_bytes) - ALIGN;
        for (int i = 0; i < ALIGN; i++) {
            if (guard[i] == 0xA5) continue;
            fake_log("fault: written %d bytes behind a%d", i, b->number);
            fake_lose(CUDA_ERROR_ILLEGAL_ADDRESS);
            break;
        }
        fill(b, 0xCB);
        b->state = DEAD;
    }
    pthread_mutex_unlock(&lock);
}

static block *holder(const void *address)
{
    const char *at = address;
    if (!arena || at < arena || at >= arena + arena_bytes) return NULL;
    size_t offset = (size_t)(at - arena);
    for (int i = 0; i < block_count; i++) {
        block *b = &blocks[i];
        if (b->state == LIVE && offset >= b->offset && offset < b->offset + b->size_bytes) return b;
    }
    return NULL;
}

bool fake_memory_holds(const void *address, size_t size_bytes)
{
    pthread_mutex_lock(&lock);
    const block *b = holder(address);
    bool inside =
        b && (size_t)((const char *)address - arena) + size_bytes <= b->offset + b->size_bytes;
    pthread_mutex_unlock(&lock);
    return inside || !size_bytes;
}

const char *fake_memory_name(const void *address, char text[40])
{
    pthread_mutex_lock(&lock);
    const block *b = holder(address);
    if (b)
        snprintf(text, 40, "a%d+%zu", b->number,
                 (size_t)((const char *)address - arena) - b->offset);
    else
        snprintf(text, 40, "nowhere");
    pthread_mutex_unlock(&lock);
    return text;
}
