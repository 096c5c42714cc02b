"""What was fetched and is not decoded yet. A module of its own: what plans reads need not import what decodes them."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class FetchedChunk(NamedTuple):
    """The body of one pull answer, and the offsets it was pulled for: from ``start`` up to, not including, ``stop``."""

    body: bytes
    start: int
    stop: int


class DecoderChoice(Enum):
    """Who decodes: the compiled decoder where it is installed, NumPy in any case, or the compiled one only."""

    AUTO = "auto"
    NUMPY = "numpy"
    COMPILED = "compiled"
