"""What an error means to those who try again: whether it may help, and whether the route may be to blame."""

from __future__ import annotations

import pytest

from rocketmq_py import errors
from rocketmq_py.errors import BrokerError

RETRYABLE_CODES = {1, 2, 14, 17, 23, 24, 25, 27, 28, 215, 501, 1500}
OLD_ROUTE_CODES = {14, 17, 501, 1500}
NAMED_CODES = {
    1: errors.SystemError_, 2: errors.SystemBusy, 215: errors.SystemBusy, 3: errors.RequestNotSupported,
    10: errors.FlushTimeout, 11: errors.FlushTimeout, 12: errors.FlushTimeout, 13: errors.MessageRefused,
    29: errors.MessageRefused, 14: errors.ServiceNotAvailable, 1500: errors.ServiceNotAvailable,
    16: errors.PermissionDenied, 17: errors.TopicNotExist, 21: errors.OffsetMoved, 22: errors.NotFound,
    23: errors.SubscriptionError, 24: errors.SubscriptionError, 25: errors.SubscriptionError,
    27: errors.SubscriptionError, 28: errors.SubscriptionError, 26: errors.GroupNotExist, 501: errors.NotLeader,
    208: errors.InvalidReceipt, 206: errors.ConsumerNotOnline,
}  # fmt: skip
"""The codes of Apache RocketMQ's ResponseCode."""


@pytest.mark.parametrize("code", [*NAMED_CODES, 4, 999, 1502])
def test_a_response_code_says_what_may_help(code: int) -> None:
    error = BrokerError.of(code, "no", "b:1")
    assert type(error) is NAMED_CODES.get(code, BrokerError)
    assert error.code == code
    assert error.retryable is (code in RETRYABLE_CODES)
    assert error.refresh_route is (code in OLD_ROUTE_CODES)


@pytest.mark.parametrize(
    ("error", "retryable", "refresh_route"),
    [
        (errors.ConnectError, True, True),
        (errors.ConnectionLost, True, True),
        (errors.RequestTimeout, True, True),
        (errors.NoRouteError, True, True),
        (errors.TooManySends, True, False),
        (errors.StoreNotWritable, True, False),
        (errors.StoreCorrupt, False, False),
        (errors.ConfigError, False, False),
        (errors.ClosedError, False, False),
        (errors.CorruptFrame, False, False),
        (errors.BadHeader, False, False),
    ],
)
def test_an_error_of_our_own_says_what_may_help(
    error: type[errors.RocketMQError], retryable: bool, refresh_route: bool
) -> None:
    assert (error.retryable, error.refresh_route) == (retryable, refresh_route)


def test_a_long_text_is_cut_to_a_hundred_characters() -> None:
    assert errors.shortened("x" * 100) == "x" * 100
    assert errors.shortened("x" * 101) == "x" * 100 + "..."
    assert errors.shortened("abcd", 3) == "abc..."
