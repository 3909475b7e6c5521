/* Accumulators. A sum keeps LANES partial sums per column, element p going to lane p % LANES;
 * every BLOCK elements the lanes are added up in a fixed tree, and the block joins a pairwise
 * stack. So the order of additions depends on the number of elements only: not on strides, nor on
 * threads, each of which may work out whole subtrees (chunks) of the stack. */
#include "accumulate.h"

#include <string.h>

#define MOST_LEVELS 54
/* Rows of one column that are searched at once: they stay in the first-level cache. */
#define FIND_RUN 4096

/* Lanes, stack, index and recent. */
size_t tp_accumulator_bytes(int64_t most)
{
    return (TP_LANES + MOST_LEVELS + 2) * (size_t)most * 8;
}

void tp_accumulator_init(tp_accumulator *acc, const tp_cpu_loops *loops, tp_op op, tp_dtype type,
                         int64_t most, char *memory)
{
    size_t row_bytes = (size_t)most * 8;
    *acc = (tp_accumulator){.loops = loops, .op = op, .type = type};
    acc->size = (int64_t)tp_dtype_size(type);
    acc->lane = memory;
    acc->stack = acc->lane + TP_LANES * row_bytes;
    acc->index = (int64_t *)(void *)(acc->stack + MOST_LEVELS * row_bytes);
    acc->recent = (int32_t *)(void *)(acc->index + most);
}

/* Sums and products: the same order of operations. */
static bool is_sum(const tp_accumulator *acc)
{
    return acc->op == TP_OP_SUM || acc->op == TP_OP_MEAN || acc->op == TP_OP_PROD;
}

bool tp_accumulator_finds(const tp_accumulator *acc)
{
    return acc->op == TP_OP_ARGMAX || acc->op == TP_OP_ARGMIN;
}

static int64_t row_bytes(const tp_accumulator *acc)
{
    return acc->columns * acc->size;
}

/* Fills the lanes with what changes nothing: 0 or 1. */
static void clear(tp_accumulator *acc)
{
    int64_t n = TP_LANES * acc->columns;
    tp_value one = {.f = 1, .i = 1};
    if (acc->op == TP_OP_PROD) {
        for (int64_t i = 0; i < n; i++)
            tp_value_store(acc->type, acc->lane + i * acc->size, acc->type, one);
    } else if (is_sum(acc))
        memset(acc->lane, 0, (size_t)(n * acc->size));
}

void tp_accumulator_begin(tp_accumulator *acc, int64_t columns)
{
    acc->columns = columns;
    acc->at = acc->blocks = acc->since = 0;
    acc->levels = 0;
    memset(acc->recent, -1, (size_t)columns * sizeof *acc->recent);
    clear(acc);
}

/* ---- Sums ------------------------------------------------------------------------------- */

static void add(const tp_accumulator *acc, int64_t n, const char *x, char *y)
{
    if (acc->op == TP_OP_PROD)
        acc->loops->op[TP_OP_MUL][acc->type](n, x, y, NULL, y);
    else
        acc->loops->accumulate[acc->type](n, x, NULL, NULL, y);
}

/* A partial sum per column joins the stack: after k of them it holds one for each bit of k. */
static void push(tp_accumulator *acc, char *sum)
{
    int64_t row = row_bytes(acc);
    for (int64_t k = acc->blocks; k & 1; k >>= 1) {
        acc->levels--;
        add(acc, acc->columns, acc->stack + acc->levels * row, sum);
    }
    memcpy(acc->stack + acc->levels++ * row, sum, (size_t)row);
    acc->blocks++;
}

static void end_block(tp_accumulator *acc)
{
    int64_t row = row_bytes(acc);
    for (int64_t half = TP_LANES / 2; half > 0; half /= 2)
        add(acc, half * acc->columns, acc->lane + half * row, acc->lane);
    push(acc, acc->lane);
    clear(acc);
}

/* n consecutive elements of the only column. */
static void sum_run(tp_accumulator *acc, int64_t n, const char *x)
{
    while (n > 0) {
        int64_t room = TP_SUM_BLOCK - acc->at % TP_SUM_BLOCK, take = n < room ? n : room,
                phase = acc->at % TP_LANES;
        bool plain = !phase && acc->op != TP_OP_PROD;
        if (plain && acc->type == TP_F32)
            acc->loops->sum_f32(take, (const float *)(const void *)x, (float *)(void *)acc->lane);
        else if (plain && acc->type == TP_F64)
            acc->loops->sum_f64(take, (const double *)(const void *)x, (double *)(void *)acc->lane);
        else {
            take = take < TP_LANES - phase ? take : TP_LANES - phase;
            add(acc, take, x, acc->lane + phase * acc->size);
        }
        acc->at += take;
        n -= take;
        x += take * acc->size;
        if (acc->at % TP_SUM_BLOCK == 0) end_block(acc);
    }
}

/* Rows that belong to one lane are added together, four at a time. */
static void sum_rows(tp_accumulator *acc, int64_t n, const char *x, int64_t step)
{
    int64_t row = row_bytes(acc), step_bytes = step * acc->size;
    while (n > 0) {
        int64_t room = TP_SUM_BLOCK - acc->at % TP_SUM_BLOCK, take = n < room ? n : room,
                phase = acc->at % TP_LANES;
        if (acc->op == TP_OP_PROD) {
            take = 1;
            add(acc, acc->columns, x, acc->lane + phase * row);
        } else {
            if (take > 4 * TP_LANES) take = 4 * TP_LANES;
            for (int64_t k = 0; k < TP_LANES && k < take; k++)
                acc->loops->add_rows[acc->type]((take - k + TP_LANES - 1) / TP_LANES, acc->columns,
                                                x + k * step_bytes, TP_LANES * step,
                                                acc->lane + (phase + k) % TP_LANES * row);
        }
        acc->at += take;
        n -= take;
        x += take * step_bytes;
        if (acc->at % TP_SUM_BLOCK == 0) end_block(acc);
    }
}

static const char *finish_sum(tp_accumulator *acc)
{
    int64_t row = row_bytes(acc);
    if (acc->at % TP_SUM_BLOCK || acc->blocks == 0) end_block(acc);
    while (acc->levels > 1) {
        acc->levels--;
        add(acc, acc->columns, acc->stack + acc->levels * row,
            acc->stack + (acc->levels - 1) * row);
    }
    return acc->stack;
}

/* ---- Largest, smallest, and where ---------------------------------------------------------- */

static bool is_smallest(const tp_accumulator *acc)
{
    return acc->op == TP_OP_MIN || acc->op == TP_OP_ARGMIN;
}

static void best_take(tp_accumulator *acc, int64_t n, const char *x, int64_t step)
{
    bool smallest = is_smallest(acc);
    if (n == 0) return;
    if (acc->at == 0) memcpy(acc->lane, x, (size_t)row_bytes(acc));
    if (acc->columns == 1 && step == 1)
        acc->loops->best[smallest][acc->type](n, x, acc->lane);
    else
        acc->loops->best_over[smallest][acc->type](n, acc->columns, x, step, acc->lane);
    acc->at += n;
}

/* Whether x is better than *best or the first NaN; then *best is x. */
static bool replace_one(const tp_accumulator *acc, const char *x, char *best)
{
    int32_t index = -1;
    acc->loops->replace[is_smallest(acc)][acc->type](1, 1, x, 0, best, &index, 0);
    return index == 0;
}

/* One column: the best of a run first, which is quick; where it is only if it is the best so
 * far. */
static void find_run(tp_accumulator *acc, int64_t n, const char *x)
{
    if (n > 0 && acc->at == 0) {
        memcpy(acc->lane, x, (size_t)acc->size);
        acc->index[0] = 0;
    }
    while (n > 0) {
        int64_t take = n < FIND_RUN ? n : FIND_RUN;
        uint64_t best = 0; /* of any type */
        memcpy(&best, x, (size_t)acc->size);
        acc->loops->best[is_smallest(acc)][acc->type](take, x, &best);
        if (replace_one(acc, (const char *)&best, acc->lane))
            acc->index[0] = acc->at + acc->loops->find[acc->type](take, x, acc->lane);
        acc->at += take;
        n -= take;
        x += take * acc->size;
    }
}

/* Positions since `since` become positions from the start. */
static void settle(tp_accumulator *acc)
{
    for (int64_t c = 0; c < acc->columns; c++) {
        if (acc->recent[c] >= 0) acc->index[c] = acc->since + acc->recent[c];
        acc->recent[c] = -1;
    }
    acc->since = acc->at;
}

/* Positions of 32 bits are quicker to keep. */
static void find_rows(tp_accumulator *acc, int64_t n, const char *x, int64_t step)
{
    if (n == 0) return;
    if (acc->at == 0) {
        memcpy(acc->lane, x, (size_t)row_bytes(acc));
        memset(acc->index, 0, (size_t)acc->columns * sizeof *acc->index);
    }
    while (n > 0) {
        int64_t take = n < INT32_MAX ? n : INT32_MAX;
        if (acc->at - acc->since > INT32_MAX - take) settle(acc);
        acc->loops->replace[is_smallest(acc)][acc->type](
            take, acc->columns, x, step, acc->lane, acc->recent, (int32_t)(acc->at - acc->since));
        acc->at += take;
        n -= take;
        x += take * step * acc->size;
    }
}

/* ---- All ------------------------------------------------------------------------------------ */

void tp_accumulator_take(tp_accumulator *acc, int64_t n, const char *x, int64_t step)
{
    bool one = acc->columns == 1 && step == 1, finds = tp_accumulator_finds(acc);
    if (finds && one)
        find_run(acc, n, x);
    else if (finds)
        find_rows(acc, n, x, step);
    else if (is_sum(acc) && one)
        sum_run(acc, n, x);
    else if (is_sum(acc))
        sum_rows(acc, n, x, step);
    else
        best_take(acc, n, x, step);
}

const char *tp_accumulator_finish(tp_accumulator *acc)
{
    if (tp_accumulator_finds(acc)) settle(acc);
    return is_sum(acc) ? finish_sum(acc) : acc->lane;
}

void tp_accumulator_merge(tp_accumulator *acc, const char *result, const int64_t *index)
{
    int64_t row = row_bytes(acc);
    if (is_sum(acc)) {
        memcpy(acc->lane, result, (size_t)row);
        push(acc, acc->lane);
        return;
    }
    if (!tp_accumulator_finds(acc)) {
        best_take(acc, 1, result, 1);
        return;
    }
    if (acc->at == 0) {
        memcpy(acc->lane, result, (size_t)row);
        memcpy(acc->index, index, (size_t)acc->columns * sizeof *index);
    }
    for (int64_t c = 0; c < acc->columns; c++) {
        if (replace_one(acc, result + c * acc->size, acc->lane + c * acc->size))
            acc->index[c] = index[c];
    }
    acc->at++;
}
