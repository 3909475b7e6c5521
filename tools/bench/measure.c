/* How a row is measured. Ours and the other alternate, and who goes first alternates too; each
 * sample follows a call that is not timed, so caches hold what they can.
 *
 * With one thread the figure is the median of the ratios of neighbours, by the thread's own clock:
 * what slows the machine for longer than a sample hits both. With several, a thread that other
 * programs keep from its core holds up all of them, and most samples may be spoilt; so the figure
 * is the ratio of the 10 % quantiles of the times, and its spread that of four interleaved quarters
 * of the samples. */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* A sample lasts at least so long, by repetition; with several threads it is short, so that some
 * are not disturbed. */
#define SAMPLE_SECONDS 200e-6
#define THREADED_SAMPLE_SECONDS 30e-6
/* A call that takes longer than this does not need the one before the sample: its own work is
 * larger than what a cache holds. */
#define WARM_SECONDS 2e-3
#define MOST_ROUNDS 601
#define FEWEST_ROUNDS 7
#define QUARTERS 4
/* The median counts as settled when its standard error falls below this share of it; the ratio of
 * fast samples when its spread does below three times this. */
#define SETTLED 0.01

static double read_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

/* On one thread its own time: what other programs take of the core does not count. */
static double sample(const bench *b, bench_call call, int64_t repeats)
{
    clockid_t clock = b->threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    b->plain->clean_registers();
    if (repeats > 1) call.run(call.arg);
    double start = read_clock(clock);
    for (int64_t i = 0; i < repeats; i++) call.run(call.arg);
    return (read_clock(clock) - start) / (double)repeats;
}

/* Calls of a sample. */
static int64_t repeats_of(const bench *b, bench_call call)
{
    call.run(call.arg);
    double least = sample(b, call, 1);
    for (int i = 0; i < 3 && (least < WARM_SECONDS || b->threads > 1); i++) {
        double again = sample(b, call, 1);
        least = again < least ? again : least;
    }
    if (least >= WARM_SECONDS) return 1;
    double wanted = b->threads > 1 ? THREADED_SAMPLE_SECONDS : SAMPLE_SECONDS;
    double repeats = ceil(wanted / (least + 1e-9));
    return repeats < 2 ? 2 : (int64_t)repeats;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of n sorted numbers. */
static double quantile(const double *sorted, int n, double q)
{
    double at = q * (n - 1);
    int low = (int)at, high = low + 1 < n ? low + 1 : low;
    return sorted[low] + (at - low) * (sorted[high] - sorted[low]);
}

static bool settled(const double *values, int n)
{
    double sorted[MOST_ROUNDS];
    if (n < FEWEST_ROUNDS) return false;
    memcpy(sorted, values, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    double width = quantile(sorted, n, 0.75) - quantile(sorted, n, 0.25);
    return width / sqrt(n) < SETTLED * quantile(sorted, n, 0.5);
}

/* The 10 % quantile of every step-th value. */
static double fast(const double *values, int n, int first, int step)
{
    double sorted[MOST_ROUNDS];
    int count = 0;
    for (int i = first; i < n; i += step) sorted[count++] = values[i];
    qsort(sorted, (size_t)count, sizeof *sorted, by_value);
    return quantile(sorted, count, 0.1);
}

/* Ratios of the fast samples: of all, the least and the largest of the quarters. */
static void fast_ratio(const double *ours, const double *other, int n, bench_result *r)
{
    r->value = r->low = r->high = fast(other, n, 0, 1) / fast(ours, n, 0, 1);
    for (int q = 0; q < QUARTERS && n >= QUARTERS; q++) {
        double ratio = fast(other, n, q, QUARTERS) / fast(ours, n, q, QUARTERS);
        r->low = ratio < r->low ? ratio : r->low;
        r->high = ratio > r->high ? ratio : r->high;
    }
}

static bool fast_settled(const double *ours, const double *other, int n)
{
    bench_result r;
    if (n < QUARTERS * FEWEST_ROUNDS || n % QUARTERS) return false;
    fast_ratio(ours, other, n, &r);
    return r.high - r.low < 3 * SETTLED * r.value;
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return quantile(values, n, 0.5);
}

static void keep(bench_result *result, double *values, int n)
{
    result->value = median(values, n);
    result->low = quantile(values, n, 0.1);
    result->high = quantile(values, n, 0.9);
    result->rounds = n;
}

/* Whether the row was run for a profiler. */
static bool spun(bench *b, bench_call ours)
{
    double start = now();
    if (b->spin <= 0) return false;
    while (now() - start < b->spin) ours.run(ours.arg);
    bench_end(b, BENCH_NOT_HERE, "run for a profiler");
    return true;
}

void bench_compare(bench *b, bench_call ours, bench_call other)
{
    double ratio[MOST_ROUNDS], time[2][MOST_ROUNDS], start = now();
    bench_call call[2] = {ours, other};
    if (!ours.run || !other.run || spun(b, ours)) return;
    int64_t repeats[2] = {repeats_of(b, ours), repeats_of(b, other)};
    int n = 0;
    bool wall = b->threads > 1;
    /* Three rounds at least, also for what takes long. */
    while (n < MOST_ROUNDS && (n < 3 || now() - start < b->seconds) &&
           !(wall ? fast_settled(time[0], time[1], n) : settled(ratio, n))) {
        for (int k = 0; k < 2; k++) {
            int who = (n + k) % 2;
            time[who][n] = sample(b, call[who], repeats[who]);
        }
        ratio[n] = time[1][n] / time[0][n];
        n++;
    }
    keep(b->result, ratio, n);
    if (wall) fast_ratio(time[0], time[1], n, b->result);
    b->result->ours_seconds = wall ? fast(time[0], n, 0, 1) : median(time[0], n);
    b->result->against_seconds = wall ? fast(time[1], n, 0, 1) : median(time[1], n);
}

void bench_time(bench *b, bench_call ours, double parts)
{
    double time[MOST_ROUNDS], start = now();
    if (!ours.run || spun(b, ours)) return;
    int64_t repeats = repeats_of(b, ours);
    int n = 0;
    while (n < MOST_ROUNDS && (n < 3 || now() - start < b->seconds) && !settled(time, n))
        time[n++] = sample(b, ours, repeats) / parts * 1e9;
    keep(b->result, time, n);
    b->result->ours_seconds = b->result->value * parts * 1e-9;
}

void bench_tell(bench *b, double value)
{
    keep(b->result, &value, 1);
}

bool bench_has_cores(bench *b)
{
    if (b->cores < 2) bench_end(b, BENCH_NOT_HERE, "one core");
    return b->cores >= 2;
}

double bench_seconds(const bench *b, bench_call call)
{
    int64_t repeats = repeats_of(b, call);
    double least = sample(b, call, repeats);
    int samples = b->threads > 1 ? 24 : 8;
    for (int i = 0; i < samples; i++) {
        double again = sample(b, call, repeats);
        least = again < least ? again : least;
    }
    return least;
}

/* ---- What a row makes -------------------------------------------------------------------- */

void bench_end(bench *b, bench_outcome outcome, const char *why)
{
    if (b->result->outcome != BENCH_MEASURED) return; /* the first reason stands */
    b->result->outcome = outcome;
    snprintf(b->result->note, sizeof b->result->note, "%.250s", why);
}

void *bench_bytes(bench *b, int slot, size_t size_bytes)
{
    const size_t huge = (size_t)2 << 20;
    if (size_bytes > b->slot_bytes[slot]) {
        size_t rounded = (size_bytes + huge - 1) / huge * huge;
        free(b->slot[slot]);
        b->slot[slot] = aligned_alloc(huge, rounded);
        b->slot_bytes[slot] = b->slot[slot] ? rounded : 0;
        if (!b->slot[slot]) {
            bench_end(b, BENCH_LACKING, "memory is out");
            return NULL;
        }
#ifdef MADV_HUGEPAGE
        (void)madvise(b->slot[slot], rounded, MADV_HUGEPAGE);
#endif
        memset(b->slot[slot], 0, rounded);
    }
    return b->slot[slot];
}

void bench_free_slots(bench *b)
{
    for (int i = 0; i < BENCH_SLOTS; i++) free(b->slot[i]);
}

float *bench_floats(bench *b, int slot, int64_t n, float low, float high)
{
    float *data = bench_bytes(b, slot, (size_t)n * sizeof *data);
    uint32_t state = 12345U + (uint32_t)slot;
    for (int64_t i = 0; data && i < n; i++) {
        state = state * 1664525U + 1013904223U;
        data[i] = low + (high - low) * ((float)(state >> 8) * 0x1p-24F);
    }
    return data;
}

/* Memory as a program without a pool gets it, counted. */
static void *plain_alloc(void *user, size_t size_bytes)
{
    bench *b = user;
    void *memory = aligned_alloc(64, (size_bytes + 63) / 64 * 64);
    if (!memory) return NULL;
    size_t live = __atomic_add_fetch(&b->live_bytes, size_bytes, __ATOMIC_RELAXED),
           peak = __atomic_load_n(&b->peak_bytes, __ATOMIC_RELAXED);
    while (live > peak && !__atomic_compare_exchange_n(&b->peak_bytes, &peak, live, false,
                                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return memory;
}

static void plain_release(void *user, void *memory, size_t size_bytes)
{
    bench *b = user;
    __atomic_sub_fetch(&b->live_bytes, size_bytes, __ATOMIC_RELAXED);
    free(memory);
}

static tp_graph *graph_in(bench *b, int which)
{
    if (!b->context[which]) {
        tp_context_options options = {.threads = which == BENCH_SERIAL ? 1 : b->threads};
        if (which == BENCH_NO_POOL) {
            options.allocator = (tp_allocator){plain_alloc, plain_release, b};
            options.pool_limit_bytes = 1;
        }
        b->context[which] = tp_context_create(&options);
    }
    tp_graph *g =
        b->context[which] && b->graphs < BENCH_PLANS ? tp_graph_create(b->context[which]) : NULL;
    if (g)
        b->graph[b->graphs++] = g;
    else
        bench_end(b, BENCH_LACKING, "memory is out");
    return g;
}

tp_graph *bench_graph(bench *b)
{
    return graph_in(b, BENCH_NORMAL);
}

tp_graph *bench_serial_graph(bench *b)
{
    return graph_in(b, BENCH_SERIAL);
}

tp_graph *bench_unpooled_graph(bench *b)
{
    return graph_in(b, BENCH_NO_POOL);
}

tp_tensor *bench_leaf(tp_graph *g, tp_dtype dtype, int ndim, const int64_t *shape, void *data)
{
    size_t size_bytes = tp_dtype_size(dtype);
    if (!g || !data) return NULL;
    for (int d = 0; d < ndim; d++) size_bytes *= (size_t)shape[d];
    return tp_wrap(g, dtype, ndim, shape, NULL, 0, data, size_bytes, NULL, NULL);
}

tp_tensor *bench_given(bench *b, tp_tensor *x)
{
    if (x && tp_eval(x) == TP_OK) return x;
    bench_end(b, BENCH_FAILED, x ? tp_graph_error(tp_graph_of(x))->text : "no operand");
    return NULL;
}

static void run_plan(void *plan)
{
    tp_plan_run(plan);
}

bench_call bench_eval_all(bench *b, int count, tp_tensor *const *outputs)
{
    tp_graph *g = b->graphs ? b->graph[b->graphs - 1] : NULL;
    for (int i = 0; i < count; i++) g = outputs[i] ? tp_graph_of(outputs[i]) : g;
    tp_plan *plan = g && b->plans < BENCH_PLANS ? tp_plan_create(g, count, outputs, NULL) : NULL;
    if (plan) b->plan[b->plans++] = plan;
    if (plan && tp_plan_run(plan) == TP_OK) return (bench_call){run_plan, plan};
    const tp_error *error = g ? tp_graph_error(g) : NULL;
    bench_end(b, BENCH_FAILED, error && error->status ? error->text : "no plan");
    return (bench_call){0};
}

bench_call bench_eval(bench *b, tp_tensor *y)
{
    return bench_eval_all(b, 1, &y);
}

static void run_part(const bench_loop_call *l, int64_t begin, int64_t end, int64_t part)
{
    /* A sum's result: a cache line for each thread. */
    int64_t y = l->size_y ? begin * l->size_y : part * 64;
    l->loop(end - begin, (const char *)l->a + begin * l->size_a,
            (const char *)l->b + begin * l->size_b, (const char *)l->c + begin * l->size_c,
            (char *)l->y + y);
}

static void run_loop(void *arg)
{
    const bench_loop_call *l = arg;
    if (l->threads == 1) {
        run_part(l, 0, l->n, 0);
        return;
    }
    int64_t units = l->n / l->grain;
#pragma omp parallel for schedule(static) num_threads(l->threads)
    for (int64_t t = 0; t < l->threads; t++) {
        int64_t begin = units * t / l->threads * l->grain,
                end = t + 1 == l->threads ? l->n : units * (t + 1) / l->threads * l->grain;
        run_part(l, begin, end, t);
    }
}

bench_call bench_run_loop(bench_loop_call *call)
{
    /* Walked operands that are not there: any address does, nothing is read from it. */
    if (!call->a) call->a = call->y;
    if (!call->b) call->b = call->y;
    if (!call->c) call->c = call->y;
    if (!call->grain) call->grain = 64;
    return call->y ? (bench_call){run_loop, call} : (bench_call){0};
}

void bench_check(bench *b, tp_tensor *y, const float *expected, int64_t n)
{
    double worst = 0, largest = 0;
    if (b->result->outcome != BENCH_MEASURED) return;
    for (int64_t i = 0; i < n; i += 1 + n / 10007) {
        double difference = fabs(tp_item(y, i) - (double)expected[i]);
        worst = difference <= worst ? worst : difference; /* NaN comes through */
        largest = fmax(largest, fabs((double)expected[i]));
    }
    if (!(worst <= 1e-3 * largest))
        snprintf(b->result->note, sizeof b->result->note,
                 "results differ by %.2g, the largest number is %.2g", worst, largest);
}

void bench_measure(bench *b, const bench_row *row, bench_result *result)
{
    int threads = b->threads;
    if (row->flags & BENCH_ALL_CORES) b->threads = b->cores;
    *result = (bench_result){.threads = b->threads};
    b->result = result;
    double seconds = b->seconds;
    if (b->threads > 1) b->seconds *= 2;
    row->measure(b, row);
    for (int i = 0; i < b->plans; i++) tp_plan_release(b->plan[i]);
    for (int i = 0; i < b->graphs; i++) tp_graph_destroy(b->graph[i]);
    for (int i = 0; i < BENCH_CONTEXTS; i++) {
        tp_context_release(b->context[i]);
        b->context[i] = NULL;
    }
    b->plans = b->graphs = 0;
    b->threads = threads;
    b->seconds = seconds;
}
