/* What a reduction keeps of the elements it has seen, for one result or a row of them. */
#ifndef TP_CPU_ACCUMULATE_H
#define TP_CPU_ACCUMULATE_H

#include "loops.h"

/* Results that are worked on side by side. */
#define TP_MOST_COLUMNS 512
/* Elements of a chunk: a sum over them is one entry of the pairwise tree. */
#define TP_SUM_CHUNK (32 * TP_SUM_BLOCK)

typedef struct tp_accumulator {
    const tp_cpu_loops *loops;
    tp_op op;        /* a reduction of ops.def */
    tp_dtype type;   /* compute type of the elements */
    int64_t size;    /* of it */
    int64_t columns; /* results */
    char *lane;  /* sums and products: LANES x columns partial ones; else the best of each column */
    char *stack; /* of them: entries of the pairwise tree, each `columns` wide */
    int64_t *index;  /* argmax and argmin: where the best is */
    int32_t *recent; /* the same of the latest elements, counted from `since`; -1: not there */
    int64_t since;
    int64_t at;     /* elements seen, by column */
    int64_t blocks; /* entries that the tree has taken */
    int levels;     /* entries on the stack */
} tp_accumulator;

/* Whether the results are positions: argmax and argmin. */
bool tp_accumulator_finds(const tp_accumulator *acc);
/* Bytes of memory for tp_accumulator_init with so many columns at most. */
size_t tp_accumulator_bytes(int64_t most);
void tp_accumulator_init(tp_accumulator *acc, const tp_cpu_loops *loops, tp_op op, tp_dtype type,
                         int64_t most, char *memory);
/* Forgets everything; 1 <= columns <= most. */
void tp_accumulator_begin(tp_accumulator *acc, int64_t columns);
/* Takes n more elements of each column: x is n rows of columns, a row's elements dense, rows `step`
 * elements apart. */
void tp_accumulator_take(tp_accumulator *acc, int64_t n, const char *x, int64_t step);
/* The results, `columns` elements of the type; with index where it finds positions. */
const char *tp_accumulator_finish(tp_accumulator *acc);
/* Takes what another one finished over the next TP_SUM_CHUNK elements (the last chunk may be
 * shorter): its results and, if it finds them, their positions counted from the start of all. */
void tp_accumulator_merge(tp_accumulator *acc, const char *result, const int64_t *index);

#endif
