"""The mappings of static topics are cleaned up in the hours of ``deleteWhen``; other brokers are asked and may fail."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from rocketmq_py.broker.static_topic.clean_up import MappingCleanUp
from rocketmq_py.broker.static_topic.forward import Forwarder
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import ConnectionLost, NoRouteError
from rocketmq_py.protocol.bodies.static_topic import MappingDetail, MappingItem
from tests.unit.broker.harness import InProcess, broker
from tests.unit.broker.rpc import reply

STATS_INFO, TOPIC_CONFIG = 202, 351


class Remote:
    """Answers for the other brokers, by their names; an exception is raised."""

    def __init__(self) -> None:
        self.answers: dict[str, Reply | Exception] = {}
        self.asked: list[tuple[str, str, int, dict[str, str]]] = []

    async def ask(self, broker_name: str, topic: str, code: int, header: Any) -> Reply:
        self.asked.append((broker_name, topic, int(code), header.to_ext()))
        await asyncio.sleep(0)
        answer = self.answers[broker_name]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def ask_for(self, *request: Any) -> Reply:
        return await Forwarder.ask_for(self, *request)  # type: ignore[arg-type]

    async def route(self, topic: str, *, max_age_ms: int) -> Any:
        raise NoRouteError(f"no route of {topic} ({max_age_ms})")


class Bench:
    """Queue 0 of each static topic has moved here from ``broker-b``, where it ended at 100."""

    def __init__(self, running: InProcess, *topics: str) -> None:
        self.remote = Remote()
        self.running = running
        s = running.services
        self.mappings = s.mappings
        for topic in topics:
            items = [
                MappingItem(gen=0, queue_id=5, bname="broker-b", logic_offset=0, start_offset=0, end_offset=100),
                MappingItem(gen=1, queue_id=0, bname="broker-a", logic_offset=10_000),
            ]
            detail = MappingDetail(topic=topic, bname="broker-a", total_queues=1, epoch=1, hosted_queues={0: items})
            self.mappings.put(detail, topic, force=True)
        self.subject = MappingCleanUp(
            running.services._store_config, "broker-a", self.mappings, s.store, cast("Forwarder", self.remote),
            running.clock,
        )  # fmt: skip

    def at_hour(self, hour: int) -> None:
        when = datetime.datetime.fromtimestamp(self.running.now // 1000).astimezone().replace(hour=hour, minute=30)
        self.running.now = int(when.timestamp() * 1000)

    def expired(self, least: int = 100) -> Reply:
        body = (
            '{"offsetTable":{{"brokerName":"broker-b","queueId":5,"topic":"t"}:'
            f'{{"lastUpdateTimestamp":1,"maxOffset":100,"minOffset":{least}}}}}}}'
        )
        return reply(body=body.encode())

    def generations(self, topic: str = "t") -> list[int]:
        return [item.gen for item in self.mappings.table[topic].hosted_queues[0]]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with broker(tmp_path, store={"delete_when": "04;13"}) as running:
        yield Bench(running, "t")


@pytest.mark.parametrize(("hour", "runs"), [(3, 0), (4, 1), (5, 0), (13, 1), (14, 0)])
async def test_mappings_are_cleaned_up_in_their_hours(bench: Bench, hour: int, runs: int) -> None:
    bench.remote.answers["broker-b"] = bench.expired()
    bench.at_hour(hour)
    bench.subject.start_if_due()
    bench.subject.start_if_due()
    assert bench.subject.runs == runs, "one at a time"
    await asyncio.sleep(0.1)
    assert bench.generations() == ([1] if runs else [0, 1])
    bench.subject.start_if_due()
    assert bench.subject.runs == 2 * runs
    await bench.subject.stop()


async def test_without_static_topics_nothing_is_done(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        bench = Bench(running)
        bench.at_hour(4)
        bench.subject.start_if_due()
        assert bench.subject.runs == 0


async def test_the_broker_of_the_earliest_queue_is_asked_how_far_it_is(bench: Bench) -> None:
    bench.remote.answers["broker-b"] = bench.expired(99)
    await bench.subject.run()
    assert bench.generations() == [0, 1], "a message is left"
    assert bench.remote.asked == [("broker-b", "t", STATS_INFO, {"topic": "t", "bname": "broker-b", "lo": "false"})]
    bench.remote.answers["broker-b"] = bench.expired(100)
    await bench.subject.run()
    assert bench.generations() == [1]
    bench.remote.asked.clear()
    await bench.subject.run()
    assert (bench.generations(), bench.remote.asked) == ([1], []), "this broker knows its own queues"


@pytest.mark.parametrize("fault", [ConnectionLost("it has gone"), reply(1, remark="no such topic")])
async def test_a_topic_whose_broker_fails_stays_as_it_is_others_do_not(
    tmp_path: Path, fault: Reply | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with broker(tmp_path) as running:
        bench = Bench(running, "s", "t")
        ask = bench.remote.ask

        async def answer(name: str, topic: str, code: int, header: Any) -> Reply:
            bench.remote.answers["broker-b"] = fault if topic == "s" else bench.expired()
            return await ask(name, topic, code, header)

        bench.remote.ask = answer  # type: ignore[method-assign]
        await bench.subject.run()
        assert (bench.generations("s"), bench.generations("t")) == ([0, 1], [1])
    said = "it has gone" if isinstance(fault, Exception) else "no such topic"
    assert caplog.text.count("the mapping of static topic s is not cleaned up: ") == 1
    assert said in caplog.text


async def test_a_run_that_fails_is_logged_and_may_be_repeated(
    bench: Bench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(bench.subject, "run", fail)
    bench.at_hour(4)
    for runs in (1, 2):
        bench.subject.start_if_due()
        await asyncio.sleep(0.01)
        assert bench.subject.runs == runs
        assert caplog.text.count("cleaning up the mappings of static topics failed") == runs


async def test_a_stop_ends_a_run(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []

    async def run() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    monkeypatch.setattr(bench.subject, "run", run)
    bench.at_hour(4)
    bench.subject.start_if_due()
    await asyncio.sleep(0.01)
    await bench.subject.stop()
    assert ended == [True]


async def test_a_topic_that_is_deleted_meanwhile_is_left_out(bench: Bench) -> None:
    answer = bench.expired(0)

    async def ask(*_: object) -> Reply:
        bench.mappings.delete("t")
        return answer

    bench.remote.ask = ask  # type: ignore[method-assign]
    await bench.subject.run()
    assert "t" not in bench.mappings.table


async def test_a_queue_of_this_broker_is_looked_up_here(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its older physical queue is here, too; nobody is asked."""
    items = [
        MappingItem(gen=0, queue_id=5, bname="broker-a", logic_offset=0, start_offset=0, end_offset=100),
        MappingItem(gen=1, queue_id=0, bname="broker-a", logic_offset=10_000),
    ]
    bench.mappings.table["t"].hosted_queues[0] = items
    ranges: list[tuple[str, int]] = []
    least = 99

    def queue_range(topic: str, queue_id: int) -> tuple[int, int]:
        ranges.append((topic, queue_id))
        return least, 100

    monkeypatch.setattr(bench.running.services.store, "queue_range", queue_range)
    await bench.subject.run()
    assert bench.generations() == [0, 1]
    least = 100
    await bench.subject.run()
    assert bench.generations() == [1]
    assert (set(ranges), bench.remote.asked) == ({("t", 5)}, [])
