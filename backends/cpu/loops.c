/* The row loops, generated from ops.def and vectorised by the compiler. This file is compiled
 * once per instruction set with TP_ISA set; every variant gives the same bits, but for
 * matrix products (loops_gemm.h). */
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

/* sin and cos where no argument of a block is far: several times as fast, the same bits. */
#define NEAR_LOOP(name)                                                                            \
    static void near_##name(int64_t n, const float *x, float *y)                                   \
    {                                                                                              \
        EACH y[i] = m_##name##_near_f32(x[i]);                                                     \
    }                                                                                              \
    static void name##_f32_blocks(int64_t n, const void *pa, const void *pb, const void *pc,       \
                                  void *py)                                                        \
    {                                                                                              \
        const float *x = pa;                                                                       \
        float *y = py;                                                                             \
        for (int64_t at = 0; at < n; at += NEAR_BLOCK) {                                           \
            int64_t m = n - at < NEAR_BLOCK ? n - at : NEAR_BLOCK;                                 \
            if (is_near(m, x + at))                                                                \
                near_##name(m, x + at, y + at);                                                    \
            else                                                                                   \
                name##_f32(m, x + at, pb, pc, y + at);                                             \
        }                                                                                          \
    }
#define NEAR_BLOCK 1024
static bool is_near(int64_t n, const float *x)
{
    uint32_t far = 0, limit = bits_of(M_NEAR_F32);
    for (int64_t i = 0; i < n; i++) far |= (bits_of(x[i]) & 0x7FFFFFFFU) + (0x80000000U - limit);
    return far < 0x80000000U;
}
NEAR_LOOP(sin)
NEAR_LOOP(cos)

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

/* ---- The other rows --------------------------------------------------------------------- */

static void load_bool(int64_t n, const void *pa, const void *pb, const void *pc, void *py)
{
    truth_u8(n, pa, pb, pc, py); /* any byte but 0 is true */
}

#include "loops_gemm.h"
#include "loops_half.h"
#include "loops_rows.h"
#include "loops_transpose.h"

/* ---- The table
 * ------------------------------------------------------------------------------------ */

#define sin_f32 sin_f32_blocks
#define cos_f32 cos_f32_blocks
#define ENTRY(DT, dt, T, ENUM, name) [TP_OP_##ENUM][TP_##DT] = name##_##dt,
#define CAST_ENTRY(DT, dt, T, from, FROM) [TP_##FROM][TP_##DT] = cast_##from##_##dt,
#define TRUTH_ENTRY(DT, dt, T, unused) [TP_##DT][TP_BOOL] = truth_##dt,
#define ROW_ENTRY(DT, dt, T, row) [TP_##DT] = row##_##dt,
extern const tp_vm_ops PASTE(tp_vm_ops_, TP_ISA);
extern const tp_cpu_loops PASTE(tp_cpu_loops_, TP_ISA);
const tp_cpu_loops PASTE(tp_cpu_loops_, TP_ISA) = {
    .name = STRING(TP_ISA),
    .vm = &PASTE(tp_vm_ops_, TP_ISA),
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
    .sum_rows = {FLOAT_TYPES(ROW_ENTRY, sum_rows)},
    .accumulate = {NUM_TYPES(ROW_ENTRY, accumulate)},
    .add_rows = {NUM_TYPES(ROW_ENTRY, add_rows)},
    .best = {{NUM_TYPES(ROW_ENTRY, best_max)}, {NUM_TYPES(ROW_ENTRY, best_min)}},
    .best_rows = {{NUM_TYPES(ROW_ENTRY, best_rows_max)}, {NUM_TYPES(ROW_ENTRY, best_rows_min)}},
    .best_over = {{NUM_TYPES(ROW_ENTRY, best_over_max)}, {NUM_TYPES(ROW_ENTRY, best_over_min)}},
    .find = {NUM_TYPES(ROW_ENTRY, find)},
    .replace = {{NUM_TYPES(ROW_ENTRY, replace_max)}, {NUM_TYPES(ROW_ENTRY, replace_min)}},
    .transpose = {transpose_lines_1, transpose_lines_2, transpose_4, transpose_8},
    .exp_f32 = exp_f32_row,
    .div_f32 = div_f32_row,
    .norm_f32 = norm_f32_row,
    .square_f32 = square_f32_row,
    .softmax_line_f32 = softmax_f32_line,
    .layer_norm_line_f32 = layer_norm_f32_line,
    .gemm = {GEMM_ENTRY(F32, f32, float, wide_f32, dots_f32),
             GEMM_ENTRY(F64, f64, double, wide_f64, dots_f64),
             GEMM_ENTRY(U32, u32, uint32_t, NULL, NULL),
             GEMM_ENTRY(U64, u64, uint64_t, NULL, NULL)},
};
