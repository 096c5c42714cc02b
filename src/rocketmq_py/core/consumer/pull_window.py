"""Decide which pulls to send for one range of one queue, with many in flight. No IO.

Consumers (``core.consumer.pulls_ahead``) and reads with Arrow and Spark use it.

A broker with default settings returns at most 32 messages per pull. The range is cut into segments that are pulled at
the same time; the bodies are returned in the order of offsets. The length of segments is adapted to the broker's
responses: it may limit the number of messages, their bytes, or, with a filter, the number of offsets it examines.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from rocketmq_py.errors import RocketMQError

MAX_PULL = 1024
"""Maximum number of messages of one pull."""
_FULL_ANSWERS_NEEDED = 64
_MAX_REACH = 4096
_SAMPLES = 16
_MAX_INFLIGHT_MESSAGES = 32768
"""More messages than a reader decodes at once, which are 2 MiB: otherwise it waits for a round trip after each time."""
_MAX_INFLIGHT_BYTES = 8 * 1024 * 1024
_MIN_INFLIGHT_PULLS = 4
"""Minimum number of pulls in flight, even if the limits for messages and bytes in flight allow fewer."""


class IncompleteRead(RocketMQError):
    """A range was not read completely: for some offsets there was no response. This is a bug of this package."""


class FetchedChunk(NamedTuple):
    """The body of one pull response, which covers the queue offsets from ``start`` up to, not including, ``stop``.

    :ivar is_damaged: messages at these offsets are damaged, and the broker did not send them; ``body`` is empty.
    """

    body: bytes
    start: int
    stop: int
    is_damaged: bool = False


class Pull(NamedTuple):
    """A pull to send: for at most ``number`` messages from ``offset`` on.

    :ivar segment: the segment to pass to :meth:`Window.answer` or :meth:`Window.failed`.
    """

    offset: int
    number: int
    segment: Segment


@dataclass(slots=True, eq=False)
class Segment:
    """The offsets that one pull requests: from ``start`` up to, not including, ``stop``.

    :ivar asked: True if the pull was sent.
    :ivar body: the body of the response; None before it arrives.
    :ivar is_damaged: the broker left out messages because they are damaged.
    """

    start: int
    stop: int
    asked: bool = False
    body: bytes | None = None
    is_damaged: bool = False


class Window:
    """The pulls for offsets from ``start`` up to, not including, ``stop``, and their responses.

    :param in_flight: maximum number of pulls in flight.
    :param filtered: the pulls have a message filter, so a response covers more offsets than it has messages: as many as
        the broker examines in one read.
    :param most: maximum length of a segment without a filter.
    :param stride: number of offsets of a segment at first; 0: one pull is sent, and its response decides.
    """

    def __init__(
        self, start: int, stop: int, in_flight: int, *, filtered: bool = False, most: int = MAX_PULL, stride: int = 0
    ) -> None:
        self._learn = self._learn_reach if filtered else self._learn_number
        self._reaches: deque[int] = deque(maxlen=_SAMPLES)
        self._shortened: deque[int] = deque(maxlen=_SAMPLES)
        self._next = start
        self._taken = start
        self._stop = stop
        self.in_flight = in_flight
        self.coming = 0
        """Number of offsets of the pulls in flight."""
        self._most = most
        self._segments: deque[Segment] = deque()
        self._inflight = 0
        self._unasked = 0  # segments in the deque whose pull must be sent (again)
        self._weight = 1  # estimated bytes of a response
        self._stride = stride  # messages per pull; 0 until the first response
        self._full_in_a_row = 0
        self._full_answers_needed = _FULL_ANSWERS_NEEDED

    @property
    def done(self) -> bool:
        """True if there were responses for all offsets, and :meth:`chunks` has returned them.

        :raises IncompleteRead: all pulls are completed, but there was no response for the last offsets.
        """
        if self._segments or self._next < self._stop:
            return False
        if self._taken < self._stop:
            raise IncompleteRead(f"offsets {self._taken} to {self._stop - 1} were never answered")
        return True

    @property
    def stride(self) -> int:
        """The number of offsets of a segment; 0 until the first response."""
        return self._stride

    def extend(self, stop: int) -> None:
        """Move the end of the range; a smaller one than before has no effect."""
        self._stop = max(self._stop, stop)

    def pulls(self, admit: Callable[[int], bool] | None = None) -> list[Pull]:
        """Return the pulls to send now, failed ones first, as the limits for pulls in flight allow.

        :param admit: takes the number of offsets of the pulls in flight; returns False if no other pull may be sent.
            The pull of the first offsets without a response is sent nevertheless, since others may wait for it.
        """
        pulls: list[Pull] = []
        position = 0
        while self._unasked and position < len(self._segments):
            segment = self._segments[position]
            position += 1
            if not segment.asked:
                if not self._may_send(admit) and (position > 1 or admit is None):
                    break
                self._cut(position, segment)
                self._unasked -= 1
                pulls.append(self._mark_asked(segment))
        while self._next < self._stop and self._may_send(admit):
            segment = Segment(self._next, min(self._next + (self._stride or self._most), self._stop))
            self._segments.append(segment)
            self._next = segment.stop
            pulls.append(self._mark_asked(segment))
        return pulls

    def _may_send(self, admit: Callable[[int], bool] | None) -> bool:
        return self._has_room and (admit is None or admit(self.coming))

    @property
    def _has_room(self) -> bool:
        if not self._stride:
            return self._inflight < 1
        most = min(_MAX_INFLIGHT_MESSAGES // self._stride, _MAX_INFLIGHT_BYTES // self._weight)
        return self._inflight < min(self.in_flight, max(most, _MIN_INFLIGHT_PULLS))

    def _cut(self, position: int, segment: Segment) -> None:
        """Shorten ``segment`` to what one response can contain; insert the rest as a segment at index ``position``."""
        stop = segment.start + (self._stride or self._most)
        if stop < segment.stop:
            self._segments.insert(position, Segment(stop, segment.stop))
            self._unasked += 1
            segment.stop = stop

    def _mark_asked(self, segment: Segment) -> Pull:
        segment.asked = True
        self._inflight += 1
        asked = segment.stop - segment.start
        self.coming += asked
        return Pull(segment.start, asked, segment)

    @property
    def is_at_limit(self) -> bool:
        """True if as many pulls are in flight as may be."""
        return self._inflight >= self.in_flight

    def answer(
        self, segment: Segment, body: bytes, next_offset: int, *, is_damaged: bool = False, weight: int | None = None
    ) -> None:
        """Record the response to the pull of ``segment``.

        If the response does not reach the end of the segment, the rest is pulled again.

        :param body: all messages from the start of the segment up to ``next_offset``.
        :param is_damaged: the broker left out messages of the segment because they are damaged.
        :param weight: bytes of the response, if ``body`` is not given.
        """
        self._inflight -= 1
        asked = segment.stop - segment.start
        self.coming -= asked
        reached = max(min(next_offset, segment.stop), segment.start)
        if reached < segment.stop:
            self._segments.insert(self._segments.index(segment) + 1, Segment(reached, segment.stop))
            self._unasked += 1
            segment.stop = reached
        segment.body, segment.is_damaged = body, is_damaged
        self._weight = max(len(body) if weight is None else weight, self._weight * 3 // 4, 1)
        self._learn(asked, next_offset - segment.start)

    def _learn_reach(self, asked: int, reach: int) -> None:
        """Adapt the length of segments, with a filter, to the number of offsets that most recent responses cover.

        If segments are too short, messages are sent twice; if they are too long, the rest needs another pull.

        :param asked: length of the segment.
        :param reach: number of offsets that the response covers.
        """
        if asked >= self._stride:  # the rest of a segment is shorter, and its response says little
            self._reaches.append(reach)
            usual = sorted(self._reaches)[len(self._reaches) // 4]
            self._stride = min(max(usual, 1), _MAX_REACH)

    def _learn_number(self, asked: int, reach: int) -> None:
        """Adapt the length of segments to the number of messages per response; double it after many full responses.

        :param asked: number of messages requested.
        :param reach: number of offsets that the response covers.
        """
        got = max(min(reach, asked), 0)
        if got < asked or not self._stride:
            if got < self._stride:
                self._full_answers_needed = min(self._full_answers_needed * 2, 1 << 16)
            self._shortened.append(max(got, 1))
            self._stride, self._full_in_a_row = self._usual(), 0
        elif asked == self._stride:
            self._full_in_a_row += 1
            if self._full_in_a_row >= self._full_answers_needed:
                self._stride, self._full_in_a_row = min(self._stride * 2, self._most), 0

    def _usual(self) -> int:
        """Return the number of messages to request in one pull, from recent responses with fewer than requested.

        If all of these had the same number, that is the broker's limit and the result. Otherwise the broker limits
        bytes, and the result is 7/8 of the smallest number.
        """
        least = min(self._shortened)
        return least if least == max(self._shortened) else max(least * 7 // 8, 1)

    def failed(self, segment: Segment) -> None:
        """Record that the pull of ``segment`` failed, so that :meth:`pulls` returns it again."""
        self._inflight -= 1
        self.coming -= segment.stop - segment.start
        segment.asked = False
        self._unasked += 1

    def is_first(self, segment: Segment) -> bool:
        """Return True if all offsets before ``segment`` have responses."""
        return next((one for one in self._segments if one.body is None), segment) is segment

    def chunks(self) -> list[FetchedChunk]:
        """Return the chunks that follow the last ones returned, up to the first offset without a response.

        Segments without messages give no chunk.

        :raises IncompleteRead: there was no response for offsets between two segments.
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
