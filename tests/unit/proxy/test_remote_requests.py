"""What calls ask of which broker, and what becomes of its replies."""

from __future__ import annotations

import asyncio

import pytest

from rocketmq_py.core.grpc.transaction_ids import HalfPlace, decode_transaction_id, encode_transaction_id
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.grpc.definition import (
    Broker,
    Duration,
    FilterExpression,
    Message,
    MessageQueue,
    Resource,
    Settings,
    Subscription,
    SubscriptionEntry,
    Timestamp,
)
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.service import (
    AckMessageEntry,
    AckMessageRequest,
    AckMessageResponse,
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    EndTransactionRequest,
    ForwardMessageToDeadLetterQueueRequest,
    RecallMessageRequest,
    RecallMessageResponse,
    ReceiveMessageResponse,
    SendMessageRequest,
    SendMessageResponse,
    SendResultEntry,
    StatusResponse,
    TelemetryCommand,
)
from rocketmq_py.proxy import remote_requests
from rocketmq_py.wire.command import Command
from tests.unit.grpc.calls import handle_of, new_message, receive_request
from tests.unit.proxy.cluster import A, B, FakeCluster, ProxyCalls, settled

ACK, CHANGE, POP = RequestCode.ACK_MESSAGE, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, RequestCode.POP_MESSAGE
BACK, END = RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.END_TRANSACTION


async def send(calls: ProxyCalls, *messages: Message) -> SendResultEntry:
    answer = await calls.ask("SendMessage", SendMessageRequest(messages=list(messages)), SendMessageResponse)
    [entry] = answer.entries
    return entry


async def consume(calls: ProxyCalls, topic: str = "t", group: str = "g") -> None:
    entry = SubscriptionEntry(topic=Resource(name=topic), expression=FilterExpression(type=1, expression="*"))
    subscription = Subscription(group=Resource(name=group), subscriptions=[entry])
    stream = calls.settings(Settings(client_type=3, subscription=subscription))
    answer = await calls.open(stream, TelemetryCommand)
    assert answer.settings is not None


async def receive(
    calls: ProxyCalls, broker: str, topic: str = "t", group: str = "g", **how: object
) -> tuple[int, list[Message]]:
    request = receive_request(topic, group, **how)  # type: ignore[arg-type]
    assert request.message_queue is not None
    request.message_queue.broker = Broker(name=broker)
    answers = await calls.ask_many("ReceiveMessage", request, ReceiveMessageResponse)
    assert answers[0].status is not None
    return answers[0].status.code, [answer.message for answer in answers if answer.message is not None]


async def one_message(cluster: FakeCluster, calls: ProxyCalls, broker: str = "b") -> Message:
    """Receive the message of one broker, of those sent to both."""
    for _ in range(4):
        await send(calls, new_message("t"))
    await consume(calls)
    code, found = await receive(calls, broker)
    assert code == Code.OK
    return found[0]


async def test_messages_of_the_broker_that_the_queue_names_are_received(
    cluster: FakeCluster, calls: ProxyCalls
) -> None:
    message = await one_message(cluster, calls)
    [(broker, header)] = cluster.sent(POP)
    assert broker == "b"
    assert (header.consumer_group, header.topic, header.queue_id, header.invisible_time) == ("g", "t", -1, 10_000)
    assert handle_of(message).split(" ")[5] == "b"
    assert message.body == b"x"


async def test_a_queue_without_a_broker_is_one_of_any(cluster: FakeCluster, calls: ProxyCalls) -> None:
    await consume(calls)
    await send(calls, new_message("only-a"))
    code, [message] = await receive(calls, "", topic="only-a")
    assert (code, message.body) == (Code.OK, b"x")


@pytest.mark.parametrize(
    ("broker", "topic", "expected"),
    [("c", "t", Code.INTERNAL_SERVER_ERROR), ("", "none", Code.TOPIC_NOT_FOUND), ("a", "none", Code.TOPIC_NOT_FOUND)],
)
async def test_what_cannot_be_received_is_said(calls: ProxyCalls, broker: str, topic: str, expected: Code) -> None:
    await consume(calls)
    assert await receive(calls, broker, topic) == (expected, [])


async def test_a_broker_that_does_not_answer_is_named(cluster: FakeCluster, calls: ProxyCalls) -> None:
    await consume(calls)
    cluster.away.add(A)
    request = receive_request("t", "g")
    request.message_queue = MessageQueue(topic=Resource(name="t"), broker=Broker(name="a"), id=-1)
    [answer] = await calls.ask_many("ReceiveMessage", request, ReceiveMessageResponse)
    assert answer.status is not None
    assert answer.status.code == Code.INTERNAL_SERVER_ERROR
    assert answer.status.message == f"broker a does not answer: cannot connect to {A}"


async def test_a_malformed_reply_is_named(cluster: FakeCluster, calls: ProxyCalls) -> None:
    await consume(calls)
    cluster.answers[POP] = Command(0, ext={"popTime": "x"})
    assert (await receive(calls, "a"))[0] == Code.INTERNAL_SERVER_ERROR


async def test_messages_for_a_call_that_has_ended_return_soon(cluster: FakeCluster, calls: ProxyCalls) -> None:
    for _ in range(4):
        await send(calls, new_message("t"))
    await consume(calls)
    may_answer = asyncio.Event()

    async def late(address: str) -> None:
        del address
        await may_answer.wait()

    cluster.answers[POP] = late
    request = receive_request("t", "g")
    request.message_queue = MessageQueue(topic=Resource(name="t"), broker=Broker(name="a"), id=-1)
    running = calls.start("ReceiveMessage", request)
    await settled(lambda: bool(cluster.sent(POP)))
    running.call.cancelled()
    may_answer.set()
    await settled(lambda: len(cluster.sent(CHANGE)) == 2)
    assert {(broker, header.invisible_time) for broker, header in cluster.sent(CHANGE)} == {("a", 1_000)}
    assert running.carrier.messages == []


async def test_a_message_is_acknowledged_at_its_broker(cluster: FakeCluster, calls: ProxyCalls) -> None:
    handle = handle_of(await one_message(cluster, calls))
    entries = [AckMessageEntry(receipt_handle=one) for one in (handle, handle.replace(" b ", " c "), "nonsense")]
    request = AckMessageRequest(group=Resource(name="g"), topic=Resource(name="t"), entries=entries)
    answer = await calls.ask("AckMessage", request, AckMessageResponse)
    codes = [entry.status.code for entry in answer.entries if entry.status is not None]
    assert codes == [Code.OK, Code.INVALID_RECEIPT_HANDLE, Code.INVALID_RECEIPT_HANDLE]
    assert [broker for broker, _ in cluster.sent(ACK)] == ["b"]
    assert answer.entries[1].status is not None
    assert answer.entries[1].status.message == "the receipt handle is of broker c, which no route names here"


async def test_several_messages_of_a_pop_are_acknowledged_one_by_one(cluster: FakeCluster, calls: ProxyCalls) -> None:
    for _ in range(8):
        await send(calls, new_message("t"))
    await consume(calls)
    _, found = await receive(calls, "b")
    entries = [AckMessageEntry(receipt_handle=handle_of(one)) for one in found]
    request = AckMessageRequest(group=Resource(name="g"), topic=Resource(name="t"), entries=entries)
    answer = await calls.ask("AckMessage", request, AckMessageResponse)
    assert answer.status is not None
    assert answer.status.code == Code.OK
    assert len(cluster.sent(ACK)) == len(entries) > 1


async def test_a_changed_receipt_is_good_for_an_acknowledgement(cluster: FakeCluster, calls: ProxyCalls) -> None:
    handle = handle_of(await one_message(cluster, calls))
    request = ChangeInvisibleDurationRequest(
        group=Resource(name="g"), topic=Resource(name="t"), receipt_handle=handle,
        invisible_duration=Duration(seconds=40),
    )  # fmt: skip
    answer = await calls.ask("ChangeInvisibleDuration", request, ChangeInvisibleDurationResponse)
    assert answer.status is not None
    assert answer.status.code == Code.OK
    [(broker, header)] = cluster.sent(CHANGE)
    assert (broker, header.invisible_time) == ("b", 40_000)
    again = AckMessageRequest(
        group=Resource(name="g"), topic=Resource(name="t"),
        entries=[AckMessageEntry(receipt_handle=answer.receipt_handle)],
    )  # fmt: skip
    acked = await calls.ask("AckMessage", again, AckMessageResponse)
    assert acked.status is not None
    assert acked.status.code == Code.OK


async def test_a_dead_letter_is_stored_at_the_broker_of_its_message(cluster: FakeCluster, calls: ProxyCalls) -> None:
    message = await one_message(cluster, calls)
    request = ForwardMessageToDeadLetterQueueRequest(
        group=Resource(name="g"), topic=Resource(name="t"), receipt_handle=handle_of(message), message_id="0A"
    )
    answer = await calls.ask("ForwardMessageToDeadLetterQueue", request, StatusResponse)
    assert answer.status is not None
    assert answer.status.code == Code.OK
    assert [broker for broker, _ in cluster.sent(BACK) + cluster.sent(ACK)] == ["b", "b"]
    assert cluster.brokers[B].services.topics.get("%DLQ%g") is not None
    assert cluster.brokers[A].services.topics.get("%DLQ%g") is None


async def test_the_codes_of_a_broker_become_those_of_grpc(cluster: FakeCluster, calls: ProxyCalls) -> None:
    cluster.answers[RequestCode.SEND_MESSAGE_V2] = Command(ResponseCode.SYSTEM_BUSY, remark="busy")
    entry = await send(calls, new_message("t"))
    assert entry.status is not None
    assert (entry.status.code, entry.status.message) == (Code.TOO_MANY_REQUESTS, "busy")


async def test_a_batch_is_one_request(cluster: FakeCluster, calls: ProxyCalls) -> None:
    entry = await send(calls, new_message("t"), new_message("t", message_id="0B"))
    assert entry.status is not None
    assert entry.status.code == Code.OK
    assert len(cluster.sent(RequestCode.SEND_BATCH_MESSAGE)) == 1


@pytest.mark.parametrize(("resolution", "flag"), [(1, 8), (2, 12)])
async def test_a_transaction_is_ended_at_the_broker_that_its_id_names(
    cluster: FakeCluster, calls: ProxyCalls, resolution: int, flag: int
) -> None:
    entry = await send(calls, new_message("tx", message_type=4))
    place = decode_transaction_id(entry.transaction_id)
    assert place.broker_name == cluster.sent(RequestCode.SEND_MESSAGE_V2)[0][0]
    request = EndTransactionRequest(
        topic=Resource(name="tx"), message_id="0A", transaction_id=entry.transaction_id, resolution=resolution
    )
    answer = await calls.ask("EndTransaction", request, StatusResponse)
    assert answer.status is not None
    assert answer.status.code == Code.OK
    [(broker, header)] = cluster.sent(END)
    assert (broker, header.commit_or_rollback, header.producer_group) == (place.broker_name, flag, "tx")


async def test_a_transaction_that_stays_open_is_not_sent(cluster: FakeCluster, calls: ProxyCalls) -> None:
    """Brokers do not answer it."""
    entry = await send(calls, new_message("tx", message_type=4))
    request = EndTransactionRequest(topic=Resource(name="tx"), transaction_id=entry.transaction_id, resolution=0)
    answer = await calls.ask("EndTransaction", request, StatusResponse)
    assert answer.status is not None
    assert (answer.status.code, cluster.sent(END)) == (Code.OK, [])


async def test_a_transaction_of_an_unknown_broker_is_refused(calls: ProxyCalls) -> None:
    unknown = encode_transaction_id(HalfPlace("c", 1, 2, "0A"))
    request = EndTransactionRequest(topic=Resource(name="tx"), transaction_id=unknown, resolution=1)
    answer = await calls.ask("EndTransaction", request, StatusResponse)
    assert answer.status is not None
    assert answer.status.code == Code.INVALID_TRANSACTION_ID


async def test_a_delayed_message_is_recalled_at_its_broker(cluster: FakeCluster, calls: ProxyCalls) -> None:
    due = Timestamp(seconds=cluster.now // 1000 + 60)
    entry = await send(calls, new_message("delay", delivery_timestamp=due))
    [(sent, _)] = cluster.sent(RequestCode.SEND_MESSAGE_V2)
    request = RecallMessageRequest(topic=Resource(name="delay"), recall_handle=entry.recall_handle)
    answer = await calls.ask("RecallMessage", request, RecallMessageResponse)
    assert answer.status is not None
    assert (answer.status.code, answer.message_id) == (Code.OK, "0A")
    assert [broker for broker, _ in cluster.sent(RequestCode.RECALL_MESSAGE)] == [sent]


async def test_some_broker_says_what_is_wrong_with_a_recall_handle(cluster: FakeCluster, calls: ProxyCalls) -> None:
    request = RecallMessageRequest(topic=Resource(name="delay"), recall_handle="nonsense")
    answer = await calls.ask("RecallMessage", request, StatusResponse)
    assert answer.status is not None
    assert answer.status.code == Code.INTERNAL_SERVER_ERROR
    assert answer.status.message == "recall handle is invalid"
    assert [broker for broker, _ in cluster.sent(RequestCode.RECALL_MESSAGE)] == ["a"]


async def test_requests_without_a_reply_are_bounded(
    cluster: FakeCluster, calls: ProxyCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_requests, "MOST_RUNNING", 1)
    monkeypatch.setattr(remote_requests, "MOST_POPS", 0)
    await consume(calls)
    request = SendMessageRequest(messages=[new_message("t")])
    first, second = calls.start("SendMessage", request), calls.start("SendMessage", request)
    [refused] = second.received(StatusResponse)
    assert refused.status is not None
    assert refused.status.code == Code.TOO_MANY_REQUESTS
    await settled(lambda: first.carrier.end is not None)
    assert (await receive(calls, "a"))[0] == Code.TOO_MANY_REQUESTS
    assert (await send(calls, new_message("t"))).status is not None
