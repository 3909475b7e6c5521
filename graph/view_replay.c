/* Applies a view node's own step (op and attributes) to another layout of its input: needed
 * when the input was evaluated and now lies dense in a storage of its own. */
#include "view_replay.h"

static void permute(const tp_tensor *x, const tp_view *in, tp_view *view)
{
    int axes[TP_MAX_RANK];
    for (int d = 0; d < in->ndim; d++) axes[d] = (int)x->attr[d];
    tp_view_permute(in, axes, view);
}

static void flip(const tp_tensor *x, const tp_view *in, tp_view *view)
{
    tp_view_copy(view, in);
    for (int i = 0; i < x->attr_count; i++) {
        tp_view before;
        tp_view_copy(&before, view);
        tp_view_flip(&before, (int)x->attr[i], view);
    }
}

bool tp_view_replay(const tp_tensor *x, const tp_view *in, tp_view *view)
{
    const int64_t *a = x->attr;
    int dims[2];
    switch (x->op) {
    case TP_OP_RESHAPE:
        return tp_view_reshape(in, x->attr_count, a, view, dims);
    case TP_OP_PERMUTE:
        permute(x, in, view);
        return true;
    case TP_OP_SLICE:
        return tp_view_slice(in, (int)a[0], a[1], a[2], a[3], view);
    case TP_OP_SELECT:
        tp_view_select(in, (int)a[0], a[1], view);
        return true;
    case TP_OP_EXPAND:
        return tp_view_expand(in, x->attr_count, a, view);
    case TP_OP_SQUEEZE:
        tp_view_squeeze(in, (int)a[0], view);
        return true;
    case TP_OP_UNSQUEEZE:
        tp_view_unsqueeze(in, (int)a[0], view);
        return true;
    case TP_OP_FLIP:
        flip(x, in, view);
        return true;
    case TP_OP_DIAGONAL:
        tp_view_diagonal(in, a[0], (int)a[1], (int)a[2], view);
        return true;
    case TP_OP_WINDOWS:
        tp_view_windows(in, (int)a[0], a[1], a[2], a[3], view);
        return true;
    case TP_OP_BITCAST:
        return !tp_view_bitcast(in, tp_dtype_size((tp_dtype)x->in[0]->dtype),
                                tp_dtype_size((tp_dtype)x->dtype), view);
    case TP_OP_CONTIGUOUS:
    case TP_OP_CAST:
        tp_view_copy(view, in);
        return true;
    default:
        return false;
    }
}
