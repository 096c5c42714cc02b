"""Hashes of keys, index files, and the index over them."""

from __future__ import annotations

import random
from pathlib import Path
from struct import iter_unpack, pack_into, unpack_from
from types import SimpleNamespace

import msgspec
import pytest

from rocketmq_py.store import StoreConfig
from rocketmq_py.store.fs.layout import StoreLayout
from rocketmq_py.store.index import index as index_module, index_file
from rocketmq_py.store.index.index import MessageIndex
from rocketmq_py.store.index.index_file import IndexFile
from rocketmq_py.store.index.key_hash import key_hash, key_hashes
from rocketmq_py.wire.java_hash import index_hash, string_hash
from rocketmq_py.wire.record import decode_records
from tests.unit.store.helpers import NOW, Clock, fill, numbers, read_queue
from tests.unit.store.memoryfs import MemoryFileSystem


def make_key(chance, length):
    return "".join(chance.choice("abcXYZ019-") for _ in range(length))


def test_key_hashes_equal_those_of_java():
    chance = random.Random(1)
    topics = ["T", "flights", "漢字"]
    odd = ["", "é", "漢字", "😀", "x" * 2000, "a", "polygenelubricants"]
    for count in (1, 7, 8, 9, 64, 512):
        for lengths in ([32], [1, 5, 32], [40]):
            keys = [make_key(chance, chance.choice(lengths)) for _ in range(count)] + odd
            names = [chance.choice(topics) for _ in keys]
            found = key_hashes([string_hash(f"{name}#") for name in names], [key.encode() for key in keys])
            assert found == [index_hash(f"{name}#{key}") for name, key in zip(names, keys, strict=True)]


def test_hashes_of_similar_keys_equal_those_of_java():
    keys = [f"7F0000010000ABCD{i:016X}" for i in range(3000, 3600)]
    prefix = string_hash("T#")
    assert key_hashes([prefix] * 600, [key.encode() for key in keys]) == [index_hash(f"T#{key}") for key in keys]


def test_the_hash_without_a_positive_counterpart_is_zero():
    assert index_hash("polygenelubricants") == 0
    assert key_hash(0, b"polygenelubricants") == 0
    assert key_hashes([0] * 9, [b"polygenelubricants"] * 9) == [0] * 9


def an_index_file(tmp_path, slots=8, entries=50):
    memory = MemoryFileSystem()
    return IndexFile(memory.open(tmp_path / "i", 40 + 4 * slots + 20 * entries), slots, entries), memory


def test_index_entries_equal_those_of_java(tmp_path):
    file, memory = an_index_file(tmp_path)
    file.put([3, 11, 4], [100, 200, 300], [NOW, NOW + 2500, NOW + 3000])
    file.put([3], [400], [NOW + 9999])
    file.save(file.header())
    data = memory.read(tmp_path / "i")
    assert unpack_from(">qqqqii", data) == (NOW, NOW + 9999, 100, 400, 2, 5)
    assert unpack_from(">8i", data, 40) == (0, 0, 0, 4, 3, 0, 0, 0)
    entries = list(iter_unpack(">iqii", data[72 : 72 + 100]))
    assert entries == [(0, 0, 0, 0), (3, 100, 0, 0), (11, 200, 2, 1), (4, 300, 3, 0), (3, 400, 9, 2)]
    assert file.select(3, 10, 0, 1 << 62) == [400, 100]
    assert file.select(11, 10, 0, 1 << 62) == [200]
    assert file.select(3, 1, 0, 1 << 62) == [400]
    assert file.select(3, 10, NOW, NOW + 8000) == [100]
    assert file.select(3, 10, NOW + 1, NOW + 10_000) == [400]
    assert file.select(19, 10, 0, 1 << 62) == []
    file.close()


def test_times_out_of_order_and_far_ahead_are_indexed(tmp_path):
    file, _ = an_index_file(tmp_path)
    file.put([1, 2, 3], [1, 2, 3], [NOW, NOW - 5000, NOW + (1 << 45)])
    assert file.select(2, 9, NOW, NOW) == [2]
    assert file.select(3, 9, NOW + 1000 * 0x7FFFFFFF, NOW + 1000 * 0x7FFFFFFF) == [3]


def test_a_damaged_link_ends_a_search(tmp_path):
    file, memory = an_index_file(tmp_path, slots=1)
    file.put([5, 5, 5], [1, 2, 3], [NOW] * 3)
    content = memory.nodes[tmp_path / "i"].content
    content[44 + 20 * 2 + 16 : 44 + 20 * 2 + 20] = (3).to_bytes(4, "big")
    assert file.select(5, 9, 0, 1 << 62) == [3, 2]
    content[40:44] = (77).to_bytes(4, "big")
    assert file.select(5, 9, 0, 1 << 62) == []


def test_a_full_file_is_followed_by_another(stores):
    store = stores.open()
    fill(store, 100, size=20)
    assert all(numbers(decode_records(store.query("T", f"k{i}", 9, 0, NOW + 1).body)) == [i] for i in range(100))
    assert numbers(decode_records(store.query("T", "all", 64, 0, NOW + 1).body)) == list(range(36, 100))
    names = stores.fs.names(store.layout.index)
    assert len(names) == 5
    store.close()
    files = [stores.fs.read(store.layout.index / name) for name in names]
    counts = [unpack_from(">i", data, 36)[0] for data in files]
    assert counts == [64, 64, 64, 64, 301 - 4 * 63]
    store = stores.open()
    assert all(numbers(decode_records(store.query("T", f"k{i}", 9, 0, NOW + 1).body)) == [i] for i in range(100))


def test_a_disabled_index_stores_nothing(stores):
    config = StoreConfig(mapped_file_size_commit_log=4096, message_index_enable=False)
    store = stores.open(config)
    fill(store, 10)
    assert store.query("T", "k1", 9, 0, NOW + 1).count == 0
    assert stores.fs.names(store.layout.index) == []
    assert numbers(read_queue(store)) == list(range(10))


@pytest.mark.parametrize("first", [1, 200, 0xFF00, 0x1FFF0, 0xFFFFFF - 300, 0x7FFFFF00 - 700])
def test_index_positions_equal_those_of_java(tmp_path, first):
    """Numbers are swapped with those in the slots byte by byte; here all of their bytes come to change."""
    slots, count = 1024, 600
    memory = MemoryFileSystem()
    file = IndexFile(memory.open(tmp_path / "i", 40 + 4 * slots + 20 * 8), slots, 1 << 31)
    file.count = first
    linked = file._link(list(range(count)))
    assert linked == bytes(4 * count)
    again = unpack_from(f">{count}i", file._link(list(range(count))))
    assert again == tuple(range(first, first + count))


MEGABYTE = 1024 * 1024


def test_disk_space_is_allocated_before_it_is_written(tmp_path):
    """For 4 MiB of entries more than there are: a write to a mapping ends the process if the disk is full."""
    file, memory = an_index_file(tmp_path, slots=8, entries=450_000)
    size = 40 + 32 + 20 * 450_000
    steps = []

    def put(count):
        """Add an entry to a file that has ``count`` - 1; return what is allocated for it."""
        file.count = count
        file.put([1], [2], [NOW])
        steps.append([(at, length) for _, at, length in memory.allocated])
        memory.allocated.clear()

    first, last = 72 + 2 * 20 + 4 * MEGABYTE, 209_716
    """End of the first step, and number of the last entry within it."""
    second = 72 + (last + 2) * 20 + 4 * MEGABYTE
    for count in (1, 2, last, last + 1, last + 2, 419_432, 419_433, 449_999):
        put(count)
    assert steps == [
        [(0, first)],
        [],
        [],
        [(first, second - first)],
        [],
        [],
        [(second, size - second)],
        [],
    ]
    again = IndexFile(memory.open(tmp_path / "i", size), 8, 450_000)
    again.count = 100_000
    again.put([1], [2], [NOW])
    assert [(at, length) for _, at, length in memory.allocated] == [(0, 72 + 100_001 * 20 + 4 * MEGABYTE)], "all it has"


def test_a_full_disk_adds_no_entry_and_the_next_attempt_does(tmp_path):
    file, memory = an_index_file(tmp_path)
    empty = memory.read(tmp_path / "i")
    memory.failing.add("allocate")
    with pytest.raises(OSError, match="No space"):
        file.put([3], [100], [NOW])
    assert (file.count, file.begin_physical, file.room) == (1, 0, 49)
    assert memory.read(tmp_path / "i") == empty
    memory.failing.clear()
    file.put([3], [100], [NOW])
    assert file.select(3, 9, 0, 1 << 62) == [100]
    assert [(at, length) for _, at, length in memory.allocated] == [(0, 72 + 1000)]


def test_room_ends_with_the_last_entry_of_the_file(tmp_path):
    file, memory = an_index_file(tmp_path, slots=2, entries=5)
    assert file.room == 4
    file.put([1, 2, 3], [1, 2, 3], [NOW] * 3)
    assert file.room == 1
    file.put([4], [4], [NOW])
    assert file.room == 0
    assert file.is_plausible
    assert [entry[:2] for entry in file.entries()] == [(1, 1), (2, 2), (3, 3), (4, 4)]
    file.count = 9
    assert file.room == 0
    assert not file.is_plausible
    assert len(list(file.entries())) == 4
    for count, used, plausible in ((5, 2, True), (6, 2, False), (5, 3, False), (1, 0, True), (1, -1, False)):
        pack_into(">ii", memory.nodes[tmp_path / "i"].content, 32, used, count)
        assert IndexFile(memory.open(tmp_path / "i", 148), 2, 5).is_plausible is plausible, (count, used)


def test_slots_are_rebuilt_from_the_entries_that_the_header_counts(tmp_path):
    file, memory = an_index_file(tmp_path)
    file.put([3, 11, 4, 3], [1, 2, 3, 4], [NOW] * 4)
    file.save(file.header())
    header = memory.read(tmp_path / "i")[:40]
    assert list(file.slots()) == [0, 0, 0, 4, 3, 0, 0, 0]
    file.put([5, 3], [5, 6], [NOW] * 2)
    again = IndexFile(memory.open(tmp_path / "i", 1072), 8, 50)
    assert (again.count, list(again.slots())) == (5, [0, 0, 0, 6, 3, 5, 0, 0])
    again.rebuild_slots()
    assert list(again.slots()) == [0, 0, 0, 4, 3, 0, 0, 0]
    assert again.header() == header
    assert again.select(3, 9, 0, 1 << 62) == [4, 1]
    assert again.select(5, 9, 0, 1 << 62) == []


def test_slots_of_more_entries_than_are_read_at_once_are_rebuilt(tmp_path, monkeypatch):
    monkeypatch.setattr(index_file, "_REBUILD_STEP", 3 * 20)
    for count in (2, 3, 4, 6, 7):
        file, _ = an_index_file(tmp_path, slots=7)
        file.put(list(range(count)), list(range(count)), [NOW] * count)
        found = file.slots()
        file.rebuild_slots()
        assert file.slots() == found
        assert list(found[:count]) == list(range(1, count + 1))
        assert [entry[1] for entry in file.entries()] == list(range(count))


def test_on_a_big_endian_machine_numbers_are_as_on_disk(tmp_path, monkeypatch):
    file, _ = an_index_file(tmp_path)
    file.put([3, 4], [1, 2], [NOW] * 2)
    found = file.slots()
    monkeypatch.setattr(index_file, "sys", SimpleNamespace(byteorder="big"))
    assert index_file._byte_swapped(254, 4) == [254, 255, 256, 257]
    raw = file.slots()
    assert raw != found
    raw.byteswap()
    assert raw == found


def test_a_time_window_touches_a_file_at_its_first_and_last_entry(tmp_path):
    file, _ = an_index_file(tmp_path)
    file.put([1, 2], [1, 2], [NOW, NOW + 5000])
    windows = [(NOW - 9, NOW - 1), (NOW - 9, NOW), (NOW + 2000, NOW + 3000), (NOW + 5000, NOW + 9999)]
    assert [file.is_within(*window) for window in windows] == [False, True, True, True]
    assert not file.is_within(NOW + 5001, NOW + 9999)


def test_a_search_ends_at_links_that_are_damage(tmp_path):
    """A link to an entry that is not older, or does not exist, and an entry with a time before its file's first."""
    file, memory = an_index_file(tmp_path, slots=1)
    file.put([5] * 4, [1, 2, 3, 4], [NOW] * 4)
    content = memory.nodes[tmp_path / "i"].content
    sound = bytes(content)
    cases = {
        "sound": (44 + 20, 0, 0, [4, 3, 2, 1]),
        "to itself": (44 + 20 * 3 + 16, 4, 3, [4, 3]),
        "to the one after the last": (40, 4, 5, []),
        "to the last": (40, 4, 4, [4, 3, 2, 1]),
        "to a negative number": (44 + 20 * 3 + 16, 4, -1, [4, 3]),
        "a negative time": (44 + 20 * 2 + 12, 4, -1, [4, 3, 2]),
        "no link": (40, 4, 0, []),
    }
    wrong = []
    for name, (at, size, value, found) in cases.items():
        content[:] = sound
        content[at : at + size] = value.to_bytes(size, "big", signed=True) if size else b""
        if file.select(5, 9, NOW - 1000, 1 << 62) != found:
            wrong.append(name)
    assert wrong == []


# -- the files of an index

SMALL_INDEX = StoreConfig(mapped_file_size_commit_log=4096, max_hash_slot_num=4, max_index_num=4, max_msgs_num_batch=5)
LARGE_INDEX = StoreConfig(mapped_file_size_commit_log=4096, max_hash_slot_num=4, max_index_num=2000)


def an_index(memory=None, config=SMALL_INDEX):
    layout = StoreLayout(Path("/store"))
    return MessageIndex(memory or MemoryFileSystem(), layout, config, Clock())


def add(index, *messages):
    """Add a key for each message; its offset in the log and its time are derived from its number."""
    for number in messages:
        index.add_words(string_hash("T#"), b"k", 100 * number, NOW + 1000 * number)


def test_keys_wait_until_512_of_them_are_added(stores):
    index = an_index(config=LARGE_INDEX)
    add(index, *range(511))
    index.commit_pending()
    assert index._files == []
    add(index, 511)
    index.commit_pending()
    assert index._files[0].count == 513
    assert index.waiting.fields == []


def test_keys_are_added_512_at_a_time_and_up_to_the_end_of_each_file():
    index, sizes = an_index(config=LARGE_INDEX), []
    put = index.waiting.put_into
    index.waiting.put_into = lambda file, begin, end: sizes.append(end - begin) or put(file, begin, end)
    add(index, *range(2100))
    index.build()
    assert sizes == [512, 512, 512, 463, 101]
    assert [file.count for file in index._files] == [2000, 102]
    assert index.end_physical == 209_900


def test_one_call_adds_4096_keys_and_says_whether_more_wait():
    index = an_index(config=msgspec.structs.replace(LARGE_INDEX, max_index_num=10_000))
    add(index, *range(4098))
    assert index.build() is False
    assert (index._files[0].count, len(index.waiting)) == (4097, 2)
    assert index.build() is True
    assert index._files[0].count == 4099


def test_words_are_keys_and_spaces_between_them_are_none():
    index = an_index()
    index.add_words(7, b" a  b ", 3, 4)
    assert index.waiting.fields == [7, b"a", 3, 4, 7, b"b", 3, 4]
    index.waiting.fields.clear()
    index.add_properties(7, {b"UNIQ_KEY": b"u", b"KEYS": b"a b", b"TAGS": b"t"}, 3, 4)
    assert index.waiting.fields[1::4] == [b"u", b"a", b"b"]
    index.waiting.fields.clear()
    index.add_properties(7, {b"TAGS": b"t"}, 3, 4)
    assert index.waiting.fields == []


def test_keys_of_messages_that_are_not_confirmed_keep_waiting():
    index = an_index()
    add(index, 1, 2, 3)
    for confirmed, indexed in ((100, []), (101, [100]), (200, [100]), (250, [100, 200]), (301, [100, 200, 300])):
        index.confirmed = confirmed
        assert sorted(index.search("T", "k", 9, 0, 1 << 62, None).run(None)) == indexed, confirmed
    assert index.waiting.fields == []


def test_a_query_reads_newer_files_first_up_to_its_limit_and_its_begin():
    index = an_index()
    add(index, *range(1, 9))  # files of three entries: 1 to 3, 4 to 6, 7 and 8
    end = NOW + 1000 * 9
    cases = [
        ((9, 0, end), [8, 7, 6, 5, 4]),  # maxMsgsNumBatch is 5
        ((3, 0, end), [8, 7, 6]),
        ((2, 0, end), [8, 7]),
        ((1, 0, end), [8]),
        ((9, NOW + 5000, end), [8, 7, 6, 5]),
        ((9, NOW + 4000, end), [8, 7, 6, 5, 4]),
        ((9, NOW, NOW + 3000), [3, 2, 1]),
        ((9, NOW + 2000, NOW + 4000), [4, 3, 2]),
        ((9, NOW, NOW + 1000), [1]),
        ((9, NOW, NOW + 999), []),
        ((9, end, end), []),
    ]
    found = [[physical // 100 for physical in index.search("T", "k", *wanted, None).run(None)] for wanted, _ in cases]
    assert found == [numbers for _, numbers in cases]


def test_a_new_file_has_the_end_of_the_one_before_until_it_has_entries():
    memory = MemoryFileSystem()
    index = an_index(memory)
    assert (index.end_timestamp, index.end_physical) == (0, 0)
    add(index, 1, 2, 3)
    index.build()
    memory.failing.add("allocate")
    add(index, 4)
    with pytest.raises(OSError, match="No space"):
        index.build()
    assert len(index._files) == 2
    assert (index.end_timestamp, index.end_physical) == (NOW + 3000, 300)
    assert (index._files[1].begin_timestamp, index._files[1].begin_physical) == (NOW + 3000, 300)
    memory.failing.clear()
    index.build()
    assert len(index._files) == 2
    assert (index._files[1].begin_timestamp, index._files[1].begin_physical) == (NOW + 4000, 400)


def test_files_are_named_by_time_and_never_alike():
    memory = MemoryFileSystem()
    index = an_index(memory)
    add(index, *range(1, 8))
    index.build()
    names = memory.names(Path("/store/index"))
    assert [int(name) - int(names[0]) for name in names] == [0, 1, 2]
    assert names[0].endswith("000")
    assert len(names[0]) == 17


def test_full_files_are_saved_once_and_the_newest_always():
    index = an_index()
    add(index, *range(1, 8))
    saved = [[int.from_bytes(header[36:40], "big") for _, header in index.take_dirty()] for _ in range(2)]
    assert saved == [[4, 4, 2], [2]]


def test_files_are_dropped_whose_entries_are_all_before_an_offset():
    memory = MemoryFileSystem()
    index = an_index(memory)
    add(index, *range(1, 8))
    index.build()
    for physical, left in ((300, 3), (301, 2), (601, 1), (9999, 1)):
        gone = index.detach_before(physical)
        assert len(index._files) == left
        for remove in gone:
            remove()
        assert len(memory.names(Path("/store/index"))) == left
    assert len(index.take_dirty()) == 1, "nothing of the others is saved"
    index.close()
    assert memory.open_files == 0


def test_after_a_crash_files_newer_than_the_checkpoint_are_not_trusted():
    memory = MemoryFileSystem()
    index = an_index(memory)
    add(index, *range(1, 8))
    for file, header in index.take_dirty():
        file.save(header)
    names = memory.names(Path("/store/index"))
    cases = [
        (None, 3, [], []),
        (NOW + 7000, 3, [], [2]),
        (NOW + 6999, 2, names[2:], [1]),
        (NOW + 3000, 1, names[1:], [0]),
    ]
    for trusted, kept, distrusted, rebuilt in cases:
        again, slots = an_index(memory.after_kill()), []
        again._open = lambda name, opened=again._open, slots=slots: _noting(opened(name), slots)
        paths = again.load(trusted_until=trusted)
        assert ([path.name for path in paths], len(again._files), again.had_files) == (distrusted, kept, True), trusted
        assert [again._files.index(file) for file in slots] == rebuilt, "full files but the newest were saved complete"
    assert not an_index().had_files


def _noting(file, rebuilt):
    """The file, whose rebuilds of the slots are noted in ``rebuilt``."""
    rebuild = file.rebuild_slots
    file.rebuild_slots = lambda: (rebuilt.append(file), rebuild())
    return file


def test_files_with_room_are_saved_again_after_a_crash():
    """A kill between two saves leaves a file with room before the newest one, if a disk was full then."""
    memory = MemoryFileSystem()
    index = an_index(memory)
    add(index, *range(1, 6))
    for file, header in index.take_dirty():
        file.save(header)
    names = memory.names(Path("/store/index"))
    pack_into(">i", memory.nodes[Path("/store/index") / names[0]].content, 36, 3)
    again = an_index(memory)
    assert again.load(trusted_until=NOW + 9000) == []
    assert [file.path.name for file, _ in again.take_dirty()] == names
    assert [file.path.name for file, _ in again.take_dirty()] == names[1:]


def test_other_files_are_ignored(caplog):
    memory = MemoryFileSystem()
    folder, size = Path("/store/index"), SMALL_INDEX.index_file_size
    for name, length in (("20200101000000000", size + 1), ("notes", size), ("2020010100000000", size)):
        memory.write(folder / name, bytes(length))
    index = an_index(memory)
    assert index.load(trusted_until=None) == []
    assert (index._files, index.had_files) == ([], False)
    assert caplog.text.count("is not an index file of this configuration, ignored") == 3


def test_the_thread_that_loads_slots_knows_new_files_and_ends_with_the_index():
    memory = MemoryFileSystem()
    index = MessageIndex(
        memory, StoreLayout(Path("/store")), StoreConfig(max_hash_slot_num=8, max_index_num=50), Clock()
    )
    told = []
    index._slot_pages = SimpleNamespace(trust=told.append, close=lambda: told.append("end"))
    file = index._current()
    assert told == [file]
    assert index._current() is file
    index.close()
    assert told == [file, "end"]


def test_keys_wait_while_files_are_being_saved_unless_there_are_very_many(monkeypatch):
    index = an_index(MemoryFileSystem())
    index.is_being_saved = True
    monkeypatch.setattr(index_module, "_MOST_WAITING", 3)
    index.add_words(7, b"a b", 100, NOW)
    assert not index.build()
    assert len(index.waiting) == 2
    index.add_words(7, b"c", 200, NOW)
    assert index.build(), "the memory for keys is bounded"
    index.add_words(7, b"d", 300, NOW)
    assert not index.build()
    index.is_being_saved = False
    assert index.build()
    assert index.end_physical == 300
