/* Kernels that work along one axis, line by line. A line is worked on by one thread from its first
 * element to its last: the same bits with any number of threads. */
#ifndef TP_CPU_ALONG_H
#define TP_CPU_ALONG_H

#include "nest.h"

/* Elements of a line that are converted at once. */
#define TP_ALONG_TILE 256

typedef struct tp_along {
    const tp_step *step;
    tp_context *context;
    tp_nest nest;      /* all dims but the axis: out, then the operands */
    int64_t n;         /* elements of a line of the domain */
    int64_t size;      /* of the axis that indices count in */
    int64_t stride[3]; /* along the axis, of out and the operands, in bytes */
    int64_t inner;     /* elements of the domain between two of a line, in row-major order */
    int64_t bad;       /* the lowest row-major position of an index out of range */
    int failed;        /* out of memory */
} tp_along;

void tp_along_start(tp_along *j, const tp_step *step, const tp_run *run);
/* Element 0 of a line of out (0) or an operand (1, ..). */
char *tp_along_line(const tp_along *j, int operand, int64_t line);
/* fn on ranges of lines, in parallel. */
void tp_along_run(tp_along *j, const tp_run *run, void (*fn)(void *, int64_t, int64_t));

#endif
