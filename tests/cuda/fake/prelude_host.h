/* What stands before a kernel text in the fake: the names of backends/cuda/prelude.h, in C. */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct tp_fake_runtime {
    int thread, block_threads;
    int64_t block, blocks;
    void (*sync)(int line);
    void (*warp)(int line, int kind, void *data);
    void *(*shared)(int line, size_t size_bytes);
} tp_fake_runtime;
tp_fake_runtime *tp_fake;

#define TP_FN static inline
#define TP_KERNEL(name, Args)                                                                      \
    const size_t name##_args_bytes = sizeof(Args);                                                 \
    void name(const Args *tp_arg)
#define arg (*tp_arg)
#define TP_SHARED(type, name, count) type *name = tp_fake->shared(__LINE__, sizeof(type) * (count))
#define tp_thread_x (tp_fake->thread)
#define tp_block_x (tp_fake->block)
#define tp_block_dim (tp_fake->block_threads)
#define tp_grid_dim (tp_fake->blocks)
#define tp_sync() tp_fake->sync(__LINE__)
#define tp_syncwarp() tp_fake->warp(__LINE__, 4, NULL)
#define tp_fence() ((void)0)

typedef struct tp_fake_shuffle {
    uint32_t value, by, result;
} tp_fake_shuffle;
static inline uint32_t tp_fake_warp(int line, int kind, uint32_t value, uint32_t by)
{
    tp_fake_shuffle s = {value, by, 0};
    tp_fake->warp(line, kind, &s);
    return s.result;
}
#define tp_shfl_xor_u32(value, mask) tp_fake_warp(__LINE__, 0, value, mask)
#define tp_shfl_up_u32(value, by) tp_fake_warp(__LINE__, 1, value, by)
#define tp_shfl_u32(value, lane) tp_fake_warp(__LINE__, 2, value, lane)
#define tp_ballot(value) tp_fake_warp(__LINE__, 3, (value) != 0, 0)

static inline float tp_f32_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
static inline uint32_t tp_bits_f32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}
static inline double tp_f64_from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, 8);
    return x;
}
static inline uint64_t tp_bits_f64(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, 8);
    return bits;
}

/* Halves by integers: no compiler of the fake has them all. */
static inline float tp_f16_to_f32(uint16_t x)
{
    uint32_t sign = (uint32_t)(x & 0x8000) << 16, e = x >> 10 & 31, m = x & 1023;
    if (e == 31) return tp_f32_from_bits(sign | 0x7F800000 | m << 13 | (m ? 0x400000 : 0));
    if (e) return tp_f32_from_bits(sign | (e + 112) << 23 | m << 13);
    return tp_f32_from_bits(sign | tp_bits_f32((float)m * 5.9604645e-8F));
}
static inline uint16_t tp_f32_to_f16(float x)
{
    uint32_t bits = tp_bits_f32(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7FFFFFFF;
    if (rest > 0x7F800000) return (uint16_t)(sign | 0x7E00);
    if (rest >= 0x477FF000) return (uint16_t)(sign | 0x7C00); /* 65520 and above */
    if (rest < 0x38800000) { /* below 2^-14: adding 1/2 leaves multiples of 2^-24 */
        return (uint16_t)(sign | (tp_bits_f32(tp_f32_from_bits(rest) + 0.5F) - 0x3F000000));
    }
    rest += 0xFFF + (rest >> 13 & 1);
    return (uint16_t)(sign | (rest - 0x38000000) >> 13);
}
static inline float tp_bf16_to_f32(uint16_t x)
{
    return tp_f32_from_bits((uint32_t)x << 16);
}
static inline uint16_t tp_f32_to_bf16(float x)
{
    uint32_t bits = tp_bits_f32(x);
    if (x != x) return 0x7FFF;
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static inline uint32_t tp_umulhi32(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}
/* One block after the other, one thread at a time: plain accesses are atomic. */
static inline uint64_t tp_atomic_min_u64(uint64_t *at, uint64_t value)
{
    uint64_t old = *at;
    if (value < old) *at = value;
    return old;
}
static inline uint32_t tp_atomic_add_u32(uint32_t *at, uint32_t value)
{
    uint32_t old = *at;
    *at += value;
    return old;
}

#define TP_UNROLL
typedef struct tp_vec16 {
    uint32_t w[4];
} tp_vec16;
typedef struct tp_vec8 {
    uint32_t w[2];
} tp_vec8;
typedef struct tp_vec4 {
    uint32_t w[1];
} tp_vec4;
/* A misaligned vector is an address error on the device. */
static inline const void *tp_aligned(const void *at, unsigned bytes)
{
    return (uintptr_t)at % bytes ? (const void *)16 : at;
}
#define TP_VECTOR(bytes)                                                                           \
    static inline tp_vec##bytes tp_load_##bytes(const void *at)                                    \
    {                                                                                              \
        tp_vec##bytes v;                                                                           \
        memcpy(&v, tp_aligned(at, bytes), bytes);                                                  \
        return v;                                                                                  \
    }                                                                                              \
    static inline void tp_store_##bytes(void *at, tp_vec##bytes v)                                 \
    {                                                                                              \
        memcpy((void *)tp_aligned(at, bytes), &v, bytes);                                          \
    }
TP_VECTOR(16)
TP_VECTOR(8)
TP_VECTOR(4)

typedef struct tp_fake_mma {
    float *c;
    const uint32_t *a, *b;
    int bf16;
} tp_fake_mma;
static inline void tp_fake_multiply(int line, float *c, const uint32_t *a, const uint32_t *b,
                                    int bf16)
{
    tp_fake_mma m = {c, a, b, bf16};
    tp_fake->warp(line, 5, &m);
}
#define tp_mma_16816_bf16(c, a, b) tp_fake_multiply(__LINE__, c, a, b, 1)
#define tp_mma_16816_f16(c, a, b) tp_fake_multiply(__LINE__, c, a, b, 0)
