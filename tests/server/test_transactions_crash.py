"""Brokers killed at every step of the end of a transaction: its producer decides, before or after."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest

from rocketmq_py import ConsumeFromWhere, LitePullConsumer, Message, Producer, TransactionProducer, TransactionState
from tests.interop.ours import READY, first_line
from tests.server.consuming import PATIENCE

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kills processes")

COMMIT, ROLLBACK, _ = TransactionState
TOPIC = "orders"
SOON = {
    "transactionCheckInterval": 100, "transactionTimeOut": 300, "transactionOpBatchInterval": 50,
    "transactionCheckMax": 10**6,
}  # fmt: skip
NEVER = 10**9

_SERVE = """
import os, signal, sys
from rocketmq_py.broker.transaction.transactions import Transactions
from rocketmq_py.cli.root import main

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def die_writing(self, after=lambda _: None):
    if self._unwritten:
        after(self)
        die()

write_ops = Transactions.write_ops
step = sys.argv.pop(1)
if step == "before the message":
    Transactions._deliver = die
elif step == "message not written":
    Transactions._ended = die
elif step == "message written":
    Transactions.write_ops = die_writing
elif step == "op not written":
    Transactions.write_ops = lambda self: die_writing(self, write_ops)
elif step == "op written":
    commit = lambda self: (write_ops(self), self._store.commit_pending())
    Transactions.write_ops = lambda self: die_writing(self, commit)
main()
"""


class Server:
    """Name server and broker in a process that is killed at a step of its own, or at the end."""

    def __init__(self, store: Path, step: str = "") -> None:
        keys = SOON | ({"transactionCheckInterval": NEVER} if step else {})
        settings = [argument for key, value in keys.items() for argument in ("--set", f"{key}={value}")]
        ports = ["--namesrv-port", "0", "--port", "0"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE, step, "serve", "--store", str(store), *ports, *settings],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        found = READY.search(first_line(self._process))
        assert found is not None
        self.namesrv = found[1]

    def dies(self) -> None:
        assert self._process.wait(PATIENCE) == -signal.SIGKILL

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Check:
    """Says what the local transaction did; that of the message ``last`` was committed."""

    def __init__(self, state: TransactionState) -> None:
        self.state = state
        self.asked: list[str] = []

    def __call__(self, message) -> TransactionState:
        self.asked.append(message.body.decode())
        return COMMIT if message.body == b"last" else self.state


def read(namesrv: str) -> list[str]:
    """Everything that is delivered up to the message ``last``, and what lies before it in other queues."""
    bodies: list[str] = []
    with LitePullConsumer("read", namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as consumer:
        consumer.subscribe(TOPIC)
        while "last" not in bodies:
            bodies += [message.body.decode() for message in consumer.poll()]
        with Producer("p-end", namesrv) as producer:
            queues = producer.queues(TOPIC)
            for queue in queues:
                producer.send(Message(TOPIC, "end"), queue)
        while bodies.count("end") < len(queues):
            bodies += [message.body.decode() for message in consumer.poll()]
    return [body for body in bodies if body not in ("last", "end")]


def end_in(store: Path, state: TransactionState, step: str) -> None:
    """A transaction whose end a broker dies in."""
    with (
        Server(store, step) as server,
        TransactionProducer("g", server.namesrv, check=Check(state)) as producer,
        producer.transaction(Message(TOPIC, "one")) as tx,
    ):
        tx.commit() if state is COMMIT else tx.rollback()
        server.dies()


def go_on(store: Path, state: TransactionState) -> tuple[list[str], list[str]]:
    """What the next broker asks about, and what it has delivered when all is decided."""
    check = Check(state)
    with (
        Server(store) as server,
        TransactionProducer("g", server.namesrv, check=check, topics=[TOPIC]) as producer,
        producer.transaction(Message(TOPIC, "last")) as tx,
    ):
        tx.leave_open()  # it is asked about behind all that was open before
        return check.asked, read(server.namesrv)


@pytest.mark.parametrize(
    ("step", "asked", "times"),
    [
        ("before the message", True, 1),
        ("message not written", True, 1),
        # The end is not on disk; the message is, and tells of it.
        ("message written", False, 1),
        ("op not written", False, 1),
        ("op written", False, 1),
    ],
)
def test_a_commit_is_decided_by_the_producer_after_a_crash(tmp_path, step, asked, times):
    end_in(tmp_path, COMMIT, step)
    questions, delivered = go_on(tmp_path, COMMIT)
    assert ("one" in questions) is asked
    assert delivered == ["one"] * times


@pytest.mark.parametrize(
    ("step", "asked"), [("message written", True), ("op not written", True), ("op written", False)]
)
def test_a_rollback_is_decided_by_the_producer_after_a_crash(tmp_path, step, asked):
    end_in(tmp_path, ROLLBACK, step)
    questions, delivered = go_on(tmp_path, ROLLBACK)
    assert ("one" in questions) is asked
    assert delivered == []
