"""Hashes of keys, index files, and the index over them."""

from __future__ import annotations

import random
from struct import iter_unpack, unpack_from

import pytest

from rocketmq_py.store.index.index_file import IndexFile
from rocketmq_py.store.index.key_hash import key_hash, key_hashes
from rocketmq_py.wire.java_hash import index_hash, string_hash
from rocketmq_py.wire.record import decode_records
from tests.unit.store.helpers import NOW, fill, numbers, read_queue
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
    from rocketmq_py.store import StoreConfig

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
