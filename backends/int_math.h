/* The m_ functions of ops.def for integers, one meaning for every backend in C: they wrap and
 * never trap. A backend adds the f32 and f64 versions (m_abs_f32, ...). */
#ifndef TP_INT_MATH_H
#define TP_INT_MATH_H

#include <stdint.h>

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
#define M_PICK_FLOAT(f, a) _Generic((a), float : f##_f32, double : f##_f64)

/* a^b by squaring. A negative exponent truncates 1/a^|b| towards 0: only 1 and -1 survive. */
static inline uint64_t int_pow(uint64_t a, uint64_t b)
{
    uint64_t y = 1;
    for (; b; b >>= 1, a *= a) y *= b & 1U ? a : 1U;
    return y;
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
#define INT_UNSIGNED(type, tag)                                                                    \
    INT_COMMON(type, tag)                                                                          \
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
    static inline type m_abs_##tag(type a)                                                         \
    {                                                                                              \
        return (type)(a < 0 ? 0 - (uint64_t)a : (uint64_t)a);                                      \
    }                                                                                              \
    static inline type m_pow_##tag(type a, type b)                                                 \
    {                                                                                              \
        if (b >= 0) return (type)int_pow((uint64_t)a, (uint64_t)b);                                \
        return a == 1 ? 1 : a == -1 ? (type)(b % 2 ? -1 : 1) : 0;                                  \
    }

INT_UNSIGNED(uint8_t, u8)
INT_UNSIGNED(uint16_t, u16)
INT_UNSIGNED(uint32_t, u32)
INT_UNSIGNED(uint64_t, u64)
INT_SIGNED(int8_t, i8)
INT_SIGNED(int16_t, i16)
INT_SIGNED(int32_t, i32)
INT_SIGNED(int64_t, i64)

#endif
