"""Stacks of threads and tasks as text."""

import asyncio
import threading

from rocketmq_py.client.consumer import stacks


async def inner(hold):
    await hold.wait()


async def outer(hold):
    await inner(hold)


async def test_stacks_show_threads_and_tasks_with_the_innermost_call_first():
    hold, thread_hold, begun = asyncio.Event(), threading.Event(), threading.Event()

    def block():
        begun.set()
        thread_hold.wait(30)

    thread = threading.Thread(target=block, name="a-thread", daemon=True)
    thread.start()
    begun.wait(30)
    task = asyncio.create_task(outer(hold), name="a-task")
    await asyncio.sleep(0)
    text = stacks.everything([task])
    thread_hold.set()
    thread.join(30)
    entries = text.split("\n\n")
    [of_thread] = [entry for entry in entries if entry.startswith("a-thread")]
    assert of_thread.splitlines()[0] == f"{'a-thread':<40} TID: {thread.ident} STATE: DAEMON"
    assert "block" in of_thread
    assert any("STATE: RUNNABLE" in entry.splitlines()[0] for entry in entries)
    lines = entries[-1].strip().splitlines()
    assert lines[0] == f"{'a-task':<40} TASK"
    names = [line.split()[1].partition("(")[0] for line in lines[1:]]
    assert names[-2:] == ["inner", "outer"]
    assert stacks.runs(stacks.frames_of_task(task), frozenset({inner.__code__}))
    assert not stacks.runs(stacks.frames_of_task(task), frozenset({block.__code__}))
    assert "in outer" in stacks.text(stacks.frames_of_task(task))
    assert (stacks.frames_of_thread(thread.ident), stacks.frames_of_thread(None)) == ([], [])
    hold.set()
    await task
