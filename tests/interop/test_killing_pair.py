"""A few rounds of ``tests.interop.killing_pair``: acknowledged messages of a mixed pair survive kills."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.javapeer import JavaPeer
from tests.interop.killing_pair import MixedRounds

pytestmark = pytest.mark.long


@pytest.fixture
def own_java(tmp_path: Path) -> Iterator[JavaPeer]:
    """Whose servers end with the test."""
    JavaPeer.build()
    peer = JavaPeer(tmp_path)
    yield peer
    peer.close()


@pytest.mark.parametrize("java_master", [False, True], ids=["java slave", "java master"])
def test_acknowledged_messages_survive_kills_of_either(own_java: JavaPeer, tmp_path: Path, java_master: bool) -> None:
    rounds = MixedRounds(tmp_path, own_java, java_master=java_master)
    asyncio.run(rounds.run(2))
    assert rounds.kills == {"slave": 1, "master": 1}
    assert len(rounds.acknowledged) > 4
