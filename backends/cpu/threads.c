/* Threads: OpenMP behind one function, the runtime that OpenBLAS-openmp uses too, so that the
 * two never compete for the cores. A forked child stays on one thread: the runtime's workers
 * do not exist there, and waiting for them would hang. */
#include "threads.h"

#include <omp.h>
#include <pthread.h>

static bool is_child; /* of a fork */

static void in_child(void)
{
    is_child = true;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

int tp_usable_threads(int threads)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    return is_child ? 1 : threads;
}

void tp_parallel_for(int threads, int64_t count, int64_t grain,
                     void (*fn)(void *arg, int64_t begin, int64_t end), void *arg)
{
    if (count <= 0) return;
    threads = tp_usable_threads(threads);
    if (grain < 1) grain = 1;
    int64_t most = (count + grain - 1) / grain;
    int used = most < threads ? (int)most : threads;
    if (used <= 1 || omp_in_parallel()) {
        fn(arg, 0, count);
        return;
    }
#pragma omp parallel num_threads(used)
    {
        int64_t parts = omp_get_num_threads(), part = omp_get_thread_num();
        int64_t share = count / parts, extra = count % parts;
        int64_t begin = part * share + (part < extra ? part : extra);
        int64_t end = begin + share + (part < extra);
        if (begin < end) fn(arg, begin, end);
    }
}
