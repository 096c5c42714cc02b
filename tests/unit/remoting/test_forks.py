"""Objects that a fork inherits are not used in it."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from types import ModuleType

import pytest

from rocketmq_py.errors import ForkedError
from rocketmq_py.remoting import forks


def loaded_again(path: str | None) -> ModuleType:
    """The module once more, without effect on the one that is in use."""
    assert path is not None
    spec = importlib.util.spec_from_file_location("forks_again", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_fork_is_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    hooks: list[dict[str, Callable[[], None]]] = []
    monkeypatch.setattr(os, "register_at_fork", lambda **given: hooks.append(given), raising=False)
    module = loaded_again(forks.__file__)
    monkeypatch.setattr(os, "getpid", lambda: 11)
    parents = module.Process()
    assert parents.is_this
    parents.check()
    (hook,) = hooks
    assert list(hook) == ["after_in_child"]
    for generation in (1, 2):
        hook["after_in_child"]()
        assert module._generation == generation
        monkeypatch.setattr(os, "getpid", lambda: 12)
        assert not parents.is_this
        with pytest.raises(ForkedError, match="made in process 11 and is used in process 12: sockets and threads do"):
            parents.check()
    assert module.Process().is_this


def test_a_system_without_forks_needs_no_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "register_at_fork", raising=False)
    assert loaded_again(forks.__file__).Process().is_this
