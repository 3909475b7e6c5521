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

#endif
