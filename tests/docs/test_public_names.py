"""Every public name has a docstring: the reference of the documentation is made from them."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator

import pytest

PACKAGES = (
    "rocketmq_py",
    "rocketmq_py.aio",
    "rocketmq_py.testing",
    "rocketmq_py.spark",
    "rocketmq_py.arrow",
    "rocketmq_py.serde",
)

UNDOCUMENTED: set[str] = set()
"""Public names without a docstring: none, and none may be added."""


def public(package: str) -> Iterator[tuple[str, object]]:
    """Names in ``__all__`` of a package, and the public methods and properties that its classes define."""
    module = importlib.import_module(package)
    for name in module.__all__:
        value = getattr(module, name)
        yield name, value
        if inspect.isclass(value):
            for member, raw in vars(value).items():
                function = raw.fget if isinstance(raw, property) else getattr(raw, "__func__", raw)
                if not member.startswith("_") and callable(function) and not inspect.isclass(function):
                    yield f"{name}.{member}", getattr(value, member)


def documented(value: object) -> bool:
    """A class needs a docstring of its own; a method may have that of the method it overrides."""
    return bool(value.__dict__.get("__doc__") if inspect.isclass(value) else inspect.getdoc(value))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_has_a_docstring(package: str) -> None:
    missing = {name for name, value in public(package) if not documented(value)}
    assert missing <= UNDOCUMENTED, f"without a docstring: {sorted(missing - UNDOCUMENTED)}"


def test_the_list_of_undocumented_names_contains_no_documented_name() -> None:
    missing = {name for package in PACKAGES for name, value in public(package) if not documented(value)}
    assert missing == UNDOCUMENTED, f"remove from the list: {sorted(UNDOCUMENTED - missing)}"
