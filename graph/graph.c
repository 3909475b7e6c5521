/* A graph: an arena of nodes with dense ids, and the facts that can be asked of a node. */
#include "graph.h"

#include <stdio.h>
#include <string.h>

tp_graph *tp_graph_create(tp_context *context)
{
    if (!context) context = tp_context_default();
    tp_graph *graph = tp_context_alloc_zero(context, sizeof *graph);
    if (!graph) return NULL;
    graph->context = tp_context_retain(context);
    graph->error.dim = -1;
    tp_arena_init(&graph->arena, context);
    return graph;
}

static void release_storages(tp_graph *graph)
{
    for (int64_t id = 0; id < graph->node_count; id++) tp_storage_release(graph->node[id]->storage);
    graph->node_count = 0;
    graph->structure++;
}

void tp_graph_reset(tp_graph *graph)
{
    release_storages(graph);
    tp_arena_reset(&graph->arena);
    tp_graph_clear_error(graph);
}

void tp_graph_destroy(tp_graph *graph)
{
    if (!graph) return;
    release_storages(graph);
    tp_arena_free(&graph->arena);
    tp_context *context = graph->context;
    tp_context_free(context, graph->node, (size_t)graph->node_capacity * sizeof *graph->node);
    tp_context_free(context, graph, sizeof *graph);
    tp_context_release(context);
}

int64_t tp_graph_node_count(const tp_graph *graph)
{
    return graph ? graph->node_count : 0;
}

tp_tensor *tp_graph_node(const tp_graph *graph, int64_t id)
{
    return graph && id >= 0 && id < graph->node_count ? graph->node[id] : NULL;
}

bool tp_graph_result(tp_tensor *x)
{
    if (!x->result) x->result = tp_arena_alloc(&x->graph->arena, sizeof *x->result);
    return x->result;
}

/* ---- Facts ----------------------------------------------------------------------- */

tp_graph *tp_graph_of(const tp_tensor *x)
{
    return x ? x->graph : NULL;
}
int64_t tp_id(const tp_tensor *x)
{
    return x ? x->id : -1;
}
tp_dtype tp_dtype_of(const tp_tensor *x)
{
    return x ? (tp_dtype)x->dtype : TP_BOOL;
}
int tp_ndim(const tp_tensor *x)
{
    return x ? x->view->ndim : 0;
}

int64_t tp_dim(const tp_tensor *x, int axis)
{
    if (!x) return -1;
    if (axis < 0) axis += x->view->ndim;
    return axis >= 0 && axis < x->view->ndim ? x->view->shape[axis] : -1;
}

int64_t tp_numel(const tp_tensor *x)
{
    return x ? tp_view_numel(x->view) : 0;
}

tp_view tp_view_of(const tp_tensor *x)
{
    tp_view view = {0};
    if (!x) return view;
    tp_view_copy(&view, x->view);
    tp_view_normalize(&view);
    return view;
}

bool tp_is_contiguous(const tp_tensor *x)
{
    return x && tp_view_is_contiguous(x->view);
}

const tp_tensor *tp_base(const tp_tensor *x)
{
    return x ? x->base : NULL;
}

/* The storage a tensor's bytes lie in now, NULL before its base is evaluated. */
static const tp_storage *storage_of(const tp_tensor *x)
{
    return x->storage ? x->storage : x->base->storage;
}

bool tp_shares_storage(const tp_tensor *a, const tp_tensor *b)
{
    if (!a || !b) return false;
    if (storage_of(a) && storage_of(b)) return storage_of(a) == storage_of(b);
    return a->base == b->base;
}

const char *tp_op_name(const tp_tensor *x)
{
    return x ? tp_op_info_of((tp_op)x->op)->name : "none";
}

/* A copy of a string in the graph's arena; NULL when memory is out. */
static const char *keep(tp_graph *graph, const char *string)
{
    size_t size = strlen(string) + 1;
    char *copy = tp_arena_alloc(&graph->arena, size);
    return copy ? memcpy(copy, string, size) : NULL;
}

tp_tensor *tp_named(tp_tensor *x, const char *name)
{
    if (!x || !name) return x;
    const char *kept = keep(x->graph, name);
    if (!kept) {
        tp_graph_fail_nomem(x->graph, "named");
        return NULL;
    }
    x->name = kept;
    return x;
}

const char *tp_name(const tp_tensor *x)
{
    return x && x->name ? x->name : "";
}

tp_tensor *tp_at(tp_tensor *x, const char *file, int line)
{
    if (x && !x->file) { /* the innermost call made the node */
        x->file = file;
        x->line = line;
    }
    return x;
}

int tp_describe(const tp_tensor *x, char *text, size_t size)
{
    if (!x) return snprintf(text, size, "(no tensor)");
    static const char *const states[] = {"not evaluated", "evaluated", "stale", "given away"};
    char view[800];
    tp_view shown = tp_view_of(x);
    tp_view_print(&shown, view, sizeof view);
    const tp_storage *storage = storage_of(x);
    char bytes[80] = "no storage";
    if (storage) {
        snprintf(bytes, sizeof bytes, "storage of %%%lld, %zu bytes, %d references",
                 (long long)(x->storage ? x : x->base)->id, storage->size_bytes,
                 __atomic_load_n(&storage->refcount, __ATOMIC_RELAXED));
    }
    return snprintf(text, size, "%%%lld%s%s%s = %s %s %s, %s, %s, %s", (long long)x->id,
                    x->name ? " \"" : "", tp_name(x), x->name ? "\"" : "", tp_op_name(x),
                    tp_dtype_name(tp_dtype_of(x)), view,
                    tp_is_contiguous(x) ? "contiguous" : "strided", states[x->state], bytes);
}
