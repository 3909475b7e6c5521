/* Building the little programs of steps. */
#ifndef TP_PROGRAM_H
#define TP_PROGRAM_H

#include "pass.h"

/* Appends what node does to operands that are values value[i] of dtype[i]: conversions to its
 * calc type where they differ, then its own instruction (none for a copy). Gives the number of
 * the result. The program has room for tp_program_room(node) more instructions. */
int tp_program_apply(tp_program *program, const tp_wnode *node, const int *value,
                     const uint8_t *dtype);
/* Instructions that apply may append. */
int tp_program_room(const tp_wnode *node);
/* Appends a conversion of a value unless it has that dtype; reuses an equal one. */
int tp_program_convert(tp_program *program, int value, uint8_t from, uint8_t to);

#endif
