"""Messages of ``service.proto``; fields are declared in the order of their numbers, which begin at 1."""

from __future__ import annotations

from rocketmq_py.protocol.grpc.definition import (
    Assignment,
    Duration,
    Endpoints,
    FilterExpression,
    Message,
    MessageQueue,
    Resource,
    Settings,
    Status,
    Timestamp,
)
from rocketmq_py.wire.protobuf import ProtoMessage

SERVICE = "apache.rocketmq.v2.MessagingService"


class StatusResponse(ProtoMessage):
    """The response of all calls that answer with their status only."""

    status: Status | None = None


class QueryRouteRequest(ProtoMessage):
    topic: Resource | None = None
    endpoints: Endpoints | None = None


class QueryRouteResponse(ProtoMessage):
    status: Status | None = None
    message_queues: list[MessageQueue] = []


class SendMessageRequest(ProtoMessage):
    messages: list[Message] = []


class SendResultEntry(ProtoMessage):
    status: Status | None = None
    message_id: str = ""
    transaction_id: str = ""
    offset: int = 0
    recall_handle: str = ""


class SendMessageResponse(ProtoMessage):
    status: Status | None = None
    entries: list[SendResultEntry] = []


class QueryAssignmentRequest(ProtoMessage):
    topic: Resource | None = None
    group: Resource | None = None
    endpoints: Endpoints | None = None


class QueryAssignmentResponse(ProtoMessage):
    status: Status | None = None
    assignments: list[Assignment] = []


class ReceiveMessageRequest(ProtoMessage):
    group: Resource | None = None
    message_queue: MessageQueue | None = None
    filter_expression: FilterExpression | None = None
    batch_size: int = 0
    invisible_duration: Duration | None = None
    auto_renew: bool = False
    long_polling_timeout: Duration | None = None
    attempt_id: str | None = None


class ReceiveMessageResponse(ProtoMessage):
    status: Status | None = None
    message: Message | None = None
    delivery_timestamp: Timestamp | None = None


class AckMessageEntry(ProtoMessage):
    message_id: str = ""
    receipt_handle: str = ""
    lite_topic: str | None = None


class AckMessageRequest(ProtoMessage):
    group: Resource | None = None
    topic: Resource | None = None
    entries: list[AckMessageEntry] = []


class AckMessageResultEntry(ProtoMessage):
    message_id: str = ""
    receipt_handle: str = ""
    status: Status | None = None


class AckMessageResponse(ProtoMessage):
    status: Status | None = None
    entries: list[AckMessageResultEntry] = []


class ForwardMessageToDeadLetterQueueRequest(ProtoMessage):
    group: Resource | None = None
    topic: Resource | None = None
    receipt_handle: str = ""
    message_id: str = ""
    delivery_attempt: int = 0
    max_delivery_attempts: int = 0
    lite_topic: str | None = None


class HeartbeatRequest(ProtoMessage):
    group: Resource | None = None
    client_type: int = 0


class EndTransactionRequest(ProtoMessage):
    topic: Resource | None = None
    message_id: str = ""
    transaction_id: str = ""
    resolution: int = 0
    source: int = 0
    trace_context: str = ""


class PrintThreadStackTraceCommand(ProtoMessage):
    nonce: str = ""


class ReconnectEndpointsCommand(ProtoMessage):
    nonce: str = ""


class ThreadStackTrace(ProtoMessage):
    nonce: str = ""
    thread_stack_trace: str | None = None


class VerifyMessageCommand(ProtoMessage):
    nonce: str = ""
    message: Message | None = None


class VerifyMessageResult(ProtoMessage):
    nonce: str = ""


class RecoverOrphanedTransactionCommand(ProtoMessage):
    message: Message | None = None
    transaction_id: str = ""


class NotifyUnsubscribeLiteCommand(ProtoMessage):
    lite_topic: str = ""


class TelemetryCommand(ProtoMessage):
    status: Status | None = None
    settings: Settings | None = None
    thread_stack_trace: ThreadStackTrace | None = None
    verify_message_result: VerifyMessageResult | None = None
    recover_orphaned_transaction_command: RecoverOrphanedTransactionCommand | None = None
    print_thread_stack_trace_command: PrintThreadStackTraceCommand | None = None
    verify_message_command: VerifyMessageCommand | None = None
    reconnect_endpoints_command: ReconnectEndpointsCommand | None = None
    notify_unsubscribe_lite_command: NotifyUnsubscribeLiteCommand | None = None


class NotifyClientTerminationRequest(ProtoMessage):
    group: Resource | None = None


class ChangeInvisibleDurationRequest(ProtoMessage):
    group: Resource | None = None
    topic: Resource | None = None
    receipt_handle: str = ""
    invisible_duration: Duration | None = None
    message_id: str = ""
    lite_topic: str | None = None
    suspend: bool | None = None


class ChangeInvisibleDurationResponse(ProtoMessage):
    status: Status | None = None
    receipt_handle: str = ""


class RecallMessageRequest(ProtoMessage):
    topic: Resource | None = None
    recall_handle: str = ""


class RecallMessageResponse(ProtoMessage):
    status: Status | None = None
    message_id: str = ""
