"""Keeps the queues a consumer holds equal to those its group allots to it.

Asks for members and queues and carries out what ``core.consumer.rebalance`` plans. Refuses to know where a queue
starts and how it is consumed.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection

from rocketmq_py.client.consumer.consumer_group import ConsumerGroup
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
"""Seconds until a topic without a route is looked for again; twice as long each time, up to the usual interval."""


class Rebalancer:
    """One task that goes round every 20 s, every second while uneven, and when told to.

    :param take: begins to consume a queue, after a delay.
    :param release: ends the consumption of a queue.
    :param queue_lock: what it takes to have a queue, and to leave it.
    :param rebuild: whether queues that were not pulled for long are let go and taken anew.
    :param changed: told topic, all its queues and ours, when ours have changed.
    """

    def __init__(
        self,
        group: ConsumerGroup,
        take: Callable[[ProcessQueue, float], None],
        release: Callable[[ProcessQueue], None],
        queue_lock: QueueLock,
        changed: Callable[[str, list[MessageQueue], list[MessageQueue]], None],
        *,
        rebuild: bool = True,
    ) -> None:
        self._group = group
        self._take = take
        self._release = release
        self._queue_lock = queue_lock
        self._changed = changed
        self._group_check = GroupCheck(group)
        self._rebuild = rebuild
        self._wake = asyncio.Event()
        self._work = Background()
        self._assignments = BrokerAssignments(group) if group.options.is_assigned else None
        self._gained: list[tuple[ProcessQueue, float]] = []
        self._missing: set[str] = set()
        self._missing_wait = MISSING_WAIT
        self._refusal: str | None = None

    def trigger(self) -> None:
        """Has a round begin soon: at once, or a second after the last one began."""
        self._wake.set()

    async def start(self) -> None:
        """Goes round once, and then from time to time until closed."""
        began = self._group.now()
        balanced = await self.round()
        self._work.start(self._run(began, balanced=balanced))

    async def close(self) -> None:
        await self._work.stop()

    async def _run(self, began: float, *, balanced: bool) -> None:
        while True:
            await self._pause(began, balanced=balanced)
            began = self._group.now()
            balanced = await self.round()

    async def _pause(self, began: float, *, balanced: bool) -> None:
        """Waits for the next round's time, or for a trigger and then the least time between two rounds."""
        now = self._group.now
        wait = rebalance_delay(now() - began, balanced=balanced, triggered=False)
        if self._missing:
            wait = min(wait, self._missing_wait)
            self._missing_wait *= 2
        try:
            async with asyncio.timeout(wait):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()
        await asyncio.sleep(rebalance_delay(now() - began, balanced=balanced, triggered=True))

    # -- one round

    async def round(self) -> bool:
        """Brings all topics up to date; whether every queue is now where it belongs."""
        self._wake.clear()
        balanced = True
        try:
            for topic in list(self._group.subscriptions):
                balanced &= await self._rebalance(topic)
            await self._forget_unsubscribed()
            await self._start_gained()
        except RocketMQError as e:
            self._refused(str(e))
            return False
        except Exception:  # noqa: BLE001 - the next round gets another chance, whatever it was
            _log.exception("rebalancing group %s failed", self._group.name)
            return False
        self._refused(None)
        return balanced

    def _refused(self, why: str | None) -> None:
        """Tells once why queues are not shared out for now, and once that they are again."""
        if why == self._refusal:
            return
        self._refusal = why
        if why is None:
            _log.warning("the queues of group %s are shared out again", self._group.name)
        else:
            _log.warning("the queues of group %s cannot be shared out for now: %s", self._group.name, why)

    async def _rebalance(self, topic: str) -> bool:
        if self._assignments is not None:
            return await self._apply_assignment(topic, self._assignments)
        route, members = await self._route_and_members(topic)
        if route is None or members is None:
            return route is None  # what is missing is looked for at a pace of its own
        me = self._group.instance.client_id
        wanted = self._wanted(route, members)
        change = plan_rebalance(self._group.owned(topic), wanted, self._group.now(), rebuild=self._rebuild)
        await self._release_queues(change.lost)
        taken = await self._queue_lock.take(change.gained) if change.gained else []
        self._add_queues(taken, alone=members == [me])
        if change.lost or taken:
            _log.info(
                "group %s of %d members: %d of %d queues of topic %s are ours (%d gone, %d new)",
                self._group.name, len(members), len(wanted), len(route.read_queues), topic, len(change.lost),
                len(taken),
            )  # fmt: skip
            self._note_change(topic, route, wanted)
        return set(wanted) == set(self._group.owned(topic)) and me in members

    def _note_change(self, topic: str, route: TopicRoute, wanted: list[MessageQueue]) -> None:
        self._group.renew_subscription(topic)
        self._group.share_limits(topic)
        self._changed(topic, route.read_queues, wanted)

    async def _apply_assignment(self, topic: str, assignments: BrokerAssignments) -> bool:
        """Takes and lets go what a broker says."""
        route = await self._route(topic)
        if route is None:
            return True
        assigned = await assignments.get(route)
        if assigned is None:
            return False
        if assignments.follow(topic, assigned):
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

    def _wanted(self, route: TopicRoute, members: list[str]) -> list[MessageQueue]:
        if self._group.is_broadcasting:
            return list(route.read_queues)
        me = self._group.instance.client_id
        return self._group.options.allocation.allocate(me, route.read_queues, members)

    async def _route_and_members(self, topic: str) -> tuple[TopicRoute | None, list[str] | None]:
        """The topic's route and the group's members in order; None for what cannot be told."""
        route = await self._route(topic)
        if route is None:
            return None, None
        if self._group.is_broadcasting:
            return route, [self._group.instance.client_id]  # the others' queues are none of our business
        try:
            members = await self._members(route)
            if self._group.instance.client_id not in members:  # the broker has not heard of us yet
                await self._group.announce()
                members = await self._members(route)
        except NetworkError as e:
            _log.warning("the members of group %s cannot be asked for now: %s", self._group.name, e)
            return route, None
        return route, sorted(members) or None

    async def _route(self, topic: str) -> TopicRoute | None:
        try:
            route = await self._group.instance.routes.get(topic)
        except (NoRouteError, NetworkError, BrokerError) as e:  # not yet there, not reachable, not permitted
            self._miss(topic, e)
            return None
        self._missing.discard(topic)
        return route

    def _miss(self, topic: str, error: RocketMQError) -> None:
        if topic in self._missing:
            return
        self._missing.add(topic)
        self._missing_wait = MISSING_WAIT
        # The broker makes the retry topic when it first hears of the group: it comes by itself.
        comes = is_retry_topic(topic) and isinstance(error, NoRouteError)
        _log.log(logging.DEBUG if comes else logging.WARNING, "topic %s is not consumed for now: %s", topic, error)

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
            _log.info("broker %s knows no member of group %s: %s", broker.broker_name, self._group.name, e)
            return []
        members = self._group_check.unique_members(ConsumerIdList.decode(answer.body).consumer_id_list)
        await self._group_check.look(address, members)
        return members

    # -- letting go

    async def _release_queues(self, queues: Collection[MessageQueue]) -> None:
        left = [self._group.queues.pop(queue) for queue in queues]
        for process in left:
            process.dropped = True
            self._release(process)
        await self._queue_lock.release([process for process in left if not process.has_invisible_time])

    async def _forget_unsubscribed(self) -> None:
        if self._assignments is not None:
            self._assignments.forget_unsubscribed()
        strays = [queue for queue in self._group.queues if queue.topic not in self._group.subscriptions]
        if strays:
            await self._release_queues(strays)

    async def lose(self, processes: Collection[ProcessQueue]) -> None:
        """Lets go of queues that turn out to be another member's, and looks again."""
        await self._release_queues([process.queue for process in processes])
        self.trigger()

    async def reset(self, process: ProcessQueue, offset: int) -> None:
        """Starts a held queue anew at ``offset``: the broker says the present one lies outside the queue.

        The offset is frozen meanwhile, so that no listener that is still running moves it back.
        """
        queue, offsets = process.queue, self._group.offsets
        process.dropped = True
        offsets.freeze(queue, offset)
        await offsets.persist_confirmed([queue])
        if self._group.queues.get(queue) is process:
            await self._release_queues([queue])
        self.trigger()

    async def forget(self, process: ProcessQueue) -> None:
        """Lets go of a queue whose topic its broker does not know any more, and of its offset.

        Whatever comes under that name later is another topic, and begins anew.
        """
        queue = process.queue
        self._group.offsets.remove(queue)
        if self._group.queues.get(queue) is process:
            _log.warning("topic %s has gone from broker %s: %s is let go", queue.topic, queue.broker_name, queue)
            await self._release_queues([queue])

    # -- taking over

    def _add_queues(self, processes: Collection[ProcessQueue], *, alone: bool) -> None:
        # Whoever had a locked queue has stored its offset before the lock could come to us.
        at_once = alone or self._group.options.orderly
        for process in processes:
            self._group.offsets.remove(process.queue)
            self._group.queues[process.queue] = process
            self._gained.append((process, 0.0 if at_once else self._group.options.first_pull_delay))

    async def _start_gained(self) -> None:
        """Pulls what was gained, once the brokers know of the new subscription versions."""
        if self._group.announced != self._group.subscriptions:
            await self._group.announce()
        gained, self._gained = self._gained, []
        for queue, delay in gained:
            if not queue.dropped:
                self._take(queue, delay)
