/* The reference interpreter: one element, one instruction at a time, every value rounded to
 * its dtype. Expressions come straight from ops.def. */
#include "math.h"
#include "ref.h"

char *tp_ref_at(const tp_operand *operand, const tp_run *run, const int64_t *index)
{
    int64_t at = operand->view.offset;
    for (int d = 0; d < operand->view.ndim; d++) {
        if (operand->view.shape[d] > 1) at += index[d] * operand->view.stride[d];
    }
    return run->buffer[operand->buffer] + at * (int64_t)tp_dtype_size((tp_dtype)operand->dtype);
}

bool tp_ref_next(const tp_view *shape, uint32_t mask, int64_t *index)
{
    for (int d = shape->ndim - 1; d >= 0; d--) {
        if (!(mask >> d & 1U)) continue;
        if (++index[d] < shape->shape[d]) return true;
        index[d] = 0;
    }
    return false;
}

/* The value as it reads after being stored in dtype. */
static tp_value rounded(tp_dtype dtype, tp_dtype from, tp_value value)
{
    uint64_t bytes;
    tp_value_store(dtype, &bytes, from, value);
    return tp_value_load(dtype, &bytes);
}

/* One compute type's case: operands a, b, c and the expression. */
#define CASE(ENUM, type, member, wide, expression)                                                 \
    case TP_##ENUM: {                                                                              \
        type a = (type)in[0].member, b = (type)in[1].member, c = (type)in[2].member;               \
        (void)a, (void)b, (void)c;                                                                 \
        y.member = (wide)(type)(expression);                                                       \
        break;                                                                                     \
    }
#define FLOAT_CASES(expression)                                                                    \
    CASE(F32, float, f, double, expression)                                                        \
    CASE(F64, double, f, double, expression)
#define BOOL_CASES(expression) CASE(U8, uint8_t, i, int64_t, expression)
#define NUM_CASES(expression)                                                                      \
    FLOAT_CASES(expression)                                                                        \
    INT_CASES(expression)
#define INT_CASES(expression)                                                                      \
    BOOL_CASES(expression)                                                                         \
    CASE(I8, int8_t, i, int64_t, expression)                                                       \
    CASE(U16, uint16_t, i, int64_t, expression)                                                    \
    CASE(I16, int16_t, i, int64_t, expression)                                                     \
    CASE(U32, uint32_t, i, int64_t, expression)                                                    \
    CASE(I32, int32_t, i, int64_t, expression)                                                     \
    CASE(U64, uint64_t, i, int64_t, expression)                                                    \
    CASE(I64, int64_t, i, int64_t, expression)
#define FUNCTION(name, FAMILY, expression)                                                         \
    static tp_value apply_##name(tp_dtype compute, const tp_value *in)                             \
    {                                                                                              \
        tp_value y = {0};                                                                          \
        switch (compute) {                                                                         \
            FAMILY##_CASES(expression) default : break;                                            \
        }                                                                                          \
        return y;                                                                                  \
    }
/* A comparison's operands may be floats while its result is a truth value. */
#define TRUTH(ENUM, type, member, expression)                                                      \
    case TP_##ENUM: {                                                                              \
        type a = (type)in[0].member, b = (type)in[1].member;                                       \
        y.i = (expression);                                                                        \
        break;                                                                                     \
    }
#define COMPARISON(name, expression)                                                               \
    static tp_value apply_##name(tp_dtype compute, const tp_value *in)                             \
    {                                                                                              \
        tp_value y = {0};                                                                          \
        switch (compute) {                                                                         \
            TRUTH(F32, float, f, expression)                                                       \
            TRUTH(F64, double, f, expression)                                                      \
            TRUTH(U64, uint64_t, i, expression)                                                    \
        default: {                                                                                 \
            int64_t a = in[0].i, b = in[1].i;                                                      \
            y.i = (expression);                                                                    \
        }                                                                                          \
        }                                                                                          \
        return y;                                                                                  \
    }
#define QUESTION(name, expression)                                                                 \
    static tp_value apply_##name(tp_dtype compute, const tp_value *in)                             \
    {                                                                                              \
        tp_value y = {0};                                                                          \
        if (tp_dtype_kind_of(compute) == TP_DTYPE_FLOAT) {                                         \
            double a = in[0].f;                                                                    \
            y.i = (expression);                                                                    \
        } else {                                                                                   \
            int64_t a = in[0].i;                                                                   \
            y.i = (expression);                                                                    \
        }                                                                                          \
        return y;                                                                                  \
    }
#define UNARY(ENUM, name, FAMILY, rule, cost, expression, meaning)                                 \
    FUNCTION(name, FAMILY, expression)
#define BINARY(ENUM, name, FAMILY, rule, cost, expression, meaning)                                \
    FUNCTION(name, FAMILY, expression)
#define TEST(ENUM, name, FAMILY, rule, cost, expression, meaning) QUESTION(name, expression)
#define COMPARE(ENUM, name, FAMILY, rule, cost, expression, meaning) COMPARISON(name, expression)
#include "../../graph/ops.def"

/* where: the condition is a truth value whatever the type of the others. */
static tp_value apply_where(tp_dtype compute, const tp_value *in)
{
    (void)compute;
    return in[0].i ? in[1] : in[2];
}

typedef tp_value (*apply_fn)(tp_dtype compute, const tp_value *in);
static const apply_fn apply[TP_OP_COUNT] = {
#define UNARY(ENUM, name, ...) [TP_OP_##ENUM] = apply_##name,
#define BINARY(ENUM, name, ...) [TP_OP_##ENUM] = apply_##name,
#define TEST(ENUM, name, ...) [TP_OP_##ENUM] = apply_##name,
#define COMPARE(ENUM, name, ...) [TP_OP_##ENUM] = apply_##name,
#define TERNARY(ENUM, name, ...) [TP_OP_##ENUM] = apply_##name,
#include "../../graph/ops.def"
};

static tp_value run_insn(const tp_insn *insn, const tp_value *value, const tp_dtype *dtype)
{
    if (insn->op == TP_OP_FULL) return insn->imm;
    tp_value in[3] = {value[insn->in[0]], value[insn->in[1]], value[insn->in[2]]};
    tp_dtype calc = dtype[insn->in[insn->op == TP_OP_WHERE]], result = (tp_dtype)insn->dtype;
    if (insn->op == TP_OP_CAST) return rounded(result, calc, in[0]);
    tp_value y = apply[insn->op](tp_dtype_compute(calc), in);
    return result == TP_F16 || result == TP_BF16 ? rounded(result, TP_F64, y) : y;
}

tp_value tp_ref_program(const tp_program *program, const tp_step *step, const tp_run *run,
                        int first, const tp_value *given, tp_dtype given_dtype,
                        const int64_t *index, tp_dtype *result)
{
    tp_value value[TP_PROGRAM_LOADS + TP_PROGRAM_INSNS];
    tp_dtype dtype[TP_PROGRAM_LOADS + TP_PROGRAM_INSNS];
    for (int i = 0; i < program->load_count; i++) {
        if (given && i == 0) {
            value[0] = *given;
            dtype[0] = given_dtype;
            continue;
        }
        const tp_operand *operand = &step->operand[first + i - (given != NULL)];
        dtype[i] = (tp_dtype)operand->dtype;
        value[i] = tp_value_load(dtype[i], tp_ref_at(operand, run, index));
    }
    for (int i = 0; i < program->insn_count; i++) {
        value[program->load_count + i] = run_insn(&program->insn[i], value, dtype);
        dtype[program->load_count + i] = (tp_dtype)program->insn[i].dtype;
    }
    *result = dtype[program->result];
    return value[program->result];
}
