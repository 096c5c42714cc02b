"""One TCP connection: bytes in, bytes out, and when to end it.

Knows the transport: a slow reader is first kept from asking for more, and cut off when what it does not take piles up.
Refuses to know requests.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Protocol, cast

from rocketmq_py.errors import CorruptFrame
from rocketmq_py.server.dispatch import Dispatcher
from rocketmq_py.server.peer import Peer
from rocketmq_py.wire.frame import FrameDecoder

log = logging.getLogger(__name__)

HIGH_WATER = 4 * 1024 * 1024
"""Bytes not yet taken by the other end at which this end stops reading from it."""


class Owner(Protocol):
    """What a connection needs of its server."""

    dispatcher: Dispatcher
    max_frame: int
    write_limit: int

    def connected(self, connection: Connection) -> None: ...

    def disconnected(self, connection: Connection) -> None: ...


class Connection(asyncio.Protocol):
    """Feeds what arrives to the dispatcher and writes what comes back, once per read."""

    __slots__ = ("_feed", "_owner", "_paused", "_serve", "_transport", "_write", "peer", "quiet_sweeps")

    peer: Peer
    _transport: asyncio.Transport

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._feed = FrameDecoder(owner.max_frame).feed
        self._serve = owner.dispatcher.serve
        self._paused = False
        self.quiet_sweeps = 0
        """Sweeps over all connections since something last arrived on this one."""

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._write = self._transport.write
        self._transport.set_write_buffer_limits(high=HIGH_WATER)
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        remote, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self.peer = Peer(remote[:2], local[:2], self._push, self.close)
        self._owner.connected(self)

    def data_received(self, data: bytes) -> None:
        self.quiet_sweeps = 0
        try:
            output, fault = self._serve(self.peer, self._feed(data))
        except CorruptFrame as e:
            self._fail(e, data)
            return
        if len(output) == 1:
            self._write(output[0])
        elif output:
            self._transport.writelines(output)
        if self._paused:
            self._check_backlog()
        if fault is not None:
            self._fail(fault, data)

    def pause_writing(self) -> None:
        self._paused = True
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._paused = False
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            log.debug("connection of %s broke: %s", self.peer.address, exc)
        self.peer.lost()
        self._owner.disconnected(self)

    # -- for the server and the peer

    def close(self, why: str | None = None) -> None:
        """End the connection once what was written has left; at once if the other end takes nothing."""
        if why is not None:
            log.info("closing the connection of %s: %s", self.peer.address, why)
        if self._paused:
            self.abort()
        else:
            self._transport.close()

    def abort(self) -> None:
        """End the connection at once."""
        self._transport.abort()

    def _push(self, frame: bytes) -> None:
        self._write(frame)
        if self._paused:
            self._check_backlog()

    def _check_backlog(self) -> None:
        waiting = self._transport.get_write_buffer_size()
        if waiting > self._owner.write_limit and not self._transport.is_closing():
            log.warning("closing the connection of %s: %d bytes wait for it to read", self.peer.address, waiting)
            self.abort()

    def _fail(self, fault: CorruptFrame, data: bytes) -> None:
        hint = "; these bytes look like TLS, which this port does not speak" if data[:1] == b"\x16" else ""
        log.warning("closing the connection of %s: %s%s", self.peer.address, fault, hint)
        self._transport.close()
