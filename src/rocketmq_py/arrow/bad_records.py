"""Bad records (rows that every broker would refuse, messages that cannot be decoded) and their dead letters.

No IO. A dead letter names the topic of the record, the reason, the query and the row; ``rocketmq dlq`` shows and
resends it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import Enum

from rocketmq_py.errors import RocketMQError
from rocketmq_py.properties import Property, encode_properties
from rocketmq_py.protocol.names import topic_fault
from rocketmq_py.wire.batch import MAX_PROPERTIES

_log = logging.getLogger(__name__)

REASON = "SPARK_BAD_REASON"
"""Property of a dead letter: why the record is bad."""
CUT = "SPARK_BAD_CUT"
"""Property of a dead letter whose body was truncated: the original length in bytes."""

CORRUPT_RECORD, CORRUPT_REASON = "_corrupt_record", "_corrupt_reason"
"""Columns of a read: the bytes of a message that cannot be decoded, and the reason."""

_MOST_BODY = 64 * 1024
_MOST_REASON = 1024
_MOST_TEXT = 8 * 1024
_LOGGED = 10
_NO_BODY = b"null"


class Mode(Enum):
    """Option ``mode``: how bad records are treated."""

    PERMISSIVE = "permissive"
    FAILFAST = "failfast"
    DLQ = "dlq"


def dead_letter(
    body: bytes | None, properties: Mapping[str, str], origin: str | None, reason: str
) -> tuple[bytes, bytes]:
    """Return body and encoded properties of the dead letter for a bad record.

    A long body is truncated, a missing one becomes ``null``; properties that do not fit are dropped.

    :param properties: properties of the record; if they do not all fit, those that identify its row have precedence.
    :param origin: the topic that the record was for; None if unknown.
    """
    kept = {Property.WAIT_STORE: "true", REASON: _plain(reason)[:_MOST_REASON]}
    if origin and topic_fault(origin) is None:
        kept[Property.DLQ_ORIGIN_TOPIC] = origin
    if body and len(body) > _MOST_BODY:
        kept[CUT] = str(len(body))
    size = len(encode_properties(kept))
    for name, text in sorted(properties.items(), key=_names_the_row, reverse=True):
        length = len(encode_properties({name: text}))
        if len(text) <= _MOST_TEXT and size + length <= MAX_PROPERTIES // 2:
            size += length
            kept.setdefault(_plain(name), _plain(text))
    return (body or _NO_BODY)[:_MOST_BODY], encode_properties(kept)


def _names_the_row(item: tuple[str, str]) -> bool:
    return item[0] == Property.UNIQUE_KEY or item[0].startswith("SPARK_")


def _plain(text: str) -> str:
    return text.replace("\x01", " ").replace("\x02", " ")


class BadRecordPolicy:
    """Decides what happens to the bad records of one task, by option ``mode``.

    :param where: the topic of dead letters, for ``DLQ``.
    :param otherwise: what happens to bad records with ``PERMISSIVE``, as a phrase for the log.
    :ivar count: the number of bad records.
    """

    def __init__(self, mode: Mode, where: str, otherwise: str = "is left out") -> None:
        self._mode = mode
        self.where = where
        self._fate = f"goes to {where}" if mode is Mode.DLQ else otherwise
        self.count = 0

    def is_dead_letter(self, error: RocketMQError) -> bool:
        """Count a bad record, log the first ones, and return True if the caller must send a dead letter for it.

        :raises RocketMQError: ``error`` itself, with ``FAILFAST``.
        """
        if self._mode is Mode.FAILFAST:
            raise error
        self.count += 1
        if self.count <= _LOGGED:
            _log.warning(
                "a bad record %s: %s%s", self._fate, error, "" if self.count < _LOGGED else " (no more are logged)"
            )
        return self._mode is Mode.DLQ
