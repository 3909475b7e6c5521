/* f16 and bf16 against float, one element at a time: exact one way, to nearest even the other. */
#ifndef TP_CPU_HALF_H
#define TP_CPU_HALF_H

#include "math.h"

static inline float half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000U) << 16, magnitude = h & 0x7FFFU;
    float finite = float_of(magnitude << 13) * 0x1p112F;
    uint32_t special = 0x7F800000U | magnitude << 13 | (magnitude > 0x7C00U ? 0x400000U : 0U);
    uint32_t bits = magnitude >= 0x7C00U ? special : bits_of(finite);
    return float_of(bits | sign);
}

static inline uint16_t float_to_half(float x)
{
    uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000U, magnitude = bits & 0x7FFFFFFFU;
    uint32_t rebased = magnitude - ((127U - 15U) << 23);
    uint32_t normal = (rebased + 0xFFFU + (rebased >> 13 & 1U)) >> 13;
    uint32_t subnormal = bits_of(float_of(magnitude) + 0.5F) - 0x3F000000U;
    uint32_t h = magnitude < 0x38800000U ? subnormal : normal;
    h = magnitude >= 0x47800000U ? 0x7C00U : h;
    h = magnitude > 0x7F800000U ? (0x7E00U | (magnitude >> 13 & 0x3FFU)) : h;
    return (uint16_t)(h | sign);
}

static inline float brain_to_float(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

/* The bf16 next to x, as a float. */
static inline float rounded_to_brain(float x)
{
    uint32_t bits = bits_of(x), nan = (bits & 0xFFFF0000U) | 0x400000U;
    uint32_t rounded = (bits + 0x7FFFU + (bits >> 16 & 1U)) & 0xFFFF0000U;
    return float_of((bits & 0x7FFFFFFFU) > 0x7F800000U ? nan : rounded);
}

static inline uint16_t float_to_brain(float x)
{
    return (uint16_t)(bits_of(rounded_to_brain(x)) >> 16);
}

#endif
