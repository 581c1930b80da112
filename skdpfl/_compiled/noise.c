/* skdpfl._compiled.noise: see noise.pyi for what the functions compute.

   All of it is integer arithmetic, or floating-point operations that are rounded one by one: the
   results are those of NumPy's to the last bit. */

#include "arrays.h"
#include <math.h>

/* One copy for each kind of vector, the best of which is chosen when the module is loaded. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif

enum { FIELD = (1 << 14) - 1, EXTRA_BITS = 16 };

/* SFC64 from a state of three words, its counter 1. */
static void sfc64(const uint64_t state[3], uint64_t *out, ptrdiff_t n)
{
    uint64_t a = state[0], b = state[1], c = state[2];
    for (ptrdiff_t i = 0; i < n; i++) {
        out[i] = a + b + (uint64_t)i + 1;
        a = b ^ (b >> 11);
        b = c + (c << 3);
        c = (c << 24 | c >> 40) + out[i];
    }
}

/* Normals in units of 2^-20 from n words: three fields of 14 bits and a slot of 16 for each. */
CLONES static void coarse(const uint16_t *lanes, const int32_t *table, int32_t *out, ptrdiff_t n)
{
    const uint16_t *u1 = lanes, *u2 = lanes + n, *u3 = lanes + 2 * n, *slot = lanes + 3 * n;
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = table[slot[i]] + (u1[i] & FIELD) + (u2[i] & FIELD) + (u3[i] & FIELD);
}

/* In units of 2^-36, with 16 bits more from each half of n more words of 32 bits. */
CLONES static void fine(const uint16_t *lanes, const int32_t *table, int64_t *out, ptrdiff_t n)
{
    const uint16_t *u1 = lanes, *u2 = lanes + n, *u3 = lanes + 2 * n, *slot = lanes + 3 * n;
    const uint16_t *extra = lanes + 4 * n;
    for (ptrdiff_t i = 0; i < n; i++) {
        const int64_t whole = table[slot[i]] + (u1[i] & FIELD) + (u2[i] & FIELD) + (u3[i] & FIELD);
        out[i] = whole * (1 << EXTRA_BITS) + extra[2 * i] + extra[2 * i + 1] - 0xFFFF;
    }
}

/* factor (rint(sum / grid) + units) */
CLONES static void release_float(const float *sum, const int32_t *units, float grid, float factor,
                                 float *out, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        const int32_t k = (int32_t)rintf(sum[i] / grid);
        out[i] = (float)(int32_t)((uint32_t)k + (uint32_t)units[i]) * factor;
    }
}

CLONES static void release_double(const double *sum, const int64_t *units, double grid,
                                  double factor, double *out, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        const int64_t k = (int64_t)rint(sum[i] / grid);
        out[i] = (double)(int64_t)((uint64_t)k + (uint64_t)units[i]) * factor;
    }
}

static PyObject *words(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    struct arguments held = {0};
    const Py_buffer *states, *out;
    if (count != 2) return PyErr_Format(PyExc_TypeError, "words takes 2 arguments");
    if ((states = hold(&held, given[0], "states", 2, 'Q', 0)) == NULL ||
        (out = hold(&held, given[1], "out", 2, 'Q', 1)) == NULL ||
        ((states->shape[0] != out->shape[0] || states->shape[1] < 3) &&
         complain("states", "must be three words for each row of out")))
        return finish(&held, 0);
    Py_BEGIN_ALLOW_THREADS
    for (ptrdiff_t s = 0; s < out->shape[0]; s++)
        sfc64(ROW_OF(states, s), ROW_OF(out, s), out->shape[1]);
    Py_END_ALLOW_THREADS
    return finish(&held, 1);
}

static PyObject *normals(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    struct arguments held = {0};
    const Py_buffer *words, *table, *out;
    if (count != 3) return PyErr_Format(PyExc_TypeError, "normals takes 3 arguments");
    const int type = peek(given[2], "out", "iq");
    if (type < 0 || (words = hold(&held, given[0], "words", 2, 'Q', 0)) == NULL ||
        (table = hold(&held, given[1], "table", 1, 'i', 0)) == NULL ||
        (out = hold(&held, given[2], "out", 2, type, 1)) == NULL ||
        (table->shape[0] != 1 << 16 && complain("table", "must have 65536 slots")) ||
        ((words->shape[0] != out->shape[0] ||
          words->shape[1] < out->shape[1] + (type == 'q' ? (out->shape[1] + 1) / 2 : 0)) &&
         complain("words", "too few")))
        return finish(&held, 0);
    Py_BEGIN_ALLOW_THREADS
    for (ptrdiff_t s = 0; s < out->shape[0]; s++) {
        if (type == 'q')
            fine(ROW_OF(words, s), table->buf, ROW_OF(out, s), out->shape[1]);
        else
            coarse(ROW_OF(words, s), table->buf, ROW_OF(out, s), out->shape[1]);
    }
    Py_END_ALLOW_THREADS
    return finish(&held, 1);
}

static PyObject *release(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    struct arguments held = {0};
    const Py_buffer *sums, *units, *grids, *factors, *out;
    if (count != 5) return PyErr_Format(PyExc_TypeError, "release takes 5 arguments");
    const int type = peek(given[0], "sums", "fd") == 'f' ? 'f' : 'd';
    if (PyErr_Occurred() || (sums = hold(&held, given[0], "sums", 2, type, 0)) == NULL ||
        (units = hold(&held, given[1], "units", 2, type == 'f' ? 'i' : 'q', 0)) == NULL ||
        (grids = hold(&held, given[2], "grids", 1, type, 0)) == NULL ||
        (factors = hold(&held, given[3], "factors", 1, type, 0)) == NULL ||
        (out = hold(&held, given[4], "out", 2, type, 1)) == NULL)
        return finish(&held, 0);
    const ptrdiff_t silos = sums->shape[0], n = sums->shape[1];
    if (units->shape[0] != silos || out->shape[0] != silos || grids->shape[0] != silos ||
        factors->shape[0] != silos || units->shape[1] != n || out->shape[1] != n) {
        complain("sums", "units, grids, factors and out must fit");
        return finish(&held, 0);
    }
    Py_BEGIN_ALLOW_THREADS
    for (ptrdiff_t s = 0; s < silos; s++) {
        if (type == 'f')
            release_float(ROW_OF(sums, s), ROW_OF(units, s), ((const float *)grids->buf)[s],
                          ((const float *)factors->buf)[s], ROW_OF(out, s), n);
        else
            release_double(ROW_OF(sums, s), ROW_OF(units, s), ((const double *)grids->buf)[s],
                           ((const double *)factors->buf)[s], ROW_OF(out, s), n);
    }
    Py_END_ALLOW_THREADS
    return finish(&held, 1);
}

static PyMethodDef methods[] = {
    {"words", (PyCFunction)(void (*)(void))words, METH_FASTCALL, NULL},
    {"normals", (PyCFunction)(void (*)(void))normals, METH_FASTCALL, NULL},
    {"release", (PyCFunction)(void (*)(void))release, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

MODULE(noise, methods)
