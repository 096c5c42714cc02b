"""The table of the request GET_BROKER_RUNTIME_INFO, under the keys that Apache RocketMQ's tools read.

Keys this broker has no equivalent of have the value of an idle broker.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketmq_py.broker.cluster.role import Role
from rocketmq_py.broker.config.live_settings import LiveSettings
from rocketmq_py.broker.rebuilder import Rebuilder
from rocketmq_py.broker.scrubber import Scrubber
from rocketmq_py.broker.stats import Stats, three_rates
from rocketmq_py.broker.timer.delay_levels import DelayService
from rocketmq_py.broker.timer.timers import RATE_MS, Timers
from rocketmq_py.core.timer.delay_levels import queue_of
from rocketmq_py.protocol import names
from rocketmq_py.protocol.codes import version_name
from rocketmq_py.server.slow_turns import SlowTurns
from rocketmq_py.store import FileSystem, MessageStore
from rocketmq_py.wire.command import VERSION

_POOLS = ("send", "pull", "litePull", "query", "ack")

_NOT_MEASURED = {
    **dict.fromkeys(
        ("dispatchBehindBytes", "dispatchMaxBuffer", "pageCacheLockTimeMills", "getMessageEntireTimeMax",
         "putMessageFailedTimes", "EndTransactionQueueSize"),
        "0",
    ),
    "remainTransientStoreBufferNumbs": str(2**31 - 1),
}  # fmt: skip
"""Keys without an equivalent here: thread pools, page cache locks, a buffer pool."""


SERVES_GRPC = "servesGrpc"
"""The key with which a broker says that it serves gRPC at the address that it registers."""


class RuntimeInfo:
    """Builds the table of runtime information.

    :param clock: returns the time in milliseconds since the epoch.
    :param fs: the file system of the store.
    """

    def __init__(  # noqa: PLR0913 - what it reports about
        self, settings: LiveSettings, role: Role, store: MessageStore, stats: Stats, delay: DelayService,
        timers: Timers,
        clock: Callable[[], int], slow_turns: SlowTurns, fs: FileSystem, *, scrubber: Scrubber,
        rebuilder: Rebuilder,
    ) -> None:  # fmt: skip
        self._fs = fs
        self._slow_turns = slow_turns
        self._scrubber = scrubber
        self._rebuilder = rebuilder
        self._settings = settings
        self._role = role
        self._store = store
        self._stats = stats
        self._delay = delay
        self._timers = timers
        self._clock = clock
        self.started_ms = stats.started_ms
        self._log_at_start = store.max_physical_offset

    def table(self) -> dict[str, str]:
        """Return all keys with their values as text."""
        return {
            **_NOT_MEASURED,
            **self._identity(),
            **self._traffic(),
            **self._put_times(),
            **self._disk(),
            **self._pools(),
            **self._schedule(),
            **self._waiting(),
            **self._turns(),
            **self._log_passes(),
        }

    def _log_passes(self) -> dict[str, str]:
        """What the check of the store found, and what is left of a rebuild; keys that Java brokers do not have."""
        counts = self._scrubber.counts
        return {
            "scrubbedBytes": str(counts.bytes),
            "scrubbedRecords": str(counts.records),
            "scrubDamages": str(counts.damages),
            "scrubRebuiltEntries": str(counts.entries_rebuilt),
            "scrubPasses": str(counts.passes),
            "scrubHealedRecords": str(counts.records_healed),
            "rebuildQueuesLeft": str(self._rebuilder.queues_left),
            "rebuildBytesLeft": str(self._rebuilder.bytes_left),
        }

    def _turns(self) -> dict[str, str]:
        """Long turns of the event loop; keys that Java brokers do not have."""
        turns = self._slow_turns
        return {
            "slowTurns": str(turns.count),
            "slowestTurnMillis": str(turns.longest_ms),
            "slowestTurn": turns.longest_name,
        }

    def _identity(self) -> dict[str, str]:
        return {
            "brokerActive": "true" if self._role.is_acting or not self._role.is_slave else "false",
            "brokerVersion": str(VERSION),  # of Java brokers before 5.0; without it rocketmq-exporter shows nothing
            "brokerVersionDesc": version_name(VERSION),
            SERVES_GRPC: "true",  # Java brokers do not have the key
            "bootTimestamp": str(self.started_ms),
            "startAcceptSendRequestTimeStamp": self._settings.table()["startAcceptSendRequestTimeStamp"],
            "runtime": _duration(self._clock() - self.started_ms),
        }

    def _traffic(self) -> dict[str, str]:
        stats = self._stats
        stats.count_the_rest()
        grown = self._store.max_physical_offset - self._log_at_start
        return {
            "putTps": three_rates(stats.put),
            "getTransferredTps": three_rates(stats.got),
            "getFoundTps": three_rates(stats.pulls_found),
            "getMissTps": three_rates(stats.pulls_missed),
            "getTotalTps": three_rates(stats.pulls_found, stats.pulls_missed),
            "msgPutTotalYesterdayMorning": str(stats.put_day.yesterday_morning),
            "msgPutTotalTodayMorning": str(stats.put_day.today_morning),
            "msgPutTotalTodayNow": str(stats.put_day.now),
            "msgGetTotalYesterdayMorning": str(stats.got_day.yesterday_morning),
            "msgGetTotalTodayMorning": str(stats.got_day.today_morning),
            "msgGetTotalTodayNow": str(stats.got_day.now),
            "putMessageTimesTotal": str(max(1, stats.put.count)),
            "putMessageSizeTotal": str(grown),
            "putMessageAverageSize": str(grown / max(1, stats.put.count)),
        }

    def _put_times(self) -> dict[str, str]:
        times = self._stats.put_times
        return {
            "putMessageEntireTimeMax": str(times.longest_ms),
            "putMessageDistributeTime": times.distribution() or "null",
            "putLatency99": f"{times.percentile(0.99):.2f}",
            "putLatency999": f"{times.percentile(0.999):.2f}",
        }

    def _disk(self) -> dict[str, str]:
        store = self._store
        total, used, free = self._fs.disk_usage(store.layout.root)
        ratio = str(-(-used * 100 // (used + free)) / 100)  # whole percents, rounded up as Java's
        return {
            "commitLogMinOffset": str(store.min_physical_offset),
            "commitLogMaxOffset": str(store.max_physical_offset),
            "commitLogDiskRatio": ratio,
            f"commitLogDiskRatio_{store.layout.commit_log}": ratio,
            "consumeQueueDiskRatio": ratio,
            "commitLogDirCapacity": f"Total : {_size(total)}, Free : {_size(free)}.",
            "remainHowManyDataToFlush": _size(max(0, store.max_physical_offset - store.flushed_offset)),
            "earliestMessageTimeStamp": str(store.earliest_message_time()),
        }

    def _pools(self) -> dict[str, str]:
        settings = self._settings.table()
        pools = {"EndTransactionThreadPoolQueueCapacity": settings["endTransactionPoolQueueCapacity"]}
        for name in _POOLS:
            capacity = f"{name}ThreadPoolQueueCapacity"
            pools |= {
                f"{name}ThreadPoolQueueSize": "0", capacity: settings[capacity],
                f"{name}ThreadPoolQueueHeadWaitTimeMills": "0",
            }  # fmt: skip
        return pools

    def _schedule(self) -> dict[str, str]:
        """``delivered,stored`` offsets of each delay level in use."""
        return {
            f"scheduleMessageOffset_{level}": (
                f"{offset},{self._store.queue_range(names.SCHEDULE_TOPIC, queue_of(level))[1]}"
            )
            for level, offset in self._delay.offsets.items()
        }

    def _waiting(self) -> dict[str, str]:
        """Timed messages: lag in seconds and in messages, number of undelivered ones, rates per second."""
        timers = self._timers
        return {
            "timerReadBehind": str(timers.behind_ms // 1000),
            "timerOffsetBehind": str(timers.unread),
            "timerCongestNum": str(timers.metrics.total),
            "timerEnqueueTps": f"{timers.enqueued.rate(RATE_MS):.1f}",
            "timerDequeueTps": f"{timers.dequeued.rate(RATE_MS):.1f}",
        }


def _duration(milliseconds: int) -> str:
    seconds = milliseconds // 1000
    days, hours, minutes = seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds % 60} seconds ]"


def _size(count: int) -> str:
    if count < 1024:
        return f"{count} B"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if value < 1024:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:.1f} TiB"
