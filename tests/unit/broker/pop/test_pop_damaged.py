"""Pops that meet damage in the commit log: the answer names what it leaves out, and the group goes on behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_py.protocol import pop_handle
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.wire.command import Command
from tests.unit.broker.harness import Client, InProcess
from tests.unit.broker.pop.pop_client import ack, bodies, make_topic, popped, put
from tests.unit.broker.requests import pop


def damage(running: InProcess, root: Path, offset: int, queue_id: int = 0) -> None:
    """Damage the magic number of a record of topic ``t``, as if that had been while the broker was down."""
    store = running.services.store
    [(at, _, _)] = store.queue_entries("t", queue_id, offset, 1)
    store._commit_log.written_from = 1 << 30
    with (root / "store/commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(at + 4)
        file.write(b"\xff")


def left_out(answer: Command) -> dict[pop_handle.Place, list[int]]:
    return pop_handle.parse_msg_offsets(answer.ext.get("damaged"))


@pytest.mark.parametrize("order", [False, True])
def test_the_answer_to_a_pop_names_the_damaged_messages_it_leaves_out(
    running: InProcess, client: Client, tmp_path: Path, *, order: bool
) -> None:
    make_topic(running, 2)
    put(client, b"a", b"b", b"c", b"d")
    put(client, b"x", b"y", queue_id=1)
    for offset, queue_id in ((1, 0), (2, 0), (0, 1)):
        damage(running, tmp_path, offset, queue_id)
    answer = client.ask(Code.POP_MESSAGE, pop(order=order))
    found = popped(answer)
    assert (answer.code, sorted(bodies(found)), answer.ext["restNum"]) == (0, [b"a", b"d", b"y"], "0")
    assert left_out(answer) == {("0", 0): [1, 2], ("0", 1): [0]}
    assert [ack(client, one).code for one in found] == [0, 0, 0]
    put(client, b"e")
    again = client.ask(Code.POP_MESSAGE, pop(order=order))
    assert (bodies(popped(again)), "damaged" in again.ext) == ([b"e"], False)


def test_a_pop_that_finds_damage_only_is_answered_at_once(running: InProcess, client: Client, tmp_path: Path) -> None:
    make_topic(running)
    put(client, b"a", b"b")
    for offset in (0, 1):
        damage(running, tmp_path, offset)
    answer = client.ask(Code.POP_MESSAGE, pop(poll_time=60_000, born_time=running.now))
    assert (answer.code, answer.remark, answer.body) == (210, "NO_MATCHED_MESSAGE", b"")
    assert left_out(answer) == {("0", 0): [0, 1]}
    again = client.ask(Code.POP_MESSAGE, pop())
    assert (again.code, again.remark, "damaged" in again.ext) == (210, "NO_MESSAGE_IN_QUEUE", False)
    put(client, b"c")
    assert bodies(popped(client.ask(Code.POP_MESSAGE, pop()))) == [b"c"]


def test_damage_that_the_filter_leaves_out_is_not_named(running: InProcess, client: Client, tmp_path: Path) -> None:
    make_topic(running)
    put(client, b"a", b"b", properties={"TAGS": "A"})
    put(client, b"c", properties={"TAGS": "C"})
    damage(running, tmp_path, 1)
    answer = client.ask(Code.POP_MESSAGE, pop(exp="C"))
    assert (bodies(popped(answer)), "damaged" in answer.ext) == ([b"c"], False)
