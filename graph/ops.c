/* The op list as data: ops.def expanded once. */
#include "graph.h"

#include <string.h>

const tp_op_info tp_op_infos[TP_OP_COUNT] = {
#define UNARY(ENUM, name, family, rule, cost, ...) {#name, TP_KIND_UNARY, TP_RULE_##rule, cost},
#define BINARY(ENUM, name, family, rule, cost, ...) {#name, TP_KIND_BINARY, TP_RULE_##rule, cost},
#define TERNARY(ENUM, name, family, rule, cost, ...) {#name, TP_KIND_TERNARY, TP_RULE_##rule, cost},
#define TEST(ENUM, name, family, rule, cost, ...) {#name, TP_KIND_TEST, TP_RULE_##rule, cost},
#define COMPARE(ENUM, name, family, rule, cost, ...) {#name, TP_KIND_COMPARE, TP_RULE_##rule, cost},
#define REDUCE(ENUM, name, rule, ...) {#name, TP_KIND_REDUCE, TP_RULE_##rule, 1},
#define VIEW(ENUM, name, ...) {#name, TP_KIND_VIEW, TP_RULE_KEEP, 0},
#define COMPUTE(ENUM, name, ...) {#name, TP_KIND_COMPUTE, TP_RULE_KEEP, 0},
#include "ops.def"
};

tp_op tp_op_find(const char *name, size_t length)
{
    for (int op = 0; op < TP_OP_COUNT; op++) {
        if (strlen(tp_op_infos[op].name) == length &&
            memcmp(tp_op_infos[op].name, name, length) == 0)
            return (tp_op)op;
    }
    return TP_OP_COUNT;
}
