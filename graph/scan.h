/* The words of the .tp form, one after the other. */
#ifndef TP_SCAN_H
#define TP_SCAN_H

#include "graph.h"

typedef struct tp_scan {
    tp_graph *graph; /* for errors */
    const char *text, *at;
} tp_scan;

/* Records "line 3, column 12: what" for the place `at`; gives TP_E_FORMAT. */
tp_status tp_scan_fail(tp_scan *scan, const char *at, const char *what);
/* The same place before the sentence of a builder that has just failed. */
void tp_scan_blame(tp_scan *scan, const char *at);

/* Blanks and a comment; stays on the line. */
void tp_scan_skip(tp_scan *scan);
/* True, and behind it, if this is next after blanks. A word ends where letters, digits and _ do. */
bool tp_scan_take(tp_scan *scan, char c);
bool tp_scan_take_word(tp_scan *scan, const char *word);
size_t tp_scan_word_length(const tp_scan *scan);

/* An integer or `end` (TP_END). */
tp_status tp_scan_integer(tp_scan *scan, int64_t *value);
/* a,b,c] whose [ is taken; room values at most. */
tp_status tp_scan_list(tp_scan *scan, int room, int *count, int64_t *values);
/* A number of a dtype; integers must fit it. */
tp_status tp_scan_number(tp_scan *scan, tp_dtype dtype, tp_value *value);
/* Over characters of a number, without looking at them. */
tp_status tp_scan_skip_number(tp_scan *scan);
/* A string whose " is taken, to its end. to NULL: only over it; else to holds what it means,
 * which is never longer. */
tp_status tp_scan_string(tp_scan *scan, char *to);

#endif
