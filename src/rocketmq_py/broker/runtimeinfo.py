"""How the broker is doing, in the words of Apache RocketMQ's tools (GET_BROKER_RUNTIME_INFO).

Knows the keys its tools read. What this broker has no equivalent of (thread pool queues, page cache locks) is 0.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable

from rocketmq_py.broker.delay import DelayService
from rocketmq_py.broker.stats import Stats, three_rates
from rocketmq_py.core.delay import queue_of
from rocketmq_py.protocol import names
from rocketmq_py.protocol.codes import version_name
from rocketmq_py.store import MessageStore
from rocketmq_py.wire.command import VERSION

_POOLS = ("send", "pull", "litePull", "query", "ack")
_POOL_CAPACITY = 10_000

_ALWAYS_ZERO = (
    "dispatchBehindBytes", "pageCacheLockTimeMills", "putMessageEntireTimeMax", "remainTransientStoreBufferNumbs",
    "timerReadBehind", "timerOffsetBehind", "timerCongestNum", "EndTransactionQueueSize",
    "msgPutTotalYesterdayMorning", "msgPutTotalTodayMorning", "msgGetTotalYesterdayMorning", "msgGetTotalTodayMorning",
)  # fmt: skip


class RuntimeInfo:
    """Collects the table.

    :param clock: the time in milliseconds.
    """

    def __init__(self, store: MessageStore, stats: Stats, delay: DelayService, clock: Callable[[], int]) -> None:
        self._store = store
        self._stats = stats
        self._delay = delay
        self._clock = clock
        self.started_ms = stats.started_ms
        self._log_at_start = store.max_physical_offset

    def table(self) -> dict[str, str]:
        """Every key with its value as text."""
        return {
            **dict.fromkeys(_ALWAYS_ZERO, "0"),
            **self._identity(),
            **self._traffic(),
            **self._disk(),
            **_pools(),
            **self._schedule(),
        }

    def _identity(self) -> dict[str, str]:
        return {
            "brokerActive": "true",
            "brokerVersion": str(VERSION),
            "brokerVersionDesc": version_name(VERSION),
            "bootTimestamp": str(self.started_ms),
            "startAcceptSendRequestTimeStamp": "0",
            "runtime": _duration(self._clock() - self.started_ms),
            "pythonVersion": sys.version.split()[0],
            "pid": str(os.getpid()),
        }

    def _traffic(self) -> dict[str, str]:
        stats = self._stats
        grown = self._store.max_physical_offset - self._log_at_start
        return {
            "putTps": three_rates(stats.put),
            "getTransferedTps": three_rates(stats.got),
            "getTransferredTps": three_rates(stats.got),
            "getFoundTps": three_rates(stats.pulls_found),
            "getMissTps": three_rates(stats.pulls_missed),
            "getTotalTps": three_rates(stats.pulls_found),
            "msgPutTotalTodayNow": str(stats.put.count),
            "msgGetTotalTodayNow": str(stats.got.count),
            "putMessageTimesTotal": str(stats.put.count),
            "putMessageSizeTotal": str(grown),
            "putMessageAverageSize": f"{grown / max(1, stats.put.count):.1f}",
            "timerEnqueueTps": "0.0",
            "timerDequeueTps": "0.0",
        }

    def _disk(self) -> dict[str, str]:
        store = self._store
        total, used, free = shutil.disk_usage(store.layout.root)
        ratio = f"{used / total:.4f}"
        return {
            "commitLogMinOffset": str(store.min_physical_offset),
            "commitLogMaxOffset": str(store.max_physical_offset),
            "commitLogDiskRatio": ratio,
            "consumeQueueDiskRatio": ratio,
            "commitLogDirCapacity": f"Total : {_size(total)}, Free : {_size(free)}.",
            "remainHowManyDataToFlush": _size(max(0, store.max_physical_offset - store.flushed_offset)),
            "earliestMessageTimeStamp": str(store.earliest_message_time()),
        }

    def _schedule(self) -> dict[str, str]:
        """``delivered,stored`` of each delay level in use."""
        return {
            f"scheduleMessageOffset_{level}": (
                f"{offset},{self._store.queue_range(names.SCHEDULE_TOPIC, queue_of(level))[1]}"
            )
            for level, offset in self._delay.offsets.items()
        }


def _pools() -> dict[str, str]:
    pools: dict[str, str] = {}
    for name in _POOLS:
        pools |= {
            f"{name}ThreadPoolQueueSize": "0",
            f"{name}ThreadPoolQueueCapacity": str(_POOL_CAPACITY),
            f"{name}ThreadPoolQueueHeadWaitTimeMills": "0",
        }
    return pools


def _duration(milliseconds: int) -> str:
    seconds = milliseconds // 1000
    days, hours, minutes = seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds % 60} seconds ]"


def _size(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
