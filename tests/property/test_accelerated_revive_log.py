"""The revive log has the same bytes with the accelerator and without it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, cast

from hypothesis import example, given, settings, strategies as st

from rocketmq_py.accelerator import Accelerator
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.pop.revive_log import ReviveLog
from rocketmq_py.errors import MessageIllegal
from rocketmq_py.protocol.pop_checkpoint import CheckPoint
from rocketmq_py.store import MessageStore
from tests.accelerated import accelerator, needs_accelerator
from tests.examples import examples
from tests.unit.store.helpers import HOST, NOW, SMALL
from tests.unit.store.memoryfs import MemoryFileSystem

pytestmark = needs_accelerator

INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.one_of(st.sampled_from(["t", "%RETRY%g_t", "ä", 'a"b\\', "\n\x01\x02", "x" * 300]), st.text(max_size=9))
OFFSETS = st.lists(st.integers(0, 40), min_size=1, max_size=33, unique=True).map(sorted)


class NoOffsets:
    """No group has an offset."""

    def query(self, group: str, topic: str, queue_id: int) -> int:
        return -1

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(name)


@st.composite
def pops(draw: st.DrawFn) -> tuple[CheckPoint, list[int]]:
    """A pop, and the offsets of its messages that are acknowledged."""
    start = draw(st.one_of(st.integers(0, 100), st.sampled_from([2**63 - 9, -(2**63)])))
    distances = draw(st.one_of(st.integers(1, 33).map(lambda count: list(range(count))), OFFSETS))
    pop = CheckPoint(
        topic=draw(NAMES), group=draw(NAMES), queue_id=draw(st.integers(0, 2**31 - 1)), start_offset=start,
        pop_time=draw(st.one_of(st.just(NOW), INT64)), broker_name=draw(NAMES),
        invisible_ms=draw(st.integers(0, 10**9)), count=len(distances), diffs=distances,
    )  # fmt: skip
    acked = [start + distance for distance in draw(OFFSETS)]
    return pop, draw(st.sampled_from([acked, [start + distance for distance in distances]]))


def stored(given: list[tuple[CheckPoint, list[int]]], found: Accelerator | None, host: bytes) -> list[object]:
    """What pops and their acks returned or raised, what is in the log and in flight, and the keys to be indexed."""
    store = MessageStore(Path("/store"), SMALL, store_host=host, fs=MemoryFileSystem(), clock=lambda: NOW)
    store.open()
    log = ReviveLog(BrokerConfig(), store, NoOffsets(), host, lambda: NOW, found)
    said: list[object] = []
    for pop, acked in given:
        one = CheckPoint.decode(pop.encode())
        for step in (partial(log.check_point, one, 1), partial(log.ack, one.key, acked)):
            try:
                said.append(step())
            except MessageIllegal as e:
                said.append(str(e))
    store.commit_pending()
    said += [store.queue_entries(log.topic, 1, 0, 1000), list(store._index.waiting.fields)]
    said += [(one.check_point, one.revive_offset) for one in log.inflight.pops()]
    size = SMALL.mapped_file_size_commit_log
    for begin in range(0, store.max_physical_offset, size):
        view = store.log_view(begin, size)
        said.append(None if view is None else bytes(view))
    store.close()
    return said


@given(st.lists(pops(), max_size=9), st.sampled_from([HOST, HOST, b"\x01" * 20]))
@settings(max_examples=examples(300))
@example([(CheckPoint(topic="t", group="g", queue_id=0, start_offset=0, pop_time=0, broker_name="b", invisible_ms=1,
                      count=1, diffs=[0]), [0])] * 40, HOST)  # fmt: skip
@example([(CheckPoint(topic="t" * 1900, group="g" * 100, queue_id=0, start_offset=0, pop_time=0, broker_name="b",
                      invisible_ms=1, count=1, diffs=[0]), [0])], HOST)  # fmt: skip
def test_any_pops(given: list[tuple[CheckPoint, list[int]]], host: bytes) -> None:
    assert stored(given, accelerator(), host) == stored(given, None, host)


def test_the_accelerator_is_asked() -> None:
    asked: list[str] = []

    class Watched:
        def __getattr__(self, name: str) -> object:
            asked.append(name)
            return getattr(accelerator(), name)

    pop = CheckPoint(
        topic="t", group="g", queue_id=0, start_offset=5, pop_time=NOW, broker_name="b", invisible_ms=1, count=2,
        diffs=[0, 1],
    )  # fmt: skip
    stored([(pop, [5])] * 2, cast("Accelerator", Watched()), HOST)
    assert asked == ["check_point_record", "ack_record"] * 2
