"""``rocketmq proxy`` as a process in front of a cluster: calls, signals, a cluster that is away, access control."""

import hmac
import signal
import socket
import ssl
import sys

import pytest

from rocketmq_py import Admin, Credentials
from rocketmq_py.protocol.grpc.definition import (
    Address,
    Broker,
    Duration,
    Endpoints,
    FilterExpression,
    Message,
    MessageQueue,
    Resource,
    SystemProperties,
)
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.service import (
    AckMessageEntry,
    AckMessageRequest,
    AckMessageResponse,
    QueryRouteRequest,
    QueryRouteResponse,
    ReceiveMessageRequest,
    ReceiveMessageResponse,
    SendMessageRequest,
    SendMessageResponse,
    StatusResponse,
)
from rocketmq_py.testing import Cluster
from tests.server.grpcpeer import GrpcPeer
from tests.server.test_serve import Served, serve

DATE = "20260101T000000Z"


def proxy(namesrv, *words):
    return Served("proxy", "--namesrv", namesrv, "--listen", "127.0.0.1:0", *words)


def message(topic, body):
    system = SystemProperties(message_id="0A", body_encoding=1, message_type=1)
    return Message(topic=Resource(name=topic), body=body, system_properties=system)


def sent(peer, topic, body=b"one"):
    request = SendMessageRequest(messages=[message(topic, body)])
    return peer.call("SendMessage", request, SendMessageResponse).status.code


def received(peer, topic, group, broker):
    request = ReceiveMessageRequest(
        group=Resource(name=group), batch_size=32, invisible_duration=Duration(seconds=30),
        filter_expression=FilterExpression(type=1, expression="*"), long_polling_timeout=Duration(seconds=20),
        message_queue=MessageQueue(topic=Resource(name=topic), id=-1, broker=Broker(name=broker)),
    )  # fmt: skip
    answers = peer.call_stream("ReceiveMessage", request, ReceiveMessageResponse)
    assert answers[0].status.code == Code.OK, answers[0].status
    return [answer.message for answer in answers if answer.message is not None]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.skipif(sys.platform == "win32", reason="signals end a process there")
def test_messages_go_and_come_until_a_signal(cluster: Cluster, topic, group, number):
    with proxy(cluster.namesrv) as served, GrpcPeer(served.addresses["proxy"]) as peer:
        host, port = served.addresses["proxy"].rsplit(":", 1)
        endpoints = Endpoints(scheme=1, addresses=[Address(host=host, port=int(port))])
        request = QueryRouteRequest(topic=Resource(name=topic), endpoints=endpoints)
        route = peer.call("QueryRoute", request, QueryRouteResponse)
        assert route.status.code == Code.OK
        [broker] = {queue.broker.name for queue in route.message_queues}
        assert all(queue.broker.endpoints == endpoints for queue in route.message_queues)
        peer.consume(topic, group)
        assert sent(peer, topic) == Code.OK
        [found] = received(peer, topic, group, broker)
        assert found.body == b"one"
        acks = AckMessageRequest(
            group=Resource(name=group), topic=Resource(name=topic),
            entries=[AckMessageEntry(receipt_handle=found.system_properties.receipt_handle)],
        )  # fmt: skip
        assert peer.call("AckMessage", acks, AckMessageResponse).status.code == Code.OK
        assert served.stop(number) == (0, ""), "with a connection and a telemetry stream that are open"


def test_one_port_takes_tls_and_plain_connections(cluster: Cluster, topic):
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    trusting.set_alpn_protocols(["h2"])
    with proxy(cluster.namesrv) as served, GrpcPeer(served.addresses["proxy"], tls=trusting) as peer:
        assert sent(peer, topic) == Code.OK
    with (
        proxy(cluster.namesrv, "--server-tls", "disabled") as served,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        GrpcPeer(served.addresses["proxy"], tls=trusting)


def test_without_a_name_server_calls_are_refused_until_there_is_one(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    with proxy(f"127.0.0.1:{port}") as served, GrpcPeer(served.addresses["proxy"]) as peer:
        request = QueryRouteRequest(topic=Resource(name="T"))
        refused = peer.call("QueryRoute", request, StatusResponse).status
        assert refused.code == Code.INTERNAL_SERVER_ERROR
        assert refused.message.startswith("the cluster cannot be asked: ")
        with Served("serve", "--store", tmp_path, "--port", 0, "--namesrv-port", port) as broker:
            with Admin(broker.addresses["namesrv"]) as admin:
                admin.create_topic("T", 1)
            assert sent(peer, "T") == Code.OK
        status, said = served.stop()
        assert status == 0
        assert "calls are refused until a name server answers" in said
        assert "Traceback" not in said


def test_users_of_the_cluster_are_checked_by_the_proxy(tmp_path, monkeypatch):
    inner = '{"accessKey":"proxy","secretKey":"secret"}'
    on = ("authenticationEnabled=true", "authorizationEnabled=true", f"innerClientAuthenticationCredentials={inner}")
    monkeypatch.setenv("ROCKETMQ_SECRET_KEY", "secret")
    with serve(tmp_path, *(word for pair in on for word in ("--set", pair))) as broker:
        namesrv = broker.addresses["namesrv"]
        _prepare(namesrv)
        with proxy(namesrv, "--access-key", "proxy") as served, GrpcPeer(served.addresses["proxy"]) as peer:
            request = QueryRouteRequest(topic=Resource(name="T"))
            signature = hmac.digest(b"of-ann", DATE.encode(), "sha1").hex()
            metadata = {
                "x-mq-date-time": DATE,
                "authorization": f"MQv2-HMAC-SHA1 Credential=ann, SignedHeaders=x-mq-date-time, Signature={signature}",
            }
            assert peer.status("QueryRoute", request) == Code.UNAUTHORIZED
            assert peer.status("QueryRoute", request, **metadata) == Code.OK
            other = QueryRouteRequest(topic=Resource(name="U"))
            assert peer.status("QueryRoute", other, **metadata) == Code.UNAUTHORIZED
            assert served.stop() == (0, "")


def _prepare(namesrv):
    with Admin(namesrv, credentials=Credentials("proxy", "secret")) as admin:
        for topic in ("T", "U"):
            admin.create_topic(topic, 1)
        admin.create_user("ann", "of-ann")
        admin.set_acl("ann", ["Topic:T"], ["Pub", "Sub"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--listen", "nowhere:x"), "--listen nowhere:x: HOST:PORT is expected"),
        (("--server-cert", "/no/such/file"), "/no/such/file"),
        (("--advertise", "proxy"), "'proxy' is not an address"),
    ],
)
def test_wrong_options_are_refused_in_one_line(cluster: Cluster, words, said):
    with proxy(cluster.namesrv, *words) as served:
        status, text = served.stop()
    assert status != 0
    assert said in text
    assert "Traceback" not in text


def test_a_port_that_is_taken_is_refused(cluster: Cluster):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with Served("proxy", "--namesrv", cluster.namesrv, "--listen", f"127.0.0.1:{port}") as served:
            status, text = served.stop()
    assert status != 0
    assert f"cannot listen on 127.0.0.1:{port}: another process listens there" in text


def test_a_broker_that_comes_back_is_used_again(tmp_path):
    with serve(tmp_path / "a") as broker:
        namesrv, address = broker.addresses["namesrv"], broker.addresses["broker"]
        with Admin(namesrv) as admin:
            admin.create_topic("T", 1)
        with Served("serve", "--store", tmp_path / "b", "--port", 0, "--name", "b", "--namesrv", namesrv) as second:
            with Admin(namesrv) as admin:
                admin.create_topic("U", 1)
            place = second.addresses["broker"]
            with proxy(namesrv) as served, GrpcPeer(served.addresses["proxy"]) as peer:
                assert {sent(peer, "U") for _ in range(4)} == {Code.OK}
                second.stop(signal.SIGKILL)
                codes = [sent(peer, "U") for _ in range(6)]
                assert codes.count(Code.OK) >= 5, "at most one call finds out"
                words = ("--store", tmp_path / "b", "--port", place.rpartition(":")[2], "--name", "b")
                with Served("serve", *words, "--namesrv", namesrv) as again:
                    assert again.addresses["broker"] == place
                    peer.consume("U", "g")
                    assert received(peer, "U", "g", "b")
                assert received(peer, "U", "g", broker_named(address, namesrv))
                status, said = served.stop()
                assert (status, "Traceback" in said) == (0, False)


def broker_named(address, namesrv):
    with Admin(namesrv) as admin:
        table = admin.cluster().broker_addr_table
    return next(name for name, data in table.items() if address in data.broker_addrs.values())
