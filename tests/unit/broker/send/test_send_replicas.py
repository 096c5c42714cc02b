"""Sends to a SYNC_MASTER with too few slaves: they are refused before anything is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.broker.harness import broker
from tests.unit.broker.requests import send

SEND_V2, SYSTEM_ERROR = 310, 1


@pytest.mark.parametrize(("properties", "stored"), [({"WAIT": "true"}, 0), ({"WAIT": "false"}, 1)])
def test_without_enough_slaves_nothing_is_stored(tmp_path: Path, properties: dict[str, str], stored: int) -> None:
    """But for a message that does not want to wait."""
    with broker(
        tmp_path, broker_role="SYNC_MASTER", in_sync_replicas=2, total_replicas=2, enable_slave_acting_master=True
    ) as running:
        client = running.connect()
        for _ in range(2):  # the first one creates the topic, the second takes the fast path
            answer = client.ask(SEND_V2, send(properties=properties), b"body")
            assert answer.code == (0 if stored else SYSTEM_ERROR)
            if not stored:
                assert "replicas" in (answer.remark or "").lower()
        assert running.services.store.queue_range("t", 0) == (0, 2 * stored)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"properties": {"DELAY": "1"}},
        {"properties": {"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": "U1"}, "sys_flag": 4},
    ],
    ids=["plain", "delayed", "half"],
)
async def test_every_kind_of_send_waits_for_the_slaves(tmp_path: Path, more: dict[str, Any]) -> None:
    with broker(tmp_path, broker_role="SYNC_MASTER", in_sync_replicas=2) as running:
        client = running.connect()
        before = running.services.store.max_physical_offset
        for _ in range(2):  # the second takes the fast path
            assert client.call(SEND_V2, send(**more), b"body") is None
            assert client.heard == []
            assert running.services.store.max_physical_offset > before
            before = running.services.store.max_physical_offset
