/* What the example programs share: where their data lies, the comparison with what NumPy gave, and
 * the line that each prints. The TensorPlay calls are in the programs themselves. */
#ifndef TENSORPLAY_EXAMPLES_CHECK_H
#define TENSORPLAY_EXAMPLES_CHECK_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorplay/tensorplay.h"

typedef struct check {
    const char *name;
    char folder[2048];
    tp_graph *graph;
    double error; /* the largest so far */
    int compared; /* results */
} check;

/* Takes the program's arguments and makes its graph. Ends the program for --help and wrong calls.
 */
static inline check check_open(int argc, char **argv, const char *name, const char *shows)
{
    check c = {.name = name};
    snprintf(c.folder, sizeof c.folder, "docs/examples/data/%s", name);
    if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
        bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
        fprintf(help ? stdout : stderr,
                "usage: %s [FOLDER]\n\n%s\n\n"
                "FOLDER holds inputs and expected results, %s by default;\n"
                "docs/examples/make_expected.py makes it.\n"
                "Exit codes: 0 all is right, 1 the error or the copies are over what is allowed,\n"
                "2 a wrong call, 3 it could not be run.\n",
                name, shows, c.folder);
        exit(help ? 0 : 2);
    }
    if (argc == 2) snprintf(c.folder, sizeof c.folder, "%s", argv[1]);
    c.graph = tp_graph_create(NULL);
    return c;
}

/* The array in FOLDER/file.npy as a leaf of graph. */
static inline tp_tensor *check_load_into(tp_graph *graph, const check *c, const char *file)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.npy", c->folder, file);
    return tp_load_npy(graph, path);
}

static inline tp_tensor *check_load(const check *c, const char *file)
{
    return check_load_into(c->graph, c, file);
}

/* The largest difference, relative to the largest expected value; infinite where one of the two
 * is no number or the shapes differ. */
static inline double check_difference(tp_tensor *y, tp_tensor *expected)
{
    double worst = 0, largest = 0;
    if (tp_ndim(y) != tp_ndim(expected)) return INFINITY;
    for (int d = 0; d < tp_ndim(y); d++)
        if (tp_dim(y, d) != tp_dim(expected, d)) return INFINITY;
    for (int64_t i = 0; i < tp_numel(y); i++) {
        double want = tp_item(expected, i), difference = fabs(tp_item(y, i) - want);
        if (!isfinite(difference)) return INFINITY;
        worst = fmax(worst, difference);
        largest = fmax(largest, fabs(want));
    }
    return largest > 0 ? worst / largest : worst;
}

/* Compares an evaluated y with FOLDER/file.npy. */
static inline void check_expect(check *c, tp_tensor *y, const char *file)
{
    tp_graph *g = tp_graph_create(NULL); /* its own: the program's graph has a plan */
    tp_tensor *expected = check_load_into(g, c, file);
    if (expected) {
        c->error = fmax(c->error, check_difference(y, expected));
        c->compared++;
    } else
        fprintf(stderr, "%s: cannot be compared: %s\n", c->name, tp_graph_error(g)->text);
    tp_graph_destroy(g);
}

/* Prints the line, releases plan and graph. Gives the program's exit code. */
static inline int check_close(check *c, tp_plan *plan, int results, double allowed, int budget)
{
    int code = 3;
    if (plan && c->compared == results) {
        tp_plan_summary s = tp_plan_summarize(plan);
        code = c->error <= allowed && s.copies <= budget ? 0 : 1;
        printf("%s: error %.2g (allowed %.2g), %d copies (budget %d; %d as built), %d kernels%s\n",
               c->name, c->error, allowed, s.copies, budget, s.asked_copies, s.kernels,
               code ? " - FAILED" : "");
    } else if (tp_graph_error(c->graph)->status)
        fprintf(stderr, "%s: could not be run: %s\n", c->name, tp_graph_error(c->graph)->text);
    tp_plan_release(plan);
    tp_graph_destroy(c->graph);
    return code;
}

#endif
