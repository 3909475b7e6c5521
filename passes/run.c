/* The driver: clone, the passes of passes.def in order, emit. */
#include "pass.h"

#include <string.h>

typedef struct pass_info {
    const char *name;
    tp_status (*run)(tp_work *work);
} pass_info;

static const pass_info passes[] = {
#define PASS(name, meaning) {#name, tp_pass_##name},
#include "passes.def"
};
#define PASS_COUNT ((int)(sizeof passes / sizeof *passes))

const char *tp_pass_name(int i)
{
    return i >= 0 && i < PASS_COUNT ? passes[i].name : NULL;
}

tp_status tp_graph_set_pass(tp_graph *graph, const char *pass, bool on)
{
    if (!graph || !pass) return TP_E_ARGUMENT;
    bool all = strcmp(pass, "all") == 0;
    uint64_t bits = all ? (UINT64_C(1) << PASS_COUNT) - 1 : 0;
    for (int i = 0; i < PASS_COUNT; i++) {
        if (strcmp(passes[i].name, pass) == 0) bits = UINT64_C(1) << i;
    }
    if (!bits)
        return tp_graph_fail(graph, TP_E_ARGUMENT, "set_pass", -1, "there is no pass \"%s\"", pass);
    if (on)
        graph->passes_off &= ~bits;
    else
        graph->passes_off |= bits;
    return TP_OK;
}

/* Checks what the pass before claims to have left intact. */
static tp_status verify(tp_work *work, const char *pass)
{
#ifdef TP_VERIFY
    char text[256];
    const char *fault = tp_work_verify(work, text, sizeof text);
    if (fault) return tp_graph_fail(work->graph, TP_E_INTERNAL, pass, -1, "%s", fault);
#else
    (void)work;
    (void)pass;
#endif
    return TP_OK;
}

static tp_status run_passes(tp_work *work)
{
    TRY(verify(work, "clone"));
    for (int i = 0; i < PASS_COUNT; i++) {
        /* The default order and places come first: the two passes improve on them. */
        if (passes[i].run == tp_pass_schedule) TRY(tp_work_order(work));
        if (passes[i].run == tp_pass_place) TRY(tp_work_place_apart(work));
        if (work->graph->passes_off >> i & 1U) continue;
        TRY(passes[i].run(work));
        if (work->out_of_memory) return tp_graph_fail_nomem(work->graph, "eval");
        TRY(verify(work, passes[i].name));
    }
    return TP_OK;
}

tp_status tp_passes_run(tp_graph *graph, int count, tp_tensor *const *outputs,
                        const tp_eval_options *options, tp_plan *plan)
{
    tp_work work;
    memset(plan, 0, sizeof *plan);
    tp_arena_init(&plan->arena, graph->context);
    TRY(tp_work_create(graph, count, outputs, options, &work));
    tp_status status = run_passes(&work);
    if (status == TP_OK) status = tp_work_emit(&work, plan);
    tp_work_free(&work);
    if (status != TP_OK) tp_arena_free(&plan->arena);
    return status;
}
