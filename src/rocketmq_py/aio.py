"""RocketMQ for asyncio: the same names as :mod:`rocketmq_py`, to be awaited."""

from __future__ import annotations

from rocketmq_py.client.admin import Admin
from rocketmq_py.client.dispatch_listener import ConsumeContext
from rocketmq_py.client.dispatch_orderly_listener import OrderlyContext
from rocketmq_py.client.hooks import ConsumeHook, SendHook
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.lite_pull import LitePullConsumer
from rocketmq_py.client.producer import Producer
from rocketmq_py.client.pull import PullConsumer
from rocketmq_py.client.push import PushConsumer
from rocketmq_py.client.replies import reply
from rocketmq_py.client.simple import SimpleConsumer
from rocketmq_py.client.transaction import TransactionListener
from rocketmq_py.client.transaction_producer import TransactionProducer
from rocketmq_py.core.faults import LatencyFaultTolerance
from rocketmq_py.errors import (
    BrokerError,
    ClosedError,
    ConfigError,
    ForkedError,
    InvalidReceipt,
    MessageIllegal,
    NetworkError,
    NoRouteError,
    NotAssigned,
    OffsetIllegal,
    RequestTimeout,
    RocketMQError,
)
from rocketmq_py.model import (
    ConsumeFromWhere,
    ConsumeResult,
    Message,
    MessageExt,
    MessageModel,
    MessageQueue,
    OrderlyResult,
    PullResult,
    PullStatus,
    SendResult,
    SendStatus,
    TransactionSendResult,
    TransactionState,
)
from rocketmq_py.tls import TlsOptions
from rocketmq_py.wire.compression import CompressionType
from rocketmq_py.wire.signing import Credentials

__all__ = [
    "Admin",
    "BrokerError",
    "ClientInstance",
    "ClosedError",
    "CompressionType",
    "ConfigError",
    "ConsumeContext",
    "ConsumeFromWhere",
    "ConsumeHook",
    "ConsumeResult",
    "Credentials",
    "ForkedError",
    "InvalidReceipt",
    "LatencyFaultTolerance",
    "LitePullConsumer",
    "Message",
    "MessageExt",
    "MessageIllegal",
    "MessageModel",
    "MessageQueue",
    "NetworkError",
    "NoRouteError",
    "NotAssigned",
    "OffsetIllegal",
    "OrderlyContext",
    "OrderlyResult",
    "Producer",
    "PullConsumer",
    "PullResult",
    "PullStatus",
    "PushConsumer",
    "RequestTimeout",
    "RocketMQError",
    "SendHook",
    "SendResult",
    "SendStatus",
    "SimpleConsumer",
    "TlsOptions",
    "TransactionListener",
    "TransactionProducer",
    "TransactionSendResult",
    "TransactionState",
    "reply",
]
