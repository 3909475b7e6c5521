/* The interface between passes and machines: what a plan is made of, and what a
 * backend is. No code. Passes include this file and nothing else of backends/.
 *
 * A plan is a list of steps over buffers. A step says HOW: the kernel, operands as
 * (buffer, dtype, view), a little program for elementwise work. The nodes it came from
 * say WHAT and stay untouched. */
#ifndef TP_BACKEND_H
#define TP_BACKEND_H

#include "../graph/graph.h"

/* ---- Programs: elementwise work of one step ---------------------------------- */

/* Limits of one fused step. */
#define TP_PROGRAM_LOADS 16
#define TP_PROGRAM_INSNS 64

/* One instruction; its number in the program is load_count + its position, values are
 * numbered loads first. Every value is rounded to its dtype.
 *   elementwise op  in[] are value numbers, all of the op's calc type (where: in[0] bool)
 *   TP_OP_CAST      in[0] converted to dtype
 *   TP_OP_FULL      the constant imm in dtype, no inputs */
typedef struct tp_insn {
    uint8_t op;
    uint8_t dtype;
    uint8_t in[3];
    tp_value imm;
} tp_insn;

/* Values 0 .. load_count-1 are the operands in their own dtypes; the program's result is
 * value `result`. No instructions and result 0: a plain copy. */
typedef struct tp_program {
    int load_count;
    int insn_count;
    int result;
    tp_insn *insn;
} tp_program;

/* ---- Steps -------------------------------------------------------------------- */

typedef struct tp_operand {
    int buffer; /* index into the plan's buffers */
    uint8_t dtype;
    tp_view view; /* elements of dtype, from the buffer's start */
} tp_operand;

typedef enum tp_step_kind {
    /* out[i] = prologue(operands[i]) over domain; operands and out have domain's shape. */
    TP_STEP_EWISE,
    /* v = prologue(operands) over domain in dtype calc; r = op over the dims in axes;
     * out = epilogue(r, further operands). Operands 0 .. prologue.load_count-1 have domain's
     * shape; out and the further operands have it too but for size 1 in reduced dims.
     * epilogue value 0 is r (in `reduced` dtype), its load i > 0 is operand
     * prologue.load_count + i - 1. */
    TP_STEP_REDUCE,
    /* out = softmax over the one dim in axes of prologue(operands), in dtype calc; value[0].i: a
     * line of -inf gives 0, not NaN. */
    TP_STEP_SOFTMAX,
    /* out = (v - mean v) / sqrt(var v + eps) * weight + bias with v = prologue(operands) and
     * mean and var over the dims in axes. eps is value[0].f; bit 0 of value[1].i: weight is
     * the next operand after the prologue's; bit 1: bias the one after; both have domain's
     * shape. f16/bf16: all in f32, rounded once. */
    TP_STEP_LAYER_NORM,
    /* out[.., i, j] = sum_k operand0[.., i, k] operand1[.., k, j]: equal ranks >= 2, equal
     * leading dims (stride 0 where an operand is shared), one dtype. domain is out's shape. */
    TP_STEP_MATMUL,
    /* out = softmax(s) operand2 along the last dim of s = prologue(operand0 operand1), all in f32:
     * s has domain's shape; prologue's value 0 is the product, its further loads are operands from
     * 3 on. value[0].i: a line of -inf gives 0, not NaN. value[1].i > 0: where that load, bool, is
     * false, s is -inf. Right to a bound, not to the bit. No backend needs to have it. */
    TP_STEP_ATTENTION,
    /* out[.., i, ..] = operand0[.., operand1[i], ..] at dim `axis`; operand1 is 1-d of an
     * integer dtype; operand0 and out have equal ranks and dtypes. domain is out's shape. */
    TP_STEP_INDEX_SELECT,
    /* out[.., i, ..] = operand0[.., operand1[.., i, ..], ..] at dim `axis`; operand1 has out's
     * shape, operand0 too but at axis. */
    TP_STEP_TAKE_ALONG,
    /* out[.., operand0[.., i, ..], ..] += operand1[.., i, ..] at dim `axis` in the order of i; both
     * operands have domain's shape, out too but at axis; operand1 has out's dtype. */
    TP_STEP_SCATTER_ADD,
    /* out[.., i, ..] = op over operand0[.., 0 .. i, ..] at dim `axis` in dtype calc. */
    TP_STEP_SCAN,
    /* out: operand0's elements (sort) or their indices (argsort) in order along dim `axis`;
     * value[0].i: descending. */
    TP_STEP_SORT,
    /* out[i]: random number i, counted in row-major order of domain; value[0].i is the seed. */
    TP_STEP_RANDOM,
    /* out[i] = value[0] + i * value[1], 1-d. */
    TP_STEP_ARANGE,
    TP_STEP_KIND_COUNT
} tp_step_kind;

typedef struct tp_kernel tp_kernel;

typedef struct tp_step {
    tp_step_kind kind;
    uint8_t op;      /* tp_op: the reduction, or the node's op */
    uint8_t calc;    /* dtype of the prologue's result */
    uint8_t reduced; /* REDUCE: dtype of the reduction's result */
    uint32_t axes;   /* bit d: dim d of domain is reduced */
    int axis;
    tp_view domain;                /* a shape; strides and offset mean nothing */
    tp_program prologue, epilogue; /* epilogue: REDUCE only; insn NULL and counts 0: none */
    int operand_count;
    tp_operand *operand;
    tp_operand out;
    int into; /* the buffer whose bytes out's buffer shares and whose other elements stay, -1: none
               */
    tp_value value[2];
    const tp_kernel *kernel;
    const tp_tensor *asked; /* the node whose result this is: for names and errors */
    int fused;              /* how many asked nodes it does the work of */
    int ledger;             /* row of the copy ledger if the step only copies, else -1 */
    bool in_place;          /* out shares an operand's bytes */
    double time_ns;         /* of the last profiled run */
} tp_step;

/* ---- Plans ------------------------------------------------------------------------ */

typedef enum tp_buffer_kind { TP_BUFFER_LEAF, TP_BUFFER_OUTPUT, TP_BUFFER_TEMP } tp_buffer_kind;

typedef struct tp_buffer {
    tp_buffer_kind kind;
    tp_tensor *tensor; /* LEAF: whose storage it is; others: the node that fills it */
    int64_t size_bytes;
    int64_t offset;  /* TEMP: in the workspace */
    int first, last; /* steps that write and last touch it */
    int alias;       /* shares the bytes of that buffer (in place), -1: its own */
} tp_buffer;

/* Where an output's result lies after the run. */
typedef struct tp_delivery {
    tp_tensor *tensor;
    int buffer;
    tp_view view;
} tp_delivery;

struct tp_plan {
    tp_graph *graph;
    const tp_backend *backend;
    tp_arena arena; /* everything below */
    int step_count;
    tp_step *step;
    int buffer_count;
    tp_buffer *buffer;
    int delivery_count;
    tp_delivery *delivery;
    int copy_count;
    tp_copy *copy; /* the ledger */
    tp_plan_summary summary;
    tp_eval_options options;
    void *prepared; /* what the backend keeps between runs (see tp_backend.begin) */
};

/* ---- Backends ------------------------------------------------------------------------- */

/* What a running kernel sees. */
typedef struct tp_run {
    tp_context *context;
    char *const *buffer; /* start address by buffer index, on the backend's device */
    int threads;
    int step;       /* which one runs */
    void *prepared; /* the plan's */
    bool tf32;      /* the plan's option */
    /* On TP_E_BOUNDS of a gather: the index, its position, the axis size. */
    int64_t fault[3];
} tp_run;

/* refuse: TP_REASON_NONE if the kernel takes the step, else why not; NULL in the last kernel of
 * a list, which takes every step. run is only called on steps that were not refused. */
struct tp_kernel {
    const char *name;
    tp_reason (*refuse)(const tp_step *step);
    tp_status (*run)(const tp_step *step, tp_run *run);
    /* One line for dumps: the actual call ("sgemm NT m=.. lda=.."); NULL: nothing to add. */
    int (*describe)(const tp_step *step, char *text, size_t size);
};

/* kernels[kind]: NULL-terminated, from special to general; the last accepts everything. */
struct tp_backend {
    const char *name;
    const tp_kernel *const *kernels[TP_STEP_KIND_COUNT];
    int (*describe)(char *text, size_t size);
    /* A machine with memory of its own; NULL, as the functions below: kernels work on the host's
     * memory when they are called. */
    const tp_device *device;
    /* Around the steps of a run, whose kernels only note what is to be done: begin makes
     * plan->prepared where there is none, and sets *noted where the notes of an earlier run still
     * hold and no kernel need be called; finish has the work done and waits for it; when it fails
     * *step is the step to blame, -1: none. forget frees plan->prepared. */
    tp_status (*begin)(tp_plan *plan, tp_run *run, bool *noted);
    tp_status (*finish)(tp_plan *plan, tp_run *run, int *step);
    void (*forget)(tp_plan *plan);
};

/* What a module (libtp_NAME.so, found at run time) exports as tp_backend_entry. */
typedef struct tp_backend_module {
    uint32_t layout[6]; /* TP_BACKEND_LAYOUT: a module of another build is refused */
    /* The backend, ready to run; else NULL and the reason as a sentence. */
    const tp_backend *(*open)(char *why, size_t size);
    /* One line on what is there, in any case. */
    int (*describe)(char *text, size_t size);
} tp_backend_module;
#define TP_BACKEND_LAYOUT                                                                          \
    {                                                                                              \
        sizeof(tp_backend), sizeof(tp_step), sizeof(tp_plan), sizeof(tp_run), sizeof(tp_tensor),   \
            TP_OP_COUNT                                                                            \
    }

/* registry.c */

/* NULL: not there, and why. name NULL: $TP_BACKEND, else the first. */
const tp_backend *tp_backend_find(const char *name, char *why, size_t size);
/* The first kernel that takes the step and its position in the list; *why, if not NULL, is
 * the first refusal (TP_REASON_NONE when the first kernel takes it). */
const tp_kernel *tp_backend_choose(const tp_backend *backend, const tp_step *step, int *rank,
                                   tp_reason *why);

/* Whether some kernel takes the step; of kinds that a backend need not have. */
bool tp_backend_takes(const tp_backend *backend, const tp_step *step);

/* Address of an operand's element 0 in a run. */
static inline char *tp_operand_at(const tp_operand *o, const tp_run *run)
{
    return run->buffer[o->buffer] + o->view.offset * (int64_t)tp_dtype_size((tp_dtype)o->dtype);
}

#endif
