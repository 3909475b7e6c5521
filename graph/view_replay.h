/* A view node's step of geometry, applied to another layout of its input. */
#ifndef TP_VIEW_REPLAY_H
#define TP_VIEW_REPLAY_H

#include "graph.h"

/* The view x would have if its input lay as `in`; false if it has none (as_strided names
 * absolute addresses). */
bool tp_view_replay(const tp_tensor *x, const tp_view *in, tp_view *view);

#endif
