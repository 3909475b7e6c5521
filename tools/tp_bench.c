/* tp-bench: how fast the CPU backend is, as ratios against the machine's limits and against plain
 * programs. Its rows are in tools/bench/rows_*.c, how they are measured in tools/bench/measure.c.
 */
#include "bench/report.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: tp-bench [--quick] [--rows PATTERN] [--threads N] [--json FILE] [--spin SECONDS]\n"
    "                [--list] [--help]\n"
    "\n"
    "Measures our library against the machine's limits and against plain programs, in one\n"
    "process and in turn, and prints a row for each: what against what, the ratio of the two\n"
    "times (above 1: ours is faster), its goal, whether it is met.\n"
    "  --quick         under two minutes: fewer rows, less time for each\n"
    "  --rows PATTERN  rows whose name holds PATTERN; with * or ?: whose name is like it\n"
    "  --threads N     threads of ours and of the other, 1 if not given; rows about threads\n"
    "                  use all cores whatever is said here\n"
    "  --json FILE     writes the same as JSON\n"
    "  --spin SECONDS  measures nothing: runs our side of each row so long, for a profiler\n"
    "  --list          names the rows and their goals, measures nothing\n"
    "TP_BLAS=none and TP_ISA=avx2 in the environment measure what machines without get.\n"
    "Exit codes: 0 measured (whatever the ratios), 2 a wrong call, 3 something is missing.\n";

static const bench_row *const tables[] = {bench_rows_fused, bench_rows_math,     bench_rows_gemm,
                                          bench_rows_move,  bench_rows_reduce,   bench_rows_threads,
                                          bench_rows_graph, bench_rows_attention};

typedef struct options {
    bool quick, list;
    const char *pattern, *json;
    int threads;
    double spin;
} options;

enum { MOST_ROWS = 512 };

static bool wanted(const bench_row *row, const options *o)
{
    if (o->quick && (row->flags & BENCH_LONG)) return false;
    if (!o->pattern) return true;
    if (strpbrk(o->pattern, "*?")) return fnmatch(o->pattern, row->name, 0) == 0;
    return strstr(row->name, o->pattern) != NULL;
}

static int choose_rows(const options *o, const bench_row *rows[MOST_ROWS])
{
    int count = 0;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        for (const bench_row *row = tables[t]; row->name; row++) {
            if (wanted(row, o) && count < MOST_ROWS) rows[count++] = row;
        }
    }
    return count;
}

static int complain(const char *what, const char *which)
{
    fprintf(stderr, "tp-bench: %s%s (see --help)\n", what, which);
    return 2;
}

/* The number after --threads or --spin. */
static bool parse_number(const char *option, const char *text, options *o)
{
    char *end;
    double value = strtod(text, &end);
    bool threads = strcmp(option, "--threads") == 0;
    bool fits = *text && !*end && value > 0 && value <= 1024;
    if (!fits || (threads && value != (int)value)) {
        complain(threads ? "--threads takes a number from 1 to 1024, not "
                         : "--spin takes seconds, not ",
                 text);
        return false;
    }
    if (threads)
        o->threads = (int)value;
    else
        o->spin = value;
    return true;
}

/* 0: go on; else the exit code, or -1 after --help. */
static int parse(int argc, char **argv, options *o)
{
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        bool takes = strcmp(arg, "--rows") == 0 || strcmp(arg, "--threads") == 0 ||
                     strcmp(arg, "--json") == 0 || strcmp(arg, "--spin") == 0;
        if (takes && i + 1 == argc) return complain(arg, " needs a value");
        if (strcmp(arg, "--help") == 0) {
            fputs(usage, stdout);
            return -1;
        } else if (strcmp(arg, "--quick") == 0)
            o->quick = true;
        else if (strcmp(arg, "--list") == 0)
            o->list = true;
        else if (strcmp(arg, "--rows") == 0)
            o->pattern = argv[++i];
        else if (strcmp(arg, "--json") == 0)
            o->json = argv[++i];
        else if (takes && !parse_number(arg, argv[++i], o))
            return 2;
        else if (!takes)
            return complain("unknown option ", arg);
    }
    return 0;
}

static double load_now(void)
{
    double load = 0;
    return getloadavg(&load, 1) == 1 ? load : 0;
}

static void find_machine(bench_machine *m)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    snprintf(m->cpu, sizeof m->cpu, "unknown CPU");
    while (f && fgets(line, sizeof line, f)) {
        char *value = strchr(line, ':');
        if (!value || strncmp(line, "model name", 10) != 0) continue;
        value[strcspn(value, "\n")] = 0;
        snprintf(m->cpu, sizeof m->cpu, "%.120s", value + 1 + (value[1] == ' '));
        break;
    }
    if (f) fclose(f);
    tp_describe_backends(m->backends, sizeof m->backends);
    m->cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    m->load[0] = load_now();
}

/* GB/s of the plain loops on arrays that no cache holds; a written line counts once. */
static void find_limits(bench *b, bench_limit *limits)
{
    const int64_t n = (64 << 20) / 4;
    const struct {
        const char *name;
        bench_loop loop;
        int arrays;
    } loops[BENCH_LIMITS] = {{"read", b->plain->read_sum, 1},
                             {"copy, normal stores", b->plain->pass, 2},
                             {"copy, non-temporal", b->plain->pass_nt, 2},
                             {"triad, normal stores", b->plain->triad, 3},
                             {"triad, non-temporal", b->plain->triad_nt, 3}};
    for (int i = 0; i < BENCH_LIMITS; i++) {
        bench_loop_call call = {.loop = loops[i].loop,
                                .n = n,
                                .a = bench_floats(b, 0, n, -1, 1),
                                .b = bench_floats(b, 1, n, -1, 1),
                                .y = bench_bytes(b, 3, (size_t)n * 4),
                                .size_a = 4,
                                .size_b = 4,
                                .size_y = loops[i].arrays == 1 ? 0 : 4,
                                .threads = 1};
        limits[i].name = loops[i].name;
        bench_call run = bench_run_loop(&call);
        if (!run.run) return;
        double gigabytes = (double)n * 4e-9 * loops[i].arrays;
        b->threads = 1;
        limits[i].one = gigabytes / bench_seconds(b, run);
        call.threads = b->threads = b->cores;
        limits[i].all = gigabytes / bench_seconds(b, run);
    }
}

static void list_rows(int count, const bench_row *const *rows)
{
    for (int i = 0; i < count; i++) {
        bool at_most = rows[i]->flags & BENCH_AT_MOST;
        printf("%-42s %s%s%s", rows[i]->name, rows[i]->ours, at_most ? ", " : " against ",
               rows[i]->against);
        if (rows[i]->goal > 0) printf(", goal %s%g", at_most ? "at most " : "", rows[i]->goal);
        printf("\n");
    }
}

static void show_progress(int i, int count, const char *name)
{
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K[%d/%d] %s", i + 1, count, name);
}

static void hide_progress(void)
{
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K");
}

/* Gives the exit code. */
static int measure_rows(bench *b, int count, const bench_row *const *rows, bench_result *results)
{
    int missing = 0;
    bench_print_head();
    for (int i = 0; i < count; i++) {
        show_progress(i, count, rows[i]->name);
        bench_measure(b, rows[i], &results[i]);
        hide_progress();
        bench_print_row(rows[i], &results[i]);
        fflush(stdout);
        missing += results[i].outcome == BENCH_LACKING;
    }
    bench_print_summary(count, rows, results);
    return missing ? 3 : 0;
}

int main(int argc, char **argv)
{
    static const bench_row *rows[MOST_ROWS];
    static bench_result results[MOST_ROWS];
    options o = {.threads = 1};
    int code = parse(argc, argv, &o);
    if (code) return code < 0 ? 0 : code;
    int count = choose_rows(&o, rows);
    if (count == 0) return complain("no row has a name like ", o.pattern);
    if (o.list) {
        list_rows(count, rows);
        return 0;
    }
    FILE *json = o.json ? fopen(o.json, "w") : NULL;
    if (o.json && !json) {
        fprintf(stderr, "tp-bench: cannot write %s\n", o.json);
        return 3;
    }
    bench_machine machine = {.threads = o.threads, .quick = o.quick};
    find_machine(&machine);
    bench_print_machine(&machine);
    bench b = {.threads = o.threads,
               .cores = machine.cores,
               .seconds = o.quick ? 0.4 : 3,
               .spin = o.spin,
               .plain = bench_plain_get(),
               .blas = bench_blas_get()};
    bench_result unused = {0};
    bench_limit limits[BENCH_LIMITS] = {{0}};
    b.result = &unused;
    if (o.spin <= 0) {
        find_limits(&b, limits);
        b.threads = o.threads;
        bench_print_limits(limits);
    }
    code = measure_rows(&b, count, rows, results);
    machine.load[1] = load_now();
    if (json) {
        bool written = bench_write_json(json, &machine, limits, count, rows, results);
        if (fclose(json) != 0 || !written) {
            fprintf(stderr, "tp-bench: cannot write %s\n", o.json);
            code = 3;
        }
    }
    bench_free_slots(&b);
    return code;
}
