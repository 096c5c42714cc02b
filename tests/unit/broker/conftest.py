from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.broker.harness import Client, InProcess, broker


@pytest.fixture
def running(tmp_path: Path) -> Iterator[InProcess]:
    """An open broker with default settings."""
    with broker(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def client(running: InProcess) -> Client:
    return running.connect()
