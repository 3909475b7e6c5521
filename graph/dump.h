/* Which nodes a text or picture of the asked graph shows, and under which numbers. */
#ifndef TP_DUMP_H
#define TP_DUMP_H

#include "graph.h"

/* What outputs depend on, numbered densely in the order of ids. An evaluated node is shown as
 * data and hides what made it - but not where an as_strided further up counts its addresses in
 * the storage below: the views on that path are shown as the views they are. */
typedef struct tp_dump {
    tp_graph *graph;
    int64_t *number; /* by id; only for nodes that are shown */
    uint8_t *shown;  /* by id: TP_SHOWN_* bits, 0: not shown */
    int64_t count;   /* of nodes shown */
} tp_dump;

enum { TP_SHOWN_OP = 1, TP_SHOWN_DATA = 2, TP_SHOWN_OUTPUT = 4 };

static inline bool tp_dump_is_data(const tp_dump *dump, const tp_tensor *x)
{
    return dump->shown[x->id] & TP_SHOWN_DATA;
}

/* what: the name of the caller, for errors. False with the error recorded; then there is
 * nothing to end. */
bool tp_dump_begin(tp_dump *dump, const char *what, tp_graph *graph, int count,
                   tp_tensor *const *outputs);
void tp_dump_end(tp_dump *dump);

#endif
