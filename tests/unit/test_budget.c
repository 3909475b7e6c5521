/* Budgets: a plan that copies more than it may is not made, and says what it would copy. */
#include <criterion/criterion.h>

#include "tensorplay/tensorplay.h"

#include <string.h>

/* A slice's rows, flattened: its dims cannot merge, so one copy stays. */
static tp_tensor *one_copy(tp_graph *g)
{
    tp_tensor *x = tp_arange(g, TP_F32, 0, 1, 64);
    tp_tensor *rows = tp_slice(tp_reshape(x, TP_DIMS(8, 8)), 1, 0, 4, 1);
    return tp_named(tp_reshape(tp_neg(tp_contiguous(rows)), TP_DIMS(32)), "flat");
}

static tp_tensor *leaf(tp_graph *g, const float *data)
{
    return tp_from_data(g, TP_F32, TP_DIMS(4, 4), data);
}

static const float numbers[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

Test(budget, a_plan_within_it_runs)
{
    tp_graph *g = tp_graph_create(NULL);
    tp_budget none = {0, 0};
    tp_tensor *y = one_copy(g);
    TP_EXPECT_COPIES(y, 0);
    cr_expect_eq(tp_eval_all(g, 1, &y, &(tp_eval_options){.budget = &none}), TP_OK);
    cr_expect_eq(tp_item(y, 31), -59);
    tp_graph_destroy(g);
}

Test(budget, a_plan_beyond_it_is_refused_with_its_copies)
{
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *y = tp_named(tp_transpose(leaf(g, numbers), 0, 1), "turned");
    tp_budget none = {0, 0}, one = {1, 0}, few_bytes = {1, 63}, enough = {1, 64};
    const struct {
        const tp_budget *budget;
        tp_status status;
    } cases[] = {{&none, TP_E_BUDGET}, {&few_bytes, TP_E_BUDGET}, {&one, TP_OK}, {&enough, TP_OK}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tp_eval_options options = {.budget = cases[i].budget};
        tp_plan *plan = tp_plan_create(g, 1, &y, &options);
        cr_expect_eq(plan != NULL, cases[i].status == TP_OK, "case %zu", i);
        if (plan) {
            tp_plan_release(plan);
            continue;
        }
        const tp_error *error = tp_graph_error(g);
        cr_expect_eq(error->status, TP_E_BUDGET);
        cr_expect(strstr(error->text, "eval: 1 copies of 64 bytes, the budget is ") == error->text,
                  "%s", error->text);
        cr_expect(strstr(error->text, "\"turned\", 64 bytes, USER_KEPT: "), "%s", error->text);
        tp_graph_clear_error(g);
    }
    tp_budget budget = none;
    cr_expect_eq(tp_eval_all(g, 1, &y, &(tp_eval_options){.budget = &budget}), TP_E_BUDGET);
    cr_expect(!tp_is_evaluated(y));
    cr_expect_eq(tp_eval(y), TP_OK, "everything stays usable");
    cr_expect_eq(tp_item(y, 1), 5);
    tp_graph_destroy(g);
}

Test(budget, copies_are_counted_and_listed)
{
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *y = tp_named(tp_transpose(leaf(g, numbers), 0, 1), "turned");
    char text[300];
    TP_EXPECT_COPIES(y, 1);
    cr_expect_eq(tp_count_copies(y, text, sizeof text), 1);
    cr_expect(strstr(text, " permute \"turned\", 64 bytes, USER_KEPT: "), "%s", text);
    cr_expect_eq(tp_count_copies(y, NULL, 0), 1);
    cr_expect_eq(tp_count_copies(NULL, text, sizeof text), -1);
    cr_expect_str_eq(text, "there is no tensor");
    tp_graph_destroy(g);
}
