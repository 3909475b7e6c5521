/* index_select, take_along and scatter_add. An index that is out of bounds is noted, never
 * followed; of several the one at the first position, whatever the order of blocks. */
#include "along.h"

#include <stdio.h>

#define THREADS 256

tp_view tp_cuda_without_axis(const tp_view *v, int axis, int64_t size)
{
    tp_view y = *v;
    y.shape[axis] = size;
    y.stride[axis] = 0;
    return y;
}

tp_view tp_cuda_along_axis(int ndim, const int64_t *shape, int axis, int64_t stride)
{
    tp_view y = tp_view_row_major(ndim, shape);
    for (int d = 0; d < ndim; d++) y.stride[d] = d == axis ? stride : 0;
    return y;
}

int64_t tp_cuda_axis_stride(const tp_view *v, int axis)
{
    return v->shape[axis] > 1 ? v->stride[axis] : 0;
}

/* ---- Places
 * -------------------------------------------------------------------------------------- */

void tp_cuda_add_place(tp_text *text, tp_dtype dtype, const char *index, const char *position)
{
    tp_text_add(text, "    int64_t p = (int64_t)%s;\n", index);
    if (dtype == TP_U64)
        tp_text_add(text, "    if ((uint64_t)p >= (uint64_t)arg.size) {\n");
    else
        tp_text_add(text, "    if (p < 0) p += arg.size;\n    if (p < 0 || p >= arg.size) {\n");
    tp_text_add(
        text, "        tp_atomic_min_u64(&arg.fault[0], (uint64_t)(%s));\n        p = -1;\n    }\n",
        position);
}

/* The third word of the record counts blocks that have ended, from -1 on. */
void tp_cuda_add_fault_end(tp_text *text, const tp_cuda_space *indices)
{
    tp_text_add(text, "    tp_fence();\n    tp_sync();\n"
                      "    if (tp_thread_x == 0) {\n"
                      "        uint32_t ended = tp_atomic_add_u32((uint32_t *)&arg.fault[2], 1);\n"
                      "        uint64_t at = tp_atomic_min_u64(&arg.fault[0], ~(uint64_t)0);\n"
                      "        if (ended + 2 == (uint32_t)tp_grid_dim && at != ~(uint64_t)0) {\n");
    tp_cuda_add_offsets(text, indices, false, "i", "at", "f", 1);
    tp_text_add(text, "            arg.fault[1] = (uint64_t)(int64_t)arg.index[f0];\n"
                      "        }\n    }\n}\n");
}

/* ---- Gathers
 * --------------------------------------------------------------------------------------- */

/* Operands of the space: out, x without the axis, the indices, the position of the index. */
static tp_status gather(const tp_step *step, tp_run *run, const char *name, const tp_view *indices,
                        const tp_view *position)
{
    const tp_operand *x = &step->operand[0], *index = &step->operand[1];
    tp_dtype dtype = (tp_dtype)index->dtype;
    int64_t size = x->view.shape[step->axis];
    tp_view from = tp_cuda_without_axis(&x->view, step->axis, step->domain.shape[step->axis]);
    const tp_view *view[] = {&step->out.view, &from, indices, position};
    tp_cuda_space s;
    tp_cuda_args args;
    tp_cuda_space_make(&s, &step->domain, ~0U, 4, view, false);
    char *fault = s.total ? tp_cuda_fault(run, size) : NULL;
    if (s.total && !fault) return tp_cuda_status();
    /* Elements are moved as they are. */
    static const char *const types[] = {"", "uint8_t", "uint16_t", "",        "uint32_t",
                                        "", "",        "",         "uint64_t"};
    const char *type = types[tp_dtype_size((tp_dtype)x->dtype)];
    tp_cuda_args_begin(&args, run);
    tp_cuda_arg_pointer(&args, type, tp_operand_at(&step->out, run), "y");
    tp_cuda_arg_pointer(&args, type, tp_operand_at(x, run), "x");
    tp_cuda_arg_pointer(&args, tp_cuda_storage_type(dtype), tp_operand_at(index, run), "index");
    tp_cuda_arg_pointer(&args, "uint64_t", fault, "fault");
    tp_cuda_arg_integer(&args, s.total, "total");
    tp_cuda_arg_integer(&args, size, "size");
    tp_cuda_arg_integer(&args, tp_cuda_axis_stride(&x->view, step->axis), "axis");
    tp_cuda_args_space(&args, &s, false, "");
    /* Where the index at a position lies, for the record. */
    tp_cuda_space i;
    const tp_view *only[] = {&index->view};
    tp_cuda_space_make(&i, &index->view, ~0U, 1, only, false);
    tp_cuda_args_space(&args, &i, false, "i");
    tp_cuda_args_end(&args);
    tp_text_add(args.text,
                "TP_KERNEL(%s, Args)\n{\n"
                "    for (int64_t u = tp_block_x * tp_block_dim + tp_thread_x; u < arg.total; "
                "u += tp_grid_dim * tp_block_dim) {\n",
                name);
    tp_cuda_add_offsets(args.text, &s, false, "", "u", "o", 15);
    tp_cuda_add_place(args.text, dtype, "arg.index[o2]", "o3");
    tp_text_add(args.text, "    if (p >= 0) arg.y[o0] = arg.x[o1 + p * arg.axis];\n    }\n");
    tp_cuda_add_fault_end(args.text, &i);
    return tp_cuda_launch_args(run, name, tp_cuda_blocks(s.total, THREADS), THREADS, &args);
}

static tp_status run_index_select(const tp_step *step, tp_run *run)
{
    const tp_view *domain = &step->domain, *index = &step->operand[1].view;
    tp_view indices =
        tp_cuda_along_axis(domain->ndim, domain->shape, step->axis, tp_cuda_axis_stride(index, 0));
    tp_view position = tp_cuda_along_axis(domain->ndim, domain->shape, step->axis, 1);
    return gather(step, run, "index_select", &indices, &position);
}

static tp_status run_take_along(const tp_step *step, tp_run *run)
{
    tp_view position = tp_view_row_major(step->domain.ndim, step->domain.shape);
    return gather(step, run, "take_along", &step->operand[1].view, &position);
}

/* ---- Scatter
 * ------------------------------------------------------------------------------------------ */

/* y[p] += v in the type that the sum is rounded from. */
static void add_sum(tp_text *text, tp_dtype dtype)
{
    const char *type = tp_cuda_value_type(dtype);
    bool half = dtype == TP_F16 || dtype == TP_BF16;
    tp_text_add(text,
                "    %s *y = &arg.y[o0 + p * arg.axis];\n    %s a = ", tp_cuda_storage_type(dtype),
                type);
    tp_cuda_add_loaded(text, dtype, "*y");
    tp_text_add(text, ", b = ");
    tp_cuda_add_loaded(text, dtype, "arg.x[o2 + k * arg.source]");
    if (half) {
        tp_text_add(text, ";\n    double sum = (double)a + (double)b;\n    %s c = ", type);
        tp_cuda_add_converted(text, TP_F64, dtype, "sum");
    } else if (tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT) {
        tp_text_add(text, ", c = a + b");
    } else {
        tp_text_add(text, ";\n    uint64_t sum = (uint64_t)a + (uint64_t)b;\n    %s c = ", type);
        tp_text_add(text, dtype == TP_BOOL ? "sum != 0" : "(%s)sum", type);
    }
    tp_text_add(text, ";\n    *y = ");
    tp_cuda_add_stored(text, dtype, "c");
    tp_text_add(text, ";\n");
}

/* A thread goes along a line and adds in its order: the same bits in every run. */
static tp_status run_scatter_add(const tp_step *step, tp_run *run)
{
    const tp_operand *index = &step->operand[0], *source = &step->operand[1];
    tp_dtype dtype = (tp_dtype)step->out.dtype, index_dtype = (tp_dtype)index->dtype;
    int axis = step->axis;
    int64_t length = step->domain.shape[axis], size = step->out.view.shape[axis];
    tp_view to = tp_cuda_without_axis(&step->out.view, axis, length);
    tp_view position = tp_view_row_major(step->domain.ndim, step->domain.shape);
    const tp_view *view[] = {&to, &index->view, &source->view, &position};
    tp_cuda_space s, i;
    tp_cuda_args args;
    tp_cuda_space_make(&s, &step->domain, ~(1U << axis), 4, view, false);
    int64_t lines = length ? s.total : 0;
    char *fault = lines ? tp_cuda_fault(run, size) : NULL;
    if (lines && !fault) return tp_cuda_status();
    tp_cuda_args_begin(&args, run);
    tp_cuda_arg_pointer(&args, tp_cuda_storage_type(dtype), tp_operand_at(&step->out, run), "y");
    tp_cuda_arg_pointer(&args, tp_cuda_storage_type(dtype), tp_operand_at(source, run), "x");
    tp_cuda_arg_pointer(&args, tp_cuda_storage_type(index_dtype), tp_operand_at(index, run),
                        "index");
    tp_cuda_arg_pointer(&args, "uint64_t", fault, "fault");
    tp_cuda_arg_integer(&args, lines, "lines");
    tp_cuda_arg_integer(&args, length, "length");
    tp_cuda_arg_integer(&args, size, "size");
    tp_cuda_arg_integer(&args, tp_cuda_axis_stride(&step->out.view, axis), "axis");
    tp_cuda_arg_integer(&args, tp_cuda_axis_stride(&index->view, axis), "step");
    tp_cuda_arg_integer(&args, tp_cuda_axis_stride(&source->view, axis), "source");
    tp_cuda_arg_integer(&args, position.stride[axis], "place");
    tp_cuda_args_space(&args, &s, false, "");
    const tp_view *only[] = {&index->view};
    tp_cuda_space_make(&i, &index->view, ~0U, 1, only, false);
    tp_cuda_args_space(&args, &i, false, "i");
    tp_cuda_args_end(&args);
    tp_text_add(args.text,
                "TP_KERNEL(scatter_add, Args)\n{\n"
                "    for (int64_t u = tp_block_x * tp_block_dim + tp_thread_x; u < arg.lines; "
                "u += tp_grid_dim * tp_block_dim) {\n");
    tp_cuda_add_offsets(args.text, &s, false, "", "u", "o", 15);
    tp_text_add(args.text, "    for (int64_t k = 0; k < arg.length; k++) {\n");
    tp_cuda_add_place(args.text, index_dtype, "arg.index[o1 + k * arg.step]", "o3 + k * arg.place");
    tp_text_add(args.text, "    if (p < 0) continue;\n");
    add_sum(args.text, dtype);
    tp_text_add(args.text, "    }\n    }\n");
    tp_cuda_add_fault_end(args.text, &i);
    return tp_cuda_launch_args(run, "scatter_add", tp_cuda_blocks(lines, THREADS), THREADS, &args);
}

#define KERNEL(name)                                                                               \
    static const tp_kernel name##_kernel = {"cuda_" #name, NULL, run_##name, NULL};                \
    const tp_kernel *const tp_cuda_##name##_kernels[] = {&name##_kernel, NULL};
KERNEL(index_select)
KERNEL(take_along)
KERNEL(scatter_add)
