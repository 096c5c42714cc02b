"""What a check of a store has found: problems and notes, the first few of each place and how many more there are."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

PROBLEM = "problem"
NOTE = "note"
_SHOWN = 5
"""Findings listed per place; damage of one kind often comes in thousands."""


class Finding(NamedTuple):
    """Something worth telling, at a ``place``: a file, a queue."""

    severity: str
    place: str
    what: str


class Findings:
    """Collects findings.

    :param is_settled: the store must be complete; otherwise what is unfinished is only noted.
    """

    def __init__(self, is_settled: bool) -> None:
        self._is_settled = is_settled
        self._shown: list[Finding] = []
        self._count: Counter[tuple[str, str]] = Counter()

    def problem(self, place: str, what: str) -> None:
        """Something is wrong."""
        self._add(PROBLEM, place, what)

    def note(self, place: str, what: str) -> None:
        """Something worth knowing, but not wrong."""
        self._add(NOTE, place, what)

    def unfinished(self, place: str, what: str) -> None:
        """Wrong in a store that was closed; to be expected in one that was not, or that is in use."""
        self._add(PROBLEM if self._is_settled else NOTE, place, what)

    def _add(self, severity: str, place: str, what: str) -> None:
        self._count[severity, place] += 1
        if self._count[severity, place] <= _SHOWN:
            self._shown.append(Finding(severity, place, what))

    @property
    def problems(self) -> int:
        """How many problems there are."""
        return sum(count for (severity, _), count in self._count.items() if severity == PROBLEM)

    def listed(self) -> list[Finding]:
        """The findings, problems first; a last one per place counts those left out."""
        more = [
            Finding(severity, place, f"and {count - _SHOWN} more")
            for (severity, place), count in self._count.items()
            if count > _SHOWN
        ]
        places = {key: number for number, key in enumerate(self._count)}
        found = sorted(self._shown + more, key=lambda one: places[one.severity, one.place])
        return sorted(found, key=lambda one: one.severity != PROBLEM)
