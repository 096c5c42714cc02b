"""How long a process waited for a processor."""

from __future__ import annotations

from pathlib import Path


def queued_seconds(pid: int) -> float:
    """How long a process was ready to run and had no processor, as Linux tells it; 0 elsewhere."""
    try:
        _, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    except (OSError, ValueError):
        return 0.0
    return int(waited) / 1e9
