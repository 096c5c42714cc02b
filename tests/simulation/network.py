"""A network of streams: delays, pieces, connections cut in the middle of a frame, partitions, machines gone."""

from __future__ import annotations

import asyncio
import contextvars
import errno
import random
import zlib
from collections import deque
from collections.abc import Callable
from typing import Any

from tests.simulation.loop import Handle, Process, SimLoop

Address = tuple[str, int]

_FIRST_PORT = 40_000
_HIGH_WATER = 64 * 1024
_SPLIT_SHARE = 0.1
"""Of what arrives, the share that arrives in two pieces."""
_RESET = "reset"
_END = "end"


class Trace:
    """What went over the network and what was noted, as one number."""

    def __init__(self, loop: SimLoop, *, keep: bool = False) -> None:
        self._loop = loop
        self.hash = 0
        self.lines: list[str] | None = [] if keep else None

    def note(self, *what: object) -> None:
        """Add an event."""
        text = f"{self._loop.time():.6f} {' '.join(map(str, what))}"
        self.hash = zlib.crc32(text.encode(), self.hash)
        if self.lines is not None:
            self.lines.append(text)

    def transfer(self, end: End, data: bytes) -> None:
        """Add data that arrives at the other end of ``end``."""
        self.hash = zlib.crc32(data, self.hash ^ int(self._loop.time() * 1e6))
        if self.lines is not None:
            self.lines.append(f"{self._loop.time():.6f} {end.process} > {end.peer.process} {len(data)} {data[:60]!r}")


class SocketOptions:
    """What a transport says its socket is."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def setsockopt(self, *_: object) -> None: ...

    def getsockname(self) -> Address:
        return self._address


class Listener:
    """A port that is listened on; as ``asyncio.Server``."""

    def __init__(self, network: Network, process: Process, address: Address, factory: Callable[[], Any]) -> None:
        self._network = network
        self.process = process
        self.address = address
        self.factory = factory
        self.context = contextvars.copy_context()
        self.sockets = [SocketOptions(address)]

    def close(self) -> None:
        self._network.listeners.pop(self.address, None)

    async def wait_closed(self) -> None: ...


class End(asyncio.Transport):
    """One end of a connection, the transport of its protocol."""

    def __init__(self, network: Network, process: Process, local: Address, remote: Address) -> None:
        super().__init__()
        self._network = network
        self._loop = network.loop
        self.process = process
        self.local = local
        self.remote = remote
        self.context = process.context.copy()
        self.peer: End = self
        self._protocol: asyncio.Protocol | None = None
        self._pipe: deque[tuple[float, bytes | str]] = deque()
        """What is on its way to the peer, and when it is there."""
        self._timer: Handle | None = None
        self._unread = 0
        self._is_reading = False
        self._is_closing = self._is_closed = False
        self._is_paused = False
        self._high, self._low = _HIGH_WATER, _HIGH_WATER // 4
        self.damages: Callable[[bytes], bytes] | None = None
        """Changes the next bytes that are written, which begin a frame."""
        self.is_silent = False
        """The machine of the other end is gone, and nothing tells this one."""

    def attach(self, protocol: asyncio.Protocol) -> None:
        """Give it its protocol; data is read from now on."""
        self._protocol = protocol
        if self._is_closed:
            raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        self.context = contextvars.copy_context()
        protocol.connection_made(self)
        self._is_reading = True
        self.peer._pump()

    # -- asyncio.Transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"socket": SocketOptions(self.local), "peername": self.remote, "sockname": self.local}.get(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH_WATER if high is None else min(high, _HIGH_WATER)
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return self._unread

    def write(self, data: Any) -> None:
        if self._is_closing or self._is_closed or self.process.is_dead:
            return
        piece = bytes(data)
        if not piece:
            return
        self._unread += len(piece)
        if self.damages is not None:
            piece, self.damages = self.damages(piece), None
            self._network.damaged.append(self.peer)
        self._send(piece)
        if self._unread > self._high and not self._is_paused:
            self._is_paused = True
            assert self._protocol is not None
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return False

    def is_closing(self) -> bool:
        return self._is_closing or self._is_closed

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self.peer._pump()

    def is_reading(self) -> bool:
        return self._is_reading

    def close(self) -> None:
        if not self.is_closing() and not self.process.is_dead:
            self._is_closing = True
            self._send(_END)
            self._lose(None)

    def abort(self) -> None:
        if not self._is_closed and not self.process.is_dead:
            self._is_closing = True
            self._send(_RESET)
            self._lose(None)

    # -- the network's side

    def _send(self, what: bytes | str) -> None:
        """Put something on its way to the peer, unless nothing gets there."""
        if self.is_silent:
            return
        at = self._loop.time() + self._network.delay()
        if self._pipe:
            last_at, last = self._pipe[-1]
            at = max(at, last_at)
            if isinstance(last, bytes) and isinstance(what, bytes) and self._network.merges():
                self._pipe[-1] = last_at, last + what
                return
        self._pipe.append((at, what))
        if self._timer is None:
            self._pump()

    def _pump(self) -> None:
        """Wait for the next piece to arrive, if the peer reads."""
        if self._timer is None and self._pipe and (self.peer._is_reading or self._pipe[0][1] is _RESET):
            # In the context of the peer: a process that is stopped reads when it goes on, a dead one never.
            self._timer = self._loop.call_at(self._pipe[0][0], self._arrive, context=self.peer.context)

    def _arrive(self) -> None:
        self._timer = None
        if not self._pipe or self.peer._is_closed:
            self._pipe.clear()
            return
        network = self._network
        if network._cuts and network.is_cut(self.process, self.peer.process):
            network.stalled.append(self)
            return
        if not self.peer._is_reading and self._pipe[0][1] is not _RESET:
            return
        _, what = self._pipe.popleft()
        if isinstance(what, bytes):
            if len(what) > 1 and network.random() <= _SPLIT_SHARE:
                what, later = network.split(what)
                self._pipe.appendleft((self._loop.time() + network.gap(), later))
            if self._pipe:
                self._pump()
            self._hand_over(what)
        elif what is _END:
            self.peer._ended()
        else:
            self.peer._lose(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def _hand_over(self, data: bytes) -> None:
        self._unread -= len(data)
        if self._is_paused and self._unread <= self._low and not self.process.is_dead:
            self._resume()
        self._network.trace.transfer(self, data)
        assert self.peer._protocol is not None
        self.peer._protocol.data_received(data)

    def _resume(self) -> None:
        self._is_paused = False
        protocol = self._protocol
        if protocol is not None:
            self._loop.call_soon(lambda: self._is_closed or protocol.resume_writing(), context=self.context)

    def _ended(self) -> None:
        assert self._protocol is not None
        if not self._protocol.eof_received():
            self.close()

    def _lose(self, why: Exception | None) -> None:
        """The connection is over at this end."""
        if self._is_closed:
            return
        self._is_closed = True
        self._network.ends.pop(self, None)
        if self._protocol is not None:
            self._loop.call_soon(self._protocol.connection_lost, why, context=self.context)

    def cut(self, keep: float) -> None:
        """Reset this direction after a part of what is on its way."""
        rest = b"".join(what for _, what in self._pipe if isinstance(what, bytes))
        rest = rest[: int(len(rest) * keep)]
        self._pipe.clear()
        now = self._loop.time()
        if rest:
            self._pipe.append((now, rest))
        self._pipe.append((now, _RESET))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._pump()

    def vanish(self) -> None:
        """Its process is gone: it says nothing any more."""
        self._is_closed = True
        self._network.ends.pop(self, None)

    def __repr__(self) -> str:
        return f"{self.process}:{self.local[1]}-{self.peer.process}:{self.remote[1]}"


class Network:
    """The network, and how slow everything is.

    :param chance: decides delays and how data is cut into pieces.
    """

    def __init__(self, loop: SimLoop, chance: random.Random, *, keep_trace: bool = False) -> None:
        self.loop = loop
        loop.network = self
        self.chance = chance
        self.random = chance.random
        self.trace = Trace(loop, keep=keep_trace)
        self.listeners: dict[Address, Listener] = {}
        self.ends: dict[End, None] = {}
        self.latency = (0.0001, 0.002)
        self.slow_until = 0.0
        self.stalled: list[End] = []
        self.damaged: list[End] = []
        """Who was sent a corrupt frame."""
        self._cuts: set[frozenset[str]] = set()
        self._healed = asyncio.Event()
        self._gone: set[str] = set()
        self._port = _FIRST_PORT

    # -- chance

    def delay(self) -> float:
        """How long something is on its way."""
        low, high = self.latency
        if self.loop.time() < self.slow_until:
            low, high = 0.05, 0.4
        return low + (high - low) * self.random()

    def thread_delay(self) -> float:
        return 0.0001 + 0.001 * self.random()

    def gap(self) -> float:
        return 0.001 * self.random()

    def merges(self) -> bool:
        return self.random() < 0.7

    def split(self, data: bytes) -> tuple[bytes, bytes]:
        """What of some data arrives now, and what a little later."""
        at = self.chance.randrange(1, len(data))
        return data[:at], data[at:]

    # -- connections

    async def connect(self, process: Process, address: Address) -> End:
        """The client's end of a new connection.

        :raises ConnectionRefusedError: nothing listens there.
        """
        await asyncio.sleep(self.delay())
        while self._is_away(process, address[0]):
            await self._healed.wait()
            await asyncio.sleep(self.delay())
        listener = self.listeners.get(address)
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed {address}")
        self._port += 1
        here = (process.ip, self._port)
        client, server = End(self, process, here, address), End(self, listener.process, address, here)
        client.peer, server.peer = server, client
        self.ends[client] = self.ends[server] = None
        self.trace.note(process, "connects", listener.process)
        self.loop.call_soon(_accept, server, listener, context=listener.context.copy())
        return client

    def listen(self, process: Process, port: int, factory: Callable[[], Any]) -> Listener:
        address = (process.ip, port)
        if address in self.listeners:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        listener = self.listeners[address] = Listener(self, process, address, factory)
        return listener

    # -- what goes wrong

    def is_cut(self, one: Process, other: Process) -> bool:
        """True if nothing passes between two machines."""
        return frozenset((one.ip, other.ip)) in self._cuts

    @property
    def is_whole(self) -> bool:
        """True if everything passes, and soon."""
        return not self._cuts and self.loop.time() >= self.slow_until

    def _is_away(self, process: Process, ip: str) -> bool:
        return ip in self._gone or frozenset((process.ip, ip)) in self._cuts

    def part(self, one: Process, other: Process) -> None:
        """Let nothing pass between two machines."""
        self._cuts.add(frozenset((one.ip, other.ip)))

    def heal(self) -> None:
        """Let everything pass again."""
        self._cuts.clear()
        stalled, self.stalled = self.stalled, []
        for end in stalled:
            end._pump()
        self._tell_waiting()

    def _tell_waiting(self) -> None:
        healed, self._healed = self._healed, asyncio.Event()
        healed.set()

    def reset(self, process: Process, share: float) -> int:
        """Reset some connections of a process, each direction in the middle of what is on its way; returns how many."""
        chosen = [end for end in self.ends if end.process is process and self.chance.random() < share]
        for end in chosen:
            end.cut(self.chance.random())
            end.peer.cut(self.chance.random())
        return len(chosen)

    def damage(self, process: Process, share: float, what: Callable[[bytes], bytes]) -> int:
        """Let ``what`` change the next frame of some connections of a process, of one direction each."""
        chosen = [end for end in self.ends if end.process is process and self.chance.random() < share]
        for end in chosen:
            self.chance.choice([end, end.peer]).damages = what
        return len(chosen)

    def process_died(self, process: Process, *, machine_too: bool) -> None:
        """A process was killed: the others' ends hear of it, or nothing if its machine went off with it."""
        for address, listener in list(self.listeners.items()):
            if listener.process is process:
                del self.listeners[address]
        if machine_too:
            self._gone.add(process.ip)
        for end in [end for end in self.ends if end.process is process]:
            end.vanish()
            end.peer.is_silent = machine_too
            if not machine_too:
                end.cut(1.0)

    def machine_is_back(self, ip: str) -> None:
        """A machine is on again: it resets the connections it does not know."""
        self._gone.discard(ip)
        for end in list(self.ends):
            if end.is_silent and end.remote[0] == ip:
                end.peer.cut(0.0)
        self._tell_waiting()


def _accept(end: End, listener: Listener) -> None:
    if not end.is_closing():
        end.attach(listener.factory())
