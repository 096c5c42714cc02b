"""Periodic work whose bytes a thread loads first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rocketmq_py.store.fs.residency import NotInMemory, Part, Residency
from rocketmq_py.store.read.read_ahead import ReadAhead
from tests.unit.store.coldfs import ByHand

PARTS = [Part(Path("/f"), number, 1) for number in range(3)]


class World:
    def __init__(self, tells: bool = True) -> None:
        self.thread = ByHand()
        self.loaded: set[Part] = set()
        self.failure: OSError | None = None
        self.ahead = ReadAhead(self.load, lambda: Residency() if tells else None, self.thread)

    def load(self, parts: Sequence[Part]) -> None:
        if self.failure is not None:
            raise self.failure
        self.loaded.update(parts)

    def ask(self, work: str, *parts: Part) -> str | None:
        """What a read of these parts returns, one after the other."""

        def read(residency: Residency | None) -> str:
            for part in parts:
                if residency is not None and part not in self.loaded:
                    raise NotInMemory([part])
            return f"read {work}"

        return self.ahead.read(work, read)


def test_what_is_in_memory_is_read_at_once() -> None:
    world = World()
    world.loaded.update(PARTS)
    assert world.ask("a", *PARTS) == "read a"
    assert world.thread.work == []


def test_a_read_is_repeated_until_everything_it_needs_is_loaded() -> None:
    world = World()
    for _ in range(2):
        assert world.ask("a", *PARTS[:2]) is None
        assert world.ask("a", *PARTS[:2]) is None, "it is being loaded"
        assert len(world.thread.work) == 1
        world.thread.finish()
    assert world.ask("a", *PARTS[:2]) == "read a"
    assert world.thread.work == []


def test_other_work_goes_on_during_a_load() -> None:
    world = World()
    assert world.ask("a", PARTS[0]) is None
    assert world.ask("b", PARTS[1]) is None
    assert len(world.thread.work) == 2
    assert world.ask("c") == "read c"


def test_a_load_that_fails_is_tried_again(caplog) -> None:
    world = World()
    world.failure = OSError("the disk fails")
    assert world.ask("a", PARTS[0]) is None
    for _ in range(3):
        world.thread.finish()
        assert world.ask("a", PARTS[0]) is None
    assert caplog.text.count("the disk fails") == 1
    world.failure = None
    world.thread.finish()
    assert world.ask("a", PARTS[0]) == "read a"
    world.failure = OSError("the disk fails")
    for _ in range(2):
        assert world.ask("b", PARTS[1]) is None
        world.thread.finish()
    assert world.ask("b", PARTS[1]) is None
    assert caplog.text.count("the disk cannot be read for b, trying again: the disk fails") == 1, "a second time"


def test_parts_that_are_lost_again_are_read_from_the_disk() -> None:
    """With very little memory a read would otherwise never happen."""

    class File:
        path = Path("/f")

        def is_resident(self, position: int, length: int) -> bool:
            return False

    def read(residency: Residency | None) -> str:
        assert residency is not None
        residency.need(File(), 0, 1)  # type: ignore[arg-type]
        residency.check()
        return "read"

    world = World()
    assert world.ahead.read("a", read) is None
    world.thread.finish()
    assert world.ahead.read("a", read) == "read"
    assert world.ahead.read("a", read) is None, "a later read needs it again"


def test_a_platform_that_cannot_tell_reads_at_once() -> None:
    world = World(tells=False)
    assert world.ask("a", *PARTS) == "read a"
    assert world.thread.work == []


def test_a_check_says_whether_a_read_can_follow() -> None:
    world = World()
    checked = list[Residency]()

    def check(residency: Residency) -> None:
        checked.append(residency)
        if PARTS[0] not in world.loaded:
            raise NotInMemory(PARTS[:1])

    assert not world.ahead.is_ready("a", check)
    assert not world.ahead.is_ready("a", check)
    world.thread.finish()
    assert world.ahead.is_ready("a", check)
    assert checked[0] is checked[1], "it knows what was loaded"
    assert World(tells=False).ahead.is_ready("a", check)
    assert len(checked) == 2


def test_after_the_end_no_load_begins() -> None:
    world = World()
    ended = list[bool]()
    world.thread.shutdown = lambda wait=False: ended.append(wait)  # type: ignore[method-assign, assignment]
    assert world.ask("a", PARTS[0]) is None
    future, _ = world.thread.work[0]
    world.ahead.close()
    assert future.cancelled()
    assert ended == [True]
