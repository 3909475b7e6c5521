/* Types: the promotion matrix, and conversions against an independent reference. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"

/* ---- Promotion ---------------------------------------------------------------------- */

/* The rule in words: bool gives way; of integers the smallest that holds both; any float
 * beats any integer; f16 and bf16 meet in f32. */
static int rule(tp_dtype a, tp_dtype b)
{
    tp_dtype_kind ka = tp_dtype_kind_of(a), kb = tp_dtype_kind_of(b);
    if (a == b || ka == TP_DTYPE_BOOL) return b;
    if (kb == TP_DTYPE_BOOL) return a;
    if (ka == TP_DTYPE_FLOAT || kb == TP_DTYPE_FLOAT) {
        if (ka != kb) return ka == TP_DTYPE_FLOAT ? a : b;
        if (tp_dtype_size(a) == tp_dtype_size(b)) return TP_F32;
        return tp_dtype_size(a) > tp_dtype_size(b) ? a : b;
    }
    if (ka == kb) return tp_dtype_size(a) > tp_dtype_size(b) ? a : b;
    size_t wide = tp_dtype_size(ka == TP_DTYPE_UINT ? a : b) * 2,
           have = tp_dtype_size(ka == TP_DTYPE_INT ? a : b);
    size_t need = wide > have ? wide : have;
    return need == 2 ? TP_I16 : need == 4 ? TP_I32 : need == 8 ? TP_I64 : -1;
}

Test(types, promotion_follows_the_rule_commutes_and_associates)
{
    for (int a = 0; a < TP_DTYPE_COUNT; a++) {
        for (int b = 0; b < TP_DTYPE_COUNT; b++) {
            tp_dtype ab = TP_BOOL, ba = TP_BOOL, bc, left, right;
            bool ok = tp_dtype_promote((tp_dtype)a, (tp_dtype)b, &ab);
            cr_expect_eq(ok ? (int)ab : -1, rule((tp_dtype)a, (tp_dtype)b), "%d %d", a, b);
            cr_expect_eq(ok, tp_dtype_promote((tp_dtype)b, (tp_dtype)a, &ba));
            cr_expect_eq(ab, ba);
            for (int c = 0; ok && c < TP_DTYPE_COUNT; c++) {
                if (!tp_dtype_promote((tp_dtype)b, (tp_dtype)c, &bc)) continue;
                bool l = tp_dtype_promote(ab, (tp_dtype)c, &left),
                     r = tp_dtype_promote((tp_dtype)a, bc, &right);
                if (l && r) cr_expect_eq(left, right, "(%d %d) %d", a, b, c);
            }
        }
    }
    tp_dtype any;
    cr_expect(!tp_dtype_promote((tp_dtype)99, TP_F32, &any));
    cr_expect_str_eq(tp_dtype_name((tp_dtype)99), "unknown");
    cr_expect_str_eq(tp_status_name(TP_E_SHAPE), "shape");
    cr_expect_eq(tp_dtype_size(TP_BF16), 2);
}

/* ---- Conversions ------------------------------------------------------------------------ */

/* x rounded to a binary format with `bits` of precision and exponents from emin to emax, to nearest
 * even, by long double arithmetic. */
static long double rounded(long double x, int bits, int emin, int emax)
{
    int e;
    if (x == 0 || isinf(x) || isnan(x)) return x;
    frexpl(x, &e);
    if (e - 1 < emin) e = emin + 1;
    long double unit = ldexpl(1, e - bits), y = rintl(x / unit) * unit;
    return fabsl(y) >= ldexpl(1, emax + 1) ? copysignl(INFINITY, x) : y;
}

static void check_halves(double x)
{
    tp_value v = {.f = x};
    uint16_t h, b;
    tp_value_store(TP_F16, &h, TP_F64, v);
    tp_value_store(TP_BF16, &b, TP_F64, v);
    double wh = (double)rounded(x, 11, -14, 15), wb = (double)rounded(x, 8, -126, 127);
    double gh = tp_value_load(TP_F16, &h).f, gb = tp_value_load(TP_BF16, &b).f;
    cr_assert(gh == wh || (isnan(gh) && isnan(x)), "f64 %a to f16: %a, not %a", x, gh, wh);
    cr_assert(gb == wb || (isnan(gb) && isnan(x)), "f64 %a to bf16: %a, not %a", x, gb, wb);
    if ((double)(float)x != x) return;
    cr_assert_eq(tp_f32_to_f16((float)x), h, "f32 %a to f16", x);
    cr_assert_eq(tp_f32_to_bf16((float)x), b, "f32 %a to bf16", x);
}

Test(types, halves_round_once_to_nearest_even)
{
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t bits = (uint16_t)i;
        double h = (double)tp_f16_to_f32(bits), b = (double)tp_bf16_to_f32(bits);
        if (!isnan(h))
            cr_assert_eq(tp_f64_to_f16(h), bits, "f16 %#x", i);
        else
            cr_assert((tp_f64_to_f16(h) & 0x7FFF) > 0x7C00 &&
                          (tp_f64_to_f16(h) & 0x8000) == (bits & 0x8000),
                      "NaN keeps its sign");
        if (!isnan(b)) cr_assert_eq(tp_f64_to_bf16(b), bits, "bf16 %#x", i);
        /* Ties and their neighbours, in f64 and beyond f32's precision. */
        for (int k = -2; k <= 2 && !isnan(h) && !isinf(h); k++) {
            double next = (double)tp_f16_to_f32((uint16_t)(bits + 1));
            if (isfinite(next)) check_halves((h + next) / 2 * (1 + k * 0x1p-50));
        }
        if (i % 7 == 0 && isfinite(b)) {
            double next = (double)tp_bf16_to_f32((uint16_t)(bits + 1));
            for (int k = -2; k <= 2 && isfinite(next); k++)
                check_halves((b + next) / 2 * (1 + k * 0x1p-50));
        }
    }
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 65521) {
        uint32_t word = (uint32_t)bits;
        float x;
        memcpy(&x, &word, 4);
        check_halves((double)x);
    }
    /* Faults 61 and 63. */
    const uint32_t from[] = {0x3E89CCD5, 0x3F808000, 0x3F818000, 0x7F7FFFFF};
    const uint16_t to[] = {0x3E8A, 0x3F80, 0x3F82, 0x7F80};
    for (int i = 0; i < 4; i++) {
        float x;
        memcpy(&x, &from[i], 4);
        cr_expect_eq(tp_f32_to_bf16(x), to[i]);
    }
    cr_expect_eq(tp_f16_to_f32(tp_f64_to_f16(1 + 0x1p-11 + 0x1p-40)), 1.0009765625F);
    cr_expect_eq(tp_bf16_to_f32(tp_f64_to_bf16(1 + 0x1p-8 + 0x1p-30)), 1.0078125F);
    uint16_t b;
    tp_value_store(TP_BF16, &b, TP_I64, (tp_value){.i = 16842753});
    cr_expect_eq(tp_bf16_to_f32(b), 16908288.0F);
}

/* The cast of one value by the rules, in wide arithmetic. */
static bool is_cast(tp_dtype from, tp_value x, tp_dtype to, tp_value y)
{
    tp_dtype_kind kf = tp_dtype_kind_of(from), kt = tp_dtype_kind_of(to);
    bool is_float = kf == TP_DTYPE_FLOAT;
    if (to == TP_BOOL) return (y.i != 0) == (is_float ? x.f != 0 : x.i != 0);
    long double wide = is_float         ? (long double)x.f
                       : from == TP_U64 ? (long double)(uint64_t)x.i
                                        : (long double)x.i;
    if (kt == TP_DTYPE_FLOAT) {
        int bits = to == TP_F64 ? 53 : to == TP_F32 ? 24 : to == TP_F16 ? 11 : 8;
        int emin = to == TP_F64   ? -1022
                   : to == TP_F16 ? -14
                                  : -126,
            emax = to == TP_F64   ? 1023
                   : to == TP_F16 ? 15
                                  : 127;
        long double want = rounded(wide, bits, emin, emax);
        return (double)want == y.f || (isnan(want) && isnan(y.f));
    }
    int width = (int)tp_dtype_size(to) * 8;
    uint64_t mask = width == 64 ? UINT64_MAX : (UINT64_C(1) << width) - 1;
    if (!is_float) return (((uint64_t)x.i ^ (uint64_t)y.i) & mask) == 0;
    long double low = kt == TP_DTYPE_UINT ? 0 : -ldexpl(1, width - 1),
                high = ldexpl(1, kt == TP_DTYPE_UINT ? width : width - 1) - 1;
    long double want = isnan(wide) ? 0 : wide < low ? low : wide > high ? high : truncl(wide);
    return want == (to == TP_U64 ? (long double)(uint64_t)y.i : (long double)y.i);
}

Test(types, every_pair_converts_by_the_rules)
{
    const double floats[] = {0,
                             -0.0,
                             0.5,
                             -0.9,
                             1.5,
                             -2.5,
                             127.9,
                             128,
                             255.5,
                             256,
                             32768,
                             65504,
                             65536,
                             2147483520,
                             2147483647.5,
                             2147483648.0,
                             4294967296.0,
                             9.2e18,
                             9223372036854775808.0,
                             18446744073709551616.0,
                             1e30,
                             -1e30,
                             INFINITY,
                             -INFINITY,
                             NAN,
                             1e-45,
                             1e-310};
    const int64_t integers[] = {0,
                                1,
                                2,
                                127,
                                128,
                                255,
                                256,
                                300,
                                32767,
                                32768,
                                65535,
                                65536,
                                16842753,
                                INT32_MAX,
                                (int64_t)INT32_MAX + 1,
                                INT64_MAX,
                                INT64_MIN,
                                -1,
                                -128,
                                -129,
                                -32769,
                                16777217,
                                (INT64_C(1) << 53) + 1,
                                (INT64_C(1) << 24) + 1};
    long checked = 0;
    for (int f = 0; f < TP_DTYPE_COUNT; f++) {
        bool is_float = tp_dtype_kind_of((tp_dtype)f) == TP_DTYPE_FLOAT;
        int count = is_float ? (int)(sizeof floats / sizeof *floats)
                             : (int)(sizeof integers / sizeof *integers);
        for (int t = 0; t < TP_DTYPE_COUNT; t++) {
            for (int i = 0; i < count; i++) {
                uint64_t in[40] = {0}, out[40] = {0};
                tp_value v = is_float ? (tp_value){.f = floats[i]} : (tp_value){.i = integers[i]};
                tp_value_store((tp_dtype)f, in, is_float ? TP_F64 : TP_I64, v);
                tp_value x = tp_value_load((tp_dtype)f, in);
                tp_convert(1, (tp_dtype)f, in, 8, (tp_dtype)t, out, 8);
                tp_value y = tp_value_load((tp_dtype)t, out);
                cr_assert(is_cast((tp_dtype)f, x, (tp_dtype)t, y),
                          "%s to %s: %g/%lld gives %g/%lld", tp_dtype_name((tp_dtype)f),
                          tp_dtype_name((tp_dtype)t), x.f, (long long)x.i, y.f, (long long)y.i);
                checked++;
            }
        }
    }
    cr_expect_gt(checked, 4000);
    /* Faults 45 and 47 by number, 63b. */
    cr_expect_eq(tp_value_load(TP_BOOL, &(uint8_t){255}).i, 1);
}

Test(types, rows_convert_like_single_elements)
{
    uint8_t from[300 * 8], one[300 * 8], row[300 * 8];
    for (size_t i = 0; i < sizeof from; i++) from[i] = (uint8_t)(i * 37 + i / 11);
    for (int f = 0; f < TP_DTYPE_COUNT; f++) {
        for (int t = 0; t < TP_DTYPE_COUNT; t++) {
            int64_t fs = (int64_t)tp_dtype_size((tp_dtype)f),
                    ts = (int64_t)tp_dtype_size((tp_dtype)t);
            memset(one, 0, sizeof one), memset(row, 0, sizeof row);
            tp_convert(300, (tp_dtype)f, from, fs, (tp_dtype)t, row, ts);
            for (int64_t i = 0; i < 300; i++)
                tp_convert(1, (tp_dtype)f, from + i * fs, fs, (tp_dtype)t, one + i * ts, ts);
            cr_expect_arr_eq(one, row, sizeof row, "%s to %s", tp_dtype_name((tp_dtype)f),
                             tp_dtype_name((tp_dtype)t));
            /* Backwards, from the last element. */
            memset(row, 0, sizeof row);
            tp_convert(300, (tp_dtype)f, from + 299 * fs, -fs, (tp_dtype)t, row + 299 * ts, -ts);
            cr_expect_arr_eq(one, row, sizeof row, "%s to %s backwards", tp_dtype_name((tp_dtype)f),
                             tp_dtype_name((tp_dtype)t));
        }
    }
}
