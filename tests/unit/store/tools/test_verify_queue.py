"""Consume queues compared with the commit log: entries without messages."""

from __future__ import annotations

import shutil

import pytest

from rocketmq_py.store.tools.findings import Findings
from rocketmq_py.store.tools.offline import OfflineStore
from rocketmq_py.store.tools.verify import verify
from rocketmq_py.store.tools.verify_queue import QueueCheck
from tests.unit.store.helpers import Stores, fill


@pytest.mark.parametrize("lost", [1, 1024, 1025, 3000])
def test_entries_of_lost_messages_are_noted_however_many_they_are(disk_stores: Stores, lost: int) -> None:
    store = disk_stores.open()
    fill(store, 2)
    store.keep_ends({("T", 0): 2 + lost})
    store.close()
    with OfflineStore(disk_stores.root) as offline:
        report = verify(offline)
    found = [(one.severity, one.what) for one in report.findings.listed() if one.place == "consume queue T-0"]
    assert found == [("note", f"offsets 2 to {1 + lost} have no messages: the log has lost them")]
    assert report.is_valid


def test_entries_whose_file_was_removed_meanwhile_are_unfinished(disk_stores: Stores) -> None:
    store = disk_stores.open()
    fill(store, 30)
    store.close()
    findings = Findings(must_be_complete=False)
    with OfflineStore(disk_stores.root) as offline:
        check = QueueCheck(offline, findings)
        for files in offline._queue_files:
            files.close()
        shutil.rmtree(disk_stores.root / "consumequeue")
        check.finish(7)
    assert [(one.severity, one.what) for one in findings.listed()] == [
        ("note", "offsets 0 to 29 point to records that the log does not have, from 7 on")
    ]
