"""``python -m demo``: the whole way of a message, with a check at the end. The exit status is the check's."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
import time
from pathlib import Path

import click
import pandas as pd
from rich.console import Console

from demo import flights, report
from demo.board import Board
from demo.state import StateFile
from examples.server import running_server


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--data", type=click.Path(path_type=Path), default=Path("demo-data"), show_default=True,
              help="where the store, Spark's checkpoints and the results live")  # fmt: skip
@click.option("--rate", type=click.FloatRange(min=1), help="departures per second; as fast as it goes if not given")
@click.option("--limit", type=click.IntRange(min=1), help="only the first so many departures")
@click.option("--fresh", is_flag=True, help="forget everything and start over")
def main(data: Path, rate: float | None, limit: int | None, *, fresh: bool) -> None:
    """Replay a year of departures through a broker, a push consumer and Spark, and check that the numbers agree.

    A second run continues where the first one stopped.
    """
    if fresh:
        shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(
        filename=data / "client.log", level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    console = Console()
    state_file = StateFile(data / "state.json")
    _check_limit(state_file, limit, data)
    began = time.monotonic()
    frame = flights.load(limit)
    console.print(f"{len(frame):,} departures, {flights.late_count(frame):,} of them two hours late or more")
    from demo.journey import Journey

    with running_server(data / "store", data / "server.log") as namesrv:
        console.print(f"name server and broker are up: {namesrv}")
        with Board(console) as board:
            journey = Journey(namesrv, data, frame, state_file, rate, board)
            try:
                tally = asyncio.run(journey.run())
            except* Exception as failures:
                raise click.ClickException(_told(failures, data)) from failures
    passed = _report(console, data, tally)
    if passed:
        journey.verified()
    console.print(f"{time.monotonic() - began:.0f} s; everything is in {data}/; --fresh starts over")
    sys.exit(0 if passed else 1)


def _told(failures: BaseExceptionGroup, data: Path) -> str:
    """Every failure in a line, and where to read more."""
    words = [f"{type(e).__name__}: {str(e).partition(chr(10))[0]}" for e in _leaves(failures)]
    return "\n".join(
        [*words, f"client.log, server.log and spark.log in {data}/ say more; a second run goes on from here"]
    )


def _leaves(failure: BaseException) -> list[BaseException]:
    if isinstance(failure, BaseExceptionGroup):
        return [leaf for inner in failure.exceptions for leaf in _leaves(inner)]
    return [failure]


def _check_limit(state_file: StateFile, limit: int | None, data: Path) -> None:
    state = state_file.load()
    if state.sent == 0:
        state.limit = limit
        state_file.save(state)
    elif state.limit != limit:
        raise click.UsageError(f"{data} was started with --limit {state.limit}; say the same, or --fresh")


def _report(console: Console, data: Path, tally: report.Tally) -> bool:
    windows = pd.read_parquet(data / "windows")
    report.print_table(console, report.carriers(windows))
    picture = data / "delays.png"
    report.draw(windows, picture)
    console.print(f"picture: {picture}")
    return report.print_checks(console, report.checks(tally))


if __name__ == "__main__":
    main()
