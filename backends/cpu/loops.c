/* The row loops, generated from ops.def and vectorised by the compiler. This file is compiled
 * once per instruction set with TP_ISA set; every variant gives the same bits. */
#include "loops.h"

#include "math.h"

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define STRING_(a) #a
#define STRING(a) STRING_(a)
/* y may be exactly an operand: iteration i reads and writes only element i. */
#if defined(__GNUC__) && !defined(__clang__)
#define EACH _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)
#else
#define EACH for (int64_t i = 0; i < n; i++)
#endif

/* The compute types of each family. */
#define FLOAT_TYPES(M, ...)                                                                        \
    M(F32, f32, float, __VA_ARGS__)                                                                \
    M(F64, f64, double, __VA_ARGS__)
#define BOOL_TYPES(M, ...) M(U8, u8, uint8_t, __VA_ARGS__)
#define INT_TYPES(M, ...)                                                                          \
    M(U8, u8, uint8_t, __VA_ARGS__)                                                                \
    M(I8, i8, int8_t, __VA_ARGS__)                                                                 \
    M(U16, u16, uint16_t, __VA_ARGS__)                                                             \
    M(I16, i16, int16_t, __VA_ARGS__)                                                              \
    M(U32, u32, uint32_t, __VA_ARGS__)                                                             \
    M(I32, i32, int32_t, __VA_ARGS__)                                                              \
    M(U64, u64, uint64_t, __VA_ARGS__)                                                             \
    M(I64, i64, int64_t, __VA_ARGS__)
#define NUM_TYPES(M, ...)                                                                          \
    FLOAT_TYPES(M, __VA_ARGS__)                                                                    \
    INT_TYPES(M, __VA_ARGS__)

/* ---- Elementwise ------------------------------------------------------------------ */

#define UNARY_LOOP(DT, dt, T, name, expression)                                                    \
    static void name##_##dt(int64_t n, const void *pa, const void *pb, const void *pc, void *py)   \
    {                                                                                              \
        const T *x = pa;                                                                           \
        T *y = py;                                                                                 \
        (void)pb, (void)pc;                                                                        \
        EACH                                                                                       \
        {                                                                                          \
            T a = x[i];                                                                            \
            y[i] = (T)(expression);                                                                \
        }                                                                                          \
    }
#define TEST_LOOP(DT, dt, T, name, expression)                                                     \
    static void name##_##dt(int64_t n, const void *pa, const void *pb, const void *pc, void *py)   \
    {                                                                                              \
        const T *x = pa;                                                                           \
        uint8_t *y = py;                                                                           \
        (void)pb, (void)pc;                                                                        \
        EACH                                                                                       \
        {                                                                                          \
            T a = x[i];                                                                            \
            (void)a;                                                                               \
            y[i] = (uint8_t)(expression);                                                          \
        }                                                                                          \
    }
#define BINARY_LOOP(DT, dt, T, name, R, expression)                                                \
    static void name##_##dt(int64_t n, const void *pa, const void *pb, const void *pc, void *py)   \
    {                                                                                              \
        const T *xa = pa, *xb = pb;                                                                \
        R *y = py;                                                                                 \
        (void)pc;                                                                                  \
        EACH                                                                                       \
        {                                                                                          \
            T a = xa[i], b = xb[i];                                                                \
            y[i] = (R)(expression);                                                                \
        }                                                                                          \
    }
#define SAME_BINARY_LOOP(DT, dt, T, name, expression) BINARY_LOOP(DT, dt, T, name, T, expression)
#define COMPARE_LOOP(DT, dt, T, name, expression) BINARY_LOOP(DT, dt, T, name, uint8_t, expression)
#define WHERE_LOOP(DT, dt, T, name, expression)                                                    \
    static void name##_##dt(int64_t n, const void *pa, const void *pb, const void *pc, void *py)   \
    {                                                                                              \
        const uint8_t *xa = pa;                                                                    \
        const T *xb = pb, *xc = pc;                                                                \
        T *y = py;                                                                                 \
        EACH                                                                                       \
        {                                                                                          \
            uint8_t a = xa[i];                                                                     \
            T b = xb[i], c = xc[i];                                                                \
            y[i] = (expression);                                                                   \
        }                                                                                          \
    }
#define UNARY(ENUM, name, FAMILY, rule, cost, expression, meaning)                                 \
    FAMILY##_TYPES(UNARY_LOOP, name, expression)
#define BINARY(ENUM, name, FAMILY, rule, cost, expression, meaning)                                \
    FAMILY##_TYPES(SAME_BINARY_LOOP, name, expression)
#define TEST(ENUM, name, FAMILY, rule, cost, expression, meaning)                                  \
    FAMILY##_TYPES(TEST_LOOP, name, expression)
#define COMPARE(ENUM, name, FAMILY, rule, cost, expression, meaning)                               \
    FAMILY##_TYPES(COMPARE_LOOP, name, expression)
#define TERNARY(ENUM, name, FAMILY, rule, cost, expression, meaning)                               \
    FAMILY##_TYPES(WHERE_LOOP, name, expression)
#include "../../graph/ops.def"

/* ---- Casts between compute types ----------------------------------------------------- */

#define PLAIN_CAST(DT, dt, T, from, F)                                                             \
    static void cast_##from##_##dt(int64_t n, const void *pa, const void *pb, const void *pc,      \
                                   void *py)                                                       \
    {                                                                                              \
        const F *x = pa;                                                                           \
        T *y = py;                                                                                 \
        (void)pb, (void)pc;                                                                        \
        EACH y[i] = (T)x[i];                                                                       \
    }
/* Integers to any, floats to floats: C's conversion is the rule. */
#define CASTS_FROM(from, F) NUM_TYPES(PLAIN_CAST, from, F)
CASTS_FROM(u8, uint8_t)
CASTS_FROM(i8, int8_t)
CASTS_FROM(u16, uint16_t)
CASTS_FROM(i16, int16_t)
CASTS_FROM(u32, uint32_t)
CASTS_FROM(i32, int32_t)
CASTS_FROM(u64, uint64_t)
CASTS_FROM(i64, int64_t)
FLOAT_TYPES(PLAIN_CAST, f32, float)
FLOAT_TYPES(PLAIN_CAST, f64, double)

/* Floats to integers truncate and saturate, NaN gives 0: the shared rule, not C's. */
#define SATURATING_CAST(DT, dt, T, from, FROM, F)                                                  \
    static void cast_##from##_##dt(int64_t n, const void *pa, const void *pb, const void *pc,      \
                                   void *py)                                                       \
    {                                                                                              \
        (void)pb, (void)pc;                                                                        \
        tp_convert(n, TP_##FROM, pa, sizeof(F), TP_##DT, py, sizeof(T));                           \
    }
INT_TYPES(SATURATING_CAST, f32, F32, float)
INT_TYPES(SATURATING_CAST, f64, F64, double)

/* To a truth value: anything but 0 is true. Lies at cast[from][TP_BOOL]. */
#define TRUTH_CAST(DT, dt, T, unused)                                                              \
    static void truth_##dt(int64_t n, const void *pa, const void *pb, const void *pc, void *py)    \
    {                                                                                              \
        const T *x = pa;                                                                           \
        uint8_t *y = py;                                                                           \
        (void)pb, (void)pc;                                                                        \
        EACH y[i] = x[i] != 0;                                                                     \
    }
NUM_TYPES(TRUTH_CAST, unused)

/* ---- f16 and bf16 ------------------------------------------------------------------------ */

/* The formulas of convert.c, here inlined so that they vectorise. */
static inline float half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000U) << 16, magnitude = h & 0x7FFFU;
    float finite = float_of(magnitude << 13) * 0x1p112F;
    uint32_t bits = magnitude >= 0x7C00U ? 0x7F800000U | magnitude << 13 : bits_of(finite);
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

static inline uint16_t float_to_brain(float x)
{
    uint32_t bits = bits_of(x);
    uint32_t rounded = bits + 0x7FFFU + (bits >> 16 & 1U);
    return (uint16_t)((bits & 0x7FFFFFFFU) > 0x7F800000U ? (bits >> 16 | 0x40U) : rounded >> 16);
}

#define ROW(name, F, T, expression)                                                                \
    static void name(int64_t n, const void *pa, const void *pb, const void *pc, void *py)          \
    {                                                                                              \
        const F *x = pa;                                                                           \
        T *y = py;                                                                                 \
        (void)pb, (void)pc;                                                                        \
        EACH y[i] = (expression);                                                                  \
    }
ROW(load_bool, uint8_t, uint8_t, x[i] != 0)
ROW(load_f16, uint16_t, float, half_to_float(x[i]))
ROW(load_bf16, uint16_t, float, brain_to_float(x[i]))
ROW(store_f16, float, uint16_t, float_to_half(x[i]))
ROW(store_bf16, float, uint16_t, float_to_brain(x[i]))
ROW(round_f16, float, float, half_to_float(float_to_half(x[i])))
ROW(round_bf16, float, float, brain_to_float(float_to_brain(x[i])))

/* ---- Reductions ----------------------------------------------------------------------------- */

#define SUM(dt, T)                                                                                 \
    static void sum_##dt(int64_t n, const T *x, T *lane)                                           \
    {                                                                                              \
        T acc[TP_LANES];                                                                           \
        for (int j = 0; j < TP_LANES; j++) acc[j] = lane[j];                                       \
        int64_t i = 0;                                                                             \
        for (; i + TP_LANES <= n; i += TP_LANES) {                                                 \
            for (int j = 0; j < TP_LANES; j++) acc[j] += x[i + j];                                 \
        }                                                                                          \
        for (int j = 0; i < n; i++, j++) acc[j] += x[i];                                           \
        for (int j = 0; j < TP_LANES; j++) lane[j] = acc[j];                                       \
    }
SUM(f32, float)
SUM(f64, double)

#define ACCUMULATE(DT, dt, T, unused)                                                              \
    static void accumulate_##dt(int64_t n, const void *pa, const void *pb, const void *pc,         \
                                void *py)                                                          \
    {                                                                                              \
        const T *x = pa;                                                                           \
        T *y = py;                                                                                 \
        (void)pb, (void)pc;                                                                        \
        EACH y[i] = (T)(y[i] + x[i]);                                                              \
    }
NUM_TYPES(ACCUMULATE, unused)

static float max_f32(int64_t n, const float *x)
{
    float lane[TP_LANES], max = x[0];
    for (int j = 0; j < TP_LANES; j++) lane[j] = x[0];
    int64_t i = 0;
    for (; i + TP_LANES <= n; i += TP_LANES) {
        for (int j = 0; j < TP_LANES; j++) lane[j] = m_max_f32(x[i + j], lane[j]);
    }
    for (; i < n; i++) lane[0] = m_max_f32(lane[0], x[i]);
    for (int j = 0; j < TP_LANES; j++) max = m_max_f32(max, lane[j]);
    return max;
}

static void exp_f32_row(int64_t n, const float *x, float max, float *y)
{
    EACH y[i] = m_exp_f32(x[i] - max);
}

static void div_f32_row(int64_t n, float *x, float by)
{
    EACH x[i] = x[i] / by;
}

static void norm_f32_row(int64_t n, float *x, float mean, float by)
{
    EACH x[i] = (x[i] - mean) / by;
}

static void square_f32_row(int64_t n, const float *x, float mean, float *y)
{
    EACH y[i] = (x[i] - mean) * (x[i] - mean);
}

/* ---- Matrix product -------------------------------------------------------------------------- */

/* A micro-tile of 6 rows by two vectors stays in registers over all of k. */
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#define TILE_ROWS 6

#define GEMM(dt, T)                                                                                \
    typedef T vector_##dt __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T))));          \
    static void gemm_##dt(int64_t k, const void *pa, const void *pb, void *pc, int64_t ldc)        \
    {                                                                                              \
        enum { WIDTH = VECTOR_BYTES / sizeof(T) };                                                 \
        const T *a = pa, *b = pb;                                                                  \
        T *c = pc;                                                                                 \
        vector_##dt acc[TILE_ROWS][2] = {0};                                                       \
        for (int64_t i = 0; i < k; i++, a += TILE_ROWS, b += 2 * WIDTH) {                          \
            vector_##dt b0, b1;                                                                    \
            memcpy(&b0, b, sizeof b0);                                                             \
            memcpy(&b1, b + WIDTH, sizeof b1);                                                     \
            for (int r = 0; r < TILE_ROWS; r++) {                                                  \
                acc[r][0] += a[r] * b0;                                                            \
                acc[r][1] += a[r] * b1;                                                            \
            }                                                                                      \
        }                                                                                          \
        for (int r = 0; r < TILE_ROWS; r++, c += ldc) {                                            \
            vector_##dt c0, c1;                                                                    \
            memcpy(&c0, c, sizeof c0);                                                             \
            memcpy(&c1, c + WIDTH, sizeof c1);                                                     \
            c0 += acc[r][0];                                                                       \
            c1 += acc[r][1];                                                                       \
            memcpy(c, &c0, sizeof c0);                                                             \
            memcpy(c + WIDTH, &c1, sizeof c1);                                                     \
        }                                                                                          \
    }
GEMM(f32, float)
GEMM(f64, double)
GEMM(u32, uint32_t)
GEMM(u64, uint64_t)
#define GEMM_ENTRY(DT, dt, T) [TP_##DT] = {TILE_ROWS, 2 * VECTOR_BYTES / sizeof(T), gemm_##dt}

/* ---- The table
 * ------------------------------------------------------------------------------------ */

#define ENTRY(DT, dt, T, ENUM, name) [TP_OP_##ENUM][TP_##DT] = name##_##dt,
#define CAST_ENTRY(DT, dt, T, from, FROM) [TP_##FROM][TP_##DT] = cast_##from##_##dt,
#define TRUTH_ENTRY(DT, dt, T, unused) [TP_##DT][TP_BOOL] = truth_##dt,
#define ACCUMULATE_ENTRY(DT, dt, T, unused) [TP_##DT] = accumulate_##dt,
extern const tp_cpu_loops PASTE(tp_cpu_loops_, TP_ISA);
const tp_cpu_loops PASTE(tp_cpu_loops_, TP_ISA) = {
    .name = STRING(TP_ISA),
    .op =
        {
#define UNARY(ENUM, name, FAMILY, ...) FAMILY##_TYPES(ENTRY, ENUM, name)
#define BINARY UNARY
#define TEST UNARY
#define COMPARE UNARY
#define TERNARY UNARY
#include "../../graph/ops.def"
        },
    .cast = {NUM_TYPES(CAST_ENTRY, u8, U8) NUM_TYPES(CAST_ENTRY, i8, I8)
                 NUM_TYPES(CAST_ENTRY, u16, U16) NUM_TYPES(CAST_ENTRY, i16, I16)
                     NUM_TYPES(CAST_ENTRY, u32, U32) NUM_TYPES(CAST_ENTRY, i32, I32)
                         NUM_TYPES(CAST_ENTRY, u64, U64) NUM_TYPES(CAST_ENTRY, i64, I64)
                             NUM_TYPES(CAST_ENTRY, f32, F32) NUM_TYPES(CAST_ENTRY, f64, F64)
                                 NUM_TYPES(TRUTH_ENTRY, unused)},
    .load = {[TP_BOOL] = load_bool, [TP_F16] = load_f16, [TP_BF16] = load_bf16},
    .store = {[TP_F16] = store_f16, [TP_BF16] = store_bf16},
    .round = {[TP_F16] = round_f16, [TP_BF16] = round_bf16},
    .sum_f32 = sum_f32,
    .sum_f64 = sum_f64,
    .accumulate = {NUM_TYPES(ACCUMULATE_ENTRY, unused)},
    .max_f32 = max_f32,
    .exp_f32 = exp_f32_row,
    .div_f32 = div_f32_row,
    .norm_f32 = norm_f32_row,
    .square_f32 = square_f32_row,
    .gemm = {GEMM_ENTRY(F32, f32, float), GEMM_ENTRY(F64, f64, double),
             GEMM_ENTRY(U32, u32, uint32_t), GEMM_ENTRY(U64, u64, uint64_t)},
};
