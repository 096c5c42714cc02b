"""The cache directory for files this package makes for Spark."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache() -> Path:
    """The cache directory of this user; a temporary one if it cannot be created."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rocketmq-py"
    try:
        base.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="rocketmq-py-"))
    return base
