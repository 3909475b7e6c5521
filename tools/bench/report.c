#include "report.h"

#include <stdlib.h>
#include <string.h>

/* The share of its goal that a row reaches: below 1 it misses. */
static double reached(const bench_row *row, const bench_result *r)
{
    return row->flags & BENCH_AT_MOST ? row->goal / r->value : r->value / row->goal;
}

static const char *verdict(const bench_row *row, const bench_result *r)
{
    if (r->outcome != BENCH_MEASURED || row->goal == 0) return "-";
    return reached(row, r) >= 1 ? "met" : "MISSED";
}

void bench_print_machine(const bench_machine *m)
{
    printf("machine   %s, %d cores, load %.1f\n", m->cpu, m->cores, m->load[0]);
    printf("library   %s\n", m->backends);
    printf("rows      %d thread%s unless they say otherwise; ours and the other in turn\n"
           "ratio     one thread: median of the ratios of neighbouring samples [10%% .. 90%%], by "
           "the thread's clock\n"
           "          several: of the fastest tenths [quarters of the samples], by the wall's\n"
           "caches    warm: a sample follows an untimed call of the same work, where a call is "
           "shorter than 2 ms\n",
           m->threads, m->threads == 1 ? "" : "s");
    if (m->load[0] > 1)
        printf("busy      other programs run: figures with several threads may be far too low\n");
}

void bench_print_limits(const bench_limit *limits)
{
    printf("\nmemory, GB/s at 3 x 64 MiB      1 thread   all cores\n");
    for (int i = 0; i < BENCH_LIMITS; i++)
        printf("  %-28s %9.1f %11.1f\n", limits[i].name, limits[i].one, limits[i].all);
}

void bench_print_head(void)
{
    printf("\n%-40s %-27s %8s %-17s %6s %-7s %10s %10s %3s\n", "row", "against", "ratio",
           "[spread]", "goal", "", "ours", "other", "n");
}

static const char *duration(double seconds, char text[16])
{
    if (seconds <= 0)
        snprintf(text, 16, "-");
    else if (seconds < 1e-6)
        snprintf(text, 16, "%.1f ns", seconds * 1e9);
    else if (seconds < 1e-3)
        snprintf(text, 16, "%.2f us", seconds * 1e6);
    else
        snprintf(text, 16, "%.2f ms", seconds * 1e3);
    return text;
}

void bench_print_row(const bench_row *row, const bench_result *r)
{
    static const char *const why[] = {"", "not here: ", "lacking: ", "FAILED: "};
    char ours[16], other[16], spread[32], goal[16] = "";
    if (r->outcome != BENCH_MEASURED) {
        printf("%-40s %s%s\n", row->name, why[r->outcome], r->note);
        return;
    }
    bool at_most = row->flags & BENCH_AT_MOST;
    snprintf(spread, sizeof spread, "[%.2f .. %.2f]", r->low, r->high);
    if (row->goal > 0) snprintf(goal, sizeof goal, at_most ? "<=%.0f" : "%.2f", row->goal);
    printf("%-40s %-27s %8.2f %-17s %6s %-7s %10s %10s %3d%s%s\n", row->name, row->against,
           r->value, spread, goal, verdict(row, r), duration(r->ours_seconds, ours),
           duration(r->against_seconds, other), r->rounds, r->note[0] ? "  " : "", r->note);
}

typedef struct miss {
    const bench_row *row;
    const bench_result *result;
    double reached;
} miss;

static int by_reached(const void *a, const void *b)
{
    double x = ((const miss *)a)->reached, y = ((const miss *)b)->reached;
    return (x > y) - (x < y);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Small chains have a goal together, beside that of each. */
static void print_median_of_small_chains(int count, const bench_row *const *rows,
                                         const bench_result *results)
{
    double ratio[64];
    size_t n = 0;
    for (int i = 0; i < count && n < 64; i++) {
        const char *end = strrchr(rows[i]->name, '/');
        bool small = strncmp(rows[i]->name, "fused/gcc/", 10) == 0 && strcmp(end, "/100K") == 0;
        if (small && results[i].outcome == BENCH_MEASURED) ratio[n++] = results[i].value;
    }
    if (n < 3) return;
    qsort(ratio, n, sizeof *ratio, by_value);
    printf("\nfused/gcc/*/100K: the median of these %zu ratios is %.2f, goal 0.85\n", n,
           ratio[n / 2]);
}

void bench_print_summary(int count, const bench_row *const *rows, const bench_result *results)
{
    int met = 0, missed = 0, without = 0;
    miss *list = calloc((size_t)count + 1, sizeof *list);
    if (!list) return;
    for (int i = 0; i < count; i++) {
        const bench_result *r = &results[i];
        if (r->outcome != BENCH_MEASURED)
            without++;
        else if (rows[i]->goal > 0 && reached(rows[i], r) >= 1)
            met++;
        else if (rows[i]->goal > 0)
            list[missed++] = (miss){rows[i], r, reached(rows[i], r)};
    }
    print_median_of_small_chains(count, rows, results);
    printf("\n%d rows: %d reach their goal, %d miss it, %d have none, %d could not be measured\n",
           count, met, missed, count - met - missed - without, without);
    qsort(list, (size_t)missed, sizeof *list, by_reached);
    for (int i = 0; i < missed; i++)
        printf("  %3.0f %% of the goal  %-40s %.2f, goal %s%.2f\n", list[i].reached * 100,
               list[i].row->name, list[i].result->value,
               list[i].row->flags & BENCH_AT_MOST ? "at most " : "", list[i].row->goal);
    free(list);
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void put_text(FILE *f, const char *text)
{
    fputc('"', f);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(f, "\\%c", c);
        else if (c < 32)
            fprintf(f, "\\u%04x", c);
        else
            fputc(c, f);
    }
    fputc('"', f);
}

static void put_row(FILE *f, const bench_row *row, const bench_result *r)
{
    static const char *const outcome[] = {"measured", "not here", "lacking", "failed"};
    fprintf(f, "    {\"name\": ");
    put_text(f, row->name);
    fprintf(f, ", \"ours\": ");
    put_text(f, row->ours);
    fprintf(f, ", \"against\": ");
    put_text(f, row->against);
    fprintf(f, ", \"outcome\": \"%s\", \"threads\": %d", outcome[r->outcome], r->threads);
    if (r->note[0]) {
        fprintf(f, ", \"note\": ");
        put_text(f, r->note);
    }
    if (r->outcome == BENCH_MEASURED) {
        bool at_most = row->flags & BENCH_AT_MOST;
        fprintf(f, ", \"%s\": %.6g, \"low\": %.6g, \"high\": %.6g, \"rounds\": %d",
                at_most ? "figure" : "ratio", r->value, r->low, r->high, r->rounds);
        fprintf(f, ", \"ours_seconds\": %.6g", r->ours_seconds);
        if (!at_most) fprintf(f, ", \"against_seconds\": %.6g", r->against_seconds);
        if (row->goal > 0)
            fprintf(f, ", \"goal\": %g, \"met\": %s", row->goal,
                    reached(row, r) >= 1 ? "true" : "false");
    }
    fputc('}', f);
}

bool bench_write_json(FILE *f, const bench_machine *m, const bench_limit *limits, int count,
                      const bench_row *const *rows, const bench_result *results)
{
    fprintf(f, "{\n  \"machine\": {\"cpu\": ");
    put_text(f, m->cpu);
    fprintf(f, ", \"library\": ");
    put_text(f, m->backends);
    fprintf(f, ", \"cores\": %d, \"threads\": %d, \"quick\": %s, \"load\": [%.2f, %.2f]},\n",
            m->cores, m->threads, m->quick ? "true" : "false", m->load[0], m->load[1]);
    fprintf(f, "  \"limits_gb_per_s\": [\n");
    for (int i = 0; i < BENCH_LIMITS; i++)
        fprintf(f, "    {\"name\": \"%s\", \"one_thread\": %.2f, \"all_cores\": %.2f}%s\n",
                limits[i].name, limits[i].one, limits[i].all, i + 1 < BENCH_LIMITS ? "," : "");
    fprintf(f, "  ],\n  \"rows\": [\n");
    for (int i = 0; i < count; i++) {
        put_row(f, rows[i], &results[i]);
        fprintf(f, "%s\n", i + 1 < count ? "," : "");
    }
    fprintf(f, "  ]\n}\n");
    return !ferror(f);
}
