/* The kernel texts that a run on the fake device has made, compiled by the real NVRTC.
 *
 * usage: nvrtc_lint CACHE_FOLDER MOST ARCH ...
 *
 * The cache holds every text whole, after a line that says what it was compiled for. At most MOST
 * of them are taken, spread evenly over the sorted names. Checked for each architecture that NVRTC
 * knows: it compiles, nothing is spilled, no stack is used (but by sin, cos and tan), and a text
 * with 16-byte accesses has them in its PTX. Exit codes: 0 good, 1 a text is not, 77 there is no
 * NVRTC, 2 a wrong call. */
#include <dirent.h>
#include <dlfcn.h>
#include <nvrtc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char tp_cuda_prelude[];

#define FUNCTIONS(X)                                                                               \
    X(nvrtcVersion)                                                                                \
    X(nvrtcCreateProgram)                                                                          \
    X(nvrtcCompileProgram)                                                                         \
    X(nvrtcDestroyProgram)                                                                         \
    X(nvrtcGetProgramLogSize)                                                                      \
    X(nvrtcGetProgramLog)                                                                          \
    X(nvrtcGetPTXSize)                                                                             \
    X(nvrtcGetPTX)                                                                                 \
    X(nvrtcGetNumSupportedArchs)                                                                   \
    X(nvrtcGetSupportedArchs)
#define DECLARE(name) static __typeof__(name) *p_##name;
FUNCTIONS(DECLARE)

static bool open_nvrtc(void)
{
    const char *names[] = {"libnvrtc.so." TP_CUDA_MAJOR,
                           TP_CUDA_TOOLKIT_FOLDER "/libnvrtc.so." TP_CUDA_MAJOR};
    void *library = NULL;
    for (int i = 0; i < 2 && !library; i++) library = dlopen(names[i], RTLD_NOW);
    if (!library) return false;
    bool whole = true;
#define FIND(name) whole = (*(void **)&p_##name = dlsym(library, #name)) && whole;
    FUNCTIONS(FIND)
    return whole;
}

/* ---- The texts --------------------------------------------------------------------------- */

static char *text_of(const char *folder, const char *name)
{
    char path[2048];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    uint64_t head[4];
    char *key = NULL, *text = NULL;
    if (fread(head, sizeof head, 1, file) == 1 && head[1] < (1 << 24) &&
        (key = calloc(1, head[1] + 1)) && fread(key, head[1], 1, file) == 1 && strchr(key, '\n')) {
        const char *kernel = strchr(key, '\n') + 1;
        text = malloc(strlen(tp_cuda_prelude) + strlen(kernel) + 1);
        if (text) strcat(strcpy(text, tp_cuda_prelude), kernel);
    }
    free(key);
    fclose(file);
    return text;
}

static int is_entry(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 6 && strcmp(entry->d_name + length - 6, ".cubin") == 0;
}

/* ---- One text for one architecture ---------------------------------------------------------- */

static char *take(nvrtcProgram program, nvrtcResult (*get_size)(nvrtcProgram, size_t *),
                  nvrtcResult (*get)(nvrtcProgram, char *))
{
    size_t size = 0;
    get_size(program, &size);
    char *text = calloc(1, size + 1);
    if (text) get(program, text);
    return text;
}

/* The sum of the numbers before every `what` in ptxas's report. */
static long count_of(const char *log, const char *what)
{
    long sum = 0;
    for (const char *at = log; (at = strstr(at, what)); at++) {
        const char *digit = at;
        while (digit > log && (digit[-1] == ' ')) digit--;
        while (digit > log && digit[-1] >= '0' && digit[-1] <= '9') digit--;
        sum += strtol(digit, NULL, 10);
    }
    return sum;
}

/* CUDA's own sine, cosine and tangent reduce large arguments on a stack of theirs. */
static bool may_use_stack(const char *kernel)
{
    return strstr(kernel, "m_sin_") || strstr(kernel, "m_cos_") || strstr(kernel, "m_tan_");
}

/* What is wrong with a text that compiled; NULL: nothing. The prelude's own text ends where the
 * kernel begins. */
static const char *fault_of(const char *text, const char *log, const char *ptx)
{
    const char *kernel = strstr(text, "\nTP_KERNEL(");
    for (const char *next = kernel; next; next = strstr(next + 1, "\nTP_KERNEL(")) kernel = next;
    if (!kernel) return "there is no kernel in it";
    if (count_of(log, "bytes spill")) return "registers are spilled";
    if (count_of(log, "bytes stack frame") && !may_use_stack(kernel)) return "it uses a stack";
    if (strstr(kernel, "tp_load_16(") && !strstr(ptx, "ld.global.v4") &&
        !strstr(ptx, "ld.global.nc.v4"))
        return "its 16-byte loads became smaller ones";
    if (strstr(kernel, "tp_store_16(") && !strstr(ptx, "st.global.v4"))
        return "its 16-byte stores became smaller ones";
    return NULL;
}

/* Prints what is wrong; false if anything is. */
static bool compiles(const char *name, const char *text, const char *arch)
{
    char option[64];
    snprintf(option, sizeof option, "--gpu-architecture=%s", arch);
    const char *options[] = {option, "--fmad=false", "--device-as-default-execution-space",
                             "--ptxas-options=-v"};
    nvrtcProgram program;
    if (p_nvrtcCreateProgram(&program, text, name, 0, NULL, NULL) != NVRTC_SUCCESS) return false;
    bool compiled = p_nvrtcCompileProgram(program, 4, options) == NVRTC_SUCCESS;
    char *log = take(program, p_nvrtcGetProgramLogSize, p_nvrtcGetProgramLog);
    char *ptx = take(program, p_nvrtcGetPTXSize, p_nvrtcGetPTX);
    const char *fault = compiled && log && ptx ? fault_of(text, log, ptx) : "it does not compile";
    if (fault) printf("%s for %s: %s\n%s\n", name, arch, fault, log ? log : "");
    free(log);
    free(ptx);
    p_nvrtcDestroyProgram(&program);
    return !fault;
}

/* ---- All, on two threads ----------------------------------------------------------------------
 */

static struct dirent **entry;
static const char *folder;
static char **arch;
static int entries, step, arches, next, bad, done;

static void *work(void *unused)
{
    (void)unused;
    for (;;) {
        int i = __atomic_fetch_add(&next, step, __ATOMIC_RELAXED);
        if (i >= entries) return NULL;
        char *text = text_of(folder, entry[i]->d_name);
        for (int a = 0; a < arches; a++) {
            bool good = text && compiles(entry[i]->d_name, text, arch[a]);
            __atomic_fetch_add(good ? &done : &bad, 1, __ATOMIC_RELAXED);
        }
        free(text);
    }
}

static bool is_supported(const char *name)
{
    int count = 0, list[64];
    if (p_nvrtcGetNumSupportedArchs(&count) != NVRTC_SUCCESS || count > 64) return false;
    p_nvrtcGetSupportedArchs(list);
    for (int i = 0; i < count; i++) {
        if (atoi(name + 3) == list[i]) return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    if (argc < 4 || atoi(argv[2]) < 1) {
        fprintf(stderr, "usage: nvrtc_lint CACHE_FOLDER MOST ARCH ...\n");
        return 2;
    }
    if (!open_nvrtc()) {
        printf("there is no NVRTC here: the kernels are not compiled for a GPU\n");
        return 77;
    }
    folder = argv[1];
    arch = argv + 3;
    for (int i = 3; i < argc; i++) {
        if (!is_supported(argv[i]))
            printf("NVRTC does not know %s: left out\n", argv[i]);
        else
            arch[arches++] = argv[i];
    }
    entries = scandir(folder, &entry, is_entry, alphasort);
    if (entries < 1 || !arches) {
        printf("there is nothing to compile in %s\n", folder);
        return 1;
    }
    step = (entries + atoi(argv[2]) - 1) / atoi(argv[2]);
    pthread_t helper;
    bool helped = pthread_create(&helper, NULL, work, NULL) == 0;
    work(NULL);
    if (helped) pthread_join(helper, NULL);
    printf("%d texts of %d, %d compilations: %d without spills or stack, %d not\n",
           (entries + step - 1) / step, entries, done + bad, done, bad);
    return bad ? 1 : 0;
}
