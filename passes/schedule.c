/* schedule: an order of the live nodes with a small peak of live bytes.
 *
 * Two orders are tried: the user's (ascending numbers) and a greedy one that always runs the
 * ready node that frees most bytes net of those it takes. The greedy one is kept only if its
 * peak is smaller. A heap holds the ready nodes; one whose score has risen, because it became
 * the last reader of a buffer, is entered again. Cost: O(edges log nodes). */
#include "pass.h"

#include <string.h>

typedef struct entry {
    int64_t score; /* bytes freed minus bytes taken */
    int node;
} entry;

typedef struct scheduler {
    tp_work *work;
    int *waiting; /* by node: operands that have not run yet */
    int *readers; /* by node: live edges that have not read it yet */
    uint8_t *done;
    entry *heap;
    int64_t heap_count, heap_capacity;
    int *order;
} scheduler;

static bool runs(const tp_wnode *node)
{
    return !node->dead && !node->alias && node->op != TP_OP_DATA;
}

/* Live bytes are those of temporaries: leaves and outputs stay whatever the order. */
static int64_t freeable_bytes(const tp_wnode *node)
{
    return node->op == TP_OP_DATA || node->output ? 0 : tp_work_bytes(node);
}

/* A node that writes into a buffer takes none and ends none. */
static int64_t taken_bytes(const tp_wnode *node)
{
    return node->into ? 0 : freeable_bytes(node);
}

static int64_t ended_bytes(const tp_work *work, const tp_wnode *node, int operand)
{
    bool target = node->into && operand == node->in_count - 1;
    return target ? 0 : freeable_bytes(&work->node[tp_work_base(work, node->in[operand].node)]);
}

/* How often node reads each of its bases is counted per edge. */
static void count_readers(const tp_work *work, int *readers)
{
    memset(readers, 0, (size_t)work->node_count * sizeof *readers);
    for (int n = 0; n < work->node_count; n++) {
        if (!runs(&work->node[n])) continue;
        for (int i = 0; i < work->node[n].in_count; i++)
            readers[tp_work_base(work, work->node[n].in[i].node)]++;
    }
}

static int64_t peak_of(const tp_work *work, const int *order, int count, int *readers)
{
    int64_t live = 0, peak = 0;
    count_readers(work, readers);
    for (int i = 0; i < count; i++) {
        const tp_wnode *node = &work->node[order[i]];
        live += taken_bytes(node);
        if (live > peak) peak = live;
        for (int j = 0; j < node->in_count; j++) {
            int base = tp_work_base(work, node->in[j].node);
            if (--readers[base] == 0) live -= ended_bytes(work, node, j);
        }
    }
    return peak;
}

/* ---- The heap: highest score first, then lowest number -------------------------------- */

static bool above(entry a, entry b)
{
    return a.score != b.score ? a.score > b.score : a.node < b.node;
}

static bool push(scheduler *s, int node, int64_t score)
{
    void *heap = s->heap;
    if (!tp_grow(s->work->context, &heap, &s->heap_capacity, s->heap_count + 1, sizeof *s->heap))
        return false;
    s->heap = heap;
    int64_t i = s->heap_count++;
    entry e = {score, node};
    while (i > 0 && above(e, s->heap[(i - 1) / 2])) {
        s->heap[i] = s->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    s->heap[i] = e;
    return true;
}

static entry pop(scheduler *s)
{
    entry top = s->heap[0], last = s->heap[--s->heap_count];
    int64_t i = 0;
    for (;;) {
        int64_t child = 2 * i + 1;
        if (child + 1 < s->heap_count && above(s->heap[child + 1], s->heap[child])) child++;
        if (child >= s->heap_count || !above(s->heap[child], last)) break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return top;
}

/* ---- The greedy order ------------------------------------------------------------------- */

static int64_t score_of(const scheduler *s, int n)
{
    const tp_wnode *node = &s->work->node[n];
    int64_t score = -taken_bytes(node);
    for (int i = 0; i < node->in_count; i++) {
        int base = tp_work_base(s->work, node->in[i].node), own = 0;
        bool first = true;
        for (int j = 0; j < node->in_count; j++) {
            bool same = tp_work_base(s->work, node->in[j].node) == base;
            first = first && !(same && j < i);
            own += same;
        }
        if (first && s->readers[base] == own) score += ended_bytes(s->work, node, i);
    }
    return score;
}

/* Enters the ready readers of n, or, when one node is left that reads it, that one anew. */
static bool enter_readers(scheduler *s, int n, bool just_ran)
{
    tp_work *work = s->work;
    for (tp_edge *e = tp_work_user(work, n, work->node[n].users); e;
         e = tp_work_user(work, n, e->next)) {
        int reader = e->reader;
        if (work->node[reader].alias) {
            if (!just_ran) continue;
            for (tp_edge *a = tp_work_user(work, reader, work->node[reader].users); a;
                 a = tp_work_user(work, reader, a->next)) {
                if (--s->waiting[a->reader] == 0 && !push(s, a->reader, score_of(s, a->reader)))
                    return false;
            }
            continue;
        }
        if (s->done[reader]) continue;
        bool ready = just_ran ? --s->waiting[reader] == 0 : s->waiting[reader] == 0;
        if (ready && !push(s, reader, score_of(s, reader))) return false;
    }
    return true;
}

static bool run_node(scheduler *s, int n)
{
    const tp_wnode *node = &s->work->node[n];
    s->done[n] = 1;
    for (int i = 0; i < node->in_count; i++) {
        int base = tp_work_base(s->work, node->in[i].node);
        bool temporary = freeable_bytes(&s->work->node[base]) > 0;
        if (--s->readers[base] == 1 && temporary && !enter_readers(s, base, false)) return false;
    }
    return enter_readers(s, n, true);
}

/* false: out of memory. Fills s->order. */
static bool greedy(scheduler *s, int count)
{
    tp_work *work = s->work;
    count_readers(work, s->readers);
    for (int n = 0; n < work->node_count; n++) {
        if (!runs(&work->node[n])) continue;
        for (int i = 0; i < work->node[n].in_count; i++)
            s->waiting[n] +=
                work->node[tp_work_base(work, work->node[n].in[i].node)].op != TP_OP_DATA;
    }
    for (int n = 0; n < work->node_count; n++) {
        if (runs(&work->node[n]) && s->waiting[n] == 0 && !push(s, n, score_of(s, n))) return false;
    }
    int done = 0;
    while (s->heap_count && done < count) {
        entry e = pop(s);
        if (s->done[e.node]) continue;
        s->order[done++] = e.node;
        if (!run_node(s, e.node)) return false;
    }
    return done == count;
}

static void natural_order(tp_work *work)
{
    work->order_count = 0;
    for (int n = 0; n < work->node_count; n++) {
        if (runs(&work->node[n])) work->order[work->order_count++] = n;
    }
}

tp_status tp_work_order(tp_work *work)
{
    work->order =
        tp_arena_alloc(&work->arena, (size_t)(work->node_count + 1) * sizeof *work->order);
    if (!work->order) return tp_graph_fail_nomem(work->graph, "eval");
    natural_order(work);
    return TP_OK;
}

tp_status tp_pass_schedule(tp_work *work)
{
    size_t ints = (size_t)work->node_count * sizeof(int);
    int *memory = tp_context_alloc_zero(work->context, 3 * ints + (size_t)work->node_count);
    if (!memory) return tp_graph_fail_nomem(work->graph, "eval");
    scheduler s = {.work = work,
                   .waiting = memory,
                   .readers = memory + work->node_count,
                   .order = memory + 2 * work->node_count};
    s.done = (uint8_t *)(memory + 3 * work->node_count);
    bool complete = greedy(&s, work->order_count);
    if (complete && peak_of(work, s.order, work->order_count, s.readers) <
                        peak_of(work, work->order, work->order_count, s.readers)) {
        memcpy(work->order, s.order, (size_t)work->order_count * sizeof *work->order);
    }
    tp_context_free(work->context, s.heap, (size_t)s.heap_capacity * sizeof *s.heap);
    tp_context_free(work->context, memory, 3 * ints + (size_t)work->node_count);
    return complete ? TP_OK : tp_graph_fail_nomem(work->graph, "eval");
}
