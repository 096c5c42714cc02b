"""``rocketmq proxy`` as a user starts it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.interop.ours import STOP_SECONDS, first_line

READY = re.compile(r"READY proxy=(\S+)")


@contextmanager
def our_proxy(namesrv: str, log: Path, *flags: str) -> Iterator[str]:
    """Run a proxy in front of the brokers of a name server; yields its endpoint.

    SIGTERM ends it with status 0, and its log has no traceback.
    """
    command = [
        str(Path(sys.executable).with_name("rocketmq")),
        "proxy",
        "--namesrv",
        namesrv,
        "--listen",
        "127.0.0.1:0",
    ]
    with (
        log.open("wb") as stderr,
        subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
    ):
        try:
            match = READY.search(first_line(process))
            assert match is not None, log.read_text()[-3000:]
            yield match[1]
            process.send_signal(signal.SIGTERM)
            status = process.wait(STOP_SECONDS)
        finally:
            process.kill()
    said = log.read_text()
    assert status == 0, said[-3000:]
    assert "Traceback" not in said, said[-3000:]
