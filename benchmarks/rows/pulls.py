"""Rows about pulls of a backlog of 1 KiB messages in 8 queues, one pull in flight per queue."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.figures import Figure, Floor, at_least
from benchmarks.frames import Requests, pull_requests, send_requests
from benchmarks.machine import settle
from benchmarks.rows.sides import KIB, QUEUES, TOPIC, WARM_WINDOW, Side, both, judge, with_ceiling
from benchmarks.session import Session

_PASSES = 4
_BACKLOG = 320_000
_CYCLE = 8192
"""Messages of one pass over the send buffer: of each queue there are 1024, so that no pull ends between two passes."""
_LARGE = {"maxTransferCountOnMessageInMemory": "1024", "maxTransferBytesOnMessageInMemory": str(4 << 20)}
"""Stock brokers answer a pull with 32 messages or 256 KiB at most."""


@dataclass(frozen=True, slots=True)
class _Work:
    """A row: ``each`` messages per pull, of which ``run`` lie next to each other in the log."""

    name: str
    each: int
    run: int
    floor: Floor


def pull_32(session: Session) -> list[Figure]:
    """Pulls of 32 messages that lie interleaved with those of the other queues."""
    return _measure(session, _Work("pull-32", 32, 1, at_least(1.0)))


def pull_1024(session: Session) -> list[Figure]:
    """Pulls of 1024 messages that lie interleaved with those of the other queues; the brokers have to be told."""
    return _measure(session, _Work("pull-1024", 1024, 1, at_least(0.8)))


def pull_contiguous(session: Session) -> list[Figure]:
    """Pulls of 32 messages that lie next to each other."""
    return _measure(session, _Work("pull-contiguous", 32, _CYCLE // QUEUES, at_least(1.5)))


def _measure(session: Session, work: _Work) -> list[Figure]:
    backlog = session.scale.of(_BACKLOG, _CYCLE)
    with both(session, work.name, _LARGE if work.each > 32 else None) as sides:
        _fill(session, work, sides, backlog)
        pulls = {side.server.name: _pulls(side, work.each, backlog) for side in sides}

        def run(side: Side) -> float:
            requests = pulls[side.server.name]
            with side.cpu_counted(requests.count * work.each):
                return side.load.drive(requests, requests.count, QUEUES)

        for side in sides:
            session.tell(f"{work.name}: warming {side.server.name} with {_PASSES} passes over {backlog:,} messages")
            side.load.verify(pulls[side.server.name], QUEUES)
            for _ in range(_PASSES):
                run(side)
            settle(side.server.pid)
        figure = judge(session, work.name, "msg/s", work.floor, sides, run)
    requests = pulls["ours"]
    return with_ceiling(session, figure, requests, requests.count, QUEUES)


def _fill(session: Session, work: _Work, sides: tuple[Side, Side], backlog: int) -> None:
    """Stores the backlog; the Java broker takes at least the warm-up's messages, so that its pulls run compiled."""
    sends = send_requests(TOPIC, QUEUES, KIB, _CYCLE, run=work.run)
    for side in sides:
        session.tell(f"{work.name}: storing {backlog:,} messages in {side.server.name}")
        side.send(sends, max(backlog, session.scale.warm // _CYCLE * _CYCLE), WARM_WINDOW)


def _pulls(side: Side, each: int, backlog: int) -> Requests:
    """One pass over the backlog. The size of a full answer is taken from the first one: all messages are alike."""
    first = pull_requests(TOPIC, QUEUES, each, each, answer_body=0)
    size = side.load.body_size(first)
    return pull_requests(TOPIC, QUEUES, each, backlog, answer_body=size)
