"""``python -m benchmarks.growth``: how long a producer waits while a broker has many topics, groups or members.

The producer sends 500 messages per second; its longest waiting time is the figure. The exit status is 1 if something
could not be measured; it never depends on a figure.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import get_args

import click

from benchmarks.errors import BenchError
from benchmarks.figures import human
from benchmarks.growth.delivered import due, fan_out
from benchmarks.growth.sides import Side
from benchmarks.growth.stored import answers, cold, keys
from benchmarks.growth.works import Context, Measured, groups, members, topics
from benchmarks.session import QUICK, Session, progress
from tests.interop.javapeer import JavaPeer, PeerError, missing

SIZES: Mapping[str, tuple[int, ...]] = {
    "topics": (1_000, 5_000, 20_000),
    "groups": (1_000, 10_000, 50_000),
    "members": (500, 1_000, 2_000),
    "answers": (1_000, 10_000),
    "keys": (2_000_000,),
    "cold": (1_024,),
    "fan-out": (100, 300),
    "due": (1_000_000,),
}
"""What is measured by default.

Numbers of topics, groups, members; of topics and groups; of messages; MiB of bodies; numbers of groups that get each
message; of delayed messages.
"""

WORKS: Mapping[str, Callable[[Context, Side, int], Measured]] = {
    "topics": topics, "groups": groups, "members": members, "answers": answers, "keys": keys, "cold": cold,
    "fan-out": fan_out, "due": due,
}  # fmt: skip


@click.command()
@click.option("--only", type=click.Choice(list(WORKS)), help="One of them instead of all.")
@click.option("--size", "sizes", type=click.IntRange(min=1), multiple=True, help="How many, instead of the usual ones.")
@click.option("--side", "sides", type=click.Choice(get_args(Side)), multiple=True, help="One broker instead of both.")
@click.option("--rest", default=20.0, show_default=True, help="Seconds in which CPU at rest is measured.")
def main(only: str | None, sizes: tuple[int, ...], sides: tuple[Side, ...], rest: float) -> None:
    """Measure growing numbers of what a broker holds, on our broker and on the Java peer in turn."""
    chosen: tuple[Side, ...] = sides or get_args(Side)
    if "java" in chosen:
        if (lacking := missing()) is not None:
            raise click.ClickException(f"the peer cannot run here: {lacking}; --side ours measures ours alone")
        JavaPeer.build()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    session, failed = Session(QUICK, progress()), 0
    # Stores are removed at the end: for five minutes ext4 does not use a removed inode again but searches for another,
    # so that after the removal of 20,000 queues each new file or folder takes five times as long.
    with ExitStack() as folders:
        for name in [only] if only else WORKS:
            for size in sizes or SIZES[name]:
                found: dict[str, Measured | str] = {}
                for side in chosen:
                    session.tell(f"{size:,} {name}: {side}")
                    work = folders.enter_context(session.work())
                    try:
                        found[side] = WORKS[name](Context(session.generator, work, rest), side, size)
                    except (BenchError, PeerError, OSError, TimeoutError) as e:
                        found[side] = f"not measured: {e}"
                        failed += 1
                click.echo(_table(f"{size:,} {name}", found))
    sys.exit(1 if failed else 0)


def _table(title: str, found: Mapping[str, Measured | str]) -> str:
    """Format a table with a line for each quantity and a column for each broker; "–" for what was not measured."""
    measured = {side: values for side, values in found.items() if not isinstance(values, str)}
    names = list(dict.fromkeys(name for values in measured.values() for name in values))
    lines = [f"{title:<32}" + "".join(f"{side:>12}" for side in found)]
    for name in names:
        values = (measured.get(side, {}).get(name) for side in found)
        cells = ("–" if value is None else human(value) for value in values)
        lines.append(f"  {name:<30}" + "".join(f"{cell:>12}" for cell in cells))
    lines += [f"  {side}: {text}" for side, text in found.items() if isinstance(text, str)]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
