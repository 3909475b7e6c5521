/* Measures the engine through its public API: the largest error of every row of ops.def that gives
 * floats, of reductions and products; results at NaN, infinities and zeros, and over nothing. The
 * program tools/accuracy.c writes what comes out, a test holds it. Same build, same numbers: the
 * quick sample is part of the full one. */
#ifndef TP_ACCURACY_MEASURE_H
#define TP_ACCURACY_MEASURE_H

#include <stdio.h>
#include <stdlib.h>

#include "accuracy_models.h"
#include "accuracy_samples.h"

/* ---- What is reported ----------------------------------------------------------------------- */

/* One line of docs/accuracy.tsv. unit "edges": value lists results at special values, in the order
 * of edge_names; "empty": the result over nothing; else the largest error. */
typedef struct report {
    const char *op, *unit;
    tp_dtype dtype;
    double error; /* NaN where value is no number */
    bool plain;   /* + - * of operands alone: the row is its own model */
    char value[160];
    char where[80]; /* the operands of the largest error; the first operand of edges */
} report;

typedef struct measuring {
    const char *backend;
    bool quick;
    const char *only; /* an op; NULL: all */
    void (*tell)(void *user, const report *line);
    void *user;
} measuring;

static inline void tell(const measuring *m, report *line)
{
    m->tell(m->user, line);
}

static inline bool wanted(const measuring *m, const char *op)
{
    return !m->only || strcmp(m->only, op) == 0;
}

/* ---- Rows of ops.def ------------------------------------------------------------------------ */

typedef tp_tensor *(*builder1)(tp_tensor *);
typedef tp_tensor *(*builder2)(tp_tensor *, tp_tensor *);
typedef tp_tensor *(*builder3)(tp_tensor *, tp_tensor *, tp_tensor *);
typedef struct op_row {
    const char *name, *rule, *expression;
    builder1 one;
    builder2 two;
    builder3 three;
} op_row;
static const op_row op_rows[] = {
#define UNARY(ENUM, name, FAMILY, rule, cost, expression, ...)                                     \
    {#name, #rule, #expression, tp_##name, NULL, NULL},
#define TEST UNARY
#define BINARY(ENUM, name, FAMILY, rule, cost, expression, ...)                                    \
    {#name, #rule, #expression, NULL, tp_##name, NULL},
#define COMPARE BINARY
#define TERNARY(ENUM, name, FAMILY, rule, cost, expression, ...)                                   \
    {#name, #rule, #expression, NULL, NULL, tp_##name},
#include "../graph/ops.def"
};
#define OP_ROWS ((int)(sizeof op_rows / sizeof *op_rows))

static inline bool is_plain(const op_row *op)
{
    return !strstr(op->expression, "m_") && strcmp(op->rule, "FLOAT") != 0;
}

#define CHUNK 65536
typedef struct chunk {
    uint64_t a[CHUNK], b[CHUNK]; /* patterns of any format */
    int64_t n;
} chunk;

static inline tp_graph *graph_on(const char *backend)
{
    tp_graph *g = tp_graph_create(NULL);
    if (g && tp_graph_set_backend(g, backend) == TP_OK) return g;
    fprintf(stderr, "accuracy: no graph on %s\n", backend);
    exit(1);
}

static inline void judge(const op_row *op, const format *f, const chunk *c, const double *got,
                         report *line)
{
    const unary_model *one = op->one ? MODEL_OF(unary_models, op->name) : NULL;
    const binary_model *two = op->two ? MODEL_OF(binary_models, op->name) : NULL;
    for (int64_t i = 0; i < c->n; i++) {
        double a = value_of(f, pattern_at(f, c->a, i)),
               b = two ? value_of(f, pattern_at(f, c->b, i)) : 0;
        double error = ulps_off(f, got[i], two ? two->exact(a, b) : one->exact(a));
        if (error <= line->error) continue;
        line->error = error;
        snprintf(line->where, sizeof line->where, two ? "%a, %a" : "%a", a, b);
    }
}

/* Runs the op over a chunk and judges; nothing if the row refuses the dtype. */
static inline void run_chunk(const measuring *m, const op_row *op, const format *f, const chunk *c,
                             report *line)
{
    static double got[CHUNK];
    tp_graph *g = graph_on(m->backend);
    tp_tensor *a = tp_from_data(g, f->dtype, TP_DIMS(c->n), c->a);
    tp_tensor *y =
        op->one ? op->one(a) : op->two(a, tp_from_data(g, f->dtype, TP_DIMS(c->n), c->b));
    if (tp_eval(y) != TP_OK) {
        fprintf(stderr, "accuracy: %s: %s\n", op->name, tp_graph_error(g)->text);
        exit(1);
    }
    for (int64_t i = 0; i < c->n; i++) got[i] = value_of(f, pattern_at(f, tp_data(y), i));
    judge(op, f, c, got, line);
    tp_graph_destroy(g);
}

/* Whether the row gives floats of its operands' type. */
static inline bool gives_floats(const op_row *op, const format *f)
{
    if (op->three) return false; /* picks one of its operands */
    tp_graph *g = graph_on("ref");
    tp_tensor *a = tp_full(g, f->dtype, TP_DIMS(1), 1), *y = op->one ? op->one(a) : op->two(a, a);
    bool same = y && tp_dtype_of(y) == f->dtype;
    tp_graph_destroy(g);
    return same;
}

static inline void measure_row(const measuring *m, const op_row *op, const format *f)
{
    static chunk c;
    report line = {.op = op->name, .unit = "ulp", .dtype = f->dtype, .plain = is_plain(op)};
    bool known = op->one ? MODEL_OF(unary_models, op->name) != NULL
                         : MODEL_OF(binary_models, op->name) != NULL;
    uint64_t state = 1, a = 0, b = 0;
    int64_t i = 0;
    bool more = known;
    while (more) {
        for (c.n = 0; more && c.n < CHUNK; i++) {
            more = op->one ? unary_pattern(f, m->quick, i, &state, &a)
                           : binary_patterns(f, m->quick, i, &state, &a, &b);
            if (!more) break;
            pattern_put(f, c.a, c.n, a);
            pattern_put(f, c.b, c.n++, b);
        }
        if (c.n) run_chunk(m, op, f, &c, &line);
    }
    if (!known) line.error = NAN;
    snprintf(line.value, sizeof line.value, known ? "%.3f" : "no model", line.error);
    tell(m, &line);
}

/* ---- Special values ------------------------------------------------------------------------- */

static const double edges[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1, -1};
static const char *const edge_names[] = {"NaN", "inf", "-inf", "0", "-0", "1", "-1"};
#define EDGES 7
#define UNARY_EDGES 5 /* ones are no edge of one operand */

/* Six digits, as the documents have it: one NaN, whatever its sign. */
static inline void append_value(char *text, size_t size, double y)
{
    size_t used = strlen(text);
    if (used) snprintf(text + used, size - used, " "), used++;
    snprintf(text + used, size - used, isnan(y) ? "NaN" : "%.6g", y);
}

/* One operand: its five special values at once. Two: seven of the second, a line for each first. */
static inline void measure_edges(const measuring *m, const op_row *op, const format *f)
{
    for (int first = 0; first < (op->two ? EDGES : 1); first++) {
        report line = {.op = op->name,
                       .unit = "edges",
                       .dtype = f->dtype,
                       .error = NAN,
                       .plain = is_plain(op)};
        tp_graph *g = graph_on(m->backend);
        tp_tensor *x = tp_cast(tp_from_data(g, TP_F64, TP_DIMS(EDGES), edges), f->dtype);
        tp_tensor *one = tp_full(g, f->dtype, TP_DIMS(EDGES), 1), *y;
        tp_tensor *a = tp_full(g, f->dtype, TP_DIMS(EDGES), edges[first]);
        y = op->one ? op->one(x) : op->two ? op->two(a, x) : op->three(x, one, tp_neg(one));
        if (tp_eval(y) == TP_OK) {
            for (int i = 0; i < (op->two ? EDGES : UNARY_EDGES); i++)
                append_value(line.value, sizeof line.value, tp_item(y, i));
            if (op->two) snprintf(line.where, sizeof line.where, "%s", edge_names[first]);
            tell(m, &line);
        }
        tp_graph_destroy(g);
    }
}

/* ---- Reductions ----------------------------------------------------------------------------- */

#define BUILD(name, call)                                                                          \
    static inline tp_tensor *build_##name(tp_tensor *x, int count, const int64_t *axes, bool keep) \
    {                                                                                              \
        return call;                                                                               \
    }
BUILD(var, tp_var(x, count, axes, 0, keep))
BUILD(std, tp_std(x, count, axes, 0, keep))
BUILD(norm1, tp_norm(x, count, axes, 1, keep))
BUILD(norm2, tp_norm(x, count, axes, 2, keep))
#undef BUILD

/* The rows, and what is put together from them. exact: truth values and indices. */
static const struct {
    const char *name;
    tp_tensor *(*build)(tp_tensor *, int, const int64_t *, bool);
    bool exact;
} reducers[] = {
#define REDUCE(ENUM, name, rule, ...)                                                              \
    {#name, tp_##name, sizeof #rule == sizeof "INDEX" && #rule[0] == 'I'},
#include "../graph/ops.def"
    {"any", tp_any, true},
    {"all", tp_all, true},
    {"count_nonzero", tp_count_nonzero, true},
    {"var", build_var, false},
    {"std", build_std, false},
    {"logsumexp", tp_logsumexp, false},
    {"norm 1", build_norm1, false},
    {"norm 2", build_norm2, false},
};
#define REDUCERS ((int)(sizeof reducers / sizeof *reducers))

/* Half an ulp of the result, which everything may be off. */
static inline long double rounding_of(const format *f, long double y)
{
    int exponent = y == 0 ? f->lowest : ilogbl(y);
    return ldexpl(1, (exponent < f->lowest ? f->lowest : exponent) - f->digits);
}

/* u of the type that is calculated in, f32 at least. */
static inline long double roundoff_of(const format *f)
{
    return f->dtype == TP_F64 ? 0x1p-53L : 0x1p-24L;
}

static inline void note(report *line, const format *f, double got, scaled want, const char *where)
{
    long double error = fabsl(got - want.value) - rounding_of(f, want.value) * 1.001L;
    double units = error <= 0 ? 0 : (double)(error / (roundoff_of(f) * want.scale));
    if (isnan(got)) units = INFINITY;
    if (units <= line->error) return;
    line->error = units;
    snprintf(line->where, sizeof line->where, "%s", where);
}

static inline void finish(const measuring *m, report *line)
{
    snprintf(line->value, sizeof line->value, "%.3f", line->error);
    tell(m, line);
}

/* Numbers between low and high that the format holds: x keeps them as f64 too. */
static inline tp_tensor *random_leaf(tp_graph *g, const format *f, int ndim, const int64_t *shape,
                                     double low, double high, uint64_t seed, double *x)
{
    int64_t n = 1;
    for (int d = 0; d < ndim; d++) n *= shape[d];
    void *data = malloc((size_t)n * (size_t)f->bits / 8 + 1);
    if (!data) exit(1);
    for (int64_t i = 0; i < n; i++) {
        double unit = (double)(random_bits(&seed) >> 11) / 0x1p53;
        pattern_put(f, data, i, pattern_near(f, low + (high - low) * unit));
        x[i] = value_of(f, pattern_at(f, data, i));
    }
    tp_tensor *leaf = tp_from_data(g, f->dtype, ndim, shape, data);
    free(data);
    return leaf;
}

static inline double item_of(tp_tensor *y, int64_t i)
{
    if (tp_eval(y) == TP_OK) return tp_item(y, i);
    fprintf(stderr, "accuracy: a reduction or product fails\n");
    exit(1);
}

#define LONGEST 20000

/* Lines along the last axis and along the first, of numbers around 0 and around 2. */
static inline void measure_reducer(const measuring *m, int r, const format *f)
{
    static const int64_t lengths[] = {1, 2, 3, 17, 100, 257, 2049, LONGEST};
    static double x[2 * LONGEST], line_of[LONGEST];
    const reduce_model *model = MODEL_OF(reduce_models, reducers[r].name);
    report line = {.op = reducers[r].name, .dtype = f->dtype, .unit = model ? model->unit : "ulp"};
    if (!model) {
        line.error = NAN;
        snprintf(line.value, sizeof line.value, "no model");
        tell(m, &line);
        return;
    }
    bool prod = strcmp(reducers[r].name, "prod") == 0;
    for (int way = 0; way < 8 * 4; way++) {
        int64_t n = lengths[way / 4], shape[] = {way & 1 ? n : 2, way & 1 ? 2 : n},
                axis = !(way & 1);
        if (prod && n > 257) continue; /* would leave the type's range */
        double middle = prod ? 1 : way & 2 ? 2 : 0, width = prod ? 0.02 : 1;
        tp_graph *g = graph_on(m->backend);
        tp_tensor *leaf =
            random_leaf(g, f, 2, shape, middle - width, middle + width, (uint64_t)way + 1, x);
        tp_tensor *y = reducers[r].build(leaf, 1, &axis, false);
        for (int64_t i = 0; i < 2; i++) {
            char where[40];
            snprintf(where, sizeof where, "%lld along axis %d", (long long)n, (int)axis);
            for (int64_t j = 0; j < n; j++) line_of[j] = x[way & 1 ? j * 2 + i : i * n + j];
            scaled want = model->exact((int)n, line_of);
            if (want.scale > 0) note(&line, f, item_of(y, i), want, where);
        }
        tp_graph_destroy(g);
    }
    finish(m, &line);
}

/* ---- Softmax, layer norm, products ---------------------------------------------------------- */

static inline void measure_softmax(const measuring *m, const format *f)
{
    static double x[3000];
    report line = {.op = "softmax", .dtype = f->dtype, .unit = "u |y| (1 + max - x)"};
    static const int64_t lengths[] = {1, 2, 17, 257, 3000};
    for (int way = 0; way < 5 * 2; way++) {
        int64_t n = lengths[way / 2];
        double spread = way % 2 ? 30 : 2;
        tp_graph *g = graph_on(m->backend);
        tp_tensor *y =
            tp_softmax(random_leaf(g, f, 1, &n, -spread, spread, (uint64_t)way + 50, x), 0);
        long double most = max_of((int)n, x).value, sum = 0;
        for (int64_t i = 0; i < n; i++) sum += expl(x[i] - most);
        for (int64_t i = 0; i < n; i++) {
            char where[40];
            snprintf(where, sizeof where, "%lld within %g", (long long)n, spread);
            long double want = expl(x[i] - most) / sum;
            note(&line, f, item_of(y, i), (scaled){want, want * (1 + most - x[i])}, where);
        }
        tp_graph_destroy(g);
    }
    finish(m, &line);
}

/* Functions of a line whose every element is a result: how each is built, and its exact value. */
typedef struct line_model {
    const char *op, *unit;
    tp_tensor *(*build)(tp_tensor *x);
    scaled (*exact)(int n, const double *x, int i);
} line_model;

static inline tp_tensor *build_cumsum(tp_tensor *x)
{
    return tp_cumsum(x, 0);
}
static inline tp_tensor *build_cumprod(tp_tensor *x)
{
    return tp_cumprod(x, 0);
}
static inline tp_tensor *build_log_softmax(tp_tensor *x)
{
    return tp_log_softmax(x, 0);
}
static inline tp_tensor *build_rms_norm(tp_tensor *x)
{
    return tp_rms_norm(x, 1, NULL, 1e-5);
}

static inline scaled exact_cumsum(int n, const double *x, int i)
{
    (void)n;
    scaled y = {0, 0};
    for (int j = 0; j <= i; j++) {
        y.value += x[j];
        y.scale += fabsl(x[j]);
    }
    return y;
}
static inline scaled exact_cumprod(int n, const double *x, int i)
{
    (void)n;
    long double y = 1;
    for (int j = 0; j <= i; j++) y *= x[j];
    return (scaled){y, (i + 1) * fabsl(y)};
}
static inline scaled exact_log_softmax(int n, const double *x, int i)
{
    long double most = max_of(n, x).value, sum = 0;
    for (int j = 0; j < n; j++) sum += expl(x[j] - most);
    return (scaled){x[i] - most - logl(sum), 1 + most - x[i] + logl((long double)n)};
}
static inline scaled exact_rms_norm(int n, const double *x, int i)
{
    long double squares = 0;
    for (int j = 0; j < n; j++) squares += (long double)x[j] * x[j];
    long double y = x[i] / sqrtl(squares / n + 1e-5L);
    return (scaled){y, fabsl(y)};
}

static const line_model line_models[] = {
    {"cumsum", "u sum|x|", build_cumsum, exact_cumsum},
    {"cumprod", "n u |y|", build_cumprod, exact_cumprod},
    {"log_softmax", "u (1 + max - x + ln n)", build_log_softmax, exact_log_softmax},
    {"rms_norm", "u |y|", build_rms_norm, exact_rms_norm},
};
#define LINE_MODELS ((int)(sizeof line_models / sizeof *line_models))

static inline void measure_line(const measuring *m, const line_model *model, const format *f)
{
    static const int64_t lengths[] = {1, 2, 17, 257, 700};
    static double x[700];
    report line = {.op = model->op, .dtype = f->dtype, .unit = model->unit};
    bool prod = strcmp(model->op, "cumprod") == 0;
    for (int way = 0; way < 5 * 2; way++) {
        int64_t n = lengths[way / 2];
        double middle = prod ? 1 : 0, width = prod ? 0.02 : way % 2 ? 20 : 1;
        tp_graph *g = graph_on(m->backend);
        tp_tensor *y = model->build(
            random_leaf(g, f, 1, &n, middle - width, middle + width, (uint64_t)way + 70, x));
        for (int64_t i = 0; i < n; i++) {
            char where[64];
            snprintf(where, sizeof where, "%lld of %lld", (long long)i, (long long)n);
            scaled want = model->exact((int)n, x, (int)i);
            if (want.scale > 0) note(&line, f, item_of(y, i), want, where);
        }
        tp_graph_destroy(g);
    }
    finish(m, &line);
}

static inline void measure_layer_norm(const measuring *m, const format *f)
{
    static double x[3000], w[3000], b[3000];
    report line = {
        .op = "layer_norm", .dtype = f->dtype, .unit = "u (|z w| + |y| + |mean w / dev|)"};
    static const int64_t lengths[] = {2, 5, 33, 384, 3000};
    for (int way = 0; way < 5 * 3; way++) {
        int64_t n = lengths[way / 3];
        double middle = way % 3 == 0 ? 0 : way % 3 == 1 ? 10 : 1000, eps = 1e-5;
        uint64_t seed = (uint64_t)way + 90;
        tp_graph *g = graph_on(m->backend);
        tp_tensor *leaf = random_leaf(g, f, 1, &n, middle - 1, middle + 1, seed, x);
        tp_tensor *weight = random_leaf(g, f, 1, &n, -2, 2, seed + 100, w);
        tp_tensor *y =
            tp_layer_norm(leaf, 1, weight, random_leaf(g, f, 1, &n, -2, 2, seed + 200, b), eps);
        long double mean = mean_of((int)n, x).value, by = sqrtl(var_of((int)n, x).value + eps);
        for (int64_t i = 0; i < n; i++) {
            char where[40];
            snprintf(where, sizeof where, "%lld around %g", (long long)n, middle);
            long double zw = (x[i] - mean) / by * w[i], want = zw + b[i];
            long double scale = fabsl(zw) + fabsl(want) + fabsl(mean / by * w[i]);
            note(&line, f, item_of(y, i), (scaled){want, scale}, where);
        }
        tp_graph_destroy(g);
    }
    finish(m, &line);
}

#define INNER 1000

static inline void measure_matmul(const measuring *m, const format *f)
{
    static double a[7 * INNER], b[INNER * 9];
    static const int64_t inner[] = {1, 8, 64, INNER};
    report line = {.op = "matmul", .dtype = f->dtype, .unit = "u sum|a b|"};
    for (int way = 0; way < 4; way++) {
        int64_t k = inner[way];
        tp_graph *g = graph_on(m->backend);
        tp_tensor *left = random_leaf(g, f, 2, (int64_t[]){7, k}, -1, 1, (uint64_t)way + 300, a);
        tp_tensor *y =
            tp_matmul(left, random_leaf(g, f, 2, (int64_t[]){k, 9}, -1, 1, (uint64_t)way + 400, b));
        for (int64_t i = 0; i < 7 * 9; i++) {
            scaled want = {0, 0};
            for (int64_t j = 0; j < k; j++) {
                long double term = (long double)a[i / 9 * k + j] * b[j * 9 + i % 9];
                want.value += term, want.scale += fabsl(term);
            }
            char where[40];
            snprintf(where, sizeof where, "k = %lld", (long long)k);
            note(&line, f, item_of(y, i), want, where);
        }
        tp_graph_destroy(g);
    }
    finish(m, &line);
}

/* ---- Nothing -------------------------------------------------------------------------------- */

static inline void tell_empty(const measuring *m, const char *op, tp_graph *g, tp_tensor *y)
{
    report line = {.op = op, .unit = "empty", .dtype = TP_F32, .error = NAN};
    if (!y || tp_eval(y) != TP_OK)
        snprintf(line.value, sizeof line.value, "error %s",
                 tp_status_name(tp_graph_error(g)->status));
    else if (tp_numel(y) == 0)
        snprintf(line.value, sizeof line.value, "nothing");
    else
        append_value(line.value, sizeof line.value, tp_item(y, 0));
    tell(m, &line);
    tp_graph_destroy(g);
}

static inline void measure_empty(const measuring *m)
{
    int64_t zero = 0;
    for (int r = 0; r < REDUCERS; r++) {
        tp_graph *g = graph_on(m->backend);
        tp_tensor *x = tp_full(g, TP_F32, 1, &zero, 0);
        if (wanted(m, reducers[r].name))
            tell_empty(m, reducers[r].name, g, reducers[r].build(x, TP_ALL_AXES, false));
        else
            tp_graph_destroy(g);
    }
    for (int i = 0; i < LINE_MODELS; i++) {
        tp_graph *g = graph_on(m->backend);
        tp_tensor *x = tp_full(g, TP_F32, 1, &zero, 0);
        if (wanted(m, line_models[i].op))
            tell_empty(m, line_models[i].op, g, line_models[i].build(x));
        else
            tp_graph_destroy(g);
    }
    static const char *const names[] = {"softmax", "layer_norm", "matmul"};
    for (int i = 0; i < 3; i++) {
        if (!wanted(m, names[i])) continue;
        tp_graph *g = graph_on(m->backend);
        tp_tensor *x = tp_full(g, TP_F32, TP_DIMS(2, 0), 0);
        tell_empty(m, names[i], g,
                   i == 0   ? tp_softmax(x, 1)
                   : i == 1 ? tp_layer_norm(x, 1, NULL, NULL, 1e-5)
                            : tp_matmul(x, tp_transpose(x, 0, 1)));
    }
}

/* ---- All of it ------------------------------------------------------------------------------ */

static inline void measure_all(const measuring *m)
{
    for (int r = 0; r < OP_ROWS; r++) {
        for (int f = 0; f < FORMATS && wanted(m, op_rows[r].name); f++) {
            if (gives_floats(&op_rows[r], &formats[f])) measure_row(m, &op_rows[r], &formats[f]);
            measure_edges(m, &op_rows[r], &formats[f]);
        }
    }
    for (int r = 0; r < REDUCERS; r++) {
        for (int f = 0; f < FORMATS && wanted(m, reducers[r].name) && !reducers[r].exact; f++)
            measure_reducer(m, r, &formats[f]);
    }
    for (int f = 0; f < FORMATS; f++) {
        if (wanted(m, "softmax")) measure_softmax(m, &formats[f]);
        if (wanted(m, "layer_norm")) measure_layer_norm(m, &formats[f]);
        for (int i = 0; i < LINE_MODELS; i++) {
            if (wanted(m, line_models[i].op)) measure_line(m, &line_models[i], &formats[f]);
        }
        if (wanted(m, "matmul")) measure_matmul(m, &formats[f]);
    }
    measure_empty(m);
}

#endif
