"""What became of the faults, as sentences and as a table by package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NOTICED, ENDLESS, HIGHER, SURVIVED, NOT_RUN = "noticed", "endless", "higher", "survived", "not run"
"""What became of a fault; ``ENDLESS``: its tests did not end, though tried twice; ``HIGHER``: only tests of a higher
tier noticed it."""
OF_UNIT_TESTS = (NOTICED, ENDLESS)
"""Somebody who runs the unit tests notices it."""
COLUMNS = (
    f"{'package':<12}{'tried':>8}{'noticed':>9}{'endless':>9}{'higher':>8}{'survived':>10}{'not run':>9}"
    f"{'noticed %':>11}{'all %':>8}"
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

    ``noticed %`` is the share of the unit and property tests, with those that did not end; ``all %`` that of all tiers.
    """
    packages = sorted({result.package for result in results})
    rows = [_row(package, [result for result in results if result.package == package]) for package in packages]
    return "\n".join([COLUMNS, *rows, _row("all", results)])


def _row(name: str, results: Sequence[Result]) -> str:
    noticed, endless, higher, survived, not_run = (
        sum(result.outcome == outcome for result in results)
        for outcome in (NOTICED, ENDLESS, HIGHER, SURVIVED, NOT_RUN)
    )
    share = _percent(noticed + endless, len(results))
    of_all = _percent(noticed + endless + higher, len(results))
    return (
        f"{name:<12}{len(results):>8}{noticed:>9}{endless:>9}{higher:>8}{survived:>10}{not_run:>9}"
        f"{share:>11}{of_all:>8}"
    )


def _percent(part: int, of: int) -> str:
    return f"{100 * part / of:.0f} %" if of else "–"
