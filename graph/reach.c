/* Which nodes outputs depend on. A small result of a large graph must not cost a look at every
 * node: each walk has a number, which it leaves in the nodes that it visits. */
#include "graph.h"

#include <stdlib.h>

void tp_graph_walk(tp_graph *graph)
{
    graph->walk++;
}

bool tp_graph_visit(tp_tensor *x)
{
    bool first = x->walk != x->graph->walk;
    x->walk = x->graph->walk;
    return first;
}

static int by_id(const void *a, const void *b)
{
    const tp_tensor *x = *(tp_tensor *const *)a, *y = *(tp_tensor *const *)b;
    return (x->id > y->id) - (x->id < y->id);
}

typedef struct reached {
    tp_tensor *last; /* of the queue */
    int64_t count, low, high;
} reached;

static void enter(reached *r, tp_tensor *x)
{
    if (!tp_graph_visit(x)) return;
    x->queue = NULL;
    if (r->last) r->last->queue = x;
    r->last = x;
    if (!r->count++) r->low = r->high = x->id;
    if (x->id < r->low) r->low = x->id;
    if (x->id > r->high) r->high = x->id;
}

/* The queue from `first` on by ascending ids. If it holds most ids of its range, a look at each is
 * quicker than sorting. */
static void fill(const tp_graph *graph, const reached *r, tp_tensor *first, tp_tensor **list)
{
    if (r->count > (r->high - r->low) / 8) {
        for (int64_t id = r->low; id <= r->high; id++) {
            if (graph->node[id]->walk == graph->walk) *list++ = graph->node[id];
        }
        return;
    }
    int64_t i = 0;
    for (tp_tensor *x = first; x; x = x->queue) list[i++] = x;
    qsort(list, (size_t)i, sizeof(tp_tensor *), by_id);
}

int64_t tp_graph_reach(tp_graph *graph, int count, tp_tensor *const *outputs, tp_arena *arena,
                       tp_tensor ***list)
{
    reached r = {0};
    tp_graph_walk(graph);
    for (int i = 0; i < count; i++) enter(&r, outputs[i]);
    tp_tensor *first = count ? outputs[0] : NULL;
    for (tp_tensor *x = first; x; x = x->queue) {
        if (x->state == TP_EVALUATED) continue;
        for (int i = 0; i < x->in_count; i++) enter(&r, x->in[i]);
        enter(&r, x->base); /* a view's bytes are its base's */
    }
    *list = tp_arena_alloc(arena, (size_t)r.count * sizeof(tp_tensor *));
    if (!*list) return -1;
    fill(graph, &r, first, *list);
    return r.count;
}
