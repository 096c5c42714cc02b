"""A broker is killed during pops: acked messages are done, all others are delivered."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketmq_py import ConsumeFromWhere, Message, MessageExt, Producer, RocketMQError, SimpleConsumer
from tests.interop.ours import OurServers

N = 400
TOPIC, GROUP = "popped", "poppers"
INVISIBLE_SECONDS = 10
WAIT_SECONDS = 240.0
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[OurServers]:
    ours = OurServers(tmp_path)
    yield ours
    ours.close()


def popping(namesrv: str) -> SimpleConsumer:
    consumer = SimpleConsumer(
        GROUP, namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET, invisible_duration=INVISIBLE_SECONDS
    )
    consumer.subscribe(TOPIC)
    return consumer


def produce(namesrv: str) -> set[str]:
    with Producer(group="p", namesrv=namesrv) as producer:
        return {producer.send(Message(TOPIC, b"%d" % i)).msg_id for i in range(N)}


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_no_message_is_lost_when_a_broker_is_killed_during_pops(
    servers: OurServers, tmp_path: Path, flush: str
) -> None:
    server = servers.serve(tmp_path / "store", flushDiskType=flush)
    sent = produce(server.namesrv)
    acked: set[str] = set()
    tried: set[str] = set()
    half, killed = threading.Event(), threading.Event()

    def consume() -> None:
        """Acks every other message until the broker is gone. An ack counts if its message was invisible that long."""
        with popping(server.namesrv) as consumer:
            try:
                while not killed.is_set():
                    began = time.monotonic()
                    done = consumer.receive(8, timeout=1)[::2]
                    tried.update(one.msg_id for one in done)
                    consumer.ack(done)
                    if time.monotonic() - began < INVISIBLE_SECONDS:
                        acked.update(one.msg_id for one in done)
                    if len(acked) >= N // 4:
                        half.set()
            except RocketMQError:
                return

    worker = threading.Thread(target=consume)
    worker.start()
    assert half.wait(WAIT_SECONDS)
    killed.set()
    server.kill()
    worker.join(WAIT_SECONDS)
    assert not worker.is_alive()

    again = servers.serve(tmp_path / "store", flushDiskType=flush)
    with popping(again.namesrv) as consumer:
        came: list[MessageExt] = []
        while {one.msg_id for one in came} < sent - tried:
            messages = consumer.receive(32, 60, WAIT_SECONDS)
            assert messages, "messages were lost"
            consumer.ack(messages)
            came += messages
        came += consumer.receive(32, 60, 0)
    ids = [one.msg_id for one in came]
    assert not acked.intersection(ids), "messages that were acked are delivered again"
    assert sorted(ids) == sorted(set(ids)), "messages are delivered twice"
    again.stop()
