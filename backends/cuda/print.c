/* Noted work as lines for the context's log: every call with all its arguments, addresses as buffer
 * number + bytes, scratch as s and its number. */
#include "work.h"

static void print_address(tp_text *text, const tp_plan *plan, const tp_cuda_notes *n,
                          const char *name, const char *at)
{
    for (int i = 0; i < n->buffer_count; i++) {
        const char *start = n->address[i];
        if (!start || at < start || at >= start + plan->buffer[i].size_bytes) continue;
        tp_text_add(text, " %s=b%d+%lld", name, i, (long long)(at - start));
        return;
    }
    for (int64_t i = 0; i < n->scratch_count; i++) {
        const tp_cuda_scratch_block *s = &n->scratch[i];
        if (at < s->data || at >= s->data + s->size_bytes) continue;
        tp_text_add(text, " %s=s%lld+%lld", name, (long long)i, (long long)(at - s->data));
        return;
    }
    tp_text_add(text, " %s=%s", name, at ? "?" : "none");
}

static const char *epilogue_name(cublasLtEpilogue_t epilogue)
{
    switch (epilogue) {
    case CUBLASLT_EPILOGUE_BIAS:
        return " bias";
    case CUBLASLT_EPILOGUE_RELU:
        return " relu";
    case CUBLASLT_EPILOGUE_RELU_BIAS:
        return " relu(bias)";
    case CUBLASLT_EPILOGUE_GELU:
        return " gelu";
    case CUBLASLT_EPILOGUE_GELU_BIAS:
        return " gelu(bias)";
    default:
        return "";
    }
}

static void print_gemm(tp_text *text, const tp_plan *plan, const tp_cuda_notes *n,
                       const tp_cuda_gemm *g)
{
    const char *call = g->epilogue    ? "LtMatmul"
                       : g->table_a   ? "GemmBatchedEx"
                       : g->batch > 1 ? "GemmStridedBatchedEx"
                                      : "GemmEx";
    tp_text_add(text, "%s%s %s->%s %c%c m=%lld n=%lld k=%lld alpha=%.9g", call,
                epilogue_name(g->epilogue), tp_dtype_name(g->dtype), tp_dtype_name(g->out_dtype),
                g->trans_a ? 'T' : 'N', g->trans_b ? 'T' : 'N', (long long)g->m, (long long)g->n,
                (long long)g->k, g->alpha);
    print_address(text, plan, n, "a", g->table_a ? g->table_a : g->a);
    print_address(text, plan, n, "b", g->table_b ? g->table_b : g->b);
    print_address(text, plan, n, "c", g->table_c ? g->table_c : g->c);
    tp_text_add(text, " lda=%lld ldb=%lld ldc=%lld", (long long)g->lda, (long long)g->ldb,
                (long long)g->ldc);
    if (g->batch > 1)
        tp_text_add(text, " batch=%lld strides=%lld,%lld,%lld", (long long)g->batch,
                    (long long)g->stride_a, (long long)g->stride_b, (long long)g->stride_c);
    if (g->bias) print_address(text, plan, n, "bias", g->bias);
}

static void print_item(tp_text *text, const tp_plan *plan, const tp_cuda_notes *n,
                       const tp_cuda_item *item)
{
    if (item->kind == TP_CUDA_ITEM_KERNEL) {
        tp_text_add(text, "%s blocks=%u threads=%u shared=%u", item->kernel.function->name,
                    item->kernel.blocks, item->kernel.threads, item->kernel.shared_bytes);
    } else if (item->kind == TP_CUDA_ITEM_GEMM) {
        print_gemm(text, plan, n, &item->gemm);
    } else {
        tp_text_add(text, "fill %u bytes=%zu", item->fill.value, item->fill.size_bytes);
        print_address(text, plan, n, "to", item->fill.to);
    }
}

void tp_cuda_log_work(const tp_plan *plan, const tp_cuda_notes *n)
{
    if (!tp_context_logs(n->context)) return;
    tp_context_log(n->context, "cuda: %lld launches and calls", (long long)n->item_count);
    for (int64_t i = 0; i < n->item_count; i++) {
        char line[480];
        tp_text text = {.at = line, .size = sizeof line};
        print_item(&text, plan, n, &n->item[i]);
        tp_context_log(n->context, "cuda: step %d: %s", n->item[i].step, line);
    }
}
