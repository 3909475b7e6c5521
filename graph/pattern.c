/* The scanner that the small languages share. */
#include "pattern.h"

#include <string.h>

tp_status tp_pattern_fail(const tp_pattern *p, const char *what)
{
    return tp_graph_fail(p->graph, TP_E_ARGUMENT, p->op, -1, "\"%.200s\", character %d: %s",
                         p->text, (int)(p->at - p->text) + 1, what);
}

void tp_pattern_skip(tp_pattern *p)
{
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n') p->at++;
}

bool tp_pattern_take(tp_pattern *p, const char *word)
{
    tp_pattern_skip(p);
    size_t n = strlen(word);
    if (strncmp(p->at, word, n) != 0) return false;
    p->at += n;
    return true;
}

bool tp_pattern_integer(tp_pattern *p, int64_t *value)
{
    tp_pattern_skip(p);
    const char *c = p->at + (*p->at == '-' || *p->at == '+');
    int64_t size = 0;
    if (*c < '0' || *c > '9') return false;
    for (; *c >= '0' && *c <= '9'; c++) {
        if (__builtin_mul_overflow(size, 10, &size) ||
            __builtin_add_overflow(size, *c - '0', &size))
            return false;
    }
    *value = *p->at == '-' ? -size : size;
    p->at = c;
    return true;
}
