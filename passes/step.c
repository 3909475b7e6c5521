/* A working node as a step: the one place that knows how an op becomes operands, axes and a
 * program. Passes use it to ask the backend what it would do; emit uses it for the plan. */
#include "program.h"

#include <string.h>

/* The program of a node that does only its own work: elementwise its op, otherwise the
 * conversion of its first operand. */
static bool own_program(const tp_wnode *node, tp_arena *arena, tp_program *program)
{
    bool elementwise = tp_work_is_elementwise(node);
    int operands = tp_work_operands(node);
    *program = (tp_program){.load_count = elementwise ? operands : 1,
                            .insn = tp_arena_alloc(arena, 4 * sizeof(tp_insn))};
    if (!program->insn) return false;
    static const int value[] = {0, 1, 2};
    uint8_t dtype[3];
    for (int i = 0; i < operands && i < 3; i++) dtype[i] = node->in[i].dtype;
    program->result = elementwise ? tp_program_apply(program, node, value, dtype)
                                  : tp_program_convert(program, 0, dtype[0], node->calc);
    return true;
}

/* A view of a reduction's result, of any keepdims, with size 1 in the reduced dims. */
static void with_reduced_dims(const tp_view *v, int rank, uint32_t axes, tp_view *y)
{
    if (v->ndim == rank) {
        tp_view_copy(y, v);
        return;
    }
    *y = (tp_view){.ndim = rank, .offset = v->offset};
    for (int d = 0, from = 0; d < rank; d++) {
        bool reduced = axes >> d & 1U;
        y->shape[d] = reduced ? 1 : v->shape[from];
        y->stride[d] = reduced ? 0 : v->stride[from];
        from += !reduced;
    }
}

static void set_reduction(const tp_wnode *node, tp_step *step)
{
    const tp_tensor *reduction = node->reduction ? node->reduction : node->asked;
    step->kind = TP_STEP_REDUCE;
    step->op = reduction->op;
    step->calc = reduction->calc;
    /* A mean of integers is the quotient of their 64-bit sum: it reads them as they are. */
    step->reduced = reduction->dtype;
    step->axes = node->axes;
    int rank = step->domain.ndim;
    tp_view out;
    with_reduced_dims(&step->out.view, rank, step->axes, &out);
    tp_view_copy(&step->out.view, &out);
    for (int i = step->prologue.load_count; i < step->operand_count; i++) {
        with_reduced_dims(node->in[i].view, rank, step->axes, &step->operand[i].view);
    }
    if (node->epilogue) step->epilogue = *node->epilogue;
}

/* weight and bias of a layer norm over x's shape: stride 0 in the leading dims. */
static void set_layer_norm(const tp_wnode *node, tp_step *step)
{
    step->kind = TP_STEP_LAYER_NORM;
    int rank = step->domain.ndim;
    step->axes = (1U << rank) - (1U << (rank - (int)node->asked->attr[0]));
    step->value[0] = node->asked->value[0];
    step->value[1].i = node->asked->attr[1];
    for (int i = step->prologue.load_count; i < step->operand_count; i++) {
        tp_view_expand(node->in[i].view, rank, step->domain.shape, &step->operand[i].view);
    }
}

/* What works along the axis that is the op's first attribute. */
static void set_along(const tp_wnode *node, tp_step_kind kind, tp_step *step)
{
    step->kind = kind;
    step->axis = (int)node->asked->attr[0];
}

static void set_kind(const tp_wnode *node, tp_step *step)
{
    if (tp_op_info_of((tp_op)node->op)->kind == TP_KIND_REDUCE) {
        set_reduction(node, step);
        return;
    }
    switch (node->op) {
    case TP_OP_SOFTMAX:
        step->kind = TP_STEP_SOFTMAX;
        step->axes = 1U << node->asked->attr[0];
        step->value[0].i = node->asked->attr_count > 1;
        break;
    case TP_OP_LAYER_NORM:
        set_layer_norm(node, step);
        break;
    case TP_OP_MATMUL:
        step->kind = node->streamed ? TP_STEP_ATTENTION : TP_STEP_MATMUL;
        if (!node->streamed) break;
        step->op = TP_OP_SOFTMAX;
        step->calc = TP_F32;
        step->value[0].i = node->streamed->attr_count > 1;
        step->value[1].i = node->hidden;
        break;
    case TP_OP_INDEX_SELECT:
        set_along(node, TP_STEP_INDEX_SELECT, step);
        break;
    case TP_OP_TAKE_ALONG:
        set_along(node, TP_STEP_TAKE_ALONG, step);
        break;
    case TP_OP_SCATTER_ADD:
        set_along(node, TP_STEP_SCATTER_ADD, step);
        tp_view_copy(&step->domain, node->in[1].view);
        break;
    case TP_OP_CUMSUM:
    case TP_OP_CUMPROD:
    case TP_OP_CUMMAX:
        set_along(node, TP_STEP_SCAN, step);
        break;
    case TP_OP_SORT:
    case TP_OP_ARGSORT:
        set_along(node, TP_STEP_SORT, step);
        step->value[0].i = node->asked->attr[1];
        break;
    case TP_OP_RANDOM_UNIFORM:
    case TP_OP_RANDOM_NORMAL:
        step->kind = TP_STEP_RANDOM;
        step->value[0].i = node->asked->attr[node->asked->attr_count - 1];
        break;
    case TP_OP_ARANGE:
        step->kind = TP_STEP_ARANGE;
        step->value[0] = node->asked->value[0];
        step->value[1] = node->asked->value[1];
        break;
    default:
        step->kind = TP_STEP_EWISE;
    }
}

/* Whether the op reads its first operand through a program over that operand's shape. */
static bool reads_domain(const tp_wnode *node)
{
    return node->epilogue || tp_op_info_of((tp_op)node->op)->kind == TP_KIND_REDUCE ||
           node->op == TP_OP_SOFTMAX || node->op == TP_OP_LAYER_NORM;
}

tp_status tp_work_step(tp_work *work, int n, tp_arena *arena, tp_step *step)
{
    const tp_wnode *node = &work->node[n];
    /* Of views only the dims in use are ever written or read. */
    tp_zero(step, offsetof(tp_step, domain));
    tp_zero(&step->prologue, offsetof(tp_step, out) - offsetof(tp_step, prologue));
    tp_zero(&step->into, sizeof *step - offsetof(tp_step, into));
    step->op = node->op;
    step->calc = node->calc;
    step->asked = node->asked;
    step->fused = node->fused;
    step->ledger = -1;
    step->operand_count = tp_work_operands(node);
    step->into = node->into ? node->in[node->in_count - 1].node : -1;
    step->operand = tp_arena_alloc(arena, (size_t)step->operand_count * sizeof *step->operand);
    if (!step->operand) return tp_graph_fail_nomem(work->graph, "eval");
    for (int i = 0; i < step->operand_count; i++) {
        step->operand[i].buffer = node->in[i].node;
        step->operand[i].dtype = node->in[i].dtype;
        tp_view_copy(&step->operand[i].view, node->in[i].view);
    }
    step->out.buffer = n;
    step->out.dtype = node->dtype;
    tp_view_copy(&step->out.view, node->store);
    bool domain = reads_domain(node);
    if (node->prologue)
        tp_view_copy(&step->domain, node->domain);
    else
        tp_view_copy(&step->domain, domain ? node->in[0].view : node->store);
    if (node->prologue)
        step->prologue = *node->prologue;
    else if (domain || tp_work_is_elementwise(node)) {
        if (!own_program(node, arena, &step->prologue))
            return tp_graph_fail_nomem(work->graph, "eval");
    }
    set_kind(node, step);
    return TP_OK;
}

int tp_work_kernel_rank(tp_work *work, int n, tp_reason *why)
{
    tp_arena before = work->arena;
    tp_step step;
    int rank = -1;
    *why = TP_REASON_NONE;
    if (tp_work_step(work, n, &work->arena, &step) == TP_OK)
        tp_backend_choose(work->backend, &step, &rank, why);
    else
        work->out_of_memory = true;
    tp_arena_rewind(&work->arena, &before);
    return rank;
}

bool tp_work_is_taken(tp_work *work, int n)
{
    tp_arena before = work->arena;
    tp_step step;
    bool taken = false;
    if (tp_work_step(work, n, &work->arena, &step) == TP_OK)
        taken = tp_backend_takes(work->backend, &step);
    else
        work->out_of_memory = true;
    tp_arena_rewind(&work->arena, &before);
    return taken;
}
