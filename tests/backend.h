/* The backend that the suites test: what TP_BACKEND names, else the CPU's. */
#ifndef TP_TEST_BACKEND_H
#define TP_TEST_BACKEND_H

#include <stdlib.h>

static inline const char *tested_backend(void)
{
    const char *name = getenv("TP_BACKEND");
    return name && *name ? name : "cpu";
}

#endif
