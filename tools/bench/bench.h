/* The bench: rows, what a row may ask for, and what becomes of it.
 *
 * A row compares two ways to do one piece of work, ours and another, in one process and in turn:
 * the ratio of the two times says more than either on a machine that others use too. To add one,
 * add an entry to a table of rows_*.c; its function sets up both and calls bench_compare.
 * Everything it makes with the functions below goes away by itself when the row ends. */
#ifndef BENCH_H
#define BENCH_H

#include "tensorplay/tensorplay.h"

#include "blas.h"
#include "plain.h"

typedef struct bench bench;
typedef struct bench_row bench_row;

enum {
    BENCH_LONG = 1,     /* not in a quick run */
    BENCH_AT_MOST = 2,  /* no ratio: a figure that must not exceed the goal, in `against` */
    BENCH_ALL_CORES = 4 /* on all cores whatever --threads says */
};

struct bench_row {
    const char *name;           /* topic/work/size, what --rows matches */
    const char *ours, *against; /* what is compared with what */
    double goal; /* ratio to reach, or ns not to exceed; 0: the figure is just told */
    void (*measure)(bench *b, const bench_row *row);
    int64_t size[4];  /* of the work, as measure takes them */
    const void *with; /* whatever else measure takes */
    unsigned flags;
};

/* An entry of a table, the sizes last. */
#define BENCH_ENTRY(name, ours, against, goal, measure, with, flags, ...)                          \
    {                                                                                              \
        name, ours, against, goal, measure, {__VA_ARGS__}, with, flags                             \
    }

/* Tables of rows, each ended by a row without a name. */
extern const bench_row bench_rows_fused[], bench_rows_math[], bench_rows_gemm[], bench_rows_move[],
    bench_rows_reduce[], bench_rows_threads[], bench_rows_graph[], bench_rows_attention[];

typedef enum bench_outcome {
    BENCH_MEASURED,
    BENCH_NOT_HERE, /* the machine cannot: no such instructions, one core */
    BENCH_LACKING,  /* something is not installed or memory is out */
    BENCH_FAILED    /* the library refused; the note has its sentence */
} bench_outcome;

typedef struct bench_result {
    bench_outcome outcome;
    double value, low, high; /* the figure and its spread */
    double ours_seconds, against_seconds;
    int rounds, threads;
    char note[256];
} bench_result;

/* Contexts: with the row's threads; with one; with memory from malloc each time. */
enum { BENCH_NORMAL, BENCH_SERIAL, BENCH_NO_POOL, BENCH_CONTEXTS };

#define BENCH_SLOTS 8
#define BENCH_PLANS 8

struct bench {
    int threads; /* of the current row */
    int cores;
    double seconds; /* a row stops here, however wide its spread */
    double spin;    /* > 0: only ours runs, so many seconds, for a profiler */
    const bench_plain *plain;
    const bench_blas *blas; /* NULL: none to be had */
    bench_result *result;   /* of the current row */
    /* What the row has made. */
    tp_context *context[BENCH_CONTEXTS];
    size_t live_bytes, peak_bytes; /* of the context without a pool */
    tp_graph *graph[BENCH_PLANS];
    tp_plan *plan[BENCH_PLANS];
    int graphs, plans;
    /* Memory of rows past and present: kept, so that it is touched once. */
    void *slot[BENCH_SLOTS];
    size_t slot_bytes[BENCH_SLOTS];
};

/* Work to be timed. run NULL: there is none, the outcome says why. */
typedef struct bench_call {
    void (*run)(void *arg);
    void *arg;
} bench_call;

/* ---- For rows ------------------------------------------------------------------------- */

/* size_bytes in a slot, aligned to 2 MiB and touched; NULL, with the outcome set, when memory is
 * out. What the slot held is gone. */
void *bench_bytes(bench *b, int slot, size_t size_bytes);
/* n floats between low and high, the same in every run. */
float *bench_floats(bench *b, int slot, int64_t n, float low, float high);
/* A graph with the row's threads; with one; one whose memory comes from malloc each time. */
tp_graph *bench_graph(bench *b);
tp_graph *bench_serial_graph(bench *b);
tp_graph *bench_unpooled_graph(bench *b);
/* A leaf over data, dense. */
tp_tensor *bench_leaf(tp_graph *g, tp_dtype dtype, int ndim, const int64_t *shape, void *data);
/* x, evaluated: its values are given from then on. */
tp_tensor *bench_given(bench *b, tp_tensor *x);
/* Runs the plan of y, or of several outputs: what a tp_eval does when the plan is known. */
bench_call bench_eval(bench *b, tp_tensor *y);
bench_call bench_eval_all(bench *b, int count, tp_tensor *const *outputs);

/* A plain loop over n elements, cut among threads. Sizes of elements in bytes; 0 for an operand
 * that is not walked. grain: parts are multiples of it. */
typedef struct bench_loop_call {
    bench_loop loop;
    int64_t n, grain;
    const void *a, *b, *c;
    void *y;
    int64_t size_a, size_b, size_c, size_y;
    int threads;
} bench_loop_call;
bench_call bench_run_loop(bench_loop_call *call);

/* Times both in turn until the ratio other / ours stands still, and keeps it. */
void bench_compare(bench *b, bench_call ours, bench_call other);
/* Times one thing that consists of `parts` parts: ns per part. */
void bench_time(bench *b, bench_call ours, double parts);
/* A figure that is no time. */
void bench_tell(bench *b, double value);
/* Whether there are cores to share the work; the row ends if not. */
bool bench_has_cores(bench *b);
/* Notes when y, evaluated, is not n numbers close to these; after bench_compare. */
void bench_check(bench *b, tp_tensor *y, const float *expected, int64_t n);
/* The row ends without a figure. */
void bench_end(bench *b, bench_outcome outcome, const char *why);

/* ---- For the program --------------------------------------------------------------------- */

void bench_measure(bench *b, const bench_row *row, bench_result *result);
void bench_free_slots(bench *b);
/* Seconds of one call, warm: the least of a few. */
double bench_seconds(const bench *b, bench_call call);

#endif
