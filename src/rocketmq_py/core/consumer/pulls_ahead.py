"""Which pulls of a consumer's queue are sent before the answers to earlier ones have arrived. No IO.

A pull ahead asks only for offsets that the broker had at its last answer, so no pull but the first one is ever held. At
the end of the queue there is one pull, which the broker holds until a message arrives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from rocketmq_py.core.consumer.pull_window import Pull, Segment, Window
from rocketmq_py.errors import ConfigError

PullsInFlight = int | Literal["auto"]
"""The option ``pulls_in_flight``: a number, or ``"auto"``."""

MAX_IN_FLIGHT = 64
_MAX_AUTO = 32


def check_in_flight(value: object, name: str = "pulls_in_flight") -> None:
    """Check an option that limits the requests in flight.

    :param name: of the option, for the error.
    :raises ConfigError: it is neither a number from 1 to 64 nor ``"auto"``.
    """
    is_number = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_IN_FLIGHT
    if value != "auto" and not is_number:
        raise ConfigError(f"{name}={value!r} is out of range: 1 to {MAX_IN_FLIGHT}, or 'auto', is allowed")


def most_in_flight(option: PullsInFlight) -> int:
    """Return the maximum number of requests in flight for such an option."""
    return _MAX_AUTO if option == "auto" else option


class NextPull(NamedTuple):
    """A pull to send now.

    :ivar number: maximum number of messages.
    :ivar segment: the offsets that it is for; None for all from ``offset`` on.
    """

    offset: int
    number: int
    segment: Segment | None


class PullsAhead:
    """The pulls of one queue: one at a time at the end of the queue, several while it has more messages.

    With ``"auto"`` their number grows by one with each full answer that the consumer had to wait for, so it doubles in
    a round trip, until the messages of one answer are handled as the next one arrives. It is halved at the end of the
    queue.

    :param in_flight: maximum number of pulls in flight, or ``"auto"``.
    :param batch_size: maximum number of messages of a pull.
    """

    def __init__(self, in_flight: PullsInFlight, batch_size: int) -> None:
        self._is_auto = in_flight == "auto"
        self._batch_size = batch_size
        self.limit: int = 1 if in_flight == "auto" else in_flight
        """The number of pulls that may be in flight now."""
        self._stride = 0
        self._end = 0
        self._offset = 0
        self._is_polling = False
        self._window: Window | None = None
        self._filtered = False

    @property
    def goes_ahead(self) -> bool:
        """True if more than one pull may be in flight, now or later."""
        return self._is_auto or self.limit > 1

    @property
    def coming(self) -> int:
        """The number of offsets that the pulls in flight are for, except that of a pull without an end."""
        return 0 if self._window is None else self._window.coming

    def begin(self, offset: int, *, filtered: bool) -> None:
        """Start at ``offset``, with no pull in flight.

        :param filtered: the pulls have a filter, so that an answer may cover more offsets than it has messages.
        """
        if filtered is not self._filtered:
            self._filtered, self._stride = filtered, 0
        self._offset = offset
        self._is_polling = False
        self._window = None
        self._open_window()

    def forget_end(self) -> None:
        """Ask for one pull only until the next answer: the end of the queue is not known any more."""
        self._end = 0

    def pulls(self, admit: Callable[[int], bool]) -> list[NextPull]:
        """Return the pulls to send now.

        :param admit: takes the number of offsets of the pulls in flight; returns False if no other pull may be sent.
        """
        window = self._window
        if window is not None:
            window.in_flight = self.limit
            return [self._next(pull) for pull in window.pulls(admit)]
        if self._is_polling or not admit(0):
            return []
        self._is_polling = True
        return [NextPull(self._offset, self._batch_size, None)]

    def _next(self, pull: Pull) -> NextPull:
        return NextPull(pull.offset, min(pull.number, self._batch_size), pull.segment)

    def answered(self, segment: Segment | None, next_offset: int, end: int, *, size: int, waited: bool) -> int:
        """Record the answer to the oldest pull; return the offset up to which its messages count.

        Messages beyond it are those of a later pull. The answer must reach beyond the offset of its pull.

        :param next_offset: the offset after those that the answer covers.
        :param end: the offset after the last message of the queue.
        :param size: bytes of the answer.
        :param waited: True if the answer was not there when the consumer was ready for it.
        """
        self._end = end
        window = self._window
        if segment is None or window is None:
            is_full = next_offset - self._offset >= self._batch_size
            self._stride = max(self._stride, next_offset - self._offset) if self._filtered else self._stride
            self._offset, self._is_polling = next_offset, False
            self._grow(is_full and waited and next_offset < end)
            self._open_window()
            return next_offset
        asked = segment.stop - segment.start
        is_full = next_offset >= segment.stop and asked >= window.stride
        window.extend(end)
        was_limited = window.is_at_limit
        window.answer(segment, b"", next_offset, weight=size)
        window.chunks()
        self._stride = window.stride
        reached = min(next_offset, segment.stop)
        self._grow(is_full and waited and was_limited and reached < end)
        if window.done:
            self._window, self._offset = None, reached
            self._open_window()
        return reached

    def _grow(self, needs_more: bool) -> None:
        if self._is_auto and needs_more:
            self.limit = min(self.limit + 1, _MAX_AUTO)

    def _open_window(self) -> None:
        """Pull ahead up to the known end of the queue, if there is something between; otherwise shrink."""
        if self.limit > 1 and self._offset < self._end:
            self._window = Window(
                self._offset, self._end, self.limit, filtered=self._filtered, most=self._batch_size,
                stride=self._stride or self._batch_size,
            )  # fmt: skip
        elif self._is_auto and self._offset >= self._end:
            self.limit = max(self.limit // 2, 1)
