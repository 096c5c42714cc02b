"""Kinds of sends are checked once and remembered, until topics or settings change."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py.broker.send import send_runs
from rocketmq_py.broker.send.half_messages import HalfMessageCache
from rocketmq_py.broker.send.send_runs import SendRuns
from rocketmq_py.broker.send.send_validation import SendTargets
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.store import HalfPlace, KindTarget
from tests.unit.broker.harness import InProcess
from tests.unit.broker.requests import send

PEER: Any = SimpleNamespace(host=b"\x7f\0\0\x01\0\0\0\x05")


class Runs:
    """Sends of given kinds to a broker's topics; ``asked`` are the properties whose tags code was asked for."""

    def __init__(self, targets: SendTargets) -> None:
        self.asked: list[str] = []
        self.stored: list[KindTarget | None] = []
        store: Any = SimpleNamespace(append_run=self._append, appended_end=lambda: 0, lent=None)
        writer: Any = SimpleNamespace(common_tags_code=self._tags_code, half_fields=self._half_fields, suffix="")
        self._runs = SendRuns(store, targets, writer, "00", {}, HalfMessageCache())

    def _append(self, run: Any, begin: int, targets: list[KindTarget | None], host: bytes, suffix: bytes) -> None:
        self.stored = list(targets)

    def _tags_code(self, others: str) -> int | None:
        self.asked.append(others)
        return 65 if others.startswith("TAGS") else None

    def _half_fields(self, others: str) -> tuple[int, str] | None:
        return (66, "p") if "PGROUP" in others else None

    def send(self, *kinds: tuple[str, int, int, str, str]) -> list[KindTarget | None]:
        run: Any = SimpleNamespace(kinds=lambda: list(kinds))
        assert self._runs.send(PEER, run, 0) is None
        return self.stored


@pytest.fixture
def targets(running: InProcess) -> SendTargets:
    make(running)
    targets = running.services.sender.targets
    targets.find(send("t", 1), "x")
    return targets


def make(running: InProcess, **more: Any) -> None:
    names = {"topic_name": "t", "read_queue_nums": 3, "write_queue_nums": 3}
    running.services.topics.put([TopicConfig(**names | more)])


def test_a_kind_is_checked_once(targets: SendTargets) -> None:
    runs = Runs(targets)
    kind = ("t", 1, 1, "TAGS\x01A\x02", "")
    for _ in range(3):
        assert runs.send(kind) == [KindTarget("t", 1, 1, 65)]
    assert runs.send(("t", 1, 0, "TAGS\x01A\x02", ""), kind) == [KindTarget("t", 1, 0, 65), KindTarget("t", 1, 1, 65)]
    assert len(runs.asked) == 2


def test_a_kind_that_is_not_plain_is_checked_again(targets: SendTargets) -> None:
    runs = Runs(targets)
    for _ in range(2):
        assert runs.send(("t", 1, 0, "odd", ""), ("t", 2, 0, "TAGS\x01A\x02", "")) == [None, None]
    assert runs.asked == ["odd", "odd"], "queue 2 has no checked target"


def test_a_changed_topic_is_checked_again(running: InProcess, targets: SendTargets) -> None:
    runs, kind = Runs(targets), ("t", 1, 0, "TAGS\x01A\x02", "")
    assert runs.send(kind) == [KindTarget("t", 1, 0, 65)]
    make(running, topic_filter_type="MULTI_TAG")
    assert runs.send(kind) == [None]
    targets.find(send("t", 1), "x")
    assert runs.send(kind) == [KindTarget("t", 1, 2, 65)]
    running.services.sender.apply_settings()
    assert runs.send(kind) == [None]


def test_only_some_short_kinds_are_remembered(targets: SendTargets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_runs, "_CACHED", 2)
    runs = Runs(targets)
    longest = "TAGS" + "x" * 124
    runs.send(("t", 1, 0, longest + "x", ""))
    assert targets.plain == {}
    for number in range(3):
        runs.send(("t", 1, number, longest, ""))
    assert [kind[2] for kind in targets.plain] == [2]


HALF, OTHER = "PGROUP\x01p\x02", "TAGS\x01A\x02"


def test_kinds_of_half_messages_go_to_the_half_topic(running: InProcess, targets: SendTargets) -> None:
    make(running, topic_filter_type="MULTI_TAG")
    targets.find(send("t", 1), "x")
    properties = (b"__transactionId__\x01", b"\x02", b"REAL_TOPIC\x01t\x02REAL_QID\x011\x02")
    wanted = KindTarget("RMQ_SYS_TRANS_HALF_TOPIC", 0, 3, 66, HalfPlace("t", 1, "p", properties))
    runs = Runs(targets)
    assert runs.send(("t", 1, 5, HALF, ""), ("t", 1, 5, OTHER, ""), ("t", 1, 12, HALF, "")) == [wanted, None, None]
    assert runs.asked == [], "whether they are plain is not asked"
    assert runs.send(("t", 1, 5, HALF, "")) == [wanted]
    assert runs.send(("t", 1, 1, OTHER, "")) == [KindTarget("t", 1, 3, 65)]


def test_half_messages_that_are_refused_are_no_kind(running: InProcess, targets: SendTargets) -> None:
    running.config.reject_transaction_message = True
    running.services.sender.apply_settings()
    targets.find(send("t", 1), "x")
    assert targets.refuses_halves
    assert Runs(targets).send(("t", 1, 4, HALF, "")) == [None]
    running.config.reject_transaction_message = False
    assert not targets.refuses_halves
    assert Runs(targets).send(("t", 1, 4, HALF, "")) != [None]
