"""The options of a simple consumer, their defaults and what is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rocketmq_py.client.client_instance import ClientSettings
from rocketmq_py.client.consumer.options import PushOptions
from rocketmq_py.client.hooks.filter_hooks import FilterMessageHook
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import ConsumeFromWhere
from rocketmq_py.wire.compression import DEFAULT_LIMITS

LONGEST_INVISIBLE = 3 * 86400
"""Seconds a message can be kept invisible at most: brokers keep times for three days (timerMaxDelaySec)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleOptions:
    """How a simple consumer receives. Times are seconds.

    :param consume_from: where a group without stored offsets starts, FIRST_OFFSET or LAST_OFFSET; the first member that
        asks decides. While the first message of a queue is still in memory, brokers let a new group start there,
        whatever this option says.
    :param invisible_duration: how long received messages are invisible to other members; ``receive`` can override it.
    :param orderly: receive the messages of a queue in order: the next one is delivered after the last one is acked or
        visible again. Use the same value for all members of the group.
    :param poll_time: how long a broker may hold a notification request until a message comes.
    :param namespace: prefix of the group and its topics (``namespace%topic``), as Java's ``setNamespace`` adds it;
        messages and queues have names without it.
    :param filter_hooks: drop messages before they are delivered; see :class:`~rocketmq_py.FilterMessageHook`. Dropped
        messages count as consumed.
    :param pull_delay_after_error: pause of a broker after a request that failed, 0 to 3600.
    :param max_decompressed_body: bytes that a compressed body may have when it is decompressed. A message with more is
        skipped, with an error in the log that names its topic, queue and offset; it remains at the broker.
    :param max_decompressed_pull: bytes that the compressed bodies of one pop may have together; messages beyond them
        become visible again after a second.
    :param decode_body: False: messages come without their bodies. (Java: ``decodeReadBody``)
    :param decompress_body: False: bodies stay as they are stored, which ``sys_flag`` tells. (Java:
        ``decodeDecompressBody``)
    """

    consume_from: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    invisible_duration: float = 60.0
    orderly: bool = False
    poll_time: float = 15.0
    namespace: str | None = None
    filter_hooks: Sequence[FilterMessageHook] = ()
    pull_delay_after_error: float = 1.0
    max_decompressed_body: int = DEFAULT_LIMITS.max_body
    max_decompressed_pull: int = DEFAULT_LIMITS.max_total
    decode_body: bool = True
    decompress_body: bool = True

    def __post_init__(self) -> None:
        if self.consume_from not in (ConsumeFromWhere.FIRST_OFFSET, ConsumeFromWhere.LAST_OFFSET):
            raise ConfigError(f"consume_from={self.consume_from!r} must be FIRST_OFFSET or LAST_OFFSET")
        check_invisible(self.invisible_duration)
        if not 0.1 <= self.poll_time <= 60:
            raise ConfigError(f"poll_time={self.poll_time!r} is out of range: 0.1 to 60 is allowed")
        self.shared()

    def shared(self) -> PushOptions:
        """The options that this consumer has in common with a push consumer."""
        return PushOptions(
            consume_from=self.consume_from,
            namespace=self.namespace,
            filter_hooks=self.filter_hooks,
            pull_delay_after_error=self.pull_delay_after_error,
            max_decompressed_body=self.max_decompressed_body,
            max_decompressed_pull=self.max_decompressed_pull,
            decode_body=self.decode_body,
            decompress_body=self.decompress_body,
        )


class SimpleSettings(ClientSettings, total=False):
    """The names and types of :class:`SimpleOptions` and of the client's settings, for keyword arguments."""

    consume_from: ConsumeFromWhere
    invisible_duration: float
    orderly: bool
    poll_time: float
    namespace: str | None
    filter_hooks: Sequence[FilterMessageHook]
    pull_delay_after_error: float
    max_decompressed_body: int
    max_decompressed_pull: int
    decode_body: bool
    decompress_body: bool


def check_invisible(seconds: float) -> float:
    """Check an invisible duration and return it.

    :raises ConfigError: it is out of range.
    """
    if not 1 <= seconds <= LONGEST_INVISIBLE:
        raise ConfigError(
            f"an invisible duration of {seconds!r} seconds is out of range: 1 to {LONGEST_INVISIBLE} is allowed"
        )
    return seconds
