"""Mutated frames to each server: no traceback, each request is answered, memory and turns are bounded, nothing is lost.

The long run is ``make fuzz``.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from rocketmq_py.protocol.codes import RequestCode as Code
from tests.fuzz.frames import BODIES, make_case
from tests.fuzz.run import fuzz
from tests.fuzz.watch import watched_logs

SEED = 15
GROWTH_KIB = 24 * 1024
"""A broker's tables and caches fill during the first thousands of frames."""


@pytest.mark.parametrize(
    ("target", "frames", "sockets"),
    [("broker", 2_200, False), ("namesrv", 600, False), ("ha", 400, False), ("broker", 300, True),
     ("namesrv", 100, True), ("ha", 100, True), ("grpc", 1_200, False), ("grpc", 100, True), ("proxied", 100, True),
     ("grpc-front", 500, False), ("grpc-front", 100, True)],
)  # fmt: skip
def test_servers_withstand_mutated_frames(tmp_path: Path, target: str, frames: int, sockets: bool) -> None:
    outcome = asyncio.run(fuzz(target, tmp_path / "store", SEED, frames, sockets=sockets, tell=lambda _: None))
    assert outcome.findings == []
    assert outcome.kept >= (1 if target == "namesrv" else frames // 50)
    assert outcome.longest_ms < 250, outcome.longest_name
    assert outcome.memory_kib[-1] - outcome.memory_kib[0] < GROWTH_KIB
    assert target == "ha" or outcome.answered > frames // (3 if target == "proxied" else 2)


def test_a_frame_depends_on_its_seed_and_number_alone() -> None:
    codes = tuple(BODIES)
    assert make_case(1, 7, codes) == make_case(1, 7, codes)
    assert len({make_case(1, number, (Code.HEART_BEAT,)).data for number in range(50)}) > 40


def test_a_traceback_in_the_log_is_a_finding() -> None:
    log = logging.getLogger("rocketmq_py.test")
    with watched_logs() as watch:
        watch.current = "frame 5"
        log.warning("refused")
        assert not watch.findings
        log.warning("failed", exc_info=ZeroDivisionError())
        log.error("broken")
    assert len(watch.findings) == 2
    assert all("after frame 5" in finding for finding in watch.findings.values())
