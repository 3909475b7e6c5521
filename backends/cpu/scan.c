/* Running sums, products and maxima along an axis: f64 or 64-bit integers inside, a tile of a line
 * at a time. */
#include "along.h"
#include "kernels.h"

#define TILE TP_ALONG_TILE

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
    const tp_along *j = arg;
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
            tp_convert(n, from, tp_along_line(j, 1, line) + first * j->stride[1], j->stride[1],
                       wide, &x, 8);
            if (floats)
                scan_reals(op, to == TP_F64, n, x.real, &c);
            else
                scan_integers(op, wide, n, x.whole, &c);
            tp_convert(n, wide, &x, 8, to, tp_along_line(j, 0, line) + first * j->stride[0],
                       j->stride[0]);
        }
    }
}

static tp_status run_scan(const tp_step *step, tp_run *run)
{
    tp_along j;
    tp_along_start(&j, step, run);
    tp_along_run(&j, run, scan_lines);
    return TP_OK;
}

static const tp_kernel scan = {"scan", NULL, run_scan, NULL};
const tp_kernel *const tp_cpu_scan_kernels[] = {&scan, NULL};
