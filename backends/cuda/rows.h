/* What reductions and row kernels share: a row is what is reduced to one value, or worked on as a
 * whole. A block has `columns` rows at a time, and `lanes` threads for each, which take its
 * elements by turns. Where neighbouring rows are neighbours in memory, neighbouring threads have
 * different rows; else they work on the same. */
#ifndef TP_CUDA_ROWS_H
#define TP_CUDA_ROWS_H

#include "text.h"

typedef struct tp_cuda_rows {
    const tp_step *step;
    tp_cuda_space kept, reduced; /* operand 0 is out, then the step's */
    const char *at[TP_CUDA_OPERANDS];
    tp_dtype dtype[TP_CUDA_OPERANDS];
    int64_t count, size; /* of rows; of elements in one */
    int lanes, columns, threads;
    bool across; /* neighbouring threads have different rows */
    bool narrow;
} tp_cuda_rows;

/* The elements of a row are counted in the domain's order. lanes: 32 or 256. */
void tp_cuda_rows_make(tp_cuda_rows *rows, const tp_step *step, const tp_run *run, int lanes);
/* The fields: x0 .. addresses, rows, size, and the spaces under k and r. */
void tp_cuda_rows_add_args(tp_cuda_args *args, const tp_cuda_rows *rows);
/* Declares lane and column. */
void tp_cuda_rows_add_head(tp_text *text, const tp_cuda_rows *rows);
/* Declares b0 .., where the operands' parts of row `row` begin. */
void tp_cuda_rows_add_begin(tp_text *text, const tp_cuda_rows *rows);
/* Declares r0 .. at element k, loads the prologue's operands and runs it: v<result>. */
void tp_cuda_rows_add_value(tp_text *text, const tp_cuda_rows *rows);
/* Joins <part>[tp_thread_x] of a row's lanes into that of lane 0, by `join`(a, b), a function that
 * changes *a. Barriers before and after. */
void tp_cuda_rows_add_tree(tp_text *text, const tp_cuda_rows *rows, const char *part,
                           const char *join);
/* Acc, start, add and join for sums: compensated for floats, so that they depend on the order of
 * elements by no more than a rounding; of type `type`. */
void tp_cuda_add_sum(tp_text *text, const char *type, bool is_float);

#endif
