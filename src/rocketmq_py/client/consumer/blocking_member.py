"""The base class of all blocking consumers: each wraps an asyncio consumer that runs in the portal's event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rocketmq_py.client.consumer.group_member import GroupMember
from rocketmq_py.client.facade import BlockingFacade
from rocketmq_py.remoting.portal import portal

C = TypeVar("C", bound=GroupMember)


class BlockingMember(BlockingFacade[C]):
    """A blocking consumer: a member of a consumer group whose methods may be called from any thread."""

    def _make(self, constructor: Callable[[], C]) -> C:
        """Construct the asyncio consumer in the loop's thread."""
        return portal().call(constructor)

    @property
    def group(self) -> str:
        """The name of the consumer group, with the namespace prefix."""
        return self._aio.group

    @property
    def client_id(self) -> str:
        """The client id, by which brokers identify this member of the group."""
        return self._aio.client_id
