"""Options by keyword, for type checkers: SimpleSettings.

Generated from ``rocketmq_py.client.consumer.simple.options``
by ``tools/make_blocking.py``: change that and run it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rocketmq_py.client.client_instance import ClientSettings
from rocketmq_py.client.hooks.filter_hooks import FilterMessageHook
from rocketmq_py.core.consumer.pulls_ahead import PullsInFlight
from rocketmq_py.model import ConsumeFromWhere, DamagedMessage


class SimpleSettings(ClientSettings, total=False):
    """The fields of ``SimpleOptions`` and the client's settings."""

    namespace: str | None
    filter_hooks: Sequence[FilterMessageHook]
    max_decompressed_body: int
    max_decompressed_pull: int
    decode_body: bool
    decompress_body: bool
    check_crc: bool
    on_damaged: Callable[[DamagedMessage], None] | None
    consume_from: ConsumeFromWhere
    invisible_duration: float
    orderly: bool
    poll_time: float
    pull_delay_after_error: float
    pops_in_flight: PullsInFlight
