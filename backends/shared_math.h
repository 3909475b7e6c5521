/* The m_ functions of ops.def that have one meaning for every backend in C: those of integers,
 * which wrap and never trap, and those of floats that are exact or defined by how they are
 * calculated. A backend adds the others for f32 and f64 (m_exp_f32, ...). */
#ifndef TP_SHARED_MATH_H
#define TP_SHARED_MATH_H

/* Kernel texts for a GPU begin with this file too: their compiler has no headers. */
#ifndef __CUDACC_RTC__
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#endif

/* f for the type of a: f_f32, f_f64, f_u8, ... */
#define M_PICK(f, a)                                                                               \
    _Generic((a), float                                                                            \
             : f##_f32, double                                                                     \
             : f##_f64, uint8_t                                                                    \
             : f##_u8, int8_t                                                                      \
             : f##_i8, uint16_t                                                                    \
             : f##_u16, int16_t                                                                    \
             : f##_i16, uint32_t                                                                   \
             : f##_u32, int32_t                                                                    \
             : f##_i32, uint64_t                                                                   \
             : f##_u64, int64_t                                                                    \
             : f##_i64)
#define M_PICK_INT(f, a)                                                                           \
    _Generic((a), uint8_t                                                                          \
             : f##_u8, int8_t                                                                      \
             : f##_i8, uint16_t                                                                    \
             : f##_u16, int16_t                                                                    \
             : f##_i16, uint32_t                                                                   \
             : f##_u32, int32_t                                                                    \
             : f##_i32, uint64_t                                                                   \
             : f##_u64, int64_t                                                                    \
             : f##_i64)
#define M_PICK_FLOAT(f, a) _Generic((a), float : f##_f32, double : f##_f64)

/* a^b by squaring. A negative exponent truncates 1/a^|b| towards 0: only 1 and -1 survive. */
static inline uint64_t int_pow(uint64_t a, uint64_t b)
{
    uint64_t y = 1;
    for (; b; b >>= 1, a *= a) y *= b & 1U ? a : 1U;
    return y;
}

/* Python's // and %: b is never 0 or -1 here. */
static inline int64_t int_floor_divide(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

#define INT_SAME(name, type, tag)                                                                  \
    static inline type m_##name##_##tag(type a)                                                    \
    {                                                                                              \
        return a;                                                                                  \
    }
#define INT_COMMON(type, tag)                                                                      \
    static inline type m_relu_##tag(type a)                                                        \
    {                                                                                              \
        return a > 0 ? a : 0;                                                                      \
    }                                                                                              \
    static inline type m_min_##tag(type a, type b)                                                 \
    {                                                                                              \
        return a < b ? a : b;                                                                      \
    }                                                                                              \
    static inline type m_max_##tag(type a, type b)                                                 \
    {                                                                                              \
        return a > b ? a : b;                                                                      \
    }
#define INT_ROUNDING(type, tag)                                                                    \
    INT_SAME(floor, type, tag)                                                                     \
    INT_SAME(ceil, type, tag)                                                                      \
    INT_SAME(trunc, type, tag)                                                                     \
    INT_SAME(round, type, tag)                                                                     \
    static inline int m_isinf_##tag(type a)                                                        \
    {                                                                                              \
        return (void)a, 0;                                                                         \
    }                                                                                              \
    static inline int m_isfinite_##tag(type a)                                                     \
    {                                                                                              \
        return (void)a, 1;                                                                         \
    }
#define INT_UNSIGNED(type, tag)                                                                    \
    INT_COMMON(type, tag)                                                                          \
    INT_ROUNDING(type, tag)                                                                        \
    static inline type m_sign_##tag(type a)                                                        \
    {                                                                                              \
        return a != 0;                                                                             \
    }                                                                                              \
    static inline type m_floor_divide_##tag(type a, type b)                                        \
    {                                                                                              \
        return (type)(b ? a / b : 0);                                                              \
    }                                                                                              \
    static inline type m_remainder_##tag(type a, type b)                                           \
    {                                                                                              \
        return (type)(b ? a % b : 0);                                                              \
    }                                                                                              \
    static inline type m_left_shift_##tag(type a, type b)                                          \
    {                                                                                              \
        return (type)(b < sizeof(type) * 8 ? (uint64_t)a << b : 0);                                \
    }                                                                                              \
    static inline type m_right_shift_##tag(type a, type b)                                         \
    {                                                                                              \
        return (type)(b < sizeof(type) * 8 ? a >> b : 0);                                          \
    }                                                                                              \
    static inline type m_abs_##tag(type a)                                                         \
    {                                                                                              \
        return a;                                                                                  \
    }                                                                                              \
    static inline type m_pow_##tag(type a, type b)                                                 \
    {                                                                                              \
        return (type)int_pow(a, b);                                                                \
    }
#define INT_SIGNED(type, tag)                                                                      \
    INT_COMMON(type, tag)                                                                          \
    INT_ROUNDING(type, tag)                                                                        \
    static inline type m_sign_##tag(type a)                                                        \
    {                                                                                              \
        return (type)((a > 0) - (a < 0));                                                          \
    }                                                                                              \
    static inline type m_floor_divide_##tag(type a, type b)                                        \
    {                                                                                              \
        if (b == -1) return (type)(0 - (uint64_t)a);                                               \
        return (type)(b ? int_floor_divide(a, b) : 0);                                             \
    }                                                                                              \
    static inline type m_remainder_##tag(type a, type b)                                           \
    {                                                                                              \
        if (b == 0 || b == -1) return 0;                                                           \
        return (type)(a - b * int_floor_divide(a, b));                                             \
    }                                                                                              \
    static inline type m_left_shift_##tag(type a, type b)                                          \
    {                                                                                              \
        return (type)(b >= 0 && (uint64_t)b < sizeof(type) * 8 ? (uint64_t)a << b : 0);            \
    }                                                                                              \
    static inline type m_right_shift_##tag(type a, type b)                                         \
    {                                                                                              \
        bool inside = b >= 0 && (uint64_t)b < sizeof(type) * 8;                                    \
        int count = inside ? (int)b : (int)sizeof(type) * 8 - 1;                                   \
        return (type)(a >> count);                                                                 \
    }                                                                                              \
    static inline type m_abs_##tag(type a)                                                         \
    {                                                                                              \
        return (type)(a < 0 ? 0 - (uint64_t)a : (uint64_t)a);                                      \
    }                                                                                              \
    static inline type m_pow_##tag(type a, type b)                                                 \
    {                                                                                              \
        if (b >= 0) return (type)int_pow((uint64_t)a, (uint64_t)b);                                \
        if (a == -1) return (type)(b % 2 ? -1 : 1);                                                \
        return a == 1;                                                                             \
    }

INT_UNSIGNED(uint8_t, u8)
INT_UNSIGNED(uint16_t, u16)
INT_UNSIGNED(uint32_t, u32)
INT_UNSIGNED(uint64_t, u64)
INT_SIGNED(int8_t, i8)
INT_SIGNED(int16_t, i16)
INT_SIGNED(int32_t, i32)
INT_SIGNED(int64_t, i64)

/* Python's // and % of floats: the remainder has b's sign, the quotient goes with it. f32 is
 * calculated in f64, which holds all that matters exactly. */
static inline double m_remainder_f64(double a, double b)
{
    double rest = fmod(a, b);
    if (rest == 0) return copysign(0.0, b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
}
static inline double m_floor_divide_f64(double a, double b)
{
    if (b == 0) return a / b;
    double rest = fmod(a, b), quotient = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
    if (quotient == 0) return copysign(0.0, a / b);
    double whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}
static inline float m_remainder_f32(float a, float b)
{
    return (float)m_remainder_f64((double)a, (double)b);
}
static inline float m_floor_divide_f32(float a, float b)
{
    return (float)m_floor_divide_f64((double)a, (double)b);
}

#define FLOAT_EXACT(type, tag, suffix)                                                             \
    static inline type m_floor_##tag(type a)                                                       \
    {                                                                                              \
        return floor##suffix(a);                                                                   \
    }                                                                                              \
    static inline type m_ceil_##tag(type a)                                                        \
    {                                                                                              \
        return ceil##suffix(a);                                                                    \
    }                                                                                              \
    static inline type m_trunc_##tag(type a)                                                       \
    {                                                                                              \
        return trunc##suffix(a);                                                                   \
    }                                                                                              \
    static inline type m_round_##tag(type a)                                                       \
    {                                                                                              \
        return rint##suffix(a);                                                                    \
    }                                                                                              \
    static inline int m_isinf_##tag(type a)                                                        \
    {                                                                                              \
        return fabs##suffix(a) == INFINITY;                                                        \
    }                                                                                              \
    static inline int m_isfinite_##tag(type a)                                                     \
    {                                                                                              \
        return fabs##suffix(a) < INFINITY;                                                         \
    }                                                                                              \
    static inline type m_sign_##tag(type a)                                                        \
    {                                                                                              \
        type y = (type)((a > 0) - (a < 0));                                                        \
        return a != a ? a : y;                                                                     \
    }
FLOAT_EXACT(float, f32, f)
/* clang-format off */
FLOAT_EXACT(double, f64, )
/* clang-format on */

/* The names that expressions use. */
#define m_exp(a) M_PICK_FLOAT(m_exp, a)(a)
#define m_log(a) M_PICK_FLOAT(m_log, a)(a)
#define m_sqrt(a) M_PICK_FLOAT(m_sqrt, a)(a)
#define m_tanh(a) M_PICK_FLOAT(m_tanh, a)(a)
#define m_erf(a) M_PICK_FLOAT(m_erf, a)(a)
#define m_gelu(a) M_PICK_FLOAT(m_gelu, a)(a)
#define m_exp2(a) M_PICK_FLOAT(m_exp2, a)(a)
#define m_expm1(a) M_PICK_FLOAT(m_expm1, a)(a)
#define m_log2(a) M_PICK_FLOAT(m_log2, a)(a)
#define m_log10(a) M_PICK_FLOAT(m_log10, a)(a)
#define m_log1p(a) M_PICK_FLOAT(m_log1p, a)(a)
#define m_sin(a) M_PICK_FLOAT(m_sin, a)(a)
#define m_cos(a) M_PICK_FLOAT(m_cos, a)(a)
#define m_tan(a) M_PICK_FLOAT(m_tan, a)(a)
#define m_asin(a) M_PICK_FLOAT(m_asin, a)(a)
#define m_acos(a) M_PICK_FLOAT(m_acos, a)(a)
#define m_atan(a) M_PICK_FLOAT(m_atan, a)(a)
#define m_sinh(a) M_PICK_FLOAT(m_sinh, a)(a)
#define m_cosh(a) M_PICK_FLOAT(m_cosh, a)(a)
#define m_erfc(a) M_PICK_FLOAT(m_erfc, a)(a)
#define m_sigmoid(a) M_PICK_FLOAT(m_sigmoid, a)(a)
#define m_silu(a) M_PICK_FLOAT(m_silu, a)(a)
#define m_gelu_tanh(a) M_PICK_FLOAT(m_gelu_tanh, a)(a)
#define m_softplus(a) M_PICK_FLOAT(m_softplus, a)(a)
#define m_atan2(a, b) M_PICK_FLOAT(m_atan2, a)(a, b)
#define m_hypot(a, b) M_PICK_FLOAT(m_hypot, a)(a, b)
#define m_abs(a) M_PICK(m_abs, a)(a)
#define m_relu(a) M_PICK(m_relu, a)(a)
#define m_sign(a) M_PICK(m_sign, a)(a)
#define m_floor(a) M_PICK(m_floor, a)(a)
#define m_ceil(a) M_PICK(m_ceil, a)(a)
#define m_trunc(a) M_PICK(m_trunc, a)(a)
#define m_round(a) M_PICK(m_round, a)(a)
#define m_isinf(a) M_PICK(m_isinf, a)(a)
#define m_isfinite(a) M_PICK(m_isfinite, a)(a)
#define m_pow(a, b) M_PICK(m_pow, a)(a, b)
#define m_min(a, b) M_PICK(m_min, a)(a, b)
#define m_max(a, b) M_PICK(m_max, a)(a, b)
#define m_floor_divide(a, b) M_PICK(m_floor_divide, a)(a, b)
#define m_remainder(a, b) M_PICK(m_remainder, a)(a, b)
#define m_left_shift(a, b) M_PICK_INT(m_left_shift, a)(a, b)
#define m_right_shift(a, b) M_PICK_INT(m_right_shift, a)(a, b)

#endif
