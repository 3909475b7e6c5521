/* Comparisons of types that no single type holds: i64 or u64 against a float, u64 against
 * a signed integer. They are taken apart into comparisons that are exact, so that no value
 * changes on the way; fusion makes one loop of them again.
 *
 * Against a float b, the rounded a' = f64(a) orders like a unless a' = b; then b is an
 * integer and a is compared with b as an integer, except that b may be 2^63 (2^64 for
 * u64), which no a reaches. */
#include "infer.h"

typedef enum outcome { LESS, EQUAL, GREATER } outcome;

/* Only what is asked for is built: a part that nobody reads must not be able to fail. */
typedef tp_tensor *(*compare_fn)(tp_tensor *a, tp_tensor *b, outcome wanted);

static bool is_float(const tp_tensor *x)
{
    return tp_dtype_kind_of((tp_dtype)x->dtype) == TP_DTYPE_FLOAT;
}

static tp_tensor *integer_float(tp_tensor *a, tp_tensor *b, outcome wanted)
{
    double beyond = a->dtype == TP_U64 ? 0x1p64 : 0x1p63;
    tp_tensor *rounded = tp_cast(a, TP_F64), *wide = tp_cast(b, TP_F64);
    tp_tensor *whole = wide ? tp_cast(wide, (tp_dtype)a->dtype) : NULL;
    tp_tensor *tie = tp_equal(rounded, wide);
    if (wanted == GREATER)
        return tp_logical_or(tp_greater(rounded, wide), tp_logical_and(tie, tp_greater(a, whole)));
    tp_tensor *out = tp_greater_equal(wide, tp_num(wide, beyond));
    if (wanted == EQUAL)
        return tp_logical_and(tie, tp_logical_and(tp_equal(a, whole), tp_logical_not(out)));
    tp_tensor *below = tp_logical_or(tp_less(a, whole), out);
    return tp_logical_or(tp_less(rounded, wide), tp_logical_and(tie, below));
}

static tp_tensor *signed_unsigned(tp_tensor *a, tp_tensor *b, outcome wanted)
{
    tp_tensor *negative = tp_less(a, tp_int(a, 0)), *bits = tp_cast(a, TP_U64);
    if (wanted == LESS) return tp_logical_or(negative, tp_less(bits, b));
    return tp_logical_and(tp_logical_not(negative),
                          wanted == EQUAL ? tp_equal(bits, b) : tp_greater(bits, b));
}

static tp_tensor *put_together(tp_op op, compare_fn compare, tp_tensor *a, tp_tensor *b, bool swap)
{
    outcome less = swap ? GREATER : LESS, greater = swap ? LESS : GREATER;
    switch (op) {
    case TP_OP_LESS:
        return compare(a, b, less);
    case TP_OP_GREATER:
        return compare(a, b, greater);
    case TP_OP_EQUAL:
        return compare(a, b, EQUAL);
    case TP_OP_NOT_EQUAL:
        return tp_logical_not(compare(a, b, EQUAL));
    default:
        return tp_logical_or(compare(a, b, op == TP_OP_LESS_EQUAL ? less : greater),
                             compare(a, b, EQUAL));
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
    return put_together(op, floats ? integer_float : signed_unsigned, swap ? b : a, swap ? a : b,
                        swap);
}
