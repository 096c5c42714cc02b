"""Formats the current stacks of threads and asyncio tasks as text."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Iterable
from types import CodeType, FrameType
from typing import Any


def frames_of_thread(ident: int | None) -> list[tuple[FrameType, int]]:
    """The frames of a thread with their line numbers, outermost first; empty if the thread has ended.

    :param ident: the thread's ``ident``; None gives an empty list.
    """
    frame = sys._current_frames().get(ident or 0)  # noqa: SLF001 - the only access to another thread's stack
    return list(traceback.walk_stack(frame))[::-1] if frame is not None else []


def frames_of_task(task: asyncio.Task[Any]) -> list[tuple[FrameType, int]]:
    """The frames of a task and of the coroutines it awaits, with their line numbers, outermost first."""
    found: list[tuple[FrameType, int]] = []
    awaited: Any = task.get_coro()
    while awaited is not None:
        frame = _attribute(awaited, "cr_frame", "gi_frame", "ag_frame")
        if frame is not None:
            found.append((frame, frame.f_lineno))
        awaited = _attribute(awaited, "cr_await", "gi_yieldfrom", "ag_await")
    return found


def _attribute(awaited: Any, *names: str) -> Any:
    return next((value for name in names if (value := getattr(awaited, name, None)) is not None), None)


def text(frames: Iterable[tuple[FrameType, int]]) -> str:
    """Format frames like a traceback."""
    return "".join(traceback.StackSummary.extract(iter(frames)).format()).rstrip()


def runs(frames: Iterable[tuple[FrameType, int]], codes: frozenset[CodeType]) -> bool:
    """True if one of the frames runs one of these code objects."""
    return any(frame.f_code in codes for frame, _ in frames)


def everything(tasks: Iterable[asyncio.Task[Any]] = ()) -> str:
    """The stacks of all threads of the process and of ``tasks``, as the text that Java's tools show as ``jstack``."""
    parts = [
        _entry(thread.name, f"TID: {thread.ident} STATE: {'DAEMON' if thread.daemon else 'RUNNABLE'}", frames)
        for thread in threading.enumerate()
        if (frames := frames_of_thread(thread.ident))
    ]
    parts += [_entry(task.get_name(), "TASK", frames_of_task(task)) for task in tasks]
    return "\n".join(parts)


def _entry(name: str, state: str, frames: list[tuple[FrameType, int]]) -> str:
    lines = [f"{name:<40} {state}"]
    for frame, line in reversed(frames):
        code = frame.f_code
        lines.append(f"{name:<40} {code.co_qualname}({code.co_filename}:{line})")
    return "\n".join(lines) + "\n"
