"""Loading the queues at a start: how much is read and opened for each of them."""

from __future__ import annotations

import pytest

from rocketmq_py.errors import StoreCorrupt
from rocketmq_py.store.queue.consume_queue import ConsumeQueue
from tests.unit.store.helpers import Stores, fill

QUEUES = 30
ENTRIES = 5


class Opened:
    """Counts opened consume queue files."""

    def __init__(self, fs) -> None:
        self.files = 0
        self._opening = fs.open
        fs.open = self._open

    def _open(self, path, size, **given):
        self.files += "consumequeue" in path.parts
        return self._opening(path, size, **given)


def filled(stores: Stores):
    store = stores.open()
    for queue_id in range(QUEUES):
        fill(store, ENTRIES, queue_id=queue_id)
    store._schedule.everything(store._readable())
    assert store.flush()
    return store


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_a_start_opens_no_file_of_a_short_queue(stores, clean):
    store = filled(stores)
    if clean:
        store.close()
    else:
        stores.crash()
    opened = Opened(stores.fs)
    again = stores.open()
    assert {again.queue_range("T", queue_id) for queue_id in range(QUEUES)} == {(0, ENTRIES)}
    assert opened.files == 0


def test_a_start_after_a_crash_erases_only_files_with_bytes_after_the_end(stores):
    filled(stores)
    stores.crash()
    path = stores.root / "consumequeue" / "T" / "3" / ("0" * 20)
    content = stores.fs.nodes[path].content
    content[ENTRIES * 20 + 60] = 0xA5
    opened = Opened(stores.fs)
    again = stores.open()
    assert opened.files == 1
    assert not any(stores.fs.nodes[path].content[ENTRIES * 20 :])
    assert again.queue_range("T", 3) == (0, ENTRIES)


def test_the_recorded_end_saves_the_search_for_it(stores, monkeypatch):
    """Two entries are read around it, where a search reads a logarithm of the file."""
    store = filled(stores)
    queue = store._queues.by_key["T", 0]
    read = []
    reading = ConsumeQueue._read_file
    monkeypatch.setattr(ConsumeQueue, "_read_file", lambda *given: (read.append(given[1]), reading(*given))[1])
    assert queue._count_in(0, 1 << 63, ENTRIES) == ENTRIES
    assert read == [ENTRIES - 1, ENTRIES]
    for wrong in (-3, 0, 1, ENTRIES + 1, 20, 21):
        assert queue._count_in(0, 1 << 63, wrong) == ENTRIES


def test_a_file_in_place_of_a_queue_is_refused(stores):
    filled(stores).close()
    stores.fs.write(stores.root / "consumequeue" / "T" / "77", b"x")
    with pytest.raises(StoreCorrupt, match="77 is not a folder"):
        stores.open()
