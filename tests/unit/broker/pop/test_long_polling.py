"""Held pops: when they are woken, time out or end."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.broker.pop import long_polling
from rocketmq_py.broker.records.stored_record import read_stored
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.store.queue.runs import Arrival
from rocketmq_py.wire.batch import encode_batch
from tests.unit.broker.harness import START_MS, Client, InProcess, broker
from tests.unit.broker.pop.pop_client import bodies, make_topic, popped, put, take
from tests.unit.broker.requests import pop, send

WAIT: dict[str, Any] = {"poll_time": 15_000, "born_time": START_MS}


def test_a_pop_waits_for_a_message(running: InProcess, client: Client) -> None:
    make_topic(running, 2)
    waiting = running.connect()
    assert waiting.call(Code.POP_MESSAGE, pop(**WAIT)) is None
    put(client, b"a", queue_id=1)
    running.turn()
    [answer] = waiting.heard
    assert bodies(popped(answer)) == [b"a"]


def test_one_pop_of_a_group_is_woken_and_wakes_the_next(running: InProcess, client: Client) -> None:
    make_topic(running)
    others = [running.connect() for _ in range(3)]
    for one in others:
        assert one.call(Code.POP_MESSAGE, pop(max_msg_nums=1, **WAIT)) is None
    put(client, b"a")
    running.turn()
    assert [len(one.heard) for one in others] == [1, 0, 0]
    put(client, b"b", b"c")
    running.turn()
    assert [len(one.heard) for one in others] == [1, 1, 1]


def test_a_message_of_the_group_s_retry_topic_wakes_its_pop_and_no_other(running: InProcess, client: Client) -> None:
    """A name of version 1 can be read in several ways, since groups and topics may have underscores."""
    names = ("t_a", "a", "%RETRY%g_t_a")
    running.services.topics.put([TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1) for name in names])
    pairs = [("g_t", "a"), ("g", "t_a"), ("g_t", "t_a"), ("g", "a")]
    held = {pair: running.connect() for pair in pairs}
    for (group, topic), one in held.items():
        assert one.call(Code.POP_MESSAGE, pop(topic, consumer_group=group, **WAIT)) is None
    put(client, b"back", topic="%RETRY%g_t_a")
    running.turn()
    heard = {pair: [bodies(popped(answer)) for answer in one.heard] for pair, one in held.items()}
    assert heard == {("g_t", "a"): [[b"back"]], ("g", "t_a"): [[b"back"]], ("g_t", "t_a"): [], ("g", "a"): []}


def test_filters_are_checked_before_a_pop_is_woken(running: InProcess, client: Client) -> None:
    make_topic(running)
    waiting = running.connect()
    assert waiting.call(Code.POP_MESSAGE, pop(exp="A", **WAIT)) is None
    put(client, b"b", properties={"TAGS": "B"})
    running.turn()
    assert waiting.heard == []
    put(client, b"a", properties={"TAGS": "A"})
    running.turn()
    assert [bodies(popped(answer)) for answer in waiting.heard] == [[b"a"]]


def test_a_held_pop_times_out(running: InProcess, client: Client) -> None:
    make_topic(running)
    assert client.call(Code.POP_MESSAGE, pop(**WAIT | {"born_time": 0})) is None
    running.turn(14_999)
    assert client.heard == []
    running.turn(1)
    assert [(answer.code, answer.remark) for answer in client.heard] == [(210, "NO_MESSAGE_IN_QUEUE")]


def test_a_revived_message_wakes_a_pop(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a")
    take(client, invisible_time=5_000)
    waiting = running.connect()
    assert waiting.call(Code.POP_MESSAGE, pop(**WAIT)) is None
    running.turn(7_300)
    assert [bodies(popped(answer)) for answer in waiting.heard] == [[b"a"]]


def test_a_long_run_of_filtered_messages_does_not_end_the_search(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, *[b"x"] * 900, properties={"TAGS": "X"})
    put(client, b"a", properties={"TAGS": "A"})
    assert client.call(Code.POP_MESSAGE, pop(exp="A", **WAIT)) is None
    running.turn()
    assert [bodies(popped(answer)) for answer in client.heard] == [[b"a"]]


def test_too_many_held_pops_are_refused(tmp_path: Path) -> None:
    with broker(tmp_path / "store", max_pop_polling_size=1) as running:
        make_topic(running)
        client = running.connect()
        assert client.call(Code.POP_MESSAGE, pop(**WAIT)) is None
        assert client.ask(Code.POP_MESSAGE, pop(**WAIT)).code == 209


def test_a_closed_connection_gets_nothing(running: InProcess, client: Client) -> None:
    make_topic(running)
    waiting = running.connect()
    assert waiting.call(Code.POP_MESSAGE, pop(**WAIT)) is None
    waiting.leave()
    put(client, b"a")
    running.turn()
    assert waiting.heard == []
    assert bodies(take(client)) == [b"a"]


def test_a_stopping_broker_answers_all_held_pops(running: InProcess, client: Client) -> None:
    make_topic(running)
    assert client.call(Code.POP_MESSAGE, pop(**WAIT)) is None
    running.services.pop.release()
    assert [answer.code for answer in client.heard] == [210]


def test_a_pop_in_the_read_of_its_message_is_answered(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a")
    assert client.ask(Code.SEND_MESSAGE_V2, send(), b"b").code == 0
    assert bodies(take(client)) == [b"a", b"b"]


def test_an_offset_reset_wakes_held_pops(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a", b"b")
    take(client)
    waiting = running.connect()
    assert waiting.call(Code.POP_MESSAGE, pop(**WAIT)) is None
    running.services.offsets.reset("g", "t", 0, 1)
    running.turn()
    assert [bodies(popped(answer)) for answer in waiting.heard] == [[b"b"]]


def test_very_many_woken_pops_are_run_over_several_turns(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message wakes one pop of every group; they must not all run in one turn of the event loop."""
    make_topic(running)
    waiting = running.connect()
    for number in range(40):
        assert waiting.call(Code.POP_MESSAGE, pop(consumer_group=f"g{number}", **WAIT)) is None
    seconds = itertools.count()
    monkeypatch.setattr(long_polling.time, "monotonic", lambda: next(seconds) * 0.006)
    put(client, b"one")
    answered = []
    while running._soon:
        running._soon.pop(0)()
        answered.append(len(waiting.heard))
    assert answered == [16, 32, 40]
    assert all(answer.code == 0 for answer in waiting.heard)


@pytest.mark.parametrize(
    ("name", "readings"),
    [
        ("%RETRY%g_t", [("g", "t")]),
        ("%RETRY%g_t_a", [("g", "t_a"), ("g_t", "a")]),
        ("%RETRY%_t", []),
        ("%RETRY%g_", []),
        ("%RETRY%__t", [("_", "t")]),
        ("%RETRY%g", []),
        ("%RETRY%g+t_a", []),
        ("g_t", []),
    ],
)
def test_what_a_retry_topic_of_the_first_version_may_be_of(name: str, readings: list[tuple[str, str]]) -> None:
    """Neither a group nor a topic without a name is there."""
    assert list(long_polling._first_version_readings(name)) == readings


def test_each_message_of_a_batch_is_compared_with_the_filter_of_a_held_pop(running: InProcess, client: Client) -> None:
    make_topic(running)
    waiting = running.connect()
    held = pop(exp="n = 3 AND TAGS IS NOT NULL", exp_type="SQL92", **WAIT)
    assert waiting.call(Code.POP_MESSAGE, held) is None
    for numbers in ((1, 2), (4, 5, 3)):
        assert waiting.heard == []
        body = encode_batch((0, b"%d" % n, b"n\x01%d\x02TAGS\x01A\x02" % n) for n in numbers)
        assert client.ask(Code.SEND_BATCH_MESSAGE, send(batch=True), body).code == 0
        running.turn()
    assert [bodies(popped(answer)) for answer in waiting.heard] == [[b"3"]]


def test_a_filter_of_a_held_pop_sees_every_message_that_arrives_together(running: InProcess, client: Client) -> None:
    make_topic(running)
    given = [b"a", b"bb", b"ccc", b"dddd"]
    put(client, *given)
    entries = running.services.store.queue_entries("t", 0, 0, 9)
    arrival = Arrival("t", 0, 0, 4, START_MS, [part for entry in entries for part in entry[:3]])
    records = list(running.services.pop.polling.pops._records(arrival))
    assert [read_stored(record).body for record in records] == given
