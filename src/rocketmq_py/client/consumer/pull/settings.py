"""Options by keyword, for type checkers: PullSettings.

Generated from ``rocketmq_py.client.consumer.pull.options``
by ``tools/make_blocking.py``: change that and run it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from rocketmq_py.client.client_instance import ClientSettings
from rocketmq_py.client.hooks.filter_hooks import FilterMessageHook
from rocketmq_py.core.consumer.allocation import Allocation
from rocketmq_py.model import DamagedMessage, MessageModel


class PullSettings(ClientSettings, total=False):
    """The fields of ``PullOptions`` and the client's settings."""

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
    pull_timeout: float
    broker_suspend_time: float
    timeout_when_suspend: float
    max_reconsume_times: int
