/* place: temporaries share one workspace, and a result may overwrite an operand.
 *
 * First, in place: a step that reads and writes element by element (elementwise, softmax,
 * layer norm) takes over the bytes of a temporary whose last reader it is, if every read of
 * it goes to the very element that is written. Then each group of nodes that share bytes is
 * live from its first writer to its last reader, over all views; groups are placed by size,
 * largest first, each at the lowest gap among those whose lives meet its own (greedy by
 * size). Falls: the bytes of the workspace. Two lives that meet never overlap in memory. */
#include "pass.h"

#include <stdlib.h>
#include <string.h>

#define ALIGN_BYTES 64
/* More pairs than this are not compared; then groups are placed in order of time. */
#define MOST_PAIRS ((int64_t)4 << 20)

static bool is_temporary(const tp_wnode *node)
{
    return node->op != TP_OP_DATA && !node->alias && !node->output;
}

static void find_lives(tp_work *work)
{
    for (int i = 0; i < work->order_count; i++) {
        int n = work->order[i];
        work->place[n].first = work->place[n].last = i;
        for (int j = 0; j < work->node[n].in_count; j++)
            work->place[tp_work_base(work, work->node[n].in[j].node)].last = i;
    }
    /* What is delivered lives to the end. */
    for (int n = 0; n < work->node_count; n++) {
        if (work->node[n].output) work->place[n].last = work->order_count;
    }
}

/* The nodes of the group `from` lie in the bytes of `to` from now on. */
static void join_groups(tp_work *work, int from, int to)
{
    tp_place *a = &work->place[from], *b = &work->place[to];
    int n = from, next = a->next;
    do {
        work->place[n].root = to;
        n = work->place[n].next;
    } while (n != from);
    a->next = b->next;
    b->next = next;
    if (a->first < b->first) b->first = a->first;
    if (a->last > b->last) b->last = a->last;
}

/* A node that writes into a buffer lies in its bytes: one group, live from the first writer to the
 * last reader. A delivered member owns the bytes; a leaf that was given away keeps them. */
static void join_targets(tp_work *work)
{
    for (int i = 0; i < work->order_count; i++) {
        int n = work->order[i];
        const tp_wnode *node = &work->node[n];
        if (!node->into) continue;
        int root = work->place[node->in[node->in_count - 1].node].root;
        bool owns = node->output && work->node[root].op != TP_OP_DATA;
        if (owns)
            join_groups(work, root, n);
        else
            join_groups(work, n, root);
    }
}

/* ---- In place ------------------------------------------------------------------------ */

static bool element_by_element(const tp_wnode *node)
{
    if (node->epilogue || node->elements) return false;
    return tp_work_is_elementwise(node) || node->op == TP_OP_SOFTMAX ||
           node->op == TP_OP_LAYER_NORM;
}

/* Whether the node at position k of the order may write over operand i's bytes. */
static bool may_overwrite(const tp_work *work, int k, int i)
{
    int n = work->order[k];
    const tp_wnode *node = &work->node[n];
    int base = tp_work_base(work, node->in[i].node);
    const tp_wnode *producer = &work->node[base];
    const tp_place *old = &work->place[base];
    if (work->node[old->root].op == TP_OP_DATA || work->node[old->root].output || producer->output)
        return false;
    if (work->bytes[base] != work->bytes[n] || work->place[old->root].last != k) return false;
    for (int j = 0; j < node->in_count; j++) {
        const tp_edge *e = &node->in[j];
        if (work->place[tp_work_base(work, e->node)].root != old->root) continue;
        bool same = tp_dtype_size((tp_dtype)e->dtype) == tp_dtype_size((tp_dtype)node->dtype) &&
                    tp_view_same_shape(e->view, node->store) && tp_view_equal(e->view, node->store);
        if (!same) return false;
    }
    return true;
}

static void overwrite_operands(tp_work *work)
{
    for (int k = 0; k < work->order_count; k++) {
        int n = work->order[k];
        const tp_wnode *node = &work->node[n];
        if (!element_by_element(node) || work->bytes[n] == 0) continue;
        for (int i = 0; i < node->in_count; i++) {
            if (!may_overwrite(work, k, i)) continue;
            int root = work->place[tp_work_base(work, node->in[i].node)].root;
            /* A delivered node owns its bytes: then the operand's group lies there. */
            int own = work->place[n].root;
            bool delivered = work->node[own].output;
            join_groups(work, delivered ? root : own, delivered ? own : root);
            work->in_place++;
            break;
        }
    }
}

/* ---- Offsets ---------------------------------------------------------------------------- */

typedef struct block {
    int node;
    int first, last;
    int64_t size_bytes, offset;
} block;

static int by_size(const void *a, const void *b)
{
    const block *x = a, *y = b;
    if (x->size_bytes != y->size_bytes) return x->size_bytes > y->size_bytes ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

static int by_offset(const void *a, const void *b)
{
    const block *x = *(const block *const *)a, *y = *(const block *const *)b;
    if (x->offset != y->offset) return x->offset > y->offset ? 1 : -1;
    return (x->node > y->node) - (x->node < y->node);
}

static int by_first(const void *a, const void *b)
{
    const block *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

/* The lowest gap for b among placed blocks whose lives meet its own. near has room for all. */
static int64_t lowest_gap(const block *b, const block *placed, int count, const block **near)
{
    int met = 0;
    for (int i = 0; i < count; i++) {
        if (placed[i].first <= b->last && b->first <= placed[i].last) near[met++] = &placed[i];
    }
    qsort(near, (size_t)met, sizeof *near, by_offset);
    int64_t at = 0;
    for (int i = 0; i < met; i++) {
        if (near[i]->offset - at >= b->size_bytes) break;
        int64_t end = near[i]->offset + near[i]->size_bytes;
        if (end > at) at = end;
    }
    return at;
}

static int64_t place_by_size(block *blocks, int count, const block **near)
{
    int64_t top = 0;
    qsort(blocks, (size_t)count, sizeof *blocks, by_size);
    for (int i = 0; i < count; i++) {
        blocks[i].offset = lowest_gap(&blocks[i], blocks, i, near);
        if (blocks[i].offset + blocks[i].size_bytes > top)
            top = blocks[i].offset + blocks[i].size_bytes;
    }
    return top;
}

/* For very long plans: walks through time and keeps only the blocks that are live; near holds
 * them in ascending offsets. */
static int64_t place_by_time(block *blocks, int count, const block **near)
{
    int64_t top = 0;
    int live = 0;
    qsort(blocks, (size_t)count, sizeof *blocks, by_first);
    for (int i = 0; i < count; i++) {
        block *b = &blocks[i];
        int kept = 0, slot = 0;
        int64_t at = 0;
        for (int j = 0; j < live; j++) {
            if (near[j]->last >= b->first) near[kept++] = near[j];
        }
        live = kept;
        while (slot < live && near[slot]->offset - at < b->size_bytes) {
            at = near[slot]->offset + near[slot]->size_bytes;
            slot++;
        }
        b->offset = at;
        memmove(&near[slot + 1], &near[slot], (size_t)(live - slot) * sizeof *near);
        near[slot] = b;
        live++;
        if (at + b->size_bytes > top) top = at + b->size_bytes;
    }
    return top;
}

static tp_status assign_offsets(tp_work *work)
{
    size_t room = (size_t)work->order_count + 1, bytes = room * (sizeof(block) + sizeof(block *));
    tp_arena before = work->arena;
    block *blocks = tp_work_alloc(work, bytes);
    if (!blocks) return tp_graph_fail_nomem(work->graph, "eval");
    const block **near = (const block **)(void *)(blocks + room);
    int count = 0;
    for (int i = 0; i < work->order_count; i++) {
        int n = work->order[i];
        const tp_place *p = &work->place[n];
        if (p->root != n || !is_temporary(&work->node[n])) continue;
        int64_t size = (work->bytes[n] + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
        blocks[count++] =
            (block){.node = n, .first = p->first, .last = p->last, .size_bytes = size};
    }
    bool few = (int64_t)count * count <= MOST_PAIRS;
    work->workspace_bytes =
        few ? place_by_size(blocks, count, near) : place_by_time(blocks, count, near);
    for (int i = 0; i < count; i++) work->place[blocks[i].node].offset = blocks[i].offset;
    tp_arena_rewind(&work->arena, &before);
    return TP_OK;
}

/* Every temporary has its own bytes. */
tp_status tp_work_place_apart(tp_work *work)
{
    work->place =
        tp_arena_alloc(&work->arena, (size_t)(work->node_count + 1) * sizeof *work->place);
    if (!work->place) return tp_graph_fail_nomem(work->graph, "eval");
    for (int n = 0; n < work->node_count; n++)
        work->place[n] = (tp_place){.first = -1, .last = -1, .root = n, .next = n};
    find_lives(work);
    join_targets(work);
    int64_t end = 0;
    for (int i = 0; i < work->order_count; i++) {
        int n = work->order[i];
        if (!is_temporary(&work->node[n]) || work->place[n].root != n) continue;
        work->place[n].offset = end;
        end += (work->bytes[n] + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    }
    work->workspace_bytes = end;
    return TP_OK;
}

tp_status tp_pass_place(tp_work *work)
{
    overwrite_operands(work);
    return assign_offsets(work);
}
