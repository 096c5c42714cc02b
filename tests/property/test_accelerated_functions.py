"""Each function of the accelerator that has a Python twin gives what that gives."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from rocketmq_py.store.index.index_file import encode_entries
from rocketmq_py.store.index.key_hash import key_hashes
from tests.accelerated import accelerator, needs_accelerator

pytestmark = needs_accelerator

int32, int64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
times = st.integers(0, 2**62)
keys = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=20).map(str.encode),
    st.text("0123456789ABCDEF", min_size=32, max_size=32).map(str.encode),
)


@given(st.lists(st.tuples(int32, keys), max_size=40))
def test_hashes_of_keys(found: list[tuple[int, bytes]]) -> None:
    topics, texts = [topic for topic, _ in found], [key for _, key in found]
    assert accelerator().key_hashes(topics, texts) == key_hashes(topics, texts)


@given(
    st.lists(st.tuples(st.integers(0, 2**31 - 1), int64, times, st.binary(min_size=4, max_size=4)), min_size=1), times
)
def test_entries_of_the_index(found: list[tuple[int, int, int, bytes]], begin: int) -> None:
    hashes, physicals, timestamps, previous = (list(column) for column in zip(*found, strict=True))
    expected = encode_entries(hashes, physicals, timestamps, begin, b"".join(previous))
    assert accelerator().index_entries(hashes, physicals, timestamps, begin, b"".join(previous)) == expected


@pytest.mark.parametrize(
    "call",
    [
        lambda native: native.key_hashes([1], []),
        lambda native: native.index_entries([1], [1], [1], 0, b"123"),
        lambda native: native.index_entries([1], [], [1], 0, b"1234"),
        lambda native: native.index_entries([-1], [1], [1], 0, b"1234"),
        lambda native: native.encode_batch(b"", (0, 0, b"", 0, 0), (b"", b""), (0, 0, 0), (0, 0, -1), (1, 1)),
        lambda native: native.cut_read(bytearray(8), 1, print, ()),
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
