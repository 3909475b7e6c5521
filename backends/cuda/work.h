/* Notes of a plan's work, for work.c, which takes them, and enqueue.c, which runs them. */
#ifndef TP_CUDA_WORK_H
#define TP_CUDA_WORK_H

#include "cuda.h"

typedef enum tp_cuda_item_kind {
    TP_CUDA_ITEM_KERNEL,
    TP_CUDA_ITEM_GEMM,
    TP_CUDA_ITEM_FILL
} tp_cuda_item_kind;

typedef struct tp_cuda_item {
    tp_cuda_item_kind kind;
    int step;
    union {
        struct {
            tp_cuda_function *function;
            unsigned blocks, threads, shared_bytes;
            int64_t args; /* where in the notes' args */
            size_t args_bytes;
        } kernel;
        tp_cuda_gemm gemm;
        struct {
            char *to;
            uint8_t value;
            size_t size_bytes;
        } fill;
    };
} tp_cuda_item;

typedef struct tp_cuda_scratch_block {
    char *data;
    size_t size_bytes;
    int step; /* the last that asked for it */
} tp_cuda_scratch_block;

#define TP_CUDA_FAULT_BYTES 32
typedef struct tp_cuda_fault_note {
    int step;
    int64_t axis_size;
} tp_cuda_fault_note;

/* The work for one set of buffer addresses. */
typedef struct tp_cuda_notes {
    tp_context *context; /* NULL: there are none */
    bool whole;          /* every step is noted, every text compiled */
    int64_t last_run;
    char **address; /* of the plan's buffers */
    int buffer_count;
    tp_cuda_item *item;
    int64_t item_count, item_capacity;
    char *args;
    int64_t args_count, args_capacity;
    tp_cuda_scratch_block *scratch;
    int64_t scratch_count, scratch_capacity;
    tp_cuda_fault_note *fault;
    int64_t fault_count, fault_capacity;
    char *fault_area;
    char *blas_memory; /* NULL: no product needs it */
    int64_t times;     /* that it ran */
    CUgraphExec exec;  /* NULL: not yet */
} tp_cuda_notes;

/* What a plan keeps between runs: notes for a few sets of addresses. */
#define TP_CUDA_NOTES 4
typedef struct tp_cuda_prepared {
    tp_plan *plan;
    int64_t runs;
    tp_cuda_notes notes[TP_CUDA_NOTES], *now;
    tp_text text; /* of the kernel being noted */
} tp_cuda_prepared;

tp_cuda_notes *tp_cuda_notes_of(const tp_run *run);

/* enqueue.c: does the work and waits for it; on failure *step is the step to blame if known. */
tp_status tp_cuda_run_notes(tp_plan *plan, tp_cuda_notes *notes, int *step);
/* print.c: a line for each item, if anybody listens. */
void tp_cuda_log_work(const tp_plan *plan, const tp_cuda_notes *notes);
/* What cuBLAS gets to work in, from Hopper on so much, 256-byte aligned. */
#define TP_CUDA_BLAS_BYTES ((size_t)32 << 20)
/* blas.c: one product, on the stream. */
tp_status tp_cuda_enqueue_gemm(const tp_cuda_gemm *gemm, char *workspace);
/* blas_lt.c: finds an algorithm for a product with an epilogue, false: there is none; runs it. */
bool tp_cuda_lt_choose(tp_cuda_gemm *gemm);
cublasStatus_t tp_cuda_lt_multiply(const tp_cuda_gemm *gemm, char *workspace);

#endif
