"""Stores of our broker and of Java's, read from their files: row for row what the broker itself serves."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rocketmq_py import Message, Producer, TransactionProducer, TransactionState, arrow
from rocketmq_py.arrow.bad_records import CORRUPT_REASON, CORRUPT_RECORD
from rocketmq_py.arrow.decode import COLUMNS
from rocketmq_py.errors import ConfigError
from tests.interop.javapeer import JavaPeer
from tests.interop.ours import OurServers
from tests.interop.side import eventually
from tests.s3 import S3, server

TOPIC = "ledger"
N = 300
NAMES = [name for name in COLUMNS if name not in (CORRUPT_RECORD, CORRUPT_REASON)]
PLACE = [(name, "ascending") for name in ("queueId", "queueOffset")]


def send(namesrv: str) -> None:
    """Plain and compressed messages, a batch, and some that are not in the topic: delayed, half, rolled back."""
    with Producer(group="p", namesrv=namesrv, compress_over=200) as producer:
        for i in range(N):
            producer.send(
                Message(TOPIC, b"%d|" % i + bytes(i), tags="AB"[i % 2], keys=f"k-{i}", properties={"n": str(i)})
            )
        producer.send_batch([Message(TOPIC, b"%d|" % i, tags="C") for i in range(N, N + 3)])
        producer.send(Message(TOPIC, b"later", delay_level=18))

    class Local:
        def execute_local_transaction(self, message: Message, arg: Any = None) -> TransactionState:
            del message
            return arg

        def check_local_transaction(self, message: Any) -> TransactionState:
            del message
            return TransactionState.UNKNOWN

    with TransactionProducer("tx", namesrv, listener=Local()) as producer:
        for body, state in ((b"open", TransactionState.UNKNOWN), (b"no", TransactionState.ROLLBACK),
                            (b"999|", TransactionState.COMMIT)):  # fmt: skip
            producer.send_in_transaction(Message(TOPIC, body), state)


def rows(**where: Any) -> pa.Table:
    return arrow.read(TOPIC, columns=NAMES, **where).read_all().sort_by(PLACE)


def served(namesrv: str) -> pa.Table:
    return eventually(lambda: rows(namesrv=namesrv), lambda found: found.num_rows == N + 4)


def check(name: str, store: Path, expected: pa.Table, namesrv: str | None) -> None:
    """The files have the rows of ``expected``; of the rest, what the options of the read say."""
    at = {name: store}
    assert rows(store=at).equals(expected)
    middle = expected.column("storeTimestamp").to_pylist()[len(expected) // 3]
    for options in (
        {"tags": "A"}, {"tags": "B || C"}, {"sql": "n BETWEEN 20 AND 40 OR TAGS = 'C'"}, {"start": middle},
        {"end": middle},
    ):  # fmt: skip
        found = rows(store=at, **options)
        if namesrv is not None and "sql" not in options:
            assert found.equals(rows(namesrv=namesrv, **options)), options
        assert 0 < found.num_rows < len(expected)
    copy = store.with_name(f"{store.name}-scanned")
    shutil.copytree(store, copy, ignore=shutil.ignore_patterns("consumequeue", "lock"))
    assert rows(store={name: copy}).equals(expected), "by a scan of the log"


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("side", ["ours", "java"])
def test_a_store_has_the_rows_of_its_broker(
    java: JavaPeer, servers: OurServers, tmp_path: Path, side: str, end: str
) -> None:
    store = tmp_path / "store"
    if side == "ours":
        ours = servers.serve(store)
        namesrv, stop = ours.namesrv, getattr(ours, end)
    else:
        theirs = java.broker(servers.namesrv().namesrv, store=store)
        namesrv, stop = theirs.namesrv, getattr(theirs.process, end)
    send(namesrv)
    expected = served(namesrv)
    name = expected.column("brokerName").to_pylist()[0]
    if side == "java":  # its queues are on disk at once
        check(name, store, expected, namesrv)
        shutil.rmtree(f"{store}-scanned")
    stop()
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    check(name, store, expected, None)
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*")} == before


SMALL = {"mappedFileSizeCommitLog": 64 << 10, "mappedFileSizeConsumeQueue": 20 * 1000, "maxMessageSize": 32 << 10}
"""Every byte of a file is uploaded."""


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.mark.parametrize("side", ["ours", "java"])
def test_a_store_in_s3_has_the_rows_of_its_broker(
    java: JavaPeer, servers: OurServers, tmp_path: Path, side: str, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / side
    if side == "ours":
        ours = servers.serve(store, **SMALL)
        namesrv, stop = ours.namesrv, ours.stop
    else:
        theirs = java.broker(servers.namesrv().namesrv, store=store, conf=SMALL)
        namesrv, stop = theirs.namesrv, theirs.process.stop
    send(namesrv)
    expected = served(namesrv)
    stop()
    assert len(list((store / "commitlog").iterdir())) > 1
    uri, name = s3.upload(store, side), expected.column("brokerName").to_pylist()[0]
    for key, value in s3.environment.items():
        monkeypatch.setenv(key, value)
    assert rows(store={name: uri}).equals(expected)
    assert rows(store={name: uri}, tags="A").num_rows == N // 2
    with pytest.raises(ConfigError, match=f"{uri}/none is no store: there are no files in {uri}/none/commitlog"):
        rows(store=f"{uri}/none")
    shutil.rmtree(store / "consumequeue")
    (store / "abort").touch()
    scanned = s3.upload(store, f"{side}-scanned")
    assert rows(store={name: scanned}).equals(expected)
