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

/* The layer: nodes of the graph that the tables talk about. */
typedef struct layer {
    tp_tensor *x, *mask;
    tp_tensor *weight[4], *bias[4]; /* q, k, v, out: as nn.Linear keeps them, [out, in] */
    tp_tensor *projected[3];        /* q, k, v: [B, S, E] */
    tp_tensor *split, *heads, *q, *k, *v;
    tp_tensor *p, *context, *back, *dense, *merged, *y;
} layer;

static const char usage[] =
    "usage: attention [--batch N] [--seq N] [--width N] [--heads N] [--causal] [--dtype T]\n"
    "                 [--flagship] [--npy DIR] [--out DIR] [--help]\n"
    "\n"
    "  --batch, --seq, --width, --heads   sizes; 2, 128, 256 and 8 by default\n"
    "  --causal      position i attends to positions <= i\n"
    "  --dtype T     f32 (default), f64, f16 or bf16\n"
    "  --flagship    2 x 4096 x 4096 with 32 heads of 128\n"
    "  --npy DIR     reads x, wq, wk, wv, wo and, where there, bq, bk, bv, bo and mask (.npy) from "
    "DIR,\n"
    "                writes y.npy there; --heads says how to split\n"
    "  --out DIR     where asked.dot and planned.dot go; the current folder by default\n"
    "\n"
    "Exits with 0 when nothing is copied and the numbers are right, 1 when not, 2 for a wrong "
    "call.\n";

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int die(tp_graph *graph, const char *what)
{
    fprintf(stderr, "attention: %s: %s\n", what, tp_graph_error(graph)->text);
    return 1;
}

/* ---- The layer ---------------------------------------------------------------------- */

/* nn.Linear: x W^T + b. */
static tp_tensor *linear(tp_tensor *x, tp_tensor *weight, tp_tensor *bias)
{
    tp_tensor *y = tp_matmul(x, tp_transpose(weight, 0, 1));
    return bias ? tp_add(y, bias) : y;
}

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
    for (int i = 0; i < 3; i++) l->projected[i] = linear(l->x, l->weight[i], l->bias[i]);
    int64_t b = tp_dim(l->x, 0), s = tp_dim(l->x, 1), e = tp_dim(l->x, 2), d = e / o->heads;
    l->split = tp_reshape(l->projected[0], TP_DIMS(b, s, o->heads, d));
    l->heads = tp_transpose(l->split, 1, 2);
    l->q = tp_named(tp_contiguous(l->heads), "q.contiguous()");
    l->k = tp_named(split_heads(l->projected[1], o->heads), "k.contiguous()");
    l->v = tp_named(split_heads(l->projected[2], o->heads), "v.contiguous()");
    tp_tensor *scores = tp_matmul(l->q, tp_transpose(l->k, -1, -2));
    scores = tp_mul(tp_named(scores, "scores"), tp_num(scores, 1 / sqrt((double)d)));
    if (o->causal) scores = causal_mask(scores, s);
    if (l->mask) scores = tp_add(scores, l->mask);
    l->p = tp_named(tp_softmax(scores, -1), "P");
    l->context = tp_named(tp_matmul(l->p, l->v), "P V");
    l->back = tp_transpose(l->context, 1, 2);
    l->dense = tp_named(tp_contiguous(l->back), "merged.contiguous()");
    l->merged = tp_reshape(l->dense, TP_DIMS(b, s, e));
    l->y = tp_named(linear(l->merged, l->weight[3], l->bias[3]), "y");
    for (int i = 0; i < 3; i++)
        tp_named(l->projected[i], i == 0 ? "X Wq'" : i == 1 ? "X Wk'" : "X Wv'");
}

/* ---- Inputs --------------------------------------------------------------------------- */

/* Reproducible values in [-1, 1) times scale. */
static tp_tensor *noise(tp_graph *g, const options *o, int ndim, const int64_t *shape, float scale,
                        uint32_t seed)
{
    size_t count = 1;
    for (int d = 0; d < ndim; d++) count *= (size_t)shape[d];
    float *data = malloc(count * sizeof *data);
    if (!data) return NULL;
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
    static const char *const names[] = {"Wq", "Wk", "Wv", "Wo"};
    l->x = tp_named(noise(g, o, TP_DIMS(o->batch, o->seq, o->width), 1, 1), "X");
    float scale = 1.7F / sqrtf((float)o->width);
    for (int i = 0; i < 4; i++) {
        l->weight[i] =
            tp_named(noise(g, o, TP_DIMS(o->width, o->width), scale, (uint32_t)i + 2), names[i]);
        if (!l->weight[i]) return false;
    }
    return l->x != NULL;
}

static tp_tensor *load(tp_graph *g, const char *folder, const char *name, bool needed)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.npy", folder, name);
    FILE *there = fopen(path, "rb");
    if (!there && !needed) return NULL;
    if (there) fclose(there);
    return tp_named(tp_load_npy(g, path), name);
}

static bool load_inputs(tp_graph *g, layer *l, options *o)
{
    static const char *const weights[] = {"wq", "wk", "wv", "wo"}, *const biases[] = {"bq", "bk",
                                                                                      "bv", "bo"};
    l->x = load(g, o->npy, "x", true);
    l->mask = load(g, o->npy, "mask", false);
    for (int i = 0; i < 4; i++) {
        l->weight[i] = load(g, o->npy, weights[i], true);
        l->bias[i] = load(g, o->npy, biases[i], false);
        if (!l->weight[i]) return false;
    }
    if (!l->x) return false;
    o->batch = tp_dim(l->x, 0);
    o->seq = tp_dim(l->x, 1);
    o->width = tp_dim(l->x, 2);
    o->dtype = tp_dtype_of(l->x);
    return true;
}

/* ---- Tables ------------------------------------------------------------------------------ */

static void print_row(int number, const char *operation, const tp_tensor *x, const char *bytes)
{
    char view[512];
    tp_view v = tp_view_of(x);
    int used = snprintf(view, sizeof view, "[");
    for (int d = 0; d < v.ndim; d++)
        used += snprintf(view + used, sizeof view - (size_t)used, "%s%lld", d ? "," : "",
                         (long long)v.shape[d]);
    int split = used + 1;
    used += snprintf(view + used, sizeof view - (size_t)used, "]") + 1;
    used += snprintf(view + used, sizeof view - (size_t)used, "(");
    for (int d = 0; d < v.ndim; d++)
        used += snprintf(view + used, sizeof view - (size_t)used, "%s%lld", d ? "," : "",
                         (long long)v.stride[d]);
    snprintf(view + used, sizeof view - (size_t)used, ")");
    printf("%3d  %-22s %-20s %-28s %6lld  %-10s  %s\n", number, operation, view, view + split + 1,
           (long long)v.offset, tp_is_contiguous(x) ? "contiguous" : "strided", bytes);
}

static void print_life(const layer *l)
{
    printf("The life of the tensor, as written\n");
    printf("     operation              shape                strides                      offset  "
           "layout      bytes\n");
    print_row(1, "X", l->x, "given");
    print_row(2, "X @ Wq'", l->projected[0], "computed");
    print_row(3, "reshape", l->split, "shared");
    print_row(4, "transpose(1, 2)", l->heads, "shared");
    print_row(5, "contiguous()", l->q, "copied as built, shared as planned");
    print_row(6, "softmax(q @ k' scale)", l->p, "computed");
    print_row(7, "P @ v", l->context, "computed");
    print_row(8, "transpose(1, 2)", l->back, "shared");
    print_row(9, "contiguous()", l->dense, "copied as built, shared as planned");
    print_row(10, "view", l->merged, "shared");
}

static double mib(int64_t bytes)
{
    return (double)bytes / 1048576.0;
}

static void print_ledger(const tp_plan *plan)
{
    tp_plan_summary s = tp_plan_summarize(plan);
    printf("\nThe ledger\n");
    printf("  as built   %d copies, %.2f MiB\n", s.asked_copies, mib(s.asked_copied_bytes));
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
    tp_tensor *const *from = l->weight;
    tp_graph_set_backend(g, "ref");
    const tp_tensor *inputs[] = {l->x,    l->mask,    from[0],    from[1],    from[2],
                                 from[3], l->bias[0], l->bias[1], l->bias[2], l->bias[3]};
    tp_tensor **copies[] = {&r.x,         &r.mask,    &r.weight[0], &r.weight[1], &r.weight[2],
                            &r.weight[3], &r.bias[0], &r.bias[1],   &r.bias[2],   &r.bias[3]};
    for (int i = 0; i < 10; i++) {
        tp_tensor *x = (tp_tensor *)(uintptr_t)inputs[i]; /* only read */
        if (!x) continue;
        tp_view v = tp_view_of(x);
        *copies[i] = tp_from_data(g, tp_dtype_of(x), v.ndim, v.shape, tp_data(x));
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

static double element(tp_tensor *x, int64_t i)
{
    return tp_item(x, i);
}

/* Large layers: sampled elements of every stage in f64 from the stage before. */
static double sampled_error(layer *l, const options *o)
{
    tp_graph *g = tp_graph_of(l->y);
    tp_tensor *stages[] = {l->projected[0], l->projected[1], l->projected[2], l->merged, l->y};
    if (tp_eval_all(g, 5, stages, NULL) != TP_OK) return NAN;
    int64_t s = o->seq, e = o->width, d = e / o->heads;
    double worst = 0, *score = malloc((size_t)s * sizeof *score);
    if (!score) return NAN;
    for (int n = 0; n < 24; n++) {
        int64_t row = (n * 7919 + 13) % (o->batch * s), b = row / s, head = (n * 5 + 1) % o->heads,
                i = row % s;
        int64_t column = head * d + n % d, at = row * e + column;
        tp_tensor *ends[] = {stages[0], stages[1], stages[2], l->y};
        for (int w = 0; w < 4; w++) { /* the four projections */
            double sum = 0;
            for (int64_t k = 0; k < e; k++)
                sum += element(w == 3 ? l->merged : l->x, row * e + k) *
                       element(l->weight[w], column * e + k);
            worst = fmax(worst, fabs(sum - element(ends[w], at)));
        }
        double max = -INFINITY, total = 0, sum = 0;
        int64_t last = o->causal ? i + 1 : s;
        for (int64_t j = 0; j < last; j++) {
            score[j] = 0;
            for (int64_t k = 0; k < d; k++)
                score[j] += element(stages[0], row * e + head * d + k) *
                            element(stages[1], (b * s + j) * e + head * d + k);
            score[j] /= sqrt((double)d);
            max = fmax(max, score[j]);
        }
        for (int64_t j = 0; j < last; j++) {
            double p = exp(score[j] - max);
            total += p;
            sum += p * element(stages[2], (b * s + j) * e + column);
        }
        worst = fmax(worst, fabs(sum / total - element(l->merged, at)));
    }
    free(score);
    return worst;
}

/* ---- Times -------------------------------------------------------------------------------------
 */

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

/* ---- Main
 * ------------------------------------------------------------------------------------------ */

static bool parse_size(const char *text, int64_t *value)
{
    char *end;
    *value = text ? strtoll(text, &end, 10) : 0;
    return text && !*end && *value > 0 && *value < (1 << 20);
}

static int parse_options(int argc, char **argv, options *o)
{
    struct {
        const char *name;
        int64_t *value;
    } sizes[] = {
        {"--batch", &o->batch}, {"--seq", &o->seq}, {"--width", &o->width}, {"--heads", &o->heads}};
    for (int i = 1; i < argc; i++) {
        bool taken = false;
        for (int s = 0; s < 4; s++) {
            if (strcmp(argv[i], sizes[s].name) != 0) continue;
            if (!parse_size(argv[++i], sizes[s].value)) return 2;
            taken = true;
            break;
        }
        if (taken) continue;
        if (strcmp(argv[i], "--help") == 0) return -1;
        if (strcmp(argv[i], "--causal") == 0)
            o->causal = true;
        else if (strcmp(argv[i], "--flagship") == 0) {
            o->flagship = true;
            o->batch = 2;
            o->seq = o->width = 4096;
            o->heads = 32;
        } else if (strcmp(argv[i], "--npy") == 0 && argv[i + 1])
            o->npy = argv[++i];
        else if (strcmp(argv[i], "--out") == 0 && argv[i + 1])
            o->out = argv[++i];
        else if (strcmp(argv[i], "--dtype") == 0 && argv[i + 1]) {
            i++;
            for (o->dtype = TP_F16;
                 o->dtype < TP_DTYPE_COUNT && strcmp(tp_dtype_name(o->dtype), argv[i]) != 0;)
                o->dtype++;
            if (o->dtype == TP_DTYPE_COUNT) return 2;
        } else
            return 2;
    }
    return 0;
}

static double bound_of(tp_dtype dtype)
{
    return dtype == TP_F64 ? 1e-12 : dtype == TP_F32 ? 2e-5 : dtype == TP_F16 ? 1e-2 : 8e-2;
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
    bool have = o->npy ? load_inputs(g, &l, o) : make_inputs(g, &l, o);
    if (have) build(&l, o);
    tp_plan *without = tp_plan_create(g, 1, &l.y, NULL);
    double on = NAN, off = NAN;
    if (without) time_plans(plan, without, o->flagship ? 3 : 9, &on, &off);
    printf("Time %.2f ms; with the passes off (all but schedule and place) %.2f ms: %.2f times\n",
           on, off, off / on);
    tp_plan_release(without);
    tp_graph_destroy(g);
}

static int run(tp_graph *g, options *o)
{
    layer l = {0};
    bool have = o->npy ? load_inputs(g, &l, o) : make_inputs(g, &l, o);
    if (!have) return die(g, "inputs");
    if (o->width % o->heads) {
        fprintf(stderr, "attention: width %lld is no multiple of %lld heads\n", (long long)o->width,
                (long long)o->heads);
        return 2;
    }
    build(&l, o);
    if (!l.y) return die(g, "build");
    char machine[256];
    tp_describe_backends(machine, sizeof machine);
    printf("attention [%lld,%lld,%lld] %s, %lld heads of %lld%s\n%s\n\n", (long long)o->batch,
           (long long)o->seq, (long long)o->width, tp_dtype_name(o->dtype), (long long)o->heads,
           (long long)(o->width / o->heads), o->causal ? ", causal" : "", machine);
    print_life(&l);
    tp_plan *plan = tp_plan_create(g, 1, &l.y, NULL);
    if (!plan) return die(g, "plan");
    print_ledger(plan);
    bool written = write_pictures(g, &l, plan, o);
    int copies = tp_plan_summarize(plan).copies;
    if (tp_plan_run(plan) != TP_OK) return die(g, "run");
    /* The products multiply-added once more by plain loops take minutes beyond some size. */
    double work = 4.0 * (double)(o->batch * o->seq) * (double)(o->width * o->width) +
                  2.0 * (double)(o->batch * o->seq * o->seq * o->width);
    bool sample = work > 4e8 && !o->npy;
    double worst = sample ? sampled_error(&l, o) : error_against_reference(&l, o),
           bound = bound_of(o->dtype);
    printf("\nLargest error %.3g, allowed %.3g (%s)\n", worst, bound,
           sample ? "sampled elements of every stage in f64" : "all elements, reference backend");
    if (o->npy) {
        char path[4096];
        snprintf(path, sizeof path, "%s/y.npy", o->npy);
        if (tp_save_npy(l.y, path) != TP_OK) return die(g, "y.npy");
    }
    print_times(plan, o);
    tp_plan_release(plan);
    printf("\n%d copies\n", copies);
    return copies == 0 && worst <= bound && written ? 0 : 1;
}

int main(int argc, char **argv)
{
    options o = {.batch = 2, .seq = 128, .width = 256, .heads = 8, .dtype = TP_F32, .out = "."};
    int wrong = parse_options(argc, argv, &o);
    if (wrong) {
        fputs(usage, wrong < 0 ? stdout : stderr);
        return wrong < 0 ? 0 : 2;
    }
    tp_graph *graph = tp_graph_create(NULL);
    if (!graph) return 1;
    int result = run(graph, &o);
    tp_graph_destroy(graph);
    return result;
}
