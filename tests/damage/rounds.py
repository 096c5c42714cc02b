"""One round: damage a copy of the sample, open it, compare it with the ledger, open it again."""

from __future__ import annotations

import logging
import random
import shutil
import tempfile
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from rocketmq_py.errors import StoreCorrupt
from tests.damage import rebuilding
from tests.damage.damages import ANY, Choice, Damages, damage_some, files
from tests.damage.ledger import Ledger, send_again
from tests.damage.replica import Replica
from tests.damage.sample import Sample, copy, make, opened
from tests.unit.broker.harness import START_MS, InProcess

MEMORY = Path("/dev/shm")


class NoSuchFile(ValueError):
    """No store has a file that may be damaged."""


class Log(logging.Handler):
    """Collects warnings and errors of one round."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []
        self.traces: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        if record.exc_info:
            self.traces.append(record.getMessage())


@dataclass
class Outcome:
    """What one round has shown."""

    seed: int
    damage: Damages
    sample: Sample
    faults: list[str] = field(default_factory=list)
    refusal: str = ""
    lines: list[str] = field(default_factory=list)
    was_put_off: bool = False

    def __str__(self) -> str:
        return "\n    ".join([f"seed {self.seed}: {self.damage} ({self.sample.state})", *self.faults])


class Bench:
    """The sample stores and their contents; :meth:`round` damages copies of them."""

    def __init__(self) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="damage-", dir=MEMORY if MEMORY.is_dir() else None))
        self.samples, self._now = make(self._root, START_MS)
        self._known = {whole: self._known_of(whole) for whole in {one.whole for one in self.samples.values()}}

    def _known_of(self, whole: Path) -> tuple[Ledger, Replica]:
        there = whole.with_name(f"{whole.name}-known")
        copy(whole, there)
        with opened(there, self._now) as running:
            return Ledger.of(running), Replica(there)

    def close(self) -> None:
        shutil.rmtree(self._root)

    def round(self, seed: int, choice: Choice = ANY, at_once: int = 1, *, has_replica: bool = False) -> Outcome:
        """One round; the same seed gives the same damage.

        :param at_once: number of damages.
        :param has_replica: whether the broker has a slave with the whole log, and checks its store.
        """
        chance = random.Random(seed)
        sample = self._pick(chance.random(), choice)
        store = self._root / "round"
        copy(sample.root, store)
        outcome = Outcome(seed, damage_some(store, chance, choice, at_once, sample.on_disk), sample)
        log, logger = Log(), logging.getLogger("rocketmq_py")
        before, logger.propagate = logger.propagate, False
        logger.addHandler(log)
        try:
            self._judge(store, outcome, has_replica=has_replica)
        finally:
            logger.removeHandler(log)
            logger.propagate = before
            shutil.rmtree(store)
        outcome.lines = log.lines
        outcome.faults += [f"traceback: {line}" for line in log.traces]
        return outcome

    def _pick(self, chance: float, choice: Choice) -> Sample:
        """The sample of a round: one that has files which may be damaged.

        :raises NoSuchFile: no sample has such files.
        """
        first = "closed" if chance < 0.5 else "young" if chance < 0.75 else "killed"
        for sample in (self.samples[first], *self.samples.values()):
            if any(map(choice.allows, files(sample.root))):
                return sample
        raise NoSuchFile(f"no file of a store is {choice.told}")

    def _judge_first(self, running: InProcess, outcome: Outcome, *, has_replica: bool) -> None:
        (ledger, replica), damage = self._known[outcome.sample.whole], outcome.damage
        rebuilding.go_on(running)
        if has_replica:
            end = running.services.store.max_physical_offset
            replica.heal(running)
            outcome.faults += ledger.not_healed(running, end, damage, outcome.sample)
        outcome.faults += ledger.faults(running, damage, outcome.sample)
        outcome.faults += send_again(running, ledger, damage)

    def _judge(self, store: Path, outcome: Outcome, *, has_replica: bool) -> None:
        (ledger, _), damage = self._known[outcome.sample.whole], outcome.damage
        settings = {"rebuild_bytes_before_start": 0} if outcome.seed % 2 else {}
        try:
            with opened(store, self._now, **settings) as running:
                outcome.was_put_off = running.services.store.rebuild.queues_left > 0
                if outcome.was_put_off:
                    outcome.faults += rebuilding.not_readable(running, ledger)
                    outcome.faults += send_again(running, ledger, damage)
                    rebuilding.go_on(running, outcome.seed % 5)
                is_cut = outcome.was_put_off and outcome.seed % 3 == 0
                if not is_cut:
                    self._judge_first(running, outcome, has_replica=has_replica)
            if is_cut:  # closed before the rebuild has ended
                with opened(store, self._now, **settings) as running:
                    outcome.faults += rebuilding.not_readable(running, ledger)
                    self._judge_first(running, outcome, has_replica=has_replica)
            with opened(store, self._now) as running:
                outcome.faults += (f"after a restart: {line}" for line in
                                   ledger.faults(running, damage, outcome.sample))  # fmt: skip
                outcome.faults += ledger.undelivered(running, damage)
        except StoreCorrupt as e:
            outcome.refusal = str(e)
            if not damage.refuses_start:
                outcome.faults.append(f"refused: {e}")
        except Exception:  # noqa: BLE001 - whatever it is, it is a fault
            outcome.faults.append(traceback.format_exc())


def table(outcomes: list[Outcome]) -> str:
    """Results by damaged file and kind of damage."""
    rows: dict[tuple[str, str], Counter[str]] = {}
    for one in outcomes:
        row = rows.setdefault((one.damage.area, one.damage.kind), Counter())
        row["rounds"] += 1
        row["refused"] += bool(one.refusal)
        row["faults"] += bool(one.faults)
    lines = ["| file | damage | rounds | start refused | faults |", "|---|---|---|---|---|"]
    for (area, kind), row in sorted(rows.items()):
        lines.append(f"| {area} | {kind} | {row['rounds']} | {row['refused']} | {row['faults']} |")
    return "\n".join(lines)
