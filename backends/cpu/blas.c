/* CBLAS by dlopen. OpenBLAS picks its kernels in a constructor, when it is loaded: releases that
 * do not know a newer CPU take it for a very old one and run five times slower. So it is loaded as
 * it is, and if its kernels are older than the CPU, once more with the core named in the
 * environment. What the user has named there stands. */
#include "blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static tp_blas loaded;
static const tp_blas *current;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A function of a library; the union is the conversion that ISO C lacks. */
static void find(void *library, const char *symbol, void *function)
{
    void *address = dlsym(library, symbol);
    memcpy(function, &address, sizeof address);
}

static bool is_one_of(const char *core, const char *const *names)
{
    for (; *names; names++) {
        if (strcasecmp(core, *names) == 0) return true;
    }
    return false;
}

static const char *const with_avx512[] = {"SkylakeX", "Cooperlake", "SapphireRapids", NULL};

/* The core that every OpenBLAS since 2017 has and that is better for this CPU than the one it
 * took; NULL: none. */
static const char *better_core(const char *taken)
{
#if defined(__x86_64__)
    static const char *const with_avx2[] = {"Haswell", "Zen", NULL};
    if (is_one_of(taken, with_avx512)) return NULL;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
        return "SkylakeX";
    if (is_one_of(taken, with_avx2)) return NULL;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
    (void)taken;
    return NULL;
}

static void *open_library(const char *name)
{
    static const char variable[] = "OPENBLAS_CORETYPE";
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library || getenv(variable)) return library;
    char *(*core)(void);
    find(library, "openblas_get_corename", &core);
    const char *better = core ? better_core(core()) : NULL;
    if (!better) return library;
    dlclose(library);
    setenv(variable, better, 1);
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    unsetenv(variable);
    return library;
}

static bool use(const char *name)
{
    void *library = open_library(name);
    if (!library) return false;
    find(library, "cblas_sgemm", &loaded.sgemm);
    find(library, "cblas_dgemm", &loaded.dgemm);
    if (!loaded.sgemm || !loaded.dgemm) {
        dlclose(library);
        return false;
    }
    int (*parallel)(void);
    char *(*core)(void);
    find(library, "openblas_get_parallel", &parallel);
    find(library, "openblas_get_corename", &core);
    find(library, "openblas_set_num_threads", &loaded.set_threads);
    const char *base = strrchr(name, '/');
    snprintf(loaded.name, sizeof loaded.name, "%s", base ? base + 1 : name);
    snprintf(loaded.core, sizeof loaded.core, "%s", core ? core() : "unknown core");
    loaded.small_products = core && is_one_of(core(), with_avx512);
    loaded.shares_openmp = parallel && parallel() == 2;
    loaded.not_reentrant =
        parallel && parallel() == 0; /* OpenBLAS's serial build is not thread safe */
    /* A pool of its own would fight ours for the cores: we cut the work ourselves. */
    if (!loaded.shares_openmp && loaded.set_threads) loaded.set_threads(1);
    current = &loaded;
    return true;
}

static void load(void)
{
    const char *wish = getenv("TP_BLAS");
    if (wish && strcmp(wish, "none") == 0) return;
    if (wish && *wish) {
        use(wish);
        return;
    }
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so", "libcblas.so.3",
                                        "libblas.so.3",     "libblis.so.4",   "libmkl_rt.so.2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (use(names[i])) return;
    }
}

const tp_blas *tp_blas_get(void)
{
    pthread_once(&once, load);
    return current;
}

const tp_blas *tp_blas_override(const tp_blas *blas)
{
    const tp_blas *before = tp_blas_get();
    current = blas;
    return before;
}

int tp_blas_describe(char *text, size_t size)
{
    const tp_blas *blas = tp_blas_get();
    if (!blas) return snprintf(text, size, "no BLAS");
    const char *kind = blas->shares_openmp   ? "openmp"
                       : blas->not_reentrant ? "serial"
                                             : "own threads";
    return snprintf(text, size, "BLAS %s (%s, %s)", blas->name, kind, blas->core);
}
