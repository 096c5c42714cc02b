"""What each test file takes: ``TEST_TIMES=times.jsonl make test``, then ``python -m tests.times times.jsonl``.

Seconds are those on the clock, and those of all cores in the process of the tests and all it has started: servers,
JVMs, browsers. A file that takes many of the first and few of the second waits. On a machine that does something else
as well, only the second are worth comparing.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

VARIABLE = "TEST_TIMES"
"""Environment variable with the file to which every process of the tests appends a line for each test."""


def cores_used() -> float:
    """Seconds of cores that this process and all it has started took so far, whether they still run or not."""
    tick = os.sysconf("SC_CLK_TCK")
    parents: dict[int, int] = {}
    taken: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(") ")[2].split()
        except OSError:
            continue  # it has ended
        parents[int(path.parent.name)] = int(fields[1])
        taken[int(path.parent.name)] = sum(map(int, fields[11:15]))
    children = defaultdict(list)
    for process, parent in parents.items():
        children[parent].append(process)
    ticks, left = 0, [os.getpid()]
    while left:
        process = left.pop()
        ticks += taken.get(process, 0)
        left += children[process]
    return ticks / tick


class Times:
    """The plugin: it appends a line for each test, with what its fixtures took before and after it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._clock, self._cores = time.monotonic(), cores_used()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        begin = time.monotonic()
        try:
            return (yield)
        finally:
            end, cores = time.monotonic(), cores_used()
            line = {"test": item.nodeid, "begin": begin, "seconds": end - begin, "cores": cores - self._cores}
            self._cores = cores
            with self._file.open("a") as file:
                file.write(json.dumps(line) + "\n")


def table(lines: list[dict[str, float | str]], *, by_test: bool) -> str:
    """Seconds on the clock and of cores by file or test, the longest first, and their sum."""
    clock: defaultdict[str, float] = defaultdict(float)
    cores: defaultdict[str, float] = defaultdict(float)
    for line in lines:
        test = str(line["test"])
        name = test if by_test else test.partition("::")[0]
        clock[name] += float(line["seconds"])
        cores[name] += float(line["cores"])
    rows = [f"{clock[name]:8.1f}{cores[name]:8.1f}  {name}" for name in sorted(clock, key=lambda name: -clock[name])]
    total = f"{sum(clock.values()):8.1f}{sum(cores.values()):8.1f}  all"
    return "\n".join([f"{'seconds':>8}{'cores':>8}", *rows, total])


def main(argv: list[str]) -> int:
    """Print the table of a file, by test if told so."""
    files = [word for word in argv if word != "--tests"]
    if len(files) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    lines = [json.loads(line) for line in Path(files[0]).read_text().splitlines()]
    print(table(lines, by_test="--tests" in argv))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
