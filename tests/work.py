"""Counts work instead of timing it, for what must not cost more on a large table than on a small one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import rocketmq_py

_PACKAGE = str(Path(rocketmq_py.__file__).parent)


def steps(run: Callable[[], object]) -> int:
    """How many instructions of Python code of the package ``run`` takes; C code counts as the one that calls it.

    Code outside of the package is not counted: a test may look again and again whether a thread is done.
    """
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return count
