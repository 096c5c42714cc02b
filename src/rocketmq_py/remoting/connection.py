"""One asyncio connection to a broker or name server: writes frames, pairs answers with requests, passes on requests
that the peer makes. When to connect again is up to ``connection_pool``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import cast

import msgspec

from rocketmq_py.accelerator import installed
from rocketmq_py.core.peer import Peer, Reply
from rocketmq_py.errors import ConnectionLost, CorruptFrame, NetworkError, RequestTimeout
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.remoting.deadline_timer import DeadlineTimer
from rocketmq_py.tls import connect_fault, early_close_fault, tls_fault
from rocketmq_py.wire.command import ONEWAY_FLAG, Command, encode_command
from rocketmq_py.wire.signing import Credentials

_FRAMES_AHEAD = 32
"""Maximum number of frames that are collected in one turn of the event loop before they are written."""

Answered = Callable[[Reply | NetworkError], None]
"""Callback for the answer to a request, or for the error. Called once, in the event loop's thread; must not block."""


SILENCE_SECONDS = 1.0
"""After a request has timed out, a connection on which nothing arrives for this long is closed."""


class _SilenceError(ConnectionAbortedError):
    """A request timed out and nothing has arrived since: the peer hangs, or its machine or the network is down."""


class Connection(asyncio.Protocol):
    """An open connection, to be used only in the thread of its event loop.

    Frames that are written during one turn of the loop are sent together.

    :param address: ``host:port`` of the peer as callers pass it, before an address map; appears in errors.
    :param on_push: called with each request that the peer makes.
    :param on_lost: called once, when the connection is closed by either side or breaks.
    :param credentials: sign requests; None leaves them unsigned.
    """

    def __init__(
        self,
        address: str,
        on_push: Callable[[Connection, Command], None],
        on_lost: Callable[[Connection], None],
        credentials: Credentials | None = None,
    ) -> None:
        self.address = address
        self._credentials = credentials
        self.closed = False
        self.closed_here = False
        """True if :meth:`close` was called, False if the peer closed the connection or it broke."""
        self._on_push = on_push
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._peer: Peer[Answered] = Peer(accelerator=installed())
        self._out: list[bytes] = []
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._retiring = False
        self._ended = False
        self._gone = asyncio.Event()
        self._heard = False
        self._cause: Exception | None = None
        self._timer = DeadlineTimer(self._expire)
        self._silence: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport

    @property
    def in_flight(self) -> int:
        """Number of requests that were sent and not answered yet."""
        return len(self._peer)

    # -- requests

    def request(self, code: int, header: Header | None, body: bytes, answered: Answered, deadline: float) -> None:
        """Send a request; ``answered`` is called with its answer or the error.

        :param deadline: when the request fails with RequestTimeout, on the clock of ``time.monotonic``.
        """
        opaque = self.expect(answered, deadline)
        self.write(encode_command(Command(code, opaque, ext=self._fields(header, body), body=body)))

    def oneway(self, code: int, header: Header | None, body: bytes = b"") -> None:
        """Send a request that is not answered."""
        ext = self._fields(header, body)
        self.write(encode_command(Command(code, self._peer.number(), ONEWAY_FLAG, ext=ext, body=body)))

    async def send(self, command: Command, deadline: float) -> Reply:
        """Give ``command`` a new ``opaque``, sign it, send it, and return its answer. Errors as :meth:`call`.

        :param deadline: when the request fails with RequestTimeout, on the clock of ``time.monotonic``.
        """
        future: asyncio.Future[Reply] = self._loop.create_future()
        opaque = self.expect(answer_callback(future), deadline)
        self.write(encode_command(msgspec.structs.replace(command, opaque=opaque, ext=self._signed(command))))
        return await future

    def send_oneway(self, command: Command) -> None:
        """Sign ``command`` and send it as a one-way request, which is not answered."""
        flag = command.flag | ONEWAY_FLAG
        ext = self._signed(command)
        self.write(encode_command(msgspec.structs.replace(command, opaque=self.number(), flag=flag, ext=ext)))

    def _signed(self, command: Command) -> dict[str, str]:
        return command.ext if self._credentials is None else self._credentials.signed(command.ext, command.body)

    def _fields(self, header: Header | None, body: bytes) -> dict[str, str]:
        ext = header.to_ext() if header else {}
        return ext if self._credentials is None else self._credentials.signed(ext, body)

    async def call(self, code: int, header: Header | None, body: bytes, timeout: float) -> Reply:
        """Send a request and return its answer.

        :param timeout: seconds.
        :raises RequestTimeout: no answer in time.
        :raises ConnectionLost: the connection breaks.
        """
        future: asyncio.Future[Reply] = self._loop.create_future()
        self.request(code, header, body, answer_callback(future), time.monotonic() + timeout)
        return await future

    def expect(self, answered: Answered, deadline: float) -> int:
        """Register a request that the caller encodes and writes itself; returns the ``opaque`` for its frame.

        :param answered: called with the answer or the error, in the event loop.
        :param deadline: when the request fails with RequestTimeout, on the clock of ``time.monotonic``.
        """
        opaque = self._peer.add(answered, deadline)
        if self.closed:
            self._loop.call_soon(self._abandon)
        elif deadline < self._timer.at:
            self._timer.set(self._peer.next_deadline)
        return opaque

    def number(self) -> int:
        """Return a new ``opaque`` for the frame of a one-way request."""
        return self._peer.number()

    def write(self, frame: bytes) -> None:
        """Send a frame at the end of this turn of the loop, in one write with the others of that turn.

        If there are many, every ``_FRAMES_AHEAD`` of them are written at once, so that the peer can start on them.
        """
        out = self._out
        if not out:
            self._loop.call_soon(self._flush)
        out.append(frame)
        if len(out) == _FRAMES_AHEAD:
            self._flush()

    async def drain(self) -> None:
        """Wait while the transport's write buffer is full because the peer reads too slowly."""
        await self._can_write.wait()

    # -- closing

    def close(self) -> None:
        """Close the connection after sending the frames written so far; requests in flight fail with ConnectionLost."""
        self._write_out()
        self.closed = self.closed_here = True
        self._transport.close()

    async def wait_closed(self, timeout: float) -> None:
        """Wait after :meth:`close` until the transport is closed, which with TLS includes the closing handshake.

        :param timeout: seconds after which the connection is aborted.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._gone.wait()
        except TimeoutError:
            self._transport.abort()

    def retire(self) -> None:
        """Close the connection as soon as no request is in flight; the caller sends no further request over it."""
        self._retiring = True
        if not self._peer:
            self.close()

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own class does not derive from it

    def data_received(self, data: bytes) -> None:
        self._heard = True
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None
        try:
            answers, pushed = self._peer.receive(data)
        except CorruptFrame as e:
            self._end(e)
            self._transport.abort()
            return
        for answered, reply in answers:
            try:
                answered(reply)
            except Exception as e:  # noqa: BLE001 - one caller's fault must not cost the others their answers
                self._report(e)
        for command in pushed:
            self._on_push(self, command)
        if self._retiring and not self._peer:
            self.close()

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()
        self._end(exc)

    def _end(self, cause: Exception | None) -> None:
        if self._ended:
            return
        self._ended = self.closed = True
        self._cause = cause
        self._timer.cancel()
        if self._silence is not None:
            self._silence.cancel()
        self._can_write.set()
        self._on_lost(self)
        self._abandon()

    def _flush(self) -> None:
        if self._can_write.is_set():
            self._write_out()

    def _write_out(self) -> None:
        if self._out and not self.closed:
            data = b"".join(self._out)
            self._out.clear()
            self._transport.write(data)

    # -- deadlines

    def _expire(self) -> None:
        late = self._peer.expire(time.monotonic())
        self._timer.set(self._peer.next_deadline)
        self._fail(late, lambda: RequestTimeout(f"{self.address} did not answer in time"))
        if late and self._silence is None and not self.closed:
            self._silence = self._loop.call_later(SILENCE_SECONDS, self._give_up)

    def _give_up(self) -> None:
        """Abort the connection: a request timed out and nothing has arrived since, so the peer is probably down.

        A Java client closes the connection as soon as a request has timed out.
        """
        self._end(_SilenceError("a request was not answered in time, and nothing arrived since"))
        self._transport.abort()

    # -- failures

    def _abandon(self) -> None:
        self._fail(self._peer.abandon(), self._lost)

    def _lost(self) -> ConnectionLost:
        why: object = self._cause or ("it was closed here" if self.closed_here else "the other end closed it")
        fault = tls_fault(self._cause) if isinstance(self._cause, OSError) else None
        if isinstance(self._cause, OSError):
            why = connect_fault(self._cause)
        if fault is None and not self._heard and not self.closed_here and not isinstance(self._cause, _SilenceError):
            over_tls = self._transport.get_extra_info("ssl_object") is not None
            why = early_close_fault(why, over_tls=over_tls)
        lost = ConnectionLost(f"the connection to {self.address} ended: {why}")
        lost.__cause__ = self._cause
        return lost

    def _fail(self, waiting: list[Answered], error: Callable[[], NetworkError]) -> None:
        """Call each callback with its own error object, because each raise of an object makes its traceback longer."""
        for answered in waiting:
            try:
                answered(error())
            except Exception as e:  # noqa: BLE001 - as above
                self._report(e)

    def _report(self, fault: Exception) -> None:
        context = {"message": f"handling an answer of {self.address} failed", "exception": fault}
        self._loop.call_exception_handler(context)

    def __repr__(self) -> str:
        return f"Connection({self.address}, {'closed' if self.closed else 'open'}, in_flight={self.in_flight})"


def answer_callback(future: asyncio.Future[Reply]) -> Answered:
    """Return a callback that resolves ``future`` with the response or the failure, unless it is done already."""

    def answered(answer: Reply | NetworkError) -> None:
        if future.done():
            return
        if isinstance(answer, Reply):
            future.set_result(answer)
        else:
            future.set_exception(answer)

    return answered
