"""Popped messages are delivered until they are acked, and not afterwards, whatever happens."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.examples import examples
from tests.unit.broker.harness import SMALL, InProcess
from tests.unit.broker.pop.pop_client import Popped, ack, change_invisible, extended, make_topic, put, take

LONG_MS = 10 * 60_000
"""Longer than anything stays invisible here."""


class Pops(RuleBasedStateMachine):
    """A group pops a topic of two queues from a broker that may stop or crash at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = 0
        self.acked: set[bytes] = set()
        self.late: set[bytes] = set()
        """Acked when their time was up: such an ack may still count."""
        self.out: list[tuple[int, Popped]] = []
        """Until when each message is surely out, and the message."""

    @initialize()
    def start(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.root = Path(self.directory.name) / "store"
        self.running = InProcess(self.root, store=SMALL)
        self.saved_ms = self.running.now
        make_topic(self.running, 2)
        self.client = self.running.connect()

    def teardown(self) -> None:
        try:
            if hasattr(self, "running"):
                self.drain()
                self.running.services.close()
        finally:
            if hasattr(self, "directory"):
                self.directory.cleanup()

    # -- what happens

    @rule(queue=st.integers(0, 1), n=st.integers(1, 5))
    def send(self, queue: int, n: int) -> None:
        put(self.client, *[b"%d" % (self.sent + i) for i in range(n)], queue_id=queue)
        self.sent += n

    @rule(n=st.integers(1, 4), invisible=st.sampled_from([1_000, 10_000, 60_000]), chance=st.integers(0, 99))
    def pop(self, n: int, invisible: int, chance: int) -> None:
        self.running.services.pop.pop_service.random_below = lambda _: chance
        for one in take(self.client, max_msg_nums=n, invisible_time=invisible):
            assert one.body not in self.acked, "a message that was acked is delivered again"
            assert all(until <= self.running.now or one.body != other.body for until, other in self.out), "it is out"
            self.out.append((self.running.now + invisible, one))

    @precondition(lambda self: self.out)
    @rule(which=st.integers(0, 1000))
    def ack(self, which: int) -> None:
        until, one = self.out.pop(which % len(self.out))
        assert ack(self.client, one).code == 0
        (self.acked if self.running.now < until else self.late).add(one.body)

    @precondition(lambda self: self.out)
    @rule(which=st.integers(0, 1000), invisible=st.sampled_from([1_000, 60_000]))
    def extend(self, which: int, invisible: int) -> None:
        # Two changes to the same time in one millisecond have equal checkpoints: after a restart the acknowledgement of
        # the first one counts for the second.
        self.running.now += 1
        until, one = self.out.pop(which % len(self.out))
        answer = change_invisible(self.client, one, invisible)
        if answer.code == 0:
            self.out.append((self.running.now + invisible, extended(one, answer)))
        else:
            assert until <= self.running.now, "its time is not up"

    @rule(ms=st.sampled_from([100, 3_000, 30_000, 90_000]))
    def wait(self, ms: int) -> None:
        self.running.turn(ms)

    @rule()
    def save(self) -> None:
        services = self.running.services
        services.offsets.persist()
        services.saver.wait()
        self.saved_ms = self.running.now

    @rule()
    def restart(self) -> None:
        self.running.services.close()
        self._open()
        self.saved_ms = self.running.now

    @rule()
    def crash(self) -> None:
        self.running.services.saver.close()
        self.running.services.store.close()
        (self.root / "abort").touch()
        offsets = self.root / "config" / "consumerOffset.json"
        if offsets.exists():
            os.utime(offsets, (self.saved_ms / 1000,) * 2)
        self._open()

    def _open(self) -> None:
        now = self.running.now
        self.running = InProcess(self.root, store=SMALL)
        self.running.now = now
        self.client = self.running.connect()

    # -- what must be true

    @invariant()
    def nothing_is_known_of_what_is_done(self) -> None:
        if hasattr(self, "running"):
            assert len(self.running.services.pop.revive_log.inflight) <= self.sent

    def drain(self) -> None:
        """In the end everything that was not acked comes, and nothing else."""
        missing = {b"%d" % i for i in range(self.sent)} - self.acked - self.late
        for _ in range(4):
            self.running.turn(LONG_MS)
            while messages := take(self.client, invisible_time=60_000):
                for one in messages:
                    assert one.body not in self.acked
                    missing.discard(one.body)
                    assert ack(self.client, one).code == 0
                    self.acked.add(one.body)
        assert not missing, "messages were lost"
        assert len(self.running.services.pop.revive_log.inflight) == 0


TestPops = Pops.TestCase
TestPops.settings = settings(max_examples=examples(20), stateful_step_count=25, deadline=None)
