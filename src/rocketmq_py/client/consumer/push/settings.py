"""Options by keyword, for type checkers: PushSettings.

Generated from ``rocketmq_py.client.consumer.options``
by ``tools/make_blocking.py``: change that and run it.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Sequence

from rocketmq_py.client.client_instance import ClientSettings
from rocketmq_py.client.hooks.filter_hooks import FilterMessageHook
from rocketmq_py.core.consumer.allocation import Allocation
from rocketmq_py.core.consumer.pulls_ahead import PullsInFlight
from rocketmq_py.model import ConsumeFromWhere, DamagedMessage, MessageModel


class PushSettings(ClientSettings, total=False):
    """The fields of ``PushOptions`` and the client's settings."""

    namespace: str | None
    filter_hooks: Sequence[FilterMessageHook]
    max_decompressed_body: int
    max_decompressed_pull: int
    decode_body: bool
    decompress_body: bool
    check_crc: bool
    on_damaged: Callable[[DamagedMessage], None] | None
    message_model: MessageModel
    local_offset_dir: str | os.PathLike[str] | None
    rebalance_interval: float
    pull_from_broker_id: int | None
    allocation: Allocation
    consume_from: ConsumeFromWhere
    consume_timestamp: datetime.datetime | str | None
    pull_threshold_for_queue: int
    pull_threshold_size_for_queue: int
    consume_max_span: int
    first_pull_delay: float
    pull_delay_after_error: float
    pulls_in_flight: PullsInFlight
    orderly: bool
    consume_threads: int
    consume_batch_size: int
    pull_batch_size: int
    pull_batch_bytes: int
    pull_interval: float
    pull_threshold_for_topic: int
    pull_threshold_size_for_topic: int
    max_reconsume_times: int
    consume_timeout: float
    stuck_after: float
    suspend_seconds: float
    client_rebalance: bool
    pop_invisible_time: float
    pop_batch_size: int
    pop_threshold_for_queue: int
    post_subscription_when_pull: bool
    close_timeout: float | None
