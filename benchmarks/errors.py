"""The error that stops a benchmark: a wrong answer, a program that ended, a missing tool. A slow result is no error."""

from __future__ import annotations


class BenchError(RuntimeError):
    """A row cannot be measured; the message has the program or address concerned, and the reason."""
