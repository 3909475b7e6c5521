/* Faults reported against other engines: promotion, casts, overflow, division, shifts (category 4).
 * Rows have 1 to 40 elements in every layout: a vector body and its tail must agree. */
#include "tests/cases/expect.h"

#include <stdio.h>

TestSuite(dtypes, .timeout = 60);

static const tp_dtype floats[] = {TP_F16, TP_BF16, TP_F32, TP_F64};

/* The end of an integer dtype as its bits, sign-extended. */
static int64_t lowest(tp_dtype t)
{
    bool has_sign = tp_dtype_kind_of(t) == TP_DTYPE_INT;
    return has_sign ? INT64_MIN >> (64 - 8 * (int)tp_dtype_size(t)) : 0;
}
static int64_t highest(tp_dtype t)
{
    int bits = 8 * (int)tp_dtype_size(t);
    if (tp_dtype_kind_of(t) == TP_DTYPE_INT) return INT64_MAX >> (64 - bits);
    return (int64_t)(UINT64_MAX >> (64 - bits));
}

/* A row of n elements, count values over and over, cut from an array of at least 40. */
static tp_tensor *row_of(tp_graph *g, lay how, tp_dtype t, int64_t n, int count, const void *values)
{
    size_t size = tp_dtype_size(t);
    char data[40 * 8];
    for (int64_t i = 0; i < n; i++)
        memcpy(data + (size_t)i * size, (const char *)values + (size_t)(i % count) * size, size);
    return laid(g, how, t, TP_DIMS(n), data);
}

/* y = op(a, b) of two values each over and over; want has `count` results. b_scalar: b is 0-d. */
typedef tp_tensor *(*binary)(tp_tensor *, tp_tensor *);
static void check_rows(const char *what, binary op, tp_dtype t, int count, const void *a,
                       const void *b, const void *want)
{
    size_t size = tp_dtype_size(t);
    char row[40 * 8];
    EACH(g)
    {
        for (int64_t n = 1; n <= 40; n++) {
            lay how = (lay)(n % LAYS), other = (lay)(n / LAYS % LAYS);
            for (int64_t i = 0; i < n; i++)
                memcpy(row + (size_t)i * size, (const char *)want + (size_t)(i % count) * size,
                       size);
            tp_tensor *x = row_of(g, how, t, n, count, a), *y = row_of(g, other, t, n, count, b);
            expect_bits(what, op(x, y), t, n, row);
        }
        for (int i = 0; i < count; i++) { /* constants, and a row against one value */
            const char *pa = (const char *)a + (size_t)i * size,
                       *pb = (const char *)b + (size_t)i * size,
                       *pw = (const char *)want + (size_t)i * size;
            tp_tensor *x = row_of(g, LAY_DENSE, t, 37, 1, pa),
                      *s = tp_reshape(row_of(g, LAY_DENSE, t, 1, 1, pb), 0, NULL),
                      *c = tp_reshape(row_of(g, LAY_DENSE, t, 1, 1, pa), 0, NULL);
            for (int64_t k = 0; k < 37; k++) memcpy(row + (size_t)k * size, pw, size);
            expect_bits(what, op(x, s), t, 37, row);
            expect_bits(what, op(c, s), t, 1, pw);
            tp_value va = tp_value_load(t, pa), vb = tp_value_load(t, pb);
            tp_tensor *ka = is_float(t) ? tp_full(g, t, 0, NULL, va.f)
                                        : tp_full_int(g, t, 0, NULL, va.i),
                      *kb = is_float(t) ? tp_full(g, t, TP_DIMS(1), vb.f)
                                        : tp_full_int(g, t, TP_DIMS(1), vb.i);
            expect_bits(what, op(ka, kb), t, 1, pw);
            expect_bits(what, op(x, kb), t, 37, row);
        }
    }
}

Test(dtypes, f045_nan_and_infinity_to_integers_on_both_backends)
{
    EACH(g)
    {
        for (int f = 0; f < 4; f++) {
            void *from = elements(floats[f], VALUES(NAN, INFINITY, -INFINITY, -NAN));
            for (int d = TP_U8; d <= TP_I64; d++) {
                tp_dtype t = (tp_dtype)d;
                const int64_t ends[] = {0, highest(t), lowest(t), 0};
                char want[40 * 8];
                for (int i = 0; i < 40; i++)
                    tp_value_store(t, want + (size_t)i * tp_dtype_size(t), TP_I64,
                                   (tp_value){.i = ends[i % 4]});
                for (int64_t n = 1; n <= 40; n++) {
                    tp_tensor *x = row_of(g, (lay)(n % LAYS), floats[f], n, 4, from);
                    expect_bits(tp_dtype_name(t), tp_cast(x, t), t, n, want);
                    expect_bits("fused", tp_cast(tp_neg(tp_neg(x)), t), t, n, want);
                }
            }
            free(from);
        }
    }
}

Test(dtypes, f047_ends_of_integers_on_both_backends)
{
    EACH(g)
    {
        tp_tensor *x = leaf_of(g, TP_F32, VALUES(2147483648.0, 2147483520.0, -2147483648.0, -3e9));
        expect_bits("f32 to i32", tp_cast(x, TP_I32), TP_I32, 4,
                    (int32_t[]){INT32_MAX, 2147483520, INT32_MIN, INT32_MIN});
        x = leaf_of(g, TP_F32, VALUES(0x1p63, -0x1p63, 0x1p64, 0x1.fffffep62));
        expect_bits("f32 to i64", tp_cast(x, TP_I64), TP_I64, 4,
                    (int64_t[]){INT64_MAX, INT64_MIN, INT64_MAX, 0x7fffff8000000000});
        x = leaf_of(g, TP_F32, VALUES(0x1p64, 0x1p63, -1, 0x1.fffffep63));
        expect_bits("f32 to u64", tp_cast(x, TP_U64), TP_U64, 4,
                    (uint64_t[]){UINT64_MAX, UINT64_C(1) << 63, 0, 0xffffff0000000000});
        x = leaf_of(g, TP_F64, VALUES(2147483647.5, -2147483648.5, -2147483649.0, 2147483646.9));
        expect_bits("f64 to i32", tp_cast(x, TP_I32), TP_I32, 4,
                    (int32_t[]){INT32_MAX, INT32_MIN, INT32_MIN, 2147483646});
        for (int f = 0; f < 4; f++) {
            x = leaf_of(g, floats[f], VALUES(-0.9, 0.9, -1, 255.5, 256, -129, 127.5, -0.0));
            expect_bits("to u8", tp_cast(x, TP_U8), TP_U8, 8,
                        (uint8_t[]){0, 0, 0, 255, 255, 0, 127, 0});
            tp_tensor *y = tp_cast(x, TP_I8);
            expect_bits("to i8", y, TP_I8, 8, (int8_t[]){0, 0, -1, 127, 127, -128, 127, 0});
        }
    }
}

/* trunc_div and fmod are no operations here: floor_divide and remainder are. */
Test(dtypes, f048_the_most_negative_integer_by_minus_one)
{
    for (int d = TP_I8; d <= TP_I64; d++) {
        tp_dtype t = (tp_dtype)d;
        if (tp_dtype_kind_of(t) != TP_DTYPE_INT) continue;
        char a[8], b[8], zero[8] = {0};
        tp_value_store(t, a, TP_I64, (tp_value){.i = lowest(t)});
        tp_value_store(t, b, TP_I64, (tp_value){.i = -1});
        check_rows("floor_divide", tp_floor_divide, t, 1, a, b, a);
        check_rows("remainder", tp_remainder, t, 1, a, b, zero);
        check_rows("mul", tp_mul, t, 1, a, b, a);
        check_rows("sub", tp_sub, t, 1, zero, a, a);
    }
    EACH(g)
    {
        tp_tensor *x = tp_full_int(g, TP_I32, TP_DIMS(2), INT32_MIN);
        expect_values("neg", tp_neg(x), VALUES(INT32_MIN, INT32_MIN));
        expect_values("abs", tp_abs(x), VALUES(INT32_MIN, INT32_MIN));
        expect_values("div is a float", tp_div(x, tp_int(x, -1)), VALUES(2147483648., 2147483648.));
    }
}

Test(dtypes, f049_division_by_zero_gives_zero)
{
    for (int d = TP_U8; d <= TP_I64; d++) {
        tp_dtype t = (tp_dtype)d;
        void *a = elements(t, VALUES(1, 5, 0, 100)), *zero = elements(t, VALUES(0, 0, 0, 0));
        check_rows("floor_divide", tp_floor_divide, t, 4, a, zero, zero);
        check_rows("remainder", tp_remainder, t, 4, a, zero, zero);
        free(a), free(zero);
        if (tp_dtype_kind_of(t) != TP_DTYPE_INT) continue;
        int64_t ends[] = {-1, lowest(t)}, none[] = {0, 0};
        char x[16];
        for (int i = 0; i < 2; i++)
            tp_value_store(t, x + (size_t)i * tp_dtype_size(t), TP_I64, (tp_value){.i = ends[i]});
        check_rows("floor_divide", tp_floor_divide, t, 2, x, none, none);
        check_rows("remainder", tp_remainder, t, 2, x, none, none);
    }
    EACH(g)
    {
        tp_tensor *x = leaf_of(g, TP_I32, VALUES(1, -1, 0));
        expect_values("1/0 as floats", tp_div(x, tp_int(x, 0)), VALUES(INFINITY, -INFINITY, NAN));
    }
}

Test(dtypes, f051_floor_division_and_remainder_go_together)
{
    double a[] = {-1, 1, 78 * 6e-8, -2.220446049250313e-16, 7, -7, 7, -7, 6},
           b[] = {3, 0.2, 6e-8, 6.283185307179586, 2, 2, -2, -2, -3},
           q[] = {-1, 4, 77, -1, 3, -4, -4, 3, -2},
           r[] = {2,   0.19999999999999996, 5.999999999999965e-08, 6.283185307179586, 1, 1, -1, -1,
                  -0.0};
    check_rows("floor_divide", tp_floor_divide, TP_F64, 9, a, b, q);
    check_rows("remainder", tp_remainder, TP_F64, 9, a, b, r);
    int32_t ia[] = {7, -7, 7, -7, 6, -6}, ib[] = {2, 2, -2, -2, -3, 3},
            iq[] = {3, -4, -4, 3, -2, -2}, ir[] = {1, 1, -1, -1, 0, 0};
    check_rows("floor_divide", tp_floor_divide, TP_I32, 6, ia, ib, iq);
    check_rows("remainder", tp_remainder, TP_I32, 6, ia, ib, ir);
}

Test(dtypes, f053_shift_counts_outside_the_width)
{
    int32_t a[] = {8, 8, -8, -8, -8, -1}, n[] = {-1, -8, -1, 33, 63, 33},
            y[] = {0, 0, -1, -1, -1, -1};
    check_rows("right", tp_right_shift, TP_I32, 6, a, n, y);
    int32_t b[] = {8, 1, 1}, m[] = {32, 31, -1}, z[] = {0, INT32_MIN, 0};
    check_rows("left", tp_left_shift, TP_I32, 3, b, m, z);
    uint32_t c[] = {1}, k[] = {32}, w[] = {0};
    check_rows("u32", tp_left_shift, TP_U32, 1, c, k, w);
    /* Every width, every count near its ends. */
    for (int d = TP_U8; d <= TP_I64; d++) {
        tp_dtype t = (tp_dtype)d;
        int bits = 8 * (int)tp_dtype_size(t);
        bool has_sign = tp_dtype_kind_of(t) == TP_DTYPE_INT;
        for (int v = 0; v < 3; v++) {
            int64_t x = v == 0 ? 1 : v == 1 ? highest(t) : has_sign ? -3 : 7;
            int64_t counts[] = {-1, -bits, bits - 1, bits, bits + 1, 0, 1, 100};
            char in[64], by[64], left[64], right[64];
            for (int i = 0; i < 8; i++) {
                size_t at = (size_t)i * tp_dtype_size(t);
                int64_t count = counts[i];
                if (!has_sign) count &= (int64_t)(UINT64_MAX >> (64 - bits));
                bool inside = count >= 0 && count < bits;
                int64_t l = inside ? (int64_t)((uint64_t)x << count) : 0,
                        r = inside ? (has_sign ? x >> count : (int64_t)((uint64_t)x >> count))
                                   : (x < 0 && has_sign ? -1 : 0);
                tp_value_store(t, in + at, TP_I64, (tp_value){.i = x});
                tp_value_store(t, by + at, TP_I64, (tp_value){.i = count});
                tp_value_store(t, left + at, TP_I64, (tp_value){.i = l});
                tp_value_store(t, right + at, TP_I64, (tp_value){.i = r});
            }
            check_rows("left", tp_left_shift, t, 8, in, by, left);
            check_rows("right", tp_right_shift, t, 8, in, by, right);
        }
    }
}

Test(dtypes, f055_scalars_are_weak)
{
    EACH(g)
    {
        tp_tensor *b = tp_full(g, TP_U8, TP_DIMS(1), 200), *u = tp_full(g, TP_U32, TP_DIMS(1), 0),
                  *f = tp_full(g, TP_F32, TP_DIMS(1), 1);
        expect_bits("u8", tp_add(b, tp_int(b, 128)), TP_U8, 1, (uint8_t[]){72});
        expect_bits("u32", tp_sub(u, tp_int(u, 1)), TP_U32, 1, (uint32_t[]){UINT32_MAX});
        expect_error(g, tp_add(b, tp_int(b, 300)), TP_E_DTYPE, -1, "int: 300 does not fit u8");
        for (int k = 0; k < 2; k++) {
            tp_tensor *h = tp_full(g, floats[k], TP_DIMS(1), 1);
            cr_expect_eq(tp_dtype_of(tp_add(h, tp_num(h, 10))), floats[k]);
            expect_values("half", tp_add(h, tp_num(h, 10)), VALUES(11));
            expect_values("half", tp_add(h, tp_int(h, 10)), VALUES(11));
        }
        expect_values("1e200", tp_mul(f, tp_num(f, 1e200)), VALUES(INFINITY));
        cr_expect_eq(tp_dtype_of(tp_mul(b, tp_num(b, 2.5))), TP_F32);
        for (int d = TP_U8; d <= TP_I64; d++) {
            tp_dtype t = (tp_dtype)d;
            tp_tensor *x = tp_full(g, t, TP_DIMS(1), 0);
            int64_t top = t == TP_U64 ? INT64_MAX : highest(t), low = lowest(t);
            cr_expect(tp_int(x, top) && tp_int(x, low), "%s", tp_dtype_name(t));
            char text[80];
            if (top < INT64_MAX) {
                snprintf(text, sizeof text, "int: %lld does not fit %s", (long long)top + 1,
                         tp_dtype_name(t));
                expect_error(g, tp_int(x, top + 1), TP_E_DTYPE, -1, text);
            }
            if (low > INT64_MIN) {
                snprintf(text, sizeof text, "int: %lld does not fit %s", (long long)low - 1,
                         tp_dtype_name(t));
                expect_error(g, tp_int(x, low - 1), TP_E_DTYPE, -1, text);
            }
        }
    }
}

/* All six comparisons of a with b and of b with a. */
static void check_order(tp_graph *g, const char *what, tp_tensor *a, tp_tensor *b, int sign)
{
    const binary ops[] = {tp_less,          tp_less_equal, tp_greater,
                          tp_greater_equal, tp_equal,      tp_not_equal};
    for (int way = 0; way < 2; way++) {
        int s = way ? -sign : sign;
        const bool want[] = {s<0, s <= 0, s> 0, s >= 0, s == 0, s != 0};
        (void)g;
        for (int i = 0; i < 6; i++) {
            tp_tensor *y = ops[i](way ? b : a, way ? a : b);
            cr_assert(y && tp_eval(y) == TP_OK);
            for (int64_t k = 0; k < tp_numel(y); k++)
                cr_expect_eq(tp_item(y, k), want[i], "%s: comparison %d way %d", what, i, way);
        }
    }
}

Test(dtypes, f057_comparisons_are_exact_across_types)
{
    EACH(g)
    {
        tp_tensor *i = tp_full_int(g, TP_I64, TP_DIMS(9), INT64_MAX),
                  *u = tp_from_data(g, TP_U64, TP_DIMS(1), (uint64_t[]){UINT64_C(1) << 63});
        check_order(g, "2^63-1 and 2^63", i, u, -1);
        int64_t x = 701389446541966656;
        for (int k = -1; k <= 1; k++)
            check_order(g, "x+k and x",
                        tp_from_data(g, TP_U64, TP_DIMS(1), (uint64_t[]){(uint64_t)(x + k)}),
                        tp_from_data(g, TP_I64, TP_DIMS(1), &x), k);
        const uint64_t near[] = {0x1234567890abcdef, 0x1234567890abcde0};
        for (int k = 0; k < 4; k++)
            check_order(g, "near", tp_from_data(g, k & 1 ? TP_I64 : TP_U64, TP_DIMS(1), &near[0]),
                        tp_from_data(g, k & 2 ? TP_I64 : TP_U64, TP_DIMS(1), &near[1]), 1);
        check_order(g, "-1 and u64", tp_full_int(g, TP_I64, TP_DIMS(1), -1),
                    tp_from_data(g, TP_U64, TP_DIMS(1), (uint64_t[]){UINT64_MAX}), -1);
        check_order(g, "-1 and u64", tp_full_int(g, TP_I8, TP_DIMS(1), -1),
                    tp_from_data(g, TP_U64, TP_DIMS(1), (uint64_t[]){UINT64_MAX}), -1);
        check_order(g, "2^53+1", tp_full_int(g, TP_I64, TP_DIMS(1), (INT64_C(1) << 53) + 1),
                    tp_scalar(g, TP_F64, 0x1p53), 1);
        check_order(g, "2^63-1 and 2^63", i, tp_scalar(g, TP_F64, 0x1p63), -1);
        check_order(g, "i32 and f32", tp_full_int(g, TP_I32, TP_DIMS(1), 16777217),
                    tp_scalar(g, TP_F32, 16777216), 1);
        tp_tensor *nan = tp_scalar(g, TP_F64, NAN);
        expect_values("NaN", tp_less(u, nan), VALUES(0));
        expect_values("NaN", tp_greater(u, nan), VALUES(0));
        expect_values("NaN", tp_not_equal(u, nan), VALUES(1));
        expect_error(g, tp_add(i, u), TP_E_DTYPE, -1,
                     "add: no integer type holds both i64 and u64: cast one operand");
    }
}

Test(dtypes, f059_sums_of_small_integers_do_not_wrap)
{
    EACH(g)
    {
        expect_bits("bool", tp_sum(tp_full(g, TP_BOOL, TP_DIMS(5000), 1), TP_ALL_AXES, false),
                    TP_I64, 1, &(int64_t){5000});
        tp_tensor *ones = tp_full(g, TP_U8, TP_DIMS(300), 1),
                  *sum = tp_sum(ones, TP_ALL_AXES, false);
        expect_bits("u8", sum, TP_U64, 1, &(uint64_t){300});
        expect_bits("u8 asked for", tp_cast(sum, TP_U8), TP_U8, 1, &(uint8_t){44});
        expect_bits("i8", tp_sum(leaf_of(g, TP_I8, VALUES(100, 100, 50)), TP_ALL_AXES, false),
                    TP_I64, 1, &(int64_t){250});
        expect_bits("i32",
                    tp_sum(leaf_of(g, TP_I32, VALUES(1 << 30, 1 << 30, 5)), TP_ALL_AXES, false),
                    TP_I64, 1, &(int64_t){2147483653});
        for (int d = TP_BOOL; d <= TP_I64; d++) {
            tp_dtype t = (tp_dtype)d, wide = tp_dtype_kind_of(t) == TP_DTYPE_UINT ? TP_U64 : TP_I64;
            int64_t top = t == TP_BOOL ? 1 : tp_dtype_size(t) == 8 ? 1000 : highest(t);
            for (int64_t n = 1; n <= 40; n++) {
                tp_tensor *x = tp_full_int(g, t, TP_DIMS(n, 3), top);
                int64_t want = n * top, columns[] = {want, want, want}, all = 3 * want;
                expect_bits(tp_dtype_name(t), tp_sum(x, 1, (int64_t[]){0}, false), wide, 3,
                            columns);
                expect_bits(tp_dtype_name(t), tp_sum(x, TP_ALL_AXES, false), wide, 1, &all);
            }
        }
        /* No widened copy of the operand. */
        tp_tensor *large = tp_wrap(g, TP_U8, TP_DIMS(1, 1 << 20), (int64_t[]){0, 0}, 0,
                                   (uint8_t[]){1}, 1, NULL, NULL),
                  *dense = tp_contiguous(large);
        cr_assert_eq(tp_eval(dense), TP_OK);
        cr_expect_lt(plan_of(tp_sum(dense, TP_ALL_AXES, false)).peak_bytes, 1 << 16);
    }
}

Test(dtypes, f061_f32_to_bf16_rounds_to_nearest_even)
{
    uint32_t in[] = {0x3E89CCD5, 0, 0x3F808000, 0x3F818000, 0x7F7FFFFF, 0};
    const float pi = 3.14F, small = 1e-8F;
    memcpy(&in[1], &pi, 4), memcpy(&in[5], &small, 4);
    const uint16_t want[] = {0x3E8A, 0x4049, 0x3F80, 0x3F82, 0x7F80, 0x322C};
    EACH(g)
    {
        for (int64_t n = 1; n <= 40; n++) {
            tp_tensor *x = row_of(g, (lay)(n % LAYS), TP_F32, n, 6, in),
                      *y = tp_bitcast(tp_cast(x, TP_BF16), TP_U16),
                      *z = tp_bitcast(tp_cast(tp_neg(tp_neg(x)), TP_BF16), TP_U16);
            cr_assert(tp_eval(y) == TP_OK && tp_eval(z) == TP_OK);
            for (int64_t i = 0; i < n; i++)
                cr_assert(tp_item(y, i) == want[i % 6] && tp_item(z, i) == want[i % 6],
                          "%ld of %ld: %x", (long)i, (long)n, (unsigned)tp_item(y, i));
        }
        tp_tensor *back = tp_cast(tp_cast(row_of(g, LAY_DENSE, TP_F32, 2, 6, in), TP_BF16), TP_F32);
        expect_values("values", back, VALUES(0.26953125, 3.140625));
    }
}

Test(dtypes, f063_to_halves_in_one_rounding)
{
    EACH(g)
    {
        for (int64_t n = 1; n <= 40; n++) {
            double a[40], b[40], ya[40], yb[40], yc[40];
            int64_t c[40];
            for (int i = 0; i < 40; i++) {
                a[i] = 1 + 0x1p-11 + 0x1p-40, b[i] = 1 + 0x1p-8 + 0x1p-30, c[i] = 16842753;
                ya[i] = 1.0009765625, yb[i] = 1.0078125, yc[i] = 16908288;
            }
            lay how = (lay)(n % LAYS);
            expect_values("f64 to f16", tp_cast(laid(g, how, TP_F64, TP_DIMS(n), a), TP_F16),
                          (int)n, ya);
            expect_values("f64 to bf16", tp_cast(laid(g, how, TP_F64, TP_DIMS(n), b), TP_BF16),
                          (int)n, yb);
            expect_values("i64 to bf16", tp_cast(laid(g, how, TP_I64, TP_DIMS(n), c), TP_BF16),
                          (int)n, yc);
            expect_values("u64 to bf16", tp_cast(laid(g, how, TP_U64, TP_DIMS(n), c), TP_BF16),
                          (int)n, yc);
            /* A node between does not take a step through f32 either. */
            expect_values("fused",
                          tp_cast(tp_neg(tp_neg(laid(g, how, TP_F64, TP_DIMS(n), a))), TP_F16),
                          (int)n, ya);
        }
    }
}

Test(dtypes, f063b_what_is_not_zero_is_true)
{
    EACH(g)
    {
        for (int64_t n = 1; n <= 40; n++) {
            const uint8_t dirty[] = {0, 1, 2, 255};
            double truth[40], lies[40], ones[40];
            int64_t count = 0;
            for (int i = 0; i < n; i++)
                truth[i] = i % 4 != 0, lies[i] = i % 4 == 0, ones[i] = 1, count += i % 4 != 0;
            tp_tensor *b = tp_bitcast(row_of(g, LAY_DENSE, TP_U8, n, 4, dirty), TP_BOOL),
                      *t = tp_not_equal(row_of(g, LAY_DENSE, TP_U8, n, 4, dirty),
                                        tp_full(g, TP_U8, TP_DIMS(1), 0)),
                      *yes = tp_full(g, TP_BOOL, TP_DIMS(n), 1),
                      *x = tp_full(g, TP_F32, TP_DIMS(n), 1),
                      *y = tp_full(g, TP_F32, TP_DIMS(n), 0);
            int k = (int)n;
            expect_values("sum", tp_sum(b, TP_ALL_AXES, false), VALUES((double)count));
            expect_values("count", tp_count_nonzero(b, TP_ALL_AXES, false), VALUES((double)count));
            expect_values("any", tp_any(b, TP_ALL_AXES, false), VALUES(n > 1));
            expect_values("all", tp_all(b, TP_ALL_AXES, false), VALUES(0));
            expect_values("max", tp_sum(tp_max(b, TP_ALL_AXES, false), TP_ALL_AXES, false),
                          VALUES(n > 1));
            expect_values("argmax", tp_argmax(b, TP_ALL_AXES, false), VALUES(n > 1));
            expect_values("==", tp_equal(b, t), k, ones);
            expect_values("== true", tp_equal(b, yes), k, truth);
            expect_values("not", tp_logical_not(b), k, lies);
            expect_values("and", tp_logical_and(b, yes), k, truth);
            expect_values("xor", tp_logical_xor(b, yes), k, lies);
            expect_values("bits", tp_bitwise_and(b, yes), k, truth);
            expect_values("f32", tp_cast(b, TP_F32), k, truth);
            expect_values("u8", tp_cast(b, TP_U8), k, truth);
            expect_values("where", tp_where(b, x, y), k, truth);
            expect_values("maximum", tp_cast(tp_maximum(b, tp_logical_not(yes)), TP_I32), k, truth);
            expect_values("+", tp_add(b, tp_logical_not(yes)), k, truth);
            expect_values("copied",
                          tp_contiguous(tp_flip(tp_flip(b, 1, (int64_t[]){0}), 1, (int64_t[]){0})),
                          k, truth);
            expect_values("product", tp_matmul(b, tp_cast(yes, TP_I32)), VALUES((double)count));
        }
        for (int f = 0; f < 4; f++) {
            double tiny = floats[f] == TP_F16 ? 0x1p-24 : 1e-40; /* subnormal */
            expect_values(tp_dtype_name(floats[f]),
                          tp_cast(leaf_of(g, floats[f], VALUES(NAN, 0.5, -0.0, tiny)), TP_BOOL),
                          VALUES(1, 1, 0, 1));
        }
        expect_values("1e-45", tp_cast(leaf_of(g, TP_F32, VALUES(NAN, 0.5, -0.0, 1e-45)), TP_BOOL),
                      VALUES(1, 1, 0, 1));
        for (int d = TP_U16; d <= TP_I64; d++) { /* no way through the lowest byte */
            for (int bit = 0; bit < 8 * (int)tp_dtype_size((tp_dtype)d); bit++) {
                uint64_t v = UINT64_C(1) << bit;
                expect_values("one bit",
                              tp_cast(tp_from_data(g, (tp_dtype)d, TP_DIMS(1), &v), TP_BOOL),
                              VALUES(1));
            }
        }
    }
}
