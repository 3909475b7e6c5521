/* What the folder graph/ shares with the rest of the library, by file.
 * Everything here is hidden from users; the public side is tensorplay.h. */
#ifndef TP_GRAPH_H
#define TP_GRAPH_H

#ifndef TP_NO_CALL_SITES
#define TP_NO_CALL_SITES
#endif
#include "tensorplay/tensorplay.h"

#include <stdarg.h>
#include <string.h>

typedef struct tp_storage tp_storage;

/* ---- The op list (ops.def) ------------------------------------------------- */

typedef enum tp_op {
#define UNARY(ENUM, ...) TP_OP_##ENUM,
#define BINARY UNARY
#define TERNARY UNARY
#define TEST UNARY
#define COMPARE UNARY
#define REDUCE UNARY
#define VIEW UNARY
#define COMPUTE UNARY
#include "ops.def"
    TP_OP_COUNT
} tp_op;

typedef enum tp_op_kind {
    TP_KIND_UNARY,
    TP_KIND_BINARY,
    TP_KIND_TERNARY,
    TP_KIND_TEST,
    TP_KIND_COMPARE,
    TP_KIND_REDUCE,
    TP_KIND_VIEW,
    TP_KIND_COMPUTE
} tp_op_kind;

typedef enum tp_dtype_rule {
    TP_RULE_KEEP,
    TP_RULE_ARITH,
    TP_RULE_FLOAT,
    TP_RULE_BOOL,
    TP_RULE_COMPARE,
    TP_RULE_TEST,
    TP_RULE_BITS,
    TP_RULE_WHOLE,
    TP_RULE_SELECT,
    TP_RULE_SUM,
    TP_RULE_MEAN,
    TP_RULE_INDEX
} tp_dtype_rule;

/* One row of ops.def as data (ops.c). */
typedef struct tp_op_info {
    const char *name;
    tp_op_kind kind;
    tp_dtype_rule rule; /* elementwise and reductions only */
    int cost;           /* elementwise only */
} tp_op_info;
extern const tp_op_info tp_op_infos[TP_OP_COUNT];
static inline const tp_op_info *tp_op_info_of(tp_op op)
{
    return &tp_op_infos[op];
}
/* The op with this name, TP_OP_COUNT if there is none. */
tp_op tp_op_find(const char *name, size_t length);
/* UNARY, BINARY, TERNARY, TEST or COMPARE. */
static inline bool tp_op_is_elementwise(tp_op op)
{
    return tp_op_infos[op].kind <= TP_KIND_COMPARE;
}

/* ---- dtype.c: sizes, kinds, the promotion matrix ---------------------------- */

typedef enum tp_dtype_kind {
    TP_DTYPE_BOOL,
    TP_DTYPE_UINT,
    TP_DTYPE_INT,
    TP_DTYPE_FLOAT
} tp_dtype_kind;
tp_dtype_kind tp_dtype_kind_of(tp_dtype dtype);
/* The dtype whose loops calculate for this one: bool -> u8, f16 and bf16 -> f32. */
tp_dtype tp_dtype_compute(tp_dtype dtype);

/* A number that holds every value of every dtype: i for integer dtypes and bool (u64 as
 * its bits), f for floats. */
typedef struct tp_value {
    double f;
    int64_t i;
} tp_value;

/* ---- convert.c: one element or a row from any dtype to any other -------------- */

float tp_f16_to_f32(uint16_t bits);
float tp_bf16_to_f32(uint16_t bits);
uint16_t tp_f64_to_f16(double x); /* rounds once, to nearest even */
uint16_t tp_f64_to_bf16(double x);
uint16_t tp_f32_to_f16(float x);
uint16_t tp_f32_to_bf16(float x);
/* Reads or writes one element; writing converts by the rules of tp_cast. */
tp_value tp_value_load(tp_dtype dtype, const void *at);
void tp_value_store(tp_dtype dtype, void *at, tp_dtype from, tp_value value);
/* y[i * y_step] = cast(x[i * x_step]) for i < count; steps in bytes; storage formats. */
void tp_convert(int64_t count, tp_dtype from, const void *x, int64_t x_step, tp_dtype to, void *y,
                int64_t y_step);

/* ---- context.c: allocator, pool, limits, log ------------------------------------ */

tp_context *tp_context_default(void);
tp_context *tp_context_retain(tp_context *context);
/* Plain memory through the context's allocator, outside limit and pool. */
void *tp_context_alloc(tp_context *context, size_t size_bytes);
void *tp_context_alloc_zero(tp_context *context, size_t size_bytes);
void tp_context_free(tp_context *context, void *memory, size_t size_bytes);
int tp_context_threads(const tp_context *context);
/* Whether anybody listens; and one line for them. */
bool tp_context_logs(const tp_context *context);
void tp_context_log(tp_context *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A list that grows by doubling: elements of size_bytes at *items, *capacity of them.
 * false when memory is out, the list is then as before. */
bool tp_grow(tp_context *context, void **items, int64_t *capacity, int64_t wanted,
             size_t size_bytes);

/* Zeroes a struct by plain stores: compilers make of a memset of this size a string instruction,
 * which takes longer to start than all of them. */
static inline void tp_zero(void *at, size_t size_bytes)
{
    char *to = at;
    for (; size_bytes > 64; size_bytes -= 64, to += 64) memset(to, 0, 64);
    memset(to, 0, size_bytes);
}

/* ---- storage.c: aligned, refcounted bytes ---------------------------------------- */

/* A machine with memory of its own, which a backend drives. */
typedef struct tp_device {
    /* 256-byte aligned; NULL: none to be had. */
    char *(*alloc)(size_t size_bytes);
    void (*release)(char *memory);
    /* Both come back when the bytes are there. */
    tp_status (*upload)(char *to, const void *from, size_t size_bytes);
    tp_status (*download)(void *to, const char *from, size_t size_bytes);
    /* Of the last call that failed on this thread: its status, and why as a sentence. */
    tp_status (*status)(void);
    const char *(*why)(void);
} tp_device;

/* The same bytes on the host and on a device, or on one of them: data or device is set. */
struct tp_storage {
    tp_context *context;
    char *data;              /* on the host, 64-byte aligned unless borrowed; NULL: not there */
    const tp_device *device; /* NULL: on none */
    char *device_data;
    bool host_stale; /* the device has newer bytes than data */
    size_t size_bytes;
    size_t block_bytes; /* of the pool block behind data; 0: borrowed */
    int refcount;       /* atomic */
    void (*release)(void *user, void *data);
    void *release_user;
};
/* size_bytes from the pool (size 0 is fine). NULL: out of memory or over the limit. */
tp_storage *tp_storage_create(tp_context *context, size_t size_bytes);
tp_storage *tp_storage_wrap(tp_context *context, void *data, size_t size_bytes,
                            void (*release)(void *, void *), void *user);
/* On a device only. NULL: out of memory here (E_NOMEM), or the device's status. */
tp_storage *tp_storage_create_on(const tp_device *device, tp_context *context, size_t size_bytes,
                                 tp_status *status);
tp_storage *tp_storage_retain(tp_storage *storage);
/* Brings the bytes to the host (device NULL) or to a device, unless they are there. */
tp_status tp_storage_bring(tp_storage *storage, const tp_device *device);
/* Whether they are there. */
bool tp_storage_is_on(const tp_storage *storage, const tp_device *device);
/* Its bytes were written where `device` says (NULL: on the host): other copies are old. */
void tp_storage_written(tp_storage *storage, const tp_device *device);
void tp_storage_release(tp_storage *storage); /* NULL is fine */

/* ---- arena.c: memory that is freed whole ------------------------------------------ */

typedef struct tp_arena_chunk {
    struct tp_arena_chunk *next;
    size_t size_bytes; /* behind this header */
} tp_arena_chunk;

typedef struct tp_arena {
    tp_context *context;
    tp_arena_chunk *first, *current;
    char *at; /* what is free of it */
    size_t free_bytes;
} tp_arena;
void tp_arena_init(tp_arena *arena, tp_context *context);
void *tp_arena_alloc_chunk(tp_arena *arena, size_t size_bytes);
void tp_arena_reset(tp_arena *arena); /* keeps the first chunk */
void tp_arena_free(tp_arena *arena);
/* What was allocated since `mark`, a copy of the arena, goes; its chunks stay for later. */
void tp_arena_rewind(tp_arena *arena, const tp_arena *mark);

/* 16-byte aligned; NULL: out of memory. */
static inline void *tp_arena_alloc(tp_arena *arena, size_t size_bytes)
{
    size_t rounded = size_bytes ? (size_bytes + 15) & ~(size_t)15 : 16;
    if (rounded < size_bytes || rounded > arena->free_bytes)
        return tp_arena_alloc_chunk(arena, size_bytes);
    void *memory = arena->at;
    arena->at += rounded;
    arena->free_bytes -= rounded;
    return memory;
}

/* ---- view.c: pure geometry ------------------------------------------------------------ */

/* Views here are values; offsets and strides count elements of the viewing dtype. */

/* Number of elements; -1 when it exceeds 2^63-1. */
static inline int64_t tp_view_numel(const tp_view *v)
{
    int64_t numel = 1;
    bool huge = false;
    for (int d = 0; d < v->ndim; d++) {
        if (v->shape[d] == 0) return 0;
        huge = __builtin_mul_overflow(numel, v->shape[d], &numel) || huge;
    }
    return huge ? -1 : numel;
}
tp_view tp_view_row_major(int ndim, const int64_t *shape);
void tp_view_set_row_major(tp_view *v, int ndim, const int64_t *shape);
/* Copies only the ndim dims in use. */
static inline void tp_view_copy(tp_view *to, const tp_view *from)
{
    if (to == from) return;
    to->ndim = from->ndim;
    to->offset = from->offset;
    for (int d = 0; d < from->ndim; d++) {
        to->shape[d] = from->shape[d];
        to->stride[d] = from->stride[d];
    }
}
bool tp_view_same_shape(const tp_view *a, const tp_view *b);
/* Same shape and same address for every index (size-1 strides and empty views ignored). */
bool tp_view_equal(const tp_view *a, const tp_view *b);
/* The same numbers throughout, in size-1 strides too. */
bool tp_view_identical(const tp_view *a, const tp_view *b);
/* Just what tp_view_row_major gives for its shape. */
bool tp_view_is_plain(const tp_view *v);
/* Canonical form: size-1 dims dropped, neighbours merged, outer to inner; an empty view
 * becomes shape (0), stride 1, offset 0. Equal address sequences over row-major order
 * have equal canonical forms. */
tp_view tp_view_canon(const tp_view *v);
void tp_view_set_canon(tp_view *c, const tp_view *v);
/* Row-major without gaps at any offset: canon is at most one block of stride 1. */
bool tp_view_is_contiguous(const tp_view *v);
/* Contiguous and offset 0. */
bool tp_view_is_row_major(const tp_view *v);
/* No two indices share an address (sufficient test, exact for dense permutations). */
bool tp_view_is_injective(const tp_view *v);
/* Injective and gap-free in some order and direction of the dims. */
bool tp_view_is_dense(const tp_view *v);
/* Lowest and highest address reached; false when the view is empty or it overflows. */
bool tp_view_reach(const tp_view *v, int64_t *low, int64_t *high);
/* Whether two views may touch a common element (exact for disjoint ranges and equal
 * gcd classes, otherwise true). */
bool tp_view_may_overlap(const tp_view *a, const tp_view *b);

/* The same row-major sequence under another shape, if that is one strided view (iff).
 * On false, dims[0..1] is the pair of neighbouring dims of v (outer, inner) that cannot
 * merge and *y is untouched. numel must agree. */
bool tp_view_reshape(const tp_view *v, int ndim, const int64_t *shape, tp_view *y, int dims[2]);
/* The view that reads `upper` (addresses = row-major positions of lower's index space)
 * through `lower`: the carry-free test. Sound; complete up to exotic cancellations.
 * On false, dims as in tp_view_reshape, of lower. */
bool tp_view_compose(const tp_view *lower, const tp_view *upper, tp_view *y, int dims[2]);
/* For a dense v with n elements reaching [0, n): the view w with w over row-major memory
 * positions p giving the row-major logical position of the element that v stores at p,
 * that is compose-able as tp_view_compose(&w, &v) = row-major identity. */
bool tp_view_inverse(const tp_view *v, tp_view *w);

void tp_view_permute(const tp_view *v, const int *axes, tp_view *y);
/* Python's clamping; false when step is 0. */
bool tp_view_slice(const tp_view *v, int axis, int64_t start, int64_t stop, int64_t step,
                   tp_view *y);
void tp_view_select(const tp_view *v, int axis, int64_t index, tp_view *y);
void tp_view_flip(const tp_view *v, int axis, tp_view *y);
void tp_view_squeeze(const tp_view *v, int axis, tp_view *y);
void tp_view_unsqueeze(const tp_view *v, int axis, tp_view *y);
/* Aligned from the right, size 1 becomes stride 0; false when v does not broadcast. */
bool tp_view_expand(const tp_view *v, int ndim, const int64_t *shape, tp_view *y);
void tp_view_diagonal(const tp_view *v, int64_t offset, int axis_a, int axis_b, tp_view *y);
/* Windows of `size` elements `dilation` apart, one at every step-th index of axis where it fits;
 * the place in the window is the last dim. At least one fits, or the axis is empty. */
void tp_view_windows(const tp_view *v, int axis, int64_t size, int64_t step, int64_t dilation,
                     tp_view *y);
/* To another element size in bytes. NULL on success, else what does not divide. */
const char *tp_view_bitcast(const tp_view *v, size_t from_bytes, size_t to_bytes, tp_view *y);
/* Row-major strides for size-1 dims, the form shown to users. */
void tp_view_normalize(tp_view *v);
/* "[2,3]" or "[2,3] : (3,1) + 0"; snprintf's result. */
int tp_view_print_shape(const tp_view *v, char *text, size_t size);
int tp_view_print(const tp_view *v, char *text, size_t size);

/* ---- The asked graph (graph.c, build.c, infer.c) ------------------------------------------ */

typedef enum tp_state {
    TP_ASKED,     /* not evaluated */
    TP_EVALUATED, /* result holds its value; leaves are born so */
    TP_STALE,     /* a leaf it depends on changed since; result holds the old value */
    TP_GONE       /* a donated leaf whose bytes were written over */
} tp_state;

/* One node. Says WHAT; how it runs is a step of a plan.
 * Invariants (verify.c): graph->node[id] == this; in[i]->id < id; base->base == base;
 * base == this or (view addresses lie inside base's elements); a base that is not this
 * is never a view. */
struct tp_tensor {
    tp_graph *graph;
    int64_t id;
    uint8_t op;    /* tp_op */
    uint8_t dtype; /* of the result */
    uint8_t calc;  /* operands are converted to this first (where: all but the first) */
    uint8_t state; /* tp_state */
    bool implicit; /* a copy that tp_reshape put in */
    bool donated;  /* see tp_donate */
    int in_count, attr_count;
    tp_tensor **in;      /* in the graph's arena, as all below */
    tp_tensor *base;     /* whose bytes view addresses; this for compute nodes and leaves */
    const tp_view *view; /* over base's bytes, in elements of dtype; row-major if base == this
                          * (a wrapped leaf: the user's strides). Never changes: an operand's own
                          * if it has the same */
    /* Attributes, by op (see ops.def's builders in build.c):
     *   reshape, expand, full, data: sizes; permute, flip: axes; slice: axis start stop step;
     *   windows: axis size step dilation; select: axis index; diagonal: offset axis axis;
     *   as_strided: sizes, strides, offset;
     *   squeeze, unsqueeze, index_select, take_along, scatter_add, concat, cumsum, cumprod,
     *   cummax: axis; sort, argsort: axis and whether descending; softmax: axis and, if there, 1
     *   when a row of -inf gives 0; pad: before and after by axis;
     *   update: sizes, strides, offset of the part, over row-major x;
     *   reductions: keepdims axes..; layer_norm: number of dims, bits (1: a weight is
     *   an input, 2: a bias is); arange: count; random_*: sizes and seed */
    int64_t *attr;
    tp_value value[2]; /* full, pad: value; arange: start, step; layer_norm: eps in value[0].f */

    /* Notes of a walk through the graph; they mean something while it lasts. */
    int64_t walk;     /* graph->walk: the last walk has been here */
    tp_tensor *queue; /* the next one to visit */
    int number;       /* of the working node that stands for it */

    int line;         /* call site */
    const char *file; /* NULL: unknown */
    const char *name; /* NULL: none */

    /* Once evaluated: the bytes and how they lie. */
    tp_storage *storage;
    tp_view *result;          /* NULL before the first evaluation, see tp_graph_result */
    int64_t version;          /* of a leaf: counts tp_touch and tp_bind */
    const tp_tensor *changed; /* stale: the leaf that changed */
    int64_t changed_from;     /* and its version when this was evaluated */
};

typedef struct tp_backend tp_backend; /* backends/backend.h */

struct tp_graph {
    tp_context *context;
    tp_arena arena;
    tp_tensor **node;
    int64_t node_count, node_capacity;
    tp_error error;
    bool error_reported;       /* tp_eval returned it: the next failure overwrites it */
    uint64_t passes_off;       /* bit per row of passes.def */
    const tp_backend *backend; /* NULL: the default */
    int64_t structure;         /* counts nodes built, rebinds and touches: plans compare it */
    int64_t walk;              /* counts walks, see tp_graph_reach */
};

/* Bytes that a leaf's views may address; one that is gone comes back with as many (tp_bind). */
int64_t tp_leaf_bytes(const tp_tensor *leaf);

/* Whether x aliases another node's bytes. */
static inline bool tp_tensor_is_view(const tp_tensor *x)
{
    return x->base != x;
}

/* Makes sure that x has room for a result's view; false: out of memory. */
bool tp_graph_result(tp_tensor *x);

/* ---- error.c ------------------------------------------------------------------------------------
 */

/* Records the first error; gives status. dim -1: none. Never allocates. */
tp_status tp_graph_fail(tp_graph *graph, tp_status status, const char *op, int dim,
                        const char *format, ...) __attribute__((format(printf, 5, 6)));
tp_status tp_graph_fail_nomem(tp_graph *graph, const char *op);
/* Status of the last failure recorded on this thread. */
tp_status tp_error_last_status(void);
#define TRY(call)                                                                                  \
    do {                                                                                           \
        tp_status try_status_ = (call);                                                            \
        if (try_status_ != TP_OK) return try_status_;                                              \
    } while (0)

/* ---- infer.c: shapes and dtypes; errors are born here
 * ---------------------------------------------- */

/* Result dtype and calc dtype of an elementwise op or reduction on its operand dtypes. */
tp_status tp_infer_dtype(tp_graph *graph, tp_op op, int count, const tp_dtype *in, tp_dtype *result,
                         tp_dtype *calc);
/* The broadcast of the operands' shapes. */
tp_status tp_infer_broadcast(tp_graph *graph, const char *op, int count, tp_tensor *const *in,
                             tp_view *shape);
/* axis in [0, rank) from [-rank, rank). */
tp_status tp_infer_axis(tp_graph *graph, const char *op, const tp_view *x, int64_t axis,
                        int *result);
/* A bit per reduced axis. count -1: all. */
tp_status tp_infer_axes(tp_graph *graph, const char *op, const tp_view *x, int count,
                        const int64_t *axes, uint32_t *mask);

/* ---- text.h: a growing text
 * ---------------------------------------------------------------------------- */

typedef struct tp_text {
    char *at; /* may be NULL */
    size_t size;
    int64_t length; /* what it would be with room for all */
} tp_text;
void tp_text_add(tp_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tp_text_add_view(tp_text *text, const tp_view *v);
/* With quotes, backslashes and control characters escaped, for the inside of "...". */
void tp_text_add_escaped(tp_text *text, const char *string);
/* For the inside of an HTML-like label of Graphviz: always valid UTF-8. */
void tp_text_add_html(tp_text *text, const char *string);
/* "512.0 MiB". */
void tp_text_add_bytes(tp_text *text, int64_t bytes);
/* A number of a dtype, exact, the same in every locale. */
void tp_text_add_number(tp_text *text, tp_dtype dtype, tp_value value);

/* ---- reach.c: which nodes outputs depend on
 * ------------------------------------------------------------------ */

/* Starts a walk: tp_graph_visit is true once for each node until the next walk starts. */
void tp_graph_walk(tp_graph *graph);
bool tp_graph_visit(tp_tensor *x);
/* The nodes that outputs depend on, stopping at evaluated ones, in ascending ids; the list lies in
 * the arena. Gives their number, -1 without memory. Costs nothing for other nodes. */
int64_t tp_graph_reach(tp_graph *graph, int count, tp_tensor *const *outputs, tp_arena *arena,
                       tp_tensor ***list);

/* ---- verify.c: every invariant as code
 * ------------------------------------------------------------------------ */

/* NULL if all hold, else a sentence in text. */
const char *tp_graph_verify(const tp_graph *graph, char *text, size_t size);

#endif
