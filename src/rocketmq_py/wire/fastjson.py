"""JSON in fastjson's dialect: reading it, and writing it for Java peers and Java files.

The dialect allows keys that strict JSON refuses: bare numbers (``{0:"a"}``) and objects
(``{{"brokerName":"b","queueId":1,"topic":"t"}:5}``). The parser makes every key a string: ``"0"``, or the compact JSON
text of the object with sorted members (see :func:`object_key`).
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from rocketmq_py.errors import BadHeader

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(order="sorted").encode
_encode_as_given = msgspec.json.Encoder().encode

_SPACE = re.compile(r"(?:\s+|/\*.*?\*/|//[^\n]*(?:\n|$))*", re.DOTALL)
"""White space and comments."""
_HEXADECIMAL = re.compile(r"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', re.DOTALL)
_PRETTY_KEY = re.compile(rb"\n(\t+)(-?\d+):")
"""A bare integer key in PrettyFormat, at the begin of a line: no string of JSON has a line break."""
_COMPACT_KEY = re.compile(rb"([{,])(-?\d+):")
"""A bare integer key in compact JSON. In a string it may stand, too: quoted there, it makes the text invalid."""
_OBJECT_KEY = re.compile(rb'\{(?:"\w++":(?:"[^"\\]*+"|-?\d++),?)++\}:')
"""A key that is an object of strings and integers, in compact JSON: never in a string, where '{"' is not followed by a
letter."""
_QUEUE_KEY = re.compile(rb'\{"brokerName":"[^"\\]*+","queueId":(?:0|[1-9]\d{0,8}+),"topic":"[^"\\]*+"\}:')
"""The most frequent one, which needs no parser: its members are sorted, and nothing in it is escaped."""
_CHUNK = 64 * 1024
_SCALAR = re.compile(r"[^\s,:{}\[\]\"'/]+")
_MAX_DEPTH = 64


class BareKey(int):
    """An integer key that is written without quotes, as fastjson writes the keys of a ``Map<Integer, ...>``."""


def loads(data: bytes | str) -> Any:
    """Parse a JSON text, strict or in fastjson's dialect.

    :raises ValueError: the text is neither of them.
    """
    try:
        return _decode(data)  # most texts are strict: no generator for these
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        steps = _dialect_in_steps(data)
    while True:
        try:
            next(steps)
        except StopIteration as result:
            return result.value


def loads_in_steps(data: bytes | str) -> Generator[None, None, Any]:
    """As :func:`loads`, in steps of a millisecond, except for parsing what is strict, 20 ms per MiB."""
    with contextlib.suppress(msgspec.DecodeError, UnicodeError, RecursionError):
        return _decode(data)
    return (yield from _dialect_in_steps(data))


def _dialect_in_steps(data: bytes | str) -> Generator[None, None, Any]:
    """As :func:`loads_in_steps`, for a text that is not strict."""
    with contextlib.suppress(msgspec.DecodeError, UnicodeError, RecursionError):
        parts = []
        for part in _parts(data.encode() if isinstance(data, str) else data):
            parts.append(_quoted(part))
            yield
        return _decode(b"".join(parts))
    text = data if isinstance(data, str) else bytes(data).decode("utf-8", "replace")
    return _Reader(text).document()


def _parts(data: bytes) -> Iterator[bytes]:
    """Split a text before line breaks or after objects that are no keys: not within a bare key or an object as key."""
    begin = 0
    while len(data) - begin > _CHUNK:
        end = max(data.rfind(b"\n", begin + 1, begin + _CHUNK), data.rfind(b"},", begin, begin + _CHUNK) + 1)
        if end <= begin:
            break
        yield data[begin:end]
        begin = end
    yield data[begin:]


def _quoted(data: bytes) -> bytes:
    """Quote the keys of a text in PrettyFormat or in compact JSON that are integers or objects, which makes it strict.

    The reader of the dialect takes long.
    """
    if _PRETTY_KEY.search(data):
        return _PRETTY_KEY.sub(rb'\n\1"\2":', data)
    if b"}:" in data:
        data = _QUEUE_KEY.sub(_quoted_queue, data)
        data = _OBJECT_KEY.sub(_quoted_object, data)
    return _COMPACT_KEY.sub(rb'\1"\2":', data)


def _quoted_queue(found: re.Match[bytes]) -> bytes:
    return b'"' + found[0][:-1].replace(b'"', b'\\"') + b'":'


def _quoted_object(found: re.Match[bytes]) -> bytes:
    return _encode(_encode(_decode(found[0][:-1])).decode()) + b":"


def is_strict(data: bytes) -> bool:
    """Return True if a text is standard JSON. That is parsed in C; parsing the dialect takes 0.3 to 0.6 s per MiB."""
    try:
        _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def load_object(data: bytes | memoryview) -> dict[str, Any]:
    """Parse a JSON object.

    :raises BadHeader: the text is a JSON value other than an object. :raises ValueError: the text is not JSON.
    """
    return _object(loads(bytes(data)), data)


def load_object_in_steps(data: bytes | memoryview) -> Generator[None, None, dict[str, Any]]:
    """As :func:`load_object`, in steps; see :func:`loads_in_steps`."""
    return _object((yield from loads_in_steps(bytes(data))), data)


def _object(tree: Any, data: bytes | memoryview) -> dict[str, Any]:
    if not isinstance(tree, dict):
        raise BadHeader(f"a JSON object is expected, not {bytes(data[:40])!r}")
    return tree


def dumps(value: Any) -> bytes:
    """Encode as compact strict JSON with sorted keys."""
    return _encode(value)


def object_key(members: Mapping[str, Any]) -> str:
    """Return the string key to which :func:`loads` converts an object used as a key: its JSON with sorted members."""
    return _encode(members).decode()


class _Reader:
    """A recursive-descent parser of the dialect; slow, so used only after the strict parser has failed."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._is_in_key = False

    def document(self) -> Any:
        value = self._value(0)
        if self._peek():
            raise self._error("something follows the end")
        return value

    def _peek(self) -> str:
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._text[self._at : self._at + 1]

    def _value(self, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise self._error("nested too deeply")
        head = self._peek()
        if head == "{":
            return self._object(depth)
        if head == "[":
            return self._array(depth)
        if head in ('"', "'"):
            return self._string()
        if head == "/":
            raise self._error("a comment does not end")
        return self._scalar()

    def _object(self, depth: int) -> dict[str, Any]:
        self._at += 1
        members: dict[str, Any] = {}
        while self._peek() != "}":
            key = self._key(depth + 1)
            self._expect(":")
            members[key] = self._value(depth + 1)
            self._separator("}")
        self._at += 1
        return members

    def _key(self, depth: int) -> str:
        """Read a key. One that is an object or an array has no such keys itself.

        Each level would double the length of the text, by the escapes of the one below.
        """
        if self._peek() not in ("{", "["):
            key = self._value(depth)
        elif self._is_in_key:
            raise self._error("a key of a key is an object or an array")
        else:
            self._is_in_key = True
            key = self._value(depth)
            self._is_in_key = False
        return key if isinstance(key, str) else _encode(key).decode()

    def _array(self, depth: int) -> list[Any]:
        self._at += 1
        items: list[Any] = []
        while self._peek() != "]":
            items.append(self._value(depth + 1))
            self._separator("]")
        self._at += 1
        return items

    def _separator(self, closing: str) -> None:
        head = self._peek()
        if head == ",":
            self._at += 1
        elif head != closing:
            raise self._error(f"',' or '{closing}' expected")

    def _expect(self, wanted: str) -> None:
        if self._peek() != wanted:
            raise self._error(f"'{wanted}' expected")
        self._at += 1

    def _string(self) -> str:
        found = _STRING.match(self._text, self._at)
        if not found:
            raise self._error("a string does not end")
        self._at = found.end()
        token = found.group()
        if token[0] == "'":
            token = '"' + token[1:-1].replace("\\'", "'").replace('"', '\\"') + '"'
        if "\\x" in token:
            token = _HEXADECIMAL.sub(lambda escape: f"\\u00{escape[1]}" if escape[1] else escape[0], token)
        return str(_decode(token.translate(_CONTROLS)))

    def _scalar(self) -> Any:
        found = _SCALAR.match(self._text, self._at)
        if not found:
            raise self._error("a value is missing")
        self._at = found.end()
        token = found.group()
        try:
            return _decode(token)
        except msgspec.DecodeError:
            return token

    def _error(self, why: str) -> ValueError:
        around = self._text[max(0, self._at - 20) : self._at + 20]
        return ValueError(f"not JSON at character {self._at}: {why}, near {around!r}")


_SCALARS = (str, int, float, bool, type(None))
_NOT_RELAID = (b"null", b"\\", b'{":', b'[":', b',":', b':":')
"""What a compact text must not have to be laid out as bytes: members to leave out, quotes within strings, and strings
that begin with a colon."""
_CONTROLS = {code: f"\\u{code:04x}" for code in range(32)}


# -- writing what Java reads and writes


def dumps_java(value: Any) -> bytes:
    """Encode as compact JSON in fastjson's dialect: keys in the given order, :class:`BareKey` without quotes.

    Members that are None are left out. A key that is an object is passed as a tuple of ``(name, value)`` pairs.
    """
    try:
        data = _encode_as_given(value)
    except TypeError:  # keys that are not strings
        return _compact(value).encode()
    return data if b"null" not in data else _compact(value).encode()


def _compact(value: Any) -> str:
    if isinstance(value, _SCALARS):  # most values: to ask whether they are mappings takes longer than to encode them
        return _encode(value).decode()
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_key(k)}:{_compact(v)}" for k, v in value.items() if v is not None) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_compact, value)) + "]"
    return _encode(value).decode()


def _key(key: Any) -> str:
    if isinstance(key, str):
        return _encode(key).decode()
    if isinstance(key, BareKey):
        return str(int(key))
    if isinstance(key, tuple):
        return _compact(dict(key))
    return _encode(str(key)).decode()


def dumps_pretty(value: Any) -> bytes:
    """Encode in fastjson's PrettyFormat, the layout of a broker's ``config/*.json``: tabs, no space after a colon.

    Keys and None are treated as by :func:`dumps_java`.
    """
    return _laid_out(value) or _pretty(value, 0).encode()


def _laid_out(value: Any) -> bytes | None:
    """As :func:`dumps_pretty`, but in C: a third of the time for a table of topics. None if it cannot.

    It cannot encode keys other than strings, and lays out only texts in which every quotation mark begins or ends a
    string, and every one before a colon ends a name.
    """
    try:
        compact = _encode_as_given(value)
    except TypeError:
        return None
    if any(part in compact for part in _NOT_RELAID):
        return None
    text = msgspec.json.format(compact, indent=1).replace(b'": ', b'":')
    indent = b"\n "
    while indent in text:
        indent = indent[:-1] + b"\t"
        text = text.replace(indent[:-1] + b" ", indent)
        indent += b" "
    return text


def _pretty(value: Any, depth: int) -> str:
    if isinstance(value, _SCALARS):
        return _encode(value).decode()
    if isinstance(value, dict) or isinstance(value, Mapping):  # noqa: SIM101 - most are dicts, Mapping asks in Python
        return _pretty_items(
            "{", [_pretty_member(k, v, depth + 1) for k, v in value.items() if v is not None], "}", depth
        )
    if isinstance(value, list | tuple):
        return _pretty_items("[", [_pretty(v, depth + 1) for v in value], "]", depth)
    return _encode(value).decode()


def _pretty_member(key: Any, value: Any, depth: int) -> str:
    name = _quote(key) if type(key) is str else _pretty_key(key, depth)
    return f"{name}:{value}" if type(value) is int else f"{name}:{_pretty(value, depth)}"


@functools.lru_cache(maxsize=1024)
def _quote(name: str) -> str:
    """The JSON string of a member's name; those of beans come again and again."""
    return _encode(name).decode()


def _pretty_key(key: Any, depth: int) -> str:
    return _pretty(dict(key), depth) if isinstance(key, tuple) else _key(key)


def _pretty_items(opening: str, items: list[str], closing: str, depth: int) -> str:
    if not items:
        return opening + closing
    pad = "\n" + "\t" * (depth + 1)
    return opening + pad + ("," + pad).join(items) + "\n" + "\t" * depth + closing


def pretty(value: Any, depth: int) -> str:
    """Encode a part of a text in PrettyFormat, as :func:`dumps_pretty` does.

    :param depth: number of objects and arrays around it.
    """
    return _pretty(value, depth)


def pretty_object(members: Mapping[Any, str], depth: int) -> str:
    """Join members, whose values are encoded already with ``depth + 1``, to an object in PrettyFormat.

    Keys are treated as by :func:`dumps_java`.
    """
    return _pretty_items("{", [f"{_key(name)}:{text}" for name, text in members.items()], "}", depth)


def pretty_array(items: Iterable[str], depth: int) -> str:
    """Join items, which are encoded already with ``depth + 1``, to an array in PrettyFormat."""
    return _pretty_items("[", list(items), "]", depth)
