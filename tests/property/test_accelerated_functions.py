"""Each function of the accelerator that has a Python twin gives what that gives."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rocketmq_py.accelerator import Accelerator
from rocketmq_py.store import StoreConfig
from rocketmq_py.store.fs.layout import StoreLayout
from rocketmq_py.store.index.index import MessageIndex
from rocketmq_py.store.index.key_hash import key_hashes
from tests.accelerated import accelerator, needs_accelerator
from tests.unit.store.memoryfs import MemoryFileSystem

pytestmark = needs_accelerator

int32, int64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
keys = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=20).map(str.encode),
    st.text("0123456789ABCDEF", min_size=32, max_size=32).map(str.encode),
)


@given(st.lists(st.tuples(int32, keys, int64, int64), max_size=40))
def test_packed_keys(found: list[tuple[int, bytes, int, int]]) -> None:
    topics, texts, *places = ([one[i] for one in found] for i in range(4))
    packed = accelerator().pack_keys([field for one in found for field in one])
    assert list(struct.iter_unpack("<Iqq", packed)) == list(zip(key_hashes(topics, texts), *places, strict=True))


INDEX = StoreConfig(mapped_file_size_commit_log=4096, max_hash_slot_num=8, max_index_num=12)
steps = st.one_of(
    st.tuples(st.just("add"), st.lists(st.tuples(int32, keys), min_size=1, max_size=6)),
    st.tuples(st.just("add packed"), st.lists(st.tuples(int32, keys), min_size=1, max_size=6)),
    st.tuples(st.just("confirm"), st.one_of(st.none(), st.integers(0, 60))),
    st.tuples(st.sampled_from(["build", "drop"]), st.none()),
    st.tuples(st.just("take"), st.integers(0, 9)),
    st.tuples(st.just("resume"), st.integers(0, 60)),
)


class _Index:
    """An index in memory, with or without the accelerator."""

    def __init__(self, found: Accelerator | None) -> None:
        self.fs = MemoryFileSystem()
        self.index = MessageIndex(self.fs, StoreLayout(Path("/store")), INDEX, lambda: 5, found)

    def step(self, name: str, argument: Any, fields: list[Any]) -> object:
        """Do a step; return what it says, and what waits then."""
        index, said = self.index, None
        if name == "add packed" and index.packed is not None:
            index.packed.add(accelerator().pack_keys(fields))
        elif name.startswith("add"):
            index.waiting.fields += fields
        elif name == "confirm":
            index.confirmed = argument
        elif name == "build":
            said = index.build()
        elif name == "take":
            said = index.take_hashes(argument)
        elif name == "resume":
            index.resume(argument)
        elif name == "drop":
            index.put_off()
            said = index.build(), index.can_resume(30)
            index.is_unfinished, index._keeps_keys = False, True
        waiting = index.waiting
        return said, len(waiting), index.waiting_from, waiting.hashes(0, len(waiting)), list(waiting.physicals())

    def files(self) -> list[object]:
        found = [(file.path, bytes(file._buffer), file.header()) for file in self.index.files]
        return sorted(found, key=str)


@given(st.lists(steps, max_size=12), st.lists(st.integers(0, 2**62), min_size=1, max_size=5))
def test_keys_that_wait_and_the_files_they_are_added_to(made: list[tuple[str, Any]], timestamps: list[int]) -> None:
    plain, fast, position = _Index(None), _Index(accelerator()), 0
    for number, (name, argument) in enumerate(made):
        fields: list[Any] = []
        for topic, key in argument if name.startswith("add") else ():
            fields += (topic, key, position, timestamps[number % len(timestamps)])
            position += 1
        assert fast.step(name, argument, fields) == plain.step(name, argument, fields)
        assert fast.files() == plain.files()


@pytest.mark.parametrize(
    "call",
    [
        lambda native: native.pack_keys([1, b"k", 1]),
        lambda native: native.pack_keys([1, "k", 1, 1]),
        lambda native: native.pack_keys([1, b"k", 1 << 63, 1]),
        lambda native: native.pack_keys((1, b"k", 1, 1)),
        lambda native: native.put_keys(bytearray(40 + 4 + 60), 1, 1, 0, bytes(41)),
        lambda native: native.put_keys(bytearray(40 + 4 + 60), 1, 2, 0, bytes(40)),
        lambda native: native.put_keys(bytearray(40 + 4 + 60), 0, 1, 0, bytes(20)),
        lambda native: native.put_keys(bytearray(40 + 4 + 60), -1, 1, 0, bytes(20)),
        lambda native: native.put_keys(bytearray(40), 1, 0, 0, b""),
        lambda native: native.put_keys(bytearray(104), 1, (1 << 32) - 1, 0, bytes(20)),
        lambda native: native.put_keys(bytes(40 + 4 + 60), 1, 1, 0, bytes(20)),
        lambda native: native.put_keys(memoryview(bytearray(400))[::2], 1, 1, 0, bytes(20)),
        lambda native: native.put_keys(bytearray(104), 1, 1, 0, bytearray(20)),
        lambda native: native.encode_batch(b"", (0, 0, b"", 0, 0), (b"", b""), (0, 0, 0), (0, 0, -1), (1, 1)),
        lambda native: native.cut_read(bytearray(8), 1, print, (), None),
        lambda native: native.decode([([b""], 0, 1 << 64)], (), False),
        lambda native: native.gather(memoryview(bytes(8))[::2], 0, bytes(20), 8, None),
        lambda native: native.gather(memoryview(bytes(8)).cast("i"), 0, bytes(20), 8, None),
        lambda native: native.gather("text", 0, bytes(20), 8, None),
        lambda native: native.gather(bytes(8), 1 << 63, bytes(20), 8, None),
        lambda native: native.gather(bytes(8), 0, bytearray(20), 8),
        lambda native: native.gather(bytes(8), 0, bytes(20), 1 << 63),
    ],
)  # fmt: skip
def test_wrong_arguments_are_errors(call) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError, BufferError)):
        call(accelerator())


def test_a_host_of_another_size_is_an_error() -> None:
    body = bytes.fromhex("00000016") + bytes(18)
    queue = (0, 0, b"\x01t", 0, 0)
    with pytest.raises(ValueError, match="8 or 20"):
        accelerator().encode_batch(body, queue, (bytes(8), bytes(7)), (0, 0, 0), (0, 0, 1000), (9, 9))
    assert accelerator().encode_batch(body, queue, (bytes(8), bytes(8)), (0, 0, 0), (0, 0, 1000), (9, 9)) is not None
