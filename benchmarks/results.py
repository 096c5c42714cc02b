"""The results file: the values of all runs, and a description of the machine, to compare results of several days."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure

FOLDER = Path("bench-results")


def write(figures: Sequence[Figure], failures: dict[str, str], settings: dict[str, Any]) -> Path:
    """Write ``bench-results/<time>.json`` below the current directory and return its path."""
    FOLDER.mkdir(exist_ok=True)
    now = datetime.now(UTC)
    path = FOLDER / f"{now:%Y%m%d-%H%M%S}.json"
    content = {
        "time": now.isoformat(timespec="seconds"),
        "settings": settings,
        "machine": machine(),
        "figures": [figure.record() for figure in figures],
        "failures": failures,
    }
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def machine() -> dict[str, Any]:
    """Return number of cores, operating system, and versions of Python and Java."""
    return {"cores": os.cpu_count(), "python": sys.version.split()[0], "system": platform.system(), "java": _java()}


def _java() -> str:
    said = subprocess.run([os.environ.get("JAVA", "java"), "-version"], capture_output=True, text=True, check=False)
    return (said.stderr.splitlines() or ["unknown"])[0]
