"""Checksums of bodies: which records are refused, and which one is named."""

from __future__ import annotations

import numpy as np
import pytest

from rocketmq_py.arrow.decode.checksums import check_crcs
from rocketmq_py.errors import CorruptRecord
from tests.unit.arrow.decode.test_columns import BORN_V6, STORE_V6, record

SHORTEST = 91
"""Bytes of a record with empty topic, body and properties."""


def check(*records: bytes) -> None:
    starts = np.cumsum([0, *(len(one) for one in records[:-1])]) if records else np.array([], np.int64)
    check_crcs(b"".join(records), starts)


def with_body_size(one: bytes, size: int, at: int = 84) -> bytes:
    return one[:at] + size.to_bytes(4, "big", signed=True) + one[at + 4 :]


def test_whole_records_pass_whatever_their_hosts() -> None:
    flags = [0, BORN_V6, STORE_V6, BORN_V6 | STORE_V6]
    check(*(record(offset, b"body-%d" % offset, sys_flag=flag) for offset, flag in enumerate(flags)))
    check(record(0, b""))
    check()


@pytest.mark.parametrize("damaged", range(4))
@pytest.mark.parametrize("flag", [0, BORN_V6, STORE_V6, BORN_V6 | STORE_V6])
def test_the_first_record_with_another_body_is_named(flag: int, damaged: int) -> None:
    records = [record(offset, b"body-%d" % offset, sys_flag=flag) for offset in range(4)]
    begin = sum(map(len, records[:damaged]))
    for number in range(damaged, 4):
        records[number] = records[number].replace(b"body", b"bode")
    with pytest.raises(CorruptRecord, match=rf"record at byte {begin} of \d+: the checksum of its body is 0x"):
        check(*records)


@pytest.mark.parametrize("damaged", range(3))
@pytest.mark.parametrize("size", [-1, -(1 << 31), 200, (1 << 31) - 1])
def test_the_first_record_with_an_impossible_body_is_named(damaged: int, size: int) -> None:
    records = [record(offset, b"body-%d" % offset) for offset in range(3)]
    begin = sum(map(len, records[:damaged]))
    for number in range(damaged, 3):
        records[number] = with_body_size(records[number], size)
    with pytest.raises(CorruptRecord, match=f"record at byte {begin} of .*: its body has {size} bytes"):
        check(*records)


def test_a_body_may_reach_to_the_end_of_its_record_and_no_further() -> None:
    one = record(0, b"body")
    size = len(one) - 88
    with pytest.raises(CorruptRecord, match="the checksum"):
        check(with_body_size(one, size), one)
    with pytest.raises(CorruptRecord, match=f"its body has {size + 1} bytes"):
        check(with_body_size(one, size + 1), one)


def test_records_too_short_for_their_fields_are_refused() -> None:
    zeros = bytes(SHORTEST)
    check(zeros, zeros)
    for records in ((zeros[:-1],), (zeros[:-1], zeros), (zeros, zeros[:-1])):
        with pytest.raises(CorruptRecord, match="bytes is too short"):
            check(*records)


@pytest.mark.parametrize("last", [False, True])
def test_a_record_too_short_for_its_hosts_is_refused(last: bool) -> None:
    short = bytearray(SHORTEST)
    short[36:40] = (BORN_V6 | STORE_V6).to_bytes(4, "big")
    records = [record(0, b"body"), bytes(short)]
    with pytest.raises(CorruptRecord, match="too short for its hosts"):
        check(*(records if last else records[::-1]))
