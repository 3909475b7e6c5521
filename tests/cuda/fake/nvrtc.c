/* NVRTC: the text is compiled for this machine, with prelude_host.h before it, by $TP_FAKE_CC (tcc
 * if there is one, else gcc -O1), into a shared object; that is the "cubin". */
#include "fake.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef TP_FAKE_FOLDER
#define TP_FAKE_FOLDER "."
#endif

struct _nvrtcProgram {
    char *source, *log, *object;
    size_t object_bytes;
};

FAKE_API nvrtcResult nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 0;
    return NVRTC_SUCCESS;
}

FAKE_API const char *nvrtcGetErrorString(nvrtcResult result)
{
    return result == NVRTC_SUCCESS ? "success" : "failure";
}

FAKE_API nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name,
                                        int count, const char *const *headers,
                                        const char *const *names)
{
    (void)name, (void)count, (void)headers, (void)names;
    *program = calloc(1, sizeof **program);
    if (*program) (*program)->source = strdup(source);
    return *program && (*program)->source ? NVRTC_SUCCESS : NVRTC_ERROR_OUT_OF_MEMORY;
}

FAKE_API nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
    free((*program)->source);
    free((*program)->log);
    free((*program)->object);
    free(*program);
    *program = NULL;
    return NVRTC_SUCCESS;
}

static char *read_all(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    *size = 0;
    if (!file) return NULL;
    if (fseek(file, 0, SEEK_END) == 0) {
        long length = ftell(file);
        rewind(file);
        text = calloc(1, (size_t)length + 1);
        if (text) *size = fread(text, 1, (size_t)length, file);
    }
    fclose(file);
    return text;
}

static const char *compiler(void)
{
    const char *wish = getenv("TP_FAKE_CC");
    if (wish && *wish) return wish;
    return access("/usr/bin/tcc", X_OK) == 0 ? "tcc" : "gcc -O1";
}

static nvrtcResult compile_in(nvrtcProgram p, const char *folder)
{
    char path[3][300], command[1600];
    static const char *const names[] = {"kernel.c", "kernel.so", "log"};
    for (int i = 0; i < 3; i++) snprintf(path[i], sizeof path[i], "%s/%s", folder, names[i]);
    FILE *file = fopen(path[0], "w");
    if (!file) return NVRTC_ERROR_INTERNAL_ERROR;
    fprintf(file, "#define TP_FAKE 1\n#include \"%s/prelude_host.h\"\n#line 1\n%s", TP_FAKE_FOLDER,
            p->source);
    fclose(file);
    snprintf(command, sizeof command,
             "%s -shared -fPIC -ffp-contract=off -fwrapv -w -o %s %s -lm >%s 2>&1", compiler(),
             path[1], path[0], path[2]);
    int status = system(command);
    size_t bytes;
    p->log = read_all(path[2], &bytes);
    p->object = status == 0 ? read_all(path[1], &p->object_bytes) : NULL;
    if (!getenv("TP_FAKE_KEEP")) {
        for (int i = 0; i < 3; i++) unlink(path[i]);
    }
    return p->object ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}

FAKE_API nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int count, const char *const *options)
{
    (void)count, (void)options;
    char folder[] = "/tmp/tp_fake_XXXXXX";
    if (!mkdtemp(folder)) return NVRTC_ERROR_INTERNAL_ERROR;
    nvrtcResult result = compile_in(p, folder);
    rmdir(folder);
    return result;
}

FAKE_API nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, size_t *size)
{
    *size = p->log ? strlen(p->log) + 1 : 1;
    return NVRTC_SUCCESS;
}

FAKE_API nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char *log)
{
    strcpy(log, p->log ? p->log : "");
    return NVRTC_SUCCESS;
}

/* The blob: a byte that says whether the kernel's text has barriers, then the shared object. */
static bool has_barriers(const char *source)
{
    const char *kernel = strstr(source, "TP_PRELUDE_ENDS");
    if (!kernel) kernel = source;
    static const char *const names[] = {"tp_sync", "tp_shfl", "tp_ballot", "tp_mma", "TP_SHARED"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strstr(kernel, names[i])) return true;
    }
    return false;
}

FAKE_API nvrtcResult nvrtcGetCUBINSize(nvrtcProgram p, size_t *size)
{
    *size = p->object_bytes + 1;
    return p->object ? NVRTC_SUCCESS : NVRTC_ERROR_INVALID_PROGRAM;
}

FAKE_API nvrtcResult nvrtcGetCUBIN(nvrtcProgram p, char *cubin)
{
    if (!p->object) return NVRTC_ERROR_INVALID_PROGRAM;
    cubin[0] = has_barriers(p->source) ? 'B' : 'P';
    memcpy(cubin + 1, p->object, p->object_bytes);
    return NVRTC_SUCCESS;
}

/* ---- Modules: the driver's side ------------------------------------------------------------- */

struct CUmod_st {
    void *library;
    bool has_barriers;
};

/* The size of the blob is not told to cuModuleLoadData: the object's own header says where its
 * section table, its last part, ends. tcc and gcc both write it there. */
static size_t object_bytes(const unsigned char *elf)
{
    uint64_t table;
    uint16_t size, count;
    memcpy(&table, elf + 40, 8);
    memcpy(&size, elf + 58, 2);
    memcpy(&count, elf + 60, 2);
    return (size_t)table + (size_t)size * count;
}

FAKE_API CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    const char *blob = image;
    char path[] = "/tmp/tp_fake_module_XXXXXX";
    if ((blob[0] != 'B' && blob[0] != 'P') || memcmp(blob + 1, "\177ELF", 4) != 0)
        return CUDA_ERROR_INVALID_IMAGE;
    int file = mkstemp(path);
    if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    size_t bytes = object_bytes((const unsigned char *)blob + 1);
    bool whole = write(file, blob + 1, bytes) == (ssize_t)bytes;
    close(file);
    void *library = whole ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) fake_log("fault: %s", dlerror());
    unlink(path);
    *module = library ? calloc(1, sizeof **module) : NULL;
    if (!*module) return CUDA_ERROR_INVALID_IMAGE;
    (*module)->library = library;
    (*module)->has_barriers = blob[0] == 'B';
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuModuleUnload(CUmodule module)
{
    dlclose(module->library);
    free(module);
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    char size_name[128];
    snprintf(size_name, sizeof size_name, "%s_args_bytes", name);
    void *run = dlsym(module->library, name);
    const size_t *bytes = dlsym(module->library, size_name);
    void *runtime = dlsym(module->library, "tp_fake");
    if (!run || !bytes || !runtime) return CUDA_ERROR_NOT_FOUND;
    struct CUfunc_st *f = calloc(1, sizeof *f);
    if (!f) return CUDA_ERROR_OUT_OF_MEMORY;
    snprintf(f->name, sizeof f->name, "%s", name);
    memcpy(&f->run, &run, sizeof run);
    f->args_bytes = *bytes;
    f->runtime = runtime;
    f->has_barriers = module->has_barriers;
    *function = f; /* as long as the process: modules are, too */
    return CUDA_SUCCESS;
}
