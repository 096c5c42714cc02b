"""Samples of rates and lags over time, taken while somebody looks, in memory of a fixed size."""

from __future__ import annotations

import asyncio
import contextlib
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rocketmq_py.client.admin.admin import Admin
from rocketmq_py.console.connection import Connection, each
from rocketmq_py.console.views import cluster as cluster_view
from rocketmq_py.console.views.groups import owners_of
from rocketmq_py.errors import BrokerError, NetworkError, RocketMQError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.admin import OffsetWrapper, TopicOffset
from rocketmq_py.tasks import Background

INTERVAL_SECONDS = 5.0
KEPT = 720
"""Number of samples: an hour."""
IDLE_SECONDS = 600.0
"""How long samples are taken after somebody looked last."""
MOST_GROUPS, MOST_QUEUES = 16, 2048
"""Groups that are sampled at a time, and queues of one group."""
MOST_CHANGES = 200
_MOST_MEMBERS, _MOST_TOPICS = 32, 8

UNKNOWN = -1
"""A lag that nobody told. Lags of queues that lost messages before they were consumed are stored as -2 - lag."""


def cell(state: OffsetWrapper | None, extent: TopicOffset | None) -> int:
    """Return a sample of a queue: its lag, UNKNOWN, or -2 - lag if messages were deleted before they were consumed."""
    if state is None:
        return UNKNOWN
    lost = extent is not None and 0 <= state.consumer_offset < min(extent.min_offset, state.broker_offset)
    return -2 - state.lag if lost else state.lag


def lag_of(sample: int) -> int | None:
    """Return the lag of a sample; None if it is unknown."""
    return None if sample == UNKNOWN else sample if sample >= 0 else -2 - sample


Owners = Mapping[MessageQueue, str]


@dataclass
class GroupSamples:
    """The samples of one group; all lists of queues have one sample for each time.

    :ivar changes: queues that changed their owner, the newest first.
    :ivar left_out: number of queues that are not sampled.
    """

    at: array[int] = field(default_factory=lambda: array("q"))
    queues: dict[MessageQueue, array[int]] = field(default_factory=dict)
    owners: Owners | None = None
    changes: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MOST_CHANGES))
    left_out: int = 0
    seen: float = 0.0

    def add(self, at: int, cells: Mapping[MessageQueue, int], owners: Owners | None) -> None:
        """Add a sample.

        :param owners: client ids of the owners; None if they are not known.
        """
        for queue in cells:
            if queue not in self.queues and len(self.queues) < MOST_QUEUES:
                self.queues[queue] = array("q", [UNKNOWN]) * len(self.at)
        self.left_out = sum(queue not in self.queues for queue in cells)
        self.at.append(at)
        for queue, samples in self.queues.items():
            samples.append(cells.get(queue, UNKNOWN))
        if len(self.at) > KEPT:
            for samples in (self.at, *self.queues.values()):
                del samples[0]
        if owners is not None:
            self._note_owners(at, owners)

    def _note_owners(self, at: int, owners: Owners) -> None:
        before, self.owners = self.owners, owners
        if before is None:
            return
        for queue in sorted({*before, *owners}):
            if before.get(queue) != owners.get(queue):
                self.changes.appendleft(
                    {"at": at, "topic": queue.topic, "broker": queue.broker_name, "queue": queue.queue_id,
                     "before": before.get(queue), "after": owners.get(queue)}
                )  # fmt: skip

    def totals(self) -> list[int | None]:
        """Return the group's lag at each time; None where no queue is known."""
        found: list[int | None] = []
        for number in range(len(self.at)):
            known = [lag for samples in self.queues.values() if (lag := lag_of(samples[number])) is not None]
            found.append(sum(known) if known else None)
        return found


class History:
    """Takes samples every ``INTERVAL_SECONDS`` of what somebody looked at in the last ``IDLE_SECONDS``.

    :param now: returns the time in milliseconds since the epoch.
    :param clock: monotonic clock, in seconds.
    """

    def __init__(self, connection: Connection, now: Callable[[], int], clock: Callable[[], float]) -> None:
        self._connection = connection
        self._now = now
        self._clock = clock
        self._jobs = Background()
        self.rates: deque[tuple[int, dict[str, tuple[float | None, float | None]]]] = deque(maxlen=KEPT)
        """Time, and messages in and out per second by the address of each broker."""
        self._rates_seen: float | None = None
        self._groups: OrderedDict[str, GroupSamples] = OrderedDict()

    async def close(self) -> None:
        """Take no more samples."""
        await self._jobs.stop()

    async def watch_rates(self) -> None:
        """Sample the rates of all brokers from now on; the first sample is taken at once."""
        first = self._rates_seen is None
        self._rates_seen = self._clock()
        if first:
            await self.sample_rates()
        self._run()

    async def watch_group(self, name: str) -> GroupSamples:
        """Sample a group from now on; the first sample is taken at once.

        :raises RocketMQError: the cluster does not answer the first time.
        """
        found = self._groups.get(name)
        if found is None:
            found = GroupSamples()
            await self.sample_group(name, found)
            while len(self._groups) >= MOST_GROUPS:
                self._groups.popitem(last=False)
            self._groups[name] = found
        self._groups.move_to_end(name)
        found.seen = self._clock()
        self._run()
        return found

    def _run(self) -> None:
        if not self._jobs.runs:
            self._jobs.start(self._sample_on())

    async def _sample_on(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            await self.sample()

    async def sample(self) -> None:
        """Take a sample of everything that is watched; what nobody looked at for long is forgotten."""
        late = self._clock() - IDLE_SECONDS
        if self._rates_seen is not None and self._rates_seen < late:
            self._rates_seen = None
            self.rates.clear()
        for name in [name for name, samples in self._groups.items() if samples.seen < late]:
            del self._groups[name]
        if self._rates_seen is not None:
            with contextlib.suppress(RocketMQError):  # a gap in the plot
                await self.sample_rates()
        for name, samples in list(self._groups.items()):
            with contextlib.suppress(RocketMQError):
                await self.sample_group(name, samples)

    async def sample_rates(self) -> None:
        """Ask all brokers for their rates."""
        admin = self._connection.admin()
        info = await admin.cluster()
        addresses = cluster_view.addresses(info)
        states = dict(zip(addresses, await each(addresses, lambda one: _state(admin, one)), strict=True))
        rows = cluster_view.broker_rows(info, states)
        self.rates.append(
            (self._now(), {f"{row['broker']}:{row['id']}": (row["inPerSecond"], row["outPerSecond"]) for row in rows})
        )

    async def sample_group(self, name: str, samples: GroupSamples) -> None:
        """Ask for the progress and the owners of a group."""
        admin = self._connection.admin()
        progress, members = await asyncio.gather(admin.progress(name), admin.members(name))
        topics = sorted({queue.topic for queue in progress})[:_MOST_TOPICS]
        extents: dict[MessageQueue, TopicOffset] = {}
        for topic in topics:
            with contextlib.suppress(RocketMQError):
                extents |= await admin.topic_stats(topic)
        clients = [one.client_id for one in members.connection_set] if members is not None else []
        owners = await _owners(admin, name, clients) if len(clients) <= _MOST_MEMBERS else None
        samples.add(self._now(), {queue: cell(state, extents.get(queue)) for queue, state in progress.items()}, owners)


async def _state(admin: Admin, address: str) -> dict[str, str] | str:
    try:
        return await admin.broker_state(address)
    except (NetworkError, BrokerError) as e:
        return str(e)


async def _owners(admin: Admin, group: str, clients: list[str]) -> Owners | None:
    """Return the owners of a group's queues; None if a member does not answer: its queues would seem to be free."""
    try:
        infos = {client: await admin.running_info(group, client) for client in clients}
    except RocketMQError:
        return None
    if any(info is None for info in infos.values()):
        return None
    return {queue: owner for queue, (owner, _, _) in owners_of(infos).items()}
