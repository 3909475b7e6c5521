/* What a plan does on the device, noted step by step, then run.
 *
 * Notes are kept with the plan by the addresses they were made for: a plan that runs again with
 * the same buffers needs no kernel to be called, and from then on its work is one CUDA graph.
 * Outputs of two runs live at the same time, so a plan that runs in a loop uses a few sets of
 * addresses by turns, and keeps notes for as many. Scratch, and the memory that cuBLAS works in,
 * belong to the notes: another plan's graph can neither use nor free them. */
#include "work.h"

#include <string.h>

#define TEXT_BYTES ((size_t)256 << 10)

/* ---- Notes ------------------------------------------------------------------------------- */

static void free_notes(tp_cuda_notes *n)
{
    tp_context *c = n->context;
    if (n->exec && tp_cuda_enter() == TP_OK) {
        tp_cuda_device.api.cuGraphExecDestroy(n->exec);
        tp_cuda_leave();
    }
    for (int64_t i = 0; i < n->scratch_count; i++) tp_cuda_release(n->scratch[i].data);
    tp_cuda_release(n->fault_area);
    tp_cuda_release(n->blas_memory);
    tp_context_free(c, n->item, (size_t)n->item_capacity * sizeof *n->item);
    tp_context_free(c, n->args, (size_t)n->args_capacity);
    tp_context_free(c, n->scratch, (size_t)n->scratch_capacity * sizeof *n->scratch);
    tp_context_free(c, n->fault, (size_t)n->fault_capacity * sizeof *n->fault);
    tp_context_free(c, n->address, (size_t)n->buffer_count * sizeof *n->address);
    memset(n, 0, sizeof *n);
}

static tp_cuda_prepared *prepared_of(const tp_run *run)
{
    return run->prepared;
}

tp_cuda_notes *tp_cuda_notes_of(const tp_run *run)
{
    return prepared_of(run)->now;
}

/* A new item for the step that is being noted; NULL: out of memory. */
static tp_cuda_item *add_item(tp_run *run, tp_cuda_item_kind kind)
{
    tp_cuda_notes *n = tp_cuda_notes_of(run);
    if (!tp_grow(n->context, (void **)&n->item, &n->item_capacity, n->item_count + 1,
                 sizeof *n->item)) {
        tp_cuda_fail(TP_E_NOMEM, "out of memory");
        return NULL;
    }
    tp_cuda_item *item = &n->item[n->item_count++];
    memset(item, 0, sizeof *item);
    item->kind = kind;
    item->step = run->step;
    return item;
}

tp_text *tp_cuda_begin_text(tp_run *run)
{
    tp_cuda_prepared *p = prepared_of(run);
    p->text.length = 0;
    p->text.at[0] = 0;
    return &p->text;
}

/* Arguments lie one after the other, each 16-byte aligned. */
static tp_status keep_args(tp_cuda_notes *n, const void *args, size_t size_bytes, int64_t *at)
{
    int64_t start = (n->args_count + 15) / 16 * 16;
    if (!tp_grow(n->context, (void **)&n->args, &n->args_capacity, start + (int64_t)size_bytes, 1))
        return tp_cuda_fail(TP_E_NOMEM, "out of memory");
    memcpy(n->args + start, args, size_bytes);
    n->args_count = start + (int64_t)size_bytes;
    *at = start;
    return TP_OK;
}

tp_status tp_cuda_launch(tp_run *run, const char *name, int64_t blocks, int threads,
                         size_t shared_bytes, const void *args, size_t args_bytes)
{
    const tp_text *text = &prepared_of(run)->text;
    if (blocks <= 0) return TP_OK;
    if (text->length >= (int64_t)text->size)
        return tp_cuda_fail(TP_E_INTERNAL, "the text of kernel %s has %lld bytes", name,
                            (long long)text->length);
    tp_cuda_function *function = tp_cuda_find_function(text->at, name);
    if (!function) return tp_cuda_fail(TP_E_NOMEM, "out of memory");
    int64_t at = 0;
    TRY(keep_args(tp_cuda_notes_of(run), args, args_bytes, &at));
    tp_cuda_item *item = add_item(run, TP_CUDA_ITEM_KERNEL);
    if (!item) return tp_cuda_status();
    item->kernel.function = function;
    item->kernel.blocks = (unsigned)blocks;
    item->kernel.threads = (unsigned)threads;
    item->kernel.shared_bytes = (unsigned)shared_bytes;
    item->kernel.args = at;
    item->kernel.args_bytes = args_bytes;
    return TP_OK;
}

tp_status tp_cuda_multiply(tp_run *run, const tp_cuda_gemm *gemm)
{
    tp_cuda_notes *n = tp_cuda_notes_of(run);
    if (!n->blas_memory && !(n->blas_memory = tp_cuda_alloc(TP_CUDA_BLAS_BYTES)))
        return tp_cuda_status();
    tp_cuda_item *item = add_item(run, TP_CUDA_ITEM_GEMM);
    if (!item) return tp_cuda_status();
    item->gemm = *gemm;
    return TP_OK;
}

tp_status tp_cuda_fill(tp_run *run, char *to, uint8_t value, size_t size_bytes)
{
    if (!size_bytes) return TP_OK;
    tp_cuda_item *item = add_item(run, TP_CUDA_ITEM_FILL);
    if (!item) return tp_cuda_status();
    item->fill.to = to;
    item->fill.value = value;
    item->fill.size_bytes = size_bytes;
    return TP_OK;
}

/* The smallest block of an earlier step that suffices, else a new one. */
char *tp_cuda_scratch(tp_run *run, size_t size_bytes)
{
    tp_cuda_notes *n = tp_cuda_notes_of(run);
    tp_cuda_scratch_block *best = NULL;
    for (int64_t i = 0; i < n->scratch_count; i++) {
        tp_cuda_scratch_block *b = &n->scratch[i];
        bool fits = b->step != run->step && b->size_bytes >= size_bytes;
        if (fits && (!best || b->size_bytes < best->size_bytes)) best = b;
    }
    if (best) {
        best->step = run->step;
        return best->data;
    }
    if (!tp_grow(n->context, (void **)&n->scratch, &n->scratch_capacity, n->scratch_count + 1,
                 sizeof *n->scratch)) {
        tp_cuda_fail(TP_E_NOMEM, "out of memory");
        return NULL;
    }
    char *data = tp_cuda_alloc(size_bytes ? size_bytes : 1);
    if (data) n->scratch[n->scratch_count++] = (tp_cuda_scratch_block){data, size_bytes, run->step};
    return data;
}

char *tp_cuda_fault(tp_run *run, int64_t axis_size)
{
    tp_cuda_notes *n = tp_cuda_notes_of(run);
    if (!n->fault_area) {
        size_t bytes = (size_t)prepared_of(run)->plan->step_count * TP_CUDA_FAULT_BYTES;
        n->fault_area = tp_cuda_alloc(bytes);
        if (!n->fault_area) return NULL;
    }
    if (!tp_grow(n->context, (void **)&n->fault, &n->fault_capacity, n->fault_count + 1,
                 sizeof *n->fault)) {
        tp_cuda_fail(TP_E_NOMEM, "out of memory");
        return NULL;
    }
    n->fault[n->fault_count] = (tp_cuda_fault_note){run->step, axis_size};
    return n->fault_area + n->fault_count++ * TP_CUDA_FAULT_BYTES;
}

int tp_cuda_buffer_count(const tp_run *run)
{
    return prepared_of(run)->plan->buffer_count;
}

/* ---- A run --------------------------------------------------------------------------------- */

static tp_cuda_prepared *new_prepared(tp_plan *plan)
{
    tp_context *context = plan->graph->context;
    tp_cuda_prepared *p = tp_context_alloc_zero(context, sizeof *p);
    char *text = tp_context_alloc(context, TEXT_BYTES);
    if (!p || !text) {
        tp_context_free(context, p, sizeof *p);
        tp_context_free(context, text, TEXT_BYTES);
        tp_cuda_fail(TP_E_NOMEM, "out of memory");
        return NULL;
    }
    p->plan = plan;
    p->text = (tp_text){.at = text, .size = TEXT_BYTES};
    return p;
}

/* The notes made for these addresses, or the oldest, emptied. */
static tp_cuda_notes *find_notes(tp_cuda_prepared *p, const tp_run *run, size_t address_bytes)
{
    tp_cuda_notes *oldest = &p->notes[0];
    p->runs++;
    for (int i = 0; i < TP_CUDA_NOTES; i++) {
        tp_cuda_notes *n = &p->notes[i];
        if (n->whole && memcmp(n->address, run->buffer, address_bytes) == 0) {
            n->last_run = p->runs;
            return n;
        }
        if (n->last_run < oldest->last_run) oldest = n;
    }
    if (oldest->context) free_notes(oldest);
    oldest->last_run = p->runs;
    return oldest;
}

tp_status tp_cuda_begin(tp_plan *plan, tp_run *run, bool *noted)
{
    if (!plan->prepared) plan->prepared = new_prepared(plan);
    tp_cuda_prepared *p = plan->prepared;
    if (!p) return tp_cuda_status();
    size_t address_bytes = (size_t)plan->buffer_count * sizeof *run->buffer;
    run->prepared = p;
    p->now = find_notes(p, run, address_bytes);
    *noted = p->now->whole;
    if (*noted) return TP_OK;
    p->now->context = plan->graph->context;
    p->now->buffer_count = plan->buffer_count;
    p->now->address = tp_context_alloc(p->now->context, address_bytes);
    if (!p->now->address) return tp_cuda_fail(TP_E_NOMEM, "out of memory");
    memcpy(p->now->address, run->buffer, address_bytes);
    return TP_OK;
}

static tp_status compile_all(tp_cuda_notes *n)
{
    size_t bytes = (size_t)(n->item_count + 1) * sizeof(tp_cuda_function *);
    tp_cuda_function **function = tp_context_alloc(n->context, bytes);
    if (!function) return tp_cuda_fail(TP_E_NOMEM, "out of memory");
    int count = 0;
    for (int64_t i = 0; i < n->item_count; i++) {
        if (n->item[i].kind == TP_CUDA_ITEM_KERNEL) function[count++] = n->item[i].kernel.function;
    }
    tp_status status = tp_cuda_compile(n->context, count, function);
    tp_context_free(n->context, function, bytes);
    return status;
}

/* The first index that was out of bounds, if any was. */
static tp_status check_faults(const tp_cuda_notes *n, tp_run *run, int *step)
{
    for (int64_t i = 0; i < n->fault_count; i++) {
        int64_t record[2];
        const char *at = n->fault_area + i * TP_CUDA_FAULT_BYTES;
        TRY(tp_cuda_memory.download(record, at, sizeof record));
        if (record[0] == -1) continue;
        run->fault[0] = record[1];
        run->fault[1] = record[0];
        run->fault[2] = n->fault[i].axis_size;
        *step = n->fault[i].step;
        return TP_E_BOUNDS;
    }
    return TP_OK;
}

tp_status tp_cuda_finish(tp_plan *plan, tp_run *run, int *step)
{
    tp_cuda_prepared *p = plan->prepared;
    tp_cuda_notes *n = p->now;
    TRY(tp_cuda_enter());
    pthread_mutex_lock(&tp_cuda_device.lock);
    tp_status status = n->whole ? TP_OK : compile_all(n);
    if (status == TP_OK) {
        n->whole = true;
        if (!n->times) tp_cuda_log_work(plan, n);
        status = tp_cuda_run_notes(plan, n, step);
    }
    pthread_mutex_unlock(&tp_cuda_device.lock);
    tp_cuda_leave();
    return status == TP_OK ? check_faults(n, run, step) : status;
}

void tp_cuda_forget(tp_plan *plan)
{
    tp_cuda_prepared *p = plan->prepared;
    tp_context *context = plan->graph->context;
    for (int i = 0; i < TP_CUDA_NOTES; i++) {
        if (p->notes[i].context) free_notes(&p->notes[i]);
    }
    tp_context_free(context, p->text.at, TEXT_BYTES);
    tp_context_free(context, p, sizeof *p);
    plan->prepared = NULL;
}
