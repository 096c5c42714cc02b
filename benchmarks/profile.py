"""``python -m benchmarks.profile send-256``: where our broker's time goes under the load of a row.

py-spy writes a flame graph of the running broker, which costs the broker a few percent. Without it, or where it may not
attach, cProfile writes a table of functions; it makes Python code several times slower, so only calls compare.
"""

from __future__ import annotations

import os
import pstats
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from benchmarks.errors import BenchError
from benchmarks.loads import WORKS, Work
from benchmarks.program import Program
from benchmarks.rows.sides import Side, side_of
from benchmarks.servers import Server, our_command
from benchmarks.session import QUICK, Session, progress

_STOP_SECONDS = 30.0
_FUNCTIONS = 40
"""Number of functions in the table of cProfile."""


def tool_path(name: str = "py-spy") -> str | None:
    """Return the path of py-spy: that of this Python's environment, or the first in PATH; None if there is none."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.is_file() else shutil.which(name)


def py_spy_command(tool: str, pid: int, out: Path, seconds: int, rate: int, *, native: bool) -> list[str]:
    """Return the command line that samples a process into a flame graph.

    :param seconds: the duration.
    :param rate: samples per second.
    :param native: True to show functions of extension modules, too.
    """
    command = [tool, "record", "--pid", str(pid), "--output", str(out), "--duration", str(seconds), "--rate", str(rate)]
    return [*command, "--native"] if native else command


def with_py_spy(session: Session, work: Work, out: Path, seconds: int, rate: int, *, native: bool) -> None:
    """Sample our broker under a load into a flame graph (SVG).

    :raises BenchError: py-spy failed; the error has its message.
    """
    tool = tool_path()
    assert tool is not None

    def measure(program: Program, side: Side) -> None:
        session.tell(f"sampling for {seconds} s")
        command = py_spy_command(tool, program.pid, out, seconds, rate, native=native)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as spy:
            _run_until(side, work, lambda: spy.poll() is not None)
            said = spy.stdout.read() if spy.stdout is not None else ""
        if spy.returncode != 0:
            raise BenchError(f"py-spy failed:\n{said.strip()}")

    _serve(session, work, [], measure)


def with_cprofile(session: Session, work: Work, out: Path, seconds: int) -> None:
    """Profile our broker under a load; write the functions that took most time as text."""

    def measure(_: Program, side: Side) -> None:
        session.tell(f"profiling for {seconds} s")
        end = time.monotonic() + seconds
        _run_until(side, work, lambda: time.monotonic() >= end)

    with session.work() as folder:
        raw = folder / "broker.pstats"
        _serve(session, work, [sys.executable, "-m", "cProfile", "-o", str(raw)], measure)
        with out.open("w") as text:
            pstats.Stats(str(raw), stream=text).sort_stats("tottime").print_stats(_FUNCTIONS)


def _serve(session: Session, work: Work, wrapper: list[str], measure: Callable[[Program, Side], None]) -> None:
    """Run our broker, warmed up with the load, during ``measure``; then stop it.

    :param wrapper: words before the broker's command line.
    """
    generator = session.generator
    with session.work() as folder:
        command = [*wrapper, *our_command(folder / "ours", work.settings)]
        with Program(command, folder / "ours.log") as program:
            said = dict(word.split("=", 1) for word in program.ready().split())
            server = Server("ours", said["namesrv"], said["broker"], program.pid, program.kill)
            with side_of(generator, server) as side:
                session.tell("warming up")
                side.prepare(work, session.scale)
                measure(program, side)
            os.kill(program.pid, signal.SIGTERM)
            program.wait(_STOP_SECONDS)


def _run_until(side: Side, work: Work, is_over: Callable[[], bool]) -> None:
    """Put the load on the broker, run after run, until it is over; at least one run."""
    while True:
        side.run(work, QUICK)
        if is_over():
            return


@click.command()
@click.argument("row", envvar="ROW", type=click.Choice(list(WORKS)))
@click.option("--seconds", default=10, show_default=True, type=click.IntRange(min=1), help="How long to sample.")
@click.option("--rate", default=500, show_default=True, type=click.IntRange(1, 1000), help="Samples per second.")
@click.option("--out", type=click.Path(path_type=Path), help="Result [default: profile-ROW.svg, or .txt of cProfile].")
@click.option("--native", is_flag=True, help="Show functions of extension modules, too (py-spy on Linux).")
@click.option("--cprofile", is_flag=True, help="Take cProfile even where py-spy is installed.")
def main(row: str, seconds: int, rate: int, out: Path | None, native: bool, cprofile: bool) -> None:
    """Profile our broker under the load of ROW and write a flame graph."""
    session = Session(QUICK, progress())
    if not cprofile and tool_path() is None:
        session.tell("py-spy is not installed: cProfile takes its place")
        cprofile = True
    out = out or Path(f"profile-{row}.{'txt' if cprofile else 'svg'}")
    try:
        if cprofile:
            with_cprofile(session, WORKS[row], out, seconds)
        else:
            with_py_spy(session, WORKS[row], out, seconds, rate, native=native)
    except BenchError as e:
        raise click.ClickException(f"{e}\nwith --cprofile no other process has to be attached to") from None
    click.echo(str(out))


if __name__ == "__main__":
    main()
