"""Configuration files of Apache RocketMQ: reading their lines, and judging keys and values against what Java knows.

Knows the format of java.util.Properties and that a key's kind shows in its default. Refuses to know what a key means.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping

from rocketmq_py.errors import ConfigError

_ENTRY = re.compile(r"((?:\\.|[^\\\s=:])*)(\s*[=:]\s*|\s+|$)(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def decoded(data: bytes) -> tuple[str, str]:
    """The text of a file and its encoding: UTF-8, or where it is none Latin-1, as Java reads all such files."""
    try:
        return data.decode(), "utf-8"
    except UnicodeDecodeError:
        return data.decode("latin-1"), "latin-1"


def read_properties(lines: Iterable[str], *, strict: bool = True) -> dict[str, str]:
    """Keys and values of lines as java.util.Properties reads them: separators, comments, escapes, continued lines.

    :param strict: a line that is a key alone is a mistake; otherwise it is a key with an empty value, as in Java.
    :raises ConfigError: a line that is no setting.
    """
    found: dict[str, str] = {}
    for number, line in _logical_lines(lines):
        match = _ENTRY.match(line)
        assert match is not None  # it matches everything
        key, separator, value = match.groups()
        if strict and (not key or not separator.strip()):
            raise ConfigError(f"line {number}: {line!r} is no setting: key=value is expected")
        found[_unescape(key)] = _unescape(value.rstrip())
    return found


def _logical_lines(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, continued ones joined, comments and empty ones left out."""
    begun, start = "", 0
    for number, raw in enumerate(lines, 1):
        line = raw.rstrip("\r\n").lstrip()
        if not begun and (not line or line[0] in "#!"):
            continue
        start = start if begun else number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            begun += line[:-1]
            continue
        yield start, (begun + line).strip()
        begun = ""
    if begun:
        yield start, begun.strip()


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda m: chr(int(m[1][1:], 16)) if len(m[1]) == 5 else _ESCAPED.get(m[1], m[1]), text)


def write_properties(text: str, changes: Mapping[str, str]) -> str:
    """The text of a properties file after some keys were given other values; all else in it stays as it is."""
    left = dict(changes)
    kept: list[str] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        end = at + 1
        while end < len(lines) and (len(lines[end - 1]) - len(lines[end - 1].rstrip("\\"))) % 2:
            end += 1
        keys = list(read_properties(lines[at:end], strict=False))
        if keys and keys[0] in changes:
            if keys[0] in left:
                kept.append(_line(keys[0], left.pop(keys[0])))
        else:
            kept += lines[at:end]
        at = end
    return "".join(f"{line}\n" for line in (*kept, *(_line(key, value) for key, value in left.items())))


def _line(key: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"{key}={escaped}"


def kind_of(default: str) -> type:
    """What a key holds, judged by its default: bool, int, float or str."""
    if default in ("true", "false"):
        return bool
    if re.fullmatch(r"-?(0|[1-9]\d*)", default):
        return int
    return float if re.fullmatch(r"-?\d+\.\d+", default) else str


def fault(key: str, text: str, kind: type) -> str | None:
    """What is wrong with a value, in words, or None."""
    wrong = (
        (kind is bool and text.lower() not in ("true", "false"))
        or (kind is int and not re.fullmatch(r"[+-]?\d+", text))
        or (kind is float and not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text))
    )
    return f"{key} is {text!r}: {_KINDS[kind]} is expected" if wrong else None


def unknown(key: str, known: Iterable[str]) -> str:
    """That a key is not known, and which one may have been meant."""
    lower = {name.lower(): name for name in sorted(known)}
    near = difflib.get_close_matches(key.lower(), lower, n=1, cutoff=0.6)
    return f"unknown setting {key!r}" + (f"; did you mean {lower[near[0]]!r}?" if near else "")


def table(text: str) -> dict[str, str]:
    """Keys and their defaults from ``key=default`` words."""
    return dict(word.partition("=")[::2] for word in text.split())
