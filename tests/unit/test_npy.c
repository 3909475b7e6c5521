/* .npy: what is written reads back, what lies is refused with one sentence, nothing crashes. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/graph.h"

static char path[64];

static void set_path(const char *name)
{
    snprintf(path, sizeof path, "/tmp/tp_%ld_%s.npy", (long)getpid(), name);
}

/* An allocator that counts, remembers the largest request and fails at a chosen one. */
static struct {
    int64_t blocks, requests, fail_at;
    size_t largest;
} memory;

static void *counted_alloc(void *user, size_t size_bytes)
{
    (void)user;
    if (memory.requests++ == memory.fail_at) return NULL;
    if (size_bytes > memory.largest) memory.largest = size_bytes;
    void *at = aligned_alloc(64, (size_bytes + 63) / 64 * 64 + 64);
    memory.blocks += at != NULL;
    return at;
}

static void counted_release(void *user, void *at, size_t size_bytes)
{
    (void)user, (void)size_bytes;
    memory.blocks -= at != NULL;
    free(at);
}

static tp_context *counting_context(int64_t fail_at)
{
    memset(&memory, 0, sizeof memory);
    memory.fail_at = fail_at;
    return tp_context_create(
        &(tp_context_options){.allocator = {counted_alloc, counted_release, NULL}, .threads = 1});
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
                   "dtype '<V2' names no type (bf16 is written so): store it as f32");
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

/* A preamble and what follows it, byte by byte. */
static void expect_raw_refusal(const void *bytes, size_t size, const char *part)
{
    tp_context *c = counting_context(-1);
    tp_graph *g = tp_graph_create(c);
    size_t before = memory.largest;
    write_bytes(bytes, size);
    cr_expect_null(tp_load_npy(g, path), "%s", part);
    cr_expect_eq(tp_graph_error(g)->status, TP_E_FORMAT, "%s", part);
    cr_expect(strstr(tp_graph_error(g)->text, part), "%s, not: %s", tp_graph_error(g)->text, part);
    cr_expect(memory.largest <= before || memory.largest <= 4096, "%s: %zu bytes asked for", part,
              memory.largest);
    tp_graph_destroy(g);
    tp_context_release(c);
    cr_expect_eq(memory.blocks, 0, "%s: leak", part);
}

/* Fault 187: what a size in the file claims is held against the file before it is believed. */
Test(npy, f187_lengths_are_checked_before_memory_is_asked_for)
{
    set_path("lengths");
    char file[4096], data[2100] = {0};
    const char *header = "{'descr': '<f4', 'fortran_order': False, 'shape': (128, 4), }",
               *huge = "{'descr': '<f4', 'fortran_order': False, 'shape': (268435456, 4), }",
               *beyond = "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, "
                         "4294967296), }",
               *bytes = "{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904,), "
                        "}";
    expect_raw_refusal(file, compose(file, 1, header, data, 100),
                       "the data needs 2048 bytes, the file has 100 left");
    expect_raw_refusal(file, compose(file, 1, header, data, 0),
                       "the data needs 2048 bytes, the file has 0 left");
    expect_raw_refusal(file, compose(file, 1, header, data, 2047), "the file has 2047 left");
    expect_raw_refusal(file, compose(file, 1, huge, data, 100),
                       "the data needs 4294967296 bytes, the file has 100 left");
    expect_raw_refusal(file, compose(file, 1, beyond, data, 100),
                       "the data needs more than 2^63-1 bytes");
    expect_raw_refusal(file, compose(file, 1, bytes, data, 100),
                       "the data needs more than 2^63-1 bytes");
    expect_raw_refusal("\x93NUMPY", 6, "6 bytes are too few for a .npy file");
    expect_raw_refusal("\x93NUMPY\x09\x00\x10\x00                    ", 30,
                       "format version 9.0 is unknown");
    expect_raw_refusal("\x93NUMPY\x01\x00\xFF\xFF{}", 12,
                       "the header needs 65535 bytes, the file has 2 left");
    expect_raw_refusal("\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF{}", 14,
                       "the header needs 4294967295 bytes, the file has 2 left");
    expect_raw_refusal("\x93NUMPZ\x01\x00\x02\x00{}", 12, "this is no .npy file");
    expect_raw_refusal("\x93NUMPY\x01\x00\x04\x00{ \0}", 14, "the header has a zero byte");
    /* More data than needed is fine. */
    tp_graph *g = tp_graph_create(NULL);
    write_bytes(file, compose(file, 1, header, data, 2049));
    cr_expect(tp_load_npy(g, path), "%s", tp_graph_error(g)->text);
    tp_graph_destroy(g);
    unlink(path);
}

Test(npy, what_the_strict_reader_refuses)
{
    set_path("strict");
#define WITH_SHAPE(shape) "{'descr': '<f4', 'fortran_order': False, 'shape': " shape ", }"
    const struct {
        const char *dictionary, *part;
    } cases[] = {
        {WITH_SHAPE("(1, 2"), "a size in shape is no natural number"},
        {WITH_SHAPE("(,)"), "a size in shape is no natural number"},
        {WITH_SHAPE("(1,,)"), "a size in shape is no natural number"},
        {WITH_SHAPE("(007,)"), "a size in shape is no natural number"},
        {WITH_SHAPE("(0x1,)"), "shape is no tuple"},
        {WITH_SHAPE("(1.5,)"), "shape is no tuple"},
        {WITH_SHAPE("[1]"), "shape is no tuple"},
        {WITH_SHAPE("None"), "shape is no tuple"},
        {WITH_SHAPE("(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)"), "shape has more than 16 dims"},
        {"{'descr': '<i3', 'fortran_order': False, 'shape': ()}", "dtype '<i3' has no"},
        {"{'descr': '|f4', 'fortran_order': False, 'shape': ()}", "dtype '|f4' has no"},
        {"{'descr': 'f4', 'fortran_order': False, 'shape': ()}", "dtype 'f4' has no"},
        {"{'descr': '<f16', 'fortran_order': False, 'shape': ()}", "dtype '<f16' has no"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", "has no string where"},
        {"{'descr': '<f4', 'fortran_order': Truex, 'shape': ()}", "dictionary has no end"},
        {"{'de\tscr': '<f4'}", "has a byte that is not printable"},
        {"{'descr\xC3\xA9': '<f4'}", "has a byte that is not printable"},
        {"{'descr: <f4", "a string in the header has no end"},
        {"{'a key that is much longer than any that exists': 1}",
         "string in the header is too long"},
        {"{'descr' '<f4'}", "there is no : after 'descr'"},
        {"{descr: '<f4'}", "has no string where one must be"},
        {"", "the header is no dictionary"},
        {"{}", "the header has no 'descr'"},
        {"{'descr': '<f4'}", "the header has no 'fortran_order'"},
        {"{,}", "has no string where one must be"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refusal(cases[i].dictionary, 64, cases[i].part);
    unlink(path);
}

/* Every length of a small file, and every byte of its header changed to every other: loads or is
 * refused with a sentence, and no block stays behind. */
Test(npy, truncated_and_damaged_files_never_crash)
{
    set_path("damage");
    char file[512];
    float data[6] = {1, 2, 3, 4, 5, 6};
    size_t size =
        compose(file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", data,
                sizeof data);
    tp_context *c = counting_context(-1);
    tp_graph *g = tp_graph_create(c);
    int64_t loaded = 0, blocks = memory.blocks;
    for (size_t n = 0; n < size; n++) {
        write_bytes(file, n);
        cr_expect_null(tp_load_npy(g, path), "%zu of %zu bytes", n, size);
        cr_assert(tp_graph_error(g)->text[0]);
        cr_assert_eq(memory.blocks, blocks, "%zu of %zu bytes leak", n, size);
        tp_graph_clear_error(g);
    }
    int fd = -1;
    write_bytes(file, size);
    FILE *f = fopen(path, "r+b");
    cr_assert(f && (fd = fileno(f)) >= 0);
    for (size_t i = 0; i < size - sizeof data; i++) {
        for (int change = 1; change < 256; change++) {
            char damaged = (char)(file[i] + change);
            cr_assert_eq(pwrite(fd, &damaged, 1, (off_t)i), 1);
            tp_tensor *x = tp_load_npy(g, path);
            loaded += x != NULL;
            cr_assert(x || tp_graph_error(g)->text[0], "byte %zu as %d", i, damaged);
            cr_assert(!x || (tp_numel(x) * (int64_t)tp_dtype_size(tp_dtype_of(x)) <= 24 + 3 &&
                             tp_data(x)),
                      "byte %zu as %d", i, damaged);
            tp_graph_clear_error(g);
            tp_graph_reset(g);
        }
        cr_assert_eq(pwrite(fd, file + i, 1, (off_t)i), 1);
    }
    fclose(f);
    cr_expect(loaded > 20 && loaded < 400, "%lld loaded", (long long)loaded);
    tp_graph_destroy(g);
    tp_context_release(c);
    cr_expect_eq(memory.blocks, 0, "no leak");
    unlink(path);
}

/* Memory runs out at the first request, the second, ...: refused each time, nothing leaks. */
Test(npy, loading_and_saving_without_memory)
{
    set_path("nomem");
    char file[512];
    float data[6] = {1, 2, 3, 4, 5, 6};
    write_bytes(file, compose(file, 1, "{'descr': '>f4', 'fortran_order': True, 'shape': (2, 3), }",
                              data, sizeof data));
    int64_t refused = 0;
    for (int64_t fail_at = 0;; fail_at++) {
        tp_context *c = counting_context(fail_at);
        tp_graph *g = c ? tp_graph_create(c) : NULL;
        tp_tensor *x = g ? tp_load_npy(g, path) : NULL;
        if (g && !x) {
            cr_expect_eq(tp_graph_error(g)->status, TP_E_NOMEM, "request %lld", (long long)fail_at);
            refused++;
        }
        tp_status saved = x ? tp_save_npy(tp_base(x) ? (tp_tensor *)tp_base(x) : x, path) : TP_OK;
        bool done = x && saved == TP_OK && memory.requests <= fail_at;
        tp_graph_destroy(g);
        tp_context_release(c);
        cr_assert_eq(memory.blocks, 0, "request %lld leaks", (long long)fail_at);
        if (done) break;
        cr_assert_lt(fail_at, 200);
    }
    cr_expect_gt(refused, 1);
    unlink(path);
}

Test(npy, arguments_and_paths)
{
    tp_graph *g = tp_graph_create(NULL);
    cr_expect_null(tp_load_npy(g, NULL));
    cr_expect_str_eq(tp_graph_error(g)->text, "load_npy: path is NULL");
    tp_graph_clear_error(g);
    cr_expect_null(tp_load_npy(NULL, "x"));
    cr_expect_null(tp_load_npy(g, "/tmp"));
    cr_expect_eq(tp_graph_error(g)->status, TP_E_FILE);
    cr_expect_str_eq(tp_graph_error(g)->text, "load_npy: /tmp: this is no regular file");
    tp_graph_clear_error(g);
    char long_path[700] = "/tmp/";
    memset(long_path + 5, 'x', sizeof long_path - 6);
    cr_expect_null(tp_load_npy(g, long_path));
    cr_expect(strstr(tp_graph_error(g)->text, "cannot open: File name too long"),
              "the reason fits: %s", tp_graph_error(g)->text);
    tp_graph_destroy(g);
}
