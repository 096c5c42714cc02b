"""The manual of the command line: its commands work, and its reference equals the help."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from rocketmq_py import Admin, Message, Producer
from rocketmq_py.cli import main
from rocketmq_py.cli.connect.contexts import FILE_VARIABLE
from rocketmq_py.cli.output.failures import Status
from rocketmq_py.cli.root import VERBS
from rocketmq_py.testing import Cluster
from tests.docs.cli_reference import DOCUMENT, expected

MANUAL = DOCUMENT.read_text()
LINES = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```", MANUAL, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
    if "# until Ctrl-C" not in line and not line.startswith("eval")
]


def test_the_reference_equals_the_help_of_the_commands() -> None:
    assert expected(MANUAL) == MANUAL, "make it anew: python -m tests.docs.cli_reference"


def test_every_verb_is_documented() -> None:
    text = "\n".join(path.read_text() for path in DOCUMENT.parents[1].rglob("*.md"))
    missing = [verb for verb in VERBS if f"rocketmq {verb}" not in text]
    assert not missing


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster with what the manual takes for granted: a group with a dead letter, and a topic to copy to."""
    with Cluster() as running, Admin(running.namesrv) as admin, Producer("p", running.namesrv) as producer:
        admin.create_group("billing")
        admin.create_topic("%DLQ%billing", 1)
        producer.send(Message("%DLQ%billing", "dead", properties={"RETRY_TOPIC": "orders"}))
        yield running


@pytest.mark.skipif(os.name == "nt", reason="written for a POSIX shell")
def test_commands_of_the_manual_work(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("NAMESRV_ADDR", cluster.namesrv)
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "contexts.json"))
    for line in LINES:
        status, said = run(line)
        # A message that has just been sent is not in the index yet.
        while status == Status.NOT_FOUND and "message query" in line:
            status, said = run(line)
        assert status == 0, f"{line}\n{said}"
    assert len(LINES) > 25


def run(line: str) -> tuple[int, str]:
    """Exit status and output: of the command in this process, or of a shell where it takes one."""
    if "|" in line:
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, timeout=100)
        return done.returncode, done.stdout + done.stderr
    program, *words = shlex.split(line, comments=True)
    assert program == "rocketmq"
    result = CliRunner().invoke(main, words)
    return result.exit_code, result.output
