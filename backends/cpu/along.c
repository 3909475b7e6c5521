/* What picks and adds at indices along an axis: take_along, scatter_add; and what all kernels along
 * an axis share. */
#include "along.h"
#include "kernels.h"
#include "threads.h"

#include <string.h>

/* Elements that are worth a thread. */
#define WORK 16384
#define TILE TP_ALONG_TILE

static int64_t axis_stride(const tp_operand *o, int axis)
{
    return o->view.shape[axis] > 1
               ? o->view.stride[axis] * (int64_t)tp_dtype_size((tp_dtype)o->dtype)
               : 0;
}

void tp_along_start(tp_along *j, const tp_step *step, const tp_run *run)
{
    *j = (tp_along){.step = step, .context = run->context, .inner = 1, .bad = INT64_MAX};
    tp_nest_make(&j->nest, step, run, 0, step->operand_count, ~(1U << step->axis), false);
    j->n = step->domain.shape[step->axis];
    j->stride[0] = axis_stride(&step->out, step->axis);
    for (int i = 0; i < step->operand_count; i++)
        j->stride[i + 1] = axis_stride(&step->operand[i], step->axis);
    for (int d = step->axis + 1; d < step->domain.ndim; d++) j->inner *= step->domain.shape[d];
}

char *tp_along_line(const tp_along *j, int operand, int64_t line)
{
    return j->nest.base[operand] + tp_nest_offset(&j->nest, operand, j->nest.ndim, line);
}

void tp_along_run(tp_along *j, const tp_run *run, void (*fn)(void *, int64_t, int64_t))
{
    int64_t lines = 1;
    if (tp_view_numel(&j->step->domain) == 0) return;
    for (int d = 0; d < j->nest.ndim; d++) lines *= j->nest.shape[d];
    tp_parallel_for(run->threads, lines, WORK / j->n + 1, fn, j);
}

/* ---- Indices ---------------------------------------------------------------------------- */

/* Where an index of a line stands in row-major order. */
static int64_t position(const tp_along *j, int64_t line, int64_t i)
{
    return line / j->inner * j->n * j->inner + i * j->inner + line % j->inner;
}

static void note_bad(tp_along *j, int64_t at)
{
    int64_t seen = __atomic_load_n(&j->bad, __ATOMIC_RELAXED);
    while (at < seen && !__atomic_compare_exchange_n(&j->bad, &seen, at, false, __ATOMIC_RELAXED,
                                                     __ATOMIC_RELAXED)) {
    }
}

/* Indices first .. first + n of a line as places in [0, size); 0 for one out of range. */
static void read_places(tp_along *j, int operand, int64_t line, int64_t first, int64_t n,
                        int64_t *place)
{
    const tp_operand *o = &j->step->operand[operand - 1];
    tp_convert(n, (tp_dtype)o->dtype, tp_along_line(j, operand, line) + first * j->stride[operand],
               j->stride[operand], TP_I64, place, sizeof *place);
    for (int64_t i = 0; i < n; i++) {
        bool huge = o->dtype == TP_U64 && place[i] < 0; /* above 2^63-1 */
        bool good = !huge && place[i] >= -j->size && place[i] < j->size;
        if (!good) note_bad(j, position(j, line, first + i));
        place[i] = !good ? 0 : place[i] < 0 ? place[i] + j->size : place[i];
    }
}

/* The verdict on all indices of an operand; the lowest bad one is told. */
static tp_status check_bad(const tp_along *j, int operand, tp_run *run)
{
    if (j->bad == INT64_MAX) return TP_OK;
    const tp_operand *o = &j->step->operand[operand - 1];
    int64_t line = j->bad / (j->n * j->inner) * j->inner + j->bad % j->inner,
            i = j->bad / j->inner % j->n;
    run->fault[0] =
        tp_value_load((tp_dtype)o->dtype, tp_along_line(j, operand, line) + i * j->stride[operand])
            .i;
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
    tp_along *j = arg;
    int64_t place[TILE], width = (int64_t)tp_dtype_size((tp_dtype)j->step->out.dtype);
    for (int64_t line = begin; line < end && j->size > 0; line++) {
        for (int64_t first = 0; first < j->n; first += TILE) {
            int64_t n = j->n - first < TILE ? j->n - first : TILE;
            read_places(j, 2, line, first, n, place);
            move(n, width, tp_along_line(j, 1, line), j->stride[1], place,
                 tp_along_line(j, 0, line) + first * j->stride[0], j->stride[0]);
        }
    }
}

static tp_status run_take_along(const tp_step *step, tp_run *run)
{
    tp_along j;
    tp_along_start(&j, step, run);
    j.size = step->operand[0].view.shape[step->axis];
    if (j.size == 0 && tp_view_numel(&step->domain) > 0) j.bad = 0; /* nothing to take from */
    tp_along_run(&j, run, take_lines);
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
    tp_along *j = arg;
    int64_t place[TILE];
    for (int64_t line = begin; line < end; line++) {
        for (int64_t first = 0; first < j->n; first += TILE)
            read_places(j, 1, line, first, j->n - first < TILE ? j->n - first : TILE, place);
    }
}

static void add_lines(void *arg, int64_t begin, int64_t end)
{
    tp_along *j = arg;
    int64_t place[TILE];
    for (int64_t line = begin; line < end; line++) {
        for (int64_t first = 0; first < j->n; first += TILE) {
            int64_t n = j->n - first < TILE ? j->n - first : TILE;
            read_places(j, 1, line, first, n, place);
            add(n, (tp_dtype)j->step->out.dtype, tp_along_line(j, 2, line) + first * j->stride[2],
                j->stride[2], place, tp_along_line(j, 0, line), j->stride[0]);
        }
    }
}

static tp_status run_scatter_add(const tp_step *step, tp_run *run)
{
    tp_along j;
    tp_along_start(&j, step, run);
    j.size = step->out.view.shape[step->axis];
    tp_along_run(&j, run, check_lines);
    tp_status status = check_bad(&j, 1, run);
    if (status == TP_OK) tp_along_run(&j, run, add_lines);
    return status;
}

static const tp_kernel take_along = {"take_along", NULL, run_take_along, NULL};
static const tp_kernel scatter_add = {"scatter_add", NULL, run_scatter_add, NULL};
const tp_kernel *const tp_cpu_take_along_kernels[] = {&take_along, NULL};
const tp_kernel *const tp_cpu_scatter_add_kernels[] = {&scatter_add, NULL};
