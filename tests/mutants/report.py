"""What became of the faults, as sentences and as a table by package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NOTICED, HIGHER, SURVIVED, NOT_RUN = "noticed", "higher", "survived", "not run"
"""What became of a fault; ``HIGHER``: only tests of a higher tier noticed it."""
COLUMNS = (
    f"{'package':<12}{'tried':>8}{'noticed':>9}{'higher':>8}{'survived':>10}{'not run':>9}{'noticed %':>11}{'all %':>8}"
)


@dataclass(frozen=True)
class Result:
    """A fault, and whether a test failed; ``before`` and ``after`` are the line's text."""

    package: str
    file: str
    line: int
    scope: str
    before: str
    after: str
    outcome: str

    def sentence(self) -> str:
        return f"{self.outcome:<9}{self.file}:{self.line} {self.scope}\n    - {self.before}\n    + {self.after}"


def table(results: Sequence[Result]) -> str:
    """A row for each package and one for all of them; a line that no test runs counts as not noticed.

    ``noticed %`` is the share of the unit and property tests, ``all %`` that of all tiers.
    """
    packages = sorted({result.package for result in results})
    rows = [_row(package, [result for result in results if result.package == package]) for package in packages]
    return "\n".join([COLUMNS, *rows, _row("all", results)])


def _row(name: str, results: Sequence[Result]) -> str:
    noticed, higher, survived, not_run = (
        sum(result.outcome == outcome for result in results) for outcome in (NOTICED, HIGHER, SURVIVED, NOT_RUN)
    )
    share, of_all = _percent(noticed, len(results)), _percent(noticed + higher, len(results))
    return f"{name:<12}{len(results):>8}{noticed:>9}{higher:>8}{survived:>10}{not_run:>9}{share:>11}{of_all:>8}"


def _percent(part: int, of: int) -> str:
    return f"{100 * part / of:.0f} %" if of else "–"
