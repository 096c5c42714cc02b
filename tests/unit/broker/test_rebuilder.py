"""Damaged consume queues that are rebuilt while the broker serves: what clients get meanwhile, and afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.offset import QueryConsumerOffset, QueueHeader, SearchOffset
from rocketmq_py.protocol.headers.pop import Notification, PeekMessage
from rocketmq_py.protocol.headers.pull import QueryMessage
from rocketmq_py.store.log import log_parts
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.record import decode_records
from tests.unit.broker.harness import WITHOUT_TIMERS, InProcess, broker
from tests.unit.broker.pop.pop_client import REVIVE_MS, bodies, take
from tests.unit.broker.requests import heartbeat, pop, pull, send
from tests.unit.store.coldfs import ColdFileSystem, HandWorkers

NUMBER = 40
SETTINGS = {"rebuild_bytes_before_start": 0, "mapped_file_size_consume_queue": 400, **WITHOUT_TIMERS}
BODIES = [b"%d" % number for number in range(NUMBER)]
SUSPEND = 2


class Bench:
    """A broker of whose topic ``t`` with queues 0 and 1 queue 0 is rebuilt; the rebuild goes on only in :meth:`run`."""

    def __init__(self, running: InProcess, workers: HandWorkers, fs: ColdFileSystem) -> None:
        self.running, self.fs = running, fs
        self.thread = workers.threads["rocketmq-rebuild"]
        self.rebuilder = running.services.rebuilder
        self.client = running.connect()

    def pull(self, offset: int, **more: object) -> list[bytes]:
        answer = self.client.ask(Code.PULL_MESSAGE, pull(offset=offset, **more))
        assert answer.code == 0, answer.remark
        return [message.body for message in decode_records(answer.body)]

    def code(self, code: int, header: object) -> int:
        return self.client.ask(code, header).code

    def run(self, parts: int = 1 << 30) -> None:
        """Run the rebuild: so many parts of it, or to its end."""
        asyncio.run(self._run(parts))

    async def _run(self, parts: int) -> None:
        while self.running.services.store.rebuild.is_needed and parts > 0:
            self.running.now += 1_000
            self.rebuilder.tick()
            while self.rebuilder._work.runs and parts > 0:
                await asyncio.sleep(0)
                self.running.run_callbacks()
                while self.thread.work and parts > 0:
                    self.thread.finish()
                    parts -= 1
        await self.rebuilder.stop()

    def table(self) -> dict[str, str]:
        table: dict[str, str] = fastjson.loads(self.client.ask(Code.GET_BROKER_RUNTIME_INFO).body)["table"]
        return {key: value for key, value in table.items() if key.startswith("rebuild")}


def fill(running: InProcess) -> None:
    running.services.topics.put([TopicConfig(topic_name="t", read_queue_nums=2, write_queue_nums=2)])
    client = running.connect()
    for body in BODIES:
        assert client.ask(Code.SEND_MESSAGE_V2, send("t"), body).code == 0
    for body in (b"a", b"b"):
        assert client.ask(Code.SEND_MESSAGE_V2, send("t", 1), body).code == 0
    running.services.groups.find("g")


@contextmanager
def rebuilding(tmp_path: Path, **settings: object) -> Iterator[Bench]:
    fs = ColdFileSystem()
    workers = HandWorkers()
    with broker(tmp_path, fs=fs, store=SETTINGS, workers=workers, **settings) as running:
        fill(running)
        running.services.offsets.persist()
        running.services.saver.wait()
    fs.remove(tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}")
    workers = HandWorkers("rebuild")
    with broker(tmp_path, fs=fs, store=SETTINGS, workers=workers, **settings) as running:
        yield Bench(running, workers, fs)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(log_parts, "PART_BYTES", 1_000)
    monkeypatch.setattr(log_parts, "_READ_BEYOND", 1_000)
    with rebuilding(tmp_path) as found:
        yield found


def test_all_is_served_after_a_rebuild_that_never_waits_for_the_disk(bench: Bench) -> None:
    left = int(bench.table()["rebuildBytesLeft"])
    assert bench.table() == {"rebuildQueuesLeft": "1", "rebuildBytesLeft": str(left)}
    assert left == bench.running.services.store.max_physical_offset
    bench.fs.chill()
    bench.run(3)
    assert 0 < bench.rebuilder.bytes_left <= left - 1_500
    assert bench.client.ask(Code.SEND_MESSAGE_V2, send("t"), b"40").ext["queueOffset"] == "40"
    bench.run()
    assert bench.fs.cold_reads == []
    bench.fs.resident = None
    assert bench.table() == {"rebuildQueuesLeft": "0", "rebuildBytesLeft": "0"}
    assert bench.pull(0) + bench.pull(32) == [*BODIES, b"40"]


def test_a_pull_that_may_wait_is_held_until_the_queue_can_be_read(bench: Bench) -> None:
    services = bench.running.services
    held = pull(offset=5, sys_flag=4 | SUSPEND, suspend_timeout_millis=60_000)
    assert bench.client.call(Code.PULL_MESSAGE, held) is None
    for _ in range(3):  # neither messages that arrive nor the sweep wake it
        assert bench.client.ask(Code.SEND_MESSAGE_V2, send("t"), b"new").code == 0
        services.sweep()
        bench.running.run_callbacks()
        assert bench.client.heard == []
        assert len(services.pull_request_hold) == 1
    bench.run()
    bench.running.run_callbacks()
    [answer] = bench.client.heard
    assert answer.code == 0
    assert [message.queue_offset for message in decode_records(answer.body)] == list(range(5, 37))


def test_a_pull_that_has_waited_long_enough_is_told_its_own_offset(bench: Bench) -> None:
    held = pull(offset=5, sys_flag=4 | SUSPEND, suspend_timeout_millis=5_000)
    assert bench.client.call(Code.PULL_MESSAGE, held) is None
    bench.running.now += 5_000
    bench.running.services.tick_clients()
    bench.running.run_callbacks()
    bench.running.services.pull_request_hold.expire(bench.running.now)
    bench.running.run_callbacks()
    [answer] = bench.client.heard
    assert answer.code == ResponseCode.PULL_NOT_FOUND
    assert (answer.ext["nextBeginOffset"], answer.ext["minOffset"], answer.ext["maxOffset"]) == ("5", "0", "40")


def test_other_requests_are_told_to_come_again(bench: Bench) -> None:
    busy = ResponseCode.SYSTEM_BUSY
    refused = bench.client.ask(Code.PULL_MESSAGE, pull(offset=0))
    assert (refused.code, refused.ext) == (busy, {})
    assert refused.remark == "queue 0 of topic t is being rebuilt from the commit log: try again later"
    assert bench.code(Code.SEARCH_OFFSET_BY_TIMESTAMP, SearchOffset(topic="t", queue_id=0, timestamp=1)) == busy
    assert bench.code(Code.GET_EARLIEST_MSG_STORETIME, QueueHeader(topic="t", queue_id=0)) == busy
    query = QueryConsumerOffset(consumer_group="new", topic="t", queue_id=0)
    assert bench.code(Code.QUERY_CONSUMER_OFFSET, query) == busy
    assert bench.client.ask(Code.GET_MAX_OFFSET, QueueHeader(topic="t", queue_id=0)).ext == {"offset": "40"}
    assert bench.client.ask(Code.GET_MIN_OFFSET, QueueHeader(topic="t", queue_id=0)).ext == {"offset": "0"}
    assert bench.pull(0, queue_id=1) == [b"a", b"b"]
    bench.run()
    assert bench.code(Code.GET_EARLIEST_MSG_STORETIME, QueueHeader(topic="t", queue_id=0)) == 0
    assert bench.code(Code.QUERY_CONSUMER_OFFSET, query) == 0


def test_pops_pass_over_the_queue_and_come_back_to_it(bench: Bench) -> None:
    assert bodies(take(bench.client)) == [b"a", b"b"]
    empty = bench.client.ask(Code.POP_MESSAGE, pop())
    assert (empty.code, empty.ext["restNum"]) == (ResponseCode.POLLING_TIMEOUT, "0")
    offsets = bench.running.services.offsets
    assert offsets.table["t@g"] == {1: 2}
    peeked = PeekMessage(consumer_group="g", topic="t", queue_id=-1, max_msg_nums=32)
    answer = bench.client.ask(Code.PEEK_MESSAGE, peeked)
    assert (answer.code, answer.ext["restNum"]) == (ResponseCode.PULL_NOT_FOUND, "0")
    notify = Notification(consumer_group="g", topic="t", queue_id=-1, poll_time=0)
    assert bench.client.ask(Code.NOTIFICATION, notify).ext["hasMsg"] == "false"
    bench.run()
    assert bench.client.ask(Code.NOTIFICATION, notify).ext["hasMsg"] == "true"
    assert len(decode_records(bench.client.ask(Code.PEEK_MESSAGE, peeked).body)) == 32
    assert bodies(take(bench.client)) + bodies(take(bench.client)) == BODIES


def test_a_pop_that_waits_is_not_run_for_each_message_that_comes(bench: Bench) -> None:
    services = bench.running.services
    assert bodies(take(bench.client)) == [b"a", b"b"]
    assert bench.client.call(Code.POP_MESSAGE, pop(poll_time=60_000, born_time=bench.running.now)) is None
    missed = services.stats.missed
    calls = []
    services.stats.missed = lambda: calls.append(missed())
    for _ in range(3):
        assert bench.client.ask(Code.SEND_MESSAGE_V2, send("t"), b"new").code == 0
        bench.running.run_callbacks()
    assert calls == []
    assert bench.client.heard == []
    assert bench.client.ask(Code.SEND_MESSAGE_V2, send("t", 1), b"c").code == 0
    bench.running.run_callbacks()
    assert len(bench.client.heard) == 1


def test_pops_and_notifications_that_wait_get_the_messages_when_the_queue_can_be_read(bench: Bench) -> None:
    now = bench.running.now
    assert bodies(take(bench.client)) == [b"a", b"b"]
    for group in ("g", "g", "other"):  # two of one group: there are messages for both
        waits = pop(consumer_group=group, poll_time=3_600_000, born_time=now, queue_id=0)
        assert bench.client.call(Code.POP_MESSAGE, waits) is None
    notify = Notification(consumer_group="third", topic="t", queue_id=0, poll_time=3_600_000, born_time=now)
    assert bench.client.call(Code.NOTIFICATION, notify) is None
    waits = pop(poll_time=3_600_000, born_time=now, queue_id=1)
    assert bench.client.call(Code.POP_MESSAGE, waits) is None
    bench.run()
    bench.running.run_callbacks()
    answers = [answer for answer in bench.client.heard if answer.body]
    assert [answer.code for answer in bench.client.heard] == [0] * 4
    assert [len(decode_records(answer.body)) for answer in answers] == [32, 8, 32]
    assert [answer.ext["hasMsg"] for answer in bench.client.heard if "hasMsg" in answer.ext] == ["true"]
    assert len(bench.running.services.pop.polling.pops.table) == 1, "of a queue without new messages"
    assert bench.client.ask(Code.SEND_MESSAGE_V2, send("t", 1), b"c").code == 0
    bench.running.run_callbacks()
    assert len(bench.client.heard) == 5


def test_popped_messages_of_the_queue_are_revived_after_the_rebuild(tmp_path: Path) -> None:
    fs = ColdFileSystem()
    with broker(tmp_path, fs=fs, store=SETTINGS) as running:
        fill(running)
        took = bodies(take(running.connect(), queue_id=0))
        assert took == BODIES[:32]
        running.turn()
    fs.remove(tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}")
    workers = HandWorkers("rebuild")
    with broker(tmp_path, fs=fs, store=SETTINGS, workers=workers) as running:
        running.now += REVIVE_MS
        bench = Bench(running, workers, fs)
        for _ in range(5):
            running.services.pop.tick(running.now)
            running.now += 2_000
        log = running.services.pop.revive_log
        assert len(log.inflight) == 1
        bench.run()
        running.now += 2_000
        running.services.pop.tick(running.now)
        running.services.pop.tick(running.now)
        got = [body for _ in range(4) for body in bodies(take(bench.client))]
        assert sorted(got) == sorted([*BODIES, b"a", b"b"])


@pytest.mark.parametrize("failing", ["load", "write"])
def test_a_disk_that_fails_is_logged_once_and_the_rebuild_goes_on_later(
    bench: Bench, caplog: pytest.LogCaptureFixture, failing: str
) -> None:
    """Where all of the log was read and the entries cannot be written, only these are left to do."""

    async def tick() -> None:
        bench.rebuilder.tick()
        while bench.rebuilder._work.runs:
            await asyncio.sleep(0)
            bench.running.run_callbacks()
            while bench.thread.work:
                bench.thread.finish()

    bench.fs.failing = {failing}
    for _ in range(3):
        asyncio.run(tick())
    assert caplog.text.count("the rebuild of consume queues and index cannot go on, trying again") == 1
    assert bench.rebuilder.queues_left == 1
    bench.fs.failing = set()
    asyncio.run(tick())
    assert bench.rebuilder.queues_left == 0
    assert bench.pull(0) == BODIES[:32]


def test_a_stop_in_the_middle_leaves_the_rebuild_to_the_next_start(bench: Bench, tmp_path: Path) -> None:
    bench.run(3)
    assert bench.rebuilder.queues_left == 1
    bench.running.services.close()
    workers = HandWorkers("rebuild")
    with broker(tmp_path, fs=bench.fs, store=SETTINGS, workers=workers) as running:
        again = Bench(running, workers, bench.fs)
        assert again.rebuilder.queues_left == 1
        again.run()
        assert again.pull(0) + again.pull(32) == BODIES


def test_a_stop_ends_the_step_that_is_under_way(bench: Bench) -> None:
    async def run() -> None:
        bench.rebuilder.tick()
        while not len(bench.rebuilder._slices):
            await asyncio.sleep(0)
            while bench.thread.work:
                bench.thread.finish()
        await bench.rebuilder.stop()
        assert not len(bench.rebuilder._slices)
        left = bench.rebuilder.bytes_left
        for _ in range(10):
            await asyncio.sleep(0)
            bench.running.run_callbacks()
            while bench.thread.work:
                bench.thread.finish()
        assert bench.rebuilder.bytes_left == left > 0, "no other step follows"

    asyncio.run(run())
    assert bench.rebuilder.queues_left == 1
    bench.run()
    assert bench.pull(0) == BODIES[:32]


def test_groups_that_consume_get_all_messages_of_the_queue(bench: Bench) -> None:
    assert bench.client.ask(Code.HEART_BEAT, None, heartbeat(t="*")).code == 0
    table = bench.running.services.offsets
    table.commit("g", "t", 0, 7, "c")
    held = pull(offset=7, sys_flag=SUSPEND | 1, commit_offset=7, suspend_timeout_millis=60_000)
    assert bench.client.call(Code.PULL_MESSAGE, held) is None
    assert table.table["t@g"] == {0: 7}


def test_messages_are_not_found_by_key_until_the_index_is_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_parts, "PART_BYTES", 1_000)
    fs, workers = ColdFileSystem(), HandWorkers("rebuild")
    with broker(tmp_path, fs=fs, store=SETTINGS) as running:
        fill(running)
        client = running.connect()
        answer = client.ask(Code.SEND_MESSAGE_V2, send("t", properties={"KEYS": "a"}), b"with a key")
        assert answer.code == 0
    fs.remove_tree(tmp_path / "index")
    query = QueryMessage(topic="t", key="a", max_num=32, begin_timestamp=0, end_timestamp=1 << 62)
    with broker(tmp_path, fs=fs, store=SETTINGS, workers=workers) as running:
        bench = Bench(running, workers, fs)
        assert bench.pull(0) == BODIES[:32]
        refused = bench.client.ask(Code.QUERY_MESSAGE, query)
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert refused.remark == "the index is being rebuilt from the commit log: try again later"
        bench.run()
        found = bench.client.ask(Code.QUERY_MESSAGE, query)
        assert [message.body for message in decode_records(found.body)] == [b"with a key"]
