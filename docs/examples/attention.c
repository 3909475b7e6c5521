/* Multi-head attention the way PyTorch users write it, contiguous() calls included, and what
 * becomes of its copies. Prints the life of the tensor, the copy ledger, the largest error and
 * the times with the passes on and off; writes .dot pictures of the asked and the planned graph. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tensorplay/tensorplay.h"

typedef struct options {
    int64_t batch, seq, width, heads;
    bool causal, flagship;
    tp_dtype dtype;
    const char *npy, *out;
} options;

/* What goes in. Weights as nn.Linear keeps them, [out, in]; mask and biases may be missing. */
enum { X, MASK, WQ, WK, WV, WO, BQ, BK, BV, BO, INPUTS };
static const char *const labels[] = {"X", "mask", "Wq", "Wk", "Wv", "Wo", "bq", "bk", "bv", "bo"};
static const char *const files[] = {"x", "mask", "wq", "wk", "wv", "wo", "bq", "bk", "bv", "bo"};

/* The layer: nodes of the graph that the tables talk about. */
typedef struct layer {
    tp_tensor *in[INPUTS];
    tp_tensor *projected[3]; /* q, k, v: [batch, seq, width] */
    tp_tensor *split, *heads, *q, *k, *v;
    tp_tensor *p, *context, *back, *dense, *merged, *y;
} layer;

static const char usage[] =
    "usage: attention [--batch N] [--seq N] [--width N] [--heads N] [--causal] [--dtype T]\n"
    "                 [--flagship] [--npy DIR] [--out DIR] [--help]\n"
    "\n"
    "  --batch, --seq, --width, --heads   sizes; 2, 128, 512 and 8 by default\n"
    "  --causal      position i attends to positions <= i\n"
    "  --dtype T     f32 (default), f64, f16 or bf16\n"
    "  --flagship    2 x 4096 x 4096 with 32 heads of 128\n"
    "  --npy DIR     reads x, wq, wk, wv, wo and, where there, bq, bk, bv, bo and mask from\n"
    "                DIR (.npy) and writes y.npy there; --heads says how to split\n"
    "  --out DIR     where asked.dot and planned.dot go; the current folder by default\n"
    "\n"
    "Exit codes: 0 nothing is copied and the numbers are right, 1 one of the two is not so,\n"
    "2 a wrong call, 3 it could not be run.\n";

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int die(tp_graph *graph, const char *what)
{
    const char *why = tp_graph_error(graph)->text;
    fprintf(stderr, "attention: %s: %s\n", what, *why ? why : "out of memory");
    return 3;
}

/* ---- The layer ---------------------------------------------------------------------- */

static tp_tensor *split_heads(tp_tensor *x, int64_t heads)
{
    int64_t b = tp_dim(x, 0), s = tp_dim(x, 1), e = tp_dim(x, 2);
    return tp_contiguous(tp_transpose(tp_reshape(x, TP_DIMS(b, s, heads, e / heads)), 1, 2));
}

static tp_tensor *causal_mask(tp_tensor *scores, int64_t s)
{
    tp_graph *g = tp_graph_of(scores);
    tp_tensor *rows = tp_unsqueeze(tp_arange(g, TP_I32, 0, 1, s), 1),
              *cols = tp_arange(g, TP_I32, 0, 1, s);
    return tp_where(tp_less_equal(cols, rows), scores, tp_num(scores, -INFINITY));
}

static void build(layer *l, const options *o)
{
    static const char *const names[] = {"X Wq'", "X Wk'", "X Wv'"};
    for (int i = 0; i < 3; i++)
        l->projected[i] = tp_named(tp_linear(l->in[X], l->in[WQ + i], l->in[BQ + i]), names[i]);
    int64_t b = o->batch, s = o->seq, e = o->width, d = e / o->heads;
    l->split = tp_reshape(l->projected[0], TP_DIMS(b, s, o->heads, d));
    l->heads = tp_transpose(l->split, 1, 2);
    l->q = tp_named(tp_contiguous(l->heads), "q.contiguous()");
    l->k = tp_named(split_heads(l->projected[1], o->heads), "k.contiguous()");
    l->v = tp_named(split_heads(l->projected[2], o->heads), "v.contiguous()");
    tp_tensor *scores = tp_matmul(l->q, tp_transpose(l->k, -1, -2));
    scores = tp_mul(tp_named(scores, "scores"), tp_num(scores, 1 / sqrt((double)d)));
    if (o->causal) scores = causal_mask(scores, s);
    if (l->in[MASK]) scores = tp_add(scores, l->in[MASK]);
    l->p = tp_named(tp_softmax(scores, -1), "P");
    l->context = tp_named(tp_matmul(l->p, l->v), "P V");
    l->back = tp_transpose(l->context, 1, 2);
    l->dense = tp_named(tp_contiguous(l->back), "merged.contiguous()");
    l->merged = tp_reshape(l->dense, TP_DIMS(b, s, e));
    l->y = tp_named(tp_linear(l->merged, l->in[WO], l->in[BO]), "y");
}

/* ---- Inputs --------------------------------------------------------------------------- */

/* Reproducible values in [-1, 1) times scale. */
static tp_tensor *noise(tp_graph *g, const options *o, int ndim, const int64_t *shape, float scale,
                        uint32_t seed)
{
    size_t count = 1;
    for (int d = 0; d < ndim; d++) count *= (size_t)shape[d];
    float *data = malloc(count * sizeof *data);
    if (!data) {
        fprintf(stderr, "attention: out of memory\n");
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525U + 1013904223U;
        data[i] = scale * ((float)(seed >> 8) * 0x1p-23F - 1.0F);
    }
    tp_tensor *x = tp_from_data(g, TP_F32, ndim, shape, data);
    free(data);
    if (o->dtype == TP_F32) return x;
    x = tp_cast(x, o->dtype);
    return tp_eval(x) == TP_OK ? x : NULL;
}

static bool make_inputs(tp_graph *g, layer *l, const options *o)
{
    float scale = 1.7F / sqrtf((float)o->width);
    for (int i = X; i <= WO; i++) {
        if (i == MASK) continue;
        tp_tensor *x = i == X ? noise(g, o, TP_DIMS(o->batch, o->seq, o->width), 1, 1)
                              : noise(g, o, TP_DIMS(o->width, o->width), scale, (uint32_t)i);
        l->in[i] = tp_named(x, labels[i]);
        if (!x) return false;
    }
    return true;
}

static bool divides(const options *o)
{
    if (o->width % o->heads == 0) return true;
    fprintf(stderr, "attention: width %lld is no multiple of %lld heads\n", (long long)o->width,
            (long long)o->heads);
    return false;
}

static bool load_inputs(tp_graph *g, layer *l, options *o)
{
    for (int i = 0; i < INPUTS; i++) {
        bool needed = i == X || (i >= WQ && i <= WO);
        char path[4096];
        snprintf(path, sizeof path, "%s/%s.npy", o->npy, files[i]);
        FILE *there = fopen(path, "rb");
        if (there) fclose(there);
        if (there || needed) l->in[i] = tp_named(tp_load_npy(g, path), labels[i]);
        if (!l->in[i] && (there || needed)) return false;
    }
    if (tp_ndim(l->in[X]) != 3 || tp_dtype_of(l->in[X]) < TP_F16) {
        fprintf(stderr, "attention: x.npy must be [batch, seq, width] of a float type\n");
        return false;
    }
    o->batch = tp_dim(l->in[X], 0);
    o->seq = tp_dim(l->in[X], 1);
    o->width = tp_dim(l->in[X], 2);
    o->dtype = tp_dtype_of(l->in[X]);
    return divides(o);
}

static bool get_inputs(tp_graph *g, layer *l, options *o)
{
    bool got = o->npy ? load_inputs(g, l, o) : make_inputs(g, l, o);
    if (!got && tp_graph_error(g)->status) die(g, "inputs");
    return got;
}

/* ---- Tables ------------------------------------------------------------------------------ */

/* "[2,3]" or "(3,1)"; count > 0. */
static const char *dims_text(char text[256], const char *brackets, int count, const int64_t *dims)
{
    int used = 0;
    for (int d = 0; d < count; d++)
        used += snprintf(text + used, 256 - (size_t)used, "%c%lld", d ? ',' : brackets[0],
                         (long long)dims[d]);
    snprintf(text + used, 256 - (size_t)used, "%c", brackets[1]);
    return text;
}

/* Where x's bytes come from: asked of the graph and of the plan's ledger. */
static const char *origin(const tp_plan *plan, const tp_tensor *x, char text[128])
{
    if (tp_is_evaluated(x)) return "given";
    if (tp_base(x) != x) return "shared";
    for (int i = 0; i < tp_plan_copy_count(plan); i++) {
        tp_copy c = tp_plan_copy(plan, i);
        if (c.tensor != x) continue;
        snprintf(text, 128, c.kept ? "copied (%s)" : "copied as built, shared as planned (%s)",
                 tp_reason_name(c.reason));
        return text;
    }
    return "computed";
}

static void print_life(const layer *l, const tp_plan *plan)
{
    const struct {
        const char *operation;
        const tp_tensor *x;
    } rows[] = {{"X", l->in[X]},
                {"X @ Wq'", l->projected[0]},
                {"reshape", l->split},
                {"transpose(1, 2)", l->heads},
                {"contiguous()", l->q},
                {"softmax(q @ k' scale)", l->p},
                {"P @ v", l->context},
                {"transpose(1, 2)", l->back},
                {"contiguous()", l->dense},
                {"view", l->merged}};
    printf("The life of the tensor, as written\n"
           "     operation              shape                strides                      offset  "
           "layout      bytes\n");
    for (int i = 0; i < 10; i++) {
        char shape[256], strides[256], text[128];
        tp_view v = tp_view_of(rows[i].x);
        printf("%3d  %-22s %-20s %-28s %6lld  %-10s  %s\n", i + 1, rows[i].operation,
               dims_text(shape, "[]", v.ndim, v.shape), dims_text(strides, "()", v.ndim, v.stride),
               (long long)v.offset, tp_is_contiguous(rows[i].x) ? "contiguous" : "strided",
               origin(plan, rows[i].x, text));
    }
}

static double mib(int64_t bytes)
{
    return (double)bytes / 1048576.0;
}

static void print_ledger(const tp_plan *plan)
{
    tp_plan_summary s = tp_plan_summarize(plan);
    printf("\nThe ledger\n"
           "  as built   %d copies, %.2f MiB\n",
           s.asked_copies, mib(s.asked_copied_bytes));
    printf("  planned    %d copies, %.2f MiB; %d kernels, %d in place; %.2f MiB moved, peak %.2f "
           "MiB beyond the inputs\n",
           s.copies, mib(s.copied_bytes), s.kernels, s.in_place, mib(s.moved_bytes),
           mib(s.peak_bytes));
    for (int i = 0; i < tp_plan_copy_count(plan); i++) {
        tp_copy c = tp_plan_copy(plan, i);
        printf("  %-8s %-20s %8.2f MiB  %-15s %s\n", c.kept ? "kept" : "removed", tp_name(c.tensor),
               mib(c.bytes), tp_reason_name(c.reason), c.note);
    }
}

/* ---- Errors --------------------------------------------------------------------------------- */

/* The layer built anew on the reference backend from the same inputs. */
static double error_against_reference(const layer *l, const options *o)
{
    tp_graph *g = tp_graph_create(NULL);
    layer r = {0};
    double worst = NAN;
    tp_graph_set_backend(g, "ref");
    for (int i = 0; i < INPUTS; i++) {
        if (!l->in[i]) continue;
        tp_view v = tp_view_of(l->in[i]);
        r.in[i] = tp_from_data(g, tp_dtype_of(l->in[i]), v.ndim, v.shape, tp_data(l->in[i]));
    }
    build(&r, o);
    if (tp_eval(r.y) == TP_OK) {
        worst = 0;
        for (int64_t i = 0; i < tp_numel(r.y); i++)
            worst = fmax(worst, fabs(tp_item(r.y, i) - tp_item(l->y, i)));
    } else
        die(g, "reference");
    tp_graph_destroy(g);
    return worst;
}

/* sum_k x[row, k] w[column, k] in f64 against y[row, column]. */
static double projection_error(tp_tensor *x, tp_tensor *w, tp_tensor *y, int64_t row,
                               int64_t column)
{
    int64_t e = tp_dim(x, 2);
    double sum = 0;
    for (int64_t k = 0; k < e; k++) sum += tp_item(x, row * e + k) * tp_item(w, column * e + k);
    return fabs(sum - tp_item(y, row * e + column));
}

/* One element of softmax(q k' scale) v in f64 against merged[row, column]. */
static double attention_error(tp_tensor *const qkv[3], tp_tensor *merged, const options *o,
                              int64_t row, int64_t column, double *score)
{
    int64_t e = o->width, d = e / o->heads, first = row / o->seq * o->seq;
    int64_t count = o->causal ? row - first + 1 : o->seq, head = column / d * d;
    double max = -INFINITY, total = 0, sum = 0;
    for (int64_t j = 0; j < count; j++) {
        score[j] = 0;
        for (int64_t k = head; k < head + d; k++)
            score[j] += tp_item(qkv[0], row * e + k) * tp_item(qkv[1], (first + j) * e + k);
        score[j] /= sqrt((double)d);
        max = fmax(max, score[j]);
    }
    for (int64_t j = 0; j < count; j++) {
        double p = exp(score[j] - max);
        total += p;
        sum += p * tp_item(qkv[2], (first + j) * e + column);
    }
    return fabs(sum / total - tp_item(merged, row * e + column));
}

/* Large layers: 24 elements of every stage, in f64 from the stage before. */
static double sampled_error(layer *l, const options *o)
{
    tp_tensor *stages[] = {l->projected[0], l->projected[1], l->projected[2], l->merged};
    if (tp_eval_all(tp_graph_of(l->y), 4, stages, NULL) != TP_OK) return NAN;
    double worst = 0, *score = malloc((size_t)o->seq * sizeof *score);
    if (!score) return NAN;
    int64_t rows = o->batch * o->seq, d = o->width / o->heads;
    for (int n = 0; n < 24; n++) {
        int64_t row = (n * 7919 + 13) % rows, column = (n * 5 + 1) % o->heads * d + n % d;
        for (int i = 0; i < 3; i++)
            worst = fmax(worst, projection_error(l->in[X], l->in[WQ + i], stages[i], row, column));
        worst = fmax(worst, attention_error(stages, l->merged, o, row, column, score));
        worst = fmax(worst, projection_error(l->merged, l->in[WO], l->y, row, column));
    }
    free(score);
    return worst;
}

/* ---- Times ------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double run_ms(tp_plan *plan)
{
    double start = now_ms();
    return tp_plan_run(plan) == TP_OK ? now_ms() - start : NAN;
}

/* Medians of the two plans, run in turn after one run each to warm up. */
static void time_plans(tp_plan *on, tp_plan *off, int runs, double *on_ms, double *off_ms)
{
    double a[9], b[9];
    for (int i = -1; i < runs; i++) {
        double x = run_ms(on), y = run_ms(off);
        if (i < 0) continue;
        a[i] = x;
        b[i] = y;
    }
    qsort(a, (size_t)runs, sizeof *a, by_value);
    qsort(b, (size_t)runs, sizeof *b, by_value);
    *on_ms = a[runs / 2];
    *off_ms = b[runs / 2];
}

static bool write_text(const char *folder, const char *name, const char *text)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (!file) {
        fprintf(stderr, "attention: cannot write %s\n", path);
        return false;
    }
    bool written = fputs(text, file) >= 0;
    return fclose(file) == 0 && written;
}

static bool write_pictures(tp_graph *g, const layer *l, const tp_plan *plan, const options *o)
{
    tp_tensor *y = l->y;
    size_t asked = (size_t)tp_graph_dot(g, 1, &y, NULL, 0) + 1,
           planned = (size_t)tp_plan_dot(plan, NULL, 0) + 1;
    char *text = malloc(asked + planned);
    if (!text) return false;
    tp_graph_dot(g, 1, &y, text, asked);
    bool written = write_text(o->out, "asked.dot", text);
    tp_plan_dot(plan, text, planned);
    written = write_text(o->out, "planned.dot", text) && written;
    free(text);
    return written;
}

/* ---- Main ------------------------------------------------------------------------------- */

static bool parse_size(const char *text, int64_t *value)
{
    char *end;
    *value = text ? strtoll(text, &end, 10) : 0;
    return text && !*end && *value > 0 && *value < (1 << 20);
}

static bool parse_dtype(const char *text, tp_dtype *dtype)
{
    for (*dtype = TP_F16; *dtype < TP_DTYPE_COUNT; (*dtype)++)
        if (text && strcmp(tp_dtype_name(*dtype), text) == 0) return true;
    return false;
}

/* Takes the option at argv[0] and its value at argv[1] (NULL at the end).
 * Gives how many of the two it took, 0 if it cannot. */
static int parse_option(char **argv, options *o)
{
    const struct {
        const char *name;
        int64_t *value;
    } sizes[] = {
        {"--batch", &o->batch}, {"--seq", &o->seq}, {"--width", &o->width}, {"--heads", &o->heads}};
    for (int i = 0; i < 4; i++)
        if (strcmp(argv[0], sizes[i].name) == 0) return parse_size(argv[1], sizes[i].value) ? 2 : 0;
    if (strcmp(argv[0], "--dtype") == 0) return parse_dtype(argv[1], &o->dtype) ? 2 : 0;
    if (strcmp(argv[0], "--npy") == 0) return (o->npy = argv[1]) ? 2 : 0;
    if (strcmp(argv[0], "--out") == 0) return (o->out = argv[1]) ? 2 : 0;
    if (strcmp(argv[0], "--causal") == 0)
        o->causal = true;
    else if (strcmp(argv[0], "--flagship") == 0) {
        o->flagship = true;
        o->batch = 2;
        o->seq = o->width = 4096;
        o->heads = 32;
    } else
        return 0;
    return 1;
}

static double bound_of(tp_dtype dtype)
{
    return dtype == TP_F64 ? 1e-12 : dtype == TP_F32 ? 2e-5 : dtype == TP_F16 ? 4e-3 : 3e-2;
}

/* The same layer with the passes off, built anew: what is evaluated would be a leaf. schedule and
 * place stay on, so that memory suffices. */
static void print_times(tp_plan *plan, options *o)
{
    tp_graph *g = tp_graph_create(NULL);
    layer l = {0};
    tp_graph_set_pass(g, "all", false);
    tp_graph_set_pass(g, "schedule", true);
    tp_graph_set_pass(g, "place", true);
    if (get_inputs(g, &l, o)) build(&l, o);
    tp_plan *without = l.y ? tp_plan_create(g, 1, &l.y, NULL) : NULL;
    int runs = o->flagship ? 3 : 9;
    double on = NAN, off = NAN;
    if (without) {
        time_plans(plan, without, runs, &on, &off);
        printf("Time %.2f ms; with the passes off (all but schedule and place) %.2f ms: %.2f "
               "times (medians of %d runs in turn)\n",
               on, off, off / on, runs);
    } else
        die(g, "the layer with the passes off");
    tp_plan_release(without);
    tp_graph_destroy(g);
}

/* Against the reference where its plain loops take seconds, else against samples. */
static double print_error(layer *l, const options *o)
{
    double work = 4.0 * (double)(o->batch * o->seq) * (double)(o->width * o->width) +
                  2.0 * (double)(o->batch * o->seq) * (double)(o->seq * o->width);
    bool sample = work > 4e8 && !o->npy;
    double worst = sample ? sampled_error(l, o) : error_against_reference(l, o);
    printf("\nLargest error %.3g, allowed %.3g (%s)\n", worst, bound_of(o->dtype),
           sample ? "24 elements of every stage, in f64: the reference backend would take long"
                  : "all elements, against the reference backend");
    return worst;
}

static bool save_result(const layer *l, const options *o)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/y.npy", o->npy);
    return tp_save_npy(l->y, path) == TP_OK;
}

static int run(tp_graph *g, options *o)
{
    layer l = {0};
    if (!get_inputs(g, &l, o)) return 3;
    build(&l, o);
    tp_plan *plan = l.y ? tp_plan_create(g, 1, &l.y, NULL) : NULL;
    if (!plan) return die(g, "the layer");
    char machine[256];
    tp_describe_backends(machine, sizeof machine);
    printf("attention [%lld,%lld,%lld] %s, %lld heads of %lld%s\n%s\n\n", (long long)o->batch,
           (long long)o->seq, (long long)o->width, tp_dtype_name(o->dtype), (long long)o->heads,
           (long long)(o->width / o->heads), o->causal ? ", causal" : "", machine);
    print_life(&l, plan);
    print_ledger(plan);
    int copies = tp_plan_summarize(plan).copies, result = 3;
    bool written = write_pictures(g, &l, plan, o);
    if (tp_plan_run(plan) != TP_OK)
        die(g, "run");
    else if (o->npy && !save_result(&l, o))
        die(g, "y.npy");
    else {
        bool right = print_error(&l, o) <= bound_of(o->dtype);
        print_times(plan, o);
        printf("\n%d copies%s\n", copies, right ? "" : ", but the error is over its bound");
        result = !written ? 3 : copies == 0 && right ? 0 : 1;
    }
    tp_plan_release(plan);
    return result;
}

int main(int argc, char **argv)
{
    options o = {.batch = 2, .seq = 128, .width = 512, .heads = 8, .dtype = TP_F32, .out = "."};
    for (int i = 1, taken; i < argc; i += taken) {
        if (strcmp(argv[i], "--help") == 0) return fputs(usage, stdout) < 0;
        taken = parse_option(argv + i, &o);
        if (taken) continue;
        fprintf(stderr, "attention: cannot take \"%s%s%s\" (see --help)\n", argv[i],
                argv[i + 1] ? " " : "", argv[i + 1] ? argv[i + 1] : "");
        return 2;
    }
    if (!o.npy && !divides(&o)) return 2;
    tp_graph *graph = tp_graph_create(NULL);
    if (!graph) return 3;
    int result = run(graph, &o);
    tp_graph_destroy(graph);
    return result;
}
