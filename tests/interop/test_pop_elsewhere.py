"""A Java slave acts for our master and writes its checkpoints to our other master, which revives unacked messages.

The slave has no revive log of its own to write to, so what it notes lies at a broker of another name, which has other
messages in the same place.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from rocketmq_py import Admin
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.pop import AckMessage
from rocketmq_py.protocol.headers.topic import TopicName
from rocketmq_py.wire.record import decode_records
from tests.interop.javapeer import JavaPeer, options
from tests.interop.ours import OurServer, OurServers
from tests.interop.side import eventually
from tests.interop.test_acting_sides import ACTING, NAMESRV, ask, end_of, equals
from tests.unit.broker.pop.pop_client import Popped, popped
from tests.unit.broker.requests import pop, pull, send

pytestmark = pytest.mark.long

TOPIC, GROUP = "orders", "poppers"
BACK = f"%RETRY%{GROUP}_{TOPIC}"
N = 4
INVISIBLE_MS = 5_000


class Stage(NamedTuple):
    """The slave acts for the master, which is gone; ``other`` is our master of another name."""

    slave: str
    other: OurServer


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    JavaPeer.build()
    java, servers = JavaPeer(tmp_path), OurServers(tmp_path)
    try:
        namesrv = servers.namesrv(**NAMESRV).namesrv
        master = servers.serve(None, "--namesrv", namesrv, **ACTING)
        other = servers.serve(None, "--namesrv", namesrv, *options(name="broker-b"), **ACTING)
        with Admin(namesrv, timeout=60) as admin:
            admin.create_topic(TOPIC, 1)
            admin.create_group(GROUP)
        for number in range(N):
            for address, body in ((master.broker, b"%d"), (other.broker, b"another %d")):
                assert ask(address, Code.SEND_MESSAGE_V2, send(TOPIC), body % number).code == 0
        slave = java.broker(namesrv, role="SLAVE", id=1, conf=ACTING).address
        eventually(lambda: ask(slave, Code.GET_TOPIC_CONFIG, TopicName(topic=TOPIC)).code, equals(0))
        eventually(lambda: end_of(slave, TOPIC), equals(N))
        master.kill()
        yield Stage(slave, other)
    finally:
        java.close()
        servers.close()


def pop_at(slave: str) -> list[Popped]:
    asked = pop(TOPIC, consumer_group=GROUP, max_msg_nums=N, invisible_time=INVISIBLE_MS,
                born_time=time.time_ns() // 1_000_000)  # fmt: skip
    answer = ask(slave, Code.POP_MESSAGE, asked)
    return popped(answer) if answer.code == 0 else []


def back(other: str) -> list[bytes]:
    """What has come back to the group at our other master."""
    asked = pull(BACK, 0, consumer_group=GROUP, suspend_timeout_millis=0)
    answer = ask(other, Code.PULL_MESSAGE, asked)
    return [message.body for message in decode_records(answer.body)] if answer.body else []


def test_pops_of_a_java_slave_are_revived_at_another_master(stage: Stage) -> None:
    slave, other = stage
    taken = eventually(lambda: pop_at(slave), bool)
    assert [one.body for one in taken] == [b"%d" % number for number in range(N)]
    done = taken[1]
    header = AckMessage(consumer_group=GROUP, topic=TOPIC, queue_id=0, extra_info=done.handle.encode(), offset=1)
    assert ask(slave, Code.ACK_MESSAGE, header).code == 0
    assert eventually(lambda: back(other.broker), lambda bodies: len(bodies) >= N - 1) == [b"0", b"2", b"3"]
