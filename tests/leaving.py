"""What the tests of a folder share ends with the last of them, and not with the session.

A Java broker that nobody asks takes 8 % of a core. Each process that had run tests with the Java peer kept one while it
ran those of all other folders.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


class Leaving:
    """The plugin: it ends session fixtures of a folder or file when the next test is elsewhere.

    A later test that needs one sets it up again.
    """

    def __init__(self) -> None:
        self._set_up: list[tuple[pytest.FixtureDef[Any], Any]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any], request: Any) -> Iterator[Any]:
        try:
            return (yield)
        finally:
            if fixturedef.scope == "session":  # after those it uses
                self._set_up.append((fixturedef, request))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, nextitem: pytest.Item | None) -> Iterator[None]:
        yield
        if nextitem is not None:  # otherwise pytest itself ends all
            self._leave(nextitem.nodeid)

    def _leave(self, test: str) -> None:
        """End what ``test`` cannot use, the latest first: an earlier one may be used by it."""
        left = [(fixture, request) for fixture, request in self._set_up if not _is_seen(fixture.baseid, test)]
        self._set_up = [each for each in self._set_up if each not in left]
        for fixture, request in reversed(left):
            fixture.finish(request)


def _is_seen(place: str, test: str) -> bool:
    """True if a fixture that was defined in a folder, a file or a plugin can be used by a test."""
    return not place or test.startswith((f"{place}/", f"{place}::"))
