/* The CUDA backend's runtime on the fake device: what moves and when, repeated plans as graphs,
 * failures of every kind, the cache of kernels, and what is said where there is no device. */
#include "tests/cuda/device.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static tp_tensor *ramp(tp_graph *g, int64_t n)
{
    tp_tensor *x = tp_arange(g, TP_F32, 0, 1, n);
    cr_assert_eq(tp_eval(x), TP_OK, "%s", tp_graph_error(g)->text);
    return x;
}

static const float numbers[6] = {1, 2, 3, 4, 5, 6};

Test(runtime, leaves_go_up_once_and_results_come_down_when_read)
{
    tp_graph *g = cuda_graph();
    tp_tensor *x = tp_from_data(g, TP_F32, TP_DIMS(2, 3), numbers);
    tp_tensor *y = tp_exp(tp_transpose(x, 0, 1)), *z = tp_add(x, x);
    cr_assert_eq(tp_eval(y), TP_OK, "%s", tp_graph_error(g)->text);
    cr_assert_eq(tp_eval(z), TP_OK);
    cr_expect_eq(fake_count().up, 1);
    cr_expect_eq(fake_count().down, 0);
    cr_expect_eq(tp_item(z, 5), 12);
    cr_expect_eq(((const float *)tp_data(z))[0], 2);
    cr_expect_eq(fake_count().down, 1);
    tp_graph_destroy(g);
    cr_expect_eq(fake_count().allocations, 0, "%ld allocations are left", fake_count().allocations);
}

Test(runtime, a_move_is_a_row_of_the_ledger)
{
    tp_graph *g = cuda_graph();
    tp_tensor *x = tp_from_data(g, TP_F32, TP_DIMS(2, 3), numbers), *y = tp_neg(x);
    for (int run = 0; run < 2; run++) {
        tp_tensor *asked = run ? tp_abs(x) : y;
        tp_plan *plan = tp_plan_create(g, 1, &asked, NULL);
        tp_plan_summary sum = tp_plan_summarize(plan);
        cr_expect_eq(sum.moves, !run);
        cr_expect_eq(sum.device_moved_bytes, run ? 0 : 24);
        cr_expect_eq(sum.copies, 0);
        if (!run) cr_expect_eq(tp_plan_copy(plan, 0).reason, TP_REASON_DEVICE_MOVE);
        cr_assert_eq(tp_plan_run(plan), TP_OK);
        tp_plan_release(plan);
    }
    cr_assert_eq(tp_graph_set_backend(g, "cpu"), TP_OK);
    tp_tensor *back = tp_mul(y, y);
    tp_plan *plan = tp_plan_create(g, 1, &back, NULL);
    cr_expect_eq(tp_plan_summarize(plan).moves, 1);
    cr_assert_eq(tp_plan_run(plan), TP_OK);
    cr_expect_eq(tp_item(back, 2), 9);
    tp_plan_release(plan);
    tp_graph_destroy(g);
}

Test(runtime, touched_and_bound_leaves_go_up_again)
{
    tp_graph *g = cuda_graph();
    float mine[4] = {1, 2, 3, 4};
    tp_tensor *x = tp_wrap(g, TP_F32, TP_DIMS(4), NULL, 0, mine, sizeof mine, NULL, NULL);
    tp_tensor *y = tp_neg(x);
    cr_assert_eq(tp_eval(y), TP_OK);
    mine[2] = 30;
    cr_assert_eq(tp_touch(x), TP_OK);
    cr_assert_eq(tp_eval(y), TP_OK);
    cr_expect_eq(tp_item(y, 2), -30);
    tp_graph_destroy(g);
}

Test(runtime, a_repeated_plan_is_one_graph)
{
    tp_graph *g = cuda_graph();
    tp_tensor *x = ramp(g, 1000),
              *y = tp_sum(tp_mul(tp_exp(tp_mul(x, tp_num(x, 0.001))), x), -1, NULL, false);
    tp_tensor *w =
        tp_add(tp_matmul(tp_reshape(x, TP_DIMS(20, 50)), tp_reshape(x, TP_DIMS(50, 20))), y);
    tp_plan *plan = tp_plan_create(g, 1, &w, NULL);
    cr_assert_eq(tp_plan_run(plan), TP_OK, "%s", tp_graph_error(g)->text);
    double first = tp_item(w, 7);
    for (int i = 0; i < 8; i++) {
        long launches = fake_count().launches, graphs = fake_count().graphs;
        cr_assert_eq(tp_plan_run(plan), TP_OK, "%s", tp_graph_error(g)->text);
        cr_expect_eq(tp_item(w, 7), first);
        if (i < 6) continue; /* by then each set of addresses has its graph */
        cr_expect_eq(fake_count().graphs, graphs + 1);
        cr_expect_eq(fake_count().launches, launches);
    }
    tp_plan_release(plan);
    tp_graph_destroy(g);
    cr_expect_eq(fake_count().allocations, 0);
}

/* Fault 17: two plans have graphs; one goes, the other still has what it works in. */
Test(runtime, graphs_do_not_share_what_they_work_in)
{
    tp_graph *g = cuda_graph();
    tp_tensor *x = ramp(g, 400), *m = tp_reshape(x, TP_DIMS(20, 20));
    tp_tensor *a = tp_matmul(m, m), *b = tp_matmul(tp_transpose(m, 0, 1), m);
    tp_plan *one = tp_plan_create(g, 1, &a, NULL), *two = tp_plan_create(g, 1, &b, NULL);
    for (int i = 0; i < 6; i++) {
        cr_assert_eq(tp_plan_run(one), TP_OK);
        cr_assert_eq(tp_plan_run(two), TP_OK);
    }
    double want = tp_item(b, 3);
    tp_plan_release(one);
    for (int i = 0; i < 4; i++) cr_assert_eq(tp_plan_run(two), TP_OK);
    cr_expect_eq(tp_item(b, 3), want);
    tp_plan_release(two);
    tp_graph_destroy(g);
}

Test(runtime, a_profile_has_times)
{
    tp_graph *g = cuda_graph();
    tp_tensor *x = ramp(g, 1000), *y = tp_softmax(tp_reshape(x, TP_DIMS(10, 100)), 1);
    tp_plan *plan = tp_plan_create(g, 1, &y, &(tp_eval_options){.profile = true});
    cr_assert_eq(tp_plan_run(plan), TP_OK);
    char text[2000];
    tp_plan_text(plan, text, sizeof text);
    cr_expect(strstr(text, " us") || strstr(text, " ms"), "%s", text);
    tp_plan_release(plan);
    tp_graph_destroy(g);
}

/* ---- Failures
 * ------------------------------------------------------------------------------------ */

static tp_tensor *work(tp_graph *g)
{
    tp_tensor *x = tp_from_data(g, TP_F32, TP_DIMS(2, 3), numbers);
    tp_tensor *p = tp_matmul(x, tp_transpose(x, 0, 1));
    return tp_add(tp_softmax(p, 1), tp_sum(tp_sort(tp_exp(x), 1, false), -1, NULL, false));
}

Test(runtime, each_allocation_fails_in_turn)
{
    int failures = 0;
    for (long n = 1; n < 40; n++) {
        tp_graph *g = cuda_graph();
        tp_tensor *y = work(g);
        fake_fail("tp_fake_fail_alloc", n);
        tp_status status = tp_eval(y);
        fake_fail("tp_fake_fail_alloc", 0);
        /* A pool that is full is emptied and asked once more: every other failure is none. */
        if (status != TP_OK) {
            failures++;
            cr_expect_eq(status, TP_E_NOMEM, "%ld: %s", n, tp_graph_error(g)->text);
            cr_expect(strstr(tp_graph_error(g)->text, "CUDA_ERROR_OUT_OF_MEMORY"), "%s",
                      tp_graph_error(g)->text);
            cr_expect(!tp_is_evaluated(y));
        }
        cr_assert_eq(tp_eval(y), TP_OK, "%ld: afterwards it runs: %s", n, tp_graph_error(g)->text);
        tp_graph_destroy(g);
        cr_assert_eq(fake_count().allocations, 0, "%ld", n);
    }
    cr_expect_eq(failures, 0, "one failure is made up for by a second try");
}

Test(runtime, a_device_that_is_full_says_so)
{
    tp_graph *g = cuda_graph();
    tp_tensor *x = tp_expand(tp_scalar(g, TP_F32, 1), TP_DIMS(1 << 20, 1 << 10));
    tp_tensor *y = tp_exp(tp_add(x, tp_arange(g, TP_F32, 0, 1, 1 << 10)));
    cr_expect_eq(tp_eval(y), TP_E_NOMEM);
    cr_expect(strstr(tp_graph_error(g)->text, "4294967296 bytes are not to be had: "), "%s",
              tp_graph_error(g)->text);
    tp_tensor *z = work(g);
    cr_expect_eq(tp_eval(z), TP_OK);
    tp_graph_destroy(g);
    cr_expect_eq(fake_count().allocations, 0);
}

Test(runtime, each_launch_fails_in_turn)
{
    int failures = 0;
    for (long n = 1; n < 12; n++) {
        tp_graph *g = cuda_graph();
        tp_tensor *y = work(g);
        fake_fail("tp_fake_fail_launch", n);
        tp_status status = tp_eval(y);
        fake_fail("tp_fake_fail_launch", 0);
        if (status != TP_OK) {
            failures++;
            cr_expect_eq(status, TP_E_DEVICE, "%ld: %s", n, tp_graph_error(g)->text);
            cr_expect(strstr(tp_graph_error(g)->text, ": cuLaunchKernel gives "), "%s",
                      tp_graph_error(g)->text);
        }
        cr_assert_eq(tp_eval(y), TP_OK, "%s", tp_graph_error(g)->text);
        tp_graph_destroy(g);
    }
    cr_expect_geq(failures, 4);
    cr_expect_eq(fake_count().allocations, 0);
}

Test(runtime, a_lost_device_stays_lost_and_nothing_dies)
{
    tp_graph *g = cuda_graph();
    tp_tensor *x = ramp(g, 100), *y = tp_exp(x), *z = tp_neg(x);
    fake_lose();
    cr_expect_eq(tp_eval(y), TP_E_DEVICE);
    cr_expect(strstr(tp_graph_error(g)->text, "the device is lost to this process"), "%s",
              tp_graph_error(g)->text);
    cr_expect_eq(tp_eval(z), TP_E_DEVICE);
    tp_graph_clear_error(g);
    cr_expect_null(tp_data(x), "its bytes were on the device only");
    cr_expect_eq(tp_graph_error(g)->status, TP_E_DEVICE);
    tp_graph *host = tp_graph_create(NULL);
    tp_tensor *w = tp_exp(tp_arange(host, TP_F32, 0, 1, 4));
    cr_expect_eq(tp_eval(w), TP_OK, "the CPU goes on");
    tp_graph_destroy(host);
    tp_graph_destroy(g);
}

/* ---- The cache
 * ------------------------------------------------------------------------------------- */

static int compile_twice(const char *folder, double *value)
{
    /* A process of its own: the first has the kernel in memory. */
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        setenv("TP_CACHE_DIR", folder, 1);
        tp_graph *g = tp_graph_create(NULL);
        double got = -1;
        if (tp_graph_set_backend(g, "cuda") == TP_OK) {
            tp_tensor *y = tp_exp(tp_from_data(g, TP_F32, TP_DIMS(2, 3), numbers));
            if (tp_eval(y) == TP_OK) got = tp_item(y, 0);
        }
        ssize_t written = write(ends[1], &got, sizeof got);
        _exit(written == (ssize_t)sizeof got ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ssize_t got = read(ends[0], value, sizeof *value);
    close(ends[0]);
    close(ends[1]);
    return got == (ssize_t)sizeof *value && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int each_file(const char *folder, void (*change)(const char *path))
{
    DIR *d = opendir(folder);
    int count = 0;
    if (!d) return 0;
    for (struct dirent *e; (e = readdir(d));) {
        char path[700];
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (change) change(path);
        count++;
    }
    closedir(d);
    return count;
}

static void cut_off(const char *path)
{
    cr_assert_eq(truncate(path, 100), 0);
}
static void turn_a_bit(const char *path)
{
    FILE *file = fopen(path, "r+b");
    cr_assert(file);
    fseek(file, -1000, SEEK_END);
    int c = fgetc(file);
    fseek(file, -1, SEEK_CUR);
    fputc(c ^ 1, file);
    fclose(file);
}
static void fill_with_noise(const char *path)
{
    FILE *file = fopen(path, "wb");
    cr_assert(file);
    for (int i = 0; i < 5000; i++) fputc(i * 37 & 255, file);
    fclose(file);
}
static void drop(const char *path)
{
    unlink(path);
}

Test(runtime, a_bad_file_in_the_cache_is_as_none)
{
    char folder[] = "/tmp/tp_cache_XXXXXX";
    cr_assert(mkdtemp(folder));
    void (*const changes[])(const char *) = {NULL, cut_off, turn_a_bit, fill_with_noise, drop};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        double value = 0;
        if (changes[i]) each_file(folder, changes[i]);
        cr_expect_eq(compile_twice(folder, &value), 0);
        cr_expect_float_eq(value, 2.7182818, 1e-6, "change %zu: %g", i, value);
        cr_expect_eq(each_file(folder, NULL), 1, "one kernel, one whole file");
    }
    each_file(folder, drop);
    rmdir(folder);
}

Test(runtime, a_cache_that_cannot_be_written_is_none)
{
    double value = 0;
    cr_expect_eq(compile_twice("/proc/nowhere", &value), 0);
    cr_expect_float_eq(value, 2.7182818, 1e-6);
    cr_expect_eq(compile_twice("", &value), 0);
    cr_expect_float_eq(value, 2.7182818, 1e-6);
}

/* ---- No device
 * ---------------------------------------------------------------------------------------- */

static void expect_unavailable(const char *why)
{
    tp_graph *g = tp_graph_create(NULL);
    cr_expect_eq(tp_graph_set_backend(g, "cuda"), TP_E_UNAVAILABLE);
    cr_expect(strstr(tp_graph_error(g)->text, why), "%s, not: %s", tp_graph_error(g)->text, why);
    tp_tensor *y = tp_neg(tp_scalar(g, TP_F32, 1));
    cr_expect_eq(tp_eval(y), TP_OK, "the default backend stays");
    tp_graph_destroy(g);
    char line[600];
    tp_describe_backend("cuda", line, sizeof line);
    cr_expect(strstr(line, "cuda is not available: ") == line, "%s", line);
}

Test(runtime, no_device)
{
    setenv("TP_FAKE_INIT_ERROR", "100", 1);
    expect_unavailable("cuInit gives 100, CUDA_ERROR_NO_DEVICE");
}
Test(runtime, a_driver_that_is_too_old)
{
    setenv("TP_FAKE_INIT_ERROR", "35", 1);
    expect_unavailable("cuInit gives 35");
}
Test(runtime, a_stub_library)
{
    setenv("TP_FAKE_INIT_ERROR", "34", 1);
    expect_unavailable("cuInit gives 34, CUDA_ERROR_STUB_LIBRARY");
}
Test(runtime, a_device_number_that_is_not_there)
{
    setenv("TP_CUDA_DEVICE", "3", 1);
    expect_unavailable("there is no device 3: the driver has 1");
}
Test(runtime, a_library_that_is_not_there)
{
    setenv("TP_CUDA_LIB", "/nowhere/libcuda.so", 1);
    expect_unavailable("/nowhere/libcuda.so is not there");
}
Test(runtime, a_module_that_is_not_there)
{
    setenv("TP_BACKEND_DIR", "/nowhere", 1);
    tp_graph *g = tp_graph_create(NULL);
    /* It is looked for beside the library as well. */
    tp_status status = tp_graph_set_backend(g, "cuda");
    cr_expect(status == TP_OK ||
              strstr(tp_graph_error(g)->text, "this build has no libtp_cuda.so"));
    tp_graph_destroy(g);
}
