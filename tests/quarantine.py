"""Tests that may fail for a while: ``tests/quarantine.toml`` names each with a reason, an issue and a last day."""

from __future__ import annotations

import datetime
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import pytest

FILE = Path(__file__).with_name("quarantine.toml")
PREFIX = "quarantined"
"""The first word of what pytest reports as the reason of an expected failure."""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One entry of the file."""

    id: str
    reason: str
    issue: str
    until: datetime.date

    @classmethod
    def read(cls, row: dict[str, Any]) -> Self:
        """The entry of a table of the file.

        :raises ValueError: a key is missing, unknown or of the wrong type.
        """
        names = {field.name for field in fields(cls)}
        if set(row) != names:
            raise ValueError(f"an entry has the keys {', '.join(sorted(names))}, and not {', '.join(sorted(row))}")
        entry = cls(**row)
        if type(entry.until) is not datetime.date:
            raise ValueError(f"{entry.id}: until = {entry.until!r} is not a date")
        for name in ("id", "reason", "issue"):
            if not isinstance(row[name], str) or not row[name].strip():
                raise ValueError(f"{entry.id}: {name} is empty or not a text")
        return entry

    def covers(self, node: str) -> bool:
        """True if the entry names this test or, without parameters, the function of it."""
        return node == self.id or node.startswith(f"{self.id}[")

    def expired(self, today: datetime.date) -> bool:
        return today > self.until

    def mark(self) -> pytest.MarkDecorator:
        """What makes a test run without failing the session, whether it passes or not."""
        text = f"{PREFIX} until {self.until}: {self.reason} ({self.issue})"
        return pytest.mark.xfail(reason=text, strict=False)


def load(text: str) -> list[Quarantined]:
    """The entries of a quarantine file.

    :raises ValueError: the text is not TOML, or an entry is not as :class:`Quarantined` has it.
    """
    document = tomllib.loads(text)
    if unknown := set(document) - {"test"}:
        raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
    return [Quarantined.read(row) for row in document.get("test", [])]


def apply(entries: list[Quarantined], items: list[pytest.Item], today: datetime.date) -> None:
    """Marks the tests of entries that have not expired."""
    current = [entry for entry in entries if not entry.expired(today)]
    for item in items:
        for entry in current:
            if entry.covers(item.nodeid):
                item.add_marker(entry.mark())


def summarise(reporter: pytest.TerminalReporter) -> None:
    """Prints each quarantined test that ran, how it ended, and the failure if it failed."""
    for outcome in ("xfailed", "xpassed"):
        for report in reporter.stats.get(outcome, []):
            if getattr(report, "wasxfail", "").startswith(PREFIX):
                reporter.section(f"{'failed' if outcome == 'xfailed' else 'passed'}, {report.wasxfail}")
                reporter.line(report.nodeid)
                if outcome == "xfailed":
                    reporter.line(report.longreprtext)
