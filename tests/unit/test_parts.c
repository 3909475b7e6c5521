/* Parts of larger tensors, work along an axis, random numbers, attention and convolution: values,
 * copies and where they went, refusals. */
#include "backends/random.h"
#include "tests/cases/expect.h"

static tp_graph *g;
static void set_up(void)
{
    g = tp_graph_create(NULL);
}
static void tear_down(void)
{
    tp_graph_destroy(g);
}
TestSuite(parts, .init = set_up, .fini = tear_down);

static tp_tensor *counted(int ndim, const int64_t *shape)
{
    return count_up(g, TP_F32, ndim, shape);
}

static tp_tensor *floats(int ndim, const int64_t *shape, const float *data)
{
    return tp_from_data(g, TP_F32, ndim, shape, data);
}

/* Kept and removed copies with a reason. */
static int ledger(tp_tensor *y, tp_reason reason)
{
    tp_plan *plan = tp_plan_create(g, 1, &y, NULL);
    cr_assert(plan, "%s", tp_graph_error(g)->text);
    int found = 0;
    for (int i = 0; i < tp_plan_copy_count(plan); i++)
        found += tp_plan_copy(plan, i).reason == reason;
    tp_plan_release(plan);
    return found;
}

Test(parts, concat_and_stack)
{
    tp_tensor *a = counted(TP_DIMS(2, 2)), *b = tp_neg(counted(TP_DIMS(2, 1)));
    tp_tensor *y = tp_concat(3, (tp_tensor *[]){a, b, a}, 1);
    expect_shape("concat", y, TP_DIMS(2, 5));
    cr_expect_eq(ledger(y, TP_REASON_PART), 2, "two leaves are brought");
    cr_expect_eq(ledger(y, TP_REASON_FUSED), 1, "neg stores into its part");
    expect_values("concat", y, VALUES(0, 1, -0.0, 0, 1, 2, 3, -1, 2, 3));
    expect_values("reader", tp_transpose(tp_mul(tp_concat(TP_LIST(a, a), 0), tp_num(a, 2)), 0, 1),
                  VALUES(0, 4, 0, 4, 2, 6, 2, 6));
    expect_values("stack", tp_stack(2, (tp_tensor *[]){a, tp_transpose(a, 0, 1)}, -1),
                  VALUES(0, 0, 1, 2, 2, 1, 3, 3));
    expect_values("roll", tp_roll(counted(TP_DIMS(5)), 0, 2), VALUES(3, 4, 0, 1, 2));
    expect_values("roll back", tp_roll(counted(TP_DIMS(5)), 0, -6), VALUES(1, 2, 3, 4, 0));
    expect_values("not at all", tp_roll(counted(TP_DIMS(2)), 0, 2), VALUES(0, 1));
    tp_tensor *none = tp_slice(a, 1, 0, 0, 1);
    expect_values("empty part", tp_concat(TP_LIST(none, a, none), 1), VALUES(0, 1, 2, 3));
    expect_shape("all empty", tp_concat(TP_LIST(none, none), 1), TP_DIMS(2, 0));
    cr_expect_eq(tp_eval(tp_concat(TP_LIST(none, none), 1)), TP_OK);
    tp_tensor *t = tp_cast(a, TP_BOOL), *u = tp_cast(a, TP_U8), *i = tp_cast(a, TP_I8);
    cr_expect_eq(tp_dtype_of(tp_concat(TP_LIST(t, t), 0)), TP_BOOL);
    cr_expect_eq(tp_dtype_of(tp_concat(TP_LIST(u, t, i), 0)), TP_I16);
    expect_refusal("shapes", g, tp_concat(TP_LIST(a, b), 0),
                   "operand 0 is [2,2], operand 1 is [2,1]: dim 1 is 2 against 1");
    expect_refusal("ranks", g, tp_stack(2, (tp_tensor *[]){a, counted(TP_DIMS(2))}, 0),
                   "operand 0 is [2,2], operand 1 is [2]: the ranks differ");
    expect_refusal("axis", g, tp_concat(TP_LIST(a, a), 2), "axis 2 is outside [-2, 1] of [2,2]");
    expect_refusal("types", g, tp_concat(TP_LIST(tp_cast(a, TP_U64), i), 0),
                   "no integer type holds both u64 and i8");
}

/* Kernels that are no elementwise work store into their parts. */
Test(parts, producers_store_into_parts)
{
    tp_tensor *a = tp_sin(counted(TP_DIMS(3, 4))), *b = tp_cos(counted(TP_DIMS(4, 3)));
    tp_tensor *product = tp_matmul(a, b), *soft = tp_softmax(a, 1),
              *sum = tp_sum(a, TP_DIMS(1), true);
    tp_tensor *y = tp_concat(4, (tp_tensor *[]){product, soft, sum, tp_transpose(b, 0, 1)}, 1);
    tp_plan_summary s = plan_of(y);
    cr_expect_eq(s.copies, 1, "b, which the product reads too");
    cr_expect_eq(s.asked_copies, 4);
    cr_expect_eq(ledger(y, TP_REASON_SUNK_LDC), 1);
    tp_tensor *want[] = {product, soft, sum, b};
    tp_graph_set_pass(g, "all", false);
    cr_assert_eq(tp_eval_all(g, 4, want, NULL), TP_OK);
    tp_graph_set_pass(g, "all", true);
    tp_tensor *fresh = tp_concat(
        4,
        (tp_tensor *[]){tp_matmul(tp_sin(counted(TP_DIMS(3, 4))), tp_cos(counted(TP_DIMS(4, 3)))),
                        tp_softmax(tp_sin(counted(TP_DIMS(3, 4))), 1),
                        tp_sum(tp_sin(counted(TP_DIMS(3, 4))), TP_DIMS(1), true),
                        tp_transpose(tp_cos(counted(TP_DIMS(4, 3))), 0, 1)},
        1);
    cr_assert_eq(tp_eval(fresh), TP_OK);
    int64_t at[] = {0, 3, 7, 8, 12};
    for (int row = 0; row < 3; row++) {
        for (int k = 0; k < 4; k++) {
            for (int64_t col = at[k]; col < at[k + 1]; col++) {
                int64_t c = col - at[k], width = at[k + 1] - at[k];
                double right = tp_item(want[k], k == 3 ? c * 3 + row : row * width + c);
                cr_expect_eq(tp_item(fresh, row * 12 + col), right, "row %d, col %d", row,
                             (int)col);
            }
        }
    }
    /* One that others read too is brought. */
    tp_tensor *p = tp_matmul(tp_sin(counted(TP_DIMS(2, 2))), counted(TP_DIMS(2, 2)));
    tp_tensor *both[] = {tp_concat(TP_LIST(p, p), 0), tp_sum(p, TP_ALL_AXES, false)};
    tp_plan *plan = tp_plan_create(g, 2, both, NULL);
    cr_expect_eq(tp_plan_summarize(plan).copies, 1,
                 "sum reads the first part, the second is a copy of it");
    tp_plan_release(plan);
}

Test(parts, pad)
{
    tp_tensor *x = tp_add(counted(TP_DIMS(2, 2)), tp_scalar(g, TP_F32, 1));
    expect_values("pad", tp_pad(x, TP_DIMS(1, 0, 0, 2), 9),
                  VALUES(9, 9, 9, 9, 1, 2, 9, 9, 3, 4, 9, 9));
    expect_values("none", tp_pad(x, TP_DIMS(0, 0, 0, 0), 9), VALUES(1, 2, 3, 4));
    expect_values("only margin", tp_pad(tp_slice(x, 0, 0, 0, 1), TP_DIMS(0, 1, 1, 0), 5),
                  VALUES(5, 5, 5));
    expect_values("0-d", tp_pad(tp_scalar(g, TP_I32, 3), 0, NULL, 1), VALUES(3));
    expect_values("transposed", tp_pad(tp_transpose(x, 0, 1), TP_DIMS(0, 0, 1, 0), -1),
                  VALUES(-1, 1, 3, -1, 2, 4));
    cr_expect_eq(plan_of(tp_pad(x, TP_DIMS(1, 1, 1, 1), 0)).copies, 0,
                 "add stores into the middle");
    expect_refusal("widths", g, tp_pad(x, TP_DIMS(1, 1), 0),
                   "[2,2] needs 4 widths, before and after each dim, not 2");
    expect_refusal("negative", g, tp_pad(x, TP_DIMS(0, 0, -1, 0), 0),
                   "widths -1 and 0 of dim 1 are negative");
    expect_refusal("value", g, tp_pad(tp_cast(x, TP_U8), TP_DIMS(1, 1, 1, 1), -1),
                   "u8 cannot hold -1");
}

Test(parts, update)
{
    tp_tensor *x = counted(TP_DIMS(2, 3)), *v = floats(TP_DIMS(2), (float[]){7, 8});
    tp_tensor *y = tp_update(x, tp_index(x, ":, 1"), v);
    expect_values("column", y, VALUES(0, 7, 2, 3, 8, 5));
    expect_values("x stays", x, VALUES(0, 1, 2, 3, 4, 5));
    expect_values("reversed", tp_update(x, tp_index(x, "0, ::-2"), v), VALUES(8, 1, 7, 3, 4, 5));
    expect_values("broadcast", tp_update(x, tp_index(x, "1"), tp_scalar(g, TP_I64, 9)),
                  VALUES(0, 1, 2, 9, 9, 9));
    tp_tensor *square = counted(TP_DIMS(3, 3));
    expect_values("diagonal",
                  tp_update(square, tp_diagonal(square, 0, 0, 1), tp_scalar(g, TP_F32, -1)),
                  VALUES(-1, 1, 2, 3, -1, 5, 6, 7, -1));
    tp_tensor *t = tp_transpose(x, 0, 1);
    expect_values("of a view", tp_update(t, tp_slice(t, 0, 1, 2, 1), v), VALUES(0, 3, 7, 8, 2, 5));
    expect_values("all of it", tp_update(x, tp_flip(x, TP_DIMS(1)), tp_flip(x, TP_DIMS(1))),
                  VALUES(0, 1, 2, 3, 4, 5));
    expect_values("from itself", tp_update(x, tp_index(x, "0"), tp_index(x, "1")),
                  VALUES(3, 4, 5, 3, 4, 5));
    expect_values("none of it", tp_update(x, tp_index(x, "0:0"), v = tp_scalar(g, TP_F32, 1)),
                  VALUES(0, 1, 2, 3, 4, 5));
    tp_tensor *wide = tp_expand(tp_slice(x, 1, 0, 1, 1), TP_DIMS(2, 4));
    expect_refusal("stride 0", g, tp_update(x, wide, v),
                   "has stride 0 in dim 1 (size 4): broadcast views are read-only");
    expect_refusal("overlap", g, tp_update(x, tp_windows(x, 1, 2, 1), v), "may lie on each other");
    expect_refusal("no view", g, tp_update(x, tp_neg(x), v), "is not a view of");
    tp_tensor *base = tp_neg(counted(TP_DIMS(2, 3))), *turned = tp_transpose(base, 0, 1);
    expect_refusal("copy between", g, tp_update(turned, tp_flatten(turned, 0, 1), v),
                   "(contiguous) is between");
    expect_refusal(
        "F041", g, tp_update(x, tp_index(x, ":, 0:2"), counted(TP_DIMS(3))),
        "the value [3] does not fit the region [2,2]: dimension 1 from the right is 3 against 2");
    expect_refusal("dims", g, tp_update(x, tp_index(x, "0, 1"), counted(TP_DIMS(3))),
                   "the value [3] has more dims than the region []");
}

/* An update writes over what nobody else needs, and only that. */
Test(parts, update_in_place)
{
    tp_tensor *x = tp_neg(counted(TP_DIMS(2, 3))), *v = floats(TP_DIMS(3), (float[]){7, 8, 9});
    tp_tensor *y = tp_update(x, tp_index(x, "1"), v);
    cr_expect_eq(ledger(y, TP_REASON_IN_PLACE), 1);
    cr_expect_eq(ledger(y, TP_REASON_ALIAS_WRITE), 0);
    tp_tensor *z = tp_update(y, tp_index(y, ":, 0"), tp_scalar(g, TP_F32, 1));
    cr_expect_eq(ledger(z, TP_REASON_IN_PLACE), 2, "a chain");
    expect_values("chain", z, VALUES(1, -1, -2, 1, 8, 9));
    tp_tensor *sum = tp_add(tp_sum(x, TP_ALL_AXES, false), tp_sum(y, TP_ALL_AXES, false));
    cr_expect_eq(ledger(sum, TP_REASON_ALIAS_WRITE), 1, "x is read by sum too");
    expect_values("both", sum, VALUES(-15 + -3 + 24));
    tp_tensor *q = tp_neg(counted(TP_DIMS(2))),
              *r = tp_update(q, tp_slice(q, 0, 0, 1, 1), tp_num(q, 5));
    tp_tensor *both[] = {q, r};
    cr_expect_eq(tp_eval_all(g, 2, both, NULL), TP_OK);
    expect_values("q", q, VALUES(-0.0, -1));
    expect_values("r", r, VALUES(5, -1));
    cr_expect_eq(ledger(tp_update(q, q, tp_num(q, 1)), TP_REASON_ALIAS_WRITE), 0, "all is new");
    cr_expect_eq(ledger(tp_update(q, tp_slice(q, 0, 0, 1, 1), tp_num(q, 1)), TP_REASON_ALIAS_WRITE),
                 1, "evaluated");
}

/* Values made of the very tensor that is written over. */
Test(parts, update_from_itself)
{
    tp_tensor *x = tp_neg(counted(TP_DIMS(3, 2))), *row = tp_slice(x, 0, 0, 1, 1);
    tp_tensor *sum = tp_update(x, row, tp_sum(x, TP_DIMS(0), true));
    expect_values("a sum of all", sum, VALUES(-6, -9, -2, -3, -4, -5));
    tp_tensor *wide = tp_neg(counted(TP_DIMS(2, 1000)));
    tp_tensor *last = tp_flip(tp_slice(wide, 0, 1, 2, 1), TP_DIMS(1));
    tp_tensor *crossed = tp_update(wide, last, tp_flip(tp_sum(wide, TP_DIMS(0), true), TP_DIMS(1)));
    tp_tensor *straight = tp_update(wide, last, tp_sum(wide, TP_DIMS(0), true));
    tp_tensor *all[] = {crossed, straight};
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(tp_eval(all[i]), TP_OK);
        for (int j = 0; j < 1000; j++) {
            int of = i ? 999 - j : j;
            cr_expect_eq(tp_item(all[i], 1000 + j), -(of + 1000.0 + of), "column %d", j);
        }
    }
    tp_tensor *add = tp_update(x, row, tp_add(row, tp_num(x, 1)));
    cr_expect_eq(ledger(add, TP_REASON_IN_PLACE), 1, "x[0] += 1 needs no copy");
    cr_expect_eq(plan_of(add).copies, 0);
    expect_values("in place", add, VALUES(1, 0, -2, -3, -4, -5));
    tp_tensor *turned = tp_update(x, tp_flip(row, TP_DIMS(1)), tp_mul(row, row));
    expect_values("another element", turned, VALUES(1, 0, -2, -3, -4, -5));
    tp_tensor *both = tp_add(tp_cast(tp_cast(x, TP_F64), TP_F32), add);
    expect_values("a reader that comes later", both, VALUES(1, -1, -4, -6, -8, -10));
}

/* The key-value cache: a product stored straight into the bytes of the cache. */
Test(parts, donation)
{
    tp_tensor *cache = tp_full(g, TP_F32, TP_DIMS(4, 2), 0);
    cr_assert_eq(tp_eval(cache), TP_OK);
    const void *bytes = tp_data(cache);
    for (int64_t step = 0; step < 4; step++) {
        tp_tensor *x = tp_add(counted(TP_DIMS(1, 2)), tp_scalar(g, TP_F32, (double)step));
        tp_tensor *k = tp_matmul(x, counted(TP_DIMS(2, 2)));
        tp_tensor *next = tp_update(cache, tp_slice(cache, 0, step, step + 1, 1), k);
        cr_assert_eq(tp_donate(cache), TP_OK);
        cr_expect_eq(plan_of(next).copies, 0);
        cr_assert_eq(tp_eval(next), TP_OK, "%s", tp_graph_error(g)->text);
        cr_expect(!tp_is_evaluated(cache));
        cr_expect_eq(tp_data(next), bytes, "the same bytes");
        cache = next;
    }
    expect_values("cache", cache, VALUES(2, 3, 4, 7, 6, 11, 8, 15));
    /* A leaf that went is told, and everything else stays usable. */
    tp_tensor *leaf = floats(TP_DIMS(2), (float[]){1, 2});
    tp_tensor *y = tp_update(leaf, tp_slice(leaf, 0, 0, 1, 1), tp_num(leaf, 5));
    cr_assert_eq(tp_donate(leaf), TP_OK);
    expect_values("y", y, VALUES(5, 2));
    cr_expect_null(tp_data(leaf));
    expect_refusal("gone", g, NULL, "was given away and an update has written over it");
    cr_expect_eq(tp_eval(tp_neg(leaf)), TP_E_STALE);
    expect_refusal("gone", g, NULL, "was given away and an update has written over it");
    expect_values("y once more", tp_neg(y), VALUES(-5, -2));
    char text[512];
    cr_expect_gt(tp_describe(leaf, text, sizeof text), 0);
    cr_expect(strstr(text, "given away"), "%s", text);
    tp_tensor *of_leaf = tp_neg(tp_as_strided(leaf, TP_DIMS(1), (int64_t[]){1}, 1));
    cr_expect_gt(tp_graph_text(g, 1, &of_leaf, text, sizeof text), 0);
    cr_expect(strstr(text, "data f32 [2] pattern"), "%s", text);
    cr_expect_gt(tp_graph_dot(g, 1, &of_leaf, NULL, 0), 0);
    cr_expect_null(tp_graph_verify(g, text, sizeof text));
    cr_expect_eq(tp_bind(leaf, (float[]){3, 4}, 8), TP_OK);
    expect_values("bound anew", of_leaf, VALUES(-4));
    /* Borrowed bytes and shared ones are never written over. */
    float borrowed[] = {1, 2};
    tp_tensor *w = tp_wrap(g, TP_F32, TP_DIMS(2), NULL, 0, borrowed, sizeof borrowed, NULL, NULL);
    cr_assert_eq(tp_donate(w), TP_OK);
    expect_values("copy", tp_update(w, tp_slice(w, 0, 0, 1, 1), tp_num(w, 5)), VALUES(5, 2));
    cr_expect_eq(borrowed[0], 1);
    cr_expect_eq(tp_donate(tp_neg(w)), TP_E_UNEVALUATED);
}

Test(parts, take_and_scatter)
{
    tp_tensor *x = tp_from_data(g, TP_F32, TP_DIMS(2, 3), (float[]){10, 11, 12, 20, 21, 22});
    int64_t two[] = {2, 0, -1, 1};
    tp_tensor *i = tp_from_data(g, TP_I64, TP_DIMS(2, 2), two);
    expect_values("take_along", tp_take_along(x, 1, i), VALUES(12, 10, 22, 21));
    expect_values("broadcast", tp_take_along(x, 1, tp_slice(i, 0, 0, 1, 1)),
                  VALUES(12, 10, 22, 20));
    expect_values("gather",
                  tp_gather(x, 0, tp_from_data(g, TP_U8, TP_DIMS(1, 2), (uint8_t[]){1, 0})),
                  VALUES(20, 11));
    tp_tensor *ones = tp_full(g, TP_F32, TP_DIMS(2, 4), 1);
    tp_tensor *j = tp_from_data(g, TP_I32, TP_DIMS(2, 4), (int32_t[]){0, 0, 2, -1, 1, 1, 1, 0});
    expect_values("scatter", tp_scatter_add(x, 1, j, ones), VALUES(12, 11, 14, 21, 24, 22));
    expect_values("x stays", x, VALUES(10, 11, 12, 20, 21, 22));
    cr_expect_eq(ledger(tp_scatter_add(tp_neg(x), 1, j, ones), TP_REASON_IN_PLACE), 1);
    tp_tensor *count =
        tp_scatter_add(tp_full(g, TP_I64, TP_DIMS(3), 0), 0,
                       tp_from_data(g, TP_U64, TP_DIMS(4), (uint64_t[]){2, 0, 2, 2}),
                       tp_scalar(g, TP_BOOL, 1) ? tp_full(g, TP_BOOL, TP_DIMS(1), 1) : NULL);
    expect_values("histogram", count, VALUES(1, 0, 3));
    tp_tensor *half = tp_full(g, TP_F16, TP_DIMS(1), 2048),
              *many = tp_full(g, TP_F16, TP_DIMS(4), 1);
    tp_tensor *zero = tp_full(g, TP_I8, TP_DIMS(4), 0);
    expect_values("halves", tp_scatter_add(half, 0, zero, many), VALUES(2052));
    tp_tensor *bad = tp_take_along(x, 1, tp_from_data(g, TP_I64, TP_DIMS(2, 1), (int64_t[]){0, 3}));
    cr_expect_eq(tp_eval(bad), TP_E_BOUNDS);
    expect_refusal("bounds", g, NULL, "index 3 at position 1 is outside axis 1 of size 3");
    expect_refusal("ranks", g, tp_take_along(x, 1, zero),
                   "x is [2,3], indices are [4]: the ranks differ");
    expect_refusal("dims", g, tp_scatter_add(x, 1, j, tp_full(g, TP_F32, TP_DIMS(2, 3), 1)),
                   "indices are [2,4], source is [2,3]: dim 1 is 4 against 3");
    expect_refusal("types", g, tp_take_along(x, 1, x),
                   "indices are f32, an integer type is needed");
}

Test(parts, scans_and_sorts)
{
    tp_tensor *x = floats(TP_DIMS(2, 3), (float[]){3, 1, 2, -1, NAN, 5});
    expect_values("cumsum", tp_cumsum(x, 0), VALUES(3, 1, 2, 2, NAN, 7));
    expect_values("cumprod", tp_cumprod(x, 1), VALUES(3, 3, 6, -1, NAN, NAN));
    expect_values("cummax", tp_cummax(x, 1), VALUES(3, 3, 3, -1, NAN, NAN));
    tp_tensor *b = tp_full(g, TP_BOOL, TP_DIMS(3), 1), *u = tp_full(g, TP_U8, TP_DIMS(3), 200);
    cr_expect_eq(tp_dtype_of(tp_cumsum(u, 0)), TP_U64);
    expect_values("of bools", tp_cumsum(b, 0), VALUES(1, 2, 3));
    expect_values("of bytes", tp_cumsum(u, 0), VALUES(200, 400, 600));
    tp_tensor *inf = floats(TP_DIMS(3), (float[]){1, INFINITY, 2});
    expect_values("beside infinity", tp_cumsum(tp_cast(inf, TP_F64), 0),
                  VALUES(1, INFINITY, INFINITY));
    expect_values("sort", tp_sort(x, 1, false), VALUES(1, 2, 3, -1, 5, NAN));
    expect_values("descending", tp_sort(x, 1, true), VALUES(3, 2, 1, NAN, 5, -1));
    expect_values("argsort", tp_argsort(x, 1, false), VALUES(1, 2, 0, 0, 2, 1));
    tp_tensor *ties = floats(TP_DIMS(4), (float[]){0, 1, -0.0F, 1});
    expect_values("stable", tp_argsort(ties, 0, false), VALUES(0, 2, 1, 3));
    expect_values("stable down", tp_argsort(ties, 0, true), VALUES(1, 3, 0, 2));
    tp_tensor *values, *indices;
    cr_expect_eq(tp_topk(x, 0, 1, &values, &indices), TP_OK);
    expect_values("top", values, VALUES(3, NAN, 5));
    expect_values("where", indices, VALUES(0, 1, 1));
    cr_expect_eq(tp_topk(x, 0, 3, &values, NULL), TP_E_ARGUMENT);
    expect_refusal("k", g, values, "k is 3, dim 0 of [2,3] has size 2");
    cr_expect_eq(tp_eval(tp_sort(tp_slice(x, 1, 0, 0, 1), 1, false)), TP_OK);
    expect_refusal("0-d", g, tp_cumsum(tp_scalar(g, TP_F32, 1), 0), "a 0-d tensor has no axes");
}

Test(parts, random_numbers)
{
    /* Known answers of the authors of Philox. */
    uint32_t out[4], pi[4] = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, zero[4] = {0};
    tp_philox(zero, 0, out);
    cr_expect(out[0] == 0x6627e8d5 && out[1] == 0xe169c58d && out[2] == 0xbc57ac4c &&
              out[3] == 0x9b00dbd8);
    tp_philox(pi, 0x299f31d0a4093822U, out);
    cr_expect(out[0] == 0xd16cfe09 && out[1] == 0x94fdcceb && out[2] == 0x5001e420 &&
              out[3] == 0x24126ea1);
    /* The inverse of the normal distribution. */
    for (uint64_t i = 0; i < 4096; i++) {
        uint64_t bits = i * 0x000fffffffffffffU + (i == 4095 ? 0x0fffU : 0);
        long double p = ((long double)(bits >> 11) + 0.5L) * 0x1p-53L;
        long double z = tp_random_normal_of(bits), back = erfcl(-z / sqrtl(2)) / 2;
        long double slope = expl(-z * z / 2) / sqrtl(2 * acosl(-1)), away = (back - p) / slope;
        cr_expect(fabsl(away) <= 4e-16L * (1 + fabsl(z)), "%Lg of %Lg is off by %Lg", z, p, away);
    }
    static const tp_dtype types[] = {TP_F16, TP_BF16, TP_F32, TP_F64};
    for (int t = 0; t < 4; t++) {
        tp_tensor *u = tp_random_uniform(g, types[t], TP_DIMS(100, 100), 7);
        tp_tensor *z = tp_random_normal(g, types[t], TP_DIMS(100, 100), 7);
        tp_tensor *facts[] = {tp_min(u, TP_ALL_AXES, false), tp_max(u, TP_ALL_AXES, false),
                              tp_mean(tp_cast(u, TP_F64), TP_ALL_AXES, false),
                              tp_mean(tp_cast(z, TP_F64), TP_ALL_AXES, false),
                              tp_std(tp_cast(z, TP_F64), TP_ALL_AXES, 0, false)};
        cr_assert_eq(tp_eval_all(g, 5, facts, NULL), TP_OK);
        cr_expect(tp_item(facts[0], 0) >= 0 && tp_item(facts[1], 0) < 1);
        cr_expect(fabs(tp_item(facts[2], 0) - 0.5) < 0.01, "mean %g", tp_item(facts[2], 0));
        cr_expect(fabs(tp_item(facts[3], 0)) < 0.03 && fabs(tp_item(facts[4], 0) - 1) < 0.03);
    }
    tp_tensor *more = tp_random_uniform(g, TP_F64, TP_DIMS(7), 3),
              *less = tp_random_uniform(g, TP_F64, TP_DIMS(5), 3);
    expect_values("a function of seed and position", tp_sub(tp_slice(more, 0, 0, 5, 1), less),
                  VALUES(0, 0, 0, 0, 0));
    expect_refusal("type", g, tp_random_normal(g, TP_I32, TP_DIMS(2), 0),
                   "the dtype is i32, a float type");
}

/* The formula in loops. */
static double attended(tp_tensor *q, tp_tensor *k, tp_tensor *v, int h, int g_of_h, int row,
                       int col, int rows, int keys, int width, int seen)
{
    double score[16], max = -INFINITY, sum = 0, y = 0;
    for (int j = 0; j < seen; j++) {
        score[j] = 0;
        for (int d = 0; d < width; d++)
            score[j] += tp_item(q, (h * rows + row) * width + d) *
                        tp_item(k, (g_of_h * keys + j) * width + d);
        score[j] /= sqrt(width);
        max = fmax(max, score[j]);
    }
    for (int j = 0; j < seen; j++) sum += score[j] = exp(score[j] - max);
    for (int j = 0; j < seen; j++)
        y += score[j] / sum * tp_item(v, (g_of_h * keys + j) * width + col);
    return seen ? y : 0;
}

Test(parts, attention)
{
    enum { HEADS = 4, GROUPS = 2, ROWS = 3, KEYS = 5, WIDTH = 4 };
    tp_tensor *q = tp_random_normal(g, TP_F32, TP_DIMS(1, HEADS, ROWS, WIDTH), 1);
    tp_tensor *k = tp_random_normal(g, TP_F32, TP_DIMS(1, GROUPS, KEYS, WIDTH), 2);
    tp_tensor *v = tp_random_normal(g, TP_F32, TP_DIMS(1, GROUPS, KEYS, WIDTH), 3);
    tp_tensor *leaves[] = {q, k, v};
    cr_assert_eq(tp_eval_all(g, 3, leaves, NULL), TP_OK);
    /* Row 0 sees nothing, row 1 the first two keys, row 2 all. */
    bool seen[ROWS * KEYS] = {0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1};
    int until[2][ROWS] = {{0, 2, 5}, {3, 4, 5}};
    tp_tensor *mask = tp_from_data(g, TP_BOOL, TP_DIMS(ROWS, KEYS), seen);
    for (int causal = 0; causal < 2; causal++) {
        tp_tensor *y = tp_attention(q, k, v, causal ? NULL : mask, 0, causal);
        cr_assert_eq(tp_eval(y), TP_OK, "%s", tp_graph_error(g)->text);
        for (int h = 0; h < HEADS; h++) {
            for (int row = 0; row < ROWS; row++) {
                for (int col = 0; col < WIDTH; col++) {
                    double right = attended(q, k, v, h, h / (HEADS / GROUPS), row, col, ROWS, KEYS,
                                            WIDTH, until[causal][row]);
                    cr_expect(fabs(tp_item(y, (h * ROWS + row) * WIDTH + col) - right) < 1e-5);
                }
            }
        }
        cr_expect_eq(plan_of(tp_attention(q, k, v, causal ? NULL : mask, 0, causal)).copies, 0);
    }
    tp_tensor *per_head = tp_full(g, TP_F32, TP_DIMS(HEADS, 1, KEYS), 0);
    cr_expect_eq(tp_eval(tp_attention(q, k, v, per_head, 0, false)), TP_OK);
    expect_refusal("heads", g, tp_attention(tp_slice(q, 1, 0, 3, 1), k, v, NULL, 0, false),
                   "the heads of q are no multiple of those of k");
    expect_refusal("width", g, tp_attention(tp_slice(q, 3, 0, 3, 1), k, v, NULL, 0, false),
                   "the last dims of q and k differ");
}

Test(parts, conv2d)
{
    enum { N = 2, C = 4, H = 6, W = 5, O = 6 };
    static const struct {
        int kernel[2];
        tp_conv how;
    } cases[] = {{{3, 2}, {{0}, {0}, {0}, 0}},
                 {{3, 3}, {{2, 1}, {1, 2}, {0}, 0}},
                 {{2, 2}, {{1, 2}, {0, 1}, {2, 3}, 0}},
                 {{3, 3}, {{1, 1}, {1, 1}, {1, 1}, 2}},
                 {{1, 1}, {{0}, {0}, {0}, 0}}};
    tp_tensor *x = tp_random_normal(g, TP_F64, TP_DIMS(N, C, H, W), 1),
              *bias = tp_random_normal(g, TP_F64, TP_DIMS(O), 3);
    tp_tensor *leaves[] = {x, bias};
    cr_assert_eq(tp_eval_all(g, 2, leaves, NULL), TP_OK);
    for (size_t t = 0; t < sizeof cases / sizeof *cases; t++) {
        const tp_conv *how = &cases[t].how;
        int64_t groups = how->groups ? how->groups : 1, kh = cases[t].kernel[0],
                kw = cases[t].kernel[1];
        tp_tensor *w = tp_random_normal(g, TP_F64, TP_DIMS(O, C / groups, kh, kw), 2);
        cr_assert_eq(tp_eval(w), TP_OK);
        tp_tensor *y = tp_conv2d(x, w, bias, how);
        cr_assert_eq(tp_eval(y), TP_OK, "case %zu: %s", t, tp_graph_error(g)->text);
        int64_t s[2], p[2], d[2];
        for (int i = 0; i < 2; i++) {
            s[i] = how->stride[i] ? how->stride[i] : 1;
            p[i] = how->padding[i];
            d[i] = how->dilation[i] ? how->dilation[i] : 1;
        }
        int64_t oh = tp_dim(y, 2), ow = tp_dim(y, 3);
        cr_expect_eq(oh, (H + 2 * p[0] - d[0] * (kh - 1) - 1) / s[0] + 1);
        cr_expect_eq(ow, (W + 2 * p[1] - d[1] * (kw - 1) - 1) / s[1] + 1);
        for (int64_t at = 0; at < tp_numel(y); at++) {
            int64_t j = at % ow, i = at / ow % oh, o = at / ow / oh % O, n = at / ow / oh / O;
            double sum = tp_item(bias, o);
            for (int64_t c = 0; c < C / groups; c++) {
                for (int64_t a = 0; a < kh * kw; a++) {
                    int64_t row = i * s[0] + a / kw * d[0] - p[0],
                            col = j * s[1] + a % kw * d[1] - p[1];
                    int64_t channel = o / (O / groups) * (C / groups) + c;
                    if (row < 0 || row >= H || col < 0 || col >= W) continue;
                    sum += tp_item(x, ((n * C + channel) * H + row) * W + col) *
                           tp_item(w, (o * (C / groups) + c) * kh * kw + a);
                }
            }
            cr_expect(fabs(tp_item(y, at) - sum) < 1e-12, "case %zu, element %d", t, (int)at);
        }
    }
    tp_tensor *w = tp_full(g, TP_F64, TP_DIMS(O, C, 1, 1), 1),
              *w3 = tp_full(g, TP_F64, TP_DIMS(O, C, 3, 3), 1);
    cr_expect_eq(plan_of(tp_conv2d(x, w, NULL, NULL)).copies, 0, "1 x 1 is a product of views");
    cr_expect_eq(ledger(tp_conv2d(x, w3, NULL, NULL), TP_REASON_RESHAPE_NOT_A_VIEW), 1,
                 "windows overlap");
    expect_refusal("channels", g,
                   tp_conv2d(x, tp_full(g, TP_F64, TP_DIMS(O, 3, 1, 1), 1), NULL, NULL),
                   "dim 1 of x is 4, dim 1 of w is 3, in 1 groups");
    expect_refusal("size", g, tp_conv2d(x, tp_full(g, TP_F64, TP_DIMS(O, C, 7, 1), 1), NULL, NULL),
                   "a window of 7 elements, 1 apart, does not fit dim 2");
}
