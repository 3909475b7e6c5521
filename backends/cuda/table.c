/* The libraries and their functions. Nothing of CUDA is linked, so that this module loads
 * everywhere and can say what is missing. */
#include "cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The headers' names stand for versioned ones: expand, then quote. */
#define QUOTE_(name) #name
#define QUOTE(name) QUOTE_(name)

typedef struct row {
    tp_cuda_library library;
    const char *name;
    size_t offset; /* in tp_cuda_api */
    bool needed;
} row;
static const row rows[] = {
#define FUNCTION(LIBRARY, name, needed)                                                            \
    {TP_CUDA_##LIBRARY, QUOTE(name), offsetof(tp_cuda_api, name), needed},
#include "functions.def"
};

#define MAJOR QUOTE(TP_CUDA_MAJOR)
static const char *const file_names[TP_CUDA_LIBRARY_COUNT] = {
    [TP_CUDA_DRIVER] = "libcuda.so.1",
    [TP_CUDA_NVRTC] = "libnvrtc.so." MAJOR,
    [TP_CUDA_BLAS] = "libcublas.so." MAJOR,
    [TP_CUDA_BLAS_LT] = "libcublasLt.so." MAJOR};

static void *open_file(tp_cuda_library library, char *why, size_t size)
{
    const char *name = file_names[library], *all = getenv("TP_CUDA_LIB"),
               *folder = getenv("TP_CUDA_LIB_DIR");
    char path[2][1200];
    snprintf(path[0], sizeof path[0], "%s/%s", folder ? folder : ".", name);
    snprintf(path[1], sizeof path[1], "%s/%s", TP_CUDA_TOOLKIT_FOLDER, name);
    const char *places[] = {all ? all : folder ? path[0] : name, name, path[1]};
    void *file = NULL;
    for (int i = 0; i < (all ? 1 : 3) && !file; i++)
        file = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
    if (!file) snprintf(why, size, "%s is not there: %s", all ? all : name, dlerror());
    return file;
}

bool tp_cuda_open_library(tp_cuda_library library, tp_cuda_api *api, char *why, size_t size)
{
    void *file = open_file(library, why, size);
    if (!file) return false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].library != library) continue;
        void *function = dlsym(file, rows[i].name);
        if (!function && rows[i].needed) {
            snprintf(why, size, "%s has no %s", file_names[library], rows[i].name);
            dlclose(file);
            return false;
        }
        memcpy((char *)api + rows[i].offset, &function, sizeof function);
    }
    return true;
}
