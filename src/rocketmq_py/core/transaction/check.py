"""The check of open half messages: whether to ask their producers, wait, or give up (TransactionalMessageServiceImpl).

Times are milliseconds and passed in.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from rocketmq_py.properties import Property


class CheckStep(enum.Enum):
    """What a check does with an open half message."""

    CHECK = "store it again and ask a producer of its group"
    POSTPONE = "store it again without asking a producer"
    WAIT = "end this round: it and all that follow are too young"
    GIVE_UP = "move it to TRANS_CHECK_MAX_TIME_TOPIC"


class Rules(NamedTuple):
    """Broker settings: transactionTimeOut, transactionCheckMax, fileReservedTime."""

    timeout_ms: int
    check_max: int
    reserved_ms: int


class HalfMessage(NamedTuple):
    """The facts about an open half message that a check needs."""

    born_ms: int
    stored_ms: int
    checks: int = 0
    immunity: str | None = None


def read_half_message(properties: Mapping[str, str], born_ms: int, stored_ms: int) -> HalfMessage:
    """Return the facts about a half message from its properties."""
    checks = int_property(properties.get(Property.TRANSACTION_CHECK_TIMES))
    return HalfMessage(born_ms, stored_ms, max(0, checks), properties.get(Property.CHECK_IMMUNITY_TIME))


def decide_check(half: HalfMessage, rules: Rules, round_began_ms: int, now_ms: int) -> CheckStep:
    """Decide about an open half message."""
    age = now_ms - half.born_ms
    if half.checks >= rules.check_max or age > rules.reserved_ms:
        return CheckStep.GIVE_UP
    if half.stored_ms >= round_began_ms:
        return CheckStep.WAIT
    if half.immunity is not None:
        return CheckStep.POSTPONE if age <= immunity_ms(half.immunity, rules.timeout_ms) else CheckStep.CHECK
    return CheckStep.WAIT if 0 <= age <= rules.timeout_ms else CheckStep.CHECK


def immunity_ms(text: str, timeout_ms: int) -> int:
    """Return the age a message must have before a check, by its CHECK_IMMUNITY_TIME_IN_SECONDS."""
    seconds = int_property(text)
    return timeout_ms if seconds == -1 else seconds * 1000


def is_too_late(properties: Mapping[str, str], born_ms: int, timeout_ms: int, now_ms: int) -> bool:
    """True if a producer ends a transaction too late without having been asked (ILLEGAL_OPERATION)."""
    text = properties.get(Property.CHECK_IMMUNITY_TIME)
    return bool(text) and now_ms - born_ms > max(timeout_ms, int_property(text) * 1000)


def int_property(text: str | None) -> int:
    """Return the integer in a property; -1 for anything else, as in Java."""
    try:
        return int(text) if text is not None else -1
    except ValueError:
        return -1
