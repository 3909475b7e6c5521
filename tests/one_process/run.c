/* Runs the tests it is linked with, in one process, and counts them as Criterion does. Arguments:
 * parts of names, "suite::name"; with one or more only tests whose name holds one of them. */
#include <criterion/criterion.h>

#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

static one_process_test *tests, *suites;
static const one_process_test *running;
static jmp_buf end_of_test;
static int failures; /* of the test that runs */

void one_process_add(one_process_test *test)
{
    one_process_test **list = test->name ? &tests : &suites;
    test->next = *list;
    *list = test;
}

void one_process_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
}

void one_process_failed(const char *file, int line)
{
    if (failures++ == 0) printf("[FAIL] %s::%s\n", running->suite, running->name);
    printf("%s:%d: ", file, line);
}

void one_process_end_test(void)
{
    longjmp(end_of_test, 1);
}

/* A failed assertion comes back here. */
static void run_until_it_ends(void (*init)(void), void (*body)(void))
{
    if (setjmp(end_of_test) != 0) return;
    if (init) init();
    body();
}

static void run(const one_process_test *test)
{
    void (*init)(void) = test->init, (*fini)(void) = test->fini;
    for (const one_process_test *s = suites; s; s = s->next) {
        if (strcmp(s->suite, test->suite) != 0) continue;
        if (!init) init = s->init;
        if (!fini) fini = s->fini;
    }
    running = test;
    failures = 0;
    run_until_it_ends(init, test->run);
    if (fini) fini();
}

static bool is_wanted(const one_process_test *test, int count, char **parts)
{
    char name[300];
    snprintf(name, sizeof name, "%s::%s", test->suite, test->name);
    for (int i = 0; i < count; i++) {
        if (strstr(name, parts[i])) return true;
    }
    return count == 0;
}

int main(int argc, char **argv)
{
    int run_count = 0, failed = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (const one_process_test *t = tests; t; t = t->next) {
        if (!is_wanted(t, argc - 1, argv + 1)) continue;
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        run(t);
        clock_gettime(CLOCK_MONOTONIC, &end);
        double s =
            (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
        if (s > 5) printf("[%5.1f s] %s::%s\n", s, t->suite, t->name);
        run_count++;
        failed += failures > 0;
    }
    printf("[====] Synthesis: Tested: %d | Passing: %d | Failing: %d | Crashing: 0\n", run_count,
           run_count - failed, failed);
    return failed ? 1 : 0;
}
