/* What every kernel text may use, as NVRTC reads it: it has no headers. In the fake of tests/cuda
 * the same names come from another file. The kernels are in the common subset of C11 and CUDA C++.
 */
#ifndef TP_FAKE
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define UINT64_C(x) x##ULL
#define INT64_MIN (-0x7FFFFFFFFFFFFFFFLL - 1)
#define INFINITY __int_as_float(0x7F800000)
#define NAN __int_as_float(0x7FC00000)
#define TP_UNROLL _Pragma("unroll")

#define TP_FN static __device__ __forceinline__
#define TP_KERNEL(name, Args) extern "C" __global__ void name(const __grid_constant__ Args arg)
/* Shared memory of a block, 16-byte aligned. */
#define TP_SHARED(type, name, count) __shared__ __align__(16) type name[count]
#define tp_thread_x ((int)threadIdx.x)
#define tp_block_x ((int64_t)blockIdx.x)
#define tp_block_dim ((int)blockDim.x)
#define tp_grid_dim ((int64_t)gridDim.x)
#define tp_sync() __syncthreads()
#define tp_syncwarp() __syncwarp()
#define tp_fence() __threadfence()
/* Whole warps only. */
#define tp_shfl_xor_u32(value, mask) __shfl_xor_sync(0xFFFFFFFFU, (uint32_t)(value), (int)(mask))
#define tp_shfl_up_u32(value, by) __shfl_up_sync(0xFFFFFFFFU, (uint32_t)(value), (unsigned)(by))
#define tp_shfl_u32(value, lane) __shfl_sync(0xFFFFFFFFU, (uint32_t)(value), (int)(lane))
#define tp_ballot(value) __ballot_sync(0xFFFFFFFFU, (value) != 0)
#define tp_atomic_min_u64(at, value) atomicMin((unsigned long long *)(at), (value))
#define tp_atomic_add_u32(at, value) atomicAdd((unsigned *)(at), (value))
#define tp_umulhi32(a, b) __umulhi((a), (b))

TP_FN float tp_f32_from_bits(uint32_t bits)
{
    return __uint_as_float(bits);
}
TP_FN uint32_t tp_bits_f32(float x)
{
    return __float_as_uint(x);
}
TP_FN double tp_f64_from_bits(uint64_t bits)
{
    return __longlong_as_double((long long)bits);
}
TP_FN uint64_t tp_bits_f64(double x)
{
    return (uint64_t)__double_as_longlong(x);
}

TP_FN float tp_f16_to_f32(uint16_t x)
{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}
TP_FN uint16_t tp_f32_to_f16(float x)
{
    uint16_t y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}
TP_FN float tp_bf16_to_f32(uint16_t x)
{
    return __uint_as_float((uint32_t)x << 16);
}
TP_FN uint16_t tp_f32_to_bf16(float x)
{
    uint16_t y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

/* Accesses of 16, 8 and 4 bytes at once, at addresses that they divide. */
typedef struct tp_vec16 {
    uint32_t w[4];
} tp_vec16;
typedef struct tp_vec8 {
    uint32_t w[2];
} tp_vec8;
typedef struct tp_vec4 {
    uint32_t w[1];
} tp_vec4;
TP_FN tp_vec16 tp_load_16(const void *at)
{
    tp_vec16 v;
    asm("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
        : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
        : "l"(__cvta_generic_to_global(at))
        : "memory");
    return v;
}
TP_FN tp_vec8 tp_load_8(const void *at)
{
    tp_vec8 v;
    asm("ld.global.v2.b32 {%0, %1}, [%2];"
        : "=r"(v.w[0]), "=r"(v.w[1])
        : "l"(__cvta_generic_to_global(at))
        : "memory");
    return v;
}
TP_FN tp_vec4 tp_load_4(const void *at)
{
    tp_vec4 v;
    v.w[0] = *(const uint32_t *)at;
    return v;
}
TP_FN void tp_store_16(void *at, tp_vec16 v)
{
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(at)),
                 "r"(v.w[0]), "r"(v.w[1]), "r"(v.w[2]), "r"(v.w[3])
                 : "memory");
}
TP_FN void tp_store_8(void *at, tp_vec8 v)
{
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(at)),
                 "r"(v.w[0]), "r"(v.w[1])
                 : "memory");
}
TP_FN void tp_store_4(void *at, tp_vec4 v)
{
    *(uint32_t *)at = v.w[0];
}

/* C += A B of 16 x 16 by 16 x 8 over a warp; the fragments are those of the PTX manual. */
TP_FN void tp_mma_16816_bf16(float *c, const uint32_t *a, const uint32_t *b)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
TP_FN void tp_mma_16816_f16(float *c, const uint32_t *a, const uint32_t *b)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

/* Element k of a vector as bits; putting one where 0 was. */
#define tp_get_1(v, k) ((uint8_t)((v).w[(k) / 4] >> (k) % 4 * 8))
#define tp_get_2(v, k) ((uint16_t)((v).w[(k) / 2] >> (k) % 2 * 16))
#define tp_get_4(v, k) ((v).w[k])
#define tp_get_8(v, k) ((uint64_t)(v).w[2 * (k) + 1] << 32 | (v).w[2 * (k)])
#define tp_put_1(v, k, type, x) (v).w[(k) / 4] |= (uint32_t)(uint8_t)(x) << (k) % 4 * 8
#define tp_put_2(v, k, type, x) (v).w[(k) / 2] |= (uint32_t)(uint16_t)(x) << (k) % 2 * 16
#define tp_put_4(v, k, type, x) (v).w[k] = tp_bits_of_##type(x)
#define tp_put_8(v, k, type, x)                                                                    \
    do {                                                                                           \
        uint64_t bits_ = tp_bits_of_##type(x);                                                     \
        (v).w[2 * (k)] = (uint32_t)bits_;                                                          \
        (v).w[2 * (k) + 1] = (uint32_t)(bits_ >> 32);                                              \
    } while (0)
#define tp_bits_of_float(x) tp_bits_f32(x)
#define tp_bits_of_double(x) tp_bits_f64(x)
#define tp_bits_of_uint32_t(x) ((uint32_t)(x))
#define tp_bits_of_int32_t(x) ((uint32_t)(x))
#define tp_bits_of_uint64_t(x) ((uint64_t)(x))
#define tp_bits_of_int64_t(x) ((uint64_t)(x))

/* ---- Common to both ---------------------------------------------------------------------------
 */

/* A double as a float that is exact or odd: rounding it once more is rounding the double once. */
TP_FN float tp_f64_to_f32_odd(double x)
{
    float y = (float)x;
    uint32_t bits = tp_bits_f32(y);
    if (!(x - x == 0) || (double)y == x) return y;
    if (((double)y > x) == (x > 0)) bits--; /* towards 0 */
    return tp_f32_from_bits(bits | 1);
}
TP_FN uint16_t tp_f64_to_f16(double x)
{
    return tp_f32_to_f16(tp_f64_to_f32_odd(x));
}
TP_FN uint16_t tp_f64_to_bf16(double x)
{
    return tp_f32_to_bf16(tp_f64_to_f32_odd(x));
}
/* |x| < 2^64 with a sign as a float that is exact or odd. */
TP_FN float tp_integer_to_f32_odd(uint64_t size, int negative)
{
    int shift = 0;
    float x;
    for (; size >> 24; shift++) size = size >> 1 | (size & 1);
    x = (float)size * tp_f32_from_bits((uint32_t)(127 + shift) << 23);
    return negative ? -x : x;
}
TP_FN float tp_i64_to_f32_odd(int64_t x)
{
    return tp_integer_to_f32_odd(x < 0 ? 0 - (uint64_t)x : (uint64_t)x, x < 0);
}
TP_FN float tp_u64_to_f32_odd(uint64_t x)
{
    return tp_integer_to_f32_odd(x, 0);
}
/* Floats to integers: NaN gives 0, what is outside the nearest end. */
#define TP_SATURATE(name, from, to, low, high, low_float, above)                                   \
    TP_FN to name(from x)                                                                          \
    {                                                                                              \
        if (x != x) return 0;                                                                      \
        if (x <= (from)low_float) return (to)(low);                                                \
        if (x >= (from)above) return (to)(high);                                                   \
        return (to)x;                                                                              \
    }
#define TP_SATURATE_FROM(tag, from)                                                                \
    TP_SATURATE(tp_##tag##_to_u8, from, uint8_t, 0, 255, 0, 256.0)                                 \
    TP_SATURATE(tp_##tag##_to_i8, from, int8_t, -128, 127, -128, 128.0)                            \
    TP_SATURATE(tp_##tag##_to_u16, from, uint16_t, 0, 65535, 0, 65536.0)                           \
    TP_SATURATE(tp_##tag##_to_i16, from, int16_t, -32768, 32767, -32768, 32768.0)                  \
    TP_SATURATE(tp_##tag##_to_u32, from, uint32_t, 0, 0xFFFFFFFFU, 0, 4294967296.0)                \
    TP_SATURATE(tp_##tag##_to_i32, from, int32_t, -2147483647 - 1, 2147483647, -2147483648.0,      \
                2147483648.0)                                                                      \
    TP_SATURATE(tp_##tag##_to_u64, from, uint64_t, 0, 0xFFFFFFFFFFFFFFFFULL, 0,                    \
                18446744073709551616.0)                                                            \
    TP_SATURATE(tp_##tag##_to_i64, from, int64_t, (int64_t)0x8000000000000000ULL,                  \
                0x7FFFFFFFFFFFFFFFLL, -9223372036854775808.0, 9223372036854775808.0)
TP_SATURATE_FROM(f32, float)
TP_SATURATE_FROM(f64, double)
