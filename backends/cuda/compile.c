/* Texts become functions: once per process, from the disk cache or by NVRTC, several at a time. */
#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BUCKETS 1024
#define MOST_THREADS 8

static tp_cuda_function *bucket[BUCKETS];
static pthread_mutex_t bucket_lock = PTHREAD_MUTEX_INITIALIZER;

static tp_cuda_function *new_function(const char *text, const char *name, uint64_t hash)
{
    tp_cuda_function *function = calloc(1, sizeof *function);
    char *copy = strdup(text);
    if (!function || !copy) {
        free(function);
        free(copy);
        return NULL;
    }
    function->hash = hash;
    function->text = copy;
    snprintf(function->name, sizeof function->name, "%s", name);
    return function;
}

tp_cuda_function *tp_cuda_find_function(const char *text, const char *name)
{
    uint64_t hash = tp_cuda_hash(text, strlen(text), 0);
    pthread_mutex_lock(&bucket_lock);
    tp_cuda_function **first = &bucket[hash % BUCKETS], *at = *first;
    while (at && (at->hash != hash || strcmp(at->text, text) != 0 || strcmp(at->name, name) != 0))
        at = at->next;
    if (!at && (at = new_function(text, name, hash))) {
        at->next = *first;
        *first = at;
    }
    pthread_mutex_unlock(&bucket_lock);
    return at;
}

/* ---- One text ---------------------------------------------------------------------------- */

/* What was made of a text, or why not. */
typedef struct result {
    tp_cuda_function *function;
    char *cubin;
    size_t cubin_bytes;
    char why[300];
} result;

/* All that the compiled code depends on: a line, with the prelude by its hash, then the text. The
 * caller frees it. */
static char *make_key(const char *text, size_t *key_bytes)
{
    const tp_cuda *d = &tp_cuda_device;
    const char *fake = getenv("TP_CUDA_LIB");
    uint64_t prelude = tp_cuda_hash(tp_cuda_prelude, strlen(tp_cuda_prelude), 0);
    size_t size = strlen(text) + 200 + (fake ? strlen(fake) : 0);
    char *key = malloc(size);
    if (!key) return NULL;
    *key_bytes = (size_t)snprintf(key, size, "%s nvrtc %d.%d prelude %016llx%s%s\n%s", d->arch,
                                  d->nvrtc[0], d->nvrtc[1], (unsigned long long)prelude,
                                  fake ? " " : "", fake ? fake : "", text);
    return key;
}

/* What is compiled: the prelude and the text. The caller frees it. */
static char *make_source(const char *text)
{
    size_t prelude_bytes = strlen(tp_cuda_prelude), text_bytes = strlen(text);
    char *source = malloc(prelude_bytes + text_bytes + 1);
    if (!source) return NULL;
    memcpy(source, tp_cuda_prelude, prelude_bytes);
    memcpy(source + prelude_bytes, text, text_bytes + 1);
    return source;
}

static void take_log(nvrtcProgram program, char *why, size_t size)
{
    const tp_cuda_api *api = &tp_cuda_device.api;
    size_t log_bytes = 0;
    api->nvrtcGetProgramLogSize(program, &log_bytes);
    char *log = malloc(log_bytes + 1);
    if (log && api->nvrtcGetProgramLog(program, log) == NVRTC_SUCCESS) {
        log[log_bytes] = 0;
        snprintf(why, size, "%s", log);
    }
    free(log);
}

static bool take_cubin(nvrtcProgram program, result *r)
{
    const tp_cuda_api *api = &tp_cuda_device.api;
    if (api->nvrtcGetCUBINSize(program, &r->cubin_bytes) != NVRTC_SUCCESS) return false;
    r->cubin = malloc(r->cubin_bytes ? r->cubin_bytes : 1);
    return r->cubin && api->nvrtcGetCUBIN(program, r->cubin) == NVRTC_SUCCESS;
}

static bool compile_source(const char *source, result *r)
{
    const tp_cuda_api *api = &tp_cuda_device.api;
    char arch[40];
    snprintf(arch, sizeof arch, "--gpu-architecture=%s", tp_cuda_device.arch);
    /* Strict floats: no contraction; denormals, division and roots as IEEE says. */
    const char *options[] = {arch, "--fmad=false", "--device-as-default-execution-space"};
    nvrtcProgram program;
    if (api->nvrtcCreateProgram(&program, source, r->function->name, 0, NULL, NULL) !=
        NVRTC_SUCCESS) {
        snprintf(r->why, sizeof r->why, "NVRTC makes no program of it");
        return false;
    }
    bool good = api->nvrtcCompileProgram(program, 3, options) == NVRTC_SUCCESS;
    if (!good) take_log(program, r->why, sizeof r->why);
    good = good && take_cubin(program, r);
    api->nvrtcDestroyProgram(&program);
    return good;
}

/* By NVRTC, and into the cache under its key. */
static bool compile(const char *key, size_t key_bytes, result *r)
{
    char *source = make_source(r->function->text);
    if (!source) snprintf(r->why, sizeof r->why, "out of memory");
    bool good = source && compile_source(source, r);
    if (good) tp_cuda_cache_write(key, key_bytes, r->cubin, r->cubin_bytes);
    free(source);
    return good;
}

static void make_cubin(result *r)
{
    size_t key_bytes = 0;
    char *key = make_key(r->function->text, &key_bytes);
    if (!key) {
        snprintf(r->why, sizeof r->why, "out of memory");
        return;
    }
    r->cubin = tp_cuda_cache_read(key, key_bytes, &r->cubin_bytes);
    if (!r->cubin) (void)compile(key, key_bytes, r);
    free(key);
}

static tp_status load(result *r)
{
    CUmodule module;
    CUDA(cuModuleLoadData, &module, r->cubin);
    CUfunction function;
    CUresult found = tp_cuda_device.api.cuModuleGetFunction(&function, module, r->function->name);
    if (found != CUDA_SUCCESS) {
        tp_cuda_device.api.cuModuleUnload(module);
        return tp_cuda_failed(found, "cuModuleGetFunction");
    }
    r->function->module = module;
    r->function->function = function;
    return TP_OK;
}

/* A cubin that the driver refuses comes from a cache that lies: it is made once more. */
static tp_status load_or_make(result *r)
{
    if (!r->cubin) return tp_cuda_fail(TP_E_DEVICE, "kernel %s: %s", r->function->name, r->why);
    if (load(r) == TP_OK) return TP_OK;
    size_t key_bytes = 0;
    char *key = make_key(r->function->text, &key_bytes);
    free(r->cubin);
    r->cubin = NULL;
    bool good = key && compile(key, key_bytes, r);
    free(key);
    return good ? load(r) : tp_cuda_fail(TP_E_DEVICE, "kernel %s: %s", r->function->name, r->why);
}

/* ---- All that a plan needs ------------------------------------------------------------------ */

typedef struct batch {
    tp_context *context;
    result *result;
    int count, next, done; /* next and done: atomic */
    time_t start, told;
} batch;

/* A line a second, once it takes longer than that. */
static void tell(batch *b, int done)
{
    time_t now = time(NULL);
    if (now - b->start < 1 || __atomic_exchange_n(&b->told, now, __ATOMIC_RELAXED) == now) return;
    tp_context_log(b->context, "compiling kernels: %d of %d", done, b->count);
}

static void *work(void *user)
{
    batch *b = user;
    for (;;) {
        int i = __atomic_fetch_add(&b->next, 1, __ATOMIC_RELAXED);
        if (i >= b->count) return NULL;
        make_cubin(&b->result[i]);
        tell(b, __atomic_add_fetch(&b->done, 1, __ATOMIC_RELAXED));
    }
}

static void work_in_parallel(batch *b)
{
    pthread_t thread[MOST_THREADS];
    int wanted = tp_context_threads(b->context), started = 0;
    if (wanted > MOST_THREADS) wanted = MOST_THREADS;
    while (started < wanted - 1 && started < b->count - 1 &&
           pthread_create(&thread[started], NULL, work, b) == 0)
        started++;
    work(b);
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
}

static bool is_in(const batch *b, const tp_cuda_function *function)
{
    for (int i = 0; i < b->count; i++) {
        if (b->result[i].function == function) return true;
    }
    return false;
}

tp_status tp_cuda_compile(tp_context *context, int count, tp_cuda_function *const *functions)
{
    size_t bytes = (size_t)(count + 1) * sizeof(result);
    batch b = {.context = context, .start = time(NULL)};
    for (int i = 0; i < count && !b.result; i++) {
        if (functions[i]->function) continue;
        b.result = tp_context_alloc_zero(context, bytes);
        if (!b.result) return tp_cuda_fail(TP_E_NOMEM, "out of memory");
    }
    if (!b.result) return TP_OK;
    for (int i = 0; i < count; i++) {
        if (!functions[i]->function && !is_in(&b, functions[i]))
            b.result[b.count++].function = functions[i];
    }
    work_in_parallel(&b);
    tp_status status = TP_OK;
    for (int i = 0; i < b.count; i++) {
        if (status == TP_OK) status = load_or_make(&b.result[i]);
        free(b.result[i].cubin);
    }
    tp_context_free(context, b.result, bytes);
    return status;
}
