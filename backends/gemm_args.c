/* From three views to BLAS arguments: which dims are rows, columns, depth and loops.
 *
 * Loop dims are merged jointly over the three operands; one that B does not walk (stride 0) may
 * continue the rows, one that A does not walk the columns, if the operand and C continue
 * evenly. Dims that run backwards in everything that walks them are turned round. A matrix
 * (rows, cols, rs, cs) is N when cs = 1 and rs >= cols, T when rs = 1 and cs >= rows; the
 * stride of a size-1 dim is never looked at. If C has its unit stride along the rows, the
 * transposed product is asked for. Everything given out is legal for the strictest CBLAS,
 * which ends the process on a bad leading dimension. */
#include "gemm_args.h"

/* A dim with its stride in each of A, B, C; 0 where an operand does not have it. */
typedef struct dim {
    int64_t size, stride[3];
} dim;

typedef struct problem {
    dim m, n, k;
    dim loop[TP_MAX_RANK];
    int loops;
    int64_t offset[3];
} problem;

static dim make_dim(const tp_view *const *v, const int *which)
{
    dim d = {.size = 1};
    for (int o = 0; o < 3; o++) {
        if (which[o] < 0) continue;
        d.size = v[o]->shape[which[o]];
        if (d.size > 1) d.stride[o] = v[o]->stride[which[o]];
    }
    return d;
}

/* Backwards in all that walk it: the last element comes first. */
static void turn_round(problem *p, dim *d)
{
    bool backwards = false;
    for (int o = 0; o < 3; o++) {
        if (d->stride[o] > 0) return;
        backwards = backwards || d->stride[o] < 0;
    }
    for (int o = 0; backwards && o < 3; o++) {
        p->offset[o] += (d->size - 1) * d->stride[o];
        d->stride[o] = -d->stride[o];
    }
}

/* Whether `outer` continues `inner` in every operand that has the pair. */
static bool continues(const dim *outer, const dim *inner)
{
    for (int o = 0; o < 3; o++) {
        if (outer->stride[o] != inner->stride[o] * inner->size) return false;
    }
    return true;
}

static void remove_loop(problem *p, int i)
{
    p->loops--;
    for (; i < p->loops; i++) p->loop[i] = p->loop[i + 1];
}

static void merge_loops(problem *p)
{
    for (int i = 0; i < p->loops; i++) {
        for (int j = 0; j < p->loops; j++) {
            if (i == j || !continues(&p->loop[i], &p->loop[j])) continue;
            p->loop[j].size *= p->loop[i].size;
            remove_loop(p, i);
            i = j = -1; /* anew: something may have become mergeable */
            break;
        }
        if (i < 0) continue;
    }
}

/* Lets a loop that operand `idle` does not walk continue a matrix dim. */
static bool fold_one(problem *p, dim *matrix, int idle)
{
    int best = -1;
    for (int i = 0; i < p->loops; i++) {
        const dim *l = &p->loop[i];
        if (l->stride[idle] != 0) continue;
        bool free_dim = matrix->size == 1, outside = continues(l, matrix),
             inside = continues(matrix, l);
        if (!free_dim && !outside && !inside) continue;
        if (best < 0 || l->size > p->loop[best].size) best = i;
    }
    if (best < 0) return false;
    dim l = p->loop[best];
    if (matrix->size == 1)
        *matrix = l;
    else {
        bool inside = !continues(&l, matrix);
        int64_t size = matrix->size * l.size;
        if (inside) *matrix = l; /* the loop's strides are the finer ones */
        matrix->size = size;
    }
    remove_loop(p, best);
    return true;
}

typedef struct matrix {
    bool trans;
    int64_t ld;
} matrix;

static int64_t at_least_one(int64_t x)
{
    return x > 1 ? x : 1;
}

/* A matrix in row-major order, transposed if need be. */
static tp_reason as_matrix(const dim *rows, const dim *cols, int operand, bool may_transpose,
                           matrix *m)
{
    int64_t rs = rows->stride[operand], cs = cols->stride[operand];
    bool free_r = rows->size <= 1, free_c = cols->size <= 1;
    if ((cs == 1 || free_c) && (rs >= at_least_one(cols->size) || free_r)) {
        *m = (matrix){false, free_r ? at_least_one(cols->size) : rs};
        return TP_REASON_NONE;
    }
    if (may_transpose && (rs == 1 || free_r) && (cs >= at_least_one(rows->size) || free_c)) {
        *m = (matrix){true, free_c ? at_least_one(rows->size) : cs};
        return TP_REASON_NONE;
    }
    bool unit = cs == 1 || free_c || (may_transpose && (rs == 1 || free_r));
    return unit ? TP_REASON_GEMM_LD : TP_REASON_GEMM_NO_UNIT_STRIDE;
}

/* The matrices as they stand in p. */
static tp_reason matrices(const problem *p, tp_gemm *g, int *operand)
{
    matrix a, b, c;
    tp_reason why;
    *operand = 0;
    if ((why = as_matrix(&p->m, &p->k, 0, true, &a)) != TP_REASON_NONE) return why;
    *operand = 1;
    if ((why = as_matrix(&p->k, &p->n, 1, true, &b)) != TP_REASON_NONE) return why;
    *operand = 2;
    for (int i = 0; i < p->loops; i++) {
        if (p->loop[i].stride[2] == 0) return TP_REASON_GEMM_LD;
    }
    g->swapped = as_matrix(&p->m, &p->n, 2, false, &c) != TP_REASON_NONE;
    if (g->swapped && (why = as_matrix(&p->n, &p->m, 2, false, &c)) != TP_REASON_NONE) return why;
    /* C^T = B^T A^T: the operands change places and each flag turns over. */
    g->m = g->swapped ? p->n.size : p->m.size;
    g->n = g->swapped ? p->m.size : p->n.size;
    g->k = p->k.size;
    g->trans_a = g->swapped ? !b.trans : a.trans;
    g->trans_b = g->swapped ? !a.trans : b.trans;
    g->lda = g->swapped ? b.ld : a.ld;
    g->ldb = g->swapped ? a.ld : b.ld;
    g->ldc = c.ld;
    int first = g->swapped, second = !g->swapped;
    g->offset_a = p->offset[first];
    g->offset_b = p->offset[second];
    g->offset_c = p->offset[2];
    g->loops = p->loops;
    for (int i = 0; i < p->loops; i++) {
        g->count[i] = p->loop[i].size;
        g->stride_a[i] = p->loop[i].stride[first];
        g->stride_b[i] = p->loop[i].stride[second];
        g->stride_c[i] = p->loop[i].stride[2];
    }
    return TP_REASON_NONE;
}

/* A loop that one operand does not walk may change places with that operand's missing dim. */
static tp_reason exchange(problem *p, tp_gemm *g, int *operand)
{
    tp_reason why = matrices(p, g, operand);
    int blamed = *operand;
    for (int i = 0; i < p->loops && why != TP_REASON_NONE; i++) {
        for (int idle = 0; idle < 2; idle++) {
            if (p->loop[i].stride[idle] != 0) continue;
            problem q = *p;
            dim *fixed = idle ? &q.m : &q.n;
            dim saved = *fixed;
            *fixed = q.loop[i];
            q.loop[i] = saved;
            if (matrices(&q, g, operand) == TP_REASON_NONE) return TP_REASON_NONE;
        }
    }
    *operand = blamed;
    return why;
}

tp_reason tp_gemm_args(const tp_view *a, const tp_view *b, const tp_view *c, tp_gemm *gemm,
                       int *operand)
{
    const tp_view *const v[] = {a, b, c};
    int rank = c->ndim;
    problem p = {.offset = {a->offset, b->offset, c->offset}};
    p.m = make_dim(v, (int[]){rank - 2, -1, rank - 2});
    p.n = make_dim(v, (int[]){-1, rank - 1, rank - 1});
    p.k = make_dim(v, (int[]){rank - 1, rank - 2, -1});
    bool empty = p.m.size == 0 || p.n.size == 0 || p.k.size == 0;
    for (int d = 0; d < rank - 2; d++) {
        dim l = make_dim(v, (int[]){d, d, d});
        empty = empty || l.size == 0;
        if (l.size != 1) p.loop[p.loops++] = l;
    }
    *operand = 0;
    *gemm = (tp_gemm){.m = p.m.size,
                      .n = p.n.size,
                      .k = p.k.size,
                      .lda = at_least_one(p.k.size),
                      .ldb = at_least_one(p.n.size),
                      .ldc = at_least_one(p.n.size)};
    if (empty) return TP_REASON_NONE; /* nothing is multiplied */
    turn_round(&p, &p.m);
    turn_round(&p, &p.n);
    turn_round(&p, &p.k);
    for (int i = 0; i < p.loops; i++) turn_round(&p, &p.loop[i]);
    merge_loops(&p);
    /* The larger the single product the better, but a fold may spoil a form that was there. */
    tp_reason why = TP_REASON_NONE;
    for (int folds = 3; folds >= 0; folds--) {
        problem q = p;
        while ((folds & 1) && fold_one(&q, &q.m, 1)) {
        }
        while ((folds & 2) && fold_one(&q, &q.n, 0)) {
        }
        why = exchange(&q, gemm, operand);
        if (why == TP_REASON_NONE) break;
    }
    return why;
}
