/* docs/accuracy.tsv holds: measured again on a smaller sample, on both backends, no operation is
 * further off than the file says or docs/SEMANTICS.md allows, results at special values and over
 * nothing are those of the file, and no row of ops.def is left out. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/accuracy_measure.h"

static const char *read_file(const char *name)
{
    static char text[2][1 << 17];
    static int which;
    char path[512], *into = text[which++ % 2];
    snprintf(path, sizeof path, TP_SOURCE_DIR "/docs/%s", name);
    FILE *file = fopen(path, "r");
    cr_assert(file, "%s is not there", path);
    size_t n = fread(into, 1, sizeof text[0] - 1, file);
    cr_assert(feof(file) && n > 0, "%s is too long for this test", path);
    fclose(file);
    into[n] = 0;
    return into;
}

/* The file's value for a line with these other columns; NULL: none. */
static const char *stated(const char *table, const report *line)
{
    static char value[160];
    char head[64];
    bool edges = strcmp(line->unit, "edges") == 0;
    /* Special values are written for f32 alone. */
    snprintf(head, sizeof head, "\n%s\t%s\t", line->op,
             tp_dtype_name(edges ? TP_F32 : line->dtype));
    for (const char *at = table; (at = strstr(at, head)); at++) {
        const char *start = at + strlen(head), *stop = strchr(start, '\t');
        cr_assert(stop && stop - start < (int)sizeof value, "a broken line for %s", line->op);
        snprintf(value, sizeof value, "%.*s", (int)(stop - start), start);
        size_t n = strlen(line->unit);
        if (strncmp(stop + 1, line->unit, n) || stop[n + 1] != '\t') continue;
        const char *where = stop + n + 2;
        n = strlen(line->where);
        if (!edges || (strncmp(where, line->where, n) == 0 && where[n] == '\n')) return value;
    }
    return NULL;
}

/* The bound of docs/SEMANTICS.md: its table has a row of operations and a column for f32 and f64.
 */
static double allowed(const char *semantics, const report *line)
{
    char quoted[40];
    /* k + 1: tests/ops/test_bounds.c holds it for each k. */
    if (strcmp(line->op, "matmul") == 0) return INFINITY;
    snprintf(quoted, sizeof quoted, "`%.30s`", line->op);
    for (const char *row = semantics; (row = strstr(row, "\n| `")); row++) {
        const char *bar = strchr(row + 2, '|'), *found = strstr(row, quoted);
        if (!bar || !found || found > bar) continue;
        double f32, f64;
        cr_assert_eq(sscanf(bar, "| %lf | %lf |", &f32, &f64), 2, "no bounds beside %s", quoted);
        if (line->dtype == TP_F64) return f64;
        /* f16 and bf16 are rounded from f32 once more. */
        bool ulps = strcmp(line->unit, "ulp") == 0;
        return line->dtype == TP_F32 || !ulps ? f32 : 0.51;
    }
    return 0.51; /* where the page says nothing: rounded once */
}

/* Results at special values, written with six digits. Types differ by their rounding. */
static bool same_values(const char *got, const char *want, tp_dtype dtype)
{
    double room = dtype == TP_BF16 ? 0x1p-7 : dtype == TP_F16 ? 0x1p-10 : 1e-5;
    while (*got && *want) {
        char *after_got, *after_want;
        double a = strtod(got, &after_got), b = strtod(want, &after_want);
        if (after_got == got || after_want == want) return strcmp(got, want) == 0;
        bool close = isfinite(b) && b != 0 && fabs(a - b) <= room * fabs(b);
        bool equal = a == b && !signbit(a) == !signbit(b);
        if (!close && !equal && !(isnan(a) && isnan(b))) return false;
        got = after_got, want = after_want;
    }
    return *got == *want;
}

typedef struct reader {
    const char *table, *semantics, *backend;
    int found;
} reader;

static void hold(void *user, const report *line)
{
    reader *r = user;
    char what[200];
    snprintf(what, sizeof what, "%s %s on %s", line->op, tp_dtype_name(line->dtype), r->backend);
    const char *value = stated(r->table, line);
    bool edges = strcmp(line->unit, "edges") == 0;
    if (value) r->found += !edges || line->dtype == TP_F32;
    /* + - * of operands are their own model, and need not be measured. */
    if (line->plain && (!value || (isnan(line->error) && !edges))) return;
    cr_expect(value, "%s: docs/accuracy.tsv has no line for it: run build/bin/accuracy", what);
    if (!value) return;
    if (edges || strcmp(line->unit, "empty") == 0) {
        cr_expect(same_values(line->value, value, line->dtype), "%s %s %s: %s, not %s", what,
                  line->unit, line->where, line->value, value);
        return;
    }
    cr_expect(!isnan(line->error), "%s: no model in tools/accuracy_models.h", what);
    /* The C library picks its code by what the CPU has: that moves hundredths of an ulp. The order
     * of additions in a BLAS differs from machine to machine. */
    double bound = allowed(r->semantics, line), file = strtod(value, NULL) + 0.02;
    if (strcmp(line->op, "matmul") == 0) file *= 4;
    cr_expect(line->error <= fmin(bound, file), "%s: %.4f %s at %s; stated %s, allowed %g", what,
              line->error, line->unit, line->where, value, bound);
    cr_expect(strtod(value, NULL) <= bound, "%s: docs/accuracy.tsv states %s, allowed %g", what,
              value, bound);
}

static void hold_on(const char *backend)
{
    reader r = {read_file("accuracy.tsv"), read_file("SEMANTICS.md"), backend, 0};
    measuring m = {.backend = backend, .quick = true, .tell = hold, .user = &r};
    measure_all(&m);
    int lines = -1; /* the head */
    for (const char *at = r.table; *at; at++) lines += *at == '\n';
    cr_expect_eq(r.found, lines, "docs/accuracy.tsv has %d lines, measured were %d", lines,
                 r.found);
}

Test(accuracy_table, holds_on_cpu)
{
    hold_on("cpu");
}

Test(accuracy_table, holds_on_ref)
{
    hold_on("ref");
}
