/* Faults reported against other engines: views, slices, broadcasting (categories 1 to 3), by their
 * numbers in docs/cases.md; P numbers are those of the passes' list. */
#include "tests/cases/expect.h"

#include <string.h>

static tp_graph *g;
static void set_up(void)
{
    g = tp_graph_create(NULL);
}
static void tear_down(void)
{
    tp_graph_destroy(g);
}
TestSuite(views, .init = set_up, .fini = tear_down);

static tp_tensor *zeros(int ndim, const int64_t *shape)
{
    return tp_full(g, TP_F32, ndim, shape, 0);
}

Test(views, f001_minus_one_among_zeros)
{
    tp_tensor *z = zeros(TP_DIMS(1, 0, 32, 64)), *y = zeros(TP_DIMS(0, 3)),
              *w = zeros(TP_DIMS(1, 1, 0));
    expect_refusal("(1,0,-1)", g, tp_reshape(z, TP_DIMS(1, 0, -1)),
                   "-1 is ambiguous because the other sizes multiply to 0");
    expect_refusal("(0,-1)", g, tp_reshape(y, TP_DIMS(0, -1)), "-1 is ambiguous");
    expect_refusal("(-1,0)", g, tp_reshape(y, TP_DIMS(-1, 0)), "-1 is ambiguous");
    expect_shape("(-1,3)", tp_reshape(y, TP_DIMS(-1, 3)), TP_DIMS(0, 3));
    expect_shape("(6,0)", tp_reshape(w, TP_DIMS(6, 0)), TP_DIMS(6, 0));
    expect_shape("(1,1,6,0)", tp_reshape(w, TP_DIMS(1, 1, 6, 0)), TP_DIMS(1, 1, 6, 0));
    expect_shape("(5,-1)", tp_reshape(w, TP_DIMS(5, -1)), TP_DIMS(5, 0));
}

Test(views, f003_a_literal_zero_is_zero)
{
    expect_shape("a", tp_reshape(zeros(TP_DIMS(2, 0)), TP_DIMS(1, 2, 0)), TP_DIMS(1, 2, 0));
    expect_shape("b", tp_reshape(zeros(TP_DIMS(0, 3)), TP_DIMS(0, 0)), TP_DIMS(0, 0));
    expect_shape("c", tp_reshape(zeros(TP_DIMS(0, 3, 5)), TP_DIMS(0, 0, 0)), TP_DIMS(0, 0, 0));
    expect_shape("d", tp_reshape(zeros(TP_DIMS(2, 0, 4)), TP_DIMS(0, 0, 4)), TP_DIMS(0, 0, 4));
}

Test(views, f005_bitcast_ignores_the_stride_of_a_size_1_dim)
{
    tp_tensor *t = count_up(g, TP_I64, TP_DIMS(1, 1, 8)),
              *s = tp_select(tp_contiguous(tp_permute(t, TP_DIMS(0, 2, 1))), 0, 0);
    tp_tensor *b = tp_bitcast(s, TP_I8);
    expect_shape("i64 to i8", b, TP_DIMS(8, 8));
    cr_expect_eq(tp_base(b), tp_base(t), "no copy");
    tp_tensor *rows = tp_select(b, 1, 0);
    expect_values("first bytes", rows, VALUES(0, 1, 2, 3, 4, 5, 6, 7));
    expect_refusal("odd size", g, tp_bitcast(count_up(g, TP_U8, TP_DIMS(3)), TP_U16),
                   "size does not divide");
    expect_refusal("stride", g,
                   tp_bitcast(tp_slice(count_up(g, TP_U8, TP_DIMS(8)), 0, 0, TP_END, 2), TP_U16),
                   "stride is not 1");
    expect_refusal("offset", g,
                   tp_bitcast(tp_slice(count_up(g, TP_U8, TP_DIMS(8)), 0, 1, 7, 1), TP_U16),
                   "offset does not divide");
    expect_refusal("outer stride", g,
                   tp_bitcast(tp_slice(count_up(g, TP_U8, TP_DIMS(3, 5)), 1, 0, 4, 1), TP_U16),
                   "outer dim does not divide");
}

Test(views, f007_f009_f010_order_of_elements)
{
    tp_tensor *x = count_up(g, TP_F32, TP_DIMS(2, 3));
    expect_values("7a", tp_reshape(tp_permute(x, TP_DIMS(1, 0)), TP_DIMS(6)),
                  VALUES(0, 3, 1, 4, 2, 5));
    expect_values(
        "7b",
        tp_reshape(tp_permute(count_up(g, TP_F32, TP_DIMS(3, 4)), TP_DIMS(1, 0)), TP_DIMS(12)),
        VALUES(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11));
    tp_tensor *c = tp_contiguous(tp_permute(count_up(g, TP_F32, TP_DIMS(3, 2)), TP_DIMS(1, 0)));
    cr_assert_eq(tp_eval(c), TP_OK);
    const float memory[] = {0, 2, 4, 1, 3, 5};
    cr_expect_arr_eq(tp_data(c), memory, sizeof memory, "7c");
    tp_tensor *p = tp_permute(count_up(g, TP_F32, TP_DIMS(4, 5)), TP_DIMS(1, 0));
    tp_tensor *a = tp_reshape(tp_slice(p, 0, 0, 1, 1), TP_DIMS(4)), *b = tp_reshape(p, TP_DIMS(20));
    cr_expect(tp_base(a) == tp_base(p) && tp_view_of(a).stride[0] == 5, "9: a view with stride 5");
    expect_values("9 A", tp_add(a, tp_num(a, 0)), VALUES(0, 5, 10, 15));
    cr_expect_eq(plan_of(b).copies, 1, "9: exactly one copy");
    expect_values("9 B", b,
                  VALUES(0, 5, 10, 15, 1, 6, 11, 16, 2, 7, 12, 17, 3, 8, 13, 18, 4, 9, 14, 19));
    tp_tensor *y = tp_permute(count_up(g, TP_F32, TP_DIMS(3, 1, 2)), TP_DIMS(1, 2, 0));
    expect_values("10, P9", tp_reshape(tp_contiguous(y), TP_DIMS(1, 6)), VALUES(0, 2, 4, 1, 3, 5));
    expect_values("10 without", tp_reshape(y, TP_DIMS(1, 6)), VALUES(0, 2, 4, 1, 3, 5));
}

Test(views, f011_f013_compositions)
{
    tp_tensor *x = count_up(g, TP_F32, TP_DIMS(2, 3, 4)),
              *y = tp_permute(tp_permute(x, TP_DIMS(1, 2, 0)), TP_DIMS(1, 2, 0));
    expect_shape("11", y, TP_DIMS(4, 2, 3));
    tp_tensor *third = tp_permute(y, TP_DIMS(1, 2, 0));
    tp_view a = tp_view_of(third), b = tp_view_of(x);
    cr_expect(tp_view_equal(&a, &b), "three times is the identity");
    expect_values("11 values", tp_select(tp_select(y, 0, 1), 0, 1), VALUES(13, 17, 21));
    tp_tensor *s = tp_slice(count_up(g, TP_F32, TP_DIMS(3, 4)), 1, 0, 3, 1),
              *flat = tp_reshape(s, TP_DIMS(9));
    cr_expect_eq(plan_of(flat).copies, 1);
    cr_expect_eq(plan_of(tp_neg(tp_reshape(flat, TP_DIMS(3, 3)))).copies, 0,
                 "13: back in three rows it is a view again");
    expect_values("13", flat, VALUES(0, 1, 2, 4, 5, 6, 8, 9, 10));
}

Test(views, f015_f017_bad_sizes_and_axes_are_refused_where_they_are_asked)
{
    expect_refusal("15a", g, tp_expand(zeros(TP_DIMS(3)), TP_DIMS(-2, 3)),
                   "size -2 of dim 0 is negative");
    expect_refusal("15b", g, tp_expand(zeros(TP_DIMS(1, 3)), TP_DIMS(-2, 2, 1, 3)),
                   "size -2 of dim 0 is negative");
    tp_tensor *x = zeros(TP_DIMS(4, 4));
    expect_shape("17", tp_unsqueeze(x, -1), TP_DIMS(4, 4, 1));
    expect_shape("17", tp_unsqueeze(x, -3), TP_DIMS(1, 4, 4));
    expect_shape("17", tp_unsqueeze(x, 2), TP_DIMS(4, 4, 1));
    expect_refusal("17", g, tp_unsqueeze(x, 3), "axis 3 is outside [-3, 2]");
    expect_refusal("17", g, tp_unsqueeze(x, -4), "axis -4 is outside [-3, 2]");
}

static tp_tensor *cut(tp_tensor *x, int64_t start, int64_t stop, int64_t step)
{
    return tp_slice(x, 0, start, stop, step);
}

Test(views, f019_f021_f023_slices_are_pythons)
{
    tp_tensor *a = count_up(g, TP_I32, TP_DIMS(10)), *b = count_up(g, TP_I32, TP_DIMS(20)),
              *m = count_up(g, TP_I32, TP_DIMS(3, 4));
    expect_values("[9:0:-1]", cut(a, 9, 0, -1), VALUES(9, 8, 7, 6, 5, 4, 3, 2, 1));
    expect_values("[7:0:-1]", cut(a, 7, 0, -1), VALUES(7, 6, 5, 4, 3, 2, 1));
    expect_values("[9:2:-1]", cut(a, 9, 2, -1), VALUES(9, 8, 7, 6, 5, 4, 3));
    expect_values("[9:0:-3]", cut(a, 9, 0, -3), VALUES(9, 6, 3));
    expect_values("[19:0:-3]", cut(b, 19, 0, -3), VALUES(19, 16, 13, 10, 7, 4, 1));
    expect_values("rows", cut(m, 2, 0, -1), VALUES(8, 9, 10, 11, 4, 5, 6, 7));
    expect_values("columns", tp_slice(m, 1, 3, 0, -1), VALUES(3, 2, 1, 7, 6, 5, 11, 10, 9));
    tp_tensor *four = count_up(g, TP_I32, TP_DIMS(4)), *five = count_up(g, TP_I32, TP_DIMS(5));
    expect_shape("[2:-1:-1]", cut(four, 2, -1, -1), TP_DIMS(0));
    expect_values("[2::-1]", cut(four, 2, TP_END, -1), VALUES(2, 1, 0));
    expect_values("[-100:3]", cut(five, -100, 3, 1), VALUES(0, 1, 2));
    expect_values("[-100:100:2]", cut(five, -100, 100, 2), VALUES(0, 2, 4));
    expect_values("[100:-100:-2]", cut(five, 100, -100, -2), VALUES(4, 2, 0));
    expect_shape("[7:9]", cut(five, 7, 9, 1), TP_DIMS(0));
    expect_shape("[0:100]", cut(count_up(g, TP_I32, TP_DIMS(4, 5)), 0, 100, 1), TP_DIMS(4, 5));
    expect_values("extremes", cut(five, INT64_MIN + 1, INT64_MAX, 1), VALUES(0, 1, 2, 3, 4));
    expect_values("backwards extremes", cut(five, INT64_MAX, INT64_MIN + 1, -1),
                  VALUES(4, 3, 2, 1, 0));
}

Test(views, f025_f027_f029_empty_slices_and_huge_steps)
{
    tp_tensor *e = cut(count_up(g, TP_F32, TP_DIMS(5, 5)), 0, 0, -1);
    expect_shape("25", e, TP_DIMS(0, 5));
    cr_expect_eq(tp_view_of(e).offset, 0, "an empty view stays inside");
    expect_shape("25", tp_contiguous(tp_expand(tp_unsqueeze(e, 0), TP_DIMS(3, 0, 5))),
                 TP_DIMS(3, 0, 5));
    cr_expect_eq(tp_eval(tp_neg(tp_reshape(e, TP_DIMS(5, 0)))), TP_OK);
    expect_shape("27", tp_select(tp_slice(zeros(TP_DIMS(10, 10)), 0, 0, -1, 1), 1, 0), TP_DIMS(9));
    expect_shape("27", tp_slice(tp_slice(zeros(TP_DIMS(6, 6)), 0, 1, -1, 1), 1, 1, -1, 1),
                 TP_DIMS(4, 4));
    tp_tensor *five = count_up(g, TP_I32, TP_DIMS(5));
    expect_refusal("29", g, cut(five, 0, 5, 0), "step is 0");
    expect_values("29", cut(five, 4, TP_END, INT64_MIN), VALUES(4));
    expect_values("29", cut(five, 0, 5, INT64_MAX), VALUES(0));
}

Test(views, f031_negative_indices_wrap)
{
    tp_tensor *x = count_up(g, TP_F32, TP_DIMS(5, 2));
    expect_values("31", tp_index_select(x, 0, tp_from_data(g, TP_I32, TP_DIMS(1), (int32_t[]){-1})),
                  VALUES(8, 9));
}

Test(views, f032_f033_f043_broadcasts)
{
    expect_shape("32a", tp_add(zeros(TP_DIMS(2, 0)), zeros(TP_DIMS(2, 1))), TP_DIMS(2, 0));
    expect_shape("32b", tp_add(zeros(TP_DIMS(0, 5)), zeros(TP_DIMS(1, 5))), TP_DIMS(0, 5));
    expect_shape("32c", tp_add(zeros(TP_DIMS(0)), zeros(TP_DIMS(1))), TP_DIMS(0));
    expect_refusal("32d", g, tp_add(zeros(TP_DIMS(0)), zeros(TP_DIMS(2))),
                   "dimension 1 from the right is 0 against 2");
    expect_shape("32e", tp_add(tp_scalar(g, TP_F32, 1), zeros(TP_DIMS(0, 3))), TP_DIMS(0, 3));
    expect_shape("32f", tp_where(zeros(TP_DIMS(1)), zeros(TP_DIMS(0)), zeros(TP_DIMS(1))),
                 TP_DIMS(0));
    tp_tensor *a = tp_from_data(g, TP_F32, TP_DIMS(3), (float[]){0.125F, 1, -0.125F});
    expect_values("33", tp_mul(a, tp_unsqueeze(a, 1)),
                  VALUES(1 / 64., 0.125, -1 / 64., 0.125, 1, -0.125, -1 / 64., -0.125, 1 / 64.));
    tp_tensor *one =
        tp_expand(tp_from_data(g, TP_F32, TP_DIMS(1, 1), (float[]){1}), TP_DIMS(64, 2));
    expect_values("43",
                  tp_sum(tp_mul(one, count_up(g, TP_F32, TP_DIMS(64, 2))), TP_ALL_AXES, false),
                  VALUES(127 * 64));
    tp_tensor *two = tp_expand(tp_from_data(g, TP_F32, TP_DIMS(1, 1), (float[]){2}), TP_DIMS(3, 2));
    tp_tensor *m = tp_from_data(g, TP_F32, TP_DIMS(3, 2), (float[]){1, 2, 3, 4, 5, 6});
    expect_values("43", tp_sum(tp_mul(m, two), 1, (int64_t[]){1}, false), VALUES(6, 14, 22));
}

Test(views, p06_p07_p08_p12_p13_p14_p15_p16)
{
    tp_tensor *t = tp_slice(count_up(g, TP_F32, TP_DIMS(10)), 0, 2, TP_END, 10);
    expect_values("P6", tp_reshape(t, TP_DIMS(1, 1)), VALUES(2));
    tp_tensor *x = count_up(g, TP_F32, TP_DIMS(10, 10)),
              *s = tp_slice(tp_slice(x, 0, 0, 5, 1), 1, 0, 2, 1);
    expect_values("P7", tp_reshape(s, TP_DIMS(10)), VALUES(0, 1, 10, 11, 20, 21, 30, 31, 40, 41));
    tp_view v = tp_view_of(tp_reshape(
        tp_slice(count_up(g, TP_F32, TP_DIMS(5, 17)), 1, TP_END, 16, 1), TP_DIMS(5, 4, 4)));
    cr_expect(v.stride[0] == 17 && v.stride[1] == 4 && v.stride[2] == 1, "P8");
    tp_tensor *h = tp_bitcast(tp_slice(count_up(g, TP_U16, TP_DIMS(512, 3)), 0, 1, 0, -1), TP_U8);
    expect_values("P12", h, VALUES(3, 0, 4, 0, 5, 0));
    expect_shape("P13", tp_bitcast(count_up(g, TP_I32, TP_DIMS(6)), TP_I16), TP_DIMS(12));
    expect_refusal("P13", g,
                   tp_bitcast(tp_transpose(count_up(g, TP_I64, TP_DIMS(3, 5)), 0, 1), TP_I32),
                   "stride is not 1");
    v = tp_view_of(
        tp_bitcast(tp_slice(count_up(g, TP_F32, TP_DIMS(3, 4, 2)), 1, 0, TP_END, 2), TP_F64));
    cr_expect(v.shape[0] == 3 && v.shape[1] == 2 && v.shape[2] == 1 && v.stride[0] == 4 &&
                  v.stride[1] == 2,
              "P14");
    expect_values("P15", tp_bitcast(tp_full(g, TP_I8, 0, NULL, 1), TP_U8), VALUES(1));
    tp_view w = {.ndim = 3, .shape = {1, 2, 2}, .stride = {12, 3, 2}}, y;
    int dims[2];
    cr_expect(tp_view_reshape(&w, 2, (int64_t[]){2, 2}, &y, dims) && y.stride[0] == 3 &&
                  y.stride[1] == 2,
              "P16");
}

Test(views, p19_p20_p21_expand_then_reshape)
{
    tp_tensor *x = tp_from_data(g, TP_F32, TP_DIMS(2, 1), (float[]){5, 7});
    expect_values("P19", tp_reshape(tp_expand(x, TP_DIMS(2, 3)), TP_DIMS(6)),
                  VALUES(5, 5, 5, 7, 7, 7));
    expect_values("P20", tp_contiguous(tp_expand(tp_scalar(g, TP_F32, 5), TP_DIMS(2, 3))),
                  VALUES(5, 5, 5, 5, 5, 5));
    tp_tensor *m = count_up(g, TP_F32, TP_DIMS(4, 4)), *rows = tp_slice(m, 0, 0, 3, 1);
    expect_values("P21", tp_matmul(tp_slice(rows, 1, 0, 3, 1), tp_slice(rows, 1, 3, 4, 1)),
                  VALUES(29, 113, 197));
    tp_tensor *r = tp_slice(count_up(g, TP_F32, TP_DIMS(8)), 0, TP_END, TP_END, -1);
    expect_values("P41", tp_mul(r, tp_num(r, 2)), VALUES(14, 12, 10, 8, 6, 4, 2, 0));
    tp_tensor *big = tp_reshape(tp_arange(g, TP_F32, 1, 1, 130), TP_DIMS(2, 65));
    expect_values("P41", tp_sum(tp_flip(big, 1, (int64_t[]){0}), 1, (int64_t[]){-1}, false),
                  VALUES(6370, 2145));
    tp_tensor *t = tp_permute(count_up(g, TP_F32, TP_DIMS(4, 3, 2)), TP_DIMS(2, 1, 0));
    expect_values("P42",
                  tp_index_select(t, 2, tp_from_data(g, TP_I64, TP_DIMS(2), (int64_t[]){0, 1})),
                  VALUES(0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11));
    expect_values("P17", tp_slice(count_up(g, TP_F32, TP_DIMS(1, 10)), 1, 3, TP_END, 1),
                  VALUES(3, 4, 5, 6, 7, 8, 9));
    expect_values("P35",
                  tp_sum(tp_permute(count_up(g, TP_F32, TP_DIMS(4, 3, 2)), TP_DIMS(2, 0, 1)),
                         TP_ALL_AXES, false),
                  VALUES(276));
}

Test(views, flatten_diagonal_and_as_strided)
{
    tp_tensor *x = count_up(g, TP_F32, TP_DIMS(2, 3, 4));
    expect_shape("flatten", tp_flatten(x, 0, 1), TP_DIMS(6, 4));
    expect_shape("flatten", tp_flatten(x, -2, -1), TP_DIMS(2, 12));
    expect_shape("flatten", tp_flatten(tp_scalar(g, TP_F32, 1), 0, -1), TP_DIMS(1));
    expect_refusal("flatten", g, tp_flatten(x, 2, 1), "first axis 2 comes after last axis 1");
    tp_tensor *m = count_up(g, TP_F32, TP_DIMS(3, 4));
    expect_values("main", tp_diagonal(m, 0, 0, 1), VALUES(0, 5, 10));
    expect_values("above", tp_diagonal(m, 2, 0, 1), VALUES(2, 7));
    expect_values("below", tp_diagonal(m, -1, 0, 1), VALUES(4, 9));
    expect_values("exchanged", tp_diagonal(m, 1, 1, 0), VALUES(4, 9));
    expect_shape("outside", tp_diagonal(m, 9, 0, 1), TP_DIMS(0));
    expect_shape("batched", tp_diagonal(x, 0, 0, 2), TP_DIMS(3, 2));
    expect_values("windows", tp_as_strided(m, TP_DIMS(2, 3), (int64_t[]){1, 1}, 4),
                  VALUES(4, 5, 6, 5, 6, 7));
    tp_tensor *w = tp_as_strided(m, TP_DIMS(10, 3), (int64_t[]){1, 1}, 0);
    expect_values("sliding sums", tp_slice(tp_sum(w, 1, (int64_t[]){1}, false), 0, 7, TP_END, 1),
                  VALUES(24, 27, 30));
}

/* Fault 123 and 121. */
Test(views, f121_f123_extents_are_checked_in_64_bits)
{
    char bytes[1024];
    expect_refusal("123", g,
                   tp_wrap(g, TP_U8, TP_DIMS(5), (int64_t[]){INT64_C(1) << 62}, 0, bytes,
                           sizeof bytes, NULL, NULL),
                   "the storage has 1024 elements");
    expect_refusal("123", g,
                   tp_wrap(g, TP_U8, TP_DIMS(4, 4), (int64_t[]){INT64_C(1) << 62, 1}, 0, bytes,
                           sizeof bytes, NULL, NULL),
                   "the storage has 1024");
    expect_refusal(
        "123", g,
        tp_wrap(g, TP_U8, TP_DIMS(4), (int64_t[]){-1}, 2, bytes, sizeof bytes, NULL, NULL),
        "reaches element -1");
    expect_refusal("121", g, zeros(TP_DIMS(2, 2, 1, INT64_C(2305843009213693952))),
                   "more than 2^63-1 elements");
    expect_refusal("121", g, tp_full(g, TP_F64, TP_DIMS(INT64_C(1) << 61), 0),
                   "more than 2^63-1 bytes");
    tp_tensor *huge = tp_full(g, TP_U8, TP_DIMS(INT64_MAX), 0);
    cr_assert(huge);
    cr_expect_eq(tp_eval(huge), TP_E_NOMEM);
    cr_expect(strstr(tp_graph_error(g)->text, "9223372036854775807 bytes are not to be had"), "%s",
              tp_graph_error(g)->text);
}
