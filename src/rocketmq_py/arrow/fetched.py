"""Pulled messages that are not decoded yet. A separate module, so that planners need not import the decoder."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class FetchedChunk(NamedTuple):
    """The body of one pull response, which covers the queue offsets from ``start`` up to, not including, ``stop``.

    :ivar is_damaged: messages at these offsets are damaged, and the broker did not send them; ``body`` is empty.
    """

    body: bytes
    start: int
    stop: int
    is_damaged: bool = False


class DecoderChoice(Enum):
    """Values of option ``decoder``: AUTO uses the compiled decoder if it is installed, else NumPy."""

    AUTO = "auto"
    NUMPY = "numpy"
    COMPILED = "compiled"
