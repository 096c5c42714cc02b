"""The two faces of the administration offer the same."""

import inspect

import pytest

from rocketmq_py.client.admin import admin as aio, blocking


def public(kind):
    return {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}


def test_both_classes_have_the_same_methods():
    assert public(blocking.Admin) == public(aio.Admin)


@pytest.mark.parametrize("name", [*sorted(public(aio.Admin)), "__init__"])
def test_both_classes_have_the_same_parameters(name):
    ours, theirs = (inspect.signature(getattr(face.Admin, name)).parameters for face in (blocking, aio))
    expected = [(p.name, p.kind, p.default) for p in theirs.values()]
    assert [(p.name, p.kind, p.default) for p in ours.values()] == expected


@pytest.mark.parametrize("name", sorted(public(aio.Admin)))
def test_every_method_has_a_docstring(name):
    for face in (blocking, aio):
        assert inspect.getdoc(getattr(face.Admin, name))
