"""Several pulls of a queue in flight, at both brokers: each message once, in order, with all filters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from rocketmq_py import ConsumeFromWhere, LitePullConsumer, Message, Producer, PushConsumer
from rocketmq_py.testing import TcpProxy
from tests.interop.javapeer import JavaPeer
from tests.interop.side import WAIT_SECONDS, Inbox, Seen, Side, group

COUNT = 3000
FIRST = ConsumeFromWhere.FIRST_OFFSET


@pytest.fixture(scope="module")
def topic(java: JavaPeer, side: Side) -> str:
    """A topic of two queues; every tenth message has the tag ``tenth``."""
    name = side.topic(java, queues=2)
    with Producer(group(), side.namesrv, send_timeout=30) as producer:
        for start in range(0, COUNT, 100):
            producer.send_batch(
                Message(name, b"%d" % at, tags="tenth" if at % 10 == 0 else "other", properties={"at": str(at)})
                for at in range(start, start + 100)
            )
    return name


@pytest.fixture(scope="module")
def far(side: Side) -> Iterator[dict[str, str]]:
    """The address map of clients that are 10 ms away from the broker."""
    with TcpProxy(side.broker, delay=0.005) as proxy:
        yield {side.broker: proxy.address}


def wanted(tags: str) -> set[bytes]:
    return {b"%d" % at for at in range(0, COUNT, 10 if tags == "tenth" else 1)}


def check(seen: list[Seen], tags: str, *, ordered: bool) -> None:
    assert Counter(one.body for one in seen) == Counter(wanted(tags))
    if ordered:
        for queue in (0, 1):
            offsets = [one.offset for one in seen if one.queue == queue]
            assert offsets == sorted(offsets)


@pytest.mark.parametrize("tags", ["*", "tenth"])
@pytest.mark.parametrize("in_flight", ["auto", 8])
@pytest.mark.parametrize("orderly", [False, True])
def test_push(side: Side, topic: str, far: dict[str, str], tags: str, in_flight: str | int, orderly: bool) -> None:
    inbox = Inbox()
    with PushConsumer(
        group(), side.namesrv, consume_from=FIRST, pulls_in_flight=in_flight, orderly=orderly, address_map=far
    ) as consumer:  # type: ignore[arg-type]
        consumer.subscribe(topic, tags, inbox)
        consumer.start()
        seen = list(inbox.wait(len(wanted(tags))))
    check(seen, tags, ordered=orderly)


@pytest.mark.parametrize("tags", ["*", "tenth"])
def test_lite_pull_commits_and_continues(side: Side, topic: str, far: dict[str, str], tags: str) -> None:
    name, seen = group(), list[Seen]()
    for half in (len(wanted(tags)) // 2, len(wanted(tags))):
        with LitePullConsumer(
            name, side.namesrv, consume_from=FIRST, pulls_in_flight="auto", address_map=far, auto_commit=False
        ) as consumer:
            consumer.subscribe(topic, tags)
            while len(seen) < half:
                found = consumer.poll(WAIT_SECONDS)
                assert found
                seen += map(Seen.of_ours, found)
            consumer.commit()
    check(seen, tags, ordered=True)
