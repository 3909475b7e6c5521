/* The part of Criterion that our tests use, for a run of a whole suite in one process: Criterion
 * forks for each test, and on a GPU each would open the device anew. tests/one_process/run.c is the
 * program. Prints what fails; a failed assertion ends its test. */
#ifndef ONE_PROCESS_H
#define ONE_PROCESS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct one_process_test {
    const char *suite, *name;
    void (*run)(void);
    void (*init)(void);
    void (*fini)(void);
    double timeout; /* ignored */
    struct one_process_test *next;
} one_process_test;

void one_process_add(one_process_test *test);        /* name NULL: a suite */
void one_process_failed(const char *file, int line); /* this check; the text follows on stdout */
void one_process_end_test(void) __attribute__((noreturn));

/* Trailing arguments are options of Criterion: .init, .fini, .timeout. */
#define Test(suite_, name_, ...)                                                                   \
    static void suite_##_##name_##_run(void);                                                      \
    __attribute__((constructor)) static void suite_##_##name_##_add(void)                          \
    {                                                                                              \
        static one_process_test test = {                                                           \
            .suite = #suite_, .name = #name_, .run = suite_##_##name_##_run, __VA_ARGS__};         \
        one_process_add(&test);                                                                    \
    }                                                                                              \
    static void suite_##_##name_##_run(void)
#define TestSuite(suite_, ...)                                                                     \
    __attribute__((constructor)) static void suite_##_suite_add(void)                              \
    {                                                                                              \
        static one_process_test suite = {.suite = #suite_, __VA_ARGS__};                           \
        one_process_add(&suite);                                                                   \
    }                                                                                              \
    struct one_process_test

/* printf with any number of arguments, none among them. */
#define ONE_PROCESS_SAY(...) one_process_say("" __VA_ARGS__)
void one_process_say(const char *format, ...);

#define ONE_PROCESS_CHECK(good, text, end, ...)                                                    \
    do {                                                                                           \
        if (good) break;                                                                           \
        one_process_failed(__FILE__, __LINE__);                                                    \
        one_process_say("%s: ", text);                                                             \
        ONE_PROCESS_SAY(__VA_ARGS__);                                                              \
        one_process_say("\n");                                                                     \
        if (end) one_process_end_test();                                                           \
    } while (0)

#define cr_expect(a, ...) ONE_PROCESS_CHECK((a), #a, false, __VA_ARGS__)
#define cr_assert(a, ...) ONE_PROCESS_CHECK((a), #a, true, __VA_ARGS__)
#define cr_expect_fail(...) ONE_PROCESS_CHECK(false, "failed", false, __VA_ARGS__)
#define cr_assert_fail(...) ONE_PROCESS_CHECK(false, "failed", true, __VA_ARGS__)
#define cr_log_error(...) (ONE_PROCESS_SAY(__VA_ARGS__), one_process_say("\n"))

#define cr_expect_eq(a, b, ...) ONE_PROCESS_CHECK((a) == (b), #a " == " #b, false, __VA_ARGS__)
#define cr_assert_eq(a, b, ...) ONE_PROCESS_CHECK((a) == (b), #a " == " #b, true, __VA_ARGS__)
#define cr_expect_neq(a, b, ...) ONE_PROCESS_CHECK((a) != (b), #a " != " #b, false, __VA_ARGS__)
#define cr_assert_neq(a, b, ...) ONE_PROCESS_CHECK((a) != (b), #a " != " #b, true, __VA_ARGS__)
#define cr_expect_lt(a, b, ...) ONE_PROCESS_CHECK((a) < (b), #a " < " #b, false, __VA_ARGS__)
#define cr_assert_lt(a, b, ...) ONE_PROCESS_CHECK((a) < (b), #a " < " #b, true, __VA_ARGS__)
#define cr_expect_leq(a, b, ...) ONE_PROCESS_CHECK((a) <= (b), #a " <= " #b, false, __VA_ARGS__)
#define cr_expect_gt(a, b, ...) ONE_PROCESS_CHECK((a) > (b), #a " > " #b, false, __VA_ARGS__)
#define cr_assert_gt(a, b, ...) ONE_PROCESS_CHECK((a) > (b), #a " > " #b, true, __VA_ARGS__)
#define cr_expect_geq(a, b, ...) ONE_PROCESS_CHECK((a) >= (b), #a " >= " #b, false, __VA_ARGS__)
#define cr_assert_geq(a, b, ...) ONE_PROCESS_CHECK((a) >= (b), #a " >= " #b, true, __VA_ARGS__)
#define cr_expect_null(a, ...) ONE_PROCESS_CHECK(!(a), #a " is NULL", false, __VA_ARGS__)
#define cr_assert_null(a, ...) ONE_PROCESS_CHECK(!(a), #a " is NULL", true, __VA_ARGS__)
#define cr_assert_not_null(a, ...) ONE_PROCESS_CHECK(a, #a " is not NULL", true, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...)                                                                \
    ONE_PROCESS_CHECK(strcmp((a), (b)) == 0, #a " equals " #b, false, __VA_ARGS__)
#define cr_expect_arr_eq(a, b, size, ...)                                                          \
    ONE_PROCESS_CHECK(memcmp((a), (b), (size)) == 0, #a " equals " #b, false, __VA_ARGS__)
#define cr_assert_arr_eq(a, b, size, ...)                                                          \
    ONE_PROCESS_CHECK(memcmp((a), (b), (size)) == 0, #a " equals " #b, true, __VA_ARGS__)
#define cr_expect_float_eq(a, b, e, ...)                                                           \
    ONE_PROCESS_CHECK(fabs((double)(a) - (double)(b)) <= (e), #a " is about " #b, false,           \
                      __VA_ARGS__)

#endif
