"""Bad input by gRPC: every call is answered or its connection ended, and others are served."""

import logging
import random
import time

import pytest

from rocketmq_py.protocol.grpc.definition import Duration, Message, MessageQueue, Resource, SystemProperties
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.service import (
    QueryRouteRequest,
    ReceiveMessageRequest,
    SendMessageRequest,
    TelemetryCommand,
)
from rocketmq_py.wire.http2 import frames
from rocketmq_py.wire.http2.connection import MAX_NOISE, MAX_STREAMS
from rocketmq_py.wire.http2.hpack import encode_headers
from tests.server.grpcpeer import GrpcPeer

METHODS = (
    "QueryRoute", "QueryAssignment", "SendMessage", "EndTransaction", "RecallMessage", "ReceiveMessage", "AckMessage",
    "ChangeInvisibleDuration", "ForwardMessageToDeadLetterQueue", "Heartbeat", "NotifyClientTermination", "Telemetry",
    "SyncLiteSubscription",
)  # fmt: skip


@pytest.fixture
def address(cluster):
    return cluster.addresses[0]


@pytest.fixture
def peer(address):
    with GrpcPeer(address) as one:
        yield one


@pytest.fixture
def still_serves(address, topic):
    yield
    with GrpcPeer(address) as one:
        assert one.status("SendMessage", a_send(topic)) == Code.OK


def a_send(topic, body=b"x"):
    properties = SystemProperties(message_id="0A")
    return SendMessageRequest(messages=[Message(topic=Resource(name=topic), body=body, system_properties=properties)])


@pytest.mark.parametrize("method", ["PullMessage", "UpdateOffset", "GetOffset", "QueryOffset", "Other"])
def test_a_method_that_is_not_there_is_unimplemented(peer, method):
    stream = peer.begin(method, b"")
    assert peer.end_of(stream) == "12"
    assert method in peer.text_of(stream)


@pytest.mark.parametrize(("headers", "status"), [
    ([(b":method", b"GET"), (b":path", b"/x")], "405"), ([(b":method", b"POST")], "400"), ([], "400"),
    ([(b":method", b"POST"), (b":path", b"/x"), (b"content-type", b"text/html")], "415"),
    ([(b":method", b"POST"), (b":path", b"/x"), (b"content-type", b"application/grpc"), (b"grpc-timeout", b"x")], "13"),
])  # fmt: skip
def test_what_is_no_call_is_refused(peer, headers, status):
    block = encode_headers(headers)
    peer.send(frames.frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, 1, block))
    assert peer.end_of(1) == status


def test_a_deadline_in_the_past_and_calls_without_a_whole_message(peer):
    assert peer.end_of(peer.open("QueryRoute", timeout="0S")) == "4"
    stream = peer.open("QueryRoute")
    peer.send(frames.frame(frames.DATA, frames.END_STREAM, stream, b"\0\0\0\0\5abc"))
    assert peer.end_of(stream) == "13"
    stream = peer.open("QueryRoute")
    peer.send(frames.frame(frames.DATA, frames.END_STREAM, stream, b"\1\0\0\0\1a"))
    assert peer.end_of(stream) == "12"
    stream = peer.open("QueryRoute")
    peer.send(frames.frame(frames.DATA, 0, stream, b"\0\xff\xff\xff\xff"))
    assert peer.end_of(stream) == "8"
    assert peer.end_of(peer.begin("QueryRoute", b"\x0a\xff")) == "13"


def test_large_metadata_are_refused(peer):
    block = encode_headers([(b"x", b"y" * 12_000)])
    peer.send(frames.frame(frames.HEADERS, 0, 1, block)
              + frames.frame(frames.CONTINUATION, frames.END_HEADERS, 1, block))  # fmt: skip
    assert peer.end_of(1) == "8"


@pytest.mark.parametrize("raw", [
    frames.frame(frames.PING, 0, 0, b"x" * 8) * (MAX_NOISE + 1),
    frames.settings({4: 65_535}) * (MAX_NOISE // 20 + 1),
    frames.frame(frames.HEADERS, 0, 1, b"") + frames.frame(frames.CONTINUATION, 0, 1) * 100,
    frames.frame(frames.HEADERS, frames.END_HEADERS, 1, b"\xff\xff\xff\xff\xff"),
    b"\xff" * 100,
], ids=["pings", "settings", "continuations", "hpack", "ones"])  # fmt: skip
def test_floods_and_faults_end_the_connection(peer, still_serves, raw):
    peer.send(raw)
    code, text = peer.wait_for_goaway()
    assert code
    assert text.startswith("HTTP/2 ")


def test_rapid_resets_end_the_connection(peer, still_serves):
    reset = frames.rst_stream
    try:
        for _ in range(MAX_NOISE // 4 + 2):
            peer.send(reset(peer.open("QueryRoute"), frames.ErrorCode.CANCEL))
    except OSError:
        return  # closed already
    assert peer.wait_for_goaway()[0] == frames.ErrorCode.ENHANCE_YOUR_CALM


def test_ten_thousand_streams_are_refused_above_the_limit(peer, still_serves):
    streams = [peer.open("Telemetry") for _ in range(MAX_STREAMS + 500)]
    assert {peer.end_of(stream) for stream in streams[MAX_STREAMS:]} == {"reset 7"}
    assert not any(stream in peer.ended for stream in streams[:MAX_STREAMS])


def test_a_slow_reader_is_cut_off_when_too_much_waits_for_it(address, cluster, topic, still_serves, caplog):
    with GrpcPeer(address) as fast:
        for _ in range(4):
            assert fast.status("SendMessage", a_send(topic, b"x" * 4_000_000)) == Code.OK
    with GrpcPeer(address, "slow", window=10) as slow, caplog.at_level(logging.WARNING):
        for number in range(40):
            group = f"{topic}-slow-{number}"
            stream = slow.open("Telemetry", x_mq_client_id=f"slow-{number}")
            del stream
            # The answer of 4 MB to each waits for a window that the client never opens.
            slow.metadata["x-mq-client-id"] = f"slow-{number}"
            slow.tell(slow.open("Telemetry"), settings_of(topic, group))
            slow.begin("ReceiveMessage", receive_request(topic, group))
        with pytest.raises((AssertionError, OSError, EOFError)):
            read_for_a_minute(slow)
    assert "closing the connection" in caplog.text


def read_for_a_minute(peer):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        peer.read()


def settings_of(topic, group):
    from rocketmq_py.protocol.grpc.definition import Settings, Subscription

    return TelemetryCommand(settings=Settings(client_type=3, subscription=Subscription(group=Resource(name=group))))


def receive_request(topic, group):
    return ReceiveMessageRequest(
        group=Resource(name=group), message_queue=MessageQueue(topic=Resource(name=topic)), batch_size=32,
        invisible_duration=Duration(seconds=10), long_polling_timeout=Duration(seconds=5),
    )  # fmt: skip


def test_cancelled_calls_leave_nothing(cluster, address, topic, still_serves):
    with GrpcPeer(address, "cancels") as peer:
        peer.consume(topic, "cancelling")
        for _ in range(50):
            stream = peer.begin("ReceiveMessage", receive_request(topic, "cancelling"))
            peer.send(frames.rst_stream(stream, frames.ErrorCode.CANCEL))
            half = peer.open("SendMessage")
            peer.send(frames.frame(frames.DATA, 0, half, b"\0\0\0\0\x05ab"))
            peer.send(frames.rst_stream(half, frames.ErrorCode.CANCEL))
        assert peer.status("QueryRoute", QueryRouteRequest(topic=Resource(name=topic))) == Code.OK
        assert peer.status("SendMessage", a_send(topic)) == Code.OK


def test_random_requests_are_answered(address, still_serves, topic, caplog):
    rng = random.Random(5)
    request = ReceiveMessageRequest(group=Resource(name="g"), message_queue=MessageQueue(topic=Resource(name=topic)))
    seeds = [a_send(topic).encode(), request.encode(), settings_of(topic, "g").encode(), b"\x1a\x051 2 3"]
    with GrpcPeer(address, "random") as peer, caplog.at_level(logging.ERROR):
        for _ in range(1_500):
            raw = bytearray(rng.choice(seeds))
            for _ in range(rng.randrange(4)):
                raw[rng.randrange(len(raw))] = rng.randrange(256)
            method = rng.choice([one for one in METHODS if one != "ReceiveMessage"])
            stream = peer.begin(method, bytes(raw))
            assert peer.end_of(stream) in ("0", "3", "13"), (method, bytes(raw), peer.ended[stream])
    assert "Traceback" not in caplog.text


def test_plain_text_on_the_port_is_closed(address):
    import socket

    host, port = address.split(":")
    for raw in (b"POST / HTTP/1.1\r\n\r\n", b"PRI * HTTP/1.1\r\n\r\n", b"PUT"):
        with socket.create_connection((host, int(port)), 60) as plain:
            plain.sendall(raw + b" " * 30)
            while plain.recv(1000):
                pass
