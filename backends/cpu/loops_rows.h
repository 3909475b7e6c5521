/* Rows that are reduced, and the rows of softmax and layer norm. Included by loops.c only. */
#ifndef TP_CPU_LOOPS_ROWS_H
#define TP_CPU_LOOPS_ROWS_H

#include "loops.h"
#include "math.h"

#define SUM(dt, T)                                                                                 \
    static void sum_##dt(int64_t n, const T *x, T *lane)                                           \
    {                                                                                              \
        T acc[TP_LANES];                                                                           \
        for (int j = 0; j < TP_LANES; j++) acc[j] = lane[j];                                       \
        int64_t i = 0;                                                                             \
        for (; i + TP_LANES <= n; i += TP_LANES) {                                                 \
            for (int j = 0; j < TP_LANES; j++) acc[j] += x[i + j];                                 \
        }                                                                                          \
        for (int j = 0; i < n; i++, j++) acc[j] += x[i];                                           \
        for (int j = 0; j < TP_LANES; j++) lane[j] = acc[j];                                       \
    }
SUM(f32, float)
SUM(f64, double)

/* The sum of a block: lanes, then halves onto halves. */
#define SUM_ROWS(DT, dt, T, unused)                                                                \
    typedef T lanes_##dt                                                                           \
        __attribute__((vector_size(TP_LANES * sizeof(T)), aligned(sizeof(T)), may_alias));         \
    static inline T sum_lanes_##dt(const lanes_##dt *lanes)                                        \
    {                                                                                              \
        lanes_##dt v = *lanes;                                                                     \
        v += __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, \
                                     15);                                                          \
        v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);        \
        v += __builtin_shufflevector(v, v, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3);        \
        return v[0] + v[1];                                                                        \
    }                                                                                              \
    static inline T sum_block_##dt(int64_t n, const T *x)                                          \
    {                                                                                              \
        lanes_##dt acc = {0}, part = {0};                                                          \
        int64_t i = 0;                                                                             \
        for (; i + TP_LANES <= n; i += TP_LANES)                                                   \
            acc += *(const lanes_##dt *)(const void *)(x + i);                                     \
        memcpy(&part, x + i, (size_t)(n - i) * sizeof *x);                                         \
        if (i < n) acc += part;                                                                    \
        return sum_lanes_##dt(&acc);                                                               \
    }                                                                                              \
    static void sum_rows_##dt(int64_t rows, int64_t n, const void *px, int64_t step, void *py)     \
    {                                                                                              \
        const T *x = px;                                                                           \
        T *y = py;                                                                                 \
        for (int64_t r = 0; r < rows; r++, x += step) y[r] = sum_block_##dt(n, x);                 \
    }
FLOAT_TYPES(SUM_ROWS, unused)

#define ACCUMULATE(DT, dt, T, unused)                                                              \
    static void accumulate_##dt(int64_t n, const void *pa, const void *pb, const void *pc,         \
                                void *py)                                                          \
    {                                                                                              \
        const T *x = pa;                                                                           \
        T *y = py;                                                                                 \
        (void)pb, (void)pc;                                                                        \
        EACH y[i] = (T)(y[i] + x[i]);                                                              \
    }
NUM_TYPES(ACCUMULATE, unused)

/* Asks for four rows that come next: the machine does not foresee where short pieces of rows go on.
 */
static inline void fetch_rows(int64_t bytes, const char *x, int64_t step_bytes)
{
    for (int r = 0; r < 4; r++, x += step_bytes) {
        for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(x + i);
    }
}
#define FETCH_NEXT                                                                                 \
    if (rows >= 8)                                                                                 \
        fetch_rows(n *(int64_t)sizeof *x, (const char *)(x + 4 * step), step *(int64_t)sizeof *x);

/* Four rows at a time: y is read and written once for them. */
#define ADD_ROWS(DT, dt, T, unused)                                                                \
    static void add_rows_##dt(int64_t rows, int64_t n, const void *px, int64_t step, void *py)     \
    {                                                                                              \
        const T *x = px;                                                                           \
        T *y = py;                                                                                 \
        for (; rows >= 4; rows -= 4, x += 4 * step) {                                              \
            const T *x1 = x + step, *x2 = x1 + step, *x3 = x2 + step;                              \
            EACH y[i] = (T)((T)((T)((T)(y[i] + x[i]) + x1[i]) + x2[i]) + x3[i]);                   \
        }                                                                                          \
        for (; rows > 0; rows--, x += step) {                                                      \
            EACH y[i] = (T)(y[i] + x[i]);                                                          \
        }                                                                                          \
    }
NUM_TYPES(ADD_ROWS, unused)

/* The best of *y and x. Neither order nor repetition matters: lanes run over x, and the last block
 * of lanes overlaps the one before, so that there is no tail.
 *
 * Floats: what a comparison alone picks is right unless there is a NaN, or the best is a zero that
 * the other one beats: a quick pass sees both, and leaves them to the exact one. */
#define IS_BEATEN_max(y) ((y) == 0 && __builtin_signbit(y))
#define IS_BEATEN_min(y) ((y) == 0 && !__builtin_signbit(y))
#define QUICK_max(x, y) ((x) > (y) ? (x) : (y))
#define QUICK_min(x, y) ((x) < (y) ? (x) : (y))
#define BEST_LANES(DT, dt, T, name, LANES, pick, SUFFIX)                                           \
    static inline T best_##name##_##dt##_##LANES##SUFFIX(int64_t n, const T *x, T best, int *nan)  \
    {                                                                                              \
        T lane[LANES];                                                                             \
        int bad[LANES];                                                                            \
        for (int j = 0; j < LANES; j++) lane[j] = best, bad[j] = 0;                                \
        for (int64_t i = 0; i < n; i += LANES) {                                                   \
            const T *block = x + (i + LANES <= n ? i : n - LANES);                                 \
            for (int j = 0; j < LANES; j++) {                                                      \
                lane[j] = pick(block[j], lane[j]);                                                 \
                bad[j] |= block[j] != block[j];                                                    \
            }                                                                                      \
        }                                                                                          \
        for (int half = LANES / 2; half > 0; half /= 2) {                                          \
            for (int j = 0; j < half; j++) {                                                       \
                lane[j] = pick(lane[j], lane[j + half]);                                           \
                bad[j] |= bad[j + half];                                                           \
            }                                                                                      \
        }                                                                                          \
        *nan = bad[0];                                                                             \
        return lane[0];                                                                            \
    }
#define BEST_FUNCTION(DT, dt, T, name, QUICK)                                                      \
    static inline void best_##name##_##dt(int64_t n, const void *px, void *py)                     \
    {                                                                                              \
        const T *x = px;                                                                           \
        T best;                                                                                    \
        int unused;                                                                                \
        memcpy(&best, py, sizeof best);                                                            \
        QUICK if (n >= 64) best = best_##name##_##dt##_64(n, x, best, &unused);                    \
        else if (n >= 16) best = best_##name##_##dt##_16(n, x, best, &unused);                     \
        else                                                                                       \
        {                                                                                          \
            for (int64_t i = 0; i < n; i++) best = m_##name(best, x[i]);                           \
        }                                                                                          \
        memcpy(py, &best, sizeof best);                                                            \
    }
#define BEST_QUICK(DT, dt, T, name)                                                                \
    if (n >= 16 && best == best) {                                                                 \
        int nan = 0;                                                                               \
        T quick = n >= 64 ? best_##name##_##dt##_64q(n, x, best, &nan)                             \
                          : best_##name##_##dt##_16q(n, x, best, &nan);                            \
        if (!nan && !IS_BEATEN_##name(quick)) {                                                    \
            memcpy(py, &quick, sizeof quick);                                                      \
            return;                                                                                \
        }                                                                                          \
    }
#define BEST(DT, dt, T, name)                                                                      \
    BEST_LANES(DT, dt, T, name, 64, m_##name, )                                                    \
    BEST_LANES(DT, dt, T, name, 16, m_##name, )                                                    \
    BEST_FUNCTION(DT, dt, T, name, )
#define FLOAT_BEST(DT, dt, T, name)                                                                \
    BEST_LANES(DT, dt, T, name, 64, m_##name, )                                                    \
    BEST_LANES(DT, dt, T, name, 16, m_##name, )                                                    \
    BEST_LANES(DT, dt, T, name, 64, QUICK_##name, q)                                               \
    BEST_LANES(DT, dt, T, name, 16, QUICK_##name, q)                                               \
    BEST_FUNCTION(DT, dt, T, name, BEST_QUICK(DT, dt, T, name))
/* y[r] = the best of the n elements of row r. */
#define BEST_ROWS(DT, dt, T, name)                                                                 \
    static void best_rows_##name##_##dt(int64_t rows, int64_t n, const void *px, int64_t step,     \
                                        void *py)                                                  \
    {                                                                                              \
        const T *x = px;                                                                           \
        T *y = py;                                                                                 \
        for (int64_t r = 0; r < rows; r++, x += step) {                                            \
            y[r] = x[0];                                                                           \
            best_##name##_##dt(n, x, y + r);                                                       \
        }                                                                                          \
    }
FLOAT_TYPES(FLOAT_BEST, max)
FLOAT_TYPES(FLOAT_BEST, min)
INT_TYPES(BEST, max)
INT_TYPES(BEST, min)
NUM_TYPES(BEST_ROWS, max)
NUM_TYPES(BEST_ROWS, min)

#define BEST_OVER(DT, dt, T, name)                                                                 \
    static void best_over_##name##_##dt(int64_t rows, int64_t n, const void *px, int64_t step,     \
                                        void *py)                                                  \
    {                                                                                              \
        const T *x = px;                                                                           \
        T *y = py;                                                                                 \
        for (int64_t r = 0; r < rows; r++, x += step) {                                            \
            EACH y[i] = m_##name(x[i], y[i]);                                                      \
        }                                                                                          \
    }
/* What the quick pass writes is in the rows or was there: the exact one may start from it. */
#define FLOAT_BEST_OVER(DT, dt, T, name)                                                           \
    BEST_OVER(DT, dt##_exact, T, name)                                                             \
    static void best_over_##name##_##dt(int64_t rows, int64_t n, const void *px, int64_t step,     \
                                        void *py)                                                  \
    {                                                                                              \
        const T *x = px;                                                                           \
        T *y = py;                                                                                 \
        for (; rows >= 4; rows -= 4, x += 4 * step) {                                              \
            const T *x1 = x + step, *x2 = x1 + step, *x3 = x2 + step;                              \
            int bad = 0;                                                                           \
            FETCH_NEXT                                                                             \
            EACH                                                                                   \
            {                                                                                      \
                T a = QUICK_##name(x[i], y[i]), b = QUICK_##name(x1[i], a),                        \
                  c = QUICK_##name(x2[i], b), d = QUICK_##name(x3[i], c);                          \
                bad |= __builtin_isunordered(x[i], x1[i]) | __builtin_isunordered(x2[i], x3[i]) |  \
                       IS_BEATEN_##name(d);                                                        \
                y[i] = d;                                                                          \
            }                                                                                      \
            if (bad) best_over_##name##_##dt##_exact(4, n, x, step, y);                            \
        }                                                                                          \
        best_over_##name##_##dt##_exact(rows, n, x, step, y);                                      \
    }
FLOAT_TYPES(FLOAT_BEST_OVER, max)
FLOAT_TYPES(FLOAT_BEST_OVER, min)
INT_TYPES(BEST_OVER, max)
INT_TYPES(BEST_OVER, min)

/* Position of the first element that is equal to *pbest, or a NaN like it; n if there is none. */
#define FIND(DT, dt, T, unused)                                                                    \
    static int64_t find_##dt(int64_t n, const void *px, const void *pbest)                         \
    {                                                                                              \
        const T *x = px;                                                                           \
        T best;                                                                                    \
        memcpy(&best, pbest, sizeof best);                                                         \
        bool nan = best != best;                                                                   \
        int64_t i = 0;                                                                             \
        for (; i + 64 <= n; i += 64) {                                                             \
            int hit = 0;                                                                           \
            for (int j = 0; j < 64; j++) hit |= (x[i + j] == best) | (x[i + j] != x[i + j]);       \
            if (hit) break;                                                                        \
        }                                                                                          \
        for (; i < n; i++) {                                                                       \
            if (x[i] == best || (nan && x[i] != x[i])) return i;                                   \
        }                                                                                          \
        return n;                                                                                  \
    }
NUM_TYPES(FIND, unused)

/* Where x[i] of a row is better than best[i], or the first NaN: best[i] = x[i], index[i] = at for
 * the first row, at + 1 for the next. Four rows at a time. */
#define REPLACE_ONE(T, x, better, at)                                                              \
    {                                                                                              \
        T value = x;                                                                               \
        bool nan = (value != value) & (y == y);                                                    \
        bool wins = (value better y) | nan;                                                        \
        y = wins ? value : y;                                                                      \
        where = wins ? (at) : where;                                                               \
    }
#define REPLACE(DT, dt, T, name, better)                                                           \
    static void replace_##name##_##dt(int64_t rows, int64_t n, const void *px, int64_t step,       \
                                      void *pbest, int32_t *index, int32_t at)                     \
    {                                                                                              \
        const T *x = px;                                                                           \
        T *best = pbest;                                                                           \
        for (; rows > 0; rows--, x += step, at++) {                                                \
            if (rows >= 8 && rows % 4 == 0) FETCH_NEXT                                             \
            EACH                                                                                   \
            {                                                                                      \
                T y = best[i];                                                                     \
                int32_t where = index[i];                                                          \
                REPLACE_ONE(T, x[i], better, at)                                                   \
                best[i] = y;                                                                       \
                index[i] = where;                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
NUM_TYPES(REPLACE, max, >)
NUM_TYPES(REPLACE, min, <)

static void exp_f32_row(int64_t n, const float *x, float max, float *y)
{
    EACH y[i] = m_exp_f32(x[i] - max);
}

static void div_f32_row(int64_t n, float *x, float by)
{
    EACH x[i] = x[i] / by;
}

static void norm_f32_row(int64_t n, float *x, float mean, float by)
{
    EACH x[i] = (x[i] - mean) / by;
}

static void square_f32_row(int64_t n, const float *x, float mean, float *y)
{
    EACH y[i] = (x[i] - mean) * (x[i] - mean);
}

/* ---- Whole lines: what lines.c does step by step, to the same bits; y may be x ----------------
 */

static float sum_line(int64_t n, const float *x)
{
    float sum = 0;
    for (int64_t i = 0; i < n; i += TP_SUM_BLOCK)
        sum += sum_block_f32(n - i < TP_SUM_BLOCK ? n - i : TP_SUM_BLOCK, x + i);
    return sum;
}

/* What fills up the last lanes adds 0. */
static inline float sum_squares_block(int64_t n, const float *x, float mean)
{
    lanes_f32 acc = {0}, part = acc + mean;
    int64_t i = 0;
    for (; i + TP_LANES <= n; i += TP_LANES) {
        lanes_f32 d = *(const lanes_f32 *)(const void *)(x + i) - mean;
        acc += d * d;
    }
    if (i < n) {
        memcpy(&part, x + i, (size_t)(n - i) * sizeof *x);
        part -= mean;
        acc += part * part;
    }
    return sum_lanes_f32(&acc);
}

static void softmax_f32_line(int64_t n, const float *x, bool masked, float *y)
{
    float max = x[0];
    best_max_f32(n, x, &max);
    if (masked && max == -__builtin_inff()) {
        memset(y, 0, (size_t)n * sizeof *y);
        return;
    }
    EACH y[i] = m_exp_f32(x[i] - max);
    float sum = sum_line(n, y);
    EACH y[i] = y[i] / sum;
}

static void layer_norm_f32_line(int64_t n, const float *x, const float *weight, const float *bias,
                                float eps, float *y)
{
    float mean = sum_line(n, x) / (float)n, squares = 0;
    for (int64_t i = 0; i < n; i += TP_SUM_BLOCK)
        squares += sum_squares_block(n - i < TP_SUM_BLOCK ? n - i : TP_SUM_BLOCK, x + i, mean);
    float by = __builtin_sqrtf(squares / (float)n + eps);
    if (weight && bias) {
        EACH y[i] = (x[i] - mean) / by * weight[i] + bias[i];
        return;
    }
    EACH y[i] = (x[i] - mean) / by;
    if (weight) EACH y[i] = y[i] * weight[i];
    if (bias) EACH y[i] = y[i] + bias[i];
}

#endif
