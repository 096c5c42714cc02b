"""Offsets of logical queues whose messages are at two brokers: what is answered here, and what is asked there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.core.peer import Reply
from rocketmq_py.protocol.bodies.static_topic import MappingDetail, MappingItem
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.headers.offset import (
    GetMaxOffset,
    QueryConsumerOffset,
    QueueHeader,
    SearchOffset,
    UpdateConsumerOffset,
)
from rocketmq_py.wire.command import Command
from tests.unit.broker.harness import START_MS, InProcess, broker
from tests.unit.broker.requests import send
from tests.unit.broker.rpc import reply

QUERY, UPDATE, SEARCH, MAX, MIN, EARLIEST = 14, 15, 29, 30, 31, 32
NOT_FOUND, SYSTEM_ERROR, NOT_LEADER = 22, 1, 501
MOVED, UNDECIDED, HERE, EMPTY, OTHERS = range(5)
"""Logical queues: moved here from broker-b; moving here, not decided yet; always here; without offsets; not here."""


class Bench:
    """``there`` are broker-b's answers by request code; ``asked`` are code, queue and fields of what it was asked."""

    def __init__(self, root: Path) -> None:
        self.running = InProcess(root)
        s = self.running.services
        s.topics.put([TopicConfig(topic_name="t", read_queue_nums=5, write_queue_nums=5)])

        def item(logic: int, queue_id: int, bname: str = "broker-a", gen: int = 0) -> MappingItem:
            return MappingItem(gen=gen, queue_id=queue_id, bname=bname, logic_offset=logic)

        queues = {
            MOVED: [item(0, 5, "broker-b"), item(10_000, 0, gen=1)],
            UNDECIDED: [item(0, 6, "broker-b"), item(-1, 1, gen=1)],
            HERE: [item(0, 2)],
            EMPTY: [item(-1, 3)],
            OTHERS: [item(0, 4), item(10_000, 7, "broker-b", 1)],
        }
        detail = MappingDetail(topic="t", bname="broker-a", total_queues=5, epoch=1, hosted_queues=queues)
        s.mappings.table["t"] = detail
        s.forwarder.ask = self._ask  # type: ignore[method-assign]
        self.there: dict[int, Reply] = {}
        self.asked: list[tuple[int, int, dict[str, str]]] = []
        self.client = self.running.connect()

    async def _ask(self, broker_name: str, topic: str, code: int, header: Header) -> Reply:
        assert (broker_name, topic) == ("broker-b", "t")
        ext = header.to_ext()
        assert (ext.get("lo"), ext.get("bname")) in (("false", "broker-b"), (None, None))
        self.asked.append((int(code), int(ext["queueId"]), ext))
        await asyncio.sleep(0)
        return self.there[int(code)]

    def ask(self, code: int, header: Header) -> Command:
        """The answer, at once or after broker-b was asked."""

        async def work() -> Command:
            answer = self.client.call(code, header)
            for _ in range(50):
                if answer is not None:
                    return answer
                await asyncio.sleep(0)
                if self.client.heard:
                    return self.client.heard.pop()
            raise AssertionError("no answer")

        return asyncio.run(work())

    def offset(self, code: int, queue: int, **more: Any) -> int | tuple[int, str | None]:
        header: Any = {MAX: GetMaxOffset, MIN: QueueHeader, SEARCH: SearchOffset, QUERY: QueryConsumerOffset}[code]
        answer = self.ask(code, header(topic="t", queue_id=queue, **more))
        return int(answer.ext["offset"]) if answer.code == 0 else (answer.code, answer.remark)

    def put(self, queue: int, count: int) -> None:
        for _ in range(count):
            assert self.client.ask(310, send("t", queue), b"body").code == 0
            self.running.now += 1_000


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    found = Bench(tmp_path)
    yield found
    found.running.services.close()


NO_OFFSETS = (SYSTEM_ERROR, "the logical queue has no offsets yet")


def test_the_largest_offset_is_that_of_the_last_queue_with_offsets(bench: Bench) -> None:
    bench.put(MOVED, 2)
    bench.put(HERE, 3)
    assert (bench.offset(MAX, MOVED), bench.offset(MAX, HERE), bench.asked) == (10_002, 3, [])
    bench.there[MAX] = reply(offset="40")
    assert bench.offset(MAX, UNDECIDED) == 40
    assert [(code, queue) for code, queue, _ in bench.asked] == [(MAX, 6)]
    assert bench.offset(MAX, EMPTY) == NO_OFFSETS


def test_the_smallest_offset_is_that_of_the_first_queue(bench: Bench) -> None:
    assert bench.offset(MIN, HERE) == 0
    bench.there[MIN] = reply(offset="7")
    assert (bench.offset(MIN, MOVED), bench.offset(MIN, UNDECIDED)) == (7, 7)
    assert [(code, queue) for code, queue, _ in bench.asked] == [(MIN, 5), (MIN, 6)]
    assert bench.offset(MIN, EMPTY) == NO_OFFSETS
    bench.there[MIN] = reply(SYSTEM_ERROR, remark="not now")
    assert bench.offset(MIN, MOVED) == (SYSTEM_ERROR, "not now")


@pytest.mark.parametrize("code", [MAX, MIN, SEARCH, QUERY])
def test_a_queue_of_another_broker_is_refused(bench: Bench, code: int) -> None:
    more = {SEARCH: {"timestamp": 1}, QUERY: {"consumer_group": "g"}}.get(code, {})
    remark = "t-4 does not exit in request process of current broker broker-a"
    assert bench.offset(code, OTHERS, **more) == (NOT_LEADER, remark)
    assert bench.asked == []


@pytest.mark.parametrize("code", [MAX, MIN])
def test_a_request_about_a_physical_queue_is_answered_as_always(bench: Bench, code: int) -> None:
    bench.put(MOVED, 2)
    assert bench.offset(code, 0, lo=False) == (2 if code == MAX else 0)
    assert bench.offset(MAX, 4, lo=False) == 0
    assert bench.asked == []


# -- the store time of the oldest message


def earliest(bench: Bench, queue: int) -> tuple[int, str | None, dict[str, str]]:
    answer = bench.ask(EARLIEST, QueueHeader(topic="t", queue_id=queue))
    return answer.code, answer.remark, answer.ext


def test_the_oldest_message_is_that_of_the_first_queue(bench: Bench) -> None:
    bench.put(HERE, 2)
    assert earliest(bench, HERE) == (0, None, {"timestamp": str(START_MS)})
    for answer in (reply(timestamp="77"), reply(SYSTEM_ERROR, remark="not now")):
        bench.there[EARLIEST] = answer
        assert earliest(bench, MOVED) == (answer.code, answer.remark, answer.ext)
    assert [(code, queue) for code, queue, _ in bench.asked] == [(EARLIEST, 5)] * 2
    assert earliest(bench, EMPTY)[:2] == NO_OFFSETS


@pytest.mark.parametrize(("begin", "is_here"), [(0, True), (1, False)])
def test_the_oldest_message_is_where_offset_0_is(bench: Bench, begin: int, is_here: bool) -> None:
    """A queue that moved before it had a message begins with its second physical one."""
    bench.put(HERE, 1)
    queues = bench.running.services.mappings.table["t"].hosted_queues
    queues[HERE] = [
        MappingItem(gen=0, queue_id=5, bname="broker-b", logic_offset=0),
        MappingItem(gen=1, queue_id=2, bname="broker-a", logic_offset=begin),
    ]
    bench.there[EARLIEST] = reply(timestamp="77")
    assert earliest(bench, HERE)[2] == {"timestamp": str(START_MS) if is_here else "77"}
    assert [queue for _, queue, _ in bench.asked] == ([] if is_here else [5])


# -- by time


def test_a_time_is_searched_in_the_first_queue_that_has_it(bench: Bench) -> None:
    bench.put(MOVED, 3)
    bench.there = {SEARCH: reply(offset="4"), MAX: reply(offset="40")}
    assert bench.offset(SEARCH, MOVED, timestamp=7) == 4
    assert [(code, queue) for code, queue, _ in bench.asked] == [(SEARCH, 5), (MAX, 5)]
    assert bench.asked[0][2]["timestamp"] == "7"
    bench.there[SEARCH] = reply(offset="40")
    assert bench.offset(SEARCH, MOVED, timestamp=START_MS + 1_000) == 10_001, "no message there is so late"
    assert bench.offset(SEARCH, MOVED, timestamp=START_MS + 99_000) == 10_003


@pytest.mark.parametrize(
    ("boundary", "expected"), [(None, 1), ("lower", 1), ("LOWER", 1), ("upper", 2), ("UPPER", 2), ("else", 1)]
)
def test_a_search_has_a_lower_and_an_upper_bound(bench: Bench, boundary: str | None, expected: int) -> None:
    bench.put(HERE, 1)
    for _ in range(2):
        bench.put(HERE, 1)
        bench.running.now -= 1_000
    assert bench.offset(SEARCH, HERE, timestamp=START_MS + 1_000, boundary_type=boundary) == expected


def test_searches_need_an_answer_and_offsets(bench: Bench) -> None:
    bench.there[SEARCH] = reply(SYSTEM_ERROR, remark="not now")
    assert bench.offset(SEARCH, MOVED, timestamp=7) == (SYSTEM_ERROR, "not now")
    assert bench.offset(SEARCH, EMPTY, timestamp=7) == NO_OFFSETS
    bench.there[SEARCH] = reply(offset="40")
    assert bench.offset(SEARCH, UNDECIDED, timestamp=7) == 40, "the only one with offsets"


# -- of groups


def query(bench: Bench, queue: int, **more: Any) -> int | tuple[int, str | None]:
    return bench.offset(QUERY, queue, consumer_group="g", **more)


MISSING = (NOT_FOUND, "Not found, maybe this group consumer boot first")


def test_a_groups_offset_is_that_of_the_last_queue_with_one(bench: Bench) -> None:
    offsets = bench.running.services.offsets
    bench.there[QUERY] = reply(offset="33")
    assert query(bench, MOVED) == 33
    [(code, queue, fields)] = bench.asked
    assert (code, queue, fields["setZeroIfNotFound"]) == (QUERY, 5, "false")
    offsets.commit("g", "t", 0, 0, "here")
    assert query(bench, MOVED) == 10_000
    offsets.commit("g", "t", 0, 4, "here")
    assert query(bench, MOVED) == 10_004
    assert len(bench.asked) == 1


def test_a_group_without_an_offset_anywhere_has_none(bench: Bench) -> None:
    bench.there[QUERY] = reply(NOT_FOUND)
    for queue in (MOVED, UNDECIDED, EMPTY):
        assert query(bench, queue, set_zero_if_not_found=True) == MISSING
    assert [queue for _, queue, _ in bench.asked] == [5, 6], "an undecided queue has none"
    bench.there[QUERY] = reply(SYSTEM_ERROR, remark="not now")
    assert query(bench, MOVED) == (SYSTEM_ERROR, "not now")
    bench.there[QUERY] = reply(offset="0")
    assert query(bench, MOVED) == 0


def test_a_queue_that_was_always_here_is_answered_from_its_physical_one(bench: Bench) -> None:
    bench.running.services.offsets.commit("g", "t", 2, 6, "here")
    assert (query(bench, HERE), bench.asked) == (6, [])


def update(bench: Bench, queue: int, offset: int, **more: Any) -> tuple[int, str | None]:
    header = UpdateConsumerOffset(consumer_group="g", topic="t", queue_id=queue, commit_offset=offset, **more)
    answer = bench.ask(UPDATE, header)
    return answer.code, answer.remark


def test_an_offset_is_committed_where_its_messages_are(bench: Bench) -> None:
    bench.running.services.groups.find("g")
    offsets = bench.running.services.offsets
    assert update(bench, MOVED, 10_004) == (0, None)
    assert (offsets.query("g", "t", 0), offsets.query("g", "t", 5)) == (4, -1)
    bench.there[UPDATE] = reply()
    assert update(bench, MOVED, 33) == (0, None)
    [(code, queue, fields)] = bench.asked
    assert (code, queue, fields["commitOffset"], fields["consumerGroup"]) == (UPDATE, 5, "33", "g")
    assert offsets.query("g", "t", 0) == 4
    bench.there[UPDATE] = reply(SYSTEM_ERROR, remark="not now")
    assert update(bench, MOVED, 34) == (SYSTEM_ERROR, "not now")
    assert update(bench, EMPTY, 1) == NO_OFFSETS
    assert update(bench, 2, 9, lo=False) == (0, None)
    assert offsets.query("g", "t", 2) == 9


def test_topics_without_a_mapping_are_untouched(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        client = running.connect()
        client.ask(310, send("plain", 0), b"body")
        assert client.ask(MAX, GetMaxOffset(topic="plain", queue_id=0)).ext["offset"] == "1"
