/* Random numbers: backends/random.h as it is, so that they are the same bits as everywhere. */
#include "text.h"

#define THREADS 256

static tp_status run_random(const tp_step *step, tp_run *run)
{
    tp_dtype dtype = (tp_dtype)step->out.dtype;
    int digits = dtype == TP_F64 ? 53 : dtype == TP_F32 ? 24 : dtype == TP_F16 ? 11 : 8;
    const tp_view *view[] = {&step->out.view};
    tp_cuda_space s;
    tp_cuda_args args;
    tp_cuda_space_make(&s, &step->domain, ~0U, 1, view, false);
    tp_cuda_args_begin(&args, run);
    tp_cuda_arg_pointer(&args, tp_cuda_storage_type(dtype), tp_operand_at(&step->out, run), "y");
    tp_cuda_arg_integer(&args, s.total, "total");
    tp_cuda_arg_integer(&args, step->value[0].i, "seed");
    tp_cuda_args_space(&args, &s, false, "");
    tp_cuda_args_end(&args);
    tp_text_add(args.text,
                "TP_KERNEL(random, Args)\n{\n"
                "    for (int64_t i = tp_block_x * tp_block_dim + tp_thread_x; i < arg.total; "
                "i += tp_grid_dim * tp_block_dim) {\n");
    tp_cuda_add_offsets(args.text, &s, false, "", "i", "o", 1);
    tp_text_add(args.text, "    uint64_t bits[2];\n"
                           "    tp_random_pair((uint64_t)arg.seed, (uint64_t)i / 2, bits);\n"
                           "    uint64_t mine = i %% 2 ? bits[1] : bits[0];\n");
    if (step->op == TP_OP_RANDOM_UNIFORM)
        tp_text_add(args.text, "    double v = tp_random_uniform_of(mine, %d);\n", digits);
    else
        tp_text_add(args.text, "    double v = tp_random_normal_of(mine);\n");
    tp_text_add(args.text, "    %s w = ", tp_cuda_value_type(dtype));
    tp_cuda_add_converted(args.text, TP_F64, dtype, "v");
    tp_text_add(args.text, ";\n    arg.y[o0] = ");
    tp_cuda_add_stored(args.text, dtype, "w");
    tp_text_add(args.text, ";\n    }\n}\n");
    return tp_cuda_launch_args(run, "random", tp_cuda_blocks(s.total, THREADS), THREADS, &args);
}

static const tp_kernel random_kernel = {"cuda_random", NULL, run_random, NULL};
const tp_kernel *const tp_cuda_random_kernels[] = {&random_kernel, NULL};
