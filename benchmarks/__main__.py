"""``python -m benchmarks``: runs rows, prints the table.

The exit status says whether everything could be measured (0) or a row failed or a tool is missing (1); it never
depends on a figure.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace

import click

from benchmarks.errors import BenchError
from benchmarks.figures import Figure, table
from benchmarks.results import write
from benchmarks.rows import ROWS
from benchmarks.session import FULL, QUICK, Session, progress
from rocketmq_py.accelerator import installed
from tests.interop.javapeer import PeerError, missing


@click.command()
@click.option("--only", metavar="ROW", envvar="ONLY", type=click.Choice(list(ROWS)), help="One row instead of all.")
@click.option("--quick", is_flag=True, help="Less work and fewer runs: for development, not for the record.")
@click.option("--runs", type=click.IntRange(min=1), help="Measured runs of each side [default: 5, quick: 3].")
def main(only: str | None, quick: bool, runs: int | None) -> None:
    """Measure rocketmq-py beside its Java peers and print a table of ratios."""
    lacking = missing()
    if lacking is not None:
        raise click.ClickException(f"the peers cannot run here: {lacking}; Java 17 or newer and Maven are needed")
    # As Ctrl-C does, SIGTERM unwinds: servers end and stores are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    scale = QUICK if quick else FULL
    scale = replace(scale, runs=runs or scale.runs)
    tell = progress()
    figures: list[Figure] = []
    failures: dict[str, str] = {}
    for name in [only] if only else ROWS:
        _measure(name, Session(scale, tell), figures, failures)
    settings = {"rows": only or "all", "quick": quick, "runs": scale.runs, "accelerator": installed() is not None}
    path = write(figures, failures, settings)
    _print(figures, failures)
    click.echo(f"all runs: {path}", err=True)
    if only and figures:
        click.echo(_last_line(only, figures))
    sys.exit(1 if failures else 0)


def _measure(name: str, session: Session, figures: list[Figure], failures: dict[str, str]) -> None:
    try:
        figures += ROWS[name](session)
    except (BenchError, PeerError, OSError, subprocess.SubprocessError) as e:
        failures[name] = f"{type(e).__name__}: {e}"
        session.tell(f"{name} could not be measured: {failures[name]}")


def _print(figures: list[Figure], failures: dict[str, str]) -> None:
    if figures:
        click.echo(table(figures))
    for name, reason in failures.items():
        click.echo(f"{name}: not measured: {reason.splitlines()[0]}")


def _last_line(name: str, figures: list[Figure]) -> str:
    """The row as one JSON line; a row of two figures carries the second one under ``also``."""
    first, *others = [figure.summary() for figure in figures]
    also = {"also": others} if others else {}
    return json.dumps({**first, "name": name, **also}, ensure_ascii=False)


if __name__ == "__main__":
    main()
