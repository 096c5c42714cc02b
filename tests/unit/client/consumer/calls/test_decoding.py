"""Pulled bodies that decompress to many bytes are decoded in a thread, all others in the event loop."""

from __future__ import annotations

import asyncio
import threading
import zlib

import pytest

from rocketmq_py.client.consumer.calls import decoding
from rocketmq_py.client.consumer.calls.decoding import LOOP_BYTES, decode_pop, decode_pull, in_loop
from rocketmq_py.core.consumer import pull_result
from rocketmq_py.model import MessageQueue, RecordHead
from rocketmq_py.protocol.headers.pull import PullResponse
from rocketmq_py.wire import record
from rocketmq_py.wire.compression import MIB, DecompressionLimits
from rocketmq_py.wire.record import DEFAULT_RULES, BodyRules, encode_record

QUEUE = MessageQueue("T", "b", 0)
COMPRESSED = 0x1


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the threads that decode, in order."""
    seen: list[str] = []
    decode = record.decode_response

    def noted(*arguments: object) -> object:
        seen.append(threading.current_thread().name)
        return decode(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(pull_result, "decode_response", noted)
    monkeypatch.setattr(decoding, "decode_response", noted)
    return seen


def stored(*sizes: int) -> bytes:
    def one(offset: int, size: int) -> bytes:
        head = RecordHead(0, 0, 0, 0, 0, offset, 1000 + offset, COMPRESSED, 1, bytes(8), 2, bytes(8), 0, 0, 0)
        return encode_record(head, "T", zlib.compress(bytes(size)), b"")

    return b"".join(one(offset, size) for offset, size in enumerate(sizes))


def pulled(body: bytes, count: int, rules: BodyRules = DEFAULT_RULES) -> list[int]:
    header = PullResponse(suggest_which_broker_id=0, next_begin_offset=count, min_offset=0, max_offset=count)
    found = asyncio.run(decode_pull(body, header, QUEUE, 0, (), rules))
    assert found.next_offset == count
    return [len(message.body) for message in found.messages]


def test_small_bodies_are_decoded_in_the_event_loop(threads: list[str]) -> None:
    assert pulled(stored(100, 2 * MIB), 2) == [100, 2 * MIB]
    assert threads == ["MainThread"]


@pytest.mark.parametrize("sizes", [(LOOP_BYTES + 1,), (3 * MIB, 3 * MIB, 10)], ids=["one body", "together"])
def test_large_bodies_are_decoded_in_a_thread(threads: list[str], sizes: tuple[int, ...]) -> None:
    assert pulled(stored(*sizes), len(sizes)) == list(sizes)
    assert threads[0] == "MainThread"
    assert len(threads) == 2
    assert threads[1] != "MainThread"


def test_small_limits_are_not_tried_twice(threads: list[str]) -> None:
    rules = BodyRules(limits=DecompressionLimits(1000, 2000))
    assert in_loop(rules) is rules
    assert pulled(stored(1001, 10), 2, rules) == [10]
    assert threads == ["MainThread"]


def test_pops_are_decoded_likewise(threads: list[str]) -> None:
    for sizes, attempts in (((10, 20), 1), ((5 * MIB, 20), 2)):
        threads.clear()
        found = asyncio.run(decode_pop(stored(*sizes), "b", BodyRules()))
        assert [len(message.body) for message in found.messages] == list(sizes)
        assert len(threads) == attempts
