"""One TCP connection: bytes in, bytes out, and when to end it.

Knows the transport: a slow reader is first kept from asking for more, and cut off when what it does not take piles up,
here or over all connections together (``buffers``). Refuses to know requests.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from rocketmq_py.errors import CorruptFrame
from rocketmq_py.server.buffers import Buffers
from rocketmq_py.server.peer import Peer
from rocketmq_py.server.requests.dispatcher import Dispatcher, Served
from rocketmq_py.server.requests.reply import Buffer
from rocketmq_py.wire.frame import Frame, FrameDecoder

log = logging.getLogger(__name__)

HIGH_WATER = 4 * 1024 * 1024
"""Bytes not yet taken by the other end at which this end stops reading from it."""

_LARGE = 1024 * 1024
"""Bytes of a frame that is not whole yet from which on they are counted."""


class Owner(Protocol):
    """What a connection needs of its server."""

    dispatcher: Dispatcher
    buffers: Buffers
    max_frame: int
    write_limit: int

    def connected(self, connection: ServerConnection) -> None: ...

    def disconnected(self, connection: ServerConnection) -> None: ...


class ServerConnection(asyncio.Protocol):
    """Feeds what arrives to the dispatcher and writes what comes back, once per read."""

    __slots__ = (
        "_feed", "_frames", "_owner", "_paused", "_rest", "_serve", "_transport", "_write", "_write_all", "peer",
        "quiet_sweeps",
    )  # fmt: skip

    peer: Peer
    _transport: asyncio.Transport

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._frames = FrameDecoder(owner.max_frame)
        self._feed = self._frames.feed
        self._serve: Callable[[Peer, list[Frame]], Served] = owner.dispatcher.serve
        self._rest: list[Frame] = []
        self._paused = False
        self.quiet_sweeps = 0
        """Sweeps over all connections since something last arrived on this one."""

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._write = self._transport.write
        # Over TLS each piece would be a record of its own, to be sealed and opened on its own.
        over_tls = transport.get_extra_info("ssl_object") is not None
        self._write_all = self._write_joined if over_tls else self._transport.writelines
        self._transport.set_write_buffer_limits(high=HIGH_WATER)
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        remote, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self.peer = Peer(remote[:2], local[:2], self._push, self.close)
        self._owner.connected(self)

    def data_received(self, data: bytes) -> None:
        self.quiet_sweeps = 0
        try:
            output, fault, rest = self._serve(self.peer, self._feed(data))
        except CorruptFrame as e:
            self._fail(e, data)
            return
        if len(output) == 1:
            self._write(output[0])
        elif output:
            self._write_all(output)
        elif self._frames.buffered > _LARGE:
            self._owner.buffers.grown(self)
        if self._paused:
            self._check_backlog()
        if rest:
            self._put_off(rest)
        if fault is not None:
            self._fail(fault, data)

    def pause_writing(self) -> None:
        self._paused = True
        if not self._transport.is_closing():
            self._transport.pause_reading()
            self._owner.buffers.grown(self)

    def resume_writing(self) -> None:
        self._paused = False
        self._owner.buffers.forget(self)
        if self._rest:
            asyncio.get_running_loop().call_soon(self._go_on)
        else:
            self._read_on()

    # -- frames that have to wait until the other end has taken the answers to those before them

    def _put_off(self, rest: Sequence[Frame]) -> None:
        self._rest = list(rest)
        self._serve = self._add_to_rest
        if self._transport.is_closing():
            return
        self._transport.pause_reading()
        if not self._paused:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _add_to_rest(self, _: Peer, frames: list[Frame]) -> Served:
        """Serves nothing as long as others wait: a loop may still deliver what it has read already."""
        self._rest += frames
        return Served([], None, ())

    def _go_on(self) -> None:
        if self._paused or self._transport.is_closing():
            return  # resume_writing comes back
        frames, self._rest = self._rest, []
        self._serve = self._owner.dispatcher.serve
        output, fault, rest = self._serve(self.peer, frames)
        if output:
            self._write_all(output)
        if rest:
            self._put_off(rest)
        else:
            self._read_on()
        if fault is not None:
            self._fail(fault)

    def _read_on(self) -> None:
        if not self._paused and not self._transport.is_closing():
            self._transport.resume_reading()

    # -- the end

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            log.debug("connection of %s broke: %s", self.peer.address, exc)
        self.peer.lost()
        self._owner.buffers.forget(self)
        self._owner.disconnected(self)

    # -- for the server and the peer

    @property
    def buffered(self) -> int:
        """Bytes kept for this connection: answers the other end has not taken, and a frame that is not whole."""
        return self._transport.get_write_buffer_size() + self._frames.buffered

    def cut_off(self, why: str) -> None:
        """End the connection at once: it takes memory that others need."""
        if not self._transport.is_closing():
            log.warning("closing the connection of %s: %s", self.peer.address, why)
            self.abort()

    def close(self, why: str | None = None) -> None:
        """End the connection once what was written has left; at once if the other end takes nothing."""
        if why is not None:
            log.debug("closing the connection of %s: %s", self.peer.address, why)
        if self._paused:
            self.abort()
        else:
            self._transport.close()

    def abort(self) -> None:
        """End the connection at once."""
        self._transport.abort()

    def _write_joined(self, pieces: Sequence[Buffer]) -> None:
        self._write(b"".join(pieces))

    def _push(self, frame: bytes) -> None:
        self._write(frame)
        if self._paused:
            self._check_backlog()

    def _check_backlog(self) -> None:
        waiting = self._transport.get_write_buffer_size()
        if waiting > self._owner.write_limit:
            self.cut_off(f"{waiting} bytes wait for it to read")
        else:
            self._owner.buffers.grown(self)

    def _fail(self, fault: CorruptFrame, data: bytes = b"") -> None:
        hint = "; these bytes look like TLS, which this port does not speak" if data[:1] == b"\x16" else ""
        log.warning("closing the connection of %s: %s%s", self.peer.address, fault, hint)
        self._transport.close()
