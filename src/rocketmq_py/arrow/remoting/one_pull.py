"""The fetch of one range of a task: by a single pull if that is all it needs, otherwise by a :class:`Fetcher`.

Of a topic with thousands of queues most ranges are answered by one pull. A fetcher for each, with its window of pulls
and its retries, would take as long as the decoding of the messages.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketmq_py.arrow.remoting.connection import IdleConnections
from rocketmq_py.arrow.remoting.fetch import Fetcher, FetchSettings, pull_fields
from rocketmq_py.arrow.remoting.queues import LocatedRange
from rocketmq_py.core.consumer.pull_window import MAX_PULL, FetchedChunk
from rocketmq_py.core.peer import Reply
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.pull import PullResponse
from rocketmq_py.remoting.blocking import BlockingConnection


class OnePull:
    """Fetches the messages of one range; each object is used for a single read. Close it when done.

    Without a first pull that others send with theirs, it is a :class:`Fetcher`.

    :param settings: see :class:`Fetcher`.
    :param idle: pool of connections that other ranges of the task have used; None for no pool.
    """

    __slots__ = ("_answer", "_fetcher", "_idle", "_located", "_settings", "is_asked", "size")

    def __init__(self, located: LocatedRange, settings: FetchSettings, idle: IdleConnections | None = None) -> None:
        self.size = located.range.size
        self.is_asked = False
        """True after :meth:`first_pull`, until :meth:`answered` or :meth:`unanswered`."""
        self._located = located
        self._settings = settings
        self._idle = idle
        self._answer: Reply | None = None
        self._fetcher: Fetcher | None = None

    @property
    def shared_address(self) -> str | None:
        """Address to which :meth:`first_pull` may be sent; None if this range needs several pulls, or no master."""
        return self._located.addresses.master if self.size <= MAX_PULL else None

    def first_pull(self) -> tuple[int, dict[str, str], bytes]:
        """Return the first pull, for a caller that sends it with those of other ranges.

        :meth:`answered` or :meth:`unanswered` must follow.
        """
        self.is_asked = True
        wanted = self._located.range
        return RequestCode.PULL_MESSAGE, pull_fields(wanted.queue, self._settings, wanted.start, self.size), b""

    def answered(self, answer: Reply) -> None:
        """Take the response to the first pull; :meth:`chunks` handles it."""
        self.is_asked = False
        self._answer = answer

    def unanswered(self) -> None:
        """Note that the first pull has no response, so that :meth:`chunks` sends it again."""
        self.is_asked = False

    def begin(self) -> None:
        """Send the first pulls now; see :meth:`Fetcher.begin`."""
        self._pulls().begin()

    def connect(self) -> BlockingConnection:
        """Return a connection to the broker; see :meth:`Fetcher.connect`."""
        return self._pulls().connect()

    def chunks(self) -> Iterator[list[FetchedChunk]]:
        """Yield the bodies of pull responses; see :meth:`Fetcher.chunks`."""
        answer, self._answer = self._answer, None
        whole = None if answer is None else self._whole(answer)
        if whole is not None:
            yield [whole]
            return
        pulls = self._pulls()
        if answer is not None:
            pulls.take(answer)
        yield from pulls.chunks()

    def _whole(self, answer: Reply) -> FetchedChunk | None:
        """Return the messages of the range if a response has all of them, as they are stored; otherwise None."""
        if answer.code != ResponseCode.SUCCESS or not answer.body:
            return None
        found, wanted = answer.header(PullResponse), self._located.range
        if found.next_begin_offset < wanted.stop or found.damaged is not None or found.offset_delta is not None:
            return None
        return FetchedChunk(answer.body, wanted.start, wanted.stop)

    @property
    def between(self) -> int:
        """Number of offsets of a logical queue that belong to none of its physical queues."""
        return 0 if self._fetcher is None else self._fetcher.between

    @property
    def skipped(self) -> int:
        """Number of offsets skipped because their messages were deleted, with ``failOnDataLoss=false``."""
        return 0 if self._fetcher is None else self._fetcher.skipped

    def is_compacted(self) -> bool:
        """Return True if the topic is compacted; see :meth:`Fetcher.is_compacted`."""
        return self._pulls().is_compacted()

    def close(self) -> None:
        """Close the connection, or return it to the pool if the whole range was read."""
        if self._fetcher is not None:
            self._fetcher.close()

    def _pulls(self) -> Fetcher:
        if self._fetcher is None:
            self._fetcher = Fetcher(self._located.range, self._located.addresses, self._settings, self._idle)
        return self._fetcher
