"""Samples of lags: their cells, their number, and changed owners."""

import asyncio
from types import SimpleNamespace

import pytest

from rocketmq_py.console import history as module
from rocketmq_py.console.history import KEPT, UNKNOWN, GroupSamples, History, cell, lag_of
from rocketmq_py.errors import BrokerError, NetworkError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.admin import OffsetWrapper, TopicOffset
from rocketmq_py.protocol.bodies.client import ConnectionInfo, ConsumerConnection
from rocketmq_py.protocol.bodies.statistics import ConsumerRunningInfo
from tests.unit.console.browsing import ConsoleAdmin

A, B = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)


def test_a_cell_has_the_lag_and_whether_messages_were_lost():
    state = OffsetWrapper(broker_offset=10, consumer_offset=4)
    assert cell(None, None) == UNKNOWN
    assert cell(state, None) == 6
    assert cell(state, TopicOffset(min_offset=4, max_offset=10)) == 6
    assert cell(state, TopicOffset(min_offset=5, max_offset=10)) == -8
    assert [lag_of(one) for one in (UNKNOWN, 6, -8, -2)] == [None, 6, 6, 0]


def test_samples_are_aligned_and_the_oldest_go():
    samples = GroupSamples()
    samples.add(1, {A: 3}, None)
    samples.add(2, {A: 2, B: 5}, None)
    samples.add(3, {B: 4}, None)
    assert [list(one) for one in samples.queues.values()] == [[3, 2, UNKNOWN], [UNKNOWN, 5, 4]]
    assert samples.totals() == [3, 7, 4]
    for at in range(4, KEPT + 3):
        samples.add(at, {}, None)
    assert (len(samples.at), samples.at[0], samples.totals()[-1]) == (KEPT, 3, None)
    assert {len(one) for one in samples.queues.values()} == {KEPT}


def test_queues_are_capped_and_counted(monkeypatch):
    monkeypatch.setattr("rocketmq_py.console.history.MOST_QUEUES", 1)
    samples = GroupSamples()
    samples.add(1, {A: 1, B: 1}, None)
    assert (list(samples.queues), samples.left_out) == ([A], 1)


def test_a_changed_owner_is_noted_after_the_first_sample():
    samples = GroupSamples()
    samples.add(1, {}, {A: "x"})
    samples.add(2, {}, None)
    samples.add(3, {}, {A: "y", B: "y"})
    changes = [(one["at"], one["queue"], one["before"], one["after"]) for one in samples.changes]
    assert changes == [(3, 1, None, "y"), (3, 0, "x", "y")]


def test_limits_of_what_is_kept():
    limits = (module.INTERVAL_SECONDS, KEPT, module.IDLE_SECONDS, module.MOST_GROUPS, module.MOST_QUEUES)
    assert limits == (5.0, 720, 600.0, 16, 2048)
    empty = GroupSamples()
    assert (empty.left_out, empty.seen, empty.owners, empty.changes.maxlen) == (0, 0.0, None, 200)


def test_a_lag_of_nothing_is_known_and_a_queue_without_an_offset_has_lost_nothing():
    assert lag_of(0) == 0
    extent = TopicOffset(min_offset=5, max_offset=10)
    assert cell(OffsetWrapper(broker_offset=10, consumer_offset=-1), extent) == 10
    assert cell(OffsetWrapper(broker_offset=10, consumer_offset=0), extent) == -12
    assert cell(OffsetWrapper(broker_offset=4, consumer_offset=4), extent) == 0, "its broker knows less than another"


def test_a_queue_that_is_new_has_no_samples_of_before_and_times_have_their_place():
    samples = GroupSamples()
    for at in range(3):
        samples.add(at, {A: at}, None)
    samples.add(3, {B: 7}, None)
    assert list(samples.queues[B]) == [UNKNOWN, UNKNOWN, UNKNOWN, 7]
    assert (list(samples.at), samples.totals(), samples.left_out) == ([0, 1, 2, 3], [0, 1, 2, 7], 0)
    samples.add(4, {}, {A: "x"})
    samples.add(5, {}, {A: "x"})
    assert list(samples.changes) == []
    samples.add(6, {}, {})
    assert list(samples.changes) == [
        {"at": 6, "topic": "t", "broker": "b", "queue": 0, "before": "x", "after": None}
    ]  # fmt: skip


class Watched:
    """A history of a cluster in memory, whose clock is the test's."""

    def __init__(self):
        self.time, self.admin = 1_000.0, ConsoleAdmin()
        connection = SimpleNamespace(admin=lambda: self.admin)
        self.history = History(connection, lambda: int(self.time * 1_000), lambda: self.time)

    def play(self, work):
        async def run():
            await work(self, self.history)
            await self.history.close()

        asyncio.run(run())


def test_rates_are_sampled_at_once_then_every_five_seconds_until_nobody_looks():
    async def work(watched, history):
        watched.admin.states["10.0.0.1:10911"] = {"putTps": "2.5 1 1", "getTransferredTps": "4 1 1"}
        await history.watch_rates()
        await history.watch_rates()
        assert list(history.rates) == [(1_000_000, {"broker-a:0": (2.5, 4.0)})]
        await asyncio.sleep(4.5)
        assert len(history.rates) == 1
        await asyncio.sleep(1)
        assert len(history.rates) == 2
        watched.admin.states["10.0.0.1:10911"] = NetworkError("gone")
        await history.sample()
        assert history.rates[-1][1] == {"broker-a:0": (None, None)}
        watched.admin.failures["cluster"] = BrokerError(1, "no")
        await history.sample()
        assert len(history.rates) == 3, "a gap"
        watched.time += 600
        del watched.admin.failures["cluster"]
        await history.sample()
        assert len(history.rates) == 4
        watched.time += 0.1
        await history.sample()
        assert (list(history.rates), history._rates_seen) == ([], None)

    watched = Watched()
    watched.play(work)
    assert not watched.history._jobs.runs


def test_a_group_is_sampled_until_nobody_looks_for_ten_minutes():
    async def work(watched, history):
        queue = MessageQueue("t", "broker-a", 0)
        watched.admin.add_topic("t", 1)
        watched.admin.commit("g", queue, 2, 10)
        watched.admin.deleted_before[queue] = 5
        samples = await history.watch_group("g")
        assert ({one: list(cells) for one, cells in samples.queues.items()}, samples.seen) == ({queue: [-10]}, 1_000.0)
        watched.time += 100
        assert await history.watch_group("g") is samples
        assert (len(samples.at), samples.seen) == (1, 1_100.0)
        watched.time += 600
        await history.sample()
        assert list(samples.at) == [1_000_000, 1_700_000]
        watched.admin.failures["progress"] = BrokerError(1, "no")
        await history.sample()
        assert len(samples.at) == 2, "a gap"
        with pytest.raises(BrokerError):
            await history.watch_group("h")
        assert list(history._groups) == ["g"]
        watched.time += 0.1
        await history.sample()
        assert list(history._groups) == []

    Watched().play(work)


def test_sixteen_groups_are_sampled_those_that_were_looked_at_last():
    async def work(watched, history):
        for number in range(16):
            await history.watch_group(f"g{number}")
        assert len(history._groups) == 16
        await history.watch_group("g0")
        await history.watch_group("h")
        assert list(history._groups) == [*(f"g{number}" for number in range(2, 16)), "g0", "h"]

    Watched().play(work)


def test_extents_are_asked_for_in_eight_topics():
    async def work(watched, history):
        for number in range(10):
            queue = MessageQueue(f"t{number}", "broker-a", 0)
            watched.admin.add_topic(queue.topic, 1)
            watched.admin.commit("g", queue, 0, 10)
            watched.admin.deleted_before[queue] = 3
        del watched.admin.topic_table["t1"]
        samples = await history.watch_group("g")
        assert [cells[0] for _, cells in sorted(samples.queues.items())] == [-12, 10, *[-12] * 6, 10, 10]

    Watched().play(work)


@pytest.mark.parametrize(
    ("members", "answers", "owners"),
    [(0, True, {}), (1, True, {A: "c0"}), (32, True, {A: "c31"}), (33, True, None), (2, None, None), (2, False, None)],
)
def test_owners_are_known_if_all_of_few_members_answer(members, answers, owners):
    async def work(watched, history):
        admin, key = watched.admin, '{"topic":"t","brokerName":"b","queueId":0}'
        connected = [ConnectionInfo(client_id=f"c{number}", client_addr="h:1") for number in range(members)]
        admin.connected["g"] = ConsumerConnection(connection_set=connected)
        admin.running = {one.client_id: ConsumerRunningInfo(mq_pop_table={key: {}}) for one in connected}
        if answers is None:
            admin.running["c1"] = None
        if answers is False:
            admin.failures["running_info"] = NetworkError("gone")
        assert (await history.watch_group("g")).owners == owners

    Watched().play(work)
