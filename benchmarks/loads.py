"""The loads with which brokers are compared: kind and number of requests, and messages that are stored beforehand.

``drive`` sends them, ``rows.broker`` and ``ab`` compare brokers with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

Kind = Literal["send", "batch", "pull", "pop", "fan-out", "transaction"]

TOPIC = "bench"
QUEUES = 8
KIB = 1024
CYCLE = 8192
"""Backlogs are multiples of this number of messages, 1024 in each queue, so that every pull gets its full number."""


@dataclass(frozen=True, slots=True)
class Load:
    """Requests of one kind.

    :param size: bytes of a message's body.
    :param each: messages of a batch, a pull or a pop.
    :param run: number of successive messages to one queue before the next queue gets as many.
    :param topics: number of topics with one queue, used in turn; None for one topic with ``queues`` queues.
    :param groups: number of groups that get each message of a fan-out; ``NAME-0`` and so on.
    :param begin: offset from which on queues are pulled.
    :param properties: further properties of every message.
    """

    kind: Kind
    inflight: int = 1
    connections: int = 1
    topic: str = TOPIC
    queues: int = QUEUES
    size: int = KIB
    each: int = 32
    run: int = 1
    headers: Literal["json", "rocketmq"] = "json"
    topics: int | None = None
    groups: int | None = None
    begin: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def messages_each(self) -> int:
        """Messages of one request."""
        return 1 if self.kind in ("send", "fan-out", "transaction") else self.each


@dataclass(frozen=True, slots=True)
class Work:
    """What a row measures: ``count`` requests of a load, or one pass over ``backlog`` messages stored beforehand.

    :param settings: settings of the broker that differ from the defaults.
    :param warm: number of messages of the warm-up, as a multiple of the usual number.
    :param passes: number of runs before the first measured one.
    """

    load: Load
    count: int = 0
    backlog: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)
    warm: float = 1.0
    passes: int = 0

    @property
    def fill(self) -> Load:
        """The load with which the broker is warmed up and the backlog is stored."""
        if self.load.kind in ("send", "batch"):
            return self.load if self.load.inflight > 1 else replace(self.load, inflight=256)
        return Load("send", 256, queues=self.load.queues, run=self.load.run)


_LARGE = {"maxTransferCountOnMessageInMemory": "1024", "maxTransferBytesOnMessageInMemory": str(4 << 20)}
"""Settings for pulls of 1024 messages: by default brokers answer a pull with at most 32 messages or 256 KiB."""

WORKS: dict[str, Work] = {
    "send-1": Work(Load("send"), 20_000, passes=1),
    "send-64": Work(Load("send", 64), 160_000),
    "send-256": Work(Load("send", 256), 160_000),
    "send-256-c16": Work(Load("send", 256, 16), 160_000),
    "send-1024-c64": Work(Load("send", 1024, 64), 160_000),
    "send-256-rocketmq": Work(Load("send", 256, headers="rocketmq"), 160_000),
    # Three times as many messages as elsewhere: a JIT counts calls, and here one call takes 32.
    "batch": Work(Load("batch", 16, size=128), 20_000, warm=3.0),
    "sync-flush": Work(Load("send", 64), 40_000, settings={"flushDiskType": "SYNC_FLUSH"}, warm=1 / 3),
    "pull-32": Work(Load("pull", QUEUES), backlog=40 * CYCLE, passes=4),
    "pull-1024": Work(Load("pull", QUEUES, each=1024), backlog=40 * CYCLE, settings=_LARGE, passes=4),
    "pull-contiguous": Work(Load("pull", QUEUES, run=CYCLE // QUEUES), backlog=40 * CYCLE, passes=4),
    "pop": Work(Load("pop", QUEUES), backlog=20 * CYCLE, passes=2),
    "transaction-1": Work(Load("transaction"), 10_000, passes=1),
    "transaction-64": Work(Load("transaction", 64), 40_000, passes=1),
}
