"""``python -m tests.mutants``: faults at random, and which of them the tests notice."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from tests.mutants.chooser import EQUIVALENT, Place, Wish, changed_lines, choose, equivalent, every_place
from tests.mutants.report import ENDLESS, HIGHER, NOT_RUN, NOTICED, OF_UNIT_TESTS, SURVIVED, Result, table
from tests.mutants.tiers import higher_files
from tests.mutants.trial import Bench, memory
from tests.mutants.whoruns import WhoRuns, in_order

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "rocketmq_py"
CACHE = ROOT / ".mutants"
FILES_A_RUN = 12
"""Test files recorded by one process."""
START, SLOWER = 60.0, 5.0
"""A trial may take START seconds and SLOWER times what its tests took when they were recorded."""
HIGHER_BUDGET = 120.0
"""Seconds of tests of the higher tiers for one fault."""


T = TypeVar("T")
R = TypeVar("R")


def main() -> int:
    """Choose faults, try them, print what nobody noticed and the table; 1 if a changed line has no defender."""
    options = _options()
    places = _places(options)
    tests = sorted(path for folder in options.tests for path in (ROOT / folder).rglob("test_*.py"))
    with tempfile.TemporaryDirectory(prefix="mutants-", dir=memory()) as folder:
        benches = Benches([Bench(ROOT, Path(folder) / str(number)) for number in range(options.workers)])
        who = WhoRuns(ROOT, PACKAGE, CACHE)
        _record(who, who.out_of_date(tests, {place.file for place in places}), benches)
        judge = Judge(who, [path.relative_to(ROOT).as_posix() for path in tests], options.budget)
        results = []
        for result in benches.map(judge.result, places):
            results.append(result)
            if result.outcome != NOTICED:
                print(result.sentence(), flush=True)
        results = again(benches, judge, places, results)
        if options.tiers == "all":
            results = _on_higher_tiers(who, benches, places, results)
    print(f"seed {options.seed}, {' '.join(sys.argv[1:])}\n{table(results)}")
    return int(options.since is not None and any(result.outcome not in (*OF_UNIT_TESTS, HIGHER) for result in results))


class Benches:
    """Benches that work side by side."""

    def __init__(self, benches: list[Bench]) -> None:
        self._benches = benches
        self._free: SimpleQueue[Bench] = SimpleQueue()
        for bench in benches:
            self._free.put(bench)

    def map(self, work: Callable[[Bench, T], R], items: list[T]) -> Iterator[R]:
        """What ``work`` returns for each item, in order."""
        with ThreadPoolExecutor(len(self._benches)) as pool:
            try:
                yield from pool.map(lambda item: self._with_bench(work, item), items)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for bench in self._benches:
                    bench.interrupt()
                raise

    def _with_bench(self, work: Callable[[Bench, T], R], item: T) -> R:
        bench = self._free.get()
        try:
            return work(bench, item)
        finally:
            self._free.put(bench)


class Judge:
    """Chooses the tests for a fault and says whether they noticed it.

    :param tests: names of test files.
    :param budget: seconds of tests for one fault.
    :param elsewhere: other processes may run a line of which the record says that no test runs it: all tests are tried.
    """

    def __init__(self, who: WhoRuns, tests: list[str], budget: float, *, elsewhere: bool = False) -> None:
        self._who, self._tests, self._budget, self._elsewhere = who, tests, budget, elsewhere

    def result(self, bench: Bench, place: Place) -> Result:
        fault = place.fault
        if fault.imported:
            running = self._who.of_import(place.file, self._tests)
        else:
            running = self._who.of_lines(place.file, range(fault.line, fault.last + 1), self._tests)
        if not running and self._elsewhere:
            running = self._who.passed(self._tests)
        chosen = in_order(running, place.file, self._budget)
        outcome = NOT_RUN
        if chosen:
            seconds = START + SLOWER * sum(running[test] for test in chosen)
            noticed = bench.notices(f"rocketmq_py/{place.file}", fault, chosen, seconds)
            outcome = ENDLESS if noticed is None else NOTICED if noticed else SURVIVED
        before, after = fault.lines((PACKAGE / place.file).read_bytes())
        return Result(place.package, place.file, fault.line, fault.scope, before, after, outcome)


def again(benches: Benches, judge: Judge, places: list[Place], results: list[Result]) -> list[Result]:
    """The results, once each fault whose tests did not end was tried again, with nothing beside it."""
    latest = []
    for place, result in zip(places, results, strict=True):
        last = result
        if result.outcome == ENDLESS:
            (last,) = benches.map(judge.result, [place])
            print(f"alone: {last.sentence()}", flush=True)
        latest.append(last)
    return latest


def _on_higher_tiers(who: WhoRuns, benches: Benches, places: list[Place], results: list[Result]) -> list[Result]:
    """The results, once what the unit tests did not notice was tried on the tests of its higher tiers, too."""
    left = [place for place, result in zip(places, results, strict=True) if result.outcome not in OF_UNIT_TESTS]
    files = {place: higher_files(place.file, ROOT / "tests") for place in left}
    for place in left:
        _record(who, who.out_of_date(files[place], {place.file}), benches)

    def tried(bench: Bench, place: Place) -> tuple[Place, Result]:
        names = [path.relative_to(ROOT).as_posix() for path in files[place]]
        return place, Judge(who, names, HIGHER_BUDGET, elsewhere=True).result(bench, place)

    noticed = {}
    for place, result in benches.map(tried, left):
        print(f"on higher tiers: {result.sentence()}", flush=True)
        if result.outcome in OF_UNIT_TESTS:
            noticed[place] = replace(result, outcome=HIGHER)
    return [noticed.get(place, result) for place, result in zip(places, results, strict=True)]


def _places(options: argparse.Namespace) -> list[Place]:
    changed = changed_lines(ROOT, options.since) if options.since else None
    lines = frozenset((file, int(line)) for file, _, line in (name.rpartition(":") for name in options.lines))
    wish = Wish(options.sample, options.only, changed, lines, options.together)
    return choose(list(every_place(PACKAGE, equivalent(EQUIVALENT.read_text()))), wish, random.Random(options.seed))


def _record(who: WhoRuns, tests: list[str], benches: Benches) -> None:
    """Bring what is known about these test files up to date."""
    parts = [tests[start : start + FILES_A_RUN] for start in range(0, len(tests), FILES_A_RUN)]
    for part, recorded in benches.map(lambda bench, part: (part, bench.record(part)), parts):
        who.learn(part, recorded)
        print(f"recorded who runs what, up to {part[-1]}", file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--since", metavar="COMMIT", help="only lines that changed since the branch left this commit")
    parser.add_argument("--sample", type=int, default=25, help="faults for each package; with --since, in all of them")
    parser.add_argument("--together", action="store_true", help="the sample is one of all packages, not of each")
    parser.add_argument("--only", nargs="+", default=[""], metavar="PREFIX", help="of files: client store/log")
    parser.add_argument("--lines", nargs="+", default=[], metavar="FILE:LINE", help="every fault of these lines")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", nargs="+", default=["tests/unit", "tests/property"], metavar="FOLDER")
    parser.add_argument("--tiers", choices=("unit", "all"), default="unit", help="all: survivors on tiers.py, too")
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of tests for one fault")
    parser.add_argument("--workers", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
