/* Measures how far the operations are from long double and writes the table docs/accuracy.tsv; see
 * accuracy_measure.h for how, --help for the call. */
#include "accuracy_measure.h"

#include <unistd.h>

static const char usage[] =
    "usage: accuracy [--quick] [--backend NAME] [--op NAME] [FILE]\n"
    "\n"
    "Writes the largest errors of all operations, and their results at special values and over\n"
    "nothing, to FILE (docs/accuracy.tsv); - is the terminal. About two minutes.\n"
    "\n"
    "  --quick         a smaller sample: seconds\n"
    "  --backend NAME  cpu (the default) or ref\n"
    "  --op NAME       this operation alone\n"
    "\n"
    "Exit codes: 0 written, 1 something failed, 2 a wrong call.\n";

typedef struct writer {
    FILE *file;
    bool shows; /* progress, on a terminal */
} writer;

static void write_line(void *user, const report *line)
{
    writer *w = user;
    if (w->shows) fprintf(stderr, "\r\033[K%s %s", line->op, tp_dtype_name(line->dtype));
    /* Special values are the same in each type, but for digits: one is enough to read. */
    if (strcmp(line->unit, "edges") == 0 && line->dtype != TP_F32) return;
    fprintf(w->file, "%s\t%s\t%s\t%s\t%s\n", line->op, tp_dtype_name(line->dtype), line->value,
            line->unit, line->where);
}

int main(int argc, char **argv)
{
    measuring m = {.backend = "cpu", .tell = write_line};
    const char *path = "docs/accuracy.tsv";
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) return fputs(usage, stdout) < 0;
        if (strcmp(argv[i], "--quick") == 0)
            m.quick = true;
        else if (strcmp(argv[i], "--backend") == 0 && i + 1 < argc)
            m.backend = argv[++i];
        else if (strcmp(argv[i], "--op") == 0 && i + 1 < argc)
            m.only = argv[++i];
        else if (argv[i][0] == '-' && argv[i][1]) {
            fprintf(stderr, "accuracy: unknown option %s (see --help)\n", argv[i]);
            return 2;
        } else
            path = argv[i];
    }
    bool terminal = strcmp(path, "-") == 0;
    writer w = {terminal ? stdout : fopen(path, "w"), isatty(STDERR_FILENO) && !terminal};
    if (!w.file) {
        perror(path);
        return 1;
    }
    m.user = &w;
    fprintf(w.file, "op\tdtype\tvalue\tunit\twhere\n");
    measure_all(&m);
    if (w.shows) fprintf(stderr, "\r\033[K");
    return fclose(w.file) != 0;
}
