/* Both products of all silos of a group, in the precision of REAL. */

#include "tiles.h"

static void NAME(raws)(const struct call *call, const Py_buffer *params, const Py_buffer *out,
                       void *packed, void *space)
{
    for (ptrdiff_t s = 0; s < call->silos; s++) {
        const struct records X = silo(call, s);
        NAME(raw)(&X, ROW_OF(params, s), call->k, (REAL *)out->buf + call->edges[s], STRIDE(out),
                  (REAL *)packed + call->edges[s] * LINES(call), space);
    }
}

static void NAME(sums)(const struct call *call, const void *packed, const Py_buffer *slopes,
                       const Py_buffer *out, void *space)
{
    for (ptrdiff_t s = 0; s < call->silos; s++) {
        const struct records X = silo(call, s);
        const ptrdiff_t parts = (X.n + call->chunk - 1) / call->chunk;
        memset(ROW_OF(out, s), 0, out->shape[1] * sizeof(REAL));
        for (ptrdiff_t p = 0; p < parts; p++)
            NAME(sum)(&X, (large)X.n * p / parts, (large)X.n * (p + 1) / parts,
                      (const REAL *)packed + call->edges[s] * LINES(call),
                      (const REAL *)slopes->buf + call->edges[s], STRIDE(slopes), call->k,
                      ROW_OF(out, s), space);
    }
}
