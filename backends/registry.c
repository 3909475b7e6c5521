/* The backends compiled in, and the choice of a kernel for a step. */
#include "backend.h"

#include <stdio.h>
#include <string.h>

extern const tp_backend tp_backend_cpu, tp_backend_ref;

static const tp_backend *const backends[] = {&tp_backend_cpu,
                                             &tp_backend_ref}; /* the first is the default */

const tp_backend *tp_backend_find(const char *name)
{
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        if (!name || strcmp(backends[i]->name, name) == 0) return backends[i];
    }
    return NULL;
}

tp_status tp_graph_set_backend(tp_graph *graph, const char *name)
{
    if (!graph || !name) return TP_E_ARGUMENT;
    const tp_backend *backend = tp_backend_find(name);
    if (!backend)
        return tp_graph_fail(graph, TP_E_UNAVAILABLE, "set_backend", -1,
                             "there is no backend \"%s\" in this build", name);
    graph->backend = backend;
    return TP_OK;
}

const tp_kernel *tp_backend_choose(const tp_backend *backend, const tp_step *step, int *rank,
                                   tp_reason *why)
{
    const tp_kernel *const *kernels = backend->kernels[step->kind];
    if (why) *why = TP_REASON_NONE;
    int i = 0;
    for (; kernels[i + 1]; i++) { /* the last takes everything */
        tp_reason refusal = kernels[i]->refuse(step);
        if (refusal == TP_REASON_NONE) break;
        if (why && *why == TP_REASON_NONE) *why = refusal;
    }
    if (rank) *rank = i;
    return kernels[i];
}

bool tp_backend_takes(const tp_backend *backend, const tp_step *step)
{
    const tp_kernel *const *kernels = backend->kernels[step->kind];
    for (int i = 0; kernels && kernels[i]; i++) {
        if (!kernels[i]->refuse || kernels[i]->refuse(step) == TP_REASON_NONE) return true;
    }
    return false;
}

int tp_describe_backends(char *text, size_t size)
{
    int used = 0;
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        char line[256];
        backends[i]->describe(line, sizeof line);
        size_t room = (size_t)used < size ? size - (size_t)used : 0;
        used += snprintf(room ? text + used : NULL, room, "%s%s", i ? "; " : "", line);
    }
    return used;
}
