"""A few rounds of ``tests.killing_rebuild``: a pair loses nothing if its brokers end in the middle of a rebuild."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.killing_rebuild import RebuildRounds

ROUNDS = 3


class InTurn(RebuildRounds):
    """The master and the slave in turn."""

    def victim(self) -> str:
        return ("master", "slave")[self.kills.total() % 2]


def test_a_pair_that_ends_in_the_middle_of_a_rebuild_loses_nothing(tmp_path: Path) -> None:
    rounds = InTurn(tmp_path, seed=1)
    asyncio.run(rounds.run(ROUNDS))
    assert {name.partition(" ")[0] for name, count in rounds.ends.items() if count} == {"master", "slave"}
    assert len(rounds.acknowledged) > ROUNDS
