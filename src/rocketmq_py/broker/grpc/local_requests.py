"""Calls as requests to this broker's own handlers: the same rules, counters and overload limits as for remoting."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rocketmq_py.accelerator import SendRun
from rocketmq_py.broker.grpc.other_masters import OtherMasters
from rocketmq_py.grpc.requests import Inner, Requests, is_answered
from rocketmq_py.protocol.codes import RequestCode, Version
from rocketmq_py.protocol.grpc.definition import MessageQueue
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server.grpc.call import Call
from rocketmq_py.server.peer import Peer, Responder
from rocketmq_py.server.reply import Reply, RunReply
from rocketmq_py.server.requests.dispatcher import Dispatcher

_VERSION = Version.V5_5_0


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


class LocalRequests(Requests):
    """Runs requests for calls at this broker; a few go to other masters, if another broker has the message.

    :param name: of this broker.
    """

    def __init__(self, dispatcher: Dispatcher, name: str, others: OtherMasters) -> None:
        self._dispatcher = dispatcher
        self._name = name
        self._others = others
        self.before_finish: list[Callable[[], None]] = []
        """Handle requests that have been collected, before what was stored is made durable."""

    @property
    def here(self) -> str:
        return f"this is {self._name}"

    def is_here(self, broker: str) -> bool:
        return broker == self._name

    def is_elsewhere(self, broker: str) -> bool:
        return broker not in ("", self._name) and self._others.exist

    def broker_of(self, queue: MessageQueue) -> str:
        del queue  # its client has called this broker
        return self._name

    def run(self, call: Call, inner: Inner, then: Callable[[Reply], None]) -> None:
        if inner.broker in ("", self._name):
            self._run(CallResponder(call, call.peer, then), inner, then)
        elif not is_answered(inner):
            then(Reply())
        else:
            self._others.forward(
                inner.broker, inner.header.topic, inner.code, inner.header,
                lambda reply, ext: then(Reply(reply.code, reply.remark, ext=dict(ext))),
            )  # fmt: skip

    def run_alone(self, peer: Peer, inner: Inner, then: Callable[[Reply], None]) -> None:
        self._run(CallResponder(None, peer, then), inner, then)

    def run_counted(
        self, peer: Peer, inner: Inner, counted: Mapping[RequestCode, int], then: Callable[[Reply], None]
    ) -> None:
        """Run a request that stands for the requests of several calls.

        :param counted: the numbers of these by code, for metrics.
        """
        self._run(CallResponder(None, peer, then), inner, then, counted)

    def _run(
        self, responder: CallResponder, inner: Inner, then: Callable[[Reply], None],
        counted: Mapping[RequestCode, int] | None = None,
    ) -> None:  # fmt: skip
        request = Request(code=inner.code, header=inner.header, version=_VERSION, language="OTHER")
        reply = self._dispatcher.call(request, inner.body, responder, counted)
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

    def finish_read(self) -> str | None:
        for handle in self.before_finish:
            handle()
        failed = self._dispatcher.finish_read()
        return None if failed is None else failed.remark or "messages cannot be stored"
