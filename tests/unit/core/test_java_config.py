"""Files of java.util.Properties are read as Java reads them, and changed without touching the rest."""

from __future__ import annotations

import pytest

from rocketmq_py.core.java_config import (
    escape_controls,
    parse_defaults,
    read_properties,
    split_lines,
    unknown_key,
    value_fault,
    value_type,
    write_properties,
)
from rocketmq_py.errors import ConfigError


@pytest.mark.parametrize(
    ("lines", "settings"),
    [
        (["a=b"], {"a": "b"}),
        (["  a = b  "], {"a": "b"}),
        (["a:b", "c d"], {"a": "b", "c": "d"}),
        (["# a=b", "! c=d", "", "   "], {}),
        (["namesrvAddr=127.0.0.1\\:9876;other\\:1"], {"namesrvAddr": "127.0.0.1:9876;other:1"}),
        (["path=C:\\\\store"], {"path": "C:\\store"}),
        (["levels=1s \\", "    2s"], {"levels": "1s 2s"}),
        (["a=b=c"], {"a": "b=c"}),
        (["name=\\u0041\\u00e4"], {"name": "Aä"}),
        (["k\\=y=v"], {"k=y": "v"}),
        (["a=1", "a=2"], {"a": "2"}),
        (["a="], {"a": ""}),
        (["last=\\"], {"last": ""}),
        (["a=b\\ "], {"a": "b "}),
        (["a=\\ b  "], {"a": " b"}),
        (["a\\ "], {"a ": ""}),
        (["a=\x85b\u2003"], {"a": "\x85b\u2003"}),
        (["\x0ba\x1c=b"], {"\x0ba\x1c": "b"}),
        (["face=\\ud83d\\uDE00 \\ud83d"], {"face": "\U0001f600 \ufffd"}),
    ],
)
def test_lines_are_read_as_java_reads_them(lines: list[str], settings: dict[str, str]) -> None:
    assert read_properties(lines, strict=False) == settings


@pytest.mark.parametrize(("lines", "number"), [(["# x", "brokerName"], 2), (["a=1", "=b"], 2), (["a b"], 1)])
def test_a_line_without_a_setting_is_refused(lines: list[str], number: int) -> None:
    with pytest.raises(ConfigError, match=rf"line {number}: .* is not a setting: key=value is expected"):
        read_properties(lines)


def test_a_file_keeps_unchanged_lines() -> None:
    before = "# the daily clean-up\nfileReservedTime = 72\n\nbrokerName=b\nlevels=1s \\\n  2s\nfileReservedTime=24\n"
    after = write_properties(before, {"fileReservedTime": "48", "traceOn": "false", "levels": "5s"})
    assert after == "# the daily clean-up\nfileReservedTime=48\n\nbrokerName=b\nlevels=5s\ntraceOn=false\n"
    assert write_properties("", {"path": "C:\\x"}) == "path=C:\\\\x\n"
    assert read_properties(write_properties("", {"a": "b\\c"}).splitlines()) == {"a": "b\\c"}


OTHER_ENDS = ("\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
"""What ``str.splitlines`` takes for the end of a line and Java does not."""


def test_line_ends_are_those_of_java() -> None:
    assert split_lines("a\nb\rc\r\nd\n\n") == ["a", "b", "c", "d", ""]
    assert split_lines("") == []
    for end in OTHER_ENDS:
        assert split_lines(f"a=b{end}c=d\n") == [f"a=b{end}c=d"]


@pytest.mark.parametrize("end", [*OTHER_ENDS, "\n", "\r", "\r\n"])
def test_a_value_with_a_line_end_stays_one_line(end: str) -> None:
    value = f"a{end}brokerConfigPath=/x"
    text = write_properties("fileReservedTime=72\n", {"regionId": value})
    assert len(text.splitlines()) == 2
    assert text.isascii()
    assert read_properties(split_lines(text)) == {"fileReservedTime": "72", "regionId": value}
    assert len(escape_controls(value).splitlines()) == 1


def test_settings_are_formatted_unchanged_on_one_line() -> None:
    assert escape_controls("C:\\store, Gr\u00fc\u00dfe") == "C:\\store, Gr\u00fc\u00dfe"
    assert escape_controls("a\nb\u2028") == "a\\nb\\u2028"


def test_an_added_setting_does_not_continue_the_last_line() -> None:
    assert read_properties(split_lines(write_properties("a=1\\", {"b": "2"}))) == {"a": "1", "b": "2"}


def test_a_comment_that_ends_in_a_backslash_is_no_part_of_the_next_line() -> None:
    before = "# in C:\\store\\\na=1\n"
    assert write_properties(before, {"a": "2"}) == "# in C:\\store\\\na=2\n"


@pytest.mark.parametrize(
    ("default", "kind"),
    [("true", bool), ("false", bool), ("-1", int), ("72", int), ("0", int), ("0.5", float), ("04", str), ("", str),
     ("1s 5s", str), ("PULL", str)],
)  # fmt: skip
def test_the_type_of_a_key_is_that_of_its_default(default: str, kind: type) -> None:
    assert value_type(default) is kind


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [("x", int, "a whole number"), ("1.5", int, "a whole number"), ("", int, "a whole number"),
     ("yes", bool, "true or false"), ("1,5", float, "a number")],
)  # fmt: skip
def test_invalid_values_are_refused(text: str, kind: type, words: str) -> None:
    assert value_fault("someKey", text, kind) == f"someKey is {text!r}: {words} is expected"


@pytest.mark.parametrize(
    ("text", "kind"), [("-5", int), ("TRUE", bool), ("8000", float), (".5", float), ("1e3", float), ("anything", str)]
)
def test_valid_values_are_accepted(text: str, kind: type) -> None:
    assert value_fault("someKey", text, kind) is None


def test_an_unknown_key_is_named_with_the_nearest_known_key() -> None:
    known = ["brokerName", "brokerIP1", "listenPort"]
    assert unknown_key("brokerNmae", known) == "unknown setting 'brokerNmae'; did you mean 'brokerName'?"
    assert unknown_key("brokerip1", known).endswith("did you mean 'brokerIP1'?")
    assert unknown_key("zzz", known) == "unknown setting 'zzz'"


def test_defaults_are_listed_in_a_table() -> None:
    assert parse_defaults(" a=1 b=\n c=x=y ") == {"a": "1", "b": "", "c": "x=y"}


def test_only_the_last_line_loses_its_backslash_when_a_setting_is_added() -> None:
    assert write_properties("# first\nx=0\na=1\\", {"b": "2"}).splitlines() == ["# first", "x=0", "a=1", "b=2"]
