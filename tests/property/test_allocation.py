"""For any group, the shares of its members are disjoint, complete, balanced and stable."""

from hypothesis import given, strategies as st

from rocketmq_py.core.consumer.allocation import Average, Circle, ConsistentHash, MachineRoom, Nearby
from rocketmq_py.model import MessageQueue

QUEUES = st.builds(
    lambda sizes: sorted(MessageQueue("T", f"r{b % 3}@b{b}", i) for b, size in enumerate(sizes) for i in range(size)),
    st.lists(st.integers(0, 9), max_size=5),
)
CLIENTS = st.sets(st.text("abc0123456789@#", min_size=1, max_size=12), min_size=1, max_size=12).map(sorted)
RULES = [
    Average(), Circle(), ConsistentHash(), MachineRoom(frozenset({"r0", "r1", "r2"})),
    Nearby(Average(), lambda queue: queue.broker_name[:2], lambda client: f"r{len(client) % 4}"),
]  # fmt: skip


@given(st.sampled_from(RULES), QUEUES, CLIENTS)
def test_shares_are_disjoint_and_complete(rule, queues, clients):
    shares = [rule.allocate(client, queues, clients) for client in clients]
    assert sorted(queue for share in shares for queue in share) == queues


@given(st.sampled_from([Average(), Circle(), MachineRoom(frozenset({"r0", "r1", "r2"}))]), QUEUES, CLIENTS)
def test_shares_differ_by_at_most_one(rule, queues, clients):
    sizes = [len(rule.allocate(client, queues, clients)) for client in clients]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


@given(st.sampled_from(RULES), QUEUES, CLIENTS)
def test_the_same_lists_give_the_same_share(rule, queues, clients):
    assert rule.allocate(clients[0], queues, clients) == rule.allocate(clients[0], tuple(queues), tuple(clients))


@given(QUEUES, CLIENTS)
def test_consistent_hash_moves_queues_only_from_the_client_that_left(queues, clients):
    rule, gone = ConsistentHash(), clients[-1]
    if len(clients) == 1:
        return
    for client in clients[:-1]:
        kept = set(rule.allocate(client, queues, clients))
        gained = set(rule.allocate(client, queues, clients[:-1])) - kept
        assert kept <= set(rule.allocate(client, queues, clients[:-1]))
        assert gained <= set(rule.allocate(gone, queues, clients))
