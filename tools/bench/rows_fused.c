/* Fused chains: against the loop that gcc makes of the same formula, against the least that the
 * memory allows, against the same graph without fusion. */
#include "bench.h"

#include <stddef.h>

/* A chain over [n] (or [n / BENCH_ROW, BENCH_ROW], where b and c are rows). */
typedef struct chain {
    tp_tensor *(*build)(tp_tensor *a, tp_tensor *b, tp_tensor *c);
    size_t loop; /* offset of its loop in bench_plain */
    tp_dtype a;
    bool rows, scalar; /* b and c are rows; the result is one number */
} chain;

static tp_tensor *mul_add(tp_tensor *a, tp_tensor *b, tp_tensor *c)
{
    return tp_add(tp_mul(a, b), c);
}

static tp_tensor *sigmoid_exp(tp_tensor *a, tp_tensor *b, tp_tensor *c)
{
    return tp_add(tp_mul(tp_sigmoid(a), b), tp_exp(c));
}

static tp_tensor *twenty(tp_tensor *a, tp_tensor *b, tp_tensor *c)
{
    tp_tensor *t = a;
    for (int k = 0; k < 5; k++) t = tp_mul(tp_sub(tp_add(tp_mul(t, b), c), a), tp_num(a, 0.5));
    return t;
}

/* Written out, as models do that want the tanh form. */
static tp_tensor *gelu_bias(tp_tensor *a, tp_tensor *b, tp_tensor *c)
{
    (void)c;
    tp_tensor *x = tp_add(a, b), *cube = tp_mul(tp_mul(x, x), x);
    tp_tensor *inner =
        tp_mul(tp_add(x, tp_mul(cube, tp_num(x, 0.044715))), tp_num(x, 0.7978845608028654));
    return tp_mul(tp_mul(x, tp_num(x, 0.5)), tp_add(tp_tanh(inner), tp_num(x, 1)));
}

static tp_tensor *gelu_op(tp_tensor *a, tp_tensor *b, tp_tensor *c)
{
    (void)c;
    return tp_gelu_tanh(tp_add(a, b));
}

static tp_tensor *relu_rows(tp_tensor *a, tp_tensor *b, tp_tensor *c)
{
    return tp_relu(tp_add(tp_mul(a, b), c));
}

static tp_tensor *relu_scale(tp_tensor *a, tp_tensor *b, tp_tensor *c)
{
    (void)b, (void)c;
    return tp_relu(tp_add(tp_mul(a, tp_num(a, 2)), tp_num(a, 1)));
}

static tp_tensor *triad(tp_tensor *a, tp_tensor *b, tp_tensor *c)
{
    (void)c;
    return tp_add(a, tp_mul(b, tp_num(b, 3)));
}

static tp_tensor *mixed(tp_tensor *a, tp_tensor *b, tp_tensor *c)
{
    (void)c;
    return tp_add(tp_mul(a, tp_num(a, 0.5)), b);
}

static tp_tensor *widen(tp_tensor *a, tp_tensor *b, tp_tensor *c)
{
    (void)b, (void)c;
    tp_tensor *x = tp_cast(a, TP_F32);
    return tp_mul(tp_sub(x, tp_num(x, 127.5)), tp_num(x, 0.015625));
}

/* As long as a, but one number. */
static tp_tensor *fill(tp_tensor *a, tp_tensor *b, tp_tensor *c)
{
    (void)b, (void)c;
    return tp_contiguous(tp_expand(tp_scalar(tp_graph_of(a), TP_F32, 1.5), TP_DIMS(tp_dim(a, 0))));
}

static tp_tensor *square_sum(tp_tensor *a, tp_tensor *b, tp_tensor *c)
{
    (void)c;
    return tp_sum(tp_square(tp_sub(a, b)), TP_ALL_AXES, false);
}

#define CHAIN(name, ...)                                                                           \
    static const chain chain_##name = {name, offsetof(bench_plain, name), __VA_ARGS__}
CHAIN(mul_add, TP_F32, false, false);
CHAIN(sigmoid_exp, TP_F32, false, false);
CHAIN(twenty, TP_F32, false, false);
CHAIN(gelu_bias, TP_F32, true, false);
CHAIN(relu_rows, TP_F32, true, false);
CHAIN(relu_scale, TP_F32, false, false);
CHAIN(fill, TP_F32, false, false);
CHAIN(triad, TP_F32, false, false);
CHAIN(mixed, TP_I32, false, false);
CHAIN(square_sum, TP_F32, false, true);
static const chain chain_gelu_op = {gelu_op, offsetof(bench_plain, gelu_bias), TP_F32, true, false};
static const chain chain_widen = {widen, offsetof(bench_plain, widen_u8), TP_U8, false, false};
/* The same formulas, limited by non-temporal stores. */
static const chain chain_relu_nt = {relu_scale, offsetof(bench_plain, pass_nt), TP_F32, false,
                                    false};
static const chain chain_relu_copy = {relu_scale, offsetof(bench_plain, pass), TP_F32, false,
                                      false};
static const chain chain_triad_nt = {triad, offsetof(bench_plain, triad_nt), TP_F32, false, false};

static bench_loop loop_at(const bench_plain *plain, size_t offset)
{
    return *(const bench_loop *)((const char *)plain + offset);
}

/* Operands in slots 0 to 2. */
static void fill_operands(bench *b, const chain *c, int64_t n, void *data[3])
{
    data[0] = bench_floats(b, 0, n, -2, 2);
    data[1] = bench_floats(b, 1, n, -1, 1);
    data[2] = bench_floats(b, 2, n, -2, 2);
    if (!data[0] || c->a == TP_F32) return;
    /* Any bytes are u8; as i32 the bits of floats are numbers like any other, but large. */
    for (int64_t i = 0; c->a == TP_I32 && i < n; i++) ((int32_t *)data[0])[i] = (int32_t)(i % 1999);
}

static tp_tensor *build_chain(tp_graph *g, const chain *c, int64_t n, void *const data[3])
{
    tp_tensor *x[3];
    for (int i = 0; i < 3; i++) {
        tp_dtype dtype = i ? TP_F32 : c->a;
        if (!c->rows)
            x[i] = bench_leaf(g, dtype, TP_DIMS(n), data[i]);
        else if (i)
            x[i] = bench_leaf(g, dtype, TP_DIMS(BENCH_ROW), data[i]);
        else
            x[i] = bench_leaf(g, dtype, TP_DIMS(n / BENCH_ROW, BENCH_ROW), data[i]);
    }
    return g ? c->build(x[0], x[1], x[2]) : NULL;
}

static void against_loop(bench *b, const bench_row *row)
{
    const chain *c = row->with;
    int64_t n = row->size[0];
    void *data[3];
    fill_operands(b, c, n, data);
    tp_tensor *y = build_chain(bench_graph(b), c, n, data);
    bench_loop_call loop = {.loop = loop_at(b->plain, c->loop),
                            .n = n,
                            .a = data[0],
                            .b = data[1],
                            .c = data[2],
                            .y = bench_bytes(b, 3, (size_t)n * 4),
                            .size_a = c->a == TP_U8 ? 1 : 4,
                            .size_b = c->rows ? 0 : 4,
                            .size_c = c->rows ? 0 : 4,
                            .size_y = c->scalar ? 0 : 4,
                            .grain = c->rows ? BENCH_ROW : 64,
                            .threads = b->threads};
    bench_compare(b, bench_eval(b, y), bench_run_loop(&loop));
    bool same_formula = loop.loop != b->plain->pass && loop.loop != b->plain->pass_nt;
    if (same_formula && !(c->scalar && b->threads > 1))
        bench_check(b, y, loop.y, c->scalar ? 1 : n);
}

static void against_unfused(bench *b, const bench_row *row)
{
    const chain *c = row->with;
    int64_t n = row->size[0];
    void *data[3];
    fill_operands(b, c, n, data);
    tp_tensor *y = build_chain(bench_graph(b), c, n, data);
    tp_graph *unfused = bench_graph(b);
    if (unfused) tp_graph_set_pass(unfused, "fuse", false);
    tp_tensor *z = build_chain(unfused, c, n, data);
    bench_compare(b, bench_eval(b, y), bench_eval(b, z));
}

/* f16 and bf16, a * b + c into the same type: what moves as many bytes is f32 of half the length.
 */
static void against_bytes(bench *b, const bench_row *row)
{
    int64_t n = row->size[0];
    tp_graph *g = bench_graph(b);
    tp_tensor *x[3];
    float *words[3];
    for (int i = 0; i < 3; i++) {
        words[i] = bench_floats(b, i, n, -2, 2);
        x[i] = bench_given(
            b, tp_cast(bench_leaf(g, TP_F32, TP_DIMS(n), words[i]), (tp_dtype)row->size[1]));
    }
    bench_loop_call loop = {.loop = b->plain->mul_add,
                            .n = n / 2,
                            .a = words[0],
                            .b = words[1],
                            .c = words[2],
                            .y = bench_bytes(b, 3, (size_t)n * 2),
                            .size_a = 4,
                            .size_b = 4,
                            .size_c = 4,
                            .size_y = 4,
                            .threads = b->threads};
    bench_compare(b, bench_eval(b, mul_add(x[0], x[1], x[2])), bench_run_loop(&loop));
}

#define K100 100000
#define M10 10000000
#define M20 20000000
#define GCC(text, name, n, size, goal)                                                             \
    BENCH_ENTRY("fused/gcc/" text "/" size, "fused", "gcc loop", goal, against_loop,               \
                &chain_##name, 0, n)
#define LIMIT(text, name, against)                                                                 \
    BENCH_ENTRY("fused/limit/" text "/80MB", "fused", against, 0.85, against_loop, &chain_##name,  \
                0, M20)
#define UNFUSED(text, name, goal)                                                                  \
    BENCH_ENTRY("fused/unfused/" text "/10M", "fused", "unfused", goal, against_unfused,           \
                &chain_##name, 0, M10)
#define BYTES(text, dtype)                                                                         \
    BENCH_ENTRY("fused/bytes/" text "/10M", "fused", "f32 loop, as many bytes", 0.75,              \
                against_bytes, NULL, 0, M10, dtype)
#define WIDENED(text, name)                                                                        \
    BENCH_ENTRY("fused/bytes/" text "/10M", "fused", "gcc loop, as many bytes", 0.75,              \
                against_loop, &chain_##name, 0, M10)

/* clang-format off */
const bench_row bench_rows_fused[] = {
    GCC("a*b+c", mul_add, K100, "100K", 0.70),
    GCC("sigmoid(a)*b+exp(c)", sigmoid_exp, K100, "100K", 0.70),
    GCC("20-cheap-ops", twenty, K100, "100K", 0.70),
    GCC("gelu(a+bias)", gelu_bias, K100, "100K", 0.70),
    GCC("gelu_tanh-op(a+bias)", gelu_op, K100, "100K", 0.70),
    GCC("relu(a*row+row)", relu_rows, K100, "100K", 0.70),
    GCC("i32*0.5+f32", mixed, K100, "100K", 0.70),
    GCC("u8-normalise", widen, K100, "100K", 0.70),
    GCC("sum((a-b)^2)", square_sum, K100, "100K", 0.70),
    GCC("a*b+c", mul_add, M10, "10M", 0.85),
    GCC("sigmoid(a)*b+exp(c)", sigmoid_exp, M10, "10M", 0.85),
    GCC("20-cheap-ops", twenty, M10, "10M", 0.85),
    GCC("gelu(a+bias)", gelu_bias, M10, "10M", 0.85),
    GCC("gelu_tanh-op(a+bias)", gelu_op, M10, "10M", 0.85),
    GCC("relu(a*row+row)", relu_rows, M10, "10M", 0.85),
    GCC("i32*0.5+f32", mixed, M10, "10M", 0.85),
    GCC("relu(2a+1)", relu_scale, M10, "10M", 0.85),
    GCC("fill", fill, M10, "10M", 0.85),
    GCC("sum((a-b)^2)", square_sum, M10, "10M", 0.85),
    LIMIT("relu(2a+1)", relu_copy, "copy, normal stores"),
    LIMIT("relu(2a+1)-nt", relu_nt, "copy, non-temporal"),
    LIMIT("a+3b", triad, "triad, normal stores"),
    LIMIT("a+3b-nt", triad_nt, "triad, non-temporal"),
    UNFUSED("a*b+c", mul_add, 1.5),
    UNFUSED("gelu(a+bias)", gelu_bias, 4),
    UNFUSED("20-cheap-ops", twenty, 10),
    UNFUSED("sigmoid(a)*b+exp(c)", sigmoid_exp, 0),
    BYTES("f16-a*b+c", TP_F16),
    BYTES("bf16-a*b+c", TP_BF16),
    WIDENED("u8-normalise", widen),
    {0}};
/* clang-format on */
