/* stream: attention runs in tiles; its scores are never stored.
 *
 * y = softmax(f(q k)) v, where f is elementwise work on the scores with operands that broadcast
 * (a scale, masks), becomes one step if nobody else reads what is in between and the backend
 * has a kernel for it: it goes through tiles of keys, keeps the largest score and the sum of each
 * row so far, and rescales what it has added up when the largest grows (online softmax). f is a
 * program whose value 0 is the score. Where f's last word is "-inf where a mask is false", a tile
 * of keys that the mask hides altogether is skipped.
 *
 * Falls: bytes of temporaries. Like a BLAS call the result is right to a bound, not to the bit.
 * Small scores stay in the cache as they are: below SMALL_BYTES nothing changes. */
#include "program.h"

#include <math.h>

#define SMALL_BYTES ((int64_t)4 << 20)
#define FEW_ROWS 32
/* Operations between the two products at most. */
#define MOST_LINKS 16

typedef struct chain {
    int value, softmax, score; /* the nodes: p v, softmax, q k */
    int link[MOST_LINKS];      /* elementwise nodes from the softmax's operand down to the scores */
    int through[MOST_LINKS];   /* which operand of each is the next one */
    int links;
    int loads, room; /* of the program */
} chain;

/* Scores are calculated in f32, whatever of these they are. */
static bool is_taken(uint8_t dtype)
{
    return dtype == TP_F32 || dtype == TP_F16 || dtype == TP_BF16;
}

/* Whether an edge reads a whole node of this op that nobody else reads. */
static bool reads_alone(const tp_work *work, const tp_edge *edge)
{
    const tp_wnode *node = &work->node[edge->node];
    if (node->op == TP_OP_DATA || node->alias || node->output || node->elements ||
        !is_taken(node->dtype) || !tp_view_is_row_major(node->store))
        return false;
    const tp_edge *first = tp_work_user(work, edge->node, node->users);
    return first == edge && !tp_work_user(work, edge->node, edge->next) &&
           tp_work_reads_whole(work, edge) && tp_view_same_shape(edge->view, node->store);
}

/* Follows elementwise work from an edge down to a product; fills the chain. */
static bool follow(const tp_work *work, const tp_edge *edge, chain *c)
{
    while (reads_alone(work, edge)) {
        const tp_wnode *node = &work->node[edge->node];
        if (node->op == TP_OP_MATMUL) {
            c->score = edge->node;
            return true;
        }
        if (!tp_work_is_elementwise(node) || !is_taken(node->calc) || c->links == MOST_LINKS)
            return false;
        int next = -1;
        for (int i = node->in_count - 1; i >= 0; i--) {
            bool mask = node->op == TP_OP_WHERE && i == 0;
            if (!mask && reads_alone(work, &node->in[i]) &&
                work->node[node->in[i].node].op != TP_OP_FULL)
                next = i;
        }
        if (next < 0) return false;
        c->loads += node->in_count - 1;
        c->room += tp_program_room(node) + node->in_count;
        c->link[c->links] = edge->node;
        c->through[c->links++] = next;
        edge = &node->in[next];
    }
    return false;
}

static bool matches(const tp_work *work, int n, chain *c)
{
    const tp_wnode *value = &work->node[n];
    if (value->op != TP_OP_MATMUL || value->alias || value->dead || !is_taken(value->dtype))
        return false;
    const tp_edge *p = &value->in[0];
    const tp_wnode *softmax = &work->node[p->node];
    int last = p->view->ndim - 1;
    if (softmax->op != TP_OP_SOFTMAX || softmax->asked->attr[0] != last || !reads_alone(work, p))
        return false;
    int64_t bytes = tp_work_bytes(softmax);
    if (bytes < SMALL_BYTES || p->view->shape[last - 1] < FEW_ROWS) return false;
    *c = (chain){.value = n, .softmax = p->node};
    return follow(work, &softmax->in[0], c) && c->loads < TP_PROGRAM_LOADS &&
           c->room <= TP_PROGRAM_INSNS;
}

static bool is_constant(const tp_work *work, const tp_edge *edge)
{
    const tp_wnode *node = &work->node[edge->node];
    return node->op == TP_OP_FULL && !node->alias && edge->dtype == node->dtype;
}

/* The program of the chain, its value 0 the score; edges gets its loads. mask: the load that hides
 * what it is false for, 0: none. */
static tp_program *write_program(tp_work *work, const chain *c, tp_edge *edges, int64_t *mask)
{
    tp_program *program = tp_work_alloc(work, sizeof *program);
    if (!program) return NULL;
    *program = (tp_program){.load_count = 1};
    program->insn = tp_work_alloc(work, (size_t)(c->room + 1) * sizeof *program->insn);
    if (!program->insn) return NULL;
    int load[MOST_LINKS][3];
    for (int k = c->links - 1; k >= 0; k--) {
        const tp_wnode *node = &work->node[c->link[k]];
        for (int i = 0; i < node->in_count; i++) {
            if (i == c->through[k] || is_constant(work, &node->in[i])) continue;
            edges[program->load_count - 1] = node->in[i];
            load[k][i] = program->load_count++;
        }
        bool hides = node->op == TP_OP_WHERE && c->through[k] == 1 &&
                     is_constant(work, &node->in[2]) && !is_constant(work, &node->in[0]) &&
                     node->in[0].dtype == TP_BOOL &&
                     work->node[node->in[2].node].asked->value[0].f == -INFINITY;
        *mask = hides ? load[k][0] : 0; /* of the last one: k is 0 */
    }
    int value = 0;
    for (int k = c->links - 1; k >= 0; k--) {
        const tp_wnode *node = &work->node[c->link[k]];
        int in[3] = {0};
        uint8_t dtype[3] = {0};
        for (int i = 0; i < node->in_count; i++) {
            if (i == c->through[k])
                in[i] = value;
            else if (is_constant(work, &node->in[i]))
                in[i] = tp_program_apply(program, &work->node[node->in[i].node], NULL, NULL);
            else
                in[i] = load[k][i];
            dtype[i] = node->in[i].dtype;
        }
        value = tp_program_apply(program, node, in, dtype);
    }
    program->result = value;
    return program;
}

/* The product of probabilities and values becomes the whole. */
static bool put_in(tp_work *work, const chain *c)
{
    tp_wnode *node = &work->node[c->value], *score = &work->node[c->score];
    int target = node->into ? node->in[node->in_count - 1].node : -1;
    tp_edge *in = tp_work_alloc(work, (size_t)(c->loads + 4) * sizeof *in);
    int64_t mask = 0;
    tp_program *program = in ? write_program(work, c, in + 3, &mask) : NULL;
    if (!program) return false;
    int count = 2 + program->load_count;
    in[0] = score->in[0];
    in[1] = score->in[1];
    in[2] = node->in[1];
    if (node->into) in[count] = node->in[node->in_count - 1];
    tp_wnode saved = *node;
    node->in = in;
    node->in_count = count + node->into;
    node->prologue = program;
    node->streamed = work->node[c->softmax].asked;
    node->hidden = (uint8_t)mask;
    node->domain = score->store;
    if (!tp_work_is_taken(work, c->value)) {
        *node = saved;
        return false;
    }
    for (int i = 0; i < saved.in_count; i++) tp_work_unlink(work, &saved.in[i]);
    for (int i = 0; i < count; i++) {
        in[i].reader = c->value;
        tp_work_link(work, &in[i], in[i].node);
    }
    if (node->into) tp_work_link(work, &in[count], target);
    node->fused += 2 + c->links;
    for (int k = 0; k < c->links; k++) tp_work_retire(work, c->link[k]);
    tp_work_retire(work, c->softmax);
    tp_work_retire(work, c->score);
    return true;
}

tp_status tp_pass_stream(tp_work *work)
{
    chain c;
    for (int n = 0; n < work->node_count && work->has_softmax; n++) {
        if (matches(work, n, &c)) put_in(work, &c);
    }
    tp_work_sweep(work);
    return TP_OK;
}
