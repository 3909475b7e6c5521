/* Sorting along an axis: a line's elements as unsigned keys in the order wanted, with their
 * indices; runs sorted by insertion, then merged. Stable. */
#include "along.h"
#include "kernels.h"

#include <string.h>

/* Runs that are sorted by insertion before they are merged. */
#define RUN 16

/* key: unsigned, in the order wanted. */
typedef struct entry {
    uint64_t key;
    int64_t index;
} entry;

static uint64_t key_of_real(double x)
{
    uint64_t bits;
    if (x != x) return UINT64_MAX;
    x += 0.0; /* -0 becomes +0 */
    memcpy(&bits, &x, sizeof bits);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

/* The keys of a line; the entries hold the converted elements first. */
static void read_keys(const tp_along *j, int64_t line, entry *entries)
{
    tp_dtype dtype = (tp_dtype)j->step->operand[0].dtype;
    bool floats = tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT;
    uint64_t flip = j->step->value[0].i ? UINT64_MAX : 0;
    tp_convert(j->n, dtype, tp_along_line(j, 1, line), j->stride[1],
               floats            ? TP_F64
               : dtype == TP_U64 ? TP_U64
                                 : TP_I64,
               &entries[0].key, sizeof *entries);
    for (int64_t i = 0; i < j->n; i++) {
        uint64_t key = entries[i].key;
        if (floats) {
            double x;
            memcpy(&x, &key, sizeof x);
            key = key_of_real(x);
        } else if (dtype != TP_U64)
            key ^= UINT64_C(1) << 63;
        entries[i] = (entry){key ^ flip, i};
    }
}

static void sort_run(entry *e, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        entry next = e[i];
        int64_t at = i;
        for (; at > 0 && next.key < e[at - 1].key; at--) e[at] = e[at - 1];
        e[at] = next;
    }
}

static void merge(const entry *a, int64_t na, const entry *b, int64_t nb, entry *to)
{
    while (na && nb) {
        bool second = b->key < a->key;
        *to++ = second ? *b : *a;
        a += !second;
        b += second;
        na -= !second;
        nb -= second;
    }
    memcpy(to, na ? a : b, (size_t)(na + nb) * sizeof *to);
}

/* Stable; the result is in e or spare, which is given. */
static const entry *sort_entries(entry *e, entry *spare, int64_t n)
{
    for (int64_t at = 0; at < n; at += RUN) sort_run(e + at, n - at < RUN ? n - at : RUN);
    for (int64_t run = RUN; run < n; run *= 2) {
        for (int64_t at = 0; at < n; at += 2 * run) {
            int64_t left = n - at < run ? n - at : run,
                    right = n - at - left < run ? n - at - left : run;
            merge(e + at, left, e + at + left, right, spare + at);
        }
        entry *swap = e;
        e = spare;
        spare = swap;
    }
    return e;
}

static void sort_lines(void *arg, int64_t begin, int64_t end)
{
    tp_along *j = arg;
    int64_t width = (int64_t)tp_dtype_size((tp_dtype)j->step->out.dtype);
    size_t bytes = (size_t)j->n * 2 * sizeof(entry);
    entry *entries = tp_context_alloc(j->context, bytes);
    if (!entries) {
        __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t line = begin; line < end; line++) {
        char *to = tp_along_line(j, 0, line);
        read_keys(j, line, entries);
        const entry *sorted = sort_entries(entries, entries + j->n, j->n);
        for (int64_t i = 0; i < j->n; i++, to += j->stride[0]) {
            if (j->step->op == TP_OP_SORT)
                memcpy(to, tp_along_line(j, 1, line) + sorted[i].index * j->stride[1],
                       (size_t)width);
            else
                memcpy(to, &sorted[i].index, sizeof sorted[i].index);
        }
    }
    tp_context_free(j->context, entries, bytes);
}

static tp_status run_sort(const tp_step *step, tp_run *run)
{
    tp_along j;
    int64_t bytes;
    tp_along_start(&j, step, run);
    if (__builtin_mul_overflow(j.n, (int64_t)(2 * sizeof(entry)), &bytes)) return TP_E_NOMEM;
    tp_along_run(&j, run, sort_lines);
    return j.failed ? TP_E_NOMEM : TP_OK;
}

static const tp_kernel sort = {"sort", NULL, run_sort, NULL};
const tp_kernel *const tp_cpu_sort_kernels[] = {&sort, NULL};
