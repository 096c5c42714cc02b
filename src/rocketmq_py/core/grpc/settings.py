"""The settings of a client: what it sent, with what the server decides."""

from __future__ import annotations

from typing import Any

from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.grpc.definition import (
    CustomizedBackoff,
    Duration,
    ExponentialBackoff,
    Metric,
    Publishing,
    RetryPolicy,
    Settings,
)

import msgspec  # isort: skip

MAX_BODY_SIZE = 4 * 1024 * 1024
_PRODUCER_ATTEMPTS = 3
_SECONDS = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
_BATCH = 32
_POLLING_SECONDS = 20
_LITE_TOPIC_CHARACTERS = 64
_MAX_STEPS = 100


def merged_settings(sent: Settings, group: SubscriptionGroupConfig | None) -> Settings:
    """Return the settings with which a client has to work.

    :param group: the configuration of its consumer group; None for a producer.
    """
    merged = msgspec.structs.replace(sent, metric=Metric(on=False))  # present: older clients ignore settings without
    if sent.subscription is None or group is None:
        publishing = sent.publishing or Publishing()
        backoff = ExponentialBackoff(initial=Duration.of_ms(10), max=Duration.of_ms(1_000), multiplier=2.0)
        merged.backoff_policy = RetryPolicy(max_attempts=_PRODUCER_ATTEMPTS, exponential_backoff=backoff)
        merged.publishing = msgspec.structs.replace(publishing, max_body_size=MAX_BODY_SIZE, validate_message_type=True)
        return merged
    merged.backoff_policy = backoff_of(group)
    merged.subscription = msgspec.structs.replace(
        sent.subscription, fifo=group.consume_message_orderly, receive_batch_size=_BATCH,
        long_polling_timeout=Duration(seconds=_POLLING_SECONDS), max_lite_topic_size=_LITE_TOPIC_CHARACTERS,
    )  # fmt: skip
    return merged


def backoff_of(group: SubscriptionGroupConfig) -> RetryPolicy:
    """Return after which times the members of a group get a message again, and how often."""
    attempts = max(0, group.retry_max_times) + 1
    policy = group.group_retry_policy
    if policy.type == "EXPONENTIAL":
        told = policy.exponential_retry_policy
        backoff = ExponentialBackoff(
            initial=Duration.of_ms(_number(told, "initial", 5_000)),
            max=Duration.of_ms(_number(told, "max", 7_200_000)), multiplier=float(_number(told, "multiplier", 2)),
        )  # fmt: skip
        return RetryPolicy(max_attempts=attempts, exponential_backoff=backoff)
    told = policy.customized_retry_policy
    steps = told.get("next") if isinstance(told, dict) else None
    if not isinstance(steps, list) or not steps or not all(type(step) is int and step >= 0 for step in steps):
        steps = [seconds * 1_000 for seconds in _SECONDS]
    following = CustomizedBackoff(next=[Duration.of_ms(step) for step in steps[:_MAX_STEPS]])
    return RetryPolicy(max_attempts=attempts, customized_backoff=following)


def _number(told: Any, name: str, default: int) -> int:
    value = told.get(name) if isinstance(told, dict) else None
    return value if type(value) is int and value > 0 else default
