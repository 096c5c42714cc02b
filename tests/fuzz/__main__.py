"""``python -m tests.fuzz --frames 200000 --seed 7 --target broker``."""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from pathlib import Path

import click

from tests.fuzz.run import Outcome, fuzz
from tests.fuzz.targets import TARGETS

SHARES = {"broker": 0.6, "namesrv": 0.15, "ha": 0.04, "grpc": 0.15, "grpc-front": 0.05, "proxied": 0.01}
"""Parts of all frames that each target gets: the broker has most request codes."""


@click.command()
@click.option("--frames", default=200_000, show_default=True, help="Frames in all.")
@click.option("--seed", type=int, help="Makes a run again; by default a new one.")
@click.option("--target", type=click.Choice([*TARGETS, "all"]), default="all", show_default=True)
@click.option("--sockets", is_flag=True, help="Send through sockets, not in memory; slower.")
def main(frames: int, seed: int | None, target: str, sockets: bool) -> None:
    """Send mutated frames to servers and report what does not hold."""
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}")
    outcomes: list[Outcome] = []
    for name in TARGETS if target == "all" else (target,):
        count = round(frames * SHARES[name]) if target == "all" else frames
        with tempfile.TemporaryDirectory(prefix="fuzz-") as root:
            outcomes.append(asyncio.run(fuzz(name, Path(root) / "store", seed, count, sockets=sockets)))
        for finding in outcomes[-1].findings:
            click.echo(finding)
        click.echo(str(outcomes[-1]))
    sys.exit(any(outcome.findings for outcome in outcomes))


main()
