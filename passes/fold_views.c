/* fold_views: a reader of a view reads the view's base through one (shape, strides, offset).
 *
 * The builders have composed every chain already, so readers' edges hold the right view; what
 * goes is the stand-in between them and the bytes. Falls: the number of stand-ins, to 0.
 * A stand-in that other passes still see hides its base from them: without this pass they
 * have less to work on, and the results are the same. */
#include "pass.h"

tp_status tp_pass_fold_views(tp_work *work)
{
    for (int n = 0; n < work->node_count && work->aliases; n++) {
        tp_wnode *node = &work->node[n];
        if (node->alias && !node->dead) tp_work_replace(work, n, node->in[0].node, NULL);
    }
    return TP_OK;
}
