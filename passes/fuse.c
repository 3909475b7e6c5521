/* fuse: elementwise work joins its only reader's loop.
 *
 * A group grows from a root (an elementwise node, a reduction, softmax or layer norm) towards
 * its inputs: a producer joins when all its readers are in the group and read it by one view,
 * so that it is calculated once per point. Its own inputs are then read through that view:
 * permutations sit on loads from memory only, never between two instructions. Constants
 * and casts join every reader. A root that reads one reduction at each point becomes that
 * reduction's epilogue. Since all readers are inside, a group can never wait for itself.
 *
 * Falls: the number of live nodes. Each value is still rounded to its dtype: same bits.
 * Limits: TP_PROGRAM_LOADS loads, TP_PROGRAM_INSNS instructions. */
#include "program.h"

#define CHEAP_FLOPS 2
#define MAX_MEMBERS (TP_PROGRAM_INSNS + TP_PROGRAM_LOADS)
#define MAX_READS (TP_PROGRAM_LOADS + 3 * MAX_MEMBERS)

/* One distinct (producer, dtype, view) that members read. */
typedef struct reading {
    int node;
    uint8_t dtype;
    int edges;  /* operands of members that read it (not counting second copies of casts) */
    int member; /* who calculates it inside the group, -1: a load */
    bool refused;
    int value; /* in the finished program */
    const tp_view *view;
} reading;

typedef struct member {
    int node;
    int reading[3]; /* by operand */
    bool second;    /* the node stays alive for other readers */
    int value;
} member;

typedef struct group {
    tp_work *work;
    int root;
    const tp_view *domain;
    int member_count, reading_count, loads, room;
    int reduction; /* the reading that becomes the step's reduction, -1 */
    bool prologue; /* it feeds a reduction or the like: no second one inside */
    member member[MAX_MEMBERS];
    reading reading[MAX_READS];
} group;

/* ---- Growing ------------------------------------------------------------------------ */

static int find_reading(group *g, int node, uint8_t dtype, const tp_view *view)
{
    for (int i = 0; i < g->reading_count; i++) {
        const reading *r = &g->reading[i];
        if (r->node == node && r->dtype == dtype && tp_view_equal(r->view, view)) return i;
    }
    return -1;
}

static int add_reading(group *g, int node, uint8_t dtype, const tp_view *view)
{
    int i = find_reading(g, node, dtype, view);
    if (i >= 0) return i;
    reading *r = &g->reading[g->reading_count];
    *r = (reading){.node = node, .dtype = dtype, .member = -1, .view = view};
    g->loads++;
    return g->reading_count++;
}

static void start(group *g, tp_work *work, int root)
{
    g->work = work;
    g->root = root;
    g->member_count = g->reading_count = g->loads = g->room = 0;
    g->reduction = -1;
    g->prologue = false;
}

/* The view through which a member's operand is read over the group's domain: `outer` reads the
 * member's buffer. NULL: there is none, or no memory. */
static const tp_view *operand_view(tp_work *work, const tp_wnode *node, const tp_edge *in,
                                   const tp_view *outer)
{
    tp_view inverse, logical, view;
    int dims[2];
    if (tp_view_equal(outer, node->store)) return in->view;
    bool plain = tp_view_is_row_major(node->store);
    if (plain && tp_view_is_row_major(in->view) && tp_view_numel(outer) > 0) return outer;
    if (!plain) {
        if (!tp_view_inverse(node->store, &inverse) ||
            !tp_view_compose(&inverse, outer, &logical, dims))
            return NULL;
        outer = &logical;
    }
    return tp_view_compose(in->view, outer, &view, dims) ? tp_work_view(work, &view, in->view)
                                                         : NULL;
}

/* What some node writes over must have been read by then. The writer itself reads just the
 * element that it writes; a second copy of the work might come later. */
static bool may_read(const group *g, const tp_edge *in, const tp_view *view, bool second)
{
    int writer = tp_work_writer(g->work, in->node);
    if (writer < 0 || g->work->node[writer].whole == g->work->node[in->node].whole) return true;
    if (writer != g->root) return !second;
    const tp_wnode *root = &g->work->node[g->root];
    return in->dtype == root->dtype && tp_view_equal(view, root->store);
}

/* Adds a node whose buffer is read by `outer`; false, with nothing changed, if it does not fit. */
static bool add_member(group *g, int n, const tp_view *outer, int operands, bool second)
{
    const tp_wnode *node = &g->work->node[n];
    const tp_view *view[3];
    int fresh = 0;
    for (int i = 0; i < operands; i++) {
        view[i] = operand_view(g->work, node, &node->in[i], outer);
        if (!view[i] || !may_read(g, &node->in[i], view[i], second)) return false;
        fresh += find_reading(g, node->in[i].node, node->in[i].dtype, view[i]) < 0;
    }
    bool joins = g->member_count > 0; /* it then replaces one load */
    if (g->loads - joins + fresh > TP_PROGRAM_LOADS ||
        g->room + tp_program_room(node) > TP_PROGRAM_INSNS)
        return false;
    if (g->member_count == MAX_MEMBERS || g->reading_count + fresh > MAX_READS) return false;
    member *m = &g->member[g->member_count++];
    *m = (member){.node = n, .second = second};
    for (int i = 0; i < operands; i++) {
        m->reading[i] = add_reading(g, node->in[i].node, node->in[i].dtype, view[i]);
        g->reading[m->reading[i]].edges += !second;
    }
    g->room += tp_program_room(node);
    return true;
}

static int cost(const tp_wnode *node)
{
    return tp_op_is_elementwise((tp_op)node->op) ? tp_op_info_of((tp_op)node->op)->cost : 1;
}

/* Whether all that reads n is reading r of this group. The latest readers, which are dead by now,
 * come first in the list: they are left out once and for all. */
static bool only_read_by(const group *g, int n, const reading *r)
{
    int users = 0;
    const tp_work *work = g->work;
    tp_edge *first = work->node[n].users = tp_work_user(work, n, work->node[n].users);
    for (tp_edge *e = first; e && users <= r->edges; e = tp_work_user(work, n, e->next)) users++;
    return users == r->edges;
}

/* Only parts of larger tensors read n, and together no more than there is: each can calculate
 * its own. */
static bool only_parts_read(const tp_work *work, int n)
{
    int64_t read = 0;
    int64_t most = tp_view_numel(work->node[n].store);
    for (tp_edge *e = tp_work_user(work, n, work->node[n].users); e && read <= most;
         e = tp_work_user(work, n, e->next)) {
        const tp_wnode *reader = &work->node[e->reader];
        if (reader->op != TP_OP_CONTIGUOUS || !reader->elements || e != &reader->in[0])
            return false;
        read += tp_view_numel(reader->store);
    }
    return read <= most;
}

static bool may_join(const group *g, const reading *r, bool *second)
{
    const tp_wnode *node = &g->work->node[r->node];
    if (!tp_work_is_elementwise(node) || r->dtype != node->dtype || node->elements) return false;
    *second = true;
    if (node->op == TP_OP_FULL) return true; /* joins all its readers */
    bool inside = !node->output && only_read_by(g, r->node, r);
    *second = !inside;
    if (node->op == TP_OP_CONTIGUOUS && node->reason == TP_REASON_COST) return false;
    if (!inside && node->op != TP_OP_CAST && (node->output || !only_parts_read(g->work, r->node)))
        return false;
    return cost(node) <= CHEAP_FLOPS || tp_view_numel(g->domain) <= tp_view_numel(node->store);
}

/* A reduction whose result is read once at each point can have the group as its epilogue. */
static bool may_reduce(const group *g, const reading *r)
{
    const tp_wnode *node = &g->work->node[r->node];
    for (int i = 0; i < node->in_count; i++) { /* it reads more than the element that is written */
        if (tp_work_writer(g->work, node->in[i].node) == g->root) return false;
    }
    if (g->prologue || g->reduction >= 0 || node->alias || node->output || node->elements ||
        tp_op_info_of((tp_op)node->op)->kind != TP_KIND_REDUCE)
        return false;
    if (r->dtype != node->dtype || !only_read_by(g, r->node, r)) return false;
    return tp_view_equal(r->view, node->store);
}

/* The latest producer not decided yet: all its possible readers are decided then. */
static int next_candidate(const group *g)
{
    int best = -1;
    for (int i = 0; i < g->reading_count; i++) {
        const reading *r = &g->reading[i];
        if (r->member < 0 && !r->refused && i != g->reduction &&
            (best < 0 || r->node > g->reading[best].node))
            best = i;
    }
    return best;
}

static void grow(group *g)
{
    for (int i = next_candidate(g); i >= 0; i = next_candidate(g)) {
        reading *r = &g->reading[i];
        bool second = false;
        if (may_reduce(g, r)) {
            g->reduction = i;
            continue;
        }
        int operands = g->work->node[r->node].in_count;
        if (!may_join(g, r, &second) || !add_member(g, r->node, r->view, operands, second)) {
            r->refused = true;
            continue;
        }
        r->member = g->member_count - 1;
        g->loads--;
    }
}

/* ---- The program ------------------------------------------------------------------------- */

static int value_of(const group *g, int i)
{
    const reading *r = &g->reading[i];
    return r->member < 0 ? r->value : g->member[r->member].value;
}

/* Members join from late to early: in reverse each comes after what it reads. The root's own
 * work is skipped when it is not elementwise: its operand is just converted. */
static tp_program *write_program(group *g)
{
    tp_program *program = tp_work_alloc(g->work, sizeof *program);
    if (!program) return NULL;
    *program =
        (tp_program){.insn = tp_work_alloc(g->work, (size_t)(g->room + 1) * sizeof *program->insn)};
    if (!program->insn) return NULL;
    if (g->reduction >= 0) g->reading[g->reduction].value = program->load_count++;
    for (int i = 0; i < g->reading_count; i++) {
        if (g->reading[i].member < 0 && i != g->reduction)
            g->reading[i].value = program->load_count++;
    }
    for (int k = g->member_count - 1; k >= 0; k--) {
        member *m = &g->member[k];
        const tp_wnode *node = &g->work->node[m->node];
        int value[3] = {0};
        uint8_t dtype[3] = {0};
        for (int i = 0; i < tp_work_operands(node) && i < 3; i++) {
            value[i] = value_of(g, m->reading[i]);
            dtype[i] = g->reading[m->reading[i]].dtype;
        }
        if (k == 0 && !tp_work_is_elementwise(node))
            m->value = tp_program_convert(program, value[0], dtype[0], node->calc);
        else
            m->value = tp_program_apply(program, node, value, dtype);
    }
    program->result = g->member[0].value;
    return program;
}

/* ---- Putting it in -----------------------------------------------------------------------------
 */

static tp_status retire_members(group *g)
{
    tp_wnode *root = &g->work->node[g->root];
    for (int k = 1; k < g->member_count; k++) {
        tp_wnode *node = &g->work->node[g->member[k].node];
        root->fused += node->op != TP_OP_FULL && node->op != TP_OP_CONTIGUOUS;
        if (g->member[k].second) continue;
        tp_work_retire(g->work, g->member[k].node);
        if (node->as_built)
            TRY(tp_work_ledger(g->work, g->member[k].node, false, TP_REASON_FUSED,
                               tp_work_note("read through its strides by %s", root)));
    }
    return TP_OK;
}

/* Copies the group's loads to edges from `at` on; gives the end. */
static tp_edge *write_edges(group *g, tp_edge *at)
{
    for (int i = 0; i < g->reading_count; i++) {
        const reading *r = &g->reading[i];
        if (r->member >= 0 || i == g->reduction) continue;
        at->reader = g->root;
        at->dtype = r->dtype;
        at->view = r->view;
        tp_work_link(g->work, at++, r->node);
    }
    return at;
}

/* Room for the operands of the finished root: the prologue's loads, its own further operands,
 * the epilogue's loads. The old edges go; a buffer that it writes into stays the last one. */
static tp_edge *new_operands(tp_work *work, int root, int count)
{
    tp_wnode *node = &work->node[root];
    tp_edge *in = tp_work_alloc(work, (size_t)(count + 1) * sizeof *in);
    if (!in) return NULL;
    int target = node->into ? node->in[node->in_count - 1].node : -1;
    if (node->into) in[count] = node->in[node->in_count - 1];
    for (int i = 0; i < node->in_count; i++) tp_work_unlink(work, &node->in[i]);
    node->in = in;
    node->in_count = count + node->into;
    if (node->into) tp_work_link(work, &in[count], target);
    return in;
}

/* The root is the reduction in disguise from now on. */
static void become_reduction(tp_work *work, int root, int reduction)
{
    tp_wnode *node = &work->node[root], *from = &work->node[reduction];
    node->reduction = from->asked;
    node->axes = from->axes;
    node->op = from->op;
    node->calc = from->calc;
    node->fused += from->fused;
    tp_work_retire(work, reduction);
}

/* Starts a group at operand 0 of a node that reads it through a program. */
static void start_prologue(group *g, tp_work *work, int root, int reader)
{
    start(g, work, root);
    g->prologue = true;
    const tp_wnode *node = &work->node[reader];
    g->domain = node->in[0].view;
    member *m = &g->member[g->member_count++];
    *m = (member){.node = reader};
    m->reading[0] = add_reading(g, node->in[0].node, node->in[0].dtype, node->in[0].view);
    g->reading[m->reading[0]].edges = 1;
    g->room = 1;
    grow(g);
}

static tp_status fuse_elementwise(group *g, group *inner, tp_work *work, int n)
{
    tp_wnode *node = &work->node[n];
    start(g, work, n);
    g->domain = node->store;
    if (!add_member(g, n, node->store, tp_work_operands(node), false)) return TP_OK;
    grow(g);
    int reduction = g->reduction >= 0 ? g->reading[g->reduction].node : -1;
    if (g->member_count == 1 && reduction < 0) return TP_OK;
    bool copy = node->op == TP_OP_CONTIGUOUS && node->as_built;
    tp_program *program = write_program(g), *prologue = NULL;
    if (reduction >= 0) start_prologue(inner, work, n, reduction);
    if (program && reduction >= 0) prologue = write_program(inner);
    tp_edge *in = program && (reduction < 0 || prologue)
                      ? new_operands(work, n, g->loads + (reduction >= 0 ? inner->loads - 1 : 0))
                      : NULL;
    if (!in) return tp_graph_fail_nomem(work->graph, "eval");
    if (copy && program->insn_count + (reduction >= 0)) { /* its store is the copy */
        node->as_built = false;
        TRY(tp_work_ledger(
            work, n, false, TP_REASON_FUSED,
            tp_work_note("the kernel that calculates it stores it in this order", NULL)));
    }
    node->prologue = reduction >= 0 ? prologue : program;
    node->domain = reduction >= 0 ? inner->domain : g->domain;
    TRY(retire_members(g));
    if (reduction >= 0) {
        node->epilogue = program;
        TRY(retire_members(inner));
        become_reduction(work, n, reduction);
        in = write_edges(inner, in);
    }
    write_edges(g, in);
    return TP_OK;
}

/* A reduction, softmax or layer norm takes in what makes its first operand. */
static tp_status fuse_prologue(group *g, tp_work *work, int n)
{
    tp_wnode *node = &work->node[n];
    start_prologue(g, work, n, n);
    if (g->member_count == 1) return TP_OK;
    tp_edge *old = node->in;
    int further = tp_work_operands(node) - 1, producer[2] = {-1, -1};
    for (int i = 0; i < further; i++) producer[i] = old[i + 1].node;
    tp_program *program = write_program(g);
    tp_edge *in = program ? new_operands(work, n, g->loads + further) : NULL;
    if (!in) return tp_graph_fail_nomem(work->graph, "eval");
    node->prologue = program;
    node->domain = g->domain;
    TRY(retire_members(g));
    in = write_edges(g, in);
    for (int i = 0; i < further; i++, in++) {
        *in = old[i + 1];
        tp_work_link(work, in, producer[i]);
    }
    return TP_OK;
}

static tp_status fuse_node(group *g, group *inner, tp_work *work, int n)
{
    const tp_wnode *node = &work->node[n];
    if (node->dead || node->alias) return TP_OK;
    if (tp_work_is_elementwise(node)) return fuse_elementwise(g, inner, work, n);
    bool domain = node->op == TP_OP_SOFTMAX || node->op == TP_OP_LAYER_NORM ||
                  tp_op_info_of((tp_op)node->op)->kind == TP_KIND_REDUCE;
    return domain ? fuse_prologue(g, work, n) : TP_OK;
}

tp_status tp_pass_fuse(tp_work *work)
{
    group g[2];
    tp_status status = TP_OK;
    /* Readers first: what a producer's readers did not take starts a group of its own. */
    for (int n = work->node_count - 1; n >= 0 && status == TP_OK; n--)
        status = fuse_node(&g[0], &g[1], work, n);
    tp_work_sweep(work);
    return status;
}
