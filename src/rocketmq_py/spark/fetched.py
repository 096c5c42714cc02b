"""Fetched messages that are not decoded yet. A module of its own, so that planners need not import the decoder."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class FetchedChunk(NamedTuple):
    """The body of one pull answer, and the offsets it was pulled for: from ``start`` up to, not including, ``stop``.

    :ivar is_damaged: the broker left out messages because they are damaged; then there is no body.
    """

    body: bytes
    start: int
    stop: int
    is_damaged: bool = False


class DecoderChoice(Enum):
    """Option ``decoder``: the compiled decoder where it is installed, always NumPy, or only the compiled one."""

    AUTO = "auto"
    NUMPY = "numpy"
    COMPILED = "compiled"
