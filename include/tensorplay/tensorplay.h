/* TensorPlay: build a graph of tensor expressions, evaluate it, copy nothing
 * that need not be copied.
 *
 *   tp_graph *g = tp_graph_create(NULL);
 *   tp_tensor *x = tp_arange(g, TP_F32, 0, 1, 6);
 *   tp_tensor *y = tp_transpose(tp_reshape(x, TP_DIMS(2, 3)), 0, 1);
 *   if (tp_eval(y) == TP_OK) ... ((const float *)tp_data(y))[i] ...
 *   tp_graph_destroy(g);
 *
 * In the order in which a user meets it: values, contexts and graphs, leaves,
 * views, elementwise ops, reductions, products, evaluation, results, errors,
 * copies and dumps.
 *
 * What holds everywhere:
 *  - Building computes nothing. Shapes, strides and dtypes of a node can be asked
 *    for as soon as it is built; wrong shapes are refused there.
 *  - A graph owns its tensors; they need no release. Nested calls leak nothing.
 *  - A builder that fails returns NULL, a builder that receives NULL returns NULL;
 *    the first cause stays in the graph (tp_graph_error) and tp_eval returns it.
 *  - Nothing here aborts, exits, prints or raises a signal.
 *  - A graph and its tensors belong to one thread at a time; contexts and storages
 *    may be shared between threads.
 */
#ifndef TENSORPLAY_H
#define TENSORPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TP_API __attribute__((visibility("default")))
#else
#define TP_API
#endif
/* A function that adds a node; the build derives from these lines the macros that
 * record the caller's file and line (call_sites.h; TP_NO_CALL_SITES switches off). */
#define TP_OP TP_API tp_tensor *

#define TP_VERSION "0.1.0"

/* ---- Values -------------------------------------------------------------- */

/* Largest number of dims of a tensor. */
#define TP_MAX_RANK 16

typedef enum tp_status {
#define STATUS(ENUM, name, meaning) TP_##ENUM,
#include "tensorplay/status.def"
} tp_status;

typedef enum tp_dtype {
#define DTYPE(ENUM, name, storage, compute, kind, bytes) TP_##ENUM,
#include "tensorplay/dtypes.def"
    TP_DTYPE_COUNT
} tp_dtype;

/* Why a copy is kept or went (tensorplay/reasons.def). */
typedef enum tp_reason {
    TP_REASON_NONE,
#define REASON(ENUM, kept, meaning) TP_REASON_##ENUM,
#include "tensorplay/reasons.def"
    TP_REASON_COUNT
} tp_reason;

/* Where element (i0, i1, ...) lies: offset + sum of stride[d] * i_d, in elements of
 * the tensor's dtype. Stride 0 repeats, a negative stride runs backwards; the
 * stride of a dim of size 1 has no meaning. */
typedef struct tp_view {
    int ndim;
    int64_t offset;
    int64_t shape[TP_MAX_RANK];
    int64_t stride[TP_MAX_RANK];
} tp_view;

typedef struct tp_context tp_context;
typedef struct tp_graph tp_graph;
typedef struct tp_tensor tp_tensor;

/* A list of dims as two arguments (count, pointer): tp_reshape(x, TP_DIMS(2, -1)). */
/* clang-format off */
#define TP_DIMS(...)                                                                               \
    (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__}
/* clang-format on */

/* Name of a status, dtype or reason ("E_SHAPE" is "shape", TP_F32 "f32", ...); a value
 * outside the enum gives "unknown". */
TP_API const char *tp_status_name(tp_status status);
TP_API const char *tp_dtype_name(tp_dtype dtype);
TP_API const char *tp_reason_name(tp_reason reason);
/* The reason as a sentence. */
TP_API const char *tp_reason_meaning(tp_reason reason);
/* Bytes of one element; 0 outside the enum. */
TP_API size_t tp_dtype_size(tp_dtype dtype);
/* The dtype of a binary operation on a and b.
 * Gives: true and *result; false where no type holds both (u64 with a signed integer). */
TP_API bool tp_dtype_promote(tp_dtype a, tp_dtype b, tp_dtype *result);

/* ---- Contexts: memory, threads, logging ---------------------------------- */

/* Memory for everything the library allocates. alloc gives size_bytes aligned to 64
 * or NULL; release gets the same size back. Both may be called from several threads. */
typedef struct tp_allocator {
    void *(*alloc)(void *user, size_t size_bytes);
    void (*release)(void *user, void *memory, size_t size_bytes);
    void *user;
} tp_allocator;

typedef struct tp_context_options {
    tp_allocator allocator;    /* alloc NULL: the C library's */
    size_t memory_limit_bytes; /* tensors and workspaces together; 0: none */
    size_t pool_limit_bytes;   /* freed blocks kept for reuse; 0: 1 GiB */
    int threads;               /* of the CPU backend; 0: one per core */
    /* Gets a line (no newline) for every plan made and every copy it keeps; NULL: silent. */
    void (*log)(void *user, const char *line);
    void *log_user;
} tp_context_options;

/* A context with these options (NULL: defaults).
 * Gives: the context, reference count 1; NULL when memory is out.
 * Owns: the caller releases it; graphs and storages keep it alive as long as needed. */
TP_API tp_context *tp_context_create(const tp_context_options *options);
TP_API void tp_context_release(tp_context *context);
/* Changes the memory limit; a limit below what is in use refuses further requests. */
TP_API void tp_context_set_memory_limit(tp_context *context, size_t limit_bytes);
/* Changes the thread count; 0: one per core. */
TP_API void tp_context_set_threads(tp_context *context, int threads);

typedef struct tp_memory {
    size_t used_bytes;   /* held by tensors and workspaces now */
    size_t peak_bytes;   /* highest used_bytes since creation or tp_context_reset_peak */
    size_t pooled_bytes; /* freed, kept for reuse */
} tp_memory;
TP_API tp_memory tp_context_memory(const tp_context *context);
TP_API void tp_context_reset_peak(tp_context *context);
/* Gives pooled blocks back to the allocator. */
TP_API void tp_context_trim(tp_context *context);

/* ---- Graphs --------------------------------------------------------------- */

/* An empty graph in a context (NULL: a process-wide default context).
 * Gives: NULL when memory is out. Owns: the caller destroys it, which ends all its
 * tensors. Cost: a few KiB. */
TP_API tp_graph *tp_graph_create(tp_context *context);
TP_API void tp_graph_destroy(tp_graph *graph);
/* Forgets all nodes, keeps the memory: a loop that builds anew resets. Plans of the graph are
 * released first, here and before tp_graph_destroy. */
TP_API void tp_graph_reset(tp_graph *graph);
TP_API int64_t tp_graph_node_count(const tp_graph *graph);
/* The node with this id, 0 <= id < count, in the order of building; else NULL. */
TP_API tp_tensor *tp_graph_node(const tp_graph *graph, int64_t id);

/* Switches a pass (or "all") off or on for this graph's evaluations; results stay bit
 * for bit the same. Fails: TP_E_ARGUMENT for an unknown name. */
TP_API tp_status tp_graph_set_pass(tp_graph *graph, const char *pass, bool on);
/* The passes in their order: name of pass i, NULL past the end. */
TP_API const char *tp_pass_name(int i);
/* Picks the backend by name: "cpu" (default, or what TP_BACKEND in the environment names), "ref"
 * (plain loops: the oracle) or "cuda" (device TP_CUDA_DEVICE of the environment, else 0; a module
 * that is opened here). Leaves go to the device when a plan first reads them and stay there,
 * results come back when they are read; what must move appears in the ledger as DEVICE_MOVE. Fails:
 * TP_E_UNAVAILABLE with the reason. */
TP_API tp_status tp_graph_set_backend(tp_graph *graph, const char *backend);

/* ---- Facts about a tensor -------------------------------------------------- */

TP_API tp_graph *tp_graph_of(const tp_tensor *x);
TP_API int64_t tp_id(const tp_tensor *x);
TP_API tp_dtype tp_dtype_of(const tp_tensor *x);
TP_API int tp_ndim(const tp_tensor *x);
/* Size of an axis (negative counts from the end); -1 out of range. */
TP_API int64_t tp_dim(const tp_tensor *x, int axis);
TP_API int64_t tp_numel(const tp_tensor *x);
/* Shape, strides and offset over the storage the tensor aliases, known before anything
 * runs. A compute node's are row-major with offset 0; strides of size-1 dims are the
 * row-major values. x NULL gives a 0-d view. */
TP_API tp_view tp_view_of(const tp_tensor *x);
/* Whether x lies row-major without gaps. */
TP_API bool tp_is_contiguous(const tp_tensor *x);
/* Whether x is a view of another node, and of which: the compute node or leaf whose
 * bytes it aliases (x itself if it is not a view). */
TP_API const tp_tensor *tp_base(const tp_tensor *x);
TP_API bool tp_shares_storage(const tp_tensor *a, const tp_tensor *b);
/* Name of the operation that makes x: "matmul". */
TP_API const char *tp_op_name(const tp_tensor *x);
/* Names x in dumps and errors; the text is copied. Gives x. */
TP_OP tp_named(tp_tensor *x, const char *name);
TP_API const char *tp_name(const tp_tensor *x);
/* Records where x was asked for; called by the macros of call_sites.h. Gives x. */
TP_API tp_tensor *tp_at(tp_tensor *x, const char *file, int line);
/* One line: id, name, op, dtype, shape, strides, offset, contiguous or not, storage and
 * its reference count. Gives: the length as snprintf does. */
TP_API int tp_describe(const tp_tensor *x, char *text, size_t size);

/* ---- Leaves ---------------------------------------------------------------- */

/* data, ndim and shape as given, row-major; the bytes are copied.
 * Fails: TP_E_SHAPE a negative size or more than 2^63-1 bytes; TP_E_NOMEM. */
TP_OP tp_from_data(tp_graph *graph, tp_dtype dtype, int ndim, const int64_t *shape,
                   const void *data);
/* Borrows size_bytes at data under a view (NULL strides: row-major; offset in elements).
 * The caller keeps the bytes alive and unchanged until release(user, data) is called
 * (NULL: never told), which happens when the last tensor using them is gone.
 * Fails: TP_E_BOUNDS when the view reaches outside size_bytes; data must be aligned to
 * the element. On failure release is not called. */
TP_OP tp_wrap(tp_graph *graph, tp_dtype dtype, int ndim, const int64_t *shape,
              const int64_t *strides, int64_t offset, void *data, size_t size_bytes,
              void (*release)(void *user, void *data), void *user);
/* y[...] = value, converted to dtype. An f64 holds integers up to 2^53 exactly; use
 * tp_full_int beyond. */
TP_OP tp_full(tp_graph *graph, tp_dtype dtype, int ndim, const int64_t *shape, double value);
TP_OP tp_full_int(tp_graph *graph, tp_dtype dtype, int ndim, const int64_t *shape, int64_t value);
/* A 0-d tensor; takes part in promotion like any tensor. */
TP_OP tp_scalar(tp_graph *graph, tp_dtype dtype, double value);
/* A weak scalar, the way `x + 2.5` is meant: 0-d, in x's dtype if that is a float, f32
 * for an integer x. tp_int: `x + 3`, in x's dtype; fails with TP_E_DTYPE when the value
 * does not fit it. */
TP_OP tp_num(tp_tensor *x, double value);
TP_OP tp_int(tp_tensor *x, int64_t value);
/* y[i] = start + i step for i < count: floats in f64, then rounded to dtype; integers wrap. */
TP_OP tp_arange(tp_graph *graph, tp_dtype dtype, double start, double step, int64_t count);
/* 1 where col - row = diagonal, else 0. See numpy.eye. */
TP_OP tp_eye(tp_graph *graph, tp_dtype dtype, int64_t rows, int64_t cols, int64_t diagonal);
/* count values from start to stop, both included, evenly spaced in f64; then converted to dtype. */
TP_OP tp_linspace(tp_graph *graph, tp_dtype dtype, double start, double stop, int64_t count);
/* y[.., c] = 1 where indices[..] = c, for c < classes; an index outside gives zeros. */
TP_OP tp_one_hot(tp_tensor *indices, int64_t classes, tp_dtype dtype);
/* Random numbers of a float dtype: element i is a function of seed and i alone, the same on every
 * backend and with any number of threads. uniform: in [0, 1), a multiple of 2^-p for the p bits
 * of the dtype's significand; normal: mean 0, deviation 1. Source: Philox 4x32-10 (Salmon et al.
 * 2011), AS 241 (Wichura 1988). */
TP_OP tp_random_uniform(tp_graph *graph, tp_dtype dtype, int ndim, const int64_t *shape,
                        uint64_t seed);
TP_OP tp_random_normal(tp_graph *graph, tp_dtype dtype, int ndim, const int64_t *shape,
                       uint64_t seed);
/* The array in a .npy file: format versions 1 to 3, either byte order, Fortran order as
 * a transposed view. Fails: TP_E_FILE; TP_E_FORMAT before anything is allocated. */
TP_OP tp_load_npy(tp_graph *graph, const char *path);
/* Writes x as .npy, version 1, C order; x must be evaluated. Written to a temporary and
 * renamed: the file is whole or not there. */
TP_API tp_status tp_save_npy(tp_tensor *x, const char *path);

/* Tells that a wrapped leaf's bytes changed: results that depend on it become stale;
 * reading one is TP_E_STALE, evaluating again recomputes it. */
TP_API tp_status tp_touch(tp_tensor *leaf);
/* Gives a leaf new values of the same shape and dtype (copied): one graph serves a loop.
 * The old storage stays with whoever else holds it. */
TP_API tp_status tp_bind(tp_tensor *leaf, const void *data, size_t size_bytes);

/* ---- Views: no bytes move --------------------------------------------------- */

/* The same elements in row-major order as ndim/shape; one size may be -1, a literal 0
 * means 0. A view where the strides allow it; otherwise a copy node comes first
 * (reason RESHAPE_NOT_A_VIEW). Fails: TP_E_SHAPE. See numpy.reshape. */
TP_OP tp_reshape(tp_tensor *x, int ndim, const int64_t *shape);
/* Like tp_reshape, but never copies: TP_E_SHAPE naming the dims that cannot merge. */
TP_OP tp_view_as(tp_tensor *x, int ndim, const int64_t *shape);
/* Merges axes first..last into one. */
TP_OP tp_flatten(tp_tensor *x, int first, int last);
/* y's dim d is x's dim axes[d]; axes is a permutation. See numpy.transpose. */
TP_OP tp_permute(tp_tensor *x, int ndim, const int64_t *axes);
/* Exchanges two axes. */
TP_OP tp_transpose(tp_tensor *x, int axis_a, int axis_b);
/* "To the very end" in either direction, for start and stop of tp_slice. */
#define TP_END INT64_MIN
/* Python's x[start:stop:step] on one axis: negatives wrap once, then clamp; step != 0.
 * TP_END as start or stop leaves it out. */
TP_OP tp_slice(tp_tensor *x, int axis, int64_t start, int64_t stop, int64_t step);
/* x at one index of an axis, which goes away. Fails: TP_E_BOUNDS. */
TP_OP tp_select(tp_tensor *x, int axis, int64_t index);
/* Repeats size-1 and new leading dims with stride 0; -1 keeps a size. The result is
 * read-only. See numpy.broadcast_to. */
TP_OP tp_expand(tp_tensor *x, int ndim, const int64_t *shape);
TP_OP tp_squeeze(tp_tensor *x, int axis);
/* axis in [-(rank+1), rank]. */
TP_OP tp_unsqueeze(tp_tensor *x, int axis);
TP_OP tp_flip(tp_tensor *x, int count, const int64_t *axes);
/* y[..., i] = x[.., i + max(0,-offset), .., i + max(0,offset), ..] over axes a and b,
 * which go away. See numpy.diagonal. */
TP_OP tp_diagonal(tp_tensor *x, int64_t offset, int axis_a, int axis_b);
/* y[.., i, .., j] = x[.., i step + j, ..] with j < size as a new last dim: every window of `size`
 * elements that fits into the axis. Fails: TP_E_SHAPE when none fits. See NumPy's
 * sliding_window_view. */
TP_OP tp_windows(tp_tensor *x, int axis, int64_t size, int64_t step);
/* x in `count` parts along an axis, of these sizes (they add up to the axis), into parts[].
 * Fails: TP_E_SHAPE; all parts are then NULL. */
TP_API tp_status tp_split(tp_tensor *x, int axis, int count, const int64_t *sizes,
                          tp_tensor **parts);
/* The same in parts of equal size; if count does not divide the axis, the first ones have one
 * element more. See numpy.array_split. */
TP_API tp_status tp_chunk(tp_tensor *x, int axis, int count, tp_tensor **parts);
/* Any view of x's storage; strides and offset in elements, counted from the start of
 * the storage. Fails: TP_E_BOUNDS when an element lies outside it. */
TP_OP tp_as_strided(tp_tensor *x, int ndim, const int64_t *shape, const int64_t *strides,
                    int64_t offset);
/* The same bytes as another dtype; the last dim shrinks or grows by the ratio of sizes.
 * Fails: TP_E_SHAPE naming the stride, size or offset that does not divide. */
TP_OP tp_bitcast(tp_tensor *x, tp_dtype dtype);

/* NumPy's basic indexing as text, a view: tp_index(x, "1:3, ::2, -1, None, ..."). Fails:
 * TP_E_ARGUMENT pointing at the character; TP_E_BOUNDS as tp_select. */
TP_OP tp_index(tp_tensor *x, const char *text);
/* The size of a named axis, for tp_rearrange. */
typedef struct tp_axis_size {
    const char *name;
    int64_t size;
} tp_axis_size;
/* clang-format off */
#define TP_SIZES(...)                                                                              \
    (int)(sizeof((const tp_axis_size[]){__VA_ARGS__}) / sizeof(tp_axis_size)), (const tp_axis_size[]){__VA_ARGS__}
/* clang-format on */
/* Splits, reorders and merges dims by name:
 *   tp_rearrange(x, "b s (h d) -> b h s d", TP_SIZES({"h", 8}))
 * One size in each group follows from x; 1 stands for a dim of size 1. Fails: TP_E_ARGUMENT
 * pointing at the character; TP_E_SHAPE. Cost: views, or one copy as tp_reshape. See einops. */
TP_OP tp_rearrange(tp_tensor *x, const char *pattern, int count, const tp_axis_size *sizes);

/* ---- Layout and conversion --------------------------------------------------- */

/* The same values, dense and row-major; x's own bytes where it already lies so. In a
 * graph this is a wish: passes drop the copy where nobody needs it. */
TP_OP tp_contiguous(tp_tensor *x);
/* Values converted to dtype: floats to integers truncate and saturate (NaN gives 0),
 * integers wrap, anything to bool is != 0, to f16/bf16 rounds once to nearest even. */
TP_OP tp_cast(tp_tensor *x, tp_dtype dtype);

/* x several times along its axes, aligned from the right; see numpy.tile. Each element `times`
 * in a row along an axis; see numpy.repeat. Cost: a copy, unless the readers can do without. */
TP_OP tp_tile(tp_tensor *x, int count, const int64_t *repeats);
TP_OP tp_repeat(tp_tensor *x, int axis, int64_t times);

/* ---- Elementwise -------------------------------------------------------------
 * Shapes broadcast as in NumPy: aligned from the right, sizes equal or one of them 1.
 * Fails: TP_E_SHAPE with both shapes, TP_E_DTYPE where no type holds both operands.
 * Arithmetic on bools gives i64; div and the transcendental functions give f32 for
 * integers. Every result is rounded to its dtype, fused or not. Cost: one trip through
 * memory per fused group. Formulas: docs/ops.md. */

TP_OP tp_neg(tp_tensor *a);
TP_OP tp_abs(tp_tensor *a);
TP_OP tp_exp(tp_tensor *a);
TP_OP tp_log(tp_tensor *a);
TP_OP tp_sqrt(tp_tensor *a);
TP_OP tp_rsqrt(tp_tensor *a);
TP_OP tp_tanh(tp_tensor *a);
TP_OP tp_erf(tp_tensor *a);
TP_OP tp_sigmoid(tp_tensor *a);
TP_OP tp_relu(tp_tensor *a);
TP_OP tp_gelu(tp_tensor *a);
TP_OP tp_logical_not(tp_tensor *a);
TP_OP tp_sign(tp_tensor *a);
TP_OP tp_square(tp_tensor *a);
TP_OP tp_reciprocal(tp_tensor *a);
TP_OP tp_exp2(tp_tensor *a);
TP_OP tp_expm1(tp_tensor *a);
TP_OP tp_log2(tp_tensor *a);
TP_OP tp_log10(tp_tensor *a);
TP_OP tp_log1p(tp_tensor *a);
TP_OP tp_sin(tp_tensor *a);
TP_OP tp_cos(tp_tensor *a);
TP_OP tp_tan(tp_tensor *a);
TP_OP tp_asin(tp_tensor *a);
TP_OP tp_acos(tp_tensor *a);
TP_OP tp_atan(tp_tensor *a);
TP_OP tp_sinh(tp_tensor *a);
TP_OP tp_cosh(tp_tensor *a);
TP_OP tp_erfc(tp_tensor *a);
TP_OP tp_silu(tp_tensor *a);
TP_OP tp_gelu_tanh(tp_tensor *a);
TP_OP tp_softplus(tp_tensor *a);
TP_OP tp_floor(tp_tensor *a);
TP_OP tp_ceil(tp_tensor *a);
TP_OP tp_trunc(tp_tensor *a);
/* Ties to even. */
TP_OP tp_round(tp_tensor *a);
/* Integers only; for truth values there is tp_logical_not. */
TP_OP tp_bitwise_not(tp_tensor *a);
TP_OP tp_isnan(tp_tensor *a);
TP_OP tp_isinf(tp_tensor *a);
TP_OP tp_isfinite(tp_tensor *a);

TP_OP tp_add(tp_tensor *a, tp_tensor *b);
TP_OP tp_sub(tp_tensor *a, tp_tensor *b);
TP_OP tp_mul(tp_tensor *a, tp_tensor *b);
TP_OP tp_div(tp_tensor *a, tp_tensor *b);
TP_OP tp_pow(tp_tensor *a, tp_tensor *b);
TP_OP tp_minimum(tp_tensor *a, tp_tensor *b);
TP_OP tp_maximum(tp_tensor *a, tp_tensor *b);
TP_OP tp_logical_and(tp_tensor *a, tp_tensor *b);
TP_OP tp_logical_or(tp_tensor *a, tp_tensor *b);
TP_OP tp_logical_xor(tp_tensor *a, tp_tensor *b);
/* Python's // and %: the remainder has b's sign. An integer divided by 0 gives 0. */
TP_OP tp_floor_divide(tp_tensor *a, tp_tensor *b);
TP_OP tp_remainder(tp_tensor *a, tp_tensor *b);
TP_OP tp_atan2(tp_tensor *a, tp_tensor *b);
TP_OP tp_hypot(tp_tensor *a, tp_tensor *b);
/* Integers and bool. */
TP_OP tp_bitwise_and(tp_tensor *a, tp_tensor *b);
TP_OP tp_bitwise_or(tp_tensor *a, tp_tensor *b);
TP_OP tp_bitwise_xor(tp_tensor *a, tp_tensor *b);
/* Integers; a count outside the width gives 0, or the sign for a signed right shift. */
TP_OP tp_left_shift(tp_tensor *a, tp_tensor *b);
TP_OP tp_right_shift(tp_tensor *a, tp_tensor *b);

/* Comparisons are exact across types, i64 against u64 and against floats included. */
TP_OP tp_equal(tp_tensor *a, tp_tensor *b);
TP_OP tp_not_equal(tp_tensor *a, tp_tensor *b);
TP_OP tp_less(tp_tensor *a, tp_tensor *b);
TP_OP tp_less_equal(tp_tensor *a, tp_tensor *b);
TP_OP tp_greater(tp_tensor *a, tp_tensor *b);
TP_OP tp_greater_equal(tp_tensor *a, tp_tensor *b);

/* y = b where condition is true, else c. */
TP_OP tp_where(tp_tensor *condition, tp_tensor *b, tp_tensor *c);

/* Put together from the operations above; fusion makes one loop of each.
 * clamp: minimum(maximum(x, low), high), NaN wins. lerp: a + t (b - a). leaky_relu: x where
 * x > 0, else slope x. */
TP_OP tp_clamp(tp_tensor *x, tp_tensor *low, tp_tensor *high);
TP_OP tp_lerp(tp_tensor *a, tp_tensor *b, tp_tensor *t);
TP_OP tp_leaky_relu(tp_tensor *x, double slope);
/* value where mask is true, else x; in x's dtype, which must hold value (TP_E_DTYPE). */
TP_OP tp_masked_fill(tp_tensor *x, tp_tensor *mask, double value);
/* x where col - row <= diagonal (tril) or >= diagonal (triu) of the last two dims, else 0. */
TP_OP tp_tril(tp_tensor *x, int64_t diagonal);
TP_OP tp_triu(tp_tensor *x, int64_t diagonal);

/* ---- Reductions ----------------------------------------------------------------
 * Over count axes (negative allowed, duplicates TP_E_ARGUMENT); count 0 reduces
 * nothing; axes NULL reduces all. keepdims leaves reduced axes with size 1. f32 and
 * f64 sums are pairwise along every axis, f16/bf16 accumulate in f32, integers in
 * 64 bits. Cost: one read of the input. */

#define TP_ALL_AXES -1, NULL
TP_OP tp_sum(tp_tensor *x, int count, const int64_t *axes, bool keepdims);
TP_OP tp_mean(tp_tensor *x, int count, const int64_t *axes, bool keepdims);
/* NaN wins. Fails: TP_E_SHAPE over zero elements. */
TP_OP tp_max(tp_tensor *x, int count, const int64_t *axes, bool keepdims);
TP_OP tp_min(tp_tensor *x, int count, const int64_t *axes, bool keepdims);
/* i64 row-major index within the reduced axes of the first NaN, else of the first
 * largest. */
TP_OP tp_argmax(tp_tensor *x, int count, const int64_t *axes, bool keepdims);
TP_OP tp_argmin(tp_tensor *x, int count, const int64_t *axes, bool keepdims);
/* 1 over nothing; the dtypes of tp_sum. */
TP_OP tp_prod(tp_tensor *x, int count, const int64_t *axes, bool keepdims);

/* Put together from the reductions above.
 * any, all: bool; what is not 0 is true, NaN included; false and true over nothing.
 * count_nonzero: i64. var: sum (x - mean)^2 / (n - ddof), in two passes, never negative, NaN for
 * n <= ddof. std: its root. logsumexp: ln sum e^x, the true maximum taken out first; -inf over
 * -inf. norm: (sum |x|^p)^(1/p) for p = 1 or 2, max |x| for p = INFINITY; fails with
 * TP_E_ARGUMENT for another p. */
TP_OP tp_any(tp_tensor *x, int count, const int64_t *axes, bool keepdims);
TP_OP tp_all(tp_tensor *x, int count, const int64_t *axes, bool keepdims);
TP_OP tp_count_nonzero(tp_tensor *x, int count, const int64_t *axes, bool keepdims);
TP_OP tp_var(tp_tensor *x, int count, const int64_t *axes, int64_t ddof, bool keepdims);
TP_OP tp_std(tp_tensor *x, int count, const int64_t *axes, int64_t ddof, bool keepdims);
TP_OP tp_logsumexp(tp_tensor *x, int count, const int64_t *axes, bool keepdims);
TP_OP tp_norm(tp_tensor *x, int count, const int64_t *axes, double p, bool keepdims);

/* y = e^(x - max) / sum e^(x - max) along axis; the true maximum is subtracted, a row
 * of -inf gives NaN. f16/bf16 calculate in f32. */
TP_OP tp_softmax(tp_tensor *x, int axis);
/* y = (x - mean) / sqrt(var + eps) * weight + bias over the last `axes` dims; variance
 * in two passes, biased; weight and bias have those dims. Either may be NULL, but not while
 * an error of the graph is unread: a builder that failed also gives NULL. */
TP_OP tp_layer_norm(tp_tensor *x, int axes, tp_tensor *weight, tp_tensor *bias, double eps);

/* ---- Products and gathers -------------------------------------------------------- */

/* y[.., i, j] = sum_k a[.., i, k] b[.., k, j]. 1-d operands gain a dim that goes away
 * again; leading dims broadcast; 0-d is refused; an empty sum gives 0. f32 and f64 run
 * on BLAS, which reads transposed and strided views in place; integers wrap.
 * Cost: 2 m n k flops per matrix. See numpy.matmul, BLAS gemm. */
TP_OP tp_matmul(tp_tensor *a, tp_tensor *b);
/* Sums of products by labels: tp_einsum("bshd,bthd->bhst", TP_LIST(q, k)), up to four
 * operands, from left to right; the result's labels must be written. A label twice in one operand
 * takes the diagonal. Two operands become one matmul that reads them in place where GEMM
 * arguments allow. Fails: TP_E_ARGUMENT pointing at the character; TP_E_SHAPE naming the label
 * and both sizes. See numpy.einsum. */
/* clang-format off */
#define TP_LIST(...)                                                                               \
    (int)(sizeof((tp_tensor *const[]){__VA_ARGS__}) / sizeof(tp_tensor *)), (tp_tensor *const[]){__VA_ARGS__}
/* clang-format on */
TP_OP tp_einsum(const char *text, int count, tp_tensor *const *operands);
/* sum_i a[i] b[i] of two 1-d tensors. */
TP_OP tp_dot(tp_tensor *a, tp_tensor *b);
/* Sum over pairs of axes, axes_a[i] with axes_b[i]; a's other dims, then b's. Cost: one matmul,
 * copies as tp_einsum. See numpy.tensordot. */
TP_OP tp_tensordot(tp_tensor *a, tp_tensor *b, int count, const int64_t *axes_a,
                   const int64_t *axes_b);
/* y[i, j] = a[i] b[j] of two 1-d tensors. */
TP_OP tp_outer(tp_tensor *a, tp_tensor *b);
/* y = x at the indices (1-d, any integer dtype) of an axis; -n..-1 wrap. An index out of
 * range fails the evaluation with TP_E_BOUNDS before the result is published. */
TP_OP tp_index_select(tp_tensor *x, int axis, tp_tensor *indices);

/* The same with n-d indices. take_along: indices have x's rank, other dims broadcast; see
 * numpy.take_along_axis. gather: other dims of indices may be smaller than x's; see torch.gather.
 */
TP_OP tp_take_along(tp_tensor *x, int axis, tp_tensor *indices);
TP_OP tp_gather(tp_tensor *x, int axis, tp_tensor *indices);
/* x, with source[.., i, ..] added at index indices[.., i, ..] of the axis, for all i in their
 * order: the same bits with any number of threads. indices and source broadcast to x's other dims;
 * dtypes as tp_add; f16 and bf16 add up in f32. Out of range as tp_index_select. Cost: source, and
 * x as tp_update. */
TP_OP tp_scatter_add(tp_tensor *x, int axis, tp_tensor *indices, tp_tensor *source);

/* ---- Along an axis ------------------------------------------------------------------------
 * y has x's shape. Dtypes of cumsum, cumprod and cummax are those of tp_sum, tp_prod and tp_max;
 * floats add up and multiply in f64, sums of f64 are compensated. */
TP_OP tp_cumsum(tp_tensor *x, int axis);
TP_OP tp_cumprod(tp_tensor *x, int axis);
TP_OP tp_cummax(tp_tensor *x, int axis);
/* In order; equal elements keep theirs. NaN counts as larger than all numbers: last, or first when
 * descending; -0 equals +0. argsort gives the i64 indices. Cost: n log n. */
TP_OP tp_sort(tp_tensor *x, int axis, bool descending);
TP_OP tp_argsort(tp_tensor *x, int axis, bool descending);
/* The k largest of an axis, largest first, and their indices; either may be NULL. Fails:
 * TP_E_ARGUMENT for k outside [0, size]. */
TP_API tp_status tp_topk(tp_tensor *x, int axis, int64_t k, tp_tensor **values,
                         tp_tensor **indices);

/* ---- Parts of a larger tensor -----------------------------------------------------------
 * Whoever makes the parts stores straight into them where it can; a part that lies elsewhere
 * already is copied (reason PART). */

/* parts[0..count) one after the other along an axis: tp_concat(TP_LIST(a, b), 0). The other sizes
 * are equal (TP_E_SHAPE), dtypes are promoted, bool stays bool. */
TP_OP tp_concat(int count, tp_tensor *const *parts, int axis);
/* Tensors of one shape along a new axis, in [-(rank+1), rank]. */
TP_OP tp_stack(int count, tp_tensor *const *parts, int axis);
/* y[i + shift] = x[i] along an axis, around its ends. */
TP_OP tp_roll(tp_tensor *x, int axis, int64_t shift);
/* x with value around it: widths are those before and after each dim, 2 rank of them, 0 or more.
 * An integer dtype must hold value (TP_E_DTYPE). */
TP_OP tp_pad(tp_tensor *x, int count, const int64_t *widths, double value);
/* x but for a region, where value (broadcast, converted as by tp_cast) stands instead; x stays as
 * it is. region is a view of x: tp_update(x, tp_index(x, "2:4, :"), v). Fails: TP_E_ARGUMENT when
 * it is none; TP_E_SHAPE when value does not fit it, or it has stride 0 or overlaps itself. Cost:
 * the region, if nobody else needs x as it was; else a copy of x too (ALIAS_WRITE). */
TP_OP tp_update(tp_tensor *x, tp_tensor *region, tp_tensor *value);
/* Tells that the caller will not read x, which is evaluated, again: an update may write over its
 * bytes (a cache that grows in place). Afterwards, also when the evaluation fails, x reads as
 * TP_E_STALE if it was a leaf (until tp_bind gives it new values) and as not evaluated if not. If
 * no update takes its bytes, x stays as it is. */
TP_API tp_status tp_donate(tp_tensor *x);

/* ---- Layers ------------------------------------------------------------------------------
 * Put together from the operations above. An operand that may be NULL may be so only while no
 * error of the graph is unread: a builder that failed also gives NULL. */

/* x W^T + b, the way layers keep their weights: w is [out, in]; b may be NULL. */
TP_OP tp_linear(tp_tensor *x, tp_tensor *w, tp_tensor *b);
/* x - ln sum e^x along axis, the true maximum taken out first; a row of -inf gives NaN. */
TP_OP tp_log_softmax(tp_tensor *x, int axis);
/* y = x / sqrt(mean(x^2) + eps) * weight over the last `axes` dims; weight may be NULL. */
TP_OP tp_rms_norm(tp_tensor *x, int axes, tp_tensor *weight, double eps);
/* y = (x - mean) / sqrt(var + eps) * weight + bias with a value for each index of dim 1 of x:
 * [batch, channels, ..]; weight and bias may be NULL. For inference: mean and var are given. */
TP_OP tp_batch_norm(tp_tensor *x, tp_tensor *mean, tp_tensor *var, tp_tensor *weight,
                    tp_tensor *bias, double eps);

/* softmax(scale q k^T + mask) v over the last two dims: q [.., heads, rows, width], k [.., heads,
 * keys, width], v [.., heads, keys, out]. k and v may have fewer heads, which then serve equal
 * groups of q's without being repeated. scale 0: 1 / sqrt(width). mask: bool (true: attend) or
 * numbers that are added; may be NULL. causal: row i sees keys up to i + keys - rows. A row that
 * sees nothing gives 0. Cost: the scores, [.., heads, rows, keys], in memory; copies nothing. */
TP_OP tp_attention(tp_tensor *q, tp_tensor *k, tp_tensor *v, tp_tensor *mask, double scale,
                   bool causal);
/* Of tp_conv2d, for height and width; 0 stands for 1 (padding: for 0). */
typedef struct tp_conv {
    int64_t stride[2], padding[2], dilation[2];
    int64_t groups;
} tp_conv;
/* y[n, o, i, j] = sum x[n, c, i stride + h dilation - padding, ..] w[o, c, h, w] + bias[o]:
 * x [batch, in, height, width], w [out, in / groups, height, width], bias [out] or NULL; how NULL:
 * a stride of 1, no padding. Cost: one batched matmul, and a copy of the windows of x unless the
 * kernel is 1 x 1 with stride 1 (RESHAPE_NOT_A_VIEW: windows overlap, no GEMM reads that). */
TP_OP tp_conv2d(tp_tensor *x, tp_tensor *w, tp_tensor *bias, const tp_conv *how);

/* ---- Evaluation -------------------------------------------------------------------- */

/* The most that a plan may copy; moves between host and device do not count. */
typedef struct tp_budget {
    int copies;
    int64_t copied_bytes; /* 0 with copies > 0: as many as those copies write */
} tp_budget;

typedef struct tp_eval_options {
    bool keep_layout; /* outputs that are views may alias and keep their strides */
    bool profile;     /* measure the time of every kernel for the plan's dumps */
    bool tf32;        /* a GPU's products of f32 may round their operands to 11 bits (TF32) */
    /* NULL: none. A plan beyond it is not made: TP_E_BUDGET, the sentence names the first copies,
     * their bytes and reasons. */
    const tp_budget *budget;
} tp_eval_options;

/* Evaluates x. Afterwards x is a leaf that owns a dense row-major result; evaluating it
 * again costs nothing. x NULL: the status of the last failure on this thread, which is what
 * made x NULL.
 * Fails: see tp_graph_error; every tensor is then as it was before. */
TP_API tp_status tp_eval(tp_tensor *x);
/* Evaluates several outputs of one graph at once; shared nodes run once. options NULL:
 * all off. */
TP_API tp_status tp_eval_all(tp_graph *graph, int count, tp_tensor *const *outputs,
                             const tp_eval_options *options);
TP_API bool tp_is_evaluated(const tp_tensor *x);

/* ---- Results ------------------------------------------------------------------------- */

/* The result's first element; row-major unless evaluated with keep_layout (then see
 * tp_result_view). Gives NULL, with the error recorded, when x is not evaluated or
 * stale. Owns: valid until the graph is reset or destroyed or x is evaluated anew. */
TP_API const void *tp_data(tp_tensor *x);
/* How the result lies from tp_data on: offset 0. */
TP_API tp_view tp_result_view(const tp_tensor *x);
/* Copies the result, row-major, into size_bytes at data. */
TP_API tp_status tp_read(tp_tensor *x, void *data, size_t size_bytes);
/* The element at a row-major position, as f64. Gives NaN, with the error recorded, when
 * it cannot be read. */
TP_API double tp_item(tp_tensor *x, int64_t position);

/* ---- Errors ----------------------------------------------------------------------------- */

typedef struct tp_error {
    tp_status status;
    const char *op; /* the operation or function that failed; NULL: none */
    int dim;        /* the dim in question, -1: none */
    char text[512]; /* one sentence */
} tp_error;

/* The first error since the last tp_graph_clear_error or failed tp_eval; status TP_OK if
 * there is none. */
TP_API const tp_error *tp_graph_error(const tp_graph *graph);
TP_API void tp_graph_clear_error(tp_graph *graph);

/* ---- Plans: what runs, what is copied and why ----------------------------------------------- */

typedef struct tp_plan tp_plan;

/* The plan that tp_eval_all would run. Owns: the caller releases it. NULL on failure. */
TP_API tp_plan *tp_plan_create(tp_graph *graph, int count, tp_tensor *const *outputs,
                               const tp_eval_options *options);
TP_API void tp_plan_release(tp_plan *plan);
/* Runs a plan once more, results go to the outputs it was made for. */
TP_API tp_status tp_plan_run(tp_plan *plan);

typedef struct tp_plan_summary {
    int kernels;             /* kernels that run */
    int copies;              /* of these, those that only copy */
    int64_t copied_bytes;    /* bytes the copies write */
    int64_t moved_bytes;     /* bytes all kernels read and write */
    int64_t flops;           /* of the products */
    int64_t peak_bytes;      /* outputs and workspace together */
    int64_t workspace_bytes; /* temporaries after placement */
    int asked_copies;        /* copies in the graph as built */
    int64_t asked_copied_bytes;
    int removed_copies;
    int in_place; /* kernels that write over an operand */
    int moves;    /* leaves that must first go to the backend's device, or come from one */
    int64_t device_moved_bytes;
} tp_plan_summary;
TP_API tp_plan_summary tp_plan_summarize(const tp_plan *plan);

/* One row of the copy ledger. */
typedef struct tp_copy {
    const tp_tensor *tensor; /* the node whose copy it is */
    bool kept;
    tp_reason reason;
    int64_t bytes;
    int dims[2];      /* RESHAPE_NOT_A_VIEW: the pair of dims that cannot merge, else -1 */
    const char *note; /* one sentence: what absorbed or demanded it */
} tp_copy;
TP_API int tp_plan_copy_count(const tp_plan *plan);
TP_API tp_copy tp_plan_copy(const tp_plan *plan, int i);

/* Plans x and counts the copies that stay; text, if not NULL, gets a line for each: tensor, bytes,
 * reason, note. -1: x cannot be planned, text then says why. */
TP_API int tp_count_copies(tp_tensor *x, char *text, size_t size);
/* For tests with Criterion: x is evaluated with n copies, else the test fails and lists them. */
#define TP_EXPECT_COPIES(x, n)                                                                     \
    do {                                                                                           \
        char tp_copies_text_[2000];                                                                \
        int tp_copies_ = tp_count_copies((x), tp_copies_text_, sizeof tp_copies_text_);            \
        cr_expect(tp_copies_ == (n), "%d copies, not %d:\n%s", tp_copies_, (n), tp_copies_text_);  \
    } while (0)

/* Text and pictures. Each writes size bytes at most, always terminated, and gives the
 * full length as snprintf does (text NULL, size 0: just the length), -1 when memory is
 * out. Same input, same text.
 * tp_graph_text: the nodes that outputs depend on, readable back by tp_graph_parse.
 * tp_graph_dot:  the same as a Graphviz picture of what was asked.
 * tp_plan_text, tp_plan_dot: the steps, calls and buffers that run. */
TP_API int64_t tp_graph_text(tp_graph *graph, int count, tp_tensor *const *outputs, char *text,
                             size_t size);
TP_API int64_t tp_graph_dot(tp_graph *graph, int count, tp_tensor *const *outputs, char *text,
                            size_t size);
TP_API int64_t tp_plan_text(const tp_plan *plan, char *text, size_t size);
TP_API int64_t tp_plan_dot(const tp_plan *plan, char *text, size_t size);
/* Adds the nodes of a program in the text form to graph; the tensors on its `return`
 * line go to outputs, at most max. Gives their number; -1 on failure, with line and
 * column in the error, and nothing added. */
TP_API int tp_graph_parse(tp_graph *graph, const char *text, int max, tp_tensor **outputs);

/* The libraries and cores in use, one line: "cpu avx512, 2 threads, BLAS libopenblas.so.0
 * (openmp, SkylakeX)". */
TP_API int tp_describe_backends(char *text, size_t size);
/* The names that tp_graph_set_backend knows: of backend i, NULL past the end. */
TP_API const char *tp_backend_name(int i);
/* One line on one of them: its machine and libraries, or why it is not available. */
TP_API int tp_describe_backend(const char *name, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#if !defined(TP_NO_CALL_SITES) && !defined(__cplusplus)
#include "tensorplay/call_sites.h"
#endif

#endif
