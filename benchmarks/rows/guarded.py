"""The rows about security: sends over TLS, and signed sends."""

from __future__ import annotations

import statistics
import sys
from contextlib import ExitStack
from pathlib import Path

from benchmarks.control import Control
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.loads import KIB, QUEUES, TOPIC
from benchmarks.program import Program, Runner
from benchmarks.rows import clients
from benchmarks.rows.sides import SENDS, both, judge_with_client, warm
from benchmarks.servers import Tls, start_ours
from benchmarks.session import Session
from tests.certificates import Authority
from tests.interop.javapeer import options

_OURS = "benchmarks.our_client"
_ACL = "bench-user:bench-secret"


def tls(session: Session) -> list[Figure]:
    """1 KiB sends of our producer over TLS, one at a time and with 256 in flight: to our broker and to Java's."""
    scale = session.scale
    one, many = scale.of(20_000), scale.of(100_000)
    with session.work() as work:
        pair = Authority(work).issue("server")
        with both(session, "tls", tls=Tls(pair.cert, pair.key)) as sides:
            warm(session, "tls", sides, SENDS, scale.warm)
            slow, fast = [_OURS, "sync", "--tls"], [_OURS, "async", "--tls"]
            return [
                judge_with_client(session, work, "tls-1", "µs p50", at_most(1.0), sides, slow, "p50us", one),
                judge_with_client(session, work, "tls-256", "msg/s", at_least(1.0), sides, fast, "rate", many),
            ]


def signing(session: Session) -> list[Figure]:
    """Signed sends with 256 in flight, compared with unsigned ones, and with those of a Java client."""
    scale = session.scale
    with session.work() as work:
        cost = _cost(session, work)
        with clients.warm_broker(session, "signing", work) as broker:
            named: dict[str, int | str] = {
                "n": scale.of(100_000),
                "warm": scale.warm,
                "size": KIB,
                "inflight": clients.WINDOW,
                "acl": _ACL,
            }
            ours, java = [_OURS, "async"], ["produce", "--mode", "async"]
            with clients.runners(session, work, broker, ours, java, named) as pair:
                against_java = clients.judge(session, "signing-java", "msg/s", at_least(1.0), pair, "rate")
    return [*cost, against_java]


def _cost(session: Session, work: Path) -> list[Figure]:
    """Compare rate and client CPU time of signed sends (ours) with those of unsigned ones (peer), at our broker."""
    count = session.scale.of(100_000)
    used: tuple[list[float], list[float]] = ([], [])
    with ExitStack() as stack:
        session.tell("signing: starting our broker and two of our clients")
        server = start_ours(work)
        stack.callback(server.kill)
        with Control(server.broker) as control:
            control.create_topic(TOPIC, QUEUES)
        runners = []
        for name, words in (("signed", {"acl": _ACL}), ("unsigned", {})):
            flags = options(namesrv=server.namesrv, topic=TOPIC, n=count, warm=count // 2, **words)
            command = [sys.executable, "-m", _OURS, "async", *flags]
            runners.append(Runner(stack.enter_context(Program(command, work / f"{name}.log"))))

        def run(side: int) -> float:
            row = runners[side].run()
            used[side].append(row["clientCpu"] / count * 1e6)
            return float(row["rate"])

        values = session.in_turn("signing", "msg/s", lambda: run(0), lambda: run(1))
    cpu = dict(zip(("signed", "unsigned"), (round(statistics.median(took), 2) for took in used), strict=True))
    return [
        Figure("signing", "msg/s", at_least(0.95), *values, notes={"client_cpu_us_per_message": cpu}),
        Figure("signing-cpu", "µs CPU/msg", at_most(1.1), *used),
    ]
