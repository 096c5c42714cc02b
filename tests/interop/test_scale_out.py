"""The commands of docs/scale-out.md, as they stand there, while producers, consumers and a Spark query are at work."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from rocketmq_py.remoting.portal import Portal
from tests.chaoskit.audit import Audit, MessageId
from tests.chaoskit.chaos import Member
from tests.chaoskit.load import ORDERED, PLAIN, READERS, Load
from tests.chaoskit.member import MemberOptions
from tests.interop.javapeer import PEER, JavaPeer, free_port_block

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(1200)]

PAGE = (Path(__file__).parents[2] / "docs" / "scale-out.md").read_text()
SECONDS = 300.0
"""Longer than anything here takes; only what fails waits for it."""


def section(title: str) -> list[str]:
    """The shell blocks under a heading of the page."""
    (text,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


MQBROKER = """#!/bin/sh
value() { sed -n "s/^$1=//p" "$2"; }
exec "$PEER" broker --store "$(value storePathRootDir "$2")" --namesrv "$(value namesrvAddr "$2")" \\
    --port "$(value listenPort "$2")" $(sed 's/^/--conf /' "$2")
"""
PROGRAMS = {"mqbroker": MQBROKER, "mqadmin": '#!/bin/sh\nexec "$PEER" admin "$@"\n'}
"""The programs of a distribution as the peer has them; ``mqbroker`` is only called with ``-c FILE``."""


class Shell:
    """One shell that reads the page: what one block starts or exports is there for the next."""

    def __init__(self, work: Path, ports: dict[str, int]) -> None:
        self._work = work
        self._ports = ports
        programs = work / "bin"
        programs.mkdir()
        for name, script in PROGRAMS.items():
            (programs / name).write_text(script)
            (programs / name).chmod(0o755)
        path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
        with (work / "shell.log").open("wb") as log:
            self._process = subprocess.Popen(
                ["bash", "-e"], cwd=work, env={**os.environ, "PATH": path, "PEER": str(PEER)}, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True,
            )  # fmt: skip

    def run(self, block: str) -> None:
        for port, here in self._ports.items():
            block = re.sub(rf"\b{port}\b", str(here), block)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{{\n{block}\n}} >&2\necho done\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n", f"{block}\n{self._said()}"

    def _said(self) -> str:
        return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-2000:]}" for log in self._work.glob("*.log"))

    def close(self) -> None:
        """Ends the shell and all it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


class Clients:
    """Producers and consumers with their audit, and a streaming query, none of which is touched by what is moved."""

    def __init__(self, namesrv: str, broker: str, work: Path, spark: SparkSession) -> None:
        self.audit = Audit(ordered=[ORDERED])
        self._namesrv = namesrv
        self._broker = broker
        self._work = work
        self._spark = spark
        self._portal = Portal()
        self._load = Load(self.audit, rate=50)
        self._members: list[Member] = []
        self._query: StreamingQuery | None = None

    def start(self) -> None:
        self._portal.run(self._load.start(self._namesrv, [self._broker], {}))
        for topic in READERS:
            options = MemberOptions(topic, self._namesrv, READERS[topic], topic, orderly=topic == ORDERED)
            self._members.append(Member(self.audit, options, self._work / f"{topic}.log"))
        for member in self._members:
            member.begin()
        for member in self._members:
            member.await_ready()
        self._query = self._started_query()
        self._portal.call(self._load.resume)

    def _started_query(self) -> StreamingQuery:
        """The job, as it was started the first time."""
        stream = self._spark.readStream.format("rocketmq").options(
            namesrv=self._namesrv, subscribe=PLAIN, startingOffsets="earliest", numRetries="60"
        )
        rows = stream.load().selectExpr("cast(body as string) body", "queueId", "queueOffset")
        return rows.writeStream.format("parquet").start(
            str(self._work / "rows"), checkpointLocation=str(self._work / "checkpoint")
        )

    def go_on(self) -> None:
        """Until so much more of everything has been sent and consumed."""
        with self.audit.changed:
            goal = {topic: self.audit.consumed_from[topic] + 30 for topic in READERS}
            assert self.audit.changed.wait_for(
                lambda: all(self.audit.consumed_from[topic] >= count for topic, count in goal.items()), SECONDS
            ), f"{self.audit.consumed_from} of {goal}"
        if self._query is not None and not self._query.isActive:
            self._query = self._started_query()

    def rest(self) -> None:
        """Nothing more is sent; everything is consumed."""
        self._portal.run(self._load.pause())
        with self.audit.changed:
            self.audit.changed.wait_for(lambda: not self.audit.open, SECONDS)

    def rows(self) -> list[tuple[MessageId, int, int]]:
        """What the query has written."""
        assert self._query is not None
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                self._query.processAllAvailable()
                break
            except StreamingQueryException:  # Spark gives a Python worker 10 s to start, which may be too few
                assert time.monotonic() < deadline
                self._query = self._started_query()
        self._query.stop()
        found = self._spark.read.parquet(str(self._work / "rows")).collect()
        return [(MessageId.of(row.body), row.queueId, row.queueOffset) for row in found]

    def close(self) -> None:
        if self._query is not None:
            self._query.stop()
        for member in self._members:
            member.kill()
        self._portal.run(self._load.stop())
        self._portal.stop()


@pytest.mark.parametrize(
    "titles",
    [["The same store, a Java broker", "And back"], ["Another machine, without moving the store"]],
    ids=["same store", "slave"],
)
def test_commands_of_a_section_work(java: JavaPeer, spark: SparkSession, tmp_path: Path, titles: list[str]) -> None:
    namesrv, broker, slave = (free_port_block() for _ in range(3))
    with contextlib.ExitStack() as stack:
        shell = Shell(tmp_path, {"9876": namesrv, "10911": broker, "10921": slave})
        stack.callback(shell.close)
        for block in section("One machine"):
            shell.run(block)
        clients = Clients(f"127.0.0.1:{namesrv}", f"127.0.0.1:{broker}", tmp_path, spark)
        stack.callback(clients.close)
        clients.start()
        clients.go_on()
        for title in titles:
            for block in section(title):
                shell.run(block)
            clients.go_on()
        clients.rest()
        promised = {one.message_id for one in clients.audit._acknowledged if one.queue.topic == PLAIN}
        assert clients.audit.finish()[0] == []
        rows = clients.rows()
        assert {mark for mark, _, _ in rows} >= promised
        assert len({(queue_id, offset) for _, queue_id, offset in rows}) == len(rows), "a row came twice"


def test_no_section_is_left_out() -> None:
    titles = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    assert [title for title in titles if section(title)] == [
        "One machine", "The same store, a Java broker", "And back", "Another machine, without moving the store",
    ]  # fmt: skip
