/* Attention whose scores are never stored whole: for as many heads, or rows of one, as fit into 64
 * MiB of scratch, which stays in the second-level cache: q k, then the prologue and softmax in
 * place, then the product with v straight into the wanted layout. The three steps are those that
 * the graph as written has, on slices of its operands. */
#include "attention.h"

#include <stdio.h>
#include <string.h>

#define SCRATCH_BYTES ((int64_t)64 << 20)

typedef struct attention {
    const tp_step *step;
    tp_dtype dtype;
    int rank;
    int64_t rows, keys;
    int64_t heads; /* of the innermost batch dim in one go */
    int64_t rows_at_once;
} attention;

static tp_reason refuse(const tp_step *step)
{
    uint8_t dtype = step->out.dtype;
    if (dtype != TP_F32 && dtype != TP_F16 && dtype != TP_BF16) return TP_REASON_BACKEND;
    for (int i = 0; i < 3; i++) {
        if (step->operand[i].dtype != dtype) return TP_REASON_BACKEND;
    }
    return TP_REASON_NONE;
}

/* ---- Slices
 * ---------------------------------------------------------------------------------------- */

/* Where a slice begins and ends: an index of the outer batch dims, heads, rows. */
typedef struct part {
    int64_t outer, head, heads, row, rows;
} part;

static void narrow(tp_view *v, int d, int64_t begin, int64_t count)
{
    if (v->shape[d] > 1) v->offset += begin * v->stride[d];
    v->shape[d] = v->shape[d] == 1 ? 1 : count;
}

/* The part of a view over the batch dims, and over rows where it has them. Its batch dims have the
 * domain's size, or 1. */
static tp_view slice(const attention *a, const tp_view *v, const part *p, bool has_rows)
{
    tp_view y = *v;
    int64_t outer = p->outer;
    for (int d = a->rank - 4; d >= 0; d--) {
        int64_t size = a->step->domain.shape[d];
        narrow(&y, d, outer % size, 1);
        outer /= size;
    }
    if (a->rank > 2) narrow(&y, a->rank - 3, p->head, p->heads);
    if (has_rows) narrow(&y, a->rank - 2, p->row, p->rows);
    return y;
}

static tp_operand operand_slice(const attention *a, int i, const part *p, bool has_rows)
{
    tp_operand o = a->step->operand[i];
    o.view = slice(a, &o.view, p, has_rows);
    return o;
}

/* ---- The three steps of a part
 * ---------------------------------------------------------------------- */

static tp_status run_product(const tp_operand *a, const tp_operand *b, const tp_operand *c,
                             tp_run *run)
{
    tp_operand operand[] = {*a, *b};
    tp_step step = {.kind = TP_STEP_MATMUL,
                    .operand_count = 2,
                    .operand = operand,
                    .out = *c,
                    .domain = c->view,
                    .into = -1};
    const tp_kernel *const *kernel = tp_cuda_matmul_kernels;
    while (kernel[1] && kernel[0]->refuse(&step) != TP_REASON_NONE) kernel++;
    return kernel[0]->run(&step, run);
}

/* In place: each thread reads an element before it writes it. */
static tp_status run_softmax(const attention *a, const tp_operand *scores, const part *p,
                             tp_run *run)
{
    tp_operand operand[TP_PROGRAM_LOADS];
    int loads = a->step->prologue.load_count;
    operand[0] = *scores;
    for (int i = 1; i < loads; i++) operand[i] = operand_slice(a, i + 2, p, true);
    tp_step step = {.kind = TP_STEP_SOFTMAX,
                    .calc = TP_F32,
                    .axes = 1U << (a->rank - 1),
                    .domain = scores->view,
                    .prologue = a->step->prologue,
                    .operand_count = loads,
                    .operand = operand,
                    .out = *scores,
                    .value = {a->step->value[0]},
                    .into = -1};
    return tp_cuda_softmax_kernels[0]->run(&step, run);
}

static tp_status run_part(const attention *a, const part *p, int scratch, tp_run *run)
{
    int64_t shape[TP_MAX_RANK];
    for (int d = 0; d < a->rank - 3; d++) shape[d] = 1;
    if (a->rank > 2) shape[a->rank - 3] = p->heads;
    shape[a->rank - 2] = p->rows;
    shape[a->rank - 1] = a->keys;
    tp_operand scores = {scratch, (uint8_t)a->dtype, tp_view_row_major(a->rank, shape)};
    tp_operand q = operand_slice(a, 0, p, true), k = operand_slice(a, 1, p, false),
               v = operand_slice(a, 2, p, false), out = a->step->out;
    out.view = slice(a, &out.view, p, true);
    TRY(run_product(&q, &k, &scores, run));
    TRY(run_softmax(a, &scores, p, run));
    return run_product(&scores, &v, &out, run);
}

/* ---- The step
 * ------------------------------------------------------------------------------------------ */

static int64_t at_least_one(int64_t x)
{
    return x > 1 ? x : 1;
}

/* Of the innermost batch dim. */
static int64_t heads_of(const tp_step *step)
{
    int rank = step->domain.ndim;
    return rank > 2 ? step->domain.shape[rank - 3] : 1;
}

static void choose_parts(attention *a)
{
    int64_t row_bytes = at_least_one(a->keys * (int64_t)tp_dtype_size(a->dtype));
    int64_t heads = heads_of(a->step);
    int64_t fit = SCRATCH_BYTES / row_bytes;
    a->rows_at_once = fit < a->rows ? at_least_one(fit) : a->rows;
    a->heads = at_least_one(fit / at_least_one(a->rows));
    if (a->heads > heads) a->heads = heads;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static tp_status run_parts(const attention *a, int scratch, tp_run *run)
{
    int64_t outer = 1, heads = heads_of(a->step);
    for (int d = 0; d < a->rank - 3; d++) outer *= a->step->domain.shape[d];
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t h = 0; h < heads; h += a->heads) {
            for (int64_t r = 0; r < a->rows; r += a->rows_at_once) {
                part p = {o, h, smaller(a->heads, heads - h), r,
                          smaller(a->rows_at_once, a->rows - r)};
                TRY(run_part(a, &p, scratch, run));
            }
        }
    }
    return TP_OK;
}

static attention prepare(const tp_step *step)
{
    int rank = step->domain.ndim;
    attention a = {.step = step,
                   .dtype = (tp_dtype)step->out.dtype,
                   .rank = rank,
                   .rows = step->domain.shape[rank - 2],
                   .keys = step->domain.shape[rank - 1]};
    choose_parts(&a);
    return a;
}

static tp_status run_attention(const tp_step *step, tp_run *run)
{
    attention a = prepare(step);
    if (tp_view_numel(&step->out.view) == 0) return TP_OK;
    /* The scratch as one more buffer of the run. */
    int buffers = tp_cuda_buffer_count(run);
    size_t bytes = (size_t)(buffers + 1) * sizeof(char *);
    char **buffer = tp_context_alloc(run->context, bytes);
    if (!buffer) return tp_cuda_fail(TP_E_NOMEM, "out of memory");
    char *scratch =
        tp_cuda_scratch(run, (size_t)(a.heads * a.rows_at_once * a.keys) * tp_dtype_size(a.dtype));
    tp_status status = scratch ? TP_OK : tp_cuda_status();
    if (status == TP_OK) {
        tp_run with_scratch = *run;
        memcpy(buffer, run->buffer, (size_t)buffers * sizeof(char *));
        buffer[buffers] = scratch;
        with_scratch.buffer = buffer;
        status = run_parts(&a, buffers, &with_scratch);
    }
    tp_context_free(run->context, buffer, bytes);
    return status;
}

static int describe(const tp_step *step, char *text, size_t size)
{
    attention a = prepare(step);
    int64_t bytes = (int64_t)tp_dtype_size(a.dtype);
    int64_t scratch = a.heads * a.rows_at_once * a.keys * bytes;
    return snprintf(
        text, size,
        "STREAMED %lld heads of %lld rows by %lld keys at once, %lld bytes of scratch, %lld "
        "bytes of scores not allocated",
        (long long)a.heads, (long long)a.rows_at_once, (long long)a.keys, (long long)scratch,
        (long long)(tp_view_numel(&step->domain) * bytes));
}

static const tp_kernel attention_kernel = {"cuda_attention", refuse, run_attention, describe};
const tp_kernel *const tp_cuda_attention_kernels[] = {&tp_cuda_attention_mma, &attention_kernel,
                                                      NULL};
