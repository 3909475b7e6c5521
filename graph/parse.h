/* One line of the .tp form between its scanner and its builder. */
#ifndef TP_PARSE_H
#define TP_PARSE_H

#include "scan.h"

#define TP_LINE_INTS (2 * TP_MAX_RANK + 1)

/* Parts that a line has at most once. */
enum {
    TP_PART_DTYPE = 1,
    TP_PART_LIST = 2,
    TP_PART_STRIDES = 4,
    TP_PART_VALUES = 8, /* {..} or pattern */
    TP_PART_NAME = 16
};

typedef struct tp_line {
    tp_op op;
    const char *at; /* where the op stands */
    unsigned parts;
    int in_count;
    tp_tensor **in; /* the parser's, reused line by line */
    tp_dtype dtype;
    int count, stride_count; /* of ints, strides */
    int64_t ints[TP_LINE_INTS], strides[TP_MAX_RANK];
    int64_t offset, storage; /* of data with strides */
    int number_count;
    const char *number[2]; /* where they stand */
    const char *values;    /* where they stand; NULL: pattern */
    const char *name;      /* behind its " */
    size_t name_size;      /* room for what it means */
} tp_line;

/* parse_build.c: the node that a line asks for, through the public builders. NULL with the error
 * recorded. Moves scan->at, which is of no use any more then. */
tp_tensor *tp_parse_node(tp_scan *scan, tp_line *line);

#endif
