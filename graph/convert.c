/* Conversions between element types, the rules of tp_cast: floats to integers truncate and
 * saturate, NaN gives 0; integers wrap; anything to bool is != 0; to f16 and bf16 rounds once,
 * to nearest even, straight from the source. A table holds a row loop for every pair.
 *
 * In: rows of storage bytes at any step, forwards or backwards, aligned or not. Out: rows of the
 * other type's bytes. A copy within one type keeps its bytes. */
#include "graph.h"

#include <string.h>

/* ---- f16 and bf16 -------------------------------------------------------------------- */

static float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

float tp_bf16_to_f32(uint16_t bits)
{
    return float_of_bits((uint32_t)bits << 16);
}

float tp_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000U) << 16, magnitude = h & 0x7FFFU;
    /* Scaling by 2^112 rebases the exponent and makes subnormals normal, exactly. */
    float finite = float_of_bits(magnitude << 13) * 0x1p112F;
    uint32_t bits = magnitude >= 0x7C00U ? 0x7F800000U | magnitude << 13 : bits_of_float(finite);
    return float_of_bits(bits | sign);
}

uint16_t tp_f32_to_bf16(float x)
{
    uint32_t bits = bits_of_float(x);
    uint32_t rounded = bits + 0x7FFFU + (bits >> 16 & 1U);
    uint32_t quiet = bits >> 16 | 0x40U; /* NaN keeps sign and payload's top */
    return (uint16_t)((bits & 0x7FFFFFFFU) > 0x7F800000U ? quiet : rounded >> 16);
}

uint16_t tp_f32_to_f16(float x)
{
    uint32_t bits = bits_of_float(x), sign = bits >> 16 & 0x8000U, magnitude = bits & 0x7FFFFFFFU;
    uint32_t rebased = magnitude - ((127U - 15U) << 23);
    uint32_t normal = (rebased + 0xFFFU + (rebased >> 13 & 1U)) >> 13;
    /* Below 2^-14 an addition of 0.5 rounds at the place of the last subnormal bit. */
    uint32_t subnormal = bits_of_float(float_of_bits(magnitude) + 0.5F) - bits_of_float(0.5F);
    uint32_t h = magnitude < 0x38800000U ? subnormal : normal;
    if (magnitude >= 0x47800000U) h = 0x7C00U;
    if (magnitude > 0x7F800000U) h = 0x7E00U | (magnitude >> 13 & 0x3FFU);
    return (uint16_t)(h | sign);
}

/* x rounded to odd: the last bit of the float says that something was cut off, so that a second
 * rounding to at most 22 bits is right. */
static float f64_to_f32_odd(double x)
{
    float near = (float)x;
    if ((double)near == x || x != x) return near;
    uint32_t bits = bits_of_float(near);
    double size = x < 0 ? -x : x, got = near < 0 ? -(double)near : (double)near;
    if (got > size) bits--; /* towards zero (from infinity: to the largest float) */
    return float_of_bits(bits | 1U);
}

uint16_t tp_f64_to_f16(double x)
{
    return tp_f32_to_f16(f64_to_f32_odd(x));
}

uint16_t tp_f64_to_bf16(double x)
{
    return tp_f32_to_bf16(f64_to_f32_odd(x));
}

/* |x| < 2^64 with a sign as a float that is exact or odd. */
static float integer_to_f32_odd(uint64_t size, bool negative)
{
    int shift = 0;
    for (; size >> 24; shift++) size = size >> 1 | (size & 1U);
    float x = (float)size * float_of_bits((uint32_t)(127 + shift) << 23);
    return negative ? -x : x;
}

/* ---- One element ---------------------------------------------------------------------- */

/* A type that holds every value of the dtype, and how its storage reads as that. */
#define DTYPE(ENUM, name, storage, compute, kind, bytes) typedef storage storage_##ENUM;
#include "tensorplay/dtypes.def"
#define WIDE_BOOL UNSIGNED
#define WIDE_U8 UNSIGNED
#define WIDE_I8 SIGNED
#define WIDE_U16 UNSIGNED
#define WIDE_I16 SIGNED
#define WIDE_U32 UNSIGNED
#define WIDE_I32 SIGNED
#define WIDE_U64 UNSIGNED
#define WIDE_I64 SIGNED
#define WIDE_F16 SINGLE
#define WIDE_BF16 SINGLE
#define WIDE_F32 SINGLE
#define WIDE_F64 DOUBLE
typedef uint64_t wide_UNSIGNED;
typedef int64_t wide_SIGNED;
typedef float wide_SINGLE;
typedef double wide_DOUBLE;
#define READ_BOOL(x) (x) != 0
#define READ_U8(x) (x)
#define READ_I8(x) (x)
#define READ_U16(x) (x)
#define READ_I16(x) (x)
#define READ_U32(x) (x)
#define READ_I32(x) (x)
#define READ_U64(x) (x)
#define READ_I64(x) (x)
#define READ_F16(x) tp_f16_to_f32(x)
#define READ_BF16(x) tp_bf16_to_f32(x)
#define READ_F32(x) (x)
#define READ_F64(x) (x)

/* The ends of an integer type T, and the first power of two above it: floats hold the latter
 * exactly, but not INT32_MAX. */
#define IS_SIGNED(T) ((T)-1 < (T)1)
#define TOP_BIT(T) (UINT64_C(1) << (8 * sizeof(T) - 1))
#define LOWEST(T) (IS_SIGNED(T) ? (T)TOP_BIT(T) : (T)0)
#define HIGHEST(T) ((T)~LOWEST(T))
#define ABOVE(T) ((IS_SIGNED(T) ? 1.0F : 2.0F) * (float)TOP_BIT(T))
#define SATURATE(x, T)                                                                             \
    ((x) != (x)                ? (T)0                                                              \
     : (x) <= (float)LOWEST(T) ? LOWEST(T)                                                         \
     : (x) >= ABOVE(T)         ? HIGHEST(T)                                                        \
                               : (T)(x))
#define MAGNITUDE(x) ((x) < 0 ? 0 - (uint64_t)(x) : (uint64_t)(x))

/* From the wide type to storage T, by what the target is. */
#define UNSIGNED_TO_TRUTH(x, T) (x) != 0
#define SIGNED_TO_TRUTH(x, T) (x) != 0
#define SINGLE_TO_TRUTH(x, T) (x) != 0
#define DOUBLE_TO_TRUTH(x, T) (x) != 0
#define UNSIGNED_TO_WHOLE(x, T) (T)(x)
#define SIGNED_TO_WHOLE(x, T) (T)(x)
#define SINGLE_TO_WHOLE(x, T) SATURATE(x, T)
#define DOUBLE_TO_WHOLE(x, T) SATURATE(x, T)
#define UNSIGNED_TO_HALF(x, T) tp_f32_to_f16(integer_to_f32_odd(x, false))
#define SIGNED_TO_HALF(x, T) tp_f32_to_f16(integer_to_f32_odd(MAGNITUDE(x), (x) < 0))
#define SINGLE_TO_HALF(x, T) tp_f32_to_f16(x)
#define DOUBLE_TO_HALF(x, T) tp_f64_to_f16(x)
#define UNSIGNED_TO_BRAIN(x, T) tp_f32_to_bf16(integer_to_f32_odd(x, false))
#define SIGNED_TO_BRAIN(x, T) tp_f32_to_bf16(integer_to_f32_odd(MAGNITUDE(x), (x) < 0))
#define SINGLE_TO_BRAIN(x, T) tp_f32_to_bf16(x)
#define DOUBLE_TO_BRAIN(x, T) tp_f64_to_bf16(x)
#define UNSIGNED_TO_FLOAT(x, T) (T)(x)
#define SIGNED_TO_FLOAT(x, T) (T)(x)
#define SINGLE_TO_FLOAT(x, T) (T)(x)
#define DOUBLE_TO_FLOAT(x, T) (T)(x)

/* ---- Rows ------------------------------------------------------------------------------------ */

typedef void (*row_loop)(int64_t count, const char *x, int64_t x_step, char *y, int64_t y_step);

#define ROW(FROM, TO, WIDE, CONVERT, x_step, y_step)                                               \
    for (int64_t i = 0; i < count; i++) {                                                          \
        storage_##FROM from;                                                                       \
        memcpy(&from, x + i * (int64_t)(x_step), sizeof from);                                     \
        wide_##WIDE wide = READ_##FROM(from);                                                      \
        storage_##TO to = (storage_##TO)(CONVERT(wide, storage_##TO));                             \
        memcpy(y + i * (int64_t)(y_step), &to, sizeof to);                                         \
    }
/* Neighbouring elements have a loop of their own: with constant steps it vectorises. */
#define ROW_LOOP(FROM, TO, WIDE, GROUP)                                                            \
    static void FROM##_to_##TO(int64_t count, const char *x, int64_t x_step, char *y,              \
                               int64_t y_step)                                                     \
    {                                                                                              \
        if (x_step == (int64_t)sizeof(storage_##FROM) &&                                           \
            y_step == (int64_t)sizeof(storage_##TO)) {                                             \
            ROW(FROM, TO, WIDE, WIDE##_TO_##GROUP, sizeof(storage_##FROM), sizeof(storage_##TO))   \
        } else {                                                                                   \
            ROW(FROM, TO, WIDE, WIDE##_TO_##GROUP, x_step, y_step)                                 \
        }                                                                                          \
    }
#define EXPANDED_ROW_LOOP(FROM, TO, WIDE, GROUP) ROW_LOOP(FROM, TO, WIDE, GROUP)
#define LOOP(FROM, TO, GROUP) EXPANDED_ROW_LOOP(FROM, TO, WIDE_##FROM, GROUP)
#define ENTRY(FROM, TO, GROUP) [TP_##TO] = FROM##_to_##TO,
#define EACH_TO(M, FROM)                                                                           \
    M(FROM, BOOL, TRUTH)                                                                           \
    M(FROM, U8, WHOLE)                                                                             \
    M(FROM, I8, WHOLE)                                                                             \
    M(FROM, U16, WHOLE)                                                                            \
    M(FROM, I16, WHOLE)                                                                            \
    M(FROM, U32, WHOLE)                                                                            \
    M(FROM, I32, WHOLE)                                                                            \
    M(FROM, U64, WHOLE)                                                                            \
    M(FROM, I64, WHOLE)                                                                            \
    M(FROM, F16, HALF)                                                                             \
    M(FROM, BF16, BRAIN)                                                                           \
    M(FROM, F32, FLOAT)                                                                            \
    M(FROM, F64, FLOAT)
_Static_assert(TP_DTYPE_COUNT == 13, "EACH_TO lists every dtype");

#define DTYPE(ENUM, name, storage, compute, kind, bytes) EACH_TO(LOOP, ENUM)
#include "tensorplay/dtypes.def"
static const row_loop loops[TP_DTYPE_COUNT][TP_DTYPE_COUNT] = {
#define DTYPE(ENUM, name, storage, compute, kind, bytes) [TP_##ENUM] = {EACH_TO(ENTRY, ENUM)},
#include "tensorplay/dtypes.def"
};

static void copy_row(int64_t count, const char *x, int64_t x_step, char *y, int64_t y_step,
                     size_t size)
{
    if (x_step == (int64_t)size && y_step == (int64_t)size) {
        memmove(y, x, (size_t)count * size);
        return;
    }
    for (int64_t i = 0; i < count; i++) memcpy(y + i * y_step, x + i * x_step, size);
}

void tp_convert(int64_t count, tp_dtype from, const void *x, int64_t x_step, tp_dtype to, void *y,
                int64_t y_step)
{
    if (from == to)
        copy_row(count, x, x_step, y, y_step, tp_dtype_size(from));
    else
        loops[from][to](count, x, x_step, y, y_step);
}

/* Which member of a tp_value a dtype uses, as the dtype of that member. */
static tp_dtype member_of(tp_dtype dtype)
{
    tp_dtype_kind kind = tp_dtype_kind_of(dtype);
    if (kind == TP_DTYPE_FLOAT) return TP_F64;
    return kind == TP_DTYPE_INT ? TP_I64 : TP_U64;
}

tp_value tp_value_load(tp_dtype dtype, const void *at)
{
    tp_value value = {0};
    tp_dtype member = member_of(dtype);
    char *to = member == TP_F64 ? (char *)&value.f : (char *)&value.i;
    loops[dtype][member](1, at, 0, to, 0);
    return value;
}

void tp_value_store(tp_dtype dtype, void *at, tp_dtype from, tp_value value)
{
    tp_dtype member = member_of(from);
    const char *x = member == TP_F64 ? (const char *)&value.f : (const char *)&value.i;
    loops[member][dtype](1, x, 0, at, 0);
}
