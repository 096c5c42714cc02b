"""A transaction ends as its producer says, whatever happens; twice only after a crash."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import example, given, settings, strategies as st

from rocketmq_py.broker.records.message_properties import encode
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.half_messages import decode_offsets, encode_half_positions
from rocketmq_py.protocol.headers.transaction import EndTransactions
from rocketmq_py.wire.batch import encode_batch
from rocketmq_py.wire.command import Command
from tests.examples import examples
from tests.unit.broker.harness import InProcess
from tests.unit.broker.requests import send
from tests.unit.broker.transaction.transacting import (
    COMMIT,
    HALF,
    ROLLBACK,
    ROUND,
    UNKNOWN,
    Transaction,
    answer,
    count,
    crash,
    message,
    producer_of,
    questions,
)

BEGIN, END, MANY, END_MANY, ROUNDS, ANSWER, DROP, RESTART, CRASH = range(9)
_GOOD_ORDER = (BEGIN, END, END, MANY, END_MANY, END_MANY, ROUNDS, ROUNDS, ANSWER, ANSWER, DROP, RESTART)
"""What happens to a broker that does not crash; what stands here twice, twice as often."""
_MANY = 7


def steps(kinds: tuple[int, ...]) -> st.SearchStrategy[list[tuple[int, int, bool]]]:
    return st.lists(st.tuples(st.sampled_from(kinds), st.integers(0, 5), st.booleans()), min_size=4, max_size=20)


class World:
    """A broker, a producer group, and what the group has decided about each of its transactions."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.crashes = 0
        self.transactions: list[Transaction] = []
        self.batches: list[list[Transaction]] = []
        self.decided: dict[str, int] = {}
        self.said: set[str] = set()
        self.asked: list[Command] = []
        self.start(InProcess(root))

    def start(self, broker: InProcess) -> None:
        self.broker = broker
        self.producer = producer_of(broker)
        for transaction in self.transactions:
            transaction.client = self.producer
        self.asked.clear()

    def begin(self, commits: bool, immune: bool) -> None:
        key = f"U{len(self.transactions)}"
        more = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "40"} if immune else {}
        self.transactions.append(Transaction(self.broker, self.producer, key.encode(), UNIQ_KEY=key, **more))
        self.decided[key] = COMMIT if commits else ROLLBACK

    def end(self, transaction: Transaction) -> None:
        """The producer's own word, which may come too late or more than once."""
        answered = transaction.end(self.decided[transaction.uniq_key])
        if answered is not None and answered.code == 0:
            self.said.add(transaction.uniq_key)

    def begin_many(self, commits: bool) -> None:
        """Half messages in one batch, which are alike."""
        keys = [f"M{len(self.batches):02}{i}" for i in range(_MANY)]
        own = {"TRAN_MSG": "true", "PGROUP": "p"}
        body = encode_batch((0, key.encode(), encode(own | {"UNIQ_KEY": key}).encode()) for key in keys)
        header = send(queue_id=2, sys_flag=4, batch=True, born_timestamp=self.broker.now)
        answered = self.producer.ask(RequestCode.SEND_HALF_MESSAGES, header, body)
        first = int(answered.ext["queueOffset"])
        found = enumerate(zip(keys, decode_offsets(answered.body), strict=True), first)
        self.batches.append([Transaction.at(self.producer, key, place, offset) for offset, (key, place) in found])
        self.transactions += self.batches[-1]
        self.decided |= dict.fromkeys(keys, COMMIT if commits else ROLLBACK)

    def end_many(self, batch: list[Transaction], first: int) -> None:
        """The same, of those of a batch from one on."""
        told = batch[first:]
        header = EndTransactions(producer_group="p", commit_or_rollback=self.decided[batch[0].uniq_key])
        names = "commit_log_offset", "tran_state_table_offset"
        places, offsets = ([one.place[name] for one in told] for name in names)
        answered = self.producer.ask(RequestCode.END_TRANSACTIONS, header, encode_half_positions(places, offsets))
        assert len(answered.body) == len(told)
        self.said.update(one.uniq_key for one, ended in zip(told, answered.body, strict=True) if ended)

    def reply(self, question: Command, *, knows: bool) -> None:
        key = question.ext["msgId"]
        outcome = self.decided[key] if knows else UNKNOWN
        answered = answer(self.producer, question, outcome)
        if answered is not None and answered.code == 0:
            self.said.add(key)

    def take(self, step: int, number: int, *, flag: bool) -> None:
        """One step; ``number`` and ``flag`` say whose, and how."""
        if step == BEGIN:
            self.begin(flag, immune=number == 5)
        elif step == END:
            self.end(self.transactions[number % len(self.transactions)])
        elif step == MANY:
            self.begin_many(flag)
        elif step == END_MANY and self.batches:
            self.end_many(self.batches[number % len(self.batches)], 2 if flag else 0)
        elif step == ROUNDS:
            self.turn(1 + number % 2)
        elif step == ANSWER and self.asked:
            self.reply(self.asked.pop(number % len(self.asked)), knows=flag)
        elif step == DROP:
            self.asked.clear()
        elif step in (RESTART, CRASH):
            self.restart(crashes=step == CRASH)

    def turn(self, rounds: int) -> None:
        for _ in range(rounds):
            self.broker.turn(ROUND)
            self.asked += questions(self.producer)

    def restart(self, *, crashes: bool) -> None:
        now = self.broker.now
        if crashes:
            self.crashes += 1
            crash(self.broker)
        else:
            self.broker.services.close()
        self.start(InProcess(self.root))
        self.broker.now = now

    def delivered(self) -> Counter[str]:
        bodies = [message(self.broker, "t", offset, 2).body for offset in range(count(self.broker, "t", 2))]
        return Counter(body.decode() for body in bodies)

    def check(self) -> None:
        """Nothing is delivered of what was rolled back, and nothing before somebody said commit."""
        for key, times in self.delivered().items():
            assert self.decided[key] == COMMIT
            assert key in self.said
            assert times == 1 or self.crashes

    def finish(self) -> None:
        """Every question is answered until nobody asks any more."""
        for _ in range(8):
            self.turn(1)
            for question in self.asked:
                self.reply(question, knows=True)
            self.asked.clear()
        self.broker.turn(10**6)
        self.check()
        assert self.delivered().keys() == {key for key, outcome in self.decided.items() if outcome == COMMIT}
        ledger = self.broker.services.transactions.table
        assert ledger.next_open(10**6) >= count(self.broker, HALF)


def live(history: list[tuple[int, int, bool]]) -> None:
    """Two transactions, one for each end, and whatever happens to them and others."""
    with tempfile.TemporaryDirectory() as root:
        world = World(Path(root))
        try:
            world.begin(commits=True, immune=False)
            world.begin(commits=False, immune=False)
            for step, number, flag in history:
                world.take(step, number, flag=flag)
                world.check()
            world.finish()
        finally:
            world.broker.services.close()


@settings(max_examples=examples(40))
@given(steps(_GOOD_ORDER))
@example([(ROUNDS, 0, False), (END, 0, False), (ROUNDS, 0, False), (RESTART, 0, False), (END, 0, False)])
def test_a_transaction_ends_once_as_its_producer_says(history: list[tuple[int, int, bool]]) -> None:
    live(history)


@settings(max_examples=examples(25))
@given(steps((*_GOOD_ORDER, CRASH)))
def test_a_crash_loses_nothing_and_brings_back_nothing(history: list[tuple[int, int, bool]]) -> None:
    live(history)
