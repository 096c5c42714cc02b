"""Values of options: what is accepted at the edges, the documented defaults, and documents of offsets."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from rocketmq_py.arrow.bad_records import Mode
from rocketmq_py.arrow.fetched import DecoderChoice
from rocketmq_py.arrow.options import offsets, values
from rocketmq_py.arrow.options.offsets import Boundary, Times
from rocketmq_py.arrow.options.selection import Assigned, Matching, Topics
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageQueue
from rocketmq_py.spark.options.options import Use, check_options, read_options, write_options

NEEDED = {"namesrv": "n:1", "subscribe": "t"}
EXACT = {"namesrv": "a:1", "topic": "t", "deliveryGuarantee": "exactly-once"}
QUEUE = MessageQueue("t", "b", 0)


def parsed(parse: Callable[[str], Any], *texts: str) -> list[Any]:
    """The values, None for a text that is refused."""
    found = []
    for text in texts:
        try:
            found.append(parse(text))
        except ConfigError:
            found.append(None)
    return found


def test_values_at_the_edges() -> None:
    assert parsed(values.byte_size, "1", " 2 kb", "64m", "1G", "3t") == [1, 2048, 64 << 20, 1 << 30, 3 << 40]
    assert parsed(values.duration, "500ms", "30s", "15m", "2min", "2h", "1d", " 1 H ", "1.5s", "s", "-1s", "1w") == [
        0.5, 30.0, 900.0, 120.0, 7200.0, 86400.0, 3600.0, None, None, None, None,
    ]  # fmt: skip
    assert parsed(values.natural, "0", " 7 ", "-1", "1.0", "") == [0, 7, None, None, None]
    assert parsed(values.positive, "0", "1", "x") == [None, 1, None]
    assert parsed(values.boolean, "TRUE", " false ", "1", "") == [True, False, None, None]
    assert parsed(values.milliseconds, "0", "999999999", "1000000000", "99999999999", "100000000000", "-1") == [
        0, 999999999, None, None, 100000000000, None,
    ]  # fmt: skip
    assert parsed(values.addresses, "a:1", "a:65535;b:1,", "a:0", "a:65536", ":1", "a:x", "a", ";") == [
        ("a:1",), ("a:65535", "b:1"), None, None, None, None, None, None,
    ]  # fmt: skip
    assert parsed(values.tags, "a", "a || b || a", "*", " ", "||") == [("a",), ("a", "b"), (), None, None]
    assert parsed(values.columns, "body", "body, keys,", "body,body", ",") == [("body",), ("body", "keys"), None, None]
    assert parsed(values.body_type, " String", "BINARY", "text") == ["string", "binary", None]
    assert parsed(values.mode, "Permissive", " dlq", "no") == [Mode.PERMISSIVE, Mode.DLQ, None]
    assert parsed(values.decoder_choice, "AUTO", "numpy ", "c") == [DecoderChoice.AUTO, DecoderChoice.NUMPY, None]
    assert parsed(values.or_latest, "error", "LATEST", "x") == [False, True, None]
    assert parsed(values.words, "a", " ", "") == ["a", None, None]
    assert parsed(values.sql, "a > 1", "a >", "a > 1)", "") == ["a > 1", None, None, None]
    assert parsed(values.starting, "GROUP ", "latest", "x") == ["group", Boundary.LATEST, None]
    assert parsed(values.ending, "latest", "earliest", '{"t": {"b": {"0": -2}}}', '{"t": {"b": {"0": -1}}}') == [
        Boundary.LATEST, None, None, {QUEUE: -1},
    ]  # fmt: skip
    assert parsed(values.times, '{"t": {"b": {"0": 0}}}', '{"t": {"b": {"0": -1}}}') == [{QUEUE: 0}, None]
    assert parsed(values.topics, "a,b , a", ",") == [Topics(("a", "b")), None]
    assert parsed(values.assignment, '{"t": {"b": [0, 0]}}', '{"t": {"b": [true]}}', "{}", "[]") == [
        Assigned(frozenset({QUEUE})), None, None, None,
    ]  # fmt: skip


def test_what_is_wrong_with_a_value_is_told() -> None:
    for name, text, told in (
        ("decoder", "c", "auto, numpy or compiled is expected"),
        ("sql", "a = 1 ) or b", "brokers do not read its end, ') or b'"),
        ("tlsCa", "", "it is empty"),
        ("startingOffsets", "{", "earliest, latest, group or JSON {topic: {broker: {queue: offset}}} is expected: "),
        ("maxTriggerDelay", "1w", "a time span is expected, as 500ms, 30s, 15m, 2h or 1d"),
    ):
        with pytest.raises(ConfigError) as refused:
            check_options({name: text})
        assert str(refused.value).startswith(f"option {name}={text!r}: {told}")


def test_the_documented_defaults() -> None:
    read, write = read_options(NEEDED, Use.READ_STREAM), write_options({"namesrv": "n:1"})
    assert (read.request_timeout_ms, read.timeout, read.num_retries) == (10_000, 10.0, 7)
    assert (read.max_trigger_delay, read.offset_lookup_interval_ms, read.poll_name_server_interval_ms) == (
        900.0, 100, 30_000,
    )  # fmt: skip
    assert (read.pulls_in_flight, read.check_crc, read.decoder) == (256, True, DecoderChoice.AUTO)
    assert (read.max_decompressed_body, read.max_decompressed_batch) == (134_217_728, 67_108_864)
    assert (read.include_properties, read.push_filters, read.body_type, read.fail_on_data_loss) == (
        False, False, "binary", True,
    )  # fmt: skip
    assert (write.producer_group, write.max_batch_bytes, write.sends_in_flight) == ("spark_sink", 262_144, 4)
    assert (write.commit_timeout_ms, write.in_checkpoint, write.transactions_location) == (600_000, False, None)


def test_only_decisions_in_the_checkpoint_are_looked_for_there() -> None:
    def location(**given: str) -> tuple[str | None, bool]:
        made = write_options(EXACT | given, Use.WRITE_STREAM)
        return made.transactions_location, made.in_checkpoint

    assert location(checkpointLocation="/c/") == location(CHECKPOINTLOCATION="/c") == ("/c/rocketmq", True)
    assert (
        location(checkpointLocation="/c", transactionsLocation="/d")
        == location(transactionsLocation="/d")
        == ("/d", False)
    )
    assert location(checkpointLocation="/c", asyncProgressTrackingEnabled="false")[1]
    at_least_once = write_options({"namesrv": "a:1", "checkpointLocation": "/c"}, Use.WRITE_STREAM)
    assert (at_least_once.transactions_location, at_least_once.in_checkpoint) == (None, False)


def test_limits_that_agree_are_accepted() -> None:
    given = {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "5", "maxTriggerDelay": "1m"}
    assert read_options(NEEDED | given, Use.READ_STREAM).max_trigger_delay == 60.0
    exact = {"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "error", "endingTimestamp": "9"}
    options = read_options(NEEDED | exact, Use.READ)
    assert (options.start, options.end) == (Times(5, None, or_latest=False), Times(9, None, or_latest=True))
    dead = read_options(NEEDED | {"mode": "DLQ", "groupId": "g", "dlqTopic": "d"}, Use.READ_STREAM)
    assert (dead.dlq_topic, dead.group) == ("d", "g")
    assert write_options({"namesrv": "a:1", "mode": "DLQ", "dlqTopic": "d"}).dlq_topic == "d"


def test_an_unknown_name_gets_hints_for_its_use_only() -> None:
    for name, hint in (
        ("ssl", "did you mean tls?"), ("pullBatchSize", "did you mean pullsInFlight?"), ("tag", "did you mean tags?"),
        ("consumergroup", "did you mean groupId?"), ("qqqq", "known options: accessKey, "),
    ):  # fmt: skip
        with pytest.raises(ConfigError) as refused:
            read_options(NEEDED | {name: "x"}, Use.READ)
        assert hint in str(refused.value)
    with pytest.raises(ConfigError, match=r"unknown option 'filter' for a write; (?!did you mean sql)"):
        write_options({"namesrv": "a:1", "filter": "x"})


def test_selections_say_what_they_are() -> None:
    queues = frozenset({QUEUE, QUEUE._replace(queue_id=3)})
    matching = Matching(re.compile("t.*"))
    assert [str(one) for one in (Topics(("a", "b")), matching, Assigned(queues))] == [
        "option subscribe names a, b", "option subscribePattern is t.*", "option assign names t@b:0, t@b:3",
    ]  # fmt: skip
    wanted = [one.wants(QUEUE) for one in (Topics(("a", "b")), Topics(("t",)), matching, Assigned(queues))]
    assert wanted == [False, True, True, True]
    assert not matching.wants(QUEUE._replace(topic="%RETRY%t"))
    assert not Matching(re.compile("x")).wants(QUEUE)


def test_documents_of_offsets() -> None:
    given = {"t": {"b": {"10": 5, "2": 6}}, "a": {"b": {"0": -2}}}
    found = offsets.from_document(given)
    assert found == {QUEUE._replace(queue_id=10): 5, QUEUE._replace(queue_id=2): 6, QUEUE._replace(topic="a"): -2}
    assert list(offsets.to_document(found).items()) == [("a", {"b": {"0": -2}}), ("t", {"b": {"2": 6, "10": 5}})]
    start = {"t": {"b": {"0": 3}}, "$start": {"t": {"b": {"0": 0}}}}
    assert offsets.from_document(start, 0) == {QUEUE: 3}
    assert offsets.start_of_document(start) == {QUEUE: 0}
    assert offsets.start_of_document({"t": {}}) is None
    assert offsets.start_of_document({"$start": {}}) == offsets.from_document({}, empty=True) == {}
    for document, least, told in (
        ({"t": {"b": {"0": -1}}}, 0, "-1 is no offset for queue 0 of broker 'b', topic 't'"),
        ({"t": {"b": {"0": -3}}}, -2, "-3 is no offset"),
        ({"t": {"b": {"0": 1.0}}}, -2, "1.0 is no offset"),
        ({"t": {"b": {"-1": 1}}}, -2, "'-1' is no queue id"),
        ({"t": {"b": []}}, -2, r"broker 'b' of topic 't' holds \[\]"),
        ([], -2, r"the document holds \[\]; expected is {topic: {broker: {queue: offset}}}"),
        ({"$start": {}}, 0, "no queue is named"),
    ):
        with pytest.raises(ConfigError, match=told):
            offsets.from_document(document, least)


def test_times_before_now_are_negative_milliseconds() -> None:
    texts = ("-10 minutes", "-1 day", "- 2h", "-30 S", "17", "-10", "-0 minutes", "-1 week", "-1 ms", "- minutes")
    assert parsed(values.moment, *texts) == [-600_000, -86_400_000, -7_200_000, -30_000, 17, *[None] * 5]
    assert parsed(values.times, '{"t": {"b": {"0": "-1 minute"}}}', '{"t": {"b": {"0": "soon"}}}') == [
        {QUEUE: -60_000}, None,
    ]  # fmt: skip
