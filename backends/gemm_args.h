/* Which BLAS calls a product of three views becomes; host code, shared by backends. */
#ifndef TP_GEMM_ARGS_H
#define TP_GEMM_ARGS_H

#include "backend.h"

/* C = op(A) op(B) per batch index, in column-major BLAS terms if col_major, else row-major.
 * Element offsets. Loops outer to inner: `loops` dims of count/stride; c strides are never 0.
 * If swapped, A and B of the call are operand 1 and 0 (C^T = B^T A^T); the fields below are
 * those of the call. */
typedef struct tp_gemm {
    int64_t m, n, k;
    bool swapped;
    bool trans_a, trans_b;
    int64_t lda, ldb, ldc;
    int64_t offset_a, offset_b, offset_c;
    int loops;
    int64_t count[TP_MAX_RANK];
    int64_t stride_a[TP_MAX_RANK], stride_b[TP_MAX_RANK], stride_c[TP_MAX_RANK];
} tp_gemm;

/* Fills *gemm (row-major call). Gives TP_REASON_NONE, or GEMM_NO_UNIT_STRIDE / GEMM_LD and, in
 * *operand, which of a, b, c (0, 1, 2) is to blame. Views as in TP_STEP_MATMUL. m, n, k or a
 * count may be 0. */
tp_reason tp_gemm_args(const tp_view *a, const tp_view *b, const tp_view *c, tp_gemm *gemm,
                       int *operand);

#endif
