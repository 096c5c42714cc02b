"""What the names and sizes of log files say about parts that are not on disk."""

from __future__ import annotations

from rocketmq_py.store.log.lost_parts import LostPart, lost_parts, written_size

EMPTY, CUT, LONG = 0, 10, 130


def test_parts_that_are_missing_cut_or_empty() -> None:
    cases: dict[str, tuple[dict[int, int], bool, list[LostPart]]] = {
        "no file": ({}, True, []),
        "one file": ({300: 100}, True, []),
        "three files": ({0: 100, 100: 100, 200: 100}, True, []),
        "missing": ({0: 100, 200: 100}, True, [LostPart(100, 200, "missing from 100 to 200")]),
        "two missing": ({0: 100, 300: 100}, True, [LostPart(100, 300, "missing from 100 to 300")]),
        "empty": ({0: 100, 100: EMPTY, 200: 100}, False, [LostPart(100, 200, "the file at 100 is empty")]),
        "the first empty": ({0: EMPTY, 100: 100}, False, [LostPart(0, 100, "the file at 0 is empty")]),
        "two empty at the end": (
            {0: 100, 100: EMPTY, 200: EMPTY},
            False,
            [LostPart(100, 200, "the file at 100 is empty", True)],
        ),
        "the last empty": ({0: 100, 100: EMPTY}, True, [LostPart(100, 200, "the file at 100 is empty", True)]),
        "just created": ({0: 100, 100: EMPTY}, False, []),
        "the only one just created": ({0: EMPTY}, False, []),
        "cut": ({0: CUT, 100: 100}, True, [LostPart(10, 100, "the file at 0 is cut short at 10")]),
        "cut by a byte": ({0: 99}, True, [LostPart(99, 100, "the file at 0 is cut short at 99")]),
        "too long": ({0: LONG, 100: 100}, True, [LostPart(100, 100, "the file at 0 has 30 bytes too many")]),
        "several": (
            {100: CUT, 300: EMPTY, 400: 100},
            True,
            [
                LostPart(110, 200, "the file at 100 is cut short at 110"),
                LostPart(200, 300, "missing from 200 to 300"),
                LostPart(300, 400, "the file at 300 is empty"),
            ],
        ),
    }
    wrong = {
        name: found
        for name, (sizes, was_closed, parts) in cases.items()
        if (found := lost_parts(sizes, 100, was_closed=was_closed)) != parts
    }
    assert wrong == {}


def test_with_what_size_files_were_written() -> None:
    cases: list[tuple[dict[int, int], int, int | None]] = [
        ({}, 4096, None),
        ({0: 0}, 4096, None),
        ({0: 4096}, 4096, None),
        ({0: 8192, 8192: 8192}, 4096, 8192),
        ({0: 8192, 8192: 8192, 16384: 0}, 4096, 8192),
        ({0: 8192, 4096: 8192}, 4096, None),  # not adjacent with that size
        ({0: 8192, 8192: 8192, 16384: 4096}, 4096, None),  # one has the configured size
        ({0: 8192}, 4096, 8192),
        ({0: 5000}, 4096, 5000),  # longer than configured
        ({0: 4096}, 8192, 4096),
        ({0: 5000}, 8192, None),  # cut
        ({0: 5000, 5000: 5000}, 8192, 5000),
        ({0: 5000, 8192: 6000}, 16384, None),
    ]
    assert [written_size(sizes, configured) for sizes, configured, _ in cases] == [found for _, _, found in cases]
