"""Rebalances of one member: which queues it takes and releases, in what order, and when it looks again."""

import asyncio
import json
import logging

import pytest

from rocketmq_py.client.consumer.rebalance.rebalancer import Rebalancer
from rocketmq_py.errors import NoRouteError
from rocketmq_py.model import MessageModel, MessageQueue
from rocketmq_py.protocol.bodies.client import ConsumerConnection, SubscriptionData
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.wire.command import Command
from tests.unit.client.consumer.scripted_group import TOPIC, ScriptedGroup

HEARTBEAT, UPDATE, MEMBERS, ROUTE, ASSIGNMENT = 34, 15, 38, 105, 400
OTHER, RETRY = "U", "%RETRY%g"
Q0, Q1 = (MessageQueue(TOPIC, "b", number) for number in range(2))
OTHERS = MessageQueue(OTHER, "b", 0)


class Member(ScriptedGroup):
    """A member with the rebalancer under test, and what that did, in order.

    It is also the queue lock of the rebalancer: it does not get the queues in ``locked``.
    """

    def __init__(self, *topics, rebuild=None, **options):
        super().__init__(**options)
        self.topics = topics or (TOPIC,)
        self.rebuild = {} if rebuild is None else {"rebuild": rebuild}
        self.did = []
        self.changes = []
        self.locked = set()

    async def __aenter__(self):
        await super().__aenter__()
        for topic in self.topics:
            self.group.subscribe(topic, "*")
        await self.group.announce()
        self.network.requests.clear()
        self.rebalancer = Rebalancer(
            self.group, lambda process, delay: self.did.append(("start", process.queue, delay)),
            lambda process: self.did.append(("stop", process.queue)), self, lambda *change: self.changes.append(change),
            **self.rebuild,
        )  # fmt: skip
        return self

    async def __aexit__(self, *_):
        await self.rebalancer.close()
        await super().__aexit__(*_)

    async def rebalance(self):
        """Rebalances; returns whether the member has its share, and what was done."""
        is_balanced = await self.rebalancer.rebalance()
        did, self.did = self.did, []
        return is_balanced, did

    async def take(self, queues):
        self.did.append(("take", list(queues)))
        return [self.group.make_queue(queue) for queue in queues if queue not in self.locked]

    async def release(self, processes):
        assert all(process.dropped for process in processes)
        if processes:
            self.did.append(("release", [process.queue for process in processes]))

    def assign(self, **assigned):
        """What a broker assigns: for each topic pairs of queue id and mode; None is no answer about it."""

        def answer(_, request):
            topic = json.loads(request.body)["topic"]
            rows = assigned.get(topic, [])
            queues = [
                {"messageQueue": {"topic": topic, "brokerName": "b", "queueId": number}, "mode": mode}
                for number, mode in rows or []
            ]
            return Command(0, body=json.dumps({} if rows is None else {"messageQueueAssignments": queues}).encode())

        self.special[ASSIGNMENT] = answer

    def start(self):
        """The time now; requests are compared with it."""
        self.clock = None
        return asyncio.get_running_loop().time()


def no_route(*_):
    return Command(ResponseCode.TOPIC_NOT_EXIST, remark="No topic route info")


# -- one round


async def test_the_only_member_takes_all_queues_at_once():
    async with Member() as member:
        assert await member.rebalance() == (True, [("take", [Q0, Q1]), ("start", Q0, 0.0), ("start", Q1, 0.0)])
        assert member.changes == [(TOPIC, [Q0, Q1], [Q0, Q1])]
        assert await member.rebalance() == (True, [])
        assert len(member.changes) == 1


async def test_queues_are_released_before_others_are_taken_which_start_after_a_pause():
    """The other owner of a queue needs the time to store its offset."""
    async with Member(first_pull_delay=0.25) as member:
        member.members = ["0", "me"]
        assert await member.rebalance() == (True, [("take", [Q1]), ("start", Q1, 0.25)])
        member.members = ["me", "~"]
        did = [("stop", Q1), ("release", [Q1]), ("take", [Q0]), ("start", Q0, 0.25)]
        assert await member.rebalance() == (True, did)
        assert member.changes == [(TOPIC, [Q0, Q1], [Q1]), (TOPIC, [Q0, Q1], [Q0])]
        assert set(member.group.queues) == {Q0}


async def test_queues_of_an_orderly_consumer_start_at_once():
    """Whoever had the lock has stored its offset."""
    async with Member(orderly=True) as member:
        member.members = ["0", "me"]
        assert await member.rebalance() == (True, [("take", [Q1]), ("start", Q1, 0.0)])


async def test_a_queue_that_is_not_taken_is_tried_in_the_next_round():
    async with Member() as member:
        member.locked = {Q0}
        assert await member.rebalance() == (False, [("take", [Q0, Q1]), ("start", Q1, 0.0)])
        assert await member.rebalance() == (False, [("take", [Q0])])
        assert len(member.changes) == 1, "nothing changed in the second round"
        member.locked = set()
        assert await member.rebalance() == (True, [("take", [Q0]), ("start", Q0, 0.0)])


async def test_an_offset_in_memory_does_not_count_for_a_queue_that_is_taken():
    async with Member() as member:
        member.group.offsets.update(Q0, 9)
        await member.rebalance()
        assert member.group.offsets.get(Q0) is None


async def test_a_new_subscription_version_is_announced_before_queues_start():
    """A broker refuses a pull with a version that no heartbeat has told it."""
    async with Member() as member:
        before = member.group.subscriptions[TOPIC].sub_version
        await member.rebalance()
        version = member.group.subscriptions[TOPIC].sub_version
        assert before < version == member.group.announced[TOPIC].sub_version
        assert member.network.codes() == [MEMBERS, HEARTBEAT]
        await member.rebalance()
        assert member.network.codes().count(HEARTBEAT) == 1


async def test_a_queue_that_was_dropped_before_its_start_is_not_started():
    async with Member() as member:

        def drop(*_):
            member.group.queues[Q0].dropped = True
            return Command(0)

        member.special[HEARTBEAT] = drop
        assert (await member.rebalance())[1] == [("take", [Q0, Q1]), ("start", Q1, 0.0)]


@pytest.mark.parametrize("rebuild", [None, True, False])
async def test_a_queue_without_a_pull_for_two_minutes_is_restarted_unless_told_otherwise(rebuild):
    async with Member(rebuild=rebuild) as member:
        await member.rebalance()
        member.clock += 121
        member.group.queues[Q1].pulled_at = member.clock
        did = [("stop", Q0), ("release", [Q0]), ("take", [Q0]), ("start", Q0, 0.0)]
        assert await member.rebalance() == (True, [] if rebuild is False else did)


async def test_a_broadcasting_member_owns_all_queues_and_asks_for_no_members(tmp_path):
    async with Member(message_model=MessageModel.BROADCASTING, local_offset_dir=tmp_path) as member:
        member.members = ["0", "me"]
        assert (await member.rebalance())[1] == [("take", [Q0, Q1]), ("start", Q0, 0.0), ("start", Q1, 0.0)]
        assert MEMBERS not in member.network.codes()


async def test_flow_control_limits_of_a_topic_are_shared_by_its_owned_queues():
    async with Member(pull_threshold_for_topic=300) as member:
        await member.rebalance()
        assert member.group.limits[TOPIC].count == 150


# -- members


async def test_a_member_that_brokers_do_not_know_sends_a_heartbeat_and_asks_again():
    async with Member() as member:

        def forget(*_):
            member.special.clear()
            return Command(0, body=b'{"consumerIdList":["0"]}')

        member.special[MEMBERS] = forget
        assert (await member.rebalance())[0]
        assert member.network.codes() == [MEMBERS, HEARTBEAT, MEMBERS, HEARTBEAT]
        assert set(member.group.queues) == {Q0, Q1}


@pytest.mark.parametrize(("ids", "owned"), [(["0"], set()), ([], {Q0, Q1})], ids=["of others", "of nobody"])
async def test_a_member_that_stays_unknown_gives_its_queues_to_the_known_members_only(ids, owned):
    async with Member() as member:
        await member.rebalance()
        member.members = ids
        assert not (await member.rebalance())[0]
        assert set(member.group.queues) == owned


async def test_a_broker_without_members_of_the_group_refuses_the_list(caplog):
    async with Member() as member:
        await member.rebalance()
        member.special[MEMBERS] = lambda *_: Command(1, remark="no consumer for this group")
        assert await member.rebalance() == (False, [])
        assert member.network.codes()[2:] == [MEMBERS, HEARTBEAT, MEMBERS]
        assert not member.group.problems


async def test_queues_stay_while_the_members_cannot_be_read(caplog):
    async with Member() as member:
        await member.rebalance()
        member.special[MEMBERS] = lambda *_: None
        for _ in range(2):
            assert await member.rebalance() == (False, [])
        [record] = caplog.records
        assert record.getMessage().startswith("the members of group g cannot be read now: b:1 did not answer")
        assert member.group.problems.keys() == {"members"}
        member.special.clear()
        assert await member.rebalance() == (True, [])
        assert caplog.records[-1].getMessage() == "the members of group g can be read again"
        assert not member.group.problems


async def test_a_broker_without_an_address_cannot_be_asked_for_members(caplog):
    async with Member() as member:
        member.instance.routes._routes[TOPIC].data.broker_datas[0].broker_addrs.clear()
        assert await member.rebalance() == (False, [])
        assert "broker b has no address in the route of topic T" in caplog.text


async def test_members_that_subscribe_to_something_else_are_a_problem():
    async with Member() as member:
        member.members = ["me", "~"]
        table = {TOPIC: SubscriptionData.parse(TOPIC, "a", 1)}
        member.special[203] = lambda *_: Command(0, body=ConsumerConnection(subscription_table=table).encode())
        await member.rebalance()
        assert "topic T: '*' here, 'a' there" in member.group.problems["subscriptions"]


# -- topics


async def test_a_topic_without_a_route_keeps_its_queues_and_holds_up_no_other(caplog):
    async with Member(TOPIC, OTHER) as member:
        assert (await member.rebalance())[0], "it is looked up at its own interval"
        assert set(member.group.queues) == {Q0, Q1}
        [record] = caplog.records
        assert record.getMessage().startswith("topic U is not consumed for now: no route for topic 'U'")
        assert member.group.problems.keys() == {("topic", OTHER)}
        await member.rebalance()
        assert len(caplog.records) == 1
        member.routes[OTHER] = {"b": 1}
        assert (await member.rebalance())[1] == [("take", [OTHERS]), ("start", OTHERS, 0.0)]
        assert caplog.records[-1].getMessage() == "topic U is consumed again"
        assert not member.group.problems


async def test_only_the_first_heartbeat_makes_the_retry_topic_so_its_absence_is_no_problem(caplog):
    async with Member(TOPIC, RETRY) as member:
        assert (await member.rebalance())[0]
        assert not caplog.records
        assert not member.group.problems
        member.special[ROUTE] = lambda *_: Command(ResponseCode.NO_PERMISSION, remark="no")
        await member.rebalance()
        assert member.group.problems.keys() == {("topic", RETRY)}, "any other reason is one"


async def test_queues_and_problems_of_a_topic_end_with_its_subscription():
    async with Member(TOPIC, OTHER, "gone") as member:
        member.routes[OTHER] = {"b": 1}
        await member.rebalance()
        assert member.group.problems
        for topic in (OTHER, "gone"):
            del member.group.subscriptions[topic]
        assert await member.rebalance() == (True, [("stop", OTHERS), ("release", [OTHERS])])
        assert (set(member.group.queues), member.group.problems) == ({Q0, Q1}, {})


async def test_a_round_that_fails_is_logged_and_the_next_one_takes_what_it_has_left(caplog):
    async with Member() as member:
        announce, member.group.announce = member.group.announce, None
        assert await member.rebalance() == (False, [("take", [Q0, Q1])])
        assert "rebalancing group g failed" in caplog.text
        member.group.announce = announce
        assert await member.rebalance() == (True, [("start", Q0, 0.0), ("start", Q1, 0.0)])


async def test_an_error_of_a_round_is_a_problem_until_one_succeeds(caplog):
    async with Member() as member:

        async def take(_):
            raise NoRouteError("on purpose")

        member.take, taken = take, member.take
        for _ in range(2):
            assert not (await member.rebalance())[0]
        [record] = caplog.records
        assert record.getMessage() == "group g cannot be rebalanced now: on purpose"
        assert member.group.problems.keys() == {"rebalance"}
        member.take = taken
        assert (await member.rebalance())[0]
        assert not member.group.problems


# -- when


@pytest.mark.parametrize(("is_balanced", "times"), [(True, [0.0, 20.0, 40.0]), (False, [0.0, 1.0, 2.0])])
async def test_it_rebalances_every_20_seconds_and_every_second_while_it_lacks_queues(is_balanced, times):
    async with Member() as member:
        member.locked = set() if is_balanced else {Q0}
        began = member.start()
        await member.rebalancer.start()
        await asyncio.sleep(times[-1] + 0.5)
        assert member.times(MEMBERS, began) == times


async def test_triggers_rebalance_at_once_but_a_second_after_the_last_time():
    async with Member() as member:
        began = member.start()
        await member.rebalancer.start()
        for wait in (0.3, 0.3, 4.4):
            await asyncio.sleep(wait)
            member.rebalancer.trigger()
        await asyncio.sleep(19.4)
        assert member.times(MEMBERS, began) == pytest.approx([0.0, 1.0, 5.0], abs=0.4)
        await asyncio.sleep(1.2)
        assert member.times(MEMBERS, began) == pytest.approx([0.0, 1.0, 5.0, 25.0], abs=0.4)


async def test_a_missing_topic_is_looked_up_after_pauses_that_double():
    async with Member(OTHER) as member:
        began = member.start()
        await member.rebalancer.start()
        await asyncio.sleep(62)
        assert member.times(ROUTE, began) == pytest.approx([0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 51.0], abs=0.4)


async def test_a_topic_that_is_missed_later_begins_with_a_short_pause():
    async with Member(OTHER) as member:
        began = member.start()
        await member.rebalancer.start()
        await asyncio.sleep(8)
        member.group.subscribe("V", "*")
        member.rebalancer.trigger()
        await asyncio.sleep(4)
        assert member.times(ROUTE, began)[4:] == pytest.approx([8.0, 8.0, 9.0, 9.0, 11.0, 11.0], abs=0.4)


async def test_it_does_not_rebalance_after_close():
    async with Member() as member:
        began = member.start()
        await member.rebalancer.start()
        await member.rebalancer.close()
        member.rebalancer.trigger()
        await asyncio.sleep(60)
        assert member.times(MEMBERS, began) == [0.0]
        assert set(member.group.queues) == {Q0, Q1}


# -- queues that others take, reset or delete


async def test_lost_queues_are_released_and_a_rebalance_follows():
    async with Member() as member:
        began = member.start()
        await member.rebalancer.start()
        member.did.clear()
        await member.rebalancer.lose([member.group.queues[Q1]])
        assert member.did == [("stop", Q1), ("release", [Q1])]
        await asyncio.sleep(1.5)
        assert member.times(MEMBERS, began) == [0.0, 1.0]
        assert member.did[2:] == [("take", [Q1]), ("start", Q1, 0.0)]


async def test_a_reset_queue_stores_its_new_offset_and_restarts():
    async with Member() as member:
        began = member.start()
        await member.rebalancer.start()
        process = member.group.queues[Q0]
        member.group.offsets.update(Q0, 9)
        member.did.clear()
        await member.rebalancer.reset(process, 4)
        member.group.offsets.update(Q0, 10)
        assert (member.stored, member.group.offsets.get(Q0)) == ({Q0: 4}, 4), "a running listener changes nothing"
        assert [request.is_oneway for request in member.asked(UPDATE)] == [False]
        assert member.did == [("stop", Q0), ("release", [Q0])]
        await asyncio.sleep(1.5)
        assert member.times(MEMBERS, began) == [0.0, 1.0]
        assert member.did[2:] == [("take", [Q0]), ("start", Q0, 0.0)]


async def test_a_reset_that_ends_after_a_rebalance_leaves_the_new_queue_alone():
    async with Member() as member:
        await member.rebalance()
        old = member.group.queues[Q0]
        new = member.group.queues[Q0] = member.group.make_queue(Q0)
        await member.rebalancer.reset(old, 4)
        assert (old.dropped, new.dropped, member.did) == (True, False, [])


async def test_the_queue_of_a_deleted_topic_is_released_without_its_offset(caplog):
    async with Member() as member:
        await member.rebalance()
        process = member.group.queues[Q0]
        member.group.offsets.update(Q0, 9)
        await member.rebalancer.forget(process)
        assert member.did == [("stop", Q0), ("release", [Q0])]
        assert (member.group.offsets.get(Q0), member.stored) == (None, {})
        assert "topic T was deleted at broker b" in caplog.text
        member.group.offsets.update(Q0, 3)
        member.did.clear()
        await member.rebalancer.forget(process)
        assert (member.did, member.group.offsets.get(Q0)) == ([], None), "it is released already"


# -- queues that a broker assigns


async def test_assigned_queues_are_pulled_or_popped_as_the_broker_says():
    async with Member(client_rebalance=False, first_pull_delay=0.25) as member:
        member.assign(T=[(0, "PULL"), (1, "POP")])
        did = [("take", [Q0]), ("start", Q0, 0.25), ("start", Q1, 0.0)]
        assert await member.rebalance() == (True, did)
        assert [process.has_invisible_time for process in member.group.queues.values()] == [False, True]
        assert member.changes == [(TOPIC, [Q0, Q1], [Q0, Q1])]
        assert await member.rebalance() == (True, [])
        member.assign(T=[(0, "POP"), (1, "PULL")])
        did = [("stop", Q0), ("stop", Q1), ("release", [Q0]), ("take", [Q1]), ("start", Q1, 0.25), ("start", Q0, 0.0)]
        assert await member.rebalance() == (True, did)
        assert member.group.queues[Q0].has_invisible_time
        assert len(member.changes) == 2
        assert MEMBERS not in member.network.codes()


async def test_whether_a_topic_is_pulled_or_popped_is_logged_when_it_changes(caplog):
    async with Member(client_rebalance=False) as member:
        with caplog.at_level(logging.INFO):
            for queues in ([], [(0, "POP")], [(0, "POP")], [], [(0, "PULL")], [(0, "POP")]):
                member.assign(T=queues)
                await member.rebalance()
    said = [text for text in caplog.messages if text.endswith("from now on")]
    verbs = ["owns no queue of", "pops", "pulls", "pops"]
    assert said == [f"group g {verb} topic T from now on" for verb in verbs]


async def test_queues_stay_while_no_broker_assigns_any():
    async with Member(client_rebalance=False) as member:
        member.assign(T=[(0, "POP")])
        await member.rebalance()
        member.assign(T=None)
        assert await member.rebalance() == (False, [])
        member.instance.routes._routes.clear()
        member.special[ROUTE] = no_route
        assert await member.rebalance() == (True, [])
        assert set(member.group.queues) == {Q0}


async def test_a_topic_that_is_pulled_after_it_was_popped_has_a_retry_topic_until_it_is_popped_again():
    async with Member(client_rebalance=False) as member:
        retry = "%RETRY%g_T"
        member.assign(T=[(0, "PULL")])
        assert await member.rebalance() == (True, [("take", [Q0]), ("start", Q0, 0.5)])
        assert set(member.group.subscriptions) == {TOPIC, retry}
        assert member.rebalancer._triggered.is_set()
        await member.rebalance()
        assert not member.rebalancer._triggered.is_set()
        member.assign(T=[(0, "POP")])
        await member.rebalance()
        assert set(member.group.subscriptions) == {TOPIC}
        member.assign(T=[(0, "PULL")])
        await member.rebalance()
        del member.group.subscriptions[TOPIC]
        await member.rebalance()
        assert (member.group.subscriptions, member.group.queues) == ({}, {})
