"""Which faults are tried: a sample of each package, or the lines that a branch has changed."""

from __future__ import annotations

import random
import re
import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.faults import Fault, faults, one_per_line

EQUIVALENT = Path(__file__).parent / "equivalent.toml"
HUNK = re.compile(r"^\+\+\+ b/(?P<file>.*)$|^@@ \S+ \+(?P<first>\d+)(?:,(?P<count>\d+))? @@", re.MULTILINE)


@dataclass(frozen=True)
class Place:
    """A fault in a file, named from the package: ``client/route.py``."""

    file: str
    fault: Fault

    @property
    def package(self) -> str:
        return self.file.partition("/")[0] if "/" in self.file else "(top)"


@dataclass(frozen=True)
class Wish:
    """What to try: ``only`` files that begin so; ``changed`` lines by file; ``lines`` with all their faults.

    ``sample`` faults of each package, or ``together`` of all of them, where a package has as many as its lines.
    """

    sample: int
    only: Sequence[str] = ("",)
    changed: Mapping[str, set[int]] | None = None
    lines: frozenset[tuple[str, int]] = frozenset()
    together: bool = False


Known = set[tuple[str, str, str, str]]
"""File, scope, line and faulty line."""


def equivalent(text: str) -> Known:
    """File, scope, line and faulty line of each fault that changes nothing; each must have a reason."""
    entries = tomllib.loads(text)["equivalent"]
    unexplained = [entry["line"] for entry in entries if not entry.get("reason", "").strip()]
    if unexplained:
        raise ValueError(f"no reason is given for {unexplained}")
    return {(entry["file"], entry["scope"], entry["line"], entry["fault"]) for entry in entries}


def every_place(package: Path, known: Known) -> Iterator[Place]:
    """All faults of the package but those known to change nothing."""
    for path in sorted(package.rglob("*.py")):
        file, source = path.relative_to(package).as_posix(), path.read_bytes()
        yield from (
            Place(file, fault) for fault in faults(source) if (file, fault.scope, *fault.lines(source)) not in known
        )


def choose(places: list[Place], wish: Wish, rng: random.Random) -> list[Place]:
    """The faults to try, one for a line: a sample of each package, of all of them, or of all changed lines."""
    if wish.lines:
        return [place for place in places if (place.file, place.fault.line) in wish.lines]
    groups: dict[str, list[Place]] = {}
    for place in _one_per_line(places, rng):
        if place.file.startswith(tuple(wish.only)):
            if wish.changed is None:
                groups.setdefault("together" if wish.together else place.package, []).append(place)
            elif place.fault.line in wish.changed.get(place.file, ()):
                groups.setdefault("changed", []).append(place)
    chosen = [place for group in groups.values() for place in rng.sample(group, min(wish.sample, len(group)))]
    return sorted(chosen, key=lambda place: (place.file, place.fault.line))


def _one_per_line(places: list[Place], rng: random.Random) -> Iterator[Place]:
    files: dict[str, list[Fault]] = {}
    for place in places:
        files.setdefault(place.file, []).append(place.fault)
    for file, found in files.items():
        yield from (Place(file, fault) for fault in one_per_line(found, rng))


def changed_lines(root: Path, since: str) -> dict[str, set[int]]:
    """Lines of the package, by file, that the working tree has and the common ancestor with ``since`` has not."""
    base = _git(root, "merge-base", since, "HEAD").strip()
    return lines_of_diff(
        _git(root, "diff", "--unified=0", "--no-color", "--no-ext-diff", base, "--", "src/rocketmq_py")
    )


def lines_of_diff(diff: str) -> dict[str, set[int]]:
    """Added and changed lines of a diff without context, by file of the package."""
    lines: dict[str, set[int]] = {}
    file = ""
    for found in HUNK.finditer(diff):
        if found["file"]:
            file = found["file"].removeprefix("src/rocketmq_py/")
        else:
            first, count = int(found["first"]), int(found["count"] or 1)
            lines.setdefault(file, set()).update(range(first, first + count))
    return {file: numbers for file, numbers in lines.items() if numbers}


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout
