"""The base class of all asyncio consumers: client, group, start and close, health and lag."""

from __future__ import annotations

import asyncio
import contextlib
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from rocketmq_py.client.client_instance import ClientInstance, ClientSettings
from rocketmq_py.client.consumer import running_info, stacks
from rocketmq_py.client.consumer.consumer_group import ConsumerGroup, ConsumerState
from rocketmq_py.client.consumer.options import PushOptions
from rocketmq_py.client.consumer.running_info import Health
from rocketmq_py.client.lifetime import AsyncLifetime
from rocketmq_py.errors import ClosedError, NoRouteError
from rocketmq_py.model import MessageModel, MessageQueue
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.topic import GetRouteInfo
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC, check_group
from rocketmq_py.protocol.namespaces import with_namespace

BROADCASTING_INSTANCE = "DEFAULT"
"""The default instance name of a broadcasting consumer; it is fixed so that a restart finds the same offset file."""


def split(settings: Mapping[str, Any]) -> tuple[ClientSettings, dict[str, Any]]:
    """Split the keyword arguments of a consumer into those of its client instance and its own options."""
    client_settings = {name: value for name, value in settings.items() if name in ClientSettings.__annotations__}
    options = {name: value for name, value in settings.items() if name not in client_settings}
    return cast("ClientSettings", client_settings), options


class GroupMember(AsyncLifetime):
    """A member of a consumer group.

    :param instance: a shared client; None makes a new one from ``settings``.
    :raises ConfigError: an illegal group name, or no name server.
    """

    def __init__(
        self,
        group: str,
        options: PushOptions,
        instance: ClientInstance | None,
        namesrv: str | Sequence[str] | None,
        settings: ClientSettings,
    ) -> None:
        if options.message_model is MessageModel.BROADCASTING and not settings.get("instance_name"):
            settings["instance_name"] = BROADCASTING_INSTANCE
        self._owns_instance = instance is None
        self._instance = instance or ClientInstance(namesrv, **settings)
        name = with_namespace(options.namespace, check_group(group))
        self._group = ConsumerGroup(name, self._instance, options)
        self._closed = asyncio.Event()

    @property
    def group(self) -> str:
        """The name of the consumer group, with the namespace prefix."""
        return self._group.name

    @property
    def client_id(self) -> str:
        """The client id, by which brokers identify this member of the group."""
        return self._instance.client_id

    def health(self) -> Health:
        """A snapshot of the consumer's state, queues, rates, stuck listeners and problems."""
        return running_info.health(self._group)

    async def lag(self) -> dict[MessageQueue, int]:
        """Ask the brokers how many messages of each queue that this consumer owns are not consumed yet.

        :raises NetworkError: a broker cannot be reached.
        """
        return await running_info.lag(self._group)

    def consume_offsets(self, topic: str) -> dict[MessageQueue, int]:
        """The offset of the next message to consume in each queue of a topic, from memory: maybe not stored yet."""
        return {queue: offset for queue, offset in self._group.offsets if queue.topic == topic}

    def stacks(self) -> str:
        """The stacks of all threads of the process, as text."""
        return stacks.everything()

    # -- life

    @abstractmethod
    async def _join(self) -> None:
        """Join the group and set the state to RUNNING."""

    @property
    def _is_ending(self) -> bool:
        return self._group.state in (ConsumerState.CLOSING, ConsumerState.CLOSED)

    async def _begin(self, undo: Callable[[], Awaitable[None]]) -> None:
        """Join the group, unless the consumer has been started before; if that fails, await ``undo()``.

        :raises ClosedError: the consumer was closed before.
        """
        self._instance.connections.check_usable()
        if self._is_ending:
            raise self._closed_error()
        if self._group.state is not ConsumerState.NEW:
            return
        self._group.state = ConsumerState.STARTING
        try:
            await self._join()
        except GeneratorExit:  # its event loop has ended or forgotten it: nothing can be awaited any more
            raise
        except BaseException:
            await undo()
            raise

    async def _learn_routes(self, topics: Iterable[str]) -> None:
        """Fetch the routes of topics; topics that do not exist are skipped.

        :raises NetworkError: no name server answers, also if there are no topics.
        """
        wanted = list(topics)
        if not wanted:
            header = GetRouteInfo(topic=AUTO_CREATE_TOPIC, accept_standard_json_only=True)
            await self._instance.name_servers.invoke(RequestCode.GET_ROUTEINFO_BY_TOPIC, header, check=False)
        for topic in wanted:
            with contextlib.suppress(NoRouteError):
                await self._instance.routes.get(topic)

    def _check_running(self) -> None:
        if self._is_ending:
            raise self._closed_error()
        if self._group.state is not ConsumerState.RUNNING:
            raise ClosedError(f"the consumer of group {self.group} is not started; call start() or use it as a context")

    def _closed_error(self) -> ClosedError:
        return ClosedError(f"the consumer of group {self.group} is closed; make a new one")

    async def _end(self, take_apart: Callable[[], Awaitable[None]]) -> None:
        """Await ``take_apart()``, which leaves the group, and stop the client unless it is shared; later calls wait."""
        if self._is_ending:
            await self._closed.wait()
            return
        self._group.state = ConsumerState.CLOSING
        try:
            await take_apart()
        finally:
            if self._owns_instance:
                await self._instance.stop()
            self._group.state = ConsumerState.CLOSED
            self._group.queues.clear()
            self._closed.set()
