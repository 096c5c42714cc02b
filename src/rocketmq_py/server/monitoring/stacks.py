"""The page ``/debug/stacks``: where all threads and tasks of a process are, to find out why it hangs."""

from __future__ import annotations

import asyncio
import io
import sys
import threading
import traceback
from types import FrameType

from rocketmq_py.server.monitoring.http import HttpRequest, Page

MOST_TASKS = 500
_FRAMES = 30


def stacks(loop: asyncio.AbstractEventLoop | None) -> str:
    """Return the stacks of all threads, and of the tasks of an event loop; may be called from any thread.

    :param loop: None for no tasks.
    """
    text = io.StringIO()
    threads = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():  # noqa: SLF001 - what faulthandler uses
        text.write(f"thread {threads.get(ident, '?')}\n{_of_frame(frame)}\n")
    tasks = [] if loop is None else sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
    for task in tasks[:MOST_TASKS]:
        frames = task.get_stack(limit=_FRAMES)
        lines = "".join(line for frame in frames for line in traceback.format_stack(frame, limit=1))
        text.write(f"task {task.get_name()} {getattr(task.get_coro(), '__qualname__', '')}\n{lines}\n")
    if len(tasks) > MOST_TASKS:
        text.write(f"and {len(tasks) - MOST_TASKS} more tasks\n")
    return text.getvalue()


def _of_frame(frame: FrameType) -> str:
    return "".join(traceback.format_stack(frame)[-_FRAMES:])


def stacks_page(loop: asyncio.AbstractEventLoop | None, request: HttpRequest) -> Page:
    """Return the page, to those who ask for it by an address of this machine: pages of other sites do not."""
    host = request.fields.get("host", "").rpartition(":")[0] or request.fields.get("host", "")
    if host.strip("[]") not in ("127.0.0.1", "::1", "localhost"):
        return Page(b"ask for it as http://127.0.0.1\n", 421)
    return Page(stacks(loop).encode(errors="replace"))
