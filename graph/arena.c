/* An arena: memory in growing chunks that is freed whole. Addresses never move. */
#include "graph.h"

#include <stdalign.h>

#define FIRST_CHUNK_BYTES ((size_t)16 << 10)
#define LARGEST_CHUNK_BYTES ((size_t)4 << 20)
#define ALIGN 16

struct tp_arena_chunk {
    tp_arena_chunk *next;
    size_t size_bytes; /* behind this header */
    alignas(ALIGN) char data[];
};

void tp_arena_init(tp_arena *arena, tp_context *context)
{
    *arena = (tp_arena){.context = context};
}

/* A chunk after the current one that has room, reusing one kept by a reset. */
static bool next_chunk(tp_arena *arena, size_t size_bytes)
{
    tp_arena_chunk *current = arena->current;
    size_t wanted = current ? current->size_bytes * 2 : FIRST_CHUNK_BYTES;
    if (wanted > LARGEST_CHUNK_BYTES) wanted = LARGEST_CHUNK_BYTES;
    if (wanted < size_bytes) wanted = size_bytes;
    if (wanted > SIZE_MAX / 2) return false;
    tp_arena_chunk *chunk = tp_context_alloc(arena->context, sizeof *chunk + wanted);
    if (!chunk) return false;
    chunk->size_bytes = wanted;
    chunk->next = NULL;
    if (current)
        current->next = chunk;
    else
        arena->first = chunk;
    arena->current = chunk;
    arena->used = 0;
    return true;
}

void *tp_arena_alloc(tp_arena *arena, size_t size_bytes)
{
    if (size_bytes > SIZE_MAX / 2) return NULL;
    size_t rounded = (size_bytes + ALIGN - 1) / ALIGN * ALIGN;
    if ((!arena->current || arena->current->size_bytes - arena->used < rounded) &&
        !next_chunk(arena, rounded))
        return NULL;
    void *memory = arena->current->data + arena->used;
    arena->used += rounded;
    return memory;
}

static void free_from(tp_arena *arena, tp_arena_chunk *chunk)
{
    while (chunk) {
        tp_arena_chunk *next = chunk->next;
        tp_context_free(arena->context, chunk, sizeof *chunk + chunk->size_bytes);
        chunk = next;
    }
}

void tp_arena_reset(tp_arena *arena)
{
    if (!arena->first) return;
    free_from(arena, arena->first->next);
    arena->first->next = NULL;
    arena->current = arena->first;
    arena->used = 0;
}

void tp_arena_free(tp_arena *arena)
{
    free_from(arena, arena->first);
    arena->first = arena->current = NULL;
}
