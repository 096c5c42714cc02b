"""Options by keyword, for type checkers: ProducerOptions.

Generated from ``rocketmq_py.client.producer.producer``
by ``tools/make_blocking.py``: change that and run it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, TypedDict

from rocketmq_py.client.hooks.hooks import SendHook
from rocketmq_py.client.hooks.tracing import Trace
from rocketmq_py.core.producer.accumulator import Linger
from rocketmq_py.core.producer.latency_fault import LatencyFaultTolerance
from rocketmq_py.tls import Tls
from rocketmq_py.wire.compression import CompressionType
from rocketmq_py.wire.signing import Credentials


class ProducerOptions(TypedDict, total=False):
    """Options of every producer; see :class:`rocketmq_py.Producer`."""

    send_timeout: float
    retries: int
    compress_over: int | None
    compression: CompressionType
    compression_level: int
    max_message_size: int
    default_queue_nums: int
    create_topic: str
    instance_name: str | None
    unit_name: str | None
    client_ip: str | None
    namespace: str | None
    address_map: Mapping[str, str] | None
    tls: Tls
    credentials: Credentials | None
    unit_mode: bool
    hooks: Sequence[SendHook]
    trace: Trace
    send_latency_fault_enable: LatencyFaultTolerance | bool
    send_msg_max_timeout_per_request: float | None
    retry_another_broker_when_not_store_ok: bool
    retry_response_codes: Collection[int] | None
    max_pending_sends: int | None
    max_pending_bytes: int | None
    when_full: Literal["wait", "raise"]
    batch_linger: Linger
    batch_max_bytes: int
    batch_max_messages: int
    batch_buffer_bytes: int
