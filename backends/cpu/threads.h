/* The one way in which this backend uses threads. */
#ifndef TP_CPU_THREADS_H
#define TP_CPU_THREADS_H

#include <stdbool.h>
#include <stdint.h>

/* Calls fn on ranges that cover [0, count) once, on up to `threads` threads; serial when
 * count <= grain, with one thread, or inside another region. */
void tp_parallel_for(int threads, int64_t count, int64_t grain,
                     void (*fn)(void *arg, int64_t begin, int64_t end), void *arg);
/* How many of `threads` may be used: 1 in a forked child, whose workers do not exist. */
int tp_usable_threads(int threads);

#endif
