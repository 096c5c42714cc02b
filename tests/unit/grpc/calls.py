"""Calls to the methods of a broker without sockets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from rocketmq_py.protocol.grpc.definition import (
    Duration,
    FilterExpression,
    Message,
    MessageQueue,
    Publishing,
    Resource,
    Settings,
    Subscription,
    SubscriptionEntry,
    SystemProperties,
)
from rocketmq_py.protocol.grpc.enums import ClientType, Code
from rocketmq_py.protocol.grpc.service import (
    SERVICE,
    AckMessageEntry,
    AckMessageRequest,
    AckMessageResponse,
    ReceiveMessageRequest,
    ReceiveMessageResponse,
    SendMessageRequest,
    SendMessageResponse,
    SendResultEntry,
    StatusResponse,
    TelemetryCommand,
)
from rocketmq_py.server import Peer
from rocketmq_py.server.access.auth_dispatcher import AuthDispatcher
from rocketmq_py.server.access.settings import AccessSettings
from rocketmq_py.server.grpc.call import Call
from rocketmq_py.wire.grpc import GrpcStatus
from rocketmq_py.wire.protobuf import ProtoMessage
from tests.unit.broker.harness import InProcess

M = TypeVar("M", bound=ProtoMessage)


class Carrier:
    """Remembers what a call sends."""

    def __init__(self, port: int) -> None:
        self.peer = Peer(("127.0.0.1", port), ("127.0.0.1", 10911))
        self.messages: list[bytes] = []
        self.end: tuple[GrpcStatus, str] | None = None

    def send_message(self, stream_id: int, message: bytes) -> None:
        self.messages.append(message)

    def send_answer(self, stream_id: int, messages: Sequence[bytes]) -> None:
        self.messages += messages
        self.end = GrpcStatus.OK, ""

    def end_call(self, stream_id: int, status: GrpcStatus, text: str) -> None:
        self.end = status, text


class Running:
    """A call that has begun."""

    def __init__(self, call: Call, carrier: Carrier) -> None:
        self.call, self.carrier = call, carrier

    def tell(self, message: ProtoMessage | bytes) -> None:
        assert self.call.on_message is not None
        self.call.on_message(message if isinstance(message, bytes) else message.encode())

    def received(self, kind: type[M]) -> list[M]:
        """What was sent since the last time."""
        found, self.carrier.messages = self.carrier.messages, []
        return [kind.decode(message) for message in found]


class Calls:
    """The methods of a broker, for one client."""

    def __init__(self, running: InProcess, client_id: str = "client", access: AccessSettings | None = None) -> None:
        auth = AuthDispatcher(access or AccessSettings(), lambda: None, lambda _: None, "DefaultCluster")
        self.auth = auth
        self.running = running
        self.service = running.services.messaging_service(auth, running.dispatcher)
        self.client_id = client_id
        self.metadata: dict[str, str] = {}
        self._ports = 60_000

    def begin(self, method: str, deadline: float | None = None) -> Running:
        self._ports += 1
        metadata = {"x-mq-client-id": self.client_id, "x-mq-client-version": "5.1.0", **self.metadata}
        carrier = Carrier(self._ports)
        raw = {name.encode(): value.encode() for name, value in metadata.items()}
        call = Call(carrier, 1, raw, deadline)
        found = self.service.find(f"/{SERVICE}/{method}".encode())
        assert found is not None
        found(call)
        return Running(call, carrier)

    def start(self, method: str, request: ProtoMessage | bytes, deadline: float | None = None) -> Running:
        running = self.begin(method, deadline)
        running.tell(request)
        assert self.service.finish_read() is None
        return running

    def call(self, method: str, request: ProtoMessage, kind: type[M]) -> M:
        running = self.start(method, request)
        assert running.carrier.end == (GrpcStatus.OK, "")
        [found] = running.received(kind)
        return found

    def code(self, method: str, request: ProtoMessage) -> int:
        status = self.call(method, request, StatusResponse).status
        assert status is not None
        return status.code

    # -- what clients do

    def settings(self, settings: Settings) -> Running:
        stream = self.begin("Telemetry")
        stream.tell(TelemetryCommand(settings=settings))
        return stream

    def consume(
        self, topic: str, group: str, expression: str = "*", kind: int = ClientType.SIMPLE_CONSUMER, **more: Any
    ) -> Running:
        entry = SubscriptionEntry(
            topic=Resource(name=topic), expression=FilterExpression(type=1, expression=expression)
        )
        subscription = Subscription(group=Resource(name=group), subscriptions=[entry])
        stream = self.settings(Settings(client_type=kind, subscription=subscription, **more))
        [answer] = stream.received(TelemetryCommand)
        assert answer.settings is not None
        return stream

    def produce(self, topic: str) -> Running:
        return self.settings(Settings(client_type=1, publishing=Publishing(topics=[Resource(name=topic)])))

    def send(self, message: Message) -> SendResultEntry:
        answer = self.call("SendMessage", SendMessageRequest(messages=[message]), SendMessageResponse)
        [entry] = answer.entries
        assert entry.status is not None
        assert entry.status.code == Code.OK, entry
        return entry

    def send_code(self, *messages: Message) -> int:
        return self.code("SendMessage", SendMessageRequest(messages=list(messages)))

    def receive(self, topic: str, group: str, **how: Any) -> tuple[int, list[Message]]:
        return answer_of(self.start("ReceiveMessage", receive_request(topic, group, **how)))

    def ack(self, topic: str, group: str, *handles: str) -> tuple[int, list[int]]:
        request = AckMessageRequest(
            group=Resource(name=group), topic=Resource(name=topic),
            entries=[AckMessageEntry(receipt_handle=handle) for handle in handles],
        )  # fmt: skip
        answer = self.call("AckMessage", request, AckMessageResponse)
        assert answer.status is not None
        return answer.status.code, [entry.status.code for entry in answer.entries if entry.status is not None]


def answer_of(running: Running) -> tuple[int, list[Message]]:
    answers = running.received(ReceiveMessageResponse)
    assert answers[0].status is not None
    return answers[0].status.code, [answer.message for answer in answers if answer.message is not None]


def new_message(topic: str, body: bytes = b"x", user: dict[str, str] | None = None, **system: Any) -> Message:
    system = {"message_id": "0A", "body_encoding": 1, "message_type": 1} | system
    return Message(
        topic=Resource(name=topic), body=body, user_properties=user or {}, system_properties=SystemProperties(**system)
    )


def receive_request(
    topic: str,
    group: str,
    *,
    invisible: int = 10,
    wait: int = 5,
    expression: str = "*",
    kind: int = 1,
    queue: int = -1,
    **more: Any,
) -> ReceiveMessageRequest:
    return ReceiveMessageRequest(
        group=Resource(name=group), message_queue=MessageQueue(topic=Resource(name=topic), id=queue), batch_size=32,
        filter_expression=FilterExpression(type=kind, expression=expression),
        invisible_duration=Duration(seconds=invisible), long_polling_timeout=Duration(seconds=wait), **more,
    )  # fmt: skip


def handle_of(message: Message) -> str:
    assert message.system_properties is not None
    return message.system_properties.receipt_handle or ""
