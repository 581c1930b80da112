"""Builds the inner loops in C; everything else is in pyproject.toml.

They are optional: without a compiler, or on processors that they are not made for, skdpfl works
without them, as it does on Python without the global lock. One build serves all versions of Python.
"""

import sysconfig

from setuptools import Extension, setup

FOLDER = "skdpfl/_compiled"
#: Python without the global lock has no interface that serves several versions, nor wheels of it
ONE_BUILD = not sysconfig.get_config_var("Py_GIL_DISABLED")
HEADERS = {"products": ["arrays.h", "tiles.h", "dots.h"], "noise": ["arrays.h"]}

setup(
    ext_modules=[
        Extension(
            f"skdpfl._compiled.{name}",
            sources=[f"{FOLDER}/{name}.c"],
            depends=[f"{FOLDER}/{header}" for header in headers],
            extra_compile_args=["-O3", "-fno-math-errno"],
            py_limited_api=True,
            optional=True,
        )
        for name, headers in HEADERS.items()
        if ONE_BUILD
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if ONE_BUILD else {},
)
