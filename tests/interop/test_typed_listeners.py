"""A body that does not fit is a dead letter at once, with the reason, on Java's broker and on ours."""

from __future__ import annotations

from typing import Any

import msgspec

from rocketmq_py import ConsumeFromWhere, NoRouteError, PushConsumer, arrow
from tests.interop.javapeer import JavaPeer
from tests.interop.side import Side, eventually, group


class Order(msgspec.Struct):
    number: int


def test_a_body_that_does_not_fit_is_a_dead_letter_with_the_reason(java: JavaPeer, side: Side) -> None:
    topic, name, seen = side.topic(java), group(), list[int]()
    java.produce(side.namesrv, topic, 3, body='{"number": {i}}')
    java.produce(side.namesrv, topic, 2, body="no order {i}", keys="k-{i}", tags="A")
    consumer = PushConsumer(name, side.namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET)

    @consumer.on(topic, type=Order)
    def take(order: Order) -> None:
        seen.append(order.number)

    def letters() -> list[dict[str, Any]]:
        try:
            found = arrow.read(f"%DLQ%{name}", namesrv=side.namesrv, columns=["body", "tags", "properties"]).read_all()
        except NoRouteError:
            return []
        return found.to_pylist()

    with consumer:
        found = eventually(letters, lambda rows: len(rows) == 2)
        eventually(lambda: sorted(seen), lambda numbers: numbers == [0, 1, 2])
    assert sorted(one["body"] for one in found) == [b"no order 0", b"no order 1"]
    for one in found:
        properties = dict(one["properties"])
        assert "the body is no Order" in properties["DLQ_REASON"]
        assert (properties["RETRY_TOPIC"], one["tags"]) == (topic, "A")
