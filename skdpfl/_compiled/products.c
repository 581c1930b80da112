/* skdpfl._compiled.products: see products.pyi for what the functions compute.

   This file reads and checks arguments; tiles.h and dots.h do the arithmetic. */

#include "arrays.h"
#include <float.h>
#include <math.h>

/* What makes d columns of `stored` values and of `count` cells: `before` values times factors; for
   each curve its value, at `where`, times slopes plus levels of its cell, as many as `widths` says
   and at most `widest`; the last `others` of the values. */
#define CELLS 256 /* those that each curve has room for */
#define AHEAD 8192 /* bytes of the next silo that are fetched */
#define BEYOND 16 /* numbers after the last one that may be read, or written */
struct curves {
    const void *factors, *slopes, *levels;
    const int64_t *where, *widths;
    const Py_buffer *cells;
    ptrdiff_t before, others, stored, count, widest, d, size;
    char *space; /* 8 lines, and one of single precision to be widened */
    void (*expand)(const struct curves *of, const void *values, const uint8_t *cells, void *to);
};

/* Records of one silo: rows of a table with a stride in bytes. */
struct records {
    const char *table;
    ptrdiff_t stride;
    const int64_t *rows;
    ptrdiff_t n, d;
    int intercept, made; /* whether all columns are in the lines */
    const void *limits; /* NULL or, for few outputs, of features, the lower ones first */
    struct curves of;
};

#define ROW(X, j) ((const void *)((X)->table + (X)->rows[j] * (X)->stride))

/* Have what a record's columns are made of fetched into the cache. */
static inline void fetch(const struct records *X, ptrdiff_t j)
{
    for (ptrdiff_t i = 0; i < X->stride; i += 64) __builtin_prefetch((const char *)ROW(X, j) + i);
    if (X->of.cells) __builtin_prefetch(ROW_OF(X->of.cells, X->rows[j]));
}

/* All columns of a record: in the table, or in one of 8 lines, where it stays for the next 7. */
static inline const void *row(const struct records *X, ptrdiff_t j)
{
    const struct curves *of = &X->of;
    if (of->cells == NULL) return ROW(X, j);
    void *to = of->space + j % 8 * (X->d + BEYOND) * of->size;
    if (!X->made) of->expand(of, ROW(X, j), ROW_OF(of->cells, X->rows[j]), to);
    return to;
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(_WIN32) /* which aligns no vectors */
#define HAVE_TILES 1
#include <immintrin.h>
#endif

static PyObject *available(PyObject *self, PyObject *unused)
{
#ifdef HAVE_TILES
    return PyBool_FromLong(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
#else
    return PyBool_FromLong(0);
#endif
}

#ifdef HAVE_TILES

/* for products of sizes that nobody has checked yet */
typedef __int128 large;

/* bytes of a row of the widest block */
#define MOST 192

/* names of functions for each precision, and for each width of vectors */
#define PASTED(x, y) x##_##y
#define JOINED(x, y) PASTED(x, y)
static void few_expand_float(const struct curves *, const void *, const uint8_t *, void *);
static void few_expand_double(const struct curves *, const void *, const uint8_t *, void *);
static void widen(const struct curves *, const void *, const uint8_t *, void *);

/* What both functions work on. */
struct call {
    struct arguments given;
    struct records X;
    const int64_t *edges;
    ptrdiff_t silos, n, k, chunk;
    int type;
};

static int hold_edges(struct call *call, PyObject *argument)
{
    const Py_buffer *view = hold(&call->given, argument, "edges", 1, 'q', 0);
    if (view == NULL) return -1;
    call->silos = view->shape[0] - 1;
    call->edges = view->buf;
    if (call->silos < 0 || call->edges[0] != 0) return complain("edges", "must begin with 0");
    for (ptrdiff_t s = 0; s < call->silos; s++)
        if (call->edges[s] > call->edges[s + 1]) return complain("edges", "must not fall");
    call->n = call->edges[call->silos];
    return 0;
}

/* Whether an array of one or two axes and one of one axis have memory in common, or in between. */
static int overlap(const Py_buffer *a, const Py_buffer *b)
{
    const Py_ssize_t last = a->shape[a->ndim - 1], rows = a->ndim == 2 ? a->shape[0] : 1;
    if (last == 0 || rows == 0 || b->len == 0) return 0;
    const char *first = a->buf, *end = ROW_OF(a, rows - 1), *from = b->buf;
    const char *low = first < end ? first : end, *high = first < end ? end : first;
    return low < from + b->len && from < high + last * a->itemsize;
}

/* Numbers of the call's type. Where they are written no row number or edge may lie. */
static Py_buffer *hold_reals(struct call *call, PyObject *argument, const char *name, int axes,
                             int writable)
{
    const Py_buffer *before = call->given.held;
    Py_buffer *view = hold(&call->given, argument, name, axes, call->type, writable);
    for (int i = 0; view != NULL && writable && before + i < view; i++)
        if (code_of(before + i) == 'q' && overlap(view, before + i))
            return complain(name, "must not overlap rows or edges"), NULL;
    return view;
}

/* Parameters, or sums: (silos, (d + intercept) k). */
static Py_buffer *hold_flat(struct call *call, PyObject *argument, const char *name, int writable)
{
    Py_buffer *view = hold_reals(call, argument, name, 2, writable);
    if (view == NULL || (view->shape[0] == call->silos &&
                         view->shape[1] == ((large)call->X.d + call->X.intercept) * call->k))
        return view;
    return complain(name, "must be (silos, (d + intercept) k)"), NULL;
}

static int hold_chunk(struct call *call, PyObject *number)
{
    const ptrdiff_t chunk = PyLong_AsSsize_t(number);
    call->chunk = chunk <= call->n ? chunk : call->n + 1;
    return chunk > 0 ? 0 : PyErr_Occurred() ? -1 : complain("chunk", "must be positive");
}

/* A number for each record. */
static const void *hold_each(struct call *call, PyObject *argument, const char *name)
{
    const Py_buffer *view = hold_reals(call, argument, name, 1, 0);
    if (view && view->shape[0] < call->n) return complain(name, "fewer than records"), NULL;
    return view ? view->buf : NULL;
}

/* Raw predictions, or slopes: (k, n) or wider. */
static Py_buffer *hold_by_class(struct call *call, PyObject *argument, const char *name,
                                int writable)
{
    Py_buffer *view = hold_reals(call, argument, name, 2, writable);
    if (view == NULL) return NULL;
    call->k = view->shape[0];
    if (view->shape[1] >= call->n) return view;
    return complain(name, "fewer columns than records"), NULL;
}

/* Copied records: room for them and for reaching the next multiple of 64 bytes. */
static void *hold_packed(struct call *call, PyObject *argument, int writable)
{
    const Py_buffer *view = hold_reals(call, argument, "packed", 1, writable);
    if (view == NULL) return NULL;
    const large lanes = 64 / view->itemsize, D = (large)call->X.d + call->X.intercept;
    if (view->shape[0] >= ((D + lanes - 1) / lanes * call->n + 1) * lanes)
        return (void *)(((uintptr_t)view->buf + 63) & ~(uintptr_t)63);
    return complain("packed", "too short"), NULL;
}

/* What a table stores beside values, a tuple of seven after them: cells, where, factors, slopes,
   levels, space (of the type columns are widened to), and how many other values there are. */
static int hold_curves(struct call *call, PyObject *table, const Py_buffer *values)
{
    struct curves *of = &call->X.of;
    const Py_buffer *part[6];
    const int stored = call->type;
    if (PyTuple_Size(table) != 8) return complain("table", "must have 8 parts");
    for (int i = 0; i < 7; i++) {
        PyObject *given = PyTuple_GetItem(table, i + 1);
        if (i == 6) of->others = PyLong_AsSsize_t(given);
        if (i == 5 && (call->type = peek(given, "table", &"fd"[stored == 'd'])) < 0) return -1;
        if (i < 6) part[i] = i > 1 ? hold_reals(call, given, "table", 1, i == 5)
                             : hold(&call->given, given, "table", 2 - i, i ? 'q' : 'B', 0);
        if (PyErr_Occurred()) return -1;
    }
    const ptrdiff_t count = part[0]->shape[1], added = part[3]->shape[0] - BEYOND;
    of->stored = call->X.d, of->count = count, of->size = part[5]->itemsize;
    of->expand = call->type == 'f' ? few_expand_float : stored == 'f' ? widen : few_expand_double;
    of->cells = part[0], of->where = part[1]->buf, of->factors = part[2]->buf;
    of->slopes = part[3]->buf, of->levels = part[4]->buf, of->space = part[5]->buf;
    of->widths = of->where + count, of->before = part[2]->shape[0];
    ptrdiff_t left = added;
    int fine = part[0]->shape[0] == values->shape[0] && part[1]->shape[0] == 2 * (large)count &&
               of->others >= 0 && of->others <= of->stored - of->before && added >= 0 &&
               part[4]->shape[0] == (large)added * CELLS + BEYOND;
    of->d = call->X.d = fine ? of->before + added + of->others : 0;
    fine = fine && part[5]->shape[0] >= 9 * ((large)of->d + BEYOND);
    for (ptrdiff_t f = 0; fine && f < count; left -= of->widths[f++]) {
        const ptrdiff_t m = of->widths[f];
        fine = 0 <= of->where[f] && of->where[f] < of->stored && 0 <= m && m <= left;
        if (m > of->widest) of->widest = m;
    }
    return fine && left == 0 ? 0 : complain("table", "its parts do not fit");
}

/* Records of some silos, of single or of double precision: a table, or a tuple as above. */
static int hold_records(struct call *call, PyObject *table, PyObject *numbers, PyObject *ends)
{
    PyObject *stored = PyTuple_Check(table) ? PyTuple_GetItem(table, 0) : table;
    if (stored == NULL || (call->type = peek(stored, "table", "fd")) < 0) return -1;
    const Py_buffer *rows, *all;
    if (hold_edges(call, ends) ||
        (all = hold(&call->given, stored, "table", 2, call->type, 0)) == NULL ||
        (rows = hold(&call->given, numbers, "rows", 1, 'q', 0)) == NULL)
        return -1;
    if (rows->shape[0] != call->n) return complain("rows", "edges must end with their number");
    call->X.table = all->buf, call->X.stride = all->strides[0];
    call->X.d = all->shape[1], call->X.rows = rows->buf;
    for (ptrdiff_t j = 0; j < call->n; j++)
        if (call->X.rows[j] < 0 || call->X.rows[j] >= all->shape[0])
            return complain("rows", "must be rows of the table");
    return stored == table ? 0 : hold_curves(call, table, all);
}

static struct records silo(const struct call *call, ptrdiff_t s)
{
    struct records X = call->X;
    if (X.rows) X.rows += call->edges[s];
    X.n = call->edges[s + 1] - call->edges[s];
    return X;
}

/* bytes of a copied record of a silo's, and numbers between rows */
#define COPIED(call, size) (((size_t)((call).X.d + (call).X.intercept) * (size) + 63) / 64 * 64)
#define STRIDE(view) ((view)->strides[0] / (view)->itemsize)

/* sums are in 24 of 32 registers, or in 12 of 16 */
#define WITH_64 __attribute__((target("avx512f")))
#define WITH_32 __attribute__((target("avx2,fma")))
/* products and sums are rounded one by one, whatever processor the compiler is told to build for */
#define ROUNDED __attribute__((target("avx2,no-fma,no-fma4,no-avx512f")))
#define NAME(x) JOINED(JOINED(x, REAL), BYTES)
#define BYTES 64
#define REAL float
#include "tiles.h"
#define REAL double
#include "tiles.h"
#undef BYTES
#define BYTES 32
#define REAL float
#include "tiles.h"
#define REAL double
#include "tiles.h"

/* The mean target of a raw prediction: itself, or a probability, whose slopes are cut by the larger
   of those of both labels if they are LABEL_FREE. */
enum link { IDENTITY, LOGISTIC, LABEL_FREE };

/* What makes slopes of raw predictions: a number for each record, or NULL. */
struct slopes {
    const void *y, *limits, *weights;
    enum link link;
};

/* Steps of each silo: a divisor for each, NULL or a penalty for each parameter, and so on. */
struct descent {
    ptrdiff_t steps;
    const void *divisor, *penalty;
    const Py_buffer *correction;
    double rate, momentum;
};

/* Persons: edges of their records, the records' norms or NULL, clip norms of silos, mean or sum. */
struct persons {
    const int64_t *edges;
    const void *norms, *clip;
    int mean;
};

/* the largest number of outputs that `few` takes */
#define FEW 4
/* bytes to work in: weights; from the half on a record of zeros, which nobody writes to; a sum */
#define FOR_FEW(d) (128 * (((size_t)(d) + 17) / 2))
#define ZEROS(space, d) ((const void *)((const char *)(space) + FOR_FEW(d) / 2))
#define SUM_OF(space, d) ((void *)((char *)(space) + FOR_FEW(d) / 4 * 3))
/* what e^x needs: n log(2) is the sum of two products, of which the first is exact */
#define OF_PRECISION(single, precise) ((REAL)(sizeof(REAL) == 4 ? (single) : (precise)))
#define MANTISSA (sizeof(REAL) == 4 ? 23 : 52)
#define TERMS (sizeof(REAL) == 4 ? 7 : 13)
#define LARGEST OF_PRECISION(87, 708)
#define SHIFT OF_PRECISION(0x1.8p23, 0x1.8p52)
#define LOG2_HIGH OF_PRECISION(0x1.62e4p-1, 0x1.62e42feep-1)
#define LOG2_LOW OF_PRECISION(0x1.7f7d1cp-20, 0x1.a39ef35793c76p-33)
#undef NAME
#define NAME(x) JOINED(few_##x, REAL)
#define REAL float
#define INTEGER int32_t
#define MASKED(x, mask) _mm256_maskload_ps(x, mask)
#define CUT(x, low, high) _mm256_min_ps(high, _mm256_max_ps(low, x))
#include "dots.h"
#define REAL double
#define INTEGER int64_t
#define MASKED(x, mask) _mm256_maskload_pd(x, mask)
#define CUT(x, low, high) _mm256_min_pd(high, _mm256_max_pd(low, x))
#include "dots.h"

/* Write all columns of a record as the table's precision has them, in double precision. */
ROUNDED static void widen(const struct curves *of, const void *values, const uint8_t *cells,
                          void *line)
{
    float *restrict own = (void *)(of->space + 8 * (of->d + BEYOND) * of->size);
    double *restrict to = line;
    few_expand_float(of, values, cells, own);
    for (ptrdiff_t i = 0; i < of->d; i++) to[i] = own[i];
}

static int narrow; /* whether AVX2 is used where there is AVX-512 */

static PyObject *set_narrow(PyObject *self, PyObject *given)
{
    const int value = PyObject_IsTrue(given);
    if (value < 0) return NULL;
    narrow = value;
    return PyBool_FromLong(__builtin_cpu_supports("avx512f"));
}

/* The function of the call's precision for this processor. */
#define OF_CALL(name, call)                                                                      \
    (!narrow && __builtin_cpu_supports("avx512f")                                                \
         ? ((call).type == 'f' ? name##_float_64 : name##_double_64)                             \
         : ((call).type == 'f' ? name##_float_32 : name##_double_32))

#define FEW_OF(name, call) ((call).type == 'f' ? few_##name##_float : few_##name##_double)
#define PLACE(view, number) ((void *)((char *)(view)->buf + (number) * (view)->itemsize))

/* Return memory to work in, zeros in the first bytes, or NULL with an error set. */
static void *space_of(struct call *call, size_t bytes, size_t zeros)
{
    void *space = call->given.space = aligned_alloc(64, (bytes + 63) / 64 * 64);
    return space ? memset(space, 0, zeros) : PyErr_NoMemory();
}

static PyObject *raw(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    struct call call = {0};
    const Py_buffer *params, *out, *limits = NULL;
    char *packed = NULL;
    void *space;
    if (count < 7 || count > 8) return PyErr_Format(PyExc_TypeError, "raw takes 7 or 8 arguments");
    call.X.intercept = PyObject_IsTrue(given[6]);
    if (call.X.intercept < 0 || hold_records(&call, given[0], given[1], given[2]) ||
        (out = hold_by_class(&call, given[4], "out", 1)) == NULL ||
        (params = hold_flat(&call, given[3], "params", 0)) == NULL ||
        (given[5] != Py_None && (packed = hold_packed(&call, given[5], 1)) == NULL) ||
        (count == 8 &&
         ((limits = hold_reals(&call, given[7], "limits", 1, 0)) == NULL ||
          ((limits->shape[0] != 2 * ((large)call.X.d + BEYOND) || packed || call.k > FEW) &&
           complain("limits", "of other features, or outputs")))) ||
        (space = space_of(&call, MOST * ((size_t)call.X.d + 1) + FOR_FEW(call.X.d), 0)) == NULL)
        return finish(&call.given, 0);
    call.X.limits = limits ? limits->buf : NULL;
    Py_BEGIN_ALLOW_THREADS
    for (ptrdiff_t s = 0; s < call.silos; s++) {
        const struct records X = silo(&call, s);
        void *copy = packed ? packed + call.edges[s] * COPIED(call, out->itemsize) : NULL;
        (packed || call.k > FEW ? OF_CALL(raw, call) : FEW_OF(raw, call))(
            &X, ROW_OF(params, s), call.k, PLACE(out, call.edges[s]), STRIDE(out), copy, space);
    }
    Py_END_ALLOW_THREADS
    return finish(&call.given, 1);
}

static PyObject *row_sums(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    struct call call = {0};
    const Py_buffer *flat, *by_class;
    void *space;
    if (count != 7) return PyErr_Format(PyExc_TypeError, "row_sums takes 7 arguments");
    call.X.intercept = PyObject_IsTrue(given[5]);
    if (call.X.intercept < 0 || hold_records(&call, given[0], given[1], given[2]) ||
        (by_class = hold_by_class(&call, given[4], "slopes", 0)) == NULL ||
        (flat = hold_flat(&call, given[3], "out", 1)) == NULL ||
        hold_chunk(&call, given[6]) || (call.k > FEW && complain("slopes", "more than 4 rows")) ||
        (space = space_of(&call, FOR_FEW(call.X.d), FOR_FEW(call.X.d))) == NULL)
        return finish(&call.given, 0);
    Py_BEGIN_ALLOW_THREADS
    for (ptrdiff_t s = 0; s < call.silos; s++) {
        const struct records X = silo(&call, s);
        FEW_OF(sum, call)(&X, NULL, call.k, NULL, 0, PLACE(by_class, call.edges[s]),
                          STRIDE(by_class), call.chunk, ROW_OF(flat, s), space);
    }
    Py_END_ALLOW_THREADS
    return finish(&call.given, 1);
}

/* What a descent has beyond a step. */
static int hold_descent(struct call *call, PyObject *const *given, struct descent *by)
{
    const Py_buffer *each, *penalty = NULL;
    by->steps = PyLong_AsSsize_t(given[0]);
    by->rate = PyFloat_AsDouble(given[4]);
    by->momentum = PyFloat_AsDouble(given[5]);
    if (PyErr_Occurred() || (each = hold_reals(call, given[1], "divisor", 1, 0)) == NULL ||
        (given[2] != Py_None && (penalty = hold_reals(call, given[2], "penalty", 1, 0)) == NULL) ||
        (given[3] != Py_None &&
         (by->correction = hold_flat(call, given[3], "correction", 0)) == NULL))
        return -1;
    if (each->shape[0] != call->silos) return complain("divisor", "one for each silo");
    if (penalty && penalty->shape[0] != call->X.d + call->X.intercept)
        return complain("penalty", "one for each parameter");
    by->divisor = each->buf;
    by->penalty = penalty ? penalty->buf : NULL;
    return 0;
}

/* What persons have beyond a step. */
static int hold_persons(struct call *call, PyObject *const *given, struct persons *who)
{
    const Py_buffer *people = call->given.held, *clip; /* held first: see hold_reals */
    if ((given[1] != Py_None && (who->norms = hold_each(call, given[1], "norms")) == NULL) ||
        (clip = hold_reals(call, given[2], "clip", 1, 0)) == NULL ||
        (who->mean = PyObject_IsTrue(given[3])) < 0)
        return -1;
    if (clip->shape[0] != call->silos) return complain("clip", "one for each silo");
    const ptrdiff_t last = people->shape[0] - 1;
    who->edges = people->buf, who->clip = clip->buf;
    if (last < 0 || who->edges[0] != 0 || who->edges[last] != call->n)
        return complain("people", "must be edges of the records");
    for (ptrdiff_t p = 0, s = 0; p <= last; p++) {
        if (p < last && who->edges[p] >= who->edges[p + 1]) return complain("people", "must rise");
        while (s <= call->silos && call->edges[s] == who->edges[p]) s++;
        if (s <= call->silos && call->edges[s] < who->edges[p])
            return complain("people", "must not cross silos");
    }
    return 0;
}

/* Both products of one output and slopes between: once, in a descent, or by persons, by `count`. */
static PyObject *with_slopes(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    const int how = count == 11 ? 0 : count == 17 ? 1 : 2;
    struct call call = {0};
    struct slopes of = {0};
    struct descent by = {0};
    struct persons who = {0};
    const Py_buffer *params, *out;
    char *space;
    if (how == 2 && count != 15) return PyErr_Format(PyExc_TypeError, "takes 11, 15, 17 arguments");
    const long link = PyLong_AsLong(given[10]);
    call.X.intercept = PyObject_IsTrue(given[8]), call.k = 1;
    if (PyErr_Occurred()) return NULL;
    if (link < IDENTITY || link > LABEL_FREE) return PyErr_Format(PyExc_ValueError, "link");
    of.link = (enum link)link;
    if ((how == 2 && hold(&call.given, given[11], "people", 1, 'q', 0) == NULL) ||
        hold_records(&call, given[0], given[1], given[2]) || hold_chunk(&call, given[9]) ||
        (params = hold_flat(&call, given[3], "params", 0)) == NULL ||
        (out = hold_flat(&call, given[4], "out", 1)) == NULL ||
        (of.y = hold_each(&call, given[5], "y")) == NULL ||
        (of.limits = hold_each(&call, given[6], "limits")) == NULL ||
        (how < 2 && given[7] != Py_None &&
         (of.weights = hold_each(&call, given[7], "weights")) == NULL) ||
        (how == 1 && hold_descent(&call, given + 11, &by)) ||
        (how == 2 && hold_persons(&call, given + 11, &who)))
        return finish(&call.given, 0);
    const size_t first = FOR_FEW(call.X.d), sums = 24 * ((size_t)call.X.d + 1);
    if ((space = space_of(&call, first + 64 * ((size_t)call.n / 8 + sums / 64 + 3), first)) == NULL)
        return finish(&call.given, 0);
    Py_BEGIN_ALLOW_THREADS
    if (how == 2)
        FEW_OF(persons, call)(&call, &of, &who, params, out, space, space + first);
    else
        FEW_OF(steps, call)(&call, &of, how ? &by : NULL, params, out, space, space + first);
    Py_END_ALLOW_THREADS
    return finish(&call.given, 1);
}

static PyObject *expand(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    struct call call = {0};
    const Py_buffer *out;
    if (count != 4) return PyErr_Format(PyExc_TypeError, "expand takes 4 arguments");
    if (hold_records(&call, given[0], given[1], given[2]) ||
        (out = hold_reals(&call, given[3], "out", 2, 1)) == NULL ||
        ((out->shape[0] != call.n || out->shape[1] != call.X.d) && complain("out", "wrong shape")))
        return finish(&call.given, 0);
    Py_BEGIN_ALLOW_THREADS
    for (ptrdiff_t j = 0; j < call.n; j++)
        memcpy(ROW_OF(out, j), row(&call.X, j), call.X.d * out->itemsize);
    Py_END_ALLOW_THREADS
    return finish(&call.given, 1);
}

static PyObject *sums(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    struct call call = {0};
    const Py_buffer *slopes, *out;
    char *packed;
    void *space;
    if (count != 7) return PyErr_Format(PyExc_TypeError, "sums takes 7 arguments");
    call.X.intercept = PyObject_IsTrue(given[5]);
    call.X.d = PyLong_AsSsize_t(given[4]);
    if (PyErr_Occurred()) return NULL;
    if (call.X.d < 0) return PyErr_Format(PyExc_ValueError, "n_features");
    if ((call.type = peek(given[0], "packed", "fd")) < 0 || hold_edges(&call, given[1]) ||
        (slopes = hold_by_class(&call, given[2], "slopes", 0)) == NULL ||
        (out = hold_flat(&call, given[3], "out", 1)) == NULL ||
        (packed = hold_packed(&call, given[0], 0)) == NULL || hold_chunk(&call, given[6]) ||
        (space = space_of(&call, MOST * (size_t)call.chunk, 0)) == NULL)
        return finish(&call.given, 0);
    Py_BEGIN_ALLOW_THREADS
    for (ptrdiff_t s = 0; s < call.silos; s++) {
        const struct records X = silo(&call, s);
        OF_CALL(sum, call)(&X, packed + call.edges[s] * COPIED(call, out->itemsize),
                           PLACE(slopes, call.edges[s]), STRIDE(slopes), call.k, call.chunk,
                           ROW_OF(out, s), space);
    }
    Py_END_ALLOW_THREADS
    return finish(&call.given, 1);
}

#endif

static PyMethodDef methods[] = {
    {"available", available, METH_NOARGS, NULL},
#ifdef HAVE_TILES
    {"raw", (PyCFunction)(void (*)(void))raw, METH_FASTCALL, NULL},
    {"row_sums", (PyCFunction)(void (*)(void))row_sums, METH_FASTCALL, NULL},
    {"step", (PyCFunction)(void (*)(void))with_slopes, METH_FASTCALL, NULL},
    {"descent", (PyCFunction)(void (*)(void))with_slopes, METH_FASTCALL, NULL},
    {"persons", (PyCFunction)(void (*)(void))with_slopes, METH_FASTCALL, NULL},
    {"expand", (PyCFunction)(void (*)(void))expand, METH_FASTCALL, NULL},
    {"narrow", set_narrow, METH_O, NULL},
    {"sums", (PyCFunction)(void (*)(void))sums, METH_FASTCALL, NULL},
#endif
    {NULL, NULL, 0, NULL},
};

MODULE(products, methods)
