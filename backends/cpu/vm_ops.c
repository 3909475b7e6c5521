/* The functions of the register interpreter, generated from ops.def. This file is compiled once per
 * instruction set with TP_ISA set, as loops.c is; every variant gives the same bits.
 *
 * A function calls the next one last, with its own arguments: compilers make a jump of that, and
 * the vectors never leave the registers. Without optimisation it stays a call, as deep as the
 * program is long. Ops that are more than a few instructions go through a buffer, one element after
 * the other; the compiler makes vectors of the loop where it can. */
#include "half.h"
#include "math.h"
#include "vm.h"

#if defined(__F16C__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#if defined(__OPTIMIZE__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#define BLOCK_BYTES (8 * VECTOR_BYTES)

/* From this cost on an op goes element by element. */
#define ONE_BY_ONE 8

/* Lanes of any type travel as vectors of float. */
typedef float vector __attribute__((vector_size(VECTOR_BYTES)));

#define REGISTERS                                                                                  \
    vector x0, vector x1, vector x2, vector x3, vector x4, vector x5, vector x6, vector x7
typedef int (*link)(REGISTERS, const tp_vm_insn *ip, int64_t at);

#if defined(__clang__) && defined(__has_attribute)
#if __has_attribute(musttail) && (defined(__x86_64__) || defined(__aarch64__))
#define LAST __attribute__((musttail)) return
#endif
#endif
#ifndef LAST
#define LAST return
#endif
#define NEXT LAST((link)ip[1].fn)(x0, x1, x2, x3, x4, x5, x6, x7, ip + 1, at)
#define CHAIN(name) static int name(REGISTERS, const tp_vm_insn *ip, int64_t at)
#define EACH_VECTOR(M, ...)                                                                        \
    M(0, __VA_ARGS__)                                                                              \
    M(1, __VA_ARGS__)                                                                              \
    M(2, __VA_ARGS__)                                                                              \
    M(3, __VA_ARGS__)                                                                              \
    M(4, __VA_ARGS__)                                                                              \
    M(5, __VA_ARGS__)                                                                              \
    M(6, __VA_ARGS__)                                                                              \
    M(7, __VA_ARGS__)

INLINE vector vector_at(const char *p, int k)
{
    vector x;
    memcpy(&x, p + k * VECTOR_BYTES, sizeof x);
    return x;
}

INLINE void put_vector(char *p, int k, vector x)
{
    memcpy(p + k * VECTOR_BYTES, &x, sizeof x);
}

/* One vector: the loop over its lanes becomes a few instructions. A: type of operand a, T: of the
 * others, R: of the result, all of one size. */
#define LANES(id, A, T, R, expression)                                                             \
    INLINE vector lanes_##id(vector va, vector vb, vector vc)                                      \
    {                                                                                              \
        enum { WIDTH = VECTOR_BYTES / sizeof(T) };                                                 \
        A xa[WIDTH];                                                                               \
        T xb[WIDTH], xc[WIDTH];                                                                    \
        R y[WIDTH];                                                                                \
        vector vy;                                                                                 \
        memcpy(xa, &va, sizeof xa);                                                                \
        memcpy(xb, &vb, sizeof xb);                                                                \
        memcpy(xc, &vc, sizeof xc);                                                                \
        for (int i = 0; i < WIDTH; i++) {                                                          \
            A a = xa[i];                                                                           \
            T b = xb[i], c = xc[i];                                                                \
            (void)a, (void)b, (void)c;                                                             \
            y[i] = (R)(expression);                                                                \
        }                                                                                          \
        memcpy(&vy, y, sizeof vy);                                                                 \
        return vy;                                                                                 \
    }
/* n elements; y may be exactly one of the operands. */
#define ROW(id, A, T, R, expression)                                                               \
    INLINE void row_##id(int64_t n, const char *pa, const char *pb, const char *pc, char *py)      \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            A a;                                                                                   \
            T b, c;                                                                                \
            memcpy(&a, pa + i * (int64_t)sizeof a, sizeof a);                                      \
            memcpy(&b, pb + i * (int64_t)sizeof b, sizeof b);                                      \
            memcpy(&c, pc + i * (int64_t)sizeof c, sizeof c);                                      \
            (void)a, (void)b, (void)c;                                                             \
            R y = (R)(expression);                                                                 \
            memcpy(py + i * (int64_t)sizeof y, &y, sizeof y);                                      \
        }                                                                                          \
    }

/* Where an operand is: X in registers, P and Q in memory; S is one vector for all. */
#define VECTOR_X(k) x##k
#define VECTOR_P(k) vector_at(p, k)
#define VECTOR_Q(k) vector_at(q, k)
#define VECTOR_S(k) s
#define ROW_X x
#define ROW_P p
#define ROW_Q q
#define CHANGE(k, id, A, B, C) x##k = lanes_##id(VECTOR_##A(k), VECTOR_##B(k), VECTOR_##C(k));
#define PUT(k, to) put_vector(to, k, x##k);
#define GET(k, from) x##k = vector_at(from, k);

#define OP(id, in, cost, A, B, C)                                                                  \
    CHAIN(op_##id##_##in)                                                                          \
    {                                                                                              \
        const char *p = ip->p + (at & ip->walk_p), *q = ip->q + (at & ip->walk_q);                 \
        (void)p, (void)q;                                                                          \
        if ((cost) < ONE_BY_ONE) {                                                                 \
            EACH_VECTOR(CHANGE, id, A, B, C)                                                       \
        } else {                                                                                   \
            _Alignas(VECTOR_BYTES) char x[BLOCK_BYTES];                                            \
            EACH_VECTOR(PUT, x)                                                                    \
            row_##id(ip->n, ROW_##A, ROW_##B, ROW_##C, x);                                         \
            EACH_VECTOR(GET, x)                                                                    \
        }                                                                                          \
        NEXT;                                                                                      \
    }
/* The same for a tile of one value, which is read once. */
#define SPLAT(id, in, cost, A, B, C)                                                               \
    CHAIN(splat_##id##_##in)                                                                       \
    {                                                                                              \
        vector s = vector_at(ip->p, 0);                                                            \
        if ((cost) < ONE_BY_ONE) {                                                                 \
            EACH_VECTOR(CHANGE, id, A, B, C)                                                       \
        }                                                                                          \
        NEXT;                                                                                      \
    }
#define ONE(id, cost, T, R, expression)                                                            \
    LANES(id, T, T, R, expression)                                                                 \
    ROW(id, T, T, R, expression)                                                                   \
    OP(id, 0, cost, X, X, X)
#define TWO(id, cost, T, R, expression)                                                            \
    LANES(id, T, T, R, expression)                                                                 \
    ROW(id, T, T, R, expression)                                                                   \
    OP(id, 0, cost, X, P, P)                                                                       \
    OP(id, 1, cost, P, X, X)                                                                       \
    SPLAT(id, 0, cost, X, S, S)                                                                    \
    SPLAT(id, 1, cost, S, X, X)
#define THREE(id, cost, T, R, expression)                                                          \
    LANES(id, T, T, R, expression)                                                                 \
    ROW(id, T, T, R, expression)                                                                   \
    OP(id, 0, cost, X, P, Q)                                                                       \
    OP(id, 1, cost, P, X, Q)                                                                       \
    OP(id, 2, cost, P, Q, X)

/* ---- The ops ------------------------------------------------------------------------------- */

/* The lanes of each family, and the truth values beside them. */
#define FLOAT_LANES(M, ...)                                                                        \
    M(F32, f32, float, int32_t, __VA_ARGS__)                                                       \
    M(F64, f64, double, int64_t, __VA_ARGS__)
#define INT_LANES(M, ...)                                                                          \
    M(I32, i32, int32_t, int32_t, __VA_ARGS__)                                                     \
    M(I64, i64, int64_t, int64_t, __VA_ARGS__)
#define BOOL_LANES(M, ...) INT_LANES(M, __VA_ARGS__)
#define NUM_LANES(M, ...)                                                                          \
    FLOAT_LANES(M, __VA_ARGS__)                                                                    \
    INT_LANES(M, __VA_ARGS__)

#define UNARY_OP(L, dt, T, TRUTH, name, cost, expression) ONE(name##_##dt, cost, T, T, expression)
#define TEST_OP(L, dt, T, TRUTH, name, cost, expression)                                           \
    ONE(name##_##dt, cost, T, TRUTH, expression)
#define BINARY_OP(L, dt, T, TRUTH, name, cost, expression) TWO(name##_##dt, cost, T, T, expression)
#define COMPARE_OP(L, dt, T, TRUTH, name, cost, expression)                                        \
    TWO(name##_##dt, cost, T, TRUTH, expression)
#define TERNARY_OP(L, dt, T, TRUTH, name, cost, expression)                                        \
    THREE(name##_##dt, cost, T, T, expression)
#define UNARY(ENUM, name, FAMILY, rule, cost, expression, meaning)                                 \
    FAMILY##_LANES(UNARY_OP, name, cost, expression)
#define TEST(ENUM, name, FAMILY, rule, cost, expression, meaning)                                  \
    FAMILY##_LANES(TEST_OP, name, cost, expression)
#define BINARY(ENUM, name, FAMILY, rule, cost, expression, meaning)                                \
    FAMILY##_LANES(BINARY_OP, name, cost, expression)
#define COMPARE(ENUM, name, FAMILY, rule, cost, expression, meaning)                               \
    FAMILY##_LANES(COMPARE_OP, name, cost, expression)
#define TERNARY(ENUM, name, FAMILY, rule, cost, expression, meaning)                               \
    INT_LANES(TERNARY_OP, name, cost, expression)
#include "../../graph/ops.def"

/* ---- Pairs ----------------------------------------------------------------------------------- */

/* Going from function to function costs as much as the cheapest ops themselves: what comes in a row
 * most often is one function, over p, then q. Each op is rounded all the same. */
#define CALL_load(x, y) (y)
#define CALL_add_0(x, y) lanes_add_f32(x, y, y)
#define CALL_add_1(x, y) lanes_add_f32(y, x, x)
#define CALL_sub_0(x, y) lanes_sub_f32(x, y, y)
#define CALL_sub_1(x, y) lanes_sub_f32(y, x, x)
#define CALL_mul_0(x, y) lanes_mul_f32(x, y, y)
#define CALL_mul_1(x, y) lanes_mul_f32(y, x, x)
#define CHANGE_TWICE(k, first, second)                                                             \
    x##k = CALL_##second(CALL_##first(x##k, vector_at(p, k)), vector_at(q, k));
#define PAIR(first, second)                                                                        \
    CHAIN(pair_##first##_##second)                                                                 \
    {                                                                                              \
        const char *p = ip->p + (at & ip->walk_p), *q = ip->q + (at & ip->walk_q);                 \
        EACH_VECTOR(CHANGE_TWICE, first, second)                                                   \
        NEXT;                                                                                      \
    }
#define SECONDS(M, first)                                                                          \
    M(first, add_0)                                                                                \
    M(first, add_1)                                                                                \
    M(first, sub_0)                                                                                \
    M(first, sub_1)                                                                                \
    M(first, mul_0)                                                                                \
    M(first, mul_1)
#define FIRSTS(M)                                                                                  \
    SECONDS(M, load)                                                                               \
    SECONDS(M, add_0)                                                                              \
    SECONDS(M, add_1)                                                                              \
    SECONDS(M, sub_0)                                                                              \
    SECONDS(M, sub_1)                                                                              \
    SECONDS(M, mul_0)                                                                              \
    SECONDS(M, mul_1)
FIRSTS(PAIR)

/* ---- Conversions between lanes --------------------------------------------------------------- */

ONE(cast_i32_f32, 1, int32_t, float, (float)a)
ONE(cast_i64_f64, 1, int64_t, double, (double)a)
#define TRUTH_OP(L, dt, T, TRUTH, unused) ONE(truth_##dt, 1, T, TRUTH, a != 0)
NUM_LANES(TRUTH_OP, unused)
/* Floats to integers truncate and saturate, NaN gives 0; the ends are those of the type, as the
 * lanes' type holds them. */
#define SATURATE(id, F, I, low, low_end, high, high_end)                                           \
    ONE(saturate_##id, 1, F, I,                                                                    \
        a != a        ? 0                                                                          \
        : a >= (high) ? (high_end)                                                                 \
        : a <= (low)  ? (low_end)                                                                  \
                      : (I)a)
SATURATE(u8, float, int32_t, 0, 0, UINT8_MAX, UINT8_MAX)
SATURATE(i8, float, int32_t, INT8_MIN, INT8_MIN, INT8_MAX, INT8_MAX)
SATURATE(u16, float, int32_t, 0, 0, UINT16_MAX, UINT16_MAX)
SATURATE(i16, float, int32_t, INT16_MIN, INT16_MIN, INT16_MAX, INT16_MAX)
SATURATE(i32, float, int32_t, -0x1p31F, INT32_MIN, 0x1p31F, INT32_MAX)
SATURATE(i64, double, int64_t, -0x1p63, INT64_MIN, 0x1p63, INT64_MAX)
ONE(wrap_u8, 1, int32_t, int32_t, (uint8_t)a)
ONE(wrap_i8, 1, int32_t, int32_t, (int8_t)a)
ONE(wrap_u16, 1, int32_t, int32_t, (uint16_t)a)
ONE(wrap_i16, 1, int32_t, int32_t, (int16_t)a)

#if defined(__AVX512F__)
#define AS_HALF(x) _mm512_cvtps_ph((__m512)(x), 0)
#define ROUND_F16(k, unused) x##k = (vector)_mm512_cvtph_ps(AS_HALF(x##k));
#elif defined(__F16C__)
#define AS_HALF(x) _mm256_cvtps_ph((__m256)(x), 0)
#define ROUND_F16(k, unused) x##k = (vector)_mm256_cvtph_ps(AS_HALF(x##k));
#endif
#ifdef ROUND_F16
CHAIN(op_round_f16_0)
{
    EACH_VECTOR(ROUND_F16, )
    NEXT;
}
#else
ONE(round_f16, ONE_BY_ONE, float, float, half_to_float(float_to_half(a)))
#endif
ONE(round_bf16, 1, float, float, rounded_to_brain(a))

/* ---- Loads and stores --------------------------------------------------------------------------
 */

/* A vector of integers from narrower ones, and back. */
#define WIDEN(id, F, T)                                                                            \
    INLINE vector widen_##id(const char *p)                                                        \
    {                                                                                              \
        enum { WIDTH = VECTOR_BYTES / sizeof(T) };                                                 \
        F x[WIDTH];                                                                                \
        T y[WIDTH];                                                                                \
        vector vy;                                                                                 \
        memcpy(x, p, sizeof x);                                                                    \
        for (int i = 0; i < WIDTH; i++) y[i] = x[i];                                               \
        memcpy(&vy, y, sizeof vy);                                                                 \
        return vy;                                                                                 \
    }
#define NARROW(id, T, F)                                                                           \
    INLINE void narrow_##id(char *p, vector vx)                                                    \
    {                                                                                              \
        enum { WIDTH = VECTOR_BYTES / sizeof(T) };                                                 \
        T x[WIDTH];                                                                                \
        F y[WIDTH];                                                                                \
        memcpy(x, &vx, sizeof x);                                                                  \
        for (int i = 0; i < WIDTH; i++) y[i] = (F)x[i];                                            \
        memcpy(p, y, sizeof y);                                                                    \
    }
/* The same by one instruction, which the compiler does not find. */
#define WIDEN_BY(id, read, widen)                                                                  \
    INLINE vector widen_##id(const char *p)                                                        \
    {                                                                                              \
        return (vector)widen(read((const void *)p));                                               \
    }
#define NARROW_BY(id, write, narrow, type)                                                         \
    INLINE void narrow_##id(char *p, vector x)                                                     \
    {                                                                                              \
        write((void *)p, narrow((type)x));                                                         \
    }
#if defined(__AVX512F__)
WIDEN_BY(u8, _mm_loadu_si128, _mm512_cvtepu8_epi32)
WIDEN_BY(i8, _mm_loadu_si128, _mm512_cvtepi8_epi32)
WIDEN_BY(u16, _mm256_loadu_si256, _mm512_cvtepu16_epi32)
WIDEN_BY(i16, _mm256_loadu_si256, _mm512_cvtepi16_epi32)
WIDEN_BY(f16, _mm256_loadu_si256, _mm512_cvtph_ps)
WIDEN_BY(u8_i64, _mm_loadl_epi64, _mm512_cvtepu8_epi64)
NARROW_BY(u8, _mm_storeu_si128, _mm512_cvtepi32_epi8, __m512i)
NARROW_BY(u16, _mm256_storeu_si256, _mm512_cvtepi32_epi16, __m512i)
NARROW_BY(f16, _mm256_storeu_si256, AS_HALF, vector)
NARROW_BY(u8_i64, _mm_storel_epi64, _mm512_cvtepi64_epi8, __m512i)
#else
#if defined(__AVX2__)
WIDEN_BY(u8, _mm_loadl_epi64, _mm256_cvtepu8_epi32)
WIDEN_BY(i8, _mm_loadl_epi64, _mm256_cvtepi8_epi32)
WIDEN_BY(u16, _mm_loadu_si128, _mm256_cvtepu16_epi32)
WIDEN_BY(i16, _mm_loadu_si128, _mm256_cvtepi16_epi32)
#else
WIDEN(u8, uint8_t, int32_t)
WIDEN(i8, int8_t, int32_t)
WIDEN(u16, uint16_t, int32_t)
WIDEN(i16, int16_t, int32_t)
#endif
#if defined(__F16C__)
WIDEN_BY(f16, _mm_loadu_si128, _mm256_cvtph_ps)
NARROW_BY(f16, _mm_storeu_si128, AS_HALF, vector)
#else
INLINE vector widen_f16(const char *p)
{
    float y[VECTOR_BYTES / 4];
    vector vy;
    for (int i = 0; i < VECTOR_BYTES / 4; i++) {
        uint16_t h;
        memcpy(&h, p + 2 * i, sizeof h);
        y[i] = half_to_float(h);
    }
    memcpy(&vy, y, sizeof vy);
    return vy;
}
INLINE void narrow_f16(char *p, vector vx)
{
    float x[VECTOR_BYTES / 4];
    memcpy(x, &vx, sizeof x);
    for (int i = 0; i < VECTOR_BYTES / 4; i++) {
        uint16_t h = float_to_half(x[i]);
        memcpy(p + 2 * i, &h, sizeof h);
    }
}
#endif
WIDEN(u8_i64, uint8_t, int64_t)
NARROW(u8, int32_t, uint8_t)
NARROW(u16, int32_t, uint16_t)
NARROW(u8_i64, int64_t, uint8_t)
#endif

LANES(upper_half, uint32_t, uint32_t, uint32_t, a << 16)
INLINE vector widen_bf16(const char *p)
{
    vector x = widen_u16(p);
    return lanes_upper_half(x, x, x);
}
LANES(brain_bits, float, float, uint32_t, bits_of(rounded_to_brain(a)) >> 16)
INLINE void narrow_bf16(char *p, vector x)
{
    narrow_u16(p, lanes_brain_bits(x, x, x));
}
/* Any byte but 0 is true. */
INLINE vector widen_truth(const char *p)
{
    vector x = widen_u8(p);
    return lanes_truth_i32(x, x, x);
}
INLINE vector widen_truth_i64(const char *p)
{
    vector x = widen_u8_i64(p);
    return lanes_truth_i64(x, x, x);
}
INLINE vector widen_lanes(const char *p)
{
    return vector_at(p, 0);
}
INLINE void narrow_lanes(char *p, vector x)
{
    put_vector(p, 0, x);
}

/* shift: log2 of how much narrower than a lane an element is. */
#define WIDEN_VECTOR(k, id, shift) x##k = widen_##id(p + (k) * (VECTOR_BYTES >> (shift)));
#define NARROW_VECTOR(k, id, shift) narrow_##id(p + (k) * (VECTOR_BYTES >> (shift)), x##k);
#define WIDEN_INTO(k, id, shift) put_vector(q, k, widen_##id(p + (k) * (VECTOR_BYTES >> (shift))));
/* Into registers, and into the tile q beside them. */
#define LOAD(id, shift)                                                                            \
    CHAIN(load_##id)                                                                               \
    {                                                                                              \
        const char *p = ip->p + ((at & ip->walk_p) >> (shift));                                    \
        EACH_VECTOR(WIDEN_VECTOR, id, shift)                                                       \
        NEXT;                                                                                      \
    }                                                                                              \
    CHAIN(unpack_##id)                                                                             \
    {                                                                                              \
        const char *p = ip->p + ((at & ip->walk_p) >> (shift));                                    \
        char *q = ip->q;                                                                           \
        EACH_VECTOR(WIDEN_INTO, id, shift)                                                         \
        NEXT;                                                                                      \
    }
LOAD(lanes, 0)
LOAD(f16, 1)
LOAD(bf16, 1)
LOAD(u16, 1)
LOAD(i16, 1)
LOAD(u8, 2)
LOAD(i8, 2)
LOAD(truth, 2)
LOAD(truth_i64, 3)

/* Into a tile, between two ops. */
CHAIN(keep)
{
    EACH_VECTOR(PUT, ip->p)
    NEXT;
}

/* Into the result: the end of a chain. */
#define STORE(id, shift)                                                                           \
    CHAIN(store_##id)                                                                              \
    {                                                                                              \
        char *p = ip->p + (at >> (shift));                                                         \
        EACH_VECTOR(NARROW_VECTOR, id, shift)                                                      \
        return 0;                                                                                  \
    }
STORE(lanes, 0)
STORE(f16, 1)
STORE(bf16, 1)
STORE(u16, 1)
STORE(u8, 2)
STORE(u8_i64, 3)

#if defined(__AVX512F__)
#define STREAM(k, p) _mm512_stream_ps((void *)((p) + (k)*VECTOR_BYTES), (__m512)x##k);
#elif defined(__AVX2__)
#define STREAM(k, p) _mm256_stream_ps((void *)((p) + (k)*VECTOR_BYTES), (__m256)x##k);
#elif defined(__SSE2__)
#define STREAM(k, p) _mm_stream_ps((void *)((p) + (k)*VECTOR_BYTES), (__m128)x##k);
#endif
#ifdef STREAM
CHAIN(stream)
{
    EACH_VECTOR(STREAM, ip->p + at)
    return 0;
}
static void fence(void)
{
    _mm_sfence();
}
#define STREAM_FN (tp_vm_fn) stream
#define FENCE_FN fence
#else
#define STREAM_FN NULL
#define FENCE_FN NULL
#endif

#define REPEAT(T)                                                                                  \
    {                                                                                              \
        T x;                                                                                       \
        memcpy(&x, from, sizeof x);                                                                \
        for (int64_t i = 0; i < BLOCK_BYTES / (sizeof x > 4 ? 8 : 4); i++)                         \
            memcpy(tile + i * (int64_t)sizeof x, &x, sizeof x);                                    \
        break;                                                                                     \
    }
/* As many elements as a block can have. */
static void repeat(int64_t size, const char *from, char *tile)
{
    switch (size) {
    case 1:
        REPEAT(uint8_t)
    case 2:
        REPEAT(uint16_t)
    case 4:
        REPEAT(uint32_t)
    default:
        REPEAT(uint64_t)
    }
}

static void run(const tp_vm_insn *chain, int64_t begin, int64_t end)
{
    vector x = {0}; /* the first function loads */
    for (int64_t at = begin; at < end; at += BLOCK_BYTES)
        ((link)chain->fn)(x, x, x, x, x, x, x, x, chain, at);
        /* Upper halves that stay dirty slow down SSE code, the C library's included, several times.
         */
#if defined(__AVX__)
    __builtin_ia32_vzeroupper();
#endif
}

/* ---- The table --------------------------------------------------------------------------------
 */

#define FN(name) (tp_vm_fn) name
#define ENTRY_1(L, dt, T, TRUTH, ENUM, name) [TP_OP_##ENUM][TP_VM_##L] = {FN(op_##name##_##dt##_0)},
#define ENTRY_2(L, dt, T, TRUTH, ENUM, name)                                                       \
    [TP_OP_##ENUM][TP_VM_##L] = {FN(op_##name##_##dt##_0), FN(op_##name##_##dt##_1)},
#define ENTRY_3(L, dt, T, TRUTH, ENUM, name)                                                       \
    [TP_OP_##ENUM][TP_VM_##L] = {FN(op_##name##_##dt##_0), FN(op_##name##_##dt##_1),               \
                                 FN(op_##name##_##dt##_2)},
#define SPLAT_ENTRY(L, dt, T, TRUTH, ENUM, name, cost)                                             \
    [TP_OP_##ENUM][TP_VM_##L] = {(cost) < ONE_BY_ONE ? FN(splat_##name##_##dt##_0) : NULL,         \
                                 (cost) < ONE_BY_ONE ? FN(splat_##name##_##dt##_1) : NULL},
#define TRUTH_ENTRY(L, dt, T, TRUTH, unused) [TP_VM_##L] = FN(op_truth_##dt##_0),

#define LOADS_4(way)                                                                               \
    [TP_F32] = FN(way##_lanes), [TP_I32] = FN(way##_lanes), [TP_F16] = FN(way##_f16),              \
    [TP_BF16] = FN(way##_bf16), [TP_U16] = FN(way##_u16), [TP_I16] = FN(way##_i16),                \
    [TP_U8] = FN(way##_u8), [TP_I8] = FN(way##_i8), [TP_BOOL] = FN(way##_truth)
#define LOADS_8(way)                                                                               \
    [TP_F64] = FN(way##_lanes), [TP_I64] = FN(way##_lanes), [TP_BOOL] = FN(way##_truth_i64)
#define FN_load FN(load_lanes)
#define FN_add_0 FN(op_add_f32_0)
#define FN_add_1 FN(op_add_f32_1)
#define FN_sub_0 FN(op_sub_f32_0)
#define FN_sub_1 FN(op_sub_f32_1)
#define FN_mul_0 FN(op_mul_f32_0)
#define FN_mul_1 FN(op_mul_f32_1)
#define PAIR_ENTRY(first, second) {FN_##first, FN_##second, FN(pair_##first##_##second)},

extern const tp_vm_ops PASTE(tp_vm_ops_, TP_ISA);
const tp_vm_ops PASTE(tp_vm_ops_, TP_ISA) = {
    .block_bytes = BLOCK_BYTES,
    .op =
        {
#define UNARY(ENUM, name, FAMILY, ...) FAMILY##_LANES(ENTRY_1, ENUM, name)
#define TEST UNARY
#define BINARY(ENUM, name, FAMILY, ...) FAMILY##_LANES(ENTRY_2, ENUM, name)
#define COMPARE BINARY
#define TERNARY(ENUM, name, FAMILY, ...) INT_LANES(ENTRY_3, ENUM, name)
#include "../../graph/ops.def"
        },
    .splat =
        {
#define BINARY(ENUM, name, FAMILY, rule, cost, ...) FAMILY##_LANES(SPLAT_ENTRY, ENUM, name, cost)
#define COMPARE BINARY
#include "../../graph/ops.def"
        },
    .load = {{LOADS_4(load)}, {LOADS_8(load)}},
    .unpack = {{LOADS_4(unpack)}, {LOADS_8(unpack)}},
    .store = {{[TP_F32] = FN(store_lanes),
               [TP_I32] = FN(store_lanes),
               [TP_F16] = FN(store_f16),
               [TP_BF16] = FN(store_bf16),
               [TP_U16] = FN(store_u16),
               [TP_I16] = FN(store_u16),
               [TP_U8] = FN(store_u8),
               [TP_I8] = FN(store_u8),
               [TP_BOOL] = FN(store_u8)},
              {[TP_F64] = FN(store_lanes),
               [TP_I64] = FN(store_lanes),
               [TP_BOOL] = FN(store_u8_i64),
               [TP_U8] = FN(store_u8_i64)}}, /* of truth values */
    .keep = FN(keep),
    .pair = {FIRSTS(PAIR_ENTRY)},
    .repeat = repeat,
    .stream = STREAM_FN,
    .fence = FENCE_FN,
    .round = {[TP_F16] = FN(op_round_f16_0), [TP_BF16] = FN(op_round_bf16_0)},
    .cast = {[TP_VM_I32] = {[TP_VM_F32] = FN(op_cast_i32_f32_0)},
             [TP_VM_I64] = {[TP_VM_F64] = FN(op_cast_i64_f64_0)}},
    .saturate = {[TP_U8] = FN(op_saturate_u8_0),
                 [TP_I8] = FN(op_saturate_i8_0),
                 [TP_U16] = FN(op_saturate_u16_0),
                 [TP_I16] = FN(op_saturate_i16_0),
                 [TP_I32] = FN(op_saturate_i32_0),
                 [TP_I64] = FN(op_saturate_i64_0)},
    .wrap = {[TP_U8] = FN(op_wrap_u8_0),
             [TP_I8] = FN(op_wrap_i8_0),
             [TP_U16] = FN(op_wrap_u16_0),
             [TP_I16] = FN(op_wrap_i16_0)},
    .truth = {NUM_LANES(TRUTH_ENTRY, unused)},
    .run = run,
};
