/* Deferred work: nothing runs before something waits for it (TP_FAKE_EAGER=1: at once). Capture
 * puts the work into a graph, which can be launched any number of times. */
#include "fake.h"

#include <stdlib.h>

/* A node of a queue or graph: work may stand in several. */
typedef struct link {
    fake_work *work;
    struct link *next;
} link_node;

struct CUgraph_st {
    link_node *first, **end;
};
struct CUgraphExec_st {
    struct CUgraph_st list;
};

static link_node *first, **end = &first;
static struct CUgraph_st *capturing;
static CUresult fault;
static bool running;

CUresult fake_fault(void)
{
    return fault;
}

void fake_lose(CUresult why)
{
    if (fault == CUDA_SUCCESS) fault = why;
}

void tp_fake_lose_device(void)
{
    fake_lose(CUDA_ERROR_LAUNCH_FAILED);
}

static void let_go(fake_work *work)
{
    if (--work->uses > 0) return;
    if (work->drop) work->drop(work);
    free(work);
}

static CUresult append(link_node ***at, fake_work *work)
{
    link_node *node = calloc(1, sizeof *node);
    if (!node) return CUDA_ERROR_OUT_OF_MEMORY;
    node->work = work;
    work->uses++;
    **at = node;
    *at = &node->next;
    return CUDA_SUCCESS;
}

static bool is_eager(void)
{
    const char *wish = getenv("TP_FAKE_EAGER");
    return wish && *wish == '1';
}

CUresult fake_enqueue(fake_work *work)
{
    if (!work) return CUDA_ERROR_OUT_OF_MEMORY;
    if (fault != CUDA_SUCCESS) {
        work->uses = 1;
        let_go(work);
        return fault;
    }
    if (capturing) return append(&capturing->end, work);
    CUresult result = append(&end, work);
    return result == CUDA_SUCCESS && is_eager() ? fake_wait() : result;
}

CUresult fake_wait(void)
{
    if (running) return fault;
    running = true;
    if (first) fake_memory_open();
    while (first) {
        link_node *node = first;
        first = node->next;
        if (!first) end = &first;
        if (fault == CUDA_SUCCESS) fake_lose(node->work->run(node->work));
        let_go(node->work);
        free(node);
    }
    fake_memory_close();
    running = false;
    return fault;
}

/* ---- Graphs ---------------------------------------------------------------------------------- */

static void free_list(struct CUgraph_st *list)
{
    while (list->first) {
        link_node *node = list->first;
        list->first = node->next;
        let_go(node->work);
        free(node);
    }
}

FAKE_API CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    (void)stream, (void)mode;
    if (capturing) return CUDA_ERROR_ILLEGAL_STATE;
    capturing = calloc(1, sizeof *capturing);
    if (!capturing) return CUDA_ERROR_OUT_OF_MEMORY;
    capturing->end = &capturing->first;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    (void)stream;
    *graph = capturing;
    capturing = NULL;
    return *graph ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE;
}

bool fake_is_capturing(void)
{
    return capturing != NULL;
}

static CUresult copy_list(const struct CUgraph_st *from, link_node ***at)
{
    for (const link_node *node = from->first; node; node = node->next) {
        if (append(at, node->work) != CUDA_SUCCESS) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                                              unsigned long long flags)
{
    (void)flags;
    *exec = calloc(1, sizeof **exec);
    if (!*exec) return CUDA_ERROR_OUT_OF_MEMORY;
    (*exec)->list.end = &(*exec)->list.first;
    return copy_list(graph, &(*exec)->list.end);
}

FAKE_API CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    (void)stream;
    if (fault != CUDA_SUCCESS) return fault;
    fake_counters.graphs++;
    fake_log("graph");
    return copy_list(&exec->list, &end);
}

FAKE_API CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    free_list(&exec->list);
    free(exec);
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuGraphDestroy(CUgraph graph)
{
    free_list(graph);
    free(graph);
    return CUDA_SUCCESS;
}
