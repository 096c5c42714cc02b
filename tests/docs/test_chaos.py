"""The page about chaos tells of every scenario there is."""

from __future__ import annotations

import re
from pathlib import Path

from tests.chaoskit.scenarios import ALL, PAIRED

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "chaos.md").read_text()


def test_every_scenario_is_documented() -> None:
    assert re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE) == [*ALL, *PAIRED]
