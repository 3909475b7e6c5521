/* tp_index: NumPy's basic indexing as a string, put together from views. */
#include "pattern.h"

/* What follows the first colon of start:stop:step, each part optional. */
static tp_status slice(tp_pattern *p, int64_t *stop, int64_t *step)
{
    *stop = TP_END;
    *step = 1;
    tp_pattern_integer(p, stop);
    if (tp_pattern_take(p, ":") && !tp_pattern_integer(p, step)) *step = 1;
    return *step ? TP_OK : tp_pattern_fail(p, "step is 0");
}

/* How many axes the items behind an ellipsis use up. */
static int axes_behind(tp_pattern p)
{
    int axes = 0;
    while (tp_pattern_take(&p, ",")) {
        tp_pattern_skip(&p);
        if (!*p.at) break; /* a comma at the end */
        axes += !tp_pattern_take(&p, "None");
        while (*p.at && *p.at != ',') p.at++;
    }
    return axes;
}

/* One item; axis is where it applies, and moves on. */
static tp_tensor *item(tp_pattern *p, tp_tensor *x, int *axis, bool *ellipsis)
{
    int64_t start, stop, step;
    if (tp_pattern_take(p, "None")) return tp_unsqueeze(x, (*axis)++);
    if (tp_pattern_take(p, "...")) {
        int behind = axes_behind(*p);
        if (*ellipsis) return tp_pattern_fail(p, "a second ellipsis"), NULL;
        if (behind > x->view->ndim - *axis) return tp_pattern_fail(p, "more items than axes"), NULL;
        *ellipsis = true;
        *axis = x->view->ndim - behind;
        return x;
    }
    bool given = tp_pattern_integer(p, &start);
    bool range = tp_pattern_take(p, ":");
    if (!given && !range)
        return tp_pattern_fail(p, "expected an integer, a slice, None or ..."), NULL;
    if (*axis >= x->view->ndim) return tp_pattern_fail(p, "more items than axes"), NULL;
    if (!range) return tp_select(x, *axis, start);
    if (!given) start = TP_END;
    if (slice(p, &stop, &step) != TP_OK) return NULL;
    return tp_slice(x, (*axis)++, start, stop, step);
}

tp_tensor *tp_index(tp_tensor *x, const char *text)
{
    if (!x || !text) return NULL;
    tp_pattern p = {x->graph, "index", text, text};
    int axis = 0;
    bool ellipsis = false;
    tp_pattern_skip(&p);
    while (*p.at) {
        x = item(&p, x, &axis, &ellipsis);
        if (!x) return NULL;
        if (!tp_pattern_take(&p, ",")) break;
        tp_pattern_skip(&p);
    }
    tp_pattern_skip(&p);
    if (*p.at) return tp_pattern_fail(&p, "expected , or the end"), NULL;
    return x;
}
