/* The fake device, as tests see it. */
#ifndef TP_TEST_CUDA_DEVICE_H
#define TP_TEST_CUDA_DEVICE_H

#include <criterion/criterion.h>

#include "tensorplay/tensorplay.h"

#include <string.h>

/* As in fake/fake.h, which needs the toolkit. */
typedef struct tp_fake_counters {
    long launches, gemms, up, down, fills, graphs;
    size_t up_bytes, down_bytes, used_bytes, peak_bytes;
    long allocations;
} tp_fake_counters;

tp_fake_counters fake_count(void);
const char *fake_calls(void);
void fake_forget_calls(void);
/* what: "tp_fake_fail_alloc" or "tp_fake_fail_launch"; the n-th from now on. */
void fake_fail(const char *what, long n);
void fake_lose(void);

/* An empty graph on the device. */
tp_graph *cuda_graph(void);

#endif
