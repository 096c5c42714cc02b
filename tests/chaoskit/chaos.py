"""Scenarios of failure on a cluster under load, and the check that nothing was lost, disordered or skipped.

A scenario is a function that says what happens to whom::

    def broker_killed(chaos: Chaos) -> None:
        broker = chaos.any_broker()
        broker.kill()
        chaos.wait_for_progress()
        broker.start()
        chaos.wait_for_progress(through=broker)

Knows the order of a run: load, scenario, healing, rest, judgement. Refuses to know what may fail: that is for
scenarios to say.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from types import TracebackType
from typing import Self

import msgspec

from rocketmq_py.core.consumer import orderly
from rocketmq_py.remoting.portal import Portal
from tests.chaoskit.audit import Audit, Figures, Report, Step
from tests.chaoskit.load import ORDERED, PLAIN, READERS, Load
from tests.chaoskit.member import MemberOptions, report_of
from tests.chaoskit.processes import ClusterProcesses, Program, Server, Servers, Slave

PATIENCE_SECONDS = 300.0
"""How long to wait for what must come; far above what it takes, since no clock decides a verdict."""


class Stalled(AssertionError):
    """What must come has not come for ``PATIENCE_SECONDS``."""


class Member:
    """A consumer in a process of its own."""

    def __init__(self, audit: Audit, options: MemberOptions, log: Path) -> None:
        self.name = options.name
        self._audit = audit
        self._orders = options
        self._log = log
        self._lives = 0
        self._program: Program | None = None

    def start(self) -> None:
        """Start it; nothing happens when it runs. Has its queues on return."""
        self.begin()
        self.await_ready()

    def begin(self) -> None:
        """As :meth:`start`, without waiting."""
        if self._program is None:
            self._lives += 1
            life = f"{self.name}.{self._lives}"
            options = msgspec.structs.replace(self._orders, name=life)
            command = [sys.executable, "-m", "tests.chaoskit.member", msgspec.json.encode(options).decode()]
            self.name = life
            self._program = Program(command, self._log, lambda line: self._audit.report(report_of(line, life)))

    def await_ready(self) -> None:
        """Wait until it has joined its group, after :meth:`begin`."""
        if self._program is not None:
            self._program.await_ready()

    def kill(self) -> None:
        """``kill -9``, in the middle of whatever it does."""
        self._gone()
        program, self._program = self._program, None
        if program is not None:
            program.kill()

    def stop(self) -> None:
        """End it in good order.

        :raises RuntimeError: it ended with an error.
        """
        program, self._program = self._program, None
        if program is not None:
            program.stop()

    def freeze(self) -> None:
        """SIGSTOP; others take over what it had begun."""
        self._gone()
        if self._program is not None:
            self._program.signal(SIGSTOP)

    def unfreeze(self) -> None:
        """SIGCONT. Harmless when it is not frozen."""
        if self._program is not None:
            self._program.signal(SIGCONT)

    def _gone(self) -> None:
        self._audit.report(Report(time.monotonic(), self.name, Step.GONE))


@dataclass(slots=True)
class Outcome:
    """How a scenario ended."""

    scenario: str
    figures: Figures
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def verdict(self) -> str:
        """``holds``, or the first of the faults and how many there are."""
        if not self.faults:
            return "holds"
        more = f" (and {len(self.faults) - 1} more)" if len(self.faults) > 1 else ""
        return self.faults[0].splitlines()[0] + more


Scenario = Callable[["Chaos"], None]


class Chaos:
    """A cluster of processes under load, to which scenarios happen one after the other.

    :param brokers: how many masters.
    :param name_servers: how many name servers.
    :param slaves: how many of the masters have a slave; see :class:`~tests.chaoskit.processes.ClusterProcesses`.
    :param members: consumers of each of the two groups: one takes plain messages as they come, the other ordered ones.
    :param rate: messages a second.
    :param seed: of everything that is random in scenarios; the same seed takes the same decisions.
    :param pace: how long the stretches of time are that scenarios ask for: 0.1 is a tenth of what they say.
    :param lock_seconds: how long a consumer trusts a lock it took in order to consume in order, brokers twice as long;
        30 s as in Apache RocketMQ by default. The less, the sooner another one goes on after a crash.
    :param servers: whose servers; ours by default. Others are told of shorter locks by whoever starts them.
    :param settings: keys of broker.conf, for every broker.
    :param work: a directory for stores and logs; a temporary one when left out.
    """

    def __init__(
        self,
        *,
        brokers: int = 2,
        name_servers: int = 2,
        slaves: int = 0,
        members: int = 2,
        rate: float = 200.0,
        seed: int = 0,
        pace: float = 1.0,
        lock_seconds: float = orderly.LOCK_LIVE,
        servers: Servers | None = None,
        settings: Mapping[str, str] | None = None,
        work: Path | None = None,
    ) -> None:
        self._end = ExitStack()
        if work is None:
            work = Path(self._end.enter_context(tempfile.TemporaryDirectory(prefix="rocketmq-chaos-")))
        self.chance = random.Random(seed)
        """What scenarios draw from."""
        self._pace = pace
        self._lock_seconds = lock_seconds
        self._audit = Audit(ordered=[ORDERED])
        self._machines = ClusterProcesses(
            work, brokers=brokers, name_servers=name_servers, slaves=slaves, servers=servers, settings=settings
        )
        self._load = Load(self._audit, rate=rate)
        self._members = members
        self._work = work
        self._portal: Portal | None = None
        self.plain_consumers: list[Member] = []
        self.orderly_consumers: list[Member] = []

    # -- whom things happen to

    @property
    def brokers(self) -> Sequence[Server]:
        return self._machines.brokers

    @property
    def name_servers(self) -> Sequence[Server]:
        return self._machines.name_servers

    @property
    def slaves(self) -> Sequence[Slave]:
        """The first is the slave of the first broker, and so on."""
        return self._machines.slaves

    def any_broker(self) -> Server:
        return self.chance.choice(self.brokers)

    def any_name_server(self) -> Server:
        return self.chance.choice(self.name_servers)

    def any_consumer(self) -> Member:
        """One of plain messages."""
        return self.chance.choice(self.plain_consumers)

    def any_orderly_consumer(self) -> Member:
        return self.chance.choice(self.orderly_consumers)

    # -- what scenarios wait for

    def wait_for_progress(self, messages: int = 50, *, through: Server | None = None) -> None:
        """Wait until so many more plain messages have been sent and consumed.

        :param through: so many of this broker, instead of anywhere.
        :raises Stalled: they have not.
        """
        audit, what = self._audit, PLAIN if through is None else through.name
        with audit.changed:
            acknowledged, consumed = audit.acknowledged_by[what], audit.consumed_from[what]
        self._await(
            lambda: (
                audit.acknowledged_by[what] >= acknowledged + messages
                and audit.consumed_from[what] >= consumed + messages
            ),
            lambda: (
                f"of {messages} messages of {what}, {audit.acknowledged_by[what] - acknowledged} were acknowledged "
                f"and {audit.consumed_from[what] - consumed} consumed"
            ),
        )

    def wait_for_ordered_progress(self, messages: int = 5) -> None:
        """Wait until so many more messages of every ordered lane have been consumed.

        :raises Stalled: they have not.
        """
        consumed, lanes = self._audit.consumed_from, self._load.ordered_lanes
        with self._audit.changed:
            before = {lane: consumed[lane] for lane in lanes}
        self._await(
            lambda: all(consumed[lane] >= before[lane] + messages for lane in lanes),
            lambda: f"messages consumed of each lane: {[consumed[lane] - before[lane] for lane in lanes]}",
        )

    def keep_for(self, seconds: float) -> None:
        """Keep the present state for ``seconds`` times the pace."""
        time.sleep(seconds * self._pace)

    def _await(self, condition: Callable[[], bool], otherwise: Callable[[], str]) -> None:
        with self._audit.changed:
            if not self._audit.changed.wait_for(condition, PATIENCE_SECONDS):
                raise Stalled(f"{otherwise()} within {PATIENCE_SECONDS:.0f} s")

    # -- a run

    def run(self, scenario: Scenario) -> Outcome:
        """Run a scenario under load, repair its damage, wait until everything is consumed, and check the audit.

        Never raises because of what the servers or clients do wrong: that is in the outcome.
        """
        began, before = time.monotonic(), self._load.sent
        faults: list[str] = []
        self._load.longest_send = 0.0
        self._call(self._load.resume)
        try:
            self.wait_for_progress()
            scenario(self)
            self._heal()
            self.wait_for_progress()
        except (Stalled, RuntimeError) as e:
            faults.append(str(e))
            self._heal()
        self._drain()
        found, figures = self._audit.finish()
        figures.sent = self._load.sent - before
        figures.longest_send = self._load.longest_send
        return Outcome(scenario.__name__, figures, faults + found, time.monotonic() - began)

    def _heal(self) -> None:
        self._machines.heal()
        members = [*self.plain_consumers, *self.orderly_consumers]
        for member in members:
            member.unfreeze()
            member.begin()
        for member in members:
            member.await_ready()

    def _drain(self) -> None:
        """Pause the load and wait until everything is consumed; the audit reports what is not."""
        assert self._portal is not None
        self._portal.run(self._load.pause())
        with self._audit.changed:
            self._audit.changed.wait_for(lambda: not self._audit.open, PATIENCE_SECONDS)

    # -- life

    def start(self) -> None:
        """Start servers, consumers and producers."""
        try:
            self._machines.start()
            self._end.callback(self._machines.close)
            for broker in self.brokers:
                if broker.has_seams:
                    broker.shorten_locks(2 * self._lock_seconds)
            portal, machines = Portal(), self._machines
            self._portal = portal
            self._end.callback(portal.stop)
            portal.run(
                self._load.start(
                    machines.namesrv, [broker.address for broker in machines.brokers], machines.address_map
                )
            )
            self._end.callback(lambda: portal.run(self._load.stop()))
            self._start_members()
        except BaseException:
            self.stop()
            raise

    def _start_members(self) -> None:
        for number in range(1, self._members + 1):
            self.plain_consumers.append(self._member(f"plain-{number}", PLAIN))
            self.orderly_consumers.append(self._member(f"orderly-{number}", ORDERED))
        for member in [*self.plain_consumers, *self.orderly_consumers]:
            self._end.callback(member.kill)
        self._heal()

    def _member(self, name: str, topic: str) -> Member:
        options = MemberOptions(
            name, self._machines.namesrv, READERS[topic], topic, self._machines.address_map,
            orderly=topic == ORDERED, lock_seconds=self._lock_seconds, work_seconds=0.002,
        )  # fmt: skip
        return Member(self._audit, options, self._work / f"{name}.log")

    def stop(self) -> None:
        """End everything. May be called more than once."""
        self._end.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _call(self, function: Callable[[], None]) -> None:
        assert self._portal is not None
        self._portal.call(function)
