"""RocketMQ for asyncio: the same names as in :mod:`rocketmq_py`, with coroutines instead of blocking calls."""

from __future__ import annotations

from rocketmq_py.client.admin.admin import Admin
from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer.dispatch.listeners import ConsumeContext
from rocketmq_py.client.consumer.dispatch.orderly_listeners import OrderlyContext
from rocketmq_py.client.consumer.lite_pull.consumer import LitePullConsumer
from rocketmq_py.client.consumer.pull.consumer import PullConsumer
from rocketmq_py.client.consumer.push.consumer import PushConsumer
from rocketmq_py.client.consumer.simple.consumer import SimpleConsumer
from rocketmq_py.client.hooks.filter_hooks import FilterMessageHook
from rocketmq_py.client.hooks.hooks import ConsumeHook, SendHook
from rocketmq_py.client.producer.producer import Producer
from rocketmq_py.client.producer.request_reply import reply
from rocketmq_py.client.producer.transaction import TransactionListener
from rocketmq_py.client.producer.transaction_producer import TransactionProducer
from rocketmq_py.client.send.queue_selectors import (
    SelectByHash,
    SelectByMachineRoom,
    SelectByQueueId,
    SelectRandomly,
)
from rocketmq_py.core.producer.latency_fault import LatencyFaultTolerance
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
    TooManySends,
)
from rocketmq_py.model import (
    ConsumeFromWhere,
    ConsumeResult,
    DamagedMessage,
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
    "DamagedMessage",
    "FilterMessageHook",
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
    "SelectByHash",
    "SelectByMachineRoom",
    "SelectByQueueId",
    "SelectRandomly",
    "SendHook",
    "SendResult",
    "SendStatus",
    "SimpleConsumer",
    "TlsOptions",
    "TooManySends",
    "TransactionListener",
    "TransactionProducer",
    "TransactionSendResult",
    "TransactionState",
    "reply",
]
