"""Apache RocketMQ's configuration files (java.util.Properties): parsing, changing, and checking keys and values.

The type of a key is derived from its default value.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping

from rocketmq_py.errors import ConfigError, shortened

_BLANKS = " \t\f"
"""The characters that Java treats as blanks; other white space, such as U+0085, is part of a value."""
_ENTRY = re.compile(r"((?:\\.|[^\\ \t\f=:])*)([ \t\f]*[=:][ \t\f]*|[ \t\f]+|$)(.*)", re.DOTALL)
_LONGEST_KEY = 100
_LINE_END = re.compile("\r\n|\r|\n")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_IN_KEY = re.compile(r"[^\x21-\x7e]|[\\=:#!]")
_IN_VALUE = re.compile(r"[^\x20-\x7e]|\\|^ +| +$")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_LETTERS = {character: f"\\{letter}" for letter, character in _ESCAPED.items()} | {c: f"\\{c}" for c in "\\=:#!"}

PATH_KEYS = frozenset({
    "brokerConfigPath", "configStorePath", "configStorePathName", "kvConfigPath", "readOnlyCommitLogStorePaths",
    "rocketmqHome", "rocketmq.acl.plain.file", "storePathBrokerIdentity", "storePathCommitLog", "storePathConsumeQueue",
    "storePathDLedgerCommitLog", "storePathEpochFile", "storePathIndex", "storePathRootDir", "storeCheckpoint",
    "abortFile", "tls.config.file", "tls.server.keyPath", "tls.server.certPath", "tls.server.trustCertPath",
    "tls.client.keyPath", "tls.client.certPath", "tls.client.trustCertPath",
})  # fmt: skip
"""Keys whose values are file paths. Remote changes of these are refused, because they could make a server read or write
arbitrary files (CVE-2023-33246, CVE-2023-37582).
"""
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def decode_text(data: bytes) -> tuple[str, str]:
    """Decode a properties file; return its text and encoding: UTF-8 if it is valid, else Latin-1, which Java uses."""
    try:
        return data.decode(), "utf-8"
    except UnicodeDecodeError:
        return data.decode("latin-1"), "latin-1"


def split_lines(text: str) -> list[str]:
    """Split a file into lines as Java does: at a line feed, a carriage return or both, and nowhere else."""
    lines = _LINE_END.split(text)
    return lines if lines[-1] else lines[:-1]


def read_properties(lines: Iterable[str], *, strict: bool = True) -> dict[str, str]:
    """Parse the lines of a properties file to a dictionary, as java.util.Properties does.

    :param strict: refuse lines without a separator or key. If False, such a line is a key with an empty value, as in
        Java.
    :raises ConfigError: ``strict`` is set and a line is not ``key=value``.
    """
    found: dict[str, str] = {}
    for number, line in _logical_lines(lines):
        match = _ENTRY.match(line)
        assert match is not None  # fails only for a line that ends with a backslash; such lines were joined before
        key, separator, value = match.groups()
        if strict and (not key or not separator.strip(_BLANKS)):
            raise ConfigError(f"line {number}: {shortened(line)!r} is not a setting: key=value is expected")
        found[_unescape(key)] = _unescape(_without_blanks_behind(value))
    return found


def _without_blanks_behind(text: str) -> str:
    """Remove the blanks at the end of a text, except an escaped one (after a backslash), which is part of the value."""
    trimmed = text.rstrip(_BLANKS)
    return text[: len(trimmed) + 1] if _goes_on(trimmed) else trimmed


def _goes_on(line: str) -> bool:
    """Return True if a line ends with an unescaped backslash, so that the next line continues it."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _logical_lines(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield number and text of each setting, with continued lines joined; comments and empty lines are skipped.

    The number, counted from 1, is that of the setting's first line.
    """
    begun, start = "", 0
    for number, raw in enumerate(lines, 1):
        line = raw.rstrip("\r\n").lstrip(_BLANKS)
        if not begun and _says_nothing(line):
            continue
        start = start if begun else number
        if _goes_on(line):
            begun += line[:-1]
            continue
        yield start, _without_blanks_behind(begun + line)
        begun = ""
    if begun:
        yield start, _without_blanks_behind(begun)


def _says_nothing(line: str) -> bool:
    """True if a line is empty or a comment."""
    return line.lstrip(_BLANKS)[:1] in ("", "#", "!")


def _unescape(text: str) -> str:
    found = _ESCAPE.sub(lambda m: chr(int(m[1][1:], 16)) if len(m[1]) == 5 else _ESCAPED.get(m[1], m[1]), text)
    # Escapes are UTF-16 units: join surrogate pairs to one character, replace lone surrogates.
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def write_properties(text: str, changes: Mapping[str, str]) -> str:
    """Return the text of a properties file with changed values; new keys are appended, all other lines preserved.

    :param text: the present content of the file.
    :param changes: new values by key.
    """
    left = dict(changes)
    kept: list[str] = []
    lines = split_lines(text)
    if lines and _goes_on(lines[-1]) and not _says_nothing(lines[-1]):
        lines[-1] = lines[-1][:-1]  # a trailing backslash would join the last line with an appended one
    at = 0
    while at < len(lines):
        end = at + 1
        while end < len(lines) and _goes_on(lines[end - 1]) and not _says_nothing(lines[at]):
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
    """Format a setting as one line of ASCII, as Java does. Characters that could begin a new line or end the key are
    escaped.
    """
    return f"{_IN_KEY.sub(_escaped, key)}={_IN_VALUE.sub(_escaped, value)}"


def escape_controls(text: str) -> str:
    """Escape the control characters in a key or value, so that it can be printed on one line."""
    return _CONTROLS.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return "".join(_LETTERS.get(character) or _units(character) for character in found[0])


def _units(character: str) -> str:
    """Return the escapes (such as ``\\u00e9``) of the UTF-16 units of a character."""
    data = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{int.from_bytes(data[at : at + 2], 'big'):04x}" for at in range(0, len(data), 2))


def value_type(default: str) -> type:
    """Return the type of a key, derived from the text of its default: bool, int, float or str."""
    if default in ("true", "false"):
        return bool
    if re.fullmatch(r"-?(0|[1-9]\d*)", default):
        return int
    return float if re.fullmatch(r"-?\d+\.\d+", default) else str


def value_fault(key: str, text: str, kind: type) -> str | None:
    """Return why a value is invalid for a key of type ``kind``; None if it is valid."""
    wrong = (
        (kind is bool and text.lower() not in ("true", "false"))
        or (kind is int and not re.fullmatch(r"[+-]?\d+", text))
        or (kind is float and not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text))
    )
    return f"{key} is {shortened(text)!r}: {_KINDS[kind]} is expected" if wrong else None


def unknown_key(key: str, known: Iterable[str]) -> str:
    """Return an error text for an unknown key, which suggests the most similar known key."""
    lower = {name.lower(): name for name in sorted(known)}
    near = difflib.get_close_matches(key.lower()[:_LONGEST_KEY], lower, n=1, cutoff=0.6)
    return f"unknown setting {shortened(key)!r}" + (f"; did you mean {lower[near[0]]!r}?" if near else "")


def parse_defaults(text: str) -> dict[str, str]:
    """Parse a text of words ``key=default``, separated by white space, to a dictionary."""
    return dict(word.partition("=")[::2] for word in text.split())
