"""The choice of the decoder. A separate module, so that planners need not import a decoder."""

from __future__ import annotations

from enum import Enum


class DecoderChoice(Enum):
    """Values of option ``decoder``: AUTO uses the compiled decoder if it is installed, else NumPy."""

    AUTO = "auto"
    NUMPY = "numpy"
    COMPILED = "compiled"
