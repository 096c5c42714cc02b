"""Expired files are removed by time and disk usage, within the limits."""

import datetime
import threading

import msgspec
import pytest

from rocketmq_py.errors import ConfigError, StoreNotWritable
from rocketmq_py.store import GetStatus, StoreConfig
from rocketmq_py.store.fs.layout import segment_name
from rocketmq_py.store.retention import RetentionLimits, decide, expired
from rocketmq_py.wire.record import decode_records
from tests.unit.store.helpers import NOW, SMALL, fill, numbers, read_queue, record

HOUR = 3_600_000
DEFAULTS = StoreConfig()
THIS_HOUR = datetime.datetime.fromtimestamp(NOW // 1000).astimezone().hour
NEVER = msgspec.structs.replace(SMALL, delete_when=f"{(THIS_HOUR + 12) % 24:02d}", delete_file_batch_max=1000)
"""Nothing goes by itself."""


# -- the rules


@pytest.mark.parametrize(
    ("hour", "used", "asked", "removes", "at_any_age", "refuses"),
    [
        (3, 0.10, False, False, False, False),
        (4, 0.10, False, True, False, False),
        (3, 0.75, False, False, False, False),
        (3, 0.76, False, True, False, False),
        (3, 0.85, False, True, False, False),
        (3, 0.86, False, True, True, False),
        (3, 0.90, False, True, True, False),
        (3, 0.91, False, True, True, True),
        (3, 0.10, True, True, False, False),
    ],
)
def test_file_removal_depends_on_age_hour_and_disk_usage(hour, used, asked, removes, at_any_age, refuses):
    verdict = decide(DEFAULTS, hour, used, requested=asked)
    assert (bool(verdict.why), verdict.at_any_age, verdict.refuse) == (removes, at_any_age, refuses)
    assert bool(verdict.disk) == (used > 0.75)


def test_young_files_stay_without_forced_clean_up():
    config = StoreConfig(clean_file_forcibly_enable=False)
    assert not decide(config, 3, 0.95).at_any_age
    assert decide(config, 3, 0.95).refuse


def test_limits_are_clamped_as_in_java():
    low = StoreConfig(disk_max_used_space_ratio=1, disk_space_clean_forcibly_ratio=1, disk_space_warning_level_ratio=1)
    high = StoreConfig(
        disk_max_used_space_ratio=99, disk_space_clean_forcibly_ratio=99, disk_space_warning_level_ratio=99
    )
    assert RetentionLimits.of(low) == (0.10, 0.30, 0.35)
    assert RetentionLimits.of(high) == (0.95, 0.85, 0.90)


def test_several_hours_can_be_configured():
    config = StoreConfig(delete_when="04;16;")
    assert [hour for hour in range(24) if decide(config, hour, 0).why] == [4, 16]


@pytest.mark.parametrize("text", ["", "24", "4am", "-1", ";"])
def test_invalid_hours_are_refused(text):
    with pytest.raises(ConfigError, match="deleteWhen"):
        StoreConfig(delete_when=text)


def test_the_log_never_gets_a_gap():
    files = [(0, 0), (1, 100 * HOUR), (2, 0)]
    assert expired(files, 101 * HOUR, 72, at_any_age=False, limit=10) == [0]
    assert expired(files, 101 * HOUR, 72, at_any_age=True, limit=10) == [0, 1, 2]
    assert expired(files, 101 * HOUR, 72, at_any_age=True, limit=2) == [0, 1]
    assert expired(files, 72 * HOUR - 1, 72, at_any_age=False, limit=10) == []


# -- in a store


def flush(store):
    """Let the flush thread put log, queues and index on disk, and finish what it was asked for."""
    store.commit_pending()
    store._schedule.everything(store._readable())
    done = threading.Event()
    store._flusher.request(store.max_physical_offset, done.set)
    assert done.wait(10)


def clean(stores, store, ticks=30):
    flush(store)
    store.clean(stores.clock.now)
    for _ in range(ticks):
        store.tick(stores.clock.now)
        drain(store)
    flush(store)


def drain(store):
    """Let the flush thread finish what was requested."""
    done = threading.Event()
    store._flusher.request(0, done.set)
    assert done.wait(10)


def log_files(stores):
    return stores.fs.names(stores.root / "commitlog")


def test_the_newest_file_stays_and_readers_see_the_new_minimum(stores):
    store = stores.open(NEVER)
    fill(store, 200, topic="T")
    fill(store, 1, topic="late")
    before = log_files(stores)
    assert len(before) > 8
    stores.fs.ratio = 0.86
    clean(stores, store)
    assert log_files(stores) == before[-1:]
    assert store.min_physical_offset == int(before[-1])
    low, high = store.queue_range("T", 0)
    assert 0 < low < high == 200
    assert numbers(read_queue(store)) == list(range(low, 200))
    assert store.get("T", 0, 0, 32).status is GetStatus.OFFSET_TOO_SMALL
    assert store.get("T", 0, 0, 32).next_offset == low
    assert store.earliest_store_time("T", 0) == NOW
    assert numbers(read_queue(store, "late")) == [0]
    fill(store, 5, start=200)
    assert numbers(read_queue(store)) == list(range(low, 205))


def test_a_pass_removes_a_limited_number_of_files(stores):
    store = stores.open(msgspec.structs.replace(NEVER, delete_file_batch_max=3))
    fill(store, 200)
    before = log_files(stores)
    stores.fs.ratio = 0.86
    clean(stores, store)
    assert log_files(stores) == before[3:]
    clean(stores, store)
    assert log_files(stores) == before[6:]


def test_one_file_is_removed_per_tick(stores):
    store = stores.open(NEVER)
    fill(store, 100)
    files = len(log_files(stores))
    stores.fs.ratio = 0.86
    flush(store)
    store.clean(NOW)
    assert len(store._commit_log.starts) == files
    store.tick(NOW)
    assert len(store._commit_log.starts) == files - 1
    # Until the queue has been told, a reader passes over what is gone.
    found = decode_records(store.get("T", 0, 0, 32).body)
    assert found[0].queue_offset > 0
    assert found[0].commit_log_offset == store.min_physical_offset
    clean(stores, store)
    assert store.get("T", 0, 0, 32).status is GetStatus.OFFSET_TOO_SMALL


def test_old_files_are_removed_in_the_configured_hour(stores):
    config = msgspec.structs.replace(NEVER, delete_when=f"{THIS_HOUR:02d}")
    store = stores.open(config)
    fill(store, 100)
    before = log_files(stores)
    for i, name in enumerate(before):
        stores.fs.modified[stores.root / "commitlog" / name] = NOW - (73 - i) * HOUR
    clean(stores, store)
    assert log_files(stores) == before[2:]


def test_a_manual_request_removes_files_at_any_hour(stores):
    store = stores.open(NEVER)
    fill(store, 100)
    clean(stores, store)
    assert len(log_files(stores)) > 1
    store.delete_expired()
    clean(stores, store)
    assert len(log_files(stores)) == 1


def test_queue_and_index_files_follow_the_log(stores):
    store = stores.open(NEVER)
    fill(store, 200)
    fill(store, 3, topic="old", start=0)
    fill(store, 100, start=200)
    store._queues.spill()
    queue, index = stores.root / "consumequeue" / "T" / "0", stores.root / "index"
    files = len(stores.fs.names(index))
    assert len(stores.fs.names(queue)) == 15
    store._flusher.request(0)
    stores.fs.ratio = 0.86
    for _ in range(4):
        clean(stores, store)
    low = store.queue_range("T", 0)[0]
    assert stores.fs.names(queue)[0] == segment_name(low // 20 * 400)
    assert 1 <= len(stores.fs.names(index)) < files
    assert store.queue_range("old", 0) == (3, 3)
    assert store.get("old", 0, 0, 32).status is GetStatus.OFFSET_TOO_SMALL
    assert store.get("old", 0, 3, 32).status is GetStatus.OFFSET_OVERFLOW_ONE
    assert store.query("T", "k299", 10, 0, NOW * 2).count == 1
    assert store.query("T", "k0", 10, 0, NOW * 2).count == 0
    fill(store, 1, topic="old", start=3)
    assert numbers(read_queue(store, "old")) == [3]
    store.close()
    again = stores.open(NEVER)
    assert again.queue_range("T", 0) == (low, 300)
    assert again.queue_range("old", 0) == (3, 4)
    assert numbers(read_queue(again)) == list(range(low, 300))


def test_the_remaining_messages_survive_a_crash(stores):
    store = stores.open(NEVER)
    fill(store, 200)
    stores.fs.ratio = 0.86
    clean(stores, store)
    low = store.queue_range("T", 0)[0]
    fill(store, 20, start=200)
    stores.crash()
    again = stores.open(NEVER)
    assert numbers(read_queue(again)) == list(range(low, 220))


def test_a_full_disk_refuses_messages_until_there_is_room(stores, caplog):
    store = stores.open(NEVER)
    fill(store, 10)
    stores.fs.ratio = 0.91
    clean(stores, store)
    clean(stores, store)
    assert not store.is_writable
    with pytest.raises(StoreNotWritable, match="the disk is 91 % full"):
        store.append(record(10))
    assert numbers(read_queue(store)) == list(range(store.queue_range("T", 0)[0], 10))
    assert len([r for r in caplog.records if "messages are refused until it is below 90 %" in r.message]) == 1
    stores.fs.ratio = 0.90
    clean(stores, store)
    assert store.is_writable
    fill(store, 1, start=10)
    assert "has room again" in caplog.text


def test_changed_settings_apply_to_the_next_pass(stores):
    store = stores.open(NEVER)
    fill(store, 60)
    clean(stores, store)
    assert store.min_physical_offset == 0
    store.config = msgspec.structs.replace(NEVER, delete_when=f"{THIS_HOUR:02d}")
    clean(stores, store)
    assert store.min_physical_offset > 0


def test_free_disk_space_does_not_hide_another_failure(stores):
    store = stores.open(NEVER)
    fill(store, 1)
    stores.fs.ratio = 0.91
    clean(stores, store)
    stores.fs.fails = lambda operation, path: operation == "write" and "consumequeue" in path.parts
    store._refuse(OSError("no space"))
    stores.fs.ratio = 0.5
    store.clean(NOW)
    assert not store.is_writable
    stores.fs.fails = lambda operation, path: False
    store.tick(NOW)
    assert store.is_writable


def test_recovered_queues_do_not_hide_a_full_disk(stores):
    store = stores.open(NEVER)
    fill(store, 1)
    store._refuse(OSError("no space"))
    stores.fs.ratio = 0.91
    clean(stores, store)
    assert not store.is_writable
    stores.fs.ratio = 0.5
    store.clean(NOW)
    assert store.is_writable


def test_one_warning_says_that_no_file_can_be_removed(stores, caplog):
    store = stores.open(NEVER)
    fill(store, 2)
    stores.fs.ratio = 0.8
    for _ in range(3):
        clean(stores, store)
    assert caplog.text.count("has no commit log file older than 72 hours") == 1
    assert store.is_writable


def test_a_file_that_cannot_be_removed_is_no_longer_used(stores, caplog, monkeypatch):
    store = stores.open(NEVER)
    fill(store, 60)

    def refuse(path):
        raise PermissionError(path)

    monkeypatch.setattr(stores.fs, "remove", refuse)
    stores.fs.ratio = 0.86
    clean(stores, store)
    monkeypatch.undo()
    assert store.min_physical_offset > 0
    assert "could not be removed" in caplog.text
    fill(store, 1, start=60)
    assert store.is_writable


def test_entries_and_keys_stay_until_their_log_file_is_removed(stores, caplog):
    """Otherwise the next start serves the messages of a file that could not be removed without entries and keys."""
    config = msgspec.structs.replace(NEVER, delete_file_batch_max=1, max_index_num=8)
    store = stores.open(config)
    fill(store, 100)
    before = log_files(stores)
    first = len(stores.fs.nodes[stores.root / "commitlog" / before[0]].content)
    stores.fs.fails = lambda operation, path: operation == "remove" and "commitlog" in path.parts
    stores.fs.ratio = 0.86
    for _ in range(3):
        clean(stores, store)
    low = store.queue_range("T", 0)[0]
    assert store.min_physical_offset == first, "later files stay, so that the log has no gap"
    assert low > 0
    assert log_files(stores) == before
    assert caplog.text.count("could not be removed") == 1
    store.close()

    stores.fs.fails = lambda *_: False
    again = stores.open(config)
    assert numbers(read_queue(again)) == list(range(100))
    assert [again.query("T", f"k{i}", 10, 0, NOW * 2).count for i in range(0, 100, 9)] == [1] * 12


def test_a_failed_removal_is_retried(stores):
    config = msgspec.structs.replace(NEVER, delete_file_batch_max=1, max_index_num=8)
    store = stores.open(config)
    fill(store, 100)
    flush(store)
    before, indexes = log_files(stores), stores.fs.names(stores.root / "index")
    stores.fs.fails = lambda operation, path: operation == "remove" and "commitlog" in path.parts
    stores.fs.ratio = 0.86
    clean(stores, store)
    assert stores.fs.names(stores.root / "index") == indexes
    stores.fs.fails = lambda *_: False
    clean(stores, store)
    assert log_files(stores) == before[1:]
    assert len(stores.fs.names(stores.root / "index")) < len(indexes)
    clean(stores, store)
    assert log_files(stores) == before[2:]


def test_failed_removals_of_queue_files_are_retried(stores):
    store = stores.open(NEVER)
    fill(store, 200)
    flush(store)
    queue = stores.root / "consumequeue" / "T" / "0"
    files = stores.fs.names(queue)
    stores.fs.fails = lambda operation, path: operation == "remove" and "consumequeue" in path.parts
    stores.fs.ratio = 0.86
    clean(stores, store)
    low = store.queue_range("T", 0)[0]
    assert low > 40
    stores.fs.fails = lambda *_: False
    clean(stores, store)
    assert stores.fs.names(queue)[0] == segment_name(low // 20 * 400)
    assert len(files) > len(stores.fs.names(queue))
    assert store.is_writable


def test_expired_files_are_removed_from_a_real_disk(disk_stores):
    store = disk_stores.open(msgspec.structs.replace(NEVER, file_reserved_time=0))
    fill(store, 100)
    store.delete_expired()
    disk_stores.clock.now = NOW * 2
    flush(store)
    store.clean(disk_stores.clock.now)
    for _ in range(30):
        store.tick(disk_stores.clock.now)
        drain(store)
    flush(store)
    assert len(list((disk_stores.root / "commitlog").iterdir())) == 1
    low = store.queue_range("T", 0)[0]
    assert numbers(read_queue(store)) == list(range(low, 100))


def test_a_file_whose_queue_entries_are_not_on_disk_stays(stores):
    store = stores.open(NEVER)
    fill(store, 100)
    done = threading.Event()
    store._flusher.request(store.max_physical_offset, done.set)
    assert done.wait(10)
    before = log_files(stores)
    stores.fs.ratio = 0.86
    store.clean(stores.clock.now)
    store.tick(stores.clock.now)
    assert log_files(stores) == before
    clean(stores, store)
    assert log_files(stores) == before[-1:]
    stores.crash()
    assert stores.open(NEVER).queue_range("T", 0)[1] == 100
