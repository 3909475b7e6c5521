/* Reading the small languages of index.c, rearrange.c and einsum.c: errors point at a character. */
#ifndef TP_PATTERN_H
#define TP_PATTERN_H

#include "graph.h"

typedef struct tp_pattern {
    tp_graph *graph;
    const char *op, *text, *at;
} tp_pattern;

/* Records `op: "text", character n: what`. */
tp_status tp_pattern_fail(const tp_pattern *p, const char *what);
void tp_pattern_skip(tp_pattern *p);
/* Takes a word or sign if it comes next, blanks skipped. */
bool tp_pattern_take(tp_pattern *p, const char *word);
/* Takes an integer; false if none comes next or it does not fit 63 bits. */
bool tp_pattern_integer(tp_pattern *p, int64_t *value);

#endif
