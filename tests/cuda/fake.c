/* Finds the fake device for a test program: before main, so that every test's process inherits it.
 */
#include "tests/cuda/device.h"

#include <dlfcn.h>
#include <stdlib.h>

__attribute__((constructor)) static void choose_fake(void)
{
    setenv("TP_BACKEND_DIR", TP_BUILD_FOLDER, 1);
    setenv("TP_CUDA_LIB", TP_BUILD_FOLDER "/libtpfakecuda.so", 1);
    setenv("TP_CACHE_DIR", TP_BUILD_FOLDER "/kernel-cache", 0);
}

static void *find(const char *name)
{
    static void *library;
    if (!library) library = dlopen(TP_BUILD_FOLDER "/libtpfakecuda.so", RTLD_NOW);
    return library ? dlsym(library, name) : NULL;
}

tp_fake_counters fake_count(void)
{
    tp_fake_counters (*count)(void);
    *(void **)&count = find("tp_fake_count");
    return count();
}

const char *fake_calls(void)
{
    const char *(*log)(void);
    *(void **)&log = find("tp_fake_log");
    return log();
}

void fake_forget_calls(void)
{
    void (*clear)(void);
    *(void **)&clear = find("tp_fake_log_clear");
    clear();
}

void fake_fail(const char *what, long n)
{
    void (*fail)(long);
    *(void **)&fail = find(what);
    fail(n);
}

void fake_lose(void)
{
    void (*lose)(void);
    *(void **)&lose = find("tp_fake_lose_device");
    lose();
}

tp_graph *cuda_graph(void)
{
    tp_graph *g = tp_graph_create(NULL);
    cr_assert_eq(tp_graph_set_backend(g, "cuda"), TP_OK, "%s", tp_graph_error(g)->text);
    return g;
}
