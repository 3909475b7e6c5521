/* Storages on a device: bytes go where they are read, once, and a device that fails leaves
 * everything as it was. The device is a piece of host memory that counts. */
#include <criterion/criterion.h>

#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

static struct {
    int blocks, uploads, downloads;
    bool full, deaf, mute;
} machine;

static char *alloc(size_t size_bytes)
{
    if (machine.full) return NULL;
    machine.blocks++;
    return malloc(size_bytes);
}
static void release(char *memory)
{
    machine.blocks--;
    free(memory);
}
static tp_status upload(char *to, const void *from, size_t size_bytes)
{
    if (machine.deaf) return TP_E_DEVICE;
    machine.uploads++;
    memcpy(to, from, size_bytes);
    return TP_OK;
}
static tp_status download(void *to, const char *from, size_t size_bytes)
{
    if (machine.mute) return TP_E_DEVICE;
    machine.downloads++;
    memcpy(to, from, size_bytes);
    return TP_OK;
}
static tp_status status(void)
{
    return TP_E_NOMEM;
}
static const char *why(void)
{
    return "it is only a test";
}
static tp_status status_of;
static const tp_device device = {alloc, release, upload, download, status, why};

Test(storage, bytes_move_once_in_each_direction)
{
    tp_storage *s = tp_storage_create(tp_context_default(), 5);
    memcpy(s->data, "abcd", 5);
    cr_expect(tp_storage_is_on(s, NULL));
    cr_expect(!tp_storage_is_on(s, &device));
    for (int i = 0; i < 3; i++) cr_assert_eq(tp_storage_bring(s, &device), TP_OK);
    cr_expect_eq(machine.uploads, 1);
    cr_expect(tp_storage_is_on(s, NULL), "the host's bytes are still good");
    strcpy(s->device_data, "efgh"); /* a kernel writes */
    tp_storage_written(s, &device);
    cr_expect(!tp_storage_is_on(s, NULL));
    for (int i = 0; i < 3; i++) cr_assert_eq(tp_storage_bring(s, NULL), TP_OK);
    cr_expect_eq(machine.downloads, 1);
    cr_expect_str_eq(s->data, "efgh");
    strcpy(s->data, "ijkl"); /* the user writes and says so */
    tp_storage_written(s, NULL);
    cr_expect_eq(machine.blocks, 0);
    cr_assert_eq(tp_storage_bring(s, &device), TP_OK);
    cr_expect_str_eq(s->device_data, "ijkl");
    tp_storage_release(s);
    cr_expect_eq(machine.blocks, 0);
}

Test(storage, a_result_of_the_device_comes_to_the_host_when_it_is_read)
{
    size_t before = tp_context_memory(tp_context_default()).used_bytes;
    tp_storage *s = tp_storage_create_on(&device, tp_context_default(), 5, &status_of);
    cr_expect_null(s->data);
    strcpy(s->device_data, "abcd");
    cr_assert_eq(tp_storage_bring(s, NULL), TP_OK);
    cr_expect_str_eq(s->data, "abcd");
    tp_storage_release(s);
    cr_expect_eq(machine.blocks, 0);
    cr_expect_eq(tp_context_memory(tp_context_default()).used_bytes, before);
}

Test(storage, failures_leave_the_bytes_where_they_are)
{
    tp_storage *s = tp_storage_create(tp_context_default(), 5);
    memcpy(s->data, "abcd", 5);
    machine.full = true;
    cr_expect_eq(tp_storage_bring(s, &device), TP_E_NOMEM);
    cr_expect_null(tp_storage_create_on(&device, tp_context_default(), 5, &status_of));
    machine.full = false;
    machine.deaf = true;
    cr_expect_eq(tp_storage_bring(s, &device), TP_E_DEVICE);
    cr_expect_eq(machine.blocks, 0);
    cr_expect(tp_storage_is_on(s, NULL));
    machine.deaf = false;
    cr_assert_eq(tp_storage_bring(s, &device), TP_OK);
    tp_storage_written(s, &device);
    machine.mute = true;
    cr_expect_eq(tp_storage_bring(s, NULL), TP_E_DEVICE);
    cr_expect(tp_storage_is_on(s, &device));
    machine.mute = false;
    cr_expect_eq(tp_storage_bring(s, NULL), TP_OK);
    cr_expect_str_eq(s->data, "abcd");
    tp_storage_release(s);
}

Test(storage, backends_have_names_and_the_environment_may_choose)
{
    char line[600];
    cr_expect_str_eq(tp_backend_name(0), "cpu");
    cr_expect_null(tp_backend_name(-1));
    cr_expect_null(tp_backend_name(3));
    for (int i = 0; tp_backend_name(i); i++)
        cr_expect_gt(tp_describe_backend(tp_backend_name(i), line, sizeof line), 3);
    tp_describe_backend("abacus", line, sizeof line);
    cr_expect_str_eq(line, "abacus is not available: there is no backend of that name");
    setenv("TP_BACKEND", "abacus", 1);
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *x = tp_neg(tp_scalar(g, TP_F32, 2));
    cr_expect_eq(tp_eval(x), TP_E_UNAVAILABLE);
    cr_expect_str_eq(tp_graph_error(g)->text, "eval: TP_BACKEND: there is no backend of that name");
    setenv("TP_BACKEND", "ref", 1);
    cr_expect_eq(tp_eval(x), TP_OK);
    cr_expect_eq(tp_item(x, 0), -2);
    tp_graph_destroy(g);
    unsetenv("TP_BACKEND");
}
