/* What is decided on the host before a kernel text is written: divisors, index widths, vectors. */
#include "backends/cuda/text.h"
#include "tests/random.h"

#include <criterion/criterion.h>

/* text.c notes launches through these; here nothing is launched. */
tp_cuda tp_cuda_device = {.processors = 132};
tp_text *tp_cuda_begin_text(tp_run *run)
{
    return run->prepared;
}
tp_status tp_cuda_launch(tp_run *run, const char *name, int64_t blocks, int threads,
                         size_t shared_bytes, const void *args, size_t args_bytes)
{
    (void)run, (void)name, (void)blocks, (void)threads, (void)shared_bytes, (void)args,
        (void)args_bytes;
    return TP_OK;
}
tp_status tp_cuda_fail(tp_status status, const char *format, ...)
{
    (void)format;
    return status;
}

static uint32_t quotient(uint32_t n, uint32_t d)
{
    uint32_t m, s;
    tp_cuda_magic(d, &m, &s);
    return ((uint32_t)((uint64_t)n * m >> 32) + n) >> s;
}

Test(text, division_by_multiplication_is_exact_below_2_31)
{
    uint64_t state = 7;
    for (int i = 0; i < 300000; i++) {
        uint32_t d = random_next(&state) >> (1 + random_in(&state, 0, 30));
        uint32_t n = random_next(&state) >> (1 + random_in(&state, 0, 20));
        if (d == 0) d = 1;
        uint32_t near = n / d * d; /* where an error would show */
        cr_assert_eq(quotient(n, d), n / d, "%u / %u", n, d);
        cr_assert_eq(quotient(near, d), near / d, "%u / %u", near, d);
        if (near) cr_assert_eq(quotient(near - 1, d), (near - 1) / d, "%u / %u", near - 1, d);
    }
    for (uint32_t d = 1; d <= 70000; d += d < 4000 ? 1 : 97)
        cr_assert_eq(quotient(0x7FFFFFFF, d), 0x7FFFFFFF / d, "%u", d);
}

static bool narrow(int ndim, const int64_t *shape, const int64_t *stride)
{
    tp_view v = tp_view_row_major(ndim, shape);
    for (int d = 0; d < ndim; d++) v.stride[d] = stride[d];
    const tp_view *view[] = {&v};
    tp_cuda_space s;
    tp_cuda_space_make(&s, &v, ~0U, 1, view, false);
    return tp_cuda_space_is_narrow(&s);
}
#define LIST(...)                                                                                  \
    (const int64_t[])                                                                              \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* G11, F165, F173: by reach, not by count. */
Test(text, the_width_of_indices_goes_by_reach)
{
    cr_expect(narrow(1, LIST(100), LIST(1)));
    cr_expect(narrow(1, LIST(2), LIST(INT32_MAX)));
    cr_expect(!narrow(1, LIST(2), LIST((int64_t)1 << 31)));
    cr_expect(!narrow(1, LIST(2), LIST(-((int64_t)1 << 31))));
    cr_expect(!narrow(2, LIST(3, 3), LIST(1 << 30, (1 << 30) + 1)));
    cr_expect(narrow(2, LIST(1 << 15, 1 << 15), LIST(1 << 15, 1)));
    cr_expect(!narrow(2, LIST(1 << 16, 1 << 16), LIST(0, 0)), "its count does not fit");
    cr_expect(!narrow(3, LIST(64, 8192, 8192), LIST((int64_t)1 << 26, 8192, 1)));
    cr_expect(narrow(3, LIST(1, 8192, 8192), LIST((int64_t)1 << 40, 8192, 1)),
              "a size-1 dim has no stride");
}

Test(text, no_grid_is_larger_than_the_device_takes)
{
    int64_t elements = (int64_t)24 * 2048 * 2048 * 3 * 4096;
    cr_expect_leq(tp_cuda_blocks(elements, 256), 0x7FFFFFFF);
    cr_expect_eq(tp_cuda_blocks(0, 256), 0);
    cr_expect_eq(tp_cuda_blocks(257, 256), 2);
}

Test(text, vectors_go_by_address_and_pitch)
{
    tp_view v = tp_view_row_major(2, LIST(4, 64));
    const tp_view *view[] = {&v};
    tp_cuda_space s;
    v.stride[0] = 68;
    tp_cuda_space_make(&s, &v, ~0U, 1, view, true);
    const char *base = (const char *)(uintptr_t)4096;
    cr_expect(tp_cuda_space_allows(&s, 0, base, 4, 4));
    cr_expect(!tp_cuda_space_allows(&s, 0, base + 4, 4, 4));
    cr_expect(tp_cuda_space_allows(&s, 0, base + 8, 4, 2));
    v.stride[0] = 67;
    tp_cuda_space_make(&s, &v, ~0U, 1, view, true);
    cr_expect(!tp_cuda_space_allows(&s, 0, base, 4, 4));
    cr_expect(!tp_cuda_space_allows(&s, 0, base, 2, 2));
}

/* A space has the dims of all operands together: merged only where each of them allows it. */
Test(text, dims_merge_where_all_operands_allow_it)
{
    tp_view a = tp_view_row_major(3, LIST(4, 5, 6)), b = a;
    const tp_view *view[] = {&a, &b};
    tp_cuda_space s;
    tp_cuda_space_make(&s, &a, ~0U, 2, view, false);
    cr_expect_eq(s.ndim, 1);
    cr_expect_eq(s.size[0], 120);
    b.stride[0] = 31;
    tp_cuda_space_make(&s, &a, ~0U, 2, view, false);
    cr_expect_eq(s.ndim, 2);
    cr_expect_eq(s.stride[1][0], 31);
    cr_expect_eq(s.total, 120);
    tp_cuda_space_make(&s, &a, 2, 2, view, false);
    cr_expect_eq(s.ndim, 1);
    cr_expect_eq(s.stride[0][0], 6);
    tp_cuda_space_make(&s, &a, 0, 2, view, false);
    cr_expect_eq(s.ndim, 0);
    cr_expect_eq(s.total, 1);
}
