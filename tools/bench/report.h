/* What is shown: the table on standard output, JSON in a file. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "bench.h"

#include <stdio.h>

typedef struct bench_machine {
    char cpu[128], backends[512];
    int cores, threads;
    double load[2]; /* runnable processes, at the start and at the end */
    bool quick;
} bench_machine;

/* A limit of the memory, in GB/s, with one thread and with all cores. */
typedef struct bench_limit {
    const char *name;
    double one, all;
} bench_limit;
#define BENCH_LIMITS 5

void bench_print_machine(const bench_machine *m);
void bench_print_limits(const bench_limit *limits);
void bench_print_head(void);
void bench_print_row(const bench_row *row, const bench_result *result);
/* How many rows reach their goal, and those that do not, the farthest first. */
void bench_print_summary(int count, const bench_row *const *rows, const bench_result *results);
bool bench_write_json(FILE *file, const bench_machine *m, const bench_limit *limits, int count,
                      const bench_row *const *rows, const bench_result *results);

#endif
