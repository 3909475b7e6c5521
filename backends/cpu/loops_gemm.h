/* Micro-kernels of our own matrix product. Included by loops.c only.
 *
 * Floats use the machine's fused multiply-add where it has one, as a BLAS does; so products are
 * the one place where instruction sets differ in the last places. Every element of C has one
 * accumulator that goes along k in order. */
#ifndef TP_CPU_LOOPS_GEMM_H
#define TP_CPU_LOOPS_GEMM_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* Rows x vectors of a micro-tile fill the registers, and so do rows x columns of dots. */
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define TILE_ROWS 14
#define DOT_COLS 4
#define MADD_f32(a, b, c) (vector_f32) _mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#define MADD_f64(a, b, c) (vector_f64) _mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c))
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#define TILE_ROWS 6
#define DOT_COLS 2
#define MADD_f32(a, b, c) (vector_f32) _mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#define MADD_f64(a, b, c) (vector_f64) _mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c))
#else
#define VECTOR_BYTES 16
#define TILE_ROWS 6
#define DOT_COLS 2
#define MADD_f32(a, b, c) ((a) * (b) + (c))
#define MADD_f64(a, b, c) ((a) * (b) + (c))
#endif
#define MADD_u32(a, b, c) ((a) * (b) + (c))
#define MADD_u64(a, b, c) ((a) * (b) + (c))
/* x - 0 is x, -0 too: the one way to fill a vector that both compilers know. */
#define BROADCAST(dt, x) ((x) - (vector_##dt){0})
/* With a constant number of rows, accumulators are registers. */
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

#define GEMM(dt, T)                                                                                \
    typedef T vector_##dt                                                                          \
        __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));                 \
    static inline vector_##dt get_##dt(const T *x)                                                 \
    {                                                                                              \
        return *(const vector_##dt *)x;                                                            \
    }                                                                                              \
    static void gemm_##dt(int64_t k, const void *pa, const void *pb, void *pc, int64_t ldc,        \
                          bool add)                                                                \
    {                                                                                              \
        enum { WIDTH = VECTOR_BYTES / sizeof(T) };                                                 \
        const T *a = pa, *b = pb;                                                                  \
        T *c = pc;                                                                                 \
        vector_##dt acc[TILE_ROWS][2] = {0};                                                       \
        for (int64_t i = 0; i < k; i++, a++, b += 2 * WIDTH) {                                     \
            vector_##dt b0 = get_##dt(b), b1 = get_##dt(b + WIDTH);                                \
            UNROLL for (int r = 0; r < TILE_ROWS; r++)                                             \
            {                                                                                      \
                vector_##dt x = BROADCAST(dt, a[r * TP_GEMM_PITCH]);                               \
                acc[r][0] = MADD_##dt(x, b0, acc[r][0]);                                           \
                acc[r][1] = MADD_##dt(x, b1, acc[r][1]);                                           \
            }                                                                                      \
        }                                                                                          \
        UNROLL for (int r = 0; r < TILE_ROWS; r++)                                                 \
        {                                                                                          \
            UNROLL for (int v = 0; v < 2; v++)                                                     \
            {                                                                                      \
                vector_##dt *to = (vector_##dt *)(c + r * ldc + v * WIDTH);                        \
                if (add) acc[r][v] += *to;                                                         \
                *to = acc[r][v];                                                                   \
            }                                                                                      \
        }                                                                                          \
    }
GEMM(f32, float)
GEMM(f64, double)
GEMM(u32, uint32_t)
GEMM(u64, uint64_t)

/* Few rows against all of B, which is read once where it lies. */
#define SKINNY(dt, T)                                                                              \
    static ALWAYS_INLINE void wide_rows_##dt(int rows, int64_t k, const T *a, int64_t lda,         \
                                             const T *b, int64_t ldb, T *c, int64_t ldc, bool add) \
    {                                                                                              \
        enum { WIDTH = VECTOR_BYTES / sizeof(T), VECTORS = TP_WIDE_BYTES / VECTOR_BYTES };         \
        for (int first = 0; first < VECTORS; first += 4, b += 4 * WIDTH, c += 4 * WIDTH) {         \
            vector_##dt acc[TP_SKINNY_GROUP][4];                                                   \
            UNROLL for (int r = 0; r < rows; r++)                                                  \
            {                                                                                      \
                UNROLL for (int v = 0; v < 4; v++) acc[r][v] =                                     \
                    add ? get_##dt(c + r * ldc + v * WIDTH) : (vector_##dt){0};                    \
            }                                                                                      \
            for (int64_t i = 0; i < k; i++) {                                                      \
                UNROLL for (int v = 0; v < 4; v++)                                                 \
                {                                                                                  \
                    vector_##dt y = get_##dt(b + i * ldb + v * WIDTH);                             \
                    UNROLL for (int r = 0; r < rows; r++) acc[r][v] =                              \
                        MADD_##dt(BROADCAST(dt, a[r * lda + i]), y, acc[r][v]);                    \
                }                                                                                  \
            }                                                                                      \
            UNROLL for (int r = 0; r < rows; r++)                                                  \
            {                                                                                      \
                UNROLL for (int v = 0; v < 4; v++) * (vector_##dt *)(c + r * ldc + v * WIDTH) =    \
                    acc[r][v];                                                                     \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void wide_##dt(int rows, int64_t k, const void *a, int64_t lda, const void *b,          \
                          int64_t ldb, void *c, int64_t ldc, bool add)                             \
    {                                                                                              \
        if (rows == 1)                                                                             \
            wide_rows_##dt(1, k, a, lda, b, ldb, c, ldc, add);                                     \
        else if (rows == 2)                                                                        \
            wide_rows_##dt(2, k, a, lda, b, ldb, c, ldc, add);                                     \
        else if (rows == 3)                                                                        \
            wide_rows_##dt(3, k, a, lda, b, ldb, c, ldc, add);                                     \
        else                                                                                       \
            wide_rows_##dt(4, k, a, lda, b, ldb, c, ldc, add);                                     \
    }                                                                                              \
    static ALWAYS_INLINE void dot_block_##dt(int rows, int cols, int64_t k, const T *a,            \
                                             int64_t lda, const T *b, int64_t ldb, T *c,           \
                                             int64_t ldc)                                          \
    {                                                                                              \
        enum { WIDTH = VECTOR_BYTES / sizeof(T) };                                                 \
        vector_##dt acc[TP_SKINNY_GROUP][DOT_COLS] = {0};                                          \
        int64_t whole = k - k % WIDTH;                                                             \
        for (int64_t i = 0; i < whole; i += WIDTH) {                                               \
            UNROLL for (int j = 0; j < cols; j++)                                                  \
            {                                                                                      \
                vector_##dt y = get_##dt(b + j * ldb + i);                                         \
                UNROLL for (int r = 0; r < rows; r++) acc[r][j] =                                  \
                    MADD_##dt(get_##dt(a + r * lda + i), y, acc[r][j]);                            \
            }                                                                                      \
        }                                                                                          \
        for (int r = 0; r < rows; r++) {                                                           \
            for (int j = 0; j < cols; j++) {                                                       \
                T sum = 0;                                                                         \
                for (int64_t i = whole; i < k; i++) sum += a[r * lda + i] * b[j * ldb + i];        \
                for (int l = 0; l < WIDTH; l++) sum += acc[r][j][l];                               \
                c[r * ldc + j] = sum;                                                              \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static ALWAYS_INLINE void dot_rows_##dt(int rows, int64_t n, int64_t k, const T *a,            \
                                            int64_t lda, const T *b, int64_t ldb, T *c,            \
                                            int64_t ldc)                                           \
    {                                                                                              \
        int64_t j = 0;                                                                             \
        for (; j + DOT_COLS <= n; j += DOT_COLS)                                                   \
            dot_block_##dt(rows, DOT_COLS, k, a, lda, b + j * ldb, ldb, c + j, ldc);               \
        for (; j < n; j++) dot_block_##dt(rows, 1, k, a, lda, b + j * ldb, ldb, c + j, ldc);       \
    }                                                                                              \
    static void dots_##dt(int rows, int64_t n, int64_t k, const void *a, int64_t lda,              \
                          const void *b, int64_t ldb, void *c, int64_t ldc)                        \
    {                                                                                              \
        if (rows == 1)                                                                             \
            dot_rows_##dt(1, n, k, a, lda, b, ldb, c, ldc);                                        \
        else if (rows == 2)                                                                        \
            dot_rows_##dt(2, n, k, a, lda, b, ldb, c, ldc);                                        \
        else if (rows == 3)                                                                        \
            dot_rows_##dt(3, n, k, a, lda, b, ldb, c, ldc);                                        \
        else                                                                                       \
            dot_rows_##dt(4, n, k, a, lda, b, ldb, c, ldc);                                        \
    }
SKINNY(f32, float)
SKINNY(f64, double)

#define GEMM_ENTRY(DT, dt, T, ...)                                                                 \
    [TP_##DT] = {TILE_ROWS, 2 * VECTOR_BYTES / sizeof(T), gemm_##dt, __VA_ARGS__}

#endif
