/* The fake device itself: what it must catch, it catches. The calls are the driver's, cuBLAS's and
 * NVRTC's own, found in the library as the backend finds them. */
#include "tests/cuda/device.h"

#include <cublas_v2.h>
#include <cuda.h>
#include <nvrtc.h>

#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUOTE_(name) #name
#define QUOTE(name) QUOTE_(name)
/* The function of the library, by the name that the headers give it. */
#define CALL(name, ...) ((__typeof__(&name))find(QUOTE(name)))(__VA_ARGS__)

static void *find(const char *name)
{
    static void *library;
    if (!library) library = dlopen(TP_BUILD_FOLDER "/libtpfakecuda.so", RTLD_NOW);
    cr_assert(library, "%s", dlerror());
    void *function = dlsym(library, name);
    cr_assert(function, "the fake has no %s", name);
    return function;
}

static CUdeviceptr alloc(size_t bytes)
{
    CUdeviceptr p = 0;
    cr_assert_eq(CALL(cuMemAllocFromPoolAsync, &p, bytes, NULL, NULL), CUDA_SUCCESS);
    return p;
}

static CUresult wait_for_work(void)
{
    return CALL(cuStreamSynchronize, NULL);
}

static void up(CUdeviceptr to, const void *from, size_t bytes)
{
    cr_assert_eq(CALL(cuMemcpyHtoDAsync, to, from, bytes, NULL), CUDA_SUCCESS);
    cr_assert_eq(wait_for_work(), CUDA_SUCCESS);
}

static void down(void *to, CUdeviceptr from, size_t bytes)
{
    cr_assert_eq(CALL(cuMemcpyDtoHAsync, to, from, bytes, NULL), CUDA_SUCCESS);
    cr_assert_eq(wait_for_work(), CUDA_SUCCESS);
}

/* ---- Memory ------------------------------------------------------------------------------------
 */

Test(fake, the_host_cannot_read_device_memory)
{
    CUdeviceptr p = alloc(64);
    cr_assert_eq(wait_for_work(), CUDA_SUCCESS);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        volatile char *at = (volatile char *)(uintptr_t)p;
        _exit(at[0] == 0 ? 1 : 2);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "it could: %d", status);
}

Test(fake, fresh_memory_is_poison_and_addresses_are_aligned)
{
    CUdeviceptr a = alloc(10), b = alloc(1000);
    unsigned char bytes[1000];
    down(bytes, b, sizeof bytes);
    cr_expect_eq(a % 256, 0);
    cr_expect_eq(b % 256, 0);
    for (int i = 0; i < 1000; i++) cr_assert_eq(bytes[i], 0xFF);
}

Test(fake, moves_stay_inside_one_allocation)
{
    CUdeviceptr a = alloc(100);
    char bytes[200] = {0};
    cr_assert_eq(CALL(cuMemcpyHtoDAsync, a, bytes, 101, NULL), CUDA_SUCCESS);
    cr_expect_eq(wait_for_work(), CUDA_ERROR_ILLEGAL_ADDRESS);
    cr_expect_eq(wait_for_work(), CUDA_ERROR_ILLEGAL_ADDRESS, "and stays so");
}

Test(fake, freed_memory_is_not_to_be_used)
{
    CUdeviceptr a = alloc(100);
    char bytes[100] = {0};
    up(a, bytes, sizeof bytes);
    cr_assert_eq(CALL(cuMemFreeAsync, a, NULL), CUDA_SUCCESS);
    cr_assert_eq(CALL(cuMemcpyDtoHAsync, bytes, a, sizeof bytes, NULL), CUDA_SUCCESS);
    cr_expect_eq(wait_for_work(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* Nothing runs before something waits: a source that changes too early is seen. */
Test(fake, work_is_deferred)
{
    CUdeviceptr a = alloc(4);
    int value = 1, got = 0;
    cr_assert_eq(CALL(cuMemcpyHtoDAsync, a, &value, 4, NULL), CUDA_SUCCESS);
    value = 2;
    down(&got, a, 4);
    cr_expect_eq(got, 2);
}

/* ---- Kernels ------------------------------------------------------------------------------------
 */

/* Modules stay until the process ends, as the backend's do. */
static CUmodule modules[16];
static CUfunction functions[16];
static int module_count;

static CUfunction compile(const char *text, const char *name)
{
    nvrtcProgram program;
    CUmodule module;
    CUfunction function = NULL;
    size_t bytes = 0;
    cr_assert_eq(CALL(nvrtcCreateProgram, &program, text, "test", 0, NULL, NULL), NVRTC_SUCCESS);
    if (CALL(nvrtcCompileProgram, program, 0, NULL) == NVRTC_SUCCESS) {
        cr_assert_eq(CALL(nvrtcGetCUBINSize, program, &bytes), NVRTC_SUCCESS);
        char *cubin = malloc(bytes);
        cr_assert_eq(CALL(nvrtcGetCUBIN, program, cubin), NVRTC_SUCCESS);
        cr_assert_eq(CALL(cuModuleLoadData, &module, cubin), CUDA_SUCCESS);
        cr_assert_eq(CALL(cuModuleGetFunction, &function, module, name), CUDA_SUCCESS);
        free(cubin);
    }
    CALL(nvrtcDestroyProgram, &program);
    if (!function) return NULL;
    cr_assert_lt(module_count, 16);
    modules[module_count] = module;
    return functions[module_count++] = function;
}

static CUresult launch(CUfunction f, unsigned blocks, unsigned threads, void *args, size_t bytes)
{
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, args, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    return CALL(cuLaunchKernel, f, blocks, 1, 1, threads, 1, 1, 0, NULL, NULL, extra);
}

typedef struct args {
    CUdeviceptr x;
    int64_t n;
} args;
#define BEGIN "typedef struct Args { int32_t *x; int64_t n; } Args;\nTP_KERNEL(k, Args)\n{\n"

/* Each block turns its stretch round through shared memory; without the barrier a thread reads what
 * no other has written yet. */
static bool turns_round(const char *barrier)
{
    char text[600];
    snprintf(text, sizeof text,
             BEGIN "    TP_SHARED(int32_t, s, 64);\n    int64_t at = tp_block_x * 64;\n"
                   "    s[tp_thread_x] = arg.x[at + tp_thread_x];\n    %s\n"
                   "    arg.x[at + tp_thread_x] = s[63 - tp_thread_x];\n}\n",
             barrier);
    int32_t data[128];
    for (int i = 0; i < 128; i++) data[i] = i;
    args a = {alloc(sizeof data), 128};
    up(a.x, data, sizeof data);
    cr_assert_eq(launch(compile(text, "k"), 2, 64, &a, sizeof a), CUDA_SUCCESS);
    down(data, a.x, sizeof data);
    bool right = true;
    for (int i = 0; i < 128; i++) right = right && data[i] == i / 64 * 64 + 63 - i % 64;
    return right;
}

Test(fake, a_missing_barrier_shows)
{
    static const char *const orders[] = {"", "reverse", "5"};
    for (int i = 0; i < 3; i++) {
        setenv("TP_FAKE_ORDER", orders[i], 1);
        cr_expect(turns_round("tp_sync();"), "order %s", orders[i]);
        cr_expect(!turns_round(""), "order %s", orders[i]);
    }
}

static CUresult run(const char *body, unsigned threads)
{
    char text[600];
    snprintf(text, sizeof text, BEGIN "%s\n}\n", body);
    args a = {alloc(4096), 1024};
    CUfunction f = compile(text, "k");
    cr_assert(f, "%s", body);
    CUresult result = launch(f, 1, threads, &a, sizeof a);
    return result == CUDA_SUCCESS ? wait_for_work() : result;
}

Test(fake, a_barrier_that_some_threads_miss_is_a_fault)
{
    cr_expect_eq(run("if (tp_thread_x < 40) tp_sync();", 64), CUDA_ERROR_LAUNCH_FAILED);
    cr_expect(strstr(fake_calls(), "40 of 64 threads wait"), "%s", fake_calls());
}

Test(fake, a_shuffle_in_part_of_a_warp_is_a_fault)
{
    cr_expect_eq(run("if (tp_thread_x % 2) arg.x[0] = (int32_t)tp_shfl_xor_u32(1, 1);", 32),
                 CUDA_ERROR_LAUNCH_FAILED);
}

Test(fake, an_address_outside_all_memory_is_a_fault)
{
    cr_expect_eq(run("arg.x[(int64_t)1 << 40] = 1;", 1), CUDA_ERROR_ILLEGAL_ADDRESS);
}

Test(fake, a_misaligned_vector_is_a_fault)
{
    cr_expect_eq(run("tp_store_16(arg.x + 1, tp_load_16(arg.x));", 1), CUDA_ERROR_ILLEGAL_ADDRESS);
}

Test(fake, a_write_behind_a_block_shows_when_it_is_freed)
{
    CUfunction f = compile(BEGIN "    arg.x[1024] = 1;\n}\n", "k");
    args a = {alloc(4096), 0};
    cr_assert_eq(launch(f, 1, 1, &a, sizeof a), CUDA_SUCCESS);
    cr_assert_eq(wait_for_work(), CUDA_SUCCESS);
    cr_assert_eq(CALL(cuMemFreeAsync, a.x, NULL), CUDA_SUCCESS);
    cr_expect_eq(wait_for_work(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

Test(fake, launches_have_the_drivers_limits)
{
    CUfunction f = compile(BEGIN "    arg.x[0] = 1;\n}\n", "k");
    args a = {alloc(4096), 0};
    cr_expect_eq(launch(f, 1, 1025, &a, sizeof a), CUDA_ERROR_INVALID_VALUE);
    cr_expect_eq(launch(f, 0, 1, &a, sizeof a), CUDA_ERROR_INVALID_VALUE);
    cr_expect_eq(launch(f, 1, 1, &a, 8), CUDA_ERROR_INVALID_VALUE, "arguments of another size");
    cr_expect_eq(launch(f, 1, 1, &a, sizeof a), CUDA_SUCCESS);
    cr_expect_null(compile(BEGIN "    this is no C\n}\n", "k"));
}

/* mma.sync: 16 x 16 by 16 x 8, fragments laid out as the PTX manual says. */
Test(fake, a_warp_multiplies_tiles)
{
    CUfunction f =
        compile("typedef struct Args { float *c; const uint16_t *a, *b; } Args;\n"
                "TP_KERNEL(k, Args)\n{\n"
                "    int g = tp_thread_x / 4, i = tp_thread_x % 4;\n"
                "    float c[4] = {0, 0, 0, 0};\n    uint32_t a[4], b[2];\n"
                "    for (int r = 0; r < 4; r++) {\n"
                "        const uint16_t *at = arg.a + (g + r % 2 * 8) * 16 + i * 2 + r / 2 * 8;\n"
                "        a[r] = at[0] | (uint32_t)at[1] << 16;\n    }\n"
                "    for (int r = 0; r < 2; r++) {\n"
                "        const uint16_t *at = arg.b + (i * 2 + r * 8) * 8 + g;\n"
                "        b[r] = at[0] | (uint32_t)at[8] << 16;\n    }\n"
                "    tp_mma_16816_bf16(c, a, b);\n"
                "    for (int r = 0; r < 4; r++)\n"
                "        arg.c[(g + r / 2 * 8) * 8 + i * 2 + r % 2] = c[r];\n}\n",
                "k");
    uint16_t a[256], b[128];
    float c[128];
    /* small integers are exact in bf16: their bits are the upper half of the float's */
    for (int i = 0; i < 256; i++) {
        float x = (float)(i * 7 % 11 - 5);
        uint32_t bits;
        memcpy(&bits, &x, 4);
        a[i] = (uint16_t)(bits >> 16);
        if (i < 128) {
            x = (float)(i * 5 % 13 - 6);
            memcpy(&bits, &x, 4);
            b[i] = (uint16_t)(bits >> 16);
        }
    }
    struct {
        CUdeviceptr c, a, b;
    } arg = {alloc(sizeof c), alloc(sizeof a), alloc(sizeof b)};
    up(arg.a, a, sizeof a);
    up(arg.b, b, sizeof b);
    cr_assert_eq(launch(f, 1, 32, &arg, sizeof arg), CUDA_SUCCESS);
    down(c, arg.c, sizeof c);
    for (int r = 0; r < 16; r++) {
        for (int n = 0; n < 8; n++) {
            int want = 0;
            for (int k = 0; k < 16; k++)
                want += ((r * 16 + k) * 7 % 11 - 5) * ((k * 8 + n) * 5 % 13 - 6);
            cr_assert_eq(c[r * 8 + n], (float)want, "%d %d", r, n);
        }
    }
}

/* ---- cuBLAS
 * ---------------------------------------------------------------------------------------- */

static cublasStatus_t multiply(int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb,
                               int64_t ldc, long long stride_c, int64_t batch)
{
    static CUdeviceptr a, b, c;
    float one = 1, zero = 0;
    if (!a) {
        a = alloc(4 * 64);
        b = alloc(4 * 64);
        c = alloc(4 * 64);
    }
    return CALL(cublasGemmStridedBatchedEx_64, NULL, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one,
                (void *)(uintptr_t)a, CUDA_R_32F, lda, 0, (void *)(uintptr_t)b, CUDA_R_32F, ldb, 0,
                &zero, (void *)(uintptr_t)c, CUDA_R_32F, ldc, stride_c, batch, CUBLAS_COMPUTE_32F,
                CUBLAS_GEMM_DEFAULT);
}

Test(fake, products_keep_the_librarys_rules)
{
    cr_expect_eq(multiply(4, 4, 4, 4, 4, 4, 16, 2), CUBLAS_STATUS_SUCCESS);
    cr_expect_eq(multiply(4, 4, 4, 3, 4, 4, 16, 2), CUBLAS_STATUS_INVALID_VALUE, "lda");
    cr_expect_eq(multiply(4, 4, 4, 4, 3, 4, 16, 2), CUBLAS_STATUS_INVALID_VALUE, "ldb");
    cr_expect_eq(multiply(4, 4, 4, 4, 4, 3, 16, 2), CUBLAS_STATUS_INVALID_VALUE, "ldc");
    cr_expect_eq(multiply(-1, 4, 4, 4, 4, 4, 16, 2), CUBLAS_STATUS_INVALID_VALUE, "m");
    cr_expect_eq(multiply(4, 4, 4, 4, 4, 4, 0, 2), CUBLAS_STATUS_INVALID_VALUE, "results coincide");
    cr_expect_eq(multiply(4, 4, 4, 4, 4, 4, 3, 2), CUBLAS_STATUS_INVALID_VALUE, "results overlap");
    cr_expect_eq(multiply(4, 4, 4, 4, 4, 8, 4, 2), CUBLAS_STATUS_SUCCESS, "results side by side");
    cr_expect_eq(wait_for_work(), CUDA_SUCCESS);
    cr_expect_eq(multiply(8, 9, 1, 8, 1, 8, 0, 1), CUBLAS_STATUS_SUCCESS);
    cr_expect_eq(wait_for_work(), CUDA_ERROR_ILLEGAL_ADDRESS, "72 elements in room for 64");
}
