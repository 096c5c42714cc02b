"""Where the records of a read come from: a broker is one origin, a store on disk another.

Planning and reading use these interfaces only; ``remoting`` and ``offline`` implement them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Protocol

from rocketmq_py.arrow.options.offsets import Bounds, Offsets
from rocketmq_py.arrow.options.selection import Selection
from rocketmq_py.arrow.ranges import QueueRange
from rocketmq_py.arrow.remoting.queues import LocatedRange, QueueRoutes
from rocketmq_py.core.consumer.pull_window import FetchedChunk
from rocketmq_py.model import MessageQueue


class Origin(Protocol):
    """Looks up queues and their offsets when a read is planned; close it when done."""

    def selected(self, selection: Selection) -> QueueRoutes:
        """Look up the queues that a read selects.

        :raises NoRouteError: a selected topic or queue does not exist.
        """

    def bounds(self, queues: QueueRoutes) -> Mapping[MessageQueue, Bounds]:
        """Look up the earliest and the latest offset of each queue."""

    def earliest(self, queues: QueueRoutes) -> Offsets:
        """Look up the earliest offset of each queue."""

    def committed(self, group: str, queues: QueueRoutes) -> Offsets:
        """Look up the offsets that a group has committed; queues without one are left out."""

    def since(self, queues: QueueRoutes, times: Mapping[MessageQueue, int]) -> Offsets:
        """Look up the first message of each queue that was stored at or after a time, in ms since 1970.

        A queue without such a message gets its latest offset.
        """

    def message_bytes(self, ranges: Sequence[QueueRange], queues: QueueRoutes, group: str) -> dict[str, float]:
        """Return the average bytes of a message by topic, from a few messages in the middle of ranges.

        Topics of which that is not known are left out.

        :param ranges: one range for each topic.
        """

    def located(self, ranges: Sequence[QueueRange], queues: QueueRoutes) -> list[LocatedRange]:
        """Return where the messages of ranges are; a range may be cut into several."""

    def log_parts(self, ranges: Sequence[QueueRange], number: int) -> list[list[QueueRange]]:
        """Cut ranges of one topic and broker into about ``number`` groups whose messages are next to each other.

        Returns nothing if messages of other queues between those of a queue cost no time, as with brokers.
        """

    def close(self) -> None: ...


class RangeFetch(Protocol):
    """The records of one range while they are fetched; close it when done."""

    @property
    def between(self) -> int:
        """Number of offsets of a logical queue that belong to none of its physical queues."""

    @property
    def skipped(self) -> int:
        """Number of offsets skipped because their messages were deleted, with ``failOnDataLoss=false``."""

    def chunks(self) -> Iterator[list[FetchedChunk]]:
        """Yield the records of the range in the order of offsets.

        :raises DataLossError: messages were deleted, and ``failOnDataLoss`` is true.
        :raises RocketMQError: the queue cannot be read.
        """

    def is_compacted(self) -> bool:
        """Return True if the topic is compacted, so that offsets without messages are no loss."""

    def close(self) -> None: ...


class Fetching(Protocol):
    """Fetches the ranges of one task; close it when done."""

    @property
    def takes_all(self) -> bool:
        """True if the read has no filter."""

    def each(self, ranges: Sequence[LocatedRange], limit: int) -> Generator[tuple[LocatedRange, RangeFetch]]:
        """Yield each range and its fetch, with the filter of the read, and close that after use.

        Ranges may be cut into pieces of which those of several queues take turns; those of a queue stay in order.

        :param limit: number of ranges, or groups of small ones, that are fetched at the same time.
        :raises RocketMQError: a fetch cannot begin.
        """

    def again(self, located: LocatedRange, *, filtered: bool = True, retried: bool = True) -> RangeFetch:
        """Return the fetch of a range of which something could not be decoded.

        :param filtered: whether the filter of the read applies.
        :param retried: whether to try several times.
        """

    def earliest(self, ranges: Sequence[QueueRange]) -> Offsets:
        """Look up the earliest offsets of the queues of ranges; those of queues that nobody serves are left out."""

    def close(self) -> None: ...
