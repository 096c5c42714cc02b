"""The service ``apache.rocketmq.v2.MessagingService``: its methods, and how their calls are answered."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from rocketmq_py.accelerator import installed
from rocketmq_py.broker.cluster.clients import Clients
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.grpc.access import CallAccess
from rocketmq_py.broker.grpc.other_masters import OtherMasters
from rocketmq_py.broker.grpc.plain_sends import PlainSends
from rocketmq_py.broker.grpc.recalls import Recalls
from rocketmq_py.broker.grpc.receipts import RenewedReceipts
from rocketmq_py.broker.grpc.receiving import Receiving
from rocketmq_py.broker.grpc.requests import Requests
from rocketmq_py.broker.grpc.routes import Routes
from rocketmq_py.broker.grpc.sending import Sending
from rocketmq_py.broker.grpc.sessions import Sessions
from rocketmq_py.broker.grpc.telemetry import Telemetry
from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.errors import CorruptBody
from rocketmq_py.protocol import names
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.grpc import service as messages
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.refusal import CallRefused
from rocketmq_py.protocol.headers.pop import AckMessage
from rocketmq_py.server.grpc.call import Call, Method
from rocketmq_py.server.peer import Peer
from rocketmq_py.server.requests.dispatcher import Dispatcher
from rocketmq_py.wire.grpc import GrpcStatus
from rocketmq_py.wire.protobuf import ProtoMessage

_log = logging.getLogger(__name__)

M = TypeVar("M", bound=ProtoMessage)

_Take = Callable[[Call, bytes], None]
"""Handles the message of a call."""

_CLIENTS_MS = 120_000


class BrokerParts(NamedTuple):
    """The parts of a broker that calls use.

    :ivar max_body: returns the limit of a message body, in bytes.
    :ivar address: returns host and port of this broker for clients.
    :ivar clock: returns the time in milliseconds since the epoch.
    :ivar check_ack: raises BrokerError if the message of an ack does not exist.
    """

    config: BrokerConfig
    topics: TopicConfigs
    groups: SubscriptionGroups
    clients: Clients
    max_body: Callable[[], int]
    address: Callable[[], tuple[str, int]]
    clock: Callable[[], int]
    others: OtherMasters
    check_ack: Callable[[Peer, AckMessage], None]


class MessagingService:
    """The methods by path."""

    def __init__(self, parts: BrokerParts, access: CallAccess, dispatcher: Dispatcher) -> None:
        self._parts = parts
        self._requests = Requests(dispatcher)
        self._sessions = Sessions()
        self._receipts = RenewedReceipts(self._requests, parts.clock)
        name, clock = parts.config.broker_name, parts.clock
        routes = Routes(access, parts.topics, parts.groups, name, self._new_topic, parts.address, parts.others)
        recalls = Recalls(self._requests, access, parts.topics, name, parts.others)
        sending = Sending(
            self._requests, access, parts.topics, parts.max_body, self._creates_topics, name, parts.others, clock
        )
        send = _taker(messages.SendMessageRequest, sending.send)
        accelerator = installed()
        self._plain_sends: PlainSends | None = None
        if accelerator is not None:
            self._plain_sends = PlainSends(self._requests, sending, send, accelerator)
            send = self._plain_sends.add
        receiving = Receiving(
            self._requests, access, self._sessions, parts.groups, self._receipts, parts.check_ack, name, clock
        )
        self._telemetry = Telemetry(access, self._sessions, parts.clients, parts.groups, self._receipts, name, clock)
        heartbeat, terminate = self._telemetry.heartbeat, self._telemetry.terminate
        methods: dict[str, Method] = {
            "Telemetry": self._telemetry.begin,
            "QueryRoute": _unary(messages.QueryRouteRequest, routes.query_route),
            "QueryAssignment": _unary(messages.QueryAssignmentRequest, routes.query_assignment),
            "SendMessage": _method(send),
            "EndTransaction": _unary(messages.EndTransactionRequest, sending.end_transaction),
            "RecallMessage": _unary(messages.RecallMessageRequest, recalls.recall),
            "ReceiveMessage": _unary(messages.ReceiveMessageRequest, receiving.receive),
            "AckMessage": _unary(messages.AckMessageRequest, receiving.ack),
            "ChangeInvisibleDuration": _unary(messages.ChangeInvisibleDurationRequest, receiving.change_invisible),
            "ForwardMessageToDeadLetterQueue": _unary(
                messages.ForwardMessageToDeadLetterQueueRequest, receiving.forward
            ),
            "Heartbeat": _unary(messages.HeartbeatRequest, heartbeat),
            "NotifyClientTermination": _unary(messages.NotifyClientTerminationRequest, terminate),
            "SyncLiteSubscription": _unary(messages.StatusResponse, _no_lite_topics),
        }
        self._methods = {f"/{messages.SERVICE}/{method}".encode(): begin for method, begin in methods.items()}

    def find(self, path: bytes) -> Method | None:
        """Return the method with a path; None if there is none."""
        return self._methods.get(path)

    def finish_read(self) -> str | None:
        """Make durable what the calls of a read have stored; return why that failed, or None."""
        if self._plain_sends is not None:
            self._plain_sends.store()
        return self._requests.finish_read()

    def tick(self) -> None:
        """Renew receipts, and forget clients that are gone; called every few seconds."""
        self._receipts.tick()
        self._telemetry.expire(self._parts.clock() - _CLIENTS_MS)

    def _creates_topics(self) -> bool:
        parts = self._parts
        return parts.config.auto_create_topic_enable and parts.topics.get(names.AUTO_CREATE_TOPIC) is not None

    def _new_topic(self, name: str) -> TopicConfig | None:
        """Return what a topic will be when the first message is sent to it."""
        if not self._creates_topics():
            return None
        queues = self._parts.config.default_topic_queue_nums
        return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)


def _unary(kind: type[M], handle: Callable[[Call, M], None]) -> Method:
    """Return a method whose call is one message; what ``handle`` refuses becomes the status of the response."""
    return _method(_taker(kind, handle))


def _method(take: _Take) -> Method:
    def begin(call: Call) -> None:
        call.on_message = partial(take, call)

    return begin


def _taker(kind: type[M], handle: Callable[[Call, M], None]) -> _Take:
    """Return a function that handles the message of a call, as :func:`_unary` says."""

    def take(call: Call, data: bytes) -> None:
        call.on_message = None
        try:
            request = kind.decode(data)
        except CorruptBody as e:
            call.end(GrpcStatus.INTERNAL, str(e))
            return
        try:
            if not call.metadata.get(b"x-mq-client-id", b"").strip():
                raise CallRefused(Code.CLIENT_ID_REQUIRED, "client id cannot be empty")  # noqa: TRY301
            handle(call, request)
        except CallRefused as e:
            call.answer(messages.StatusResponse(status=e.status()).encode())

    return take


def _no_lite_topics(call: Call, request: Any) -> None:
    del call, request
    raise CallRefused(Code.NOT_IMPLEMENTED, "this broker has no lite topics")
