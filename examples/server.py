"""Starts ``rocketmq serve`` as its own process and waits for its READY line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def running_server(store: Path, log: Path) -> Iterator[str]:
    """A name server and broker on free ports over ``store``; gives the name server's address.

    What the server logs goes to ``log``.
    """
    command = [sys.executable, "-m", "rocketmq_py.cli", "serve", "--store", str(store), "--namesrv-port", "0",
               "--port", "0"]  # fmt: skip
    with log.open("ab") as sink:
        process = subprocess.Popen(  # noqa: S603 - our own program
            command, stdout=subprocess.PIPE, stderr=sink, text=True
        )
        try:
            yield _await_ready(process, log)
        finally:
            process.terminate()
            process.wait(10)


def _await_ready(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("READY "):
            fields = dict(part.split("=", 1) for part in line.split()[1:])
            return fields["namesrv"]
    raise SystemExit(f"the server ended with status {process.wait()} before it was ready; its log is {log}")
