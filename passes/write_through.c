/* write_through: a producer stores straight into the layout its copy would have.
 *
 * Let c = contiguous(v over s), where v visits every element of s's buffer once (a permute,
 * a flip, a reshape, in any order). Then c's buffer can be s's: s stores element i where v
 * would have brought it. With w the inverse of v, from a position in s's buffer to its
 * row-major position in c, the new store is w after the old one - if that is one strided
 * view. The other readers of s get w after their view. In the attention layer this makes
 * P V store its heads side by side with ldc = E.
 *
 * Falls: the number of copies. Legal when s is computed here and not delivered otherwise,
 * every reader of s can follow, and s's kernel stays as good with the new store. */
#include "pass.h"

typedef struct move {
    int copy, source;
    tp_view inverse; /* position in source's buffer -> position in the copy's */
    const tp_view *store;
    const tp_view **view; /* by user of source: its new view (unused for the copy itself) */
} move;

/* The source and shape of things allow it at all. */
static bool is_candidate(const tp_work *work, int n)
{
    const tp_wnode *copy = &work->node[n];
    if (copy->op != TP_OP_CONTIGUOUS || copy->alias || copy->dead || copy->elements) return false;
    const tp_edge *in = &copy->in[0];
    const tp_wnode *source = &work->node[in->node];
    if (source->op == TP_OP_DATA || source->alias || source->output || source->elements ||
        in->dtype != source->dtype)
        return false;
    /* What is written into later must have no other reader. */
    if (tp_work_writer(work, n) >= 0 &&
        tp_work_user(work, in->node, tp_work_user(work, in->node, source->users)->next))
        return false;
    if (tp_work_writer(work, in->node) >= 0) return false;
    return tp_view_numel(in->view) == tp_view_numel(source->store) && tp_view_numel(in->view) > 0 &&
           !tp_work_has_alias(work, in->node);
}

/* New views for the other readers of the source. */
static bool others_follow(tp_work *work, move *m)
{
    const tp_wnode *source = &work->node[m->source];
    int count = 0, i = 0, dims[2];
    tp_view moved;
    for (tp_edge *e = tp_work_user(work, m->source, source->users); e;
         e = tp_work_user(work, m->source, e->next))
        count++;
    m->view = tp_work_alloc(work, (size_t)count * sizeof *m->view);
    if (!m->view) return false;
    for (tp_edge *e = tp_work_user(work, m->source, source->users); e;
         e = tp_work_user(work, m->source, e->next)) {
        const tp_view **view = &m->view[i++];
        if (e->reader == m->copy) continue;
        if (e->dtype != source->dtype || !tp_view_compose(&m->inverse, e->view, &moved, dims))
            return false;
        *view = tp_work_view(work, &moved, e->view);
        if (!*view) return false;
    }
    return true;
}

static void swap(const tp_view **a, const tp_view **b)
{
    const tp_view *saved = *a;
    *a = *b;
    *b = saved;
}

/* Puts views and store in; gives what was there, so that calling it again takes it back. */
static void swap_layout(tp_work *work, move *m)
{
    tp_wnode *source = &work->node[m->source];
    int i = 0;
    for (tp_edge *e = tp_work_user(work, m->source, source->users); e;
         e = tp_work_user(work, m->source, e->next)) {
        const tp_view **view = &m->view[i++];
        if (e->reader != m->copy) swap(&e->view, view);
    }
    swap(&source->store, &m->store);
}

/* Sum of how far the backend has to go for the source and the products that read it; -1: out of
 * memory. */
static int ranks(tp_work *work, const move *m, tp_reason *why)
{
    const tp_wnode *source = &work->node[m->source];
    int sum = tp_work_kernel_rank(work, m->source, why);
    tp_reason other;
    for (tp_edge *e = tp_work_user(work, m->source, source->users); e && sum >= 0;
         e = tp_work_user(work, m->source, e->next)) {
        if (work->node[e->reader].op != TP_OP_MATMUL) continue;
        int rank = tp_work_kernel_rank(work, e->reader, &other);
        sum = rank < 0 ? -1 : sum + rank;
    }
    return sum;
}

/* Tries the move and leaves it done if all is well; else *why. */
static bool apply(tp_work *work, move *m, tp_reason *why)
{
    tp_wnode *copy = &work->node[m->copy];
    const tp_wnode *source = &work->node[m->source];
    int dims[2];
    tp_view store;
    *why = TP_REASON_RESHAPE_NOT_A_VIEW;
    if (!tp_view_inverse(copy->in[0].view, &m->inverse)) return false;
    if (!tp_view_compose(&m->inverse, source->store, &store, dims)) return false;
    m->store = tp_work_view(work, &store, NULL);
    if (!m->store) return false;
    *why = TP_REASON_TWO_LAYOUTS;
    if (!others_follow(work, m)) return false;
    tp_reason unused;
    int before = ranks(work, m, &unused);
    swap_layout(work, m);
    int after = ranks(work, m, why);
    if (before >= 0 && after >= 0 && after <= before) return true;
    swap_layout(work, m);
    if (*why == TP_REASON_NONE) *why = TP_REASON_BACKEND;
    return false;
}

static tp_status visit(tp_work *work, int n)
{
    tp_wnode *copy = &work->node[n];
    move m = {.copy = n, .source = copy->in[0].node};
    tp_reason why;
    if (!apply(work, &m, &why)) {
        const char *note = why == TP_REASON_TWO_LAYOUTS
                               ? "other readers of %s cannot follow this layout"
                               : "%s cannot store it so";
        /* What kept its readers from reading the source is the better reason. */
        if (copy->reason == TP_REASON_NONE || why == TP_REASON_TWO_LAYOUTS)
            tp_work_keep(work, n, why, NULL, tp_work_note(note, &work->node[m.source]));
        return TP_OK;
    }
    const tp_wnode *source = &work->node[m.source];
    bool as_built = copy->as_built;
    tp_work_unlink(work, &copy->in[0]); /* it reads its own bytes now */
    tp_work_replace(work, n, m.source, NULL);
    return as_built
               ? tp_work_ledger(work, n, false,
                                source->op == TP_OP_MATMUL ? TP_REASON_SUNK_LDC : TP_REASON_FUSED,
                                tp_work_note("%s stores straight into it", source))
               : TP_OK;
}

tp_status tp_pass_write_through(tp_work *work)
{
    for (int i = 0; i < work->copy_nodes; i++) {
        if (is_candidate(work, work->copies[i])) TRY(visit(work, work->copies[i]));
    }
    tp_work_sweep(work);
    return TP_OK;
}
