/* The yardsticks: what a C programmer writes by hand for one purpose, compiled once per
 * instruction set with the flags of the library's own loops (plain.c). */
#ifndef BENCH_PLAIN_H
#define BENCH_PLAIN_H

#include <stdint.h>

/* Length of a row where a loop has rows: the chains that broadcast over them. */
#define BENCH_ROW 1000

typedef void (*bench_loop)(int64_t n, const void *a, const void *b, const void *c, void *y);

/* NAME(name, what it calculates). Floats are f32 unless said. */
#define BENCH_PLAIN_LOOPS(NAME)                                                                    \
    NAME(pass, "a + 1")                                                                            \
    NAME(pass_nt, "a + 1, non-temporal stores")                                                    \
    NAME(triad, "a + 3 b")                                                                         \
    NAME(triad_nt, "a + 3 b, non-temporal stores")                                                 \
    NAME(fill, "y = 1.5")                                                                          \
    NAME(mul_add, "a * b + c")                                                                     \
    NAME(sigmoid_exp, "sigmoid(a) * b + exp(c)")                                                   \
    NAME(twenty, "20 of + - *")                                                                    \
    NAME(gelu_bias, "gelu(a + bias[column]), tanh form")                                           \
    NAME(relu_rows, "relu(a * b[column] + c[column])")                                             \
    NAME(relu_scale, "relu(a * 2 + 1)")                                                            \
    NAME(mixed, "i32 a * 0.5 + b")                                                                 \
    NAME(widen_u8, "u8 a to f32, (a - 127.5) / 64")                                                \
    NAME(square_sum, "y[0] = sum (a - b)^2")                                                       \
    NAME(read_sum, "y[0] = sum a, in 64 lanes")

typedef struct bench_plain {
    const char *isa;
#define NAME(name, meaning) bench_loop name;
    BENCH_PLAIN_LOOPS(NAME)
#undef NAME
    /* Leaves the upper halves of vector registers clean: code without AVX is several times slower
     * on some CPUs while they are not, whoever left them so. */
    void (*clean_registers)(void);
    /* y[c][r] = x[r][c], element by element: the loop everybody writes first. */
    void (*transpose_naive)(int64_t rows, int64_t columns, const float *x, float *y);
} bench_plain;

/* The table for this machine. */
const bench_plain *bench_plain_get(void);

/* y[i] = f(a[i]) by one call of the C library for each element. */
void bench_libm_exp(int64_t n, const void *a, const void *b, const void *c, void *y);
void bench_libm_log(int64_t n, const void *a, const void *b, const void *c, void *y);
void bench_libm_tanh(int64_t n, const void *a, const void *b, const void *c, void *y);
void bench_libm_erf(int64_t n, const void *a, const void *b, const void *c, void *y);
void bench_libm_sigmoid(int64_t n, const void *a, const void *b, const void *c, void *y);
void bench_libm_sin(int64_t n, const void *a, const void *b, const void *c, void *y);
void bench_libm_cos(int64_t n, const void *a, const void *b, const void *c, void *y);

#endif
