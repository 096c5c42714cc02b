"""Apache RocketMQ for Python and Spark.

What programs without an event loop use; the same names for asyncio are in :mod:`rocketmq_py.aio`. Names are loaded when
first used, so that importing the package costs nothing a program does not need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketmq_py.client.blocking import Producer as Producer
    from rocketmq_py.client.blocking_admin import Admin as Admin
    from rocketmq_py.client.dispatch_listener import ConsumeContext as ConsumeContext
    from rocketmq_py.client.dispatch_orderly_listener import OrderlyContext as OrderlyContext
    from rocketmq_py.client.hooks import ConsumeHook as ConsumeHook, SendHook as SendHook
    from rocketmq_py.client.lite_pull_blocking import LitePullConsumer as LitePullConsumer
    from rocketmq_py.client.pull_blocking import PullConsumer as PullConsumer
    from rocketmq_py.client.push_blocking import PushConsumer as PushConsumer
    from rocketmq_py.client.replies import reply as reply
    from rocketmq_py.client.simple_blocking import SimpleConsumer as SimpleConsumer
    from rocketmq_py.client.transaction import TransactionListener as TransactionListener
    from rocketmq_py.client.transaction_blocking import TransactionProducer as TransactionProducer
    from rocketmq_py.core.faults import LatencyFaultTolerance as LatencyFaultTolerance
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
    )
    from rocketmq_py.model import (
        ConsumeFromWhere as ConsumeFromWhere,
        ConsumeResult as ConsumeResult,
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

_HOMES = {
    "client.blocking": ("Producer",),
    "client.blocking_admin": ("Admin",),
    "client.dispatch_listener": ("ConsumeContext",),
    "client.dispatch_orderly_listener": ("OrderlyContext",),
    "client.hooks": ("ConsumeHook", "SendHook"),
    "client.lite_pull_blocking": ("LitePullConsumer",),
    "client.pull_blocking": ("PullConsumer",),
    "client.push_blocking": ("PushConsumer",),
    "client.replies": ("reply",),
    "client.simple_blocking": ("SimpleConsumer",),
    "client.transaction": ("TransactionListener",),
    "client.transaction_blocking": ("TransactionProducer",),
    "core.faults": ("LatencyFaultTolerance",),
    "errors": (
        "BrokerError", "ClosedError", "ConfigError", "ForkedError", "InvalidReceipt", "MessageIllegal", "NetworkError",
        "NoRouteError", "NotAssigned", "OffsetIllegal", "RequestTimeout", "RocketMQError",
    ),
    "model": (
        "ConsumeFromWhere", "ConsumeResult", "Message", "MessageExt", "MessageModel", "MessageQueue", "OrderlyResult",
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
