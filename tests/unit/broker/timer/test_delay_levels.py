"""Delivery of delayed messages while the store refuses writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_py.errors import StoreNotWritable
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.store import Appended, NewRecord
from tests.unit.broker.harness import Client, InProcess, broker
from tests.unit.broker.requests import send


def test_delayed_messages_wait_for_the_store_and_are_logged_once_each_time(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = running.services.store
    append, refuses = store.append, [False]

    def appended(record: NewRecord) -> Appended:
        if refuses[0]:
            raise StoreNotWritable("the disk is full")
        return append(record)

    monkeypatch.setattr(store, "append", appended)
    for times in (1, 2):
        assert client.ask(Code.SEND_MESSAGE_V2, send(properties={"DELAY": "1"}), b"delayed").code == 0
        refuses[0] = True
        for _ in range(4):
            running.turn(1_000)
        assert store.queue_range("t", 0) == (0, times - 1)
        assert caplog.text.count("delayed messages wait, the store refuses writes: the disk is full") == times
        refuses[0] = False
        running.turn(1_000)
        assert store.queue_range("t", 0) == (0, times)


@pytest.mark.parametrize(("commits", "bumps"), [(0, 0), (2, 0), (3, 1), (5, 1), (6, 2)])
def test_the_version_changes_with_every_so_many_offsets(tmp_path: Path, commits: int, bumps: int) -> None:
    with broker(tmp_path, delay_offset_update_version_step=3) as running:
        delay = running.services.delay
        before = delay.version.counter
        for offset in range(commits):
            delay.commit(1, offset + 1)
        assert delay.version.counter - before == bumps
        assert delay.offsets.get(1, 0) == commits
