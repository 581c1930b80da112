"""Builds the inner loops in C; everything else is in pyproject.toml.

They are optional: without a compiler, or on processors that they are not made for, skdpfl works
without them. One build serves all versions of Python.
"""

from setuptools import Extension, setup

FOLDER = "skdpfl/_compiled"
HEADERS = {"products": ["arrays.h", "loops.h", "tiles.h"], "noise": ["arrays.h"]}

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
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
