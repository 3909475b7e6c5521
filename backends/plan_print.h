/* What the text and the picture of a plan share. */
#ifndef TP_PLAN_PRINT_H
#define TP_PLAN_PRINT_H

#include "backend.h"

/* "matmul", or for a fused step the ops in it: "mul, add". */
void tp_plan_add_ops(tp_text *text, const tp_step *step);
/* The user's name of a node, else its op. */
void tp_plan_add_name(tp_text *text, const tp_tensor *x);
/* "7 kernels, 0 copies (4 removed, 512.0 MiB not written)". */
void tp_plan_add_verdict(tp_text *text, const tp_plan *plan);
void tp_plan_add_bytes(tp_text *text, int64_t bytes);
/* The step whose result is, or that first reads, what a removed copy stood for; -1: none. */
int tp_plan_absorber(const tp_plan *plan, const tp_copy *copy);

#endif
