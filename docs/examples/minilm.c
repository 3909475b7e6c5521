/* The sentence encoder all-MiniLM-L6-v2, all six layers in one graph, the way it is written in
 * PyTorch, contiguous() calls included: from token ids to one unit vector for each sentence.
 * tools/minilm writes the inputs, runs this and compares with NumPy.
 *
 * As built it asks for five copies a layer. The plan has none: the products read q, k' and v where
 * the projections left them, and P V stores its heads side by side. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tensorplay/tensorplay.h"

/* What the model's config.json says; all else follows from the shapes of the weights. */
enum { LAYERS = 6, HEADS = 12 };
static const double norm_eps = 1e-12;

enum { RUNS = 9 };

/* Where weights come from: FOLDER/<module><name>.npy, names as in PyTorch's state_dict. */
typedef struct source {
    tp_graph *graph;
    const char *folder;
    char module[64];
} source;

static const char usage[] =
    "usage: minilm FOLDER [--help]\n"
    "\n"
    "Encodes sentences with all-MiniLM-L6-v2. Reads from FOLDER\n"
    "  ids.npy    i32 or i64 [batch, seq], the tokens of each sentence, padded\n"
    "  mask.npy   the same shape and types, 1 for a token and 0 for padding\n"
    "  embeddings.*.npy, encoder.layer.*.npy   the weights, named as in the state_dict\n"
    "and writes embeddings.npy, f32 [batch, width], there. tools/minilm makes such a folder.\n"
    "\n"
    "Exit codes: 0 nothing is copied, 1 copies are left, 2 a wrong call, 3 it could not be run.\n";

/* ---- The model ---------------------------------------------------------------------- */

static tp_tensor *load(const source *from, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%s.npy", from->folder, from->module, name);
    return tp_load_npy(from->graph, path);
}

static tp_tensor *load_part(const source *from, const char *name, const char *part)
{
    char full[128];
    snprintf(full, sizeof full, "%s.%s", name, part);
    return load(from, full);
}

static tp_tensor *linear(const source *from, tp_tensor *x, const char *name)
{
    tp_tensor *weight = load_part(from, name, "weight"), *bias = load_part(from, name, "bias");
    return tp_linear(x, weight, bias);
}

static tp_tensor *layer_norm(const source *from, tp_tensor *x, const char *name)
{
    tp_tensor *weight = load_part(from, name, "weight"), *bias = load_part(from, name, "bias");
    return tp_layer_norm(x, 1, weight, bias, norm_eps);
}

/* x.contiguous(), named in the ledger by its layer. */
static tp_tensor *dense(const source *from, tp_tensor *x, const char *what)
{
    char name[128];
    snprintf(name, sizeof name, "%s%s", from->module, what);
    return tp_named(tp_contiguous(x), name);
}

/* [batch, seq, width] as [batch, heads, seq, depth]. */
static tp_tensor *split_heads(tp_tensor *x)
{
    x = tp_reshape(x, TP_DIMS(tp_dim(x, 0), tp_dim(x, 1), HEADS, -1));
    return tp_transpose(x, 1, 2);
}

/* Words, their positions and the type of the (only) sentence. */
static tp_tensor *embed(source *from, tp_tensor *ids)
{
    int64_t batch = tp_dim(ids, 0), seq = tp_dim(ids, 1);
    snprintf(from->module, sizeof from->module, "embeddings.");
    tp_tensor *words = load(from, "word_embeddings.weight"),
              *positions = load(from, "position_embeddings.weight"),
              *types = load(from, "token_type_embeddings.weight");
    tp_tensor *x = tp_index_select(words, 0, tp_reshape(ids, TP_DIMS(-1)));
    x = tp_reshape(x, TP_DIMS(batch, seq, -1));
    x = tp_add(x, tp_select(types, 0, 0));
    x = tp_add(x, tp_slice(positions, 0, 0, seq, 1));
    return layer_norm(from, x, "LayerNorm");
}

static tp_tensor *attention(const source *from, tp_tensor *x, tp_tensor *bias)
{
    tp_tensor *q = dense(from, split_heads(linear(from, x, "attention.self.query")), "q"),
              *k = dense(from, split_heads(linear(from, x, "attention.self.key")), "k"),
              *v = dense(from, split_heads(linear(from, x, "attention.self.value")), "v");
    tp_tensor *scores = tp_matmul(q, dense(from, tp_transpose(k, -1, -2), "k'"));
    scores = tp_div(scores, tp_num(scores, sqrt((double)tp_dim(q, -1))));
    tp_tensor *p = tp_softmax(tp_add(scores, bias), -1);
    tp_tensor *context = tp_transpose(tp_matmul(p, v), 1, 2);
    tp_tensor *merged = tp_reshape(dense(from, context, "merged"),
                                   TP_DIMS(tp_dim(x, 0), tp_dim(x, 1), tp_dim(x, 2)));
    return linear(from, merged, "attention.output.dense");
}

static tp_tensor *layer(source *from, int i, tp_tensor *x, tp_tensor *bias)
{
    snprintf(from->module, sizeof from->module, "encoder.layer.%d.", i);
    x = layer_norm(from, tp_add(x, attention(from, x, bias)), "attention.output.LayerNorm");
    tp_tensor *inner = tp_gelu(linear(from, x, "intermediate.dense"));
    return layer_norm(from, tp_add(x, linear(from, inner, "output.dense")), "output.LayerNorm");
}

/* The mean over each sentence's tokens, of length 1. mask: f32 [batch, seq]. */
static tp_tensor *pool(tp_tensor *x, tp_tensor *mask)
{
    tp_tensor *weight = tp_unsqueeze(mask, -1);
    tp_tensor *sum = tp_sum(tp_mul(x, weight), TP_DIMS(1), false),
              *count = tp_sum(weight, TP_DIMS(1), false);
    tp_tensor *mean = tp_div(sum, tp_maximum(count, tp_num(count, 1e-9)));
    tp_tensor *length = tp_norm(mean, TP_DIMS(-1), 2, true);
    return tp_div(mean, tp_maximum(length, tp_num(length, 1e-12)));
}

static tp_tensor *encode(source *from, tp_tensor *ids, tp_tensor *mask)
{
    mask = tp_cast(mask, TP_F32);
    /* 0 where there is a token, -1e9 where there is none: [batch, 1, 1, seq]. */
    tp_tensor *padding = tp_sub(tp_num(mask, 1), tp_unsqueeze(tp_unsqueeze(mask, 1), 1));
    tp_tensor *bias = tp_mul(padding, tp_num(padding, -1e9)), *x = embed(from, ids);
    for (int i = 0; i < LAYERS; i++) x = layer(from, i, x, bias);
    return pool(x, mask);
}

/* ---- What is printed --------------------------------------------------------------------- */

static double mib(int64_t bytes)
{
    return (double)bytes / 1048576.0;
}

static void print_ledger(const tp_plan *plan)
{
    tp_plan_summary s = tp_plan_summarize(plan);
    printf("The ledger\n"
           "  as built   %d copies, %.2f MiB\n"
           "  planned    %d copies, %.2f MiB\n",
           s.asked_copies, mib(s.asked_copied_bytes), s.copies, mib(s.copied_bytes));
    for (int i = 0; i < tp_plan_copy_count(plan); i++) {
        tp_copy c = tp_plan_copy(plan, i);
        printf("  %-8s %-22s %7.2f MiB  %-15s %s\n", c.kept ? "kept" : "removed", tp_name(c.tensor),
               mib(c.bytes), tp_reason_name(c.reason), c.note);
    }
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Times of runs of a plan that has run before, the fastest first. */
static void time_runs(tp_plan *plan, double times[RUNS])
{
    for (int i = 0; i < RUNS; i++) {
        double start = now_ms();
        times[i] = tp_plan_run(plan) == TP_OK ? now_ms() - start : NAN;
    }
    qsort(times, RUNS, sizeof *times, by_value);
}

static void print_cost(tp_plan *plan, tp_context *context)
{
    tp_plan_summary s = tp_plan_summarize(plan);
    double times[RUNS];
    char machine[256];
    time_runs(plan, times);
    tp_describe_backends(machine, sizeof machine);
    printf("\nThe run\n"
           "  %d kernels, %d in place; %.1f Mflop in products; %.2f MiB moved\n"
           "  memory     peak %.2f MiB beyond the inputs; %.2f MiB with them\n"
           "  time       %.2f ms, the fastest of %d runs; median %.2f ms\n"
           "  %s\n",
           s.kernels, s.in_place, (double)s.flops * 1e-6, mib(s.moved_bytes), mib(s.peak_bytes),
           mib((int64_t)tp_context_memory(context).peak_bytes), times[0], RUNS, times[RUNS / 2],
           machine);
}

/* ---- Main ------------------------------------------------------------------------------- */

static int die(const char *why)
{
    fprintf(stderr, "minilm: %s\n", *why ? why : "out of memory");
    return 3;
}

static bool is_table_of_ints(const tp_tensor *x)
{
    tp_dtype dtype = tp_dtype_of(x);
    return tp_ndim(x) == 2 && (dtype == TP_I32 || dtype == TP_I64);
}

static int run(source *from, tp_context *context)
{
    tp_tensor *ids = load(from, "ids"), *mask = load(from, "mask");
    if (!ids || !mask) return die(tp_graph_error(from->graph)->text);
    if (!is_table_of_ints(ids) || !is_table_of_ints(mask) || tp_dim(ids, 0) != tp_dim(mask, 0) ||
        tp_dim(ids, 1) != tp_dim(mask, 1))
        return die("ids and mask must be i32 or i64 of one shape [batch, seq]");

    tp_tensor *y = encode(from, ids, mask);
    tp_plan *plan = y ? tp_plan_create(from->graph, 1, &y, NULL) : NULL;
    if (!plan) return die(tp_graph_error(from->graph)->text);
    printf("minilm [%lld,%lld]\n\n", (long long)tp_dim(ids, 0), (long long)tp_dim(ids, 1));
    print_ledger(plan);

    char path[4096];
    snprintf(path, sizeof path, "%s/embeddings.npy", from->folder);
    int copies = tp_plan_summarize(plan).copies, result = copies ? 1 : 0;
    if (tp_plan_run(plan) != TP_OK || tp_save_npy(y, path) != TP_OK)
        result = die(tp_graph_error(from->graph)->text);
    else
        print_cost(plan, context);
    tp_plan_release(plan);
    return result;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--help") == 0) return fputs(usage, stdout) < 0;
    if (argc != 2 || argv[1][0] == '-') {
        fprintf(stderr, "minilm: one folder is needed (see --help)\n");
        return 2;
    }
    tp_context *context = tp_context_create(NULL);
    source from = {.graph = context ? tp_graph_create(context) : NULL, .folder = argv[1]};
    int result = from.graph ? run(&from, context) : die("");
    tp_graph_destroy(from.graph);
    tp_context_release(context);
    return result;
}
