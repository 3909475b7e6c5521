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

/* The best of *y and x. Neither order nor repetition matters: lanes run over x, and the last block
 * of lanes overlaps the one before, so that there is no tail. */
#define BEST_LANES(DT, dt, T, name, LANES)                                                         \
    static inline T best_##name##_##dt##_##LANES(int64_t n, const T *x, T best)                    \
    {                                                                                              \
        T lane[LANES];                                                                             \
        for (int j = 0; j < LANES; j++) lane[j] = best;                                            \
        for (int64_t i = 0; i < n; i += LANES) {                                                   \
            const T *block = x + (i + LANES <= n ? i : n - LANES);                                 \
            for (int j = 0; j < LANES; j++) lane[j] = m_##name(block[j], lane[j]);                 \
        }                                                                                          \
        for (int half = LANES / 2; half > 0; half /= 2) {                                          \
            for (int j = 0; j < half; j++) lane[j] = m_##name(lane[j], lane[j + half]);            \
        }                                                                                          \
        return lane[0];                                                                            \
    }
#define BEST(DT, dt, T, name)                                                                      \
    BEST_LANES(DT, dt, T, name, 64)                                                                \
    BEST_LANES(DT, dt, T, name, 16)                                                                \
    static void best_##name##_##dt(int64_t n, const void *px, void *py)                            \
    {                                                                                              \
        const T *x = px;                                                                           \
        T best;                                                                                    \
        memcpy(&best, py, sizeof best);                                                            \
        if (n >= 64)                                                                               \
            best = best_##name##_##dt##_64(n, x, best);                                            \
        else if (n >= 16)                                                                          \
            best = best_##name##_##dt##_16(n, x, best);                                            \
        else {                                                                                     \
            for (int64_t i = 0; i < n; i++) best = m_##name(best, x[i]);                           \
        }                                                                                          \
        memcpy(py, &best, sizeof best);                                                            \
    }
NUM_TYPES(BEST, max)
NUM_TYPES(BEST, min)

/* Position of the first element that is equal to *pbest, or a NaN like it; n if there is none. */
#define FIND(DT, dt, T, unused)                                                                    \
    static int64_t find_##dt(int64_t n, const void *px, const void *pbest)                         \
    {                                                                                              \
        const T *x = px;                                                                           \
        T best;                                                                                    \
        memcpy(&best, pbest, sizeof best);                                                         \
        bool nan = best != best;                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            if (x[i] == best || (nan && x[i] != x[i])) return i;                                   \
        }                                                                                          \
        return n;                                                                                  \
    }
NUM_TYPES(FIND, unused)

/* Where x[i] is better than best[i], or the first NaN: best[i] = x[i], index[i] = at. */
#define REPLACE(DT, dt, T, name, better)                                                           \
    static void replace_##name##_##dt(int64_t n, const void *px, void *pbest, int64_t *index,      \
                                      int64_t at)                                                  \
    {                                                                                              \
        const T *x = px;                                                                           \
        T *best = pbest;                                                                           \
        EACH                                                                                       \
        {                                                                                          \
            bool nan = (x[i] != x[i]) & (best[i] == best[i]);                                      \
            bool wins = (x[i] better best[i]) | nan;                                               \
            best[i] = wins ? x[i] : best[i];                                                       \
            index[i] = wins ? at : index[i];                                                       \
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

#endif
