/* The backends: those compiled in, modules found at run time, and the choice of a kernel. */
#define _GNU_SOURCE /* dladdr */
#include "backend.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const tp_backend tp_backend_cpu, tp_backend_ref;

static const tp_backend *const backends[] = {&tp_backend_cpu,
                                             &tp_backend_ref}; /* the first is the default */
static const char *const modules[] = {"cuda"};

/* ---- Modules ----------------------------------------------------------------------- */

/* The folder this library lies in. */
static void own_folder(char *folder, size_t size)
{
    Dl_info info;
    snprintf(folder, size, ".");
    if (!dladdr((const void *)backends, &info) || !info.dli_fname) return;
    const char *slash = strrchr(info.dli_fname, '/');
    if (slash) snprintf(folder, size, "%.*s", (int)(slash - info.dli_fname), info.dli_fname);
}

/* Opens libtp_NAME.so from $TP_BACKEND_DIR, beside this library, or from tensorplay/ there. */
static void *open_module(const char *name, char *why, size_t size)
{
    char folder[1024], path[1200];
    const char *wish = getenv("TP_BACKEND_DIR");
    own_folder(folder, sizeof folder);
    const char *folders[] = {wish ? wish : folder, folder};
    const char *below[] = {"", "/tensorplay"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s%s/libtp_%s.so", folders[i], below[i], name);
        void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (module) return module;
        snprintf(why, size, "%s", dlerror());
        if (access(path, F_OK) == 0) return NULL; /* it is there and does not load: that is why */
    }
    snprintf(why, size, "this build has no libtp_%s.so", name);
    return NULL;
}

static const tp_backend_module *find_module(const char *name, char *why, size_t size)
{
    static const uint32_t layout[] = TP_BACKEND_LAYOUT;
    void *library = open_module(name, why, size);
    if (!library) return NULL;
    const tp_backend_module *module = dlsym(library, "tp_backend_entry");
    if (module && memcmp(module->layout, layout, sizeof layout) == 0) return module;
    snprintf(why, size, "libtp_%s.so belongs to another build of TensorPlay", name);
    dlclose(library);
    return NULL;
}

/* Opened once, for as long as the process lives; what could not be opened is tried again. */
static const tp_backend *open_backend(size_t i, char *why, size_t size)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const tp_backend *opened[sizeof modules / sizeof *modules];
    pthread_mutex_lock(&lock);
    if (!opened[i]) {
        const tp_backend_module *module = find_module(modules[i], why, size);
        if (module) opened[i] = module->open(why, size);
    }
    pthread_mutex_unlock(&lock);
    return opened[i];
}

const tp_backend *tp_backend_find(const char *name, char *why, size_t size)
{
    if (!name) name = getenv("TP_BACKEND");
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        if (!name || strcmp(backends[i]->name, name) == 0) return backends[i];
    }
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        if (strcmp(modules[i], name) == 0) return open_backend(i, why, size);
    }
    snprintf(why, size, "there is no backend of that name");
    return NULL;
}

tp_status tp_graph_set_backend(tp_graph *graph, const char *name)
{
    if (!graph || !name) return TP_E_ARGUMENT;
    char why[400] = "";
    const tp_backend *backend = tp_backend_find(name, why, sizeof why);
    if (!backend)
        return tp_graph_fail(graph, TP_E_UNAVAILABLE, "set_backend", -1, "backend \"%s\": %s", name,
                             why);
    graph->backend = backend;
    return TP_OK;
}

/* ---- Kernels ----------------------------------------------------------------------- */

const tp_kernel *tp_backend_choose(const tp_backend *backend, const tp_step *step, int *rank,
                                   tp_reason *why)
{
    const tp_kernel *const *kernels = backend->kernels[step->kind];
    if (why) *why = TP_REASON_NONE;
    int i = 0;
    for (; kernels[i + 1]; i++) { /* the last takes everything */
        tp_reason refusal = kernels[i]->refuse(step);
        if (refusal == TP_REASON_NONE) break;
        if (why && *why == TP_REASON_NONE) *why = refusal;
    }
    if (rank) *rank = i;
    return kernels[i];
}

bool tp_backend_takes(const tp_backend *backend, const tp_step *step)
{
    const tp_kernel *const *kernels = backend->kernels[step->kind];
    for (int i = 0; kernels && kernels[i]; i++) {
        if (!kernels[i]->refuse || kernels[i]->refuse(step) == TP_REASON_NONE) return true;
    }
    return false;
}

/* ---- What there is ---------------------------------------------------------------------- */

#define BUILT_IN (sizeof backends / sizeof *backends)

const char *tp_backend_name(int i)
{
    if (i < 0) return NULL;
    if ((size_t)i < BUILT_IN) return backends[i]->name;
    return (size_t)i < BUILT_IN + sizeof modules / sizeof *modules ? modules[(size_t)i - BUILT_IN]
                                                                   : NULL;
}

int tp_describe_backend(const char *name, char *text, size_t size)
{
    char why[400] = "there is no backend of that name";
    for (size_t i = 0; i < BUILT_IN; i++) {
        if (strcmp(backends[i]->name, name) == 0) return backends[i]->describe(text, size);
    }
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        if (strcmp(modules[i], name) != 0) continue;
        const tp_backend_module *module = find_module(name, why, sizeof why);
        if (module) return module->describe(text, size);
    }
    return snprintf(text, size, "%s is not available: %s", name, why);
}

int tp_describe_backends(char *text, size_t size)
{
    tp_text all = {.at = text, .size = size};
    for (size_t i = 0; i < BUILT_IN; i++) {
        char line[256];
        backends[i]->describe(line, sizeof line);
        tp_text_add(&all, "%s%s", i ? "; " : "", line);
    }
    return (int)all.length;
}
