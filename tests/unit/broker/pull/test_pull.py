"""Pulls: the order of checks, results, long polling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.broker.pull.pull import Refused
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.offset import ResetOffset
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import decode_records
from tests.unit.broker.harness import Client, InProcess, broker
from tests.unit.broker.requests import heartbeat, pull, send

WAIT = {"sys_flag": 2 | 4}


def put(client: Client, count: int = 1, **more: Any) -> None:
    for _ in range(count):
        assert client.ask(Code.SEND_MESSAGE_V2, send(**more), b"body").code == 0


def make_topic(running: InProcess, **more: Any) -> None:
    running.services.topics.put([TopicConfig(topic_name="t", read_queue_nums=2, write_queue_nums=2, **more)])


# -- what a pull brings


def test_messages_come_with_the_range_of_the_queue(client: Client) -> None:
    put(client, 3)
    answer = client.ask(Code.PULL_MESSAGE, pull(offset=1))
    assert (answer.code, answer.remark) == (0, "FOUND")
    assert answer.ext == {
        "suggestWhichBrokerId": "0", "nextBeginOffset": "3", "minOffset": "0", "maxOffset": "3", "topicSysFlag": "0",
        "groupSysFlag": "0",
    }  # fmt: skip
    assert [message.queue_offset for message in decode_records(answer.body)] == [1, 2]


def test_a_pull_in_the_read_of_its_message_is_answered(client: Client) -> None:
    answers = client.read(
        [
            Command(Code.SEND_MESSAGE_V2, 1, ext=send().to_ext(), body=b"body"),
            Command(Code.PULL_MESSAGE, 2, ext=pull().to_ext()),
        ]
    )
    assert [(answer.opaque, answer.code) for answer in answers] == [(1, 0), (2, 0)]
    assert len(decode_records(answers[1].body)) == 1


@pytest.mark.parametrize(
    ("offset", "code", "remark", "next_offset"),
    [
        (3, 19, "OFFSET_OVERFLOW_ONE", "3"),
        (4, 21, "OFFSET_OVERFLOW_BADLY", "3"),
        (-1, 21, "OFFSET_TOO_SMALL", "0"),
    ],
)
def test_offsets_without_a_message_are_corrected(
    client: Client, offset: int, code: int, remark: str, next_offset: str
) -> None:
    put(client, 3)
    answer = client.ask(Code.PULL_MESSAGE, pull(offset=offset))
    assert (answer.code, answer.remark, answer.ext["nextBeginOffset"]) == (code, remark, next_offset)


@pytest.mark.parametrize(("offset", "code"), [(0, 19), (5, 21)])
def test_an_empty_queue_has_no_messages(running: InProcess, client: Client, offset: int, code: int) -> None:
    make_topic(running)
    answer = client.ask(Code.PULL_MESSAGE, pull(offset=offset))
    assert (answer.code, answer.remark) == (code, "NO_MATCHED_LOGIC_QUEUE")


def test_tags_are_filtered_by_the_consume_queue(client: Client) -> None:
    for tag in "ABAC":
        put(client, properties={"TAGS": tag})
    answer = client.ask(Code.PULL_MESSAGE, pull(subscription="A || C"))
    assert [message.tags for message in decode_records(answer.body)] == ["A", "A", "C"]
    answer = client.ask(Code.PULL_MESSAGE, pull(subscription="Z"))
    assert (answer.code, answer.remark, answer.ext["nextBeginOffset"]) == (20, "NO_MATCHED_MESSAGE", "4")


# -- the checks in order


def test_each_check_is_made_before_the_next(tmp_path: Path) -> None:
    """One request fails every check; each time the first is mended, the next one speaks."""
    with broker(tmp_path, auto_create_subscription_group=False, lite_pull_message_enable=False) as running:
        client = running.connect()
        header = pull(queue_id=9, subscription=" || ")
        groups, topics = running.services.groups, running.services.topics

        def refused(code: Code = Code.PULL_MESSAGE) -> tuple[int, str | None]:
            answer = client.ask(code, header)
            return answer.code, answer.ext.get("forbiddenType")

        assert refused(Code.LITE_PULL_MESSAGE) == (16, "1")
        assert refused() == (26, None)
        groups.put([SubscriptionGroupConfig(group_name="g", consume_enable=False)])
        assert refused() == (16, "2")
        groups.put([SubscriptionGroupConfig(group_name="g")])
        assert refused() == (17, None)
        topics.put([TopicConfig(topic_name="t", read_queue_nums=4, perm=2)])
        assert refused() == (16, "3")
        topics.put([TopicConfig(topic_name="t", read_queue_nums=4)])
        assert refused() == (29, None)
        header.queue_id = 3
        assert refused() == (23, None)
        header.subscription, header.expression_type = "a > 5", "SQL92"
        assert refused() == (1, None)


def test_a_broker_without_read_permission_refuses_pulls(tmp_path: Path) -> None:
    with broker(tmp_path, broker_permission=2) as running:
        answer = running.connect().ask(Code.PULL_MESSAGE, pull())
        assert (answer.code, answer.ext, answer.remark) == (
            16, {"forbiddenType": "1"}, "the broker[127.0.0.1] pulling message is forbidden"
        )  # fmt: skip


def test_a_pull_without_a_subscription_of_its_own_needs_a_registered_one(running: InProcess, client: Client) -> None:
    header = pull(sys_flag=0, sub_version=5)
    put(client)

    def refused() -> tuple[int, str | None]:
        answer = client.ask(Code.PULL_MESSAGE, header)
        return answer.code, answer.ext.get("forbiddenType")

    assert refused() == (24, None)
    client.ask(Code.HEART_BEAT, body=heartbeat(other="*"))
    assert refused() == (24, None)
    client.ask(Code.HEART_BEAT, body=heartbeat(t="*", version=4))
    assert refused() == (25, None)
    client.ask(Code.HEART_BEAT, body=heartbeat(t="*", version=5))
    assert refused() == (0, None)
    running.services.groups.set_read_forbidden("g", "t", True)
    assert refused() == (16, "5")
    running.services.groups.set_read_forbidden("g", "t", False)
    running.services.groups.put([SubscriptionGroupConfig(group_name="g", consume_broadcast_enable=False)])
    assert refused() == (0, None)
    running.services.clients.consumers.groups["g"].message_model = "BROADCASTING"
    assert refused() == (16, "4")


# -- waiting


def test_a_pull_waits_for_a_message_and_is_answered_with_it(running: InProcess) -> None:
    consumer, producer = running.connect(), running.connect()
    put(producer)
    assert consumer.call(Code.PULL_MESSAGE, pull(offset=1, **WAIT)) is None
    running.turn()
    assert consumer.heard == []
    put(producer)
    running.turn()
    [answer] = consumer.heard
    assert (answer.code, answer.opaque) == (0, 1)
    assert [message.queue_offset for message in decode_records(answer.body)] == [1]


def test_a_message_of_another_tag_wakes_no_pull(running: InProcess) -> None:
    consumer, producer = running.connect(), running.connect()
    put(producer)
    assert consumer.call(Code.PULL_MESSAGE, pull(offset=1, subscription="A", **WAIT)) is None
    put(producer, properties={"TAGS": "B"})
    running.turn(14_999)
    assert consumer.heard == []
    running.turn(1)
    [answer] = consumer.heard
    assert (answer.code, answer.ext["nextBeginOffset"]) == (20, "2")


def test_a_pull_on_hold_is_answered_when_it_times_out(running: InProcess, client: Client) -> None:
    put(client)
    assert client.call(Code.PULL_MESSAGE, pull(offset=1, **WAIT)) is None
    running.turn(14_999)
    assert client.heard == []
    running.turn(1)
    [answer] = client.heard
    assert (answer.code, answer.remark, answer.ext["nextBeginOffset"]) == (19, "OFFSET_OVERFLOW_ONE", "1")


def test_without_long_polling_the_wait_is_short(tmp_path: Path) -> None:
    with broker(tmp_path, long_polling_enable=False) as running:
        client = running.connect()
        put(client)
        assert client.call(Code.PULL_MESSAGE, pull(offset=1, **WAIT)) is None
        running.turn(1_000)
        assert [answer.code for answer in client.heard] == [19]


def test_the_sweep_finds_a_pull_that_missed_its_arrival(running: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer, producer = running.connect(), running.connect()
    put(producer)
    consumer.call(Code.PULL_MESSAGE, pull(offset=1, **WAIT))
    monkeypatch.setattr(running.services.pull_request_hold, "arrived", lambda _: None)
    put(producer)
    running.turn()
    assert consumer.heard == []
    running.services.sweep()
    running.turn()
    assert [answer.code for answer in consumer.heard] == [0]


def test_pulls_of_a_closed_connection_are_dropped(running: InProcess) -> None:
    consumer, producer = running.connect(), running.connect()
    put(producer)
    consumer.call(Code.PULL_MESSAGE, pull(offset=1, **WAIT))
    consumer.leave()
    running.turn()
    assert len(running.services.pull_request_hold) == 0
    put(producer)
    running.turn()
    assert consumer.heard == []


def test_pulls_on_hold_are_answered_when_the_broker_stops(running: InProcess, client: Client) -> None:
    put(client)
    client.call(Code.PULL_MESSAGE, pull(offset=1, **WAIT))
    running.services.pull_request_hold.release()
    assert [answer.code for answer in client.heard] == [19]


def test_a_held_pull_that_fails_does_not_keep_the_others_waiting(running: InProcess) -> None:
    first, second = running.connect(), running.connect()
    put(first)
    for client, group in ((first, "g"), (second, "h")):
        client.call(Code.PULL_MESSAGE, pull(offset=1, consumer_group=group, **WAIT))
    running.services.groups.put([SubscriptionGroupConfig(group_name="g", consume_enable=False)])
    put(running.connect())
    running.turn()
    assert [answer.code for answer in first.heard] == [16]
    assert [answer.code for answer in second.heard] == [0]


# -- offsets that ride along


@pytest.mark.parametrize(("flags", "committed"), [(4, -1), (4 | 1, 7)])
def test_a_pull_commits_when_its_flag_says_so(running: InProcess, client: Client, flags: int, committed: int) -> None:
    put(client)
    client.ask(Code.PULL_MESSAGE, pull(sys_flag=flags, commit_offset=7))
    assert running.services.offsets.query("g", "t", 0) == committed
    assert running.services.offsets.query_pulled("g", "t", 0) == 1


def test_a_held_pull_commits_once_when_it_comes_in(running: InProcess, client: Client) -> None:
    put(client)
    client.call(Code.PULL_MESSAGE, pull(offset=1, sys_flag=7, commit_offset=1))
    running.services.offsets.commit("g", "t", 0, 5, "somebody")
    running.turn(15_000)
    assert client.heard
    assert running.services.offsets.query("g", "t", 0) == 5


def test_a_reset_answers_the_next_pull(running: InProcess, client: Client) -> None:
    put(client, 3)
    running.services.offsets.reset("g", "t", 0, 1)
    answer = client.ask(Code.PULL_MESSAGE, pull(offset=3, **WAIT))
    assert (answer.code, answer.remark, answer.ext["nextBeginOffset"]) == (21, "OFFSET_RESET", "1")
    assert client.ask(Code.PULL_MESSAGE, pull(offset=1)).code == 0


def test_a_reset_answers_the_latest_pull_on_hold(running: InProcess, client: Client) -> None:
    put(client, 3)
    former, owner, stranger = (running.connect() for _ in range(3))
    former.call(Code.PULL_MESSAGE, pull(offset=3, **WAIT))
    owner.call(Code.PULL_MESSAGE, pull(offset=3, **WAIT))
    stranger.call(Code.PULL_MESSAGE, pull(offset=3, consumer_group="h", **WAIT))
    client.ask(Code.INVOKE_BROKER_TO_RESET_OFFSET, ResetOffset(topic="t", group="g", timestamp=0, queue_id=0, offset=1))
    running.turn()
    assert [(answer.code, answer.ext["nextBeginOffset"]) for answer in owner.heard] == [(21, "1")]
    assert [answer.code for answer in former.heard] == [19]
    assert stranger.heard == []


def test_a_refusal_says_what_is_forbidden_if_it_is_that() -> None:
    assert not Refused(1, "it fails").reply.ext
    assert Refused(16, "it is forbidden", "2").reply.ext == {"forbiddenType": "2"}
