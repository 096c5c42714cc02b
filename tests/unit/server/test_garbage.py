"""What has survived a long collection is frozen."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from rocketmq_py.server.garbage import LIMIT_SECONDS, LongCollections, paused


class Process:
    """A clock, and how often objects were frozen."""

    def __init__(self) -> None:
        self.time = 0.0
        self.frozen = 0

    def freeze(self) -> None:
        self.frozen += 1

    def now(self) -> float:
        return self.time


@pytest.fixture
def process() -> Process:
    return Process()


@pytest.fixture
def collections(process: Process) -> Iterator[LongCollections]:
    watching = LongCollections(process.freeze, process.now)
    watching.start()
    yield watching
    if watching.called in gc.callbacks:
        watching.stop()


def collect(process: Process, collections: LongCollections, generation: int, seconds: float) -> None:
    collections.called("start", {"generation": generation})
    process.time += seconds
    collections.called("stop", {"generation": generation, "collected": 0, "uncollectable": 0})


def test_objects_of_the_start_are_frozen(process: Process, collections: LongCollections) -> None:
    assert (process.frozen, collections.count) == (1, 0)


@pytest.mark.parametrize(
    ("generation", "seconds", "frozen"),
    [(2, LIMIT_SECONDS, 0), (2, 2 * LIMIT_SECONDS, 1), (1, 2 * LIMIT_SECONDS, 0), (0, 2 * LIMIT_SECONDS, 0)],
)
def test_survivors_of_a_long_full_collection_are_frozen(
    process: Process, collections: LongCollections, generation: int, seconds: float, frozen: int
) -> None:
    collect(process, collections, generation, seconds)
    collect(process, collections, 2, LIMIT_SECONDS / 2)
    assert (process.frozen - 1, collections.count) == (frozen, frozen)


def test_the_interpreter_calls_it_until_it_stops(process: Process, collections: LongCollections) -> None:
    gc.collect()
    gc.freeze()  # later collections take no time
    begun = collections._begin  # type: ignore[attr-defined]
    process.time = 5.0
    gc.collect()
    assert (begun, collections._begin) == (0.0, 5.0)  # type: ignore[attr-defined]
    collections.stop()
    process.time = 7.0
    gc.collect()
    assert collections._begin == 5.0  # type: ignore[attr-defined]


@pytest.mark.parametrize("enabled", [True, False])
def test_no_garbage_is_collected_while_it_is_paused(enabled: bool) -> None:
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with paused():
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
