"""Members of bodies that a peer leaves out."""

from __future__ import annotations

import msgspec
import pytest

from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from tests.unit.protocol.defaults import defaults


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (
            SubscriptionGroupConfig,
            {
                "consumeEnable": True,
                "consumeFromMinEnable": True,
                "consumeBroadcastEnable": True,
                "consumeMessageOrderly": False,
                "retryQueueNums": 1,
                "retryMaxTimes": 16,
                "brokerId": 0,
                "whichBrokerWhenConsumeSlowly": 1,
                "notifyConsumerIdsChangedEnable": True,
                "groupSysFlag": 0,
                "consumeTimeoutMinute": 15,
            },
        ),
    ],
)
def test_numbers_and_flags_that_are_missing(cls: type[msgspec.Struct], expected: dict[str, float]) -> None:
    assert defaults(cls) == expected


def test_nulls_in_members_without_a_declared_type_are_left_out_as_java_does() -> None:
    body = b'{"groupName":"g","groupRetryPolicy":{"customizedRetryPolicy":{"next":[{"a":null}],"more":null}}}'
    group = SubscriptionGroupConfig.decode(body)
    assert group.group_retry_policy.customized_retry_policy == {"next": [{}]}
