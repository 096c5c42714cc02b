from __future__ import annotations

import pytest

from rocketmq_py.wire.murmur import murmur3_64


@pytest.mark.parametrize(("text", "expected"), [
    ("", 0), ("hello", 0xCBD8A7B341BD9B02), ("hello, world", 0x342FAC623A5EBC8E),
    ("19 Jan 2038 at 3:14:07 AM", 0xB89E5988B737AFFC),
    ("The quick brown fox jumps over the lazy dog.", 0xCD99481F9EE902C9),
])  # fmt: skip
def test_murmur_hashes_equal_published_values(text: str, expected: int) -> None:
    assert murmur3_64(text.encode()) == expected
