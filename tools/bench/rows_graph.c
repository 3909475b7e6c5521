/* What it costs to say what is wanted: building, optimising and planning, per node; and memory for
 * results. */
#include "bench.h"

/* ---- Memory -------------------------------------------------------------------------------- */

static tp_tensor *plus_one(tp_graph *g, float *data, int64_t n)
{
    tp_tensor *x = bench_leaf(g, TP_F32, TP_DIMS(n), data);
    return tp_add(x, tp_num(x, 1));
}

static void pool_against_malloc(bench *b, const bench_row *row)
{
    float *data = bench_floats(b, 0, row->size[0], -1, 1);
    tp_tensor *y = plus_one(bench_graph(b), data, row->size[0]),
              *z = plus_one(bench_unpooled_graph(b), data, row->size[0]);
    bench_compare(b, bench_eval(b, y), bench_eval(b, z));
}

/* ---- Nodes --------------------------------------------------------------------------------- */

typedef struct program {
    tp_context *context;
    tp_graph *graph; /* NULL: a new one each time */
    float *data;
    int64_t blocks; /* of ten nodes */
    bool plans;
    bool failed;
} program;

/* Ten nodes of all kinds on a matrix of 8 x 8. */
static tp_tensor *ten_nodes(tp_tensor *t, tp_tensor *x)
{
    tp_tensor *u = tp_transpose(tp_add(tp_mul(t, x), x), 0, 1);
    tp_tensor *v = tp_matmul(tp_relu(tp_reshape(u, TP_DIMS(8, 8))), x);
    return tp_add(tp_tanh(tp_transpose(tp_sub(v, t), 0, 1)), x);
}

static void run_program(void *arg)
{
    program *p = arg;
    tp_graph *g = p->graph ? p->graph : tp_graph_create(p->context);
    if (p->graph) tp_graph_reset(p->graph);
    tp_tensor *x = bench_leaf(g, TP_F32, TP_DIMS(8, 8), p->data), *y = x;
    for (int64_t i = 0; i < p->blocks; i++) y = ten_nodes(y, x);
    if (p->plans) {
        tp_plan *plan = g ? tp_plan_create(g, 1, &y, NULL) : NULL;
        p->failed |= !plan;
        tp_plan_release(plan);
    }
    p->failed |= !y;
    if (!p->graph) tp_graph_destroy(g);
}

/* size: blocks of ten nodes; hot: one graph, reset each time; plans. */
static void per_node(bench *b, const bench_row *row)
{
    tp_graph *g = bench_graph(b);
    program p = {.context = b->context[BENCH_NORMAL],
                 .graph = row->size[1] ? g : NULL,
                 .data = bench_floats(b, 0, 64, -0.1F, 0.1F),
                 .blocks = row->size[0],
                 .plans = row->size[2]};
    bench_time(b, (bench_call){run_program, &p}, 10.0 * (double)p.blocks);
    if (p.failed) bench_end(b, BENCH_FAILED, "no plan");
}

typedef struct again {
    tp_tensor *y, *leaf;
    bool touch;
} again;

static void eval_again(void *arg)
{
    const again *a = arg;
    if (a->touch) tp_touch(a->leaf);
    tp_eval(a->y);
}

static void second_eval(bench *b, const bench_row *row)
{
    tp_graph *g = bench_graph(b);
    again a = {.leaf = bench_leaf(g, TP_F32, TP_DIMS(8, 8), bench_floats(b, 0, 64, -0.1F, 0.1F)),
               .touch = row->size[0]};
    a.y = bench_given(b, ten_nodes(a.leaf, a.leaf));
    if (a.y) bench_time(b, (bench_call){eval_again, &a}, a.touch ? 10 : 1);
}

#define NODES(name, what, goal, ...)                                                               \
    BENCH_ENTRY("graph/" name, what, "ns per node", goal, per_node, NULL, BENCH_AT_MOST,           \
                __VA_ARGS__)
#define AGAIN(name, what, unit, goal, touch)                                                       \
    BENCH_ENTRY("graph/" name, what, unit, goal, second_eval, NULL, BENCH_AT_MOST, touch)

/* clang-format off */
const bench_row bench_rows_graph[] = {
    BENCH_ENTRY("pool/64MB-result", "a + 1 from the pool", "memory from malloc", 3,
                pool_against_malloc, NULL, 0, 16 << 20),
    NODES("50K-nodes-cold", "build, optimise, plan", 300, 5000, false, true),
    NODES("50K-nodes-cold/build", "build", 0, 5000, false, false),
    NODES("10-nodes-hot", "build, optimise, plan", 100, 1, true, true),
    NODES("10-nodes-hot/build", "build", 0, 1, true, false),
    AGAIN("second-eval", "tp_eval of an unchanged graph", "ns per call", 30, false),
    AGAIN("eval-after-touch", "tp_touch, tp_eval", "ns per node", 0, true),
    {0}};
/* clang-format on */
