from __future__ import annotations

import pytest

from rocketmq_py.core.grpc.settings import backoff_of, merged_settings
from rocketmq_py.protocol.bodies.group import GroupRetryPolicy, SubscriptionGroupConfig
from rocketmq_py.protocol.grpc.definition import (
    Duration,
    ExponentialBackoff,
    Publishing,
    Resource,
    Settings,
    Subscription,
)


def test_a_producer_gets_the_limits_of_the_server() -> None:
    sent = Settings(
        client_type=1, publishing=Publishing(topics=[Resource(name="t")]), request_timeout=Duration(seconds=3)
    )
    merged = merged_settings(sent, None)
    assert merged.publishing == Publishing(
        topics=[Resource(name="t")], max_body_size=4_194_304, validate_message_type=True
    )
    assert merged.backoff_policy is not None
    assert merged.backoff_policy.max_attempts == 3
    assert merged.backoff_policy.exponential_backoff == ExponentialBackoff(
        initial=Duration(nanos=10_000_000), max=Duration(seconds=1), multiplier=2.0
    )
    assert merged.metric is not None
    assert not merged.metric.on
    assert merged.request_timeout == Duration(seconds=3)
    assert sent.metric is None


def test_a_consumer_gets_the_policy_of_its_group() -> None:
    group = SubscriptionGroupConfig(group_name="g", consume_message_orderly=True, retry_max_times=3)
    merged = merged_settings(Settings(subscription=Subscription(group=Resource(name="g"))), group)
    subscription = merged.subscription
    assert subscription is not None
    assert subscription.fifo is True
    assert (subscription.receive_batch_size, subscription.long_polling_timeout) == (32, Duration(seconds=20))
    assert merged.publishing is None
    policy = merged.backoff_policy
    assert policy is not None
    assert policy.customized_backoff is not None
    assert policy.max_attempts == 4
    steps = [step.ms // 1000 for step in policy.customized_backoff.next]
    assert (len(steps), steps[:5], steps[-1]) == (18, [1, 5, 10, 30, 60], 7200)


@pytest.mark.parametrize(
    ("told", "steps"),
    [
        ({"next": [100, 2_500]}, [100, 2_500]),
        ({"next": []}, None),
        ({"next": [-1]}, None),
        ({"next": "x"}, None),
        ("x", None),
        ({"next": [True]}, None),
    ],
)
def test_a_group_may_have_steps_of_its_own(told: object, steps: list[int] | None) -> None:
    policy = backoff_of(SubscriptionGroupConfig(
        group_name="g", group_retry_policy=GroupRetryPolicy(customized_retry_policy=told)
    ))  # fmt: skip
    assert policy.customized_backoff is not None
    found = [step.ms for step in policy.customized_backoff.next]
    assert found == steps if steps else len(found) == 18


def test_a_group_may_wait_exponentially() -> None:
    told = {"initial": 2_000, "max": 9_000, "multiplier": 3}
    for given, expected in (
        (told, (2_000, 9_000, 3.0)),
        ({}, (5_000, 7_200_000, 2.0)),
        ({"initial": "x"}, (5_000, 7_200_000, 2.0)),
    ):
        backoff = backoff_of(SubscriptionGroupConfig(
            group_name="g", retry_max_times=-5,
            group_retry_policy=GroupRetryPolicy(type="EXPONENTIAL", exponential_retry_policy=given),
        ))  # fmt: skip
        assert backoff.max_attempts == 1
        exponential = backoff.exponential_backoff
        assert exponential is not None
        assert exponential.initial is not None
        assert exponential.max is not None
        assert (exponential.initial.ms, exponential.max.ms, exponential.multiplier) == expected
