"""The lines of a server's log, and how often they repeat."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext

from rocketmq_py.cli.server.logs import JsonLines, LogfmtLines, RepeatFilter, TextLines, log_as, span_ids
from rocketmq_py.core.log_limiter import LogLimiter


def record(
    text: str = "broker %s has %d", *args: object, level: int = logging.WARNING, **more: object
) -> logging.LogRecord:
    made = logging.LogRecord("rocketmq_py.broker.metadata.topics", level, __file__, 1, text, args or ("a", 2), None)
    for name, value in more.items():
        setattr(made, name, value)
    return made


def failed() -> logging.LogRecord:
    try:
        {}["lost"]  # type: ignore[index]
    except KeyError:
        return record(exc_info=sys.exc_info())
    raise AssertionError


def test_a_text_line_has_time_level_and_message() -> None:
    line = TextLines().format(record())
    assert line[23:] == " WARNING broker.metadata.topics: broker a has 2"
    assert line[10] == " "
    assert line[19] == "."


def test_line_ends_in_a_message_are_escaped() -> None:
    assert TextLines().format(record("%s", "two\nlines")).endswith(": two lines")


def test_a_line_counts_suppressed_repetitions() -> None:
    assert TextLines().format(record(suppressed=7)).endswith("broker a has 2 (and 7 more like this)")
    assert json.loads(JsonLines().format(record(suppressed=7)))["more"] == 7


def test_a_json_line_has_all_fields() -> None:
    said = json.loads(JsonLines().format(record("broker %s has %s", "ä", LogLimiter)))
    time = said.pop("time")
    assert time[10] == "T"
    assert time[19] == "."
    assert said == {
        "level": "warning", "logger": "broker.metadata.topics", "message": f"broker ä has {LogLimiter}",
        "event": "broker %s has %s", "values": ["ä", str(LogLimiter)],
    }  # fmt: skip
    plain = record("plain")
    plain.args = None
    assert "values" not in json.loads(JsonLines().format(plain))


def test_a_traceback_is_included() -> None:
    assert TextLines().format(failed()).endswith("KeyError: 'lost'")
    assert json.loads(JsonLines().format(failed()))["traceback"].startswith("Traceback (most recent call last)")


def test_lines_are_limited_by_their_format() -> None:
    repeats = RepeatFilter(LogLimiter(limit=1))
    assert repeats.filter(record())
    assert not repeats.filter(record("broker %s has %d", "b", 3))
    assert repeats.filter(record("broker %s has gone", "b"))
    assert repeats.filter(record(level=logging.ERROR))


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    logger = logging.getLogger()
    handlers, level = list(logger.handlers), logger.level
    yield logger
    logger.handlers[:], logger.level = handlers, level
    logger.setLevel(level)


@pytest.mark.parametrize(
    ("before", "level", "after"),
    [
        (logging.WARNING, None, logging.WARNING),
        (logging.DEBUG, None, logging.DEBUG),
        (logging.DEBUG, "error", logging.ERROR),
        (logging.WARNING, "debug", logging.DEBUG),
    ],
)
def test_the_log_level_is_a_setting(root: logging.Logger, before: int, level: str | None, after: int) -> None:
    root.setLevel(before)
    log_as(level, "text")
    assert root.level == after


def test_only_one_handler_is_installed(root: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    log_as("info", "text")
    log_as("info", "json")
    logging.getLogger("rocketmq_py.x").info("hello")
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["message"] for line in said] == ["hello"]


def test_a_logfmt_line_has_all_fields() -> None:
    line = LogfmtLines("broker-b").format(record("broker %s is at %s", "a b", "10.0.0.1:1", suppressed=3))
    time, _, rest = line.partition(" ")
    assert time.startswith("time=2")
    assert (
        rest == 'level=warning logger=broker.metadata.topics msg="broker a b is at 10.0.0.1:1" server=broker-b more=3'
    )


@pytest.mark.parametrize(
    ("text", "quoted"),
    [("plain", "plain"), ("", '""'), ("a b", '"a b"'), ("a=b", '"a=b"'), ('say "x"', '"say \\"x\\""'),
     ("a\\b", '"a\\\\b"'),
     ("two\nlines\r\t", '"two\\nlines\\r\\t"'), ("\x1b[1m", '"\\u001b[1m"'), ("ä", '"ä"'), ("[a]/b:c", "[a]/b:c")],
)  # fmt: skip
def test_values_of_logfmt_are_quoted_where_they_must_be(text: str, quoted: str) -> None:
    assert f" msg={quoted} " in LogfmtLines("s").format(record("%s", text)) + " "


def test_a_traceback_is_one_field_of_logfmt() -> None:
    line = LogfmtLines().format(failed())
    assert "\n" not in line
    assert ' traceback="Traceback (most recent call last):\\n' in line


def test_lines_have_the_ids_of_the_current_span() -> None:
    context = SpanContext(0xABC, 0xDE, is_remote=False)
    with trace.use_span(NonRecordingSpan(context)):
        ids = {"trace_id": f"{0xABC:032x}", "span_id": f"{0xDE:016x}"}
        assert span_ids() == ids
        assert ids.items() <= json.loads(JsonLines().format(record())).items()
        assert f" trace_id={ids['trace_id']} span_id={ids['span_id']}" in LogfmtLines().format(record())
    assert span_ids() == {}
    assert "trace_id" not in json.loads(JsonLines().format(record()))


def test_a_program_without_opentelemetry_has_no_span(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    assert span_ids() == {}


def test_logfmt_is_a_format(root: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    log_as("info", "logfmt")
    logging.getLogger("rocketmq_py.x").info("hello")
    assert capsys.readouterr().err.endswith("level=info logger=x msg=hello\n")
