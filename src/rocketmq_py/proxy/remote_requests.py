"""Requests of calls at the brokers of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from rocketmq_py.errors import BadHeader, ConfigError, NetworkError, RocketMQError
from rocketmq_py.grpc.replies import guarded, refuse
from rocketmq_py.grpc.requests import Inner, Requests, is_answered
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.grpc.definition import MessageQueue
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.refusal import CallRefused
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.headers.pop import ChangeInvisibleTimeResponse, PopMessage, PopResponse
from rocketmq_py.protocol.headers.send import ConsumerSendMsgBack
from rocketmq_py.proxy.facts import Facts
from rocketmq_py.proxy.figures import UNREACHABLE, Figures
from rocketmq_py.remoting.connection_pool import ConnectionPool
from rocketmq_py.server.grpc.call import Call
from rocketmq_py.server.peer import Peer
from rocketmq_py.server.reply import Reply
from rocketmq_py.tasks import Background

MOST_RUNNING = 10_000
"""Maximum number of requests without a reply, besides pops that wait for messages."""
MOST_POPS = 100_000

_HEADERS: dict[RequestCode, type[Header]] = {
    RequestCode.POP_MESSAGE: PopResponse, RequestCode.CHANGE_MESSAGE_INVISIBLETIME: ChangeInvisibleTimeResponse,
}  # fmt: skip


def _topic_of(inner: Inner) -> str:
    if isinstance(inner.header, ConsumerSendMsgBack):
        return inner.header.origin_topic or ""
    return str(inner.header.topic)


_Deliver = Callable[[Reply], None]


class RemoteRequests(Requests):
    """Sends requests to the masters of a cluster.

    :param timeout: seconds to wait for a reply; a pop waits for as long as it asked to, besides.
    """

    here = "which no route names here"

    def __init__(self, connections: ConnectionPool, facts: Facts, timeout: float) -> None:
        self._connections = connections
        self._facts = facts
        self._timeout = timeout
        self._work = Background()
        self._running = {True: 0, False: 0}  # by whether it is a pop
        self._answered = asyncio.Event()
        self.figures = Figures()

    @property
    def running(self) -> dict[str, int]:
        """The number of requests that are not answered, by kind."""
        return {"pop": self._running[True], "other": self._running[False]}

    async def stop(self) -> None:
        """Give up all requests."""
        await self._work.stop()

    async def finish(self) -> None:
        """Wait for the replies to all requests, for a limited time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timeout):
                while self._work.runs:
                    self._answered.clear()
                    await self._answered.wait()

    def is_here(self, broker: str) -> bool:
        return self._facts.master(broker) is not None

    def is_elsewhere(self, broker: str) -> bool:
        del broker
        return False

    def broker_of(self, queue: MessageQueue) -> str:
        name = queue.broker.name if queue.broker is not None else ""
        topic = queue.topic.name if queue.topic is not None else ""
        name = name or self._facts.any_broker(topic)
        if not name:
            known = self._facts.topic(topic)
            what = "does not exist" if known is None else "has no master at the moment"
            raise CallRefused(
                Code.TOPIC_NOT_FOUND if known is None else Code.INTERNAL_SERVER_ERROR, f"topic {topic} {what}"
            )
        if not self.is_here(name):
            raise CallRefused(Code.INTERNAL_SERVER_ERROR, f"no route names a broker {name!r} with a master")
        return name

    def run(self, call: Call, inner: Inner, then: Callable[[Reply], None]) -> None:
        def deliver(reply: Reply) -> None:
            guarded(partial(then, reply), partial(refuse, call))

        self._start(inner, deliver)

    def run_alone(self, peer: Peer, inner: Inner, then: Callable[[Reply], None]) -> None:
        del peer
        try:
            self._start(inner, then)
        except CallRefused as e:
            then(Reply(ResponseCode.SYSTEM_BUSY, e.text))

    def finish_read(self) -> str | None:
        return None

    def _start(self, inner: Inner, deliver: _Deliver) -> None:
        if not is_answered(inner):
            deliver(Reply())
            return
        is_pop = inner.code == RequestCode.POP_MESSAGE
        most = MOST_POPS if is_pop else MOST_RUNNING
        if self._running[is_pop] >= most:
            raise CallRefused(Code.TOO_MANY_REQUESTS, f"{most} requests to brokers are running; try again")
        self._running[is_pop] += 1
        self._work.start(self._run(inner, deliver, is_pop=is_pop))

    async def _run(self, inner: Inner, deliver: _Deliver, *, is_pop: bool) -> None:
        try:
            reply = await self._ask(inner)
        finally:
            self._running[is_pop] -= 1
            asyncio.get_running_loop().call_soon(self._answered.set)
        deliver(reply)

    async def _ask(self, inner: Inner) -> Reply:
        topic = _topic_of(inner)
        broker = inner.broker or self._facts.any_broker(topic)
        address = self._facts.master(broker)
        if address is None:
            return Reply(ResponseCode.SYSTEM_ERROR, f"no route names a broker {broker!r} with a master")
        timeout = self._timeout
        if isinstance(inner.header, PopMessage):
            timeout += inner.header.poll_time / 1000
        try:
            answer = await self._connections.invoke(address, inner.code, inner.header, inner.body, timeout, check=False)
            self.figures.answered(inner.code, answer.code)
            kind = _HEADERS.get(inner.code) if answer.code == ResponseCode.SUCCESS else None
            header = None if kind is None else kind.from_ext(answer.ext)
        except NetworkError as e:
            self.figures.answered(inner.code, UNREACHABLE)
            self._facts.failed(broker, topic)
            return Reply(ResponseCode.SYSTEM_ERROR, f"broker {broker} does not answer: {e}")
        except (BadHeader, ConfigError) as e:
            return Reply(ResponseCode.SYSTEM_ERROR, f"broker {broker} does not answer as it should: {e}")
        except RocketMQError as e:
            return Reply(ResponseCode.SYSTEM_ERROR, str(e))
        return Reply(answer.code, answer.remark, header, answer.ext, bytes(answer.body))
