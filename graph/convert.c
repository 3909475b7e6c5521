/* Conversions between element types, the rules of tp_cast: floats to integers truncate and
 * saturate, NaN gives 0; integers wrap; anything to bool is != 0; to f16 and bf16 rounds once,
 * to nearest even, straight from the source. A table holds a row loop for every pair. */
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

/* ---- Rows: storage -> a wide form -> storage ---------------------------------------------- */

/* The wide form of a dtype holds each of its values: int64_t, uint64_t or double. */
typedef union wide {
    int64_t i;
    uint64_t u;
    double f;
} wide;
typedef enum wide_kind { WIDE_INT, WIDE_UINT, WIDE_FLOAT, WIDE_KINDS } wide_kind;

#define BLOCK 256

/* How an element of each storage reads. */
#define READ_BOOL(x) .u = (x) != 0
#define READ_U8(x) .u = (x)
#define READ_I8(x) .i = (x)
#define READ_U16(x) .u = (x)
#define READ_I16(x) .i = (x)
#define READ_U32(x) .u = (x)
#define READ_I32(x) .i = (x)
#define READ_U64(x) .u = (x)
#define READ_I64(x) .i = (x)
#define READ_F16(x) .f = (double)tp_f16_to_f32(x)
#define READ_BF16(x) .f = (double)tp_bf16_to_f32(x)
#define READ_F32(x) .f = (double)(x)
#define READ_F64(x) .f = (x)

#define DTYPE(ENUM, name, storage, compute, kind, bytes)                                           \
    static void read_##ENUM(int64_t count, const char *x, int64_t step, wide *w)                   \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++) {                                                      \
            storage element;                                                                       \
            memcpy(&element, x + i * step, sizeof element);                                        \
            w[i] = (wide){READ_##ENUM(element)};                                                   \
        }                                                                                          \
    }
#include "tensorplay/dtypes.def"

/* A double to an integer type with bounds low and high, both limits exact: truncates,
 * saturates, NaN gives 0. */
#define SATURATE(x, type, low, high, limit)                                                        \
    ((x) != (x)             ? (type)0                                                              \
     : (x) <= (double)(low) ? (type)(low)                                                          \
     : (x) >= (limit)       ? (type)(high)                                                         \
                            : (type)(x))

/* How each storage is made from the three wide forms. */
#define FROM_INT_BOOL(x) (x) != 0
#define FROM_UINT_BOOL(x) (x) != 0
#define FROM_FLOAT_BOOL(x) (x) != 0
#define FROM_INT_U8(x) (uint8_t)(x)
#define FROM_UINT_U8(x) (uint8_t)(x)
#define FROM_FLOAT_U8(x) SATURATE(x, uint8_t, 0, UINT8_MAX, 0x1p8)
#define FROM_INT_I8(x) (int8_t)(x)
#define FROM_UINT_I8(x) (int8_t)(x)
#define FROM_FLOAT_I8(x) SATURATE(x, int8_t, INT8_MIN, INT8_MAX, 0x1p7)
#define FROM_INT_U16(x) (uint16_t)(x)
#define FROM_UINT_U16(x) (uint16_t)(x)
#define FROM_FLOAT_U16(x) SATURATE(x, uint16_t, 0, UINT16_MAX, 0x1p16)
#define FROM_INT_I16(x) (int16_t)(x)
#define FROM_UINT_I16(x) (int16_t)(x)
#define FROM_FLOAT_I16(x) SATURATE(x, int16_t, INT16_MIN, INT16_MAX, 0x1p15)
#define FROM_INT_U32(x) (uint32_t)(x)
#define FROM_UINT_U32(x) (uint32_t)(x)
#define FROM_FLOAT_U32(x) SATURATE(x, uint32_t, 0, UINT32_MAX, 0x1p32)
#define FROM_INT_I32(x) (int32_t)(x)
#define FROM_UINT_I32(x) (int32_t)(x)
#define FROM_FLOAT_I32(x) SATURATE(x, int32_t, INT32_MIN, INT32_MAX, 0x1p31)
#define FROM_INT_U64(x) (uint64_t)(x)
#define FROM_UINT_U64(x) (x)
#define FROM_FLOAT_U64(x) SATURATE(x, uint64_t, 0, UINT64_MAX, 0x1p64)
#define FROM_INT_I64(x) (x)
#define FROM_UINT_I64(x) (int64_t)(x)
#define FROM_FLOAT_I64(x) SATURATE(x, int64_t, INT64_MIN, INT64_MAX, 0x1p63)
#define MAGNITUDE(x) ((x) < 0 ? 0 - (uint64_t)(x) : (uint64_t)(x))
#define FROM_INT_F16(x) tp_f32_to_f16(integer_to_f32_odd(MAGNITUDE(x), (x) < 0))
#define FROM_UINT_F16(x) tp_f32_to_f16(integer_to_f32_odd(x, false))
#define FROM_FLOAT_F16(x) tp_f64_to_f16(x)
#define FROM_INT_BF16(x) tp_f32_to_bf16(integer_to_f32_odd(MAGNITUDE(x), (x) < 0))
#define FROM_UINT_BF16(x) tp_f32_to_bf16(integer_to_f32_odd(x, false))
#define FROM_FLOAT_BF16(x) tp_f64_to_bf16(x)
#define FROM_INT_F32(x) (float)(x)
#define FROM_UINT_F32(x) (float)(x)
#define FROM_FLOAT_F32(x) (float)(x)
#define FROM_INT_F64(x) (double)(x)
#define FROM_UINT_F64(x) (double)(x)
#define FROM_FLOAT_F64(x) (x)

/* By ENUM, not name: bool may be a macro. */
#define WRITE(KIND, ENUM, storage, member)                                                         \
    static void write_##KIND##_##ENUM(int64_t count, const wide *w, char *y, int64_t step)         \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++) {                                                      \
            storage element = (storage)(FROM_##KIND##_##ENUM(w[i].member));                        \
            memcpy(y + i * step, &element, sizeof element);                                        \
        }                                                                                          \
    }
#define DTYPE(ENUM, name, storage, compute, kind, bytes)                                           \
    WRITE(INT, ENUM, storage, i) WRITE(UINT, ENUM, storage, u) WRITE(FLOAT, ENUM, storage, f)
#include "tensorplay/dtypes.def"

typedef struct row_loops {
    wide_kind kind;
    void (*read)(int64_t, const char *, int64_t, wide *);
    void (*write[WIDE_KINDS])(int64_t, const wide *, char *, int64_t);
} row_loops;

#define WIDE_BOOL WIDE_UINT
static const row_loops loops[TP_DTYPE_COUNT] = {
#define DTYPE(ENUM, name, storage, compute, kind, bytes)                                           \
    {WIDE_##kind, read_##ENUM, {write_INT_##ENUM, write_UINT_##ENUM, write_FLOAT_##ENUM}},
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
    if (from == to) {
        copy_row(count, x, x_step, y, y_step, tp_dtype_size(from));
        return;
    }
    wide block[BLOCK];
    for (int64_t done = 0; done < count; done += BLOCK) {
        int64_t n = count - done < BLOCK ? count - done : BLOCK;
        loops[from].read(n, (const char *)x + done * x_step, x_step, block);
        loops[to].write[loops[from].kind](n, block, (char *)y + done * y_step, y_step);
    }
}

tp_value tp_value_load(tp_dtype dtype, const void *at)
{
    wide w;
    loops[dtype].read(1, at, 0, &w);
    if (loops[dtype].kind == WIDE_FLOAT) return (tp_value){.f = w.f};
    return (tp_value){.i = w.i};
}

void tp_value_store(tp_dtype dtype, void *at, tp_dtype from, tp_value value)
{
    wide w = {.i = value.i};
    if (loops[from].kind == WIDE_FLOAT) w.f = value.f;
    loops[dtype].write[loops[from].kind](1, &w, at, 0);
}
