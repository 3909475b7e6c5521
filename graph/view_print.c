/* Views as text, the form that errors, dumps and descriptions share. */
#include "graph.h"

#include <stdio.h>

/* "a,b,c" between two brackets, cut where size ends; gives the whole length. */
static int print_list(char *text, size_t size, const char *brackets, int count,
                      const int64_t *values)
{
    int used = snprintf(text, size, "%c", brackets[0]);
    for (int d = 0; d <= count; d++) {
        size_t room = (size_t)used < size ? size - (size_t)used : 0;
        char *at = room ? text + used : NULL;
        if (d == count)
            used += snprintf(at, room, "%c", brackets[1]);
        else
            used += snprintf(at, room, d ? ",%lld" : "%lld", (long long)values[d]);
    }
    return used;
}

int tp_view_print_shape(const tp_view *v, char *text, size_t size)
{
    return print_list(text, size, "[]", v->ndim, v->shape);
}

int tp_view_print(const tp_view *v, char *text, size_t size)
{
    char shape[400], stride[400];
    tp_view shown;
    tp_view_copy(&shown, v);
    tp_view_normalize(&shown);
    tp_view_print_shape(v, shape, sizeof shape);
    print_list(stride, sizeof stride, "()", shown.ndim, shown.stride);
    return snprintf(text, size, "%s : %s + %lld", shape, stride, (long long)v->offset);
}
