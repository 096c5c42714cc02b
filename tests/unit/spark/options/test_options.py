"""Options: accepted values and error messages."""

from __future__ import annotations

import re

import pytest

from rocketmq_py.arrow.bad_records import Mode
from rocketmq_py.arrow.options.offsets import Boundary, FromGroup, Times
from rocketmq_py.arrow.options.selection import Topics
from rocketmq_py.arrow.options.stores import StoreDirectory
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageQueue
from rocketmq_py.spark.options.options import Use, check_options, read_options, write_options
from rocketmq_py.tls import TlsOptions
from rocketmq_py.wire.signing import Credentials

NEEDED = {"namesrv": "localhost:9876", "subscribe": "orders"}


def test_a_read_needs_two_options_and_has_defaults_for_the_rest() -> None:
    options = read_options(NEEDED, Use.READ)
    assert options.namesrv == ("localhost:9876",)
    assert options.selection == Topics(("orders",))
    assert options.start is None
    assert options.end is Boundary.LATEST
    assert options.fail_on_data_loss


def test_option_names_ignore_case_and_values_are_parsed() -> None:
    given = {
        "namesrv": "a:1;b:2, [::1]:3",
        "subscribe": "orders, flights,orders",
        "startingoffsets": '{"orders": {"broker-a": {"0": 5, "1": -2}}}',
        "failondataloss": "False",
        "maxoffsetspertrigger": "1000",
        "includeproperties": "true",
    }
    options = read_options(given, Use.READ_STREAM)
    assert options.namesrv == ("a:1", "b:2", "[::1]:3")
    assert options.selection == Topics(("orders", "flights"))
    assert options.start == {
        MessageQueue("orders", "broker-a", 0): 5,
        MessageQueue("orders", "broker-a", 1): -2,
    }
    assert not options.fail_on_data_loss
    assert options.max_offsets_per_trigger == 1000
    assert options.include_properties


def test_a_write_has_its_own_options() -> None:
    options = write_options({"namesrv": "a:1", "topic": "t", "producerGroup": "g", "checkpointLocation": "/c"})
    assert (options.topic, options.producer_group) == ("t", "g")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("subscirbe", "subscribe"),
        ("startingOffset", "startingOffsets"),
        ("nameServer", "namesrv"),
        ("path", "subscribe or topic"),
        ("includeHeaders", "includeProperties"),
        ("kafka.bootstrap.servers", "namesrv"),
        ("kafka.group.id", "groupId"),
        ("subExpression", "tags"),
        ("startingTimestamps", "startingTimestamp"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_name(name: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=rf"unknown option '{name}'.*did you mean {nearest}\?"):
        check_options(NEEDED | {name: "x"})


def test_the_suggested_name_is_valid_for_the_operation() -> None:
    with pytest.raises(ConfigError, match=r"'topic' for a batch read; did you mean subscribe\?"):
        read_options({"namesrv": "h:1", "topic": "t"}, Use.READ)
    for name in ("subscribe", "topics"):
        with pytest.raises(ConfigError, match=rf"'{name}' for a write; did you mean topic\?"):
            write_options({"namesrv": "h:1", name: "t"})


def test_an_unknown_option_without_a_similar_name_lists_all() -> None:
    with pytest.raises(ConfigError, match=r"known options: .*subscribe"):
        check_options({"zzzzqqqq": "1"})


def test_options_of_spark_itself_are_accepted() -> None:
    check_options({"checkpointLocation": "/tmp/c", "queryName": "q", "asyncProgressTrackingEnabled": "true"})


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("namesrv", "localhost", "no host:port"),
        ("namesrv", "localhost:99999", "no host:port"),
        ("namesrv", " ; ", "at least one name server"),
        ("subscribe", "or ders", "illegal characters"),
        ("subscribe", ",", "at least one topic"),
        ("startingOffsets", "first", "earliest, latest, group or JSON"),
        ("endingOffsets", "group", "earliest, latest or JSON"),
        ("subscribePattern", "a(", "no regular expression: missing"),
        ("assign", "orders", "JSON {topic: {broker: "),
        ("assign", '{"t": {"b": 5}}', "broker 'b' of topic 't' holds 5"),
        ("assign", '{"t": {"b": [-1]}}', "holds .-1."),
        ("startingTimestamp", "yesterday", "milliseconds since 1970 are expected"),
        ("endingTimestamp", "1767355200", "these are seconds"),
        ("startingOffsetsByTimestamp", '{"t": {"b": {"0": -1}}}', "-1 is no offset"),
        ("startingOffsetsByTimestampStrategy", "earliest", "error or latest"),
        ("maxTriggerDelay", "15", "a time span is expected"),
        ("groupId", "a b", "illegal characters"),
        ("tags", " || ", "names no tag"),
        ("sql", "a >", "illegal SQL expression"),
        ("columns", "body,body", "named twice"),
        ("bodyType", "text", "binary or string"),
        ("startingOffsets", "{}", "no queue is named"),
        ("startingOffsets", '{"t": 5}', "topic 't' holds 5"),
        ("startingOffsets", '{"t": {"b": {"x": 5}}}', "'x' is no queue id"),
        ("startingOffsets", '{"t": {"b": {"0": -3}}}', "-3 is no offset"),
        ("startingOffsets", '{"t": {"b": {"0": true}}}', "True is no offset"),
        ("endingOffsets", "earliest", "no end to read up to"),
        ("endingOffsets", '{"t": {"b": {"0": -2}}}', "no end to read up to"),
        ("failOnDataLoss", "yes", "true or false"),
        ("maxOffsetsPerTrigger", "0", "above 0"),
        ("maxOffsetsPerTrigger", "many", "whole number"),
        ("maxBytesPerTrigger", "0m", "bytes above 0"),
        ("maxBytesPerTrigger", "64x", "bytes above 0"),
        ("numRetries", "-1", "0 or above"),
        ("topic", "a b", "illegal characters"),
    ],
)
def test_a_wrong_value_is_refused_by_name(name: str, value: str, told: str) -> None:
    with pytest.raises(ConfigError, match=f"option {name}=.*{told}"):
        check_options({name: value})


def test_tls_and_signing_become_one_value() -> None:
    given = {"tlsca": "ca.pem", "tlsverify": "false", "accesskey": "a", "secretkey": "hidden", "securitytoken": "t"}
    security = read_options(NEEDED | given, Use.READ).security
    assert security.tls == TlsOptions(ca="ca.pem", verify=False)
    assert security.credentials == Credentials("a", "hidden", "t")
    assert "hidden" not in repr(security)
    assert read_options(NEEDED | {"tls": "true"}, Use.READ).security.tls == TlsOptions()
    assert write_options({"namesrv": "a:1", "tls": "false"}).security.tls is None


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"accessKey": "a"}, "option secretKey is missing"),
        ({"secretKey": "s"}, "option accessKey is missing"),
        ({"tlsKey": "k.pem"}, "give tlsCert, too"),
        ({"tls": "false", "tlsCa": "ca.pem"}, "option tls is false"),
    ],
)
def test_incomplete_tls_and_signing_options_are_refused(given: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_options(NEEDED | given, Use.READ)


def test_no_error_shows_a_secret() -> None:
    with pytest.raises(ConfigError) as told:
        check_options(NEEDED | {"secretKey": "   "})
    assert str(told.value) == "option secretKey: it is empty"


def test_exactly_one_of_three_topic_options_is_accepted() -> None:
    base = {"namesrv": "a:1"}
    matching = read_options(base | {"subscribePattern": "orders-.*"}, Use.READ).selection
    assert list(matching.topics(lambda: ["orders-1", "flights", "orders-2", "%DLQ%orders-", "rmq_sys_orders-"])) == [
        *("orders-1", "orders-2")
    ]
    assigned = read_options(base | {"assign": '{"t": {"b": [0, 2]}}'}, Use.READ).selection
    assert assigned.topics(list) == ["t"]
    assert [i for i in range(4) if assigned.wants(MessageQueue("t", "b", i))] == [0, 2]
    with pytest.raises(ConfigError, match="options subscribe and assign are both given"):
        read_options(NEEDED | {"assign": '{"t": {"b": [0]}}'}, Use.READ)


def test_dead_letter_topics_need_an_explicit_pattern() -> None:
    names = ["%DLQ%g", "%RETRY%g", "g"]
    found = {
        text: read_options({"namesrv": "a:1", "subscribePattern": text}, Use.READ).selection.topics(lambda: names)
        for text in (".*g", "%DLQ%.*")
    }
    assert found == {".*g": ["g"], "%DLQ%.*": ["%DLQ%g"]}


def test_times_take_precedence_over_offsets_as_with_kafka() -> None:
    given = {
        "startingOffsets": "earliest",
        "startingOffsetsByTimestamp": '{"orders": {"b": {"0": 7}}}',
        "endingTimestamp": "9",
        "startingOffsetsByTimestampStrategy": "latest",
    }
    options = read_options(NEEDED | given, Use.READ)
    assert options.start == Times(0, {MessageQueue("orders", "b", 0): 7}, or_latest=True)
    assert options.end == Times(9, None, or_latest=True)
    assert read_options(NEEDED | given | {"startingTimestamp": "5"}, Use.READ).start == Times(5, None, or_latest=True)


def test_a_relative_start_begins_at_the_end_of_a_queue_without_messages_since() -> None:
    def start(**more: str) -> object:
        return read_options(NEEDED | more, Use.READ_STREAM).start

    assert start(startingTimestamp="-10 minutes") == Times(-600_000, None, or_latest=True)
    assert start(startingTimestamp="-1 s", startingOffsetsByTimestampStrategy="error") == Times(-1000, None)
    assert start(startingTimestamp="9") == Times(9, None, or_latest=False)
    assert start(startingTimestamp="0") == Times(0, None, or_latest=False)
    queues = {MessageQueue("orders", "b", 0): 7, MessageQueue("orders", "b", 1): -3_600_000}
    text = '{"orders": {"b": {"0": 7, "1": "-1 hour"}}}'
    assert start(startingOffsetsByTimestamp=text) == Times(0, queues, or_latest=False)


def test_a_stream_has_options_of_its_own() -> None:
    given = {
        "startingOffsets": "group", "groupId": "g", "minOffsetsPerTrigger": "5", "maxTriggerDelay": "2m",
        "minPartitions": "8", "maxRecordsPerPartition": "100", "tags": "a || b", "columns": "keys, body",
        "bodyType": "string", "pollNameServerIntervalMs": "500",
    }  # fmt: skip
    options = read_options(NEEDED | given, Use.READ_STREAM)
    assert options.start == FromGroup("g")
    assert (options.group, options.min_offsets_per_trigger, options.max_trigger_delay) == ("g", 5, 120.0)
    assert (options.min_partitions, options.max_records_per_partition) == (8, 100)
    assert (options.tags, options.columns, options.body_type) == (("a", "b"), ("keys", "body"), "string")


@pytest.mark.parametrize("missing", sorted(NEEDED))
def test_a_missing_option_is_named(missing: str) -> None:
    with pytest.raises(ConfigError, match=f"option {missing} is required for a batch read"):
        read_options({name: value for name, value in NEEDED.items() if name != missing}, Use.READ)


@pytest.mark.parametrize(
    ("option", "use", "told"),
    [
        ({"startingOffsets": "group"}, Use.READ, "needs option groupId"),
        ({"tags": "a", "sql": "a = 1"}, Use.READ, "tags and sql are both given"),
        ({"columns": "body", "includeProperties": "true"}, Use.READ, "name the column properties there"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, Use.READ_STREAM, "is above maxOffsetsPerTrigger"),
        ({"maxTriggerDelay": "1m"}, Use.READ_STREAM, "with minOffsetsPerTrigger only"),
        ({"startingOffsetsByTimestampStrategy": "latest"}, Use.READ, "with a starting timestamp only"),
        ({"pushFilters": "true"}, Use.READ_STREAM, "pushFilters is not for a streaming read"),
        ({"maxOffsetsPerTrigger": "5"}, Use.READ, "maxOffsetsPerTrigger is not for a batch read"),
        ({"startingOffsets": "latest"}, Use.READ, "nothing to read"),
        ({"endingOffsets": "latest"}, Use.READ_STREAM, "endingOffsets is not for a streaming read"),
        ({"topic": "t"}, Use.READ, "unknown option 'topic' for a batch read"),
    ],
)
def test_an_option_of_another_operation_is_refused(option: dict[str, str], use: Use, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_options(NEEDED | option, use)


EXACT = {"namesrv": "a:1", "topic": "t", "deliveryGuarantee": "exactly-once"}


def test_exactly_once_decisions_are_in_the_checkpoint_by_default() -> None:
    options = write_options(EXACT | {"checkpointLocation": "s3a://b/c/"}, Use.WRITE_STREAM)
    assert options.transactions_location == "s3a://b/c/rocketmq"
    options = write_options(EXACT | {"transactionsLocation": "/d", "checkpointLocation": "/c"}, Use.WRITE_STREAM)
    assert options.transactions_location == "/d"


@pytest.mark.parametrize(
    ("given", "use", "told"),
    [
        (EXACT, Use.WRITE, "exactly-once is for streams"),
        (EXACT, Use.WRITE_STREAM, "needs option checkpointLocation of this writeStream"),
        (EXACT | {"checkpointLocation": "/c", "asyncProgressTrackingEnabled": "true"}, Use.WRITE_STREAM, "leave out"),
        (EXACT | {"deliveryGuarantee": "exactly once"}, Use.WRITE_STREAM, "at-least-once or exactly-once is expected"),
        ({"namesrv": "a:1", "mode": "drop"}, Use.WRITE, "PERMISSIVE, FAILFAST or DLQ is expected"),
        ({"namesrv": "a:1", "dlqTopic": "d"}, Use.WRITE, "dlqTopic is of use with mode=DLQ only"),
    ],
)
def test_invalid_write_options_are_refused(given: dict[str, str], use: Use, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        write_options(given, use)


def test_undecodable_messages_fail_batch_reads_but_not_streams() -> None:
    assert read_options(NEEDED, Use.READ).mode is Mode.FAILFAST
    assert read_options(NEEDED, Use.READ_STREAM).mode is Mode.PERMISSIVE
    dead = read_options(NEEDED | {"mode": "DLQ", "groupId": "g", "checkCrc": "false"}, Use.READ_STREAM)
    assert (dead.mode, dead.dlq_topic, dead.check_crc) == (Mode.DLQ, "%DLQ%g", False)
    assert read_options(NEEDED | {"mode": "dlq", "dlqTopic": "bad"}, Use.READ).dlq_topic == "bad"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"mode": "DLQ"}, "mode=DLQ needs option groupId"),
        ({"dlqTopic": "bad", "groupId": "g"}, "dlqTopic is of use with mode=DLQ only"),
        ({"mode": "DROPMALFORMED"}, "PERMISSIVE, FAILFAST or DLQ is expected"),
    ],
)
def test_dead_letters_of_a_read_need_a_topic(given: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_options(NEEDED | given, Use.READ_STREAM)


def test_bad_rows_fail_batch_writes_but_not_streams() -> None:
    assert write_options({"namesrv": "a:1"}).mode is Mode.FAILFAST
    assert write_options({"namesrv": "a:1"}, Use.WRITE_STREAM).mode is Mode.PERMISSIVE
    assert write_options({"namesrv": "a:1", "mode": "DLQ"}, Use.WRITE_STREAM).mode is Mode.DLQ


def test_properties_of_a_table_are_not_options() -> None:
    given = {"owner": "root", "provider": "rocketmq", "location": "file:/x", "comment": "c", "option.namesrv": "h:1"}
    check_options(given)
    with pytest.raises(ConfigError, match=r"a batch read with format rocketmq has no options\. .* WITH \(`namesrv`"):
        read_options(given, Use.READ)
    with pytest.raises(ConfigError, match="a write with format rocketmq has no options"):
        write_options(given)
    assert read_options(given | {"namesrv": "h:1", "subscribe": "t"}, Use.READ).namesrv == ("h:1",)


def test_store_directories() -> None:
    read = read_options({"storePath": "/data/a; broker-b=/data/b=c ;", "subscribe": "t"}, Use.READ)
    assert read.stores == (StoreDirectory("a", "/data/a"), StoreDirectory("broker-b", "/data/b=c"))
    assert read.namesrv == ()
    given = {"storePath": "/a", "subscribe": "t"}
    (place,) = read_options({**given, "storePathCommitLog": "/log"}, Use.READ).stores
    assert place == StoreDirectory("a", "/a", "/log")
    read = read_options({"storePath": "s3://bucket/a%20b/?region=r; x=hdfs://n:1/d", "subscribe": "t"}, Use.READ)
    assert read.stores == (
        StoreDirectory("a b", "s3://bucket/a%20b/?region=r"), StoreDirectory("x", "hdfs://n:1/d"),
    )  # fmt: skip
    assert read_options({"namesrv": "h:1", "subscribe": "t"}, Use.READ).stores == ()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"storePath": " ; "}, "the directory of a store is expected"),
        ({"storePath": "/"}, "is no [NAME=]PATH of a store directory"),
        ({"storePath": "a="}, "'a' is no [NAME=]PATH of a store directory"),
        ({"storePath": "s3://bucket"}, "is no [NAME=]PATH of a store directory"),
        ({"storePath": "a=s3://bucket/?x=1"}, "s3://bucket is no URI of a store directory, such as s3://bucket/store"),
        ({"storePath": "s3://bucket/a/../b?key=k"}, "s3://bucket/a/../b is no URI of a store directory"),
        ({"storePath": "s3://bucket/%2e%2e/b"}, "is no URI of a store directory"),
        ({"storePath": "file:///data/store"}, "file:///data/store is on this machine: give its path"),
        ({"storePath": "s3://bucket/a#b"}, "is no URI of a store directory"),
        ({"storePath": "s3://[bucket/a"}, "the URI of a store has an illegal host: write it as s3://bucket/store"),
        ({"storePath": "a=s3://key:s@bücket\u2100/a"}, "the URI of a store has an illegal host"),
        ({"storePath": "s3://key:secret@bucket/a"}, "a store on bucket has a password: credentials are taken from the"),
        ({"storePath": "/a", "storePathCommitLog": "s3://k:s@b/a"}, "a store on b has a password"),
        ({"storePath": "/a/store;/b/store"}, "two stores have the same name"),
        ({"storePath": "/a;/b", "storePathCommitLog": "/log"}, "storePathCommitLog needs option storePath with one"),
        ({"storePathCommitLog": "/log"}, "storePathCommitLog needs option storePath with one"),
        ({"storePath": "/a", "namesrv": "h:1"}, "option namesrv: a read of option storePath has no broker"),
        ({"storePath": "/a", "groupId": "g"}, "option groupId: a read of option storePath has no broker"),
        ({"storePath": "/a", "numRetries": "1"}, "option numRetries: a read of option storePath has no broker"),
        ({"storePath": "/a", "tls": "true"}, "option tls and accessKey: a read of option storePath has no broker"),
        ({"storePath": "/a", "mode": "DLQ"}, "option mode=DLQ needs a broker"),
    ],
)
def test_store_options_that_do_not_fit_are_refused(given: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        read_options({"subscribe": "t", **given}, Use.READ)
