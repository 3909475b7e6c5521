/* The small languages: index, rearrange and einsum, against hand-made views and naive loops. */
#include <stdio.h>
#include <string.h>

#include "tests/cases/expect.h"
#include "tests/random.h"

static tp_graph *g;
static void set_up(void)
{
    g = tp_graph_create(NULL);
}
static void tear_down(void)
{
    tp_graph_destroy(g);
}
TestSuite(sugar, .init = set_up, .fini = tear_down);

static void expect_same_view(const char *what, tp_tensor *a, tp_tensor *b)
{
    cr_assert(a && b, "%s: %s", what, tp_graph_error(g)->text);
    tp_view x = tp_view_of(a), y = tp_view_of(b);
    cr_expect(tp_base(a) == tp_base(b) && tp_view_equal(&x, &y) && tp_view_same_shape(&x, &y), "%s",
              what);
}

Test(sugar, index_is_made_of_views)
{
    tp_tensor *x = count_up(g, TP_F32, TP_DIMS(4, 5, 6));
    expect_same_view("1:3", tp_index(x, "1:3"), tp_slice(x, 0, 1, 3, 1));
    expect_same_view("::2, -1", tp_index(x, " ::2 , -1"),
                     tp_select(tp_slice(x, 0, TP_END, TP_END, 2), 1, -1));
    expect_same_view("..., 0", tp_index(x, "..., 0"), tp_select(x, 2, 0));
    expect_same_view("1, ..., ::-1", tp_index(x, "1, ..., ::-1"),
                     tp_flip(tp_select(x, 0, 1), 1, (int64_t[]){1}));
    expect_same_view("None", tp_index(x, "None, :, None, ..., None"),
                     tp_unsqueeze(tp_unsqueeze(tp_unsqueeze(x, 0), 2), 5));
    expect_same_view("-3:-1", tp_index(x, ":, -3:-1,"), tp_slice(x, 1, -3, -1, 1));
    expect_same_view("empty", tp_index(x, ""), tp_reshape(x, TP_DIMS(4, 5, 6)));
    expect_refusal("letter", g, tp_index(x, "1:3, x"),
                   "\"1:3, x\", character 6: expected an integer, a slice, None or ...");
    expect_refusal("too many", g, tp_index(x, "0,0,0,0"), "character 8: more items than axes");
    expect_refusal("two ellipses", g, tp_index(x, "..., ..."), "a second ellipsis");
    expect_refusal("zero step", g, tp_index(x, "::0"), "step is 0");
    expect_refusal("bounds", g, tp_index(x, "4"), "index 4 is outside dim 0 of [4,5,6], size 4");
    expect_refusal("rest", g, tp_index(x, "1 2"), "character 3: expected , or the end");
}

Test(sugar, rearrange_splits_and_merges)
{
    tp_tensor *x = count_up(g, TP_F32, TP_DIMS(2, 3, 8));
    tp_tensor *heads = tp_rearrange(x, "b s (h d) -> b h s d", TP_SIZES({"h", 4}));
    expect_same_view("heads", heads, tp_transpose(tp_reshape(x, TP_DIMS(2, 3, 4, 2)), 1, 2));
    expect_same_view("there and back", tp_rearrange(heads, "b h s d -> b s h d", 0, NULL),
                     tp_reshape(x, TP_DIMS(2, 3, 4, 2)));
    expect_shape("merge", tp_rearrange(x, "b s e -> (s b) e", 0, NULL), TP_DIMS(6, 8));
    expect_values("merge", tp_select(tp_rearrange(x, "b s e -> (s b) e", 0, NULL), 1, 0),
                  VALUES(0, 24, 8, 32, 16, 40));
    expect_shape("ones", tp_rearrange(x, "b s e -> b 1 s () e", 0, NULL), TP_DIMS(2, 1, 3, 1, 8));
    expect_refusal("unknown", g, tp_rearrange(x, "b s e -> b s f", 0, NULL),
                   "a name on the right is not on the left");
    expect_refusal("lost", g, tp_rearrange(x, "b s e -> b s", 0, NULL),
                   "a name on the left is not on the right");
    expect_refusal("split", g, tp_rearrange(x, "b s (h d) -> b h s d", TP_SIZES({"h", 3})),
                   "dim 2 of [2,3,8] does not split into axes of product 3");
    expect_refusal("two unknown", g, tp_rearrange(x, "b s (h d) -> b h s d", 0, NULL),
                   "a group has two axes of unknown size");
    expect_refusal("rank", g, tp_rearrange(x, "b s -> s b", 0, NULL), "another number of dims");
    expect_refusal("twice", g, tp_rearrange(x, "b b e -> b e", 0, NULL),
                   "character 3: this name stands twice on one side");
    expect_refusal("arrow", g, tp_rearrange(x, "b s e", 0, NULL), "character 6: expected ->");
}

/* ---- einsum -------------------------------------------------------------------------------- */

typedef struct expression {
    int operands, rank[5];
    char label[5][8]; /* the last is the result */
    int64_t size[26];
} expression;

/* The sum over all labels, as the definition says. */
static void naive(const expression *e, tp_tensor *const *x, double *y)
{
    int used[26] = {0}, count = 0;
    char all[26];
    for (int k = 0; k < e->operands; k++) {
        for (int i = 0; i < e->rank[k]; i++) {
            if (!used[e->label[k][i] - 'a']++) all[count++] = e->label[k][i];
        }
    }
    int64_t index[26] = {0}, total = 1;
    for (int i = 0; i < count; i++) total *= e->size[all[i] - 'a'];
    for (int64_t n = 0; n < total; n++) {
        int64_t rest = n;
        for (int i = 0; i < count; i++) {
            index[all[i] - 'a'] = rest % e->size[all[i] - 'a'];
            rest /= e->size[all[i] - 'a'];
        }
        double product = 1;
        int64_t at = 0;
        for (int k = 0; k <= e->operands; k++) {
            at = 0;
            int slot = k == e->operands ? 4 : k;
            for (int i = 0; i < e->rank[slot]; i++)
                at = at * e->size[e->label[slot][i] - 'a'] + index[e->label[slot][i] - 'a'];
            if (k < e->operands) product *= tp_item(x[k], at);
        }
        y[at] += product;
    }
}

static void random_expression(uint64_t *s, expression *e, char *text)
{
    memset(e, 0, sizeof *e);
    e->operands = (int)random_in(s, 1, 4);
    int letters = (int)random_in(s, 2, 6), seen[26] = {0};
    for (int i = 0; i < 26; i++) e->size[i] = random_in(s, 1, 4);
    for (int k = 0; k < e->operands; k++) {
        e->rank[k] = (int)random_in(s, 0, e->operands > 2 ? 3 : 4);
        for (int i = 0; i < e->rank[k]; i++) {
            e->label[k][i] = (char)('a' + random_in(s, 0, letters - 1));
            seen[e->label[k][i] - 'a'] = 1;
        }
    }
    for (int c = 25; c >= 0; c--) {
        if (seen[c] && random_in(s, 0, 1) && e->rank[4] < 5)
            e->label[4][e->rank[4]++] = (char)('a' + c);
    }
    *text = 0;
    for (int k = 0; k < e->operands; k++)
        sprintf(text + strlen(text), "%s%s", k ? "," : "", e->label[k]);
    sprintf(text + strlen(text), "->%s", e->label[4]);
}

Test(sugar, einsum_is_the_naive_sum)
{
    uint64_t seed = 3;
    for (int n = 0; n < 600; n++) {
        expression e;
        char text[64];
        random_expression(&seed, &e, text);
        tp_graph *h = tp_graph_create(NULL);
        tp_tensor *x[4];
        for (int k = 0; k < e.operands; k++) {
            int64_t shape[8], numel = 1;
            for (int i = 0; i < e.rank[k]; i++) numel *= shape[i] = e.size[e.label[k][i] - 'a'];
            double data[256];
            for (int64_t i = 0; i < numel; i++) data[i] = (double)random_in(&seed, -3, 3);
            x[k] = tp_from_data(h, TP_F64, e.rank[k], shape, data);
        }
        double want[1024] = {0};
        naive(&e, x, want);
        tp_tensor *y = tp_einsum(text, e.operands, x);
        cr_assert(y, "%s: %s", text, tp_graph_error(h)->text);
        cr_assert_eq(tp_eval(y), TP_OK, "%s", text);
        for (int64_t i = 0; i < tp_numel(y); i++)
            cr_assert_eq(tp_item(y, i), want[i], "%s: element %ld", text, (long)i);
        tp_graph_destroy(h);
    }
}

Test(sugar, einsum_copies_nothing_that_gemm_can_read)
{
    tp_tensor *q = tp_full(g, TP_F32, TP_DIMS(2, 3, 4, 5), 1),
              *k = tp_full(g, TP_F32, TP_DIMS(2, 7, 4, 5), 1),
              *w = tp_full(g, TP_F32, TP_DIMS(5, 6), 1);
    tp_tensor *leaves[] = {q, k, w};
    tp_eval_all(g, 3, leaves, NULL);
    tp_tensor *scores = tp_einsum("bshd,bthd->bhst", TP_LIST(q, k)),
              *project = tp_einsum("bshd,de->bshe", TP_LIST(q, w)),
              *moved = tp_einsum("bshd,bthd->bsht", TP_LIST(q, k));
    tp_tensor *all[] = {scores, project, moved};
    for (int i = 0; i < 3; i++) {
        tp_plan_summary s = plan_of(all[i]);
        cr_expect(s.copies == 0 && s.kernels == 1, "%d: %d copies, %d kernels", i, s.copies,
                  s.kernels);
    }
    expect_refusal("size", g, tp_einsum("ab,bc->ac", TP_LIST(w, w)),
                   "label b is 6 and, in operand 1, 5");
    expect_refusal("labels", g, tp_einsum("abc,bc->ac", TP_LIST(w, w)),
                   "operand 0 is [5,6] and has 3 labels");
    expect_refusal("result", g, tp_einsum("ab->ax", TP_LIST(w)),
                   "a label of the result is in no operand");
    expect_refusal("arrow", g, tp_einsum("ab,ab", TP_LIST(w, w)), "character 6: expected -> or ,");
    expect_refusal("sign", g, tp_einsum("ab->a?", TP_LIST(w)),
                   "character 6: expected a label or the end");
}
