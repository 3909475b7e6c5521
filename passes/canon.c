/* canon: nodes nobody needs go, operations that change nothing go, equal nodes become one.
 *
 * Falls: the number of live nodes. Only rewrites that hold for every float, -0, infinity and
 * NaN included: x*1, x/1, x-0 are x; x+0 (which turns -0 into +0), x*0 and x-x stay.
 * Two outputs that are equal stay two: each owns its bytes. */
#include "pass.h"

#include <string.h>

/* ---- Operations that change nothing ---------------------------------------------- */

static bool is_constant(const tp_work *work, const tp_edge *edge, double value)
{
    const tp_wnode *node = &work->node[edge->node];
    if (node->op != TP_OP_FULL || node->alias) return false;
    if (tp_dtype_kind_of((tp_dtype)node->dtype) == TP_DTYPE_FLOAT)
        return node->asked->value[0].f == value;
    return node->asked->value[0].i == (int64_t)value;
}

/* Whether every value of one dtype survives a trip through the other. */
static bool holds(tp_dtype wide, tp_dtype narrow)
{
    tp_dtype both;
    bool number = narrow != TP_BOOL && wide != TP_BOOL;
    if (!number || !tp_dtype_promote(wide, narrow, &both) || both != wide) return false;
    bool to_float =
        tp_dtype_kind_of(wide) == TP_DTYPE_FLOAT && tp_dtype_kind_of(narrow) != TP_DTYPE_FLOAT;
    int bits = wide == TP_F64 ? 53 : wide == TP_F32 ? 24 : wide == TP_F16 ? 11 : 8;
    return !to_float || (int)tp_dtype_size(narrow) * 8 <= bits;
}

/* The edge whose value the node just repeats, NULL if it does something. */
static const tp_edge *repeats(const tp_work *work, const tp_wnode *node)
{
    const tp_edge *in = node->in;
    switch (node->op) {
    case TP_OP_MUL:
        if (is_constant(work, &in[1], 1)) return &in[0];
        return is_constant(work, &in[0], 1) ? &in[1] : NULL;
    case TP_OP_DIV:
        return is_constant(work, &in[1], 1) ? &in[0] : NULL;
    case TP_OP_SUB: {
        if (!is_constant(work, &in[1], 0)) return NULL;
        /* x - (-0) turns -0 into +0. */
        const tp_value *zero = &work->node[in[1].node].asked->value[0];
        return __builtin_signbit(zero->f) ? NULL : &in[0];
    }
    case TP_OP_CAST: {
        const tp_wnode *inner = &work->node[in[0].node];
        bool back = inner->op == TP_OP_CAST && !inner->alias && inner->in[0].dtype == node->dtype &&
                    in[0].dtype == inner->dtype;
        bool whole = back && tp_view_is_row_major(in[0].view) &&
                     tp_view_same_shape(in[0].view, inner->store);
        return whole && holds((tp_dtype)inner->dtype, (tp_dtype)node->dtype) ? &inner->in[0] : NULL;
    }
    default:
        return NULL;
    }
}

/* Views by which the readers of n read what `source` reads; false if one has none. */
static bool views_through(tp_work *work, int n, const tp_edge *source, tp_view **views)
{
    int count = 0, dims[2];
    for (tp_edge *e = tp_work_user(work, n, work->node[n].users); e;
         e = tp_work_user(work, n, e->next))
        count++;
    *views = tp_work_alloc(work, (size_t)count * sizeof **views);
    if (!*views) return false;
    int i = 0;
    for (tp_edge *e = tp_work_user(work, n, work->node[n].users); e;
         e = tp_work_user(work, n, e->next)) {
        if (!tp_work_through(source->view, (tp_dtype)source->dtype, e, &(*views)[i++], dims))
            return false;
    }
    return true;
}

static void drop_repeats(tp_work *work)
{
    for (int n = 0; n < work->node_count; n++) {
        tp_wnode *node = &work->node[n];
        if (node->dead || node->alias || node->output || node->elements) continue;
        const tp_edge *source = repeats(work, node);
        tp_view *views;
        if (!source || source->dtype != node->dtype || tp_work_has_alias(work, n)) continue;
        if (views_through(work, n, source, &views)) tp_work_replace(work, n, source->node, views);
    }
}

/* ---- Equal nodes -------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15U;
    return hash ^ hash >> 29;
}

static uint64_t hash_node(const tp_wnode *node)
{
    uint64_t hash = mix(node->op, node->dtype);
    for (int i = 0; i < node->in_count; i++) {
        const tp_edge *e = &node->in[i];
        uint64_t layout = (uint64_t)e->view->offset;
        for (int d = 0; d < e->view->ndim; d++)
            layout = layout * 31 + (e->view->shape[d] > 1 ? (uint64_t)e->view->stride[d] : 0);
        hash = mix(mix(hash, (uint64_t)e->node), layout);
    }
    if (node->op == TP_OP_CONTIGUOUS) return hash;
    /* Thousands of constants differ in nothing else. */
    for (int i = 0; i < 2 && !node->in_count; i++) {
        uint64_t bits;
        memcpy(&bits, &node->asked->value[i].f, sizeof bits);
        hash = mix(mix(hash, bits), (uint64_t)node->asked->value[i].i);
    }
    for (int i = 0; i < node->asked->attr_count; i++)
        hash = mix(hash, (uint64_t)node->asked->attr[i]);
    return hash;
}

/* Attributes that are not in shapes and views already. */
static bool same_attributes(const tp_tensor *a, const tp_tensor *b)
{
    if (memcmp(a->value, b->value, sizeof a->value) != 0 || a->attr_count != b->attr_count)
        return false;
    return a->attr_count == 0 ||
           memcmp(a->attr, b->attr, (size_t)a->attr_count * sizeof *a->attr) == 0;
}

static bool equal(const tp_wnode *a, const tp_wnode *b)
{
    if (a->op != b->op || a->dtype != b->dtype || a->calc != b->calc || a->in_count != b->in_count)
        return false;
    if (!tp_view_equal(a->store, b->store)) return false;
    for (int i = 0; i < a->in_count; i++) {
        const tp_edge *x = &a->in[i], *y = &b->in[i];
        if (x->node != y->node || x->dtype != y->dtype || !tp_view_equal(x->view, y->view))
            return false;
    }
    /* An output's copy has its view's attributes, which mean nothing here. */
    return a->op == TP_OP_CONTIGUOUS || same_attributes(a->asked, b->asked);
}

static tp_status merge_into(tp_work *work, int n, int first)
{
    bool copy = work->node[n].op == TP_OP_CONTIGUOUS;
    tp_work_replace(work, n, first, NULL);
    tp_note note = tp_work_note("equal to %s", &work->node[first]);
    return copy ? tp_work_ledger(work, n, false, TP_REASON_SHARED, note) : TP_OK;
}

static tp_status merge_equal(tp_work *work)
{
    size_t slots = 16;
    while (slots < (size_t)work->node_count * 2) slots *= 2;
    int *table = tp_work_alloc(work, slots * sizeof *table);
    if (!table) return tp_graph_fail_nomem(work->graph, "eval");
    memset(table, 0, slots * sizeof *table);
    for (int n = 0; n < work->node_count; n++) {
        tp_wnode *node = &work->node[n];
        /* Buffers that are filled in parts or written into stay apart. */
        if (node->dead || node->alias || node->op == TP_OP_DATA || node->elements ||
            tp_work_writer(work, n) >= 0)
            continue;
        size_t slot = hash_node(node) & (slots - 1);
        while (table[slot] && !equal(&work->node[table[slot] - 1], node))
            slot = (slot + 1) & (slots - 1);
        if (!table[slot])
            table[slot] = n + 1;
        else if (!node->output)
            TRY(merge_into(work, n, table[slot] - 1));
    }
    return TP_OK;
}

tp_status tp_pass_canon(tp_work *work)
{
    tp_work_sweep(work);
    drop_repeats(work);
    TRY(merge_equal(work));
    tp_work_sweep(work);
    return TP_OK;
}
