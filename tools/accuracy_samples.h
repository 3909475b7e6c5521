/* Float formats bit by bit, errors in units of the last place, and the numbers at which accuracy is
 * measured. Nothing here comes from the engine but the names of types. */
#ifndef TP_ACCURACY_SAMPLES_H
#define TP_ACCURACY_SAMPLES_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "tensorplay/tensorplay.h"

/* ---- Formats -------------------------------------------------------------------------------- */

typedef struct format {
    tp_dtype dtype;
    int bits, digits, lowest, highest; /* digits with the hidden one; exponents of normal numbers */
} format;
static const format formats[] = {{TP_F16, 16, 11, -14, 15},
                                 {TP_BF16, 16, 8, -126, 127},
                                 {TP_F32, 32, 24, -126, 127},
                                 {TP_F64, 64, 53, -1022, 1023}};
#define FORMATS ((int)(sizeof formats / sizeof *formats))

static inline uint64_t pattern_at(const format *f, const void *data, int64_t i)
{
    size_t size = (size_t)f->bits / 8;
    const char *at = (const char *)data + (size_t)i * size;
    uint16_t half = 0;
    uint32_t single = 0;
    uint64_t wide = 0;
    if (size == 2) return memcpy(&half, at, size), half;
    if (size == 4) return memcpy(&single, at, size), single;
    return memcpy(&wide, at, size), wide;
}

static inline void pattern_put(const format *f, void *data, int64_t i, uint64_t pattern)
{
    size_t size = (size_t)f->bits / 8;
    char *at = (char *)data + (size_t)i * size;
    uint16_t half = (uint16_t)pattern;
    uint32_t single = (uint32_t)pattern;
    memcpy(at, size == 2 ? (void *)&half : size == 4 ? (void *)&single : (void *)&pattern, size);
}

static inline double value_of(const format *f, uint64_t pattern)
{
    int low = f->digits - 1;
    uint64_t fraction = pattern & ((UINT64_C(1) << low) - 1);
    int top = (int)(pattern >> low & ((UINT64_C(1) << (f->bits - f->digits)) - 1));
    int exponent = top ? top - f->highest : f->lowest;
    double size = ldexp((double)(fraction + (top ? UINT64_C(1) << low : 0)), exponent - low);
    if (top == 2 * f->highest + 1) size = fraction ? (double)NAN : (double)INFINITY;
    return pattern >> (f->bits - 1) ? -size : size;
}

/* The pattern next below the size of x: places to look around. */
static inline uint64_t pattern_near(const format *f, double x)
{
    uint64_t sign = signbit(x) ? UINT64_C(1) << (f->bits - 1) : 0, fraction;
    int exponent = x == 0 ? f->lowest : ilogb(x), low = f->digits - 1;
    if (exponent > f->highest) return sign | (uint64_t)(2 * f->highest + 1) << low;
    if (exponent < f->lowest) exponent = f->lowest;
    fraction = (uint64_t)ldexp(fabs(x), low - exponent);
    /* The hidden digit, where there is one, adds 1 to an exponent field of one less. */
    return sign | (((uint64_t)(exponent - f->lowest) << low) + fraction);
}

/* |got - exact| in units of the last place that the format has at exact. Infinity counts as the
 * power of two that comes after the largest number; a zero of the wrong sign as infinitely far. */
static inline double ulps_off(const format *f, double got, long double exact)
{
    if (isnan(got) || isnan(exact)) return isnan(got) && isnan(exact) ? 0 : (double)INFINITY;
    if (got == 0 && !signbit(got) != !signbit(exact)) return INFINITY;
    long double beyond = ldexpl(1, f->highest + 1), y = isinf(got) ? copysignl(beyond, got) : got;
    if (fabsl(exact) > beyond) exact = copysignl(beyond, exact);
    int exponent = exact == 0 ? f->lowest : ilogbl(exact);
    if (exponent < f->lowest) exponent = f->lowest;
    if (exponent > f->highest) exponent = f->highest;
    return (double)(fabsl(y - exact) / ldexpl(1, exponent - f->digits + 1));
}

/* ---- Samples -------------------------------------------------------------------------------- */

static inline uint64_t random_bits(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* A number between 2^-span and 2^span, of either sign. */
static inline uint64_t pattern_between(const format *f, int span, uint64_t *state)
{
    uint64_t bits = random_bits(state), low = (uint64_t)f->digits - 1;
    uint64_t exponent = (uint64_t)(f->highest - span) + bits % (uint64_t)(2 * span);
    return (random_bits(state) & ((UINT64_C(1) << low) - 1)) | exponent << low |
           (bits >> 63) << (f->bits - 1);
}

/* Where functions begin, end, vanish, overflow or cross zero. */
static const double hard_places[] = {
    0,        0.25,      0.3465736, 0.5,      0.625,   0.6931472, 1,        1.4142135, 2,
    2.718282, 4,         5.5,       8,        9.2,     10.06,     12.9,     14.7,      16.635532,
    17.33,    20,        24,        26.54,    36.04,   37.5,      38.57,    44.36,     87.33655,
    88.72284, 103.27893, 103.97208, 104,      110,     126,       127,      128,       149,
    150,      708.39642, 709.78271, 745.1332, 800,     1022,      1023,     1024,      1074,
    1075,     2048,      8192,      65504,    65520,   8388608,   16777216, 1e22,      4.5e15,
    9e15,     1.8e19,    3.4e38,    1.2e-38,  1.4e-45, 6e-8,      6.1e-5,   2.2e-308,  5e-324,
    1.3e154,  1.797e308};
#define HARD_PLACES ((int64_t)(sizeof hard_places / sizeof *hard_places))
#define AROUND 32
#define QUARTER_TURNS 200

/* Pattern i of the neighbourhoods of hard places and multiples of pi/2; false: no more. */
static inline bool hard_pattern(const format *f, int64_t i, uint64_t *pattern)
{
    int64_t place = i / (4 * AROUND), rest = i % (4 * AROUND);
    if (place >= HARD_PLACES + QUARTER_TURNS) return false;
    int64_t turn = place - HARD_PLACES + 1;
    /* Small multiples, then ever larger ones. */
    double x = turn > 0 ? (turn < 100 ? (double)turn : ldexp((double)turn, (int)(turn - 100) / 2)) *
                              1.57079632679489661923
                        : hard_places[place];
    *pattern = pattern_near(f, rest % 2 ? -x : x) + (uint64_t)(rest / 2) - AROUND;
    return true;
}

/* Pattern i of a sample of one operand; false: no more. All of 16 bits; every step-th of 32; of 64
 * bits a random choice, half of it near 1. Then the hard places. */
static inline bool unary_pattern(const format *f, bool quick, int64_t i, uint64_t *state,
                                 uint64_t *pattern)
{
    int64_t step = f->bits == 16 ? (quick ? 4 : 1) : quick ? 1023 * 64 : 1023;
    int64_t count =
        f->bits == 64 ? (quick ? 1 << 14 : 1 << 20) : ((INT64_C(1) << f->bits) + step - 1) / step;
    if (i >= count) return f->bits > 16 && hard_pattern(f, i - count, pattern);
    *pattern = (uint64_t)(i * step);
    if (f->bits == 64) *pattern = i % 2 ? random_bits(state) : pattern_between(f, 12, state);
    return true;
}

/* Two patterns: anything, near 1, one of them special, near each other. */
static inline bool binary_patterns(const format *f, bool quick, int64_t i, uint64_t *state,
                                   uint64_t *a, uint64_t *b)
{
    static const double special[] = {0, 1, 0.5, 2, 3, 10, 1e10, INFINITY};
    if (i >= (quick ? 1 << 14 : 1 << 20)) return false;
    int span = f->highest < 20 ? 6 : 12;
    *a = i % 4 ? pattern_between(f, span, state) : random_bits(state) >> (64 - f->bits);
    *b = i % 4 ? pattern_between(f, span, state) : random_bits(state) >> (64 - f->bits);
    uint64_t choice = random_bits(state);
    uint64_t fixed = pattern_near(f, special[choice % 8]) | (choice >> 63) << (f->bits - 1);
    if (i % 4 == 2) *(choice >> 8 & 1 ? a : b) = fixed;
    if (i % 4 == 3) *b = *a + (choice >> 8) % 33 - 16;
    return true;
}

#endif
