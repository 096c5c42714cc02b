"""Creates and connects the parts of a broker that serve POP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

from rocketmq_py.accelerator import installed
from rocketmq_py.broker.cluster.escape_bridge import EscapeBridge
from rocketmq_py.broker.cluster.role import Role
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.offsets import ConsumerOffsets
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.broker.pop.acks import PopAcks
from rocketmq_py.broker.pop.checks import PopChecks
from rocketmq_py.broker.pop.java_timers import move_java_timers
from rocketmq_py.broker.pop.long_polling import CallSoon, HoldRequest, PopPolling
from rocketmq_py.broker.pop.order_info import OrderInfos
from rocketmq_py.broker.pop.peek import PeekService
from rocketmq_py.broker.pop.pop import PopService
from rocketmq_py.broker.pop.reader import PopOffsets, PopReader
from rocketmq_py.broker.pop.remote_fetch import RemoteFetcher
from rocketmq_py.broker.pop.revive import RetryMessages, Reviver
from rocketmq_py.broker.pop.revive_log import ReviveLog
from rocketmq_py.broker.pop.slave import SlaveOffsets, SlavePopChecks, SlaveReviveLog
from rocketmq_py.broker.send.ack_waiter import AckWaiter
from rocketmq_py.broker.stats import Stats
from rocketmq_py.core.metrics.counters import PopCounts
from rocketmq_py.core.pop.checkpoint_offsets import CommittableOffsets
from rocketmq_py.server import Hold, Peer, Responder
from rocketmq_py.store import Arrival, FileSystem, MessageStore
from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.store.fs.abort_file import AbortFile

_LAG_MS = 10_000
"""Maximum time by which pops may be newer than the consumer offsets on disk: a Java broker commits late."""


class PopServices:
    """The parts of a broker that serve pops.

    :param offsets: the consumer offsets; a slave keeps its own beside them (``pop.slave``).
    :param store_host: this broker's packed address.
    :param clock: returns the time in milliseconds since the epoch.
    :param ack_waiter: delays answers until records are on disk and on slaves; None: answers are immediate.
    :param escape: reads messages of other brokers.
    :param call_soon: runs a callback in the next turn of the event loop.
    :param hold: holds requests that cannot be answered yet.
    :param save: writes a file; it is called every few seconds and should not block on the disk.
    :param fs: the file system of the store.
    """

    def __init__(  # noqa: PLR0913 - all that the parts need is named in one place
        self,
        *,
        config: BrokerConfig,
        store: MessageStore,
        topics: TopicConfigs,
        groups: SubscriptionGroups,
        offsets: ConsumerOffsets,
        stats: Stats,
        store_host: bytes,
        clock: Callable[[], int],
        ack_waiter: AckWaiter | None,
        role: Role,
        escape: EscapeBridge,
        call_soon: CallSoon,
        hold: HoldRequest,
        save: Callable[[Any, Any], None],
        fs: FileSystem,
    ) -> None:
        self._fs = fs
        self._counts: PopCounts | None = None
        self._config, self._store, self._committed = config, store, offsets
        # Before the store is opened, which creates the file.
        self._crashed = AbortFile(fs, store.layout.abort).tells_crash
        used: PopOffsets = offsets
        if role.is_slave:
            positions = CommittableOffsets()
            used = SlaveOffsets(offsets, positions)
            checks: PopChecks = SlavePopChecks(config, store, topics, groups, role)
            self.revive_log: ReviveLog = SlaveReviveLog(config, store, used, store_host, clock, offsets, positions)
        else:
            checks = PopChecks(config, store, topics, groups)
            self.revive_log = ReviveLog(config, store, used, store_host, clock, installed())
        log = self.revive_log
        order_file = ConfigFile(config.store_root / "config" / "consumerOrderInfo.json", fs)
        self.orders = OrderInfos(order_file, topics, groups, clock, save)
        orders = self.orders.table
        self.polling = PopPolling(config, store, call_soon, hold)
        reader = PopReader(config, store, topics, used)
        self.pop_service = PopService(
            config, checks, reader, log, orders, self.polling.pops, stats, ack_waiter, clock
        )  # fmt: skip
        self.peek_service = PeekService(config, checks, reader, orders, self.polling, clock)
        self.acks = PopAcks(config, store, used, checks, log, orders, self.polling, ack_waiter, clock)
        self.retry_messages = RetryMessages(config, store, topics, used, store_host)
        self.reviver = Reviver(config, store, topics, groups, log, self.retry_messages, self.polling, clock)
        self.remote_fetcher = RemoteFetcher(config, escape, log, self.retry_messages, self.reviver)

    # -- life

    def load(self) -> None:
        """Read from disk which messages were popped before the start and are not acked."""
        files = self._config.store_root / "config"
        self.orders.load()
        self.revive_log.load(_saved_ms(self._fs, files / "consumerOffset.json") - _LAG_MS if self._crashed else None)
        if not self._config.is_slave:
            move_java_timers(self._store, self._committed, self.revive_log, self._fs, files / "timercheck")

    def acting_changed(self, is_acting: bool) -> None:
        """Reload the pops in flight, because this slave began or stopped acting as master; if it stopped, answer all
        held requests.
        """
        self.revive_log.reload()
        if not is_acting:
            self.release()

    def tick(self, now_ms: int, *, revives: bool = True) -> None:
        """Expire held requests, revive messages and unlock ordered queues; called several times a second.

        :param revives: messages are revived here; a slave that acts as master sends them to other masters instead.
        """
        self.polling.expire(now_ms)
        if revives:
            begin = monotonic()
            for one in self.reviver.revive(now_ms):
                self.remote_fetcher.fetch(one)
            if self._counts is not None:
                self._counts.scans.observe((monotonic() - begin) * 1000)
        for key in self.orders.table.take_free(now_ms):
            if self._config.enable_notify_after_pop_order_lock_release:
                self.polling.messages_back(key.topic, key.group, key.queue_id)

    def count(self, counts: PopCounts) -> None:
        """Count pops, acks and revived messages for metrics from now on."""
        self._counts = self.revive_log.counts = self.retry_messages.counts = counts

    def persist(self) -> None:
        """Write the files that have changed."""
        self.orders.persist()

    def persist_in_steps(self) -> Iterator[None]:
        """As :meth:`persist`, in short steps."""
        return self.orders.persist_in_steps()

    def close(self) -> None:
        """Stop the thread that loads messages to be revived."""
        self.reviver.close()

    def release(self) -> None:
        """Answer all held requests without messages, because this broker no longer serves pops."""
        self.polling.release()

    # -- events

    def hold_request(self, hold: Hold, responder: Responder) -> None:
        """Hold a request that found no messages."""
        self.polling.hold_request(hold, responder)

    def arrived(self, arrivals: list[Arrival]) -> None:
        """Wake requests that wait for new messages."""
        self.polling.arrived(arrivals)

    def is_awaited(self) -> bool:
        """True if a request waits for messages."""
        return self.polling.is_awaited()

    def rebuilt(self) -> None:
        """Run held requests again after the rebuild of a queue: messages that it has got have woken none of them."""
        self.polling.wake_all()

    def disconnected(self, peer: Peer) -> None:
        """Drop the held requests of a closed connection."""
        self.polling.disconnected(peer)

    def offset_reset(self, group: str, topic: str, queue_id: int) -> None:
        """Wake the requests of a group that wait for messages of a queue whose offset was reset."""
        self.polling.messages_back(topic, group, queue_id)


def _saved_ms(fs: FileSystem, path: Path) -> int:
    """Return when a file was last written, in milliseconds since the epoch; 0 if it does not exist."""
    return fs.modified_ms(path) if fs.size(path) is not None else 0
