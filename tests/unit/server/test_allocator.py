"""Which settings of glibc's allocator a server changes, and when it leaves them alone."""

from __future__ import annotations

import ctypes
import platform
from types import SimpleNamespace

import pytest

from rocketmq_py.server import allocator
from rocketmq_py.server.allocator import KEPT, LARGEST, keep_freed_memory


def test_the_thresholds_for_returning_memory_are_raised() -> None:
    set_to: dict[int, int] = {}
    assert keep_freed_memory({}, lambda name, value: set_to.update({name: value}) or 1)
    assert set_to == {-1: KEPT, -3: LARGEST}


@pytest.mark.parametrize("refused", [-1, -3])
def test_a_setting_that_is_refused_is_reported(refused: int) -> None:
    assert not keep_freed_memory({}, lambda name, _: int(name != refused))


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"])
def test_settings_of_the_user_are_left_alone(name: str) -> None:
    def refuse(_: int, __: int) -> int:
        raise AssertionError("nothing is set")

    assert not keep_freed_memory({name: "1"}, refuse)


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace())
    assert not keep_freed_memory({})
    monkeypatch.setattr(allocator.sys, "platform", "darwin")
    assert not keep_freed_memory({})


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_glibc_takes_the_settings() -> None:
    assert keep_freed_memory({})
