"""What several blocking producers and consumers share: one client id with its connections, routes and heartbeats."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self, Unpack

from rocketmq_py.client.client_instance import ClientInstance as AioInstance, ClientSettings
from rocketmq_py.remoting.portal import portal


class ClientInstance:
    """One client id and what its members share, for programs without an event loop.

    Pass it as ``instance`` to producers, consumers and administration clients; close them first, and it last::

        with ClientInstance("localhost:9876", heartbeat_interval=10) as shared:
            with Producer("p", instance=shared) as producer, Admin(instance=shared) as admin:
                ...

    :param namesrv: name servers; as for :class:`rocketmq_py.aio.ClientInstance`.
    :param settings: options of :class:`rocketmq_py.aio.ClientInstance`, with its defaults.
    :raises ConfigError: an illegal argument.
    """

    def __init__(self, namesrv: str | Sequence[str] | None = None, **settings: Unpack[ClientSettings]) -> None:
        self._portal = portal()
        self._aio = self._portal.call(lambda: AioInstance(namesrv, **settings))

    @property
    def client_id(self) -> str:
        """The id that brokers know the client by."""
        return self._aio.client_id

    def close(self) -> None:
        """Close the connections. May be called more than once."""
        self._portal.run(self._aio.stop())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._aio)


def aio_instance(instance: ClientInstance | None) -> AioInstance | None:
    """The asyncio object behind an instance; None for none."""
    return None if instance is None else instance._aio  # noqa: SLF001 - its own module
