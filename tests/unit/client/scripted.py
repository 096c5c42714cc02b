"""Peers without sockets: connections whose other end is a function from request to answer."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import Any

from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.remoting.connection import Connection
from rocketmq_py.remoting.connection_pool import ConnectionPool
from rocketmq_py.remoting.single_flight import SingleFlight
from rocketmq_py.wire.command import RESPONSE_FLAG, Command, decode_command, encode_command
from rocketmq_py.wire.frame import FrameDecoder

Answerer = Callable[[str, Command], Command | None]
"""Answers a request to an address; None leaves it without an answer."""


class ScriptedTransport(asyncio.Transport):
    """Takes what a connection writes to a script, and the script's answers back."""

    def __init__(self, connection: Connection, network: ScriptedNetwork) -> None:
        super().__init__()
        self._connection = connection
        self._network = network
        self._frames = FrameDecoder()
        self._loop = asyncio.get_running_loop()
        self._closing = False
        self.written: list[bytes] = []

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def write(self, data: bytes) -> None:
        self.written.append(bytes(data))
        for frame in self._frames.feed(data):
            request = decode_command(frame)
            self._network.requests.append((self._connection.address, request))
            self._network.asked.set()
            answer = self._network.answer(self._connection.address, request)
            if answer is not None and not request.is_oneway:
                answer.opaque, answer.flag = request.opaque, RESPONSE_FLAG
                self.deliver(encode_command(answer))

    def deliver(self, data: bytes) -> None:
        self._loop.call_soon(self._connection.data_received, data)

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._connection.connection_lost, None)

    abort = close


class ScriptedNetwork:
    """Every address at once.

    :param answer: the script.
    """

    def __init__(self, answer: Answerer) -> None:
        self.answer = answer
        self.requests: list[tuple[str, Command]] = []
        self.asked = asyncio.Event()
        self.transports: dict[str, ScriptedTransport] = {}
        self.connections: dict[str, Connection] = {}
        self.unreachable: set[str] = set()

    def carry(self, connections: ConnectionPool) -> None:
        """Make ``connections`` connect here."""

        async def connect(address: str) -> Connection:
            if address in self.unreachable:
                raise connections.cannot_connect(address, "Connection refused")
            connection = Connection(address, connections._pushed, connections._lost, connections.credentials)
            self.connections[address] = connection
            self.transports[address] = ScriptedTransport(connection, self)
            connection.connection_made(self.transports[address])
            connections._open[address] = connection
            connections._on_open(connection)
            return connection

        connections._opening = SingleFlight(connect)

    def codes(self, address: str | None = None) -> list[int]:
        """The codes of the requests that came, in order."""
        return [request.code for where, request in self.requests if address in (None, where)]

    def sent(self) -> list[tuple[str, Command]]:
        """The send requests that came, in order."""
        sends = {RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}
        return [(where, request) for where, request in self.requests if request.code in sends]


def cluster(topics: dict[str, dict[str, int]] | None = None, **more: dict[str, int]) -> Answerer:
    """A healthy cluster: name server ``ns:1``, and for each topic the write queues by broker name.

    Broker ``x`` is at ``x:1`` and takes every message. ``topics`` is looked at anew for each request.
    """
    known = more if topics is None else topics

    def answer(address: str, request: Command) -> Command | None:
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return route_answer(known.get(request.ext["topic"]))
        if request.code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
            return stored(request)
        return Command(0)

    return answer


def route_answer(queues: dict[str, int] | None, broker_id: int = 0) -> Command:
    if queues is None:
        return Command(ResponseCode.TOPIC_NOT_EXIST, remark="No topic route info")
    data = TopicRouteData(
        queue_datas=[
            QueueData(broker_name=name, read_queue_nums=number, write_queue_nums=number, perm=6)
            for name, number in queues.items()
        ],
        broker_datas=[BrokerData(broker_name=name, broker_addrs={broker_id: f"{name}:1"}) for name in queues],
    )
    return Command(0, body=data.encode())


def stored(request: Command) -> Command:
    return Command(0, ext={"msgId": "OFF", "queueId": request.ext["e"], "queueOffset": "5"})


def queue_of(request: Command) -> MessageQueue:
    return MessageQueue(request.ext["b"], request.ext["n"], int(request.ext["e"]))


Decorator = Callable[[Callable[..., Any]], Callable[..., None]]


def made_by(run: Callable[..., object], count: int = 1) -> Callable[..., Decorator]:
    """Makes a decorator ``@with_it(options)`` of ``run(function, options)``.

    ``run`` calls an async function with what it has made: the first ``count`` arguments of a test. The others are
    fixtures.
    """

    def with_it(*args: Any, **options: Any) -> Decorator:
        def decorate(test: Callable[..., Any]) -> Callable[..., None]:
            @functools.wraps(test)
            def wrapped(**fixtures: Any) -> None:
                run(lambda *made: test(*made, **fixtures), *args, **options)

            signature = inspect.signature(test)
            left = list(signature.parameters.values())[count:]
            wrapped.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
            return wrapped

        return decorate

    return with_it
