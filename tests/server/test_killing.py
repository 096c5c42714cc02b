"""A few rounds of ``tests.killing``: messages acknowledged under SYNC_FLUSH survive ``kill -9``."""

import asyncio

from tests.killing import Rounds
from tests.killing_pair import PairRounds

ROUNDS = 5


def test_acknowledged_messages_survive_kills(tmp_path):
    rounds = Rounds(tmp_path, seed=1)
    asyncio.run(rounds.run(ROUNDS))
    assert rounds.sent_messages.count > ROUNDS
    assert any(rounds.sent_messages.seen.values())


def test_messages_acknowledged_by_a_pair_survive_kills_of_either(tmp_path):
    rounds = PairRounds(tmp_path, seed=3)
    asyncio.run(rounds.run(4))
    assert rounds.kills.keys() == {"master", "slave"}
    assert len(rounds.acknowledged) > 4
