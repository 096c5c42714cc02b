"""Failing disks, damaged records and failing jobs are reported, and the broker goes on."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from rocketmq_py.broker.metadata.file_saver import ConfigFileSaver
from rocketmq_py.broker.records.stored_record import read_stored
from rocketmq_py.broker.ticker import Job, Ticker
from rocketmq_py.errors import CorruptRecord, StoreNotWritable
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.store import OsFileSystem, Workers
from rocketmq_py.wire.batch import encode_batch
from tests.unit.broker.harness import Client, InProcess
from tests.unit.broker.requests import pull, send


def refuse(*_: object) -> None:
    raise StoreNotWritable("the disk is full")


def test_a_store_that_refuses_writes_fails_sends_and_serves_reads(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
    monkeypatch.setattr(running.services.store, "append", refuse)
    monkeypatch.setattr(running.services.store, "append_batch", refuse)
    for header, body in ((send(), b"body"), (send(batch=True), encode_batch([(0, b"b", b"")]))):
        answer = client.ask(Code.SEND_MESSAGE_V2, header, body)
        assert (answer.code, answer.remark) == (14, "the disk is full")
    assert client.ask(Code.PULL_MESSAGE, pull()).code == 0


def test_a_full_disk_refuses_messages_until_it_has_room(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
    used = 0.91
    monkeypatch.setattr(OsFileSystem, "used_ratio", lambda *_: used)
    running.services.clean_store()
    answer = client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
    assert (answer.code, answer.remark) == (14, "the store refuses messages: the disk is 91 % full")
    assert client.ask(Code.PULL_MESSAGE, pull()).code == 0
    used = 0.5
    running.services.clean_store()
    assert client.ask(Code.SEND_MESSAGE_V2, send(), b"body").code == 0


def test_delayed_messages_wait_while_the_store_refuses_writes(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client.ask(Code.SEND_MESSAGE_V2, send(properties={"DELAY": "1"}), b"body")
    with monkeypatch.context() as patched:
        patched.setattr(running.services.store, "append", refuse)
        running.turn(2_000)
        running.turn(100)
    assert caplog.text.count("delayed messages wait, the store refuses writes: the disk is full") == 1
    assert running.services.store.queue_range("t", 0) == (0, 0)
    running.turn(100)
    assert running.services.store.queue_range("t", 0) == (0, 1)


@pytest.mark.parametrize("found", [None, b"no record", b"\0" * 200])
def test_a_delayed_message_that_cannot_be_read_does_not_stop_the_others(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch, found: bytes | None
) -> None:
    for body in (b"lost", b"kept"):
        client.ask(Code.SEND_MESSAGE_V2, send(properties={"DELAY": "1"}), body)
    whole = running.services.store.message_at
    monkeypatch.setattr(
        running.services.store, "message_at", lambda offset, size=None: whole(offset, size) if offset else found
    )
    running.turn(1_000)
    [message] = _bodies(running)
    assert message == b"kept"


def _bodies(running: InProcess) -> list[bytes]:
    store = running.services.store
    records = [store.record_at_queue("t", 0, offset) for offset in range(store.queue_range("t", 0)[1])]
    return [read_stored(record).body for record in records if record is not None]


def test_a_delayed_message_without_a_real_topic_is_dropped(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client.ask(Code.SEND_MESSAGE_V2, send(properties={"UNIQ_KEY": "U"}), b"body")
    plain = running.services.store.message_at(0)
    client.ask(Code.SEND_MESSAGE_V2, send(properties={"DELAY": "1"}), b"delayed")
    monkeypatch.setattr(running.services.store, "message_at", lambda *_: plain)
    running.turn(1_000)
    assert "has no valid real topic" in caplog.text
    assert _bodies(running) == [b"body"]


@pytest.mark.parametrize("raw", [b"", b"short", bytes(200)])
def test_bytes_that_are_no_record_are_refused(raw: bytes) -> None:
    with pytest.raises(CorruptRecord):
        read_stored(raw)


def test_a_held_pull_that_raises_is_answered_with_an_error(running: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    clients = [running.connect() for _ in range(2)]
    clients[0].ask(Code.SEND_MESSAGE_V2, send(), b"body")
    for client in clients:
        client.call(Code.PULL_MESSAGE, pull(offset=1, sys_flag=6))
    whole = running.services.pull_service.pull

    def pull_or_break(peer: object, request: object, *, may_hold: bool = True) -> object:
        if peer is clients[0].peer:
            raise RuntimeError("broken")
        return whole(peer, request, may_hold=may_hold)  # type: ignore[arg-type]

    monkeypatch.setattr(running.services.pull_service, "pull", pull_or_break)
    running.turn(15_000)
    assert [(answer.code, answer.remark) for answer in clients[0].heard] == [(1, "RuntimeError: broken")]
    assert [answer.code for answer in clients[1].heard] == [19]


def test_a_job_that_fails_is_logged_and_runs_again(caplog: pytest.LogCaptureFixture) -> None:
    runs = {"bad": 0, "good": 0}

    async def scenario() -> None:
        enough = asyncio.Event()

        def bad() -> None:
            runs["bad"] += 1
            raise RuntimeError("no luck today")

        def good() -> None:
            runs["good"] += 1
            if runs["good"] == 3:
                enough.set()

        ticker = Ticker([Job(1, bad), Job(1, good)])
        ticker.start()
        await enough.wait()
        await ticker.stop()
        await ticker.stop()

    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())
    assert runs["bad"] >= 2
    assert caplog.text.count("bad failed and is tried again: no luck today") == 1
    assert caplog.records[0].exc_info


def test_a_job_that_fails_on_the_disk_is_logged_without_a_traceback_until_it_works_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    turns: list[int] = []

    async def scenario() -> None:
        enough = asyncio.Event()

        def save() -> None:
            turns.append(1)
            if len(turns) < 3:
                raise OSError("disk full")
            enough.set()

        ticker = Ticker([Job(1, save)])
        ticker.start()
        await enough.wait()
        await ticker.stop()

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    first, second = caplog.records
    assert (first.levelname, first.exc_info) == ("ERROR", None)
    assert first.getMessage().endswith("save failed and is tried again: disk full")
    assert second.getMessage().endswith("save works again")


def test_a_stopped_ticker_runs_nothing() -> None:
    turns: list[float] = []

    async def scenario() -> None:
        enough = asyncio.Event()

        def job() -> None:
            turns.append(asyncio.get_running_loop().time())
            enough.set()

        ticker = Ticker([Job(1, job)])
        ticker.start()
        await enough.wait()
        await ticker.stop()
        before = len(turns)
        await asyncio.sleep(1)
        assert len(turns) == before
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())


def test_a_job_may_have_its_own_first_interval() -> None:
    turns: list[str] = []

    async def scenario() -> None:
        enough = asyncio.Event()

        def first() -> None:
            turns.append("first")
            enough.set()

        ticker = Ticker(
            [Job(60_000, first, 0), Job(1, lambda: None, 60_000), Job(60_000, lambda: turns.append("late"))]
        )
        ticker.start()
        await enough.wait()
        await ticker.stop()

    asyncio.run(scenario())
    assert turns == ["first"]


class Disk:
    """A config file on a disk that is full at times."""

    path = Path("offsets.json")

    def __init__(self) -> None:
        self.full = False

    def save(self, _: object) -> None:
        if self.full:
            raise OSError("no space")


def test_a_file_that_cannot_be_written_is_logged_once_and_again_when_it_can(caplog: pytest.LogCaptureFixture) -> None:
    disk, saver = Disk(), ConfigFileSaver(Workers().executor("test-config"))
    for full in (False, True, True, False, False):
        saver.wait()
        disk.full = full
        saver.save(disk, {})  # type: ignore[arg-type]
    saver.close()
    first, second = caplog.records
    assert first.getMessage().startswith("offsets.json cannot be written")
    assert second.getMessage() == "offsets.json can be written again"
