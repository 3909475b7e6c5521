/* What the planner hands to the BLAS, through a fake one that checks every argument by the
 * rules of the strictest CBLAS (which ends the process on a bad leading dimension) and then
 * calculates naively. Exhaustive over small sizes and strides of every kind. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "backends/cpu/blas.h"
#include "backends/cpu/kernels.h"
#include "backends/gemm_args.h"

#define SPACE 2048
#define MIDDLE 1024
#define UNTOUCHED -12345.0F

static long calls, illegal;
static float a_data[SPACE], b_data[SPACE], c_data[SPACE];
static unsigned char covered[SPACE];

static int at_least_one(int x)
{
    return x > 1 ? x : 1;
}

static void fake_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                       int lda, const float *b, int ldb, float beta, float *c, int ldc)
{
    bool nt_a = ta == TP_BLAS_NO_TRANS, nt_b = tb == TP_BLAS_NO_TRANS;
    calls++;
    bool legal = order == TP_BLAS_ROW_MAJOR && (nt_a || ta == TP_BLAS_TRANS) &&
                 (nt_b || tb == TP_BLAS_TRANS) && m > 0 && n > 0 && k > 0;
    legal = legal && lda >= at_least_one(nt_a ? k : m) && ldb >= at_least_one(nt_b ? n : k) &&
            ldc >= at_least_one(n);
    legal = legal && alpha == 1 && beta == 0;
    if (!legal) {
        illegal++;
        return;
    }
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int l = 0; l < k; l++)
                sum += a[nt_a ? i * lda + l : l * lda + i] * b[nt_b ? l * ldb + j : j * ldb + l];
            c[i * ldc + j] = sum;
            covered[c + i * ldc + j - c_data]++;
        }
    }
}

/* Strides of a rows x cols matrix of some kind. */
enum {
    DENSE,
    PADDED,
    TRANSPOSED,
    TRANSPOSED_PADDED,
    BACK_ROWS,
    BACK_COLS,
    BACK_BOTH,
    LOOSE,
    ROWS_0,
    COLS_0,
    OVERLAP,
    KINDS
};
static void strides_of(int kind, int64_t rows, int64_t cols, int64_t *rs, int64_t *cs)
{
    switch (kind) {
    case DENSE:
        *rs = cols, *cs = 1;
        break;
    case PADDED:
        *rs = cols + 2, *cs = 1;
        break;
    case TRANSPOSED:
        *rs = 1, *cs = rows;
        break;
    case TRANSPOSED_PADDED:
        *rs = 1, *cs = rows + 3;
        break;
    case BACK_ROWS:
        *rs = -(cols + 1), *cs = 1;
        break;
    case BACK_COLS:
        *rs = cols, *cs = -1;
        break;
    case BACK_BOTH:
        *rs = -cols, *cs = -1;
        break;
    case LOOSE:
        *rs = 2 * cols + 1, *cs = 2;
        break;
    case ROWS_0:
        *rs = 0, *cs = 1;
        break;
    case COLS_0:
        *rs = 1, *cs = 0;
        break;
    default:
        *rs = 1, *cs = 1;
    }
}

/* Batch strides: apart, shared, far apart, backwards, interleaved with the rows. */
static int64_t batch_stride(int kind, int64_t rows, int64_t cols)
{
    const int64_t strides[] = {(2 * rows + 3) * (2 * cols + 3), 0, (rows + 3) * (cols + 4), -60,
                               cols + 2};
    return strides[kind];
}

/* A view of one or two batches with nonsense for the strides of size-1 dims. */
static tp_view make_view(int64_t batch, int64_t rows, int64_t cols, int kind, int64_t bs,
                         int poison)
{
    static const int64_t nonsense[] = {INT64_MAX, -3, 7, 0};
    tp_view v = {.ndim = 3, .offset = MIDDLE, .shape = {batch, rows, cols}, .stride = {bs}};
    strides_of(kind, rows, cols, &v.stride[1], &v.stride[2]);
    for (int d = 0; d < 3; d++) {
        if (v.shape[d] == 1) v.stride[d] = nonsense[(poison + d) % 4];
    }
    return v;
}

static int64_t at(const tp_view *v, int64_t b, int64_t i, int64_t j)
{
    return v->offset + (v->shape[0] > 1 ? b * v->stride[0] : 0) +
           (v->shape[1] > 1 ? i * v->stride[1] : 0) + (v->shape[2] > 1 ? j * v->stride[2] : 0);
}

/* The rule for one matrix: one unit stride, the other at least the extent. */
static bool has_form(const tp_view *v)
{
    bool free_r = v->shape[1] == 1, free_c = v->shape[2] == 1;
    bool n = (v->stride[2] == 1 || free_c) && (free_r || v->stride[1] >= v->shape[2]);
    bool t = (v->stride[1] == 1 || free_r) && (free_c || v->stride[2] >= v->shape[1]);
    return n || t;
}

typedef struct tally {
    long cases, taken, wrong, refused;
} tally;

static void try_case(const tp_view *a, const tp_view *b, const tp_view *c, tally *t, int number)
{
    int64_t batch = c->shape[0], m = c->shape[1], n = c->shape[2], k = a->shape[2];
    tp_operand operands[2] = {{0, TP_F32, *a}, {1, TP_F32, *b}};
    tp_step step = {.kind = TP_STEP_MATMUL,
                    .op = TP_OP_MATMUL,
                    .domain = *c,
                    .operand_count = 2,
                    .operand = operands,
                    .out = {2, TP_F32, *c}};
    const tp_kernel *cblas = tp_cpu_matmul_kernels[0];
    t->cases++;
    bool should = has_form(a) && has_form(b) && has_form(c) && (batch == 1 || c->stride[0] != 0);
    if (cblas->refuse(&step) != TP_REASON_NONE) {
        t->refused += should;
        if (should && t->refused < 5)
            cr_log_error("case %d: a form that BLAS has is refused", number);
        return;
    }
    t->taken++;
    char *buffers[] = {(char *)a_data, (char *)b_data, (char *)c_data};
    tp_run run = {.context = tp_context_default(), .buffer = buffers, .threads = 1};
    for (int i = 0; i < SPACE; i++) c_data[i] = UNTOUCHED;
    memset(covered, 0, sizeof covered);
    bool right = cblas->run(&step, &run) == TP_OK;
    long touched = 0;
    for (int i = 0; i < SPACE; i++) touched += covered[i];
    for (int64_t x = 0; right && x < batch; x++) {
        for (int64_t i = 0; i < m; i++) {
            for (int64_t j = 0; j < n; j++) {
                float sum = 0;
                for (int64_t l = 0; l < k; l++)
                    sum += a_data[at(a, x, i, l)] * b_data[at(b, x, l, j)];
                right = right && c_data[at(c, x, i, j)] == sum && covered[at(c, x, i, j)] == 1;
            }
        }
    }
    right = right && touched == batch * m * n;
    t->wrong += !right;
    if (!right && t->wrong < 5) {
        char ta[800], tb[800], tc[800];
        tp_view_print(a, ta, sizeof ta), tp_view_print(b, tb, sizeof tb),
            tp_view_print(c, tc, sizeof tc);
        cr_log_error("case %d: a %s b %s c %s", number, ta, tb, tc);
    }
}

Test(gemm_args, every_small_product_reaches_the_blas_rightly)
{
    static const tp_blas fake = {.sgemm = fake_sgemm, .name = "fake"};
    const tp_blas *before = tp_blas_override(&fake);
    for (int i = 0; i < SPACE; i++)
        a_data[i] = (float)(i * 7 % 23 - 11), b_data[i] = (float)(i * 5 % 19 - 9);
    tally t = {0};
    int number = 0;
    for (int sizes = 0; sizes < 81; sizes++) {
        int64_t batch = sizes % 3 + 1, m = sizes / 3 % 3 + 1, n = sizes / 9 % 3 + 1,
                k = sizes / 27 + 1;
        int batches = batch > 1 ? 5 : 1;
        for (int ka = 0; ka < KINDS; ka++) {
            for (int kb = 0; kb < KINDS; kb++) {
                for (int kc = 0; kc <= LOOSE; kc++) {
                    for (int bb = 0; bb < batches * batches * batches; bb++, number++) {
                        int ba = bb % batches, b2 = bb / batches % batches,
                            bc = bb / batches / batches;
                        tp_view a = make_view(batch, m, k, ka, batch_stride(ba, m, k), number);
                        tp_view b = make_view(batch, k, n, kb, batch_stride(b2, k, n), number + 1);
                        tp_view c = make_view(batch, m, n, kc, batch_stride(bc, m, n), number + 2);
                        if (!tp_view_is_injective(&c)) continue;
                        try_case(&a, &b, &c, &t, number);
                    }
                }
            }
        }
    }
    tp_blas_override(before);
    printf("NOTE gemm arguments: %ld products, %ld taken in %ld calls, %ld wrong, %ld illegal, %ld "
           "refused needlessly\n",
           t.cases, t.taken, calls, t.wrong, illegal, t.refused);
    cr_expect_eq(t.wrong, 0);
    cr_expect_eq(illegal, 0);
    cr_expect_eq(t.refused, 0);
    cr_expect_gt(t.taken, 100000);
}

/* Two batch dims, as heads make them: which products are one call, which a loop. */
typedef struct fold {
    const char *what;
    tp_view a, b, c;
    int64_t m, n, products;
} fold;

Test(gemm_args, batches_fold_where_they_may_and_only_there)
{
    const fold cases[] = {
        {"weight shared by the batch: one call (faults 27, 76702)",
         {.ndim = 3, .shape = {10, 4, 5}, .stride = {20, 5, 1}},
         {.ndim = 3, .shape = {10, 5, 3}, .stride = {0, 3, 1}},
         {.ndim = 3, .shape = {10, 4, 3}, .stride = {12, 3, 1}},
         40,
         3,
         1},
        {"left operand shared: never one wide call (fault 22, candle 3744)",
         {.ndim = 3, .shape = {3, 2, 2}, .stride = {0, 2, 1}},
         {.ndim = 3, .shape = {3, 2, 2}, .stride = {4, 2, 1}},
         {.ndim = 3, .shape = {3, 2, 2}, .stride = {4, 2, 1}},
         2,
         2,
         3},
        {"size-1 rows over a batch: the batch becomes the rows (fault 29)",
         {.ndim = 3, .shape = {384, 1, 4096}, .stride = {4096, 1572864, 1}},
         {.ndim = 3, .shape = {384, 4096, 8}, .stride = {0, 8, 1}},
         {.ndim = 3, .shape = {384, 1, 8}, .stride = {8, 8, 1}},
         384,
         8,
         1},
        {"padded rows over a batch (fault 30)",
         {.ndim = 3, .shape = {4, 1, 8}, .stride = {16, 4, 1}},
         {.ndim = 3, .shape = {4, 8, 5}, .stride = {0, 5, 1}},
         {.ndim = 3, .shape = {4, 1, 5}, .stride = {5, 5, 1}},
         4,
         5,
         1},
        {"the batch is the row (fault 28): 4 products of 8 rows",
         {.ndim = 4, .shape = {8, 4, 1, 3}, .stride = {12, 3, 3, 1}},
         {.ndim = 4, .shape = {8, 4, 3, 3}, .stride = {0, 9, 3, 1}},
         {.ndim = 4, .shape = {8, 4, 1, 3}, .stride = {12, 3, 3, 1}},
         8,
         3,
         4},
        {"heads of two batches do not collapse (fault 23, xn 50)",
         {.ndim = 4, .shape = {2, 2, 2, 1}, .stride = {4, 1, 2, 1}},
         {.ndim = 4, .shape = {2, 2, 1, 2}, .stride = {4, 1, 1, 2}},
         {.ndim = 4, .shape = {2, 2, 2, 2}, .stride = {8, 4, 2, 1}},
         2,
         2,
         4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tp_gemm g;
        int operand;
        const fold *f = &cases[i];
        cr_assert_eq(tp_gemm_args(&f->a, &f->b, &f->c, &g, &operand), TP_REASON_NONE, "%s",
                     f->what);
        int64_t products = 1;
        for (int d = 0; d < g.loops; d++) products *= g.count[d];
        cr_expect_eq(products, f->products, "%s: %ld products", f->what, (long)products);
        cr_expect_eq(g.swapped ? g.n : g.m, f->m, "%s: m %ld", f->what, (long)g.m);
        cr_expect_eq(g.swapped ? g.m : g.n, f->n, "%s: n %ld", f->what, (long)g.n);
    }
}

Test(gemm_args, refusals_name_the_operand_and_the_reason)
{
    tp_gemm g;
    int operand;
    tp_view ok = {.ndim = 2, .shape = {3, 3}, .stride = {3, 1}},
            loose = {.ndim = 2, .shape = {3, 3}, .stride = {7, 2}},
            overlap = {.ndim = 2, .shape = {3, 3}, .stride = {1, 1}};
    cr_expect_eq(tp_gemm_args(&loose, &ok, &ok, &g, &operand), TP_REASON_GEMM_NO_UNIT_STRIDE);
    cr_expect_eq(operand, 0);
    cr_expect_eq(tp_gemm_args(&ok, &overlap, &ok, &g, &operand), TP_REASON_GEMM_LD);
    cr_expect_eq(operand, 1);
    cr_expect_eq(tp_gemm_args(&ok, &ok, &loose, &g, &operand), TP_REASON_GEMM_NO_UNIT_STRIDE);
    cr_expect_eq(operand, 2);
    tp_view shared = {.ndim = 3, .shape = {2, 3, 3}, .stride = {0, 3, 1}},
            batch = {.ndim = 3, .shape = {2, 3, 3}, .stride = {9, 3, 1}};
    cr_expect_neq(tp_gemm_args(&batch, &batch, &shared, &g, &operand), TP_REASON_NONE,
                  "a result with batch stride 0");
}
