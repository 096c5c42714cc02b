"""Transaction ids that say where the half message is: nothing is remembered for them, and a restart loses none.

Apache's proxy remembers transactions for 30 seconds; clients treat ids as opaque.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, unquote

from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.refusal import CallRefused

_ID = re.compile(r"([0-7][0-9A-F]{15})([0-7][0-9A-F]{15}):([^:]*):(.+)", re.DOTALL)


class HalfPlace(NamedTuple):
    """The half message of a transaction: broker, offsets in the commit log and in the half topic, and unique key."""

    broker_name: str
    physical_offset: int
    queue_offset: int
    unique_key: str


def encode_transaction_id(place: HalfPlace) -> str:
    """Return the id of a transaction."""
    name = quote(place.broker_name, safe="")
    return f"{place.physical_offset:016X}{place.queue_offset:016X}:{name}:{place.unique_key}"


def decode_transaction_id(text: str) -> HalfPlace:
    """Return where the half message of a transaction is.

    :raises CallRefused: no broker of this kind has made the id.
    """
    found = _ID.fullmatch(text)
    if found is None:
        raise CallRefused(Code.INVALID_TRANSACTION_ID, "the transaction id is not one that a send has returned")
    physical, queue, name, key = found.groups()
    return HalfPlace(unquote(name), int(physical, 16), int(queue, 16), key)
