/* Between the two halves of the .tp reader: parse.c scans, parse_build.c calls the builders. */
#ifndef TP_PARSE_H
#define TP_PARSE_H

#include "tp_form.h"

/* The parts of one line. */
typedef struct tp_parse_line {
    tp_op op;
    int in_count;
    tp_tensor *in[3];
    bool has_dtype, has_strides, pattern;
    tp_dtype dtype;
    int count, stride_count; /* of ints, strides */
    int64_t ints[2 * TP_MAX_RANK + 1], strides[2 * TP_MAX_RANK + 1];
    int64_t offset, storage;
    int number_count;
    char number[2][64];
    const char *values; /* behind {, NULL: none */
    char name[256];
    bool has_name;
} tp_parse_line;

typedef struct tp_parser {
    tp_graph *graph;
    const char *text, *at;
    int64_t first;    /* nodes before parsing began */
    tp_tensor **node; /* by number in the text */
    int64_t node_count, node_capacity;
} tp_parser;

/* Records what is wrong where the parser stands. */
tp_status tp_parse_fail(tp_parser *p, const char *what);
void tp_parse_skip_blanks(tp_parser *p);
bool tp_parse_take(tp_parser *p, char c);
/* A number as a word in this locale's spelling. */
tp_status tp_parse_number(tp_parser *p, char *to, size_t size);

/* Whether the line has the parts that its op needs. */
tp_status tp_parse_check(tp_parser *p, const tp_parse_line *l);
/* The node of a checked line; NULL with the cause recorded. */
tp_tensor *tp_parse_build(tp_parser *p, tp_parse_line *l);

#endif
