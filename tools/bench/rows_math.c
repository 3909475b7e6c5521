/* Functions of f32 against one call of the C library for each element. */
#include "bench.h"

typedef struct function {
    tp_tensor *(*build)(tp_tensor *x);
    bench_loop libm;
    float low, high;
} function;

/* The builders are macros that record the caller: a function of each is needed. */
#define FUNCTION(name, low, high)                                                                  \
    static tp_tensor *build_##name(tp_tensor *x)                                                   \
    {                                                                                              \
        return tp_##name(x);                                                                       \
    }                                                                                              \
    static const function function_##name = {build_##name, bench_libm_##name, low, high};
FUNCTION(exp, -80, 80)
FUNCTION(log, 1e-3F, 1e3F)
FUNCTION(tanh, -4, 4)
FUNCTION(erf, -3, 3)
FUNCTION(sigmoid, -20, 20)
FUNCTION(sin, -100, 100)
FUNCTION(cos, -100, 100)

static void against_libm(bench *b, const bench_row *row)
{
    const function *f = row->with;
    int64_t n = row->size[0];
    float *x = bench_floats(b, 0, n, f->low, f->high);
    tp_tensor *y = f->build(bench_leaf(bench_graph(b), TP_F32, TP_DIMS(n), x));
    bench_loop_call loop = {.loop = f->libm,
                            .n = n,
                            .a = x,
                            .y = bench_bytes(b, 3, (size_t)n * 4),
                            .size_a = 4,
                            .size_y = 4,
                            .threads = b->threads};
    bench_compare(b, bench_eval(b, y), bench_run_loop(&loop));
    bench_check(b, y, loop.y, n);
}

typedef struct after {
    const bench *b;
    bench_call ours, libm;
    bool clean;
} after;

static void run_after(void *arg)
{
    const after *a = arg;
    a->ours.run(a->ours.arg);
    if (a->clean) a->b->plain->clean_registers();
    a->libm.run(a->libm.arg);
}

/* What our call leaves behind: plain code after it, as it is and with its registers cleaned. */
static void plain_code_after(bench *b, const bench_row *row)
{
    int64_t n = row->size[0];
    float *x = bench_floats(b, 0, n, -2, 2);
    tp_tensor *a = bench_leaf(bench_graph(b), TP_F32, TP_DIMS(n), x);
    bench_loop_call loop = {.loop = bench_libm_exp,
                            .n = n,
                            .a = x,
                            .y = bench_bytes(b, 3, (size_t)n * 4),
                            .size_a = 4,
                            .size_y = 4,
                            .threads = 1};
    after as_is = {b, bench_eval(b, tp_add(tp_mul(a, a), a)), bench_run_loop(&loop), false},
          cleaned = as_is;
    cleaned.clean = true;
    if (!as_is.ours.run || !loop.y) return;
    bench_compare(b, (bench_call){run_after, &as_is}, (bench_call){run_after, &cleaned});
}

#define FUNCTION_ROW(name)                                                                         \
    BENCH_ENTRY("math/" #name "/64K", "tp_" #name, "scalar libm", 8, against_libm,                 \
                &function_##name, 0, 65536)

/* clang-format off */
const bench_row bench_rows_math[] = {
    FUNCTION_ROW(exp), FUNCTION_ROW(log), FUNCTION_ROW(tanh), FUNCTION_ROW(erf),
    FUNCTION_ROW(sigmoid), FUNCTION_ROW(sin), FUNCTION_ROW(cos),
    BENCH_ENTRY("math/libm-after-a*a+a/4K", "libm after a fused loop", "registers cleaned between",
                0.95, plain_code_after, NULL, 0, 4096),
    {0}};
/* clang-format on */
