"""What stops a benchmark: a wrong answer, a program that died, a tool that is missing. Never a slow figure."""

from __future__ import annotations


class BenchError(RuntimeError):
    """The row cannot be measured; the text says who said what."""
