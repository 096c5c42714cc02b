"""Queries for messages that are not in memory, and keys whose slots are not: threads load them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.admin import BrokerConsumeStats, QueryConsumeQueue, QueryConsumeTimeSpan
from rocketmq_py.protocol.headers.group import ConsumeMessageDirectly, GetConsumeStats
from rocketmq_py.protocol.headers.offset import QueryConsumerOffset, QueueHeader, ResetOffset
from rocketmq_py.protocol.headers.pull import QueryMessage, ViewMessage
from rocketmq_py.protocol.headers.send import ConsumerSendMsgBack
from rocketmq_py.store.index import chain
from rocketmq_py.store.index.key_hash import key_hash
from rocketmq_py.wire.java_hash import string_hash
from rocketmq_py.wire.record import decode_records
from tests.unit.broker.cold import answer, cold_broker, thread
from tests.unit.broker.harness import START_MS, InProcess, broker
from tests.unit.broker.network import until
from tests.unit.broker.requests import heartbeat, send
from tests.unit.store.coldfs import ColdFileSystem

COUNT = 120
INDEX = "index-read"


def fill(running: InProcess) -> None:
    """Messages with keys, one each millisecond, in several index files, between larger ones of another topic."""
    client = running.connect()
    for number in range(COUNT):
        running.now = START_MS + 1000 * number
        properties = {"KEYS": f"same k{number}", "TAGS": "A" if number % 2 else "B"}
        assert client.ask(Code.SEND_MESSAGE_V2, send("t", properties=properties), b"%d" % number).code == 0
        assert client.ask(Code.SEND_MESSAGE_V2, send("other"), bytes(700)).code == 0
    assert client.ask(Code.HEART_BEAT, body=heartbeat("c1", t="*")).code == 0
    running.services.offsets.commit("g", "t", 0, 50, "me")


def query(key: str, **more: object) -> QueryMessage:
    wanted = {"topic": "t", "max_num": 64, "begin_timestamp": 0, "end_timestamp": START_MS * 2}
    return QueryMessage(key=key, **wanted | more)  # type: ignore[arg-type]


CASES = [
    (query("k7"), {7}),
    (query("k119"), {119}),
    (query("same"), set(range(COUNT - 64, COUNT))),
    (query("same", max_num=3), {117, 118, 119}),
    (query("same", begin_timestamp=START_MS + 4_000, end_timestamp=START_MS + 8_000), {4, 5, 6, 7, 8}),
    (query("A", index_type="T", max_num=3), {115, 117, 119}),
    (query("B", index_type="T", end_timestamp=START_MS + 6_000), {0, 2, 4, 6}),
    (query("none"), set()),
    (query("none", index_type="T"), set()),
]


@pytest.mark.parametrize(("header", "numbers"), CASES)
@pytest.mark.parametrize(("most_on_loop", "block"), [(1, 1_000), (1_000, 1 << 20)])
def test_a_query_reads_nothing_cold_on_the_loop(
    tmp_path: Path, monkeypatch, header: QueryMessage, numbers: set[int], most_on_loop: int, block: int
) -> None:
    monkeypatch.setattr(chain, "_MOST_ON_LOOP", most_on_loop)
    monkeypatch.setattr(chain, "_BLOCK", block)
    with cold_broker(tmp_path, fill, store={"max_index_num": 200}) as (running, fs):
        found = asyncio.run(answer(running.connect(), Code.QUERY_MESSAGE, header))
        assert {int(message.body) for message in decode_records(found.body)} == numbers
        assert found.code == (0 if numbers else ResponseCode.QUERY_NOT_FOUND)
        assert found.ext["indexLastUpdateTimestamp"] == str(START_MS + 1000 * (COUNT - 1))
        assert fs.cold_reads == []


@pytest.mark.parametrize(("header", "numbers"), CASES)
def test_a_query_in_memory_needs_no_thread(tmp_path: Path, header: QueryMessage, numbers: set[int]) -> None:
    with cold_broker(tmp_path, fill, store={"max_index_num": 200}) as (running, fs):
        fs.resident = None
        found = running.connect().ask(Code.QUERY_MESSAGE, header)
        assert {int(message.body) for message in decode_records(found.body)} == numbers


def test_a_platform_that_cannot_tell_answers_at_once(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill) as (running, fs):
        fs.tells_residency = False
        for header, numbers in CASES:
            found = running.connect().ask(Code.QUERY_MESSAGE, header)
            assert {int(message.body) for message in decode_records(found.body)} == numbers
        assert fs.cold_reads


def test_a_disk_that_fails_is_an_error_answer(tmp_path: Path) -> None:
    async def run(running: InProcess, fs: ColdFileSystem) -> None:
        fs.failing = {"load"}
        for header, _ in CASES[:2]:
            failed = await answer(running.connect(), Code.QUERY_MESSAGE, header)
            assert failed.code == ResponseCode.SYSTEM_ERROR
        fs.failing = set()
        found = await answer(running.connect(), Code.QUERY_MESSAGE, CASES[0][0])
        assert found.code == 0
        assert fs.cold_reads == []

    with cold_broker(tmp_path, fill) as (running, fs):
        asyncio.run(run(running, fs))


def test_an_index_file_that_expires_during_a_query_is_left_out(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill, store={"max_index_num": 200}) as (running, _):
        store = running.services.store
        before = store.key_query("t", "same", 64, 0, START_MS + 1000)
        before._search = store._index.search("t", "same", 64, 0, START_MS + 1000, None)
        for remove in store._index.detach_before(1 << 62):
            remove()
        assert before.run(store.new_residency()).count == 0


# -- single messages


def places(running: InProcess) -> list[int]:
    return [physical for physical, _, _ in running.services.store.queue_entries("t", 0, 0, COUNT)]


REQUESTS = [
    (Code.VIEW_MESSAGE_BY_ID, lambda place: ViewMessage(offset=place)),
    (Code.GET_EARLIEST_MSG_STORETIME, lambda _: QueueHeader(topic="t", queue_id=0)),
    (Code.QUERY_CONSUME_QUEUE, lambda _: QueryConsumeQueue(topic="t", queue_id=0, index=2, count=90)),
    (Code.QUERY_CONSUMER_OFFSET, lambda _: QueryConsumerOffset(consumer_group="new", topic="t", queue_id=0)),
    (Code.GET_CONSUME_STATS, lambda _: GetConsumeStats(consumer_group="g")),
    (Code.GET_BROKER_CONSUME_STATS, lambda _: BrokerConsumeStats(is_order=False)),
    (Code.QUERY_CONSUME_TIME_SPAN, lambda _: QueryConsumeTimeSpan(topic="t", group="g")),
    (Code.INVOKE_BROKER_TO_RESET_OFFSET, lambda _: ResetOffset(topic="t", group="g", timestamp=START_MS + 30_500)),
    (Code.GET_BROKER_RUNTIME_INFO, lambda _: None),
    (Code.GET_TOPIC_STATS_INFO, lambda _: QueueHeader(topic="t", queue_id=0)),
]


@pytest.mark.parametrize(("code", "header"), REQUESTS, ids=[code.name for code, _ in REQUESTS])
def test_a_look_up_reads_nothing_cold_on_the_loop_and_is_answered_as_in_memory(tmp_path: Path, code, header) -> None:
    with cold_broker(tmp_path, fill) as (running, fs):
        place = places(running)[7]
        fs.chill()
        cold = asyncio.run(answer(running.connect(), code, header(place)))
        assert fs.cold_reads == []
        fs.resident = None
        warm = running.connect().ask(code, header(place))
        assert (cold.code, cold.remark, cold.body) == (warm.code, warm.remark, warm.body)
        assert cold.ext == warm.ext


def test_a_reset_finds_the_message_of_its_time(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill, use_server_side_reset_offset=True) as (running, fs):
        header = ResetOffset(topic="t", group="g", timestamp=START_MS + 30_500)
        assert asyncio.run(answer(running.connect(), Code.INVOKE_BROKER_TO_RESET_OFFSET, header)).code == 0
        assert fs.cold_reads == []
        assert running.services.offsets.take_reset("g", "t", 0) == 31


@pytest.mark.parametrize("fails", [False, True])
def test_statistics_of_a_disk_that_fails_are_an_error_answer(tmp_path: Path, fails: bool) -> None:
    with cold_broker(tmp_path, fill) as (running, fs):
        fs.failing = {"load"} if fails else set()
        header = GetConsumeStats(consumer_group="g")
        found = asyncio.run(answer(running.connect(), Code.GET_CONSUME_STATS, header))
        assert found.code == (ResponseCode.SYSTEM_ERROR if fails else 0)
        fs.failing = set()


def test_a_cold_message_is_consumed_directly(tmp_path: Path) -> None:
    async def run(running: InProcess, msg_id: str) -> None:
        admin, consumer = running.connect(), running.connect()
        assert consumer.ask(Code.HEART_BEAT, body=heartbeat("c2", t="*")).code == 0
        header = ConsumeMessageDirectly(consumer_group="g", client_id="c2", msg_id=msg_id, topic="t")
        assert admin.call(Code.CONSUME_MESSAGE_DIRECTLY, header) is None
        await until(lambda: [one for one in consumer.heard if one.code == Code.CONSUME_MESSAGE_DIRECTLY])
        consumer.leave()

    with cold_broker(tmp_path, fill) as (running, fs):
        raw = running.services.store.record_at_queue("t", 0, 7)
        assert raw is not None
        fs.chill()
        asyncio.run(run(running, decode_records(raw)[0].offset_msg_id))
        assert fs.cold_reads == []


def test_a_cold_message_that_is_sent_back_is_stored_once(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill) as (running, fs):
        place = places(running)[7]
        fs.chill()
        header = ConsumerSendMsgBack(offset=place, group="g", delay_level=-1)
        assert asyncio.run(answer(running.connect(), Code.CONSUMER_SEND_MSG_BACK, header)).code == 0
        assert fs.cold_reads == []
        assert running.services.store.queue_range("%DLQ%g", 0) == (0, 1)
        killed = fs.after_kill()
    with broker(tmp_path, fs=killed) as running:
        assert running.services.store.queue_range("%DLQ%g", 0) == (0, 1), "it was in the log when it was answered"


# -- keys of new messages


def put(running: InProcess, *keys: str) -> None:
    for key in keys:
        sent = send("t", properties={"KEYS": key})
        assert running.connect().ask(Code.SEND_MESSAGE_V2, sent, key.encode()).code == 0


def bodies(running: InProcess, key: str) -> list[bytes]:
    found = running.services.store.query("t", key, 64, 0, START_MS * 2)
    return [message.body for message in decode_records(found.body)]


def waiting(running: InProcess) -> list[bytes]:
    """The keys of one letter that are not in the index."""
    letters = {key_hash(string_hash("t#"), key): key for key in (b"a", b"b", b"c")}
    keys = running.services.store._index.waiting
    return [letters[value] for value in keys.hashes(0, len(keys)) if value in letters]


def load(running: InProcess) -> None:
    """Let the thread of the index do all that it has to do."""
    while thread(running, INDEX).work:
        thread(running, INDEX).finish()


def test_keys_wait_until_their_slots_are_loaded(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill, by_hand=[INDEX]) as (running, fs):
        put(running, "a", "b")
        for _ in range(3):
            running.services.tick_store()
        assert waiting(running) == [b"a", b"b"]
        assert len(thread(running, INDEX).work) == 2, "slots are loaded, and space for entries is made"
        load(running)
        put(running, "c")
        running.services.tick_store()
        assert waiting(running) == []
        assert fs.cold_reads == []
        fs.resident = None
        assert [bodies(running, key) for key in "abc"] == [[b"a"], [b"b"], [b"c"]]


def test_slots_that_were_loaded_are_looked_at_again_after_a_while(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill, by_hand=[INDEX]) as (running, fs):
        put(running, "a")
        running.services.tick_store()
        load(running)
        running.services.tick_store()
        fs.resident = set()
        running.now += 9_999
        put(running, "b")
        running.services.tick_store()
        assert waiting(running) == [], "they are trusted"
        fs.resident = set()
        running.now += 1
        put(running, "c")
        running.services.tick_store()
        assert waiting(running) == [b"c"]
        load(running)
        running.services.tick_store()
        assert waiting(running) == []


def test_a_query_finds_keys_whose_slots_are_not_loaded(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill, by_hand=[INDEX]) as (running, fs):
        put(running, "a")
        found = asyncio.run(answer(running.connect(), Code.QUERY_MESSAGE, query("a")))
        assert [message.body for message in decode_records(found.body)] == [b"a"]
        assert fs.cold_reads == []


def test_a_checkpoint_waits_for_keys(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill, by_hand=[INDEX]) as (running, fs):
        put(running, "a")
        end = running.services.store.max_physical_offset
        for _ in range(4):
            running.now += 60_000
            running.services.tick_store()
        assert running.services.store._checkpoint.end < end
        killed = fs.after_kill()
    with broker(tmp_path, fs=killed, now=START_MS * 2) as restarted:
        assert bodies(restarted, "a") == [b"a"]


def test_a_disk_that_fails_lets_keys_wait_and_loses_none(tmp_path: Path, caplog) -> None:
    with cold_broker(tmp_path, fill, by_hand=[INDEX]) as (running, fs):
        fs.failing = {"load"}
        put(running, "a")
        for _ in range(4):
            running.services.tick_store()
            load(running)
        assert waiting(running) == [b"a"]
        assert caplog.text.count("its keys wait in memory") == 1
        fs.failing = set()
        running.services.tick_store()
        load(running)
        running.services.tick_store()
        assert waiting(running) == []


def test_a_store_that_closes_adds_all_keys(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill, by_hand=[INDEX]) as (running, fs):
        put(running, "a")
        running.services.tick_store()
        assert waiting(running) == [b"a"]
    fs.resident = None
    with broker(tmp_path, fs=fs, now=START_MS * 2) as restarted:
        assert bodies(restarted, "a") == [b"a"]


def test_slots_in_memory_are_changed_when_there_is_space_for_entries(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill, by_hand=[INDEX]) as (running, fs):
        fs.resident = None
        put(running, "a")
        running.services.tick_store()
        assert waiting(running) == [b"a"]
        assert len(thread(running, INDEX).work) == 1, "that makes the space"
        load(running)
        put(running, "b")
        running.services.tick_store()
        assert waiting(running) == []
        assert thread(running, INDEX).work == []


def test_a_platform_that_cannot_tell_changes_slots_at_once(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill, by_hand=[INDEX]) as (running, fs):
        fs.tells_residency = False
        put(running, "a")
        running.services.tick_store()
        assert waiting(running) == []
