"""Blocks of lines: made once, and again where a row has changed."""

from __future__ import annotations

from rocketmq_py.broker.metrics.blocks import ROWS, Blocks


class Made:
    """Blocks of two families, and the rows that were formatted."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.blocks = Blocks(self._make)

    def _make(self, rows: list[int]) -> tuple[str, str]:
        self.rows += rows
        return "".join(f"a{row}\n" for row in rows), "".join(f"b{row}\n" for row in rows)

    def fill(self, rows: list[int]) -> int:
        """The number of steps."""
        self.rows.clear()
        return len(list(self.blocks.fill(iter(rows))))


def test_each_family_has_the_lines_of_all_rows_in_blocks_of_twenty() -> None:
    made = Made()
    assert ROWS == 20
    assert (made.fill(list(range(41))), made.blocks.series) == (3, 41)
    for number, letter in enumerate("ab"):
        blocks = list(made.blocks.of(number))
        assert [block.count(b"\n") for block in blocks] == [20, 20, 1]
        assert b"".join(blocks).decode() == "".join(f"{letter}{row}\n" for row in range(41))


def test_only_blocks_with_other_rows_are_made_again() -> None:
    made = Made()
    made.fill(list(range(41)))
    before = list(made.blocks.of(0))
    assert (made.fill(list(range(41))), made.rows) == (3, [])
    assert all(old is new for old, new in zip(before, made.blocks.of(0), strict=True))
    made.fill([*range(40), 99])
    assert (made.rows, list(made.blocks.of(0))) == ([99], [*before[:2], b"a99\n"])


def test_blocks_that_are_left_over_are_forgotten() -> None:
    made = Made()
    made.fill(list(range(41)))
    made.fill([1, 2])
    assert (list(made.blocks.of(1)), made.blocks.series) == ([b"b1\nb2\n"], 2)
    assert (made.fill([]), list(made.blocks.of(1)), made.blocks.series) == (0, [], 0)
