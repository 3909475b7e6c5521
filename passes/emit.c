/* emit: the working graph, ordered and placed, becomes a plan: steps over buffers, the copy
 * ledger, deliveries and the summary. What a node is as a step is said in step.c. */
#include "pass.h"

#include <stdio.h>
#include <string.h>

typedef struct emitter {
    tp_work *work;
    tp_plan *plan;
    int *buffer; /* by node, -1: none */
} emitter;

static int add_buffer(emitter *e, int n)
{
    if (e->buffer[n] >= 0) return e->buffer[n];
    const tp_wnode *node = &e->work->node[n];
    const tp_place *place = &e->work->place[n];
    tp_buffer *b = &e->plan->buffer[e->plan->buffer_count];
    *b = (tp_buffer){.kind = node->op == TP_OP_DATA ? TP_BUFFER_LEAF
                             : node->output         ? TP_BUFFER_OUTPUT
                                                    : TP_BUFFER_TEMP,
                     .tensor = node->asked,
                     .size_bytes = tp_work_bytes(node),
                     .offset = place->offset,
                     .first = place->first,
                     .last = place->last,
                     .alias = -1};
    return e->buffer[n] = e->plan->buffer_count++;
}

/* ---- The summary ------------------------------------------------------------------------- */

/* Bytes of memory a view touches: repeated elements count once. */
static int64_t touched_bytes(const tp_operand *o)
{
    int64_t count = 1;
    for (int d = 0; d < o->view.ndim; d++) {
        if (o->view.stride[d] != 0 || o->view.shape[d] == 0) count *= o->view.shape[d];
    }
    return count * (int64_t)tp_dtype_size((tp_dtype)o->dtype);
}

static void add_to_summary(tp_plan_summary *sum, const tp_step *step)
{
    sum->kernels++;
    for (int i = 0; i < step->operand_count; i++)
        sum->moved_bytes += touched_bytes(&step->operand[i]);
    sum->moved_bytes += touched_bytes(&step->out);
    const tp_view *a = &step->operand[0].view, *b = &step->operand[1].view;
    if (step->kind == TP_STEP_MATMUL)
        sum->flops += 2 * tp_view_numel(&step->out.view) * a->shape[a->ndim - 1];
    else if (step->kind == TP_STEP_ATTENTION)
        sum->flops += 2 * tp_view_numel(&step->domain) * a->shape[a->ndim - 1] +
                      2 * tp_view_numel(&step->out.view) * b->shape[b->ndim - 1];
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static bool only_copies(const tp_wnode *node, const tp_step *step)
{
    return node->op == TP_OP_CONTIGUOUS && step->kind == TP_STEP_EWISE &&
           step->prologue.insn_count == 0;
}

static tp_status emit_step(emitter *e, int n)
{
    tp_work *work = e->work;
    tp_plan *plan = e->plan;
    tp_wnode *node = &work->node[n];
    tp_step *step = &plan->step[plan->step_count++];
    TRY(tp_work_step(work, n, &plan->arena, step));
    for (int i = 0; i < step->operand_count; i++)
        step->operand[i].buffer = add_buffer(e, tp_work_base(work, step->operand[i].buffer));
    if (step->into >= 0) step->into = add_buffer(e, step->into);
    step->out.buffer = add_buffer(e, n);
    step->kernel = tp_backend_choose(work->backend, step, NULL, NULL);
    add_to_summary(&plan->summary, step);
    if (!only_copies(node, step)) return TP_OK;
    if (node->reason == TP_REASON_NONE) node->reason = TP_REASON_PASS_OFF;
    step->ledger = work->copy_count;
    plan->summary.copies++;
    plan->summary.copied_bytes += tp_work_stored_bytes(node);
    tp_reason reason = (tp_reason)node->reason;
    tp_note why = tp_work_note(tp_reason_meaning(reason), NULL);
    return tp_work_ledger(work, n, true, reason, node->note.format ? node->note : why);
}

/* Programs and their instructions move to the plan's arena: the working graph is freed. */
static tp_status keep_program(tp_work *work, tp_arena *arena, tp_program *program)
{
    if (!program->insn_count) return TP_OK;
    size_t bytes = (size_t)program->insn_count * sizeof *program->insn;
    tp_insn *insn = tp_arena_alloc(arena, bytes);
    if (!insn) return tp_graph_fail_nomem(work->graph, "eval");
    program->insn = memcpy(insn, program->insn, bytes);
    return TP_OK;
}

static tp_status emit_steps(emitter *e)
{
    for (int i = 0; i < e->work->order_count; i++) {
        TRY(emit_step(e, e->work->order[i]));
        tp_step *step = &e->plan->step[i];
        TRY(keep_program(e->work, &e->plan->arena, &step->prologue));
        TRY(keep_program(e->work, &e->plan->arena, &step->epilogue));
    }
    return TP_OK;
}

/* Buffers that share bytes, once all are there. */
static void emit_aliases(emitter *e)
{
    for (int i = 0; i < e->work->order_count; i++) {
        int n = e->work->order[i], root = e->work->place[n].root;
        if (root == n) continue;
        e->plan->buffer[e->buffer[n]].alias = e->buffer[root];
    }
    for (int i = 0; i < e->plan->step_count; i++) {
        tp_step *step = &e->plan->step[i];
        const tp_buffer *buffers = e->plan->buffer;
        int out = buffers[step->out.buffer].alias >= 0 ? buffers[step->out.buffer].alias
                                                       : step->out.buffer;
        for (int j = 0; j < step->operand_count; j++) {
            int in = step->operand[j].buffer;
            in = buffers[in].alias >= 0 ? buffers[in].alias : in;
            step->in_place = step->in_place || in == out;
        }
    }
}

/* Leaves that must first go to the backend's device, or come from one. */
static tp_status emit_moves(emitter *e)
{
    for (int n = 0; n < e->work->node_count; n++) {
        if (e->buffer[n] < 0 || e->plan->buffer[e->buffer[n]].kind != TP_BUFFER_LEAF) continue;
        const tp_storage *storage = e->work->node[n].asked->storage;
        if (!storage || tp_storage_is_on(storage, e->work->backend->device)) continue;
        e->plan->summary.moves++;
        e->plan->summary.device_moved_bytes += (int64_t)storage->size_bytes;
        const char *where = e->work->backend->device ? "goes to the device before the first kernel"
                                                     : "comes to the host before the first kernel";
        TRY(tp_work_ledger(e->work, n, true, TP_REASON_DEVICE_MOVE, tp_work_note(where, NULL)));
    }
    return TP_OK;
}

/* A note as text in the plan's arena; NULL without memory. */
static const char *write_note(tp_arena *arena, const tp_note *note)
{
    char name[80], text[160];
    const char *from = note->format;
    if (note->who) {
        tp_work_label(note->who, name, sizeof name);
        snprintf(text, sizeof text, note->format, name);
        from = text;
    }
    size_t size = strlen(from) + 1;
    char *to = tp_arena_alloc(arena, size);
    return to ? memcpy(to, from, size) : NULL;
}

static tp_status emit_ledger(emitter *e)
{
    size_t bytes = (size_t)e->work->copy_count * sizeof *e->plan->copy;
    tp_copy *copy = e->plan->copy = tp_arena_alloc(&e->plan->arena, bytes);
    if (!copy) return tp_graph_fail_nomem(e->work->graph, "eval");
    e->plan->copy_count = e->work->copy_count;
    for (const tp_ledger_row *row = e->work->ledger; row; row = row->next, copy++) {
        *copy = row->copy;
        copy->note = write_note(&e->plan->arena, &row->note);
        if (!copy->note) return tp_graph_fail_nomem(e->work->graph, "eval");
        e->plan->summary.removed_copies += !copy->kept;
    }
    return TP_OK;
}

static void emit_deliveries(emitter *e)
{
    for (int d = 0; d < e->work->delivery_count; d++) {
        tp_delivery *delivery = &e->plan->delivery[d];
        *delivery = e->work->delivery[d];
        delivery->buffer = add_buffer(e, tp_work_delivered(e->work, d));
    }
    e->plan->delivery_count = e->work->delivery_count;
}

static void emit_summary(emitter *e)
{
    tp_plan_summary *sum = &e->plan->summary;
    sum->asked_copies = e->work->asked_copies;
    sum->asked_copied_bytes = e->work->asked_copied_bytes;
    sum->in_place = e->work->in_place;
    sum->workspace_bytes = sum->peak_bytes = e->work->workspace_bytes;
    for (int b = 0; b < e->plan->buffer_count; b++) {
        if (e->plan->buffer[b].kind == TP_BUFFER_OUTPUT)
            sum->peak_bytes += e->plan->buffer[b].size_bytes;
    }
}

static tp_status emit(emitter *e)
{
    tp_work *work = e->work;
    tp_plan *plan = e->plan;
    size_t nodes = (size_t)work->node_count + 1;
    plan->step = tp_arena_alloc(&plan->arena, (size_t)(work->order_count + 1) * sizeof *plan->step);
    plan->buffer = tp_arena_alloc(&plan->arena, nodes * sizeof *plan->buffer);
    plan->delivery =
        tp_arena_alloc(&plan->arena, (size_t)(work->delivery_count + 1) * sizeof *plan->delivery);
    if (!plan->step || !plan->buffer || !plan->delivery)
        return tp_graph_fail_nomem(work->graph, "eval");
    TRY(emit_steps(e));
    emit_deliveries(e);
    emit_aliases(e);
    TRY(emit_moves(e));
    TRY(emit_ledger(e));
    emit_summary(e);
    return TP_OK;
}

tp_status tp_work_emit(tp_work *work, tp_plan *plan)
{
    size_t bytes = (size_t)(work->node_count + 1) * sizeof(int);
    emitter e = {.work = work, .plan = plan, .buffer = tp_work_alloc(work, bytes)};
    if (!e.buffer) return tp_graph_fail_nomem(work->graph, "eval");
    memset(e.buffer, 0xFF, bytes); /* -1 */
    plan->graph = work->graph;
    plan->backend = work->backend;
    plan->options = work->options;
    return emit(&e);
}
