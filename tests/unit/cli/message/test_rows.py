"""Messages as rows, and rows as messages. Nothing is asked of a cluster."""

import click
import pytest

from rocketmq_py.cli.message.rows import (
    decode_body,
    encode_body,
    in_short,
    message_of_row,
    message_row,
    one_line,
    own_properties,
    parse_properties,
    tail_line,
)
from rocketmq_py.cli.output.times import show_time
from rocketmq_py.model import MessageQueue
from tests.unit.cli.messages import message

Q0, Q1 = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)


def test_a_message_becomes_a_row():
    row = message_row(message(TAGS="a", KEYS="k1 k2", UNIQ_KEY="ID", x="y"))
    assert row == {
        "topic": "t", "broker": "broker-a", "queue": 0, "offset": 5, "msgId": "ID",
        "offsetMsgId": "0A00000100002A9F0000000000000400", "tags": "a", "keys": "k1 k2", "stored": 1_700_000_000_001,
        "born": 1_700_000_000_000, "storeHost": "10.0.0.1:10911", "bornHost": "10.0.0.1:10911", "reconsumeTimes": 2,
        "logOffset": 1024, "size": 100, "properties": {"KEYS": "k1 k2", "TAGS": "a", "UNIQ_KEY": "ID", "x": "y"},
        "bodyEncoding": "text", "body": "hello",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("encoding", "body", "used", "text"),
    [
        ("auto", "grün".encode(), "text", "grün"),
        ("auto", b"\xff\x00", "base64", "/wA="),
        ("text", b"a\xff", "text", "a�"),
        ("hex", b"\xff\x00", "hex", "ff00"),
        ("base64", b"a", "base64", "YQ=="),
    ],
)
def test_bodies_are_shown_as_text_or_base64(encoding, body, used, text):
    assert encode_body(body, encoding) == (used, text)
    if "�" not in text:
        assert decode_body({"body": text, "bodyEncoding": used}) == body


@pytest.mark.parametrize(
    "row", [{"body": 1}, {"body": "%", "bodyEncoding": "base64"}, {"body": "x", "bodyEncoding": "hex"},
            {"body": "", "bodyEncoding": "rot13"}, {"properties": ["x"]}]
)  # fmt: skip
def test_a_malformed_row_is_refused(row):
    with pytest.raises(ValueError):
        message_of_row("t", row)


def test_a_row_is_read_again_without_what_clients_and_brokers_set():
    row = message_row(message(b"\xff", TAGS="a", KEYS="k", UNIQ_KEY="ID", RETRY_TOPIC="o", DELAY="3", x="y"))
    again = message_of_row("other", row)
    assert (again.topic, again.body, again.tags, again.keys) == ("other", b"\xff", "a", "k")
    assert again.properties == {"x": "y", "TAGS": "a", "KEYS": "k", "WAIT": "true"}
    assert message_of_row("t", {"body": "b", "properties": {"__SHARDINGKEY": "s"}}).sharding_key == "s"


def test_a_message_is_formatted_on_one_line():
    line = tail_line(message_row(message(b"one\ntwo\x1b[31m", TAGS="a")))
    assert line == f"{show_time(1_700_000_000_001)}  broker-a:0+5  a  -  one\\ntwo\\x1b[31m"
    assert one_line("x" * 100, 3) == "xxx…"
    assert in_short(message_row(message()))["stored"] == show_time(1_700_000_000_001)


def test_property_options_are_parsed():
    assert parse_properties(("a=1", "b=x=y")) == {"a": "1", "b": "x=y"}
    with pytest.raises(click.BadParameter, match="no property NAME=VALUE"):
        parse_properties(("a",))
    with pytest.raises(click.BadParameter, match="set by clients and brokers"):
        parse_properties(("TAGS=a",))
    assert own_properties({"TAGS": "a", "mine": "1", "UNIQ_KEY": "x"}) == {"mine": "1"}
