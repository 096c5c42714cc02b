"""The blocking connection, and the view of a cluster through it. No Spark needed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from rocketmq_py.arrow.options.offsets import Bounds
from rocketmq_py.arrow.remoting.cluster import Cluster
from rocketmq_py.arrow.remoting.connection import connect
from rocketmq_py.errors import (
    ConnectError,
    ConnectionLost,
    CorruptFrame,
    NetworkError,
    NoRouteError,
    PermissionDenied,
    RequestTimeout,
)
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.base import NoHeader
from rocketmq_py.remoting.blocking import BlockingConnection
from rocketmq_py.wire.command import Command
from tests.unit.arrow.scripted import ScriptedPeer, answer, scripted

INFO = RequestCode.GET_BROKER_CLUSTER_INFO


@contextmanager
def connected(peer: ScriptedPeer, timeout: float = 5) -> Iterator[BlockingConnection]:
    connection = connect(peer.address, timeout)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def view(*namesrv: str) -> Iterator[Cluster]:
    cluster = Cluster(namesrv, 5, 0)
    try:
        yield cluster
    finally:
        cluster.close()


def offsets(request: Command) -> Command:
    """A broker whose queue i holds offsets i to 100 + i."""
    queue = int(request.ext["queueId"])
    return answer(offset=queue if request.code == RequestCode.GET_MIN_OFFSET else 100 + queue)


def test_an_unreachable_address_is_named() -> None:
    with scripted(offsets) as peer:
        pass
    with pytest.raises(ConnectError, match=rf"cannot connect to {peer.address}: .*refused"):
        connect(peer.address, 5)


def test_a_silent_peer_ends_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        connection = connect(f"127.0.0.1:{silent.getsockname()[1]}", 0.05)
        with pytest.raises(RequestTimeout, match=r"did not answer within 0\.05 s"):
            connection.call(INFO, NoHeader())
        with pytest.raises(ConnectionLost):  # a late answer must not meet a later request
            connection.call(INFO, NoHeader())


def test_a_closed_connection_raises() -> None:
    with (
        scripted(lambda _: None) as peer,
        connected(peer) as connection,
        pytest.raises(ConnectionLost, match=r"the peer closed it|is lost"),
    ):
        connection.call(INFO, NoHeader())


def test_another_protocol_raises() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        connection = connect(f"127.0.0.1:{other.getsockname()[1]}", 5)
        accepted, _ = other.accept()
        with accepted:
            accepted.sendall(b"HTTP/1.1 400 BadRecordPolicy Request\r\n\r\n")
            with pytest.raises(CorruptFrame, match="not a RocketMQ peer"):
                connection.call(INFO, NoHeader())
        connection.close()


def test_an_error_response_is_raised_with_its_remark() -> None:
    with (
        scripted(lambda _: answer(ResponseCode.NO_PERMISSION, remark="not you")) as peer,
        connected(peer) as connection,
        pytest.raises(PermissionDenied, match=f"code 16 from {peer.address}: not you"),
    ):
        connection.call(INFO, NoHeader())


def test_requests_of_the_broker_are_not_taken_for_answers() -> None:
    def asking(request: Command) -> Command:
        notice = answer(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
        notice.flag = 0
        return notice if len(peer.requests) == 1 else answer(remark="this one")

    with scripted(asking) as peer, connected(peer) as connection:
        connection.send([(INFO, {}, b"")])
        assert connection.call(INFO, NoHeader()).remark == "this one"


def test_a_cluster_view_has_queues_and_their_offsets() -> None:
    with scripted(offsets, queues=2) as peer, view(peer.address) as cluster:
        queues = cluster.readable(["t"])
        assert queues.addresses.keys() == {MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)}
        assert {addresses.all for addresses in queues.addresses.values()} == {(peer.address,)}
        assert list(cluster.bounds(queues).values()) == [Bounds(0, 100), Bounds(1, 101)]


def test_the_next_name_server_is_used_if_one_is_down() -> None:
    with scripted(offsets) as away:
        pass
    with scripted(offsets) as peer, view(away.address, peer.address) as cluster:
        assert cluster.readable(["t"]).addresses


def test_all_unreachable_name_servers_are_named() -> None:
    with scripted(offsets) as one, scripted(offsets) as two:
        pass
    with (
        view(one.address, two.address) as cluster,
        pytest.raises(NetworkError, match=f"check option namesrv: .*{one.address}.*{two.address}"),
    ):
        cluster.readable(["t"])


def test_a_slave_without_the_topic_is_retried() -> None:
    """Its master does not answer; the topic comes to the slave a moment after its messages."""
    lacks = iter([True, True])

    def late(request: Command) -> Command:
        if next(lacks, False):
            return answer(ResponseCode.TOPIC_NOT_EXIST, remark="not yet")
        return offsets(request)

    with scripted(offsets) as master:
        pass
    with scripted(late) as slave, closing(Cluster((slave.address,), 5, 5)) as cluster:
        slave.brokers[0].broker_addrs = {0: master.address, 1: slave.address}
        assert cluster.latest(cluster.readable(["t"])) == {MessageQueue("t", "broker-a", 0): 100}


def test_a_topic_without_readable_queues_is_named() -> None:
    with (
        scripted(offsets, queues=0) as peer,
        view(peer.address) as cluster,
        pytest.raises(NoRouteError, match="topic 't' has no queue to serve this"),
    ):
        cluster.readable(["t"])
