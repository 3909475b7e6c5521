/* The backend that the suites test: what TP_BACKEND names, else the CPU's. */
#ifndef TP_TEST_BACKEND_H
#define TP_TEST_BACKEND_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline const char *tested_backend(void)
{
    const char *name = getenv("TP_BACKEND");
    return name && *name ? name : "cpu";
}

/* Whether it works in the host's memory, within a context's limits. */
static inline bool tests_the_cpu(void)
{
    return strcmp(tested_backend(), "cpu") == 0;
}

/* TP_SAMPLE=N in the environment: of the many comparisons of operations only every N-th is made.
 * Where each kernel must be compiled first, all would take a quarter of an hour. */
static inline unsigned sample_step(void)
{
    const char *wish = getenv("TP_SAMPLE");
    long step = wish ? strtol(wish, NULL, 10) : 1;
    return step > 1 ? (unsigned)step : 1;
}

#endif
