"""One TCP connection of a server: passes frames to the dispatcher and writes the answers.

If a client does not read its answers, the server stops reading its requests. It closes the connection if the unread
answers exceed a limit, of this connection or of all connections together (``buffers``).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from rocketmq_py.errors import CorruptFrame
from rocketmq_py.server.buffers import Buffers
from rocketmq_py.server.fault_log import FaultLog
from rocketmq_py.server.peer import Peer
from rocketmq_py.server.reply import Buffer
from rocketmq_py.server.requests.dispatcher import Dispatcher, Item, Served
from rocketmq_py.server.sliced_work import ReadTurns
from rocketmq_py.server.tls_acceptor import Opening
from rocketmq_py.wire.proxy_header import SIGNATURES

log = logging.getLogger(__name__)

HIGH_WATER = 4 * 1024 * 1024
"""Unsent bytes at which reading from the connection stops."""

_HTTP2 = b"P"
"""The first byte of HTTP/2. A frame of remoting that begins with it would have 1.3 GB."""

_LARGE = 1024 * 1024
"""An incomplete frame of more bytes than this counts towards the limit of all connections."""


class Owner(Protocol):
    """The parts of a server that a connection uses."""

    dispatcher: Dispatcher
    buffers: Buffers
    fault_log: FaultLog
    turns: ReadTurns
    max_frame: int
    write_limit: int

    def connected(self, connection: ServerConnection) -> None: ...

    def disconnected(self, connection: ServerConnection) -> None: ...

    def begins_http2(self, connection: ServerConnection, transport: asyncio.Transport, data: bytes) -> bool:
        """Take over a connection if its first bytes are HTTP/2; return False if this server does not speak it."""
        ...


class ServerConnection(asyncio.Protocol):
    """Passes received frames to the dispatcher and writes its replies, once per read.

    :param opening: what the acceptor of the connection has learnt of it.
    """

    __slots__ = (
        "_feed", "_frames", "_opening", "_owner", "_paused", "_rest", "_serve", "_transport", "_write", "_write_all",
        "peer", "quiet_sweeps",
    )  # fmt: skip

    peer: Peer
    _transport: asyncio.Transport

    def __init__(self, owner: Owner, opening: Opening = Opening()) -> None:  # noqa: B008 - immutable
        self._owner = owner
        self._opening = opening
        self._frames = owner.dispatcher.frame_decoder(owner.max_frame)
        self._feed: Callable[[bytes], Sequence[Item]] = self._feed_first
        self._serve: Callable[[Peer, Sequence[Item]], Served] = owner.dispatcher.serve
        self._rest: list[Item] = []
        self._paused = False
        self.quiet_sweeps = 0
        """Number of the server's sweeps for idle connections since data last arrived on this connection."""

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._write = self._transport.write
        # Over TLS, writelines would make a separate TLS record of each buffer, encrypted and decrypted separately.
        over_tls = transport.get_extra_info("ssl_object") is not None
        self._write_all = self._write_joined if over_tls else self._transport.writelines
        self._transport.set_write_buffer_limits(high=HIGH_WATER)
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        remote = self._opening.source or transport.get_extra_info("peername")
        local = transport.get_extra_info("sockname")
        self.peer = Peer(remote[:2], local[:2], self._push, self.close)
        self._owner.connected(self)

    def data_received(self, data: bytes) -> None:
        self.quiet_sweeps = 0
        turns = self._owner.turns
        try:
            items = self._feed(data)
            if turns.is_crowded and items and not self._rest and not turns.admits():
                self._postpone(items)
                return
            output, fault, rest = self._serve(self.peer, items)
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
            self._postpone(rest)
        if fault is not None:
            self._fail(fault, data)

    def _feed_first(self, data: bytes) -> Sequence[Item]:
        """Decode the first bytes of the connection, unless they are HTTP/2: then another protocol takes it over."""
        data = self._opening.first + data
        if data.startswith(SIGNATURES):
            raise CorruptFrame(
                "it begins with a PROXY header, which is accepted once, from addresses in proxyProtocolSources"
            )
        if data[:1] == _HTTP2 and self._owner.begins_http2(self, self._transport, data):
            return ()
        self._feed = self._frames.feed
        return self._frames.feed(data)

    def pause_writing(self) -> None:
        self._paused = True
        if not self._transport.is_closing():
            self._transport.pause_reading()
            self._owner.buffers.grown(self)

    def resume_writing(self) -> None:
        self._paused = False
        self._owner.buffers.discard(self)
        if self._rest:
            asyncio.get_running_loop().call_soon(self._resume_rest)
        else:
            self._resume_reading()

    # -- frames that wait until the answers to earlier ones are written, or for the next turn

    def _postpone(self, rest: Sequence[Item]) -> None:
        self._rest = list(rest)
        self._serve = self._add_to_rest
        if self._transport.is_closing():
            return
        self._transport.pause_reading()
        if not self._paused:
            self._owner.turns.wait(self._resume_rest)

    def _add_to_rest(self, _: Peer, frames: Sequence[Item]) -> Served:
        """Queue frames behind the postponed ones; replaces the dispatcher's ``serve`` while frames are postponed.

        The event loop may still deliver data that it read before reading was paused.
        """
        self._rest += frames
        return Served([], None, ())

    def _resume_rest(self) -> None:
        if self._paused or self._transport.is_closing():
            return  # while writing is paused, nothing to do: resume_writing schedules this call again
        frames, self._rest = self._rest, []
        self._serve = self._owner.dispatcher.serve
        output, fault, rest = self._serve(self.peer, frames)
        if output:
            self._write_all(output)
        if rest:
            self._postpone(rest)
        else:
            self._resume_reading()
        if fault is not None:
            self._fail(fault)

    def _resume_reading(self) -> None:
        if not self._paused and not self._transport.is_closing():
            self._transport.resume_reading()

    # -- closing

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            log.debug("connection of %s broke: %s", self.peer.address, exc)
        self.peer.lost()
        self._owner.buffers.discard(self)
        self._owner.disconnected(self)
        self.release()

    def release(self) -> None:
        """Drop references of the object to itself, its bound methods, which only the collector would free."""
        self._serve, self._write_all = self._owner.dispatcher.serve, self._transport.writelines
        self._feed = self._frames.feed

    # -- for the server and the peer

    @property
    def buffered(self) -> int:
        """Bytes that are buffered for this connection: answers not sent yet, and an incomplete frame."""
        return self._transport.get_write_buffer_size() + self._frames.buffered

    def cut_off(self, why: str) -> None:
        """Close the connection at once because it buffers too many bytes; log ``why``."""
        if not self._transport.is_closing():
            log.warning("closing the connection of %s: %s", self.peer.address, why)
            self.abort()

    def close(self, why: str | None = None) -> None:
        """Close the connection when all answers are sent; at once if the client does not read them."""
        if why is not None:
            log.debug("closing the connection of %s: %s", self.peer.address, why)
        if self._paused:
            self.abort()
        else:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once; answers not sent yet are lost."""
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
        hint = "; these bytes look like TLS, which this port does not accept" if data[:1] == b"\x16" else ""
        self._owner.fault_log.closing(self.peer, f"{fault}{hint}")
        self._transport.close()
