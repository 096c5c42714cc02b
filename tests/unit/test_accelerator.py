"""Whether the accelerator is used."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from rocketmq_py import accelerator
from rocketmq_py.accelerator import FORMAT, VARIABLE, installed, is_wanted
from rocketmq_py.server.runner import speedups
from tests.accelerated import needs_accelerator


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch):
    """Look for it again, before and after a test."""
    monkeypatch.delenv(VARIABLE, raising=False)
    accelerator._found.cache_clear()
    yield
    accelerator._found.cache_clear()


@pytest.mark.parametrize(("value", "wanted"), [("0", False), ("1", True), ("", True)])
def test_the_environment_turns_it_off(value: str, wanted: bool) -> None:
    assert is_wanted({VARIABLE: value}) is wanted
    assert is_wanted({})


def test_off_is_off_and_on_again_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    native = SimpleNamespace(FORMAT=FORMAT)
    monkeypatch.setitem(sys.modules, "rocketmq_py_native", native)
    assert installed() is native
    assert "; accelerator: rocketmq-py-native" in speedups()
    monkeypatch.setenv(VARIABLE, "0")
    assert installed() is None
    assert "is turned off by ROCKETMQ_PY_NATIVE=0" in speedups()


def test_none_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rocketmq_py_native", None)
    assert installed() is None
    assert "extra [native], is not installed" in speedups()


def test_one_of_another_format_is_left_alone(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(sys.modules, "rocketmq_py_native", SimpleNamespace(FORMAT=0))
    assert installed() is None
    assert installed() is None
    assert caplog.text.count("has format 0") == 1


@needs_accelerator
def test_the_one_that_is_installed_belongs_to_this_version() -> None:
    found = installed()
    assert found is not None
    assert found.FORMAT == FORMAT
