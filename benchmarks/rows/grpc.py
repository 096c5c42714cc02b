"""Rows about clients that speak gRPC: our broker beside Java's broker and proxy, which are one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from benchmarks.drive import GROUP, Driven
from benchmarks.figures import Figure, Floor, at_least, at_most
from benchmarks.rows.sides import Side, judge_driven, side_of
from benchmarks.servers import start_java_with_proxy, start_ours
from benchmarks.session import Session

_CPU = at_most(0.4)
_RECEIVES = 8
_FLOORS: dict[int, Floor] = {1: at_most(0.5), 64: at_least(2.0), 256: at_least(2.0)}
_COUNTS = {1: 5_000, 64: 40_000, 256: 40_000}
_WARM = 40_000
_PATIENT = {"waitTimeMillsInSendQueue": "10000"}
"""As Java's broker has it here: a server that is cold or on a busy machine refuses no sends."""


def sends(inflight: int) -> Callable[[Session], list[Figure]]:
    """Return a row: SendMessage of 1 KiB, so many calls under way on one connection."""

    def row(session: Session) -> list[Figure]:
        name, count = f"grpc-send-{inflight}", session.scale.of(_COUNTS[inflight])
        with _both(session, name) as sides:
            run = partial(_send, count=count, inflight=inflight)
            return judge_driven(session, name, _FLOORS[inflight], _CPU, sides, run, inflight=inflight)

    return row


def receive(session: Session) -> list[Figure]:
    """ReceiveMessage of 32 × 1 KiB, 8 calls under way, each answer acknowledged with one AckMessage.

    Before each run the messages are sent, which is not measured. All runs have one group: a new one begins at the end.
    """
    name, count = "grpc-receive", session.scale.of(20_000, 32)

    def run(side: Side) -> Driven:
        _send(side, count, 256)
        side.settle()
        return _drive(side, "receive", count, _RECEIVES)

    with _both(session, name) as sides:
        for side in sides:
            side.control.create_group(GROUP)  # without it, Java's proxy refuses the settings of consumers
            _drive(side, "receive", _WARM, _RECEIVES)
        return judge_driven(session, name, at_least(2.0), _CPU, sides, run, inflight=_RECEIVES)


def _send(side: Side, count: int, inflight: int) -> Driven:
    return _drive(side, "send", count, inflight)


def _drive(side: Side, kind: str, count: int, inflight: int) -> Driven:
    return side.generator.drive_grpc(_endpoint(side), kind, count, inflight=inflight, pid=side.server.pid)


def _endpoint(side: Side) -> str:
    return side.server.grpc or side.server.broker


@contextmanager
def _both(session: Session, name: str) -> Iterator[tuple[Side, Side]]:
    """Run both servers with the topic during the block, warmed by sends."""
    generator = session.generator
    session.tell(f"{name}: starting both servers")
    with session.work() as work, ExitStack() as stack:
        ours = start_ours(work, _PATIENT)
        stack.callback(ours.kill)
        java = start_java_with_proxy(work)
        stack.callback(java.kill)
        sides = (
            stack.enter_context(side_of(generator, ours)),
            stack.enter_context(side_of(generator, java)),
        )
        for side in sides:
            session.tell(f"{name}: warming {side.server.name}")
            _send(side, _WARM, 256)
            side.settle()
        yield sides
