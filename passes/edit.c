/* The verbs: the only ways in which passes change a working graph. They keep the lists of
 * users true and write the ledger. */
#include "pass.h"

#include <stdio.h>

void *tp_work_alloc(tp_work *work, size_t size_bytes)
{
    void *memory = tp_arena_alloc(&work->arena, size_bytes);
    work->out_of_memory = work->out_of_memory || !memory;
    return memory;
}

const tp_view *tp_work_view(tp_work *work, const tp_view *v, const tp_view *like)
{
    if (like && tp_view_identical(v, like)) return like;
    tp_view *copy = tp_work_alloc(work, sizeof *copy);
    if (copy) tp_view_copy(copy, v);
    return copy;
}

void tp_work_link(tp_work *work, tp_edge *edge, int node)
{
    edge->node = node;
    edge->next = work->node[node].users;
    work->node[node].users = edge;
}

void tp_work_unlink(tp_work *work, tp_edge *edge)
{
    edge->node = -1;
    work->unswept = true;
}

bool tp_work_has_alias(const tp_work *work, int node)
{
    if (!work->aliases) return false;
    tp_edge *edge = tp_work_user(work, node, work->node[node].users);
    while (edge && !work->node[edge->reader].alias) edge = tp_work_user(work, node, edge->next);
    return edge != NULL;
}

bool tp_work_through(const tp_view *lower, tp_dtype lower_dtype, const tp_edge *upper,
                     tp_view *view, int dims[2])
{
    size_t from = tp_dtype_size(lower_dtype), to = tp_dtype_size((tp_dtype)upper->dtype);
    if (from == to) return tp_view_compose(lower, upper->view, view, dims);
    /* Read through a bitcast: only where lower has no gaps, as a shift. */
    int64_t start = lower->offset * (int64_t)from;
    dims[0] = dims[1] = -1;
    if (!tp_view_is_contiguous(lower) || start % (int64_t)to) return false;
    tp_view_copy(view, upper->view);
    view->offset += start / (int64_t)to;
    return true;
}

void tp_work_replace(tp_work *work, int old_node, int new_node, const tp_view *view)
{
    tp_wnode *old = &work->node[old_node];
    int i = 0, writer = tp_work_writer(work, old_node);
    tp_edge *edge = tp_work_user(work, old_node, old->users);
    while (edge) {
        tp_edge *next = tp_work_user(work, old_node, edge->next);
        if (view) edge->view = &view[i++];
        tp_work_link(work, edge, new_node);
        edge = next;
    }
    if (writer >= 0) work->node[new_node].writer = writer;
    old->users = NULL;
    tp_work_retire(work, old_node);
    if (!old->output) return;
    old->output = false;
    work->node[new_node].output = true;
    old->heir = new_node;
}

int tp_work_delivered(const tp_work *work, int d)
{
    int node = work->delivery[d].buffer;
    while (work->node[node].dead) node = work->node[node].heir;
    return node;
}

void tp_work_retire(tp_work *work, int node)
{
    work->node[node].dead = true;
    work->aliases -= work->node[node].alias;
    work->unswept = true;
}

void tp_work_sweep(tp_work *work)
{
    if (!work->unswept) return;
    work->unswept = false;
    for (int n = work->node_count - 1; n >= 0; n--) {
        tp_wnode *node = &work->node[n];
        if (node->dead || node->output) continue;
        node->users = tp_work_user(work, n, node->users);
        node->dead = !node->users;
        work->aliases -= node->dead && node->alias;
    }
}

int64_t tp_work_elements(const tp_wnode *node)
{
    return node->elements ? node->elements : tp_view_numel(node->store);
}

int64_t tp_work_bytes(const tp_wnode *node)
{
    return tp_work_elements(node) * (int64_t)tp_dtype_size((tp_dtype)node->dtype);
}

int64_t tp_work_stored_bytes(const tp_wnode *node)
{
    return tp_view_numel(node->store) * (int64_t)tp_dtype_size((tp_dtype)node->dtype);
}

bool tp_work_reads_whole(const tp_work *work, const tp_edge *edge)
{
    const tp_wnode *node = &work->node[edge->node];
    return edge->dtype == node->dtype && tp_view_is_row_major(edge->view) &&
           tp_view_numel(edge->view) == tp_work_elements(node);
}

void tp_work_label(const tp_tensor *asked, char *text, size_t size)
{
    if (asked->name)
        snprintf(text, size, "%s", asked->name);
    else
        snprintf(text, size, "%%%lld %s", (long long)asked->id, tp_op_name(asked));
}

tp_note tp_work_note(const char *format, const tp_wnode *who)
{
    return (tp_note){format, who ? who->asked : NULL};
}

void tp_work_keep(tp_work *work, int n, tp_reason reason, const int dims[2], tp_note note)
{
    tp_wnode *copy = &work->node[n];
    copy->reason = (uint8_t)reason;
    copy->dims[0] = (int8_t)(dims ? dims[0] : -1);
    copy->dims[1] = (int8_t)(dims ? dims[1] : -1);
    copy->note = note;
}

tp_status tp_work_ledger(tp_work *work, int node, bool kept, tp_reason reason, tp_note note)
{
    const tp_wnode *copy = &work->node[node];
    tp_ledger_row *row = tp_work_alloc(work, sizeof *row);
    if (!row) return tp_graph_fail_nomem(work->graph, "eval");
    *row = (tp_ledger_row){.copy = {.tensor = copy->asked,
                                    .kept = kept,
                                    .reason = reason,
                                    .bytes = tp_work_stored_bytes(copy),
                                    .dims = {kept ? copy->dims[0] : -1, kept ? copy->dims[1] : -1}},
                           .note = note};
    *work->ledger_end = row;
    work->ledger_end = &row->next;
    work->copy_count++;
    return TP_OK;
}
