/* Kernels of the CPU backend on steps made by hand: the same bits for every number of threads and
 * instruction set, in place, and for every length; sums in the promised order on every axis. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/cpu/loops.h"
#include "backends/cpu/threads.h"
#include "tests/random.h"
#include "tests/unit/cpu_steps.h"

enum { MANY = 400000 };

static float *numbers(int64_t n, uint64_t seed)
{
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (float)random_in(&seed, -1000000, 1000000) / 262144.0F;
    return x;
}

/* ---- Threads and instruction sets ------------------------------------------------------------ */

/* Elementwise steps and copies. x and y have MANY elements; gives the bytes of the result. */
static size_t sample_ewise(int number, made *m, const float *x, const float *y, void *out)
{
    switch (number) {
    case 0: /* dense */
        make(m, TP_STEP_EWISE, SIZES(MANY - 3));
        make_load(m, x, TP_F32, NULL), make_load(m, y, TP_F32, NULL);
        make_insn(m, TP_OP_GELU, TP_F32, make_insn(m, TP_OP_MUL, TP_F32, 0, 1, 0), 0, 0);
        make_out(m, out, TP_F32, SIZES(MANY - 3), NULL);
        return (MANY - 3) * 4;
    case 1: /* transposed, broadcast and half */
        make(m, TP_STEP_EWISE, SIZES(397, 401));
        make_load(m, x, TP_F16, STRIDES(1, 397)), make_load(m, y, TP_F16, STRIDES(0, 1));
        make_insn(m, TP_OP_ADD, TP_F16, 0, 1, 0);
        make_out(m, out, TP_F16, SIZES(397, 401), NULL);
        return 397 * 401 * 2;
    case 2: /* a copy that transposes */
        make(m, TP_STEP_EWISE, SIZES(3, 509, 255));
        make_load(m, x, TP_F32, STRIDES(255 * 509, 1, 509));
        make_out(m, out, TP_F32, SIZES(3, 509, 255), NULL);
        return 3 * 509 * 255 * 4;
    case 3: /* one long copy */
        make(m, TP_STEP_EWISE, SIZES(MANY));
        make_load(m, x, TP_F32, NULL);
        make_out(m, out, TP_F32, SIZES(MANY), NULL);
        return MANY * 4;
    default: /* reversed, into a transposed result */
        make(m, TP_STEP_EWISE, SIZES(500, 601));
        make_load(m, x + 500 * 601 - 1, TP_F32, STRIDES(-601, -1));
        make_insn(m, TP_OP_EXP, TP_F32, 0, 0, 0);
        make_out(m, out, TP_F32, SIZES(500, 601), STRIDES(1, 500));
        return 500 * 601 * 4;
    }
}

static size_t sample_line(int number, made *m, const float *x, const float *y, void *out)
{
    if (number < 8) { /* softmax along rows, across rows, and of short ones */
        int64_t rows = number == 7 ? 30000 : 311, n = number == 7 ? 13 : 1203;
        make(m, TP_STEP_SOFTMAX, SIZES(rows, n));
        m->step.axes = number == 6 ? 1 : 2;
        m->step.calc = TP_F32;
        make_load(m, x, TP_F32, NULL);
        make_out(m, out, TP_F32, SIZES(rows, n), NULL);
        return (size_t)(rows * n) * 4;
    }
    /* Layer norm over two dims that do not merge. */
    make(m, TP_STEP_LAYER_NORM, SIZES(70, 20, 100));
    m->step.axes = 6;
    m->step.calc = TP_F32;
    make_load(m, x, TP_F32, STRIDES(4000, 200, 1)), make_load(m, y, TP_F32, STRIDES(0, 100, 1));
    make_load(m, y + 5000, TP_F32, STRIDES(0, 100, 1));
    m->step.prologue.load_count = 1;
    m->step.value[0].f = 1e-5;
    m->step.value[1].i = 3;
    make_out(m, out, TP_F32, SIZES(70, 20, 100), NULL);
    return 70 * 20 * 100 * 4;
}

static size_t sample_gather(int number, made *m, const float *x, void *out)
{
    static int64_t index[1000];
    for (int i = 0; i < 1000; i++) index[i] = (int64_t)i * 311 % 400 - (i % 3 == 0 ? 400 : 0);
    if (number < 11) { /* of rows, and within rows */
        make(m, TP_STEP_INDEX_SELECT, SIZES(number == 9 ? 1000 : 400, number == 9 ? 400 : 1000));
        m->step.axis = number - 9;
        make_load(m, x, TP_F32, NULL), make_load(m, index, TP_I64, NULL);
        m->operand[0] = make_operand(1, TP_F32, SIZES(400, 400), STRIDES(700, 1));
        m->operand[1] = make_operand(2, TP_I64, SIZES(1000), NULL);
        make_out(m, out, TP_F32, 2, m->step.domain.shape, NULL);
        return MANY * 4;
    }
    make(m, TP_STEP_ARANGE, SIZES(MANY));
    m->step.value[0].f = -3.25, m->step.value[1].f = 0.1;
    make_out(m, out, TP_F32, SIZES(MANY), NULL);
    return MANY * 4;
}

/* Reductions: all ops over everything, inner, outer and middle dims, few and many elements. */
static size_t sample_reduction(int number, made *m, const float *x, void *out)
{
    static const tp_op ops[] = {TP_OP_SUM,  TP_OP_MEAN,   TP_OP_MAX,   TP_OP_MIN,
                                TP_OP_PROD, TP_OP_ARGMAX, TP_OP_ARGMIN};
    static const int64_t shapes[][4] = {{1, MANY, 1, 1},  {700, 1, 501, 1}, {1, 700, 501, 1},
                                        {19, 37, 501, 1}, {40000, 1, 9, 1}, {1, 40000, 9, 1}};
    static const uint32_t axes[] = {2, 4, 2, 2, 4, 2};
    int op = number % 7, shape = number / 7;
    if (shape >= 6) return 0;
    bool finds = op >= 5;
    int64_t kept[4], count = 1;
    for (int d = 0; d < 4; d++) {
        kept[d] = axes[shape] >> d & 1 ? 1 : shapes[shape][d];
        count *= kept[d];
    }
    make(m, TP_STEP_REDUCE, 4, shapes[shape]);
    m->step.op = (uint8_t)ops[op];
    m->step.axes = axes[shape];
    m->step.calc = TP_F32;
    m->step.reduced = finds ? TP_I64 : TP_F32;
    make_load(m, x, TP_F32, NULL);
    make_insn(m, TP_OP_TANH, TP_F32, 0, 0, 0);
    make_out(m, out, finds ? TP_I64 : TP_F32, 4, kept, NULL);
    return (size_t)count * (finds ? 8 : 4);
}

/* Steps that between them use every kernel and every way through it; 0 past the last. */
static size_t sample(int number, made *m, const float *x, const float *y, void *out)
{
    if (number < 5) return sample_ewise(number, m, x, y, out);
    if (number < 9) return sample_line(number, m, x, y, out);
    if (number < 12) return sample_gather(number, m, x, out);
    return sample_reduction(number - 12, m, x, out);
}

Test(cpu_kernels, results_do_not_depend_on_the_number_of_threads)
{
    float *x = numbers(MANY, 1), *y = numbers(MANY, 2);
    char *one = malloc(MANY * 8), *more = malloc(MANY * 8);
    made m;
    int number = 0;
    for (size_t bytes; (bytes = sample(number, &m, x, y, one)); number++) {
        memset(one, 0xA5, MANY * 8);
        cr_assert_eq(run_made(&m, 1, NULL), TP_OK, "step %d", number);
        for (int threads = 2; threads <= 4; threads++) {
            memset(more, 0xA5, MANY * 8);
            m.buffer[0] = more;
            cr_assert_eq(run_made(&m, threads, NULL), TP_OK, "step %d", number);
            cr_expect_eq(memcmp(one, more, MANY * 8), 0, "step %d differs with %d threads", number,
                         threads);
        }
        cr_expect(bytes == MANY * 8 || one[bytes] == (char)0xA5, "step %d wrote too much", number);
    }
    cr_expect_eq(number, 12 + 42);
    free(x), free(y), free(one), free(more);
}

/* In a child, so that the choice of the instruction set is made anew. */
static void run_samples(const char *isa, const float *x, const float *y, char *results)
{
    pid_t child = fork();
    if (child == 0) {
        made m;
        setenv("TP_ISA", isa, 1);
        for (int number = 0; sample(number, &m, x, y, results); number++, results += MANY * 4)
            run_made(&m, 1, NULL);
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    cr_assert_eq(status, 0, "%s: the child ended with %d", isa, status);
}

Test(cpu_kernels, results_do_not_depend_on_the_instruction_set)
{
    size_t bytes = (size_t)MANY * 4 * (12 + 42 + 1);
    float *x = numbers(MANY, 3), *y = numbers(MANY, 4);
    char *results[3];
    const char *isa[] = {"base", "avx2", "avx512"};
    for (int i = 0; i < 3; i++) {
        results[i] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        cr_assert_neq((void *)results[i], MAP_FAILED);
        run_samples(isa[i], x, y, results[i]);
        for (size_t number = 0; number < 12 + 42; number++) {
            size_t at = number * MANY * 4;
            cr_expect_eq(memcmp(results[0] + at, results[i] + at, MANY * 4), 0,
                         "step %zu differs with %s", number, isa[i]);
        }
    }
    for (int i = 0; i < 3; i++) munmap(results[i], bytes);
    free(x), free(y);
}

/* ---- Lengths, and in place ------------------------------------------------------------------ */

/* f16: a gelu(b) + c; n elements from `at` on, into out. */
static void chain(made *m, tp_dtype dtype, int64_t n, char *a, char *b, char *c, char *out)
{
    make(m, TP_STEP_EWISE, SIZES(n));
    make_load(m, a, dtype, NULL), make_load(m, b, dtype, NULL), make_load(m, c, dtype, NULL);
    int g = make_insn(m, TP_OP_GELU, dtype, 1, 1, 1);
    make_insn(m, TP_OP_ADD, dtype, make_insn(m, TP_OP_MUL, dtype, 0, g, 0), 2, 0);
    make_out(m, out, dtype, SIZES(n), NULL);
}

Test(cpu_kernels, a_tail_is_as_a_body_and_in_place_is_as_apart)
{
    enum { N = 1200 };
    static const tp_dtype dtypes[] = {TP_F16, TP_BF16, TP_F32, TP_F64};
    static char in[3][N * 8], whole[N * 8], part[N * 8];
    for (size_t d = 0; d < 4; d++) {
        tp_dtype t = dtypes[d];
        size_t size = tp_dtype_size(t);
        made m;
        uint64_t seed = 9;
        for (int k = 0; k < 3; k++) {
            for (size_t i = 0; i < N; i++)
                tp_value_store(t, in[k] + i * size, TP_F64,
                               (tp_value){.f = (double)random_in(&seed, -999999, 999999) / 2e5});
        }
        chain(&m, t, N, in[0], in[1], in[2], whole);
        cr_assert_eq(run_made(&m, 1, NULL), TP_OK);
        for (int64_t n = 1; n <= 70; n++) {
            size_t at = (size_t)n * 13 * size;
            memset(part, 0xA5, sizeof part);
            chain(&m, t, n, in[0] + at, in[1] + at, in[2] + at, part);
            cr_assert_eq(run_made(&m, 1, NULL), TP_OK);
            cr_expect_eq(memcmp(part, whole + at, (size_t)n * size), 0, "%s, %lld elements",
                         tp_dtype_name(t), (long long)n);
            cr_expect_eq((unsigned char)part[(size_t)n * size], 0xA5);
        }
        for (int k = 0; k < 3; k++) {
            char *saved = part;
            memcpy(saved, in[k], N * size);
            chain(&m, t, N, in[0], in[1], in[2], in[k]);
            cr_assert_eq(run_made(&m, 2, NULL), TP_OK);
            cr_expect_eq(memcmp(in[k], whole, N * size), 0, "%s into operand %d", tp_dtype_name(t),
                         k);
            memcpy(in[k], saved, N * size);
        }
    }
}

Test(cpu_kernels, softmax_in_place_along_both_axes)
{
    enum { ROWS = 300, COLUMNS = 77 };
    for (uint32_t axes = 1; axes <= 2; axes++) {
        float *x = numbers(ROWS * COLUMNS, 5), *y = malloc(ROWS * COLUMNS * 4);
        for (int i = 0; i < COLUMNS; i++) x[3 * COLUMNS + i] = -INFINITY;
        for (int r = 0; r < ROWS; r++) x[r * COLUMNS + 5] = -INFINITY;
        made m;
        make(&m, TP_STEP_SOFTMAX, SIZES(ROWS, COLUMNS));
        m.step.axes = axes;
        m.step.calc = TP_F32;
        make_load(&m, x, TP_F32, NULL);
        make_out(&m, y, TP_F32, SIZES(ROWS, COLUMNS), NULL);
        cr_assert_eq(run_made(&m, 2, NULL), TP_OK);
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            bool lost = axes == 2 ? i / COLUMNS == 3 : i % COLUMNS == 5;
            cr_assert_eq(isnan(y[i]), lost, "axes %u, element %d: %g", axes, i, y[i]);
        }
        m.buffer[0] = (char *)x;
        cr_assert_eq(run_made(&m, 2, NULL), TP_OK);
        cr_expect_eq(memcmp(x, y, ROWS * COLUMNS * 4), 0, "axes %u in place", axes);
        free(x), free(y);
    }
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* The promised order, written down once more: LANES interleaved partial sums over blocks, halves of
 * the lanes added, blocks added pairwise. */
static float sum_in_order(int64_t n, const float *x, int64_t step)
{
    float stack[64], lane[TP_LANES];
    int levels = 0;
    int64_t blocks = 0;
    for (int64_t at = 0; at < n; blocks++) {
        for (int j = 0; j < TP_LANES; j++) lane[j] = 0;
        int64_t end = at + TP_SUM_BLOCK < n ? at + TP_SUM_BLOCK : n;
        for (; at < end; at++) lane[at % TP_LANES] += x[at * step];
        for (int half = TP_LANES / 2; half > 0; half /= 2) {
            for (int j = 0; j < half; j++) lane[j] += lane[j + half];
        }
        for (int64_t k = blocks; k & 1; k >>= 1) lane[0] += stack[--levels];
        stack[levels++] = lane[0];
    }
    while (levels > 1) levels--, stack[levels - 1] += stack[levels];
    return levels ? stack[0] : 0;
}

Test(cpu_kernels, sums_have_one_order_whatever_the_strides)
{
    static const int64_t counts[] = {1, 2, 15, 16, 17, 31, 40, 2047, 2048, 2049, 66000, 133333};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        int64_t n = counts[c];
        for (int64_t width = 1; width <= 3; width++) {
            float *x = numbers(n * width, (uint64_t)n), y[2][3];
            for (int outer = 0; outer < 2; outer++) {
                /* x[row, column] summed over rows, stored by rows or by columns. */
                made m;
                make(&m, TP_STEP_REDUCE, SIZES(n, width));
                m.step.op = TP_OP_SUM;
                m.step.axes = 1;
                m.step.calc = m.step.reduced = TP_F32;
                make_load(&m, x, TP_F32, outer ? STRIDES(width, 1) : STRIDES(1, n));
                make_out(&m, y[outer], TP_F32, SIZES(1, width), NULL);
                cr_assert_eq(run_made(&m, 3, NULL), TP_OK);
                for (int64_t i = 0; i < width; i++) {
                    float right =
                        outer ? sum_in_order(n, x + i, width) : sum_in_order(n, x + i * n, 1);
                    cr_expect_eq(y[outer][i], right,
                                 "%lld elements, column %lld of %lld, %s: %a %a", (long long)n,
                                 (long long)i, (long long)width, outer ? "outer" : "inner",
                                 y[outer][i], right);
                }
            }
            free(x);
        }
    }
}

Test(cpu_kernels, many_ones_add_up_on_every_axis)
{
    float one = 1, y[4];
    int64_t n = INT64_C(1) << 25;
    for (int which = 0; which < 3; which++) {
        made m;
        make(&m, TP_STEP_REDUCE, SIZES(which == 1 ? n : 2, which == 1 ? 2 : n));
        m.step.op = which == 2 ? TP_OP_MEAN : TP_OP_SUM;
        m.step.axes = which == 1 ? 1 : 2;
        m.step.calc = m.step.reduced = TP_F32;
        make_load(&m, &one, TP_F32, STRIDES(0, 0));
        make_out(&m, y, TP_F32, SIZES(which == 1 ? 1 : 2, which == 1 ? 2 : 1), NULL);
        cr_assert_eq(run_made(&m, 2, NULL), TP_OK);
        for (int i = 0; i < 2; i++)
            cr_expect_eq(y[i], which == 2 ? 1.0F : 33554432.0F, "case %d: %g", which, y[i]);
    }
}

/* ---- Gathers, forks ---------------------------------------------------------------------------
 */

Test(cpu_kernels, a_bad_index_leaves_the_result_untouched)
{
    float x[12] = {0}, y[20], before[20];
    int64_t fault[3];
    for (int bad = 0; bad < 3; bad++) {
        int64_t index[5] = {0, -4, 3, 1, 2};
        index[3] = bad == 0 ? 4 : bad == 1 ? -5 : -1; /* the last as u64 */
        made m;
        make(&m, TP_STEP_INDEX_SELECT, SIZES(5, 3));
        make_load(&m, x, TP_F32, NULL), make_load(&m, index, TP_I64, NULL);
        m.operand[0] = make_operand(1, TP_F32, SIZES(4, 3), NULL);
        m.operand[1] = make_operand(2, bad == 2 ? TP_U64 : TP_I64, SIZES(5), NULL);
        make_out(&m, y, TP_F32, SIZES(5, 3), NULL);
        for (int i = 0; i < 20; i++) y[i] = before[i] = 7;
        if (bad == 2) index[1] = 0;
        cr_expect_eq(run_made(&m, 2, fault), TP_E_BOUNDS);
        cr_expect_eq(memcmp(y, before, sizeof y), 0);
        cr_expect_eq(fault[0], index[3]);
        cr_expect_eq(fault[1], 3);
        cr_expect_eq(fault[2], 4);
    }
}

Test(cpu_kernels, an_index_too_long_for_memory_is_refused)
{
    int64_t zero = 0, many = INT64_C(1) << 61;
    made m;
    make(&m, TP_STEP_INDEX_SELECT, SIZES(many, 0));
    make_load(&m, &zero, TP_F32, NULL), make_load(&m, &zero, TP_I64, NULL);
    m.operand[0] = make_operand(1, TP_F32, SIZES(4, 0), NULL);
    m.operand[1] = make_operand(2, TP_I64, SIZES(many), STRIDES(0));
    make_out(&m, &zero, TP_F32, SIZES(many, 0), NULL);
    cr_expect_eq(run_made(&m, 1, NULL), TP_E_NOMEM);
}

static void count_up(void *arg, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) __atomic_add_fetch(&((int *)arg)[i], 1, __ATOMIC_RELAXED);
}

Test(cpu_kernels, every_element_is_visited_once_and_a_forked_child_does_not_hang)
{
    enum { N = 1001 };
    for (int threads = 1; threads <= 8; threads++) {
        int seen[N] = {0};
        tp_parallel_for(threads, N, 1, count_up, seen);
        for (int i = 0; i < N; i++) cr_assert_eq(seen[i], 1, "%d threads, element %d", threads, i);
    }
    pid_t child = fork();
    if (child == 0) {
        int seen[N] = {0};
        alarm(20);
        tp_parallel_for(4, N, 1, count_up, seen);
        for (int i = 0; i < N; i++) {
            if (seen[i] != 1) _exit(1);
        }
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    cr_expect_eq(status, 0, "the child ended with %d", status);
}
