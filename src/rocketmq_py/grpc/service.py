"""The service ``apache.rocketmq.v2.MessagingService``: its methods, and how their calls are answered."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from rocketmq_py.accelerator import Accelerator
from rocketmq_py.errors import CorruptBody
from rocketmq_py.grpc.cluster import Names, Parts, Prepare, prepared
from rocketmq_py.grpc.popped import PoppedAnswers
from rocketmq_py.grpc.recalls import Recalls
from rocketmq_py.grpc.receipts import RenewedReceipts
from rocketmq_py.grpc.receiving import Receiving
from rocketmq_py.grpc.replies import refuse
from rocketmq_py.grpc.routes import Routes
from rocketmq_py.grpc.sending import Sending
from rocketmq_py.grpc.sessions import Sessions
from rocketmq_py.grpc.telemetry import Telemetry
from rocketmq_py.protocol.grpc import service as messages
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.refusal import CallRefused
from rocketmq_py.server.grpc.call import Call, Method
from rocketmq_py.wire.grpc import GrpcStatus
from rocketmq_py.wire.protobuf import ProtoMessage

_log = logging.getLogger(__name__)

M = TypeVar("M", bound=ProtoMessage)

Take = Callable[[Call, bytes], None]
"""Handles the message of a call."""

FasterSends = Callable[[Sending, Take], Take]
"""Returns what takes requests for sends in place of the second argument, which takes any."""
FasterAcks = Callable[[RenewedReceipts, Take], Take]
"""Returns what takes acknowledgements, likewise."""


class Faster(NamedTuple):
    """What does the same in less time.

    :ivar accelerator: encodes popped messages.
    """

    accelerator: Accelerator
    sends: FasterSends | None = None
    acks: FasterAcks | None = None


_CLIENTS_MS = 120_000


class MessagingService:
    """The methods by path."""

    def __init__(self, parts: Parts, faster: Faster | None = None) -> None:
        requests, access = parts.requests, parts.access
        self._requests = requests
        self._clock = parts.clock
        self._sessions = Sessions()
        self._receipts = RenewedReceipts(requests, parts.clock)
        routes = Routes(access, parts.groups, parts.locator)
        recalls = Recalls(requests, access, parts.topics)
        sending = Sending(requests, access, parts.topics, parts.max_body, parts.clock)
        send = _taker(messages.SendMessageRequest, sending.send, parts.prepare)
        if faster is not None and faster.sends is not None:
            send = faster.sends(sending, send)
        answers = PoppedAnswers(None if faster is None else faster.accelerator)
        receiving = Receiving(
            requests, access, self._sessions, parts.groups, self._receipts, answers, parts.check_ack, parts.clock
        )
        ack = _taker(messages.AckMessageRequest, receiving.ack, parts.prepare)
        if faster is not None and faster.acks is not None:
            ack = faster.acks(self._receipts, ack)
        self._telemetry = Telemetry(
            access, self._sessions, parts.clients, parts.groups, self._receipts, parts.name, parts.prepare, parts.clock
        )
        unary = partial(_unary, parts.prepare)
        heartbeat, terminate = self._telemetry.heartbeat, self._telemetry.terminate
        methods: dict[str, Method] = {
            "Telemetry": self._telemetry.begin,
            "QueryRoute": unary(messages.QueryRouteRequest, routes.query_route),
            "QueryAssignment": unary(messages.QueryAssignmentRequest, routes.query_assignment),
            "SendMessage": _method(send),
            "EndTransaction": unary(messages.EndTransactionRequest, sending.end_transaction),
            "RecallMessage": unary(messages.RecallMessageRequest, recalls.recall),
            "ReceiveMessage": unary(messages.ReceiveMessageRequest, receiving.receive),
            "AckMessage": _method(ack),
            "ChangeInvisibleDuration": unary(messages.ChangeInvisibleDurationRequest, receiving.change_invisible),
            "ForwardMessageToDeadLetterQueue": unary(
                messages.ForwardMessageToDeadLetterQueueRequest, receiving.forward
            ),
            "Heartbeat": unary(messages.HeartbeatRequest, heartbeat),
            "NotifyClientTermination": unary(messages.NotifyClientTerminationRequest, terminate),
            "SyncLiteSubscription": unary(messages.StatusResponse, _no_lite_topics),
        }
        self._methods = {f"/{messages.SERVICE}/{method}".encode(): begin for method, begin in methods.items()}

    @property
    def renewed(self) -> int:
        """The number of receipts that are renewed."""
        return len(self._receipts)

    def leave(self) -> None:
        """Make the messages visible soon on which push consumers work: they find their receipts nowhere else."""
        self._receipts.all_left()

    def find(self, path: bytes) -> Method | None:
        """Return the method with a path; None if there is none."""
        return self._methods.get(path)

    def finish_read(self) -> str | None:
        """Make durable what the calls of a read have stored; return why that failed, or None."""
        return self._requests.finish_read()

    def tick(self) -> None:
        """Renew receipts, and forget clients that are gone; called every few seconds."""
        self._receipts.tick()
        self._telemetry.expire(self._clock() - _CLIENTS_MS)


def _unary(prepare: Prepare, kind: type[M], handle: Callable[[Call, M], None]) -> Method:
    """Return a method whose call is one message; what ``handle`` refuses becomes the status of the response."""
    return _method(_taker(kind, handle, prepare))


def _method(take: Take) -> Method:
    def begin(call: Call) -> None:
        call.on_message = partial(take, call)

    return begin


def _taker(kind: type[M], handle: Callable[[Call, M], None], prepare: Prepare) -> Take:
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
            if prepare is prepared:
                handle(call, request)
            else:
                prepare(call, names_of(request), partial(handle, call, request), partial(refuse, call))
        except CallRefused as e:
            refuse(call, e)

    return take


def names_of(request: Any) -> Names:
    """Return the topics and the group that a request names, legal or not."""
    if isinstance(request, messages.SendMessageRequest):
        return Names(tuple({message.topic.name: None for message in request.messages if message.topic is not None}))
    if isinstance(request, messages.ReceiveMessageRequest):
        topic = request.message_queue.topic if request.message_queue is not None else None
    else:
        topic = getattr(request, "topic", None)
    group = getattr(request, "group", None)
    return Names((topic.name,) if topic is not None else (), group.name if group is not None else "")


def _no_lite_topics(call: Call, request: Any) -> None:
    del call, request
    raise CallRefused(Code.NOT_IMPLEMENTED, "there are no lite topics here")
