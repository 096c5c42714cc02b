"""The window of pulls: whatever a broker answers, every offset comes once and in order."""

from __future__ import annotations

from collections import deque

from hypothesis import given, strategies as st

from rocketmq_py.spark.window import Pull, Window


def covered(pull: Pull, number: int) -> tuple[bytes, int]:
    """An answer with one byte per message: offset modulo 251."""
    stop = min(pull.offset + number, pull.offset + pull.number)
    return bytes(offset % 251 for offset in range(pull.offset, stop)), stop


@given(
    start=st.integers(0, 10),
    length=st.integers(0, 400),
    in_flight=st.integers(1, 8),
    data=st.data(),
)
def test_every_offset_comes_once_and_in_order(start: int, length: int, in_flight: int, data: st.DataObject) -> None:
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
        for piece in window.pieces():
            assert piece.start == at
            assert len(piece.body) == piece.stop - piece.start
            at, seen = piece.stop, seen + piece.body
    assert seen == bytes(offset % 251 for offset in range(start, start + length))


def test_it_starts_with_one_pull_and_then_asks_for_what_the_broker_gives() -> None:
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
    assert [(piece.start, piece.stop) for piece in window.pieces()] == [(0, 32), (32, 42)]
    for pull in window.pulls():
        window.answer(pull.segment, *covered(pull, 32))
    while not window.done and (pulls := window.pulls()):
        for pull in pulls:
            window.answer(pull.segment, *covered(pull, 32))
    assert [(piece.start, piece.stop) for piece in window.pieces()][-1] == (64, 96)


def test_offsets_without_messages_are_passed_over() -> None:
    window = Window(0, 50, in_flight=4)
    (first,) = window.pulls()
    window.answer(first.segment, b"", 50)
    assert window.pieces() == []
    assert window.done


def test_it_tries_whether_a_broker_gives_more_than_it_did() -> None:
    window = Window(0, 1_000_000, in_flight=1)
    asked = []
    for _ in range(200):
        (pull,) = window.pulls()
        asked.append(pull.number)
        window.answer(pull.segment, *covered(pull, 8 if len(asked) < 20 else 32))
        window.pieces()
    assert asked[1] == 8
    assert max(asked[1:]) >= 32
