"""The window of pulls returns every offset once and in order."""

from __future__ import annotations

import random
from collections import deque

import pytest
from hypothesis import given, settings, strategies as st

from rocketmq_py.core.consumer.pull_window import FetchedChunk, IncompleteRead, Pull, Window
from tests.examples import examples


def covered(pull: Pull, number: int) -> tuple[bytes, int]:
    """An answer with one byte per message: offset modulo 251."""
    stop = min(pull.offset + number, pull.offset + pull.number)
    return bytes(offset % 251 for offset in range(pull.offset, stop)), stop


@settings(max_examples=examples(50))
@given(
    start=st.integers(0, 10),
    length=st.integers(0, 200),
    in_flight=st.integers(1, 8),
    data=st.data(),
)
def test_every_offset_is_returned_once_and_in_order(
    start: int, length: int, in_flight: int, data: st.DataObject
) -> None:
    window = Window(start, start + length, in_flight)
    under_way: deque[Pull] = deque()
    seen = b""
    at = start
    while not window.done:
        under_way.extend(window.pulls())
        assert 0 < len(under_way) <= in_flight
        position = data.draw(st.integers(0, len(under_way) - 1))
        pull = under_way[position]
        del under_way[position]
        if data.draw(st.booleans()) and data.draw(st.booleans()):
            window.failed(pull.segment)
            continue
        body, reached = covered(pull, data.draw(st.sampled_from([1, 5, 32, 1000])))
        window.answer(pull.segment, body, reached)
        for chunk in window.chunks():
            assert chunk.start == at
            assert len(chunk.body) == chunk.stop - chunk.start
            at, seen = chunk.stop, seen + chunk.body
    assert seen == bytes(offset % 251 for offset in range(start, start + length))


def test_it_starts_with_one_pull_and_adapts_to_the_answers() -> None:
    window = Window(0, 10_000, in_flight=4)
    (first,) = window.pulls()
    assert window.pulls() == []
    window.answer(first.segment, *covered(first, 32))
    assert [(pull.offset, pull.number) for pull in window.pulls()] == [(32, 32), (64, 32), (96, 32), (128, 32)]


def test_a_short_answer_is_completed_before_later_ones_are_taken() -> None:
    window = Window(0, 96, in_flight=4)
    (first,) = window.pulls()
    window.answer(first.segment, *covered(first, 32))
    second, third = window.pulls()
    window.answer(third.segment, *covered(third, 32))
    window.answer(second.segment, *covered(second, 10))
    assert [(chunk.start, chunk.stop) for chunk in window.chunks()] == [(0, 32), (32, 42)]
    for pull in window.pulls():
        window.answer(pull.segment, *covered(pull, 32))
    while not window.done and (pulls := window.pulls()):
        for pull in pulls:
            window.answer(pull.segment, *covered(pull, 32))
    assert [(chunk.start, chunk.stop) for chunk in window.chunks()][-1] == (64, 96)


def test_offsets_without_messages_are_skipped() -> None:
    window = Window(0, 50, in_flight=4)
    (first,) = window.pulls()
    window.answer(first.segment, b"", 50)
    assert window.chunks() == []
    assert window.done


def test_what_the_broker_left_out_as_damaged_is_a_chunk_without_messages() -> None:
    window = Window(0, 50, in_flight=4)
    (first,) = window.pulls()
    window.answer(first.segment, b"whole", 5)
    (second, *_) = window.pulls()
    window.answer(second.segment, b"", 9, is_damaged=True)
    assert window.chunks() == [FetchedChunk(b"whole", 0, 5), FetchedChunk(b"", 5, 9, is_damaged=True)]


def test_it_probes_whether_a_broker_returns_more() -> None:
    window = Window(0, 1_000_000, in_flight=1)
    asked = []
    for _ in range(200):
        (pull,) = window.pulls()
        asked.append(pull.number)
        window.answer(pull.segment, *covered(pull, 8 if len(asked) < 20 else 32))
        window.chunks()
    assert asked[1] == 8
    assert max(asked[1:]) >= 32


def test_large_answers_reduce_the_number_of_pulls() -> None:
    window = Window(0, 1_000_000, in_flight=128)
    (first,) = window.pulls()
    window.answer(first.segment, bytes(256 * 1024), 32)
    pulls = window.pulls()
    assert len(pulls) == 32, "8 MiB"
    for pull in pulls:
        window.answer(pull.segment, bytes(4 * 1024 * 1024), pull.offset + 32)
    assert len(window.pulls()) == 4, "but always some"


def test_small_messages_are_in_flight_while_a_reader_decodes_2_mib() -> None:
    """A message of 100 bytes takes 200 in an answer. With fewer in flight, a reader far away waits after each batch."""
    window = Window(0, 1_000_000, in_flight=256)
    (first,) = window.pulls()
    window.answer(first.segment, bytes(200 * 1024), 1024)
    assert sum(pull.number for pull in window.pulls()) == 32_768


@given(st.integers(0, 1 << 30))
@settings(max_examples=examples(20))
def test_pulls_limited_by_bytes_request_slightly_less(seed: int) -> None:
    chance, limit, messages = random.Random(seed), 256 * 1024, 200_000
    sizes = [chance.randrange(200, 2000) for _ in range(messages)]
    window, pulls = Window(0, messages, in_flight=32), 0
    while not window.done:
        under_way = window.pulls()
        assert sum(pull.number for pull in under_way) <= 32_768
        for pull in under_way:
            pulls += 1
            total, stop = 0, pull.offset
            while stop < pull.offset + pull.number and (total := total + sizes[stop]) <= limit:
                stop += 1
            window.answer(pull.segment, bytes(stop - pull.offset), stop)
        window.chunks()
    assert pulls < 1.6 * sum(sizes) / limit


@given(
    length=st.integers(1, 600),
    in_flight=st.integers(1, 8),
    one_in=st.integers(1, 40),
    scan=st.integers(5, 200),
    chance=st.integers().map(random.Random),
)
def test_filtered_answers_cover_every_matching_offset(
    length: int, in_flight: int, one_in: int, scan: int, chance: random.Random
) -> None:
    """The broker looks at ``scan`` offsets a pull, gives at most 32 messages, and may reach far beyond the segment."""
    window = Window(0, length, in_flight, filtered=True)
    under_way: list[Pull] = []
    seen: list[int] = []
    while not window.done:
        under_way += window.pulls()
        pull = under_way.pop(chance.randrange(len(under_way)))
        given_ = [i for i in range(pull.offset, min(pull.offset + scan, length)) if i % one_in == 0]
        given_ = given_[: min(32, pull.number)]
        full = len(given_) == min(32, pull.number)
        reached = given_[-1] + 1 if full else min(pull.offset + scan, length)
        window.answer(pull.segment, b"".join(i.to_bytes(4, "big") for i in given_), reached)
        for chunk in window.chunks():
            offsets = [int.from_bytes(chunk.body[i : i + 4], "big") for i in range(0, len(chunk.body), 4)]
            seen += [i for i in offsets if chunk.start <= i < chunk.stop]
    assert seen == list(range(0, length, one_in))


def test_pulls_at_a_filtering_broker_are_spaced_by_its_progress() -> None:
    window = Window(0, 100_000, in_flight=3, filtered=True)
    (first,) = window.pulls()
    window.answer(first.segment, b"", first.offset + 800)
    assert [pull.offset for pull in window.pulls()] == [800, 1024, 1824]


def test_unanswered_offsets_are_an_error() -> None:
    window = Window(0, 96, in_flight=4)
    (first,) = window.pulls()
    window.answer(first.segment, *covered(first, 32))
    second, third = window.pulls()
    window.answer(third.segment, *covered(third, 32))
    window._segments.remove(second.segment)
    with pytest.raises(IncompleteRead, match="offsets 32 to 63 were never answered"):
        window.chunks()


def test_an_unanswered_end_is_an_error() -> None:
    window = Window(0, 50, in_flight=4)
    window.pulls()
    window._segments.clear()
    window._next = 50
    with pytest.raises(IncompleteRead, match="offsets 0 to 49 were never answered"):
        _ = window.done


def asked(window: Window, number: int, most: int) -> list[int]:
    """The lengths of the next pulls, each answered with at most ``most`` messages before the next."""
    lengths = []
    for _ in range(number):
        (pull,) = window.pulls()
        lengths.append(pull.number)
        window.answer(pull.segment, *covered(pull, most))
        window.chunks()
    return lengths


def test_pulls_are_doubled_after_64_full_answers_and_later_after_more() -> None:
    window = Window(0, 1 << 30, in_flight=1)
    assert asked(window, 66, 32) == [1024] + [32] * 64 + [64], "the first one asks for all that a broker may give"
    assert asked(window, 131, 32) == [32] * 128 + [64, 32, 32], "it was for nothing, so more answers are awaited"
    assert {*asked(Window(0, 1 << 30, in_flight=1), 70, 2048)} == {1024}


def test_a_limit_of_bytes_leaves_an_eighth_of_room() -> None:
    window = Window(0, 1 << 30, in_flight=1)
    assert asked(window, 3, 32)[1:] == [32, 32]
    (pull,) = window.pulls()
    window.answer(pull.segment, *covered(pull, 16))
    window.chunks()
    assert [pull.number for pull in window.pulls()] == [14], "7/8 of the fewest"


def test_failed_pulls_come_first_and_once() -> None:
    window = Window(0, 320, in_flight=3)
    (first,) = window.pulls()
    window.answer(first.segment, *covered(first, 32))
    pulls = window.pulls()
    assert [pull.offset for pull in pulls] == [32, 64, 96]
    assert window.pulls() == []
    window.failed(pulls[1].segment)
    window.failed(pulls[0].segment)
    assert [(pull.offset, pull.number) for pull in window.pulls()] == [(32, 32), (64, 32)]
    assert window.pulls() == []
    assert window._unasked == sum(not one.asked for one in window._segments), "so that pulls need not look for them"
    assert [window.is_first(pull.segment) for pull in pulls] == [True, False, False]
    window.answer(pulls[0].segment, *covered(pulls[0], 32))
    assert window.is_first(pulls[1].segment)


def test_a_failed_pull_is_cut_to_what_an_answer_holds() -> None:
    window = Window(0, 1000, in_flight=8)
    (first,) = window.pulls()
    window.failed(first.segment)
    (again,) = window.pulls()
    assert (again.offset, again.number) == (0, 1000)
    window.answer(again.segment, *covered(again, 32))
    assert [(pull.offset, pull.number) for pull in window.pulls()] == [(32 * i, 32) for i in range(1, 9)]


def test_an_answer_may_reach_beyond_its_segment_or_give_nothing() -> None:
    window = Window(0, 64, in_flight=2)
    (first,) = window.pulls()
    window.answer(first.segment, b"x" * 32, 32)
    (second,) = window.pulls()
    window.answer(second.segment, b"", 32)
    again, _ = window.pulls()
    assert (again.offset, again.number) == (32, 1), "very little, as the broker gives"
    window.answer(again.segment, b"y", 1000, is_damaged=True)
    chunks = window.chunks()
    assert [(chunk.start, chunk.stop, chunk.is_damaged) for chunk in chunks] == [(0, 32, False), (32, 33, True)]
