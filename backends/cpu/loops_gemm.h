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

static inline double total_f64(__m256d x)
{
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

static inline float total_f32(__m256 x)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}
#endif

/* How much fits the registers: rows x 2 vectors of a micro-tile, few rows x vectors or dots. */
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define TILE_ROWS 14
#define FOR_1_ROW 8
#define FOR_2_ROWS 8
#define FOR_4_ROWS 4
#define MADD_f32(a, b, c) (vector_f32) _mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#define MADD_f64(a, b, c) (vector_f64) _mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c))
#define TOTAL_f32(x) _mm512_reduce_add_ps((__m512)(x))
#define TOTAL_f64(x) _mm512_reduce_add_pd((__m512d)(x))
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#define TILE_ROWS 6
#define FOR_1_ROW 8
#define FOR_2_ROWS 4
#define FOR_4_ROWS 2
#define MADD_f32(a, b, c) (vector_f32) _mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#define MADD_f64(a, b, c) (vector_f64) _mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c))
#define TOTAL_f32(x) total_f32((__m256)(x))
#define TOTAL_f64(x) total_f64((__m256d)(x))
#else
#define VECTOR_BYTES 16
#define TILE_ROWS 6
#define FOR_1_ROW 8
#define FOR_2_ROWS 4
#define FOR_4_ROWS 2
#define MADD_f32(a, b, c) ((a) * (b) + (c))
#define MADD_f64(a, b, c) ((a) * (b) + (c))
#define TOTAL_f32(x) (((x)[0] + (x)[2]) + ((x)[1] + (x)[3]))
#define TOTAL_f64(x) ((x)[0] + (x)[1])
#endif
#define MADD_u32(a, b, c) ((a) * (b) + (c))
#define MADD_u64(a, b, c) ((a) * (b) + (c))
/* x - 0 is x, -0 too: the one way to fill a vector that both compilers know. */
#define BROADCAST(dt, x) ((x) - (vector_##dt){0})
/* With a constant number of rows, accumulators are registers. */
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define AHEAD 512
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

/* Few rows against all of B, which is read once where it lies. Accumulators for `rows` rows by so
 * many vectors or columns; the memory ahead in each row is asked for, since so many rows side by
 * side are more streams than the machine follows by itself. */
#define SKINNY(dt, T)                                                                              \
    static ALWAYS_INLINE void wide_block_##dt(int rows, int vectors, int64_t k, const T *a,        \
                                              int64_t lda, const T *b, int64_t ldb, T *c,          \
                                              int64_t ldc, bool add)                               \
    {                                                                                              \
        enum { WIDTH = VECTOR_BYTES / sizeof(T) };                                                 \
        vector_##dt acc[TP_SKINNY_GROUP][8];                                                       \
        UNROLL for (int r = 0; r < rows; r++)                                                      \
        {                                                                                          \
            UNROLL for (int v = 0; v < vectors; v++) acc[r][v] =                                   \
                add ? get_##dt(c + r * ldc + v * WIDTH) : (vector_##dt){0};                        \
        }                                                                                          \
        for (int64_t i = 0; i < k; i++, b += ldb) {                                                \
            UNROLL for (int v = 0; v < vectors; v++)                                               \
            {                                                                                      \
                if (v * VECTOR_BYTES % 64 == 0)                                                    \
                    __builtin_prefetch((const char *)(b + v * WIDTH) + AHEAD);                     \
                vector_##dt y = get_##dt(b + v * WIDTH);                                           \
                UNROLL for (int r = 0; r < rows; r++) acc[r][v] =                                  \
                    MADD_##dt(BROADCAST(dt, a[r * lda + i]), y, acc[r][v]);                        \
            }                                                                                      \
        }                                                                                          \
        UNROLL for (int r = 0; r < rows; r++)                                                      \
        {                                                                                          \
            UNROLL for (int v = 0; v < vectors; v++) * (vector_##dt *)(c + r * ldc + v * WIDTH) =  \
                acc[r][v];                                                                         \
        }                                                                                          \
    }                                                                                              \
    static ALWAYS_INLINE void wide_rows_##dt(int rows, int vectors, int64_t n, int64_t k,          \
                                             const T *a, int64_t lda, const T *b, int64_t ldb,     \
                                             T *c, int64_t ldc, bool add)                          \
    {                                                                                              \
        enum { WIDTH = VECTOR_BYTES / sizeof(T) };                                                 \
        int64_t j = 0;                                                                             \
        for (; j + vectors * WIDTH <= n; j += vectors * WIDTH)                                     \
            wide_block_##dt(rows, vectors, k, a, lda, b + j, ldb, c + j, ldc, add);                \
        for (; j < n; j += WIDTH)                                                                  \
            wide_block_##dt(rows, 1, k, a, lda, b + j, ldb, c + j, ldc, add);                      \
    }                                                                                              \
    static void wide_##dt(int rows, int64_t n, int64_t k, const void *a, int64_t lda,              \
                          const void *b, int64_t ldb, void *c, int64_t ldc, bool add)              \
    {                                                                                              \
        if (rows == 1)                                                                             \
            wide_rows_##dt(1, FOR_1_ROW, n, k, a, lda, b, ldb, c, ldc, add);                       \
        else if (rows == 2)                                                                        \
            wide_rows_##dt(2, FOR_2_ROWS, n, k, a, lda, b, ldb, c, ldc, add);                      \
        else if (rows == 3)                                                                        \
            wide_rows_##dt(3, FOR_4_ROWS, n, k, a, lda, b, ldb, c, ldc, add);                      \
        else                                                                                       \
            wide_rows_##dt(4, FOR_4_ROWS, n, k, a, lda, b, ldb, c, ldc, add);                      \
    }                                                                                              \
    static ALWAYS_INLINE void dot_block_##dt(int rows, int cols, int64_t k, const T *a,            \
                                             int64_t lda, const T *b, int64_t ldb, T *c,           \
                                             int64_t ldc)                                          \
    {                                                                                              \
        enum { WIDTH = VECTOR_BYTES / sizeof(T) };                                                 \
        vector_##dt acc[TP_SKINNY_GROUP][8] = {0};                                                 \
        int64_t whole = k - k % WIDTH;                                                             \
        for (int64_t i = 0; i < whole; i += WIDTH) {                                               \
            UNROLL for (int j = 0; j < cols; j++)                                                  \
            {                                                                                      \
                __builtin_prefetch((const char *)(b + j * ldb + i) + AHEAD);                       \
                vector_##dt y = get_##dt(b + j * ldb + i);                                         \
                UNROLL for (int r = 0; r < rows; r++) acc[r][j] =                                  \
                    MADD_##dt(get_##dt(a + r * lda + i), y, acc[r][j]);                            \
            }                                                                                      \
        }                                                                                          \
        UNROLL for (int r = 0; r < rows; r++)                                                      \
        {                                                                                          \
            UNROLL for (int j = 0; j < cols; j++)                                                  \
            {                                                                                      \
                T sum = TOTAL_##dt(acc[r][j]);                                                     \
                for (int64_t i = whole; i < k; i++) sum += a[r * lda + i] * b[j * ldb + i];        \
                c[r * ldc + j] = sum;                                                              \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static ALWAYS_INLINE void dot_rows_##dt(int rows, int cols, int64_t n, int64_t k, const T *a,  \
                                            int64_t lda, const T *b, int64_t ldb, T *c,            \
                                            int64_t ldc)                                           \
    {                                                                                              \
        int64_t j = 0;                                                                             \
        for (; j + cols <= n; j += cols)                                                           \
            dot_block_##dt(rows, cols, k, a, lda, b + j * ldb, ldb, c + j, ldc);                   \
        for (; j < n; j++) dot_block_##dt(rows, 1, k, a, lda, b + j * ldb, ldb, c + j, ldc);       \
    }                                                                                              \
    static void dots_##dt(int rows, int64_t n, int64_t k, const void *a, int64_t lda,              \
                          const void *b, int64_t ldb, void *c, int64_t ldc)                        \
    {                                                                                              \
        if (rows == 1)                                                                             \
            dot_rows_##dt(1, FOR_1_ROW, n, k, a, lda, b, ldb, c, ldc);                             \
        else if (rows == 2)                                                                        \
            dot_rows_##dt(2, FOR_2_ROWS, n, k, a, lda, b, ldb, c, ldc);                            \
        else if (rows == 3)                                                                        \
            dot_rows_##dt(3, FOR_4_ROWS, n, k, a, lda, b, ldb, c, ldc);                            \
        else                                                                                       \
            dot_rows_##dt(4, FOR_4_ROWS, n, k, a, lda, b, ldb, c, ldc);                            \
    }
SKINNY(f32, float)
SKINNY(f64, double)

#define GEMM_ENTRY(DT, dt, T, ...)                                                                 \
    [TP_##DT] = {TILE_ROWS, 2 * VECTOR_BYTES / sizeof(T), gemm_##dt, __VA_ARGS__}

#endif
