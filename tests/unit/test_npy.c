/* .npy: what is written reads back, what lies is refused with one sentence, nothing crashes. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "graph/graph.h"

static char path[64];

static void set_path(const char *name)
{
    snprintf(path, sizeof path, "/tmp/tp_%ld_%s.npy", (long)getpid(), name);
}

static void write_bytes(const void *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    cr_assert(f && fwrite(bytes, 1, size, f) == size && fclose(f) == 0);
}

/* A version-1 file from a header dictionary and data. */
static size_t compose(char *file, int version, const char *dictionary, const void *data,
                      size_t data_bytes)
{
    size_t n = strlen(dictionary), at = version == 1 ? 10 : 12;
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (char)version, file[7] = 0;
    file[8] = (char)(n & 255), file[9] = (char)(n >> 8);
    if (version > 1) file[10] = file[11] = 0;
    memcpy(file + at, dictionary, n);
    memcpy(file + at + n, data, data_bytes);
    return at + n + data_bytes;
}

static void expect_refusal(const char *dictionary, size_t data_bytes, const char *part)
{
    char file[4096], data[512] = {0};
    tp_graph *g = tp_graph_create(NULL);
    write_bytes(file, compose(file, 1, dictionary, data, data_bytes));
    cr_expect_null(tp_load_npy(g, path), "%s", dictionary);
    cr_expect_eq(tp_graph_error(g)->status, TP_E_FORMAT, "%s: %s", dictionary,
                 tp_graph_error(g)->text);
    cr_expect(strstr(tp_graph_error(g)->text, part), "%s: %s", dictionary, tp_graph_error(g)->text);
    cr_expect_eq(tp_graph_node_count(g), 0);
    tp_graph_destroy(g);
}

Test(npy, every_dtype_reads_back)
{
    set_path("round");
    for (int d = 0; d < TP_DTYPE_COUNT; d++) {
        tp_graph *g = tp_graph_create(NULL);
        tp_tensor *x =
            tp_cast(tp_reshape(tp_arange(g, TP_I32, -3, 1, 24), TP_DIMS(2, 3, 4)), (tp_dtype)d);
        cr_assert_eq(tp_eval(x), TP_OK);
        if (d == TP_BF16) {
            cr_expect_eq(tp_save_npy(x, path), TP_E_DTYPE);
            cr_expect_str_eq(tp_graph_error(g)->text,
                             "save_npy: bf16 has no .npy code: cast to f32 first");
        } else {
            cr_assert_eq(tp_save_npy(x, path), TP_OK);
            tp_tensor *y = tp_load_npy(g, path);
            cr_assert(y, "%s", tp_graph_error(g)->text);
            cr_expect_eq(tp_dtype_of(y), (tp_dtype)d);
            cr_expect(tp_ndim(y) == 3 && tp_dim(y, 0) == 2 && tp_dim(y, 1) == 3 &&
                      tp_dim(y, 2) == 4);
            cr_expect_arr_eq(tp_data(x), tp_data(y), 24 * tp_dtype_size((tp_dtype)d));
        }
        tp_graph_destroy(g);
    }
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *shapes[] = {
        tp_scalar(g, TP_F64, 7), tp_full(g, TP_F32, TP_DIMS(0, 3), 1),
        tp_full(g, TP_I8, TP_DIMS(1), 5),
        tp_transpose(tp_reshape(tp_arange(g, TP_F32, 0, 1, 6), TP_DIMS(2, 3)), 0, 1)};
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(tp_eval(shapes[i]), TP_OK);
        cr_assert_eq(tp_save_npy(shapes[i], path), TP_OK);
        tp_tensor *y = tp_load_npy(g, path);
        cr_assert(y, "%s", tp_graph_error(g)->text);
        tp_view a = tp_view_of(shapes[i]), b = tp_view_of(y);
        cr_expect(tp_view_same_shape(&a, &b));
        for (int64_t k = 0; k < tp_numel(y); k++)
            cr_expect_eq(tp_item(y, k), tp_item(shapes[i], k));
    }
    tp_graph_destroy(g);
    unlink(path);
}

Test(npy, byte_orders_versions_and_fortran_order)
{
    set_path("order");
    const struct {
        int version;
        const char *dictionary;
        unsigned char data[16];
        size_t bytes;
        tp_dtype dtype;
        double want[4];
    } cases[] = {
        {1,
         "{'descr': '>i4', 'fortran_order': False, 'shape': (1,), }\n",
         {0, 0, 0, 1},
         4,
         TP_I32,
         {1}},
        {2,
         "{'descr': '>f8', 'fortran_order': False, 'shape': (), }",
         {0x3F, 0xF0},
         8,
         TP_F64,
         {1}},
        {3,
         "{\"shape\": (2,), \"fortran_order\": False, \"descr\": \"=i2\"}",
         {1, 0, 255, 255},
         4,
         TP_I16,
         {1, -1}},
        {1,
         "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 2)}",
         {1, 2, 3, 4},
         4,
         TP_U8,
         {1, 3, 2, 4}},
        {1, "{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", {1, 0}, 2, TP_BOOL, {1, 0}},
        {1,
         "{'descr': '<f2', 'fortran_order': False, 'shape': (1,)}   \n",
         {0, 0x3C, 9, 9, 9},
         5,
         TP_F16,
         {1}}, /* trailing bytes */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char file[512];
        tp_graph *g = tp_graph_create(NULL);
        write_bytes(file, compose(file, cases[i].version, cases[i].dictionary, cases[i].data,
                                  cases[i].bytes));
        tp_tensor *x = tp_load_npy(g, path);
        cr_assert(x, "case %zu: %s", i, tp_graph_error(g)->text);
        cr_expect_eq(tp_dtype_of(x), cases[i].dtype);
        cr_assert_eq(tp_eval(x), TP_OK);
        for (int64_t k = 0; k < tp_numel(x); k++)
            cr_expect_eq(tp_item(x, k), cases[i].want[k], "case %zu", i);
        if (i == 3)
            cr_expect(tp_view_of(x).stride[0] == 1 && tp_view_of(x).stride[1] == 2,
                      "Fortran order is a transposed view");
        tp_graph_destroy(g);
    }
    unlink(path);
}

/* Faults 131, 185 and 187. */
Test(npy, what_lies_is_refused)
{
    set_path("lies");
    expect_refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (128, 4), }", 100,
                   "the data needs 2048 bytes, the file has 100 left");
    expect_refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (200000000000000000000,), }",
                   0, "dimension 200000000000000000000 does not fit in 63 bits");
    expect_refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,), }", 0,
                   "dimension 9223372036854775808 does not fit in 63 bits");
    expect_refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 8,
                   "a size in shape is no natural number");
    expect_refusal("{'descr': '<V2', 'fortran_order': False, 'shape': (1,), }", 2,
                   "dtype '<V2' has no counterpart here");
    expect_refusal("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", 8,
                   "dtype '<c8' has no counterpart here");
    expect_refusal("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", 8,
                   "dtype '|O' has no counterpart here");
    expect_refusal("{'descr': '<U4', 'fortran_order': False, 'shape': (1,), }", 16,
                   "dtype '<U4' has no counterpart here");
    expect_refusal("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 4,
                   "the header has 'descr' twice");
    expect_refusal("{'descr': '<f4', 'fortran_order': False, }", 4, "the header has no 'shape'");
    expect_refusal("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,), }", 4,
                   "fortran_order is neither True nor False");
    expect_refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (1), }", 4,
                   "shape is no tuple");
    expect_refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } x", 4,
                   "something follows the header's dictionary");
    expect_refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'extra': 1}", 4,
                   "the header has an unknown key 'extra'");
    unlink(path);
    tp_graph *g = tp_graph_create(NULL);
    cr_expect_null(tp_load_npy(g, path));
    cr_expect_eq(tp_graph_error(g)->status, TP_E_FILE);
    tp_graph_destroy(g);
}

/* Every length of a small file, and every byte of its header changed: loads or is refused. */
Test(npy, truncated_and_damaged_files_never_crash)
{
    set_path("damage");
    char file[512];
    float data[6] = {1, 2, 3, 4, 5, 6};
    size_t size =
        compose(file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }          \n",
                data, sizeof data);
    tp_graph *g = tp_graph_create(NULL);
    size_t before = tp_context_memory(tp_context_default()).used_bytes;
    for (size_t n = 0; n < size; n++) {
        write_bytes(file, n);
        cr_expect_null(tp_load_npy(g, path), "%zu of %zu bytes", n, size);
        tp_graph_clear_error(g);
    }
    cr_expect_eq(tp_context_memory(tp_context_default()).used_bytes, before, "nothing leaks");
    long loaded = 0;
    for (size_t i = 0; i < size - sizeof data; i++) {
        for (int change = 1; change < 256; change += 50) {
            char damaged[512];
            memcpy(damaged, file, size);
            damaged[i] = (char)(damaged[i] + change);
            write_bytes(damaged, size);
            loaded += tp_load_npy(g, path) != NULL;
            cr_assert(tp_graph_error(g)->status == TP_OK || tp_graph_error(g)->text[0]);
            tp_graph_clear_error(g);
        }
    }
    cr_expect_lt(loaded, 300);
    tp_graph_destroy(g);
    unlink(path);
}

Test(npy, a_failed_write_leaves_nothing_behind)
{
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *x = tp_arange(g, TP_F32, 0, 1, 4);
    cr_expect_eq(tp_save_npy(x, "/tmp/x.npy"), TP_E_UNEVALUATED);
    tp_graph_clear_error(g);
    tp_eval(x);
    cr_expect_eq(tp_save_npy(x, "/nowhere/x.npy"), TP_E_FILE);
    cr_expect(
        strstr(tp_graph_error(g)->text, "/nowhere/x.npy: cannot write: No such file or directory"),
        "%s", tp_graph_error(g)->text);
    tp_graph_destroy(g);
}
