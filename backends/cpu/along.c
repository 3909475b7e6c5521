/* Kernels that work along one axis, line by line: take_along, scatter_add, running sums, sorting.
 * A line is worked on by one thread from its first element to its last: the same bits with any
 * number of threads. */
#include "kernels.h"
#include "nest.h"
#include "threads.h"

#include <string.h>

/* Elements that are worth a thread; elements of a line that are converted at once. */
#define WORK 16384
#define TILE 256
/* Runs that are sorted by insertion before they are merged. */
#define RUN 16

typedef struct job {
    const tp_step *step;
    tp_context *context;
    tp_nest nest;      /* all dims but the axis: out, then the operands */
    int64_t n;         /* elements of a line of the domain */
    int64_t size;      /* of the axis that indices count in */
    int64_t stride[3]; /* along the axis, of out and the operands, in bytes */
    int64_t inner;     /* elements of the domain between two of a line, in row-major order */
    int64_t bad;       /* the lowest row-major position of an index out of range */
    int failed;        /* out of memory */
} job;

static int64_t axis_stride(const tp_operand *o, int axis)
{
    return o->view.shape[axis] > 1
               ? o->view.stride[axis] * (int64_t)tp_dtype_size((tp_dtype)o->dtype)
               : 0;
}

static void start(job *j, const tp_step *step, const tp_run *run)
{
    *j = (job){.step = step, .context = run->context, .inner = 1, .bad = INT64_MAX};
    tp_nest_make(&j->nest, step, run, 0, step->operand_count, ~(1U << step->axis), false);
    j->n = step->domain.shape[step->axis];
    j->stride[0] = axis_stride(&step->out, step->axis);
    for (int i = 0; i < step->operand_count; i++)
        j->stride[i + 1] = axis_stride(&step->operand[i], step->axis);
    for (int d = step->axis + 1; d < step->domain.ndim; d++) j->inner *= step->domain.shape[d];
}

static char *line_at(const job *j, int operand, int64_t line)
{
    return j->nest.base[operand] + tp_nest_offset(&j->nest, operand, j->nest.ndim, line);
}

static void run_lines(job *j, const tp_run *run, void (*fn)(void *, int64_t, int64_t))
{
    int64_t lines = 1;
    if (tp_view_numel(&j->step->domain) == 0) return;
    for (int d = 0; d < j->nest.ndim; d++) lines *= j->nest.shape[d];
    tp_parallel_for(run->threads, lines, WORK / j->n + 1, fn, j);
}

/* ---- Indices ---------------------------------------------------------------------------- */

/* Where an index of a line stands in row-major order. */
static int64_t position(const job *j, int64_t line, int64_t i)
{
    return line / j->inner * j->n * j->inner + i * j->inner + line % j->inner;
}

static void note_bad(job *j, int64_t at)
{
    int64_t seen = __atomic_load_n(&j->bad, __ATOMIC_RELAXED);
    while (at < seen && !__atomic_compare_exchange_n(&j->bad, &seen, at, false, __ATOMIC_RELAXED,
                                                     __ATOMIC_RELAXED)) {
    }
}

/* Indices first .. first + n of a line as places in [0, size); 0 for one out of range. */
static void read_places(job *j, int operand, int64_t line, int64_t first, int64_t n, int64_t *place)
{
    const tp_operand *o = &j->step->operand[operand - 1];
    tp_convert(n, (tp_dtype)o->dtype, line_at(j, operand, line) + first * j->stride[operand],
               j->stride[operand], TP_I64, place, sizeof *place);
    for (int64_t i = 0; i < n; i++) {
        bool huge = o->dtype == TP_U64 && place[i] < 0; /* above 2^63-1 */
        bool good = !huge && place[i] >= -j->size && place[i] < j->size;
        if (!good) note_bad(j, position(j, line, first + i));
        place[i] = !good ? 0 : place[i] < 0 ? place[i] + j->size : place[i];
    }
}

/* The verdict on all indices of an operand; the lowest bad one is told. */
static tp_status check_bad(const job *j, int operand, tp_run *run)
{
    if (j->bad == INT64_MAX) return TP_OK;
    const tp_operand *o = &j->step->operand[operand - 1];
    int64_t line = j->bad / (j->n * j->inner) * j->inner + j->bad % j->inner,
            i = j->bad / j->inner % j->n;
    run->fault[0] =
        tp_value_load((tp_dtype)o->dtype, line_at(j, operand, line) + i * j->stride[operand]).i;
    run->fault[1] = j->bad;
    run->fault[2] = j->size;
    return TP_E_BOUNDS;
}

#define MOVE(type)                                                                                 \
    for (int64_t i = 0; i < n; i++) {                                                              \
        type element;                                                                              \
        memcpy(&element, from + place[i] * from_step, sizeof element);                             \
        memcpy(to + i * to_step, &element, sizeof element);                                        \
    }

/* Elements of `width` bytes from places to one after the other. */
static void move(int64_t n, int64_t width, const char *from, int64_t from_step,
                 const int64_t *place, char *to, int64_t to_step)
{
    switch (width) {
    case 1:
        MOVE(uint8_t) break;
    case 2:
        MOVE(uint16_t) break;
    case 4:
        MOVE(uint32_t) break;
    default:
        MOVE(uint64_t)
    }
}

static void take_lines(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    int64_t place[TILE], width = (int64_t)tp_dtype_size((tp_dtype)j->step->out.dtype);
    for (int64_t line = begin; line < end && j->size > 0; line++) {
        for (int64_t first = 0; first < j->n; first += TILE) {
            int64_t n = j->n - first < TILE ? j->n - first : TILE;
            read_places(j, 2, line, first, n, place);
            move(n, width, line_at(j, 1, line), j->stride[1], place,
                 line_at(j, 0, line) + first * j->stride[0], j->stride[0]);
        }
    }
}

static tp_status run_take_along(const tp_step *step, tp_run *run)
{
    job j;
    start(&j, step, run);
    j.size = step->operand[0].view.shape[step->axis];
    if (j.size == 0 && tp_view_numel(&step->domain) > 0) j.bad = 0; /* nothing to take from */
    run_lines(&j, run, take_lines);
    return check_bad(&j, 2, run);
}

/* ---- Scatter ------------------------------------------------------------------------------------
 */

#define ADD(type)                                                                                  \
    for (int64_t i = 0; i < n; i++) {                                                              \
        type sum, more;                                                                            \
        memcpy(&sum, to + place[i] * to_step, sizeof sum);                                         \
        memcpy(&more, from + i * from_step, sizeof more);                                          \
        sum = (type)(sum + more);                                                                  \
        memcpy(to + place[i] * to_step, &sum, sizeof sum);                                         \
    }

static void add(int64_t n, tp_dtype dtype, const char *from, int64_t from_step,
                const int64_t *place, char *to, int64_t to_step)
{
    switch (dtype) {
    case TP_F32:
        ADD(float) break;
    case TP_F64:
        ADD(double) break;
    case TP_U8:
    case TP_I8:
        ADD(uint8_t) break;
    case TP_U16:
    case TP_I16:
        ADD(uint16_t) break;
    case TP_U32:
    case TP_I32:
        ADD(uint32_t) break;
    default:
        ADD(uint64_t)
    }
}

/* Looks at the indices only. */
static void check_lines(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    int64_t place[TILE];
    for (int64_t line = begin; line < end; line++) {
        for (int64_t first = 0; first < j->n; first += TILE)
            read_places(j, 1, line, first, j->n - first < TILE ? j->n - first : TILE, place);
    }
}

static void add_lines(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    int64_t place[TILE];
    for (int64_t line = begin; line < end; line++) {
        for (int64_t first = 0; first < j->n; first += TILE) {
            int64_t n = j->n - first < TILE ? j->n - first : TILE;
            read_places(j, 1, line, first, n, place);
            add(n, (tp_dtype)j->step->out.dtype, line_at(j, 2, line) + first * j->stride[2],
                j->stride[2], place, line_at(j, 0, line), j->stride[0]);
        }
    }
}

static tp_status run_scatter_add(const tp_step *step, tp_run *run)
{
    job j;
    start(&j, step, run);
    j.size = step->out.view.shape[step->axis];
    run_lines(&j, run, check_lines);
    tp_status status = check_bad(&j, 1, run);
    if (status == TP_OK) run_lines(&j, run, add_lines);
    return status;
}

/* ---- Running sums
 * ---------------------------------------------------------------------------------
 */

typedef struct carry {
    double real, rest; /* rest: what rounding took from a sum of f64 */
    uint64_t whole;
    bool any;
} carry;

static void scan_reals(tp_op op, bool compensated, int64_t n, double *x, carry *c)
{
    for (int64_t i = 0; i < n; i++) {
        double v = x[i];
        if (op == TP_OP_CUMSUM) {
            double sum = c->real + v, got = sum - c->real,
                   lost = (c->real - (sum - got)) + (v - got);
            c->real = sum;
            if (compensated && lost == lost) c->rest += lost; /* not beside infinities */
            x[i] = sum + c->rest;
        } else if (op == TP_OP_CUMPROD) {
            x[i] = c->real *= v;
        } else {
            bool larger = c->real == c->real &&
                          (v != v || v > c->real ||
                           (v == c->real && __builtin_signbit(c->real) && !__builtin_signbit(v)));
            if (!c->any || larger) c->real = v;
            c->any = true;
            x[i] = c->real;
        }
    }
}

static void scan_integers(tp_op op, tp_dtype calc, int64_t n, uint64_t *x, carry *c)
{
    for (int64_t i = 0; i < n; i++) {
        bool larger = calc == TP_U64 ? x[i] > c->whole : (int64_t)x[i] > (int64_t)c->whole;
        if (op == TP_OP_CUMSUM)
            c->whole += x[i];
        else if (op == TP_OP_CUMPROD)
            c->whole *= x[i];
        else if (!c->any || larger)
            c->whole = x[i];
        c->any = true;
        x[i] = c->whole;
    }
}

static void scan_lines(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const tp_step *step = j->step;
    tp_op op = (tp_op)step->op;
    tp_dtype from = (tp_dtype)step->operand[0].dtype, to = (tp_dtype)step->out.dtype;
    bool floats = tp_dtype_kind_of((tp_dtype)step->calc) == TP_DTYPE_FLOAT;
    tp_dtype wide = floats ? TP_F64 : step->calc == TP_U64 ? TP_U64 : TP_I64;
    union {
        double real[TILE];
        uint64_t whole[TILE];
    } x;
    for (int64_t line = begin; line < end; line++) {
        carry c = {.real = op == TP_OP_CUMPROD, .whole = op == TP_OP_CUMPROD};
        for (int64_t first = 0; first < j->n; first += TILE) {
            int64_t n = j->n - first < TILE ? j->n - first : TILE;
            tp_convert(n, from, line_at(j, 1, line) + first * j->stride[1], j->stride[1], wide, &x,
                       8);
            if (floats)
                scan_reals(op, to == TP_F64, n, x.real, &c);
            else
                scan_integers(op, wide, n, x.whole, &c);
            tp_convert(n, wide, &x, 8, to, line_at(j, 0, line) + first * j->stride[0],
                       j->stride[0]);
        }
    }
}

static tp_status run_scan(const tp_step *step, tp_run *run)
{
    job j;
    start(&j, step, run);
    run_lines(&j, run, scan_lines);
    return TP_OK;
}

/* ---- Sorting ------------------------------------------------------------------------------------
 */

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
static void read_keys(const job *j, int64_t line, entry *entries)
{
    tp_dtype dtype = (tp_dtype)j->step->operand[0].dtype;
    bool floats = tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT;
    uint64_t flip = j->step->value[0].i ? UINT64_MAX : 0;
    tp_convert(j->n, dtype, line_at(j, 1, line), j->stride[1],
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
    job *j = arg;
    int64_t width = (int64_t)tp_dtype_size((tp_dtype)j->step->out.dtype);
    size_t bytes = (size_t)j->n * 2 * sizeof(entry);
    entry *entries = tp_context_alloc(j->context, bytes);
    if (!entries) {
        __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t line = begin; line < end; line++) {
        char *to = line_at(j, 0, line);
        read_keys(j, line, entries);
        const entry *sorted = sort_entries(entries, entries + j->n, j->n);
        for (int64_t i = 0; i < j->n; i++, to += j->stride[0]) {
            if (j->step->op == TP_OP_SORT)
                memcpy(to, line_at(j, 1, line) + sorted[i].index * j->stride[1], (size_t)width);
            else
                memcpy(to, &sorted[i].index, sizeof sorted[i].index);
        }
    }
    tp_context_free(j->context, entries, bytes);
}

static tp_status run_sort(const tp_step *step, tp_run *run)
{
    job j;
    int64_t bytes;
    start(&j, step, run);
    if (__builtin_mul_overflow(j.n, (int64_t)(2 * sizeof(entry)), &bytes)) return TP_E_NOMEM;
    run_lines(&j, run, sort_lines);
    return j.failed ? TP_E_NOMEM : TP_OK;
}

static const tp_kernel take_along = {"take_along", NULL, run_take_along, NULL};
static const tp_kernel scatter_add = {"scatter_add", NULL, run_scatter_add, NULL};
static const tp_kernel scan = {"scan", NULL, run_scan, NULL};
static const tp_kernel sort = {"sort", NULL, run_sort, NULL};
const tp_kernel *const tp_cpu_take_along_kernels[] = {&take_along, NULL};
const tp_kernel *const tp_cpu_scatter_add_kernels[] = {&scatter_add, NULL};
const tp_kernel *const tp_cpu_scan_kernels[] = {&scan, NULL};
const tp_kernel *const tp_cpu_sort_kernels[] = {&sort, NULL};
