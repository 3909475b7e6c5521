/* tp_rearrange: "b s (h d) -> b h s d" as a reshape, a permute and a reshape. The first and the
 * last are views wherever strides allow; passes drop a copy that is not needed. */
#include "pattern.h"

#include <string.h>

typedef struct axis {
    const char *name;
    int length;
    int64_t size; /* -1: not known yet */
} axis;

/* One side: axes in order, and the groups they form. */
typedef struct side {
    int axes, groups;
    axis axis[TP_MAX_RANK];
    int first[TP_MAX_RANK + 1]; /* of each group; a group may be empty: () or 1 */
} side;

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
}

static axis *find(side *s, const axis *a)
{
    for (int i = 0; i < s->axes; i++) {
        if (s->axis[i].length == a->length &&
            memcmp(s->axis[i].name, a->name, (size_t)a->length) == 0)
            return &s->axis[i];
    }
    return NULL;
}

static tp_status read_axis(tp_pattern *p, side *s)
{
    axis a = {.name = p->at, .size = -1};
    while (is_letter(p->at[a.length])) a.length++;
    if (!a.length) return tp_pattern_fail(p, "expected a name, ( or the end of this side");
    if (s->axes == TP_MAX_RANK) return tp_pattern_fail(p, "too many axes");
    if (a.length == 1 && *a.name == '1') { /* an axis of size 1 without a name */
        p->at++;
        return TP_OK;
    }
    if (find(s, &a)) return tp_pattern_fail(p, "this name stands twice on one side");
    s->axis[s->axes++] = a;
    p->at += a.length;
    return TP_OK;
}

static tp_status read_side(tp_pattern *p, side *s)
{
    for (tp_pattern_skip(p); *p->at && strncmp(p->at, "->", 2) != 0; tp_pattern_skip(p)) {
        if (s->groups == TP_MAX_RANK) return tp_pattern_fail(p, "too many dims");
        s->first[s->groups++] = s->axes;
        if (!tp_pattern_take(p, "(")) {
            TRY(read_axis(p, s));
            continue;
        }
        while (!tp_pattern_take(p, ")")) TRY(read_axis(p, s));
    }
    s->first[s->groups] = s->axes;
    return TP_OK;
}

/* Sizes from the caller and from x's dims; one unknown in each group. */
static tp_status find_sizes(tp_pattern *p, side *s, const tp_view *x, int count,
                            const tp_axis_size *sizes)
{
    if (s->groups != x->ndim)
        return tp_pattern_fail(p, "the left side has another number of dims than the tensor");
    for (int i = 0; i < count; i++) {
        axis given = {.name = sizes[i].name, .length = (int)strlen(sizes[i].name)},
             *a = find(s, &given);
        if (!a || sizes[i].size < 0)
            return tp_pattern_fail(
                p, "a size is given for a name that is not on the left, or is negative");
        a->size = sizes[i].size;
    }
    for (int g = 0; g < s->groups; g++) {
        int64_t known = 1;
        axis *unknown = NULL;
        for (int i = s->first[g]; i < s->first[g + 1]; i++) {
            if (s->axis[i].size < 0 && unknown)
                return tp_pattern_fail(p, "a group has two axes of unknown size");
            if (s->axis[i].size < 0)
                unknown = &s->axis[i];
            else if (__builtin_mul_overflow(known, s->axis[i].size, &known))
                return tp_pattern_fail(p, "the sizes multiply to more than 2^63-1");
        }
        bool fits = unknown ? known > 0 && x->shape[g] % known == 0 : known == x->shape[g];
        if (fits && unknown) unknown->size = x->shape[g] / known;
        if (!fits) {
            char text[400];
            tp_view_print_shape(x, text, sizeof text);
            return tp_graph_fail(
                p->graph, TP_E_SHAPE, p->op, g,
                "\"%.100s\": dim %d of %s does not split into axes of product %lld", p->text, g,
                text, (long long)known);
        }
    }
    return TP_OK;
}

static tp_tensor *apply(tp_pattern *p, tp_tensor *x, side *from, side *to)
{
    int64_t split[TP_MAX_RANK], order[TP_MAX_RANK], merged[TP_MAX_RANK];
    for (int i = 0; i < from->axes; i++) split[i] = from->axis[i].size;
    for (int i = 0; i < to->axes; i++) {
        const axis *a = find(from, &to->axis[i]);
        if (!a) return tp_pattern_fail(p, "a name on the right is not on the left"), NULL;
        to->axis[i].size = a->size;
        order[i] = a - from->axis;
    }
    if (to->axes != from->axes)
        return tp_pattern_fail(p, "a name on the left is not on the right"), NULL;
    for (int g = 0; g < to->groups; g++) {
        merged[g] = 1;
        for (int i = to->first[g]; i < to->first[g + 1]; i++) merged[g] *= to->axis[i].size;
    }
    return tp_reshape(tp_permute(tp_reshape(x, from->axes, split), from->axes, order), to->groups,
                      merged);
}

tp_tensor *tp_rearrange(tp_tensor *x, const char *text, int count, const tp_axis_size *sizes)
{
    if (!x || !text) return NULL;
    tp_pattern p = {x->graph, "rearrange", text, text};
    side from = {0}, to = {0};
    if (read_side(&p, &from) != TP_OK) return NULL;
    if (!tp_pattern_take(&p, "->")) return tp_pattern_fail(&p, "expected ->"), NULL;
    if (read_side(&p, &to) != TP_OK) return NULL;
    if (*p.at) return tp_pattern_fail(&p, "a second ->"), NULL;
    if (find_sizes(&p, &from, x->view, count, sizes) != TP_OK) return NULL;
    return apply(&p, x, &from, &to);
}
