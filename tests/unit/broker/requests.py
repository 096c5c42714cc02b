"""Builds requests: tests give the fields that matter, the others have a plain client's values."""

from __future__ import annotations

from typing import Any

from rocketmq_py.broker.records.message_properties import encode
from rocketmq_py.protocol.bodies.client import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from rocketmq_py.protocol.headers.pop import PopMessage
from rocketmq_py.protocol.headers.pull import PullMessage
from rocketmq_py.protocol.headers.send import SendMessageV2

LONG_AGO = 1_600_000_000_000


def send(topic: str = "t", queue_id: int = 0, properties: dict[str, str] | None = None, **more: Any) -> SendMessageV2:
    wanted: dict[str, Any] = {
        "producer_group": "p", "default_topic": "TBW102", "default_topic_queue_nums": 4, "sys_flag": 0,
        "born_timestamp": LONG_AGO, "flag": 0, "properties": encode(properties or {"WAIT": "true"}),
    }  # fmt: skip
    return SendMessageV2(topic=topic, queue_id=queue_id, **wanted | more)


def pull(topic: str = "t", offset: int = 0, queue_id: int = 0, **more: Any) -> PullMessage:
    """A pull that brings its own subscription to everything and does not wait."""
    wanted: dict[str, Any] = {
        "consumer_group": "g", "max_msg_nums": 32, "sys_flag": 4, "commit_offset": 0, "suspend_timeout_millis": 15_000,
        "sub_version": 0, "subscription": "*",
    }  # fmt: skip
    return PullMessage(topic=topic, queue_id=queue_id, queue_offset=offset, **wanted | more)


def pop(topic: str = "t", queue_id: int = -1, **more: Any) -> PopMessage:
    """A pop from any queue, from the first message on, that does not wait."""
    wanted: dict[str, Any] = {
        "consumer_group": "g", "max_msg_nums": 32, "invisible_time": 60_000, "poll_time": 0, "init_mode": 0,
    }  # fmt: skip
    return PopMessage(topic=topic, queue_id=queue_id, **wanted | more)


def heartbeat(
    client_id: str = "me", group: str | None = "g", producer: str | None = None, version: int = 1, **topics: str
) -> bytes:
    """``topics`` are topics and their tag expressions."""
    subscriptions = [SubscriptionData.parse(topic, expression, version) for topic, expression in topics.items()]
    return HeartbeatData(
        client_id=client_id,
        consumer_data_set=[ConsumerData(group_name=group, subscription_data_set=subscriptions)] if group else [],
        producer_data_set=[ProducerData(group_name=producer)] if producer else [],
    ).encode()
