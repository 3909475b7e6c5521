/* eval: the conductor, the one file that sees graph, passes and backends.
 *
 * Plan, run, publish: results appear in their tensors only when every step has succeeded, so
 * a failed evaluation leaves everything as it was. */
#include "../passes/pass.h"
#include "../graph/context.h"
#include "plan_print.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- Plans ------------------------------------------------------------------------- */

static bool output_ok(tp_graph *graph, const tp_tensor *x, int i)
{
    if (x && x->graph == graph) return true;
    /* A NULL comes from a builder that has recorded why; the record keeps the first cause. */
    tp_graph_fail(graph, TP_E_ARGUMENT, "eval", -1,
                  x ? "output %d belongs to another graph" : "output %d is NULL", i);
    return false;
}

/* Outputs that still need work, each once; -1 on failure. */
static int pending(tp_graph *graph, int count, tp_tensor *const *outputs, tp_tensor **list)
{
    int used = 0;
    tp_graph_walk(graph);
    for (int i = 0; i < count; i++) {
        if (!output_ok(graph, outputs[i], i)) return -1;
        if (outputs[i]->state != TP_EVALUATED && tp_graph_visit(outputs[i]))
            list[used++] = outputs[i];
    }
    return used;
}

/* The verdict on a plan and the copies it keeps, for whoever listens. */
static void log_plan(const tp_plan *plan)
{
    if (!tp_context_logs(plan->graph->context)) return;
    char line[256];
    tp_text text = {.at = line, .size = sizeof line};
    tp_plan_add_verdict(&text, plan);
    tp_context_log(plan->graph->context, "plan: %s", line);
    for (int i = 0; i < plan->copy_count; i++) {
        const tp_copy *copy = &plan->copy[i];
        if (!copy->kept) continue;
        tp_context_log(plan->graph->context, "copy: %%%lld %s, %lld bytes, %s: %s",
                       (long long)copy->tensor->id, tp_name(copy->tensor), (long long)copy->bytes,
                       tp_reason_name(copy->reason), copy->note);
    }
}

/* "%5 contiguous "heads", 4.0 KiB, TWO_LAYOUTS: ..", a line for each copy that stays, after each
 * the separator. */
static void add_kept(tp_text *text, const tp_plan *plan, const char *separator)
{
    for (int i = 0; i < plan->copy_count; i++) {
        const tp_copy *copy = &plan->copy[i];
        if (!copy->kept || copy->reason == TP_REASON_DEVICE_MOVE) continue;
        tp_text_add(text, "%%%lld %s%s%s%s, ", (long long)copy->tensor->id,
                    tp_op_name(copy->tensor), copy->tensor->name ? " \"" : "",
                    tp_name(copy->tensor), copy->tensor->name ? "\"" : "");
        tp_text_add_bytes(text, copy->bytes);
        tp_text_add(text, ", %s: %s%s", tp_reason_name(copy->reason), copy->note, separator);
    }
}

static tp_status check_budget(tp_plan *plan)
{
    const tp_budget *budget = plan->options.budget;
    const tp_plan_summary *sum = &plan->summary;
    if (!budget) return TP_OK;
    bool any_bytes = budget->copies > 0 && !budget->copied_bytes;
    if (sum->copies <= budget->copies && (any_bytes || sum->copied_bytes <= budget->copied_bytes))
        return TP_OK;
    char list[400];
    tp_text text = {.at = list, .size = sizeof list};
    add_kept(&text, plan, "; ");
    return tp_graph_fail(plan->graph, TP_E_BUDGET, "eval", -1,
                         "%d copies of %lld bytes, the budget is %d of %lld: %s", sum->copies,
                         (long long)sum->copied_bytes, budget->copies,
                         (long long)budget->copied_bytes, list);
}

static tp_status make_plan(tp_graph *graph, int count, tp_tensor *const *outputs,
                           const tp_eval_options *options, tp_plan *plan)
{
    if (count < 0 || (count && !outputs))
        return tp_graph_fail(graph, TP_E_ARGUMENT, "eval", -1,
                             "outputs is NULL or their count negative");
    size_t bytes = (size_t)count * sizeof(tp_tensor *);
    tp_tensor *few[8], **list = count <= 8 ? few : tp_context_alloc(graph->context, bytes);
    if (!list) return tp_graph_fail_nomem(graph, "eval");
    int wanted = pending(graph, count, outputs, list);
    char why[400];
    why[0] = '\0';
    if (!graph->backend) graph->backend = tp_backend_find(NULL, why, sizeof why);
    if (!graph->backend && wanted >= 0) {
        wanted = -1;
        tp_graph_fail(graph, TP_E_UNAVAILABLE, "eval", -1, "TP_BACKEND: %s", why);
    }
    tp_status status =
        wanted < 0 ? graph->error.status : tp_passes_run(graph, wanted, list, options, plan);
    if (list != few) tp_context_free(graph->context, list, bytes);
    if (status != TP_OK) return status;
    log_plan(plan);
    status = check_budget(plan);
    plan->options.budget = NULL; /* the caller's, for this call */
    if (status != TP_OK) tp_arena_free(&plan->arena);
    return status;
}

tp_plan *tp_plan_create(tp_graph *graph, int count, tp_tensor *const *outputs,
                        const tp_eval_options *options)
{
    if (!graph) return NULL;
    tp_plan made;
    if (make_plan(graph, count, outputs, options, &made) != TP_OK) return NULL;
    tp_plan *plan = tp_arena_alloc(&made.arena, sizeof *plan); /* it lies in its own arena */
    if (!plan) {
        tp_arena_free(&made.arena);
        tp_graph_fail_nomem(graph, "plan_create");
        return NULL;
    }
    *plan = made;
    return plan;
}

/* Frees what a plan holds, and the plan if it lies in its own arena. */
static void empty_plan(tp_plan *plan)
{
    if (plan->prepared) plan->backend->forget(plan);
    tp_arena arena = plan->arena;
    tp_arena_free(&arena);
}

void tp_plan_release(tp_plan *plan)
{
    if (!plan) return;
    empty_plan(plan);
}

tp_plan_summary tp_plan_summarize(const tp_plan *plan)
{
    return plan ? plan->summary : (tp_plan_summary){0};
}

int tp_count_copies(tp_tensor *x, char *text, size_t size)
{
    tp_text list = {.at = text, .size = text ? size : 0};
    tp_plan *plan = x ? tp_plan_create(x->graph, 1, &x, NULL) : NULL;
    if (!plan) {
        tp_text_add(&list, "%s", x ? tp_graph_error(x->graph)->text : "there is no tensor");
        return -1;
    }
    int copies = plan->summary.copies;
    tp_text_add(&list, "%s", "");
    add_kept(&list, plan, "\n");
    tp_plan_release(plan);
    return copies;
}

int tp_plan_copy_count(const tp_plan *plan)
{
    return plan ? plan->copy_count : 0;
}

tp_copy tp_plan_copy(const tp_plan *plan, int i)
{
    return plan && i >= 0 && i < plan->copy_count ? plan->copy[i]
                                                  : (tp_copy){.dims = {-1, -1}, .note = ""};
}

/* ---- Running ------------------------------------------------------------------------ */

typedef struct runner {
    tp_plan *plan;
    char **address;       /* by buffer */
    tp_storage **storage; /* by buffer: of leaves (borrowed) and outputs (owned) */
    tp_storage *workspace;
} runner;

static tp_status fail_stale(const tp_tensor *x, const char *op)
{
    char name[80];
    snprintf(name, sizeof name, x->name ? "\"%s\"" : "%%%s", x->name ? x->name : "");
    if (!x->name) snprintf(name, sizeof name, "%%%lld", (long long)x->id);
    if (x->state == TP_GONE)
        return tp_graph_fail(x->graph, TP_E_STALE, op, -1,
                             "%s (%s) was given away and an update has written over it", name,
                             tp_op_name(x));
    if (x->state == TP_ASKED)
        return tp_graph_fail(x->graph, TP_E_UNEVALUATED, op, -1, "%s (%s) is not evaluated", name,
                             tp_op_name(x));
    const tp_tensor *leaf = x->changed;
    return tp_graph_fail(
        x->graph, TP_E_STALE, op, -1,
        "%s (%s) is stale: leaf %%%lld%s%s%s changed (version %lld -> %lld) after it was evaluated",
        name, tp_op_name(x), (long long)leaf->id, leaf->name ? " \"" : "", tp_name(leaf),
        leaf->name ? "\"" : "", (long long)x->changed_from, (long long)leaf->version);
}

static tp_status fail_memory(const tp_plan *plan, int64_t bytes, tp_status status)
{
    const tp_device *device = plan->backend->device;
    return tp_graph_fail(plan->graph, status, "eval", -1, "%lld bytes are not to be had%s%s",
                         (long long)bytes, device ? ": " : "", device ? device->why() : "");
}

/* Refuses before the first kernel what cannot fit. A device's memory has a limit of its own. */
static tp_status check_limit(const tp_plan *plan)
{
    if (plan->backend->device) return TP_OK;
    size_t limit = tp_context_memory_limit(plan->graph->context),
           used = tp_context_memory(plan->graph->context).used_bytes;
    size_t peak = (size_t)plan->summary.peak_bytes;
    if (!limit || (used <= limit && peak <= limit - used)) return TP_OK;
    return tp_graph_fail(plan->graph, TP_E_NOMEM, "eval", -1,
                         "the plan needs %zu bytes beyond the %zu in use, the limit is %zu", peak,
                         used, limit);
}

/* A storage where the plan's backend works. */
static tp_status create_storage(const tp_plan *plan, int64_t size_bytes, tp_storage **storage)
{
    const tp_device *device = plan->backend->device;
    tp_context *context = plan->graph->context;
    tp_status status = TP_E_NOMEM;
    *storage = device ? tp_storage_create_on(device, context, (size_t)size_bytes, &status)
                      : tp_storage_create(context, (size_t)size_bytes);
    return *storage ? TP_OK : fail_memory(plan, size_bytes, status);
}

static char *address_of(const tp_plan *plan, const tp_storage *storage)
{
    return plan->backend->device ? storage->device_data : storage->data;
}

/* Brings a tensor's bytes to the host (device NULL) or to a device. */
static tp_status bring(tp_tensor *x, const tp_device *device, const char *op)
{
    const tp_device *other = device ? device : x->storage->device;
    tp_status status = tp_storage_bring(x->storage, device);
    if (status == TP_OK) return TP_OK;
    return tp_graph_fail(x->graph, status, op, -1, "%%%lld (%s), %zu bytes, cannot be moved: %s",
                         (long long)x->id, tp_op_name(x), x->storage->size_bytes,
                         other ? other->why() : "out of memory");
}

static tp_status prepare_buffer(runner *r, int i)
{
    const tp_buffer *b = &r->plan->buffer[i];
    if (b->alias >= 0) return TP_OK; /* its root's */
    if (b->kind == TP_BUFFER_LEAF) {
        if (b->tensor->state != TP_EVALUATED) return fail_stale(b->tensor, "plan_run");
        r->storage[i] = b->tensor->storage;
        TRY(bring(b->tensor, r->plan->backend->device, "eval"));
    } else if (b->kind == TP_BUFFER_OUTPUT) {
        TRY(create_storage(r->plan, b->size_bytes, &r->storage[i]));
    } else {
        r->address[i] = r->workspace ? address_of(r->plan, r->workspace) + b->offset : NULL;
        return TP_OK;
    }
    r->address[i] = address_of(r->plan, r->storage[i]);
    return TP_OK;
}

static tp_status prepare(runner *r)
{
    tp_plan *plan = r->plan;
    TRY(check_limit(plan));
    if (plan->summary.workspace_bytes)
        TRY(create_storage(plan, plan->summary.workspace_bytes, &r->workspace));
    for (int i = 0; i < plan->buffer_count; i++) TRY(prepare_buffer(r, i));
    for (int d = 0; d < plan->delivery_count; d++) {
        if (!tp_graph_result(plan->delivery[d].tensor))
            return tp_graph_fail_nomem(plan->graph, "eval");
    }
    for (int i = 0; i < plan->buffer_count; i++) {
        int root = plan->buffer[i].alias;
        if (root >= 0) r->address[i] = r->address[root];
    }
    return TP_OK;
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static tp_status fail_step(const tp_plan *plan, const tp_step *step, const tp_run *run,
                           tp_status status)
{
    const char *op = tp_op_name(step->asked);
    if (status == TP_E_BOUNDS) {
        char index[24]; /* 2^63 and above arrive as the same bits */
        int indices = step->kind == TP_STEP_SCATTER_ADD ? 0 : 1;
        bool is_unsigned = step->operand[indices].dtype == TP_U64;
        snprintf(index, sizeof index, is_unsigned ? "%llu" : "%lld", (long long)run->fault[0]);
        return tp_graph_fail(plan->graph, status, op, step->axis,
                             "index %s at position %lld is outside axis %d of size %lld", index,
                             (long long)run->fault[1], step->axis, (long long)run->fault[2]);
    }
    const tp_device *device = plan->backend->device;
    if (device) return tp_graph_fail(plan->graph, status, op, -1, "%s", device->why());
    if (status == TP_E_NOMEM) return tp_graph_fail_nomem(plan->graph, op);
    return tp_graph_fail(plan->graph, status, op, -1, "kernel %s failed", step->kernel->name);
}

#ifdef TP_POISON
/* What is dead must not be read: fills buffers whose last reader has run. */
static void poison_dead(runner *r, int step)
{
    if (r->plan->backend->device) return;
    for (int i = 0; i < r->plan->buffer_count; i++) {
        const tp_buffer *b = &r->plan->buffer[i];
        if (b->kind == TP_BUFFER_TEMP && b->alias < 0 && b->last == step && b->size_bytes)
            memset(r->address[i], 0xFF, (size_t)b->size_bytes);
    }
}
#endif

/* Leaves that were given away and written over, up to this step, have no bytes any more. */
static void take_given_away(runner *r, int steps)
{
    for (int i = 0; i < steps; i++) {
        int into = r->plan->step[i].into;
        if (into >= 0 && r->plan->buffer[into].alias >= 0) into = r->plan->buffer[into].alias;
        if (into < 0 || r->plan->buffer[into].kind != TP_BUFFER_LEAF) continue;
        tp_tensor *x = r->plan->buffer[into].tensor;
        if (!x->storage) continue;
        tp_storage_written(x->storage, r->plan->backend->device);
        tp_storage_release(x->storage);
        x->storage = NULL;
        x->donated = false;
        x->state = x->op == TP_OP_DATA ? TP_GONE : TP_ASKED;
        r->plan->graph->structure++;
    }
}

static tp_status run_each(runner *r, tp_run *run, int *steps)
{
    tp_plan *plan = r->plan;
    bool clocked = plan->options.profile && !plan->backend->device;
    for (int i = 0; i < plan->step_count; i++) {
        tp_step *step = &plan->step[i];
        *steps = i + 1;
        run->step = i;
        double start = clocked ? now_ns() : 0;
        tp_status status = step->kernel->run(step, run);
        if (status != TP_OK) return fail_step(plan, step, run, status);
        if (clocked) step->time_ns = now_ns() - start;
#ifdef TP_POISON
        if (plan->step_count < 4096) poison_dead(r, i);
#endif
    }
    return TP_OK;
}

/* On a device the kernels note their work, which then runs as a whole. */
static tp_status run_steps(runner *r, int *steps)
{
    tp_plan *plan = r->plan;
    const tp_backend *backend = plan->backend;
    tp_run run = {.context = plan->graph->context,
                  .buffer = r->address,
                  .tf32 = plan->options.tf32,
                  .threads = tp_context_threads(plan->graph->context)};
    if (!backend->device) return run_each(r, &run, steps);
    bool noted = false;
    tp_status status = backend->begin(plan, &run, &noted);
    if (status != TP_OK)
        return tp_graph_fail(plan->graph, status, "eval", -1, "%s", backend->device->why());
    if (!noted) TRY(run_each(r, &run, steps));
    *steps = plan->step_count;
    int failed = -1;
    status = backend->finish(plan, &run, &failed);
    if (status == TP_OK) return TP_OK;
    if (failed >= 0) return fail_step(plan, &plan->step[failed], &run, status);
    return tp_graph_fail(plan->graph, status, "eval", -1, "%s", backend->device->why());
}

static void publish(runner *r)
{
    for (int d = 0; d < r->plan->delivery_count; d++) {
        const tp_delivery *delivery = &r->plan->delivery[d];
        tp_tensor *x = delivery->tensor;
        int root = r->plan->buffer[delivery->buffer].alias;
        tp_storage *storage = tp_storage_retain(r->storage[root >= 0 ? root : delivery->buffer]);
        tp_storage_release(x->storage);
        x->storage = storage;
        tp_view_copy(x->result, &delivery->view);
        x->state = TP_EVALUATED;
    }
}

static tp_status run_plan(tp_plan *plan)
{
    tp_context *context = plan->graph->context;
    size_t bytes = (size_t)(plan->buffer_count + 1) * (sizeof(char *) + sizeof(tp_storage *));
    void *memory = tp_context_alloc_zero(context, bytes);
    if (!memory) return tp_graph_fail_nomem(plan->graph, "eval");
    runner r = {.plan = plan,
                .address = memory,
                .storage = (tp_storage **)((char **)memory + plan->buffer_count)};
    int steps = 0;
    tp_status status = prepare(&r);
    if (status == TP_OK) status = run_steps(&r, &steps);
    if (status == TP_OK) publish(&r);
    take_given_away(&r, steps);
    for (int i = 0; i < plan->buffer_count; i++) {
        if (plan->buffer[i].kind == TP_BUFFER_OUTPUT) tp_storage_release(r.storage[i]);
    }
    tp_storage_release(r.workspace);
    tp_context_free(context, memory, bytes);
    return status;
}

/* The caller has the status now: the next failure may overwrite the record. */
static tp_status reported(tp_graph *graph, tp_status status)
{
    if (status != TP_OK) graph->error_reported = true;
    return status;
}

tp_status tp_plan_run(tp_plan *plan)
{
    return plan ? reported(plan->graph, run_plan(plan)) : TP_E_ARGUMENT;
}

tp_status tp_eval_all(tp_graph *graph, int count, tp_tensor *const *outputs,
                      const tp_eval_options *options)
{
    if (!graph) return TP_E_ARGUMENT;
    bool done = true;
    for (int i = 0; done && i < count; i++)
        done = outputs && outputs[i] && outputs[i]->graph == graph &&
               outputs[i]->state == TP_EVALUATED;
    if (done && count >= 0) return TP_OK;
    tp_plan plan;
    tp_status status = make_plan(graph, count, outputs, options, &plan);
    if (status == TP_OK) {
        status = run_plan(&plan);
        empty_plan(&plan);
    }
    return reported(graph, status);
}

tp_status tp_eval(tp_tensor *x)
{
    return x ? tp_eval_all(x->graph, 1, &x, NULL) : tp_error_last_status();
}

bool tp_is_evaluated(const tp_tensor *x)
{
    return x && x->state == TP_EVALUATED;
}

/* ---- Results ------------------------------------------------------------------------------ */

/* With its bytes on the host. */
static bool readable(tp_tensor *x, const char *op)
{
    if (!x) return false;
    if (x->state == TP_EVALUATED) return bring(x, NULL, op) == TP_OK;
    fail_stale(x, op);
    return false;
}

static const char *first_element(const tp_tensor *x)
{
    return x->storage->data + x->result->offset * (int64_t)tp_dtype_size((tp_dtype)x->dtype);
}

const void *tp_data(tp_tensor *x)
{
    return readable(x, "data") ? first_element(x) : NULL;
}

tp_view tp_result_view(const tp_tensor *x)
{
    tp_view view = {0};
    if (!x || x->state == TP_ASKED || x->state == TP_GONE) return view;
    tp_view_copy(&view, x->result);
    tp_view_normalize(&view);
    view.offset = 0;
    return view;
}

tp_status tp_read(tp_tensor *x, void *data, size_t size_bytes)
{
    if (!x) return TP_E_ARGUMENT;
    if (!readable(x, "read")) return x->graph->error.status;
    size_t size = tp_dtype_size((tp_dtype)x->dtype), wanted = (size_t)tp_numel(x) * size;
    if (size_bytes < wanted || (wanted && !data)) {
        return tp_graph_fail(x->graph, TP_E_ARGUMENT, "read", -1,
                             "the result has %zu bytes, the room is %zu", wanted,
                             data ? size_bytes : 0);
    }
    if (!wanted) return TP_OK;
    const tp_view *v = x->result;
    if (tp_view_is_contiguous(v)) {
        memcpy(data, first_element(x), wanted);
        return TP_OK;
    }
    /* Row by row; index counts the outer dims. */
    int64_t index[TP_MAX_RANK] = {0}, row = v->shape[v->ndim - 1], at = v->offset;
    char *to = data;
    for (int d = v->ndim - 1; d >= 0; to += row * (int64_t)size) {
        for (int64_t i = 0; i < row; i++)
            memcpy(to + i * (int64_t)size,
                   x->storage->data + (at + i * v->stride[v->ndim - 1]) * (int64_t)size, size);
        for (d = v->ndim - 2; d >= 0; d--) {
            at += v->stride[d];
            if (++index[d] < v->shape[d]) break;
            at -= v->stride[d] * v->shape[d];
            index[d] = 0;
        }
    }
    return TP_OK;
}

double tp_item(tp_tensor *x, int64_t position)
{
    const double nothing = __builtin_nan("");
    if (!readable(x, "item")) return nothing;
    if (position < 0 || position >= tp_numel(x)) {
        tp_graph_fail(x->graph, TP_E_BOUNDS, "item", -1, "position %lld is outside %lld elements",
                      (long long)position, (long long)tp_numel(x));
        return nothing;
    }
    int64_t at = x->result->offset;
    for (int d = x->result->ndim - 1; d >= 0; d--) {
        at += position % x->result->shape[d] * x->result->stride[d];
        position /= x->result->shape[d];
    }
    const char *element = x->storage->data + at * (int64_t)tp_dtype_size((tp_dtype)x->dtype);
    tp_value value = tp_value_load((tp_dtype)x->dtype, element);
    if (tp_dtype_kind_of((tp_dtype)x->dtype) == TP_DTYPE_FLOAT) return value.f;
    return x->dtype == TP_U64 ? (double)(uint64_t)value.i : (double)value.i;
}
