"""Creates the services of a broker, connects them with each other, and passes events to them.

It opens no sockets: tests can pass requests to the handlers of :meth:`Services.router`, which use a real store.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from time import monotonic

from rocketmq_py.accelerator import installed
from rocketmq_py.broker.acting.acting_master import ActingMaster
from rocketmq_py.broker.acting.timer_escape import TimerEscape
from rocketmq_py.broker.cluster.assignment import QueueAssignments
from rocketmq_py.broker.cluster.clients import Clients
from rocketmq_py.broker.cluster.escape_bridge import EscapeBridge
from rocketmq_py.broker.cluster.membership import Membership
from rocketmq_py.broker.cluster.registration import Registration
from rocketmq_py.broker.cluster.role import Master, Role
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.config.live_settings import LiveSettings
from rocketmq_py.broker.grpc.access import CallAccess
from rocketmq_py.broker.grpc.local_requests import LocalRequests
from rocketmq_py.broker.grpc.other_masters import OtherMasters
from rocketmq_py.broker.grpc.places import OwnPlaces, OwnTopics
from rocketmq_py.broker.grpc.service import own_service
from rocketmq_py.broker.ha.pre_online import take_back
from rocketmq_py.broker.ha.replicas import Replicas
from rocketmq_py.broker.ha.replication import Replication
from rocketmq_py.broker.ha.slave_sync import SlaveSync, Tables
from rocketmq_py.broker.handlers.admin import AdminHandlers, BrokerHandlers
from rocketmq_py.broker.handlers.clients import AssignmentHandlers, ClientHandlers
from rocketmq_py.broker.handlers.groups import GroupHandlers
from rocketmq_py.broker.handlers.held import HeldHandlers
from rocketmq_py.broker.handlers.messages import (
    PullHandlers,
    ReplyHandlers,
    SendHandlers,
    SlaveSendHandlers,
    TransactionHandlers,
)
from rocketmq_py.broker.handlers.offsets import ResetHandlers
from rocketmq_py.broker.handlers.pop import PopHandlers
from rocketmq_py.broker.handlers.query import QueryHandlers
from rocketmq_py.broker.handlers.relay import RelayHandlers
from rocketmq_py.broker.handlers.statistics import StatisticsHandlers
from rocketmq_py.broker.handlers.timers import TimerHandlers
from rocketmq_py.broker.metadata.file_saver import ConfigFileSaver
from rocketmq_py.broker.metadata.filters import ConsumerFilters
from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.lost_entries import restore_groups, restore_topics, waiting_queues
from rocketmq_py.broker.metadata.offset_file import OffsetFile
from rocketmq_py.broker.metadata.offsets import ConsumerOffsets
from rocketmq_py.broker.metadata.queue_mappings import TopicQueueMappings
from rocketmq_py.broker.metadata.request_modes import RequestModes
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.broker.pop.services import PopServices
from rocketmq_py.broker.pop.slave import SlaveReviveLog
from rocketmq_py.broker.pull.cold_pulls import THREADS, ColdPulls
from rocketmq_py.broker.pull.pull import COLD, PullService
from rocketmq_py.broker.pull.pull_request_hold import PullRequestHoldService
from rocketmq_py.broker.pull.slave_pull import SlavePullService
from rocketmq_py.broker.rebuilder import Rebuilder
from rocketmq_py.broker.record_permissions import RecordPermissions
from rocketmq_py.broker.records.message_properties import PropertyWriter
from rocketmq_py.broker.runtime_info import RuntimeInfo
from rocketmq_py.broker.scrubber import Scrubber
from rocketmq_py.broker.send.ack_waiter import ACK_WAIT, AckWaiter, WaitingSends
from rocketmq_py.broker.send.half_messages import HalfMessageCache
from rocketmq_py.broker.send.reply_messages import ReplyService
from rocketmq_py.broker.send.retry_topics import RetryTopics
from rocketmq_py.broker.send.send import SendService
from rocketmq_py.broker.send.send_message_back import SendBackService
from rocketmq_py.broker.send.send_validation import SendTargets
from rocketmq_py.broker.static_topic.clean_up import MappingCleanUp
from rocketmq_py.broker.static_topic.forward import FORWARDED, Forwarder, TranslatedHold, TranslatingResponder
from rocketmq_py.broker.static_topic.handlers import StaticOffsetHandlers, StaticTopicHandlers
from rocketmq_py.broker.static_topic.messages import StaticTopicPuller, StaticTopicSender
from rocketmq_py.broker.stats import Stats
from rocketmq_py.broker.timer.delay_levels import DelayService
from rocketmq_py.broker.timer.recall import RecallService
from rocketmq_py.broker.timer.slave_timers import SlaveTimers
from rocketmq_py.broker.timer.timer_metrics import TimerMetrics
from rocketmq_py.broker.timer.timers import Timers
from rocketmq_py.broker.transaction.check import TransactionCheck
from rocketmq_py.broker.transaction.transactions import Transactions
from rocketmq_py.core.broker.lock_table import LockTable
from rocketmq_py.core.metrics.counters import MessageCounts
from rocketmq_py.core.pop.long_polling import PollKey
from rocketmq_py.core.timer.delay_levels import DelayLevels
from rocketmq_py.errors import StoreNotWritable
from rocketmq_py.grpc.cluster import Parts
from rocketmq_py.grpc.service import MessagingService
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.names import SCHEDULE_TOPIC
from rocketmq_py.protocol.pop_checkpoint import revive_topic
from rocketmq_py.remoting.rpc_client import NewRpcClient, RpcClient
from rocketmq_py.server import Hold, Peer, Responder, Router
from rocketmq_py.server.access.auth_dispatcher import AuthDispatcher
from rocketmq_py.server.requests.dispatcher import Dispatcher
from rocketmq_py.server.sliced_work import PeriodicSlicedJob, SlicedWork
from rocketmq_py.server.slow_turns import SlowTurns
from rocketmq_py.server.tls import TlsSettings
from rocketmq_py.store import Arrival, FileSystem, MessageStore, OsFileSystem, StoreConfig, Workers
from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.store.config.config_journal import JournaledFile
from rocketmq_py.store.settings import delay_levels
from rocketmq_py.wire.ids import UniqueKeys
from rocketmq_py.wire.record import pack_host

_REBUILD_SECONDS = 0.004
"""Time for the rebuild of consume queues in each turn of the event loop."""

CallSoon = Callable[[Callable[[], None]], object]


class Services:
    """All parts of a broker except its listener and its periodic jobs.

    :param port: the port that the broker listens on; it is part of every stored message.
    :param clock: returns the time in milliseconds since the epoch.
    :param call_soon: runs a callback in the next turn of the event loop.
    :param new_rpc_client: creates a client for requests to other servers.
    :param fs: the file system.
    :param tls: TLS settings, for replication.
    :param store_ip: the address that stored messages hold; ``brokerIP1`` by default, which may be a name.
    :param workers: executors for blocking work on files; threads by default.
    """

    def __init__(  # noqa: PLR0913 - what a broker is made of
        self,
        config: BrokerConfig,
        store_config: StoreConfig,
        port: int,
        clock: Callable[[], int],
        call_soon: CallSoon,
        new_rpc_client: NewRpcClient = RpcClient,
        fs: FileSystem | None = None,
        tls: TlsSettings | None = None,
        *,
        store_ip: str | None = None,
        workers: Workers | None = None,
    ) -> None:
        self.slow_turns = SlowTurns()
        """Long turns of the event loop; the listener and the periodic jobs report to it."""
        self._config = config
        self._fs = fs or OsFileSystem(installed())
        self._new_rpc_client = new_rpc_client
        self._store_config = store_config
        self._clock = clock
        self._call_soon = call_soon
        self.slices = SlicedWork(call_soon)
        self.address = f"[{config.broker_ip1}]:{port}" if ":" in config.broker_ip1 else f"{config.broker_ip1}:{port}"
        self._store_host = pack_host(store_ip or config.broker_ip1, port)
        self.store = MessageStore(
            config.store_root, store_config, store_host=self._store_host, fs=self._fs, clock=clock,
            is_batched=self._has_batch_queues, is_slave=config.is_slave,
            on_arrival=self._arrived_at_slave if config.is_slave else self._arrived, on_written=self._written,
            accelerator=installed(), workers=workers,
        )  # fmt: skip
        self._config_thread = self.store.workers.executor("rocketmq-config")
        self.saver = ConfigFileSaver(self._config_thread)
        self.settings = LiveSettings(config, store_config, port, clock, on_change=self._settings_changed)
        self.role = Role(config, port)
        self.replication = Replication(config, self.store, self.role, self.address, clock, tls)
        self._calls: MessagingService | None = None
        self.record_permissions = RecordPermissions(self.store, config.broker_cluster_name)
        self._files: list[ConfigFile] = []
        self._config_folder = config.store_root / "config"
        self._make_tables()
        self._make_timers()
        self._make_send_path()
        self._make_pull_path()
        self._make_transactions()
        self._make_pop()
        self._make_cluster()
        if self.store.lent is not None:
            self.store.lent.is_awaited, self.store.lent.on_counted = self._is_awaited, self.stats.counted
            self.stats.uncounted = self.store.lent.counted
        self._filters_job = PeriodicSlicedJob(self.slices, self.filters.persist_in_steps)
        self._pops_job = PeriodicSlicedJob(self.slices, self.pop.persist_in_steps)

    def _has_batch_queues(self, topic: str) -> bool:
        return self.topics.has_batch_queues(topic)

    def _may_exist(self, topic: str) -> bool:
        """True if a topic exists, or its table may lack it."""
        return topic in self.topics.table or self.topics.may_be_old

    def _file(self, name: str) -> ConfigFile:
        self._files.append(ConfigFile(self._path(name), self._fs))
        return self._files[-1]

    def _path(self, name: str) -> Path:
        return self._config_folder / name

    def _make_tables(self) -> None:
        config, clock, save = self._config, self._clock, self.saver.save
        topics, groups = (
            JournaledFile(self._path(name), self._fs, thread=self._config_thread)
            for name in ("topics.json", "subscriptionGroup.json")
        )
        self.topics = TopicConfigs(topics, config, clock, self._topics_changed)
        self.groups = SubscriptionGroups(groups, config, clock)
        step = config.consumer_offset_update_version_step
        offsets = OffsetFile(self._file("consumerOffset.json"))
        self.offsets = ConsumerOffsets(offsets, step, clock, save, self._offset_reset)
        keep_ms = config.filter_data_clean_time_span
        self.filters = ConsumerFilters(self._file("consumerFilter.json"), keep_ms, clock, save)
        modes = self._file("messageRequestMode.json")
        self.modes = RequestModes(modes, config, self.topics, self.groups, self._config_thread)
        self.clients = Clients(config, self.topics, self.groups, self.filters, clock, self.slices)
        self.locks = LockTable()
        self.stats = Stats(clock(), config.broker_cluster_name, self.topics.is_system, self.slices.add)
        mappings = self._file("topicQueueMapping.json")
        self.mappings = TopicQueueMappings(mappings, config.broker_name, clock, self._config_thread)
        self.registration = Registration(
            config, self.topics, self.mappings.infos, self._new_rpc_client, self.address, self.role
        )

    def _make_timers(self) -> None:
        config, clock, store, save = self._config, self._clock, self.store, self.saver.save
        levels = DelayLevels(delay_levels(self._store_config.message_delay_level))
        step = config.delay_offset_update_version_step
        self.delay = DelayService(store, levels, self._file("delayOffset.json"), step, clock, save)
        metrics = TimerMetrics(self._file("timermetrics"), clock, save)
        make = SlaveTimers if self.role.is_slave else Timers
        revive = revive_topic(config.broker_cluster_name)
        self.timers: Timers = make(store, self.delay, metrics, revive, self._fs, clock)

    def _make_send_path(self) -> None:
        config, clock, store = self._config, self._clock, self.store
        keys = UniqueKeys(self._store_host[:-4], os.getpid(), random.getrandbits(32))
        property_writer = PropertyWriter(
            config.region_id, config.trace_on, config.broker_cluster_name, lambda: keys.next(clock())
        )
        retries = RetryTopics(self.topics, self.groups, self.locks, clock)
        self._halves = HalfMessageCache()
        self._ack_waiter = AckWaiter.of(store, config, self.replication.slaves_wanted, clock)
        self.waiting_sends = WaitingSends(
            store, config, clock, self.replication.master.acknowledged_offset, self.stats.put_times
        )  # fmt: skip
        self.replication.master.add_progress_listener(self.waiting_sends.release)
        self.sender = SendService(
            config, store, SendTargets(config, self.topics, clock), self.timers.redirect, property_writer, retries,
            self._halves, self._store_host, self._ack_waiter,
        )  # fmt: skip
        self.reply_service = ReplyService(
            config, store, self.sender, self.clients, self._store_host, self.address, clock, self._ack_waiter
        )

    def _make_pull_path(self) -> None:
        self.forwarder = Forwarder(self._config, self._new_rpc_client(), self._clock)
        config, store = self._config, self.store
        self.other_masters = OtherMasters(
            config.broker_name, self.topics, lambda: bool(config.namesrv_addresses), self.forwarder, self._clock
        )
        make = partial(SlavePullService, self.role) if self.role.is_slave else PullService
        self.pull_service = make(
            config, store, self.topics, self.groups, self.offsets, self.clients, self.filters, self.stats, self._clock
        )
        self.mapping_clean_up = MappingCleanUp(
            self._store_config, self._config.broker_name, self.mappings, self.store, self.forwarder, self._clock
        )
        self._static_puller = StaticTopicPuller(self.pull_service, self.mappings, self.forwarder, self._clock)
        self.pull_request_hold = PullRequestHoldService(
            self.pull_service, store, self.slices, self._clock, lambda: config.pull_thread_pool_queue_capacity
        )
        readers = [store.workers.executor(f"rocketmq-read-{number}") for number in range(THREADS)]
        self.cold_pulls = ColdPulls(
            self.pull_service, store.load, self.keep_hold, readers, lambda: config.pull_thread_pool_queue_capacity,
            store.commit_pending,
        )  # fmt: skip

    def _make_transactions(self) -> None:
        config, store, clock = self._config, self.store, self._clock
        self.transactions = Transactions(
            config, store, self.offsets, self._halves, self.timers.redirect, self._store_host, clock, self._call_soon
        )
        self.transaction_check = TransactionCheck(
            config, store, self.topics, self.offsets, self.clients, self.transactions, self._store_host, clock
        )

    def _make_pop(self) -> None:
        self.escape = EscapeBridge(self._config, self._new_rpc_client(), self._clock)
        self.pop = PopServices(
            config=self._config, store=self.store, topics=self.topics, groups=self.groups, offsets=self.offsets,
            stats=self.stats, store_host=self._store_host, clock=self._clock, ack_waiter=self._ack_waiter,
            role=self.role, escape=self.escape, call_soon=self._call_soon, hold=self.keep_hold, save=self.saver.save,
            fs=self._fs,
        )  # fmt: skip
        self.role.add_acting_listener(self.pop.acting_changed)

    def _make_cluster(self) -> None:
        """Create the services that send requests to other brokers and to name servers."""
        config, clock, register_again = self._config, self._clock, self.registration.renew
        self.route_client = self._new_rpc_client()
        self.membership = Membership(config, self.role, self._new_rpc_client(), self.address, register_again)
        timers = None
        if isinstance(self.timers, SlaveTimers) and isinstance(self.pop.revive_log, SlaveReviveLog):
            timers = TimerEscape(self.timers, self.escape, self.pop.revive_log, clock)
        self.acting = ActingMaster(
            config, self.escape, self.delay, self.transactions, self.transaction_check, self.pop, timers, clock
        )
        self.acting.watch(self.role)
        replicas = Replicas(self.membership.members, self.role, self._new_rpc_client(), self.address)
        self.rebuilder = Rebuilder(self.store, SlicedWork(self._call_soon, _REBUILD_SECONDS), self._queue_rebuilt)
        self.scrubber = Scrubber(self.store, self.slices, clock, replicas)
        tables = Tables(self.topics, self.mappings, self.groups, self.offsets, self.delay, self.modes, self.timers)
        self.slave_sync = SlaveSync(config, self.role, tables, self._new_rpc_client, self.address, register_again)

    def _topic_handlers(self) -> StaticTopicHandlers:
        return StaticTopicHandlers(
            self._config, self.topics, self.store, self.offsets, self.stats, self.registration, self.mappings,
            self.slices, self.pull_request_hold.moved,
        )  # fmt: skip

    def router(self, *others: object) -> Router:
        """Create a router with the handlers of all requests of this broker, and the handlers ``others``."""
        config, store, stats = self._config, self.store, self.stats
        runtime = RuntimeInfo(
            self.settings, self.role, store, stats, self.delay, self.timers, self._clock, self.slow_turns, self._fs,
            scrubber=self.scrubber, rebuilder=self.rebuilder,
        )  # fmt: skip
        return Router(
            self._send_handlers(),
            ReplyHandlers(self.reply_service),
            PullHandlers(self._static_puller),
            PopHandlers(self.pop),
            HeldHandlers(self.pull_request_hold, self.pop.polling, self.slices),
            AssignmentHandlers(
                QueueAssignments(config, self.topics, self.clients, self.modes, self.route_client, self._clock),
                self.modes,
                self.slices,
            ),
            StaticOffsetHandlers(
                config, store, self.topics, self.groups, self.offsets, self.slices, self.mappings, self.forwarder
            ),
            ClientHandlers(config, self.clients, self.locks, self._clock),
            self._topic_handlers(),
            GroupHandlers(
                config,
                self.groups,
                self.topics,
                store,
                self.offsets,
                self.clients,
                stats,
                self.address,
                slices=self.slices,
                is_static=self.mappings.has,
            ),
            BrokerHandlers(self.replication, self.membership),
            QueryHandlers(store, self.clients),
            TransactionHandlers(self.transactions),
            TimerHandlers(
                self.timers,
                RecallService(config, store, self.topics, self.timers.redirect, self._clock),
                config.region_id,
            ),
            RelayHandlers(config, store, self.topics, self.groups, self.clients),
            ResetHandlers(config, store, self.topics, self.groups, self.offsets, self.clients),
            StatisticsHandlers(
                config,
                store,
                self.topics,
                self.groups,
                self.offsets,
                self.clients,
                stats,
                self.address,
                slices=self.slices,
            ),
            AdminHandlers(self.settings, runtime, self.delay, store, self.topics, self.registration),
            *others,
        )

    def messaging_service(self, access: AuthDispatcher, dispatcher: Dispatcher) -> MessagingService:
        """Create the methods of gRPC."""
        host, port = self.address.rsplit(":", 1)
        name, topics = self._config.broker_name, OwnTopics(self._config, self.topics)
        requests = LocalRequests(dispatcher, name, self.other_masters)
        places = OwnPlaces(name, topics, lambda: (host.strip("[]"), int(port)), self.other_masters)
        parts = Parts(
            requests, CallAccess(access, self.record_permissions), topics, self.groups, self.clients, places, name,
            lambda: self.store.config.max_message_size, self._clock, self.pop.acks.check,
        )  # fmt: skip
        self._calls = own_service(parts, requests)
        return self._calls

    def _send_handlers(self) -> object:
        if self.role.is_slave:
            return SlaveSendHandlers(self._config)
        redirect = self.timers.redirect
        back = SendBackService(self._config, self.store, self.topics, self.groups, redirect, self.stats)
        return SendHandlers(StaticTopicSender(self.sender, self.mappings), back)

    # -- life

    def open(self) -> None:
        """Open the store and load the tables.

        :raises StoreLocked: another process uses the store.
        :raises StoreCorrupt: the store contradicts itself or the configuration.
        :raises StoreNotWritable: the disk is full or fails.
        """
        try:
            self._open_files()
        except OSError as e:
            what = f"the store at {self._config.store_root} cannot be opened for writing: {e}"
            raise StoreNotWritable(f"{what}; free disk space or repair the disk, then start again") from e
        self.role.add_master_listener(self._master_is)
        self.replication.open()

    def _open_files(self) -> None:
        folders = frozenset(self._fs.names(self.store.layout.consume_queue))
        self.topics.read_file()  # recovery needs the type of the queues of each topic
        self.store.open(self._may_exist)
        messages_end = self.store.max_physical_offset
        try:
            for table in (
                self.topics, self.mappings, self.groups, self.offsets, self.filters, self.delay, self.modes,
            ):  # fmt: skip
                table.load()
            self._restore_lost(folders)
            self.transactions.load()
            self.pop.load()
            self.timers.load(messages_end)
            for file in self._files:
                self.saver.restore(file)
        except BaseException:
            self.store.close()
            raise

    def _restore_lost(self, folders: Collection[str]) -> None:
        """Create topics and groups again that their files have lost; a slave gets them from its master.

        :param folders: names of the folders of consume queues before recovery.
        """
        store, offsets = self.store, self.offsets.table
        if self.topics.may_be_old:
            begins = {(SCHEDULE_TOPIC, level - 1): offset for level, offset in self.delay.offsets.items()}
            queues = [*store.queues(), *waiting_queues(store, begins)]
            restore_topics(self.topics, queues, store.batched_topics(), offsets)
        elif not self.topics.is_intact and not self.role.is_slave:
            # Without a checksum. Recovery makes queues of deleted topics; those that were there before have a topic.
            queues = [queue for queue in store.queues() if queue[0] in folders]
            restore_topics(self.topics, queues, store.batched_topics(), offsets)
        if self.groups.may_be_old:
            restore_groups(self.groups, offsets)

    async def take_back(self) -> None:
        """At the start of a master, copy the delivery progress and offsets of a slave that acted as master, if any."""
        if self.role.is_slave or not self._config.enable_slave_acting_master:
            return
        if await take_back(self.membership, self.route_client, self.offsets, self.delay, self.timers):
            self.transactions.load()
            self.pop.revive_log.reload()

    def tick_store(self) -> None:
        """Flush, write the index, and check transactions; called several times a second."""
        now = self._clock()
        self.store.tick(now)
        if self.role.is_slave:
            return
        self.transactions.tick(now)
        self.transaction_check.tick(now)

    def tick_delays(self) -> bool:
        """Deliver due messages with delay levels; return True if more are due. Called several times a second."""
        return not self.role.is_slave and self.delay.deliver(self._clock())

    def tick_timers(self) -> bool:
        """Deliver due timed messages; return True if there may be more. Called many times a second."""
        return self.timers.tick(self._clock())

    def clean_store(self) -> None:
        """Delete expired files and check the disk space; called every few seconds."""
        self.store.clean(self._clock())
        self.timers.clean()

    def clean_mappings(self) -> None:
        """Clean up the mappings of static topics in the hours of ``deleteWhen``; called every few minutes."""
        if not self.role.is_slave:
            self.mapping_clean_up.start_if_due()

    def catch_up(self) -> None:
        """Write the complete files of topics and groups if these lack changes; called every second."""
        self.topics.catch_up()
        self.groups.catch_up()

    def tick_clients(self) -> None:
        """Answer requests on hold that timed out, and sample the counters; called several times a second."""
        now = self._clock()
        self.pull_request_hold.expire(now)
        self.clients.tick(now)
        self.pop.tick(now, revives=not self.role.is_slave)
        self.stats.tick(now)

    def tick_calls(self) -> None:
        """Renew receipts of clients that speak gRPC, and forget clients that are gone; called every few seconds."""
        if self._calls is not None:
            self._calls.tick()

    def sweep(self) -> None:
        """Answer held pulls whose queue has messages, in case an arrival was missed; called every few seconds."""
        self.pull_request_hold.sweep()

    def persist_filters(self) -> None:
        """Drop outdated filters of groups and write their file, in slices; called every few seconds."""
        self._filters_job.start()

    def persist_pops(self) -> None:
        """Remove outdated entries of orderly pops and write their file, in slices; called every few seconds."""
        self._pops_job.start()

    def close(self) -> None:
        """Write everything to disk and close the store."""
        try:
            self.transactions.close()
            self.transaction_check.close()
            self.offsets.persist()
            self.filters.persist()
            self.pop.persist()
            self.delay.persist()
            self.timers.close()
            self.saver.close()
            self.topics.persist()
            self.groups.persist()
        finally:
            self.route_client.close()
            self.saver.close()
            self.cold_pulls.close()
            self.scrubber.close()
            self.rebuilder.close()
            self.delay.close()
            self.pop.close()
            self.store.close()

    def count(self, counts: MessageCounts) -> None:
        """Count messages and transactions for metrics from now on."""
        self.sender.counts = self.transactions.counts = self.stats.message_counts = counts
        self.timers.counts = counts
        self.pop.count(counts.pops)

    # -- events

    def commit_read(self) -> None:
        """Write what the requests of a read have stored, and count how long that took.

        :raises StoreError: it cannot be written.
        """
        before, begin = self.stats.put.count, monotonic()
        self.store.commit_pending()
        count = self.stats.put.count - before
        if count and self._ack_waiter is None:
            self.stats.put_times.observe(int((monotonic() - begin) * 1000), count)

    def keep_hold(self, hold: Hold, responder: Responder) -> None:
        """Give a request that cannot be answered yet to the service that answers it later."""
        if isinstance(hold, TranslatedHold):
            responder = TranslatingResponder(responder, hold.translate)
        if hold.key == COLD:
            self.cold_pulls.keep(hold, responder)
        elif hold.key == FORWARDED:
            self.forwarder.run(hold, responder)
        elif hold.key == ACK_WAIT:
            self.waiting_sends.keep(hold, responder)
        elif isinstance(hold.key, PollKey):
            self.pop.hold_request(hold, responder)
        else:
            self.pull_request_hold.keep(hold, responder)

    def full_lanes(self) -> tuple[str, ...]:
        """Return the names of the lanes whose requests are refused for now, because too many of them wait."""
        return ("send",) if len(self.waiting_sends) >= self._config.send_thread_pool_queue_capacity else ()

    def disconnected(self, peer: Peer) -> None:
        """Drop held requests and registered clients of a closed connection."""
        self.pull_request_hold.disconnected(peer)
        self.cold_pulls.disconnected(peer)
        self.pop.disconnected(peer)
        self.clients.disconnected(peer)

    def _topics_changed(self, changed: list[TopicConfig]) -> None:
        self.sender.targets.forget()
        self.registration.topics_changed(changed)

    def _offset_reset(self, group: str, topic: str, queue_id: int) -> None:
        self.pull_request_hold.reset(group, topic, queue_id)
        self.pop.offset_reset(group, topic, queue_id)

    def _queue_rebuilt(self) -> None:
        self.pull_request_hold.sweep()
        self.pop.rebuilt()

    def _master_is(self, master: Master) -> None:
        """Answer all pulls on hold at this slave when the master is back, so that consumers return to the master."""
        if master.address is not None:
            self.pull_request_hold.wake_all()

    def _settings_changed(self, keys: frozenset[str]) -> None:
        """Apply changed settings; a changed ``brokerPermission`` is registered at the name servers at once."""
        self.store.reload_limits()
        self.sender.apply_settings()
        if "brokerPermission" in keys:
            self.topics.announce_all()

    def _written(self) -> None:
        self.replication.master.written()

    def _arrived(self, arrivals: list[Arrival]) -> None:
        self.stats.arrived(arrivals)
        self.pull_request_hold.arrived(arrivals)
        self.pop.arrived(arrivals)

    def _is_awaited(self) -> bool:
        """True if a request waits for messages."""
        return len(self.pull_request_hold) > 0 or self.pop.is_awaited()

    def _arrived_at_slave(self, arrivals: list[Arrival]) -> None:
        self.slave_sync.arrived(arrival.topic for arrival in arrivals)
        self._arrived(arrivals)
