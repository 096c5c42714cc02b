"""Admin against our own broker: brokers, topics, groups and messages."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest

from rocketmq_py import (
    Admin,
    BrokerError,
    ConfigError,
    Message,
    MessageQueue,
    NoRouteError,
    Producer,
    PushConsumer,
    aio,
)
from rocketmq_py.client.admin.topics import changes
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.testing import Cluster
from rocketmq_py.wire.command import Command

T = TypeVar("T")


@pytest.fixture
def admin(rocketmq: Cluster) -> Iterator[Admin]:
    with Admin(rocketmq.namesrv) as running:
        yield running


@pytest.fixture
def producer(rocketmq: Cluster) -> Iterator[Producer]:
    with Producer("admin-test", rocketmq.namesrv) as running:
        yield running


def eventually(look: Callable[[], T]) -> T:
    """What is there once the index has caught up."""
    deadline = time.monotonic() + 30
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def group_name() -> str:
    return f"g-{uuid.uuid4().hex[:12]}"


def fill(producer: Producer, topic: str, count: int, queue_id: int = 0, **named: Any) -> list[str]:
    queue = MessageQueue(topic, "broker-a", queue_id)
    return [producer.send(Message(topic, b"%d" % i, **named), queue).msg_id for i in range(count)]


# -- brokers and topics


def test_a_broker_returns_its_state_and_settings(rocketmq: Cluster, admin: Admin) -> None:
    address = rocketmq.addresses[0]
    assert admin.broker_state(address)["brokerActive"] == "true"
    assert admin.broker_config(address)["brokerName"] == "broker-a"


def test_a_topic_is_described(admin: Admin, producer: Producer) -> None:
    topic = f"t-{uuid.uuid4().hex}"
    admin.create_topic(topic, 2, attributes={"message.type": "FIFO"}, brokers=["broker-a"])
    fill(producer, topic, 3, queue_id=1)
    (config,) = admin.topic_config(topic).values()
    assert (config.read_queue_nums, config.attributes) == (2, {"message.type": "FIFO"})
    assert admin.topic_configs()[topic]["broker-a"] == config
    extents = {queue.queue_id: (e.min_offset, e.max_offset) for queue, e in admin.topic_stats(topic).items()}
    assert extents == {0: (0, 0), 1: (0, 3)}
    admin.create_topic(topic, 2, attributes={"message.type": None})
    assert admin.topic_config(topic)["broker-a"].attributes == {}


def test_attributes_are_sent_with_their_operation() -> None:
    assert changes({"message.type": "FIFO", "x": None}) == "+message.type=FIFO,-x"


def test_unknown_names_raise(admin: Admin) -> None:
    for ask in (admin.topic_config, admin.topic_stats, admin.topic_groups):
        with pytest.raises(NoRouteError, match="no-such-topic"):
            ask("no-such-topic")
    with pytest.raises(ConfigError, match=r"no broker broker-z is registered .* known there: broker-a"):
        admin.create_topic("t", brokers=["broker-z"])


# -- groups


def test_groups_and_their_members_are_returned(
    rocketmq: Cluster, rocketmq_topic: str, admin: Admin, producer: Producer
) -> None:
    group = group_name()
    admin.create_group(group, retry_max_times=3)
    assert admin.groups()[group]["broker-a"].retry_max_times == 3
    assert admin.members(group) is None
    assert admin.topic_groups(rocketmq_topic) == []
    with PushConsumer(group, rocketmq.namesrv) as consumer:
        consumer.on(rocketmq_topic)(lambda _: None)
        consumer.start()
        found = admin.members(group)
        assert found is not None
        assert len(found.connection_set) == 1
        assert rocketmq_topic in found.subscription_table
        assert admin.topic_groups(rocketmq_topic) == [group]
    assert admin.members(group) is None


def test_the_progress_of_a_group_is_returned_and_reset(rocketmq_topic: str, admin: Admin, producer: Producer) -> None:
    group, queue = group_name(), MessageQueue(rocketmq_topic, "broker-a", 0)
    admin.create_group(group)
    fill(producer, rocketmq_topic, 5)
    assert admin.progress(group) == {}
    assert admin.progress(group, rocketmq_topic)[queue].consumer_offset == 0
    assert admin.reset_group_offset(group, queue, 3) == 3
    state = admin.progress(group)[queue]
    assert (state.broker_offset, state.consumer_offset) == (5, 3)
    assert admin.group_topics(group) == [rocketmq_topic]
    with pytest.raises(BrokerError, match="not in consume queue range"):
        admin.reset_group_offset(group, queue, 99)
    with pytest.raises(BrokerError, match="does not exist"):
        admin.reset_group_offset("no-such-group", queue, 0)


def test_an_old_broker_cannot_reset_a_single_queue(rocketmq_topic: str, rocketmq: Cluster) -> None:
    asked: list[int] = []

    class Old(aio.Admin):
        async def _ask_owner(self, queue: MessageQueue, code: RequestCode, header: Any, body: bytes = b"") -> Command:
            asked.append(code)
            answer = await super()._ask_owner(queue, code, header, body)
            answer.version = 399
            return answer

    async def main() -> None:
        async with Old(rocketmq.namesrv) as admin:
            with pytest.raises(ConfigError, match=r"version V4_9_3: setting a group back needs 5.0"):
                await admin.reset_group_offset("g", MessageQueue(rocketmq_topic, "broker-a", 0), 0)

    asyncio.run(main())
    assert asked == [RequestCode.GET_MAX_OFFSET]


# -- messages


def test_a_message_is_found_by_ids_and_keys(rocketmq_topic: str, admin: Admin, producer: Producer) -> None:
    sent = producer.send(Message(rocketmq_topic, b"found", tags="a", keys="k1 k2"))
    message = admin.message(sent.offset_msg_id)
    assert (message.body, message.queue, message.msg_id) == (b"found", sent.queue, sent.msg_id)
    assert [one.body for one in eventually(lambda: admin.messages_by_key(rocketmq_topic, "k2"))] == [b"found"]
    assert [one.body for one in admin.messages_by_key(rocketmq_topic, sent.msg_id, unique=True)] == [b"found"]
    assert admin.messages_by_key(rocketmq_topic, "k1", unique=True) == []
    assert admin.messages_by_key(rocketmq_topic, "k3") == []
    assert admin.messages_by_key(rocketmq_topic, "k1", end_ms=1) == []


def test_an_id_of_another_cluster_is_refused(admin: Admin) -> None:
    with pytest.raises(ConfigError, match=r"no broker is registered at 10.0.0.1:10911"):
        admin.message("0A00000100002A9F0000000000000000")
    with pytest.raises(ConfigError, match="not an offset message id"):
        admin.message("order-1")


def test_a_queue_is_read_without_being_consumed(rocketmq_topic: str, admin: Admin, producer: Producer) -> None:
    queue = MessageQueue(rocketmq_topic, "broker-a", 0)
    fill(producer, rocketmq_topic, 70, tags="a")
    fill(producer, rocketmq_topic, 2, tags="b")
    assert [message.queue_offset for message in admin.read(queue)] == list(range(72))
    assert [message.queue_offset for message in admin.read(queue, 5, 9)] == [5, 6, 7, 8]
    assert [message.queue_offset for message in admin.read(queue, tags="b || c")] == [70, 71]
    pulled = admin.pull(queue, 70, tags="a")
    assert (pulled.messages, pulled.next_offset, pulled.max_offset) == ([], 72, 72)
    assert admin.pull(queue, 1000).next_offset == 72
    assert list(admin.read(MessageQueue(rocketmq_topic, "broker-a", 1))) == []
    assert admin.topic_groups(rocketmq_topic) == []


def test_the_newest_messages_of_a_topic_are_returned(rocketmq_topic: str, admin: Admin, producer: Producer) -> None:
    for i in range(90):
        producer.send(Message(rocketmq_topic, b"%d" % i, tags="rare" if i % 40 == 0 else "often"))
    found, ends = admin.newest(rocketmq_topic, 3)
    assert [message.body for message in found] == [b"87", b"88", b"89"]
    assert sum(ends.values()) == 90
    assert [message.body for message in admin.newest(rocketmq_topic, 2, tags="rare")[0]] == [b"40", b"80"]
    assert len(admin.newest(rocketmq_topic, 9, tags="rare")[0]) == 3
    assert admin.newest(rocketmq_topic, 0)[0] == []


def test_a_pull_waits_for_a_message(rocketmq: Cluster, rocketmq_topic: str) -> None:
    queue = MessageQueue(rocketmq_topic, "broker-a", 0)

    async def main() -> None:
        async with aio.Admin(rocketmq.namesrv) as admin, aio.Producer("p", rocketmq.namesrv) as producer:
            waiting: Awaitable[Any] = asyncio.ensure_future(admin.pull(queue, 0, wait=30))
            await producer.send(Message(rocketmq_topic, b"at last"), queue)
            assert [message.body for message in (await waiting).messages] == [b"at last"]

    asyncio.run(main())
