/* tp_einsum: products of up to four operands by labels, from left to right.
 *
 * A label that stands twice in one operand takes its diagonal; one that nobody needs later is
 * summed. Of two operands, labels in both are batch (needed later) or depth (not), the others
 * rows and columns. Only the largest row and column label become the matrix; further ones are
 * batch dims that the other operand does not walk, which the GEMM arguments fold back where memory
 * allows - so nothing is copied to bring them together. Several depth labels are merged. */
#include "pattern.h"

#include <string.h>

#define MOST_OPERANDS 4

/* A tensor whose dims carry labels. */
typedef struct labelled {
    tp_tensor *x;
    int count;
    char label[TP_MAX_RANK + 1];
} labelled;

typedef struct labels {
    int count;
    char label[128]; /* 52 letters and the dims of one more operand */
} labels;

static int position(const char *list, int count, char label)
{
    for (int i = 0; i < count; i++) {
        if (list[i] == label) return i;
    }
    return -1;
}

static bool has(const labelled *t, char label)
{
    return position(t->label, t->count, label) >= 0;
}

static void drop_label(labelled *t, int i)
{
    t->count--;
    for (; i < t->count; i++) t->label[i] = t->label[i + 1];
}

/* ---- The text --------------------------------------------------------------------------- */

static bool is_label(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static tp_status read_labels(tp_pattern *p, labelled *t)
{
    for (tp_pattern_skip(p); is_label(*p->at); tp_pattern_skip(p)) {
        if (t->count == TP_MAX_RANK) return tp_pattern_fail(p, "too many labels");
        t->label[t->count++] = *p->at++;
    }
    return TP_OK;
}

static tp_status read_text(tp_pattern *p, int operands, labelled *in, labelled *out)
{
    for (int i = 0; i < operands; i++) {
        if (i && !tp_pattern_take(p, ","))
            return tp_pattern_fail(p, "expected , and the labels of another operand");
        TRY(read_labels(p, &in[i]));
        if (in[i].count == in[i].x->view->ndim) continue;
        char text[400];
        tp_view_print_shape(in[i].x->view, text, sizeof text);
        return tp_graph_fail(p->graph, TP_E_SHAPE, p->op, -1,
                             "\"%.100s\": operand %d is %s and has %d labels", p->text, i, text,
                             in[i].count);
    }
    if (!tp_pattern_take(p, "->")) return tp_pattern_fail(p, "expected -> or ,");
    TRY(read_labels(p, out));
    if (*p->at) return tp_pattern_fail(p, "expected a label or the end");
    for (int i = 0; i < out->count; i++) {
        bool known = false;
        for (int k = 0; k < operands; k++) known = known || has(&in[k], out->label[i]);
        if (!known) return tp_pattern_fail(p, "a label of the result is in no operand");
        if (position(out->label, i, out->label[i]) >= 0)
            return tp_pattern_fail(p, "a label of the result stands twice");
    }
    return TP_OK;
}

/* Every label has one size. */
static tp_status check_sizes(tp_pattern *p, int operands, const labelled *in)
{
    int64_t size[128];
    for (int c = 0; c < 128; c++) size[c] = -1;
    for (int k = 0; k < operands; k++) {
        for (int d = 0; d < in[k].count; d++) {
            int64_t *known = &size[(int)in[k].label[d]], here = in[k].x->view->shape[d];
            if (*known >= 0 && *known != here)
                return tp_graph_fail(p->graph, TP_E_SHAPE, p->op, d,
                                     "\"%.100s\": label %c is %lld and, in operand %d, %lld",
                                     p->text, in[k].label[d], (long long)*known, k,
                                     (long long)here);
            *known = here;
        }
    }
    return TP_OK;
}

/* ---- One operand, two operands -------------------------------------------------------------- */

/* Diagonals of labels that stand twice; sums over those that needed has not. */
static void simplify(labelled *t, const labels *needed)
{
    for (int i = 0; i < t->count; i++) {
        int first = position(t->label, i, t->label[i]);
        if (first < 0) continue;
        char label = t->label[i];
        t->x = tp_diagonal(t->x, 0, first, i); /* the diagonal becomes the last dim */
        drop_label(t, i);
        drop_label(t, first);
        t->label[t->count++] = label;
        i = -1; /* anew */
    }
    int64_t axes[TP_MAX_RANK];
    int count = 0;
    for (int i = t->count - 1; i >= 0; i--) {
        if (position(needed->label, needed->count, t->label[i]) >= 0) continue;
        axes[count++] = i;
        drop_label(t, i);
    }
    if (count) t->x = tp_sum(t->x, count, axes, false);
}

/* t's dims in the order of a list; labels it does not have come in with size 1. */
static tp_tensor *arranged(const labelled *t, int count, const char *order)
{
    tp_tensor *x = t->x;
    int64_t axes[TP_MAX_RANK] = {0};
    int used = 0;
    for (int i = 0; i < count; i++) {
        int at = position(t->label, t->count, order[i]);
        if (at >= 0) axes[used++] = at;
    }
    x = tp_permute(x, used, axes);
    for (int i = 0; i < count; i++) {
        if (!has(t, order[i])) x = tp_unsqueeze(x, i);
    }
    return x;
}

/* Moves the largest label of a list to its end. */
static void largest_last(const labelled *t, int count, char *list)
{
    for (int i = 0; i + 1 < count; i++) {
        int64_t here = t->x->view->shape[position(t->label, t->count, list[i])];
        int64_t last = t->x->view->shape[position(t->label, t->count, list[count - 1])];
        if (here <= last) continue;
        char label = list[i];
        list[i] = list[count - 1];
        list[count - 1] = label;
    }
}

/* Merges the depth dims, last in a and first of the last in b, into one. */
static tp_tensor *merge_depth(tp_tensor *x, int from, int count)
{
    if (!x || count == 1) return x;
    return count ? tp_flatten(x, from, from + count - 1) : tp_unsqueeze(x, from);
}

static void contract(labelled *a, labelled *b, const labels *needed, labelled *y)
{
    char batch[2 * TP_MAX_RANK], depth[TP_MAX_RANK], rows[TP_MAX_RANK], cols[TP_MAX_RANK];
    int nb = 0, nd = 0, nr = 0, nc = 0;
    for (int i = 0; i < a->count; i++) {
        bool shared = has(b, a->label[i]),
             later = position(needed->label, needed->count, a->label[i]) >= 0;
        if (!shared)
            rows[nr++] = a->label[i];
        else if (later)
            batch[nb++] = a->label[i];
        else
            depth[nd++] = a->label[i];
    }
    for (int i = 0; i < b->count; i++) {
        if (!has(a, b->label[i])) cols[nc++] = b->label[i];
    }
    largest_last(a, nr, rows);
    largest_last(b, nc, cols);
    for (int i = 0; i + 1 < nr; i++) batch[nb++] = rows[i];
    for (int i = 0; i + 1 < nc; i++) batch[nb++] = cols[i];
    char left[2 * TP_MAX_RANK], right[2 * TP_MAX_RANK];
    int nl = nb, nright = nb;
    memcpy(left, batch, (size_t)nb);
    memcpy(right, batch, (size_t)nb);
    if (nr) left[nl++] = rows[nr - 1];
    memcpy(left + nl, depth, (size_t)nd);
    memcpy(right + nright, depth, (size_t)nd);
    nright += nd;
    if (nc) right[nright++] = cols[nc - 1];
    tp_tensor *x = arranged(a, nl + nd, left), *z = arranged(b, nright, right);
    if (!nr) x = tp_unsqueeze(x, nb);
    if (!nc) z = tp_unsqueeze(z, nb + nd);
    x = tp_matmul(merge_depth(x, nb + 1, nd), merge_depth(z, nb, nd));
    if (!nc) x = tp_squeeze(x, -1);
    if (!nr) x = tp_squeeze(x, nb);
    *y = (labelled){.x = x, .count = nb};
    memcpy(y->label, batch, (size_t)nb);
    if (nr) y->label[y->count++] = rows[nr - 1];
    if (nc) y->label[y->count++] = cols[nc - 1];
}

/* Labels of the result and of operands from `first` on. */
static labels needed_later(const labelled *out, int operands, const labelled *in, int first)
{
    labels l = {0};
    for (int k = first; k <= operands; k++) {
        const labelled *t = k == operands ? out : &in[k];
        for (int i = 0; i < t->count; i++) {
            if (position(l.label, l.count, t->label[i]) < 0) l.label[l.count++] = t->label[i];
        }
    }
    return l;
}

static tp_tensor *run(int operands, labelled *in, const labelled *out)
{
    labelled y = in[0];
    labels later = needed_later(out, operands, in, 1);
    simplify(&y, &later);
    for (int k = 1; k < operands && y.x; k++) {
        labelled a = y;
        labels mine = {.count = a.count};
        memcpy(mine.label, a.label, (size_t)a.count);
        later = needed_later(out, operands, in, k + 1);
        for (int i = 0; i < later.count; i++) mine.label[mine.count++] = later.label[i];
        simplify(&in[k], &mine); /* keeps what the left side or somebody later has */
        labels both = later;
        for (int i = 0; i < in[k].count; i++) both.label[both.count++] = in[k].label[i];
        simplify(&a, &both);
        if (!a.x || !in[k].x) return NULL;
        contract(&a, &in[k], &later, &y);
    }
    if (!y.x) return NULL;
    return arranged(&y, out->count, out->label);
}

tp_tensor *tp_einsum(const char *text, int operands, tp_tensor *const *x)
{
    labelled in[MOST_OPERANDS] = {0}, out = {0};
    if (!text || operands < 1 || operands > MOST_OPERANDS || !x || !x[0]) return NULL;
    for (int i = 0; i < operands; i++) {
        if (!x[i]) return NULL;
        if (x[i]->graph != x[0]->graph) {
            tp_graph_fail(x[0]->graph, TP_E_ARGUMENT, "einsum", -1,
                          "the operands belong to different graphs");
            return NULL;
        }
        in[i].x = x[i];
    }
    tp_pattern p = {x[0]->graph, "einsum", text, text};
    if (read_text(&p, operands, in, &out) != TP_OK || check_sizes(&p, operands, in) != TP_OK)
        return NULL;
    return run(operands, in, &out);
}
