"""Convert messages to rows, which all commands print, and back, for ``message send --jsonl``."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rocketmq_py.cli.output.tables import Row
from rocketmq_py.cli.output.times import show_time
from rocketmq_py.client.message_fields import message_fields
from rocketmq_py.properties import SYSTEM_PROPERTIES, Property, own_properties

if TYPE_CHECKING:
    from rocketmq_py.model import Message, MessageExt

F = TypeVar("F", bound=Callable[..., Any])

AUTO, TEXT, BASE64, HEX = "auto", "text", "base64", "hex"
COLUMNS = ("stored", "broker", "queue", "offset", "msgId", "tags", "keys", "body")

_TABLE_BODY_CHARS = 80
"""Number of characters of a body that a table shows."""


def body_option(function: F) -> F:
    """Add the option ``--body``, which says how bodies are printed; the command gets it as ``encoding``."""
    return click.option(
        "--body", "encoding", type=click.Choice((AUTO, TEXT, BASE64, HEX)), default=AUTO, show_default=True,
        help="How to print bodies; auto is text for valid UTF-8, otherwise base64.",
    )(function)  # fmt: skip


def message_row(message: MessageExt, encoding: str = AUTO) -> Row:
    """Return a row with all fields of a message; times are milliseconds since the epoch.

    :param encoding: encoding of the body: auto, text, base64 or hex.
    """
    used, body = encode_body(message.body, encoding)
    return {
        **message_fields(message),
        "size": message.store_size,
        "properties": dict(sorted(message.properties.items())),
        "bodyEncoding": used,
        "body": body,
    }


def encode_body(body: bytes, encoding: str) -> tuple[str, str]:
    """Encode a body as text; return the encoding that was used and the text.

    :param encoding: auto (text for valid UTF-8, else base64), text (invalid UTF-8 is replaced), base64 or hex.
    """
    if encoding in (AUTO, TEXT):
        try:
            return TEXT, body.decode()
        except UnicodeDecodeError:
            if encoding == TEXT:
                return TEXT, body.decode("utf-8", "replace")
    if encoding == HEX:
        return HEX, body.hex()
    return BASE64, base64.b64encode(body).decode()


def decode_body(row: Mapping[str, Any]) -> bytes:
    """Return the body of a row, decoded as its field ``bodyEncoding`` says (default text).

    :raises ValueError: the body is not valid in this encoding, or the encoding is unknown.
    """
    body, encoding = row.get("body", ""), row.get("bodyEncoding", TEXT)
    if not isinstance(body, str):
        raise ValueError("the body is not a string")  # noqa: TRY004 - callers handle ValueError only
    if encoding == TEXT:
        return body.encode()
    if encoding == HEX:
        return bytes.fromhex(body)
    if encoding == BASE64:
        try:
            return base64.b64decode(body, validate=True)
        except binascii.Error as e:
            raise ValueError(f"the body is not valid base64: {e}") from e
    raise ValueError(f"unknown bodyEncoding {encoding!r}; known are {TEXT}, {BASE64}, {HEX}")


def in_short(row: Row) -> Row:
    """Return a copy of a row for a table: with local times, and the body shortened to one line."""
    return {**row, "stored": show_time(row["stored"]), "born": show_time(row["born"]), "body": one_line(row["body"])}


def in_full(row: Row) -> Row:
    """Return a copy of a row for the display of a single message: with local times, and the complete body."""
    return {**row, "stored": show_time(row["stored"]), "born": show_time(row["born"])}


def one_line(text: str, width: int = _TABLE_BODY_CHARS) -> str:
    """Return ``text`` shortened to ``width`` characters, with unprintable characters escaped."""
    cut = text[:width] + ("…" if len(text) > width else "")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def tail_line(row: Row) -> str:
    """Return the line that ``topic tail`` prints for the row of a message."""
    place = f"{row['broker']}:{row['queue']}+{row['offset']}"
    return f"{show_time(row['stored'])}  {place}  {row['tags'] or '-'}  {row['keys'] or '-'}  " + one_line(
        row["body"], width=10_000
    )


def message_of_row(topic: str, row: Mapping[str, Any]) -> Message:
    """Return a message to ``topic`` with the body, tag, keys, sharding key and application properties of a row.

    :raises ValueError: body or properties of the row are not as :func:`message_row` returns them.
    """
    from rocketmq_py.model import Message

    properties = row.get("properties") or {}
    if not isinstance(properties, Mapping):
        raise ValueError("the properties are not an object")  # noqa: TRY004 - callers handle ValueError only
    texts = {str(name): str(value) for name, value in properties.items()}
    return Message(
        topic,
        decode_body(row),
        row.get("tags") or texts.get(Property.TAGS),
        row.get("keys") or texts.get(Property.KEYS),
        sharding_key=texts.get(Property.SHARDING_KEY),
        properties=own_properties(texts),
    )


def parse_properties(assignments: tuple[str, ...]) -> dict[str, str]:
    """Parse ``NAME=VALUE`` arguments into properties of a message.

    :raises click.BadParameter: an argument has another form, or names a property that clients and brokers set.
    """
    found = {}
    for text in assignments:
        name, separator, value = text.partition("=")
        if not separator or not name or name in SYSTEM_PROPERTIES:
            why = "is set by clients and brokers" if name in SYSTEM_PROPERTIES else "is no property NAME=VALUE"
            raise click.BadParameter(f"{text!r} {why}", param_hint="'--property'")
        found[name] = value
    return found
