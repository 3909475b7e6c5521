/* The .tp form keeps everything: programs built by hand are printed, parsed, printed again and
 * evaluated on both sides. And no dump breaks its contract: size, names, errors, memory. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "tests/random.h"

#define MOST 8

typedef int64_t (*dumper)(tp_graph *, int, tp_tensor *const *, char *, size_t);

static char *dump(dumper f, tp_graph *g, int count, tp_tensor *const *out)
{
    int64_t size = f(g, count, out, NULL, 0);
    cr_assert_geq(size, 0, "%s", tp_graph_error(g)->text);
    char *text = malloc((size_t)size + 1);
    cr_assert_eq(f(g, count, out, text, (size_t)size + 1), size);
    cr_assert_eq(strlen(text), (size_t)size);
    return text;
}

static bool same_bits(tp_tensor *a, tp_tensor *b)
{
    size_t n = (size_t)tp_numel(a) * tp_dtype_size(tp_dtype_of(a));
    char *x = malloc(n + 1), *y = malloc(n + 1);
    bool same = tp_dtype_of(a) == tp_dtype_of(b) && tp_numel(a) == tp_numel(b) &&
                tp_read(a, x, n) == TP_OK && tp_read(b, y, n) == TP_OK && memcmp(x, y, n) == 0;
    free(x);
    free(y);
    return same;
}

/* Prints, parses, prints the same; equal bits after evaluation. Ends g. */
static void round_trip(const char *what, tp_graph *g, int count, tp_tensor *const *out)
{
    for (int i = 0; i < count; i++) cr_assert(out[i], "%s: %s", what, tp_graph_error(g)->text);
    char *first = dump(tp_graph_text, g, count, out);
    tp_graph *h = tp_graph_create(NULL);
    tp_tensor *again[MOST];
    cr_assert_eq(tp_graph_parse(h, first, MOST, again), count, "%s: %s\n%s", what,
                 tp_graph_error(h)->text, first);
    char *second = dump(tp_graph_text, h, count, again);
    cr_expect_str_eq(first, second, "%s", what);
    cr_assert_eq(tp_eval_all(g, count, out, NULL), TP_OK, "%s: %s", what, tp_graph_error(g)->text);
    cr_assert_eq(tp_eval_all(h, count, again, NULL), TP_OK, "%s: %s\n%s", what,
                 tp_graph_error(h)->text, first);
    for (int i = 0; i < count; i++)
        cr_expect(same_bits(out[i], again[i]), "%s: output %d differs\n%s", what, i, first);
    free(first);
    free(second);
    tp_graph_destroy(h);
    tp_graph_destroy(g);
}

/* ---- Values ------------------------------------------------------------------------------ */

/* Every bit pattern of 16-bit types, and random ones of the others; NaNs keep no payload, so
 * they are left out but for one. */
static void fill(tp_dtype d, char *bytes, int count, uint64_t *seed)
{
    static const double special[] = {0, -0.0, INFINITY, -INFINITY, 1, -1.5, 5e-324, 1e-45, 6e-8};
    size_t size = tp_dtype_size(d);
    for (int i = 0; i < count; i++) {
        uint64_t bits = (uint64_t)random_next(seed) << 32 | random_next(seed);
        memcpy(bytes + (size_t)i * size, &bits, size);
        if (d == TP_BOOL) bytes[i] = bits & 1;
        tp_value v = tp_value_load(d, bytes + (size_t)i * size);
        if (tp_dtype_kind_of(d) == TP_DTYPE_FLOAT && (isnan(v.f) || i < 9))
            tp_value_store(d, bytes + (size_t)i * size, TP_F64, (tp_value){.f = special[i % 9]});
    }
}

Test(dump, values_of_every_dtype_come_back)
{
    uint64_t seed = 7;
    for (int d = 0; d < TP_DTYPE_COUNT; d++) {
        for (int round = 0; round < 50; round++) {
            char bytes[TP_DTYPE_COUNT * 64];
            fill((tp_dtype)d, bytes, 64, &seed);
            tp_graph *g = tp_graph_create(NULL);
            tp_tensor *x = tp_from_data(g, (tp_dtype)d, TP_DIMS(8, 8), bytes);
            round_trip(tp_dtype_name((tp_dtype)d), g, 2,
                       (tp_tensor *[]){x, tp_contiguous(tp_transpose(x, 0, 1))});
        }
    }
}

Test(dump, constants_keep_every_bit)
{
    const double values[] = {0.1, 1.0 / 3, -0.0, INFINITY, 1e300, 5e-324, 123456789.123456789};
    const tp_dtype floats[] = {TP_F16, TP_BF16, TP_F32, TP_F64};
    for (int i = 0; i < 7; i++) {
        for (int d = 0; d < 4; d++) {
            tp_graph *g = tp_graph_create(NULL);
            tp_tensor *x = tp_full(g, floats[d], TP_DIMS(2), values[i]);
            tp_tensor *y = tp_arange(g, floats[d], values[i], 1.0 / 3, 5);
            tp_tensor *z = tp_layer_norm(x, 1, NULL, x, fabs(values[i]) < 1e9 ? values[i] : 1);
            round_trip(tp_dtype_name(floats[d]), g, 3, (tp_tensor *[]){x, y, z});
        }
    }
    tp_graph *g = tp_graph_create(NULL);
    round_trip("integers", g, 3,
               (tp_tensor *[]){tp_full_int(g, TP_I64, TP_DIMS(2), INT64_MIN),
                               tp_full_int(g, TP_U64, TP_DIMS(2), -1),
                               tp_full_int(g, TP_BOOL, TP_DIMS(2), 1)});
}

/* ---- Layouts ------------------------------------------------------------------------------- */

Test(dump, borrowed_leaves_keep_their_strides)
{
    static float bytes[40];
    for (int i = 0; i < 40; i++) bytes[i] = (float)i;
    const struct {
        int64_t shape[2], stride[2], offset;
        size_t size;
    } cases[] = {{{3, 4}, {4, 1}, 0, 48},    {{3, 4}, {4, 1}, 0, 160}, {{3, 4}, {1, 3}, 2, 160},
                 {{3, 4}, {-4, -1}, 11, 48}, {{3, 4}, {0, 1}, 5, 160}, {{1, 4}, {99, 2}, 1, 160},
                 {{0, 4}, {7, 7}, 0, 160},   {{3, 4}, {4, 1}, 1, 53}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[32];
        snprintf(what, sizeof what, "layout %zu", i);
        tp_graph *g = tp_graph_create(NULL);
        tp_tensor *x = tp_wrap(g, TP_F32, 2, cases[i].shape, cases[i].stride, cases[i].offset,
                               bytes, cases[i].size, NULL, NULL);
        tp_tensor *y = tp_as_strided(x, TP_DIMS(2, 2), (const int64_t[]){5, 1}, 3);
        round_trip(
            what, g, 3,
            (tp_tensor *[]){tp_neg(x), tp_neg(y), tp_neg(tp_flip(x, 1, (const int64_t[]){0}))});
    }
}

/* What is evaluated is shown as data, and that holds for what was asked later. */
Test(dump, evaluated_nodes_are_data)
{
    for (int which = 0; which < 16; which++) {
        tp_graph *g = tp_graph_create(NULL);
        tp_tensor *x = tp_arange(g, TP_F32, 0, 1, 24);
        tp_tensor *base = tp_neg(tp_reshape(x, TP_DIMS(4, 6)));
        tp_tensor *cut = tp_slice(base, 1, 1, 5, 2), *turn = tp_transpose(cut, 0, 1);
        tp_tensor *all[] = {x, base, cut, turn};
        tp_eval_options keep = {.keep_layout = which & 1};
        for (int i = 0; i < 4; i++) {
            if (which >> i & 1) cr_assert_eq(tp_eval_all(g, 1, &all[i], &keep), TP_OK);
        }
        tp_tensor *absolute = tp_as_strided(turn, TP_DIMS(3, 2), (const int64_t[]){7, 1}, 4);
        char what[32];
        snprintf(what, sizeof what, "evaluated %x", (unsigned)which);
        char *text = dump(tp_graph_text, g, 1, &turn);
        cr_expect_null(strstr(text, "strides ["), "%s is no leaf\n%s", what, text);
        free(text);
        round_trip(what, g, 4,
                   (tp_tensor *[]){tp_neg(turn), tp_neg(absolute), tp_reshape(turn, TP_DIMS(8)),
                                   tp_mul(tp_flip(turn, 1, (const int64_t[]){1}), turn)});
    }
}

Test(dump, many_values_become_a_pattern_and_say_so)
{
    tp_graph *g = tp_graph_create(NULL);
    float zero[65] = {0};
    tp_tensor *x = tp_named(tp_from_data(g, TP_F32, TP_DIMS(65), zero), "w");
    char *text = dump(tp_graph_text, g, 1, &x);
    cr_expect_str_eq(text, "# tensorplay 1\n%0 = data f32 [65] pattern \"w\" # fixed integers, not "
                           "the values\nreturn %0\n");
    tp_graph *h = tp_graph_create(NULL);
    tp_tensor *y;
    cr_assert_eq(tp_graph_parse(h, text, 1, &y), 1);
    for (int i = 0; i < 65; i++) cr_expect_eq(tp_item(y, i), (double)(7 * i % 11 - 5));
    free(text);
    tp_graph_destroy(h);
    tp_graph_destroy(g);
}

/* ---- Every row of the op list --------------------------------------------------------------- */

static const char every_op[] = "%0 = data f32 [2,3] {1,-2,3,-4,5,-6}\n"
                               "%1 = data bool [2,3] {0,1,1,0,1,0}\n"
                               "%2 = full f32 [] 0x1.8p+1\n"
                               "%3 = arange i64 [3] 0 1\n"
                               "%4 = reshape %0 [3,2]\n"
                               "%5 = permute %4 [1,0]\n"
                               "%6 = slice %5 [1,end,end,-1]\n"
                               "%7 = select %6 [0,1]\n"
                               "%8 = expand %7 [4,3]\n"
                               "%9 = unsqueeze %8 [0]\n"
                               "%10 = squeeze %9 [0]\n"
                               "%11 = flip %10 [0,1]\n"
                               "%12 = diagonal %11 [0,0,1]\n"
                               "%13 = as_strided %12 [2,2,1,2,0]\n"
                               "%14 = bitcast %13 i32\n"
                               "%15 = contiguous %13\n"
                               "%16 = cast %15 f64\n"
                               "%17 = softmax %16 [1]\n"
                               "%18 = layer_norm %17 [1,0] 1e-05\n"
                               "%19 = matmul %18 %16\n"
                               "%20 = index_select %0 %3 [1]\n"
                               "%21 = sum %20 [0,0]\n"
                               "%22 = mean %20 [1,0,1]\n"
                               "%23 = max %20 [0,1]\n"
                               "%24 = min %20 [1]\n"
                               "%25 = argmax %20 [0,0]\n"
                               "%26 = argmin %20 [0,0]\n"
                               "%27 = prod %20 [0,1]\n"
                               "%28 = windows %0 [1,2,1,1]\n"
                               "%29 = concat %0 %0 %0 %0 [1]\n"
                               "%30 = pad %0 f32 [1,0,0,2] 0x1p+0\n"
                               "%31 = update %0 %0 [2,3,3,1,0]\n"
                               "%32 = argsort %0 [1,0]\n"
                               "%33 = scatter_add %0 %32 %0 [1]\n"
                               "%34 = take_along %0 %32 [1]\n"
                               "%35 = cumsum %0 [1]\n"
                               "%36 = cumprod %0 [0]\n"
                               "%37 = cummax %0 [1]\n"
                               "%38 = sort %0 [0,1]\n"
                               "%39 = random_uniform f32 [2,3,7]\n"
                               "%40 = random_normal f64 [-1]\n"
                               "%41 = softmax %0 [1,1]\n";
#define STRUCTURED 42

/* Adds elementwise rows by kind; gives the text's last node. */
static int64_t add_elementwise(char *text, size_t size, int64_t next)
{
    for (int op = 0; op < TP_OP_COUNT; op++) {
        const tp_op_info *info = tp_op_info_of((tp_op)op);
        bool logic = info->rule == TP_RULE_BOOL,
             bits = info->rule == TP_RULE_BITS || info->rule == TP_RULE_WHOLE;
        size_t used = strlen(text);
        bool one = info->kind == TP_KIND_UNARY || info->kind == TP_KIND_TEST;
        const char *operands = one     ? (logic  ? "%1"
                                          : bits ? "%3"
                                                 : "%0")
                               : logic ? "%1 %1"
                               : bits  ? "%3 %3"
                                       : "%0 %2";
        if (info->kind == TP_KIND_TERNARY) operands = "%1 %0 %2";
        if (tp_op_is_elementwise((tp_op)op))
            snprintf(text + used, size - used, "%%%lld = %s %s\n", (long long)next++, info->name,
                     operands);
    }
    return next;
}

Test(dump, every_op_comes_back)
{
    char text[8192];
    strcpy(text, every_op);
    int64_t nodes = add_elementwise(text, sizeof text, STRUCTURED);
    char seen[TP_OP_COUNT] = {0};
    for (int64_t n = 0; n < nodes; n++) {
        tp_graph *g = tp_graph_create(NULL);
        tp_tensor *out[1];
        char program[8192 + 32];
        snprintf(program, sizeof program, "%sreturn %%%lld\n", text, (long long)n);
        cr_assert_eq(tp_graph_parse(g, program, 1, out), 1, "%s", tp_graph_error(g)->text);
        cr_assert_eq(tp_graph_node_count(g), nodes, "a builder put something in");
        seen[out[0]->op] = 1;
        round_trip(tp_op_name(out[0]), g, 1, out);
    }
    for (int op = 0; op < TP_OP_COUNT; op++)
        cr_expect(seen[op], "%s is not in this test", tp_op_info_of((tp_op)op)->name);
}

/* What builders put in is printed and found again. */
Test(dump, builders_put_nothing_in_twice)
{
    tp_graph *g = tp_graph_create(NULL);
    int64_t i[6] = {1, -2, 3, -4, 5, -6};
    tp_tensor *x = tp_from_data(g, TP_I64, TP_DIMS(2, 3), i);
    tp_tensor *f = tp_cast(x, TP_F32), *t = tp_transpose(f, 0, 1);
    tp_tensor *row = tp_select(f, 0, 0);
    round_trip("inserted", g, 6,
               (tp_tensor *[]){tp_reshape(t, TP_DIMS(6)), tp_flatten(t, 0, 1), tp_matmul(x, t),
                               tp_matmul(row, row), tp_less_equal(x, tp_num(f, 0.5)),
                               tp_less(tp_cast(x, TP_U64), x)});
}

/* ---- Names -------------------------------------------------------------------------------------
 */

Test(dump, any_name_comes_back_and_is_drawn)
{
    static char any[256], longer[2001];
    for (int i = 1; i < 256; i++) any[i - 1] = (char)i;
    memset(longer, 'n', 2000);
    const char *const names[] = {any,         longer,     "\"",  "\\", "\\x41",
                                 "a<b>&amp;", "\xff\xfe", "\n#", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        tp_graph *g = tp_graph_create(NULL), *h = tp_graph_create(NULL);
        tp_tensor *x = tp_named(tp_full(g, TP_F32, TP_DIMS(2), 1), names[i]), *again[1];
        tp_tensor *y = tp_named(tp_neg(x), names[i]);
        char *text = dump(tp_graph_text, g, 1, &y), *dot = dump(tp_graph_dot, g, 1, &y);
        cr_assert_eq(tp_graph_parse(h, text, 1, again), 1, "%s\n%s", tp_graph_error(h)->text, text);
        cr_expect_str_eq(tp_name(again[0]), names[i]);
        tp_plan *plan = tp_plan_create(g, 1, &y, NULL);
        char plan_dot[8192];
        cr_expect_lt(tp_plan_dot(plan, plan_dot, sizeof plan_dot), (int64_t)sizeof plan_dot);
        if (system("command -v dot >/dev/null 2>&1") == 0) {
            FILE *f = popen("dot -Tsvg >/dev/null", "w");
            fputs(dot, f);
            fputs(plan_dot, f);
            cr_expect_eq(pclose(f), 0, "name %zu is not drawn", i);
        }
        tp_plan_release(plan);
        free(text);
        free(dot);
        tp_graph_destroy(g);
        tp_graph_destroy(h);
    }
}

/* ---- The contract
 * -------------------------------------------------------------------------------- */

static int64_t text_of_plan(const void *what, char *at, size_t size)
{
    return tp_plan_text(what, at, size);
}

static int64_t dot_of_plan(const void *what, char *at, size_t size)
{
    return tp_plan_dot(what, at, size);
}

/* The whole and every shorter room: a terminated prefix, the full length, nothing behind it. */
static void check_rooms(int64_t (*f)(const void *, char *, size_t), const void *what)
{
    int64_t length = f(what, NULL, 0);
    cr_assert_gt(length, 0);
    cr_expect_eq(f(what, NULL, 100), length);
    char *whole = malloc((size_t)length + 1), *part = malloc((size_t)length + 2);
    cr_expect_eq(f(what, whole, (size_t)length + 1), length);
    for (size_t room = 1; room <= (size_t)length + 1; room++) {
        memset(part, 'Z', (size_t)length + 2);
        cr_assert_eq(f(what, part, room), length);
        cr_assert_eq(strlen(part), room - 1);
        cr_assert_eq(memcmp(part, whole, room - 1), 0);
        cr_assert_eq(part[room], 'Z');
    }
    free(whole);
    free(part);
}

static int64_t text_of_output(const void *what, char *at, size_t size)
{
    tp_tensor *y = (tp_tensor *)(uintptr_t)what;
    return tp_graph_text(tp_graph_of(y), 1, &y, at, size);
}

static int64_t dot_of_output(const void *what, char *at, size_t size)
{
    tp_tensor *y = (tp_tensor *)(uintptr_t)what;
    return tp_graph_dot(tp_graph_of(y), 1, &y, at, size);
}

Test(dump, every_room_gets_a_terminated_prefix)
{
    tp_graph *g = tp_graph_create(NULL);
    tp_tensor *x = tp_named(tp_full(g, TP_F32, TP_DIMS(2, 3), 0.5), "x");
    tp_tensor *y = tp_matmul(x, tp_contiguous(tp_transpose(x, 0, 1)));
    tp_plan *plan = tp_plan_create(g, 1, &y, NULL);
    check_rooms(text_of_output, y);
    check_rooms(dot_of_output, y);
    check_rooms(text_of_plan, plan);
    check_rooms(dot_of_plan, plan);
    tp_plan_release(plan);
    tp_graph_destroy(g);
}

/* A plan reads the same before and after it ran, and shows times only when asked to. */
Test(dump, a_plan_is_the_same_text_after_it_ran)
{
    for (int profile = 0; profile < 2; profile++) {
        tp_graph *g = tp_graph_create(NULL);
        tp_tensor *x = tp_full(g, TP_F32, TP_DIMS(64, 64), 2);
        tp_tensor *y = tp_matmul(x, tp_contiguous(tp_transpose(x, 0, 1)));
        tp_eval_options options = {.profile = profile};
        tp_plan *plan = tp_plan_create(g, 1, &y, &options);
        char before[4096], after[4096], text[4096];
        tp_plan_dot(plan, before, sizeof before);
        tp_plan_text(plan, text, sizeof text);
        cr_assert_eq(tp_plan_run(plan), TP_OK);
        tp_plan_dot(plan, after, sizeof after);
        cr_expect_eq(strcmp(before, after) == 0, !profile, "%s\n%s", before, after);
        cr_expect_eq(strstr(after, "executed: ") != NULL, profile);
        tp_plan_text(plan, after, sizeof after);
        cr_expect_eq(strcmp(text, after) == 0, !profile, "%s\n%s", text, after);
        tp_plan_release(plan);
        tp_graph_destroy(g);
    }
}

Test(dump, wrong_arguments_are_errors)
{
    tp_graph *g = tp_graph_create(NULL), *h = tp_graph_create(NULL);
    tp_tensor *x = tp_full(g, TP_F32, TP_DIMS(2), 1), *y = tp_full(h, TP_F32, TP_DIMS(2), 1);
    const dumper dumpers[] = {tp_graph_text, tp_graph_dot};
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(dumpers[i](NULL, 1, &x, NULL, 0), -1);
        cr_expect_eq(dumpers[i](g, 1, NULL, NULL, 0), -1);
        cr_expect_eq(dumpers[i](g, -1, &x, NULL, 0), -1);
        cr_expect_eq(tp_graph_error(g)->status, TP_E_ARGUMENT);
        cr_expect_eq(dumpers[i](g, 2, (tp_tensor *[]){x, NULL}, NULL, 0), -1);
        cr_expect_eq(dumpers[i](g, 2, (tp_tensor *[]){x, y}, NULL, 0), -1);
    }
    cr_expect_eq(tp_plan_text(NULL, NULL, 0), -1);
    cr_expect_eq(tp_plan_dot(NULL, NULL, 0), -1);
    tp_graph_destroy(g);
    tp_graph_destroy(h);
}

/* A failure says where it was, takes back what was added and keeps what was there. */
Test(dump, a_failed_parse_leaves_no_trace)
{
    tp_context *c = tp_context_create(NULL);
    tp_graph *g = tp_graph_create(c);
    tp_tensor *x = tp_full(g, TP_F32, TP_DIMS(2, 3), 1), *out[2];
    size_t used = tp_context_memory(c).used_bytes;
    const char *wrong = "%0 = data f32 [100] pattern\n%1 = neg %0\n%2 = matmul %1 %1 %1\n";
    cr_expect_null(tp_matmul(x, x));
    cr_expect_eq(tp_graph_parse(g, "%0 = full f32 [1] 1\nreturn %0 %0", 2, out), 2);
    cr_expect_eq(tp_graph_error(g)->status, TP_E_SHAPE, "a good program forgets an older error");
    int64_t nodes = tp_graph_node_count(g);
    cr_expect_eq(tp_graph_parse(g, wrong, 2, out), -1);
    cr_expect_str_eq(tp_graph_error(g)->text,
                     "parse: line 3, column 6: the op has another number of operands");
    cr_expect_eq(tp_graph_node_count(g), nodes);
    cr_expect_eq(tp_context_memory(c).used_bytes, used);
    cr_expect_eq(tp_graph_parse(g, "%0 = full f32 [1] 1\nreturn %0 %0", 1, out), -1);
    cr_expect_eq(tp_graph_parse(g, "%0 = full f32 [1] 1\nreturn %0", -1, out), -1);
    cr_expect_eq(tp_graph_parse(g, NULL, 1, out), -1);
    cr_expect_eq(tp_graph_parse(NULL, "return", 1, out), -1);
    cr_expect_eq(tp_graph_parse(g, "return", 0, NULL), 0);
    cr_expect_eq(tp_eval(x), TP_OK);
    tp_graph_destroy(g);
    tp_context_release(c);
}
