"""The scan of the commit log."""

from __future__ import annotations

import pytest

from rocketmq_py.store.log import scan as scan_module
from rocketmq_py.store.log.scan import LogScan
from tests.unit.store.helpers import Stores, record


def test_a_scan_keeps_a_bounded_number_of_topic_names(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slave scans what its master sends for as long as it runs, and every record can have another topic."""
    store = stores.open()
    for i in range(40):
        store.append(record(i, topic=f"topic{i % 25}"))
    store.commit_pending()
    monkeypatch.setattr(scan_module, "_MAX_TOPICS", 8)
    scan = LogScan(store._commit_log, 0)
    sizes = []
    topics = [(found.topic, sizes.append(len(scan._topics)))[0] for found in scan]
    assert topics == [f"topic{i % 25}" for i in range(40)]
    assert max(sizes) == 8
