/* Elementwise steps: one kernel text for each structure of operands, any fused program in it.
 *
 * Threads take units of `width` neighbouring elements. Operands that lie densely along the
 * innermost dim, at addresses that allow it, are read and written 16, 8 or 4 bytes at once; those
 * that repeat there are read once for a unit. */
#include "ewise.h"

#include <stdio.h>

#define THREADS 256

/* Operand 0 of the space is out, then the step's operands. */
typedef struct ewise {
    const tp_step *step;
    tp_cuda_space space;
    const char *at[TP_CUDA_OPERANDS];
    tp_dtype dtype[TP_CUDA_OPERANDS];
    bool narrow;
    int width;
} ewise;

static size_t element_bytes(const ewise *e, int i)
{
    return tp_dtype_size(e->dtype[i]);
}

static int64_t inner_size(const ewise *e)
{
    return e->space.ndim ? e->space.size[e->space.ndim - 1] : 1;
}

static int64_t inner_stride(const ewise *e, int i)
{
    return e->space.ndim ? e->space.stride[i][e->space.ndim - 1] : 0;
}

/* Whether units of `width` elements do: out is stored whole, dense operands are loaded whole, and
 * units end where the innermost dim does, or it is the only one. */
static bool width_fits(const ewise *e, int width)
{
    if (e->space.ndim > 1 && inner_size(e) % width) return false;
    for (int i = 0; i < e->space.count; i++) {
        size_t bytes = element_bytes(e, i) * (size_t)width;
        if (inner_stride(e, i) != 1) {
            if (i == 0) return false;
            continue;
        }
        if (bytes > 16 || bytes < 4) return false;
        if (!tp_cuda_space_allows(&e->space, i, e->at[i], element_bytes(e, i), width)) return false;
    }
    return true;
}

static int choose_width(const ewise *e)
{
    int width = e->step->prologue.insn_count > 24 ? 4 : 8;
    while (width > 1 && !width_fits(e, width)) width /= 2;
    return width;
}

/* ---- The text ----------------------------------------------------------------------------------
 */

/* Whether operand i is one vector for each unit. */
static bool is_vector(const ewise *e, int i)
{
    return e->width > 1 && inner_stride(e, i) == 1;
}

static int vector_bytes(const ewise *e, int i)
{
    return (int)element_bytes(e, i) * e->width;
}

/* v<i> of element k, from its vector, or from memory. */
static void add_load(tp_text *text, const ewise *e, int i, bool whole)
{
    char element[200];
    tp_text from = {.at = element, .size = sizeof element};
    int number = i - 1;
    if (whole && is_vector(e, i)) {
        char bits[60];
        snprintf(bits, sizeof bits, "tp_get_%zu(w%d, k)", element_bytes(e, i), i);
        tp_cuda_add_from_bits(&from, e->dtype[i], bits);
    } else if (inner_stride(e, i) == 0) {
        tp_text_add(&from, "s%d", i);
    } else if (inner_stride(e, i) == 1) {
        tp_text_add(&from, "arg.x%d[o%d + k]", i, i);
    } else {
        tp_text_add(&from, "arg.x%d[o%d + k * (%s)arg.s%d_%d]", i, i,
                    tp_cuda_index_type(e->narrow, true), i, e->space.ndim - 1);
    }
    tp_text_add(text, "        %s v%d = ", tp_cuda_value_type(e->dtype[i]), number);
    tp_cuda_add_loaded(text, e->dtype[i], element);
    tp_text_add(text, ";\n");
}

/* The loop over the unit's elements: whole, with its vectors, or what is left of it. */
static void add_elements(tp_text *text, const ewise *e, bool whole)
{
    const tp_program *program = &e->step->prologue;
    tp_dtype dtype[TP_PROGRAM_LOADS + TP_PROGRAM_INSNS];
    char value[40], stored[100];
    tp_text element = {.at = stored, .size = sizeof stored};
    for (int i = 1; whole && i < e->space.count; i++) {
        if (is_vector(e, i))
            tp_text_add(text, "    tp_vec%d w%d = tp_load_%d(arg.x%d + o%d);\n", vector_bytes(e, i),
                        i, vector_bytes(e, i), i, i);
    }
    bool vector = whole && is_vector(e, 0);
    if (vector) tp_text_add(text, "    tp_vec%d w0 = {{0}};\n    TP_UNROLL\n", vector_bytes(e, 0));
    if (whole)
        tp_text_add(text, "    for (int k = 0; k < %d; k++) {\n", e->width);
    else
        tp_text_add(text, "    for (int k = 0; k < left; k++) {\n");
    for (int i = 1; i < e->space.count; i++) {
        add_load(text, e, i, whole);
        dtype[i - 1] = e->dtype[i];
    }
    tp_cuda_add_program(text, program, "v", dtype);
    snprintf(value, sizeof value, "v%d", program->result);
    tp_cuda_add_stored(&element, e->dtype[0], value);
    if (vector)
        tp_text_add(text, "        tp_put_%zu(w0, k, %s, %s);\n", element_bytes(e, 0),
                    tp_cuda_storage_type(e->dtype[0]), stored);
    else
        tp_text_add(text, "        arg.x0[o0 + k%s] = %s;\n", "", stored);
    tp_text_add(text, "    }\n");
    if (vector) tp_text_add(text, "    tp_store_%d(arg.x0 + o0, w0);\n", vector_bytes(e, 0));
}

/* Operands that repeat along the innermost dim, once for a unit. */
static void add_repeated(tp_text *text, const ewise *e)
{
    for (int i = 1; i < e->space.count; i++) {
        if (inner_stride(e, i) == 0)
            tp_text_add(text, "    %s s%d = arg.x%d[o%d];\n", tp_cuda_storage_type(e->dtype[i]), i,
                        i, i);
    }
}

static void add_kernel(tp_text *text, const ewise *e, const char *name)
{
    const char *U = tp_cuda_index_type(e->narrow, false);
    bool has_tail = e->width > 1 && e->space.ndim == 1;
    tp_text_add(text,
                "TP_KERNEL(%s, Args)\n{\n"
                "    for (int64_t u = tp_block_x * tp_block_dim + tp_thread_x; u < arg.units; "
                "u += tp_grid_dim * tp_block_dim) {\n",
                name);
    char index[60];
    snprintf(index, sizeof index, "(%s)u * %d", U, e->width);
    tp_cuda_add_offsets(text, &e->space, e->narrow, "", index, "o", (1U << e->space.count) - 1);
    add_repeated(text, e);
    if (has_tail) {
        tp_text_add(text, "    int64_t left = arg.total - u * %d;\n    if (left >= %d) {\n",
                    e->width, e->width);
        add_elements(text, e, true);
        tp_text_add(text, "    } else {\n");
        add_elements(text, e, false);
        tp_text_add(text, "    }\n");
    } else {
        add_elements(text, e, true);
    }
    tp_text_add(text, "    }\n}\n");
}

/* ---- The step -----------------------------------------------------------------------------------
 */

static void prepare(const tp_step *step, const tp_run *run, ewise *e)
{
    const tp_view *view[TP_CUDA_OPERANDS] = {&step->out.view};
    e->step = step;
    e->at[0] = tp_operand_at(&step->out, run);
    e->dtype[0] = (tp_dtype)step->out.dtype;
    for (int i = 0; i < step->operand_count; i++) {
        view[i + 1] = &step->operand[i].view;
        e->at[i + 1] = tp_operand_at(&step->operand[i], run);
        e->dtype[i + 1] = (tp_dtype)step->operand[i].dtype;
    }
    tp_cuda_space_make(&e->space, &step->domain, ~0U, step->operand_count + 1, view, true);
    e->narrow = tp_cuda_space_is_narrow(&e->space);
    e->width = choose_width(e);
}

static tp_status run_ewise(const tp_step *step, tp_run *run)
{
    ewise e;
    tp_cuda_args args;
    if (tp_cuda_fold_epilogue(step, run)) return TP_OK;
    prepare(step, run, &e);
    int64_t units = e.space.total / e.width + (e.space.total % e.width != 0);
    bool copies = step->prologue.insn_count == 0;
    const char *name = copies ? "copy" : "ewise";
    tp_cuda_args_begin(&args, run);
    for (int i = 0; i < e.space.count; i++) {
        char type[40];
        snprintf(type, sizeof type, "%s%s", i ? "const " : "", tp_cuda_storage_type(e.dtype[i]));
        tp_cuda_arg_pointer(&args, type, e.at[i], "x%d", i);
    }
    tp_cuda_arg_integer(&args, units, "units");
    tp_cuda_arg_integer(&args, e.space.total, "total");
    tp_cuda_args_space(&args, &e.space, e.narrow, "");
    tp_cuda_args_end(&args);
    add_kernel(args.text, &e, name);
    return tp_cuda_launch_args(run, name, tp_cuda_blocks(units, THREADS), THREADS, &args);
}

static const tp_kernel ewise_kernel = {"cuda_ewise", NULL, run_ewise, NULL};
const tp_kernel *const tp_cuda_ewise_kernels[] = {&tp_cuda_transpose_kernel, &ewise_kernel, NULL};

/* ---- arange
 * --------------------------------------------------------------------------------------- */

static tp_status run_arange(const tp_step *step, tp_run *run)
{
    tp_dtype dtype = (tp_dtype)step->out.dtype;
    bool real = tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT;
    int64_t n = step->domain.shape[0];
    tp_cuda_args args;
    tp_cuda_args_begin(&args, run);
    tp_cuda_arg_pointer(&args, tp_cuda_storage_type(dtype), tp_operand_at(&step->out, run), "y");
    tp_cuda_arg_integer(&args, n, "n");
    tp_cuda_arg_integer(&args, n > 1 ? step->out.view.stride[0] : 1, "stride");
    if (real) {
        tp_cuda_arg_real(&args, step->value[0].f, "start");
        tp_cuda_arg_real(&args, step->value[1].f, "step");
    } else {
        tp_cuda_arg_integer(&args, step->value[0].i, "start");
        tp_cuda_arg_integer(&args, step->value[1].i, "step");
    }
    tp_cuda_args_end(&args);
    tp_text_add(args.text,
                "TP_KERNEL(arange, Args)\n{\n"
                "    for (int64_t i = tp_block_x * tp_block_dim + tp_thread_x; i < arg.n; "
                "i += tp_grid_dim * tp_block_dim) {\n        ");
    if (real)
        tp_text_add(args.text, "double v = arg.start + (double)i * arg.step;\n");
    else
        tp_text_add(args.text, "int64_t v = (int64_t)((uint64_t)arg.start + (uint64_t)i * "
                               "(uint64_t)arg.step);\n");
    tp_text_add(args.text, "        %s w = ", tp_cuda_value_type(dtype));
    tp_cuda_add_converted(args.text, real ? TP_F64 : TP_I64, dtype, "v");
    tp_text_add(args.text, ";\n        arg.y[i * arg.stride] = ");
    tp_cuda_add_stored(args.text, dtype, "w");
    tp_text_add(args.text, ";\n    }\n}\n");
    return tp_cuda_launch_args(run, "arange", tp_cuda_blocks(n, THREADS), THREADS, &args);
}

static const tp_kernel arange_kernel = {"cuda_arange", NULL, run_arange, NULL};
const tp_kernel *const tp_cuda_arange_kernels[] = {&arange_kernel, NULL};
