"""Transaction ids that say where the half message is: nothing is remembered for them, and a restart loses none.

Apache's proxy remembers transactions for 30 seconds; clients treat ids as opaque.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.refusal import CallRefused

_ID = re.compile(r"([0-7][0-9A-F]{15})([0-7][0-9A-F]{15})(.+)", re.DOTALL)


class HalfPlace(NamedTuple):
    """The half message of a transaction: offsets in the commit log and in the half topic, and its unique key."""

    physical_offset: int
    queue_offset: int
    unique_key: str


def encode_transaction_id(physical_offset: int, queue_offset: int, unique_key: str) -> str:
    """Return the id of a transaction."""
    return f"{physical_offset:016X}{queue_offset:016X}{unique_key}"


def decode_transaction_id(text: str) -> HalfPlace:
    """Return where the half message of a transaction is.

    :raises CallRefused: the id is not one of this broker's.
    """
    found = _ID.fullmatch(text)
    if found is None:
        raise CallRefused(Code.INVALID_TRANSACTION_ID, "the transaction id is not one that a send has returned")
    physical, queue, key = found.groups()
    return HalfPlace(int(physical, 16), int(queue, 16), key)
