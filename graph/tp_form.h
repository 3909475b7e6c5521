/* The .tp text form, for print.c and parse.c.
 *
 *   # comment, to the end of the line
 *   %0 = data f32 [2,3] {1, 2, 3, 4, 5, 6} "x"
 *   %1 = permute %0 [1,0]
 *   %2 = sum %1 [0,1]
 *   return %2
 *
 * A line is: number = op, then operands, a dtype, [integers], numbers, {values}, "name", as the op
 * needs them. Integers are the node's attributes (struct tp_tensor); `end` is TP_END. Numbers are
 * what strtod reads, hexadecimal floats, inf and nan included, always with a point.
 *
 * Data with strides is `data f32 [2,3] strides [1,2] offset 0 of 6 {..}`: the values are the
 * storage's. More than TP_FORM_VALUES values are printed as `pattern` and a comment that says
 * so; it reads back as the fixed integers i -> (7 i mod 11) - 5 (unsigned types without the -5,
 * bool 0 or 1): the shape of the program is kept, the values are not. Any number of values may
 * be written out. */
#ifndef TP_FORM_H
#define TP_FORM_H

#include "graph.h"

#define TP_FORM_VALUES 64

static inline int64_t tp_form_pattern(tp_dtype dtype, int64_t i)
{
    int64_t x = 7 * (i % 11) % 11;
    if (dtype == TP_BOOL) return i % 11 % 2;
    return tp_dtype_kind_of(dtype) == TP_DTYPE_UINT ? x : x - 5;
}

#endif
