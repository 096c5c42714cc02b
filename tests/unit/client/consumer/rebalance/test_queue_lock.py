"""Locks of queues at brokers: who gets them, when they are renewed, and what becomes of queues that lose them."""

import asyncio

import pytest

from rocketmq_py.client.consumer.rebalance.queue_lock import BrokerQueueLock, NoQueueLock
from rocketmq_py.core.consumer import orderly
from rocketmq_py.core.pop.receipts import PopQueue
from rocketmq_py.model import MessageQueue
from rocketmq_py.wire.command import Command
from tests.unit.client.consumer.scripted_group import NOW, TOPIC, ScriptedGroup
from tests.unit.client.scripted import route_answer

LOCK, UNLOCK, QUERY, UPDATE, ROUTE = 41, 42, 14, 15, 105
Q0, Q1 = (MessageQueue(TOPIC, "b", number) for number in range(2))
ELSEWHERE = MessageQueue(TOPIC, "c", 0)


class Listeners:
    """Stands for the dispatcher: ``busy`` are the queues with a running listener, ``woken`` those it was told of."""

    def __init__(self):
        self.busy = {}
        self.woken = []

    def run(self, process):
        self.busy[process] = asyncio.Event()

    def end(self, process):
        self.busy.pop(process).set()

    def is_idle(self, process):
        return process not in self.busy

    async def wait_idle(self, process):
        if process in self.busy:
            await self.busy[process].wait()

    def wake(self, process):
        self.woken.append(process.queue)


class Member(ScriptedGroup):
    """An orderly member with the lock under test; ``lost`` are the queues that it gave up."""

    def __init__(self, **options):
        super().__init__(orderly=True, **options)
        self.listeners = Listeners()
        self.lost = []

    async def __aenter__(self):
        await super().__aenter__()
        self.lock = BrokerQueueLock(self.group, self.listeners, self._lose)
        return self

    async def __aexit__(self, *_):
        await self.lock._renewal.stop()
        await super().__aexit__(*_)

    async def _lose(self, processes):
        self.lost += [process.queue for process in processes]

    async def own(self, *queues, offset=None):
        """Take queues as a rebalance does, with an offset in memory; what was asked for is forgotten."""
        taken = await self.lock.take(queues)
        for process in taken:
            self.group.queues[process.queue] = process
            if offset is not None:
                self.group.offsets.update(process.queue, offset)
        self.network.requests.clear()
        return taken[0] if len(queues) == 1 else taken

    def drop(self, process):
        process.dropped = True
        del self.group.queues[process.queue]


async def settled():
    """All tasks that can go on have gone on."""
    for _ in range(20):
        await asyncio.sleep(0)


# -- take


async def test_queues_are_locked_at_their_brokers_and_only_granted_ones_are_taken():
    async with Member() as member:
        member.routes[TOPIC] = {"b": 2, "c": 1}
        await member.instance.routes.refresh(TOPIC)
        member.refused = {Q1}
        taken = await member.lock.take([Q0, Q1, ELSEWHERE])
        assert [process.queue for process in taken] == [Q0, ELSEWHERE]
        assert [process.locked_at for process in taken] == [NOW, NOW]
        assert member.about(LOCK) == [(LOCK, "b:1", [Q0, Q1]), (LOCK, "c:1", [ELSEWHERE])]


async def test_a_lock_counts_from_its_request():
    """The broker's clock starts when it handles the request, so the answer's time would be too late."""

    def grant(address, request):
        member.clock += 7.0
        return member._lock(request)

    async with Member() as member:
        member.special[LOCK] = grant
        process = await member.own(Q0)
        assert process.locked_at == NOW
        await member.lock.renew()
        assert process.locked_at == NOW + 7.0


async def test_a_queue_that_a_listener_still_has_is_not_taken():
    async with Member() as member:
        process = await member.own(Q0)
        member.listeners.run(process)
        member.drop(process)
        await member.lock.release([process])
        assert [taken.queue for taken in await member.lock.take([Q0, Q1])] == [Q1]
        member.listeners.end(process)
        await settled()
        assert [taken.queue for taken in await member.lock.take([Q0])] == [Q0]


async def test_queues_of_a_broker_that_refuses_to_lock_are_not_taken_and_their_route_is_refreshed(caplog):
    async with Member() as member:
        member.special[LOCK] = lambda *_: Command(1, remark="not now")
        assert await member.lock.take([Q0, Q1]) == []
        assert [code for code in member.network.codes() if code in (LOCK, UNLOCK, ROUTE)] == [LOCK, ROUTE]
        assert "2 queues cannot be locked at broker b: code 1 from b:1: not now" in caplog.text
        await member.lock.take([Q0])
        assert len(caplog.records) == 1, "once"
        assert member.group.problems.keys() == {("lock", "b")}
        del member.special[LOCK]
        assert await member.lock.take([Q0])
        assert "queues can be locked at broker b again" in caplog.text
        assert not member.group.problems


async def test_problems_with_locks_end_when_the_member_has_no_queue_at_the_broker():
    async with Member() as member:
        member.special[LOCK] = lambda *_: Command(1, remark="not now")
        await member.lock.take([Q0])
        assert member.group.problems
        member.group.queues[Q0] = member.group.make_queue(Q0)
        await member.lock.renew()
        assert member.group.problems, "it has a queue there"
        del member.group.queues[Q0]
        await member.lock.renew()
        assert not member.group.problems


# -- renew


@pytest.mark.parametrize(
    ("mine", "stored", "is_kept"),
    [(5, 5, True), (5, 4, True), (5, 6, False), (None, 6, True), (5, None, True), (5, "error", True)],
)
async def test_a_lock_that_expired_is_only_renewed_if_nobody_consumed_the_queue_meanwhile(mine, stored, is_kept):
    """Who had the lock meanwhile has stored a higher offset than ours."""
    async with Member() as member:
        process = await member.own(Q0, offset=mine)
        if stored == "error":
            member.special[QUERY] = lambda *_: Command(1, remark="not now")
        elif stored is not None:
            member.stored[Q0] = stored
        member.clock += 30.5
        await member.lock.renew()
        assert member.lost == ([] if is_kept else [Q0])
        assert process.locked_at == (member.clock if is_kept else None)
        assert member.listeners.woken == ([Q0] if is_kept else []), "messages may wait for the lock"
        assert member.network.codes().count(QUERY) == 1


async def test_a_lock_that_is_held_is_renewed_without_a_look_at_offsets(caplog):
    async with Member() as member:
        process = await member.own(Q0, offset=5)
        member.stored[Q0] = 6
        member.clock += 30.0
        await member.lock.renew()
        assert process.locked_at == member.clock
        assert (member.network.codes(), member.listeners.woken, member.lost) == ([LOCK], [], [])
        assert not caplog.records


async def test_queues_whose_locks_others_have_are_released(caplog):
    async with Member() as member:
        first, second = await member.own(Q0, Q1)
        member.refused = {Q1}
        member.clock += 20
        await member.lock.renew()
        assert (first.locked_at, second.locked_at) == (member.clock, None)
        assert member.lost == [Q1]
        assert f"group g has lost its locks of {Q1}: another member had them meanwhile" in caplog.text


async def test_queues_keep_their_locks_while_their_broker_does_not_answer():
    async with Member() as member:
        process = await member.own(Q0)
        member.special[LOCK] = lambda *_: Command(1, remark="not now")
        member.clock += 20
        await member.lock.renew()
        assert (process.locked_at, member.lost) == (NOW, [])


async def test_a_released_queue_keeps_its_lock_while_its_listener_runs():
    async with Member() as member:
        process = await member.own(Q0)
        member.listeners.run(process)
        member.drop(process)
        await member.lock.release([process])
        member.clock += 20
        await member.lock.renew()
        assert process.locked_at == member.clock
        member.refused = {Q0}
        await member.lock.renew()
        assert process.locked_at is None
        assert member.lost == [], "it is released already"


async def test_popped_queues_have_no_locks():
    async with Member() as member:
        await member.own(Q0)
        popped = MessageQueue(TOPIC, "b", -1)
        member.group.queues[popped] = PopQueue(popped, NOW)
        await member.lock.renew()
        assert member.about(LOCK) == [(LOCK, "b:1", [Q0])]


async def test_locks_are_renewed_every_20_seconds_and_every_3_while_one_is_due():
    async with Member() as member:
        member.clock, times = None, []
        start = asyncio.get_running_loop().time()

        def seen(address, request):
            times.append(round(asyncio.get_running_loop().time() - start))
            return Command(1, remark="not now") if 2 <= len(times) <= 4 else member._lock(request)

        member.special[LOCK] = seen
        await member.own(Q0)
        await asyncio.sleep(70)
        assert times == [0, 20, 23, 26, 29, 49, 69]


async def test_a_lock_is_renewed_at_once_when_a_queue_waits_for_it_but_not_all_the_time(monkeypatch):
    monkeypatch.setattr(orderly, "PAUSES", (2.0, 30.0))  # longer than a busy machine takes for a turn of the loop
    async with Member() as member:
        await member.own(Q0)
        member.lock.renew_soon()
        await settled()
        assert member.about(LOCK) == [(LOCK, "b:1", [Q0])]
        member.lock.renew_soon()
        await settled()
        assert len(member.about(LOCK)) == 1, "with a pause between them"
        await asyncio.sleep(3.0)
        assert len(member.about(LOCK)) == 2
        await asyncio.sleep(5.0)
        assert len(member.about(LOCK)) == 2


async def test_a_renewal_that_fails_does_not_end_the_renewals(caplog):
    async with Member() as member:
        process = await member.own(Q0)
        member.special[LOCK] = lambda *_: Command(0, body=b'{"lockOKMQSet":[{"topic":7}]}')
        member.lock._ask, ask = None, member.lock._ask
        await asyncio.sleep(20.5)
        assert "renewing the locks of group g failed" in caplog.text
        member.lock._ask = ask
        del member.special[LOCK]
        process.unlock()
        await asyncio.sleep(20)
        assert process.locked_at == NOW


async def test_after_a_lost_connection_a_queue_waits_until_its_lock_is_confirmed():
    async with Member() as member:
        process = await member.own(Q0)
        member.lock.connection_lost(process)
        assert not process.is_usable(NOW)
        await settled()
        assert process.is_usable(NOW)
        assert member.listeners.woken == [Q0]


async def test_a_lost_connection_does_not_concern_a_released_queue():
    async with Member() as member:
        process = await member.own(Q0)
        process.dropped = True
        member.lock.connection_lost(process)
        await settled()
        assert process.locked_at == NOW
        assert member.network.codes() == []


# -- release


async def test_a_released_queue_is_unlocked_after_its_listener_has_ended_and_its_offset_is_stored():
    async with Member() as member:
        process = await member.own(Q0, offset=5)
        member.listeners.run(process)
        member.drop(process)
        await member.lock.release([process])
        await settled()
        assert member.group.leaving == {Q0: process}
        member.group.offsets.update(Q0, 6)
        assert member.network.codes() == []
        member.listeners.end(process)
        await settled()
        assert member.network.codes() == [UPDATE, UNLOCK]
        assert (member.stored, member.about(UNLOCK)) == ({Q0: 6}, [(UNLOCK, "b:1", [Q0])])
        assert (member.group.leaving, member.group.offsets.get(Q0), len(member.lock._leaving)) == ({}, None, 0)


@pytest.mark.parametrize("is_ours", [True, False])
async def test_the_offset_of_a_released_queue_is_only_stored_with_its_lock(is_ours):
    """Whoever has the lock now stores offsets of its own."""
    async with Member() as member:
        process = await member.own(Q0, offset=5)
        member.drop(process)
        member.clock += 31
        member.refused = set() if is_ours else {Q0}
        await member.lock.release([process])
        await settled()
        assert member.network.codes() == ([LOCK, QUERY, UPDATE, UNLOCK] if is_ours else [LOCK])
        assert member.stored == ({Q0: 5} if is_ours else {})
        assert (member.group.leaving, member.group.offsets.get(Q0), member.lost) == ({}, None, [])


# -- close


async def test_close_unlocks_all_queues_but_those_whose_listeners_run(caplog):
    async with Member() as member:
        await member.own(Q0)
        process = await member.own(Q1)
        member.listeners.run(process)
        await member.lock.close()
        assert member.about(UNLOCK) == [(UNLOCK, "b:1", [Q0])]
        member.lock.renew_soon()
        await asyncio.sleep(40)
        assert member.network.codes() == [UNLOCK], "nothing is renewed any more"


async def test_close_waits_a_second_for_listeners_of_released_queues():
    async with Member() as member:
        first, second = await member.own(Q0, Q1, offset=5)
        for process in (first, second):
            member.listeners.run(process)
            member.drop(process)
        await member.lock.release([first, second])
        loop = asyncio.get_running_loop()
        loop.call_later(0.9, member.listeners.end, first)
        began = loop.time()
        await member.lock.close()
        assert loop.time() - began == pytest.approx(1.0, abs=0.05)
        await settled()
        assert (member.stored, member.group.leaving) == ({Q0: 5}, {})
        assert member.about(UNLOCK) == [(UNLOCK, "b:1", [Q0])]


# -- requests without answers


async def test_a_lock_that_may_be_granted_later_is_unlocked_until_the_broker_confirms_it():
    async with Member() as member:
        member.special[LOCK] = member.special[UNLOCK] = lambda *_: None
        assert await member.lock.take([Q0]) == []
        await asyncio.sleep(2)
        assert member.about(LOCK, UNLOCK) == [(LOCK, "b:1", [Q0]), (UNLOCK, "b:1", [Q0])]
        await asyncio.sleep(3.5)
        assert len(member.about(UNLOCK)) == 2, "every 3 seconds"
        del member.special[UNLOCK]
        await asyncio.sleep(30)
        assert len(member.about(UNLOCK)) == 3, "the broker has answered"


@pytest.mark.parametrize(("age", "is_unlocked"), [(60.0, True), (60.1, False)])
async def test_a_broker_has_forgotten_an_unanswered_lock_after_a_minute(age, is_unlocked):
    async with Member() as member:
        member.special[LOCK] = member.special[UNLOCK] = lambda *_: None
        await member.lock.take([Q0])
        member.clock += age
        await asyncio.sleep(0.1)
        assert bool(member.about(UNLOCK)) == is_unlocked


async def test_a_queue_that_is_ours_by_then_is_not_unlocked():
    async with Member() as member:
        process = await member.own(Q0)
        member.special[LOCK] = lambda *_: None
        await member.lock.renew()
        del member.special[LOCK]
        member.lock.renew_soon()
        await asyncio.sleep(40)
        assert member.about(UNLOCK) == []
        assert process.locked_at == NOW


async def test_an_answer_to_a_later_lock_request_says_all_about_an_unanswered_one():
    async with Member() as member:
        member.special[LOCK] = member.special[UNLOCK] = lambda *_: None
        await member.lock.take([Q0])
        await asyncio.sleep(2)
        del member.special[LOCK]
        member.refused = {Q0}
        assert await member.lock.take([Q0]) == []
        asked = len(member.about(UNLOCK))
        await asyncio.sleep(40)
        assert len(member.about(UNLOCK)) == asked, "another member has it"


async def test_a_queue_that_is_being_locked_again_is_not_unlocked_meanwhile():
    async with Member() as member:
        member.special[LOCK] = lambda *_: None
        first = asyncio.ensure_future(member.lock.take([Q0]))
        await asyncio.sleep(0.5)
        second = asyncio.ensure_future(member.lock.take([Q0]))
        await first
        await asyncio.sleep(0.2)
        assert member.about(UNLOCK) == []
        await second
        await asyncio.sleep(0.2)
        assert member.about(UNLOCK) == [(UNLOCK, "b:1", [Q0])]


async def test_an_unlock_that_is_refused_is_not_repeated(caplog):
    async with Member() as member:
        process = await member.own(Q0)
        member.special[UNLOCK] = lambda *_: Command(1, remark="no")
        member.drop(process)
        await member.lock.release([process])
        await asyncio.sleep(50)
        assert len(member.about(UNLOCK)) == 1
    assert "1 queues cannot be unlocked at broker b, where the locks expire in a minute: code 1" in caplog.text


async def test_an_unlock_without_an_answer_is_repeated_until_there_is_one():
    async with Member() as member:
        process = await member.own(Q0)
        member.special[UNLOCK] = lambda *_: None
        member.drop(process)
        await member.lock.release([process])
        await asyncio.sleep(30)
        asked = len(member.about(UNLOCK))
        assert asked > 2
        del member.special[UNLOCK]
        await asyncio.sleep(50)
        assert len(member.about(UNLOCK)) == asked + 1


# -- where brokers are


async def test_the_route_is_refreshed_to_find_a_master():
    async with Member() as member:
        member.routes[TOPIC] = {"b": 2, "c": 1}
        assert [process.queue for process in await member.lock.take([ELSEWHERE])] == [ELSEWHERE]
        assert member.network.codes() == [ROUTE, LOCK]


async def test_a_broker_without_a_master_locks_nothing(caplog):
    async with Member() as member:
        assert await member.lock.take([ELSEWHERE]) == []
        assert "1 queues cannot be locked at broker c: broker 'c' has no master now" in caplog.text
        assert LOCK not in member.network.codes()


async def test_queues_of_a_master_that_no_name_server_lists_any_more_are_unlocked_where_it_was():
    async with Member() as member:
        await member.own(Q0)
        member.special[ROUTE] = lambda *_: route_answer({"b": 2}, broker_id=1)
        await member.instance.routes.refresh(TOPIC)
        await member.lock.renew()
        assert LOCK not in member.network.codes()
        await member.lock.close()
        assert member.about(UNLOCK) == [(UNLOCK, "b:1", [Q0])]


async def test_without_locks_queues_are_taken_and_released_with_their_offsets():
    async with ScriptedGroup() as member:
        lock = NoQueueLock(member.group)
        processes = await lock.take([Q0, Q1])
        assert [process.queue for process in processes] == [Q0, Q1]
        for process in processes:
            member.group.offsets.update(process.queue, 5 + process.queue.queue_id)
        await lock.release(processes[:1])
        await settled()
        assert (member.stored, member.group.offsets.get(Q0), member.group.offsets.get(Q1)) == ({Q0: 5}, None, 6)
        assert [request.is_oneway for request in member.asked(UPDATE)] == [True]
        lock.connection_lost(processes[1])
        lock.renew_soon()
        await lock.close()
        assert member.network.codes() == [UPDATE]
