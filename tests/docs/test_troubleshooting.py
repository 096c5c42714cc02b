"""The messages in docs/troubleshooting.md are those of the code: a message found on the screen is found on the page."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from rocketmq_py import errors

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
OTHERS = {
    "Failed to find the data source: rocketmq", "Python worker failed to connect back", "PYTHON_VERSION_MISMATCH",
    "Timed out while waiting for the Python worker to connect back", "cannot connect to …: Connection refused",
}  # fmt: skip
"""Messages of Spark and of the operating system."""

_VALUE = re.compile(r"%\([a-z_]+\)[sd]|%[-+.\d]*[sdrgfx]|\d+")
ROWS = re.findall(r"^\| (`.+?`.*?) \| ", PAGE, re.MULTILINE)
MESSAGES = sorted({text for row in ROWS for text in re.findall(r"`([^`]+)`", row)} - OTHERS)


def constant(node: ast.AST) -> str | None:
    """Text of a string in the code, with a mark where values are filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(constant(part) or "…" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


@pytest.fixture(scope="module")
def texts() -> str:
    """All strings of the code, values replaced by a mark."""
    found = []
    for path in (ROOT / "src").rglob("*.py"):
        found += [text for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if (text := constant(node))]
    return "\n".join(_VALUE.sub("…", text) for text in found)


@pytest.mark.parametrize("message", MESSAGES)
def test_quoted_messages_are_those_of_the_code(message: str, texts: str) -> None:
    if hasattr(errors, message):
        return
    parts = [part.strip() for part in re.split(r"…|: |\(\w+\)|$", _VALUE.sub("…", message))]
    missing = [part for part in parts if len(part) > 3 and part not in texts]
    assert not missing


def test_every_error_of_a_broker_is_explained() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\d, to]+) \|", PAGE, re.MULTILINE))
    for kind in (kind for kind in errors.BrokerError.__subclasses__() if kind.__module__ == errors.__name__):
        assert kind.__name__ in rows
        for code in kind.codes:
            assert any(_covers(part, code) for part in rows[kind.__name__].split(",")), (kind, code)


def _covers(part: str, code: int) -> bool:
    first, _, last = part.strip().partition(" to ")
    return int(first) <= code <= int(last or first)
