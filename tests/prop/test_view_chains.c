/* Random chains of view ops: on a view by the library, on an address table by definition. What a
 * chain folds to must be what the table says, and almost every chain that is one strided view
 * must fold. A chain that fails is shrunk by deleting ops and changing nothing else. */
#include <criterion/criterion.h>

#include "tests/prop/view_table.h"

#define MOST 4096
#define LONGEST 6

typedef struct table {
    int ndim;
    int64_t shape[TP_MAX_RANK], count;
    int64_t at[MOST]; /* address by row-major position */
} table;

typedef enum chain_op {
    PERMUTE,
    RESHAPE,
    SLICE,
    FLIP,
    SELECT,
    EXPAND,
    SQUEEZE,
    UNSQUEEZE,
    DIAGONAL,
    CHAIN_OPS
} chain_op;
typedef struct chain_step {
    chain_op op;
    int ndim;
    int axes[TP_MAX_RANK];
    int64_t shape[TP_MAX_RANK], start, stop, step;
} chain_step;

typedef struct chain {
    tp_view start;
    int count;
    chain_step step[LONGEST];
} chain;

/* ---- Ops on a table, by definition ------------------------------------------------------------
 */

/* t becomes the table whose element i is t's element from(i). */
static void remap(table *t, int ndim, const int64_t *shape,
                  void (*from)(const int64_t *, int64_t *, const chain_step *, const table *),
                  const chain_step *s)
{
    static table old;
    old = *t;
    t->ndim = ndim;
    memcpy(t->shape, shape, (size_t)ndim * sizeof *shape);
    t->count = product(ndim, shape);
    for (int64_t i = 0; i < t->count; i++) {
        int64_t index[TP_MAX_RANK] = {0}, source[TP_MAX_RANK] = {0};
        unravel(ndim, shape, i, index);
        from(index, source, s, &old);
        t->at[i] = old.at[ravel(old.ndim, old.shape, source)];
    }
}

static void from_permute(const int64_t *i, int64_t *o, const chain_step *s, const table *t)
{
    for (int d = 0; d < t->ndim; d++) o[s->axes[d]] = i[d];
}
/* Python's slice by walking it: the number of elements, and where the first lies. */
static int64_t walk_slice(int64_t n, const chain_step *s, int64_t *first)
{
    bool forth = s->step > 0;
    int64_t low = forth ? 0 : -1, high = forth ? n : n - 1, count = 0;
    int64_t a = s->start == TP_END ? (forth ? 0 : n - 1) : s->start < 0 ? s->start + n : s->start;
    int64_t b = s->stop == TP_END ? (forth ? n : -1) : s->stop < 0 ? s->stop + n : s->stop;
    a = a < low ? low : a > high ? high : a;
    b = b < low ? low : b > high ? high : b;
    for (__int128 i = a; forth ? i < b : i > b; i += s->step) count++;
    *first = a;
    return count;
}
static void from_slice(const int64_t *i, int64_t *o, const chain_step *s, const table *t)
{
    memcpy(o, i, (size_t)t->ndim * sizeof *o);
    int64_t first, axis = s->axes[0];
    walk_slice(t->shape[axis], s, &first);
    o[axis] = first + i[axis] * s->step;
}
static void from_flip(const int64_t *i, int64_t *o, const chain_step *s, const table *t)
{
    memcpy(o, i, (size_t)t->ndim * sizeof *o);
    o[s->axes[0]] = t->shape[s->axes[0]] - 1 - i[s->axes[0]];
}
static void from_select(const int64_t *i, int64_t *o, const chain_step *s, const table *t)
{
    for (int d = 0, k = 0; d < t->ndim; d++) o[d] = d == s->axes[0] ? s->start : i[k++];
}
static void from_expand(const int64_t *i, int64_t *o, const chain_step *s, const table *t)
{
    for (int d = 0; d < t->ndim; d++) o[d] = t->shape[d] == 1 ? 0 : i[d + s->ndim - t->ndim];
}
static void from_unsqueeze(const int64_t *i, int64_t *o, const chain_step *s, const table *t)
{
    for (int d = 0; d < t->ndim; d++) o[d] = i[d + (d >= s->axes[0])];
}
static void from_diagonal(const int64_t *i, int64_t *o, const chain_step *s, const table *t)
{
    int64_t k = i[t->ndim - 2];
    for (int d = 0, j = 0; d < t->ndim; d++) {
        if (d == s->axes[0])
            o[d] = k + (s->start < 0 ? -s->start : 0);
        else if (d == s->axes[1])
            o[d] = k + (s->start > 0 ? s->start : 0);
        else
            o[d] = i[j++];
    }
}

/* The step on the table, by definition. */
static void apply_table(table *t, const chain_step *s)
{
    int64_t shape[TP_MAX_RANK], first;
    memcpy(shape, t->shape, sizeof shape);
    int a = s->axes[0];
    switch (s->op) {
    case PERMUTE:
        for (int d = 0; d < t->ndim; d++) shape[d] = t->shape[s->axes[d]];
        remap(t, t->ndim, shape, from_permute, s);
        break;
    case RESHAPE:
        t->ndim = s->ndim;
        memcpy(t->shape, s->shape, sizeof t->shape);
        break;
    case SLICE:
        shape[a] = walk_slice(t->shape[a], s, &first);
        remap(t, t->ndim, shape, from_slice, s);
        break;
    case FLIP:
        remap(t, t->ndim, shape, from_flip, s);
        break;
    case SELECT:
    case SQUEEZE:
        for (int d = a; d + 1 < t->ndim; d++) shape[d] = t->shape[d + 1];
        remap(t, t->ndim - 1, shape, from_select, s);
        break;
    case EXPAND:
        remap(t, s->ndim, s->shape, from_expand, s);
        break;
    case UNSQUEEZE:
        for (int d = t->ndim; d > a; d--) shape[d] = t->shape[d - 1];
        shape[a] = 1;
        remap(t, t->ndim + 1, shape, from_unsqueeze, s);
        break;
    default: {
        int64_t rows = t->shape[a] - (s->start < 0 ? -s->start : 0),
                cols = t->shape[s->axes[1]] - (s->start > 0 ? s->start : 0);
        int used = 0;
        for (int d = 0; d < t->ndim; d++) {
            if (d != a && d != s->axes[1]) shape[used++] = t->shape[d];
        }
        shape[used++] = rows < 0 || cols < 0 ? 0 : rows < cols ? rows : cols;
        remap(t, used, shape, from_diagonal, s);
    }
    }
}

/* ---- Ops on a view, by the library ------------------------------------------------------------
 */

/* The step on a view; false: a reshape that is none. */
static bool apply_view(tp_view *v, const chain_step *s)
{
    tp_view y;
    int dims[2], a = s->axes[0];
    switch (s->op) {
    case PERMUTE:
        tp_view_permute(v, s->axes, &y);
        break;
    case RESHAPE:
        if (!tp_view_reshape(v, s->ndim, s->shape, &y, dims)) return false;
        break;
    case SLICE:
        tp_view_slice(v, a, s->start, s->stop, s->step, &y);
        break;
    case FLIP:
        tp_view_flip(v, a, &y);
        break;
    case SELECT:
        tp_view_select(v, a, s->start, &y);
        break;
    case SQUEEZE:
        tp_view_squeeze(v, a, &y);
        break;
    case EXPAND:
        tp_view_expand(v, s->ndim, s->shape, &y);
        break;
    case UNSQUEEZE:
        tp_view_unsqueeze(v, a, &y);
        break;
    default:
        tp_view_diagonal(v, s->start, a, s->axes[1], &y);
    }
    for (int d = 0; d < y.ndim; d++) { /* whoever reads a size-1 stride gets nonsense */
        if (y.shape[d] == 1) y.stride[d] = POISON;
    }
    *v = y;
    return true;
}

/* ---- Drawing and judging
 * ------------------------------------------------------------------------- */

/* A random step that is legal on t; false if the drawn op has none. */
static bool draw(uint64_t *seed, const table *t, chain_step *s)
{
    static const int64_t far[] = {INT64_MIN, INT64_MIN + 1, INT64_MAX - 1, INT64_MAX};
    *s = (chain_step){.op = (chain_op)random_in(seed, 0, CHAIN_OPS - 1)};
    if (random_in(seed, 0, 4) == 0) s->op = RESHAPE; /* where chains are hard */
    int axis = t->ndim ? (int)random_in(seed, 0, t->ndim - 1) : 0;
    int64_t n = t->ndim ? t->shape[axis] : 1;
    s->axes[0] = axis;
    switch (s->op) {
    case PERMUTE:
        for (int d = 0; d < t->ndim; d++) s->axes[d] = d;
        for (int d = t->ndim - 1; d > 0; d--) {
            int other = (int)random_in(seed, 0, d), saved = s->axes[d];
            s->axes[d] = s->axes[other];
            s->axes[other] = saved;
        }
        return true;
    case RESHAPE: {
        int64_t left = t->count;
        s->ndim = 0;
        if (left == 0) {
            s->ndim = 2;
            s->shape[0] = random_in(seed, 0, 1) * 3;
            s->shape[1] = s->shape[0] ? 0 : random_in(seed, 0, 3);
            return true;
        }
        while (left > 1 && s->ndim < 5) {
            int64_t f = random_in(seed, 1, left < 6 ? left : 6);
            if (left % f) continue;
            s->shape[s->ndim++] = f;
            left /= f;
        }
        if (left > 1) s->shape[s->ndim++] = left;
        return true;
    }
    case SLICE:
        if (!t->ndim) return false;
        s->step = random_in(seed, 1, 3) * (random_in(seed, 0, 1) ? 1 : -1);
        s->start = random_in(seed, 0, 1) ? random_in(seed, -n - 2, n + 2) : TP_END;
        s->stop = random_in(seed, 0, 1) ? random_in(seed, -n - 2, n + 2) : TP_END;
        if (random_in(seed, 0, 39) == 0) s->step = far[random_in(seed, 0, 3)];
        if (random_in(seed, 0, 39) == 0) s->start = far[random_in(seed, 0, 3)];
        if (random_in(seed, 0, 39) == 0) s->stop = far[random_in(seed, 0, 3)];
        return true;
    case FLIP:
        return t->ndim > 0;
    case SELECT:
        s->start = n > 0 ? random_in(seed, 0, n - 1) : 0;
        return t->ndim > 0 && n > 0;
    case EXPAND: {
        int extra = (int)random_in(seed, 0, 1);
        s->ndim = t->ndim + extra;
        for (int d = 0; d < s->ndim; d++) {
            int64_t old = d >= extra ? t->shape[d - extra] : 1;
            s->shape[d] = old == 1 ? random_in(seed, 0, 30) ? random_in(seed, 1, 3) : 0 : old;
        }
        return s->ndim < 7 && product(s->ndim, s->shape) <= 512;
    }
    case SQUEEZE:
        return t->ndim > 0 && n == 1;
    case UNSQUEEZE:
        s->axes[0] = (int)random_in(seed, 0, t->ndim);
        return t->ndim < 7;
    case DIAGONAL:
        if (t->ndim < 2) return false;
        s->axes[1] = (axis + 1 + (int)random_in(seed, 0, t->ndim - 2)) % t->ndim;
        s->start = random_in(seed, -2, 2);
        return true;
    default:
        return false;
    }
}

/* Whether a step still means something after earlier ones have gone. */
static bool is_legal(const chain_step *s, const table *t)
{
    int a = s->axes[0], b = s->axes[1];
    switch (s->op) {
    case PERMUTE: {
        unsigned seen = 0;
        for (int d = 0; d < t->ndim; d++) seen |= 1U << s->axes[d];
        return seen == (1U << t->ndim) - 1;
    }
    case RESHAPE:
        return product(s->ndim, s->shape) == t->count;
    case SELECT:
        return a < t->ndim && s->start < t->shape[a];
    case EXPAND:
        for (int d = 0; d < t->ndim; d++) {
            int to = d + s->ndim - t->ndim;
            if (to < 0 || (t->shape[d] != 1 && t->shape[d] != s->shape[to])) return false;
        }
        return product(s->ndim, s->shape) <= MOST;
    case SQUEEZE:
        return a < t->ndim && t->shape[a] == 1;
    case UNSQUEEZE:
        return a <= t->ndim && t->ndim < 12;
    case DIAGONAL:
        return a < t->ndim && b < t->ndim;
    default:
        return a < t->ndim;
    }
}

static void start_table(table *t, const tp_view *start)
{
    t->ndim = start->ndim;
    memcpy(t->shape, start->shape, sizeof t->shape);
    t->count = tp_view_numel(start);
    for (int64_t i = 0; i < t->count; i++) t->at[i] = address(start, i);
}

/* A quarter of the chains start from any strides, the others from row-major. */
static void draw_chain(uint64_t seed, chain *c)
{
    static table t;
    uint64_t state = seed;
    c->start = (tp_view){.ndim = (int)random_in(&state, 0, 4), .offset = random_in(&state, 0, 9)};
    for (int d = 0; d < c->start.ndim; d++)
        c->start.shape[d] = random_in(&state, 0, 30) ? random_in(&state, 1, 6) : 0;
    int64_t offset = tp_view_numel(&c->start) ? c->start.offset : 0;
    c->start = tp_view_row_major(c->start.ndim, c->start.shape);
    c->start.offset = offset;
    bool any = random_in(&state, 0, 3) == 0;
    for (int d = 0; d < c->start.ndim; d++) {
        if (any) c->start.stride[d] = random_in(&state, -4, 12);
        if (c->start.shape[d] == 1) c->start.stride[d] = POISON;
    }
    start_table(&t, &c->start);
    int wanted = (int)random_in(&state, 1, LONGEST);
    for (c->count = 0; wanted > 0; wanted--) {
        chain_step *s = &c->step[c->count];
        if (!draw(&state, &t, s)) continue;
        apply_table(&t, s);
        c->count++;
    }
}

typedef struct verdict {
    bool legal, several, foldable, folded, op_by_op; /* several: elements */
    const char *wrong;                               /* NULL: nothing */
} verdict;

static const char *find_fault(const tp_view *v, const table *t)
{
    if (!matches(v, t->ndim, t->shape, t->at)) return "the folded view has other addresses";
    int64_t low, high;
    if (t->count == 0) return v->offset ? "an empty view has an offset" : NULL;
    int64_t least = t->at[0], most = t->at[0];
    for (int64_t i = 0; i < t->count; i++) {
        least = t->at[i] < least ? t->at[i] : least;
        most = t->at[i] > most ? t->at[i] : most;
    }
    if (!tp_view_reach(v, &low, &high) || low != least || high != most)
        return "reach is not where the addresses end";
    return NULL;
}

/* Folds a chain: where a reshape is no view of the last stage a row-major stage goes on top, and
 * the two on top are merged whenever they can be. */
static verdict judge(const chain *c)
{
    static table t;
    tp_view stage[LONGEST + 1], merged;
    int top = 0, dims[2];
    verdict v = {.legal = true, .op_by_op = true};
    stage[0] = c->start;
    start_table(&t, &c->start);
    for (int k = 0; k < c->count; k++) {
        const chain_step *s = &c->step[k];
        if (!is_legal(s, &t)) return (verdict){.legal = false};
        apply_table(&t, s);
        if (!apply_view(&stage[top], s)) {
            stage[++top] = tp_view_row_major(s->ndim, s->shape);
            v.op_by_op = false;
        }
        while (top > 0 && tp_view_compose(&stage[top - 1], &stage[top], &merged, dims))
            stage[--top] = merged;
    }
    v.several = t.count > 1;
    v.foldable = is_affine(t.ndim, t.shape, t.at);
    v.folded = top == 0;
    v.wrong = v.folded ? find_fault(&stage[0], &t) : NULL;
    return v;
}

/* ---- Reporting
 * ----------------------------------------------------------------------------------- */

static bool is_bad(const verdict *v, bool missed)
{
    return v->legal && (missed ? v->foldable && !v->folded : v->wrong != NULL);
}

/* Deletes ops as long as what is left is still bad. */
static void shrink(chain *c, bool missed)
{
    for (int k = 0; k < c->count; k++) {
        chain less = *c;
        less.count--;
        memmove(less.step + k, less.step + k + 1, (size_t)(less.count - k) * sizeof *less.step);
        verdict v = judge(&less);
        if (!is_bad(&v, missed)) continue;
        *c = less;
        k = -1;
    }
}

static void print_step(const chain_step *s, tp_text *text)
{
    static const char *const name[] = {"permute", "reshape", "slice",     "flip",    "select",
                                       "expand",  "squeeze", "unsqueeze", "diagonal"};
    tp_text_add(text, "; %s %d", name[s->op], s->axes[0]);
    if (s->op == PERMUTE)
        tp_text_add(text, ",%d,%d,%d,%d,..", s->axes[1], s->axes[2], s->axes[3], s->axes[4]);
    if (s->op == DIAGONAL) tp_text_add(text, ",%d", s->axes[1]);
    if (s->op == SELECT || s->op == SLICE || s->op == DIAGONAL)
        tp_text_add(text, " %lld", (long long)s->start);
    if (s->op == SLICE) tp_text_add(text, ":%lld:%lld", (long long)s->stop, (long long)s->step);
    tp_view shape = tp_view_row_major(s->ndim, s->shape);
    char sizes[400];
    tp_view_print_shape(&shape, sizes, sizeof sizes);
    if (s->op == RESHAPE || s->op == EXPAND) tp_text_add(text, " %s", sizes);
}

static void report(uint64_t seed, chain *c, bool missed, const char *what)
{
    char start[800], steps[2000] = "";
    tp_text text = {.at = steps, .size = sizeof steps};
    shrink(c, missed);
    tp_view_print(&c->start, start, sizeof start);
    for (int k = 0; k < c->count; k++) print_step(&c->step[k], &text);
    cr_log_error("seed %llu: %s; shrunk: %s%s", (unsigned long long)seed, what, start, steps);
}

/* Chains that end with one element or none always fold and are counted apart: they would hide the
 * share that is missed. What is missed are three views of which only all together are one. */
Test(view_chains, fold_to_what_they_mean)
{
    long several = 0, foldable = 0, folded = 0, op_by_op = 0, unsound = 0, small_missed = 0;
    long wanted = long_tests() ? 1000000 : 50000;
    uint64_t missed_seed[3] = {0};
    static chain c;
    for (long i = 0; i < wanted; i++) {
        uint64_t seed = (uint64_t)i * 7 + 1;
        draw_chain(seed, &c);
        verdict v = judge(&c);
        cr_assert(v.legal, "seed %llu: drawn and not legal", (unsigned long long)seed);
        if (v.wrong && unsound++ < 5) report(seed, &c, false, v.wrong);
        if (!v.several) {
            small_missed += !v.folded;
            continue;
        }
        several++;
        foldable += v.foldable;
        folded += v.foldable && v.folded;
        op_by_op += v.foldable && v.op_by_op;
        if (v.foldable && !v.folded && foldable - folded <= 3)
            missed_seed[foldable - folded - 1] = seed;
    }
    long missed = foldable - folded;
    printf("NOTE chains: %ld of up to %d ops from seeds 7i + 1, %ld of several elements; of these "
           "%ld foldable, %ld folded (%ld op by op), %ld missed; %ld unsound\n",
           wanted, LONGEST, several, foldable, folded, op_by_op, missed, unsound);
    bool many = (double)missed > 0.0005 * (double)foldable;
    for (int i = 0; many && i < 3 && i < missed; i++) {
        draw_chain(missed_seed[i], &c);
        report(missed_seed[i], &c, true, "one strided view, not found");
    }
    cr_expect_eq(unsound, 0);
    cr_expect_eq(small_missed, 0, "%ld chains to one element or none", small_missed);
    cr_expect(!many, "%ld of %ld foldable chains were missed", missed, foldable);
    cr_expect_gt(folded - op_by_op, wanted / 100, "the two-stage merge found next to nothing");
    cr_expect_gt(several - foldable, wanted / 20, "hardly a chain is none");
}
