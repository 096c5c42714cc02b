"""Files written in a thread."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py.broker.metadata.file_saver import ConfigFileSaver


class Thread(Executor):
    """Works when the test says so."""

    def __init__(self) -> None:
        self.work: list[tuple[Future[Any], Any]] = []
        self.shut = False

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.work.append((future, lambda: fn(*args, **kwargs)))
        return future

    def run(self) -> None:
        for future, work in self.work:
            future.set_result(work())
        self.work.clear()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        assert wait
        assert not cancel_futures
        self.shut = True
        self.run()


class File:
    def __init__(self, name: str) -> None:
        self.path = Path(name)
        self.saved: list[Any] = []
        self.failure: OSError | None = None

    def save(self, value: Any) -> None:
        if self.failure is not None:
            raise self.failure
        self.saved.append(value)


def test_a_file_is_written_by_the_thread() -> None:
    thread, file = Thread(), File("/a")
    saver: Any = ConfigFileSaver(thread)
    saver.wait()
    saver.save(file, 1)
    assert file.saved == []
    thread.run()
    saver.wait()
    assert file.saved == [1]
    saver.save(file, 2)
    saver.close()
    assert (thread.shut, file.saved) == (True, [1, 2])


def test_a_failure_is_logged_once_for_each_file(caplog: pytest.LogCaptureFixture) -> None:
    thread, file, other = Thread(), File("/a"), File("/b")
    saver: Any = ConfigFileSaver(thread)
    file.failure = other.failure = OSError("full")
    for one in (file, file, other):
        saver.save(one, 1)
    thread.run()
    file.failure = None
    for one in (file, file, other):
        saver.save(one, 2)
    thread.run()
    assert caplog.messages == [
        "/a cannot be written, so it is older than the broker's state: full",
        "/b cannot be written, so it is older than the broker's state: full", "/a can be written again",
    ]  # fmt: skip
    assert (file.saved, other.saved) == ([2, 2], [])


@pytest.mark.parametrize("is_incomplete", [True, False])
def test_a_file_that_lacks_a_generation_is_written_again_by_the_thread(is_incomplete: bool) -> None:
    thread, restored = Thread(), list[bool]()
    file: Any = SimpleNamespace(path=Path("/a"), is_incomplete=is_incomplete, restore=lambda: restored.append(True))
    saver = ConfigFileSaver(thread)
    saver.restore(file)
    assert restored == []
    thread.run()
    saver.wait()
    assert restored == [True] * is_incomplete
