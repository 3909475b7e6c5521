/* The pieces that kernel texts are made of: see text.h. */
#include "text.h"

#include <stdio.h>
#include <string.h>

/* ---- Iteration spaces ------------------------------------------------------------------------ */

static int64_t size_of_stride(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

static void swap_dims(tp_cuda_space *s, int a, int b)
{
    int64_t size = s->size[a];
    s->size[a] = s->size[b];
    s->size[b] = size;
    for (int i = 0; i < s->count; i++) {
        int64_t stride = s->stride[i][a];
        s->stride[i][a] = s->stride[i][b];
        s->stride[i][b] = stride;
    }
}

/* Larger strides of operand 0 go out; equal ones keep their order. */
static void sort_dims(tp_cuda_space *s)
{
    for (int d = 1; d < s->ndim; d++) {
        for (int e = d; e > 0; e--) {
            if (size_of_stride(s->stride[0][e - 1]) >= size_of_stride(s->stride[0][e])) break;
            swap_dims(s, e - 1, e);
        }
    }
}

static bool continues(const tp_cuda_space *s, int outer, int inner)
{
    for (int i = 0; i < s->count; i++) {
        if (s->stride[i][outer] != s->stride[i][inner] * s->size[inner]) return false;
    }
    return true;
}

static void merge_dims(tp_cuda_space *s)
{
    int last = 0;
    for (int d = 1; d < s->ndim; d++) {
        bool joined = continues(s, last, d);
        int64_t outer = joined ? s->size[last] : 1;
        last += !joined;
        s->size[last] = outer * s->size[d];
        for (int i = 0; i < s->count; i++) s->stride[i][last] = s->stride[i][d];
    }
    if (s->ndim) s->ndim = last + 1;
}

void tp_cuda_space_make(tp_cuda_space *s, const tp_view *domain, uint32_t mask, int count,
                        const tp_view *const *view, bool ordered)
{
    s->ndim = 0;
    s->total = 1;
    s->count = count;
    for (int d = 0; d < domain->ndim; d++) {
        if (!(mask >> d & 1U)) continue;
        s->total *= domain->shape[d];
        if (domain->shape[d] == 1) continue;
        s->size[s->ndim] = domain->shape[d];
        for (int i = 0; i < count; i++) {
            bool one = view[i]->shape[d] == 1; /* its stride has no meaning */
            s->stride[i][s->ndim] = one ? 0 : view[i]->stride[d];
        }
        s->ndim++;
    }
    if (ordered) sort_dims(s);
    merge_dims(s);
}

bool tp_cuda_space_is_narrow(const tp_cuda_space *s)
{
    const int64_t limit = INT32_MAX;
    if (s->total > limit) return false;
    for (int i = 0; i < s->count; i++) {
        int64_t reach = 0;
        for (int d = 0; d < s->ndim; d++) {
            int64_t stride = size_of_stride(s->stride[i][d]);
            if (stride > limit || (s->size[d] - 1) * stride > limit - reach) return false;
            reach += (s->size[d] - 1) * stride;
        }
    }
    return true;
}

bool tp_cuda_space_allows(const tp_cuda_space *s, int operand, const char *at, size_t element_bytes,
                          int width)
{
    size_t bytes = element_bytes * (size_t)width;
    int inner = s->ndim - 1;
    if (inner < 0 || s->stride[operand][inner] != 1 || (uintptr_t)at % bytes) return false;
    for (int d = 0; d < inner; d++) {
        if (size_of_stride(s->stride[operand][d]) % width) return false;
    }
    return true;
}

/* ---- The argument ------------------------------------------------------------------------------
 */

void tp_cuda_args_begin(tp_cuda_args *args, tp_run *run)
{
    args->text = tp_cuda_begin_text(run);
    args->size = 0;
    args->full = false;
    tp_text_add(args->text, "typedef struct Args {\n");
}

static void add_field(tp_cuda_args *args, const void *value, const char *type, const char *format,
                      va_list names)
{
    char name[64];
    vsnprintf(name, sizeof name, format, names);
    tp_text_add(args->text, "    %s%s;\n", type, name);
    if (args->size + 8 > sizeof args->data) {
        args->full = true;
        return;
    }
    memcpy(args->data + args->size, value, 8);
    args->size += 8;
}

void tp_cuda_arg_pointer(tp_cuda_args *args, const char *type, const char *at, const char *name,
                         ...)
{
    char full[64];
    snprintf(full, sizeof full, "%s *", type);
    va_list names;
    va_start(names, name);
    add_field(args, &at, full, name, names);
    va_end(names);
}

void tp_cuda_arg_integer(tp_cuda_args *args, int64_t value, const char *name, ...)
{
    va_list names;
    va_start(names, name);
    add_field(args, &value, "int64_t ", name, names);
    va_end(names);
}

static void add_named(tp_cuda_args *args, const void *value, const char *type, const char *format,
                      ...)
{
    va_list names;
    va_start(names, format);
    add_field(args, value, type, format, names);
    va_end(names);
}

void tp_cuda_arg_real(tp_cuda_args *args, double value, const char *name)
{
    add_named(args, &value, "double ", "%s", name);
}

void tp_cuda_magic(uint32_t d, uint32_t *m, uint32_t *s)
{
    uint32_t shift = 0;
    while (shift < 31 && (1U << shift) < d) shift++;
    *s = shift;
    *m = (uint32_t)((((uint64_t)1 << shift) - d) * ((uint64_t)1 << 32) / d + 1);
}

void tp_cuda_arg_divisor(tp_cuda_args *args, int64_t value, bool narrow, const char *format, ...)
{
    char name[40];
    va_list names;
    va_start(names, format);
    vsnprintf(name, sizeof name, format, names);
    va_end(names);
    add_named(args, &value, "int64_t ", "%s", name);
    if (!narrow) return;
    uint32_t magic[2] = {0, 0};
    if (value > 0) tp_cuda_magic((uint32_t)value, &magic[0], &magic[1]);
    add_named(args, magic, "uint32_t ", "%s_m, %s_s", name, name);
}

/* A stride that is part of the structure. */
static bool is_plain(int64_t stride)
{
    return stride == 0 || stride == 1;
}

void tp_cuda_args_space(tp_cuda_args *args, const tp_cuda_space *s, bool narrow, const char *prefix)
{
    for (int d = 0; d < s->ndim; d++) {
        if (d > 0) tp_cuda_arg_divisor(args, s->size[d], narrow, "%sd%d", prefix, d);
        for (int i = 0; i < s->count; i++) {
            if (!is_plain(s->stride[i][d]))
                tp_cuda_arg_integer(args, s->stride[i][d], "%ss%d_%d", prefix, i, d);
        }
    }
}

void tp_cuda_args_end(tp_cuda_args *args)
{
    /* A struct has at least one field. */
    if (!args->size) tp_cuda_arg_integer(args, 0, "nothing");
    tp_text_add(args->text, "} Args;\n\n");
}

tp_status tp_cuda_launch_args(tp_run *run, const char *name, int64_t blocks, int threads,
                              const tp_cuda_args *args)
{
    if (args->full)
        return tp_cuda_fail(TP_E_INTERNAL, "the argument of kernel %s is too long", name);
    return tp_cuda_launch(run, name, blocks, threads, 0, args->data, args->size);
}

int64_t tp_cuda_blocks(int64_t units, int threads)
{
    int64_t wanted = units / threads + (units % threads != 0),
            most = (int64_t)tp_cuda_device.processors * (2048 / threads) * 4;
    return wanted < most ? wanted : most;
}

/* ---- Indices
 * -------------------------------------------------------------------------------------- */

const char *tp_cuda_index_type(bool narrow, bool is_signed)
{
    if (narrow) return is_signed ? "int32_t" : "uint32_t";
    return is_signed ? "int64_t" : "uint64_t";
}

void tp_cuda_add_quotient(tp_text *text, bool narrow, const char *x, const char *name)
{
    if (narrow)
        tp_text_add(text, "((tp_umulhi32(%s, arg.%s_m) + %s) >> arg.%s_s)", x, name, x, name);
    else
        tp_text_add(text, "(%s / (uint64_t)arg.%s)", x, name);
}

/* " + x * stride" for one operand and dim, nothing where the stride is 0. */
static void add_term(tp_text *text, const tp_cuda_space *s, bool narrow, const char *prefix, int i,
                     int d, const char *name, const char *x)
{
    int64_t stride = s->stride[i][d];
    if (stride == 0) return;
    tp_text_add(text, " %s%d += (%s)%s", name, i, tp_cuda_index_type(narrow, true), x);
    if (stride != 1)
        tp_text_add(text, " * (%s)arg.%ss%d_%d", tp_cuda_index_type(narrow, true), prefix, i, d);
    tp_text_add(text, ";");
}

void tp_cuda_add_offsets(tp_text *text, const tp_cuda_space *s, bool narrow, const char *prefix,
                         const char *index, const char *name, uint32_t mask)
{
    const char *I = tp_cuda_index_type(narrow, true), *U = tp_cuda_index_type(narrow, false);
    for (int i = 0; i < s->count; i++) {
        if (mask >> i & 1U) tp_text_add(text, "    %s %s%d = 0;\n", I, name, i);
    }
    if (!s->ndim) return;
    tp_text_add(text, "    {\n        %s r = (%s)(%s);\n", U, U, index);
    for (int d = s->ndim - 1; d > 0; d--) {
        char divisor[40];
        snprintf(divisor, sizeof divisor, "%sd%d", prefix, d);
        tp_text_add(text, "        {\n            %s q = ", U);
        tp_cuda_add_quotient(text, narrow, "r", divisor);
        tp_text_add(text, ", x = r - q * (%s)arg.%s;\n           ", U, divisor);
        for (int i = 0; i < s->count; i++) {
            if (mask >> i & 1U) add_term(text, s, narrow, prefix, i, d, name, "x");
        }
        tp_text_add(text, " r = q;\n        }\n");
    }
    tp_text_add(text, "       ");
    for (int i = 0; i < s->count; i++) {
        if (mask >> i & 1U) add_term(text, s, narrow, prefix, i, 0, name, "r");
    }
    tp_text_add(text, "\n    }\n");
}

/* ---- Types
 * ---------------------------------------------------------------------------------------- */

const char *tp_cuda_storage_type(tp_dtype dtype)
{
    static const char *const names[] = {
#define DTYPE(ENUM, name, storage, compute, kind, bytes) [TP_##ENUM] = #storage,
#include "tensorplay/dtypes.def"
    };
    return names[dtype];
}

const char *tp_cuda_value_type(tp_dtype dtype)
{
    static const char *const names[] = {
#define DTYPE(ENUM, name, storage, compute, kind, bytes) [TP_##ENUM] = #compute,
#include "tensorplay/dtypes.def"
    };
    return names[dtype];
}

const char *tp_cuda_tag(tp_dtype dtype)
{
    return tp_dtype_name(tp_dtype_compute(dtype));
}

void tp_cuda_add_loaded(tp_text *text, tp_dtype dtype, const char *element)
{
    if (dtype == TP_F16)
        tp_text_add(text, "tp_f16_to_f32(%s)", element);
    else if (dtype == TP_BF16)
        tp_text_add(text, "tp_bf16_to_f32(%s)", element);
    else
        tp_text_add(text, dtype == TP_BOOL ? "(uint8_t)(%s != 0)" : "%s", element);
}

void tp_cuda_add_stored(tp_text *text, tp_dtype dtype, const char *value)
{
    if (dtype == TP_F16)
        tp_text_add(text, "tp_f32_to_f16(%s)", value);
    else if (dtype == TP_BF16)
        tp_text_add(text, "tp_f32_to_bf16(%s)", value);
    else
        tp_text_add(text, "%s", value);
}

void tp_cuda_add_from_bits(tp_text *text, tp_dtype dtype, const char *bits)
{
    if (dtype == TP_F32)
        tp_text_add(text, "tp_f32_from_bits(%s)", bits);
    else if (dtype == TP_F64)
        tp_text_add(text, "tp_f64_from_bits(%s)", bits);
    else
        tp_text_add(text, "(%s)%s", tp_cuda_storage_type(dtype), bits);
}

/* ---- Conversions
 * ------------------------------------------------------------------------------------ */

static bool is_float(tp_dtype dtype)
{
    return tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT;
}

static void add_to_half(tp_text *text, tp_dtype from, tp_dtype to, const char *x)
{
    const char *name = tp_dtype_name(to);
    bool is_unsigned = tp_dtype_kind_of(from) == TP_DTYPE_UINT || from == TP_BOOL;
    tp_text_add(text, "tp_%s_to_f32(", name);
    if (from == TP_F64)
        tp_text_add(text, "tp_f64_to_%s(%s)", name, x);
    else if (is_float(from))
        tp_text_add(text, "tp_f32_to_%s(%s)", name, x);
    else
        tp_text_add(text, "tp_f32_to_%s(tp_%s_to_f32_odd(%s))", name, is_unsigned ? "u64" : "i64",
                    x);
    tp_text_add(text, ")");
}

void tp_cuda_add_converted(tp_text *text, tp_dtype from, tp_dtype to, const char *x)
{
    if (from == to) {
        tp_text_add(text, "%s", x);
    } else if (to == TP_BOOL) {
        tp_text_add(text, "(uint8_t)(%s != 0)", x);
    } else if (to == TP_F16 || to == TP_BF16) {
        add_to_half(text, from, to, x);
    } else if (is_float(from) && !is_float(to)) {
        tp_text_add(text, "tp_%s_to_%s(%s)", tp_cuda_tag(from), tp_dtype_name(to), x);
    } else {
        tp_text_add(text, "(%s)%s", tp_cuda_value_type(to), x);
    }
}

/* ---- Programs
 * ------------------------------------------------------------------------------------------ */

static const char *const expressions[TP_OP_COUNT] = {
#define UNARY(ENUM, name, FAMILY, rule, cost, expression, meaning) [TP_OP_##ENUM] = #expression,
#define BINARY UNARY
#define TERNARY UNARY
#define TEST UNARY
#define COMPARE UNARY
#include "../../graph/ops.def"
};

void tp_cuda_add_expression(tp_text *text, tp_op op, tp_dtype calc)
{
    for (const char *at = expressions[op]; *at;) {
        const char *name = strstr(at, "m_"), *open = name ? strchr(name, '(') : NULL;
        if (!open) {
            tp_text_add(text, "%s", at);
            return;
        }
        tp_text_add(text, "%.*s_%s(", (int)(open - at), at, tp_cuda_tag(calc));
        at = open + 1;
    }
}

/* Sums and products of signed integers wrap: they are calculated without a sign. 16-bit factors
 * would become a signed int that overflows. */
static const char *operand_type(tp_op op, tp_dtype calc)
{
    bool wraps = op == TP_OP_ADD || op == TP_OP_SUB || op == TP_OP_MUL || op == TP_OP_NEG ||
                 op == TP_OP_SQUARE;
    if (!wraps || is_float(calc)) return tp_cuda_value_type(calc);
    return tp_dtype_size(calc) == 8 ? "uint64_t" : "uint32_t";
}

/* A constant by its bits. */
static void add_constant(tp_text *text, tp_dtype dtype, tp_value value)
{
    float f32 = (float)value.f;
    uint32_t bits32;
    uint64_t bits64;
    memcpy(&bits32, &f32, sizeof bits32);
    memcpy(&bits64, &value.f, sizeof bits64);
    if (dtype == TP_F64)
        tp_text_add(text, "tp_f64_from_bits(0x%llxULL)", (unsigned long long)bits64);
    else if (is_float(dtype))
        tp_text_add(text, "tp_f32_from_bits(0x%xU)", bits32);
    else
        tp_text_add(text, "(%s)0x%llxULL", tp_cuda_value_type(dtype), (unsigned long long)value.i);
}

static void add_result(tp_text *text, tp_dtype result, tp_op op, tp_dtype calc)
{
    const char *name = tp_dtype_name(result);
    bool half = result == TP_F16 || result == TP_BF16;
    if (half) tp_text_add(text, "tp_%s_to_f32(tp_f32_to_%s(", name, name);
    tp_text_add(text, "(%s)(", tp_cuda_value_type(result));
    tp_cuda_add_expression(text, op, calc);
    tp_text_add(text, half ? ")))" : ")");
}

static void add_insn(tp_text *text, const tp_insn *insn, int n, const char *v,
                     const tp_dtype *dtype)
{
    tp_op op = (tp_op)insn->op;
    tp_dtype result = (tp_dtype)insn->dtype;
    static const char letters[] = "abc";
    tp_text_add(text, "    %s %s%d;\n    ", tp_cuda_value_type(result), v, n);
    if (op == TP_OP_FULL || op == TP_OP_CAST) {
        char x[40];
        snprintf(x, sizeof x, "%s%d", v, insn->in[0]);
        tp_text_add(text, "%s%d = ", v, n);
        if (op == TP_OP_FULL)
            add_constant(text, result, insn->imm);
        else
            tp_cuda_add_converted(text, dtype[insn->in[0]], result, x);
        tp_text_add(text, ";\n");
        return;
    }
    tp_op_kind kind = tp_op_info_of(op)->kind;
    int inputs = kind == TP_KIND_TERNARY                             ? 3
                 : kind == TP_KIND_BINARY || kind == TP_KIND_COMPARE ? 2
                                                                     : 1;
    tp_dtype calc = dtype[insn->in[op == TP_OP_WHERE]];
    tp_text_add(text, "{");
    for (int i = 0; i < inputs; i++) {
        bool condition = op == TP_OP_WHERE && i == 0;
        const char *type = condition ? "uint8_t" : operand_type(op, calc);
        tp_text_add(text, " const %s %c = (%s)%s%d;", type, letters[i], type, v, insn->in[i]);
    }
    tp_text_add(text, " %s%d = ", v, n);
    add_result(text, result, op, calc);
    tp_text_add(text, "; }\n");
}

void tp_cuda_add_program(tp_text *text, const tp_program *program, const char *v, tp_dtype *dtype)
{
    for (int i = 0; i < program->insn_count; i++) {
        int n = program->load_count + i;
        add_insn(text, &program->insn[i], n, v, dtype);
        dtype[n] = (tp_dtype)program->insn[i].dtype;
    }
}
