"""Which tests run a line: kept in a folder between runs, renewed for the files that changed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class TestFile:
    """What one test file ran. ``sources``: of each file it ran, the hash and who ran which lines, as recorded."""

    __test__ = False

    digest: str
    sources: dict[str, tuple[str, dict[str, str]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


class WhoRuns:
    """The records of all test files below ``root``; ``package`` is the directory with the sources.

    A record is out of date for a source file once the test file or that source file has changed.
    """

    def __init__(self, root: Path, package: Path, cache: Path) -> None:
        self._root, self._package, self._cache = root, package, cache
        self._digests: dict[Path, str] = {}
        self._files: dict[str, TestFile] = {}
        for file in sorted(cache.glob("*.json")):
            stored = json.loads(file.read_text())
            name = stored.pop("name")
            self._files[name] = TestFile(**stored)

    def digest(self, path: Path) -> str:
        """Hash of a file's bytes; empty if it is gone."""
        if path not in self._digests:
            self._digests[path] = hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""
        return self._digests[path]

    def out_of_date(self, tests: Iterable[Path], sources: Iterable[str]) -> list[str]:
        """Test files to run again before anyone asks who runs lines of ``sources``."""
        wanted = set(sources)
        names = [path.relative_to(self._root).as_posix() for path in tests]
        return [name for name in names if not self._is_current(name, wanted)]

    def _is_current(self, test: str, wanted: set[str]) -> bool:
        known = self._files.get(test)
        if known is None or known.digest != self.digest(self._root / test):
            return False
        ran = wanted & known.sources.keys()
        return all(known.sources[source][0] == self.digest(self._package / source) for source in ran)

    def learn(self, tests: list[str], recorded: dict[str, Any]) -> None:
        """Take over what a run of these test files recorded, in memory and in the folder."""
        self._cache.mkdir(parents=True, exist_ok=True)
        for name in tests:
            lines: dict[str, dict[str, str]] = recorded["lines"].get(name, {})
            sources = {source: (self.digest(self._package / source), who) for source, who in lines.items()}
            seconds = {test: s for test, s in recorded["seconds"].items() if test.startswith(f"{name}::")}
            record = TestFile(self.digest(self._root / name), sources, seconds)
            self._files[name] = record
            file = self._cache / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.json"
            file.write_text(json.dumps({"name": name, **vars(record)}))

    def of_lines(self, source: str, lines: range, tests: Iterable[str]) -> dict[str, float]:
        """The tests, of these test files, that run one of the lines: to seconds they take.

        Of an expression over several lines a test may run some.
        """
        wanted = sum(1 << line for line in lines)
        found: dict[str, float] = {}
        for name in tests:
            record = self._files.get(name)
            if record is not None and source in record.sources:
                for test, mask in record.sources[source][1].items():
                    if int(mask, 16) & wanted:
                        found[test] = record.seconds.get(test, 0.0)
        return found

    def passed(self, tests: Iterable[str]) -> dict[str, float]:
        """The tests of these test files that neither failed nor were skipped: to seconds they take."""
        return {test: s for name in tests if name in self._files for test, s in self._files[name].seconds.items()}

    def of_import(self, source: str, tests: Iterable[str]) -> dict[str, float]:
        """Tests that a line may matter to that only an import runs: of modules that import it, or of itself."""
        imports = _imports(source)
        users = {source} | {
            path.relative_to(self._package).as_posix()
            for path in self._package.rglob("*.py")
            if imports.search(path.read_text())
        }
        found: dict[str, float] = {}
        for name in tests:
            record = self._files.get(name)
            if record is not None:
                for user in users & record.sources.keys():
                    found |= {test: record.seconds.get(test, 0.0) for test in record.sources[user][1]}
                if imports.search((self._root / name).read_text()):
                    found |= record.seconds
        return found


def _imports(source: str) -> re.Pattern[str]:
    """What stands in a file that imports this one."""
    module = f"rocketmq_py/{source}".removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    parent, _, name = module.rpartition(".")
    return re.compile(rf"{re.escape(module)} import|from {re.escape(parent)} import [^)]*?\b{name}\b")


def in_order(tests: dict[str, float], source: str, budget: float) -> list[str]:
    """The tests to try, most telling first, as many as take ``budget`` seconds; at least one if there is one.

    A module's own tests, which stand in the folder of its name, go before others, and quick ones before slow ones.
    """
    folder, _, module = source.rpartition("/")
    own = f"tests/unit/{folder}/" if folder else "tests/unit/"

    def rank(test: str) -> tuple[bool, bool, float]:
        file = test.partition("::")[0]
        return not file.startswith(f"{own}test_{module.removesuffix('.py')}"), not file.startswith(own), tests[test]

    chosen: list[str] = []
    left = budget
    for test in sorted(tests, key=rank):
        left -= tests[test]
        if left < 0 and chosen:
            break
        chosen.append(test)
    return chosen
