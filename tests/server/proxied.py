"""A load balancer that writes a header of the PROXY protocol in front of the bytes of each client."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

from rocketmq_py.remoting.portal import Portal


class LoadBalancer:
    """Forwards connections to ``target``, ``host:port``, in a thread of its own.

    :param header: what it writes first.
    :param listen: the address to listen on; port 0 picks a free one.
    """

    def __init__(self, target: str, header: bytes, listen: str = "127.0.0.1:0") -> None:
        host, _, port = target.rpartition(":")
        self._target, self.header = (host, int(port)), header
        self.address = listen
        self.connections = 0
        self._portal = Portal()
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self.address = self._portal.run(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal.run(self._close())
        self._portal.stop()

    async def _listen(self) -> str:
        host, _, port = self.address.rpartition(":")
        self._listener = await asyncio.start_server(self._forward, host, int(port))
        return f"{host}:{self._listener.sockets[0].getsockname()[1]}"

    async def _close(self) -> None:
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        there, back = await asyncio.open_connection(*self._target)
        back.write(self.header)
        try:
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
        finally:
            for end in (back, writer):
                end.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()
