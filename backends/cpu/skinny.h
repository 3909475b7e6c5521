/* Products with few rows or few columns. */
#ifndef TP_CPU_SKINNY_H
#define TP_CPU_SKINNY_H

#include "own_gemm.h"

/* Whether tp_skinny takes the product and is worth it. */
bool tp_skinny_takes(const tp_product *p);
tp_status tp_skinny(tp_context *context, const tp_product *p, int threads);
/* The transposed product, C^T = B^T A^T. */
tp_product tp_product_turned(const tp_product *p);

#endif
