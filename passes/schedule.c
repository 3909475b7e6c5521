/* schedule: an order of the live nodes with a small peak of live bytes.
 *
 * Two orders are tried: the user's (ascending numbers) and a greedy one that always runs the
 * ready node that frees most bytes net of those it takes. The greedy one is kept only if its
 * peak is smaller; it is not looked for where some node alone needs as much as the user's order.
 * A heap holds the ready nodes; one whose score has risen, because it became the last reader of a
 * buffer, is entered again. Cost: O(edges log nodes). */
#include "pass.h"

#include <string.h>

typedef struct entry {
    int64_t score; /* bytes freed minus bytes taken */
    int node;
} entry;

/* Reads between the nodes that run, packed: those of node n are operand[first[n]] up to
 * operand[first[n + 1]], and likewise who reads it; leaves are left out. */
typedef struct scheduler {
    tp_work *work;
    int *first, *operand; /* the node that is read; ~it: it is written into */
    int *first_reader, *reader;
    int64_t *bytes; /* by node: of its buffer, if that is a temporary, else 0 */
    int *waiting;   /* by node: operands that have not run yet */
    int *left;      /* by node: reads of it that have not been made yet */
    uint8_t *done;
    entry *heap;
    int64_t heap_count, heap_capacity;
    int *order;
} scheduler;

static bool runs(const tp_wnode *node)
{
    return !node->dead && !node->alias && node->op != TP_OP_DATA;
}

static int read_node(int operand)
{
    return operand < 0 ? ~operand : operand;
}

/* A node that writes into a buffer takes none and ends none. */
static int64_t taken_bytes(const scheduler *s, int n)
{
    return s->work->node[n].into ? 0 : s->bytes[n];
}

static int64_t ended_bytes(const scheduler *s, int operand)
{
    return operand < 0 ? 0 : s->bytes[operand];
}

/* Fills first, operand, bytes. Live bytes are those of temporaries: leaves and outputs stay
 * whatever the order. */
static void pack(scheduler *s)
{
    const tp_work *work = s->work;
    int used = 0;
    for (int n = 0; n < work->node_count; n++) {
        const tp_wnode *node = &work->node[n];
        s->first[n] = used;
        s->bytes[n] = runs(node) && !node->output ? work->bytes[n] : 0;
        for (int i = 0; i < node->in_count && runs(node); i++) {
            int base = tp_work_base(work, node->in[i].node);
            bool target = node->into && i == node->in_count - 1;
            if (work->node[base].op != TP_OP_DATA) s->operand[used++] = target ? ~base : base;
        }
    }
    s->first[work->node_count] = used;
}

/* How often each node is read. */
static void count_reads(scheduler *s)
{
    memset(s->left, 0, (size_t)s->work->node_count * sizeof *s->left);
    for (int i = 0; i < s->first[s->work->node_count]; i++) s->left[read_node(s->operand[i])]++;
}

static int64_t peak_of(scheduler *s, const int *order)
{
    int64_t live = 0, peak = 0;
    count_reads(s);
    for (int i = 0; i < s->work->order_count; i++) {
        int n = order[i];
        live += taken_bytes(s, n);
        if (live > peak) peak = live;
        for (int j = s->first[n]; j < s->first[n + 1]; j++) {
            if (--s->left[read_node(s->operand[j])] == 0) live -= ended_bytes(s, s->operand[j]);
        }
    }
    return peak;
}

/* Whether operand j is the first with which node n reads this buffer; *reads: how often it does. */
static bool is_first_read(const scheduler *s, int n, int j, int *reads)
{
    int base = read_node(s->operand[j]);
    *reads = 0;
    for (int k = s->first[n]; k < s->first[n + 1]; k++) {
        bool same = read_node(s->operand[k]) == base;
        if (same && k < j) return false;
        *reads += same;
    }
    return true;
}

/* What no order can do with less than: the buffers of one node. Nothing is known of those that
 * several nodes fill. */
static int64_t least_peak(const scheduler *s)
{
    int64_t least = 0;
    for (int i = 0; i < s->work->order_count; i++) {
        int n = s->work->order[i], reads;
        int64_t held = s->bytes[n];
        if (s->work->node[n].into) return 0;
        for (int j = s->first[n]; j < s->first[n + 1]; j++) {
            if (is_first_read(s, n, j, &reads)) held += s->bytes[s->operand[j]];
        }
        if (held > least) least = held;
    }
    return least;
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

/* Turns the reads around: left holds how often each node is read, and does so afterwards. */
static void pack_readers(scheduler *s)
{
    int count = s->work->node_count, used = 0;
    for (int n = 0; n < count; n++) {
        s->first_reader[n] = used;
        used += s->left[n];
        s->left[n] = 0;
    }
    s->first_reader[count] = used;
    for (int n = 0; n < count; n++) {
        for (int j = s->first[n]; j < s->first[n + 1]; j++) {
            int base = read_node(s->operand[j]);
            s->reader[s->first_reader[base] + s->left[base]++] = n;
        }
    }
}

static int64_t score_of(const scheduler *s, int n)
{
    int64_t score = -taken_bytes(s, n);
    for (int j = s->first[n]; j < s->first[n + 1]; j++) {
        int reads;
        if (is_first_read(s, n, j, &reads) && s->left[read_node(s->operand[j])] == reads)
            score += ended_bytes(s, s->operand[j]);
    }
    return score;
}

/* Enters the ready readers of n, or, when one node is left that reads it, that one anew. */
static bool enter_readers(scheduler *s, int n, bool just_ran)
{
    for (int j = s->first_reader[n]; j < s->first_reader[n + 1]; j++) {
        int reader = s->reader[j];
        if (s->done[reader]) continue;
        bool ready = just_ran ? --s->waiting[reader] == 0 : s->waiting[reader] == 0;
        if (ready && !push(s, reader, score_of(s, reader))) return false;
    }
    return true;
}

static bool run_node(scheduler *s, int n)
{
    s->done[n] = 1;
    for (int j = s->first[n]; j < s->first[n + 1]; j++) {
        int base = read_node(s->operand[j]);
        if (--s->left[base] == 1 && s->bytes[base] > 0 && !enter_readers(s, base, false))
            return false;
    }
    return enter_readers(s, n, true);
}

/* false: out of memory. Fills s->order. */
static bool greedy(scheduler *s)
{
    const tp_work *work = s->work;
    count_reads(s);
    pack_readers(s);
    for (int n = 0; n < work->node_count; n++) {
        s->waiting[n] = s->first[n + 1] - s->first[n];
        s->done[n] = 0;
    }
    for (int i = 0; i < work->order_count; i++) {
        int n = work->order[i];
        if (s->waiting[n] == 0 && !push(s, n, score_of(s, n))) return false;
    }
    int done = 0;
    while (s->heap_count && done < work->order_count) {
        entry e = pop(s);
        if (s->done[e.node]) continue;
        s->order[done++] = e.node;
        if (!run_node(s, e.node)) return false;
    }
    return done == work->order_count;
}

tp_status tp_work_order(tp_work *work)
{
    size_t nodes = (size_t)work->node_count + 1;
    work->order = tp_work_alloc(work, nodes * sizeof *work->order);
    work->bytes = tp_work_alloc(work, nodes * sizeof *work->bytes);
    if (!work->order || !work->bytes) return tp_graph_fail_nomem(work->graph, "eval");
    work->order_count = work->order_reads = 0;
    for (int n = 0; n < work->node_count; n++) {
        if (!runs(&work->node[n])) continue;
        work->order[work->order_count++] = n;
        work->order_reads += work->node[n].in_count;
        work->bytes[n] = tp_work_bytes(&work->node[n]);
    }
    return TP_OK;
}

static void *take(char **memory, size_t count, size_t size_bytes)
{
    void *taken = *memory;
    *memory += count * size_bytes;
    return taken;
}

tp_status tp_pass_schedule(tp_work *work)
{
    tp_arena before = work->arena;
    size_t nodes = (size_t)work->node_count + 1, reads = (size_t)work->order_reads;
    char *memory = tp_work_alloc(work, nodes * (sizeof(int64_t) + 5 * sizeof(int) + 1) +
                                           2 * reads * sizeof(int));
    if (!memory) return tp_graph_fail_nomem(work->graph, "eval");
    scheduler s = {.work = work};
    s.bytes = take(&memory, nodes, sizeof *s.bytes);
    s.first = take(&memory, nodes, sizeof *s.first);
    s.first_reader = take(&memory, nodes, sizeof *s.first_reader);
    s.waiting = take(&memory, nodes, sizeof *s.waiting);
    s.left = take(&memory, nodes, sizeof *s.left);
    s.order = take(&memory, nodes, sizeof *s.order);
    s.operand = take(&memory, reads, sizeof *s.operand);
    s.reader = take(&memory, reads, sizeof *s.reader);
    s.done = take(&memory, nodes, sizeof *s.done);
    pack(&s);
    int64_t peak = peak_of(&s, work->order);
    bool complete = true;
    if (peak > least_peak(&s)) {
        complete = greedy(&s);
        if (complete && peak_of(&s, s.order) < peak)
            memcpy(work->order, s.order, (size_t)work->order_count * sizeof *work->order);
        tp_context_free(work->context, s.heap, (size_t)s.heap_capacity * sizeof *s.heap);
    }
    tp_arena_rewind(&work->arena, &before);
    return complete ? TP_OK : tp_graph_fail_nomem(work->graph, "eval");
}
