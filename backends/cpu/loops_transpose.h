/* Blocks of a matrix transposed in registers. Included by loops.c only.
 *
 * A square of N x N elements is N vectors. Zipping vector k with vector k + N/2, log2 N times,
 * transposes it. Every line of source and result is touched once, so powers of two as strides,
 * whose lines share a set of the cache, cost nothing extra. */
#ifndef TP_CPU_LOOPS_TRANSPOSE_H
#define TP_CPU_LOOPS_TRANSPOSE_H

#include <stdint.h>
#include <string.h>

/* The lower and the upper halves of two vectors a and b as a0 b0 a1 b1 ... */
#define ZIP_2(a, b) __builtin_shufflevector(a, b, 0, 2)
#define ZIP_UP_2(a, b) __builtin_shufflevector(a, b, 1, 3)
#define ZIP_4(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define ZIP_UP_4(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define ZIP_8(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define ZIP_UP_8(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define ZIP_16(a, b)                                                                               \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define ZIP_UP_16(a, b)                                                                            \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)

/* transpose_<bytes>: to[r * to_row + i] = from[i * from_step + r], r < rows, i < n; steps in bytes,
 * r unit stride in from, i in to. */
#define TRANSPOSE_(T, BYTES, N)                                                                    \
    typedef T square_##BYTES __attribute__((vector_size(N * BYTES), aligned(BYTES), may_alias));   \
    static inline void square_turn_##BYTES(const char *from, int64_t from_step, char *to,          \
                                           int64_t to_row)                                         \
    {                                                                                              \
        square_##BYTES a[N], b[N];                                                                 \
        _Pragma("GCC unroll 16") for (int k = 0; k < N; k++)                                       \
            memcpy(&a[k], from + k * from_step, sizeof a[k]);                                      \
        _Pragma("GCC unroll 4") for (int stage = 1; stage < N; stage *= 2)                         \
        {                                                                                          \
            _Pragma("GCC unroll 16") for (int k = 0; k < N / 2; k++)                               \
            {                                                                                      \
                b[2 * k] = ZIP_##N(a[k], a[k + N / 2]);                                            \
                b[2 * k + 1] = ZIP_UP_##N(a[k], a[k + N / 2]);                                     \
            }                                                                                      \
            _Pragma("GCC unroll 16") for (int k = 0; k < N; k++) a[k] = b[k];                      \
        }                                                                                          \
        _Pragma("GCC unroll 16") for (int k = 0; k < N; k++)                                       \
            memcpy(to + k * to_row, &a[k], sizeof a[k]);                                           \
    }                                                                                              \
    /* The last squares overlap the ones before: only what is smaller than a square has a tail. */ \
    static void transpose_##BYTES(int64_t rows, int64_t n, const char *from, int64_t from_step,    \
                                  char *to, int64_t to_row)                                        \
    {                                                                                              \
        if (rows < N || n < N) {                                                                   \
            for (int64_t i = 0; i < n; i++) {                                                      \
                for (int64_t r = 0; r < rows; r++)                                                 \
                    memcpy(to + r * to_row + i * BYTES, from + i * from_step + r * BYTES, BYTES);  \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < n; i += N) {                                                       \
            int64_t at = i < n - N ? i : n - N;                                                    \
            for (int64_t r = 0; r < rows; r += N) {                                                \
                int64_t row = r < rows - N ? r : rows - N;                                         \
                square_turn_##BYTES(from + at * from_step + row * BYTES, from_step,                \
                                    to + row * to_row + at * BYTES, to_row);                       \
            }                                                                                      \
        }                                                                                          \
    }
#define TRANSPOSE(T, BYTES, N) TRANSPOSE_(T, BYTES, N)
#if defined(__AVX512F__)
#define SIDE_2 16
#define SIDE_4 16
#define SIDE_8 8
#elif defined(__AVX2__)
#define SIDE_2 16
#define SIDE_4 8
#define SIDE_8 4
#else
#define SIDE_2 8
#define SIDE_4 4
#define SIDE_8 2
#endif
TRANSPOSE(uint8_t, 1, 16)
TRANSPOSE(uint16_t, 2, SIDE_2)
TRANSPOSE(uint32_t, 4, SIDE_4)
TRANSPOSE(uint64_t, 8, SIDE_8)

/* Small elements: squares are smaller than a line of the cache, and lines whose distance is a power
 * of two would push each other out before they are used up. Blocks as wide as a line on both sides
 * go through buffers instead. */
#define LINE 64
#define TRANSPOSE_LINES(BYTES)                                                                     \
    static void transpose_lines_##BYTES(int64_t rows, int64_t n, const char *from,                 \
                                        int64_t from_step, char *to, int64_t to_row)               \
    {                                                                                              \
        enum { SIDE = LINE / BYTES };                                                              \
        char in[SIDE][LINE], out[SIDE][LINE];                                                      \
        if (rows < SIDE || n < SIDE) {                                                             \
            transpose_##BYTES(rows, n, from, from_step, to, to_row);                               \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < n; i += SIDE) {                                                    \
            int64_t at = i < n - SIDE ? i : n - SIDE;                                              \
            for (int64_t r = 0; r < rows; r += SIDE) {                                             \
                int64_t row = r < rows - SIDE ? r : rows - SIDE;                                   \
                const char *source = from + at * from_step + row * BYTES;                          \
                char *target = to + row * to_row + at * BYTES;                                     \
                for (int k = 0; k < SIDE; k++) memcpy(in[k], source + k * from_step, LINE);        \
                transpose_##BYTES(SIDE, SIDE, in[0], LINE, out[0], LINE);                          \
                for (int k = 0; k < SIDE; k++) memcpy(target + k * to_row, out[k], LINE);          \
            }                                                                                      \
        }                                                                                          \
    }
TRANSPOSE_LINES(1)
TRANSPOSE_LINES(2)

#endif
