"""Apache's Go client, in every way it can be used, on our servers and on Java's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.interop.foreign_builds import go_program
from tests.interop.javapeer import JavaPeer
from tests.interop.ours import OurServers

PROBE = Path(__file__).with_name("go")
SETTINGS = {"enablePropertyFilter": "true", "transactionCheckInterval": 3000, "transactionTimeOut": 20_000}
"""A transaction is asked about when its producer has had time to end it, on a busy machine too."""
SECONDS = 500.0
STEPS = {
    "list topics", "queues to write", "list groups", "delete topic", "send a batch", "consume", "consume by tag",
    "broadcasting", "consume by sql", "pull consumer", "orderly", "delay level 2", "retry", "transactions", "request",
}  # fmt: skip

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("go") is None, reason="go is not on PATH"),
]


@pytest.fixture(scope="module")
def probe() -> Path:
    """The program, built."""
    return go_program(PROBE)


@pytest.fixture(params=["ours", "java"])
def addresses(request: pytest.FixtureRequest, java: JavaPeer, servers: OurServers) -> tuple[str, str]:
    """Of a name server and a broker nobody else uses."""
    if request.param == "ours":
        ours = servers.serve(**SETTINGS)
        return ours.namesrv, ours.broker
    theirs = java.broker(java.namesrv().address, conf=SETTINGS)
    return theirs.namesrv, theirs.address


def test_every_step_of_the_go_client_works(probe: Path, addresses: tuple[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [str(probe), *addresses], capture_output=True, text=True, check=False, timeout=SECONDS,
        env=os.environ | {"HOME": str(tmp_path)},  # where it keeps offsets of broadcasting groups
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [line for line in said if not line["ok"]] == []
    assert {line["step"] for line in said} == STEPS
