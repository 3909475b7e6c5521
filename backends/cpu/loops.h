/* Unit-stride row loops, compiled once per instruction set (loops.c); cpu.c picks a table. */
#ifndef TP_CPU_LOOPS_H
#define TP_CPU_LOOPS_H

#include "vm.h"

/* Sums run in LANES interleaved partial sums over blocks of BLOCK elements, blocks are added
 * pairwise: the order depends on an element's place in the row only, never on strides,
 * threads or instruction set. */
#define TP_LANES 16
#define TP_SUM_BLOCK 2048

/* y[i] = op(a[i], b[i], c[i]); y may be exactly a, b or c. */
typedef void (*tp_loop)(int64_t n, const void *a, const void *b, const void *c, void *y);

/* Packed panels of our own matrix product go over so much of k; a row of A's has so many
 * elements, which spreads the rows over the sets of the cache. */
#define TP_GEMM_DEPTH 256
#define TP_GEMM_PITCH (TP_GEMM_DEPTH + 16)
/* `wide` takes columns in multiples of so many bytes; rows that it and `dots` do at once. */
#define TP_WIDE_BYTES 64
#define TP_SKINNY_GROUP 4

/* Loops of matrix products; ld*: elements between rows. c is only read if add. */
typedef struct tp_gemm_kernel {
    /* c[r][j] (+)= sum over k of a[r * PITCH + k] * b[k * cols + j] for a tile of rows x cols. */
    int rows, cols;
    void (*run)(int64_t k, const void *a, const void *b, void *c, int64_t ldc, bool add);
    /* c[r][j] (+)= sum over k of a[r][k] * b[k][j], j < n. */
    void (*wide)(int rows, int64_t n, int64_t k, const void *a, int64_t lda, const void *b,
                 int64_t ldb, void *c, int64_t ldc, bool add);
    /* c[r][j] = sum over k of a[r][k] * b[j][k], j < n. */
    void (*dots)(int rows, int64_t n, int64_t k, const void *a, int64_t lda, const void *b,
                 int64_t ldb, void *c, int64_t ldc);
} tp_gemm_kernel;

typedef struct tp_cpu_loops {
    const char *name;
    const tp_vm_ops *vm; /* for the register interpreter */
    /* By op and compute dtype of its operands; where: of the two values, a is u8. */
    tp_loop op[TP_OP_COUNT][TP_DTYPE_COUNT];
    /* y[i] = (to)a[i] between compute types, by the rules of tp_cast. */
    tp_loop cast[TP_DTYPE_COUNT][TP_DTYPE_COUNT];
    /* Storage of dtype -> compute type and back, unit stride; NULL where they are the same. */
    tp_loop load[TP_DTYPE_COUNT], store[TP_DTYPE_COUNT];
    /* Rounds floats to f16 or bf16 and keeps them as floats. */
    tp_loop round[TP_DTYPE_COUNT];
    /* lane[j] += x[i] for i % LANES == j; n a multiple of LANES unless it is the row's end. */
    void (*sum_f32)(int64_t n, const float *x, float *lane);
    void (*sum_f64)(int64_t n, const double *x, double *lane);
    /* F32, F64: y[r] = the sum of n <= BLOCK elements of row r; rows are step elements apart. */
    void (*sum_rows[TP_DTYPE_COUNT])(int64_t rows, int64_t n, const void *x, int64_t step, void *y);
    /* y[i] += x[i] */
    tp_loop accumulate[TP_DTYPE_COUNT];
    /* The same for so many rows of x, one after the other, that are step elements apart. */
    void (*add_rows[TP_DTYPE_COUNT])(int64_t rows, int64_t n, const void *x, int64_t step, void *y);
    /* *y = the best of *y and n elements of x, by the rules of maximum [0] and minimum [1]. */
    void (*best[2][TP_DTYPE_COUNT])(int64_t n, const void *x, void *y);
    /* y[r] = the best of the n elements of row r. */
    void (*best_rows[2][TP_DTYPE_COUNT])(int64_t rows, int64_t n, const void *x, int64_t step,
                                         void *y);
    /* y[i] = the best of y[i] and x[i] of each row. */
    void (*best_over[2][TP_DTYPE_COUNT])(int64_t rows, int64_t n, const void *x, int64_t step,
                                         void *y);
    /* The first of n elements that is equal to *best or, like it, NaN; n: none. */
    int64_t (*find[TP_DTYPE_COUNT])(int64_t n, const void *x, const void *best);
    /* best[i] = x[i] and index[i] = at (at + 1 in the next row) where x[i] of a row is larger [0]
     * or smaller [1] or the first NaN. */
    void (*replace[2][TP_DTYPE_COUNT])(int64_t rows, int64_t n, const void *x, int64_t step,
                                       void *best, int32_t *index, int32_t at);
    /* to[r * to_row + i] = from[i * from_step + r], r < rows, i < n, by log2 of the element's
     * size; steps in bytes. */
    void (*transpose[4])(int64_t rows, int64_t n, const char *from, int64_t from_step, char *to,
                         int64_t to_row);
    /* y[i] = e^(x[i] - max); y[i] = x[i] / by; sum of squares of (x - mean) into lanes. */
    void (*exp_f32)(int64_t n, const float *x, float max, float *y);
    void (*div_f32)(int64_t n, float *x, float by);
    void (*norm_f32)(int64_t n, float *x, float mean, float by);
    void (*square_f32)(int64_t n, const float *x, float mean, float *y);
    /* A line of softmax (masked: all of it -inf gives 0) and of layer norm; weight and bias may be
     * NULL, y may be exactly x. */
    void (*softmax_line_f32)(int64_t n, const float *x, bool masked, float *y);
    void (*layer_norm_line_f32)(int64_t n, const float *x, const float *weight, const float *bias,
                                float eps, float *y);
    /* F32, F64, U32, U64; wide and dots: floats only. */
    tp_gemm_kernel gemm[TP_DTYPE_COUNT];
} tp_cpu_loops;

/* The table for this machine. */
const tp_cpu_loops *tp_cpu_loops_get(void);

#endif
