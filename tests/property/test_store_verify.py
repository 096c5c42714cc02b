"""The check of a store survives any crash; after recovery it finds what the crash took from the log, no more."""

import random
import tempfile
import threading
from itertools import pairwise
from pathlib import Path

from hypothesis import HealthCheck, assume, given, settings, strategies as st

from rocketmq_py.store.tools.offline import OfflineStore
from rocketmq_py.store.tools.verify import verify
from tests.examples import examples
from tests.unit.store.helpers import Stores, fill, record
from tests.unit.store.memoryfs import MemoryFileSystem

LOST = ("the log is damaged from ", "the log has no offsets ", "and ")


def crashed(chance: random.Random) -> Stores:
    """A store in memory after some messages, some flushes and a crash."""
    stores = Stores(Path("/store"), MemoryFileSystem())
    store, number = stores.open(), 0
    for _ in range(chance.randrange(1, 8)):
        for _ in range(chance.randrange(1, 40)):
            store.append(record(number, queue_id=number % 3, size=chance.randrange(1, 300)))
            number += 1
        store.commit_pending()
        if chance.random() < 0.5:
            flush(stores, store)
    stores.crash(stores.fs.after_power_loss(chance) if chance.random() < 0.7 else None)
    return stores


def flush(stores: Stores, store) -> None:
    """Queues, index and checkpoint too."""
    stores.clock.now += 70_000
    for _ in range(2):
        store.tick(stores.clock.now)
    done = threading.Event()
    store._flusher.request(store.max_physical_offset, done.set)
    assert done.wait(10)


def write_out(fs: MemoryFileSystem, root: Path) -> None:
    for path, node in fs.nodes.items():
        file = root / path.relative_to("/store")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(node.content))


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 1 << 32))
def test_a_recovered_store_is_valid(seed: int) -> None:
    chance = random.Random(seed)
    stores = crashed(chance)
    starts = [int(name) for name in stores.fs.names(stores.root / "commitlog")]
    assume(all(after == before + 4096 for before, after in pairwise(starts)))  # a file lost for good is a problem
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "store"
        write_out(stores.fs, root)
        if (root / "commitlog").exists():  # else nothing of it ever reached the disk
            with OfflineStore(root) as offline:
                verify(offline)
        again = Stores(root, None)
        again.clock.now = stores.clock.now
        store = again.open()
        fill(store, chance.randrange(1, 10), start=1000)
        store.close()
        with OfflineStore(root) as offline:
            found = [finding.what for finding in verify(offline).findings.listed()]
    # What a loss of power took from the middle of the log stays lost, and nothing else is wrong.
    assert [what for what in found if not what.startswith(LOST)] == []
