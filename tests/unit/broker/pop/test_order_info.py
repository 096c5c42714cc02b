"""Orderly pops, and peeking."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.core.pop.order import FORGET_AFTER_MS
from rocketmq_py.protocol import pop_handle
from rocketmq_py.protocol.bodies.pop import BatchAck, BatchAckRequest
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.pop import Notification, PeekMessage, PollingInfo
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.record import decode_records
from tests.unit.broker.harness import START_MS, Client, InProcess, broker
from tests.unit.broker.pop.pop_client import REVIVE_MS, ack, change_invisible, make_topic, popped, put, take
from tests.unit.broker.requests import pop

ORDER: dict[str, Any] = {"order": True}
WAIT: dict[str, Any] = {"poll_time": 15_000, "born_time": START_MS}


def bodies_in_order(client: Client, **more: Any) -> list[bytes]:
    return [one.body for one in take(client, **ORDER | more)]


# -- in order


def test_the_next_messages_come_when_all_are_acked(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a", b"b", b"c")
    answer = client.ask(Code.POP_MESSAGE, pop(order=True, max_msg_nums=2))
    assert (answer.ext["reviveQid"], answer.ext["orderCountInfo"]) == ("999", "0 0 0")
    first, second = popped(answer)
    assert first.handle.is_order
    assert bodies_in_order(client) == []
    assert ack(client, second).code == 0
    assert bodies_in_order(client) == []
    assert running.services.offsets.query("g", "t", 0) == 0
    assert ack(client, first).code == 0
    assert running.services.offsets.query("g", "t", 0) == 2
    assert bodies_in_order(client) == [b"c"]


def test_an_ack_in_order_leaves_an_offset_that_is_being_reset(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a", b"b", b"c")
    [message] = take(client, order=True, max_msg_nums=1)
    running.services.offsets.reset("g", "t", 0, 0)
    assert ack(client, message).code == 0
    assert running.services.offsets.table["t@g"] == {0: 0}
    assert bodies_in_order(client)[:1] == [b"a"]


def test_unacked_ordered_messages_are_popped_again_first(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a", b"b", b"c")
    first = take(client, max_msg_nums=2, **ORDER)
    ack(client, first[0])
    running.turn(60_000)
    answer = client.ask(Code.POP_MESSAGE, pop(**ORDER))
    assert [one.body for one in popped(answer)] == [b"b", b"c"]
    counts = pop_handle.parse_order_counts(answer.ext["orderCountInfo"])
    assert counts == {("0", "qo0%1"): 1, ("0", "0"): 0}
    assert ack(client, first[1]).code == 0, "an ack of an older pop changes nothing"
    assert running.services.offsets.query("g", "t", 0) == 1


def test_the_same_attempt_id_gets_the_same_messages_again(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a")
    assert bodies_in_order(client, attempt_id="1") == [b"a"]
    assert bodies_in_order(client, attempt_id="2") == []
    assert bodies_in_order(client, attempt_id="1") == [b"a"]


def test_an_ordered_ack_wakes_held_pops(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a", b"b")
    [first] = take(client, max_msg_nums=1, **ORDER)
    waiting = running.connect()
    assert waiting.call(Code.POP_MESSAGE, pop(**ORDER, **WAIT)) is None
    ack(client, first)
    running.turn()
    assert [[one.body for one in popped(answer)] for answer in waiting.heard] == [[b"b"]]


def test_an_ack_in_order_wakes_nobody_while_other_messages_are_out(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(running)
    put(client, b"a", b"b", b"c")
    first, second = take(client, max_msg_nums=2, **ORDER)
    woken: list[tuple[object, ...]] = []
    monkeypatch.setattr(running.services.pop.polling, "messages_back", lambda *place: woken.append(place))
    ack(client, first)
    assert (running.services.offsets.query("g", "t", 0), woken) == (1, [])
    ack(client, second)
    assert (running.services.offsets.query("g", "t", 0), woken) == (2, [("t", "g", 0)])


@pytest.mark.parametrize("invisible_ms", [2_000, 9_000])
def test_visible_messages_wake_held_pops(running: InProcess, client: Client, invisible_ms: int) -> None:
    make_topic(running)
    put(client, b"a")
    [one] = take(client, invisible_time=5_000, **ORDER)
    waiting = running.connect()
    assert waiting.call(Code.POP_MESSAGE, pop(**ORDER, **WAIT)) is None
    answer = change_invisible(client, one, invisible_ms)
    assert (answer.ext["popTime"], answer.ext["reviveQid"]) == (str(START_MS), "999")
    running.turn(invisible_ms - 1)
    assert waiting.heard == []
    running.turn(1)
    assert [[one.body for one in popped(answer)] for answer in waiting.heard] == [[b"a"]]


def test_invalid_ordered_acks_are_refused(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a", b"b")
    [one] = take(client, max_msg_nums=1, **ORDER)
    wrong = one._replace(message=decode_records(peek(client).body)[1])
    answer = ack(client, wrong)
    assert answer.code == 13
    assert (answer.remark or "").startswith("offset is illegal, key:t@g@0, old:0, commit:1, next:-1, /127.0.0.1:")
    assert ack(client, one).code == 0
    assert ack(client, one).code == 0
    done_already = change_invisible(client, one, 1_000)
    assert done_already.ext == {"popTime": "0", "invisibleTime": "0", "reviveQid": "0"}


def test_a_batch_acks_ordered_messages(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a", b"b", b"c")
    take(client, **ORDER)
    one = BatchAck(
        consumer_group="g", topic="t", retry="0", start_offset=0, queue_id=0, revive_queue_id=999, pop_time=START_MS,
        invisible_time=60_000, bits=pop_handle.encode_bits([0, 1, 2, 40]),
    )  # fmt: skip
    assert client.ask(Code.BATCH_ACK_MESSAGE, None, BatchAckRequest(acks=[one]).encode()).code == 0
    assert running.services.offsets.query("g", "t", 0) == 3


def test_a_reset_frees_a_queue(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"a", b"b")
    take(client, **ORDER)
    running.services.offsets.reset("g", "t", 0, 1)
    assert bodies_in_order(client) == [b"b"]


def test_ordered_pops_survive_a_restart(tmp_path: Path) -> None:
    with broker(tmp_path / "store") as running:
        make_topic(running)
        client = running.connect()
        put(client, b"a", b"b")
        [first] = take(client, max_msg_nums=1, **ORDER)
    with broker(tmp_path / "store") as running:
        client = running.connect()
        assert bodies_in_order(client) == []
        assert ack(client, first).code == 0
        assert bodies_in_order(client) == [b"b"]
    with broker(tmp_path / "store") as running:
        client = running.connect()
        running.turn(60_000)
        answer = client.ask(Code.POP_MESSAGE, pop(**ORDER))
        assert pop_handle.parse_order_counts(answer.ext["orderCountInfo"]) == {("0", "qo0%1"): 1, ("0", "0"): 1}
        running.services.topics.delete("t")
        running.services.pop.persist()
        assert not running.services.pop.orders.table.entries


def test_outdated_entries_are_removed_in_slices(running: InProcess, client: Client) -> None:
    make_topic(running, 3)
    for queue_id in range(3):
        put(client, b"a", queue_id=queue_id)
        take(client, queue_id=queue_id, **ORDER)
    orders = running.services.pop.orders
    steps = orders.persist_in_steps()
    running.now += FORGET_AFTER_MS + 1
    next(steps)
    assert sorted(key.queue_id for key in orders.table.entries) == [1, 2], "one in each step"
    orders.table.forget(next(iter(orders.table.entries)))
    for _ in steps:
        pass
    assert not orders.table.entries
    put(client, b"b")
    take(client, **ORDER)
    running.now += FORGET_AFTER_MS + 1
    running.services.persist_pops()
    assert orders.table.entries, "in a later turn"
    running.services.slices.finish()
    assert not orders.table.entries


def test_the_file_has_the_form_of_java_and_only_changes_are_saved(tmp_path: Path) -> None:
    path = tmp_path / "store" / "config" / "consumerOrderInfo.json"
    with broker(tmp_path / "store") as running:
        make_topic(running, 11)
        client = running.connect()
        for queue_id in (10, 9):
            put(client, b"a", b"b", queue_id=queue_id)
            take(client, queue_id=queue_id, **ORDER)
        saved: list[Any] = []
        orders = running.services.pop.orders
        save, orders._save = orders._save, lambda file, changes: saved.append((file, changes))
        orders.persist()
        orders.persist()
        [(file, changes)] = saved
        assert sorted(key.queue_id for key in changes) == [9, 10]
        save(file, changes)
    text = path.read_text()
    assert text.startswith('{\n\t"table":{\n\t\t"t@g":{\n\t\t\t9:{\n\t\t\t\t"')
    assert text.index("\t9:{") < text.index("\t10:{")
    assert sorted(fastjson.loads(path.read_bytes())["table"]["t@g"]) == ["10", "9"]


# -- looking


def peek(client: Client, **more: Any) -> Any:
    wanted: dict[str, Any] = {"topic": "t", "queue_id": -1, "max_msg_nums": 32, "consumer_group": "g"}
    return client.ask(Code.PEEK_MESSAGE, PeekMessage(**wanted | more))


def test_peeking_changes_nothing(running: InProcess, client: Client) -> None:
    make_topic(running, 2)
    put(client, b"a")
    put(client, b"b", queue_id=1)
    for _ in range(2):
        answer = peek(client)
        assert sorted(one.body for one in decode_records(answer.body)) == [b"a", b"b"]
        assert (answer.remark, answer.ext["restNum"]) == ("FOUND", "2")
    assert [one.body for one in decode_records(peek(client, queue_id=1).body)] == [b"b"]
    take(client)
    empty = peek(client)
    assert (empty.code, empty.remark) == (19, "NO_MESSAGE_IN_QUEUE")
    running.turn(REVIVE_MS)
    assert len(decode_records(peek(client).body)) == 2, "retry topics are looked into"


@pytest.mark.parametrize("chance", [0, 1])
def test_peeking_shows_messages_after_pops(running: InProcess, client: Client, chance: int) -> None:
    make_topic(running)
    put(client, b"a", b"b")
    take(client, max_msg_nums=1)
    running.turn(REVIVE_MS)
    running.services.pop.peek_service.random_below = lambda _: chance
    answer = peek(client, max_msg_nums=1)
    assert [one.body for one in decode_records(answer.body)] == [b"b" if chance else b"a"]
    assert answer.ext["restNum"] == "2"


def notify(client: Client, **more: Any) -> Any:
    wanted: dict[str, Any] = {"topic": "t", "queue_id": -1, "consumer_group": "g", "poll_time": 0}
    return client.call(Code.NOTIFICATION, Notification(**wanted | more))


def test_notification_is_answered_at_once_if_there_is_a_message(running: InProcess, client: Client) -> None:
    make_topic(running)
    assert notify(client).ext == {"hasMsg": "false", "pollingFull": "false"}
    put(client, b"a")
    assert notify(client).ext["hasMsg"] == "true"
    take(client, **ORDER)
    assert notify(client, order=True).ext["hasMsg"] == "false"
    assert notify(client).ext["hasMsg"] == "true"


def test_notification_is_answered_when_a_message_arrives(running: InProcess, client: Client) -> None:
    make_topic(running)
    waiting = running.connect()
    assert notify(waiting, **WAIT) is None
    assert notify(waiting, queue_id=0, **WAIT | {"poll_time": 1_000}) is None
    running.turn(1_000)
    assert [answer.ext["hasMsg"] for answer in waiting.heard] == ["false"]
    put(client, b"a")
    running.turn()
    assert [answer.ext["hasMsg"] for answer in waiting.heard] == ["false", "true"]
    assert [one.body for one in take(client)] == [b"a"]


def test_too_many_held_notifications_are_refused(tmp_path: Path) -> None:
    with broker(tmp_path / "store", max_pop_polling_size=1) as running:
        make_topic(running)
        client = running.connect()
        assert notify(client, **WAIT) is None
        assert notify(client, **WAIT).ext == {"hasMsg": "false", "pollingFull": "true"}
        running.services.pop.release()
        assert [answer.ext["hasMsg"] for answer in client.heard] == ["false"]


def test_polling_info_counts_held_pops(running: InProcess, client: Client) -> None:
    make_topic(running)
    header = PollingInfo(consumer_group="g", topic="t", queue_id=-1)
    assert client.ask(Code.POLLING_INFO, header).ext == {"pollingNum": "0"}
    waiting = [running.connect() for _ in range(2)]
    for one in waiting:
        assert one.call(Code.POP_MESSAGE, pop(**WAIT)) is None
    assert client.ask(Code.POLLING_INFO, header).ext == {"pollingNum": "2"}
    waiting[0].leave()
    assert client.ask(Code.POLLING_INFO, header).ext == {"pollingNum": "1"}


@pytest.mark.parametrize("code", [Code.PEEK_MESSAGE, Code.NOTIFICATION, Code.POLLING_INFO])
def test_peeking_needs_read_permission(tmp_path: Path, code: Code) -> None:
    header = {
        Code.PEEK_MESSAGE: PeekMessage(topic="t", queue_id=0, max_msg_nums=1, consumer_group="g"),
        Code.NOTIFICATION: Notification(topic="t", queue_id=0, consumer_group="g", poll_time=0),
        Code.POLLING_INFO: PollingInfo(topic="t", queue_id=0, consumer_group="g"),
    }[code]
    with broker(tmp_path / "store", broker_permission=2) as running:
        make_topic(running)
        answer = running.connect().ask(code, header)
        assert (answer.code, answer.remark) == (16, "the broker[127.0.0.1] peeking message is forbidden")
