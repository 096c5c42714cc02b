r"""Message traces: the text that clients store in the trace topic about sent and consumed messages.

Layout (TraceDataEncoder): entries end with ``\x02``, fields are separated by ``\x01``, the first field names the kind.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec

from rocketmq_py.errors import CorruptRecord

_FIELD, _ENTRY = "\x01", "\x02"

MESSAGE_TYPES = ("Normal_Msg", "Trans_Msg_Half", "Trans_msg_Commit", "Delay_Msg", "Order_Msg")
"""Names of Java's MessageType; traces contain the index of a name."""


class TraceKind(enum.Enum):
    """Kind of a trace entry: a send, the start or the end of a consumption, the end of a transaction, a recall."""

    PUB = "Pub"
    SUB_BEFORE = "SubBefore"
    SUB_AFTER = "SubAfter"
    END_TRANSACTION = "EndTransaction"
    RECALL = "Recall"


class TraceEntry(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One entry of a trace; fields that its kind, or the version of its writer, does not have are None.

    ``timestamp`` is in milliseconds since the epoch, ``cost_ms`` how long sending or consuming took. ``request_id``
    pairs the two entries of one consumption; ``context_code`` is its outcome (ConsumeReturnType: 0 success, 1 timeout,
    2 exception, 3 null, 4 failed).
    """

    kind: TraceKind
    msg_id: str
    timestamp: int | None = None
    region: str | None = None
    group: str | None = None
    topic: str | None = None
    tags: str | None = None
    keys: str | None = None
    store_host: str | None = None
    client_host: str | None = None
    body_length: int | None = None
    cost_ms: int | None = None
    message_type: str | None = None
    offset_msg_id: str | None = None
    success: bool | None = None
    request_id: str | None = None
    retry_times: int | None = None
    context_code: int | None = None
    transaction_id: str | None = None
    transaction_state: str | None = None
    from_check: bool | None = None


_PUB = ("timestamp", "region", "group", "topic", "msg_id", "tags", "keys", "store_host", "body_length", "cost_ms",
        "message_type")  # fmt: skip
_SUB_AFTER = ("request_id", "msg_id", "cost_ms", "success", "keys", "context_code", "timestamp", "group")
_LAYOUTS: dict[TraceKind, tuple[str, ...]] = {
    TraceKind.SUB_BEFORE: ("timestamp", "region", "group", "request_id", "msg_id", "retry_times", "keys"),
    TraceKind.SUB_AFTER: _SUB_AFTER,
    TraceKind.END_TRANSACTION: (
        "timestamp", "region", "group", "topic", "msg_id", "tags", "keys", "store_host", "message_type",
        "transaction_id", "transaction_state", "from_check",
    ),
    TraceKind.RECALL: ("timestamp", "region", "group", "topic", "msg_id", "success"),
}  # fmt: skip
_NUMBERS = frozenset({"timestamp", "body_length", "cost_ms", "retry_times", "context_code"})
_FLAGS = frozenset({"success", "from_check"})
_KINDS = {kind.value: kind for kind in TraceKind}


def decode_trace(body: bytes) -> list[TraceEntry]:
    """Decode the body of a message of the trace topic; entries of unknown kinds are skipped, as in Java.

    :raises CorruptRecord: the fields of an entry do not fit its kind.
    """
    found = []
    for text in body.decode("utf-8", "replace").split(_ENTRY):
        name, *values = text.split(_FIELD)
        if name in _KINDS:
            found.append(_entry(_KINDS[name], values))
    return found


def encode_trace(entries: Iterable[TraceEntry]) -> bytes:
    """Encode the body of a message of the trace topic, in the newest layout.

    Separators inside values are replaced with blanks, because they would corrupt the body.
    """
    return "".join(map(_line, entries)).encode()


def _line(entry: TraceEntry) -> str:
    layout = (*_PUB, "offset_msg_id", "success") if entry.kind is TraceKind.PUB else _LAYOUTS[entry.kind]
    return _FIELD.join([entry.kind.value, *(_text(name, getattr(entry, name)) for name in layout)]) + _ENTRY


def _text(name: str, value: object) -> str:
    if value is None:
        return "null"
    if name == "message_type":
        return str(MESSAGE_TYPES.index(str(value)))
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).replace(_FIELD, " ").replace(_ENTRY, " ")


def _entry(kind: TraceKind, values: list[str]) -> TraceEntry:
    layout = _PUB + _end_of_pub(len(values)) if kind is TraceKind.PUB else _LAYOUTS[kind]
    try:
        fields = {name: _value(name, text) for name, text in zip(layout, values, strict=False)}
        return msgspec.convert({"kind": kind, **fields}, TraceEntry)
    except (ValueError, IndexError) as e:
        raise CorruptRecord(f"an entry {kind.value} of a trace has unexpected fields {values}: {e}") from e


def _end_of_pub(count: int) -> tuple[str, ...]:
    """Return the names of the last fields of a ``Pub`` entry with ``count`` values; old versions write fewer fields."""
    if count <= len(_PUB) + 1:
        return ("success",)
    return ("offset_msg_id", "success", "client_host")


def _value(name: str, text: str) -> object:
    if name == "message_type":
        return MESSAGE_TYPES[int(text)]
    if name in _FLAGS:
        return text == "true"
    if not text or text == "null":
        return None
    return int(text) if name in _NUMBERS else text
