"""A peer that answers as a test tells it: one name server and broker in one socket server."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rocketmq_py.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC
from rocketmq_py.wire.command import RESPONSE_FLAG, Command, decode_command, encode_command
from rocketmq_py.wire.frame import FrameDecoder

_TEMPLATE_QUEUES = 8
Script = Callable[[Command], Command | None]
"""The answer to a request; None cuts the connection."""


def answer(code: int = ResponseCode.SUCCESS, body: bytes = b"", remark: str | None = None, **ext: object) -> Command:
    """An answer with header fields as given."""
    return Command(code, flag=RESPONSE_FLAG, remark=remark, ext={k: str(v) for k, v in ext.items()}, body=body)


class ScriptedPeer(socketserver.ThreadingTCPServer):
    """Serves the route of any topic, ``queues`` of ``brokers`` (itself, as ``broker-a``). The rest is the script's."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, script: Script, queues: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.address = f"127.0.0.1:{self.server_address[1]}"
        self.script = script
        self.queues = queues
        self.brokers = [BrokerData(broker_name="broker-a", cluster="c", broker_addrs={0: self.address})]
        self.mappings: dict[str, Any] = {}
        """Those of a static topic, by broker name."""
        self.requests: list[Command] = []
        self.attributes: dict[str, str] = {}
        """Those of every topic."""
        self.not_yet: Counter[str] = Counter()
        """How often the name server still has to be asked for a topic before it knows it."""

    def respond(self, request: Command) -> Command | None:
        self.requests.append(request)
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            topic = request.ext["topic"]
            if self.not_yet[topic]:
                self.not_yet[topic] -= 1
                return answer(ResponseCode.TOPIC_NOT_EXIST, remark=f"no topic {topic}")
            return answer(body=self.route(_TEMPLATE_QUEUES if topic == AUTO_CREATE_TOPIC else self.queues).encode())
        if request.code == RequestCode.GET_TOPIC_CONFIG:
            return answer(body=TopicConfig(topic_name=request.ext["topic"], attributes=self.attributes).encode())
        return self.script(request)

    def route(self, queues: int) -> TopicRouteData:
        return TopicRouteData(
            queue_datas=[QueueData(broker_name="broker-a", read_queue_nums=queues, write_queue_nums=queues, perm=6)],
            broker_datas=self.brokers,
            topic_queue_mapping_by_broker=self.mappings or None,
        )

    def asked(self, code: RequestCode) -> list[Command]:
        """The requests of one code so far."""
        return [request for request in self.requests if request.code == code]


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        frames = FrameDecoder()
        # an answer does not wait for the client's acknowledgement of the one before, 40 ms
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while data := self.request.recv(1 << 16):
            for frame in frames.feed(data):
                request = decode_command(frame)
                response = self.server.respond(request)  # type: ignore[attr-defined]
                if response is None:
                    self.request.shutdown(socket.SHUT_RDWR)
                    return
                response.opaque = request.opaque
                self.request.sendall(encode_command(response))


@contextmanager
def scripted(script: Script, queues: int = 1) -> Iterator[ScriptedPeer]:
    """A running peer."""
    with ScriptedPeer(script, queues) as peer:
        thread = threading.Thread(target=peer.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield peer
        finally:
            peer.shutdown()
            thread.join()
