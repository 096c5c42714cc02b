"""What browsers load besides pages: little enough for a slow line, and nothing from elsewhere."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import rocketmq_py.console

FOLDER = Path(rocketmq_py.console.__file__).parent
STATIC = [path for path in sorted((FOLDER / "static").iterdir()) if path.suffix in {".js", ".css"}]
MOST_BYTES = 100 * 1024


def test_all_assets_together_are_small() -> None:
    assert STATIC
    assert sum(len(gzip.compress(path.read_bytes())) for path in STATIC) <= MOST_BYTES


def test_neither_assets_nor_templates_name_another_host() -> None:
    for path in [*STATIC, *sorted((FOLDER / "templates").iterdir())]:
        assert re.findall(r"""(?:src|href|url|import)\W{1,3}(?:https?:)?//""", path.read_text()) == [], path.name
