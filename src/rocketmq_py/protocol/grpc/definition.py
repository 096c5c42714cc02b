"""Messages of ``definition.proto``; fields are declared in the order of their numbers, which begin at 1."""

from __future__ import annotations

from rocketmq_py.wire.protobuf import ProtoMessage


class Timestamp(ProtoMessage):
    seconds: int = 0
    nanos: int = 0

    @classmethod
    def of_ms(cls, ms: int) -> Timestamp:
        """Return the timestamp of milliseconds since the epoch."""
        return cls(seconds=ms // 1000, nanos=ms % 1000 * 1_000_000)

    @property
    def ms(self) -> int:
        """Milliseconds since the epoch."""
        return self.seconds * 1000 + self.nanos // 1_000_000


class Duration(ProtoMessage):
    seconds: int = 0
    nanos: int = 0

    @classmethod
    def of_ms(cls, ms: int) -> Duration:
        """Return the duration of milliseconds."""
        return cls(seconds=ms // 1000, nanos=ms % 1000 * 1_000_000)

    @property
    def ms(self) -> int:
        """Milliseconds."""
        return self.seconds * 1000 + self.nanos // 1_000_000


class FilterExpression(ProtoMessage):
    type: int = 0
    expression: str = ""


class ExponentialBackoff(ProtoMessage):
    initial: Duration | None = None
    max: Duration | None = None
    multiplier: float = 0.0


class CustomizedBackoff(ProtoMessage):
    next: list[Duration] = []


class RetryPolicy(ProtoMessage):
    max_attempts: int = 0
    exponential_backoff: ExponentialBackoff | None = None
    customized_backoff: CustomizedBackoff | None = None


class Resource(ProtoMessage):
    resource_namespace: str = ""
    name: str = ""


class SubscriptionEntry(ProtoMessage):
    topic: Resource | None = None
    expression: FilterExpression | None = None


class Address(ProtoMessage):
    host: str = ""
    port: int = 0


class Endpoints(ProtoMessage):
    scheme: int = 0
    addresses: list[Address] = []


class Broker(ProtoMessage):
    name: str = ""
    id: int = 0
    endpoints: Endpoints | None = None


class MessageQueue(ProtoMessage):
    topic: Resource | None = None
    id: int = 0
    permission: int = 0
    broker: Broker | None = None
    accept_message_types: list[int] = []


class Digest(ProtoMessage):
    type: int = 0
    checksum: str = ""


class DeadLetterQueue(ProtoMessage):
    topic: str = ""
    message_id: str = ""


class SystemProperties(ProtoMessage):
    tag: str | None = None
    keys: list[str] = []
    message_id: str = ""
    body_digest: Digest | None = None
    body_encoding: int = 0
    message_type: int = 0
    born_timestamp: Timestamp | None = None
    born_host: str = ""
    store_timestamp: Timestamp | None = None
    store_host: str = ""
    delivery_timestamp: Timestamp | None = None
    receipt_handle: str | None = None
    queue_id: int = 0
    queue_offset: int | None = None
    invisible_duration: Duration | None = None
    delivery_attempt: int | None = None
    message_group: str | None = None
    trace_context: str | None = None
    orphaned_transaction_recovery_duration: Duration | None = None
    dead_letter_queue: DeadLetterQueue | None = None
    lite_topic: str | None = None
    priority: int | None = None


class Message(ProtoMessage):
    topic: Resource | None = None
    user_properties: dict[str, str] = {}
    system_properties: SystemProperties | None = None
    body: bytes = b""


class Assignment(ProtoMessage):
    message_queue: MessageQueue | None = None


class Status(ProtoMessage):
    code: int = 0
    message: str = ""


class UA(ProtoMessage):
    language: int = 0
    version: str = ""
    platform: str = ""
    hostname: str = ""


class Publishing(ProtoMessage):
    topics: list[Resource] = []
    max_body_size: int = 0
    validate_message_type: bool = False


class Subscription(ProtoMessage):
    group: Resource | None = None
    subscriptions: list[SubscriptionEntry] = []
    fifo: bool | None = None
    receive_batch_size: int | None = None
    long_polling_timeout: Duration | None = None
    lite_subscription_quota: int | None = None
    max_lite_topic_size: int | None = None


class Metric(ProtoMessage):
    on: bool = False
    endpoints: Endpoints | None = None


class Settings(ProtoMessage):
    client_type: int | None = None
    access_point: Endpoints | None = None
    backoff_policy: RetryPolicy | None = None
    request_timeout: Duration | None = None
    publishing: Publishing | None = None
    subscription: Subscription | None = None
    user_agent: UA | None = None
    metric: Metric | None = None
    client_properties: dict[str, str] = {}
