"""The pulls of one range of one queue. A stock broker answers with 32 messages, so many pulls are in flight at once.

Pure. The offsets are known beforehand, so the range is cut into segments that are pulled at the same time; chunks come
out in the order of offsets. How many messages a broker returns at once is learned from its answers: a number of
messages, or as many as fit into a number of bytes, or, under a filter, the number of offsets it looks at.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from rocketmq_py.errors import RocketMQError
from rocketmq_py.spark.fetched import FetchedChunk

_MAX_PULL = 1024
_FULL_ANSWERS_NEEDED = 64
_MAX_REACH = 4096
_SAMPLES = 16
_MAX_INFLIGHT_MESSAGES = 8192
_MAX_INFLIGHT_BYTES = 8 * 1024 * 1024
_MIN_INFLIGHT_PULLS = 4
"""Limits of the messages and bytes in flight, which wait in memory; but at least so many pulls."""


class IncompleteRead(RocketMQError):
    """A range was not read completely: some offsets were neither returned nor deleted. A bug of this package."""


class Pull(NamedTuple):
    """A pull to send: at most ``number`` messages from ``offset`` on. ``segment`` is for the answer."""

    offset: int
    number: int
    segment: Segment


@dataclass(slots=True, eq=False)
class Segment:
    """Offsets from ``start`` up to ``stop``. ``asked``: a pull was sent; ``body``: its answer, if any."""

    start: int
    stop: int
    asked: bool = False
    body: bytes | None = None
    is_damaged: bool = False


class Window:
    """The pulls of offsets ``start`` up to, not including, ``stop``.

    :param in_flight: maximum number of pulls in flight.
    :param filtered: the broker returns only some of the messages, so an answer covers more offsets than it holds
        messages: as many as the broker looks at in one read.
    """

    def __init__(self, start: int, stop: int, in_flight: int, *, filtered: bool = False) -> None:
        self._learn = self._learn_reach if filtered else self._learn_number
        self._reaches: deque[int] = deque(maxlen=_SAMPLES)
        self._shortened: deque[int] = deque(maxlen=_SAMPLES)
        self._next = start
        self._taken = start
        self._stop = stop
        self._in_flight = in_flight
        self._segments: deque[Segment] = deque()
        self._inflight = 0
        self._unasked = 0  # segments in the deque that wait to be asked for (again)
        self._weight = 1  # bytes of an answer
        self._stride = 0  # messages per pull; unknown until the first answer
        self._full_in_a_row = 0
        self._full_answers_needed = _FULL_ANSWERS_NEEDED

    @property
    def done(self) -> bool:
        """True if every offset has been answered and taken.

        :raises IncompleteRead: nothing is left to ask for, and offsets at the end were never answered.
        """
        if self._segments or self._next < self._stop:
            return False
        if self._taken < self._stop:
            raise IncompleteRead(f"offsets {self._taken} to {self._stop - 1} were never answered")
        return True

    def pulls(self) -> list[Pull]:
        """The pulls to send now."""
        pulls: list[Pull] = []
        position = 0
        while self._unasked and self._has_room and position < len(self._segments):
            segment = self._segments[position]
            position += 1
            if not segment.asked:
                self._cut(position, segment)
                self._unasked -= 1
                pulls.append(self._mark_asked(segment))
        while self._next < self._stop and self._has_room:
            segment = Segment(self._next, min(self._next + (self._stride or _MAX_PULL), self._stop))
            self._segments.append(segment)
            self._next = segment.stop
            pulls.append(self._mark_asked(segment))
        return pulls

    @property
    def _has_room(self) -> bool:
        if not self._stride:
            return self._inflight < 1
        most = min(_MAX_INFLIGHT_MESSAGES // self._stride, _MAX_INFLIGHT_BYTES // self._weight)
        return self._inflight < min(self._in_flight, max(most, _MIN_INFLIGHT_PULLS))

    def _cut(self, position: int, segment: Segment) -> None:
        """Shorten ``segment`` to what one answer can hold; the rest becomes a segment at ``position``, behind it."""
        stop = segment.start + (self._stride or _MAX_PULL)
        if stop < segment.stop:
            self._segments.insert(position, Segment(stop, segment.stop))
            self._unasked += 1
            segment.stop = stop

    def _mark_asked(self, segment: Segment) -> Pull:
        segment.asked = True
        self._inflight += 1
        return Pull(segment.start, segment.stop - segment.start, segment)

    def answer(self, segment: Segment, body: bytes, next_offset: int, *, is_damaged: bool = False) -> None:
        """A pull was answered: everything before ``next_offset`` that the range holds is in ``body``.

        :param is_damaged: the broker left out messages of the segment because they are damaged.

        An answer that does not reach the end of the segment leaves the rest of it to be asked for.
        """
        self._inflight -= 1
        asked = segment.stop - segment.start
        reached = max(min(next_offset, segment.stop), segment.start)
        if reached < segment.stop:
            self._segments.insert(self._segments.index(segment) + 1, Segment(reached, segment.stop))
            self._unasked += 1
            segment.stop = reached
        segment.body, segment.is_damaged = body, is_damaged
        self._weight = max(len(body), self._weight * 3 // 4, 1)
        self._learn(asked, next_offset - segment.start)

    def _learn_reach(self, asked: int, reach: int) -> None:
        """Make segments a little shorter than most answers reach.

        Messages beyond the segment are sent twice; messages missing in it cost another pull.
        """
        if asked >= self._stride:  # the rest of a segment is asked for with a number that says little
            self._reaches.append(reach)
            usual = sorted(self._reaches)[len(self._reaches) // 4]
            self._stride = min(max(usual, 1), _MAX_REACH)

    def _learn_number(self, asked: int, reach: int) -> None:
        """Ask for as many messages as the broker returns; now and then for more."""
        got = max(min(reach, asked), 0)
        if got < asked or not self._stride:
            if got < self._stride:
                self._full_answers_needed = min(self._full_answers_needed * 2, 1 << 16)
            self._shortened.append(max(got, 1))
            self._stride, self._full_in_a_row = self._usual(), 0
        elif asked == self._stride:
            self._full_in_a_row += 1
            if self._full_in_a_row >= self._full_answers_needed:
                self._stride, self._full_in_a_row = min(self._stride * 2, _MAX_PULL), 0

    def _usual(self) -> int:
        """The size of short answers if it is always the same; else bytes are the limit: a bit below the smallest."""
        least = min(self._shortened)
        return least if least == max(self._shortened) else max(least * 7 // 8, 1)

    def failed(self, segment: Segment) -> None:
        """Note that a pull was refused or lost, so that it is sent again."""
        self._inflight -= 1
        segment.asked = False
        self._unasked += 1

    def is_first(self, segment: Segment) -> bool:
        """True if no offset before ``segment`` is still to be answered."""
        return next((one for one in self._segments if one.body is None), segment) is segment

    def chunks(self) -> list[FetchedChunk]:
        """The chunks that can be taken now, in the order of offsets.

        :raises IncompleteRead: offsets between two chunks were never answered.
        """
        chunks: list[FetchedChunk] = []
        while self._segments and self._segments[0].body is not None:
            segment = self._segments.popleft()
            if segment.start != self._taken:
                raise IncompleteRead(f"offsets {self._taken} to {segment.start - 1} were never answered")
            self._taken = segment.stop
            if segment.body or segment.is_damaged:
                chunks.append(FetchedChunk(segment.body or b"", segment.start, segment.stop, segment.is_damaged))
        return chunks
