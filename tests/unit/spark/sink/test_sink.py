"""Writers as Spark calls them: what a task sends and reports, and what a driver commits. No Spark session needed."""

from __future__ import annotations

import os
import pickle
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rocketmq_py.arrow.bad_records import Mode
from rocketmq_py.arrow.options.security import Security
from rocketmq_py.arrow.sink import task_keys
from rocketmq_py.arrow.sink.rows import RowStamp
from rocketmq_py.arrow.sink.targets import SendSettings
from rocketmq_py.errors import ConfigError, MessageIllegal
from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.spark.decision_store.decisions import Decision, DecisionError, Decisions
from rocketmq_py.spark.options.write import Guarantee, WriteOptions
from rocketmq_py.spark.sink import check_back, sink
from rocketmq_py.spark.sink.sink import PreparedTask, RowStreamWriter, TaskWriter, Written, check_schema, stream_writer
from rocketmq_py.wire.batch import decode_batch
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.signing import Credentials
from tests.unit.arrow.scripted import ScriptedPeer, answer, scripted
from tests.unit.spark.sink.half_log import COMMIT, ROLLBACK, HalfLog

TEXT_MAP = MapType(StringType(), StringType())
ROWS = StructType([StructField("body", StringType()), StructField("delayLevel", IntegerType())])
TEXTS = StructType([StructField("body", StringType())])


def options(peer: ScriptedPeer | None = None, **more: Any) -> WriteOptions:
    given = {"topic": "t", "num_retries": 0} | more
    return WriteOptions(namesrv=(peer.address if peer else "n:1",), **given)


def exactly_once(where: Path | str, peer: ScriptedPeer | None = None, **more: Any) -> WriteOptions:
    given = {"delivery_guarantee": Guarantee.EXACTLY_ONCE, "transactions_location": str(where)} | more
    return options(peer, **given)


class Log:
    """Keeps what is sent: body, properties and request."""

    def __init__(self) -> None:
        self.stored: list[tuple[bytes, dict[str, str], Command]] = []

    def __call__(self, request: Command) -> Command:
        if request.code == RequestCode.SEND_BATCH_MESSAGE:
            found = [(body, own) for _, body, own in decode_batch(request.body)]
        else:
            found = [(request.body, request.ext["i"].encode())]
        self.stored += [(body, decode_properties(own), request) for body, own in found]
        return answer(msgId="A", queueId=request.ext["e"], queueOffset=0)


def batches(*rows: tuple[Any, ...]) -> list[Any]:
    """Two record batches."""
    kinds = [("body", pa.string()), ("delayLevel", pa.int32())]
    columns = [pa.array([row[i] for row in rows], kind) for i, (_, kind) in enumerate(kinds)]
    batch = pa.RecordBatch.from_arrays(columns, [name for name, _ in kinds])
    return [batch.slice(0, 2), batch.slice(2)]


GIVEN = [("a", None), ("b", 3), ("c", None), ("", None), ("d", 0)]


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The running task, of partition 5; its local properties."""
    properties: dict[str, str] = {"sql.streaming.queryId": "stream-1", "streaming.sql.batchId": "12"}
    context = SimpleNamespace(partitionId=lambda: 5, getLocalProperty=properties.get)
    monkeypatch.setattr(sink, "TaskContext", SimpleNamespace(get=lambda: context))
    return properties


@pytest.mark.parametrize("in_batches", [True, False], ids=["columns", "rows"])
def test_a_task_sends_every_row_and_reports_their_number(task: dict[str, str], in_batches: bool) -> None:
    log = Log()
    with scripted(log) as peer:
        writer = TaskWriter(options(peer, mode=Mode.DLQ), ROWS)
        written = writer.write_batches(batches(*GIVEN)) if in_batches else writer.write(GIVEN)
    assert written == Written(5)
    assert sorted(body for body, _, _ in log.stored) == [b"a", b"b", b"c", b"d", b"null"]
    stored = {body: own for body, own, _ in log.stored}
    assert [stored[body]["SPARK_ROW_KEY"] for body in (b"a", b"b", b"c", b"null", b"d")] == [
        f"5-{number:09d}" for number in range(5)
    ]
    assert stored[b"b"]["DELAY"] == "3"
    for own in stored.values():
        assert (own["SPARK_QUERY_ID"], own["SPARK_BATCH_ID"], own["WAIT"]) == ("stream-1", "12", "true")
        assert re.fullmatch("[0-9A-F]{32}", own["UNIQ_KEY"])
    assert len({own["UNIQ_KEY"] for own in stored.values()}) == 5
    topics = {body: request.ext["b"] for body, _, request in log.stored}
    assert topics == dict.fromkeys((b"a", b"b", b"c", b"d"), "t") | {b"null": "%DLQ%spark_sink"}


def test_the_imports_of_a_worker_are_kept_by_each_task(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[str] = []
    monkeypatch.setattr(sink, "Preparation", lambda *_: SimpleNamespace(rows=list, batches=list))
    with scripted(Log()) as peer:
        writer = TaskWriter(options(peer), ROWS)
        for use in (writer.write, writer.write_batches, writer.prepare, writer.prepare_batches):
            monkeypatch.setattr(sink, "keep_imports", lambda name=use.__name__: kept.append(name))
            use([])
    assert kept == ["write", "write_batches", "prepare", "prepare_batches"]


@pytest.mark.parametrize("in_batches", [True, False], ids=["columns", "rows"])
def test_a_bad_row_fails_the_task(in_batches: bool) -> None:
    with scripted(Log()) as peer:
        writer = TaskWriter(options(peer), ROWS)
        with pytest.raises(MessageIllegal, match="row 3 of partition 0: its body is null or empty"):
            writer.write_batches(batches(*GIVEN)) if in_batches else writer.write(GIVEN)


@pytest.mark.parametrize("in_batches", [True, False], ids=["columns", "rows"])
def test_bad_rows_that_are_left_out_are_not_counted(in_batches: bool) -> None:
    log = Log()
    with scripted(log) as peer:
        writer = TaskWriter(options(peer, mode=Mode.PERMISSIVE), ROWS)
        written = writer.write_batches(batches(*GIVEN)) if in_batches else writer.write(GIVEN)
    assert (written, len(log.stored)) == (Written(4), 4)


def test_a_batch_write_has_an_id_of_its_own(task: dict[str, str]) -> None:
    log = Log()
    with scripted(log) as peer:
        writers = [sink.BatchWriter(options(peer), ROWS) for _ in range(2)]
        for writer in (writers[0], pickle.loads(pickle.dumps(writers[0])), writers[1]):
            assert writer.write(iter(batches(("a", None), ("b", None)))) == Written(2)
    ids = [own["SPARK_QUERY_ID"] for _, own, _ in log.stored]
    assert ids[0] == ids[1] == ids[2] == ids[3] != ids[4] == ids[5]
    assert re.fullmatch("[0-9a-f]{32}", ids[0])
    assert all("SPARK_BATCH_ID" not in own for _, own, _ in log.stored), "a batch write has no micro-batches"


def test_rows_are_stamped_with_the_running_task(task: dict[str, str]) -> None:
    assert sink.task_stamp() == RowStamp("stream-1", "12", 5)
    assert sink.task_stamp("write-1") == RowStamp("write-1", None, 5)
    task.clear()
    assert sink.task_stamp() == RowStamp("", None, 5)


def test_outside_of_a_task_rows_are_of_partition_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "TaskContext", SimpleNamespace(get=lambda: None))
    assert (sink.task_stamp(), sink.task_stamp("w")) == (RowStamp("", None, 0), RowStamp("w", None, 0))


def test_the_options_of_a_write_reach_its_senders() -> None:
    security = Security(credentials=Credentials("a", "s"))
    given = options(
        producer_group="pg", request_timeout_ms=7500, num_retries=9, sends_in_flight=3, max_batch_bytes=1234,
        security=security,
    )  # fmt: skip
    assert sink.send_settings(given) == SendSettings(
        namesrv=("n:1",), producer_group="pg", timeout=7.5, retries=9, in_flight=3, max_batch_bytes=1234,
        security=security,
    )  # fmt: skip
    assert sink.bad_records(given).where == "%DLQ%pg"
    assert sink.bad_records(options(mode=Mode.DLQ, dlq_topic="bad")).where == "bad"


def test_unique_keys_of_one_process_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address, the process id and random bits tell those of other processes apart."""
    monkeypatch.setattr(socket, "gethostbyname", lambda _: "10.1.2.3")
    keys = task_keys.TaskKeys()
    stem, numbers = keys.reserve(3)
    several = [f"{stem}{number:04X}" for number in numbers]
    one, other = keys.one(), task_keys.TaskKeys().one()
    assert len({*several, one, other}) == 5
    assert all(re.fullmatch(f"0A010203{os.getpid() & 0xFFFF:04X}[0-9A-F]{{20}}", key) for key in (*several, one, other))
    assert [int(key[-4:], 16) - int(several[0][-4:], 16) for key in several] == [0, 1, 2]
    assert one[12:20] != other[12:20]
    stem, many = keys.reserve(1 << 16)
    assert len(stem) == 28
    assert sorted(many.tolist()) == list(range(1 << 16)), "they start again at 0"


def test_unique_keys_do_not_need_a_name_service(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: str) -> str:
        raise socket.gaierror("no such host")

    monkeypatch.setattr(socket, "gethostbyname", unknown)
    first, second = (task_keys.TaskKeys().one() for _ in range(2))
    assert len(first) == len(second) == 32
    assert first[:8] != second[:8]


# -- columns


def test_the_columns_of_a_sink_have_types() -> None:
    def checked(name: str, kind: DataType, **more: Any) -> str:
        fields = (
            [StructField(name, kind)]
            if name == "body"
            else [StructField("body", BinaryType()), StructField(name, kind)]
        )
        try:
            check_schema(StructType(fields), options(**more))
        except ConfigError as e:
            return str(e)
        return ""

    accepted = [
        ("body", BinaryType()), ("body", StringType()), ("tags", StringType()), ("keys", StringType()),
        ("properties", TEXT_MAP), ("properties", MapType(StringType(), StringType(), valueContainsNull=False)),
        ("shardingKey", StringType()), ("queueId", IntegerType()), ("delayLevel", IntegerType()),
        ("deliverAt", TimestampType()),
    ]  # fmt: skip
    assert [checked(*one) for one in accepted] == [""] * len(accepted)
    assert [
        checked("body", IntegerType()),
        checked("queueId", LongType()),
        checked("properties", MapType(StringType(), IntegerType())),
        checked("deliverAt", LongType()),
        checked("topic", StringType()),
        checked("topic", BinaryType(), topic=None),
        checked("delayLevel", IntegerType(), delivery_guarantee=Guarantee.EXACTLY_ONCE),
    ] == [
        "column body must be binary or string, it is int",
        "column queueId must be int, it is bigint",
        "column properties must be map<string,string>, it is map<string,int>",
        "column deliverAt must be timestamp, it is bigint",
        "option topic and column topic contradict each other: drop one of them",
        "column topic must be string, it is binary",
        "column delayLevel is not for deliveryGuarantee=exactly-once: a transaction cannot wait",
    ]


# -- streams


def test_the_writer_of_a_stream_fits_the_version_of_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "SUPPORTS_ARROW_STREAMS", False)
    assert type(stream_writer(options(), TEXTS)) is RowStreamWriter
    if hasattr(sink, "ArrowStreamWriter"):
        monkeypatch.setattr(sink, "SUPPORTS_ARROW_STREAMS", True)
        assert type(stream_writer(options(), TEXTS)) is sink.ArrowStreamWriter


def writers(given: WriteOptions, *rows: str) -> Iterator[tuple[Any, list[Any]]]:
    """A writer of each kind, and these rows as it gets them."""
    yield RowStreamWriter(given, TEXTS), [(row,) for row in rows]
    if hasattr(sink, "ArrowStreamWriter"):
        yield sink.ArrowStreamWriter(given, TEXTS), [pa.record_batch([pa.array(rows, pa.string())], ["body"])]


def test_an_at_least_once_stream_has_sent_its_rows_before_the_commit(task: dict[str, str]) -> None:
    log = Log()
    with scripted(log) as peer:
        for number, (writer, rows) in enumerate(writers(options(peer), "a", "b"), 1):
            written = writer.write(iter(rows))
            assert written == Written(2)
            assert len(log.stored) == 2 * number
            before = len(peer.requests)
            writer.commit([written], 12)
            writer.abort([written, None], 12)
            assert len(peer.requests) == before


def test_rows_of_an_exactly_once_stream_are_delivered_by_the_commit(task: dict[str, str], tmp_path: Path) -> None:
    log = HalfLog()
    with scripted(log) as peer:
        for number, (writer, rows) in enumerate(
            writers(exactly_once(tmp_path, peer, producer_group="pg"), "a", "b"), 12
        ):
            first = len(log.stored)
            task["streaming.sql.batchId"] = str(number)
            sent = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(writer)).write(iter(rows))))
            assert isinstance(sent, PreparedTask)
            assert [body for body, _ in log.stored[first:]] == [b"a", b"b"]
            assert not log.ended.keys() & {first, first + 1}
            writer.commit([sent, None], number)
            assert {log.ended[first], log.ended[first + 1]} == {COMMIT}
            made = Decisions.at(str(tmp_path)).latest()
            assert made is not None
            assert (made.query_id, made.batch_id, made.attempts) == ("stream-1", number, {sent.prepared.attempt})
    assert {own["SPARK_ROW_KEY"] for _, own in log.stored} == {"5-000000000", "5-000000001"}
    assert log.sent_by == log.ended_by == {"pg-stream-1"}
    assert len({own["UNIQ_KEY"] for _, own in log.stored}) == len(log.stored)


def test_an_aborted_micro_batch_is_rolled_back_unless_it_may_be_decided(task: dict[str, str], tmp_path: Path) -> None:
    """If all tasks succeeded, a decision whose write failed may still appear."""
    log = HalfLog()
    with scripted(log) as peer:
        writer = RowStreamWriter(exactly_once(tmp_path, peer), TEXTS)
        sent = [writer.write(iter([(text,)])) for text in "ab"]
        writer.abort(sent, 12)
        assert log.ended == {}
        writer.abort([sent[0], None], 12)
        assert log.ended == {0: ROLLBACK}


def test_a_checkpoint_that_is_not_on_this_machine_fails_the_commit(task: dict[str, str], tmp_path: Path) -> None:
    log, where = HalfLog(), tmp_path / "checkpoint" / "rocketmq"
    with scripted(log) as peer:
        writer = RowStreamWriter(exactly_once(where, peer, in_checkpoint=True), TEXTS)
        sent = writer.write(iter([("a",)]))
        with pytest.raises(DecisionError, match=r"checkpoint/metadata, is not on this machine"):
            writer.commit([sent], 12)
        assert log.ended == {}
        (tmp_path / "checkpoint").mkdir()
        (tmp_path / "checkpoint" / "metadata").write_text("{}")
        writer.commit([sent], 12)
    assert log.ended == {0: COMMIT}


def test_a_commit_waits_for_checks_as_long_as_the_option_says(
    task: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def asked(given: SendSettings, decision: Decision, timeout: float) -> Any:
        waits.append(timeout)
        return SimpleNamespace(run=lambda: None)

    monkeypatch.setattr(check_back, "CheckBack", asked)
    with scripted(HalfLog(stuck={0})) as peer:
        writer = RowStreamWriter(exactly_once(tmp_path, peer, commit_timeout_ms=90_000), TEXTS)
        writer.commit([writer.write(iter([("a",)]))], 12)
    assert waits == [90.0]


def test_a_place_that_cannot_keep_decisions_is_refused_when_the_query_is_defined() -> None:
    with pytest.raises(ConfigError, match="Python cannot keep decisions in dbfs:/x"):
        RowStreamWriter(exactly_once("dbfs:/x"), TEXTS)
    RowStreamWriter(options(transactions_location="dbfs:/x"), TEXTS)  # not used


def test_a_unique_key_has_the_time_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, now = task_keys.TaskKeys(), [1_700_000_000.0]
    monkeypatch.setattr(task_keys, "time", SimpleNamespace(time=lambda: now[0]))
    first = keys.one()
    now[0] += 1.5
    later, (several, _) = keys.one(), keys.reserve(2)
    assert int(later[20:28], 16) - int(first[20:28], 16) == 1500
    assert several[20:28] == later[20:28]
