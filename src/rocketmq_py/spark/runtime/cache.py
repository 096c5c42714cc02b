"""Where this package keeps what it makes for Spark: a directory of this user's own."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache() -> Path:
    """That directory; a temporary one where it cannot be made."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rocketmq-py"
    try:
        base.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="rocketmq-py-"))
    return base
