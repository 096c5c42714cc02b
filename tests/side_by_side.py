"""``python -m tests.side_by_side [ARGUMENTS OF PYTEST]``: pytest in several processes, each with a share of the files.

With pytest-xdist every process collects all tests, and each result goes through a controller. For tests of a
millisecond that takes a third of all time. Here a process collects its own files only, and nothing is said about a test
that passes but its dot. Processes are one more than cores, since some tests wait for threads.

Files are dealt out by the seconds they took in the last run, or by size if they have not run yet. The number of
processes is ``UNIT_PROCESSES`` if that is set. Failures and the summary of all processes come at the end.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

UNIT = ("tests/unit", "tests/property", "tests/test_house.py")
SECONDS = Path(".pytest_cache") / "seconds_of_files.json"
BYTES_A_SECOND = 100_000
"""Of a test file, to guess what it takes before its first run."""
NOTHING_RAN = int(pytest.ExitCode.NO_TESTS_COLLECTED)
SHARE = "TESTS_SHARE"
"""Environment variable with the directory in which a process finds its share and leaves its result."""
UNUSED = (
    *("xdist", "cacheprovider", "anyio", "doctest", "legacypath", "pastebin", "setuponly", "setupplan", "stepwise"),
)
"""Plugins that no unit test needs; each is called for every test, together a twentieth of all time."""
QUICK_START = {"HYPOTHESIS_NO_PLUGINS": "1"}
"""The only plugin of Hypothesis that is installed comes with trio, which takes a fifth of a second to import."""
COLOUR = re.compile(r"\x1b\[[\d;]*m")
SECTION = re.compile(r"=+ (?!test session starts)")
SUMMARY = re.compile(r"=* ?(\d+ [a-z]+(, )?)+( in \d|, \d|$)|=* ?no tests ran")
SHORT = re.compile(r"(FAILED|ERROR) ")


def main(arguments: Sequence[str]) -> int:
    """Run the tests; the status is pytest's."""
    known = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
    options, paths = split(arguments)
    processes = int(os.environ.get("UNIT_PROCESSES") or (os.cpu_count() or 1) + 1)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shares-") as folder:
        dealt = deal(files(paths), known, processes)
        shares = [Share(Path(folder) / str(number), options, paths, own) for number, own in enumerate(dealt)]
        try:
            for share in shares:
                share.wait()
        except KeyboardInterrupt:
            for share in shares:
                share.wait()  # they were interrupted, too
        results = [share.result() for share in shares]
    if not any(status for status in (share.status for share in shares) if status != NOTHING_RAN):
        SECONDS.parent.mkdir(exist_ok=True)
        SECONDS.write_text(json.dumps(known | {file: s for r in results for file, s in r["seconds"].items()}, indent=0))
    _summarise(shares, results, time.monotonic() - begin)
    return status([share.status for share in shares])


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Options, and names of test files or folders, those of the unit tier if there is none."""
    paths = [word for word in arguments if not word.startswith("-") and Path(word.partition("::")[0]).exists()]
    return [word for word in arguments if word not in paths], paths or list(UNIT)


def files(paths: Iterable[str]) -> list[Path]:
    """All test files that paths name."""
    found = set()
    for path in (Path(name.partition("::")[0]) for name in paths):
        found.update(path.rglob("test_*.py") if path.is_dir() else [path])
    return sorted(found)


def deal(files: Sequence[Path], seconds: Mapping[str, float], processes: int) -> list[list[Path]]:
    """The files of each process: the dearest that is left goes to the process that has least."""
    cost = {file: seconds.get(file.as_posix()) or file.stat().st_size / BYTES_A_SECOND for file in files}
    shares: list[list[Path]] = [[] for _ in range(max(1, min(processes, len(files))))]
    sums = [0.0] * len(shares)
    for file in sorted(files, key=lambda file: -cost[file]):
        least = sums.index(min(sums))
        shares[least].append(file)
        sums[least] += cost[file]
    return shares


def status(statuses: Sequence[int]) -> int:
    """Of all processes together: the worst; a process may have nothing to run, but not all of them."""
    ran = [each for each in statuses if each != NOTHING_RAN]
    return max((each if each >= 0 else 1 for each in ran), default=NOTHING_RAN)


class Share:
    """A process with its files. What it prints is shown at once until its first test has failed or all are done."""

    def __init__(self, folder: Path, options: list[str], paths: list[str], own: list[Path]) -> None:
        folder.mkdir()
        mine = {str(file) for file in own}
        (folder / "files.json").write_text(json.dumps([str(file.resolve()) for file in own]))
        paths = [path for path in paths if Path(path).is_dir() or str(Path(path.partition("::")[0])) in mine]
        colour = ["--color=yes"] if sys.stdout.isatty() else []
        without = [word for name in UNUSED for word in ("-p", f"no:{name}")]
        command = [sys.executable, "-m", "pytest", "-p", "tests.side_by_side", *without]
        self._result = folder / "result.json"
        self._process = subprocess.Popen(
            [*command, *colour, *options, *paths],
            # Pytest removes old temporary folders when it ends, and fails if another process is quicker.
            env={**os.environ, **QUICK_START, SHARE: str(folder), "PYTEST_DEBUG_TEMPROOT": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self.kept: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            plain = COLOUR.sub("", line)
            if self.kept or SECTION.match(plain):
                self.kept.append(line)
            elif not SUMMARY.match(plain) and plain.strip():
                sys.stdout.write(line)
                sys.stdout.flush()

    def wait(self) -> None:
        self._process.wait()
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()

    @property
    def status(self) -> int:
        return self._process.returncode

    def result(self) -> dict[str, Any]:
        """Seconds of each file and number of tests by outcome."""
        if self._result.exists():
            result: dict[str, Any] = json.loads(self._result.read_text())
            return result
        print(f"a process with a share of the tests ended with status {self.status}")
        return {"seconds": {}, "outcomes": {}}


def _summarise(shares: Sequence[Share], results: Sequence[Mapping[str, Any]], seconds: float) -> None:
    """What processes printed about failures, then all failed tests, then how many there are."""
    outcomes: Counter[str] = Counter()
    for result in results:
        outcomes.update(result["outcomes"])
    kept = [[line for line in share.kept if not SUMMARY.match(COLOUR.sub("", line))] for share in shares]
    for lines in kept:
        sys.stdout.writelines(line for line in lines if not SHORT.match(COLOUR.sub("", line)))
    for lines in kept:
        sys.stdout.writelines(line for line in lines if SHORT.match(COLOUR.sub("", line)))
    order = sorted(outcomes, key=lambda outcome: (outcome not in ("failed", "error"), outcome))
    counted = ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in order)
    print(f"{counted or 'no tests ran'} in {seconds:.1f} s, {len(shares)} processes", flush=True)


class Files:
    """The plugin of a process: it collects its own files only, and says what each of them took."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own = set(json.loads((folder / "files.json").read_text()))
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        if collection_path.is_dir() or str(collection_path) in self._own:
            return None
        return True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            return (yield)
        finally:
            self._seconds[item.location[0]] += time.perf_counter() - begin

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        outcomes = {name: len(reports) for name, reports in terminalreporter.stats.items() if name}
        text = json.dumps({"seconds": dict(self._seconds), "outcomes": outcomes})
        (self._folder / "result.json").write_text(text)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Files(Path(os.environ[SHARE])), "files-of-a-share")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
