/* The pool's inside, for storage.c and eval.c only. */
#ifndef TP_CONTEXT_H
#define TP_CONTEXT_H

#include "graph.h"

/* A 64-byte aligned block of at least size_bytes; NULL over the limit or out of memory. */
void *tp_context_take_block(tp_context *context, size_t size_bytes, size_t *block_bytes);
void tp_context_give_block(tp_context *context, void *memory, size_t block_bytes);
size_t tp_context_memory_limit(const tp_context *context);

#endif
