/* Saving .npy: the bytes written, and what lies in the folder after success and failure. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/graph.h"

static char folder[64], path[96];

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/tp_npy_XXXXXX");
    cr_assert(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.npy", folder);
}

/* Number of entries; removes them and the folder if asked. */
static int entries(bool clear)
{
    int count = 0;
    DIR *d = opendir(folder);
    cr_assert(d);
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        char name[512];
        snprintf(name, sizeof name, "%s/%s", folder, e->d_name);
        count++;
        if (clear) remove(name);
    }
    closedir(d);
    if (clear) rmdir(folder);
    return count;
}

static size_t read_file(void *to, size_t size)
{
    FILE *f = fopen(path, "rb");
    cr_assert(f);
    size_t n = fread(to, 1, size, f);
    fclose(f);
    return n;
}

Test(npy, written_bytes)
{
    make_folder();
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *x = tp_from_data(g, TP_U16, TP_DIMS(3), (const uint16_t[]){1, 2, 0xFFFF});
    cr_assert_eq(tp_save_npy(x, path), TP_OK);
    unsigned char file[256];
    size_t n = read_file(file, sizeof file);
    const char *header = "{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }";
    cr_expect_eq(n, 128 + 6);
    cr_expect_arr_eq(file, "\x93NUMPY\x01\x00\x76\x00", 10);
    cr_expect_arr_eq(file + 10, header, strlen(header));
    cr_expect_eq(file[127], '\n', "the data begins at a multiple of 64");
    cr_expect_arr_eq(file + 128, ((const uint16_t[]){1, 2, 0xFFFF}), 6);
    /* Every rank; the largest header. */
    for (int rank = 0; rank <= TP_MAX_RANK; rank++) {
        int64_t shape[TP_MAX_RANK];
        for (int d = 0; d < rank; d++) shape[d] = d == 3 ? 0 : INT64_C(1000000000) + d;
        if (rank <= 3)
            for (int d = 0; d < rank; d++) shape[d] = d + 1;
        tp_tensor *y = tp_full(g, TP_F64, rank, shape, 1);
        cr_assert(y, "%s", tp_graph_error(g)->text);
        cr_assert_eq(tp_eval(y), TP_OK);
        cr_assert_eq(tp_save_npy(y, path), TP_OK);
        tp_tensor *z = tp_load_npy(g, path);
        cr_assert(z, "rank %d: %s", rank, tp_graph_error(g)->text);
        tp_view a = tp_view_of(y), b = tp_view_of(z);
        cr_expect(tp_view_same_shape(&a, &b), "rank %d", rank);
        struct stat info;
        cr_assert_eq(stat(path, &info), 0);
        cr_expect_eq((info.st_size - (off_t)tp_numel(y) * 8) % 64, 0, "rank %d", rank);
    }
    cr_expect_eq(entries(true), 1, "no temporary stays");
    tp_graph_destroy(g);
}

Test(npy, results_that_lie_otherwise_are_written_in_c_order)
{
    make_folder();
    tp_graph *g = tp_graph_create(NULL);
    static int32_t data[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    static uint8_t bools[4] = {0, 1, 2, 255};
    const struct {
        int64_t strides[2], offset;
    } lies[] = {{{4, 1}, 0}, {{1, 4}, 0}, {{-4, -1}, 11}, {{0, 1}, 2}, {{4, 1}, 5}};
    for (size_t i = 0; i < 5; i++) {
        int64_t shape[] = {i == 1 ? 4 : i == 4 ? 1 : 3, i == 1 ? 3 : 4};
        tp_tensor *x = tp_wrap(g, TP_I32, 2, shape, lies[i].strides, lies[i].offset, data,
                               sizeof data, NULL, NULL);
        cr_assert(x, "%s", tp_graph_error(g)->text);
        cr_assert_eq(tp_save_npy(x, path), TP_OK);
        tp_tensor *y = tp_load_npy(g, path);
        cr_assert(y);
        for (int64_t k = 0; k < tp_numel(x); k++)
            cr_expect_eq(tp_item(x, k), tp_item(y, k), "case %zu at %lld", i, (long long)k);
    }
    tp_tensor *b = tp_wrap(g, TP_BOOL, TP_DIMS(4), NULL, 0, bools, 4, NULL, NULL);
    cr_assert_eq(tp_save_npy(b, path), TP_OK);
    unsigned char file[256];
    size_t n = read_file(file, sizeof file);
    cr_expect_arr_eq(file + n - 4, ((const uint8_t[]){0, 1, 1, 1}), 4, "NumPy knows 0 and 1 only");
    cr_expect_arr_eq(bools, ((const uint8_t[]){0, 1, 2, 255}), 4, "the user's bytes stay");
    cr_expect_eq(entries(true), 1);
    tp_graph_destroy(g);
}

Test(npy, a_failed_save_leaves_the_old_file_and_nothing_else)
{
    make_folder();
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *small = tp_arange(g, TP_F32, 0, 1, 4), *large = tp_arange(g, TP_F32, 0, 1, 1 << 16);
    cr_assert(tp_eval(small) == TP_OK && tp_eval(large) == TP_OK);
    cr_assert_eq(tp_save_npy(small, path), TP_OK);
    /* The disk is full after 64 KiB. */
    struct rlimit limit, old;
    getrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_IGN);
    limit = old;
    limit.rlim_cur = 65536;
    setrlimit(RLIMIT_FSIZE, &limit);
    tp_status status = tp_save_npy(large, path);
    setrlimit(RLIMIT_FSIZE, &old);
    cr_expect_eq(status, TP_E_FILE);
    cr_expect(strstr(tp_graph_error(g)->text, "cannot write: File too large"), "%s",
              tp_graph_error(g)->text);
    tp_graph_clear_error(g);
    cr_expect_eq(entries(false), 1, "the temporary is gone");
    tp_tensor *y = tp_load_npy(g, path);
    cr_expect(y && tp_numel(y) == 4, "the old file is whole");
    /* The name belongs to a folder. */
    char name[128];
    snprintf(name, sizeof name, "%s/folder.npy", folder);
    cr_assert_eq(mkdir(name, 0755), 0);
    cr_expect_eq(tp_save_npy(small, name), TP_E_FILE);
    cr_expect_eq(entries(false), 2);
    tp_graph_clear_error(g);
    cr_expect_eq(tp_save_npy(small, NULL), TP_E_ARGUMENT);
    tp_graph_clear_error(g);
    char long_path[5000];
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = 0;
    cr_expect_eq(tp_save_npy(small, long_path), TP_E_FILE);
    cr_expect(strstr(tp_graph_error(g)->text, "cannot write: File name too long"));
    tp_graph_destroy(g);
    entries(true);
}

/* A link left under the temporary's name is neither followed nor removed. */
Test(npy, saving_follows_no_link)
{
    make_folder();
    char victim[128], name[160];
    snprintf(victim, sizeof victim, "%s/victim", folder);
    FILE *f = fopen(victim, "wb");
    cr_assert(f && fputs("keep", f) >= 0 && fclose(f) == 0);
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "%s.%ld-%d.tmp", path, (long)getpid(), i);
        cr_assert_eq(symlink(victim, name), 0);
    }
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *x = tp_arange(g, TP_F32, 0, 1, 4);
    cr_assert_eq(tp_eval(x), TP_OK);
    cr_expect_eq(tp_save_npy(x, path), TP_OK, "%s", tp_graph_error(g)->text);
    struct stat info;
    cr_expect(stat(victim, &info) == 0 && info.st_size == 4, "the victim keeps its bytes");
    cr_expect_eq(entries(true), 1 + 5 + 1);
    tp_graph_destroy(g);
}
