/* fill_parts: a kernel stores straight into its part of a larger tensor.
 *
 * concat, pad and update bring each part by a copy p = contiguous(v over s) that stores into a part
 * of their buffer. If v visits every element of s's buffer once, s can store there itself: where p
 * would have brought element i. With w the inverse of v, from a position in s's buffer to its
 * row-major position in p, the new store is p's after w after the old one. p's node does s's
 * work from then on. Other readers of s read the part, if they come later, one strided view says
 * how, and nobody writes over the part afterwards. Elementwise work with no other reader is left
 * to fuse, which gets it there without a node of its own.
 *
 * Falls: the number of copies. Legal when s is computed here and not delivered otherwise, and no
 * kernel gets worse by it. */
#include "pass.h"

typedef struct filling {
    int part, source;
    const tp_view *store; /* where the source puts its elements in the part's buffer */
    const tp_view **view; /* by user of source: how it reads the part */
} filling;

static bool is_candidate(const tp_work *work, int n)
{
    const tp_wnode *part = &work->node[n];
    if (part->op != TP_OP_CONTIGUOUS || part->alias || part->dead || !part->elements) return false;
    const tp_edge *in = &part->in[0];
    const tp_wnode *source = &work->node[in->node];
    if (source->op == TP_OP_DATA || source->alias || source->output || source->elements ||
        in->dtype != source->dtype)
        return false;
    const tp_edge *first = tp_work_user(work, in->node, source->users);
    bool alone = first == in && !tp_work_user(work, in->node, in->next);
    if (alone && tp_work_is_elementwise(source)) return false;
    if (tp_work_writer(work, in->node) >= 0) return false;
    for (int i = 0; i < source->in_count; i++) { /* a kernel that reads what it would write over */
        if (part->into && source->in[i].node == part->in[1].node) return false;
    }
    return tp_view_numel(in->view) == tp_view_numel(source->store) && tp_view_numel(in->view) > 0 &&
           !tp_work_has_alias(work, in->node);
}

/* Whether nobody writes over the part once it is there: other parts of the same tensor only follow.
 */
static bool stays(const tp_work *work, int n)
{
    const tp_tensor *whole = work->node[n].whole;
    for (int at = n; at >= 0;) {
        int writer = tp_work_writer(work, at);
        if (writer >= 0 && work->node[writer].whole != whole) return false;
        at = writer;
    }
    return true;
}

/* How the users of the source read the part, but for the part's own copy. */
static bool others_follow(tp_work *work, filling *f)
{
    const tp_wnode *source = &work->node[f->source];
    int count = 0, i = 0, dims[2];
    tp_view inverse, position, moved;
    for (tp_edge *e = tp_work_user(work, f->source, source->users); e;
         e = tp_work_user(work, f->source, e->next))
        count++;
    f->view = tp_work_alloc(work, (size_t)count * sizeof *f->view);
    if (!f->view || !tp_view_inverse(source->store, &inverse)) return false;
    if (count > 1 && !stays(work, f->part)) return false;
    for (tp_edge *e = tp_work_user(work, f->source, source->users); e;
         e = tp_work_user(work, f->source, e->next)) {
        const tp_view **view = &f->view[i++];
        if (e->reader == f->part && e == &work->node[f->part].in[0]) continue;
        if (e->reader < f->part || e->dtype != source->dtype ||
            !tp_view_compose(&inverse, e->view, &position, dims) ||
            !tp_view_compose(f->store, &position, &moved, dims))
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

/* Exchanges the views of the readers, and the source's store, with those of the filling: calling it
 * again takes it back. */
static void swap_layout(tp_work *work, filling *f)
{
    tp_wnode *source = &work->node[f->source];
    int i = 0;
    for (tp_edge *e = tp_work_user(work, f->source, source->users); e;
         e = tp_work_user(work, f->source, e->next)) {
        const tp_view **view = &f->view[i++];
        if (e->reader != f->part || e != &work->node[f->part].in[0]) swap(&e->view, view);
    }
    swap(&source->store, &f->store);
}

/* How far the backend has to go for the source and the products that read it; -1: out of memory. */
static int ranks(tp_work *work, const filling *f, tp_reason *why)
{
    tp_reason other;
    int sum = tp_work_kernel_rank(work, f->source, why);
    for (tp_edge *e = tp_work_user(work, f->source, work->node[f->source].users); e && sum >= 0;
         e = tp_work_user(work, f->source, e->next)) {
        if (work->node[e->reader].op != TP_OP_MATMUL) continue;
        int rank = tp_work_kernel_rank(work, e->reader, &other);
        sum = rank < 0 ? -1 : sum + rank;
    }
    return sum;
}

/* The part's node does the source's work from now on; the source's readers read it. */
static bool take_over(tp_work *work, const filling *f)
{
    tp_wnode *part = &work->node[f->part], *source = &work->node[f->source];
    int target = part->into ? part->in[1].node : -1;
    tp_edge *in = tp_work_alloc(work, (size_t)(source->in_count + 1) * sizeof *in);
    if (!in) return false;
    tp_edge last = part->in[part->in_count - 1];
    tp_work_unlink(work, &part->in[0]);
    tp_work_unlink(work, &part->in[part->in_count - 1]);
    for (int i = 0; i < source->in_count; i++) {
        int producer = source->in[i].node;
        in[i] = source->in[i];
        in[i].reader = f->part;
        tp_work_unlink(work, &source->in[i]);
        tp_work_link(work, &in[i], producer);
    }
    if (part->into) {
        in[source->in_count] = last;
        tp_work_link(work, &in[source->in_count], target);
    }
    part->in = in;
    part->in_count = source->in_count + part->into;
    part->op = source->op;
    part->calc = source->calc;
    part->axes = source->axes;
    part->asked = source->asked;
    part->fused = source->fused;
    part->as_built = false;
    part->reason = TP_REASON_NONE;
    part->store = source->store;
    source->in_count = 0;
    tp_work_replace(work, f->source, f->part, NULL);
    return true;
}

static tp_status visit(tp_work *work, int n)
{
    tp_wnode *part = &work->node[n];
    filling f = {.part = n, .source = part->in[0].node};
    tp_wnode *source = &work->node[f.source];
    tp_view inverse, position, store;
    int dims[2];
    if (!tp_view_inverse(part->in[0].view, &inverse) ||
        !tp_view_compose(&inverse, source->store, &position, dims) ||
        !tp_view_compose(part->store, &position, &store, dims))
        return TP_OK;
    f.store = tp_work_view(work, &store, part->store);
    if (!f.store) return TP_OK; /* the driver sees it */
    if (!others_follow(work, &f)) {
        tp_work_keep(work, n, TP_REASON_PART, NULL,
                     tp_work_note("other readers of %s cannot follow it there", source));
        return TP_OK;
    }
    tp_reason why, unused;
    int before = ranks(work, &f, &unused);
    swap_layout(work, &f);
    int after = ranks(work, &f, &why);
    if (before < 0 || after < 0 || after > before) {
        swap_layout(work, &f);
        if (before < 0 || after < 0) return TP_OK; /* out of memory: the driver sees it */
        tp_work_keep(work, n, why == TP_REASON_NONE ? TP_REASON_BACKEND : why, NULL,
                     tp_work_note("%s cannot store it so", source));
        return TP_OK;
    }
    TRY(tp_work_ledger(work, n, false,
                       source->op == TP_OP_MATMUL ? TP_REASON_SUNK_LDC : TP_REASON_FUSED,
                       tp_work_note("%s stores straight into its part", source)));
    take_over(work, &f);
    return TP_OK;
}

tp_status tp_pass_fill_parts(tp_work *work)
{
    for (int i = 0; i < work->copy_nodes; i++) {
        if (is_candidate(work, work->copies[i])) TRY(visit(work, work->copies[i]));
    }
    tp_work_sweep(work);
    return TP_OK;
}
