"""The command against a cluster, in the process of a test."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, TypeVar

from click.testing import CliRunner, Result

from rocketmq_py.cli import main
from rocketmq_py.cli.output.failures import Status
from tests import patience

T = TypeVar("T")


class Cli:
    """Runs verbs against one cluster."""

    def __init__(self, namesrv: str) -> None:
        self.namesrv = namesrv

    def __call__(self, *words: object, stdin: str | bytes | None = None) -> Result:
        """Any verb, however it ends."""
        cluster = ["--namesrv", self.namesrv, "--timeout", f"{patience.SECONDS:g}"]
        return CliRunner().invoke(main, [*map(str, words), *cluster], input=stdin)

    def ok(self, *words: object, stdin: str | bytes | None = None) -> str:
        """Standard output of a verb that must end well."""
        result = self(*words, stdin=stdin)
        assert result.exit_code == 0, (words, result.exit_code, result.output, result.exception)
        return result.stdout

    def json(self, *words: object, stdin: str | bytes | None = None) -> Any:
        """The document a verb prints."""
        return json.loads(self.ok(*words, "-o", "json", stdin=stdin))

    def dead_letters(self, group: str) -> list[Any]:
        """Those of a group; none while no name server has heard of the topic that takes them."""
        result = self("dlq", "show", group, "-o", "json")
        if result.exit_code == Status.NOT_FOUND:
            return []
        assert result.exit_code == 0, (result.exit_code, result.output, result.exception)
        rows: list[Any] = json.loads(result.stdout)
        return rows

    def jsonl(self, *words: object, stdin: str | bytes | None = None) -> list[Any]:
        """The lines a verb prints."""
        return [json.loads(line) for line in self.ok(*words, "-o", "jsonl", stdin=stdin).splitlines()]


def eventually(look: Callable[[], T], wanted: Callable[[T], object] = bool) -> T:
    """What is there once it is as wanted; for states nobody announces, such as the index."""
    deadline = time.monotonic() + 60
    while not wanted(seen := look()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.05)
    return seen
