"""The options of a producer that concern sending."""

from __future__ import annotations

import math
from typing import NamedTuple, Self

from rocketmq_py.core.producer.accumulator import BUFFER_BYTES, BatchLimits
from rocketmq_py.core.producer.latency_fault import LatencyFaultTolerance
from rocketmq_py.core.producer.outgoing_message import check_limits
from rocketmq_py.core.producer.send_attempts import RETRY_CODES
from rocketmq_py.core.producer.send_window import SendWindow
from rocketmq_py.protocol import names
from rocketmq_py.wire.compression import CompressionType

MAX_PENDING_SENDS = 10_000
"""Default limit of sends in progress (Java: backPressureForAsyncSendNum)."""
MAX_PENDING_BYTES = 32 * 1024 * 1024


class Options(NamedTuple):
    """The options of a producer that concern sending; see :class:`rocketmq_py.aio.Producer`."""

    send_timeout: float = 3.0
    retries: int = 2
    compress_over: int | None = 4096
    compression: CompressionType = CompressionType.ZLIB
    compression_level: int = 5
    max_message_size: int = names.MAX_MESSAGE_SIZE
    create_topic: str = names.AUTO_CREATE_TOPIC
    default_queue_nums: int = 4
    latency: LatencyFaultTolerance | None = None
    attempt_seconds: float = math.inf
    retry_not_stored_safely: bool = False
    retry_codes: frozenset[int] = RETRY_CODES
    max_pending_sends: int | None = MAX_PENDING_SENDS
    max_pending_bytes: int | None = MAX_PENDING_BYTES
    raises_when_full: bool = False
    namespace: str | None = None
    unit_mode: bool = False
    batch: BatchLimits = BatchLimits()
    batch_buffer_bytes: int = BUFFER_BYTES

    def check(self) -> Self:
        """Return these options.

        :raises ConfigError: a limit admits nothing.
        """
        check_limits(self.compress_over, self.max_message_size)
        SendWindow(self.max_pending_sends, self.max_pending_bytes)
        SendWindow(None, self.batch_buffer_bytes, "batch_buffer_bytes")
        return self

    @property
    def window(self) -> SendWindow:
        """The limits of sends in progress; ``batch_buffer_bytes`` is one if the producer makes batches."""
        most = self.max_pending_bytes
        if self.batch.makes_batches:
            most = self.batch_buffer_bytes if most is None else min(most, self.batch_buffer_bytes)
        return SendWindow(self.max_pending_sends, most)
