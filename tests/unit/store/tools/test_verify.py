"""Checking a store on disk: a good one is found good, every kind of damage is found and named, nothing is changed."""

import json
import random
import shutil
from pathlib import Path
from struct import pack, pack_into, unpack_from

import pytest

from rocketmq_py.errors import StoreError
from rocketmq_py.store import NewBatch
from rocketmq_py.store.tools.findings import Findings
from rocketmq_py.store.tools.offline import OfflineStore
from rocketmq_py.store.tools.verify import verify
from rocketmq_py.wire.batch import encode_batch
from tests.golden import files
from tests.unit.store.helpers import CLIENT, SMALL, fill, record


def check(root, **options):
    with OfflineStore(root, **options) as store:
        return verify(store)


def problems(report):
    return [one for one in report.findings.listed() if one.severity == "problem"]


def notes(report):
    return [one for one in report.findings.listed() if one.severity == "note"]


def written(stores, count=60):
    """A closed store of several files of each kind."""
    store = stores.open()
    for i in range(count):
        fill(store, 1, start=i, topic="T", queue_id=i % 2)
    fill(store, 3, topic="other")
    store.close()
    return stores.root


def content(root):
    return {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def damage(path, at, data):
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def first(directory):
    return min(path for path in directory.rglob("*") if path.is_file())


def test_a_store_of_ours_is_valid(disk_stores):
    root = written(disk_stores)
    before = content(root)
    report = check(root)
    assert report.findings.listed() == []
    assert report.is_valid
    assert report.state == "closed"
    counts = report.counts
    assert (counts.records, counts.queues, counts.queue_entries, counts.index_entries) == (63, 3, 63, 63 * 3)
    assert counts.index_files == 3
    assert report.log_begin == 0 < report.log_end
    assert content(root) == before


def test_a_store_of_java_is_valid():
    before = content(files.STORE)
    report = check(files.STORE)
    assert report.findings.listed() == []
    assert report.counts[:6] == (13, 4106, 4, 13, 1, 31)
    assert report.counts.config_files == 4
    assert content(files.STORE) == before


def test_a_store_with_batches_transactions_and_ipv6_is_valid(disk_stores):
    store = disk_stores.open()
    messages = [(0, b"x%d" % i, f"UNIQ_KEY\x01U{i:03d}\x02KEYS\x01a{i} b\x02".encode()) for i in range(20)]
    store.append_batch(NewBatch("T", 0, encode_batch(messages[:10]), born_host=CLIENT))
    store.append_batch(NewBatch("T", 0, encode_batch([(0, b"y" * i, p) for i, (_, _, p) in enumerate(messages)])))
    for kind in (4, 8, 12):
        store.append(record(kind, sys_flag=kind))
    store.append(record(1, born_host=bytes(20)))
    store.append(record(2, topic="SCHEDULE_TOPIC_XXXX", tags_code=5))
    store.close()
    report = check(disk_stores.root)
    assert report.findings.listed() == []
    assert report.counts.records == 35


def test_an_expired_beginning_is_no_problem(disk_stores):
    root = written(disk_stores, 200)
    for path in sorted((root / "commitlog").iterdir())[:5]:
        path.unlink()
    report = check(root)
    assert report.is_valid
    assert report.log_begin == 5 * 4096


def test_a_store_that_was_not_closed_is_noted_where_it_is_unfinished(disk_stores):
    store = disk_stores.open()
    fill(store, 50)
    report = check(disk_stores.root)
    assert report.state == "a broker runs on it"
    assert report.is_valid
    assert any("has no files" in one.what for one in notes(report))
    copy = disk_stores.root.with_name("copy")
    shutil.copytree(disk_stores.root, copy)
    report = check(copy)
    assert report.state.startswith("not closed cleanly")
    assert report.is_valid
    assert notes(report)
    (copy / "abort").unlink()
    (copy / "config").mkdir()
    (copy / "config" / "topics.json").write_text('{"topicConfigTable": {"T": {}}}')
    assert not check(copy).is_valid


def test_no_broker_can_open_the_store_during_a_check(disk_stores):
    root = written(disk_stores)
    with OfflineStore(root), OfflineStore(root), pytest.raises(StoreError, match="in use"):
        disk_stores.open()
    disk_stores.open().close()


def test_a_directory_without_a_store_is_refused(tmp_path):
    with pytest.raises(StoreError, match="no directory commitlog"):
        OfflineStore(tmp_path)


def test_an_empty_store_is_valid(disk_stores):
    disk_stores.open().close()
    (disk_stores.root / "commitlog").mkdir(exist_ok=True)
    report = check(disk_stores.root)
    assert report.is_valid
    assert report.counts.records == 0


# -- damage


def flip_body(root):
    damage(first(root / "commitlog"), 4096 - 1000, b"\xff" * 500)


def flip_one_byte_of_a_body(root):
    damage(first(root / "commitlog"), 90, b"\xff")


def lose_a_log_file(root):
    sorted((root / "commitlog").iterdir())[1].unlink()


def shorten_a_log_file(root):
    path = sorted((root / "commitlog").iterdir())[1]
    path.write_bytes(path.read_bytes()[:2000])


def zero_the_rest_of_a_log_file(root):
    path = sorted((root / "commitlog").iterdir())[1]
    size = unpack_from(">i", path.read_bytes())[0]
    damage(path, size, bytes(4096 - size))


def wrong_queue_offset(root):
    path = first(root / "commitlog")
    data = bytearray(path.read_bytes())
    pack_into(">q", data, 20, 7)
    path.write_bytes(data)


def wrong_entry(root):
    damage(first(root / "consumequeue" / "T"), 20, pack(">qiq", 0, 100, 3))


def wrong_tags_code(root):
    damage(first(root / "consumequeue" / "T"), 12, pack(">q", 12345))


def swapped_entries(root):
    path = first(root / "consumequeue" / "T")
    data = path.read_bytes()
    path.write_bytes(data[20:40] + data[:20] + data[40:])


def missing_entries(root):
    path = max((root / "consumequeue" / "T" / "0").iterdir())
    path.write_bytes(bytes(400))


def entries_beyond_the_log(root):
    path = max((root / "consumequeue" / "other" / "0").iterdir())
    damage(path, 60, pack(">qiq", 1 << 40, 100, 0))


def lose_a_queue_of_a_topic(root):
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": {"other": {}}}))
    shutil.rmtree(root / "consumequeue" / "other")


def queue_of_another_store(root):
    shutil.copytree(root / "consumequeue" / "other", root / "consumequeue" / "stranger")


def wrong_index_entry(root):
    damage(first(root / "index"), 40 + 64 + 20 + 4, pack(">q", 5))


def wrong_index_hash(root):
    damage(first(root / "index"), 40 + 64 + 20 * 7, pack(">i", 1))


def wrong_index_slot(root):
    damage(first(root / "index"), 40, pack(">16i", *[9] * 16))


def wrong_index_header(root):
    damage(first(root / "index"), 32, pack(">ii", 99, 9999))


def lose_an_index_file(root):
    max((root / "index").iterdir()).unlink()


def odd_index_size(root):
    (root / "index" / "20200101000000000").write_bytes(bytes(77))


def checkpoint_of_the_future(root):
    damage(root / "checkpoint", 0, pack(">q", 1 << 50))


def broken_config(root):
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text('{"a": [')


def test_a_damaged_configuration_names_its_backup(disk_stores):
    root = written(disk_stores)
    broken_config(root)
    (root / "config" / "topics.json.bak").write_text("{}")
    [finding] = check(root).findings.listed()
    assert finding.what.endswith(": its backup will be used")


DAMAGES = [
    flip_body, flip_one_byte_of_a_body, lose_a_log_file, shorten_a_log_file, zero_the_rest_of_a_log_file,
    wrong_queue_offset, wrong_entry, wrong_tags_code, swapped_entries, missing_entries, entries_beyond_the_log,
    lose_a_queue_of_a_topic, queue_of_another_store, wrong_index_entry, wrong_index_hash, wrong_index_slot,
    wrong_index_header, lose_an_index_file, odd_index_size, checkpoint_of_the_future, broken_config,
]  # fmt: skip
FINDINGS = Path(__file__).with_name("findings.txt").read_text().split("\n\n")
"""What is said of each damage: its name, numbers of what was checked and the end of the log, and all findings."""


def said_of(report, root):
    """The findings as in the file. Names of index files, which are local times, are numbers there."""
    names = sorted(path.name for path in (root / "index").iterdir() if path.name > "2021")
    lines = [f"{tuple(report.counts)} {report.log_end}"]
    for one in report.findings.listed():
        text = f"{one.severity} | {one.place} | {one.what}".replace(f"{root}/", "")
        for number, name in enumerate(names):
            text = text.replace(name, str(number))
        lines.append(text)
    return "\n".join(lines)


@pytest.mark.parametrize("harm", DAMAGES, ids=lambda harm: harm.__name__)
def test_verify_finds_every_damage(disk_stores, harm):
    root = written(disk_stores)
    harm(root)
    before = content(root)
    report = check(root)
    assert not report.is_valid
    name, _, wanted = FINDINGS[DAMAGES.index(harm)].partition("\n")
    assert name == harm.__name__
    assert said_of(report, root) == wanted.rstrip("\n")
    assert content(root) == before


def test_wrong_bytes_never_stop_the_check(disk_stores):
    root = written(disk_stores)
    chance = random.Random(7)
    good = content(root)
    parts = [path for path in good if path.parent != root]
    for _ in range(150):
        path = chance.choice(parts)
        data = bytearray(good[path])
        at = chance.randrange(len(data))
        data[at : at + 8] = chance.randbytes(len(data[at : at + 8]))
        path.write_bytes(data)
        check(root)
        path.write_bytes(good[path])


def test_a_recreated_topic_is_valid(disk_stores):
    store = disk_stores.open()
    fill(store, 30)
    store.delete_topic("T")
    fill(store, 20, start=100)
    fill(store, 5, topic="gone")
    store.delete_topic("gone")
    store.close()
    report = check(disk_stores.root)
    assert problems(report) == []
    assert [one.what for one in notes(report)] == [
        "begins again with offset 0 at 7105 of the log, after offset 29",
        "has no files, and the log has its offsets 0 to 4: the topic was deleted",
    ]


def test_old_files_beside_a_batch_queue_are_not_compared_with_its_records(disk_stores):
    """Its records have offsets of their own; those of the old files have expired."""
    fill(disk_stores.open(), 30)
    disk_stores.close()
    old = disk_stores.root.rename(disk_stores.root.parent / "old")
    store = disk_stores.open(is_batched=lambda _: True)
    fill(store, 3)
    store.close()
    shutil.copytree(old / "consumequeue" / "T", disk_stores.root / "consumequeue" / "T")
    report = check(disk_stores.root)
    assert problems(report) == []
    assert [one.what for one in notes(report)] == ["is a batch consume queue: its units are not checked"]


def test_the_directory_of_the_commit_log_can_be_passed(disk_stores, tmp_path):
    """As with storePathCommitLog, which can be on another disk."""
    fill(disk_stores.open(), 30)
    disk_stores.close()
    elsewhere = tmp_path / "elsewhere"
    (disk_stores.root / "commitlog").rename(elsewhere)
    with pytest.raises(StoreError, match="can be passed as --commit-log"):
        OfflineStore(disk_stores.root)
    with OfflineStore(disk_stores.root, commit_log=elsewhere) as store:
        report = verify(store)
    assert report.is_valid
    assert report.counts.records == 30


def test_the_number_of_hash_slots_can_be_passed(disk_stores):
    config = SMALL.__class__(mapped_file_size_commit_log=4096, max_hash_slot_num=7, max_index_num=50)
    store = disk_stores.open(config)
    fill(store, 10)
    store.close()
    assert not check(disk_stores.root).is_valid
    assert check(disk_stores.root, hash_slots=7).is_valid


def test_a_log_file_removed_during_the_check_is_skipped(disk_stores):
    root = written(disk_stores)
    with OfflineStore(root) as store:
        max((root / "commitlog").iterdir()).unlink()
        with pytest.raises(StoreError, match="was removed during the check"):
            verify(store)


def test_queue_files_removed_during_the_check_are_skipped(disk_stores):
    root = written(disk_stores)
    with OfflineStore(root) as store:
        for files in store._queue_files:
            files.close()
        shutil.rmtree(root / "consumequeue")
        assert not verify(store).is_valid


def test_progress_is_reported(disk_stores):
    root = written(disk_stores)
    seen = []
    with OfflineStore(root) as store:
        verify(store, lambda done, total: seen.append((done, total)))
    total = len(list((root / "commitlog").iterdir())) * 4096
    assert seen == [(total, total)]


def test_findings_per_place_are_bounded():
    findings = Findings(must_be_complete=True)
    findings.note("b", "fine")
    for i in range(100):
        findings.problem("a", str(i))
    assert [one.what for one in findings.listed()] == ["0", "1", "2", "3", "4", "and 95 more", "fine"]
    assert findings.problems == 100


def test_index_entries_behind_the_log_are_told(disk_stores):
    root = written(disk_stores)
    path = max((root / "index").iterdir())
    count = unpack_from(">i", path.read_bytes(), 36)[0]
    damage(path, 40 + 64 + 20 * (count - 1) + 4, pack(">q", 1 << 40))
    for text, severity in ((None, "problem"), (b"", "note")):
        if text is not None:
            (root / "abort").write_bytes(text)
        found = [one for one in check(root).findings.listed() if one.place == str(path)]
        assert [(one.severity, one.what) for one in found] == [
            (severity, "has an entry for 1099511627776, beyond the end of the log"),
        ]  # fmt: skip
