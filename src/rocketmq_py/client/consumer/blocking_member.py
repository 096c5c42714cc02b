"""What all blocking consumers have in common: each wraps an asyncio consumer that runs in the portal's event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rocketmq_py.client.consumer.group_member import GroupMember
from rocketmq_py.client.facade import BlockingFacade
from rocketmq_py.remoting.portal import portal

C = TypeVar("C", bound=GroupMember)


class BlockingMember(BlockingFacade[C]):
    """A member of a consumer group, for threads."""

    def _make(self, constructor: Callable[[], C]) -> C:
        """Construct the asyncio consumer in the loop's thread."""
        return portal().call(constructor)

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._aio.group

    @property
    def client_id(self) -> str:
        """The id that brokers and the other members know this consumer by."""
        return self._aio.client_id
