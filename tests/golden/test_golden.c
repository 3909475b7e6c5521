/* Golden programs: every .tp file here says in its comments what must come of it. Facts are
 * written by hand; pictures (.dot) are compared byte for byte and rewritten by
 * TP_UPDATE_GOLDEN=1, which never touches a fact.
 *
 *   # expect copies|kernels|asked|in_place|workspace N
 *   # expect kept|removed REASON N
 *   # expect view true|false       the first output, as built, shows a leaf's bytes
 *   # expect error TEXT
 *   # off PASS                     facts and picture are of a plan without this pass
 *   # inexact                      cpu and ref may differ in the last bits
 *
 * Facts and pictures are those of a machine with a BLAS; without one they are skipped, which is
 * said. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

#define FOLDER TP_SOURCE_DIR "/tests/golden/"
#define MOST 8

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *text = calloc(1, 1 << 18);
    size_t n = fread(text, 1, (1 << 18) - 1, f);
    fclose(f);
    text[n] = 0;
    return text;
}

static int count_reason(const tp_plan *plan, bool kept, const char *reason)
{
    int n = 0;
    for (int i = 0; i < tp_plan_copy_count(plan); i++) {
        tp_copy c = tp_plan_copy(plan, i);
        n += c.kept == kept && strcmp(tp_reason_name(c.reason), reason) == 0;
    }
    return n;
}

/* One fact; false if it does not hold, with what was found. */
static bool holds(const char *fact, const tp_plan *plan, const tp_tensor *first, long *found,
                  long *wanted)
{
    tp_plan_summary s = tp_plan_summarize(plan);
    const struct {
        const char *name;
        long value;
    } numbers[] = {{"copies", s.copies},
                   {"kernels", s.kernels},
                   {"asked", s.asked_copies},
                   {"in_place", s.in_place},
                   {"workspace", (long)s.workspace_bytes}};
    char word[32], reason[32];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (sscanf(fact, "%31s %ld", word, wanted) == 2 && strcmp(word, numbers[i].name) == 0) {
            *found = numbers[i].value;
            return *found == *wanted;
        }
    }
    if (sscanf(fact, "view %31s", word) == 1) {
        cr_assert(strcmp(word, "true") == 0 || strcmp(word, "false") == 0, "fact: %s", fact);
        *wanted = word[0] == 't';
        *found = tp_base(first) != first && tp_base(first)->op == TP_OP_DATA;
        return *found == *wanted;
    }
    cr_assert_eq(sscanf(fact, "%31s %31s %ld", word, reason, wanted), 3, "fact: %s", fact);
    cr_assert(strcmp(word, "kept") == 0 || strcmp(word, "removed") == 0, "fact: %s", fact);
    *found = count_reason(plan, word[0] == 'k', reason);
    return *found == *wanted;
}

static int check_facts(const char *name, const char *text, const tp_plan *plan,
                       const tp_tensor *first)
{
    int facts = 0;
    for (const char *at = strstr(text, "# expect "); at; at = strstr(at + 1, "# expect ")) {
        char fact[256];
        long found = -1, wanted = -1;
        snprintf(fact, sizeof fact, "%.*s", (int)strcspn(at + 9, "\n"), at + 9);
        cr_expect(holds(fact, plan, first, &found, &wanted), "%s: expect %s, found %ld", name, fact,
                  found);
        facts++;
    }
    return facts;
}

static void check_picture(const char *name, const tp_plan *plan)
{
    char path[512];
    snprintf(path, sizeof path, FOLDER "%.*s.dot", (int)(strlen(name) - 3), name);
    int64_t size = tp_plan_dot(plan, NULL, 0) + 1;
    char *got = malloc((size_t)size), *want = read_file(path);
    tp_plan_dot(plan, got, (size_t)size);
    const char *update = getenv("TP_UPDATE_GOLDEN");
    if (update && *update == '1') {
        FILE *f = fopen(path, "wb");
        cr_assert(f && fputs(got, f) >= 0 && fclose(f) == 0);
    } else
        cr_expect(want && strcmp(got, want) == 0,
                  "%s: the picture changed (TP_UPDATE_GOLDEN=1 accepts it)", name);
    free(got);
    free(want);
}

static char *print(tp_graph *g, int count, tp_tensor **out)
{
    int64_t size = tp_graph_text(g, count, out, NULL, 0) + 1;
    char *text = malloc((size_t)size);
    tp_graph_text(g, count, out, text, (size_t)size);
    return text;
}

static void check_round_trip(const char *name, tp_graph *g, int count, tp_tensor **out)
{
    tp_tensor *again[MOST];
    tp_graph *other = tp_graph_create(NULL);
    char *first = print(g, count, out);
    int n = tp_graph_parse(other, first, MOST, again);
    cr_expect_eq(n, count, "%s: %s\n%s", name, tp_graph_error(other)->text, first);
    if (n == count) {
        char *second = print(other, n, again);
        cr_expect_str_eq(first, second, "%s", name);
        free(second);
    }
    free(first);
    tp_graph_destroy(other);
}

/* The outputs' bytes, one after the other. */
static char *results(const char *text, const char *backend, bool passes, size_t *bytes)
{
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *out[MOST];
    tp_graph_set_backend(g, backend);
    if (!passes) tp_graph_set_pass(g, "all", false);
    int count = tp_graph_parse(g, text, MOST, out);
    cr_assert_geq(count, 0, "%s", tp_graph_error(g)->text);
    cr_assert_eq(tp_eval_all(g, count, out, NULL), TP_OK, "%s", tp_graph_error(g)->text);
    char *all = NULL;
    *bytes = 0;
    for (int i = 0; i < count; i++) {
        size_t n = (size_t)tp_numel(out[i]) * tp_dtype_size(tp_dtype_of(out[i]));
        all = realloc(all, *bytes + n + 1);
        cr_assert_eq(tp_read(out[i], all + *bytes, n), TP_OK);
        *bytes += n;
    }
    tp_graph_destroy(g);
    return all;
}

static void check_results(const char *name, const char *text)
{
    size_t n, m;
    char *on = results(text, "cpu", true, &n), *off = results(text, "cpu", false, &m);
    cr_expect(n == m && memcmp(on, off, n) == 0, "%s: passes change the result", name);
    free(off);
    if (!strstr(text, "# inexact")) { /* exp and the like differ between backends */
        off = results(text, "ref", true, &m);
        cr_expect(n == m && memcmp(on, off, n) == 0, "%s: cpu and ref differ", name);
        free(off);
    }
    free(on);
}

static bool has_blas(void)
{
    char text[512];
    tp_describe_backends(text, sizeof text);
    return !strstr(text, "no BLAS");
}

static void check_plan(const char *name, const char *text, tp_graph *g, int count, tp_tensor **out)
{
    for (const char *at = strstr(text, "# off "); at; at = strstr(at + 1, "# off ")) {
        char pass[32];
        cr_assert_eq(sscanf(at, "# off %31s", pass), 1);
        cr_assert_eq(tp_graph_set_pass(g, pass, false), TP_OK, "%s: off %s", name, pass);
    }
    tp_plan *plan = tp_plan_create(g, count, out, NULL);
    cr_assert(plan, "%s: %s", name, tp_graph_error(g)->text);
    cr_expect_gt(check_facts(name, text, plan, out[0]), 0, "%s has no facts", name);
    check_picture(name, plan);
    tp_plan_release(plan);
}

static void check_program(const char *name, bool plans)
{
    char path[512];
    snprintf(path, sizeof path, FOLDER "%s", name);
    char *text = read_file(path);
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *out[MOST];
    int count = tp_graph_parse(g, text, MOST, out);
    const char *error = strstr(text, "# expect error ");
    if (error) {
        char want[256];
        snprintf(want, sizeof want, "%.*s", (int)strcspn(error + 15, "\n"), error + 15);
        cr_expect_eq(count, -1, "%s", name);
        cr_expect_str_eq(tp_graph_error(g)->text, want, "%s", name);
        cr_expect_eq(tp_graph_node_count(g), 0, "%s: something stays", name);
    } else {
        cr_assert_geq(count, 1, "%s: %s", name, tp_graph_error(g)->text);
        check_round_trip(name, g, count, out);
        if (plans) check_plan(name, text, g, count, out);
        check_results(name, text);
    }
    tp_graph_destroy(g);
    free(text);
}

static int is_program(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);
    return n > 3 && strcmp(entry->d_name + n - 3, ".tp") == 0;
}

Test(golden, every_program_is_what_it_says)
{
    struct dirent **list;
    int count = scandir(FOLDER, &list, is_program, alphasort);
    bool plans = has_blas();
    if (!plans) printf("NOTE golden: no BLAS, facts and pictures were skipped\n");
    for (int i = 0; i < count; i++) {
        check_program(list[i]->d_name, plans);
        free(list[i]);
    }
    free(list);
    printf("NOTE golden: %d programs\n", count);
    cr_expect_geq(count, 25);
}

/* Pictures that Graphviz takes; without it this is said, not hidden. */
Test(golden, graphviz_draws_every_picture)
{
    if (system("command -v dot >/dev/null 2>&1") != 0) {
        printf("NOTE golden: Graphviz is not there, pictures were not drawn\n");
        return;
    }
    cr_expect_eq(system("dot -Tsvg " FOLDER "*.dot >/dev/null"), 0);
}

Test(golden, malformed_programs_are_refused_where_they_fail)
{
    const char *const wrong[][2] = {
        {"%0 = nothing\nreturn %0", "line 1, column 6: there is no such op"},
        {"%1 = full f32 [2] 1\nreturn %1",
         "line 1, column 2: nodes are numbered from 0 without gaps"},
        {"%0 = full f32 [2] 1\n", "line 2, column 1: there is no return"},
        {"%0 = full f32 [2] 1\nreturn %1", "line 2, column 9: no such node above"},
        {"%0 = full [2] 1\nreturn %0", "line 1, column 6: the op needs a dtype"},
        {"%0 = full f32 [2,] 1", "line 1, column 18: expected an integer"},
        {"%0 = full f32 [99999999999999999999] 1",
         "line 1, column 16: the integer does not fit in 63 bits"},
        {"%0 = data f32 [2] {1}\nreturn %0", "line 1, column 21: expected , and more values"},
        {"%0 = data f32 [2] {1, x}\nreturn %0",
         "line 1, column 23: this is no number of that dtype"},
        {"%0 = full f32 [2] 1 \"a", "line 1, column 23: the name has no end"},
        {"%0 = full f32 [2] 1\n%1 = add %0\nreturn %1",
         "line 2, column 6: the op has another number of operands"},
        {"%0 = full f32 [2] 1\nreturn %0\n%1 = relu %0",
         "line 3, column 1: nothing may follow return"},
        {"%0 = full f32 [2] [3] 1", "line 1, column 19: the line has this already"},
        {"%0 = full f32 [2] 1 {1}", "line 1, column 6: only data has values and strides"},
        {"%0 = data f32 [2]", "line 1, column 6: data needs {values} or pattern"},
        {"%0 = data f32 [2] strides [1,1] offset 0 of 2 {1, 2}",
         "line 1, column 6: strides and shape have different ranks"},
        {"%0 = data f32 [2] strides [2] offset 0 of 2 {1, 2}",
         "line 1, column 6: data: [2] : (2) + 0 reaches element 2, the storage has 2"},
        {"%0 = data i8 [1] {128}", "line 1, column 19: this is no number of that dtype"},
        {"%0 = data u64 [1] {18446744073709551616}",
         "line 1, column 20: this is no number of that dtype"},
        {"%0 = data f32 [1] {1.2.3}", "line 1, column 20: this is no number of that dtype"},
        {"%0 = full f32 [2] 1 \"\\x1", "line 1, column 23: expected a character or x and two "
                                       "digits 0-9 a-f, not 00"},
        {"%0 = full f32 [2] 1\n%1 = sum %0\n", "line 2, column 6: the op needs [integers]"},
        {"%0 = full f32 [2,2] 1\n%1 = as_strided %0 [2,1]\n",
         "line 2, column 6: as_strided needs sizes, strides and an offset"},
        {"%0 = full f32 [2,2] 1\n%1 = select %0 [4294967296,0]\n",
         "line 2, column 6: select: axis 2147483647 is outside [-2, 1] of [2,2]"},
        {"%0 = full f32 [2] 1\n%1 = neg %0 %0 %0 %0",
         "line 2, column 6: the op has another number of operands"},
        {"%0 = full f32 [2] 1\n  %1 = reshape %0 [3]",
         "line 2, column 8: reshape: [2] has 2 elements, [3] has 3"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tp_graph *g = tp_graph_create(NULL);
        tp_tensor *out[MOST];
        cr_expect_eq(tp_graph_parse(g, wrong[i][0], MOST, out), -1, "%s", wrong[i][0]);
        char want[256];
        snprintf(want, sizeof want, "parse: %s", wrong[i][1]);
        cr_expect_str_eq(tp_graph_error(g)->text, want);
        cr_expect_eq(tp_graph_node_count(g), 0);
        tp_graph_destroy(g);
    }
}

static void damage(const char *text)
{
    char *damaged = strdup(text);
    size_t size = strlen(text);
    tp_graph *g = tp_graph_create(NULL);
    for (size_t i = 0; i < size; i++) {
        tp_tensor *out[MOST];
        /* In memory of its own size: a sanitizer sees a step behind its end. */
        char *prefix = calloc(1, i + 1);
        memcpy(prefix, text, i);
        tp_graph_parse(g, prefix, MOST, out);
        free(prefix);
        tp_graph_reset(g);
        for (int change = 1; change < 128; change += 17) {
            strcpy(damaged, text);
            damaged[i] = (char)((damaged[i] + change) % 127 + 1);
            tp_graph_parse(g, damaged, MOST, out);
            tp_graph_reset(g);
        }
    }
    tp_graph_destroy(g);
    free(damaged);
}

/* Any prefix and any single changed byte of a program parses or is refused. */
Test(golden, damaged_programs_never_crash)
{
    const char *const files[] = {"attention.tp", "strided_leaf.tp", "types.tp",
                                 "norm_and_gather.tp"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512];
        snprintf(path, sizeof path, FOLDER "%s", files[i]);
        char *text = read_file(path);
        damage(text);
        free(text);
    }
    damage("%0 = full i8 [2,-0] -12 \"a\\x01\\\"b\\x7f\"\n%1 = as_strided %0 [1,2,end,4,5]\n"
           "%2 = slice %0 [0,end,end,-3]\nreturn %0 %1 %2");
}
