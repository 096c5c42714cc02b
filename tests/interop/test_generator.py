"""The compiled load generator understands both brokers: every answer of theirs decoded whole, nothing is missing."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from benchmarks.control import Control
from benchmarks.drive import Generator, missing
from benchmarks.errors import BenchError
from benchmarks.loads import Load
from tests.interop.javapeer import JavaPeer
from tests.interop.side import Side, group

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
    pytest.mark.timeout(900),  # the first test compiles it
]

QUEUES, EACH, EVERY = 4, 32, 256
"""``EVERY``: messages of each queue."""


@pytest.fixture(scope="module")
def generator() -> Generator:
    return Generator.build("dev")


@pytest.fixture(scope="module", params=["ours", "java"])
def side(request: pytest.FixtureRequest) -> Side:
    """As everywhere, but a Java broker that refuses nothing because it is cold: here that would be an error."""
    if request.param == "ours":
        ours = request.getfixturevalue("our_server")
        return Side("ours", ours.namesrv, ours.broker)
    java: JavaPeer = request.getfixturevalue("java")
    broker = java.broker(java.namesrv().address, conf={"waitTimeMillsInSendQueue": 10_000})
    return Side("java", broker.namesrv, broker.address)


@pytest.fixture
def topic(side: Side) -> str:
    name = f"t-{uuid.uuid4().hex[:12]}"
    with Control(side.broker) as control:
        control.create_topic(name, QUEUES)
    return name


@pytest.fixture
def backlog(side: Side, generator: Generator, topic: str) -> str:
    """A topic whose queues have 256 messages each."""
    stored(side, generator, Load("send", 64, 4, topic=topic, queues=QUEUES), QUEUES * EVERY)
    return topic


def stored(side: Side, generator: Generator, load: Load, count: int) -> None:
    """Sends, decodes every answer, and compares the ends of the queues with what was sent."""
    driven = generator.drive(side.broker, load, count, verify=True)
    assert driven.messages == sum(driven.sent[0]) == count * load.messages_each
    with Control(side.broker) as control:
        control.expect_offsets(load.topic, driven.sent[0])


@pytest.mark.parametrize(("inflight", "connections"), [(1, 1), (256, 1), (1024, 64)])
@pytest.mark.parametrize("headers", ["json", "rocketmq"])
def test_sends(side: Side, generator: Generator, topic: str, inflight: int, connections: int, headers: str) -> None:
    load = Load("send", inflight, connections, topic=topic, queues=QUEUES, headers=headers)  # type: ignore[arg-type]
    stored(side, generator, load, 2 * inflight + 100)


def test_batches(side: Side, generator: Generator, topic: str) -> None:
    stored(side, generator, Load("batch", 16, topic=topic, queues=QUEUES, size=128, each=EACH), 100)


def test_pulls(side: Side, generator: Generator, backlog: str) -> None:
    load = Load("pull", QUEUES, topic=backlog, queues=QUEUES, each=EACH)
    for headers in ("json", "rocketmq"):
        driven = generator.drive(
            side.broker, replace(load, headers=headers), 3 * QUEUES * EVERY // EACH, until=EVERY, verify=True
        )
        assert driven.messages == 3 * QUEUES * EVERY
    with pytest.raises(BenchError, match="answered code"):
        generator.drive(side.broker, load, QUEUES * EVERY // EACH + 1, verify=True)


def test_pops_and_acks(side: Side, generator: Generator, backlog: str) -> None:
    load = Load("pop", QUEUES, topic=backlog, queues=QUEUES, each=EACH)
    name = group()
    driven = generator.drive(side.broker, load, QUEUES * EVERY // EACH, group=name, verify=True)
    assert driven.messages == QUEUES * EVERY
    with pytest.raises(BenchError, match="a pop of queue"):
        generator.drive(side.broker, load, 1, group=name)


def test_transactions_are_traced(side: Side, generator: Generator, topic: str) -> None:
    stored(side, generator, Load("transaction", 16, topic=topic, queues=QUEUES), 400)
