"""Listeners of values: every kind of consumer decodes bodies, and what does not fit is a dead letter with a reason."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from rocketmq_py import (
    Admin,
    ConfigError,
    ConsumeFromWhere,
    Message,
    MessageExt,
    MessageModel,
    NoRouteError,
    Producer,
    PushConsumer,
    aio,
    arrow,
)
from rocketmq_py.serde import Avro, SchemaRegistry
from rocketmq_py.testing import Cluster
from tests.schema_registry import schema_server
from tests.server.cli import eventually

FIRST = ConsumeFromWhere.FIRST_OFFSET
BODIES = [b'{"number": 1}', b"no order", b'{"number": 2}', b'{"number": "\x01"}', b'{"number": 3}']
_numbers = itertools.count(1)


class Order(msgspec.Struct):
    number: int


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster) -> str:
    topic = cluster.create_topic(f"typed-{next(_numbers)}", 1)
    with Producer("sender", cluster.namesrv) as producer:
        for body in BODIES:
            producer.send(Message(topic, body, keys="k"))
    return topic


def letters(cluster: Cluster, group: str, count: int) -> list[dict[str, Any]]:
    """The dead letters of a group, once there are ``count``."""

    def look() -> list[dict[str, Any]]:
        try:
            names = ["body", "keys", "properties"]
            found = arrow.read(f"%DLQ%{group}", namesrv=cluster.namesrv, columns=names).read_all()
        except NoRouteError:
            return []
        return [{**row, "properties": dict(row["properties"])} for row in found.to_pylist()]

    return eventually(look, lambda found: len(found) >= count)


def check_letters(cluster: Cluster, group: str, topic: str) -> None:
    found = letters(cluster, group, 2)
    assert sorted(one["body"] for one in found) == sorted([BODIES[1], BODIES[3]])
    for one in found:
        assert "the body is no Order" in one["properties"]["DLQ_REASON"]
        assert one["properties"]["RETRY_TOPIC"] == topic
        assert one["keys"] == "k"


@pytest.mark.parametrize(
    "options", [{}, {"orderly": True}, {"client_rebalance": False}], ids=["concurrent", "orderly", "pop"]
)
def test_threads_get_values(cluster: Cluster, topic: str, options: dict[str, Any]) -> None:
    group, seen = f"group-{next(_numbers)}", list[tuple[int, str]]()
    if "client_rebalance" in options:
        with Admin(cluster.namesrv) as admin:
            admin.set_request_mode(group, topic, "POP")
    consumer = PushConsumer(group, cluster.namesrv, consume_from=FIRST, **options)

    @consumer.on(topic, type=Order)
    def take(order: Order, message: MessageExt) -> None:
        seen.append((order.number, message.topic))

    with consumer:
        eventually(lambda: len(seen) >= 3)
        check_letters(cluster, group, topic)
    assert sorted(seen) == [(1, topic), (2, topic), (3, topic)]


def test_coroutines_get_values(cluster: Cluster, topic: str) -> None:
    group, seen = f"group-{next(_numbers)}", list[int]()

    async def main() -> None:
        consumer = aio.PushConsumer(group, cluster.namesrv, consume_from=FIRST)

        @consumer.on(topic, type=Order)
        async def take(order: Order) -> None:
            seen.append(order.number)

        async with consumer:
            await asyncio.to_thread(lambda: eventually(lambda: len(seen) >= 3))
            await asyncio.to_thread(check_letters, cluster, group, topic)

    asyncio.run(main())
    assert sorted(seen) == [1, 2, 3]


def test_a_broadcasting_consumer_drops_what_does_not_fit(
    cluster: Cluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen = list[int]()
    consumer = PushConsumer(
        f"group-{uuid.uuid4()}", cluster.namesrv, consume_from=FIRST, message_model=MessageModel.BROADCASTING
    )

    @consumer.on(topic, type=Order)
    def take(order: Order) -> None:
        seen.append(order.number)

    with consumer:
        eventually(lambda: len(seen) >= 3)
        eventually(lambda: caplog.text.count("is dropped, group") >= 2)
    assert "the body is no Order" in caplog.text


def test_a_registry_that_is_away_makes_no_dead_letter(cluster: Cluster) -> None:
    schema = {"type": "record", "name": "Order", "fields": [{"name": "number", "type": "long"}]}
    topic, group, seen = cluster.create_topic(f"typed-{next(_numbers)}", 1), f"group-{next(_numbers)}", list[Any]()
    with schema_server() as server:
        serde = Avro(schema, SchemaRegistry(server.url, **{"max.retries": 0}))
        body = serde.encode({"number": 7}, topic)
        with Producer("sender", cluster.namesrv) as producer:
            producer.send(Message(topic, body))
        reader = PushConsumer(group, cluster.namesrv, consume_from=FIRST)
        reader.on(topic, type=Avro(schema, SchemaRegistry(server.url)))(seen.append)
        with reader:
            eventually(lambda: seen == [{"number": 7}])
    tries = list[int]()

    class Counting(Avro):
        def decode(self, body: bytes) -> Any:
            tries.append(1)
            return super().decode(body)

    away = f"{group}-away"
    reader = PushConsumer(away, cluster.namesrv, consume_from=FIRST, orderly=True, suspend_seconds=0.1)
    reader.on(topic, type=Counting(schema, SchemaRegistry(server.url, **{"max.retries": 0})))(seen.append)
    with reader:
        eventually(lambda: len(tries) >= 3)
    assert seen == [{"number": 7}]
    assert letters(cluster, away, 0) == []


def test_wrong_listeners_and_types_are_refused(cluster: Cluster) -> None:
    consumer = PushConsumer("refused", cluster.namesrv)
    with pytest.raises(ConfigError, match=r"listener\(value\) or listener\(value, message\)"):
        consumer.on("t", type=Order)(lambda: None)
    with pytest.raises(ConfigError, match=r"listener\(value\) or listener\(value, message\)"):
        consumer.on("t", type=Order)(lambda a, b, c: None)
    with pytest.raises(ConfigError, match="cannot be read from JSON"):
        consumer.on("t", type=3)(lambda a: None)  # type: ignore[arg-type]
