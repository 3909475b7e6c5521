/* Faults reported against other engines: views, reshapes, strides (category 1), by their numbers in
 * docs/cases.md; P numbers are those of the passes' list. */
#include "tests/cases/expect.h"

#include <limits.h>
#include <stdio.h>

static tp_graph *g;
static void set_up(void)
{
    g = tp_graph_create(NULL);
}
static void tear_down(void)
{
    tp_graph_destroy(g);
}
TestSuite(views, .init = set_up, .fini = tear_down, .timeout = 60);

static tp_tensor *zeros(int ndim, const int64_t *shape)
{
    return tp_full(g, TP_F32, ndim, shape, 0);
}

static const char *const builders[] = {"reshape", "view_as"};
static tp_tensor *shaped(int builder, tp_tensor *x, int ndim, const int64_t *shape)
{
    return builder ? tp_view_as(x, ndim, shape) : tp_reshape(x, ndim, shape);
}

/* y is built, has this shape and evaluates. */
static void expect_empty(const char *what, tp_tensor *y, int ndim, const int64_t *shape)
{
    expect_shape(what, y, ndim, shape);
    cr_expect_eq(tp_eval(y), TP_OK, "%s", what);
    expect_shape(what, y, ndim, shape);
}

Test(views, f001_minus_one_among_zeros)
{
    char text[200];
    for (int m = 0; m < 4; m++) {
        tp_graph *h = graph_of_mode(m);
        for (int k = 0; k < 2 * TP_DTYPE_COUNT; k++) {
            tp_dtype t = (tp_dtype)(k / 2);
            int b = k % 2;
            tp_tensor *z = tp_full(h, t, TP_DIMS(1, 0, 32, 64), 0),
                      *y = tp_full(h, t, TP_DIMS(0, 3), 0), *w = tp_full(h, t, TP_DIMS(1, 1, 0), 0);
            const struct {
                tp_tensor *x;
                int64_t shape[3];
                int ndim, dim;
                const char *from;
            } wrong[] = {{z, {1, 0, -1}, 3, 2, "[1,0,32,64]"},
                         {y, {0, -1}, 2, 1, "[0,3]"},
                         {y, {-1, 0}, 2, 0, "[0,3]"}};
            for (int i = 0; i < 3; i++) {
                snprintf(text, sizeof text,
                         "%s: %s: -1 is ambiguous because the other sizes multiply to 0",
                         builders[b], wrong[i].from);
                expect_error(h, shaped(b, wrong[i].x, wrong[i].ndim, wrong[i].shape), TP_E_SHAPE,
                             wrong[i].dim, text);
            }
            expect_empty("(-1,3)", shaped(b, y, TP_DIMS(-1, 3)), TP_DIMS(0, 3));
            expect_empty("(6,0)", shaped(b, w, TP_DIMS(6, 0)), TP_DIMS(6, 0));
            expect_empty("(1,1,6,0)", shaped(b, w, TP_DIMS(1, 1, 6, 0)), TP_DIMS(1, 1, 6, 0));
            expect_empty("(5,-1)", shaped(b, w, TP_DIMS(5, -1)), TP_DIMS(5, 0));
        }
        tp_graph_destroy(h);
    }
    /* The inputs are as they were. */
    tp_tensor *x = count_up(g, TP_F32, TP_DIMS(2, 3));
    expect_error(g, tp_reshape(x, TP_DIMS(-1, -1)), TP_E_SHAPE, 1,
                 "reshape: -1 stands at dims 0 and 1");
    expect_error(g, tp_reshape(x, TP_DIMS(0, -1)), TP_E_SHAPE, 1,
                 "reshape: [2,3]: -1 is ambiguous because the other sizes multiply to 0");
    expect_values("x", x, VALUES(0, 1, 2, 3, 4, 5));
}

Test(views, f003_a_literal_zero_is_zero)
{
    EACH(h)
    {
        for (int k = 0; k < 2 * TP_DTYPE_COUNT; k++) {
            tp_dtype t = (tp_dtype)(k / 2);
            int b = k % 2;
            expect_empty("a", shaped(b, tp_full(h, t, TP_DIMS(2, 0), 0), TP_DIMS(1, 2, 0)),
                         TP_DIMS(1, 2, 0));
            expect_empty("b", shaped(b, tp_full(h, t, TP_DIMS(0, 3), 0), TP_DIMS(0, 0)),
                         TP_DIMS(0, 0));
            expect_empty("c", shaped(b, tp_full(h, t, TP_DIMS(0, 3, 5), 0), TP_DIMS(0, 0, 0)),
                         TP_DIMS(0, 0, 0));
            expect_empty("d", shaped(b, tp_full(h, t, TP_DIMS(2, 0, 4), 0), TP_DIMS(0, 0, 4)),
                         TP_DIMS(0, 0, 4));
        }
    }
    expect_error(g, tp_reshape(zeros(TP_DIMS(2, 3)), TP_DIMS(0, 3)), TP_E_SHAPE, -1,
                 "reshape: [2,3] has 6 elements, [0,3] has 0");
}

Test(views, f005_bitcast_ignores_the_stride_of_a_size_1_dim)
{
    EACH(h)
    {
        tp_tensor *t = count_up(h, TP_I64, TP_DIMS(1, 1, 8)),
                  *s = tp_select(tp_contiguous(tp_permute(t, TP_DIMS(0, 2, 1))), 0, 0),
                  *b = tp_bitcast(s, TP_I8);
        expect_shape("i64 to i8", b, TP_DIMS(8, 8));
        cr_expect_eq(tp_base(b), tp_base(t), "no copy");
        double rows[64] = {0};
        for (int i = 0; i < 8; i++) rows[8 * i] = i;
        expect_values("i64 to i8", b, 64, rows);
    }
    /* Every narrowing over a last dim of size 1, whatever its stride. */
    static const int64_t nonsense[] = {0, 1, 7, -3, INT64_MAX, INT64_MIN};
    for (int p = 0; p < TP_DTYPE_COUNT * TP_DTYPE_COUNT * 6; p++) {
        tp_dtype from = (tp_dtype)(p / 6 / TP_DTYPE_COUNT), to = (tp_dtype)(p / 6 % TP_DTYPE_COUNT);
        int64_t ratio = (int64_t)(tp_dtype_size(from) / tp_dtype_size(to));
        if (ratio == 0 || to == TP_BOOL) continue;
        char bytes[3 * 8];
        for (int i = 0; i < 24; i++) bytes[i] = (char)(i % 7 + 1);
        tp_tensor *x = tp_from_data(g, from, TP_DIMS(3), bytes),
                  *y = tp_bitcast(
                      tp_as_strided(x, TP_DIMS(3, 1), (int64_t[]){1, nonsense[p % 6]}, 0), to);
        expect_shape(tp_dtype_name(from), y, TP_DIMS(3, ratio));
        cr_expect_eq(tp_base(y), x);
        cr_assert_eq(tp_eval(y), TP_OK);
        cr_expect_arr_eq(tp_data(y), bytes, 3 * tp_dtype_size(from), "%s to %s",
                         tp_dtype_name(from), tp_dtype_name(to));
    }
    /* To wider ones: each condition has its words. */
    tp_tensor *u = count_up(g, TP_U8, TP_DIMS(8));
    tp_tensor *wide = tp_bitcast(u, TP_U64);
    expect_bits("u8 to u64", wide, TP_U64, 1, (uint64_t[]){0x0706050403020100});
    expect_error(g, tp_bitcast(count_up(g, TP_U8, TP_DIMS(3)), TP_U16), TP_E_SHAPE, -1,
                 "bitcast: u8 [3] : (1) + 0 to u16: the last dim's size does not divide");
    expect_error(g, tp_bitcast(tp_slice(u, 0, 0, TP_END, 2), TP_U16), TP_E_SHAPE, -1,
                 "bitcast: u8 [4] : (2) + 0 to u16: the last dim's stride is not 1");
    expect_error(g, tp_bitcast(tp_slice(u, 0, 1, 7, 1), TP_U16), TP_E_SHAPE, -1,
                 "bitcast: u8 [6] : (1) + 1 to u16: the offset does not divide");
    expect_error(
        g, tp_bitcast(tp_slice(count_up(g, TP_U8, TP_DIMS(3, 5)), 1, 0, 4, 1), TP_U16), TP_E_SHAPE,
        -1, "bitcast: u8 [3,4] : (5,1) + 0 to u16: the stride of an outer dim does not divide");
    expect_error(g, tp_bitcast(tp_slice(count_up(g, TP_U32, TP_DIMS(8)), 0, 0, 8, 2), TP_U8),
                 TP_E_SHAPE, -1,
                 "bitcast: u32 [4] : (2) + 0 to u8: the last dim's stride is not 1");
}

Test(views, f007_reshape_and_contiguous_go_in_row_major_order)
{
    EACH(h)
    {
        for (int d = TP_U8; d < TP_DTYPE_COUNT; d++) {
            tp_dtype t = (tp_dtype)d;
            tp_tensor *x = count_up(h, t, TP_DIMS(2, 3)), *y = count_up(h, t, TP_DIMS(3, 4));
            expect_values("7a", tp_reshape(tp_permute(x, TP_DIMS(1, 0)), TP_DIMS(6)),
                          VALUES(0, 3, 1, 4, 2, 5));
            expect_values("7b", tp_reshape(tp_permute(y, TP_DIMS(1, 0)), TP_DIMS(12)),
                          VALUES(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11));
            tp_tensor *z = tp_reshape(leaf_of(h, t, VALUES(1, 2, 3, 4, 5, 6)), TP_DIMS(3, 2)),
                      *c = tp_contiguous(tp_permute(z, TP_DIMS(1, 0)));
            void *memory = elements(t, VALUES(1, 3, 5, 2, 4, 6));
            cr_assert_eq(tp_eval(c), TP_OK);
            cr_expect_arr_eq(tp_data(c), memory, 6 * tp_dtype_size(t), "7c %s", tp_dtype_name(t));
            free(memory);
        }
    }
}

Test(views, f009_a_transposed_slice_is_a_view_for_one_row_and_a_copy_for_five)
{
    EACH(h)
    {
        tp_tensor *p = tp_permute(count_up(h, TP_F32, TP_DIMS(4, 5)), TP_DIMS(1, 0));
        tp_tensor *a = tp_reshape(tp_slice(p, 0, 0, 1, 1), TP_DIMS(4)),
                  *b = tp_reshape(p, TP_DIMS(20));
        cr_expect_eq(tp_base(a), tp_base(p));
        cr_expect_eq(tp_view_of(a).stride[0], 5);
        cr_expect_eq(plan_of(tp_neg(a)).copies, 0);
        expect_values("A", tp_add(a, tp_num(a, 0)), VALUES(0, 5, 10, 15));
        /* A result owns its bytes; a reader in between has no such wish, only no view. */
        tp_tensor *read = tp_matmul(b, tp_full(h, TP_F32, TP_DIMS(20), 1)),
                  *flat = tp_matmul(tp_reshape(p, TP_DIMS(2, 10)),
                                    tp_full(h, TP_F32, TP_DIMS(10, 1), 1));
        for (int k = 0; k < 3 && mode_ < 2; k++) {
            tp_tensor *y = k == 0 ? b : k == 1 ? read : flat;
            tp_plan *plan = tp_plan_create(h, 1, &y, NULL);
            char dot[8000];
            tp_plan_dot(plan, dot, sizeof dot);
            cr_expect_eq(tp_plan_summarize(plan).copies, 1, "exactly one copy: %s", dot);
            int kept = 0;
            for (int i = 0; i < tp_plan_copy_count(plan); i++) {
                tp_copy copy = tp_plan_copy(plan, i);
                if (!copy.kept) continue;
                kept++;
                cr_expect_eq(copy.reason, k ? TP_REASON_RESHAPE_NOT_A_VIEW : TP_REASON_USER_KEPT);
                cr_expect(!k || (copy.dims[0] == 0 && copy.dims[1] == 1));
                cr_expect(strstr(dot, tp_reason_name(copy.reason)), "the picture says why: %s",
                          dot);
            }
            cr_expect_eq(kept, 1);
            tp_plan_release(plan);
        }
        expect_values("B", b,
                      VALUES(0, 5, 10, 15, 1, 6, 11, 16, 2, 7, 12, 17, 3, 8, 13, 18, 4, 9, 14, 19));
    }
}

/* x permuted, then flat: element by element. */
static void check_flat(tp_graph *h, const int64_t *shape, const int64_t *axes, bool dense)
{
    int64_t n = shape[0] * shape[1] * shape[2] * shape[3], index[4] = {0}, size[4], stride[4];
    double want[81];
    for (int d = 3, step = 1; d >= 0; step *= (int)shape[d], d--) stride[d] = step;
    for (int d = 0; d < 4; d++) size[d] = shape[axes[d]];
    for (int64_t i = 0; i < n; i++) {
        want[i] = 0;
        for (int d = 0; d < 4; d++) want[i] += (double)(index[d] * stride[axes[d]]);
        for (int d = 3; d >= 0 && ++index[d] == size[d]; d--) index[d] = 0;
    }
    tp_tensor *y = tp_permute(tp_reshape(tp_arange(h, TP_F32, 0, 1, n), 4, shape), 4, axes);
    if (dense) y = tp_contiguous(y);
    char what[100];
    snprintf(what, sizeof what, "%d%d%d%d over [%d,%d,%d,%d]", (int)axes[0], (int)axes[1],
             (int)axes[2], (int)axes[3], (int)shape[0], (int)shape[1], (int)shape[2],
             (int)shape[3]);
    expect_values(what, tp_reshape(y, TP_DIMS(1, n)), (int)n, want);
}

static int permutations(int64_t (*list)[4])
{
    int count = 0;
    for (int i = 0; i < 256; i++) {
        int64_t p[4] = {i & 3, i >> 2 & 3, i >> 4 & 3, i >> 6};
        if ((1 << p[0] | 1 << p[1] | 1 << p[2] | 1 << p[3]) == 15)
            memcpy(list[count++], p, sizeof p);
    }
    return count;
}

Test(views, f010_a_size_1_dim_between_merged_dims)
{
    int64_t axes[24][4];
    cr_assert_eq(permutations(axes), 24);
    EACH(h)
    {
        tp_tensor *y = tp_permute(count_up(h, TP_F32, TP_DIMS(3, 1, 2)), TP_DIMS(1, 2, 0));
        expect_values("10", tp_reshape(tp_contiguous(y), TP_DIMS(1, 6)), VALUES(0, 2, 4, 1, 3, 5));
        expect_values("10 without", tp_reshape(y, TP_DIMS(1, 6)), VALUES(0, 2, 4, 1, 3, 5));
        for (int s = 0; s < 81; s++) {
            int64_t shape[4] = {s % 3 + 1, s / 3 % 3 + 1, s / 9 % 3 + 1, s / 27 + 1};
            for (int p = 0; p < 24; p++)
                check_flat(h, shape, axes[p], false), check_flat(h, shape, axes[p], true);
            tp_graph_reset(h);
        }
    }
}

Test(views, f011_permutations_compose)
{
    EACH(h)
    {
        tp_tensor *x = count_up(h, TP_F32, TP_DIMS(2, 3, 4)),
                  *y = tp_permute(tp_permute(x, TP_DIMS(1, 2, 0)), TP_DIMS(1, 2, 0));
        expect_shape("11", y, TP_DIMS(4, 2, 3));
        double want[24];
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 3; j++) want[6 * k + 3 * i + j] = 12 * i + 4 * j + k;
        tp_view a = tp_view_of(tp_permute(y, TP_DIMS(1, 2, 0))), b = tp_view_of(x);
        cr_expect(tp_view_equal(&a, &b), "three times is the identity");
        expect_values("11", y, 24, want);
    }
    /* All pairs of rank 4, with a copy between and without. */
    int64_t axes[24][4];
    permutations(axes);
    for (int p = 0; p < 24 * 24; p++) {
        const int64_t *first = axes[p / 24], *second = axes[p % 24];
        int64_t both[4];
        for (int d = 0; d < 4; d++) both[d] = first[second[d]];
        tp_tensor *x = tp_arange(g, TP_I32, 0, 1, 120), *s = tp_reshape(x, TP_DIMS(2, 3, 4, 5)),
                  *one = tp_permute(s, 4, both),
                  *two = tp_permute(tp_permute(s, 4, first), 4, second),
                  *copied = tp_permute(tp_contiguous(tp_permute(s, 4, first)), 4, second);
        tp_view a = tp_view_of(one), b = tp_view_of(two);
        cr_expect(tp_view_equal(&a, &b), "pair %d", p);
        tp_tensor *out[] = {tp_neg(one), tp_neg(two), tp_neg(copied)};
        cr_assert_eq(tp_eval_all(g, 3, out, NULL), TP_OK);
        cr_expect_arr_eq(tp_data(out[0]), tp_data(out[1]), 480, "pair %d", p);
        cr_expect_arr_eq(tp_data(out[0]), tp_data(out[2]), 480, "pair %d", p);
    }
}

Test(views, f013_a_slice_that_is_no_one_view_when_flat)
{
    EACH(h)
    {
        tp_tensor *s = tp_slice(count_up(h, TP_F32, TP_DIMS(3, 4)), 1, 0, 3, 1),
                  *flat = tp_reshape(s, TP_DIMS(9)), *back = tp_reshape(flat, TP_DIMS(3, 3));
        if (mode_ < 2) cr_expect_eq(plan_of(flat).copies, 1);
        if (mode_ < 2)
            cr_expect_eq(plan_of(tp_neg(back)).copies, 0, "in three rows it is a view again");
        expect_values("back", tp_neg(tp_neg(back)), VALUES(0, 1, 2, 4, 5, 6, 8, 9, 10));
        expect_values("flat", flat, VALUES(0, 1, 2, 4, 5, 6, 8, 9, 10));
    }
}

Test(views, f015_negative_sizes_are_refused_where_they_are_asked)
{
    tp_tensor *x = zeros(TP_DIMS(3)), *y = zeros(TP_DIMS(1, 3));
    expect_error(g, tp_expand(x, TP_DIMS(-2, 3)), TP_E_SHAPE, 0,
                 "expand: [3]: size -2 of dim 0 is negative");
    expect_error(g, tp_expand(y, TP_DIMS(-2, 2, 1, 3)), TP_E_SHAPE, 0,
                 "expand: [1,3]: size -2 of dim 0 is negative");
    expect_error(g, tp_expand(y, TP_DIMS(2, -2, 3)), TP_E_SHAPE, 1,
                 "expand: [1,3]: size -2 of dim 1 is negative");
    expect_error(g, tp_expand(y, TP_DIMS(1, INT64_MIN)), TP_E_SHAPE, 1,
                 "expand: [1,3]: size -9223372036854775808 of dim 1 is negative");
    expect_error(g, tp_expand(x, TP_DIMS(-1, 3)), TP_E_SHAPE, 0,
                 "expand: [3]: size -1 of dim 0 is negative");
    expect_error(g, tp_expand(y, TP_DIMS(4, 2)), TP_E_SHAPE, 1,
                 "expand: [1,3]: dim 1 has size 3, not 1, and cannot become 2");
    expect_shape("-1 keeps", tp_expand(y, TP_DIMS(4, -1)), TP_DIMS(4, 3));
    /* Every other builder that takes sizes. */
    int64_t strides[] = {1, 1};
    expect_error(g, tp_full(g, TP_F32, TP_DIMS(2, -2), 0), TP_E_SHAPE, 1,
                 "full: size -2 of dim 1 is negative");
    expect_error(g, tp_reshape(x, TP_DIMS(-2, -3)), TP_E_SHAPE, 0,
                 "reshape: size -2 of dim 0 is negative");
    expect_error(g, tp_as_strided(x, TP_DIMS(1, -2), strides, 0), TP_E_SHAPE, 1,
                 "as_strided: size -2 of dim 1 is negative");
    expect_error(g, tp_from_data(g, TP_F32, TP_DIMS(-1), strides), TP_E_SHAPE, 0,
                 "from_data: size -1 of dim 0 is negative");
    expect_error(g, tp_wrap(g, TP_F32, TP_DIMS(-1), NULL, 0, strides, sizeof strides, NULL, NULL),
                 TP_E_SHAPE, 0, "wrap: size -1 of dim 0 is negative");
    expect_error(g, tp_arange(g, TP_F32, 0, 1, -1), TP_E_SHAPE, 0,
                 "arange: size -1 of dim 0 is negative");
}

Test(views, f017_a_new_axis_wraps_against_rank_plus_one)
{
    tp_tensor *x = tp_full(g, TP_F32, TP_DIMS(4, 4), 1);
    expect_shape("-1", tp_unsqueeze(x, -1), TP_DIMS(4, 4, 1));
    expect_shape("-3", tp_unsqueeze(x, -3), TP_DIMS(1, 4, 4));
    expect_shape("2", tp_unsqueeze(x, 2), TP_DIMS(4, 4, 1));
    for (int rank = 0; rank <= 4; rank++) {
        tp_tensor *y = zeros(rank, (int64_t[]){2, 3, 4, 5});
        for (int axis = -rank - 3; axis <= rank + 2; axis++) {
            tp_tensor *z = tp_unsqueeze(y, axis);
            char text[120];
            snprintf(text, sizeof text,
                     "unsqueeze: axis %d is outside [%d, %d], rank %d of at most 16", axis,
                     -rank - 1, rank, rank);
            if (axis < -rank - 1 || axis > rank) {
                expect_error(g, z, TP_E_ARGUMENT, -1, text);
                continue;
            }
            int64_t want[5];
            int at = axis < 0 ? axis + rank + 1 : axis;
            for (int d = 0, from_dim = 0; d <= rank; d++)
                want[d] = d == at ? 1 : tp_dim(y, from_dim++);
            expect_shape("unsqueeze", z, rank + 1, want);
        }
    }
    cr_expect_null(tp_unsqueeze(x, INT_MAX));
    cr_expect_null(tp_unsqueeze(x, INT_MIN));
    tp_graph_clear_error(g);
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
