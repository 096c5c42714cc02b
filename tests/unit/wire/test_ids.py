from __future__ import annotations

import datetime
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, strategies as st

from rocketmq_py.errors import ConfigError
from rocketmq_py.wire.ids import (
    UniqueKeys,
    month_start_ms,
    next_month_start_ms,
    offset_msg_id,
    offset_msg_ids,
    parse_offset_msg_id,
)
from rocketmq_py.wire.record import pack_host
from tests.golden import files

MILLIS = st.integers(946_684_800_000, 4_102_444_800_000)


@pytest.mark.parametrize("fact", files.facts("offsetMsgId"), ids=lambda fact: fact["host"])
def test_offset_ids_equal_those_of_java(fact: dict[str, object]) -> None:
    host, port, offset = str(fact["host"]), int(str(fact["port"])), int(str(fact["offset"]))
    assert offset_msg_id(pack_host(host, port), offset) == fact["id"]
    assert parse_offset_msg_id(str(fact["id"])) == (host, port, offset)


@given(st.ip_addresses(), st.integers(0, 65535), st.integers(0, 2**63 - 1))
def test_offset_ids_are_encoded_and_decoded(ip: object, port: int, offset: int) -> None:
    parsed_ip, parsed_port, parsed_offset = parse_offset_msg_id(offset_msg_id(pack_host(str(ip), port), offset))
    assert (pack_host(parsed_ip, parsed_port), parsed_offset) == (pack_host(str(ip), port), offset)


@pytest.mark.parametrize("text", ["", "12", "Z" * 32, "0" * 33, "0" * 57])
def test_an_invalid_offset_id_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not an offset message id"):
        parse_offset_msg_id(text)


@pytest.mark.parametrize("ip", ["10.1.2.3", "2001:db8::7"])
def test_several_offset_ids_are_joined(ip: str) -> None:
    host = pack_host(ip, 10911)
    for offsets in ([5], [0, 2**63 - 1], [1, 2, 3]):
        assert offset_msg_ids(host, offsets) == ",".join(offset_msg_id(host, offset) for offset in offsets)
    assert offset_msg_ids(pack_host("10.1.2.3", 10911), [255]) == "0A01020300002A9F00000000000000FF"


def test_the_counter_of_unique_keys_begins_at_zero_and_has_sixteen_bits() -> None:
    keys = UniqueKeys(bytes(4), 1, 2)
    assert [keys.next(1_700_000_000_000)[-4:] for _ in range(2)] == ["0000", "0001"]
    assert [UniqueKeys(bytes(4), 1, 2, start).reserve(0, 1)[1] for start in (1, 65_535, 65_536)] == [1, 65_535, 0]


def test_a_unique_key_has_javas_layout() -> None:
    fact = files.fact("uniqKey")
    ip = bytes.fromhex(fact["ip"].replace(":", ""))
    key = UniqueKeys(ip, fact["pid"], int(fact["id"][36:44], 16), start=0).next(fact["nearlyTime"])
    assert key[:44] == fact["id"][:44]
    assert len(key) == len(fact["id"]) == 56
    assert key[52:] == fact["id"][52:]


def test_a_unique_key_contains_an_ipv4_host() -> None:
    key = UniqueKeys(bytes([10, 1, 2, 3]), 0x1ABCD, 0xDEADBEEF, start=0xFFFF).next(
        month_start_ms(1_700_000_000_000) + 255
    )
    assert key == "0A010203ABCDDEADBEEF000000FFFFFF"


def test_a_key_at_time_zero_is_whole() -> None:
    assert len(UniqueKeys(bytes(4), 1, 2).next(0)) == 32


def test_keys_of_one_millisecond_have_increasing_counters() -> None:
    keys, one_by_one = (UniqueKeys(bytes(4), 1, 2, start=0xFFFE) for _ in range(2))
    expected = [one_by_one.next(1_700_000_000_000) for _ in range(6)]
    stem, first = keys.reserve(1_700_000_000_000, 3)
    found = [f"{stem}{first + i & 0xFFFF:04X}" for i in range(3)] + [keys.next(1_700_000_000_000)]
    stem, first = keys.reserve(1_700_000_000_000, 2)
    assert [*found, *(f"{stem}{first + i & 0xFFFF:04X}" for i in range(2))] == expected


def test_keys_of_many_threads_differ() -> None:
    keys = UniqueKeys(bytes(4), 1, 2)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(keys.next, [1_700_000_000_000] * 5000))
    assert len(set(made)) == len(made)


@given(MILLIS)
def test_the_month_of_a_time_starts_and_ends_at_midnight(now: int) -> None:
    start, end = month_start_ms(now), next_month_start_ms(now)
    assert start <= now < end
    assert 27 * 86_400_000 <= end - start <= 32 * 86_400_000
    first = datetime.datetime.fromtimestamp(start / 1000).astimezone()
    assert (first.day, first.hour, first.minute, first.second) == (1, 0, 0, 0)


def test_a_new_month_starts_a_new_count() -> None:
    keys = UniqueKeys(bytes(4), 1, 2)
    december = month_start_ms(1_701_500_000_000)
    january = next_month_start_ms(december)
    assert keys.next(december)[20:28] == keys.next(january)[20:28] == "00000000"
    assert int(keys.next(january - 1)[20:28], 16) == january - december - 1
