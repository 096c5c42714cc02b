"""Rebalances a consumer: takes and releases queues, so that it owns those that are allocated to it.

Asks for the members of the group and the routes of its topics, and follows the plan of ``core.consumer.rebalance``.
The caller fetches and consumes the messages.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection

from rocketmq_py.client.consumer.consumer_group import ConsumerGroup
from rocketmq_py.client.consumer.failure_log import FailureLog
from rocketmq_py.client.consumer.rebalance.broker_assignment import BrokerAssignments
from rocketmq_py.client.consumer.rebalance.group_check import GroupCheck
from rocketmq_py.client.consumer.rebalance.queue_lock import QueueLock
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.core.consumer.rebalance import plan_rebalance, rebalance_delay
from rocketmq_py.core.pop.receipts import PopQueue
from rocketmq_py.core.route import TopicRoute, pick_address
from rocketmq_py.errors import BrokerError, NetworkError, NoRouteError, RocketMQError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.client import ConsumerIdList
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.group import GroupHeader
from rocketmq_py.protocol.names import is_retry_topic
from rocketmq_py.tasks import Background

_log = logging.getLogger(__name__)

MISSING_WAIT = 1.0
"""Seconds until the route of a missing topic is fetched again; doubled each time, up to ``rebalance_interval``."""

QueuesChanged = Callable[[str, list[MessageQueue], list[MessageQueue]], None]
"""A listener for rebalances: gets a topic, all its readable queues, and the queues allocated to this consumer."""


class Rebalancer:
    """Rebalances in a task: every ``rebalance_interval``, every second while unbalanced, and when triggered.

    :param start_queue: starts to fetch a queue after a delay in seconds.
    :param stop_queue: stops fetching and consuming a queue.
    :param queue_lock: locks and unlocks queues.
    :param queues_changed: called when queues of a topic were taken or released.
    :param rebuild: restart queues that have not been pulled for two minutes.
    """

    def __init__(
        self,
        group: ConsumerGroup,
        start_queue: Callable[[ProcessQueue, float], None],
        stop_queue: Callable[[ProcessQueue], None],
        queue_lock: QueueLock,
        queues_changed: QueuesChanged | None = None,
        *,
        rebuild: bool = True,
    ) -> None:
        self._group = group
        self._start_queue = start_queue
        self._stop_queue = stop_queue
        self._queue_lock = queue_lock
        self._queues_changed = queues_changed
        self._group_check = GroupCheck(group)
        self._rebuild = rebuild
        self._triggered = asyncio.Event()
        self._work = Background()
        self._assignments = BrokerAssignments(group) if group.options.is_assigned else None
        self._gained: list[tuple[ProcessQueue, float]] = []
        self._missing: dict[str, FailureLog] = {}
        self._missing_wait = MISSING_WAIT
        self._failures = group.failure_log("rebalance", "")
        self._member_failures = group.failure_log("members", "")

    def trigger(self) -> None:
        """Rebalance at once, but not earlier than one second after the start of the last rebalance."""
        self._triggered.set()

    async def start(self) -> None:
        """Rebalance once, then periodically in the background until :meth:`close`."""
        began = self._group.now()
        balanced = await self.rebalance()
        self._work.start(self._run(began, balanced=balanced))

    async def close(self) -> None:
        """Stop rebalancing; the consumer keeps its queues."""
        await self._work.stop()

    async def _run(self, began: float, *, balanced: bool) -> None:
        while True:
            await self._pause(began, balanced=balanced)
            began = self._group.now()
            balanced = await self.rebalance()

    async def _pause(self, began: float, *, balanced: bool) -> None:
        """Wait until the next rebalance is due, by interval or by a trigger.

        :param began: when the last rebalance began, on the group's monotonic clock.
        :param balanced: what the last rebalance returned.
        """
        now = self._group.now
        interval = self._group.options.rebalance_interval
        wait = rebalance_delay(now() - began, balanced=balanced, triggered=False, interval=interval)
        if self._missing:
            wait = min(wait, self._missing_wait)
            self._missing_wait *= 2
        try:
            async with asyncio.timeout(wait):
                await self._triggered.wait()
        except TimeoutError:
            return
        await asyncio.sleep(rebalance_delay(now() - began, balanced=balanced, triggered=True, interval=interval))

    # -- one round

    async def rebalance(self) -> bool:
        """Take and release queues of all subscribed topics; errors are logged.

        :returns: True if this consumer now owns exactly the queues that are allocated to it.
        """
        self._triggered.clear()
        balanced = True
        try:
            for topic in list(self._group.subscriptions):
                balanced &= await self._rebalance_topic(topic)
            await self._release_unsubscribed()
            await self._start_gained()
        except RocketMQError as e:
            level = self._failures.failed(e)
            _log.log(level, "group %s cannot be rebalanced now%s: %s", self._group.name, self._failures.duration, e)
            return False
        except Exception:  # noqa: BLE001 - the next round is tried in any case
            _log.exception("rebalancing group %s failed", self._group.name)
            return False
        recovery = self._failures.recovered()
        if recovery is not None:
            _log.log(recovery, "group %s is rebalanced again", self._group.name)
        return balanced

    async def _rebalance_topic(self, topic: str) -> bool:
        if self._assignments is not None:
            return await self._apply_assignment(topic, self._assignments)
        route, members = await self._route_and_members(topic)
        if route is None or members is None:
            return route is None  # missing topics are looked up at their own interval
        me = self._group.instance.client_id
        wanted = self._share(route, members)
        change = plan_rebalance(self._group.owned(topic), wanted, self._group.now(), rebuild=self._rebuild)
        await self._release_queues(change.lost)
        taken = await self._queue_lock.take(change.gained) if change.gained else []
        self._add_queues(taken, alone=members == [me])
        if change.lost or taken:
            _log.info(
                "group %s of %d members: this one owns %d of %d queues of topic %s (%d released, %d new)",
                self._group.name, len(members), len(wanted), len(route.read_queues), topic, len(change.lost),
                len(taken),
            )  # fmt: skip
            self._note_change(topic, route, wanted)
        return set(wanted) == set(self._group.owned(topic)) and me in members

    def _note_change(self, topic: str, route: TopicRoute, wanted: list[MessageQueue]) -> None:
        self._group.renew_subscription(topic)
        self._group.share_limits(topic)
        if self._queues_changed is not None:
            group = self._group
            queues = [group.shown(queue) for queue in route.read_queues]
            self._queues_changed(group.shown_topic(topic), queues, [group.shown(queue) for queue in wanted])

    async def _apply_assignment(self, topic: str, assignments: BrokerAssignments) -> bool:
        """Take and release queues of a topic as a broker assigns them; returns as :meth:`rebalance`."""
        route = await self._route(topic)
        if route is None:
            return True
        assigned = await assignments.get(route)
        if assigned is None:
            return False
        if assignments.update_retry_topic(topic, assigned):
            self.trigger()
        owned, now = self._group.owned(topic), self._group.now()
        pull = plan_rebalance(
            {queue: process for queue, process in owned.items() if not process.has_invisible_time}, assigned.pull, now
        )
        pop = plan_rebalance(
            {queue: process for queue, process in owned.items() if process.has_invisible_time}, assigned.pop, now
        )
        await self._release_queues([*pull.lost, *pop.lost])
        taken = await self._queue_lock.take(pull.gained) if pull.gained else []
        self._add_queues(taken, alone=False)
        self._add_queues([PopQueue(queue, now) for queue in pop.gained], alone=True)
        if pull.lost or pop.lost or taken or pop.gained:
            _log.info(
                "group %s has been assigned %d queues of topic %s to pull and %d to pop", self._group.name,
                len(assigned.pull), topic, len(assigned.pop),
            )  # fmt: skip
            self._note_change(topic, route, assigned.queues)
        return set(assigned.queues) == set(self._group.owned(topic))

    def _share(self, route: TopicRoute, members: list[str]) -> list[MessageQueue]:
        """The queues of a topic that are allocated to this member; all of them when broadcasting."""
        if self._group.is_broadcasting:
            return list(route.read_queues)
        me = self._group.instance.client_id
        return self._group.options.allocation.allocate(me, route.read_queues, members)

    async def _route_and_members(self, topic: str) -> tuple[TopicRoute | None, list[str] | None]:
        """The topic's route and the sorted client ids of the group; each is None if it cannot be fetched now."""
        route = await self._route(topic)
        if route is None:
            return None, None
        if self._group.is_broadcasting:
            return route, [self._group.instance.client_id]  # every member owns all queues
        try:
            members = await self._members(route)
            if self._group.instance.client_id not in members:  # the broker has no heartbeat of this client
                await self._group.announce()
                members = await self._members(route)
        except NetworkError as e:
            level, lasting = self._member_failures.failed(e), self._member_failures.duration
            _log.log(level, "the members of group %s cannot be read now%s: %s", self._group.name, lasting, e)
            return route, None
        recovery = self._member_failures.recovered()
        if recovery is not None:
            _log.log(recovery, "the members of group %s can be read again", self._group.name)
        return route, sorted(members) or None

    async def _route(self, topic: str) -> TopicRoute | None:
        try:
            route = await self._group.instance.routes.get(topic)
        except (NoRouteError, NetworkError, BrokerError) as e:  # does not exist, not reachable, not permitted
            self._note_missing(topic, e)
            return None
        failures = self._missing.pop(topic, None)
        recovery = failures.recovered() if failures is not None else None
        if recovery is not None:
            _log.log(recovery, "topic %s is consumed again", topic)
        return route

    def _note_missing(self, topic: str, error: RocketMQError) -> None:
        if topic not in self._missing:
            self._missing[topic] = self._group.failure_log(("topic", topic), "")
            self._missing_wait = MISSING_WAIT
        if is_retry_topic(topic) and isinstance(error, NoRouteError):
            return  # the broker creates the retry topic after the group's first heartbeat
        failures = self._missing[topic]
        level = failures.failed(error)
        _log.log(level, "topic %s is not consumed for now%s: %s", topic, failures.duration, error)

    async def _members(self, route: TopicRoute) -> list[str]:
        broker = random.choice(route.data.broker_datas)
        address = pick_address(broker.broker_addrs)
        if address is None:
            raise NetworkError(f"broker {broker.broker_name} has no address in the route of topic {route.topic}")
        try:
            answer = await self._group.instance.connections.invoke(
                address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, GroupHeader(consumer_group=self._group.name)
            )
        except BrokerError as e:
            _log.info("broker %s has no member of group %s: %s", broker.broker_name, self._group.name, e)
            return []
        members = self._group_check.unique_members(ConsumerIdList.decode(answer.body).consumer_id_list)
        await self._group_check.check_subscriptions(address, members)
        return members

    # -- release

    async def _release_queues(self, queues: Collection[MessageQueue]) -> None:
        released = [self._group.queues.pop(queue) for queue in queues]
        for process in released:
            process.dropped = True
            self._stop_queue(process)
        await self._queue_lock.release([process for process in released if not process.has_invisible_time])

    async def _release_unsubscribed(self) -> None:
        if self._assignments is not None:
            self._assignments.forget_unsubscribed()
        for topic in [topic for topic in self._missing if topic not in self._group.subscriptions]:
            self._missing.pop(topic).close()
        await self._release_queues(
            [queue for queue in self._group.queues if queue.topic not in self._group.subscriptions]
        )

    async def lose(self, processes: Collection[ProcessQueue]) -> None:
        """Release queues that another member has locked, and rebalance."""
        await self._release_queues([process.queue for process in processes])
        self.trigger()

    async def reset(self, process: ProcessQueue, offset: int) -> None:
        """Release a queue and rebalance, so that it restarts at ``offset``: an operator's or the broker's correction.

        The offset is frozen until then, so that the result of a running listener does not overwrite it.
        """
        queue, offsets = process.queue, self._group.offsets
        process.dropped = True
        offsets.freeze(queue, offset)
        await offsets.persist_confirmed([queue])
        if self._group.queues.get(queue) is process:
            await self._release_queues([queue])
        self.trigger()

    async def forget(self, process: ProcessQueue) -> None:
        """Release a queue whose topic no longer exists at its broker, and remove its offset from memory.

        The offset does not apply to a new topic of the same name.
        """
        queue = process.queue
        self._group.offsets.remove(queue)
        if self._group.queues.get(queue) is process:
            _log.warning("topic %s was deleted at broker %s: %s is released", queue.topic, queue.broker_name, queue)
            await self._release_queues([queue])

    # -- take

    def _add_queues(self, processes: Collection[ProcessQueue], *, alone: bool) -> None:
        # The previous owner of a locked queue stored its offset before it released the lock.
        at_once = alone or self._group.options.orderly
        for process in processes:
            self._group.offsets.remove(process.queue)
            self._group.queues[process.queue] = process
            self._gained.append((process, 0.0 if at_once else self._group.options.first_pull_delay))

    async def _start_gained(self) -> None:
        """Announce changed subscriptions to the brokers, then start to fetch the newly taken queues."""
        if self._group.announced != self._group.subscriptions:
            await self._group.announce()
        gained, self._gained = self._gained, []
        for queue, delay in gained:
            if not queue.dropped:
                self._start_queue(queue, delay)
