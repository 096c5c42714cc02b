"""The base class of the blocking simple consumer: iteration in the calling thread."""

from __future__ import annotations

from collections.abc import Iterator

from rocketmq_py.client.consumer.blocking_member import BlockingMember
from rocketmq_py.client.consumer.simple.consumer import SimpleConsumer
from rocketmq_py.model import MessageExt


class SimpleMember(BlockingMember[SimpleConsumer]):
    """Base of the blocking simple consumer."""

    def __iter__(self) -> Iterator[MessageExt]:
        while (message := self._run(self._aio.next())) is not None:
            yield message
