"""Calls as requests to this broker's own handlers: the same rules, counters and overload limits as for remoting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rocketmq_py.accelerator import SendRun
from rocketmq_py.protocol.codes import RequestCode, Version
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server.grpc.call import Call
from rocketmq_py.server.peer import Peer, Responder
from rocketmq_py.server.reply import Reply, RunReply
from rocketmq_py.server.requests.dispatcher import Dispatcher

_VERSION = Version.V5_5_0


class Inner(NamedTuple):
    """A request to a handler."""

    code: RequestCode
    header: Any
    body: bytes = b""


class CallResponder(Responder):
    """Gives the reply to a request on hold to a function, as long as its call is open.

    :param call: None for a request that no client waits for.
    """

    __slots__ = ("_call", "_done")

    def __init__(self, call: Call | None, peer: Peer, done: Callable[[Reply], None]) -> None:
        super().__init__(peer, 0)
        self._call = call
        self._done = done

    @property
    def alive(self) -> bool:
        """True if the request is not answered yet, and the client waits for it."""
        return not self._answered and (self._call is None or self._call.is_open)

    def reply(self, reply: Reply) -> None:
        """Pass the reply on."""
        if self.alive:
            self.encode(reply)

    def encode(self, reply: Reply) -> bytes:
        """Pass the reply on; there is no frame to write."""
        self._answered = True
        self._done(reply)
        return b""


class Requests:
    """Runs requests for calls."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def run(self, call: Call, inner: Inner, then: Callable[[Reply], None]) -> None:
        """Run one request; ``then`` gets the reply, in this call of the function or later."""
        self._run(CallResponder(call, call.peer, then), inner, then)

    def run_alone(self, peer: Peer, inner: Inner, then: Callable[[Reply], None]) -> None:
        """Run a request for which no client waits; the caller makes durable what it stored."""
        self._run(CallResponder(None, peer, then), inner, then)

    def _run(self, responder: CallResponder, inner: Inner, then: Callable[[Reply], None]) -> None:
        request = Request(code=inner.code, header=inner.header, version=_VERSION, language="OTHER")
        reply = self._dispatcher.call(request, inner.body, responder)
        if reply is not None:
            then(reply)

    def run_sends(
        self, peer: Peer, run: SendRun, begin: int, then: Callable[[RunReply, Reply], None]
    ) -> RunReply | None:
        """Store sends of a run from index ``begin`` on, up to the first that :meth:`run` must store.

        :param then: gets a reply to all of them later, if the result is held.
        :returns: None, if that is already the first one.
        """

        def responder(found: RunReply) -> Responder:
            return CallResponder(None, peer, lambda reply: then(found, reply))

        return self._dispatcher.call_run(peer, run, begin, responder)

    def run_all(self, call: Call, inners: Sequence[Inner], then: Callable[[list[Reply]], None]) -> None:
        """Run several requests; ``then`` gets all replies, in the same order."""
        replies: dict[int, Reply] = {}

        def taker(place: int) -> Callable[[Reply], None]:
            def take(reply: Reply) -> None:
                replies[place] = reply
                if len(replies) == len(inners):
                    then([replies[i] for i in range(len(inners))])

            return take

        for place, inner in enumerate(inners):
            if call.is_open:
                self.run(call, inner, taker(place))

    def finish_read(self) -> str | None:
        """Make durable what was stored; return why that failed, or None."""
        failed = self._dispatcher.finish_read()
        return None if failed is None else failed.remark or "messages cannot be stored"
