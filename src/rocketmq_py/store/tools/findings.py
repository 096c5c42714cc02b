"""Findings of a store check: problems and notes. For each file or queue the first few are listed, others counted."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

PROBLEM = "problem"
NOTE = "note"
_SHOWN = 5
"""Findings listed per place; damage often causes thousands of equal findings."""


class Finding(NamedTuple):
    """A problem or note about a ``place``: a file or a queue."""

    severity: str
    place: str
    what: str


class Findings:
    """Collects findings.

    :param must_be_complete: whether the store must be complete; otherwise :meth:`unfinished` adds notes.
    """

    def __init__(self, must_be_complete: bool) -> None:
        self._must_be_complete = must_be_complete
        self._shown: list[Finding] = []
        self._count: Counter[tuple[str, str]] = Counter()

    def problem(self, place: str, what: str) -> None:
        """Add a problem."""
        self._add(PROBLEM, place, what)

    def note(self, place: str, what: str) -> None:
        """Add a note, which is not an error."""
        self._add(NOTE, place, what)

    def unfinished(self, place: str, what: str) -> None:
        """Add a problem if the store must be complete, a note if it is in use or was not closed cleanly."""
        self._add(PROBLEM if self._must_be_complete else NOTE, place, what)

    def _add(self, severity: str, place: str, what: str) -> None:
        self._count[severity, place] += 1
        if self._count[severity, place] <= _SHOWN:
            self._shown.append(Finding(severity, place, what))

    @property
    def problems(self) -> int:
        """Number of problems."""
        return sum(count for (severity, _), count in self._count.items() if severity == PROBLEM)

    def listed(self) -> list[Finding]:
        """Findings, problems first; if a place has more than are listed, its last finding has the number of them."""
        more = [
            Finding(severity, place, f"and {count - _SHOWN} more")
            for (severity, place), count in self._count.items()
            if count > _SHOWN
        ]
        places = {key: number for number, key in enumerate(self._count)}
        found = sorted(self._shown + more, key=lambda one: places[one.severity, one.place])
        return sorted(found, key=lambda one: one.severity != PROBLEM)
