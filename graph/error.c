/* The error record: one status and one sentence, kept in the graph so that filling it
 * needs no memory. The first cause survives until it was reported or cleared. */
#include "graph.h"

#include <stdio.h>

/* What tp_eval(NULL) gives: a NULL tensor does not say which graph it failed in. */
static _Thread_local tp_status last_status = TP_E_ARGUMENT;

tp_status tp_error_last_status(void)
{
    return last_status;
}

tp_status tp_graph_fail(tp_graph *graph, tp_status status, const char *op, int dim,
                        const char *format, ...)
{
    if (graph->error.status != TP_OK && !graph->error_reported) return status;
    graph->error.status = last_status = status;
    graph->error.op = op;
    graph->error.dim = dim;
    graph->error_reported = false;
    int used = op ? snprintf(graph->error.text, sizeof graph->error.text, "%s: ", op) : 0;
    va_list args;
    va_start(args, format);
    vsnprintf(graph->error.text + used, sizeof graph->error.text - (size_t)used, format, args);
    va_end(args);
    return status;
}

tp_status tp_graph_fail_nomem(tp_graph *graph, const char *op)
{
    return tp_graph_fail(graph, TP_E_NOMEM, op, -1, "memory is out");
}

const tp_error *tp_graph_error(const tp_graph *graph)
{
    static const tp_error none = {.dim = -1};
    return graph ? &graph->error : &none;
}

void tp_graph_clear_error(tp_graph *graph)
{
    if (!graph) return;
    graph->error.status = TP_OK;
    graph->error.op = NULL;
    graph->error.dim = -1;
    graph->error.text[0] = '\0';
}
