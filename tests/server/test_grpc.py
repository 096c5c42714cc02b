"""Calls of gRPC at our broker: what clients get, with the codes of Apache's proxy, beside clients of remoting."""

import gzip
import hashlib
import hmac
import ssl
import time
import zlib

import pytest

from rocketmq_py import Admin, ConsumeFromWhere, Credentials, Message as PlainMessage, Producer, SimpleConsumer
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.grpc.definition import (
    Address,
    Duration,
    Endpoints,
    FilterExpression,
    Message,
    MessageQueue,
    Publishing,
    Resource,
    Settings,
    Status,
    SystemProperties,
    Timestamp,
)
from rocketmq_py.protocol.grpc.enums import ClientType, Code, Permission, TransactionResolution
from rocketmq_py.protocol.grpc.service import (
    AckMessageEntry,
    AckMessageRequest,
    AckMessageResponse,
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    EndTransactionRequest,
    ForwardMessageToDeadLetterQueueRequest,
    HeartbeatRequest,
    NotifyClientTerminationRequest,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueryRouteRequest,
    QueryRouteResponse,
    RecallMessageRequest,
    ReceiveMessageRequest,
    ReceiveMessageResponse,
    SendMessageRequest,
    SendMessageResponse,
    StatusResponse,
    TelemetryCommand,
    ThreadStackTrace,
    VerifyMessageResult,
)
from rocketmq_py.protocol.headers.group import ConsumeMessageDirectly, GetConsumerRunningInfo
from rocketmq_py.testing import Cluster
from rocketmq_py.wire.command import Command, encode_command
from rocketmq_py.wire.http2 import frames
from rocketmq_py.wire.ids import offset_msg_id
from rocketmq_py.wire.record import pack_host
from tests.server.cli import eventually
from tests.server.grpcpeer import GrpcPeer
from tests.server.rawpeer import RawPeer

SETTINGS = {"enable_property_filter": True, "recall_message_enable": True, "transaction_check_interval": 500,
            "transaction_time_out": 500}  # fmt: skip


@pytest.fixture(scope="module")
def cluster():
    with Cluster(**SETTINGS) as running:
        yield running


@pytest.fixture
def address(cluster):
    return cluster.addresses[0]


@pytest.fixture
def peer(address, group):
    with GrpcPeer(address, f"client-of-{group}") as one:
        yield one


@pytest.fixture
def admin(cluster):
    with Admin(cluster.namesrv) as one:
        yield one


def new_message(topic, body=b"x", user=None, **system):
    system = {"message_id": "0A", "body_encoding": 1, "message_type": 1} | system
    return Message(
        topic=Resource(name=topic), body=body, user_properties=user or {}, system_properties=SystemProperties(**system)
    )


def send(peer, message):
    answer = peer.call("SendMessage", SendMessageRequest(messages=[message]), SendMessageResponse)
    assert answer.status.code == Code.OK, answer
    return answer.entries[0]


def send_code(peer, *messages):
    return peer.status("SendMessage", SendMessageRequest(messages=list(messages)))


def receive_request(topic, group, *, batch=32, invisible=10, wait=5, expression="*", kind=1, **more):
    return ReceiveMessageRequest(
        group=Resource(name=group), message_queue=MessageQueue(topic=Resource(name=topic), id=-1), batch_size=batch,
        filter_expression=FilterExpression(type=kind, expression=expression),
        invisible_duration=Duration(seconds=invisible), long_polling_timeout=Duration(seconds=wait), **more,
    )  # fmt: skip


def receive(peer, topic, group, **how):
    """The code, and the messages."""
    answers = peer.call_stream("ReceiveMessage", receive_request(topic, group, **how), ReceiveMessageResponse)
    messages = [answer.message for answer in answers if answer.message is not None]
    if messages:
        assert answers[-1].delivery_timestamp is not None
    return answers[0].status.code, messages


def ack(peer, topic, group, *handles):
    request = AckMessageRequest(
        group=Resource(name=group), topic=Resource(name=topic),
        entries=[AckMessageEntry(message_id="0A", receipt_handle=handle) for handle in handles],
    )  # fmt: skip
    answer = peer.call("AckMessage", request, AckMessageResponse)
    return answer.status.code, [entry.status.code for entry in answer.entries]


def handle_of(message):
    return message.system_properties.receipt_handle


# -- routes


def route(peer, topic, *hosts):
    endpoints = Endpoints(scheme=1, addresses=[Address(host=host, port=80) for host in hosts])
    request = QueryRouteRequest(topic=Resource(name=topic), endpoints=endpoints)
    return peer.call("QueryRoute", request, QueryRouteResponse)


def test_a_route_has_the_queues_of_the_topic_and_the_address_the_client_used(peer, topic, address):
    found = route(peer, topic, "some.host")
    assert [(queue.id, queue.permission, queue.accept_message_types) for queue in found.message_queues] == [
        (number, Permission.READ_WRITE, [1]) for number in range(4)
    ]
    assert found.message_queues[0].broker.endpoints.addresses == [Address(host="some.host", port=80)]
    own = route(peer, topic, "a", "b").message_queues[0].broker.endpoints
    assert [f"{one.host}:{one.port}" for one in own.addresses] == [address]


def test_queues_for_reading_come_first_then_those_for_both(peer, admin, topic):
    admin.create_topic(topic, read_queues=3, write_queues=1, attributes={"message.type": "FIFO"})
    found = route(peer, topic, "h").message_queues
    assert [queue.permission for queue in found] == [Permission.READ, Permission.READ, Permission.READ_WRITE]
    assert [queue.id for queue in found] == [0, 1, 2]
    assert found[0].accept_message_types == [2]


def test_a_topic_that_a_send_would_create_has_a_route_and_a_send_creates_it(peer, group):
    name = f"new-{group}"
    assert len(route(peer, name, "h").message_queues) == 8
    assert send_code(peer, new_message(name, message_group="g")) == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    send(peer, new_message(name))
    assert receive_all(peer, name, group) == [b"x"]


def receive_all(peer, topic, group):
    peer.consume(topic, group)
    code, messages = receive(peer, topic, group)
    assert code == Code.OK
    assert ack(peer, topic, group, *map(handle_of, messages))[0] == Code.OK
    return [message.body for message in messages]


def test_illegal_names_are_refused(peer):
    assert route(peer, "a b").status.code == Code.ILLEGAL_TOPIC
    assert peer.status("QueryRoute", QueryRouteRequest()) == Code.ILLEGAL_TOPIC
    assert peer.status("ReceiveMessage", receive_request("t", "../x")) == Code.ILLEGAL_CONSUMER_GROUP


def test_a_push_consumer_is_assigned_all_queues_together_or_each_in_an_orderly_group(peer, admin, topic, group):
    admin.create_group(SubscriptionGroupConfig(group_name=group, consume_message_orderly=True))
    for name, ids in ((f"{group}-plain", [-1]), (group, [0, 1, 2, 3])):
        request = QueryAssignmentRequest(topic=Resource(name=topic), group=Resource(name=name))
        found = peer.call("QueryAssignment", request, QueryAssignmentResponse)
        assert [one.message_queue.id for one in found.assignments] == ids
        assert {one.message_queue.permission for one in found.assignments} == {Permission.READ}


# -- sends


def test_a_message_is_received_as_it_was_sent(peer, topic, group):
    peer.consume(topic, group)
    body = zlib.compress(b"hello" * 100)
    entry = send(peer, new_message(
        topic, body, {"own": "1", "u": "\u00e9"}, tag="A", keys=["k1", "k2"], message_id="01AB", body_encoding=2,
        born_timestamp=Timestamp.of_ms(1_700_000_000_123), trace_context="trace",
    ))  # fmt: skip
    assert (entry.message_id, entry.offset, entry.transaction_id) == ("01AB", 0, "")
    code, [got] = receive(peer, topic, group)
    assert code == Code.OK
    system = got.system_properties
    assert (got.topic.name, got.body, got.user_properties) == (topic, body, {"own": "1", "u": "\u00e9"})
    assert (system.tag, system.keys, system.message_id, system.body_encoding) == ("A", ["k1", "k2"], "01AB", 2)
    assert (system.body_digest.type, system.body_digest.checksum) == (2, hashlib.md5(body).hexdigest().upper())
    assert (system.born_timestamp.ms, system.delivery_attempt, system.message_type) == (1_700_000_000_123, 1, 1)
    assert (system.trace_context, system.queue_offset, system.invisible_duration) == ("trace", 0, Duration(seconds=10))
    assert system.born_host.startswith("127.0.0.1:")


def test_clients_of_remoting_and_of_grpc_share_topics(cluster, peer, topic, group):
    peer.consume(topic, group)
    with Producer("p", cluster.namesrv) as producer:
        producer.send(PlainMessage(topic, b"from remoting", tags="T", keys="k", properties={"a": "1"}))
    code, [got] = receive(peer, topic, group)
    assert (code, got.body, got.system_properties.tag, got.user_properties) == (
        Code.OK,
        b"from remoting",
        "T",
        {"a": "1"},
    )
    send(peer, new_message(topic, b"from grpc", {"b": "2"}, tag="G", message_id="AB" * 16))
    with SimpleConsumer(f"{group}-2", cluster.namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as consumer:
        consumer.subscribe(topic)
        found = {}
        deadline = time.monotonic() + 60
        while len(found) < 2:
            assert time.monotonic() < deadline
            found |= {message.body: message for message in consumer.receive()}
    plain = found[b"from grpc"]
    assert (plain.tags, plain.properties["b"], plain.msg_id) == ("G", "2", "AB" * 16)


def test_sends_are_refused_with_the_code_of_their_fault(peer, admin, topic):
    assert send_code(peer) == Code.MESSAGE_CORRUPTED
    assert send_code(peer, new_message(topic), new_message(f"{topic}-2")) == Code.MESSAGE_CORRUPTED
    assert send_code(peer, new_message(topic, b"")) == Code.MESSAGE_BODY_EMPTY
    assert send_code(peer, new_message(topic, b"x" * (4 * 1024 * 1024 + 1))) == Code.MESSAGE_BODY_TOO_LARGE
    assert send_code(peer, new_message(topic, message_group="g")) == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    assert send_code(peer, new_message(topic, body_encoding=9)) == Code.MESSAGE_CORRUPTED
    assert send_code(peer, new_message("a b")) == Code.ILLEGAL_TOPIC
    admin.create_topic(topic, perm=4)
    assert send_code(peer, new_message(topic)) == Code.FORBIDDEN


def test_a_body_of_the_largest_size_is_sent_and_received(peer, topic, group):
    peer.consume(topic, group)
    body = bytes(range(256)) * 16_384
    send(peer, new_message(topic, body))
    assert receive(peer, topic, group)[1][0].body == body


def test_messages_of_one_group_share_a_queue(peer, admin, topic, group):
    admin.create_topic(topic, 4, attributes={"message.type": "FIFO"})
    admin.create_group(SubscriptionGroupConfig(group_name=group, consume_message_orderly=True))
    peer.consume(topic, group)
    offsets = {name: [send(peer, new_message(topic, message_group=name)).offset for _ in range(3)] for name in "abc"}
    assert offsets["a"] in ([0, 1, 2], [3, 4, 5], [6, 7, 8])
    [queue] = {
        m.system_properties.queue_id
        for m in receive_queues(peer, topic, group)
        if m.system_properties.message_group == "a"
    }
    assert queue in range(4)


def receive_queues(peer, topic, group):
    found = []
    for queue in range(4):
        request = receive_request(topic, group)
        request.message_queue.id = queue
        stream = peer.begin("ReceiveMessage", request)
        found.append(stream)
    messages = []
    for stream in found:
        assert peer.end_of(stream) == "0"
        messages += [
            a.message for a in map(ReceiveMessageResponse.decode, peer.messages[stream]) if a.message is not None
        ]
    return messages


def test_an_orderly_group_gets_nothing_more_of_a_queue_until_its_messages_are_acknowledged(peer, admin, topic, group):
    admin.create_topic(topic, 1, attributes={"message.type": "FIFO"})
    admin.create_group(SubscriptionGroupConfig(group_name=group, consume_message_orderly=True))
    peer.consume(topic, group)
    for body in (b"1", b"2"):
        send(peer, new_message(topic, body, message_group="g"))
    code, [first] = receive(peer, topic, group, batch=1)
    assert (code, first.body) == (Code.OK, b"1")
    assert receive(peer, topic, group, batch=1)[0] == Code.MESSAGE_NOT_FOUND
    assert ack(peer, topic, group, handle_of(first)) == (Code.OK, [Code.OK])
    assert receive(peer, topic, group, batch=1)[1][0].body == b"2"


def test_several_messages_of_a_send_are_a_batch(peer, topic, group):
    peer.consume(topic, group)
    answer = peer.call("SendMessage", SendMessageRequest(messages=[
        new_message(topic, b"1", message_id="A1", tag="T"), new_message(topic, b"2", message_id="A2"),
    ]), SendMessageResponse)  # fmt: skip
    assert [(entry.status.code, entry.message_id) for entry in answer.entries] == [(Code.OK, "A1")]
    got = receive(peer, topic, group)[1]
    assert [(one.body, one.system_properties.message_id, one.system_properties.tag) for one in got] == [
        (b"1", "A1", "T"), (b"2", "A2", None),
    ]  # fmt: skip


def test_a_delayed_message_comes_when_it_is_due_unless_it_is_recalled(peer, admin, topic, group):
    admin.create_topic(topic, 1, attributes={"message.type": "DELAY"})
    peer.consume(topic, group)
    due = int(time.time() * 1000) + 2_000
    kept, recalled = (
        send(peer, new_message(topic, body, message_id=body.decode(), delivery_timestamp=Timestamp.of_ms(due)))
        for body in (b"AA", b"BB")
    )
    assert kept.recall_handle
    request = RecallMessageRequest(topic=Resource(name=topic), recall_handle=recalled.recall_handle)
    assert peer.status("RecallMessage", request) == Code.OK
    code, [got] = receive(peer, topic, group, wait=20)
    assert (code, got.body, got.system_properties.delivery_timestamp.ms) == (Code.OK, b"AA", due)
    assert time.time() * 1000 >= due - 50
    assert receive(peer, topic, group)[0] == Code.MESSAGE_NOT_FOUND


def test_only_delayed_messages_are_recalled(peer, topic):
    request = RecallMessageRequest(topic=Resource(name=topic), recall_handle="x")
    assert peer.status("RecallMessage", request) == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE


# -- transactions


def test_transactions_are_committed_rolled_back_and_asked_about(peer, admin, topic, group):
    admin.create_topic(topic, 1, attributes={"message.type": "TRANSACTION"})
    peer.consume(topic, group)
    publishing = Settings(client_type=ClientType.PRODUCER, publishing=Publishing(topics=[Resource(name=topic)]))
    with GrpcPeer(peer_address(peer), "producer") as producer:
        telemetry, _ = producer.configure(publishing)
        ids = {}
        for body, resolution in ((b"yes", 1), (b"no", 2), (b"orphan", 0)):
            entry = send(producer, new_message(topic, body, message_type=4, message_id=body.decode()))
            ids[body] = entry.transaction_id
            request = end_request(topic, entry.transaction_id, resolution)
            assert producer.status("EndTransaction", request) == Code.OK
        assert receive(peer, topic, group)[1][0].body == b"yes"
        command = TelemetryCommand.decode(producer.next_message(telemetry)).recover_orphaned_transaction_command
        assert (command.message.body, command.message.topic.name) == (b"orphan", topic)
        request = end_request(topic, command.transaction_id, TransactionResolution.COMMIT, source=2)
        assert producer.status("EndTransaction", request) == Code.OK
        assert receive(peer, topic, group)[1][0].body == b"orphan"
        for bad in ("", "x" * 40):
            assert producer.status("EndTransaction", end_request(topic, bad, 1)) == Code.INVALID_TRANSACTION_ID
        elsewhere = "0" * 32 + ":broker-a:x"
        assert producer.status("EndTransaction", end_request(topic, elsewhere, 1)) == Code.INTERNAL_SERVER_ERROR


def end_request(topic, transaction_id, resolution, source=1):
    return EndTransactionRequest(
        topic=Resource(name=topic), message_id="m", transaction_id=transaction_id, resolution=resolution, source=source
    )


def peer_address(peer):
    host, port = peer.socket.getpeername()[:2]
    return f"{host}:{port}"


# -- receiving


def test_a_call_waits_for_messages(peer, topic, group):
    peer.consume(topic, group)
    begin = time.monotonic()
    assert receive(peer, topic, group, wait=1)[0] == Code.MESSAGE_NOT_FOUND
    assert time.monotonic() - begin > 4
    stream = peer.begin("ReceiveMessage", receive_request(topic, group, wait=20))
    send(peer, new_message(topic, b"now"))
    assert peer.end_of(stream) == "0"
    assert ReceiveMessageResponse.decode(peer.messages[stream][1]).message.body == b"now"


def test_filters_by_tag_and_by_properties(peer, topic, group):
    peer.consume(topic, group)
    for number in range(6):
        send(peer, new_message(topic, str(number).encode(), {"n": str(number)}, tag="ABC"[number % 3]))
    tagged = receive(peer, topic, group, expression="A || C")[1]
    assert sorted(one.body for one in tagged) == [b"0", b"2", b"3", b"5"]
    chosen = receive(peer, topic, f"{group}-sql", expression="n > 3", kind=2)[1]
    assert sorted(one.body for one in chosen) == [b"4", b"5"]
    assert receive(peer, topic, group, expression="n >", kind=2)[0] == Code.ILLEGAL_FILTER_EXPRESSION


def test_a_message_that_is_not_acknowledged_comes_again_and_its_handle_is_of_no_use_then(peer, topic, group):
    peer.consume(topic, group)
    send(peer, new_message(topic, b"again"))
    [first] = receive(peer, topic, group)[1]
    change = ChangeInvisibleDurationRequest(
        group=Resource(name=group), topic=Resource(name=topic), receipt_handle=handle_of(first),
        invisible_duration=Duration(seconds=2),
    )  # fmt: skip
    changed = peer.call("ChangeInvisibleDuration", change, ChangeInvisibleDurationResponse)
    assert changed.status.code == Code.OK
    assert changed.receipt_handle not in ("", handle_of(first))
    assert peer.status("ChangeInvisibleDuration", change) == Code.INVALID_RECEIPT_HANDLE
    [second] = receive(peer, topic, group, wait=20)[1]
    assert (second.body, second.system_properties.delivery_attempt) == (b"again", 2)
    assert second.system_properties.message_id == first.system_properties.message_id
    assert ack(peer, topic, group, changed.receipt_handle)[1] == [Code.INVALID_RECEIPT_HANDLE]
    assert ack(peer, topic, group, handle_of(second), handle_of(second)) == (Code.OK, [Code.OK, Code.OK])
    assert receive(peer, topic, group)[0] == Code.MESSAGE_NOT_FOUND


def test_handles_that_were_not_received_are_refused(peer, topic, group):
    peer.consume(topic, group)
    send(peer, new_message(topic))
    [got] = receive(peer, topic, group)[1]
    words = handle_of(got).split(" ")
    elsewhere = " ".join([*words[:5], "other-broker", *words[6:]])
    bad = ["", "x", " ".join(words[:7]), " ".join([*words[:4], "7", *words[5:]]), elsewhere, handle_of(got) + "9" * 30]
    code, codes = ack(peer, topic, group, *bad, handle_of(got))
    assert code == Code.MULTIPLE_RESULTS
    assert codes == [Code.INVALID_RECEIPT_HANDLE] * len(bad) + [Code.OK]
    assert ack(peer, topic, group)[0] == Code.BAD_REQUEST


def test_a_message_is_forwarded_to_the_dead_letters(peer, admin, topic, group):
    peer.consume(topic, group)
    send(peer, new_message(topic, b"dead", tag="T"))
    [got] = receive(peer, topic, group)[1]
    request = ForwardMessageToDeadLetterQueueRequest(
        group=Resource(name=group), topic=Resource(name=topic), receipt_handle=handle_of(got), message_id="0A"
    )
    assert peer.status("ForwardMessageToDeadLetterQueue", request) == Code.OK
    dead = f"%DLQ%{group}"
    admin.create_topic(dead, 1)
    peer.consume(dead, f"{group}-dead")
    assert [one.body for one in receive(peer, dead, f"{group}-dead")[1]] == [b"dead"]


def test_a_message_with_too_many_attempts_becomes_a_dead_letter(peer, admin, topic, group):
    admin.create_group(SubscriptionGroupConfig(group_name=group, retry_max_times=0))
    peer.consume(topic, group)
    send(peer, new_message(topic, b"bad"))
    [got] = receive(peer, topic, group)[1]
    request = ChangeInvisibleDurationRequest(
        group=Resource(name=group), topic=Resource(name=topic), receipt_handle=handle_of(got),
        invisible_duration=Duration(),
    )  # fmt: skip
    assert peer.status("ChangeInvisibleDuration", request) == Code.OK
    assert receive(peer, topic, group)[0] == Code.MESSAGE_NOT_FOUND
    admin.create_topic(f"%DLQ%{group}", 1)
    peer.consume(f"%DLQ%{group}", f"{group}-dead")
    assert [one.body for one in receive(peer, f"%DLQ%{group}", f"{group}-dead")[1]] == [b"bad"]


def test_bounds_of_a_receive(peer, topic, group):
    request = receive_request(topic, group, auto_renew=True)
    assert peer.status("ReceiveMessage", request) == Code.UNRECOGNIZED_CLIENT_TYPE
    peer.consume(topic, group)
    for seconds in (9, 43_201):
        assert receive(peer, topic, group, invisible=seconds)[0] == Code.ILLEGAL_INVISIBLE_TIME
    stream = peer.begin("ReceiveMessage", receive_request(topic, group), timeout="4S")
    assert peer.end_of(stream) == "0"
    assert StatusResponse.decode(peer.messages[stream][0]).status.code == Code.ILLEGAL_POLLING_TIME
    assert receive(peer, "no-such-topic", group)[0] == Code.TOPIC_NOT_FOUND


def test_a_call_may_come_before_the_settings_of_its_client(peer, topic, group):
    send(peer, new_message(topic, b"early"))
    stream = peer.begin("ReceiveMessage", receive_request(topic, group))
    cancelled = peer.begin("ReceiveMessage", receive_request(topic, group))
    peer.send(frames.rst_stream(cancelled, frames.ErrorCode.CANCEL))
    peer.consume(topic, group)
    assert peer.end_of(stream) == "0"
    assert ReceiveMessageResponse.decode(peer.messages[stream][1]).message.body == b"early"


# -- clients


def test_a_client_is_listed_like_any_other_until_it_ends(peer, admin, topic, group):
    telemetry = peer.consume(topic, group, "A || B")
    [member] = admin.members(group).connection_set
    assert (member.client_id, member.language) == (f"client-of-{group}", "OTHER")
    assert peer.status("Heartbeat", HeartbeatRequest(group=Resource(name=group))) == Code.OK
    assert peer.status("NotifyClientTermination", NotifyClientTerminationRequest(group=Resource(name=group))) == Code.OK
    assert peer.status("Heartbeat", HeartbeatRequest(group=Resource(name=group))) == Code.UNRECOGNIZED_CLIENT_TYPE
    assert admin.members(group) is None
    assert telemetry not in peer.ended


def test_a_client_whose_connection_breaks_is_listed_no_longer_but_may_come_again(peer, admin, address, topic, group):
    with GrpcPeer(address, "gone") as gone:
        gone.consume(topic, group)
        assert admin.members(group) is not None
    eventually(lambda: admin.members(group) is None)
    with GrpcPeer(address, "gone") as again:
        assert again.status("Heartbeat", HeartbeatRequest(group=Resource(name=group))) == Code.OK


def test_an_administrator_has_a_client_consume_a_message_and_tell_its_threads(cluster, peer, topic, group):
    telemetry = peer.consume(topic, group)
    send(peer, new_message(topic, b"checked"))
    [got] = receive(peer, topic, group)[1]
    offset = int(handle_of(got).rpartition(" ")[2])
    host, _, port = got.system_properties.store_host.rpartition(":")
    msg_id = offset_msg_id(pack_host(host, int(port)), offset)
    header = ConsumeMessageDirectly(consumer_group=group, client_id=f"client-of-{group}", msg_id=msg_id, topic=topic)
    with RawPeer(cluster.addresses[0]) as raw:
        raw.send(encode_command(Command(RequestCode.CONSUME_MESSAGE_DIRECTLY, opaque=1, ext=header.to_ext())))
        command = TelemetryCommand.decode(peer.next_message(telemetry)).verify_message_command
        assert command.message.body == b"checked"
        result = VerifyMessageResult(nonce=command.nonce)
        peer.tell(telemetry, TelemetryCommand(status=Status(code=Code.OK), verify_message_result=result))
        assert b'"consumeResult":"CR_SUCCESS"' in raw.receive().body
        about = GetConsumerRunningInfo(consumer_group=group, client_id=f"client-of-{group}", jstack_enable=True)
        raw.send(encode_command(Command(RequestCode.GET_CONSUMER_RUNNING_INFO, opaque=2, ext=about.to_ext())))
        nonce = TelemetryCommand.decode(peer.next_message(telemetry)).print_thread_stack_trace_command.nonce
        trace = ThreadStackTrace(nonce=nonce, thread_stack_trace="at main")
        peer.tell(telemetry, TelemetryCommand(thread_stack_trace=trace))
        assert b'"jstack":"at main"' in raw.receive().body


def test_a_client_needs_an_id_and_settings(address):
    with GrpcPeer(address, "") as peer:
        assert peer.status("QueryRoute", QueryRouteRequest(topic=Resource(name="t"))) == Code.CLIENT_ID_REQUIRED
        assert peer.end_of(peer.begin("Telemetry", TelemetryCommand())) == "3"
    with GrpcPeer(address, "c") as peer:
        assert peer.status("Heartbeat", HeartbeatRequest()) == Code.UNRECOGNIZED_CLIENT_TYPE
        stream = peer.open("Telemetry")
        peer.tell(stream, TelemetryCommand(settings=Settings(client_type=1)))
        assert peer.end_of(stream) == "3"


def test_lite_topics_are_not_offered(peer, topic):
    assert peer.status("SyncLiteSubscription", StatusResponse()) == Code.NOT_IMPLEMENTED
    stream = peer.open("Telemetry")
    peer.tell(stream, TelemetryCommand(settings=Settings(client_type=ClientType.LITE_PUSH_CONSUMER)))
    assert peer.end_of(stream) == "13"


# -- TLS and users


def test_the_same_port_speaks_tls(tmp_path):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with Cluster(tls={"tls.server.mode": "permissive"}) as cluster:
        topic = cluster.create_topic("over-tls")
        with GrpcPeer(cluster.addresses[0], tls=context) as peer:
            assert peer.socket.selected_alpn_protocol() == "h2"
            peer.consume(topic, "g")
            body = gzip.compress(b"x") * 10_000
            send(peer, new_message(topic, body))
            assert receive(peer, topic, "g")[1][0].body == body


def signed(key, secret, date="20261127T204834Z"):
    signature = hmac.new(secret.encode(), date.encode(), "sha1").hexdigest().upper()
    text = f"MQv2-HMAC-SHA1 Credential={key}, SignedHeaders=x-mq-date-time, Signature={signature}"
    return {"authorization": text, "x-mq-date-time": date}


def test_calls_are_signed_and_need_permissions(tmp_path):
    access = {"authenticationEnabled": "true", "authorizationEnabled": "true",
              "initAuthenticationUser": '{"username":"root","password":"secret"}',
              "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"secret"}'}  # fmt: skip
    with Cluster(access=access) as cluster:
        with Admin(cluster.namesrv, credentials=Credentials("root", "secret")) as admin:
            admin.create_topic("mine", 1)
            admin.create_topic("theirs", 1)
            admin.create_user("alice", "wonder")
            admin.set_acl("alice", ["Topic:mine", "Group:g"], ["Pub", "Sub"])
        address = cluster.addresses[0]
        for metadata in ({}, signed("alice", "wrong"), signed("nobody", "wonder"), {"authorization": "x"}):
            with GrpcPeer(address, **metadata) as peer:
                assert send_code(peer, new_message("mine")) == Code.UNAUTHORIZED
                stream = peer.open("Telemetry")
                peer.tell(
                    stream, TelemetryCommand(settings=Settings(publishing=Publishing(topics=[Resource(name="mine")])))
                )
                assert peer.end_of(stream) == "3"
        with GrpcPeer(address, **signed("alice", "wonder")) as peer:
            send(peer, new_message("mine"))
            assert send_code(peer, new_message("theirs")) == Code.UNAUTHORIZED
            assert route(peer, "theirs", "h").status.code == Code.UNAUTHORIZED
            peer.consume("mine", "g")
            [got] = receive(peer, "mine", "g")[1]
            assert receive(peer, "theirs", "g")[0] == Code.UNAUTHORIZED
            assert receive(peer, "mine", "other")[0] == Code.UNAUTHORIZED
            assert ack(peer, "mine", "other", handle_of(got))[0] == Code.UNAUTHORIZED
            assert ack(peer, "mine", "g", handle_of(got))[0] == Code.OK
        with GrpcPeer(address, **signed("root", "secret")) as peer:
            foreign = send(peer, new_message("theirs", b"secret"))
            peer.consume("theirs", "root-group")
            [got] = receive(peer, "theirs", "root-group")[1]
        words = handle_of(got).split(" ")
        assert foreign.offset == 0
        with GrpcPeer(address, **signed("alice", "wonder")) as peer:
            peer.consume("mine", "g")
            send(peer, new_message("mine"))
            [own] = receive(peer, "mine", "g")[1]
            stolen = " ".join([*handle_of(own).split(" ")[:8], words[8]])
            request = ForwardMessageToDeadLetterQueueRequest(
                group=Resource(name="g"), topic=Resource(name="mine"), receipt_handle=stolen
            )
            assert peer.status("ForwardMessageToDeadLetterQueue", request) == Code.UNAUTHORIZED
