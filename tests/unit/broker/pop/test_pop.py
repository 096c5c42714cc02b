"""Pops: checks, results, acks and revival."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rocketmq_py.broker.pop import acks, revive
from rocketmq_py.errors import StoreNotWritable
from rocketmq_py.protocol import pop_handle
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.pop import BatchAck, BatchAckRequest
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.pop import AckMessage, ChangeInvisibleTime
from rocketmq_py.store import Appended, NewRecord
from rocketmq_py.wire.record import decode_records
from tests.unit.broker.harness import START_MS, Client, InProcess, broker
from tests.unit.broker.pop.pop_client import (
    REVIVE_MS,
    ack,
    bodies,
    change_invisible,
    extended,
    make_topic,
    popped,
    put,
    take,
)
from tests.unit.broker.requests import pop, send

# -- what a pop brings


def test_a_pop_returns_messages_with_their_handles(running: InProcess, client: Client) -> None:
    make_topic(running, 2)
    put(client, b"a", b"b")
    put(client, b"c", queue_id=1)
    answer = client.ask(Code.POP_MESSAGE, pop())
    assert (answer.code, answer.remark) == (0, "FOUND")
    assert sorted(message.body for message, _ in popped(answer)) == [b"a", b"b", b"c"]
    ext = answer.ext
    assert pop_handle.parse_start_offsets(ext["startOffsetInfo"]) == {("0", 0): 0, ("0", 1): 0}
    assert pop_handle.parse_msg_offsets(ext["msgOffsetInfo"]) == {("0", 0): [0, 1], ("0", 1): [0]}
    assert (ext["popTime"], ext["invisibleTime"], ext["restNum"]) == (str(START_MS), "60000", "0")
    assert 0 <= int(ext["reviveQid"]) < 8
    assert "orderCountInfo" not in ext


def test_a_pop_is_answered_when_a_slave_has_its_check_point_or_after_a_while(tmp_path: Path) -> None:
    async def main() -> None:
        with broker(tmp_path, broker_role="SYNC_MASTER", in_sync_replicas=2) as running:
            make_topic(running)
            client = running.connect()
            assert client.call(Code.SEND_MESSAGE_V2, send(), b"a") is None
            orderly = client.call(Code.POP_MESSAGE, pop(queue_id=0, order=True, consumer_group="o"))
            assert orderly is not None, "it has no check-point"
            assert bodies(popped(orderly)) == [b"a"]
            assert client.call(Code.POP_MESSAGE, pop()) is None
            assert client.heard == []
            running.now += 60_000
            await asyncio.sleep(60)
            assert [bodies(popped(answer)) for answer in client.heard if answer.code == 0] == [[b"a"]]

    asyncio.run(main())


def test_popped_messages_are_invisible_to_the_group(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a", b"b", b"c")
    answer = client.ask(Code.POP_MESSAGE, pop(max_msg_nums=2))
    assert (bodies(popped(answer)), answer.ext["restNum"]) == ([b"a", b"b"], "1")
    assert bodies(take(running.connect())) == [b"c"]
    empty = client.ask(Code.POP_MESSAGE, pop())
    assert (empty.code, empty.remark, empty.ext["restNum"]) == (210, "NO_MESSAGE_IN_QUEUE", "0")
    assert bodies(take(client, consumer_group="h")) == [b"a", b"b", b"c"]


def test_a_pop_can_be_limited_to_one_queue(running: InProcess, client: Client) -> None:
    make_topic(running, 2)
    put(client, b"a")
    put(client, b"c", queue_id=1)
    assert bodies(take(client, queue_id=1)) == [b"c"]


def test_pops_filter_by_tag_and_expression(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a", b"b", properties={"TAGS": "A", "n": "1"})
    put(client, b"c", properties={"TAGS": "C", "n": "2"})
    answer = client.ask(Code.POP_MESSAGE, pop(exp="C || D"))
    assert bodies(popped(answer)) == [b"c"]
    assert pop_handle.parse_msg_offsets(answer.ext["msgOffsetInfo"]) == {("0", 0): [2]}
    assert bodies(take(client, consumer_group="h", exp="n = 1", exp_type="SQL92")) == [b"a", b"b"]
    assert bodies(take(client, consumer_group="i", exp="X")) == []
    assert running.services.offsets.query("i", "t", 0) == 3


@pytest.mark.parametrize(("mode", "expected"), [(0, [b"a", b"b"]), (1, [b"a", b"b"])])
def test_the_initial_offset_of_a_group_is_configurable(
    running: InProcess, client: Client, mode: int, expected: list[bytes]
) -> None:
    # a short queue whose messages are all in memory is read from its beginning in either mode
    make_topic(running)
    put(client, b"a", b"b")
    assert bodies(take(client, init_mode=mode)) == expected


def test_a_group_may_start_at_the_last_message(tmp_path: Path) -> None:
    with broker(tmp_path / "store", init_pop_offset_by_check_msg_in_mem=False) as running:
        client = running.connect()
        make_topic(running)
        put(client, b"a", b"b")
        assert bodies(take(client, init_mode=1)) == [b"b"]


def test_a_reset_offset_is_used(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a", b"b")
    take(client)
    running.services.offsets.reset("g", "t", 0, 1)
    assert bodies(take(client)) == [b"b"]


# -- refusals


@pytest.mark.parametrize(
    ("header", "code", "remark"),
    [
        ({"topic": "no"}, 17, "topic[no] not exist, apply first please! "),
        ({"max_msg_nums": 33}, 29, "the broker[127.0.0.1] pop message's num is greater than 32"),
        ({"queue_id": 1}, 29, "queueId[1] is illegal, topic:[t] topicConfig.readQueueNums:[1] consumer:[/127.0.0.1:"),
        ({"exp": "||"}, 23, "parse the consumer's subscription failed"),
        ({"exp": "a >", "exp_type": "SQL92"}, 23, "parse the consumer's subscription failed"),
        ({"consumer_group": "g g"}, 26, "subscription group [g g] does not exist, "),
        ({"consumer_group": "off"}, 16, "subscription group no permission, off"),
        (
            {"born_time": START_MS - 1_501, "poll_time": 1_000},
            210,
            "the broker[127.0.0.1] pop message is timeout too much",
        ),
    ],
)
def test_invalid_pops_are_refused(
    running: InProcess, client: Client, header: dict[str, Any], code: int, remark: str
) -> None:
    make_topic(running)
    running.services.groups.put([SubscriptionGroupConfig(group_name="off", consume_enable=False)])
    answer = client.ask(Code.POP_MESSAGE, pop(**header))
    assert answer.code == code
    assert (answer.remark or "").startswith(remark)


def test_a_pop_is_answered_within_every_limit(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a")
    header = {"max_msg_nums": 32, "born_time": START_MS - 1_500, "poll_time": 1_000, "invisible_time": 31_536_000_000}
    assert bodies(take(client, **header)) == [b"a"]


@pytest.mark.parametrize(
    ("text", "factor"),
    [("", 100), ("0", 0), ("50", 50), ("100", 100), ("1000", 100), ("-5", 100), ("x", 100), ("\u0665", 100)],
)
def test_a_malformed_share_of_pops_by_priority_is_all_of_them(running: InProcess, text: str, factor: int) -> None:
    attributes = {"priority.factor": text} if text else {}
    running.services.groups.put([SubscriptionGroupConfig(group_name="g", attributes=attributes)])
    checks = running.services.pop.pop_service._checks
    assert (checks.priority_factor("g"), checks.priority_factor("unknown")) == (factor, 100)


def test_pops_need_permissions(tmp_path: Path) -> None:
    with broker(tmp_path / "store", broker_permission=2) as running:
        make_topic(running)
        answer = running.connect().ask(Code.POP_MESSAGE, pop())
        assert (answer.code, answer.remark) == (16, "the broker[127.0.0.1] pop message is forbidden")


def test_a_topic_without_read_permission_is_refused(running: InProcess, client: Client) -> None:
    make_topic(running, perm=2)
    answer = client.ask(Code.POP_MESSAGE, pop())
    assert (answer.code, answer.remark) == (16, "the topic[t] peeking message is forbidden")


# -- acks and what comes back


def test_unacked_messages_are_revived_once(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a", b"b", b"c", properties={"TAGS": "A", "KEYS": "k"})
    first = take(client)
    assert ack(client, first[1]).code == 0
    running.turn(60_000)
    assert take(client) == []
    running.turn(REVIVE_MS - 60_000)
    again = take(client)
    assert bodies(again) == [b"a", b"c"]
    for one in again:
        assert (one.message.topic, one.message.tags, one.message.keys) == ("t", "A", "k")
        assert (one.message.reconsume_times, one.handle.retry) == (1, pop_handle.RETRY_V1)
        assert one.message.properties["1ST_POP_TIME"] == str(START_MS)
        assert one.message.properties["ORIGIN_GROUP"] == "g"
        assert ack(client, one).code == 0
    running.turn(REVIVE_MS)
    assert take(client) == []


def test_each_revival_raises_the_reconsume_times(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a")
    for times in range(4):
        [one] = take(client)
        assert one.message.reconsume_times == times
        running.turn(REVIVE_MS)
    assert one.message.properties["1ST_POP_TIME"] == str(START_MS)


def test_a_batch_acks_messages(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, *[b"%d" % i for i in range(5)])
    messages = take(client)
    info = messages[0].handle
    one = BatchAck(
        consumer_group="g", topic="t", retry="0", start_offset=info.start_offset, queue_id=0,
        revive_queue_id=info.revive_queue, pop_time=info.pop_time, invisible_time=60_000,
        bits=pop_handle.encode_bits([0, 1, 3]),
    )  # fmt: skip
    body = BatchAckRequest(broker_name="broker-a", acks=[one]).encode()
    assert client.ask(Code.BATCH_ACK_MESSAGE, None, body).code == 0
    running.turn(REVIVE_MS)
    assert bodies(take(client)) == [b"2", b"4"]
    assert client.ask(Code.BATCH_ACK_MESSAGE).code == 208


@pytest.mark.parametrize(
    ("distances", "kept"),
    [(range(3), range(10, 13)), (range(1, 7), range(11, 16)), ([0, 3, 5, 6], [10, 13, 15]), (range(9, 9), range(0))],
)
def test_acks_of_messages_that_the_queue_does_not_have_are_left_out(
    distances: Sequence[int], kept: Sequence[int]
) -> None:
    assert list(acks._between(10, distances, 3, 15)) == list(kept)
    assert list(acks._between(10, distances, 12, 15)) == [offset for offset in kept if offset >= 12]


def test_the_invisible_time_can_be_extended(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a", b"b")
    first, second = take(client)
    running.turn(50_000)
    answer = change_invisible(client, first, 120_000)
    assert (answer.code, answer.ext["popTime"], answer.ext["invisibleTime"]) == (0, str(START_MS + 50_000), "120000")
    assert ack(client, second).code == 0
    running.turn(REVIVE_MS)
    assert take(client) == []
    assert ack(client, extended(first, answer)).code == 0
    running.turn(300_000)
    assert take(client) == []


def test_the_invisible_time_can_be_shortened(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a")
    [one] = take(client, invisible_time=3_600_000)
    assert change_invisible(client, one, 1_000).code == 0
    running.turn(3_300)
    assert bodies(take(client)) == [b"a"]
    running.turn(3_700_000)
    assert [m.message.reconsume_times for m in take(client)] == [2]


def test_messages_no_longer_in_flight_cannot_be_changed(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a", b"b")
    acked, late = take(client)
    assert ack(client, acked).code == 0
    assert ack(client, acked).code == 0
    answer = change_invisible(client, acked, 10_000)
    assert answer.code == 208
    assert "no longer in flight" in (answer.remark or "")
    running.turn(REVIVE_MS)
    assert ack(client, late).code == 0
    assert bodies(take(client)) == [b"b"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "no"}, 17), ({"queue_id": 1}, 13), ({"queue_id": -1}, 13), ({"offset": 2}, 208),
        ({"extra_info": "x"}, 1),
    ],
)  # fmt: skip
def test_invalid_acks_are_refused(running: InProcess, client: Client, change: dict[str, Any], code: int) -> None:
    make_topic(running)
    put(client, b"a")
    [one] = take(client)
    fields = {"consumer_group": "g", "topic": "t", "queue_id": 0, "extra_info": one.handle.encode(), "offset": 0}
    assert client.ask(Code.ACK_MESSAGE, AckMessage(**fields | change)).code == code  # type: ignore[arg-type]
    changed = ChangeInvisibleTime(**fields | {"invisible_time": 1_000} | change)  # type: ignore[arg-type]
    assert client.ask(Code.CHANGE_MESSAGE_INVISIBLETIME, changed).code == code


def test_the_offset_behind_the_last_message_can_be_acked_but_not_changed(running: InProcess, client: Client) -> None:
    """As at a Java broker."""
    make_topic(running)
    put(client, b"a")
    [one] = take(client)
    fields: dict[str, Any] = {
        "consumer_group": "g", "topic": "t", "queue_id": 0, "extra_info": one.handle.encode(), "offset": 1,
    }  # fmt: skip
    assert client.ask(Code.ACK_MESSAGE, AckMessage(**fields)).code == 0
    changed = client.ask(Code.CHANGE_MESSAGE_INVISIBLETIME, ChangeInvisibleTime(**fields, invisible_time=1_000))
    assert (changed.code, changed.remark) == (208, "offset is illegal, key:t@0, commit:1, store:0~1")


def test_messages_of_a_deleted_topic_are_not_revived(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a")
    take(client)
    running.services.topics.delete("t")
    running.turn(REVIVE_MS)
    assert len(running.services.pop.revive_log.inflight) == 0


def test_very_many_messages_are_revived_in_parts(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revive, "_AT_ONCE", 3)
    make_topic(running)
    put(client, *[b"%d" % i for i in range(8)])
    messages = [one for _ in range(4) for one in take(client, max_msg_nums=2)]
    running.turn(REVIVE_MS)
    assert len(take(client, consumer_group="g", invisible_time=600_000)) == 4
    late = messages[-2:]
    for one in late:
        assert ack(client, one).code == 0
    running.turn(1)
    assert bodies(take(client, invisible_time=600_000)) == [b"4", b"5"]
    running.turn(1)
    assert take(client) == []


def test_reviving_is_retried_while_the_store_refuses_writes(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(running)
    put(client, b"a", b"b")
    take(client)
    store = running.services.store
    append, left = store.append, [1]

    def refuse(record: NewRecord) -> Appended:
        left[0] -= 1
        if left[0] < 0:
            raise StoreNotWritable("the disk is full")
        return append(record)

    monkeypatch.setattr(store, "append", refuse)
    running.turn(REVIVE_MS)
    monkeypatch.setattr(store, "append", append)
    assert bodies(take(client, invisible_time=600_000)) == [b"a"]
    running.turn(1_300)
    again = bodies(take(client, invisible_time=600_000))
    assert again in ([b"b"], [b"a", b"b"]), "the store refused to write down that a is back"
    running.turn(10_000)
    assert take(client) == []


def test_a_group_begins_at_the_first_message_of_its_new_retry_topic(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a")
    take(client)
    running.turn(REVIVE_MS)
    topic = running.services.topics.table["%RETRY%g_t"]
    assert (topic.read_queue_nums, topic.write_queue_nums) == (1, 1)
    offsets = running.services.offsets
    assert offsets.query("g", "%RETRY%g_t", 0) == 0
    [back] = take(client)
    assert ack(client, back).code == 0
    put(client, b"b")
    take(client)
    running.turn(REVIVE_MS)
    assert offsets.query("g", "%RETRY%g_t", 0) == 1, "an existing retry topic keeps the offset of its group"


def test_the_second_form_of_retry_topics_is_supported(tmp_path: Path) -> None:
    with broker(tmp_path / "store", enable_retry_topic_v2=True) as running:
        client = running.connect()
        make_topic(running)
        put(client, b"a")
        take(client)
        running.turn(REVIVE_MS)
        running.services.pop.pop_service.random_below = lambda _: 51  # an even number asks for topics of the first form
        [one] = take(client)
        assert (one.handle.retry, one.topic) == (pop_handle.RETRY_V2, "%RETRY%g+t")
        assert ack(client, one).code == 0


def test_the_retry_topic_is_read_first_one_time_in_five(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a")
    take(client)
    running.turn(REVIVE_MS)
    put(client, b"b")
    running.services.pop.pop_service.random_below = lambda _: 19
    assert bodies(take(client, max_msg_nums=1)) == [b"a"]
    running.turn(REVIVE_MS)
    running.services.pop.pop_service.random_below = lambda _: 20
    assert bodies(take(client, max_msg_nums=1)) == [b"b"]


def test_answers_may_keep_the_name_of_the_retry_topic(tmp_path: Path) -> None:
    with broker(tmp_path / "store", pop_response_return_actual_retry_topic=True) as running:
        client = running.connect()
        make_topic(running)
        put(client, b"a")
        take(client)
        running.turn(REVIVE_MS)
        answer = client.ask(Code.POP_MESSAGE, pop())
        assert answer.ext["startOffsetInfo"] == "1 0 0"
        assert answer.ext["msgOffsetInfo"] == "1 0 0"


# -- restarts


def restart(running: InProcess, root: Path, *, clean: bool) -> InProcess:
    """The broker on the same store again, as after a stop or as after a crash of its process."""
    if clean:
        running.services.close()
    else:
        running.services.saver.close()
        running.services.store.close()
        os.utime(root / "config" / "consumerOffset.json", (START_MS / 1000,) * 2)  # by the clock of the test
        (root / "abort").touch()
    again = InProcess(root)
    again.now = running.now
    return again


@pytest.mark.parametrize("clean", [True, False])
def test_pops_survive_a_restart(tmp_path: Path, *, clean: bool) -> None:
    root = tmp_path / "store"
    running = InProcess(root)
    client = running.connect()
    make_topic(running)
    put(client, b"a", b"b", b"c")
    first = take(client)
    running.services.offsets.persist()
    assert ack(client, first[0]).code == 0
    answer = change_invisible(client, first[1], 600_000)
    running = restart(running, root, clean=clean)
    try:
        client = running.connect()
        assert ack(client, extended(first[1], answer)).code == 0
        running.turn(REVIVE_MS)
        assert bodies(take(client)) == [b"c"]
        running.turn(900_000)
        running = restart(running, root, clean=clean)
        client = running.connect()
        assert bodies(take(client)) == [b"c"]
        running.turn(REVIVE_MS)
        running.turn(REVIVE_MS)
        assert len(running.services.pop.revive_log.inflight) == 0
    finally:
        running.services.close()


def test_the_revive_offset_is_committed(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a", b"b")
    first = take(client, max_msg_nums=1)
    second = take(client, max_msg_nums=1)
    log, offsets = running.services.pop.revive_log, running.services.offsets
    queue = first[0].handle.revive_queue
    assert second[0].handle.revive_queue == queue
    ack(client, second[0])
    running.turn(1_000)
    assert offsets.query("CID_RMQ_SYS_REVIVE_GROUP", log.topic, queue) == -1
    ack(client, first[0])
    running.turn(1_000)
    assert offsets.query("CID_RMQ_SYS_REVIVE_GROUP", log.topic, queue) == 3


@pytest.mark.parametrize("invisible_ms", [-1, -(1 << 63), 365 * 24 * 3_600_000 + 1, (1 << 63) - 1])
def test_impossible_invisible_times_are_refused(running: InProcess, client: Client, invisible_ms: int) -> None:
    make_topic(running)
    put(client, b"one")
    answer = client.ask(Code.POP_MESSAGE, pop(invisible_time=invisible_ms))
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert answer.remark == f"invisibleTime is {invisible_ms}: 0 to 31536000000 milliseconds are expected"
    [one] = take(client)
    changed = change_invisible(client, one, invisible_ms)
    assert changed.code == ResponseCode.INVALID_PARAMETER
    assert "invisibleTime is" in (changed.remark or "")
    assert change_invisible(client, one, 0).code == 0


def test_a_pop_without_messages_is_counted(running: InProcess, client: Client) -> None:
    make_topic(running)
    missed = running.services.stats.pulls_missed
    assert take(client) == []
    assert missed.count == 1
    put(client, b"a")
    assert len(take(client)) == 1
    assert missed.count == 1


@pytest.mark.parametrize(("chance", "first"), [(1, b"2"), (49, b"2"), (50, b"1"), (97, b"0")])
def test_some_pops_of_a_topic_with_priorities_begin_elsewhere(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch, chance: int, first: bytes
) -> None:
    """Queue 2 has the highest priority; the group reads by priority in half of its pops."""
    make_topic(running, 3, attributes={"message.type": "PRIORITY"})
    running.services.groups.put([SubscriptionGroupConfig(group_name="g", attributes={"priority.factor": "50"})])
    for queue in range(3):
        put(client, b"%d" % queue, queue_id=queue)
    monkeypatch.setattr(running.services.pop.pop_service, "random_below", lambda _: chance)
    assert bodies(take(client, max_msg_nums=1)) == [first]


@pytest.mark.parametrize(("chance", "first"), [(0, b"back"), (5, b"back"), (4, b"new"), (95, b"back"), (99, b"new")])
def test_one_peek_in_five_reads_the_retry_topic_first(
    running: InProcess, client: Client, chance: int, first: bytes
) -> None:
    make_topic(running)
    running.services.topics.put([TopicConfig(topic_name=pop_handle.pop_retry_topic("t", "g", v2=False))])
    put(client, b"new")
    put(client, b"back", topic=pop_handle.pop_retry_topic("t", "g", v2=False))
    running.services.pop.peek_service.random_below = lambda _: chance
    answer = client.ask(Code.PEEK_MESSAGE, pop(max_msg_nums=1))
    assert [message.body for message in decode_records(answer.body)] == [first]


def test_a_group_begins_at_the_first_message_of_a_young_queue(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a", b"b")
    assert bodies(take(client, init_mode=1)) == [b"a", b"b"]
    assert running.services.offsets.query("g", "t", 0) >= 0


def test_a_store_that_refuses_revivals_is_logged_once_each_time(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(running)
    store = running.services.store
    append, refuses = store.append, [True]

    def appended(record: NewRecord) -> Appended:
        if refuses[0] and record.topic.startswith("%RETRY%"):
            raise StoreNotWritable("the disk is full")
        return append(record)

    monkeypatch.setattr(store, "append", appended)
    for times in (1, 2):
        put(client, b"a")
        refuses[0] = True
        assert take(client)
        running.turn(REVIVE_MS)
        for _ in range(3):
            running.turn(1_300)
        assert caplog.text.count("popped messages cannot be revived for now, the store refuses writes") == times
        refuses[0] = False
        running.turn(1_300)
        [back] = take(client)
        assert ack(client, back).code == 0


@pytest.mark.parametrize("order", [False, True])
def test_an_offset_behind_the_end_of_a_queue_is_corrected(running: InProcess, client: Client, *, order: bool) -> None:
    make_topic(running)
    put(client, b"a", b"b")
    running.services.offsets.commit("g", "t", 0, 9, "test")
    assert take(client, order=order) == []
    assert running.services.offsets.query("g", "t", 0) == 2
    put(client, b"c")
    assert bodies(take(client, order=order)) == [b"c"]


@pytest.mark.parametrize(("mode", "init"), [(0, 0), (1, 0)])
def test_the_first_offset_of_a_group_is_committed(running: InProcess, client: Client, mode: int, init: int) -> None:
    make_topic(running)
    put(client, b"a", b"b")
    reader = running.services.pop.pop_service._reader
    assert reader.start("new", "t", 0, mode) == init
    assert running.services.offsets.query("new", "t", 0) == init


def test_an_orderly_stop_has_written_the_offsets_that_count(tmp_path: Path) -> None:
    root = tmp_path / "store"
    running = InProcess(root)
    make_topic(running)
    put(client := running.connect(), b"a", b"b")
    take(client)
    running.services.offsets.commit("g", "t", 0, 0, "an operator")
    running.services.close()
    os.utime(root / "config" / "consumerOffset.json", (START_MS / 1000,) * 2)  # by the clock of the test
    again = InProcess(root, now=running.now)
    try:
        assert bodies(take(again.connect())) == [b"a", b"b"]
    finally:
        again.services.close()


def test_a_pop_that_cannot_be_revived_is_due_again_in_a_second() -> None:
    postponed: list[tuple[object, int]] = []
    inflight = SimpleNamespace(postpone=lambda one, due_ms: postponed.append((one, due_ms)))
    reviver = SimpleNamespace(_revive_log=SimpleNamespace(inflight=inflight), _clock=lambda: 5_000)
    revive.Reviver.postpone(cast(Any, reviver), cast(Any, "a pop"))
    assert postponed == [("a pop", 6_000)]
