"""Compare the coverage of each package with its floor: ``python tools/coverage_floors.py coverage.json``.

The file is that of ``coverage json``; lines and branches count together. The floors, in percent, are in
``pyproject.toml`` under ``[tool.coverage_floors]``. What stands in the package itself, beside its folders, is ``top``.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = "src/rocketmq_py/"
TOP = "top"


class Row(NamedTuple):
    """What the tests run of one package. ``floor`` is None if it has none."""

    package: str
    covered: int
    total: int
    floor: float | None

    @property
    def percent(self) -> float:
        return 100 * self.covered / self.total if self.total else 100.0

    @property
    def is_short(self) -> bool:
        """True if the package falls short of its floor, or has none: a new package needs one."""
        return self.floor is None or self.percent < self.floor

    def text(self) -> str:
        if self.floor is None:
            end = "  no floor: add one to pyproject.toml"
        elif self.is_short:
            end = f"{self.floor:6.1f}  {self.floor - self.percent:.1f} too little: {self.missing} lines or branches"
        else:
            end = f"{self.floor:6.1f}"
        return f"{self.package:<10}{self.percent:8.1f}{end}"

    @property
    def missing(self) -> int:
        """Number of lines or branches that have to be run to reach the floor."""
        return -int(-(self.floor or 0.0) * self.total // 100) - self.covered


def rows(report: Mapping[str, Mapping[str, Mapping[str, Mapping[str, int]]]], floors: Mapping[str, float]) -> list[Row]:
    """A row for each package of the report and each floor, sorted by name.

    :param report: the content of the JSON file.
    :param floors: percent by package.
    """
    covered, total = dict.fromkeys(floors, 0), dict.fromkeys(floors, 0)
    for file, content in report["files"].items():
        place = file.replace("\\", "/").rpartition(PACKAGE)[2]
        package = place.partition("/")[0] if "/" in place else TOP
        summary = content["summary"]
        covered[package] = covered.get(package, 0) + summary["covered_lines"] + summary["covered_branches"]
        total[package] = total.get(package, 0) + summary["num_statements"] + summary["num_branches"]
    return [Row(package, covered[package], total[package], floors.get(package)) for package in sorted(total)]


def main(argv: list[str]) -> int:
    """Print a table; 1 if a package falls short of its floor."""
    if len(argv) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    floors = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["coverage_floors"]
    found = rows(json.loads(Path(argv[0]).read_text("utf-8")), floors)
    print(f"{'package':<10}{'percent':>8}{'floor':>6}")
    for row in found:
        print(row.text())
    return int(any(row.is_short for row in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
