"""The cache directory for files this package makes for Spark."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache() -> Path:
    """Return this user's cache directory, created if missing; a new temporary directory if that fails."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rocketmq-py"
    try:
        base.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="rocketmq-py-"))
    return base
