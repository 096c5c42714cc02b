"""What a start says of its progress while it reads a long log."""

from __future__ import annotations

import logging

from rocketmq_py.store import recovery
from tests.unit.store.helpers import SMALL, fill, numbers, read_queue


def logged(caplog):
    return [one.getMessage() for one in caplog.records]


def test_long_passes_over_the_log_say_how_far_they_are(stores, caplog, monkeypatch):
    monkeypatch.setattr(recovery, "_REPORT_EVERY", 5000)
    monkeypatch.setattr(recovery, "_COMMIT_EVERY", 2)
    caplog.set_level(logging.INFO)
    done = fill(stores.open(), 61)
    space = (done[-1].physical_offset // SMALL.mapped_file_size_commit_log + 1) * SMALL.mapped_file_size_commit_log

    def places(every):
        """The records at which a pass says it that looks at each so-manieth of them."""
        reached, found = 0, []
        for one in done[every - 1 :: every]:
            if one.physical_offset - reached >= 5000:
                reached = one.physical_offset
                found.append(f"the commit log is scanned up to {reached} of {space}")
        assert len(found) > 1
        return found

    def told():
        caplog.clear()
        store = stores.open()
        assert numbers(read_queue(store)) == list(range(61))
        store.close()
        return [one.partition(": ") for one in logged(caplog) if "is scanned up to" in one]

    stores.crash()
    stores.fs.remove(stores.root / "checkpoint")
    assert told() == [("rebuilding consume queues and index", ": ", place) for place in places(2)]
    stores.fs.remove(stores.root / "queueends")
    stores.fs.remove(stores.root / "queueends.bak")
    assert told() == [("comparing consume queues", ": ", place) for place in places(1)]
    assert told() == []
