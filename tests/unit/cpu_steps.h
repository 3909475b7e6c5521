/* Steps for the CPU backend's kernels, put together by hand. */
#ifndef TP_TEST_CPU_STEPS_H
#define TP_TEST_CPU_STEPS_H

#include <string.h>

#include "backends/backend.h"

extern const tp_backend tp_backend_cpu;

#define SIZES(...)                                                                                 \
    (int)(sizeof((const int64_t[]){__VA_ARGS__}) / 8), (const int64_t[])                           \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define STRIDES(...)                                                                               \
    (const int64_t[])                                                                              \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

typedef struct made {
    tp_step step;
    tp_operand operand[TP_PROGRAM_LOADS];
    tp_insn insn[TP_PROGRAM_INSNS];
    char *buffer[TP_PROGRAM_LOADS + 1]; /* buffer 0 is out's */
} made;

/* A step over a domain, without operands. */
static inline void make(made *m, tp_step_kind kind, int ndim, const int64_t *sizes)
{
    memset(m, 0, sizeof *m);
    m->step.kind = kind;
    m->step.domain = tp_view_row_major(ndim, sizes);
    m->step.ledger = -1;
}

/* strides NULL: row-major. */
static inline tp_operand make_operand(int buffer, tp_dtype dtype, int ndim, const int64_t *sizes,
                                      const int64_t *strides)
{
    tp_operand o = {.buffer = buffer, .dtype = (uint8_t)dtype};
    o.view = tp_view_row_major(ndim, sizes);
    for (int d = 0; strides && d < ndim; d++) o.view.stride[d] = strides[d];
    return o;
}

static inline void make_out(made *m, void *at, tp_dtype dtype, int ndim, const int64_t *sizes,
                            const int64_t *strides)
{
    m->buffer[0] = at;
    m->step.out = make_operand(0, dtype, ndim, sizes, strides);
}

/* A load of the prologue, over the domain. */
static inline void make_load(made *m, const void *at, tp_dtype dtype, const int64_t *strides)
{
    int k = m->step.operand_count++;
    m->buffer[k + 1] = (char *)(uintptr_t)at;
    m->operand[k] = make_operand(k + 1, dtype, m->step.domain.ndim, m->step.domain.shape, strides);
    m->step.prologue.load_count++;
}

/* An instruction of the prologue; its value is the result so far. */
static inline int make_insn(made *m, tp_op op, tp_dtype dtype, int a, int b, int c)
{
    tp_program *p = &m->step.prologue;
    m->insn[p->insn_count] = (tp_insn){
        .op = (uint8_t)op, .dtype = (uint8_t)dtype, .in = {(uint8_t)a, (uint8_t)b, (uint8_t)c}};
    p->result = p->load_count + p->insn_count++;
    return p->result;
}

static inline tp_status run_made(made *m, int threads, int64_t *fault)
{
    const tp_kernel *const *kernel = tp_backend_cpu.kernels[m->step.kind];
    m->step.operand = m->operand;
    m->step.prologue.insn = m->insn;
    while ((*kernel)->refuse && (*kernel)->refuse(&m->step) != TP_REASON_NONE) kernel++;
    tp_run run = {.context = tp_context_default(), .buffer = m->buffer, .threads = threads};
    tp_status status = (*kernel)->run(&m->step, &run);
    if (fault) memcpy(fault, run.fault, sizeof run.fault);
    return status;
}

#endif
