"""The extension module; everything else is in pyproject.toml."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension("rocketmq_py_native._records", ["src/rocketmq_py_native/_records.c"], py_limited_api=True),
    ],
    # One wheel for a platform serves every CPython from 3.11 on: only the stable ABI is used.
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
