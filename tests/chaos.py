"""Scenarios of failure, again and again for some minutes: ``python -m tests.chaos --minutes 10``.

With ``--java`` the servers are Apache RocketMQ's, the clients ours: what both kinds of server do to the same clients
can be compared. The scenarios are those of :mod:`tests.chaoskit.scenarios`.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.cluster import ExchangeHaInfo
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.wire.command import Command
from tests.chaoskit.audit import Figures
from tests.chaoskit.chaos import Chaos, Outcome
from tests.chaoskit.processes import OurServers, Servers
from tests.chaoskit.scenarios import ALL, NEED_SEAMS, PAIRED
from tests.interop.javapeer import PEER, QUICK, QUICK_CONF, JavaPeer, options

SCENARIOS = ALL | PAIRED
LOCK_SECONDS = 5.0
"""Less than Apache RocketMQ's 30, so that a minute sees more than one crash of an orderly consumer."""
HEAD = (
    f"{'scenario':24} {'sent':>8} {'acked':>8} {'consumed':>8} {'twice':>6} {'longest send':>13} {'longest wait':>13}  "
)


class JavaServers:
    """Servers of Apache RocketMQ, with small files and locks that live as long as ``lock_seconds`` say of ours."""

    has_seams = False

    def __init__(self, lock_seconds: float) -> None:
        self._lock_ms = round(2000 * lock_seconds)

    def name_server(self, port: int, work: Path) -> Sequence[str]:
        quick = f"PEER_JAVA_OPTS={QUICK}"
        return ["env", quick, str(PEER), "namesrv", str(port), "--store", str(work / f"namesrv-{port}")]

    def broker(self, port: int, store: Path, settings: Mapping[str, str]) -> Sequence[str]:
        conf = [f"{key}={value}" for key, value in {**QUICK_CONF, "timerFlushIntervalMs": 5000, **settings}.items()]
        flags = options(store=store, namesrv=settings["namesrvAddr"], port=port, conf=conf)
        lives = f"PEER_JAVA_OPTS={QUICK} -Drocketmq.broker.rebalance.lockMaxLiveTime={self._lock_ms}"
        return ["env", lives, str(PEER), "broker", *flags]

    def serves(self, address: str, settings: Mapping[str, str]) -> None:
        """Tell a slave where its log comes from: what its settings say of that, RocketMQ 5.5 reads before its HA client
        is there to be told.
        """
        if settings.get("brokerRole") == "SLAVE":
            asyncio.run(_tell_ha_address(address, settings["haMasterAddress"]))


async def _tell_ha_address(slave: str, ha_address: str) -> None:
    outward = RpcClient()
    try:
        header = ExchangeHaInfo(master_ha_address=ha_address)
        await outward.ask(slave, Command(RequestCode.EXCHANGE_BROKER_HA_INFO, ext=header.to_ext()), 60.0)
    finally:
        outward.close()


def row(name: str, figures: Figures, verdict: str) -> str:
    f = figures
    return (
        f"{name:24} {f.sent:8} {f.acknowledged:8} {f.consumed:8} {f.duplicates:6} {f.longest_send:11.1f} s "
        f"{f.longest_wait:11.1f} s  {verdict}"
    )


def together(outcomes: Sequence[Outcome]) -> Figures:
    """The sums, and the worst of the times."""
    each = [outcome.figures for outcome in outcomes]
    return Figures(
        *(sum(getattr(one, name) for one in each) for name in ("sent", "acknowledged", "consumed", "duplicates")),
        longest_send=max(one.longest_send for one in each),
        longest_wait=max(one.longest_wait for one in each),
    )


def rounds(names: Sequence[str], chance: random.Random, goes_on: Callable[[int], bool]) -> Iterator[str]:
    """Every scenario, in an order of the dice, then all of them again, while it is to go on.

    :param goes_on: asked after every scenario, with how many there were.
    """
    done = itertools.count(1)
    while True:
        for name in chance.sample(names, len(names)):
            yield name
            if not goes_on(next(done)):
                return


@contextmanager
def servers(*, java: bool) -> Iterator[Servers]:
    if java:
        JavaPeer.build()
        yield JavaServers(LOCK_SECONDS)
    else:
        yield OurServers()


@click.command()
@click.option("--minutes", default=5.0, show_default=True, help="How long; every scenario begun is finished.")
@click.option("--rounds", "times", type=click.IntRange(1), help="Every scenario so often, however long it takes.")
@click.option(
    "--scenario", "names", multiple=True, type=click.Choice(list(SCENARIOS)), help="Only this one; may be repeated."
)
@click.option("--seed", type=int, help="Of everything random; printed, for another run with the same decisions.")
@click.option("--rate", default=200.0, show_default=True, help="Messages a second.")
@click.option("--java", is_flag=True, help="Servers of Apache RocketMQ instead of ours.")
@click.option("--work", type=click.Path(path_type=Path), help="Keep stores and logs here.")
def main(
    *, minutes: float, times: int | None, names: tuple[str, ...], seed: int | None, rate: float, java: bool,
    work: Path | None,
) -> None:  # fmt: skip
    """Let scenarios of failure happen to a cluster under load, and judge what came of it."""
    seed = random.randrange(1 << 31) if seed is None else seed
    wanted = list(names or SCENARIOS)
    if java:
        left_out = ", ".join(sorted(NEED_SEAMS.intersection(wanted))) or "none"
        click.echo(f"left out, no test commands their clocks and disks: {left_out}")
        wanted = [name for name in wanted if name not in NEED_SEAMS]
    if work is not None:
        work.mkdir(parents=True, exist_ok=True)
    goes_on = _while(minutes * 60) if times is None else (times * len(wanted)).__gt__
    outcomes: dict[str, list[Outcome]] = {}
    click.echo(f"seed {seed}\n{HEAD}verdict")
    with servers(java=java) as kind, Chaos(
        seed=seed, rate=rate, slaves=int(not PAIRED.keys().isdisjoint(wanted)), lock_seconds=LOCK_SECONDS, servers=kind,
        work=work,
    ) as chaos:  # fmt: skip
        for name in rounds(wanted, random.Random(seed), goes_on):
            outcome = chaos.run(SCENARIOS[name])
            outcomes.setdefault(name, []).append(outcome)
            click.echo(row(name, outcome.figures, outcome.verdict))
            for fault in outcome.faults[:10]:
                click.echo(f"    {fault}", err=True)
    _summary(outcomes)
    if any(outcome.faults for several in outcomes.values() for outcome in several):
        sys.exit(f"to see it again: --seed {seed}")


def _while(seconds: float) -> Callable[[int], bool]:
    end = time.monotonic() + seconds
    return lambda _: time.monotonic() < end


def _summary(outcomes: Mapping[str, Sequence[Outcome]]) -> None:
    click.echo(f"\n{HEAD}verdict")
    for name, several in outcomes.items():
        held = sum(not outcome.faults for outcome in several)
        click.echo(row(name, together(several), f"holds {held} of {len(several)} times"))


if __name__ == "__main__":
    main()
