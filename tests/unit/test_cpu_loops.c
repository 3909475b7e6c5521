/* Row loops: every instruction set gives the same bits, and an element's result does not depend on
 * where in a row it stands. NaNs count as equal: which payload wins is the machine's affair. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/random.h"
#include "tests/unit/cpu_tables.h"

enum { N = 200, TAIL = 70 };

static void fill(tp_dtype dtype, bool truth, void *x, uint64_t *seed)
{
    static const double special[] = {0.0,   -0.0,  INFINITY, -INFINITY, NAN,  1e-40, -1e-41, 1e30,
                                     -3e38, 65504, 1,        -1,        6e-8, -2.5,  1e300,  -200};
    bool floats = tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT;
    for (int64_t i = 0; i < N; i++) {
        tp_value v = {.i = random_in(seed, -300, 300)};
        if (random_in(seed, 0, 7) == 0)
            v.i = (int64_t)((uint64_t)random_next(seed) << 32 | random_next(seed));
        if (truth) v.i &= 1;
        v.f = random_in(seed, 0, 4) == 0 ? special[random_in(seed, 0, 15)]
                                         : (double)random_in(seed, -4000000, 4000000) / 300000.0;
        tp_value_store(dtype, (char *)x + i * (int64_t)tp_dtype_size(dtype),
                       floats ? TP_F64 : TP_I64, v);
    }
}

/* The first element that differs, -1 if none does. */
static int64_t differs(tp_dtype dtype, int64_t n, const void *a, const void *b)
{
    size_t size = tp_dtype_size(dtype);
    for (int64_t i = 0; i < n; i++) {
        const char *x = (const char *)a + i * (int64_t)size,
                   *y = (const char *)b + i * (int64_t)size;
        if (memcmp(x, y, size) == 0) continue;
        if (tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT && isnan(tp_value_load(dtype, x).f) &&
            isnan(tp_value_load(dtype, y).f))
            continue;
        return i;
    }
    return -1;
}

/* A loop over N elements in the first table, against every table, every start and length. */
static void check_loop(const char *name, tp_loop (*pick)(const tp_cpu_loops *, int, int), int p,
                       int q, const tp_dtype *in, tp_dtype result, bool truth)
{
    char a[N * 8], b[N * 8], c[N * 8], whole[N * 8], part[N * 8];
    uint64_t seed = 17 + (uint64_t)p * 64 + (uint64_t)q;
    fill(in[0], truth || in[0] != in[1], a, &seed);
    fill(in[1], truth, b, &seed);
    fill(in[2], truth, c, &seed);
    pick(cpu_table(0), p, q)(N, a, b, c, whole);
    size_t sizes[] = {tp_dtype_size(in[0]), tp_dtype_size(in[1]), tp_dtype_size(in[2]),
                      tp_dtype_size(result)};
    for (int isa = 0; isa < cpu_tables(); isa++) {
        tp_loop loop = pick(cpu_table(isa), p, q);
        cr_assert_not_null(loop, "%s is missing in %s", name, cpu_table(isa)->name);
        for (size_t n = 1; n <= TAIL; n++) {
            size_t at = n * 7 % (N - TAIL);
            memset(part, 0xA5, sizeof part);
            loop((int64_t)n, a + at * sizes[0], b + at * sizes[1], c + at * sizes[2], part);
            int64_t bad = differs(result, (int64_t)n, part, whole + at * sizes[3]);
            cr_assert_lt(bad, 0, "%s %s %s with %s: element %lld of %zu, from %zu on", name,
                         tp_dtype_name(in[1]), tp_dtype_name(result), cpu_table(isa)->name,
                         (long long)bad, n, at);
            cr_assert_eq((unsigned char)part[n * sizes[3]], 0xA5, "%s wrote too much", name);
        }
        loop(N, a, b, c, part);
        cr_assert_lt(differs(result, N, part, whole), 0, "%s %s with %s", name,
                     tp_dtype_name(in[1]), cpu_table(isa)->name);
    }
}

static tp_loop pick_op(const tp_cpu_loops *t, int op, int dtype)
{
    return t->op[op][dtype];
}
static tp_loop pick_cast(const tp_cpu_loops *t, int from, int to)
{
    return t->cast[from][to];
}
static tp_loop pick_accumulate(const tp_cpu_loops *t, int unused, int dtype)
{
    (void)unused;
    return t->accumulate[dtype];
}

Test(cpu_loops, ops_do_not_depend_on_place_or_instruction_set)
{
    int checked = 0;
    for (int op = 0; op < TP_OP_COUNT; op++) {
        const tp_op_info *info = tp_op_info_of((tp_op)op);
        if (!tp_op_is_elementwise((tp_op)op)) continue;
        for (int d = 0; d < TP_DTYPE_COUNT; d++) {
            if (!tp_cpu_loops_base.op[op][d]) continue;
            tp_dtype t = (tp_dtype)d, in[3] = {t, t, t};
            bool tests = info->kind == TP_KIND_COMPARE || info->kind == TP_KIND_TEST;
            if (op == TP_OP_WHERE) in[0] = d == TP_U8 ? TP_I8 : TP_U8;
            check_loop(info->name, pick_op, op, d, in, tests ? TP_U8 : t,
                       info->rule == TP_RULE_BOOL);
            checked++;
        }
    }
    cr_expect_gt(checked, 200);
}

Test(cpu_loops, casts_and_sums_do_not_depend_on_place_or_instruction_set)
{
    for (int from = 0; from < TP_DTYPE_COUNT; from++) {
        tp_dtype f = (tp_dtype)from, in[3] = {f, f, f};
        for (int to = 0; to < TP_DTYPE_COUNT; to++) {
            if (tp_cpu_loops_base.cast[from][to])
                check_loop("cast", pick_cast, from, to, in, (tp_dtype)to, false);
        }
    }
    char x[N * 8], y[N * 8], sum[N * 8];
    for (int d = 0; d < TP_DTYPE_COUNT; d++) {
        uint64_t seed = 5;
        if (!pick_accumulate(&tp_cpu_loops_base, 0, d)) continue;
        fill((tp_dtype)d, false, x, &seed);
        fill((tp_dtype)d, false, y, &seed);
        tp_cpu_loops_base.op[TP_OP_ADD][d](N, y, x, NULL, sum);
        for (int isa = 0; isa < cpu_tables(); isa++) {
            char again[N * 8];
            memcpy(again, y, sizeof y);
            cpu_table(isa)->accumulate[d](N, x, NULL, NULL, again);
            cr_expect_lt(differs((tp_dtype)d, N, sum, again), 0, "accumulate %s with %s",
                         tp_dtype_name((tp_dtype)d), cpu_table(isa)->name);
        }
    }
}

/* All f16, and floats around every rounding boundary of f16 and bf16, in a body and in a tail. */
Test(cpu_loops, half_types_convert_as_the_scalar_functions)
{
    enum { M = 33 };
    uint16_t h[M], back[M];
    float x[M], y[M];
    for (uint32_t base = 0; base < 65536; base++) {
        for (int i = 0; i < M; i++) h[i] = (uint16_t)(base + (uint32_t)i * 1987U);
        for (int i = 0; i < M; i++) {
            uint32_t bits =
                (uint32_t)(h[i] << 16) + (uint32_t)(i % 3 - 1) + (base % 2 ? 0x8000U : 0x1000U);
            memcpy(&x[i], &bits, 4);
        }
        for (int isa = 0; isa < cpu_tables(); isa++) {
            const tp_cpu_loops *t = cpu_table(isa);
            for (int half = 0; half < 2; half++) {
                tp_dtype d = half ? TP_BF16 : TP_F16;
                t->load[d](M, h, NULL, NULL, y);
                for (int i = 0; i < M; i++) {
                    float right = half ? tp_bf16_to_f32(h[i]) : tp_f16_to_f32(h[i]);
                    cr_assert(right == y[i] || (isnan(right) && isnan(y[i])), "%s %04x with %s",
                              tp_dtype_name(d), h[i], t->name);
                }
                t->store[d](M, x, NULL, NULL, back);
                t->round[d](M, x, NULL, NULL, y);
                for (int i = 0; i < M; i++) {
                    uint16_t right = half ? tp_f32_to_bf16(x[i]) : tp_f32_to_f16(x[i]);
                    float wide = half ? tp_bf16_to_f32(right) : tp_f16_to_f32(right);
                    cr_assert(right == back[i] || isnan(x[i]), "%s of %a with %s: %04x, not %04x",
                              tp_dtype_name(d), x[i], t->name, back[i], right);
                    cr_assert(wide == y[i] || (isnan(wide) && isnan(y[i])), "rounding %a with %s",
                              x[i], t->name);
                }
            }
        }
    }
}

Test(cpu_loops, best_find_and_replace)
{
    char x[N * 8], best[8], right[8];
    for (int d = 0; d < TP_DTYPE_COUNT; d++) {
        tp_dtype dtype = (tp_dtype)d;
        size_t size = tp_dtype_size(dtype);
        if (!tp_cpu_loops_base.best[0][d]) continue;
        for (int64_t n = 1; n <= 140; n++) {
            uint64_t seed = (uint64_t)n;
            fill(dtype, false, x, &seed);
            for (int smallest = 0; smallest < 2; smallest++) {
                tp_loop two = tp_cpu_loops_base.op[smallest ? TP_OP_MINIMUM : TP_OP_MAXIMUM][d];
                memcpy(right, x, size);
                for (int64_t i = 1; i < n; i++) two(1, right, x + (size_t)i * size, NULL, right);
                int64_t place = 0; /* by the definition of find */
                while (differs(dtype, 1, x + (size_t)place * size, right) >= 0 &&
                       !(tp_value_load(dtype, right).f == 0 && tp_value_load(dtype, right).i == 0 &&
                         tp_value_load(dtype, x + (size_t)place * size).f == 0 &&
                         tp_value_load(dtype, x + (size_t)place * size).i == 0))
                    place++;
                for (int isa = 0; isa < cpu_tables(); isa++) {
                    const tp_cpu_loops *t = cpu_table(isa);
                    memcpy(best, x, size);
                    t->best[smallest][d](n, x, best);
                    cr_assert_lt(differs(dtype, 1, best, right), 0, "best %s of %lld with %s",
                                 tp_dtype_name(dtype), (long long)n, t->name);
                    cr_assert_eq(t->find[d](n, x, best), place, "find %s in %lld with %s",
                                 tp_dtype_name(dtype), (long long)n, t->name);
                    int32_t index = 0;
                    memcpy(best, x, size);
                    for (int64_t i = 1; i < n; i++)
                        t->replace[smallest][d](1, 1, x + (size_t)i * size, (int64_t)size, best,
                                                &index, (int32_t)i);
                    cr_assert_eq(index, place, "replace %s in %lld with %s", tp_dtype_name(dtype),
                                 (long long)n, t->name);
                }
            }
        }
    }
}

Test(cpu_loops, transposes_of_every_shape)
{
    enum { SIDE = 40, PITCH = 47 };
    static unsigned char from[SIDE * PITCH * 8], to[SIDE * PITCH * 8];
    uint64_t seed = 3;
    for (size_t i = 0; i < sizeof from; i++) from[i] = (unsigned char)random_next(&seed);
    for (int log = 0; log < 4; log++) {
        size_t size = (size_t)1 << log;
        for (int64_t rows = 1; rows <= SIDE; rows += rows < 18 ? 1 : 5) {
            for (int64_t n = 1; n <= SIDE; n += n < 18 ? 1 : 5) {
                for (int isa = 0; isa < cpu_tables(); isa++) {
                    memset(to, 0xA5, sizeof to);
                    cpu_table(isa)->transpose[log](rows, n, (const char *)from,
                                                   (int64_t)(PITCH * size), (char *)to,
                                                   (int64_t)(PITCH * size));
                    for (int64_t at = 0; at < SIDE * PITCH; at++) {
                        int64_t r = at / PITCH, i = at % PITCH;
                        unsigned char blank[8];
                        memset(blank, 0xA5, sizeof blank);
                        const unsigned char *right =
                            r < rows && i < n ? from + (size_t)(i * PITCH + r) * size : blank;
                        cr_assert_eq(memcmp(to + (size_t)at * size, right, size), 0,
                                     "%zu bytes, %lld x %lld with %s: at %lld, %lld", size,
                                     (long long)rows, (long long)n, cpu_table(isa)->name,
                                     (long long)r, (long long)i);
                    }
                }
            }
        }
    }
}
