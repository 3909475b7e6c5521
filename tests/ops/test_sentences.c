/* What is refused, word for word. */
#include <criterion/criterion.h>

#include "tests/ops/harness.h"
#include "tests/backend.h"

static void expect_error(tp_graph *g, tp_tensor *y, tp_status status, const char *text)
{
    cr_expect_null(y);
    cr_expect_eq(tp_graph_error(g)->status, status, "%s", text);
    cr_expect_str_eq(tp_graph_error(g)->text, text);
    tp_graph_clear_error(g);
}

Test(ops, refusals_are_one_sentence)
{
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *x = tp_full(g, TP_F32, TP_DIMS(2, 3), 1), *u = tp_full(g, TP_U64, TP_DIMS(2), 1),
              *i = tp_full(g, TP_I32, TP_DIMS(2), 1);
    tp_tensor *empty = tp_full(g, TP_F32, TP_DIMS(2, 0), 1), *scalar = tp_scalar(g, TP_F32, 1);
    expect_error(g, tp_add(u, i), TP_E_DTYPE,
                 "add: no integer type holds both u64 and i32: cast one operand");
    expect_error(g, tp_matmul(x, x), TP_E_SHAPE,
                 "matmul: a is [2,3], b is [2,3]: dim 1 of a is 3, dim 0 of b is 2");
    expect_error(g, tp_matmul(scalar, x), TP_E_SHAPE,
                 "matmul: a is [], b is [2,3]: 0-d operands have no matrix product");
    expect_error(
        g,
        tp_matmul(tp_full(g, TP_F32, TP_DIMS(2, 2, 3), 0), tp_full(g, TP_F32, TP_DIMS(3, 3, 2), 0)),
        TP_E_SHAPE, "matmul: a is [2,2,3], b is [3,3,2]: dim 0 of a is 2, dim 0 of b is 3");
    expect_error(g, tp_max(empty, TP_ALL_AXES, false), TP_E_SHAPE,
                 "max: nothing to reduce: dim 1 of [2,0] has size 0");
    expect_error(g, tp_sum(x, 2, (int64_t[]){0, -2}, false), TP_E_ARGUMENT,
                 "sum: axis -2 is given twice");
    expect_error(g, tp_softmax(x, 2), TP_E_ARGUMENT, "softmax: axis 2 is outside [-2, 1] of [2,3]");
    expect_error(g, tp_layer_norm(x, 1, i, NULL, 0), TP_E_SHAPE,
                 "layer_norm: x is [2,3], weight is [2]: it must have the last 1 dims of x");
    expect_error(g, tp_index_select(x, 0, x), TP_E_DTYPE,
                 "index_select: indices are f32, an integer type is needed");
    expect_error(g, tp_expand(x, TP_DIMS(2, 4)), TP_E_SHAPE,
                 "expand: [2,3]: dim 1 has size 3, not 1, and cannot become 4");
    expect_error(g, tp_expand(x, TP_DIMS(-2, 2, 3)), TP_E_SHAPE,
                 "expand: [2,3]: size -2 of dim 0 is negative");
    expect_error(
        g, tp_view_as(tp_transpose(x, 0, 1), TP_DIMS(6)), TP_E_SHAPE,
        "view_as: [3,2] : (1,3) + 0 as [6]: dims 0 and 1 cannot merge over strides 1 and 3");
    expect_error(g, tp_reshape(x, TP_DIMS(4, -1)), TP_E_SHAPE,
                 "reshape: [2,3] has 6 elements, which the other sizes' product 4 does not divide");
    expect_error(g, tp_reshape(empty, TP_DIMS(0, -1)), TP_E_SHAPE,
                 "reshape: [2,0]: -1 is ambiguous because the other sizes multiply to 0");
    expect_error(g, tp_select(x, 1, 3), TP_E_BOUNDS,
                 "select: index 3 is outside dim 1 of [2,3], size 3");
    expect_error(g, tp_bitcast(x, TP_F64), TP_E_SHAPE,
                 "bitcast: f32 [2,3] : (3,1) + 0 to f64: the last dim's size does not divide");
    expect_error(g, tp_as_strided(x, TP_DIMS(2, 3), (int64_t[]){3, 2}, 0), TP_E_BOUNDS,
                 "as_strided: [2,3] : (3,2) + 0 reaches element 7, the storage has 6");
    expect_error(g, tp_int(tp_full(g, TP_U8, TP_DIMS(2), 0), 300), TP_E_DTYPE,
                 "int: 300 does not fit u8");
    /* The first cause survives a whole nested expression. */
    tp_tensor *nested = tp_relu(tp_softmax(tp_add(tp_matmul(x, x), x), 7));
    expect_error(g, nested, TP_E_SHAPE,
                 "matmul: a is [2,3], b is [2,3]: dim 1 of a is 3, dim 0 of b is 2");
    tp_graph_destroy(g);
}

Test(ops, a_bad_index_names_itself_and_leaves_everything_usable)
{
    for (int b = 0; b < 2; b++) {
        tp_graph *g = tp_graph_create(NULL);
        tp_graph_set_backend(g, b ? "ref" : tested_backend());
        tp_tensor *x = tp_arange(g, TP_F32, 0, 1, 5),
                  *i = tp_from_data(g, TP_I32, TP_DIMS(3), (int32_t[]){0, -5, 5});
        tp_tensor *y = tp_index_select(x, 0, i);
        cr_expect_eq(tp_eval(y), TP_E_BOUNDS);
        cr_expect_str_eq(tp_graph_error(g)->text,
                         "index_select: index 5 at position 2 is outside axis 0 of size 5");
        cr_expect(!tp_is_evaluated(y));
        cr_expect_eq(tp_bind(i, (int32_t[]){0, -5, 4}, 12), TP_OK);
        cr_expect_eq(tp_eval(y), TP_OK);
        cr_expect(tp_item(y, 0) == 0 && tp_item(y, 1) == 0 && tp_item(y, 2) == 4);
        tp_graph_destroy(g);
    }
}

/* An index of 2^63 and more is printed as it is, not as the negative number of the same bits. */
Test(ops, a_bad_unsigned_index_is_printed_unsigned)
{
    static const struct {
        uint64_t index;
        const char *text;
    } cases[] = {
        {UINT64_MAX,
         "index_select: index 18446744073709551615 at position 1 is outside axis 0 of size 5"},
        {UINT64_C(1) << 63,
         "index_select: index 9223372036854775808 at position 1 is outside axis 0 of size 5"},
        {UINT64_MAX - 4, /* as i64 it would be -5 and wrap */
         "index_select: index 18446744073709551611 at position 1 is outside axis 0 of size 5"},
        {INT64_MAX,
         "index_select: index 9223372036854775807 at position 1 is outside axis 0 of size 5"},
        {5, "index_select: index 5 at position 1 is outside axis 0 of size 5"},
    };
    for (size_t c = 0; c < 2 * sizeof cases / sizeof *cases; c++) {
        tp_graph *g = tp_graph_create(NULL);
        tp_graph_set_backend(g, c % 2 ? "ref" : tested_backend());
        tp_tensor *x = tp_arange(g, TP_F32, 0, 1, 5),
                  *i = tp_from_data(g, TP_U64, TP_DIMS(2), (uint64_t[]){4, cases[c / 2].index}),
                  *y = tp_index_select(x, 0, i);
        cr_expect_eq(tp_eval(y), TP_E_BOUNDS);
        cr_expect_str_eq(tp_graph_error(g)->text, cases[c / 2].text);
        cr_expect_eq(tp_bind(i, (uint64_t[]){4, 3}, 16), TP_OK);
        cr_expect_eq(tp_eval(y), TP_OK);
        cr_expect_eq(tp_item(y, 1), 3);
        tp_graph_destroy(g);
    }
}
