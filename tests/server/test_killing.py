"""A few rounds of ``tests.killing``: what was acknowledged under SYNC_FLUSH outlives ``kill -9``."""

import asyncio

from tests.killing import Rounds

ROUNDS = 5


def test_what_was_acknowledged_outlives_kills(tmp_path):
    rounds = Rounds(tmp_path, seed=1)
    asyncio.run(rounds.run(ROUNDS))
    assert rounds.ledger.count > ROUNDS
    assert any(rounds.ledger.seen.values())
