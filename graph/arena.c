/* An arena: memory in growing chunks that is freed whole. Addresses never move. */
#include "graph.h"

#ifdef TP_VERIFY /* small chunks: more allocations that a test can let fail */
#define FIRST_CHUNK_BYTES ((size_t)512)
#define LARGEST_CHUNK_BYTES ((size_t)4 << 10)
#else
#define FIRST_CHUNK_BYTES ((size_t)16 << 10)
#define LARGEST_CHUNK_BYTES ((size_t)4 << 20)
#endif

_Static_assert(sizeof(tp_arena_chunk) % 16 == 0, "what follows a chunk's header is aligned");

void tp_arena_init(tp_arena *arena, tp_context *context)
{
    *arena = (tp_arena){.context = context};
}

static void enter_chunk(tp_arena *arena, tp_arena_chunk *chunk)
{
    arena->current = chunk;
    arena->at = (char *)(chunk + 1);
    arena->free_bytes = chunk->size_bytes;
}

/* Goes on to a chunk with room: one that a rewind has left behind, or a new one before it. */
static bool next_chunk(tp_arena *arena, size_t size_bytes)
{
    tp_arena_chunk *current = arena->current, **link = current ? &current->next : &arena->first;
    if (*link && (*link)->size_bytes >= size_bytes) {
        enter_chunk(arena, *link);
        return true;
    }
    size_t wanted = current ? current->size_bytes * 2 : FIRST_CHUNK_BYTES;
    if (wanted > LARGEST_CHUNK_BYTES) wanted = LARGEST_CHUNK_BYTES;
    if (wanted < size_bytes) wanted = size_bytes;
    if (wanted > SIZE_MAX / 2) return false;
    tp_arena_chunk *chunk = tp_context_alloc(arena->context, sizeof *chunk + wanted);
    if (!chunk) return false;
    chunk->size_bytes = wanted;
    chunk->next = *link;
    *link = chunk;
    enter_chunk(arena, chunk);
    return true;
}

void *tp_arena_alloc_chunk(tp_arena *arena, size_t size_bytes)
{
    if (size_bytes > SIZE_MAX / 2 || !next_chunk(arena, size_bytes + 16)) return NULL;
    return tp_arena_alloc(arena, size_bytes);
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
    enter_chunk(arena, arena->first);
}

void tp_arena_free(tp_arena *arena)
{
    free_from(arena, arena->first);
    tp_arena_init(arena, arena->context);
}

void tp_arena_rewind(tp_arena *arena, const tp_arena *mark)
{
    if (!mark->current) {
        if (arena->first) enter_chunk(arena, arena->first);
        return;
    }
    arena->current = mark->current;
    arena->at = mark->at;
    arena->free_bytes = mark->free_bytes;
}
