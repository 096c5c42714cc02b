"""Which bodies pages may show, and what is masked in them: rules of the operator, for HTML, JSON and CSV alike.

What a rule cannot be applied to is hidden: a body that is no JSON if there are paths, bytes that are no text, a body
that is too long, or a search that takes too long.
"""

from __future__ import annotations

import functools
import re
import signal
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from rocketmq_py.console.bodies import (
    AUTO,
    JSON,
    SHOWN_BYTES,
    TEXT,
    Pairs,
    Shown,
    json_text,
    preview,
    preview_of_text,
    show,
    whole_text,
)
from rocketmq_py.errors import ConfigError

MASK = "***"

_MOST_MASKED = 1024 * 1024
"""Longer bodies are hidden where there are masks."""
_MOST_IN_LIST = 16 * 1024
"""Longer bodies are hidden in lists, which have many."""
MOST_OF_LINE = 4096
"""Longer lines are masked as a whole where there are patterns: a search may take a time that grows with the square."""
PAGE_SECONDS = 0.2
"""Processor time for the patterns of one page."""

HIDDEN = "hidden"
"""The decoder of a body that is not shown."""

_STEP = re.compile(r"\.\.(?P<deep>[^.\[\]*]+)|\.(?P<name>[^.\[\]*]+)|\.(?P<any>\*)|\[(?P<each>\*)\]"
                   r"|\[(?P<number>\d{1,9})\]|\['(?P<quoted>[^']+)'\]")  # fmt: skip


class Step(NamedTuple):
    """A step of a path: to the member or item ``to``, to all of them if it is None; at any depth if ``is_deep``."""

    to: str | int | None
    is_deep: bool


Path = tuple[Step, ...]


def parse_path(text: str) -> Path:
    """Parse a JSON path: ``$.card.number``, ``$.items[*].iban``, ``$.items[0]``, ``$['a.b']``, or ``$..token``.

    :raises ConfigError: it has another form.
    """
    steps, at = [], 1
    while text[:1] == "$" and (found := _STEP.match(text, at)):
        at = found.end()
        name = found["deep"] or found["name"] or found["quoted"]
        number = found["number"]
        steps.append(Step(int(number) if number else name, found["deep"] is not None))
    if text[:1] != "$" or at != len(text):
        raise ConfigError(f"--mask-path {text!r} is no JSON path, such as $.card.number, $.items[*].iban or $..token")
    return tuple(steps)


def parse_pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern.

    :raises ConfigError: it is no regular expression, or matches the empty text.
    """
    try:
        pattern = re.compile(text)
    except re.error as e:
        raise ConfigError(f"--mask {text!r} is no regular expression: {e}") from e
    if pattern.search(""):
        raise ConfigError(f"--mask {text!r} matches everywhere, even where nothing stands")
    return pattern


class Masks:
    """The rules for bodies.

    :param patterns: regular expressions; what they match in the text of a body is masked.
    :param paths: JSON paths; the values there are masked.
    :param are_hidden: no body is shown at all.
    :raises ConfigError: a rule is none, or patterns cannot be limited in time on this system.
    """

    def __init__(self, patterns: Iterable[str] = (), paths: Iterable[str] = (), *, are_hidden: bool = False) -> None:
        self.are_hidden = are_hidden
        self.patterns = [parse_pattern(text) for text in patterns]
        self.paths = [parse_path(text) for text in paths]
        if self.patterns and not hasattr(signal, "SIGVTALRM"):
            raise ConfigError("--mask cannot be limited in time on this system; --mask-path and --no-bodies work")

    @property
    def is_open(self) -> bool:
        """Return True if bodies are shown as they are."""
        return not (self.are_hidden or self.patterns or self.paths)

    def of_page(self) -> Bodies:
        """Return what shows the bodies of one page, which share the time for patterns."""
        return Bodies(self)


class Bodies:
    """Shows the bodies of one page as the rules allow."""

    def __init__(self, masks: Masks) -> None:
        self._masks = masks
        self._seconds = PAGE_SECONDS
        self.is_open = masks.is_open

    def preview(self, body: bytes) -> str | None:
        """Return the start of a body in one line; None if it is hidden."""
        if self.is_open:
            return preview(body)
        found = self._masked(body, _MOST_IN_LIST)
        return None if found is None else preview_of_text(found[0])

    def show(self, body: bytes, decoder: str = AUTO, limit: int | None = SHOWN_BYTES) -> Shown:
        """Return a body as text; with rules always as JSON or text, since other forms would show what they mask."""
        if self.is_open:
            return show(body, decoder, limit)
        found = self._masked(body, _MOST_MASKED)
        if found is None:
            return Shown("", HIDDEN, 0, len(body))
        text, kind = found
        if limit is None or len(text) <= limit:
            return Shown(text, kind, len(body), len(body))
        return Shown(text[:limit], kind, min(limit, len(body) - 1), len(body))

    def _masked(self, body: bytes, most: int) -> tuple[str, str] | None:
        """Return the masked text of a whole body and whether it is JSON or text; None if it has to be hidden."""
        masks = self._masks
        if masks.are_hidden or len(body) > most:
            return None
        text = json_text(body, lambda tree: functools.reduce(masked, masks.paths, tree))
        if text is not None:
            return self._without_matches(text, JSON)
        text = None if masks.paths else whole_text(body)
        return None if text is None else self._without_matches(text, TEXT)

    def _without_matches(self, text: str, kind: str) -> tuple[str, str] | None:
        if not self._masks.patterns:
            return text, kind
        if self._seconds <= 0:
            return None
        began = time.process_time()
        found = replaced(self._masks.patterns, text, self._seconds)
        self._seconds -= time.process_time() - began
        return None if found is None else (found, kind)


def masked(tree: object, path: Path) -> object:
    """Return a JSON tree with the values at a path masked."""
    if not path:
        return MASK
    step, rest = path[0], path[1:]
    if isinstance(tree, Pairs):
        return Pairs((name, _masked_member(name, value, path, step, rest)) for name, value in tree)
    if isinstance(tree, list):
        return [_masked_member(number, value, path, step, rest) for number, value in enumerate(tree)]
    return tree


def _masked_member(name: str | int, value: object, path: Path, step: Step, rest: Path) -> object:
    found = masked(value, rest) if step.to in (None, name) else value
    return masked(found, path) if step.is_deep else found


class _TooLong(Exception):
    """A search was ended."""


def replaced(patterns: Iterable[re.Pattern[str]], text: str, seconds: float) -> str | None:
    """Replace what patterns match in each line by ``***``; return None if it takes over ``seconds`` of processor time.

    A pattern may take forever on a text that somebody made for it; a signal is what ends the search. It is looked at
    after some thousand steps, each of which may search a line, so lines have a limit. Call it in the main thread.
    """

    def end(*_: Any) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGVTALRM, end)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        try:
            return "\n".join([_line(patterns, line) for line in text.split("\n")])
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except _TooLong:
        return None
    finally:
        signal.signal(signal.SIGVTALRM, before)


def _line(patterns: Iterable[re.Pattern[str]], line: str) -> str:
    if len(line) > MOST_OF_LINE:
        return MASK
    for pattern in patterns:
        line = pattern.sub(MASK, line)
    return line
