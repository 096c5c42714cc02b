"""Reads of a queue give the same bytes with the accelerator and without it, whatever limits and entries they meet."""

from __future__ import annotations

import mmap
from pathlib import Path
from struct import Struct
from typing import Any

import msgspec
from hypothesis import example, given, settings, strategies as st

from rocketmq_py.store import GetResult, StoreConfig
from rocketmq_py.store.fs.residency import NotInMemory, Residency
from rocketmq_py.store.read.reader import Reader
from tests.accelerated import accelerator, needs_accelerator
from tests.examples import examples
from tests.unit.store.helpers import Stores, record
from tests.unit.store.memoryfs import MemoryFileSystem

pytestmark = needs_accelerator

ENTRY = Struct(">qiq")
INT64 = st.integers(-(2**63), 2**63 - 1)
BASE = 4096
FILE = bytes(range(256)) * 2


# -- the function

Place = tuple[int, int]


def expected(places: list[Place], most: int) -> tuple[int, int, int, bytes | None] | None:
    """What the accelerator returns for these positions in the file and sizes, in plain Python."""
    body, end, count = b"", 0, 0
    for at, size in places:
        if size >= 0 and count and len(body) + size > most:
            break
        if size <= 0 or at < end or at + size > len(FILE):
            return None
        body, end, count = body + FILE[at : at + size], at + size, count + 1
    if not count:
        return None
    first = places[0][0]
    return count, first, end, body if len(body) < end - first else None


@st.composite
def ascending(draw: st.DrawFn) -> list[Place]:
    """Records of a queue in a file, the last ones perhaps behind its end."""
    end, places = 0, []
    for gap, size in draw(st.lists(st.tuples(st.sampled_from([0, 0, 1, 30]), st.integers(1, 60)), max_size=12)):
        places.append((end + gap, size))
        end += gap + size
    return places


ANY_PLACES = st.lists(st.tuples(st.integers(-5, 600), st.integers(-2, 600)), max_size=4)
LIMITS = st.one_of(st.integers(-1, 600), st.just(2**63 - 1))


@given(st.one_of(ascending(), ANY_PLACES), LIMITS, st.binary(max_size=19))
@settings(max_examples=examples(1000))
def test_records_are_copied_up_to_so_many_bytes(places: list[Place], most: int, rest: bytes) -> None:
    entries = b"".join(ENTRY.pack(BASE + at, size, 7) for at, size in places) + rest
    assert accelerator().gather(FILE, BASE, entries, most, None) == expected(places, most)


HEAD = Struct(">iiiiiqq")
INT32 = st.integers(-(2**31), 2**31 - 1)
ODD_FIELDS = st.lists(st.sampled_from([0, 0, 0, 0, 0, 0, 1, -1]), min_size=5, max_size=5)


@given(
    st.lists(st.tuples(st.sampled_from([0, 0, 40]), st.sampled_from([35, 36, 36, 60]), ODD_FIELDS), max_size=5),
    LIMITS, INT32, INT32, st.sampled_from([0, 7, 2**63 - 2]),
)  # fmt: skip
@settings(max_examples=examples(1000))
@example([(0, 35, [0, 0, 0, 0, 0])], 2**63 - 1, 0, 0, 0)
def test_records_that_do_not_fit_are_not_copied(
    parts: list[tuple[int, int, list[int]]], most: int, magic: int, queue_id: int, offset: int
) -> None:
    file, places, fit = bytearray(), list[Place](), list[bool]()
    for number, (gap, size, odd) in enumerate(parts):
        wanted = (size, magic, queue_id, offset + number, BASE + len(file) + gap)
        found = [field + more for field, more in zip(wanted, odd, strict=True)]
        if not all(-(2**31) <= field < 2**31 for field in found[:3]) or not found[3] < 2**63:
            found = [0, 0, 0, 0, 0]
        file += bytes(gap)
        places.append((len(file), size))
        file += (HEAD.pack(found[0], found[1], 99, found[2], 98, *found[3:]) + bytes(40))[:size]
        fit.append(tuple(found) == wanted and size >= HEAD.size)
    file += bytes(HEAD.size)
    entries = b"".join(ENTRY.pack(BASE + at, size, 7) for at, size in places)
    unchecked = accelerator().gather(bytes(file), BASE, entries, most, None)
    checked = accelerator().gather(bytes(file), BASE, entries, most, (magic, queue_id, offset))
    assert checked == (unchecked if unchecked is not None and all(fit[: unchecked[0]]) else None)


@given(
    INT64, st.lists(st.tuples(INT64, INT32), max_size=4), INT64, st.one_of(st.none(), st.tuples(INT32, INT32, INT64))
)
def test_whatever_the_numbers_are(
    base: int, places: list[Place], most: int, first: tuple[int, int, int] | None
) -> None:
    entries = b"".join(ENTRY.pack(at, size, 0) for at, size in places)
    found = accelerator().gather(FILE, base, entries, most, first)
    if found is not None:
        count, begin, end, body = found
        assert 0 < count <= len(places)
        assert 0 <= begin < end <= len(FILE)
        assert body is None or len(body) < end - begin


def test_a_mapped_file_can_be_closed_after_it() -> None:
    with mmap.mmap(-1, 8192) as mapped:
        mapped[100:105] = b"first"
        mapped[200:206] = b"second"
        entries = ENTRY.pack(100, 5, 0) + ENTRY.pack(200, 6, 0)
        assert accelerator().gather(mapped, 0, entries, 100, None) == (2, 100, 206, b"firstsecond")
    assert mapped.closed


# -- reads

CONFIG = StoreConfig(
    mapped_file_size_commit_log=16_384, mapped_file_size_consume_queue=400, max_hash_slot_num=16, max_index_num=64,
    max_message_size=9000,
)  # fmt: skip
SIZES = st.sampled_from([1, 50, 300, 300, 3000, 8500])
FILTERS = {"none": None, "all": lambda _: True, "even": lambda code: code % 2 == 0, "no": lambda _: False}
READS = st.tuples(
    st.integers(-1, 14), st.sampled_from([-1, 0, 1, 2, 5, 32, 1000]),
    st.sampled_from([None, -1, 1, 700, 5000, 1 << 30]),
    st.sampled_from(sorted(FILTERS)), st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip


def read(reader: Reader, queue: Any, asked: tuple[Any, ...]) -> tuple[GetResult, type] | str:
    """The result of a read, with the bytes of its body and their kind; or which error it raises."""
    offset, count, limit, accepts, allow_view, bulk, residency = asked
    try:
        found = reader.get(
            queue, offset, count, limit, FILTERS[accepts], None, allow_view, bulk, Residency() if residency else None
        )
    except NotInMemory as missing:
        return str(missing)
    return msgspec.structs.replace(found, body=bytes(found.body)), type(found.body)


@given(
    st.lists(st.tuples(st.integers(0, 2), SIZES), min_size=1, max_size=40),
    st.lists(READS, min_size=1, max_size=8),
    st.integers(0, 40), st.booleans(), st.sampled_from([0, 20_000, 1 << 40]), st.sampled_from([-1, 500, 1 << 20]),
)  # fmt: skip
@settings(max_examples=examples(150))
def test_both_read_the_same(
    messages: list[tuple[int, int]], asked: list[tuple[Any, ...]], wrong: int, reopened: bool, memory: int,
    most_bytes: int,
) -> None:  # fmt: skip
    config = msgspec.structs.replace(CONFIG, max_transfer_bytes_on_message_in_memory=most_bytes)
    stores = Stores(Path("/store"), MemoryFileSystem())
    try:
        store = stores.open(config)
        for number, (queue_id, size) in enumerate(messages):
            store.append(record(number, queue_id=queue_id, size=size, tags_code=number))
        store.commit_pending()
        if reopened:
            store.close()
            store = stores.open(config)
        queue = store._queues.by_key.get(("T", 0))
        has_wrong = queue is not None and queue.min_offset <= wrong < queue.max_offset
        readers = [Reader(config, store._commit_log, store._index, memory, native) for native in (None, accelerator())]
        for one in asked:
            found = []
            for reader in readers:
                if queue is not None and has_wrong:  # each time, since reads can repair it
                    queue.replace_entry(wrong, 77, 2000, 5)
                found.append(read(reader, queue, one))
            assert found[0] == found[1]
    finally:
        stores.close()
