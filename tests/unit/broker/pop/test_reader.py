"""Records of retry topics as a pop returns them."""

from __future__ import annotations

import pytest

from rocketmq_py.broker.pop.reader import as_popped
from rocketmq_py.broker.records.message_properties import decode
from rocketmq_py.broker.records.stored_record import read_stored
from rocketmq_py.protocol.pop_handle import ExtraInfo
from rocketmq_py.wire.record import QUEUE_OFFSET_AT, encode_record, record_sizes
from tests.unit.broker.metadata.test_hostile_names import HEAD

HANDLE = ExtraInfo(3, 1_000, 60_000, 0, "1", "b", 0)


def stored(offset: int, properties: bytes = b"") -> bytearray:
    record = bytearray(encode_record(HEAD, "%RETRY%g_t", b"body %d" % offset, properties))
    record[QUEUE_OFFSET_AT : QUEUE_OFFSET_AT + 8] = offset.to_bytes(8, "big")
    return record


@pytest.mark.parametrize("damage", [(4, 0xFF), (84, 0x7F)], ids=["magic", "length of the body"])
def test_a_record_that_cannot_be_read_is_left_to_the_consumer_between_the_others(damage: tuple[int, int]) -> None:
    first, bad, last = stored(3), stored(4), stored(5, b"POP_CK\x01own\x02")
    bad[damage[0]] = damage[1]
    answer = as_popped(bytes(first + bad + last), "t", HANDLE)
    one, two, three = (answer[at : at + size] for at, size in record_sizes(answer))
    assert two == bad
    assert [read_stored(record).topic for record in (one, three)] == ["t", "t"]
    found = [decode(read_stored(record).properties.decode())["POP_CK"] for record in (one, three)]
    assert found == ["3 1000 60000 0 1 b 0 3", "own"]
