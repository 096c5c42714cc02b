"""One asyncio connection to a broker or name server: writes frames, pairs answers, hands out pushed requests.

Knows sockets, deadlines and when to write. Refuses to know what requests mean, and when to connect again
(``connections``).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import cast

from rocketmq_py.core.peer import NEVER, Peer, Reply
from rocketmq_py.errors import ConnectionLost, CorruptFrame, NetworkError, RequestTimeout
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.tls import connect_fault, early_close_fault, tls_fault
from rocketmq_py.wire.command import ONEWAY_FLAG, Command, encode_command
from rocketmq_py.wire.signing import Credentials

_AHEAD = 32

Answered = Callable[[Reply | NetworkError], None]
"""Takes the answer to a request, or the reason why there is none. Called once, in the loop's thread; must not block."""


SILENCE_SECONDS = 1.0
"""After a request that was not answered in time, a connection on which nothing is heard for so long is given up."""


class Connection(asyncio.Protocol):
    """An open connection; belongs to its loop's thread.

    Frames written during one turn of the loop leave in one piece.

    :param address: the peer, as callers name it; appears in errors.
    :param on_push: takes requests the peer makes.
    :param on_lost: told once when the connection has ended.
    :param credentials: what requests are signed with.
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
        self._on_push = on_push
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._peer: Peer[Answered] = Peer()
        self._out: list[bytes] = []
        self._paused = False
        self._retiring = False
        self._ended = False
        self._gone = asyncio.Event()
        self._heard = False
        self._closed_here = False
        self._cause: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER
        self._doubt: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport

    @property
    def in_flight(self) -> int:
        """Requests that await their answer."""
        return len(self._peer)

    # -- requests

    def request(self, code: int, header: Header | None, body: bytes, answered: Answered, deadline: float) -> None:
        """Send a request; ``answered`` hears of its answer, or of a failure by ``deadline`` (``time.monotonic``)."""
        opaque = self.expect(answered, deadline)
        self.write(encode_command(Command(code, opaque, ext=self._fields(header, body), body=body)))

    def oneway(self, code: int, header: Header | None, body: bytes = b"") -> None:
        """Send a request nobody answers."""
        ext = self._fields(header, body)
        self.write(encode_command(Command(code, self._peer.number(), ONEWAY_FLAG, ext=ext, body=body)))

    def _fields(self, header: Header | None, body: bytes) -> dict[str, str]:
        ext = header.to_ext() if header else {}
        return ext if self._credentials is None else self._credentials.signed(ext, body)

    async def call(self, code: int, header: Header | None, body: bytes, timeout: float) -> Reply:
        """Send a request and wait for its answer.

        :param timeout: seconds.
        :raises RequestTimeout: no answer in time.
        :raises ConnectionLost: the connection broke first.
        """
        future: asyncio.Future[Reply] = self._loop.create_future()
        self.request(code, header, body, settler(future), time.monotonic() + timeout)
        return await future

    def expect(self, answered: Answered, deadline: float) -> int:
        """Make ready for the answer to a frame the caller will write; returns the ``opaque`` to put into it."""
        opaque = self._peer.add(answered, deadline)
        if self.closed:
            self._loop.call_soon(self._abandon)
        elif deadline < self._timer_at:
            self._arm()
        return opaque

    def number(self) -> int:
        """An ``opaque`` for a frame nobody answers."""
        return self._peer.number()

    def write(self, frame: bytes) -> None:
        """Send a frame with the others of this turn of the loop; many go in parts, so that the peer can begin."""
        out = self._out
        if not out:
            self._loop.call_soon(self._flush)
        out.append(frame)
        if len(out) == _AHEAD:
            self._flush()

    # -- the end

    def close(self) -> None:
        """End the connection once what was written has left; requests under way fail."""
        self._write_out()
        self.closed = self._closed_here = True
        self._transport.close()

    async def ended(self, patience: float) -> None:
        """Wait for the end of a closed connection, which takes a farewell of both sides with TLS.

        :param patience: seconds after which it is ended without.
        """
        try:
            async with asyncio.timeout(patience):
                await self._gone.wait()
        except TimeoutError:
            self._transport.abort()

    def retire(self) -> None:
        """End the connection as soon as no request is under way."""
        self._retiring = True
        if not self._peer:
            self.close()

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own class does not derive from it

    def data_received(self, data: bytes) -> None:
        self._heard = True
        if self._doubt is not None:
            self._doubt.cancel()
            self._doubt = None
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
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()
        self._end(exc)

    def _end(self, cause: Exception | None) -> None:
        if self._ended:
            return
        self._ended = self.closed = True
        self._cause = cause
        for timer in (self._timer, self._doubt):
            if timer is not None:
                timer.cancel()
        self._on_lost(self)
        self._abandon()

    def _flush(self) -> None:
        if not self._paused:
            self._write_out()

    def _write_out(self) -> None:
        if self._out and not self.closed:
            data = b"".join(self._out)
            self._out.clear()
            self._transport.write(data)

    def _arm(self) -> None:
        """Set the timer to the earliest deadline; one timer serves all requests."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = self._peer.next_deadline
        if self._timer_at < NEVER:
            self._timer = self._loop.call_later(max(0.0, self._timer_at - time.monotonic()), self._expire)

    def _expire(self) -> None:
        late = self._peer.expire(time.monotonic())
        self._arm()
        self._fail(late, lambda: RequestTimeout(f"{self.address} did not answer in time"))
        if late and self._doubt is None and not self.closed:
            self._doubt = self._loop.call_later(SILENCE_SECONDS, self._give_up)

    def _give_up(self) -> None:
        """The other machine may be gone, or something between forgot us, and no end of the connection ever comes.

        A Java client ends the connection as soon as a request has run out of time.
        """
        self._end(ConnectionAbortedError("a request was not answered in time, and nothing at all was heard since"))
        self._transport.abort()

    def _abandon(self) -> None:
        self._fail(self._peer.abandon(), self._lost)

    def _lost(self) -> ConnectionLost:
        why: object = self._cause or ("it was closed here" if self._closed_here else "the other end closed it")
        fault = tls_fault(self._cause) if isinstance(self._cause, OSError) else None
        if isinstance(self._cause, OSError):
            why = connect_fault(self._cause)
        if fault is None and not self._heard and not self._closed_here:
            over_tls = self._transport.get_extra_info("ssl_object") is not None
            why = early_close_fault(why, over_tls=over_tls)
        lost = ConnectionLost(f"the connection to {self.address} ended: {why}")
        lost.__cause__ = self._cause
        return lost

    def _fail(self, waiting: list[Answered], error: Callable[[], NetworkError]) -> None:
        """Tell each an error of its own: raising one adds to it."""
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


def settler(future: asyncio.Future[Reply]) -> Answered:
    """What settles a future with an answer, unless nobody waits for it any more."""

    def answered(answer: Reply | NetworkError) -> None:
        if future.done():
            return
        if isinstance(answer, Reply):
            future.set_result(answer)
        else:
            future.set_exception(answer)

    return answered
