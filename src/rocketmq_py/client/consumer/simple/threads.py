"""What the blocking simple consumer does in the calling thread."""

from __future__ import annotations

from collections.abc import Iterator

from rocketmq_py.client.consumer.blocking_member import BlockingMember
from rocketmq_py.client.consumer.simple.consumer import SimpleConsumer
from rocketmq_py.model import MessageExt


class SimpleMember(BlockingMember[SimpleConsumer]):
    """A simple consumer for threads."""

    def __iter__(self) -> Iterator[MessageExt]:
        while (message := self._run(self._aio.next())) is not None:
            yield message
