/* Array arguments through the buffer protocol: checked, held while the lock is released, let go.

   For any Python from 3.11 on (limited API), and without NumPy's. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct arguments {
    Py_buffer held[20];
    int count;
    void *space; /* to be freed */
};

#define ROW_OF(view, s) ((void *)((char *)(view)->buf + (s) * (view)->strides[0]))

static int complain(const char *name, const char *what)
{
    PyErr_Format(PyExc_ValueError, "%s: %s", name, what);
    return -1;
}

/* Return 'f', 'd', 'i' and 'q' for integers of 32 and 64 bits, 'Q' if unsigned, or 0. */
static int code_of(const Py_buffer *view)
{
    const char *format = view->format ? view->format : "B";
    if (*format == '@' || *format == '=') format++;
    if (format[0] == 0 || format[1] != 0) return 0;
    /* 'l' has 64 bits on some systems, 32 on others */
    if (strchr("lqi", *format)) return view->itemsize == 8 ? 'q' : 'i';
    if (strchr("LQ", *format)) return view->itemsize == 8 ? 'Q' : 0;
    return strchr("fdB", *format) ? *format : 0;
}

/* Return an array argument of one type whose last axis is contiguous; NULL with an error set. */
static Py_buffer *hold(struct arguments *arguments, PyObject *argument, const char *name, int axes,
                       int code, int writable)
{
    Py_buffer *view = &arguments->held[arguments->count];
    const int flags = PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(argument, view, flags)) return NULL;
    arguments->count++;
    const int last = view->ndim - 1;
    const char *wrong =
        code_of(view) != code   ? "wrong type"
        : view->ndim != axes    ? "wrong number of axes"
        : view->strides == NULL ? "must have strides" /* arrays of ctypes have none */
        : ((uintptr_t)view->buf | (uintptr_t)view->strides[0]) % view->itemsize ? "must be aligned"
        : view->shape[last] < 2 || view->strides[last] == view->itemsize
            ? NULL : "the last axis must be contiguous";
    return wrong ? complain(name, wrong), NULL : view;
}

/* Return the type of an array argument, one of these, or -1 with an error set. */
static int peek(PyObject *argument, const char *name, const char *types)
{
    Py_buffer view;
    if (PyObject_GetBuffer(argument, &view, PyBUF_STRIDES | PyBUF_FORMAT)) return -1;
    const int code = code_of(&view);
    PyBuffer_Release(&view);
    return code && strchr(types, code) ? code : complain(name, "wrong type");
}

/* Let go of the arguments; return None if all was done, else NULL. */
static PyObject *finish(struct arguments *arguments, int done)
{
    for (int i = 0; i < arguments->count; i++) PyBuffer_Release(&arguments->held[i]);
    free(arguments->space);
    if (!done) return NULL;
    Py_RETURN_NONE;
}

/* Define an extension module of these methods. */
#define MODULE(name, methods)                                                                    \
    static PyModuleDef_Slot slots[] = {{0, NULL}};                                               \
    static struct PyModuleDef module = {.m_base = PyModuleDef_HEAD_INIT,                         \
                                        .m_name = #name,                                         \
                                        .m_methods = methods,                                    \
                                        .m_slots = slots};                                       \
    PyMODINIT_FUNC PyInit_##name(void) { return PyModuleDef_Init(&module); }
