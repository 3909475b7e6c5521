/* Bias, ReLU and GELU (its tanh form) at the end of a product: where an elementwise step does just
 * that to the product noted last, and nobody else reads it, cublasLt does both in one call. Where
 * it cannot, or says that it has no algorithm, nothing changes. */
#include "work.h"

#include <string.h>

/* ---- What the step does to the product --------------------------------------------------- */

typedef struct ending {
    int product, bias; /* loads; bias -1: none */
    cublasLtEpilogue_t epilogue;
} ending;

/* product + bias, or product, then at most one activation. */
static bool read_ending(const tp_step *step, int product, ending *e)
{
    const tp_program *p = &step->prologue;
    int last = product, i = 0;
    *e = (ending){.product = product, .bias = -1};
    if (p->insn_count && p->insn[0].op == TP_OP_ADD && p->load_count == 2) {
        const uint8_t *in = p->insn[0].in;
        if ((in[0] != product && in[1] != product) || in[0] == in[1]) return false;
        e->bias = 1 - product;
        last = p->load_count;
        i = 1;
    } else if (p->load_count != 1) {
        return false;
    }
    uint8_t activation = i < p->insn_count ? p->insn[i].op : TP_OP_COUNT;
    if (activation != TP_OP_COUNT && p->insn[i].in[0] != last) return false;
    bool biased = e->bias >= 0;
    if (activation == TP_OP_RELU)
        e->epilogue = biased ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    else if (activation == TP_OP_GELU_TANH)
        e->epilogue = biased ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    else if (activation == TP_OP_COUNT && biased)
        e->epilogue = CUBLASLT_EPILOGUE_BIAS;
    else
        return false;
    return p->insn_count == i + (activation != TP_OP_COUNT);
}

/* Whether no step after this one reads a buffer. */
static bool is_last_reader(const tp_plan *plan, int step, int buffer)
{
    for (int s = step + 1; s < plan->step_count; s++) {
        for (int i = 0; i < plan->step[s].operand_count; i++) {
            if (plan->step[s].operand[i].buffer == buffer) return false;
        }
    }
    return true;
}

/* The load that is the product noted last, -1: none is. */
static int find_product(const tp_step *step, const tp_run *run, const tp_cuda_gemm *g)
{
    const tp_plan *plan = ((const tp_cuda_prepared *)run->prepared)->plan;
    for (int i = 0; i < step->operand_count && i < 2; i++) {
        const tp_operand *o = &step->operand[i];
        if (plan->buffer[o->buffer].kind == TP_BUFFER_TEMP && tp_operand_at(o, run) == g->c &&
            tp_view_is_contiguous(&o->view) && tp_view_numel(&o->view) == g->m * g->n &&
            o->dtype == g->out_dtype && is_last_reader(plan, run->step, o->buffer))
            return i;
    }
    return -1;
}

/* A view of the step's domain as the product's n rows of m; false: it is none. */
static bool as_rows(const tp_view *v, const tp_cuda_gemm *g, tp_view *rows)
{
    int dims[2];
    int64_t shape[] = {g->n, g->m};
    return tp_view_reshape(v, 2, shape, rows, dims);
}

static bool types_fit(const tp_step *step, const tp_cuda_gemm *g)
{
    for (int i = 0; i < step->operand_count; i++) {
        if (step->operand[i].dtype != g->out_dtype) return false;
    }
    for (int i = 0; i < step->prologue.insn_count; i++) {
        if (step->prologue.insn[i].dtype != g->out_dtype) return false;
    }
    bool has_type = g->dtype == TP_F32 || g->dtype == TP_F16 || g->dtype == TP_BF16;
    return has_type && g->dtype == g->out_dtype && step->out.dtype == g->out_dtype;
}

/* The product with its ending, if the step is one. */
static bool ended(const tp_step *step, const tp_run *run, const tp_cuda_gemm *g,
                  tp_cuda_gemm *result)
{
    ending e;
    int product = find_product(step, run, g);
    bool plain = g->epilogue == 0 && g->batch == 1 && !g->table_a && g->ldc == g->m;
    if (!plain || product < 0 || g->m < 2 || g->n < 2 || g->k < 1 || !types_fit(step, g) ||
        !read_ending(step, product, &e))
        return false;
    tp_view out, bias;
    if (!as_rows(&step->out.view, g, &out) || out.stride[1] != 1 || out.stride[0] < g->m)
        return false;
    *result = *g;
    result->epilogue = e.epilogue;
    result->c = tp_operand_at(&step->out, run);
    result->ldc = out.stride[0];
    if (e.bias < 0) return true;
    const tp_operand *b = &step->operand[e.bias];
    result->bias = tp_operand_at(b, run);
    return as_rows(&b->view, g, &bias) && bias.stride[0] == 0 && bias.stride[1] == 1 &&
           (uintptr_t)result->bias % 16 == 0;
}

bool tp_cuda_fold_epilogue(const tp_step *step, tp_run *run)
{
    tp_cuda_notes *n = tp_cuda_notes_of(run);
    if (!tp_cuda_device.blas_lt || !n->item_count) return false;
    tp_cuda_item *item = &n->item[n->item_count - 1];
    tp_cuda_gemm gemm;
    if (item->kind != TP_CUDA_ITEM_GEMM || !ended(step, run, &item->gemm, &gemm) ||
        !tp_cuda_lt_choose(&gemm))
        return false;
    item->gemm = gemm;
    return true;
}
