from __future__ import annotations

from rocketmq_py.core.pop.long_polling import Poll, PollKey, PollTable

ANY = PollKey("T", "g", -1)
ONE = PollKey("T", "g", 1)


def table(*waiting: tuple[PollKey, str, int]) -> PollTable[str]:
    made: PollTable[str] = PollTable()
    for key, token, deadline in waiting:
        made.add(key, Poll(deadline, None, None, token))
    return made


def test_an_arrival_wakes_one_pop_of_each_group_and_type() -> None:
    polls = table((ANY, "a", 20), (ANY, "b", 10), (ONE, "c", 10), (PollKey("T", "h", -1), "d", 10),
                  (PollKey("T", "g", 2), "e", 10), (PollKey("U", "g", -1), "f", 10))  # fmt: skip
    assert sorted(polls.arrived("T", 1, [0])) == ["b", "c", "d"]
    assert len(polls) == 3
    assert polls.arrived("T", 1, [0]) == ["a"]
    assert polls.arrived("T", 1, [0]) == []
    assert polls.arrived("X", 1, [0]) == []


def test_an_arrival_wakes_only_matching_pops() -> None:
    polls: PollTable[str] = PollTable()
    polls.add(ANY, Poll(10, {7}.__contains__, None, "tag"))
    polls.add(PollKey("T", "h", -1), Poll(10, None, lambda record: record == b"x", "sql"))
    assert polls.arrived("T", 0, [5], lambda: [b"y"]) == []
    assert polls.arrived("T", 0, [5, 7], lambda: [b"y"]) == ["tag"]
    assert polls.arrived("T", 0, [5], lambda: [b"y", b"x"]) == ["sql"]


def test_a_wake_ignores_filters() -> None:
    polls: PollTable[str] = PollTable()
    polls.add(ANY, Poll(10, lambda _: False, None, "a"))
    assert polls.wake(ONE) == []
    assert polls.keys_of("T", "g") == [ANY]
    assert polls.wake(ANY) == ["a"]
    assert polls.keys_of("T", "g") == []


def test_the_newest_pop_can_be_woken_first() -> None:
    polls: PollTable[str] = PollTable(last_first=True)
    for token, deadline in (("a", 10), ("b", 20)):
        polls.add(ANY, Poll(deadline, None, None, token))
    assert polls.wake(ANY) == ["b"]


def test_the_number_of_held_pops_is_limited() -> None:
    polls = table((ANY, "a", 10), (ANY, "b", 10))
    assert not polls.has_room(ANY, 1, 4)
    assert polls.has_room(ANY, 2, 4)
    assert polls.has_room(ONE, 1, 4)
    assert (polls.count(ANY), polls.count(ONE)) == (2, 0)
    polls.add(ONE, Poll(10, None, None, "c"))
    polls.add(PollKey("U", "g", -1), Poll(10, None, None, "d"))
    assert not polls.has_room(PollKey("V", "g", -1), 1, 4)


def test_pops_expire_at_their_deadlines() -> None:
    polls = table((ANY, "a", 10), (ONE, "b", 20), (ONE, "c", 15))
    assert polls.expired(9) == []
    assert sorted(polls.expired(15)) == ["a", "c"]
    assert polls.expired(19) == []
    assert polls.expired(20) == ["b"]
    assert len(polls) == 0
    assert polls.expired(1_000) == []


def test_pops_of_a_closed_connection_are_removed() -> None:
    polls = table((ANY, "a", 10), (ONE, "b", 20))
    assert polls.drain(lambda token: token == "a") == ["a"]
    assert len(polls) == 1
    assert polls.drain() == ["b"]
    assert not polls.arrived("T", 1, [0])
