"""``python -m benchmarks.ab --old CHECKOUT [ROW …]``: compare this checkout's broker with another one's, in turn.

For development: shows whether a change made a load faster and others not slower. No Java is needed. The table has the
ratio of rates (or of median times) and of CPU per message; the latter is more reliable on a machine with other work.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import click

from benchmarks.errors import BenchError
from benchmarks.figures import Figure, at_least, at_most, table
from benchmarks.loads import WORKS
from benchmarks.rows.sides import judge_work, side_of
from benchmarks.servers import start_ours
from benchmarks.session import FULL, QUICK, Session, progress

HERE = Path(__file__).parent.parent
_USUAL = ("send-1", "send-64", "send-256", "batch", "pull-32")


@click.command()
@click.argument("rows", nargs=-1, type=click.Choice(list(WORKS)))
@click.option("--old", required=True, type=click.Path(exists=True, path_type=Path), help="The other checkout.")
@click.option("--runs", default=15, show_default=True, help="Rounds: one run of each side.")
@click.option("--full", is_flag=True, help="As much work in a run as the benchmarks do, instead of a quarter.")
@click.option("--old-env", multiple=True, metavar="NAME=VALUE", help="Environment of the other broker.")
@click.option("--new-env", multiple=True, metavar="NAME=VALUE", help="Environment of this one.")
def main(
    rows: tuple[str, ...], old: Path, runs: int, full: bool, old_env: tuple[str, ...], new_env: tuple[str, ...]
) -> None:
    """Compare this checkout's broker with another one's."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    session = Session(replace(FULL if full else QUICK, warm=QUICK.warm, runs=runs), progress())
    new, before = _environment(HERE, new_env), _environment(old, old_env)
    figures: list[Figure] = []
    try:
        for name in rows or _USUAL:
            figures += compare(session, name, new, before)
    except BenchError as e:
        raise click.ClickException(str(e)) from None
    finally:
        if figures:
            click.echo(table(figures))
            for figure in figures:
                click.echo(f"{figure.name}: {rounds(figure)}")
            click.echo(f"ours: this checkout; peer: {old}; load {' '.join(f'{load:.1f}' for load in os.getloadavg())}")


def compare(session: Session, name: str, new: dict[str, str], old: dict[str, str]) -> list[Figure]:
    """Measure one row for two brokers; return a figure of rate or median time, and one of CPU per message.

    :param new: environment variables of the broker of this checkout; ``old`` those of the other one.
    """
    work, generator = WORKS[name], session.generator
    session.tell(f"{name}: starting both brokers")
    with session.work() as folder, ExitStack() as stack:
        sides = []
        for label, environment in (("new", new), ("old", old)):
            place = folder / label
            place.mkdir()
            server = start_ours(place, work.settings, environment)
            stack.callback(server.kill)
            side = stack.enter_context(side_of(generator, replace(server, name=label)))
            session.tell(f"{name}: warming {label}")
            side.prepare(work, session.scale)
            sides.append(side)
        floor = at_most(1.03) if work.load.inflight == 1 else at_least(0.97)
        return judge_work(session, name, floor, at_most(1.03), (sides[0], sides[1]), work)


def rounds(figure: Figure) -> str:
    """Describe the ratios new / old of single rounds: both runs of a round are disturbed alike by other work."""
    ratios = sorted(new / old for new, old in zip(figure.ours, figure.peer, strict=True))
    quartiles = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    least = min(figure.ours) / min(figure.peer)
    low, middle, high = (f"{ratio:.3f}" for ratio in quartiles)
    return f"new / old by rounds {middle} ({low} – {high}), least / least {least:.3f}"


def _environment(checkout: Path, more: Iterable[str]) -> dict[str, str]:
    """Return this process's environment with a checkout's source as ``PYTHONPATH``, and ``NAME=VALUE`` words added."""
    source = (checkout / "src").resolve()
    if not (source / "rocketmq_py").is_dir():
        raise click.ClickException(f"{checkout} is no checkout: it has no src/rocketmq_py")
    words = (word.partition("=") for word in more)
    return {**os.environ, "PYTHONPATH": str(source), **{name: value for name, _, value in words}}


if __name__ == "__main__":
    main()
