"""The generated blocking classes are those of the asyncio classes as they are now."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_blocking", ROOT / "tools/make_blocking.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_blocking"] = module
    spec.loader.exec_module(module)
    return module


def test_no_generated_file_is_out_of_date(tool: ModuleType) -> None:
    assert tool.stale() == []


def test_a_change_of_an_asyncio_class_is_noticed(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "FACADES", tool.FACADES[:1])
    monkeypatch.setattr(tool, "OPTIONS", ())
    monkeypatch.setattr(tool, "_WAITS", "")
    changed = tool.blocking_doc
    monkeypatch.setattr(tool, "blocking_doc", lambda text: changed(text) + " More.")
    assert [path.name for path in tool.stale()] == ["blocking.py"]


def test_docstrings_lose_asyncio_parts(tool: ModuleType) -> None:
    text = """Send: ``async with Producer() as p``.

:param tls: speak TLS, see :class:`~rocketmq_py.aio.Producer`.
"""
    assert tool.blocking_doc(text) == (
        "Send: ``with Producer() as p``.\n\n:param tls: speak TLS, see :class:`~rocketmq_py.Producer`.\n"
    )


def test_arguments_are_passed_on_as_they_are_declared(tool: ModuleType) -> None:
    function = ast.parse("def f(self, a, b=1, *, c, **options): ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    assert tool.call_of(function.args) == "a, b, c=c, **options"
