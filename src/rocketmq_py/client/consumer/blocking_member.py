"""What all blocking consumers have in common: each wraps an asyncio consumer that runs in the portal's event loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Generic, Self, TypeVar

from rocketmq_py.client.consumer.group_member import GroupMember
from rocketmq_py.remoting.portal import portal

C = TypeVar("C", bound=GroupMember)


class BlockingMember(ABC, Generic[C]):
    """A member of a consumer group, for threads."""

    _aio: C

    def __init__(self) -> None:
        self._portal = portal()

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._aio.group

    @property
    def client_id(self) -> str:
        """The id that brokers and the other members know this consumer by."""
        return self._aio.client_id

    def __repr__(self) -> str:
        return repr(self._aio)

    # -- life

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
