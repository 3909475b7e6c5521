/* Comparisons of types that no single type holds: i64 or u64 against a float, u64 against
 * a signed integer. They are taken apart into comparisons that are exact, so that no value
 * changes on the way; fusion makes one loop of them again.
 *
 * Against a float b, the rounded a' = f64(a) orders like a unless a' = b; then b is an
 * integer and a is compared with b as an integer, except that b may be 2^63 (2^64 for
 * u64), which no a reaches. */
#include "infer.h"

/* The three outcomes of a against b as bool tensors. */
typedef struct outcome {
    tp_tensor *less, *equal, *greater;
} outcome;

static bool is_float(const tp_tensor *x)
{
    return tp_dtype_kind_of((tp_dtype)x->dtype) == TP_DTYPE_FLOAT;
}

static outcome integer_float(tp_tensor *a, tp_tensor *b)
{
    double beyond = a->dtype == TP_U64 ? 0x1p64 : 0x1p63;
    tp_tensor *rounded = tp_cast(a, TP_F64), *wide = tp_cast(b, TP_F64);
    tp_tensor *whole = tp_cast(wide, (tp_dtype)a->dtype);
    tp_tensor *tie = tp_equal(rounded, wide), *out = tp_greater_equal(wide, tp_num(wide, beyond));
    tp_tensor *below = tp_logical_or(tp_less(a, whole), out);
    tp_tensor *same = tp_logical_and(tp_equal(a, whole), tp_logical_not(out));
    return (outcome){
        tp_logical_or(tp_less(rounded, wide), tp_logical_and(tie, below)),
        tp_logical_and(tie, same),
        tp_logical_or(tp_greater(rounded, wide), tp_logical_and(tie, tp_greater(a, whole)))};
}

static outcome signed_unsigned(tp_tensor *a, tp_tensor *b)
{
    tp_tensor *negative = tp_less(a, tp_int(a, 0)), *bits = tp_cast(a, TP_U64);
    tp_tensor *natural = tp_logical_not(negative);
    return (outcome){tp_logical_or(negative, tp_less(bits, b)),
                     tp_logical_and(natural, tp_equal(bits, b)),
                     tp_logical_and(natural, tp_greater(bits, b))};
}

static tp_tensor *pick(tp_op op, outcome o)
{
    switch (op) {
    case TP_OP_LESS:
        return o.less;
    case TP_OP_GREATER:
        return o.greater;
    case TP_OP_EQUAL:
        return o.equal;
    case TP_OP_NOT_EQUAL:
        return tp_logical_not(o.equal);
    case TP_OP_LESS_EQUAL:
        return tp_logical_or(o.less, o.equal);
    default:
        return tp_logical_or(o.greater, o.equal);
    }
}

tp_tensor *tp_compare_mixed(tp_op op, tp_tensor *a, tp_tensor *b, bool *taken)
{
    bool wide_a = !is_float(a) && tp_dtype_size((tp_dtype)a->dtype) == 8,
         wide_b = !is_float(b) && tp_dtype_size((tp_dtype)b->dtype) == 8;
    bool signed_a = tp_dtype_kind_of((tp_dtype)a->dtype) == TP_DTYPE_INT,
         signed_b = tp_dtype_kind_of((tp_dtype)b->dtype) == TP_DTYPE_INT;
    bool floats = (wide_a && is_float(b)) || (wide_b && is_float(a));
    bool signs = (signed_a && b->dtype == TP_U64) || (signed_b && a->dtype == TP_U64);
    *taken = floats || signs;
    if (!*taken) return NULL;
    /* A shape error should name this op, not a part of it. */
    tp_tensor *in[] = {a, b};
    tp_view view;
    if (tp_infer_broadcast(a->graph, tp_op_info_of(op)->name, 2, in, &view) != TP_OK) return NULL;
    bool swap = floats ? is_float(a) : a->dtype == TP_U64;
    outcome o = floats ? integer_float(swap ? b : a, swap ? a : b)
                       : signed_unsigned(swap ? b : a, swap ? a : b);
    if (swap) o = (outcome){o.greater, o.equal, o.less};
    return pick(op, o);
}
