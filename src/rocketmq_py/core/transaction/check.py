"""The check of open half messages: whether to ask their producers, wait, or give up (TransactionalMessageServiceImpl).

A half message is open until its producer commits it or rolls it back. Times are arguments, in milliseconds.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from rocketmq_py.properties import Property


class CheckStep(enum.Enum):
    """The action of a check for one open half message; the values describe them."""

    CHECK = "store it again and ask a producer of its group"
    POSTPONE = "store it again without asking a producer"
    WAIT = "end this round: it and all that follow are too young"
    GIVE_UP = "move it to TRANS_CHECK_MAX_TIME_TOPIC"


class Rules(NamedTuple):
    """Broker settings for checks, times in milliseconds: transactionTimeOut, transactionCheckMax, fileReservedTime."""

    timeout_ms: int
    check_max: int
    reserved_ms: int


class HalfMessage(NamedTuple):
    """What a check needs of an open half message: its times, the number of earlier checks, and the value of property
    CHECK_IMMUNITY_TIME_IN_SECONDS (None without it).
    """

    born_ms: int
    stored_ms: int
    checks: int = 0
    immunity: str | None = None


def read_half_message(properties: Mapping[str, str], born_ms: int, stored_ms: int) -> HalfMessage:
    """Build a :class:`HalfMessage` from the properties and times of a stored half message."""
    checks = int_property(properties.get(Property.TRANSACTION_CHECK_TIMES))
    return HalfMessage(born_ms, stored_ms, max(0, checks), properties.get(Property.CHECK_IMMUNITY_TIME))


def decide_check(half: HalfMessage, rules: Rules, round_began_ms: int, now_ms: int) -> CheckStep:
    """Decide what a check does with an open half message.

    :param round_began_ms: start of the present round of checks; messages stored since then wait for the next round.
    """
    age = now_ms - half.born_ms
    if half.checks >= rules.check_max or age > rules.reserved_ms:
        return CheckStep.GIVE_UP
    if half.stored_ms >= round_began_ms:
        return CheckStep.WAIT
    if half.immunity is not None:
        return CheckStep.POSTPONE if age <= immunity_ms(half.immunity, rules.timeout_ms) else CheckStep.CHECK
    return CheckStep.WAIT if 0 <= age <= rules.timeout_ms else CheckStep.CHECK


def immunity_ms(text: str, timeout_ms: int) -> int:
    """Return the age in milliseconds that a half message must exceed before its producer is asked.

    :param text: value of its property CHECK_IMMUNITY_TIME_IN_SECONDS; -1 or an invalid value means ``timeout_ms``.
    """
    seconds = int_property(text)
    return timeout_ms if seconds == -1 else seconds * 1000


def is_too_late(properties: Mapping[str, str], born_ms: int, timeout_ms: int, now_ms: int) -> bool:
    """Return True if a broker must refuse a producer's commit or rollback as too late (ILLEGAL_OPERATION).

    That applies only to half messages with a check immunity time, once they are older than that and ``timeout_ms``.
    """
    text = properties.get(Property.CHECK_IMMUNITY_TIME)
    return bool(text) and now_ms - born_ms > max(timeout_ms, int_property(text) * 1000)


def int_property(text: str | None) -> int:
    """Parse the integer in a property; return -1 for None or any other text, as in Java."""
    try:
        return int(text) if text is not None else -1
    except ValueError:
        return -1
