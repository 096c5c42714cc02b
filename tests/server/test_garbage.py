"""A closed connection is freed without a collection of garbage: servers freeze what has survived a long one."""

from __future__ import annotations

import gc
import time

import pytest

from rocketmq_py.protocol.bodies.client import ConsumerData, HeartbeatData, SubscriptionData
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.pull import PullMessage
from rocketmq_py.protocol.headers.send import SendMessageV2
from rocketmq_py.server.connection import ServerConnection
from rocketmq_py.testing import Cluster
from rocketmq_py.wire.command import Command, encode_command
from tests.server.rawpeer import RawPeer

SECONDS = 240.0
UNKNOWN_CODE = 9_999
CLIENTS = 20


def live(address: str, number: int) -> None:
    """A client's whole life: it joins a group, sends, leaves a pull waiting and is cut off."""
    subscription = SubscriptionData(topic="T")
    group = ConsumerData(group_name="g", subscription_data_set=[subscription])
    beat = HeartbeatData(client_id=f"client-{number}", consumer_data_set=[group])
    send = SendMessageV2(
        producer_group="p", topic="T", default_topic="TBW102", default_topic_queue_nums=1, queue_id=0, sys_flag=0,
        born_timestamp=1, flag=0, properties="",
    )  # fmt: skip
    pull = PullMessage(
        consumer_group="g", topic="T", queue_id=1, queue_offset=0, max_msg_nums=32, sys_flag=6, commit_offset=0,
        suspend_timeout_millis=600_000, sub_version=0, subscription="*",
    )  # fmt: skip
    with RawPeer(address) as peer:
        peer.send(encode_command(Command(Code.HEART_BEAT, opaque=1, body=beat.encode())))
        peer.send(encode_command(Command(Code.SEND_MESSAGE_V2, opaque=2, ext=send.to_ext(), body=b"x")))
        peer.send(encode_command(Command(Code.PULL_MESSAGE, opaque=3, ext=pull.to_ext())))
        peer.send(encode_command(Command(UNKNOWN_CODE, opaque=4)))
        while peer.receive().opaque != 4:
            pass


@pytest.fixture
def cluster() -> Cluster:
    with Cluster() as running:
        running.create_topic("T", 2)
        yield running


def test_connections_leave_no_cycles(cluster: Cluster) -> None:
    others = _connections()  # that other tests of this process have left
    for number in range(3):
        live(cluster.addresses[0], number)
    _wait_until_gone(others)
    gc.collect()
    gc.disable()
    try:
        for number in range(CLIENTS):
            live(cluster.addresses[0], 100 + number)
        _wait_until_gone(others)
    finally:
        gc.enable()


def _wait_until_gone(others: list[ServerConnection]) -> None:
    """All connections of ``live`` are freed; what stays open are the broker's and the name server's own."""
    deadline = time.monotonic() + SECONDS
    while (left := _closed(others)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert left == 0


def _connections() -> list[ServerConnection]:
    return [found for found in gc.get_objects() if type(found) is ServerConnection]


def _closed(others: list[ServerConnection]) -> int:
    known = set(map(id, others))
    return sum(found.peer.closed for found in _connections() if id(found) not in known)
