/* The working form and the contract of a pass.
 *
 *   asked graph -> (clone) working graph -> passes -> (emit) plan -> backend
 *
 * The working graph holds leaves and compute nodes. A view is an edge label here: an
 * operand is (producer, dtype, view over the producer's buffer). Each node owns one buffer of
 * numel elements and a `store` view that says where in it element i of its result goes:
 * row-major until write_through says otherwise. A node with a VIEW-like op only stands in
 * until fold_views has run: it has no buffer, its readers' views address its base already.
 *
 * Several nodes may fill one buffer, part by part (concat, pad, update): `store` then addresses a
 * part of it, `elements` says how large it is, and from the second on `into` is set: the last
 * operand is the buffer as the node before left it, whose bytes the node takes over. Readers
 * address the whole buffer. Parts of one tensor (`whole`) do not overlap.
 *
 * What always holds (tp_work_verify): an edge's node is smaller than its reader; every edge's
 * view stays inside its producer's buffer; store is a bijection onto the buffer or onto a part of
 * it; a buffer that is written into is not delivered, and its
 * other readers come before the writer, unless it writes another part of the same tensor; a live
 * node reads no dead one; a delivered node is not dead. */
#ifndef TP_PASS_H
#define TP_PASS_H

#include "../backends/backend.h"

/* Views are pointed at and never change: most nodes and edges share one with their neighbours or
 * with the asked graph. */

/* One operand of a node. */
typedef struct tp_edge {
    int node;             /* who makes it; -1: this edge is gone */
    int reader;           /* whose operand it is */
    struct tp_edge *next; /* in the list of node's users */
    const tp_view *view;  /* over node's buffer, in elements of dtype */
    uint8_t dtype;        /* the type it is read as (a bitcast: not node's own) */
} tp_edge;

/* Why a copy went or stays: a format with at most one %s, for the name of `who`. It becomes text
 * only in a plan. */
typedef struct tp_note {
    const char *format; /* NULL: nothing to add */
    const tp_tensor *who;
} tp_note;

/* What most passes ask comes first: it shares a cache line. */
typedef struct tp_wnode {
    uint8_t op; /* tp_op; DATA: a leaf, whatever made it */
    uint8_t dtype, calc;
    bool alias;           /* stands in for a view, see above */
    bool dead;            /* nobody needs it any more, or another node does its work */
    bool output;          /* its buffer is delivered */
    bool into;            /* see above */
    bool as_built;        /* a copy that the user's graph makes */
    int in_count;         /* of in */
    int writer;           /* who writes into its buffer, -1; see tp_work_writer */
    int fused;            /* asked nodes it does the work of */
    const tp_view *store; /* its shape is the node's shape; a stand-in's means nothing else */
    tp_edge *in;
    tp_edge *users; /* edges that read it; skip those with another node or a dead reader */
    tp_tensor *asked;
    int64_t elements; /* of its buffer, if store addresses a part of it; else 0 */

    const tp_tensor *whole; /* with elements: the asked node that the parts make */
    uint8_t reason;         /* tp_reason of a copy that some pass had to leave: why */
    uint8_t hidden;         /* with streamed: the load that hides what it is false for, 0: none */
    int8_t dims[2];         /* with RESHAPE_NOT_A_VIEW: the dims that cannot merge, else -1 */
    int heir;               /* of a dead node that was delivered: who is in its place */
    tp_note note;           /* on reason: who demanded it, or what it would have cost */
    /* Filled by fuse. NULL: the node does just its own op. Loads of the prologue come first
     * in in[], those of the epilogue after them (its value 0 is the reduction's result). */
    tp_program *prologue, *epilogue;
    const tp_view *domain;      /* with a prologue: the shape it runs over */
    const tp_tensor *reduction; /* with an epilogue: the asked node that is reduced */
    const tp_tensor *streamed;  /* of a product that does a whole attention: the asked softmax */
    uint32_t axes;              /* of a reduction: a bit per reduced dim of what it reads */
} tp_wnode;

/* A row of the ledger; its own note is filled in by emit. */
typedef struct tp_ledger_row {
    tp_copy copy;
    tp_note note;
    struct tp_ledger_row *next;
} tp_ledger_row;

/* Where a node's buffer lies (schedule and place). */
typedef struct tp_place {
    int first, last; /* positions in the order; -1: never */
    int root;        /* the node whose bytes it shares, itself if none */
    int next;        /* another node of its group, in a ring */
    int64_t offset;  /* of a root that is no output: in the workspace */
} tp_place;

typedef struct tp_work {
    tp_graph *graph;
    tp_context *context;
    const tp_backend *backend;
    tp_arena arena; /* all of it */
    int node_count;
    tp_wnode *node;
    int aliases;    /* live stand-ins */
    int *copies;    /* nodes that were made as copies, ascending */
    int copy_nodes; /* of these */
    bool has_softmax;
    int delivery_count;
    tp_delivery *delivery;        /* buffer holds a node until emit, see tp_work_delivered */
    int *order;                   /* live nodes that run, in their order */
    int order_count, order_reads; /* nodes, and their operands together */
    int64_t *bytes;               /* of the buffers of nodes that run */
    tp_place *place;              /* by node; NULL: every buffer on its own */
    int64_t workspace_bytes;
    int in_place;
    tp_ledger_row *ledger, **ledger_end;
    int copy_count; /* of its rows */
    int asked_copies;
    int64_t asked_copied_bytes;
    tp_eval_options options;
    bool unswept;       /* a node may have lost its last reader since tp_work_sweep */
    bool out_of_memory; /* the driver gives up after the pass that ran out */
} tp_work;

/* A pass. TP_OK, or the recorded error; then the working graph is thrown away. */
#define PASS(name, meaning) tp_status tp_pass_##name(tp_work *work);
#include "passes.def"

/* ---- clone.c: asked graph to working graph --------------------------------------- */

/* outputs: not evaluated, each once. */
tp_status tp_work_create(tp_graph *graph, int count, tp_tensor *const *outputs,
                         const tp_eval_options *options, tp_work *work);
void tp_work_free(tp_work *work);

/* ---- edit.c: the only ways to change a working graph -------------------------------- */

/* Memory for as long as the working graph lives; NULL sets out_of_memory. */
void *tp_work_alloc(tp_work *work, size_t size_bytes);
/* A view that lives as long: v itself where it equals one of those at hand (`like`, which may be
 * NULL), else a copy. NULL sets out_of_memory. */
const tp_view *tp_work_view(tp_work *work, const tp_view *v, const tp_view *like);
/* Points an edge at a producer and enters it in the list of users. */
void tp_work_link(tp_work *work, tp_edge *edge, int node);
/* An edge goes. */
void tp_work_unlink(tp_work *work, tp_edge *edge);
/* The next live user from `edge` on of node, NULL at the end: for (e = first; e; e = next). */
static inline tp_edge *tp_work_user(const tp_work *work, int node, tp_edge *edge)
{
    while (edge && (edge->node != node || work->node[edge->reader].dead)) edge = edge->next;
    return edge;
}
/* Whether a stand-in reads the node: its own readers' views then depend on the node's layout
 * and nothing may change it. */
bool tp_work_has_alias(const tp_work *work, int node);
/* How `upper`, an edge that reads a buffer laid out as elements of lower_dtype in row-major
 * order of `lower`, reads the memory that lower addresses. False: not one view; *dims then
 * is the pair of lower's dims to blame. */
bool tp_work_through(const tp_view *lower, tp_dtype lower_dtype, const tp_edge *upper,
                     tp_view *view, int dims[2]);
/* All readers of old read new from now on, each with the view that `view` gives it (same order
 * as the list of users; NULL: the one it has); deliveries move along; old is dead. */
void tp_work_replace(tp_work *work, int old_node, int new_node, const tp_view *view);
/* The node whose buffer delivery d is of now. */
int tp_work_delivered(const tp_work *work, int d);
/* Another node does its work. */
void tp_work_retire(tp_work *work, int node);
/* Marks nodes that no delivery needs as dead. */
void tp_work_sweep(tp_work *work);
/* A note about a node; who NULL: the format is the text. */
tp_note tp_work_note(const char *format, const tp_wnode *who);
/* A ledger row for a copy: kept, or gone for a reason. */
tp_status tp_work_ledger(tp_work *work, int node, bool kept, tp_reason reason, tp_note note);
/* Notes why a copy stays; dims NULL: no dims are to blame. */
void tp_work_keep(tp_work *work, int node, tp_reason reason, const int dims[2], tp_note note);
/* Elements and bytes of its buffer; bytes that it stores. */
int64_t tp_work_elements(const tp_wnode *node);
int64_t tp_work_bytes(const tp_wnode *node);
int64_t tp_work_stored_bytes(const tp_wnode *node);
/* Operands that it reads: all but a buffer that it writes into. */
static inline int tp_work_operands(const tp_wnode *node)
{
    return node->in_count - node->into;
}
/* The node that writes into n's buffer, -1: none does. */
static inline int tp_work_writer(const tp_work *work, int n)
{
    int writer = work->node[n].writer;
    if (writer < 0 || work->node[writer].dead) return -1;
    const tp_wnode *node = &work->node[writer];
    return node->into && node->in[node->in_count - 1].node == n ? writer : -1;
}
/* Whether an edge reads its producer's buffer in its whole length, row-major. */
bool tp_work_reads_whole(const tp_work *work, const tp_edge *edge);
/* Whether the node does elementwise work (its own op or a copy, cast or constant). */
static inline bool tp_work_is_elementwise(const tp_wnode *node)
{
    return !node->alias && (tp_op_is_elementwise((tp_op)node->op) || node->op == TP_OP_CONTIGUOUS ||
                            node->op == TP_OP_CAST || node->op == TP_OP_FULL);
}
/* Short name for notes: the user's name or "%12 matmul". */
void tp_work_label(const tp_tensor *asked, char *text, size_t size);

/* ---- step.c: a node as a step ----------------------------------------------------------- */

/* operand[].buffer are node numbers; memory comes from arena. */
tp_status tp_work_step(tp_work *work, int node, tp_arena *arena, tp_step *step);
/* How far down its list the backend goes for the node (0: its best kernel), -1: out of
 * memory; *why: the first refusal. */
int tp_work_kernel_rank(tp_work *work, int node, tp_reason *why);

/* Whether the backend has a kernel for the node at all. */
bool tp_work_is_taken(tp_work *work, int node);

/* ---- schedule.c, place.c: what holds without these passes -------------------------------------
 */

/* The live nodes in the user's order, and the bytes of their buffers. */
tp_status tp_work_order(tp_work *work);
/* Every temporary in bytes of its own. */
tp_status tp_work_place_apart(tp_work *work);
/* The node whose buffer n's readers address: n, or what it stands in for. */
static inline int tp_work_base(const tp_work *work, int n)
{
    while (work->node[n].alias) n = work->node[n].in[0].node;
    return n;
}

/* ---- emit.c, run.c, verify_work.c ----------------------------------------------------------- */

tp_status tp_work_emit(tp_work *work, tp_plan *plan);
/* The whole pipeline: a plan for outputs (not evaluated, each once). On success the plan
 * owns its arena. */
tp_status tp_passes_run(tp_graph *graph, int count, tp_tensor *const *outputs,
                        const tp_eval_options *options, tp_plan *plan);
/* NULL if all invariants hold, else a sentence in text. */
const char *tp_work_verify(const tp_work *work, char *text, size_t size);

#endif
