"""Apache RocketMQ for Python and Spark.

These clients block the calling thread; :mod:`rocketmq_py.aio` has the same names for asyncio. Each name is imported
when it is first used, which keeps the import of the package fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketmq_py.client.admin.blocking import Admin as Admin
    from rocketmq_py.client.blocking_instance import ClientInstance as ClientInstance
    from rocketmq_py.client.consumer.dispatch.listeners import ConsumeContext as ConsumeContext
    from rocketmq_py.client.consumer.dispatch.orderly_listeners import OrderlyContext as OrderlyContext
    from rocketmq_py.client.consumer.lite_pull.blocking import LitePullConsumer as LitePullConsumer
    from rocketmq_py.client.consumer.pull.blocking import PullConsumer as PullConsumer
    from rocketmq_py.client.consumer.push.blocking import PushConsumer as PushConsumer
    from rocketmq_py.client.consumer.simple.blocking import SimpleConsumer as SimpleConsumer
    from rocketmq_py.client.hooks.filter_hooks import FilterMessageHook as FilterMessageHook
    from rocketmq_py.client.hooks.hooks import ConsumeHook as ConsumeHook, SendHook as SendHook
    from rocketmq_py.client.producer.blocking import Producer as Producer
    from rocketmq_py.client.producer.blocking_transaction import TransactionProducer as TransactionProducer
    from rocketmq_py.client.producer.request_reply import reply as reply
    from rocketmq_py.client.producer.transaction import TransactionListener as TransactionListener
    from rocketmq_py.client.send.queue_selectors import (
        SelectByHash as SelectByHash,
        SelectByMachineRoom as SelectByMachineRoom,
        SelectByQueueId as SelectByQueueId,
        SelectRandomly as SelectRandomly,
    )
    from rocketmq_py.core.producer.latency_fault import LatencyFaultTolerance as LatencyFaultTolerance
    from rocketmq_py.errors import (
        BrokerError as BrokerError,
        ClosedError as ClosedError,
        ConfigError as ConfigError,
        ForkedError as ForkedError,
        InvalidReceipt as InvalidReceipt,
        MessageIllegal as MessageIllegal,
        NetworkError as NetworkError,
        NoRouteError as NoRouteError,
        NotAssigned as NotAssigned,
        OffsetIllegal as OffsetIllegal,
        RequestTimeout as RequestTimeout,
        RocketMQError as RocketMQError,
        TooManySends as TooManySends,
    )
    from rocketmq_py.model import (
        ConsumeFromWhere as ConsumeFromWhere,
        ConsumeResult as ConsumeResult,
        DamagedMessage as DamagedMessage,
        Message as Message,
        MessageExt as MessageExt,
        MessageModel as MessageModel,
        MessageQueue as MessageQueue,
        OrderlyResult as OrderlyResult,
        PullResult as PullResult,
        PullStatus as PullStatus,
        SendResult as SendResult,
        SendStatus as SendStatus,
        TransactionSendResult as TransactionSendResult,
        TransactionState as TransactionState,
    )
    from rocketmq_py.tls import TlsOptions as TlsOptions
    from rocketmq_py.wire.compression import CompressionType as CompressionType
    from rocketmq_py.wire.signing import Credentials as Credentials

__version__ = "0.1.0"

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

_HOMES = {
    "client.producer.blocking": ("Producer",),
    "client.admin.blocking": ("Admin",),
    "client.consumer.dispatch.listeners": ("ConsumeContext",),
    "client.consumer.dispatch.orderly_listeners": ("OrderlyContext",),
    "client.hooks.filter_hooks": ("FilterMessageHook",),
    "client.hooks.hooks": ("ConsumeHook", "SendHook"),
    "client.blocking_instance": ("ClientInstance",),
    "client.consumer.lite_pull.blocking": ("LitePullConsumer",),
    "client.consumer.pull.blocking": ("PullConsumer",),
    "client.consumer.push.blocking": ("PushConsumer",),
    "client.producer.request_reply": ("reply",),
    "client.consumer.simple.blocking": ("SimpleConsumer",),
    "client.producer.transaction": ("TransactionListener",),
    "client.producer.blocking_transaction": ("TransactionProducer",),
    "core.producer.latency_fault": ("LatencyFaultTolerance",),
    "client.send.queue_selectors": ("SelectByHash", "SelectByMachineRoom", "SelectByQueueId", "SelectRandomly"),
    "errors": (
        "BrokerError", "ClosedError", "ConfigError", "ForkedError", "InvalidReceipt", "MessageIllegal", "NetworkError",
        "NoRouteError", "NotAssigned", "OffsetIllegal", "RequestTimeout", "RocketMQError",
        "TooManySends",
    ),
    "model": (
        "ConsumeFromWhere", "ConsumeResult", "DamagedMessage", "Message", "MessageExt", "MessageModel", "MessageQueue",
        "OrderlyResult",
        "PullResult", "PullStatus", "SendResult", "SendStatus", "TransactionSendResult",
        "TransactionState",
    ),
    "tls": ("TlsOptions",),
    "wire.compression": ("CompressionType",),
    "wire.signing": ("Credentials",),
}  # fmt: skip
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
