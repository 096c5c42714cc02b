from __future__ import annotations

from struct import pack

import pytest

from rocketmq_py.store.codec.packing import Entries


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 511, 512, 513, 1024, 1500])
def test_entries_are_packed_in_order(count):
    entries = [(i << 33, -i, i) for i in range(count)]
    wanted = b"".join(pack(">qiq", *entry) for entry in entries)
    assert Entries("qiq").pack([field for entry in entries for field in entry]) == wanted
