"""Configuration files of Apache RocketMQ: reading their lines, and judging keys and values against what Java knows.

Knows the format of java.util.Properties, that a key's kind shows in its default, and which keys name places on disk.
Refuses to know what else a key means.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping

from rocketmq_py.errors import ConfigError, shortened

_BLANKS = " \t\f"
"""What Java takes for blanks: a line may hold others, such as U+0085, as parts of a value."""
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
"""Keys that say where files are. Nobody may change them from afar (CVE-2023-33246, CVE-2023-37582): a server could be
made to write files, or to read them, wherever it may."""
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def decode_text(data: bytes) -> tuple[str, str]:
    """The text of a file and its encoding: UTF-8, or where it is none Latin-1, as Java reads all such files."""
    try:
        return data.decode(), "utf-8"
    except UnicodeDecodeError:
        return data.decode("latin-1"), "latin-1"


def split_lines(text: str) -> list[str]:
    """The lines of a file, as Java ends them: at a line feed, a carriage return or both, and nowhere else."""
    lines = _LINE_END.split(text)
    return lines if lines[-1] else lines[:-1]


def read_properties(lines: Iterable[str], *, strict: bool = True) -> dict[str, str]:
    """Keys and values of lines as java.util.Properties reads them: separators, comments, escapes, continued lines.

    :param strict: a line that is a key alone is a mistake; otherwise it is a key with an empty value, as in Java.
    :raises ConfigError: a line that is no setting.
    """
    found: dict[str, str] = {}
    for number, line in _logical_lines(lines):
        match = _ENTRY.match(line)
        assert match is not None  # it matches everything but a last backslash alone, and a line that ends so goes on
        key, separator, value = match.groups()
        if strict and (not key or not separator.strip(_BLANKS)):
            raise ConfigError(f"line {number}: {shortened(line)!r} is no setting: key=value is expected")
        found[_unescape(key)] = _unescape(_without_blanks_behind(value))
    return found


def _without_blanks_behind(text: str) -> str:
    """A text without the blanks at its end, but for one behind a backslash, which is part of it."""
    trimmed = text.rstrip(_BLANKS)
    return text[: len(trimmed) + 1] if _goes_on(trimmed) else trimmed


def _goes_on(line: str) -> bool:
    """Whether a line ends in a backslash that is no part of it."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _logical_lines(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, continued ones joined, comments and empty ones left out."""
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
    """Whether a line is empty or a comment."""
    return line.lstrip(_BLANKS)[:1] in ("", "#", "!")


def _unescape(text: str) -> str:
    found = _ESCAPE.sub(lambda m: chr(int(m[1][1:], 16)) if len(m[1]) == 5 else _ESCAPED.get(m[1], m[1]), text)
    # Escapes are units of UTF-16: two make one character beyond the first 65,536, and half of one is none.
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def write_properties(text: str, changes: Mapping[str, str]) -> str:
    """The text of a properties file after some keys were given other values; all else in it stays as it is."""
    left = dict(changes)
    kept: list[str] = []
    lines = split_lines(text)
    if lines and _goes_on(lines[-1]) and not _says_nothing(lines[-1]):
        lines[-1] = lines[-1][:-1]  # nothing follows, and what is added below is a line of its own
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
    """A setting as one line, in ASCII as Java writes it: no character of it begins another line or another key."""
    return f"{_IN_KEY.sub(_escaped, key)}={_IN_VALUE.sub(_escaped, value)}"


def escape_controls(text: str) -> str:
    """A key or value for a list of settings or a log: on one line, but else as it is."""
    return _CONTROLS.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return "".join(_LETTERS.get(character) or _units(character) for character in found[0])


def _units(character: str) -> str:
    """A character as escapes of its units in UTF-16."""
    data = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{int.from_bytes(data[at : at + 2], 'big'):04x}" for at in range(0, len(data), 2))


def value_type(default: str) -> type:
    """What a key holds, judged by its default: bool, int, float or str."""
    if default in ("true", "false"):
        return bool
    if re.fullmatch(r"-?(0|[1-9]\d*)", default):
        return int
    return float if re.fullmatch(r"-?\d+\.\d+", default) else str


def value_fault(key: str, text: str, kind: type) -> str | None:
    """What is wrong with a value, in words, or None."""
    wrong = (
        (kind is bool and text.lower() not in ("true", "false"))
        or (kind is int and not re.fullmatch(r"[+-]?\d+", text))
        or (kind is float and not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text))
    )
    return f"{key} is {shortened(text)!r}: {_KINDS[kind]} is expected" if wrong else None


def unknown_key(key: str, known: Iterable[str]) -> str:
    """That a key is not known, and which one may have been meant."""
    lower = {name.lower(): name for name in sorted(known)}
    near = difflib.get_close_matches(key.lower()[:_LONGEST_KEY], lower, n=1, cutoff=0.6)
    return f"unknown setting {shortened(key)!r}" + (f"; did you mean {lower[near[0]]!r}?" if near else "")


def parse_defaults(text: str) -> dict[str, str]:
    """Keys and their defaults from ``key=default`` words."""
    return dict(word.partition("=")[::2] for word in text.split())
