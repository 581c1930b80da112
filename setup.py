"""Builds the compiled products; everything else is in pyproject.toml.

They are optional: without a compiler, or on processors that they are not made for, skdpfl works
without them. One build serves all versions of Python.
"""

from setuptools import Extension, setup

FOLDER = "skdpfl/models/_compiled"

setup(
    ext_modules=[
        Extension(
            "skdpfl.models._compiled.products",
            sources=[f"{FOLDER}/products.c"],
            depends=[f"{FOLDER}/loops.h", f"{FOLDER}/tiles.h"],
            extra_compile_args=["-O3"],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
