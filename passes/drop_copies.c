/* drop_copies: the readers of a copy read its source where they can.
 *
 * A copy c = contiguous(v over s) goes when every reader of c, whatever views lie between,
 * has one strided view of s (two-stage merge) and its kernel takes that view without falling
 * back to a more general one: elementwise loops, reductions and gathers read any strides,
 * a GEMM those that BLAS has arguments for. Falls: the number of copies. A copy that stays
 * keeps the first reason against it. A delivered copy goes only if its source can be
 * delivered in its place. */
#include "pass.h"

#include <stdio.h>

/* Larger than a core's cache: strided reads of less are not worth a thought. */
#define CACHE_BYTES ((int64_t)1 << 20)
#define LINE_BYTES 64

/* ---- Cost: one copy against several strided reads ----------------------------------- */

/* Bytes that lie together along the fastest dim of a view. */
static int64_t run_bytes(const tp_view *v, int64_t size)
{
    int64_t run = 1;
    for (int d = 0; d < v->ndim; d++) {
        if (v->stride[d] == 1 && v->shape[d] > run) run = v->shape[d];
    }
    /* A loop may put that dim innermost only if it is the last one read. */
    tp_view canon = tp_view_canon(v);
    bool innermost = canon.ndim > 0 && canon.stride[canon.ndim - 1] == 1;
    return (innermost ? run : 1) * size;
}

/* Whether `readers` reads through v cost more line transfers than copying once and reading the
 * copy. f is the useful part of a line; the copy itself reads through v too. */
static bool copy_pays(tp_work *work, const tp_view *v, int64_t bytes, int64_t size, int readers,
                      tp_note *note)
{
    if (readers < 2 || bytes <= CACHE_BYTES) return false;
    double f = (double)run_bytes(v, size) / LINE_BYTES;
    if (f >= 1) return false;
    double strided = readers * (double)bytes / f,
           copied = (double)bytes / f + (double)bytes * (1 + readers);
    if (copied >= strided) return false;
    const size_t size_bytes = 160;
    char *text = tp_work_alloc(work, size_bytes);
    if (text)
        snprintf(text, size_bytes, "%d strided reads move %.0f bytes, a copy and its reads %.0f",
                 readers, strided, copied);
    *note = tp_work_note(text, NULL);
    return true;
}

/* ---- Legality -------------------------------------------------------------------------- */

typedef struct trial {
    int copy, readers, products;
    bool transposed; /* some GEMM reads it with its last dim strided */
    tp_view *view;   /* by reader */
    bool *reshaped;  /* by reader: it takes the copy's shape first */
    tp_reason reason;
    int dims[2];
    tp_note note;
} trial;

/* Whether the reader's kernel stays as good with the view in place of the edge's. */
static bool kernel_accepts(tp_work *work, tp_edge *edge, const tp_view *view, const tp_edge *source,
                           tp_reason *why)
{
    tp_wnode *reader = &work->node[edge->reader];
    if (reader->op != TP_OP_MATMUL) return true;
    int before = tp_work_kernel_rank(work, edge->reader, why);
    tp_edge saved = *edge;
    edge->node = source->node;
    edge->view = view;
    int after = tp_work_kernel_rank(work, edge->reader, why);
    *edge = saved;
    return before >= 0 && after >= 0 && after <= before;
}

/* The dims of `fine` that the dims in mask of `merged` consist of; false unless each dim of merged
 * is a run of dims of fine. */
static bool refine_axes(const tp_view *merged, const tp_view *fine, uint32_t mask, uint32_t *axes)
{
    int f = fine->ndim - 1;
    *axes = 0;
    for (int d = merged->ndim - 1; d >= 0; d--) {
        int64_t size = 1;
        for (; size < merged->shape[d] && f >= 0; f--) {
            size *= fine->shape[f];
            *axes |= (mask >> d & 1U) << f;
        }
        if (size != merged->shape[d]) return false;
    }
    return true; /* what is left of fine has size 1 */
}

/* A reader that takes the copy whole can as well run over the copy's shape: nobody sees a node's
 * shape but itself, readers address its buffer. An elementwise one whose other operands can be
 * seen in that shape; a reduction whose dims are runs of the copy's. */
static bool can_reshape(const tp_work *work, const tp_wnode *copy, const tp_edge *edge)
{
    const tp_wnode *reader = &work->node[edge->reader];
    tp_view view;
    int dims[2];
    uint32_t axes;
    bool whole = edge->dtype == copy->dtype && tp_view_is_row_major(edge->view) &&
                 tp_view_numel(edge->view) == tp_view_numel(copy->store) &&
                 tp_view_numel(edge->view) > 0;
    if (!whole || reader->alias || reader->elements || !tp_view_is_row_major(reader->store))
        return false;
    if (tp_op_info_of((tp_op)reader->op)->kind == TP_KIND_REDUCE)
        return refine_axes(edge->view, copy->store, reader->axes, &axes);
    if (!tp_work_is_elementwise(reader)) return false;
    for (int i = 0; i < reader->in_count; i++) {
        if (!tp_view_reshape(reader->in[i].view, copy->store->ndim, copy->store->shape, &view,
                             dims))
            return false;
    }
    return true;
}

static bool reshape_reader(tp_work *work, const tp_wnode *copy, int n)
{
    tp_view view;
    tp_wnode *reader = &work->node[n];
    if (tp_op_info_of((tp_op)reader->op)->kind == TP_KIND_REDUCE) {
        int64_t kept[TP_MAX_RANK];
        int count = 0;
        refine_axes(reader->in[0].view, copy->store, reader->axes, &reader->axes);
        for (int d = 0; d < copy->store->ndim; d++) {
            if (!(reader->axes >> d & 1U)) kept[count++] = copy->store->shape[d];
        }
        view = tp_view_row_major(count, kept);
        reader->store = tp_work_view(work, &view, reader->store);
        return reader->store;
    }
    int dims[2];
    for (int i = 0; i < reader->in_count; i++) {
        tp_view_reshape(reader->in[i].view, copy->store->ndim, copy->store->shape, &view, dims);
        reader->in[i].view = tp_work_view(work, &view, reader->in[i].view);
        if (!reader->in[i].view) return false;
    }
    view = tp_view_row_major(copy->store->ndim, copy->store->shape);
    reader->store = tp_work_view(work, &view, copy->store);
    return reader->store;
}

static bool try_reader(tp_work *work, trial *t, tp_edge *edge, const tp_edge *source)
{
    int k = t->readers++;
    tp_view *view = &t->view[k];
    tp_wnode *reader = &work->node[edge->reader];
    bool through = tp_work_through(source->view, (tp_dtype)source->dtype, edge, view, t->dims);
    t->reshaped[k] = !through && can_reshape(work, &work->node[t->copy], edge);
    if (t->reshaped[k]) tp_view_copy(view, source->view);
    if (!through && !t->reshaped[k]) {
        t->reason = TP_REASON_RESHAPE_NOT_A_VIEW;
        t->note = tp_work_note("%s cannot read it as one strided view", reader);
        return false;
    }
    if (!kernel_accepts(work, edge, view, source, &t->reason)) {
        t->note = tp_work_note("demanded by %s", reader);
        return false;
    }
    bool product = reader->op == TP_OP_MATMUL;
    int last = view->ndim - 1;
    t->products += product;
    t->transposed = t->transposed || (product && view->stride[last] != 1 && view->shape[last] != 1);
    if (t->readers == 1 || product)
        t->note = tp_work_note(product ? "read in place by %s" : "read through its strides by %s",
                               reader);
    return true;
}

/* Whether all readers can do without the copy; fills t->view. */
static bool try_readers(tp_work *work, trial *t)
{
    tp_wnode *copy = &work->node[t->copy];
    const tp_edge *source = &copy->in[0];
    int count = 0;
    for (tp_edge *e = tp_work_user(work, t->copy, copy->users); e;
         e = tp_work_user(work, t->copy, e->next))
        count++;
    t->view = tp_work_alloc(work, (size_t)count * sizeof *t->view);
    t->reshaped = tp_work_alloc(work, (size_t)count * sizeof *t->reshaped);
    if (!t->view || !t->reshaped) return false;
    for (tp_edge *e = tp_work_user(work, t->copy, copy->users); e;
         e = tp_work_user(work, t->copy, e->next)) {
        if (!try_reader(work, t, e, source)) return false;
    }
    int64_t size = (int64_t)tp_dtype_size((tp_dtype)copy->dtype);
    if (!copy_pays(work, source->view, tp_work_bytes(copy), size, t->readers, &t->note))
        return true;
    t->reason = TP_REASON_COST;
    return false;
}

/* The source is a whole compute node lying just as the copy would: deliver it instead. */
static bool can_deliver_source(const tp_work *work, const tp_wnode *copy)
{
    const tp_edge *in = &copy->in[0];
    const tp_wnode *source = &work->node[in->node];
    bool owned = source->op != TP_OP_DATA && !source->alias && !source->output;
    return owned && tp_work_reads_whole(work, in);
}

static tp_status drop(tp_work *work, trial *t)
{
    tp_wnode *copy = &work->node[t->copy];
    bool as_built = copy->as_built;
    tp_reason why = TP_REASON_FOLDED;
    if (tp_view_is_contiguous(copy->in[0].view))
        why = TP_REASON_NOOP;
    else if (t->products)
        why = t->transposed ? TP_REASON_ABSORBED_TRANS : TP_REASON_ABSORBED_LD;
    int k = 0;
    for (tp_edge *e = tp_work_user(work, t->copy, copy->users); e;
         e = tp_work_user(work, t->copy, e->next)) {
        if (t->reshaped[k++] && !reshape_reader(work, copy, e->reader))
            return tp_graph_fail_nomem(work->graph, "eval");
    }
    tp_work_replace(work, t->copy, copy->in[0].node, t->view);
    return as_built ? tp_work_ledger(work, t->copy, false, why, t->note) : TP_OK;
}

/* ---- Copies that are written into ---------------------------------------------------------- */

/* An evaluated tensor that the user gave away, alone in bytes of its own. */
static bool is_given_away(const tp_tensor *x)
{
    const tp_storage *storage = x->storage;
    return x->donated && storage->block_bytes && storage->refcount == 1 &&
           (int64_t)storage->size_bytes ==
               tp_view_numel(x->result) * (int64_t)tp_dtype_size((tp_dtype)x->dtype);
}

/* Nodes looked at before one gives up. */
#define MOST_VISITS 256

/* Whether n is among what `from` is calculated of. */
static bool is_ancestor(const tp_work *work, int n, int from)
{
    int seen[MOST_VISITS], count = 1;
    seen[0] = from;
    for (int i = 0; i < count; i++) {
        const tp_wnode *node = &work->node[seen[i]];
        for (int k = 0; k < node->in_count; k++) {
            int in = node->in[k].node;
            bool known = in < n; /* numbers fall towards the inputs */
            for (int j = 0; j < count && !known; j++) known = seen[j] == in;
            if (in == n) return true;
            if (known) continue;
            if (count == MOST_VISITS) return false;
            seen[count++] = in;
        }
    }
    return false;
}

/* The other readers of what is written over have read it by then: the writer waits for each, and
 * what it reads itself is the very element that it writes. */
static bool others_come_first(const tp_work *work, int copy)
{
    int source = work->node[copy].in[0].node, writer = tp_work_writer(work, copy);
    const tp_wnode *node = &work->node[writer];
    for (tp_edge *e = tp_work_user(work, source, work->node[source].users); e;
         e = tp_work_user(work, source, e->next)) {
        if (e->reader == copy) continue;
        bool same = node->op == TP_OP_CONTIGUOUS && e->dtype == node->dtype &&
                    tp_view_same_shape(e->view, node->store) && tp_view_equal(e->view, node->store);
        if (e->reader == writer ? !same : !is_ancestor(work, e->reader, writer)) return false;
    }
    return true;
}

/* An update works on a copy of its x, unless x is not needed as it was. */
static tp_status visit_written(tp_work *work, int n)
{
    const tp_wnode *copy = &work->node[n];
    const tp_edge *in = &copy->in[0];
    const tp_wnode *source = &work->node[in->node];
    const char *why = NULL;
    tp_reason reason = TP_REASON_ALIAS_WRITE;
    if (source->alias || tp_work_has_alias(work, in->node))
        reason = TP_REASON_PASS_OFF, why = "a view of %s is in the way";
    else if (source->op == TP_OP_DATA && !is_given_away(source->asked))
        why = "%s is evaluated and may be read again (tp_donate gives it away)";
    else if (source->output)
        why = "%s is a result too";
    else if (!tp_work_reads_whole(work, in))
        reason = TP_REASON_RESHAPE_NOT_A_VIEW, why = "%s lies otherwise or is a part of something";
    else if (!others_come_first(work, n))
        why = "%s has other readers";
    if (why) {
        tp_work_keep(work, n, reason, NULL, tp_work_note(why, source));
        return TP_OK;
    }
    tp_work_replace(work, n, in->node, NULL);
    return tp_work_ledger(work, n, false, TP_REASON_IN_PLACE,
                          tp_work_note("written over %s, which nobody needs any more", source));
}

static tp_status visit(tp_work *work, int n)
{
    const tp_wnode *copy = &work->node[n];
    if (tp_work_writer(work, n) >= 0) return visit_written(work, n);
    trial t = {.copy = n, .dims = {-1, -1}};
    if (copy->output && !can_deliver_source(work, copy)) {
        tp_work_keep(work, n, TP_REASON_USER_KEPT, NULL,
                     tp_work_note("it is the result, dense and owning its bytes", NULL));
        return TP_OK;
    }
    t.note = tp_work_note("its source already lies so", NULL);
    if (try_readers(work, &t)) return drop(work, &t);
    if (!t.view || !t.reshaped) return tp_graph_fail_nomem(work->graph, "eval");
    tp_work_keep(work, n, t.reason == TP_REASON_NONE ? TP_REASON_BACKEND : t.reason,
                 t.reason == TP_REASON_RESHAPE_NOT_A_VIEW ? t.dims : NULL, t.note);
    return TP_OK;
}

tp_status tp_pass_drop_copies(tp_work *work)
{
    for (int i = 0; i < work->copy_nodes; i++) {
        int n = work->copies[i];
        const tp_wnode *node = &work->node[n];
        bool copy = node->op == TP_OP_CONTIGUOUS && !node->alias && !node->dead && !node->elements;
        if (copy && !tp_work_has_alias(work, n)) TRY(visit(work, n));
    }
    tp_work_sweep(work);
    return TP_OK;
}
