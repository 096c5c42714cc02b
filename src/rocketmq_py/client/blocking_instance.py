"""The blocking client instance: connections, routes and heartbeats that several blocking clients share."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self, Unpack

from rocketmq_py.client.client_instance import ClientInstance as AioInstance, ClientSettings
from rocketmq_py.remoting.portal import portal


class ClientInstance:
    """One client id with the connections, routes and heartbeats of its producers and consumers, for blocking programs.

    Pass it as ``instance`` to producers, consumers and administration clients; close it after them::

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
        """The client id, by which brokers identify this client."""
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
    """Return the asyncio client instance that a blocking one wraps; None if ``instance`` is None."""
    return None if instance is None else instance._aio  # noqa: SLF001 - its own module
