/* What the files of clone share. */
#ifndef TP_CLONE_H
#define TP_CLONE_H

#include "pass.h"

typedef struct tp_cloner {
    tp_work *work;
    tp_status status; /* of what is not a matter of memory */
} tp_cloner;

/* A new working node for an asked one. */
tp_wnode *tp_clone_node(tp_cloner *c, tp_tensor *asked, int op);
/* Room for operands; false without memory. */
bool tp_clone_edges(tp_cloner *c, tp_wnode *node, int count);
/* Which working node the readers of an asked tensor read, and how. */
int tp_clone_source(const tp_cloner *c, const tp_tensor *x, const tp_view **view);
/* An edge of a node of x that reads an asked operand; false without memory. */
bool tp_clone_edge(tp_cloner *c, const tp_tensor *x, tp_edge *edge, tp_tensor *in);
/* A dense copy of what an asked tensor's readers see; gives its number, -1 without memory. */
int tp_clone_copy(tp_cloner *c, tp_tensor *x, int source, const tp_view *view, tp_dtype dtype);
/* Counts a node as a copy that the user's graph makes. */
void tp_clone_count_copy(tp_cloner *c, tp_wnode *node);

/* clone_parts.c; false without memory. */
bool tp_clone_concat(tp_cloner *c, tp_tensor *x);
bool tp_clone_pad(tp_cloner *c, tp_tensor *x);
bool tp_clone_update(tp_cloner *c, tp_tensor *x);
bool tp_clone_scatter(tp_cloner *c, tp_tensor *x);

#endif
