/* tp-info: what this build can run on. */
#include "tensorplay/tensorplay.h"

#include <getopt.h>
#include <stdio.h>

static const char usage[] =
    "usage: tp-info [--json] [--help]\n"
    "\n"
    "Names the backends: the machine, the instruction set, the BLAS and its core, the GPU,\n"
    "its driver and libraries; or the reason why one is not available.\n"
    "Exit codes: 0 said, 2 a wrong call.\n";

static void print_json_string(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') putchar('\\');
        if ((unsigned char)*text < ' ')
            printf("\\u%04x", (unsigned)*text);
        else
            putchar(*text);
    }
    putchar('"');
}

static void print(bool json)
{
    printf(json ? "{\"version\": \"%s\", \"backends\": {" : "TensorPlay %s\n", TP_VERSION);
    for (int i = 0; tp_backend_name(i); i++) {
        char line[512];
        tp_describe_backend(tp_backend_name(i), line, sizeof line);
        if (json) {
            printf("%s\"%s\": ", i ? ", " : "", tp_backend_name(i));
            print_json_string(line);
        } else {
            printf("%s\n", line);
        }
    }
    if (json) printf("}}\n");
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};
    bool json = false;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'h') {
            fputs(usage, stdout);
            return 0;
        }
        if (c != 'j') return 2;
        json = true;
    }
    if (optind < argc) {
        fputs(usage, stderr);
        return 2;
    }
    print(json);
    return 0;
}
