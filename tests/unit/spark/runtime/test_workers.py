"""The one-time setup of a worker."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace

import pytest

from rocketmq_py.spark.runtime import workers
from rocketmq_py.spark.runtime.workers import keep_imports


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    gc.unfreeze()
    workers._keep.cache_clear()
    yield
    gc.unfreeze()
    workers._keep.cache_clear()


def test_a_worker_freezes_imports_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", SimpleNamespace(name="pyspark.daemon"))
    keep_imports()
    frozen = gc.get_freeze_count()
    assert frozen > 1_000
    made = [[] for _ in range(1_000)]
    keep_imports()
    assert gc.get_freeze_count() <= frozen, "less is what was of no use any more"
    assert made


def test_frozen_objects_are_not_frozen_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting goes through all of it: milliseconds, for every range that is read."""
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", SimpleNamespace(name="pyspark.daemon"))
    keep_imports()
    looked: list[str] = []
    monkeypatch.setattr(gc, "get_freeze_count", lambda: looked.append("counted") or 1)
    monkeypatch.setattr(gc, "freeze", lambda: looked.append("frozen"))
    keep_imports()
    assert not looked


def test_later_imports_are_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", SimpleNamespace(name="pyspark.daemon"))
    keep_imports()
    made = [[] for _ in range(1_000)]
    monkeypatch.setitem(sys.modules, "imported_by_a_task", ModuleType("imported_by_a_task"))
    keep_imports()
    assert not any(one is made for one in gc.get_objects())


def test_a_driver_freezes_nothing() -> None:
    keep_imports()
    assert gc.get_freeze_count() == 0
