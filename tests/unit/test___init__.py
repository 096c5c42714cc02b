"""The package's own names, which are loaded when they are used."""

from __future__ import annotations

import importlib
import sys

import pytest

import rocketmq_py
from rocketmq_py import model


def test_names_are_loaded_from_their_modules_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(rocketmq_py), "Message", raising=False)
    assert rocketmq_py.Message is model.Message
    assert vars(rocketmq_py)["Message"] is model.Message, "the next look-up is one of the interpreter"
    assert rocketmq_py.__getattr__("Message") is model.Message


def test_other_names_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match="module 'rocketmq_py' has no attribute 'Massage'"):
        rocketmq_py.__getattr__("Massage")


def test_the_directory_has_all_public_names_in_order() -> None:
    found = dir(rocketmq_py)
    assert found == sorted(found)
    assert {"Producer", "Message", "__version__", *rocketmq_py.__all__} <= set(found)
    for name in rocketmq_py.__all__:
        assert getattr(rocketmq_py, name) is not None
    assert importlib.import_module("rocketmq_py") is sys.modules["rocketmq_py"]
