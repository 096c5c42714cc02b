from __future__ import annotations

import pytest

from rocketmq_py.broker.grpc.other_masters import Forwarded
from rocketmq_py.core.grpc.transaction_ids import decode_transaction_id
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.grpc.definition import Resource, Timestamp
from rocketmq_py.protocol.grpc.enums import Code, MessageType
from rocketmq_py.protocol.grpc.service import (
    EndTransactionRequest,
    RecallMessageRequest,
    RecallMessageResponse,
    SendMessageRequest,
    SendMessageResponse,
    StatusResponse,
    TelemetryCommand,
)
from rocketmq_py.protocol.headers.send import RecallMessage
from rocketmq_py.protocol.headers.transaction import EndTransaction
from rocketmq_py.protocol.recall_handle import RecallHandle
from rocketmq_py.server import Reply
from rocketmq_py.wire.record import stored_messages
from tests.unit.broker.harness import START_MS, InProcess
from tests.unit.grpc.calls import Calls, new_message


def stored(running: InProcess, topic: str, queue: int = 0) -> list[tuple[bytes, dict[str, str]]]:
    found = running.services.store.get(topic, queue, 0, 32)
    return [(one.body, one.properties) for one in stored_messages(bytes(found.body))]


def test_messages_without_a_group_go_to_the_queues_in_turn(running: InProcess, calls: Calls) -> None:
    assert [calls.send(new_message("t", b"%d" % number)).offset for number in range(4)] == [0, 0, 1, 1]
    assert [body for body, _ in stored(running, "t", 0)] == [b"0", b"2"]


def test_a_message_is_stored_as_the_client_wrote_it(running: InProcess, calls: Calls) -> None:
    running.services.topics.put(
        [TopicConfig(topic_name="fifo", write_queue_nums=4, read_queue_nums=4, attributes={"message.type": "FIFO"})]
    )
    entry = calls.send(
        new_message(
            "fifo",
            b"z",
            {"a": "b"},
            message_group="group-0",
            body_encoding=2,
            delivery_attempt=3,
            born_timestamp=Timestamp.of_ms(START_MS - 5),
            tag="T",
            message_id="ID",
        )
    )
    assert (entry.message_id, entry.transaction_id, entry.recall_handle) == ("ID", "", "")
    [message] = stored_messages(bytes(running.services.store.get("fifo", 1, 0, 1).body))
    assert (message.body, message.reconsume_times, message.sys_flag & 1, message.born_timestamp) == (
        b"z",
        3,
        1,
        START_MS - 5,
    )
    properties = message.properties
    assert {
        name: properties[name] for name in ("a", "TAGS", "UNIQ_KEY", "PGROUP", "__SHARDINGKEY", "RECONSUME_TIME")
    } == {
        "a": "b",
        "TAGS": "T",
        "UNIQ_KEY": "ID",
        "PGROUP": "fifo",
        "__SHARDINGKEY": "group-0",
        "RECONSUME_TIME": "3",
    }
    assert properties["__BORNHOST"].startswith("127.0.0.1:6")


def test_a_message_without_a_birth_is_born_now(running: InProcess, calls: Calls) -> None:
    calls.send(new_message("t"))
    [message] = stored_messages(bytes(running.services.store.get("t", 0, 0, 1).body))
    assert (message.born_timestamp, message.reconsume_times, message.sys_flag) == (START_MS, 0, 0)


@pytest.mark.parametrize(
    ("topic", "system", "expected"),
    [
        ("t", {}, Code.OK),
        ("fifo", {"message_group": "g"}, Code.OK),
        ("fifo", {}, 40014),
        ("t", {"message_group": "g"}, 40014),
        ("delay", {"delivery_timestamp": Timestamp.of_ms(START_MS + 1000)}, Code.OK),
        ("delay", {}, 40014),
        ("transaction", {"message_type": 4}, Code.OK),
        ("transaction", {}, 40014),
        ("t", {"message_type": 4}, 40014),
        ("priority", {"priority": 1}, Code.OK),
        ("t", {"priority": 1}, 40014),
        ("t", {"message_type": 2}, Code.OK),
        ("new", {}, Code.OK),
        ("new", {"priority": 1}, 40014),
        ("%DLQ%g", {"priority": 1}, Code.OK),
        ("a b", {}, 40002),
    ],
)
def test_a_topic_takes_messages_of_its_type(
    running: InProcess, calls: Calls, topic: str, system: dict[str, object], expected: int
) -> None:
    running.services.topics.put([TopicConfig(topic_name="%DLQ%g")])
    assert calls.send_code(new_message(topic, **system)) == expected


def test_an_unknown_topic_is_created_only_if_sends_create_topics(running: InProcess, calls: Calls) -> None:
    running.config.auto_create_topic_enable = False
    assert calls.send_code(new_message("new")) == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    assert running.services.topics.get("new") is None
    running.config.auto_create_topic_enable = True
    assert calls.send_code(new_message("new")) == Code.OK
    assert running.services.topics.get("new") is not None


def test_sends_that_are_refused(running: InProcess, calls: Calls) -> None:
    assert calls.send_code() == Code.MESSAGE_CORRUPTED
    assert calls.send_code(new_message("t"), new_message("fifo")) == Code.MESSAGE_CORRUPTED
    assert calls.send_code(new_message("t"), new_message("t", b"")) == Code.MESSAGE_BODY_EMPTY
    assert calls.send_code(new_message("t", b"x" * (4 * 1024 * 1024 + 1))) == Code.MESSAGE_BODY_TOO_LARGE
    running.services.topics.put([TopicConfig(topic_name="read", perm=4)])
    assert calls.send_code(new_message("read")) == Code.FORBIDDEN


def test_several_messages_are_one_batch_with_one_entry(running: InProcess, calls: Calls) -> None:
    request = SendMessageRequest(
        messages=[new_message("t", b"1", message_id="A"), new_message("t", b"2", {"k": "v"}, message_id="B")]
    )
    answer = calls.call("SendMessage", request, SendMessageResponse)
    assert [(entry.message_id, entry.offset, entry.transaction_id) for entry in answer.entries] == [("A", 0, "")]
    assert [(body, properties["UNIQ_KEY"], properties.get("k")) for body, properties in stored(running, "t")] == [
        (b"1", "A", None), (b"2", "B", "v"),
    ]  # fmt: skip


def test_a_slave_that_does_not_answer_in_time_is_told(
    calls: Calls, running: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    for code, expected in (
        (ResponseCode.FLUSH_DISK_TIMEOUT, 50401),
        (ResponseCode.SLAVE_NOT_AVAILABLE, 50002),
        (ResponseCode.SYSTEM_BUSY, 42900),
    ):
        reply = Reply(code, "remark", ext={"queueOffset": "7", "msgId": "0" * 32})
        monkeypatch.setattr(running.dispatcher, "call", lambda *_, reply=reply: reply)
        answer = calls.call("SendMessage", SendMessageRequest(messages=[new_message("t")]), SendMessageResponse)
        assert answer.status is not None
        assert (answer.status.code, answer.status.message) == (expected, "remark")
        assert answer.entries[0].offset == (0 if expected == 42900 else 7)


def end(calls: Calls, transaction_id: str, resolution: int, source: int = 1) -> int:
    request = EndTransactionRequest(
        topic=Resource(name="transaction"), transaction_id=transaction_id, resolution=resolution, source=source
    )
    return calls.code("EndTransaction", request)


def test_a_transaction_is_hidden_until_it_is_committed(running: InProcess, calls: Calls) -> None:
    ids = [
        calls.send(new_message("transaction", body, message_type=4, message_id=body.decode())).transaction_id
        for body in (b"A", b"B", b"C")
    ]
    assert stored(running, "transaction") == []
    assert [end(calls, one, resolution) for one, resolution in zip(ids, (1, 2, 0), strict=True)] == [Code.OK] * 3
    assert [body for body, _ in stored(running, "transaction")] == [b"A"]
    assert end(calls, f"{'0' * 32}:{running.config.broker_name}:x", 1) == Code.INTERNAL_SERVER_ERROR
    assert end(calls, "0" * 32 + ":broker-z:x", 1) == Code.INVALID_TRANSACTION_ID
    assert end(calls, "x", 1) == Code.INVALID_TRANSACTION_ID


def test_a_producer_is_asked_about_an_open_transaction(running: InProcess, calls: Calls) -> None:
    telemetry = calls.produce("transaction")
    telemetry.received(TelemetryCommand)
    calls.send(new_message("transaction", b"open", {"a": "b"}, message_type=4))
    for _ in range(10):
        running.turn(2_000)
    asked = telemetry.received(TelemetryCommand)
    command = asked[0].recover_orphaned_transaction_command
    assert command is not None
    assert command.message is not None
    assert (command.message.body, command.message.topic, command.message.user_properties) == (
        b"open",
        Resource(name="transaction"),
        {"a": "b"},
    )
    assert command.message.system_properties is not None
    assert command.message.system_properties.message_type == MessageType.TRANSACTION
    last = asked[-1].recover_orphaned_transaction_command
    assert last is not None
    assert end(calls, last.transaction_id, 1, source=2) == Code.OK
    assert [body for body, _ in stored(running, "transaction")] == [b"open"]


def test_a_delayed_message_may_be_recalled(running: InProcess, calls: Calls) -> None:
    due = Timestamp.of_ms(START_MS + 5_000)
    entry = calls.send(new_message("delay", message_id="ID", delivery_timestamp=due))
    request = RecallMessageRequest(topic=Resource(name="delay"), recall_handle=entry.recall_handle)
    answer = calls.call("RecallMessage", request, RecallMessageResponse)
    assert answer.status is not None
    assert (answer.status.code, answer.message_id) == (Code.OK, "ID")
    assert (
        calls.code("RecallMessage", RecallMessageRequest(topic=Resource(name="delay"), recall_handle="x"))
        == Code.INTERNAL_SERVER_ERROR
    )
    for topic in ("t", "absent"):
        request = RecallMessageRequest(topic=Resource(name=topic), recall_handle=entry.recall_handle)
        assert calls.code("RecallMessage", request) == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE


def test_a_recall_goes_to_the_broker_that_its_handle_names(running: InProcess) -> None:
    """Clients ask their endpoint, whichever broker has the message; this one may not even know the topic."""
    asked: list[tuple[str, str, int, RecallMessage]] = []
    answers: list[Forwarded] = []

    def forward(name: str, topic: str, code: int, header: RecallMessage, then: Forwarded) -> None:
        asked.append((name, topic, code, header))
        answers.append(then)

    running.services.other_masters.forward = forward  # type: ignore[assignment,method-assign]
    running.config.namesrv_addr = "ns:1"
    calls = Calls(running)
    handle = RecallHandle("absent", "broker-z", START_MS, "ID").encode()
    request = RecallMessageRequest(topic=Resource(name="absent"), recall_handle=handle)
    first, second = calls.start("RecallMessage", request), calls.start("RecallMessage", request)
    header = RecallMessage(producer_group="absent", topic="absent", recall_handle=handle)
    assert asked == [("broker-z", "absent", 370, header)] * 2
    answers[0](Reply(), {"msgId": "ID"})
    answers[1](Reply(1, "no"), {})
    [found], [refused] = first.received(RecallMessageResponse), second.received(RecallMessageResponse)
    assert found.status is not None
    assert refused.status is not None
    assert (found.status.code, found.message_id) == (Code.OK, "ID")
    assert (refused.status.code, refused.status.message, refused.message_id) == (Code.INTERNAL_SERVER_ERROR, "no", "")


def test_a_broker_on_its_own_refuses_handles_of_others(running: InProcess, calls: Calls) -> None:
    handle = RecallHandle("delay", "broker-z", START_MS + 5_000, "ID").encode()
    request = RecallMessageRequest(topic=Resource(name="delay"), recall_handle=handle)
    assert calls.code("RecallMessage", request) == Code.INTERNAL_SERVER_ERROR


def test_a_transaction_is_ended_at_the_broker_that_has_it(running: InProcess) -> None:
    """Two brokers may have different half messages at the same offsets."""
    asked: list[tuple[str, str, int, EndTransaction]] = []
    answers: list[Forwarded] = []

    def forward(name: str, topic: str, code: int, header: EndTransaction, then: Forwarded) -> None:
        asked.append((name, topic, code, header))
        answers.append(then)

    running.services.other_masters.forward = forward  # type: ignore[assignment,method-assign]
    running.config.namesrv_addr = "ns:1"
    calls = Calls(running)
    own = calls.send(new_message("transaction", b"A", message_type=4, message_id="A")).transaction_id
    other = own.replace(running.config.broker_name, "broker-z")
    assert other != own
    requests = (
        EndTransactionRequest(topic=Resource(name="transaction"), transaction_id=other, resolution=one, source=2)
        for one in (1, 2)
    )
    under_way = [calls.start("EndTransaction", request) for request in requests]
    assert end(calls, other, 0) == Code.OK, "an unknown outcome leaves it open"
    assert [(name, topic, code) for name, topic, code, _ in asked] == [("broker-z", "transaction", 37)] * 2
    assert [header.commit_or_rollback for *_, header in asked] == [8, 12]
    place = decode_transaction_id(own)
    header = asked[0][3]
    assert (header.commit_log_offset, header.tran_state_table_offset) == (place.physical_offset, place.queue_offset)
    assert (header.msg_id, header.from_transaction_check, header.producer_group) == ("A", True, "transaction")
    answers[0](Reply(), {})
    answers[1](Reply(1, "gone"), {})
    found = [one.received(StatusResponse)[0].status for one in under_way]
    assert [(status.code, status.message) for status in found if status] == [(Code.OK, "OK"), (50001, "gone")]
    assert stored(running, "transaction") == []
    assert end(calls, own, 1) == Code.OK
    assert [body for body, _ in stored(running, "transaction")] == [b"A"]
