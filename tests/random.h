/* The generator of the tests: the same numbers everywhere for a seed. */
#ifndef TP_TEST_RANDOM_H
#define TP_TEST_RANDOM_H

#include <stdint.h>
#include <stdlib.h>

static inline uint32_t random_next(uint64_t *state)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    uint32_t x = (uint32_t)((*state >> 18 ^ *state) >> 27), turn = (uint32_t)(*state >> 59);
    return x >> turn | x << (-turn & 31U);
}

/* In [low, high]. */
static inline int64_t random_in(uint64_t *state, int64_t low, int64_t high)
{
    return low + (int64_t)(random_next(state) % (uint64_t)(high - low + 1));
}

static inline int long_tests(void)
{
    const char *wish = getenv("TP_LONG");
    return wish && *wish == '1';
}

#endif
