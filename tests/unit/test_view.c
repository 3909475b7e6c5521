/* The view algebra by hand: each line a fact that can be checked on paper. The numbers in
 * comments (P3, P4, ...) are the rows of reported faults of other systems that the facts answer.
 * Strides of size-1 dims hold POISON throughout: whoever reads one gets nonsense. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"

#define POISON INT64_MAX
/* A list and its length: sizes or strides. */
#define LIST(...)                                                                                  \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[])                         \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define VIEW(offset, ...) make(offset, __VA_ARGS__)

static tp_view make(int64_t offset, int ndim, const int64_t *shape, int count,
                    const int64_t *stride)
{
    tp_view v = {.ndim = ndim, .offset = offset};
    cr_assert_eq(ndim, count, "as many strides as sizes");
    memcpy(v.shape, shape, (size_t)ndim * sizeof *shape);
    memcpy(v.stride, stride, (size_t)ndim * sizeof *stride);
    return v;
}

static tp_view plain(int ndim, const int64_t *shape)
{
    return tp_view_row_major(ndim, shape);
}

/* Views print with row-major strides for size-1 dims, so that texts compare. */
static void expect_view(const char *what, const tp_view *v, const char *wanted)
{
    char text[800];
    tp_view_print(v, text, sizeof text);
    cr_expect_str_eq(text, wanted, "%s: %s, not %s", what, text, wanted);
}

static void expect_reshape(const char *what, const tp_view *v, int ndim, const int64_t *shape,
                           const char *wanted)
{
    tp_view y;
    int dims[2];
    cr_assert(tp_view_reshape(v, ndim, shape, &y, dims), "%s: no view", what);
    expect_view(what, &y, wanted);
}

/* No view, because dims outer and inner of v do not merge; y stays as it was. */
static void expect_copy(const char *what, const tp_view *v, int ndim, const int64_t *shape,
                        int outer, int inner)
{
    tp_view y = plain(1, (int64_t[]){77});
    int dims[2] = {-7, -7};
    cr_assert(!tp_view_reshape(v, ndim, shape, &y, dims), "%s: must copy", what);
    cr_expect(dims[0] == outer && dims[1] == inner, "%s: dims %d, %d", what, dims[0], dims[1]);
    expect_view(what, &y, "[77] : (1) + 0");
}

static tp_view slice(const tp_view *v, int axis, int64_t start, int64_t stop, int64_t step)
{
    tp_view y;
    cr_assert(tp_view_slice(v, axis, start, stop, step, &y));
    return y;
}

static tp_view expand(const tp_view *v, int ndim, const int64_t *shape)
{
    tp_view y;
    cr_assert(tp_view_expand(v, ndim, shape, &y));
    return y;
}

static tp_view permute(const tp_view *v, const int *axes)
{
    tp_view y;
    tp_view_permute(v, axes, &y);
    return y;
}

Test(view, sizes_and_copies)
{
    tp_view scalar = plain(0, NULL), huge = plain(LIST(INT64_MAX, 2)),
            none = plain(LIST(INT64_MAX, 2, 0)), to = plain(LIST(9, 9));
    cr_expect_eq(tp_view_numel(&scalar), 1);
    cr_expect_eq(tp_view_numel(&huge), -1, "beyond 2^63-1");
    cr_expect_eq(tp_view_numel(&none), 0, "a 0 anywhere decides");
    memset(to.shape + 2, 0x5A, sizeof to.shape - 2 * sizeof *to.shape);
    tp_view from = VIEW(4, LIST(2, 3), LIST(1, 2));
    tp_view_copy(&to, &from);
    expect_view("copied", &to, "[2,3] : (1,2) + 4");
    cr_expect_eq(to.shape[2], 0x5A5A5A5A5A5A5A5A, "the dims behind ndim are left alone");
}

Test(view, equality_ignores_what_cannot_matter)
{
    tp_view a = VIEW(3, LIST(2, 1, 3), LIST(3, POISON, 1)),
            b = VIEW(3, LIST(2, 1, 3), LIST(3, 0, 1)), c = VIEW(4, LIST(2, 1, 3), LIST(3, 0, 1)),
            d = VIEW(3, LIST(2, 1, 3), LIST(4, 0, 1)), e = VIEW(3, LIST(2, 3), LIST(3, 1));
    cr_expect(tp_view_equal(&a, &b));
    cr_expect(!tp_view_equal(&a, &c) && !tp_view_equal(&a, &d) && !tp_view_equal(&a, &e));
    tp_view none = VIEW(0, LIST(0, 4), LIST(4, 1)), same = VIEW(9, LIST(0, 4), LIST(7, 7));
    cr_expect(tp_view_equal(&none, &same));
}

Test(view, canonical_forms)
{
    /* P3: where a size-1 dim stands does not matter. */
    tp_view v = VIEW(7, LIST(1, 2, 2), LIST(0, 30, 2));
    for (int one = 0; one < 3; one++) {
        tp_view canon = tp_view_canon(&v);
        expect_view("P3", &canon, "[2,2] : (30,2) + 7");
        v = VIEW(7, LIST(2, one ? 2 : 1, one ? 1 : 2), LIST(30, 2, 2));
        v.stride[one ? 2 : 1] = POISON;
    }
    tp_view row = plain(LIST(2, 3, 4)), canon = tp_view_canon(&row);
    expect_view("row-major", &canon, "[24] : (1) + 0");
    v = VIEW(5, LIST(2, 3), LIST(0, 0)), canon = tp_view_canon(&v);
    expect_view("zeros merge", &canon, "[6] : (0) + 5");
    v = VIEW(5, LIST(2, 3, 4), LIST(0, 4, 1)), canon = tp_view_canon(&v);
    expect_view("a zero and another stride never", &canon, "[2,12] : (0,1) + 5");
    v = VIEW(0, LIST(2, 0), LIST(8, 8)), canon = tp_view_canon(&v);
    expect_view("empty", &canon, "[0] : (1) + 0");
    v = VIEW(6, LIST(1, 1), LIST(POISON, POISON)), canon = tp_view_canon(&v);
    expect_view("one element", &canon, "[] : () + 6");
    v = VIEW(0, LIST(2, 3), LIST(INT64_MAX, INT64_MAX / 2)), canon = tp_view_canon(&v);
    cr_expect_eq(canon.ndim, 2, "a product that overflows merges nothing");
}

Test(view, predicates)
{
    tp_view one = VIEW(6, LIST(1, 1), LIST(POISON, POISON)),
            shifted = VIEW(6, LIST(2, 1, 3), LIST(3, POISON, 1)),
            turned = VIEW(5, LIST(3, 2), LIST(-1, 3)), gaps = VIEW(0, LIST(2, 3), LIST(4, 1)),
            windows = VIEW(0, LIST(3, 2), LIST(1, 1)), spread = VIEW(0, LIST(5, 3), LIST(0, 1)),
            none = VIEW(0, LIST(0, 3), LIST(0, 0));
    cr_expect(tp_view_is_contiguous(&one) && !tp_view_is_row_major(&one));
    cr_expect(tp_view_is_contiguous(&shifted) && !tp_view_is_row_major(&shifted));
    cr_expect(tp_view_is_row_major(&none) && tp_view_is_dense(&none));
    cr_expect(!tp_view_is_contiguous(&turned) && tp_view_is_dense(&turned));
    cr_expect(!tp_view_is_dense(&gaps) && tp_view_is_injective(&gaps));
    cr_expect(!tp_view_is_injective(&windows) && !tp_view_is_injective(&spread));
    tp_view wide = VIEW(0, LIST(3, 2), LIST(INT64_MAX, 1));
    cr_expect(tp_view_is_injective(&wide), "the last span may overflow, nothing follows it");
}

Test(view, reach_and_overlap)
{
    int64_t low, high;
    tp_view v = VIEW(10, LIST(3, 1, 2), LIST(-4, POISON, 1)), none = plain(LIST(0));
    cr_expect(tp_view_reach(&v, &low, &high) && low == 2 && high == 11);
    cr_expect(!tp_view_reach(&none, &low, &high));
    v = VIEW(1, LIST(2), LIST(INT64_MAX));
    cr_expect(!tp_view_reach(&v, &low, &high), "beyond 2^63-1");
    v = VIEW(0, LIST(3), LIST(INT64_MAX));
    cr_expect(!tp_view_reach(&v, &low, &high), "the span itself is beyond it");

    tp_view even = VIEW(0, LIST(5), LIST(2)), odd = VIEW(1, LIST(5), LIST(2)),
            left = VIEW(0, LIST(4), LIST(1)), right = VIEW(4, LIST(4), LIST(1)),
            threes = VIEW(1, LIST(3, 1), LIST(3, POISON));
    cr_expect(!tp_view_may_overlap(&even, &odd), "2i is never 2j + 1");
    cr_expect(!tp_view_may_overlap(&left, &right), "next to each other");
    cr_expect(tp_view_may_overlap(&even, &threes), "4");
    cr_expect(!tp_view_may_overlap(&left, &none));
    tp_view four = VIEW(4, LIST(1), LIST(POISON)), five = VIEW(5, LIST(1), LIST(POISON));
    cr_expect(tp_view_may_overlap(&even, &four) && !tp_view_may_overlap(&even, &five));
    /* |INT64_MIN| is no int64: its distance classes still have to be right. */
    tp_view far = VIEW(0, LIST(2), LIST(INT64_MIN)), near = VIEW(INT64_MIN + 7, LIST(2), LIST(-7));
    cr_expect(tp_view_may_overlap(&far, &near), "at INT64_MIN");
}

Test(view, reshapes_that_are_views)
{
    tp_view a = plain(LIST(5, 17)), v = slice(&a, 1, TP_END, 16, 1);
    expect_reshape("P8", &v, LIST(5, 4, 4), "[5,4,4] : (17,4,1) + 0");
    v = VIEW(0, LIST(1, 2, 2), LIST(POISON, 3, 2));
    expect_reshape("P16: a leading size 1", &v, LIST(2, 2), "[2,2] : (3,2) + 0");
    v = VIEW(3, LIST(2, 3), LIST(0, 0));
    expect_reshape("zeros", &v, LIST(6), "[6] : (0) + 3");
    v = VIEW(5, LIST(2, 3), LIST(-3, -1));
    expect_reshape("both flipped", &v, LIST(6), "[6] : (-1) + 5");
    v = VIEW(5, LIST(2, 1, 3), LIST(-3, POISON, -1));
    expect_reshape("ones anywhere", &v, LIST(1, 3, 1, 2, 1), "[1,3,1,2,1] : (6,-2,2,-1,1) + 5");
    v = VIEW(9, LIST(1, 1), LIST(POISON, POISON));
    expect_reshape("one element", &v, 0, NULL, "[] : () + 9");
    v = VIEW(0, LIST(0, 3), LIST(5, 9));
    expect_reshape("empty", &v, LIST(2, 0, 4), "[2,0,4] : (4,4,1) + 0");
    v = VIEW(0, LIST(4, 6), LIST(10, 1));
    expect_reshape("inside the blocks", &v, LIST(2, 2, 3, 2), "[2,2,3,2] : (20,10,2,1) + 0");
}

Test(view, reshapes_that_are_none)
{
    tp_view a = plain(LIST(2, 3)), v = permute(&a, (int[]){1, 0});
    expect_copy("transposed", &v, LIST(6), 0, 1);
    tp_view x = plain(LIST(2, 1));
    v = expand(&x, LIST(2, 3));
    expect_copy("P19: a,a,a,b,b,b", &v, LIST(6), 0, 1);
    x = plain(LIST(1, 3)), v = expand(&x, LIST(2, 3));
    expect_copy("abcabc", &v, LIST(6), 0, 1);
    tp_view b = plain(LIST(10, 10)), rows = slice(&b, 0, 0, 5, 1);
    v = slice(&rows, 1, 0, 2, 1);
    expect_copy("P7: 0,1,10,11,..", &v, LIST(10), 0, 1);
    x = plain(LIST(4, 6)), v = slice(&x, 1, 0, TP_END, 2);
    expect_reshape("a step over whole rows", &v, LIST(12), "[12] : (2) + 0");
    v = slice(&x, 1, 0, TP_END, 4);
    expect_copy("a step across a row's end", &v, LIST(8), 0, 1);
    tp_view_flip(&a, 1, &v);
    expect_copy("one of two flipped", &v, LIST(6), 0, 1);
    v = VIEW(0, LIST(2, 1, 3, 4), LIST(1, POISON, 8, 2));
    expect_copy("the pair around a size 1", &v, LIST(24), 0, 2);
    v = VIEW(0, LIST(4, 6), LIST(10, 1));
    expect_copy("a size across the blocks", &v, LIST(3, 8), 0, 1);
    tp_view y;
    int dims[2];
    cr_expect(!tp_view_reshape(&v, 1, (int64_t[]){23}, &y, dims), "another number of elements");
}

Test(view, slices_are_pythons)
{
    tp_view x = VIEW(2, LIST(5), LIST(3)), y;
    static const struct {
        int64_t start, stop, step;
        const char *wanted;
    } facts[] = {
        {1, 4, 1, "[3] : (3) + 5"},
        {TP_END, TP_END, 2, "[3] : (6) + 2"},
        {-2, TP_END, 1, "[2] : (3) + 11"},
        {-9, 9, 3, "[2] : (9) + 2"},
        {TP_END, TP_END, -1, "[5] : (-3) + 14"},
        {3, 0, -2, "[2] : (-6) + 11"},
        {2, TP_END, -1, "[3] : (-3) + 8"},
        {2, -1, -1, "[0] : (1) + 0"},
        {4, 4, 1, "[0] : (1) + 0"},
        {9, TP_END, 1, "[0] : (1) + 0"},
        {INT64_MIN + 1, INT64_MAX, 1, "[5] : (3) + 2"},
        {INT64_MAX, INT64_MIN + 1, -1, "[5] : (-3) + 14"},
        {0, INT64_MAX, INT64_MAX, "[1] : (1) + 2"},
        {4, TP_END, INT64_MIN, "[1] : (1) + 14"},
        {TP_END, TP_END, INT64_MIN + 1, "[1] : (1) + 14"},
        {1, TP_END, INT64_MAX - 1, "[1] : (1) + 5"},
    };
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        char what[80];
        snprintf(what, sizeof what, "[%lld:%lld:%lld]", (long long)facts[i].start,
                 (long long)facts[i].stop, (long long)facts[i].step);
        y = slice(&x, 0, facts[i].start, facts[i].stop, facts[i].step);
        expect_view(what, &y, facts[i].wanted);
    }
    cr_expect(!tp_view_slice(&x, 0, 0, 1, 0, &y), "step 0");
    tp_view ten = plain(LIST(10)), third = slice(&ten, 0, 2, TP_END, 10);
    expect_reshape("P6: arange(10)[2::10] keeps its offset", &third, LIST(1, 1),
                   "[1,1] : (1,1) + 2");
    tp_view one = VIEW(8, LIST(1), LIST(POISON));
    y = slice(&one, 0, TP_END, TP_END, -3);
    expect_view("size 1, backwards", &y, "[1] : (1) + 8");
    tp_view none = plain(LIST(0));
    y = slice(&none, 0, TP_END, TP_END, -1);
    expect_view("of nothing", &y, "[0] : (1) + 0");
}

Test(view, other_steps)
{
    tp_view x = plain(LIST(2, 3, 4)), y, z;
    y = permute(&x, (int[]){1, 0, 2}), z = permute(&y, (int[]){0, 2, 1});
    tp_view direct = permute(&x, (int[]){1, 2, 0});
    expect_view("P10", &z, "[3,4,2] : (4,1,12) + 0");
    cr_expect(tp_view_equal(&z, &direct));
    tp_view_select(&x, 1, 2, &y);
    expect_view("select", &y, "[2,4] : (12,1) + 8");
    tp_view_flip(&x, 2, &y);
    expect_view("flip", &y, "[2,3,4] : (12,4,-1) + 3");
    tp_view one = VIEW(3, LIST(2, 1), LIST(5, POISON));
    tp_view_flip(&one, 1, &y);
    expect_view("flip a size 1", &y, "[2,1] : (5,1) + 3");
    tp_view_select(&one, 1, 0, &y);
    expect_view("select a size 1", &y, "[2] : (5) + 3");
    tp_view_squeeze(&one, 1, &y);
    expect_view("squeeze", &y, "[2] : (5) + 3");
    tp_view_unsqueeze(&x, 3, &y);
    expect_view("unsqueeze", &y, "[2,3,4,1] : (12,4,1,1) + 0");
    cr_expect_eq(y.stride[3], 1, "the stride shown to users");
    y = expand(&one, LIST(3, 2, 4));
    expect_view("expand", &y, "[3,2,4] : (0,5,0) + 3");
    y = expand(&one, LIST(2, 0));
    expect_view("expand to nothing", &y, "[2,0] : (5,0) + 0");
    cr_expect(!tp_view_expand(&x, 3, (int64_t[]){2, 3, 5}, &y) &&
              !tp_view_expand(&x, 2, (int64_t[]){3, 4}, &y));
    tp_view none = plain(LIST(0));
    cr_expect(!tp_view_expand(&none, 1, (int64_t[]){2}, &y), "0 is not 1");
    tp_view_diagonal(&x, 1, 1, 2, &y);
    expect_view("diagonal", &y, "[2,3] : (12,5) + 1");
    tp_view_diagonal(&x, -1, 2, 0, &y);
    expect_view("diagonal below, axes swapped", &y, "[3,2] : (4,13) + 1");
    tp_view_diagonal(&x, INT64_MIN, 0, 1, &y);
    expect_view("diagonal outside", &y, "[4,0] : (1,1) + 0");
    tp_view_diagonal(&x, INT64_MAX, 0, 1, &y);
    expect_view("diagonal outside", &y, "[4,0] : (1,1) + 0");
    y = VIEW(0, LIST(2, 1, 3, 1), LIST(9, POISON, 2, POISON));
    tp_view_normalize(&y);
    cr_expect(y.stride[0] == 9 && y.stride[1] == 3 && y.stride[2] == 2 && y.stride[3] == 1);
}

static void expect_bitcast(const char *what, const tp_view *v, size_t from, size_t to,
                           const char *wanted)
{
    tp_view y;
    const char *why = tp_view_bitcast(v, from, to, &y);
    if (!wanted) {
        cr_expect(why, "%s: must be refused", what);
        return;
    }
    cr_assert(!why, "%s: %s", what, why);
    expect_view(what, &y, wanted);
}

Test(view, bitcasts)
{
    tp_view x = plain(LIST(512, 3)), one = slice(&x, 0, 1, 0, -1);
    expect_bitcast("P12: u16[512,3][1:0:-1] as u8", &one, 2, 1, "[1,6] : (6,1) + 6");
    x = VIEW(3, LIST(2, 1), LIST(1, POISON));
    expect_bitcast("P12: a stale last stride", &x, 2, 1, "[2,2] : (2,1) + 6");
    x = plain(LIST(6));
    expect_bitcast("P13: i32 as i16", &x, 4, 2, "[12] : (1) + 0");
    x = plain(LIST(3, 5));
    tp_view turned = permute(&x, (int[]){1, 0});
    expect_bitcast("P13: i64[3,5] transposed as i32", &turned, 8, 4, NULL);
    x = plain(LIST(3, 4, 2));
    tp_view some = slice(&x, 1, 0, TP_END, 2);
    expect_bitcast("P14: only the last dim must be dense", &some, 4, 8, "[3,2,1] : (4,2,1) + 0");
    x = plain(0, NULL);
    expect_bitcast("P15: 0-d of the same size", &x, 1, 1, "[] : () + 0");
    expect_bitcast("0-d of another size", &x, 1, 2, NULL);
    x = VIEW(1, LIST(2, 4), LIST(4, 1));
    expect_bitcast("the offset does not divide", &x, 1, 2, NULL);
    x = VIEW(0, LIST(2, 4), LIST(5, 1));
    expect_bitcast("a stride does not divide", &x, 1, 2, NULL);
    x = VIEW(0, LIST(1, 4), LIST(POISON, 1));
    expect_bitcast("a stride that nobody reads", &x, 1, 4, "[1,1] : (1,1) + 0");
    x = plain(LIST(2, 3));
    expect_bitcast("the size does not divide", &x, 1, 2, NULL);
    x = VIEW(0, LIST(2, 4), LIST(0, 1));
    expect_bitcast("repeated rows", &x, 1, 2, "[2,2] : (0,1) + 0");
    x = VIEW(0, LIST(0, 4), LIST(3, 7));
    expect_bitcast("empty", &x, 1, 4, "[0,1] : (1,1) + 0");
}

static void expect_compose(const char *what, const tp_view *lower, const tp_view *upper,
                           const char *wanted)
{
    tp_view y;
    int dims[2];
    cr_assert(tp_view_compose(lower, upper, &y, dims), "%s: not merged", what);
    expect_view(what, &y, wanted);
}

Test(view, compositions)
{
    tp_view x = plain(LIST(2, 3, 4)), none = plain(LIST(2, 0, 4)), shifted = x, y;
    int dims[2];
    expect_compose("P4: nothing of something", &x, &none, "[2,0,4] : (4,4,1) + 0");
    shifted.offset = 7;
    tp_view upper = VIEW(3, LIST(2, 1, 2), LIST(12, POISON, -1));
    expect_compose("a shift", &shifted, &upper, "[2,1,2] : (12,2,-1) + 10");

    /* P9: [3,1,2] turned to [1,2,3], then flat: 0,2,4,1,3,5 is no strided row. */
    tp_view six = plain(LIST(3, 1, 2)), turned = permute(&six, (int[]){1, 2, 0});
    tp_view flat = plain(LIST(1, 6));
    cr_expect(!tp_view_compose(&turned, &flat, &y, dims), "P9");
    cr_expect(dims[0] == 1 && dims[1] == 2, "P9: dims %d, %d", dims[0], dims[1]);
    /* Half of it is: flatten, then take what lies in one block. */
    upper = VIEW(3, LIST(3), LIST(1));
    expect_compose("flatten and slice", &turned, &upper, "[3] : (2) + 1");
    upper = VIEW(0, LIST(2, 3), LIST(3, 1));
    expect_compose("flatten and back", &turned, &upper, "[2,3] : (1,2) + 0");
    upper = VIEW(1, LIST(2), LIST(3));
    expect_compose("flatten and pick", &turned, &upper, "[2] : (1) + 2");

    /* P11: as 2x3 transposed, as 2x3 transposed again: not the identity. */
    tp_view two = plain(LIST(2, 3)), once = permute(&two, (int[]){1, 0});
    cr_expect(!tp_view_compose(&once, &once, &y, dims), "P11");
    /* 3x2 transposed after 2x3 transposed is. */
    tp_view three = plain(LIST(3, 2)), back = permute(&three, (int[]){1, 0});
    expect_compose("transposed twice", &once, &back, "[2,3] : (3,1) + 0");

    /* Two terms that cancel each other: 11, 14, 17 lie 3 apart though each carries. */
    tp_view odd = VIEW(0, LIST(2, 2, 4), LIST(14, 10, 1));
    upper = VIEW(6, LIST(3), LIST(1));
    expect_compose("cancelled carries", &odd, &upper, "[3] : (1) + 12");
}

/* Extents times remainders beyond 2^64 must not look like extents that fit: only the first
 * element lies in the first of four repeated rows. */
Test(view, compositions_do_not_wrap)
{
    int64_t row = (INT64_C(1) << 32) + 1;
    tp_view lower = VIEW(0, LIST(4, row), LIST(1, 0)), upper = VIEW(row - 1, LIST(row), LIST(1)), y;
    int dims[2];
    cr_expect(!tp_view_compose(&lower, &upper, &y, dims));
    cr_expect(dims[0] == 0 && dims[1] == 1, "dims %d, %d", dims[0], dims[1]);
    upper = VIEW(row, LIST(row), LIST(1));
    expect_compose("all of one row", &lower, &upper, "[4294967297] : (0) + 1");
}

Test(view, inverses)
{
    tp_view v = VIEW(0, LIST(2, 3, 4), LIST(4, 8, 1)), w; /* [3,2,4] permuted */
    cr_assert(tp_view_inverse(&v, &w));
    expect_view("permuted", &w, "[3,2,4] : (4,12,1) + 0");
    v = VIEW(5, LIST(2, 1, 3), LIST(-3, POISON, -1));
    cr_assert(tp_view_inverse(&v, &w));
    expect_view("flipped", &w, "[2,3] : (-3,-1) + 5");
    v = VIEW(2, LIST(3, 2), LIST(-1, 3));
    cr_assert(tp_view_inverse(&v, &w));
    expect_view("one of two flipped", &w, "[2,3] : (1,-2) + 4");
    v = VIEW(0, LIST(1, 1), LIST(POISON, POISON));
    cr_assert(tp_view_inverse(&v, &w));
    expect_view("one element", &w, "[] : () + 0");
    v = plain(LIST(3, 0));
    cr_assert(tp_view_inverse(&v, &w));
    cr_expect_eq(tp_view_numel(&w), 0);
    v = VIEW(1, LIST(2, 3), LIST(3, 1));
    cr_expect(!tp_view_inverse(&v, &w), "does not start at 0");
    v = VIEW(0, LIST(2, 3), LIST(4, 1));
    cr_expect(!tp_view_inverse(&v, &w), "has gaps");
    v = VIEW(0, LIST(2, 3), LIST(0, 1));
    cr_expect(!tp_view_inverse(&v, &w), "repeats");
}

Test(view, texts)
{
    tp_view x = VIEW(-1, LIST(2, 1), LIST(-3, POISON)), scalar = plain(0, NULL);
    char text[32];
    cr_expect_eq(tp_view_print(&x, text, sizeof text), 19);
    cr_expect_str_eq(text, "[2,1] : (-3,1) + -1");
    cr_expect_eq(tp_view_print_shape(&scalar, text, sizeof text), 2);
    cr_expect_str_eq(text, "[]");
    tp_view wide = plain(LIST(1000, 1000, 1000));
    cr_expect_eq(tp_view_print_shape(&wide, text, 8), 16, "its length even if it is cut");
    cr_expect_str_eq(text, "[1000,1");
    cr_expect_eq(tp_view_print_shape(&wide, NULL, 0), 16);
}
