"""ARCHITECTURE.md stays short, lists every package, and names files that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "rocketmq_py"
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
LINES = 120


def test_the_architecture_page_is_short() -> None:
    assert len(TEXT.splitlines()) <= LINES


def test_every_package_is_listed() -> None:
    packages = {path.parent for path in PACKAGE.rglob("__init__.py")} - {PACKAGE}
    names = {path.relative_to(PACKAGE).as_posix() for path in packages}
    section = TEXT[TEXT.index("## Packages") : TEXT.index("## Where do I add")]
    rows = [re.findall(r"`([\w/.]+)`", line) for line in section.splitlines() if line.startswith("| `")]
    listed = {name for row in rows for name in row} | {f"{row[0]}/{name}" for row in rows for name in row[1:]}
    missing = {name for name in names - listed if not name.startswith("cli/")}  # the table says: one per verb
    assert not missing


def test_the_named_files_exist() -> None:
    named = set(re.findall(r"`([\w/]+(?:\.py|/)|[a-z_0-9]+(?:/[a-z_0-9]+)+)`", TEXT))
    missing = [name for name in named if not any((base / name).exists() for base in (PACKAGE, ROOT))]
    assert not missing
