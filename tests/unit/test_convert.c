/* Conversions of rows: the reported faults by number, every f16 and bf16 there is, every tie,
 * every step and length. What test_types.c checks against a formula is checked here against
 * definitions: a half is its bits' value, a tie goes to the even neighbour. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

#define ROW 67 /* vector bodies and a tail */

/* x in `from` converted to `to`, as every element of a row, as neighbours and with gaps; all must
 * agree. */
static tp_value convert(tp_dtype from, tp_value x, tp_dtype to)
{
    uint64_t in[2 * ROW] = {0}, out[2 * ROW] = {0};
    int64_t fs = (int64_t)tp_dtype_size(from), ts = (int64_t)tp_dtype_size(to);
    tp_dtype wide = tp_dtype_kind_of(from) == TP_DTYPE_FLOAT ? TP_F64 : TP_I64;
    tp_value first = {0};
    for (int gap = 0; gap < 2; gap++) {
        int64_t x_step = fs * (1 + gap), y_step = ts * (1 + gap);
        for (int i = 0; i < ROW; i++) tp_value_store(from, (char *)in + i * x_step, wide, x);
        tp_convert(ROW, from, in, x_step, to, out, y_step);
        if (gap == 0) first = tp_value_load(to, out);
        for (int i = 0; i < ROW; i++) {
            tp_value y = tp_value_load(to, (char *)out + i * y_step);
            cr_assert(memcmp(&y, &first, sizeof y) == 0, "%s to %s: element %d, gap %d",
                      tp_dtype_name(from), tp_dtype_name(to), i, gap);
        }
    }
    return first;
}

static float float_from(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

Test(types, f045_nan_and_infinity_to_integers)
{
    const tp_dtype floats[] = {TP_F16, TP_BF16, TP_F32, TP_F64};
    const struct {
        tp_dtype to;
        int64_t low, high; /* u64 as its bits */
    } ends[] = {{TP_I8, INT8_MIN, INT8_MAX},    {TP_I16, INT16_MIN, INT16_MAX},
                {TP_I32, INT32_MIN, INT32_MAX}, {TP_I64, INT64_MIN, INT64_MAX},
                {TP_U8, 0, UINT8_MAX},          {TP_U16, 0, UINT16_MAX},
                {TP_U32, 0, UINT32_MAX},        {TP_U64, 0, -1}};
    for (size_t f = 0; f < 4; f++) {
        for (size_t t = 0; t < 8; t++) {
            const char *from = tp_dtype_name(floats[f]), *to = tp_dtype_name(ends[t].to);
            const double signs[] = {1, -1};
            for (int s = 0; s < 2; s++) {
                tp_value nan = {.f = copysign(NAN, signs[s])};
                cr_expect_eq(convert(floats[f], nan, ends[t].to).i, 0, "%s NaN to %s", from, to);
            }
            cr_expect_eq(convert(floats[f], (tp_value){.f = INFINITY}, ends[t].to).i, ends[t].high,
                         "%s inf to %s", from, to);
            cr_expect_eq(convert(floats[f], (tp_value){.f = -INFINITY}, ends[t].to).i, ends[t].low,
                         "%s -inf to %s", from, to);
        }
    }
}

Test(types, f047_ends_of_integer_ranges)
{
    const struct {
        tp_dtype from;
        double x;
        tp_dtype to;
        int64_t want;
    } cases[] = {
        {TP_F32, 2147483648.0, TP_I32, INT32_MAX},
        {TP_F32, 2147483520.0, TP_I32, 2147483520},
        {TP_F32, -2147483648.0, TP_I32, INT32_MIN},
        {TP_F32, 9223372036854775808.0, TP_I64, INT64_MAX},
        {TP_F32, 18446744073709551616.0, TP_U64, -1},
        {TP_F32, 9223372036854775808.0, TP_U64, INT64_MIN},
        {TP_F64, 18446744073709549568.0, TP_U64, -2048},
        {TP_F64, 2147483647.5, TP_I32, INT32_MAX},
        {TP_F64, 2147483646.9, TP_I32, INT32_MAX - 1},
        {TP_F64, -2147483648.9, TP_I32, INT32_MIN},
        {TP_F64, 4294967295.5, TP_U32, UINT32_MAX},
        {TP_F32, -0.9, TP_U8, 0},
        {TP_F32, 255.5, TP_U8, 255},
        {TP_F32, 256, TP_U8, 255},
        {TP_F32, -128.5, TP_I8, -128},
        {TP_F32, -129, TP_I8, -128},
        {TP_F16, 65504, TP_I16, INT16_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tp_value y = convert(cases[i].from, (tp_value){.f = cases[i].x}, cases[i].to);
        cr_expect_eq(y.i, cases[i].want, "%s %.1f to %s gives %lld", tp_dtype_name(cases[i].from),
                     cases[i].x, tp_dtype_name(cases[i].to), (long long)y.i);
    }
}

Test(types, f061_bf16_rounds_to_nearest)
{
    const struct {
        float from;
        uint16_t to;
    } cases[] = {{float_from(0x3E89CCD5), 0x3E8A}, {3.14F, 0x4049},
                 {float_from(0x3F808000), 0x3F80}, {float_from(0x3F818000), 0x3F82},
                 {float_from(0x7F7FFFFF), 0x7F80}, {1e-8F, 0x322C}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_eq(tp_f32_to_bf16(cases[i].from), cases[i].to, "%a", (double)cases[i].from);
        cr_expect_eq(convert(TP_F32, (tp_value){.f = (double)cases[i].from}, TP_BF16).f,
                     (double)tp_bf16_to_f32(cases[i].to), "%a in rows", (double)cases[i].from);
    }
}

Test(types, f063_halves_round_once)
{
    const struct {
        tp_dtype from;
        tp_value x;
        tp_dtype to;
        double want;
    } cases[] = {
        {TP_F64, {.f = 1 + 0x1p-11 + 0x1p-40}, TP_F16, 1.0009765625},
        {TP_F64, {.f = 1 + 0x1p-8 + 0x1p-30}, TP_BF16, 1.0078125},
        {TP_I64, {.i = 16842753}, TP_BF16, 16908288},
        {TP_U64, {.i = 16842753}, TP_BF16, 16908288},
        {TP_I32, {.i = -16842753}, TP_BF16, -16908288},
        {TP_I64, {.i = INT64_MAX}, TP_BF16, 0x1p63},
        {TP_U64, {.i = -1}, TP_BF16, 0x1p64},
        {TP_U64, {.i = (INT64_C(255) << 55) + 1}, TP_BF16, 0x1.FEp62},
        {TP_U64, {.i = (INT64_C(511) << 54) + 1}, TP_BF16, 0x1p63},
        {TP_I32, {.i = 65519}, TP_F16, 65504},
        {TP_I32, {.i = 65520}, TP_F16, INFINITY},
        {TP_U16, {.i = 2049}, TP_F16, 2048},
        {TP_U16, {.i = 2051}, TP_F16, 2052},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double y = convert(cases[i].from, cases[i].x, cases[i].to).f;
        cr_expect_eq(y, cases[i].want, "case %zu: %a, not %a", i, y, cases[i].want);
    }
}

Test(types, f063b_truth)
{
    const uint8_t bools[] = {0, 1, 2, 255};
    for (int t = TP_U8; t < TP_DTYPE_COUNT; t++) {
        uint64_t out[4] = {0};
        tp_convert(4, TP_BOOL, bools, 1, (tp_dtype)t, out, 8);
        for (int i = 0; i < 4; i++) {
            tp_value y = tp_value_load((tp_dtype)t, &out[i]);
            double got = tp_dtype_kind_of((tp_dtype)t) == TP_DTYPE_FLOAT ? y.f : (double)y.i;
            cr_expect_eq(got, i > 0, "bool byte %d as %s", bools[i], tp_dtype_name((tp_dtype)t));
        }
    }
    const float floats[] = {NAN, 0.5F, -0.0F, 1e-45F};
    uint8_t truth[4];
    tp_convert(4, TP_F32, floats, 4, TP_BOOL, truth, 1);
    cr_expect(truth[0] == 1 && truth[1] == 1 && truth[2] == 0 && truth[3] == 1);
    cr_expect_eq(convert(TP_U16, (tp_value){.i = 256}, TP_BOOL).i, 1, "not through u8");
    cr_expect_eq(convert(TP_F64, (tp_value){.f = 1e-310}, TP_BOOL).i, 1, "not through f32");
    tp_convert(4, TP_BOOL, bools, 1, TP_BOOL, truth, 1);
    cr_expect_arr_eq(truth, bools, 4, "a copy keeps its bytes");
}

/* What bits mean: a sign, `exponent_bits` of exponent, the rest mantissa. */
static double meaning(uint16_t bits, int exponent_bits)
{
    int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (bits & 0x7FFF) >> mantissa_bits, mantissa = bits & ((1 << mantissa_bits) - 1);
    double size = exponent == (1 << exponent_bits) - 1 ? (mantissa ? NAN : INFINITY)
                  : exponent
                      ? ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits)
                      : ldexp(mantissa, 1 - bias - mantissa_bits);
    return copysign(size, bits & 0x8000 ? -1 : 1);
}

Test(types, every_half_means_its_bits_and_comes_back)
{
    static uint16_t half[65536], back[65536];
    static float single[65536];
    static double wide[65536];
    for (int i = 0; i < 65536; i++) half[i] = (uint16_t)i;
    for (int brain = 0; brain < 2; brain++) {
        tp_dtype dtype = brain ? TP_BF16 : TP_F16;
        int infinity = brain ? 0x7F80 : 0x7C00;
        tp_convert(65536, dtype, half, 2, TP_F32, single, 4);
        tp_convert(65536, dtype, half, 2, TP_F64, wide, 8);
        for (int from = 0; from < 2; from++) {
            if (from == 0)
                tp_convert(65536, TP_F32, single, 4, dtype, back, 2);
            else
                tp_convert(65536, TP_F64, wide, 8, dtype, back, 2);
            for (int i = 0; i < 65536; i++) {
                double want = meaning(half[i], brain ? 8 : 5);
                cr_assert((double)single[i] == want || (isnan(single[i]) && isnan(want)), "%s %#x",
                          tp_dtype_name(dtype), i);
                cr_assert(wide[i] == want || (isnan(wide[i]) && isnan(want)), "%s %#x",
                          tp_dtype_name(dtype), i);
                cr_assert(!signbit(wide[i]) == !signbit(want) &&
                          !signbit(single[i]) == !signbit(want));
                bool nan = (back[i] & 0x7FFF) > infinity;
                cr_assert(isnan(want) ? nan && (back[i] & 0x8000) == (i & 0x8000) : back[i] == i,
                          "%s %#x came back as %#x", tp_dtype_name(dtype), i, back[i]);
            }
        }
    }
}

static uint16_t round_half(bool brain, double x)
{
    uint16_t row = 0, one = brain ? tp_f64_to_bf16(x) : tp_f64_to_f16(x);
    tp_convert(1, TP_F64, &x, 8, brain ? TP_BF16 : TP_F16, &row, 2);
    cr_assert_eq(row, one);
    if ((double)(float)x == x)
        cr_assert_eq(one, brain ? tp_f32_to_bf16((float)x) : tp_f32_to_f16((float)x), "%a", x);
    return one;
}

/* Between every two neighbours: the tie goes to the even one, the doubles and floats next to
 * the tie go to the nearer. The neighbour of the largest is the power of two that would follow,
 * which is infinity. */
Test(types, every_tie_goes_to_the_even_neighbour)
{
    for (int brain = 0; brain < 2; brain++) {
        int infinity = brain ? 0x7F80 : 0x7C00;
        for (int i = 0; i < infinity; i++) {
            double a = meaning((uint16_t)i, brain ? 8 : 5),
                   b = i + 1 == infinity ? (brain ? 0x1p128 : 0x1p16)
                                         : meaning((uint16_t)(i + 1), brain ? 8 : 5);
            double tie = (a + b) / 2;
            float below = nextafterf((float)tie, 0), above = nextafterf((float)tie, INFINITY);
            int even = i + (i & 1);
            for (int sign = 0; sign < 2; sign++) {
                double s = sign ? -1 : 1;
                int bit = sign ? 0x8000 : 0;
                cr_assert_eq(round_half(brain, s * tie), even | bit, "tie above %#x", i);
                cr_assert_eq(round_half(brain, s * nextafter(tie, 0)), i | bit, "below %#x", i);
                cr_assert_eq(round_half(brain, s * nextafter(tie, INFINITY)), (i + 1) | bit,
                             "above %#x", i);
                cr_assert_eq(round_half(brain, s * (double)below), i | bit, "f32 below %#x", i);
                cr_assert_eq(round_half(brain, s * (double)above), (i + 1) | bit, "f32 above %#x",
                             i);
                cr_assert_eq(round_half(brain, s * (a + (b - a) / 4)), i | bit, "quarter %#x", i);
                cr_assert_eq(round_half(brain, s * (b - (b - a) / 4)), (i + 1) | bit,
                             "three quarters %#x", i);
            }
        }
    }
}

/* Floats in rising order give halves in rising order; with every tie right, that leaves no float
 * that rounds wrong. TP_LONG=1: all 2^31 of them. */
Test(types, rounding_is_monotone)
{
    uint64_t step = getenv("TP_LONG") ? 1 : 4093;
    uint16_t f16 = 0, bf16 = 0;
    for (uint64_t bits = 0; bits <= 0x7F800000U; bits += step) {
        float x = float_from((uint32_t)bits);
        uint16_t next16 = tp_f32_to_f16(x), next_b16 = tp_f32_to_bf16(x);
        cr_assert(next16 >= f16 && next_b16 >= bf16, "f32 %a", (double)x);
        if (bits % 1021 == 0 || step > 1)
            cr_assert(tp_f64_to_f16((double)-x) == (next16 | 0x8000) &&
                          tp_f64_to_bf16((double)-x) == (next_b16 | 0x8000),
                      "f64 %a", (double)-x);
        f16 = next16, bf16 = next_b16;
    }
}

/* Steps of every kind: gaps, unaligned, backwards, one source for all. Bytes between the
 * elements stay. */
Test(types, rows_of_any_step_and_length)
{
    enum { room = 80 * 24 };
    static uint8_t in[room], out[room], want[room];
    for (size_t i = 0; i < room; i++) in[i] = (uint8_t)(i * 101 + i / 7);
    for (int f = 0; f < TP_DTYPE_COUNT; f++) {
        for (int t = 0; t < TP_DTYPE_COUNT; t++) {
            int64_t fs = (int64_t)tp_dtype_size((tp_dtype)f), ts = (int64_t)tp_dtype_size(t);
            const int64_t x_steps[] = {fs, 0, 2 * fs, fs + 1, -fs, fs},
                          y_steps[] = {ts, ts, 3 * ts, ts + 1, ts, -ts};
            for (int k = 0; k < 6; k++) {
                for (int64_t count = 0; count <= 70; count += count < 20 ? 1 : 25) {
                    int64_t x0 = x_steps[k] < 0 ? 70 * fs : 1, y0 = y_steps[k] < 0 ? 70 * ts : 1;
                    memset(out, 0xA5, room), memset(want, 0xA5, room);
                    tp_convert(count, (tp_dtype)f, in + x0, x_steps[k], (tp_dtype)t, out + y0,
                               y_steps[k]);
                    for (int64_t i = 0; i < count; i++)
                        tp_convert(1, (tp_dtype)f, in + x0 + i * x_steps[k], fs, (tp_dtype)t,
                                   want + y0 + i * y_steps[k], ts);
                    cr_assert(memcmp(out, want, room) == 0, "%s to %s, steps %d, count %lld",
                              tp_dtype_name((tp_dtype)f), tp_dtype_name((tp_dtype)t), k,
                              (long long)count);
                }
            }
        }
    }
}
