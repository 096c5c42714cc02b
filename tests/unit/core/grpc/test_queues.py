from __future__ import annotations

import pytest

from rocketmq_py.core.grpc.queues import consistent_hash, queue_of_group


@pytest.mark.parametrize(("value", "buckets", "expected"), [
    (0, 1, 0), (1, 1, 0), (256, 1024, 520), (10_863_919_174_838_991, 11, 6), (0, 100_000, 0), (2, 100_001, 80_343),
    (2_201, 100_001, 22_152), (-1, 8, 7), (-1_234_567_890_123, 1000, 375),
])  # fmt: skip
def test_the_hash_is_that_of_guava(value: int, buckets: int, expected: int) -> None:
    """Values of Guava 32.0.1."""
    assert consistent_hash(value, buckets) == expected


@pytest.mark.parametrize(("group", "queues"), [
    ("group-0", [1, 1, 67]), ("group-1", [1, 7, 36]), ("", [0, 0, 0]), ("\u00e9t\u00e9", [1, 7, 46]),
], ids=str)  # fmt: skip
def test_the_queue_of_a_group_is_that_of_a_java_proxy(group: str, queues: list[int]) -> None:
    """Of Guava 32.0.1 and String.hashCode."""
    assert [queue_of_group(group, count) for count in (4, 8, 100)] == queues


def test_more_queues_move_groups_to_new_queues_only() -> None:
    groups = [f"group-{number}" for number in range(300)]
    before, after = ([queue_of_group(group, queues) for group in groups] for queues in (7, 8))
    assert set(before) == set(range(7))
    assert {new for old, new in zip(before, after, strict=True) if old != new} == {7}
