/* Noted work goes to the stream: launch by launch the first time, as a CUDA graph from the second
 * run with the same buffers on. */
#include "work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tp_status enqueue_kernel(const tp_cuda_notes *n, const tp_cuda_item *item)
{
    size_t bytes = item->kernel.args_bytes;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, n->args + item->kernel.args,
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    CUfunction function = item->kernel.function->function;
    if (item->kernel.shared_bytes > 48 * 1024)
        CUDA(cuFuncSetAttribute, function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
             (int)item->kernel.shared_bytes);
    CUDA(cuLaunchKernel, function, item->kernel.blocks, 1, 1, item->kernel.threads, 1, 1,
         item->kernel.shared_bytes, tp_cuda_device.stream, NULL, extra);
    return TP_OK;
}

static tp_status enqueue_item(const tp_cuda_notes *n, const tp_cuda_item *item)
{
    switch (item->kind) {
    case TP_CUDA_ITEM_KERNEL:
        return enqueue_kernel(n, item);
    case TP_CUDA_ITEM_GEMM:
        return tp_cuda_enqueue_gemm(&item->gemm, n->blas_memory);
    case TP_CUDA_ITEM_FILL:
    default:
        CUDA(cuMemsetD8Async, (CUdeviceptr)(uintptr_t)item->fill.to, item->fill.value,
             item->fill.size_bytes, tp_cuda_device.stream);
        return TP_OK;
    }
}

/* ---- Who did it ---------------------------------------------------------------------------- */

/* Writes into pinned memory that step s is done: it can be read when the device is lost. */
static tp_status mark(int s)
{
    if (tp_cuda_device.marker)
        CUDA(cuStreamWriteValue32, tp_cuda_device.stream,
             (CUdeviceptr)(uintptr_t)tp_cuda_device.marker, (uint32_t)s + 1, 0);
    return TP_OK;
}

/* The step that ran when the device failed: the first after the last that was marked. */
static void blame(const tp_cuda_notes *n, bool marked, int *step)
{
    if (!marked || !tp_cuda_device.marker) return;
    int done = (int)__atomic_load_n(tp_cuda_device.marker, __ATOMIC_ACQUIRE) - 1;
    for (int64_t i = 0; i < n->item_count; i++) {
        if (n->item[i].step <= done) continue;
        *step = n->item[i].step;
        return;
    }
}

/* ---- Launch by launch -------------------------------------------------------------------------
 */

/* Clocks of a profiled run: an event before each item and one at the end. */
static tp_status make_clocks(CUevent *event, int64_t count)
{
    for (int64_t i = 0; i < count; i++) CUDA(cuEventCreate, &event[i], CU_EVENT_DEFAULT);
    return TP_OK;
}

static void read_clocks(tp_plan *plan, const tp_cuda_notes *n, const CUevent *event)
{
    for (int i = 0; i < plan->step_count; i++) plan->step[i].time_ns = 0;
    for (int64_t i = 0; i < n->item_count; i++) {
        float ms = 0;
        tp_cuda_device.api.cuEventElapsedTime(&ms, event[i], event[i + 1]);
        plan->step[n->item[i].step].time_ns += (double)ms * 1e6;
    }
}

static tp_status enqueue_start(const tp_cuda_notes *n)
{
    if (n->fault_count)
        CUDA(cuMemsetD8Async, (CUdeviceptr)(uintptr_t)n->fault_area, 0xFF,
             (size_t)n->fault_count * TP_CUDA_FAULT_BYTES, tp_cuda_device.stream);
    return TP_OK;
}

/* With clocks, or with marks, or with neither (into a graph). */
static tp_status enqueue_all(const tp_cuda_notes *n, const CUevent *clock, bool marks, int *step)
{
    TRY(enqueue_start(n));
    if (marks && tp_cuda_device.marker) *tp_cuda_device.marker = 0;
    for (int64_t i = 0; i < n->item_count; i++) {
        *step = n->item[i].step;
        if (clock) CUDA(cuEventRecord, clock[i], tp_cuda_device.stream);
        TRY(enqueue_item(n, &n->item[i]));
        bool last = i + 1 == n->item_count || n->item[i + 1].step != *step;
        if (marks && last) TRY(mark(*step));
    }
    if (clock) CUDA(cuEventRecord, clock[n->item_count], tp_cuda_device.stream);
    *step = -1;
    return TP_OK;
}

static tp_status wait_for(const tp_cuda_notes *n, bool marked, int *step)
{
    CUresult result = tp_cuda_device.api.cuStreamSynchronize(tp_cuda_device.stream);
    if (result == CUDA_SUCCESS) return TP_OK;
    blame(n, marked, step);
    return tp_cuda_failed(result, "the work");
}

static tp_status run_plainly(const tp_cuda_notes *n, int *step)
{
    TRY(enqueue_all(n, NULL, true, step));
    return wait_for(n, true, step);
}

static tp_status run_clocked(tp_plan *plan, const tp_cuda_notes *n, int *step)
{
    size_t bytes = (size_t)(n->item_count + 1) * sizeof(CUevent);
    CUevent *event = tp_context_alloc_zero(n->context, bytes);
    if (!event) return tp_cuda_fail(TP_E_NOMEM, "out of memory");
    tp_status status = make_clocks(event, n->item_count + 1);
    if (status == TP_OK) status = enqueue_all(n, event, false, step);
    if (status == TP_OK) status = wait_for(n, false, step);
    if (status == TP_OK) read_clocks(plan, n, event);
    for (int64_t i = 0; i <= n->item_count; i++) {
        if (event[i]) tp_cuda_device.api.cuEventDestroy(event[i]);
    }
    tp_context_free(n->context, event, bytes);
    return status;
}

/* ---- As a graph
 * ---------------------------------------------------------------------------------- */

static tp_status capture(tp_cuda_notes *n)
{
    CUgraph graph = NULL;
    int step;
    CUDA(cuStreamBeginCapture, tp_cuda_device.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    tp_status status = enqueue_all(n, NULL, false, &step);
    CUresult result = tp_cuda_device.api.cuStreamEndCapture(tp_cuda_device.stream, &graph);
    if (status == TP_OK && result == CUDA_SUCCESS)
        result = tp_cuda_device.api.cuGraphInstantiate(&n->exec, graph, 0);
    if (graph) tp_cuda_device.api.cuGraphDestroy(graph);
    if (status != TP_OK || result == CUDA_SUCCESS) return status;
    n->exec = NULL;
    return tp_cuda_failed(result, "the capture of a graph");
}

static tp_status run_graph(const tp_cuda_notes *n, int *step)
{
    CUDA(cuGraphLaunch, n->exec, tp_cuda_device.stream);
    return wait_for(n, false, step);
}

/* TP_CUDA_GRAPHS=0 in the environment: launch by launch each time, so that a fault has a name. */
static bool graphs_wanted(void)
{
    const char *wish = getenv("TP_CUDA_GRAPHS");
    return !wish || strcmp(wish, "0") != 0;
}

tp_status tp_cuda_run_notes(tp_plan *plan, tp_cuda_notes *n, int *step)
{
    tp_cuda_device.api.cublasSetWorkspace(tp_cuda_device.blas, n->blas_memory,
                                          n->blas_memory ? TP_CUDA_BLAS_BYTES : 0);
    if (plan->options.profile) return run_clocked(plan, n, step);
    if (n->times++ == 0 || !graphs_wanted()) return run_plainly(n, step);
    /* What cannot be captured runs as the first time. */
    if (!n->exec && capture(n) != TP_OK) return run_plainly(n, step);
    return run_graph(n, step);
}
